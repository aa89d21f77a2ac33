"""Work and accuracy: median error against median wall time of each group of runs, and the front of the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from evogt_study.analysis.plots.parts.arranged import (
    Arranged,
    Array,
    Places,
    arranged,
    axes_of,
    default_over,
    is_numeric,
)
from evogt_study.analysis.plots.parts.canvas import Given, laid_out, note, panels
from evogt_study.analysis.plots.parts.labels import labelled
from evogt_study.analysis.plots.parts.legends import line_legend
from evogt_study.analysis.plots.parts.style import Style, label_size, logarithmic, plain, style
from evogt_study.schema.parameters import OF_FORMULAS

WORK = "wall_seconds"
PROBLEM = "problem"
"""The axis of a study of several problems, as that of joined results is called too."""
FRONT: Mapping[str, Any] = {"color": "0.7", "linewidth": 2.6, "solid_capstyle": "butt"}


def work_accuracy(
    data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None
) -> Figure:
    """Median of each group of runs against their median wall time, with bars from quartile to quartile, and the front.

    Groups of one series are joined in the order of `along`; the front joins by steps the groups of a panel of which no
    other is as good with less work, or better with as much.  A panel is one problem, or one value of a parameter of it,
    if nothing else is said.  Raises InputError for axes or variables that are none.
    """
    runs, work = work_groups(data, variable, places or Places())
    canvas = panels(len(runs.panels.labels), ax=ax)
    for number, axes in enumerate(canvas.axes):
        x, y = work.medians[number], runs.medians[number]
        there = np.isfinite(x) & np.isfinite(y)
        best = front(x[there], y[there])
        axes.step(x[there][best], y[there][best], where="post", zorder=1.5, gid="front", **FRONT)
        for one in range(len(runs.series.labels)):
            _series(axes, work.values[number, one], runs.values[number, one], style(one))
        axes.set_title(plain(runs.panels.told(number)), fontsize=label_size())
        axes.set_xlabel(labelled(work.label, canvas.characters(48)), fontsize=label_size())
        logarithmic(axes, "x", work.values)
    logarithmic(canvas.axes[0], "y", runs.values)
    canvas.axes[0].set_ylabel(labelled(runs.label, 32), fontsize=label_size())
    line_legend(canvas, runs, Line2D([], [], label="front", **FRONT), markers=True)
    joined = f"joined along {runs.along.name}" if runs.along.name else ""
    bars = f"points: medians over {', '.join(runs.over)}; bars: quartiles" if runs.largest > 1 else ""
    note(canvas, runs.footnote(bars, joined))
    return laid_out(canvas)


def work_groups(data: xr.Dataset, variable: str, places: Places) -> tuple[Arranged, Arranged]:
    """The variable and the wall time of the same groups of runs: those that have both."""
    over = default_over(data) if places.over is None else places.over
    named = (*over, *places.at, places.along, places.by, places.panel)
    free = [name for name in axes_of(data, variable) if name not in named and data.sizes[name] > 1]
    of_problem = [name for name in free if name == PROBLEM or data[name].attrs.get("comment") == OF_FORMULAS]
    numbers = [name for name in free if is_numeric(data, name) and name not in of_problem]
    along = places.along or max(numbers, key=lambda name: data.sizes[name], default=None)
    places = replace(places, along=along, panel=places.panel or next(iter(of_problem), None))
    wanted = [place for place in ("along", "by", "panel") if place != "along" or along is not None]
    runs, work = (arranged(data, name, places, wanted=wanted) for name in (variable, WORK))
    both = np.isfinite(runs.values) & np.isfinite(work.values)
    first, second = (replace(each, values=np.where(both, each.values, np.nan)) for each in (runs, work))
    return first, second


def front(x: Array, y: Array) -> npt.NDArray[np.intp]:
    """Positions of the points of which no other has smaller or equal x and y, one of them smaller; x increasing."""
    order = np.lexsort((y, x))
    least = np.inf
    found: list[int] = []
    for i in order:
        if y[i] < least or (found and (x[i], y[i]) == (x[found[-1]], y[found[-1]])):
            least = y[i]
            found.append(i)
    return np.array(found, dtype=np.intp)


def _series(axes: Axes, x: Array, y: Array, mark: Style) -> None:
    """Medians over the last axis of (X, n), joined, with bars from quartile to quartile where there are some runs."""
    there = np.isfinite(y).any(axis=-1)
    if not there.any():
        return
    across, up = (np.nanquantile(each[there], [0.25, 0.5, 0.75], axis=-1) for each in (x, y))
    look: dict[str, Any] = {"color": mark.colour, "alpha": 0.6, "linewidth": 1.0, "gid": "quartiles"}
    axes.hlines(up[1], across[0], across[2], **look)
    axes.vlines(across[1], up[0], up[2], **look)
    axes.plot(
        across[1], up[1], color=mark.colour, marker=mark.marker, linestyle=mark.dashes, linewidth=0.8, markersize=4.2,
        gid="median",
    )  # fmt: skip
