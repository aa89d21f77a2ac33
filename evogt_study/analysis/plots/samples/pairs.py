"""Pairs of sampled parameters coloured by a number: where it is small, where it is large, and where runs fail."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import xarray as xr
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from evogt_study.analysis.plots.parts.arranged import Places
from evogt_study.analysis.plots.parts.canvas import Given, grid, laid_out, new_canvas, note
from evogt_study.analysis.plots.parts.labels import labelled, symbol, titled
from evogt_study.analysis.plots.parts.points import sampled_runs
from evogt_study.analysis.plots.parts.style import COLUMN_WIDTH, TEXT_WIDTH, label_size, logarithmic, tick_size
from evogt_study.errors import InputError

MOST = 4
"""Parameters of which pairs are drawn: six panels fill a page's width."""


def pairs(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """A panel for each pair of parameters, with a point for each run, on a logarithmic colour scale if positive.

    Of more than four parameters the first are drawn.  Points without any value are crosses; over seeds the median is
    drawn.  Raises InputError where there are not two parameters, or other axes than these.
    """
    runs = sampled_runs(data, variable, places or Places())
    names = runs.names[:MOST]
    if len(names) < 2:
        raise InputError(
            f"`FILE` must have two sampled parameters to draw pairs of them, got {', '.join(names) or 'none'}"
        )
    drawn_pairs = list(combinations(range(len(names)), 2))
    one_panel = len(drawn_pairs) == 1
    rows, columns = grid(len(drawn_pairs), ax)
    canvas = new_canvas(rows, columns, (COLUMN_WIDTH if one_panel else TEXT_WIDTH, 0.7 + 2.0 * rows), ax)
    for spare in canvas.axes[len(drawn_pairs) :]:
        spare.remove()
    medians, norm = runs.medians, _norm(runs.medians)
    there = np.isfinite(medians)
    order = np.argsort(-np.abs(np.nan_to_num(medians)), kind="stable")  # so that the small ones are on top
    shown = order[there[order]]
    mesh, one_seed = None, replace(runs, values=medians[:, None])
    for axes, (i, j) in zip(canvas.axes, drawn_pairs, strict=False):
        x, y = (one_seed.spread(place) for place in (i, j))
        mesh = axes.scatter(
            x[shown], y[shown], c=medians[shown], s=9, cmap="cividis", norm=norm, linewidths=0, gid="runs"
        )
        lost = ~there & runs.planned
        axes.plot(x[lost], y[lost], color="#D55E00", marker="x", markersize=3.5, linestyle="none", gid="lost")
        for which, place in (("x", i), ("y", j)):
            runs.scale(axes, which, place, narrow=not one_panel)
        labels = [titled(runs.titles[k], runs.names[k], 40) if one_panel else symbol(runs.names[k]) for k in (i, j)]
        axes.set_xlabel(labels[0], fontsize=label_size())
        axes.set_ylabel(labels[1], fontsize=label_size())
        axes.tick_params(labelsize=tick_size(), which="both")
    if mesh is not None and there.any():
        bar = canvas.figure.colorbar(mesh, ax=canvas.axes[: len(drawn_pairs)], aspect=40, location="top")
        bar.set_label(labelled(runs.label, int(12.5 * canvas.figure.get_figwidth())), fontsize=label_size())
        logarithmic(bar.ax, "x", medians)
        bar.ax.tick_params(labelsize=tick_size(), which="both")
    crosses = "crosses: no run has a value" if (~there & runs.planned).any() else ""
    more = f"{MOST} of {len(runs.names)} parameters" if len(runs.names) > MOST else ""
    note(canvas, runs.footnote(crosses, more))
    return laid_out(canvas)


# logarithmic where `logarithmic` makes the colour bar so
def _norm(values: np.ndarray) -> Normalize:
    known = values[np.isfinite(values)]
    if not len(known):
        return Normalize(0.0, 1.0)
    low, high = float(known.min()), float(known.max())
    return LogNorm(low, high) if low > 0.0 and high > 3.0 * low else Normalize(low, high)
