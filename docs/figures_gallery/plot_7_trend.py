"""
Every parameter of a sample
===========================

The kind ``trend`` draws every run of a sample against each parameter, with a smooth line.
"""

import evogt_study as evs

sample = evs.sample(
    "point", "sobol", 64,
    k={"from": 1, "to": 3}, points={"integers": {"from": 10, "to": 200}}, shift={"from": 0.6, "to": 1},
)  # fmt: skip
integrate = "../../studies/examples/designs/integrate.py:integrate"
ds = evs.run(evs.Study(integrate, designs=sample, constants={"rule": "midpoint"}))
figure = ds.evogt.plot("trend", "error")
