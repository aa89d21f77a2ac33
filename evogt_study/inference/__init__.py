"""Statistics on arrays.  They use NumPy and SciPy only.

- `kernels`: mean, standard deviation, median, quantiles and others over the last axis
- `means`: means and ratios of means, with their errors; bootstrap resamples of sampling units
- `order_statistics`: medians and quantiles, with their errors; weight and index of the tail
- `intervals`: `Interval`: confidence intervals and standard errors
- `comparisons`: paired and unpaired tests; all pairs of axis values at once
- `sequential`: number of seeds that a target precision needs
- `sensitivity`: Sobol indices of Saltelli's blocks, elementary effects, failures, variance components
- `polynomial_chaos`: Sobol indices of any sample
"""
