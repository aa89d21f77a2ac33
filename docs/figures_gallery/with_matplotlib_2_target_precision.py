"""
Number of seeds for a target precision
======================================

Half the width of the confidence interval in parts of the mean.  The dotted line is a target of 50 %: gtransnet needs 11
seeds.
"""

import matplotlib.pyplot as plt
import xarray as xr

import evogt_study as evs

with evs.open("../../data/results/oscillatory_1d.nc") as ds:
    error = ds.error.sel(epsilon=0.1, dictionary=["transnet", "gtransnet"]).load()
growing = [evs.summary(error.isel(seed=slice(n))).assign_coords(n=n) for n in range(6, error.seed.size + 1)]
growing = xr.concat(growing, "n")
low, high = growing.ci.transpose("bound", ...)
precision = (high - low) / 2 / growing["mean"]
figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
precision.plot.line(x="n", hue="dictionary", marker="o", ax=axes)
axes.axhline(0.5, color="grey", linestyle=":")
axes.legend(precision.dictionary.values, loc="upper center")
axes.set(xlabel="number of seeds", ylabel="half width of the interval / mean", ylim=(0, None), title="")
