"""
Work-precision diagram
======================

The median error of each setup against its median time for a run.  The grey line is the Pareto front: no other setup has
a smaller error in less time.
"""

import matplotlib.pyplot as plt
import numpy as np

import evogt_study as evs

with evs.open("../../data/results/feature_count.nc") as ds:
    median = ds[["run_seconds", "error"]].median("seed").load()
setups = median.stack(setup=("N", "dictionary")).sortby("run_seconds")
pareto = setups.where(setups.error == np.fmin.accumulate(setups.error.values), drop=True)
figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
axes.step(pareto.run_seconds, pareto.error, where="post", color="lightgrey", linewidth=4)
for name in median.dictionary.values:
    axes.plot("run_seconds", "error", "o", data=median.sel(dictionary=name), label=name)
axes.set(xlabel="time for a run (s)", ylabel="relative error", xscale="log", yscale="log", xlim=(1e-3, 2e-2))
axes.xaxis.set_minor_formatter("")
axes.legend()
