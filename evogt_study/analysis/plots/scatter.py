"""One number of a run against another: rank against error."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.parts.arranged import Places, arranged
from evogt_study.analysis.plots.parts.canvas import Given, laid_out, note, panels
from evogt_study.analysis.plots.parts.labels import labelled
from evogt_study.analysis.plots.parts.legends import marker_legend
from evogt_study.analysis.plots.parts.style import label_size, logarithmic, plain, style

MOST = 2000  # points of one series and panel
WANTED = ("by", "panel")


def rank_error(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Each run's error against the rank of its retained space.  Raises InputError for an axis that is none."""
    return scatter(data, "rank", variable, places, ax=ax)


def scatter(
    data: xr.Dataset, across: str, variable: str = "error", places: Places | None = None, *, ax: Given = None
) -> Figure:
    """A point for each run, `across` horizontally and `variable` vertically; logarithmic where positive and spread.

    Of more than 2,000 points in one series that many are drawn, evenly chosen in the order of `variable`.  Axes that
    tell neither series nor panels apart are all in one cloud.  Raises InputError for axes or variables that are none.
    """
    wish = places or Places()
    wanted = WANTED if wish.panel is not None else ("by",)
    runs, other = (arranged(data, name, wish, wanted=wanted, pooled=True) for name in (variable, across))
    both = np.isfinite(runs.values) & np.isfinite(other.values) & runs.planned
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    left_out = 0
    for number, axes in enumerate(drawn):
        for one in range(len(runs.series.labels)):
            there = both[number, one, 0]
            x, y = other.values[number, one, 0][there], runs.values[number, one, 0][there]
            chosen = np.argsort(y, kind="stable")[np.linspace(0, len(y) - 1, min(len(y), MOST)).round().astype(int)]
            left_out += len(y) - len(chosen)
            mark = style(one)
            axes.plot(
                x[chosen], y[chosen], color=mark.colour, marker=mark.marker, linestyle="none", markersize=3.0,
                alpha=0.6, markeredgewidth=0.0, gid="runs",
            )  # fmt: skip
        logarithmic(axes, "x", other.values[both])
        axes.set_title(plain(runs.panels.told(number)), fontsize=label_size())
        axes.set_xlabel(labelled(other.label, 48), fontsize=label_size())
    logarithmic(drawn[0], "y", runs.values[both])
    drawn[0].set_ylabel(labelled(runs.label, 32), fontsize=label_size())
    marker_legend(canvas, runs)
    note(canvas, runs.footnote(f"{left_out:,} of them left out, evenly" if left_out else ""))
    return laid_out(canvas)
