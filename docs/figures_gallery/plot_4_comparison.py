"""
Comparison of methods
=====================

The kind ``comparison`` draws the effect of each value over the leader of its setup, with confidence intervals.  It
shows the numbers of ``ds.evogt.compare("dictionary")``.
"""

import evogt_study as evs

with evs.open("../../data/results/oscillatory_1d.nc") as ds:
    print(ds.evogt.compare("dictionary").conclusion.sel(epsilon=0.1).item())
    figure = ds.evogt.plot("comparison", "error", x="dictionary")
