"""
Error budget
============

The share of each cause in the squared error, as the page on guarantees defines them.  The number of features limits the
error with 10 features, and the time step with 120.
"""

import matplotlib.pyplot as plt
import numpy as np

from evogt_study import pde

parts = ["error_full_space", "error_retained", "error_evolution", "error_time"]
problem, counts = pde.problems.oscillatory_1d(epsilon=0.2), [10, 20, 40, 80, 120]
dictionaries = [pde.Dictionary("transnet", N=N, gamma=8) for N in counts]
runs = [pde.solve(problem, each, 0, tau=1e-14, quadrature=320, dt=0.05, certificates=parts) for each in dictionaries]
squares = np.array([[float(run[name]) ** 2 for name in parts] for run in runs]).T
squares[1] -= squares[0]  # error_retained includes the full space
shares = squares / squares.sum(axis=0)
figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
for share, below, cause in zip(
    shares, shares.cumsum(axis=0) - shares, ["features", "truncation", "evolution", "time step"], strict=True
):
    axes.bar([str(count) for count in counts], share, bottom=below, label=cause)
axes.set(xlabel="number of features N", ylabel="share of the squared error")
figure.legend(loc="outside right upper")
