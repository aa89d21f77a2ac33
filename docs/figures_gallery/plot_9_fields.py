"""
Solution, exact solution and error
==================================

The kind ``fields`` draws one run on a grid.  From a shell: ``evogt plot data/results/nonseparable_2d_field.nc fields``.
"""

import evogt_study as evs

with evs.open("../../data/results/nonseparable_2d_field.nc") as ds:
    figure = ds.evogt.plot("fields")
