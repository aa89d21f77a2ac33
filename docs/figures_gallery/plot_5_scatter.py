"""
One variable against another
============================

The kind ``scatter`` draws every run as a point.  Here a larger retained rank gives a smaller error.  From a shell:
``evogt plot data/results/oscillatory_1d.nc scatter --x rank``.
"""

import evogt_study as evs

with evs.open("../../data/results/oscillatory_1d.nc") as ds:
    figure = ds.evogt.plot("scatter", "error", x="rank")
