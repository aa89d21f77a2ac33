"""The decay of the singular values of the trial matrix, and where the thresholds cut it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from evogt_study.analysis.plots.histories import WANTED, band_levels, band_told, bundle, own_dimensions
from evogt_study.analysis.plots.parts.arranged import Places, arranged, at, axes_of
from evogt_study.analysis.plots.parts.canvas import Given, laid_out, note, panels
from evogt_study.analysis.plots.parts.legends import line_legend
from evogt_study.analysis.plots.parts.style import QUIET, label_size, plain, style
from evogt_study.errors import InputError

SINGULAR_VALUES = "singular_values"
MOST_CUTS = 4


def spectrum(data: xr.Dataset, places: Places | None = None, *, ax: Given = None) -> Figure:
    """sigma_i / sigma_1 against i, with a line at sqrt(tau) for each threshold of the study: what is below is cut.

    An axis tau has no curves of its own: of its runs, whose singular values are the same, the first with a value is
    drawn, and one named in `at` has the only cut.  Zeros, which fewer nodes than features leave, are not drawn.  Raises
    InputError where the singular values were not recorded, and for axes that are none.
    """
    if SINGULAR_VALUES not in data:
        raise InputError(
            f"`{SINGULAR_VALUES}` must be in the file to draw their decay; put it into `record` of the study's [output]"
        )
    here, wish, cuts = _decompositions(data, places or Places())
    runs = arranged(here, SINGULAR_VALUES, wish, wanted=WANTED, own=True)
    with np.errstate(invalid="ignore"):
        relative = runs.values / runs.values[..., :1]
    relative[~(relative > 0.0)] = np.nan
    index = np.arange(1, relative.shape[-1] + 1, dtype=float)
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    lines = []
    for number, axes in enumerate(drawn):
        for one in range(len(runs.series.labels)):
            bundle(axes, index, relative[number, one, 0], style(one), band_levels(runs))
        lines = [
            axes.axhline(np.sqrt(tau), color=QUIET, linewidth=0.9, linestyle=(0, (1, 1 + 2 * i)), gid="cut",
                         label=rf"$\sqrt{{\tau}}$, $\tau$ = {tau:g}".replace("e-", "e−"))
            for i, tau in enumerate(cuts)
        ]  # fmt: skip
        axes.set_title(plain(runs.panels.told(number)), fontsize=label_size())
        axes.set_xlabel("index $i$", fontsize=label_size())
        axes.margins(x=0.01)
    if np.isfinite(relative).any():
        drawn[0].set_yscale("log")
    drawn[0].set_ylabel(r"singular value $\sigma_i / \sigma_1$", fontsize=label_size())
    cut_lines: list[Line2D] = lines
    line_legend(canvas, runs, *cut_lines)
    note(canvas, runs.footnote(band_told(runs)))
    return laid_out(canvas)


def _decompositions(data: xr.Dataset, places: Places) -> tuple[xr.Dataset, Places, list[float]]:
    """The data and places without the axis tau, and the thresholds that are to be drawn."""
    if "tau" not in data[SINGULAR_VALUES].dims:
        return data, places, _cuts(data)
    for option, named in (("by", [places.by]), ("panel", [places.panel]), ("over", places.over or ())):
        if "tau" in named:
            raise InputError(f"`--{option}` must not be tau, which cuts singular values and does not change them")
    if "tau" in places.at:
        data = at(data, {"tau": places.at["tau"]}, axes_of(data, SINGULAR_VALUES))
        others = {name: value for name, value in places.at.items() if name != "tau"}
        return data, replace(places, at=others), _cuts(data)
    known = data[SINGULAR_VALUES].notnull().any(own_dimensions(data, SINGULAR_VALUES))
    names = [name for name in (SINGULAR_VALUES, "status", "case_key") if name in data]
    return data[names].isel(tau=known.argmax("tau")).drop_vars("tau"), places, _cuts(data)


def _cuts(data: xr.Dataset) -> list[float]:
    """The thresholds of the study, at most four of them, the extremes among these."""
    if "tau" not in data.coords or data["tau"].dtype.kind != "f":
        return []
    values = np.unique(data["tau"].values[np.isfinite(data["tau"].values)])
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_CUTS)).round().astype(int))
    return [float(values[i]) for i in chosen]
