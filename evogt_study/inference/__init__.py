"""Compute statistics on arrays with NumPy and SciPy only.

- `kernels` computes statistics, quantiles and tail indices over the last axis.
- `means` estimates means and ratios of means, and resamples sampling units.
- `intervals` computes confidence intervals and standard errors.
- `comparisons` tests pairs of samples, and inverts the tests to intervals.
- `sequential` chooses the number of seeds for a target precision.
- `sensitivity` splits a variance on grids and samples, such as Saltelli's blocks and Morris' trajectories.
- `polynomial_chaos` fits polynomials to any sample and computes Shapley effects.
"""
