"""
Sensitivity indices
===================

The share of each sampled parameter in the variance of the logarithm of the error, with 95 % confidence intervals.  The
variable is the error of the midpoint rule for the integral of sin(k x) over (0, 1).
"""

import matplotlib.pyplot as plt
import numpy as np

import evogt_study as evs

sample = evs.sample(
    "point", "sobol", 64,
    k={"from": 1, "to": 3}, points={"integers": {"from": 10, "to": 200}}, shift={"from": 0.6, "to": 1},
)  # fmt: skip
integrate = "../../studies/examples/designs/integrate.py:integrate"
ds = evs.run(evs.Study(integrate, designs=sample, constants={"rule": "midpoint"}))
indices = evs.sensitivity(np.log(ds.error).rename("log_error"))
rows = np.arange(indices.parameter.size)
figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
for name, shift in (("total", 0.15), ("first_order", -0.15)):
    axes.barh(rows + shift, indices[name], height=0.3, label=name.replace("_", " "))
    axes.hlines(rows + shift, *indices[f"{name}_ci"].transpose("bound", ...), color="black")
axes.set_yticks(rows, labels=indices.parameter.values)
axes.set(xlabel="share of the variance")
axes.legend()
