"""Statistics on arrays.  They use NumPy and SciPy only.

- `kernels`: mean, standard deviation, median, quantiles and others over the last axis; order statistics; tails
- `means`: means and ratios of means, with their errors; bootstrap resamples of sampling units
- `intervals`: `Interval`: confidence intervals and standard errors
- `comparisons`: tests of pairs of samples, and intervals that invert them
- `sequential`: number of seeds that a target precision needs
- `sensitivity`: components of variance on grids and samples; Saltelli's blocks, Morris' trajectories
- `polynomial_chaos`: polynomials fitted to any sample; Shapley effects
"""
