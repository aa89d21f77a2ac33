"""A number against sampled parameters: every run a point, and a smooth trend in place of a line from point to point."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.parts.arranged import MAX_PANELS, Places
from evogt_study.analysis.plots.parts.canvas import Given, grid, laid_out, new_canvas, note
from evogt_study.analysis.plots.parts.labels import labelled, titled
from evogt_study.analysis.plots.parts.points import sampled_runs
from evogt_study.analysis.plots.parts.style import COLUMN_WIDTH, TEXT_WIDTH, label_size, logarithmic, style, tick_size
from evogt_study.inference.kernels import Array

SPAN = 0.4
"""Share of the points that a value of the trend rests on: Cleveland's f is between 0.2 and 0.8; of 50 points, 20."""
PLACES = 60


def trend(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """A panel for each sampled parameter, or that of `along` alone, with every run and a locally linear fit.

    Scales are logarithmic where numbers are positive and spread; the fit is on these scales.  Raises InputError where
    there is no sample, or other axes than its own.
    """
    runs = sampled_runs(data, variable, places or Places())
    chosen = (
        [runs.names.index(places.along)]
        if places is not None and places.along in runs.names
        else range(len(runs.names))
    )
    chosen = chosen[:MAX_PANELS]
    rows, columns = grid(len(chosen), ax)
    size = (COLUMN_WIDTH if len(chosen) == 1 else TEXT_WIDTH, 2.3 if len(chosen) == 1 else 0.3 + 1.8 * rows)
    canvas = new_canvas(rows, columns, size, ax, sharey=True)
    for spare in canvas.axes[len(chosen) :]:
        spare.remove()
    drawn = canvas.axes[: len(chosen)]
    logarithmic(drawn[0], "y", runs.values)
    mark = style(2)
    for axes, place in zip(drawn, chosen, strict=True):
        x = runs.spread(place)
        y = runs.values.ravel()
        there = np.isfinite(y)
        axes.plot(
            x[there], y[there], color=mark.colour, marker="o", linestyle="none", markersize=2.4, alpha=0.45,
            markeredgewidth=0.0, gid="runs",
        )  # fmt: skip
        runs.scale(axes, place, narrow=len(chosen) > 1)
        if not runs.words[place]:  # words have no distances to weigh by
            logs = axes.get_xscale() == "log", axes.get_yscale() == "log"
            axes.plot(*smooth(x[there], y[there], *logs), color="black", linewidth=1.4, gid="trend")
        across = titled(runs.titles[place], runs.names[place], canvas.characters(48 if len(chosen) == 1 else 26))
        axes.set_xlabel(across, fontsize=label_size())
        axes.tick_params(labelsize=tick_size(), which="both")
        axes.grid(color="0.9", linewidth=0.5)
        axes.set_axisbelow(True)
    for axes in drawn[::columns]:
        axes.set_ylabel(labelled(runs.label, 32 if len(chosen) == 1 else 24), fontsize=label_size())
    left = f"{len(chosen)} of {len(runs.names)} parameters" if 1 < len(chosen) < len(runs.names) else ""
    note(canvas, runs.footnote("line: local linear fit", left))
    return laid_out(canvas)


def smooth(x: Array, y: Array, log_x: bool = False, log_y: bool = False) -> tuple[Array, Array]:
    """Locally linear fit of y at `PLACES` values of x, weights (1 - (d / h)^3)^3 of the nearest `SPAN` of the points.

    (Cleveland, J. Am. Stat. Assoc. 74, 1979, without robustness), on logarithms where asked for; empty below four
    different x.
    """
    known = np.isfinite(x) & np.isfinite(y) & ((x > 0.0) | (not log_x)) & ((y > 0.0) | (not log_y))
    x, y = (np.log(each[known]) if log else each[known] for each, log in ((x, log_x), (y, log_y)))
    if len(np.unique(x)) < 4:
        return np.empty(0), np.empty(0)
    at = np.linspace(x.min(), x.max(), PLACES)
    nearest = max(3, int(np.ceil(SPAN * len(x))))
    found = np.empty(PLACES)
    for place, centre in enumerate(at):
        distance = np.abs(x - centre)
        # a little beyond the last of the nearest, whose weight would be zero; 1e-300: all of them may be at the centre
        reach = max(float(np.partition(distance, min(nearest, len(x)) - 1)[min(nearest, len(x)) - 1]) * 1.0001, 1e-300)
        weight = np.sqrt(np.clip(1.0 - (distance / reach) ** 3, 0.0, None) ** 3)  # `lstsq` squares it
        matrix = np.stack([np.ones_like(x), x - centre], axis=1) * weight[:, None]
        found[place] = np.linalg.lstsq(matrix, y * weight)[0][0]  # the constant: x is counted from the centre
    return np.exp(at) if log_x else at, np.exp(found) if log_y else found
