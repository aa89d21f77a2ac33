"""The decay of the singular values of the trial matrix, and where the thresholds cut it."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from evogt_study.analysis.plots.arranged import Places, arranged
from evogt_study.analysis.plots.histories import WANTED, band_told, bundle
from evogt_study.analysis.plots.legends import line_legend
from evogt_study.analysis.plots.style import (
    LABEL_SIZE,
    QUIET,
    laid_out,
    note,
    panels,
    plain,
    style,
)
from evogt_study.errors import InputError

SINGULAR_VALUES = "singular_values"
MOST_CUTS = 4


def spectrum(data: xr.Dataset, places: Places | None = None) -> Figure:
    """sigma_i / sigma_1 against i, with a line at sqrt(tau) for each threshold of the study: what is below is cut.

    Zeros, which fewer nodes than features leave, are not drawn.  Raises InputError where the singular values were not
    recorded, and for axes that are none.
    """
    if SINGULAR_VALUES not in data:
        raise InputError(
            f"`{SINGULAR_VALUES}` must be in the file to draw their decay; put it into `record` of the study's [output]"
        )
    here = data.isel(tau=0) if "tau" in data[SINGULAR_VALUES].dims else data  # the cut does not change them
    runs = arranged(here, SINGULAR_VALUES, places or Places(), wanted=WANTED, own=True)
    with np.errstate(invalid="ignore"):
        relative = runs.values / runs.values[..., :1]
    relative[~(relative > 0.0)] = np.nan
    index = np.arange(1, relative.shape[-1] + 1, dtype=float)
    figure, drawn = panels(len(runs.panels.labels))
    cuts = _cuts(data)
    lines = []
    for number, axes in enumerate(drawn):
        for one in range(len(runs.series.labels)):
            bundle(axes, index, relative[number, one, 0], style(one))
        lines = [
            axes.axhline(np.sqrt(tau), color=QUIET, linewidth=0.9, linestyle=(0, (1, 1 + 2 * i)), gid="cut",
                         label=f"√τ, τ = {tau:g}".replace("e-", "e−"))
            for i, tau in enumerate(cuts)
        ]  # fmt: skip
        axes.set_title(plain(runs.panels.told(number)), fontsize=LABEL_SIZE)
        axes.set_xlabel("index i", fontsize=LABEL_SIZE)
        axes.margins(x=0.01)
    if np.isfinite(relative).any():
        drawn[0].set_yscale("log")
    drawn[0].set_ylabel("singular value σᵢ / σ₁", fontsize=LABEL_SIZE)
    cut_lines: list[Line2D] = lines
    line_legend(figure, runs, *cut_lines)
    note(figure, runs.footnote(band_told(runs)))
    return laid_out(figure)


def _cuts(data: xr.Dataset) -> list[float]:
    """The thresholds of the study, at most four of them, the extremes among these."""
    if "tau" not in data.coords or data["tau"].dtype.kind != "f":
        return []
    values = np.unique(data["tau"].values[np.isfinite(data["tau"].values)])
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_CUTS)).round().astype(int))
    return [float(values[i]) for i in chosen]
