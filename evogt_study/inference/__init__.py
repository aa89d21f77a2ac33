"""Statistics on arrays, NumPy and SciPy only: numbers of samples, and how well these are known.

- `kernels`: statistics over the last axis of arrays
- `resampling`: bootstrap resamples of units
- `means`: means and ratios of means as ratios of sums over units
- `order_statistics`: medians and quantiles
- `intervals`: confidence intervals, by the method that suits the statistic
- `standard_errors`: Monte Carlo standard errors
- `simultaneous`: all pairs of labels at once
- `variance_shares`: a nested analysis of variance
- `sequential`: seeds until a number is known
- `pair_tests`: two samples, paired and unpaired
- `tails`: whether a mean is known
- `sensitivity`: Sobol indices and elementary effects of samples
"""
