"""
Values along time
=================

The kind ``time_series`` draws the median over the seeds and a band of the runs.  From a shell:
``evogt plot data/results/allen_cahn_2d.nc time_series``.
"""

import evogt_study as evs

with evs.open("../../data/results/allen_cahn_2d.nc") as ds:
    figure = ds.evogt.plot("time_series", "free_energy_history")
