"""Pictures of labelled results.  The one part of the package that imports matplotlib.

Each function takes a Dataset, as `evogt run` writes it, the name of a variable and `Places`, which say what of the
study's axes stands where, and returns a matplotlib Figure that `evogt_study.plots.style` can encode:

    figure = distribution(ds, "error", Places(along="epsilon", by="dictionary"))
    figure.savefig("errors.pdf")

- `parts`: common parts: canvas, style, legends, arranged runs
- `distribution`: a number over the seeds
- `dependence`: a number against a parameter
- `heat_map`: a number over two axes
- `histories`: what changes along a dimension
- `scatter`: one number against another
- `samples`: a number against sampled parameters
- `verdict`: which label is best
- `spectrum`: singular values
- `fields`: exact and numerical fields
- `kinds`: which pictures fit a result
"""

from evogt_study.plots.canvas import Look
from evogt_study.plots.comparison import verdict
from evogt_study.plots.dependence import dependence, rank_error, scatter, trend
from evogt_study.plots.distribution import distribution
from evogt_study.plots.fields import field_curves, field_panels, fields
from evogt_study.plots.groups import Places
from evogt_study.plots.heat_map import heat_map
from evogt_study.plots.histories import energy_histories, histories, spectrum
from evogt_study.plots.style import STYLES, encoded, pdf, png, svg

__all__ = [
    "STYLES", "Look", "Places", "dependence", "distribution", "encoded", "energy_histories", "field_curves",
    "field_panels", "fields", "heat_map", "histories", "pdf", "png", "rank_error", "scatter", "spectrum", "svg",
    "trend", "verdict",
]  # fmt: skip
