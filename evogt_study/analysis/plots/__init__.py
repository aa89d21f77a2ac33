"""Pictures of labelled results.  The one part of the package that imports matplotlib.

Each function takes a Dataset, as `evogt run` writes it, the name of a variable and `Places`, which say what of the
study's axes stands where, and returns a matplotlib Figure that `evogt_study.analysis.plots.parts.style` can encode:

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

from evogt_study.analysis.plots.dependence import dependence
from evogt_study.analysis.plots.distribution import distribution
from evogt_study.analysis.plots.fields import field_curves, field_panels, fields
from evogt_study.analysis.plots.heat_map import heat_map
from evogt_study.analysis.plots.histories import energy_histories, histories
from evogt_study.analysis.plots.parts.arranged import Places
from evogt_study.analysis.plots.parts.canvas import Look
from evogt_study.analysis.plots.parts.style import STYLES, encoded, pdf, png, svg
from evogt_study.analysis.plots.samples.trend import trend
from evogt_study.analysis.plots.scatter import rank_error, scatter
from evogt_study.analysis.plots.spectrum import spectrum
from evogt_study.analysis.plots.verdict import verdict

__all__ = [
    "STYLES", "Look", "Places", "dependence", "distribution", "encoded", "energy_histories", "field_curves",
    "field_panels", "fields", "heat_map", "histories", "pdf", "png", "rank_error", "scatter", "spectrum", "svg",
    "trend", "verdict",
]  # fmt: skip
