"""Compute statistics on arrays with NumPy and SciPy only.

- `kernels` computes statistics and quantiles over the last axis, and ratios of means, and resamples sampling units.
- `intervals` computes confidence intervals and standard errors, and the number of seeds for a target precision.
- `comparisons` tests pairs of samples, and inverts the tests to intervals.
- `sensitivity` splits a variance on grids and samples, such as Saltelli's blocks and Morris' trajectories.
- `polynomial_chaos` fits polynomials to any sample and computes Shapley effects.
"""
