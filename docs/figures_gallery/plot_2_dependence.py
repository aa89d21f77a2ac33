"""
Error against a parameter
=========================

The kind ``dependence`` joins the medians of the runs along an axis.  Reference lines need logarithmic scales.  From a
shell: ``evogt plot data/results/feature_count.nc dependence --slope=-2,-4``.
"""

import evogt_study as evs

with evs.open("../../data/results/feature_count.nc") as ds:
    figure = ds.evogt.plot("dependence", "error", x="N", hue="dictionary", slope=(-2, -4))
