"""
Running mean
============

The mean of the first n seeds and its 95 % confidence interval.  The interval of gtransnet shrinks.  The interval of
transnet does not, because a few seeds carry the mean.
"""

import matplotlib.pyplot as plt
import xarray as xr

import evogt_study as evs

with evs.open("../../data/results/oscillatory_1d.nc") as ds:
    error = ds.error.sel(epsilon=0.1, dictionary=["transnet", "gtransnet"]).load()
growing = [evs.summary(error.isel(seed=slice(n))).assign_coords(n=n) for n in range(6, error.seed.size + 1)]
growing = xr.concat(growing, "n")
figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
for name, one in growing.groupby("dictionary"):
    axes.plot(one.n, one["mean"].squeeze(), label=name)
    axes.fill_between(one.n, *one.ci.squeeze().transpose("bound", "n"), alpha=0.2)
axes.set(xlabel="number of seeds", ylabel="mean of the relative error", yscale="log")
axes.legend()
