"""Figures of labelled results.  Only this folder imports matplotlib.

A plot function takes a Dataset, the name of a variable and `Places`, which assigns the axes of the study to the axes,
series and panels of the figure.  It returns a matplotlib Figure:

    figure = distribution(ds, "error", Places(along="epsilon", by="dictionary"))
    figure.savefig("errors.pdf")

- `style`: sizes, colours, text from files, file formats
- `canvas`: a figure with panels, labels, legends and notes, or axes of the user
- `groups`: runs grouped into panels, series and samples
- `distribution`: a variable over the seeds
- `dependence`: a variable against an axis, a sampled parameter or another variable
- `heat_map`: a variable over two axes
- `histories`: a variable along a dimension of its own, such as time; spectra
- `fields`: fields on a grid, beside exact fields
- `comparison`: comparison of the values of one axis
- `catalogue`: plot kinds by name; which kinds fit a result; captions
"""

from evogt_study.plots.canvas import Look
from evogt_study.plots.comparison import comparison
from evogt_study.plots.dependence import dependence, rank_error, scatter, trend
from evogt_study.plots.distribution import distribution
from evogt_study.plots.fields import field_curves, field_panels, fields
from evogt_study.plots.groups import Places
from evogt_study.plots.heat_map import heat_map
from evogt_study.plots.histories import energy_histories, histories, spectrum
from evogt_study.plots.style import STYLES, encoded, pdf, png, svg

__all__ = [
    "STYLES", "Look", "Places", "comparison", "dependence", "distribution", "encoded", "energy_histories",
    "field_curves", "field_panels", "fields", "heat_map", "histories", "pdf", "png", "rank_error", "scatter",
    "spectrum", "svg", "trend",
]  # fmt: skip
