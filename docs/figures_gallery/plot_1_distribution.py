"""
Errors of all seeds
===================

The kind ``distribution`` draws every run as a point, and the median of each setup with its 95 % confidence interval.
The same figure from a shell: ``evogt plot data/results/oscillatory_1d.nc distribution``.
"""

import evogt_study as evs

with evs.open("../../data/results/oscillatory_1d.nc") as ds:
    figure = ds.evogt.plot("distribution", "error")
