"""
Medians over two axes
=====================

The kind ``heat_map`` writes the median of each setup into its cell.  Hatched cells have no finished run.  From a shell:
``evogt plot data/results/target_1d.nc heat_map --x epsilon``.
"""

import evogt_study as evs

with evs.open("../../data/results/target_1d.nc") as ds:
    figure = ds.evogt.plot("heat_map", "error", x="epsilon")
