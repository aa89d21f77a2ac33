"""Plot a variable against an axis or another variable.

A dependence has runs, medians and lines of known slope.  A scatter has one point for each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from evogt_study.analysis.design import along_sample, drawn_dimensions
from evogt_study.analysis.summary_table import choice_of_pilot
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Plot, PlotRequest, new_panels
from evogt_study.plots.groups import MAX_LISTED, GroupedRuns, PlotRoles, group_runs, is_measured, label_of
from evogt_study.plots.style import Style, mark_positions, min_log_ratio, scale_axis, series_style
from evogt_study.plots.trend import draw_trend

MAX_SCATTERED = 2000  # points of one series and panel of a scatter
_MAX_POINTS_OF_GROUP = 200  # more hide each other
MAX_MARKED = 60  # places with markers and bars: more touch each other
SLOPE_DASHES: tuple[Any, ...] = ("solid", (0, (2.0, 1.0)), (0, (0.7, 0.7)))
"""Dashes of reference lines, which are wide and light to be visible behind data."""


def draw_dependence(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw values against the numbers of an axis: a point for each run, and a line through the medians.

    Bars at the medians are their 95 % intervals, if there are at most `MAX_MARKED` places.  With more than
    `_MAX_POINTS_OF_GROUP` runs at a place, a band from 5 % to 95 % replaces the points.  The choices of a pilot have
    rings.  Slopes p are lines c x^p through the largest median at the end where they are highest, if both scales are
    logarithmic.  A recorded variable along x has its medians over the same groups of runs.  In a random sample it is
    drawn as a scatter, and a sampled parameter as a trend.  Raises InputError for an x without numbers.
    """
    roles = request.roles
    if along_sample(data, roles.x):
        return draw_trend(data, variable, request)
    if drawn_dimensions(data) and is_measured(data, roles):  # no two points of a random sample form a group
        return draw_scatter(data, variable, request)
    runs = _group_along(data, variable, roles)
    canvas = new_panels(len(runs.col.values), request)
    numbers = np.zeros(runs.planned.shape[:3]) if runs.numbers is None else runs.numbers
    medians, limits = runs.medians, runs.median_intervals()
    canvas.scale_values(runs.values, runs.is_error)
    canvas.label_panels(runs, runs.x.label)
    for number, axes in enumerate(canvas.axes):
        scale_axis(axes, "x", numbers[np.isfinite(numbers)])
        for one in range(len(runs.hue.values)):
            where, mark = (number, one), series_style(one)
            beside = _shift(axes, numbers, number, one)
            _draw_series(axes, runs, where, numbers[where], beside, medians[where], mark)
            _draw_intervals(axes, beside, medians[where], limits[where], mark)
        # inches that the labels to the left leave of a column, and of a third of a page
        mark_positions(axes, numbers[np.isfinite(numbers)], 2.5 if len(canvas.axes) == 1 else 1.5)
    references = _draw_references(canvas.axes, numbers, medians, request.slope)
    choice = _mask_choice(data, variable, roles)
    if choice is not None:
        _draw_rings(canvas.axes, numbers, medians, choice)
    canvas.add_series_legend(runs, *references)
    ring = "" if choice is None else "ring: the pilot's choice"
    intervals = bool(np.isfinite(limits).any())
    canvas.add_footnote(runs.footnote(runs.list_incomplete(MAX_LISTED), ring, _explain(runs, intervals=intervals)))
    title, marks = f"{variable} against {runs.x.name}", "Line: median.  Points: runs."
    return canvas.finish(title, marks, runs.describe_medians(), runs.describe_subject())


def _group_along(data: xr.Dataset, variable: str, roles: PlotRoles) -> GroupedRuns:
    """Return the runs over a numeric axis; if x is measured in each run, its medians are the numbers along x."""
    if roles.x is None or not is_measured(data, roles):
        return group_runs(data, variable, roles, numeric=True)
    axes = replace(roles, x=None)
    runs, other = (group_runs(data, each, axes, numeric=True) for each in (variable, roles.x))
    return replace(runs, numbers=other.medians, x=replace(runs.x, name=roles.x, label=label_of(data[roles.x])))


def _explain(runs: GroupedRuns, *, intervals: bool) -> str:
    if runs.largest <= 1:
        return ""
    over = f"over {', '.join(runs.over)}"
    points = f"points: runs {over}" if runs.largest <= _MAX_POINTS_OF_GROUP else f"band: 5 to 95 % {over}"
    return f"line: median; {'bars: its 95 % interval; ' if intervals else ''}{points}"


def _shift(axes: Axes, numbers: Array, panel: int, one: int) -> Array:
    """Return the places of a series, a little beside their number, so that series do not hide each other."""
    own: Array = numbers[panel, one]
    shift = 0.014 * (one - (numbers.shape[1] - 1) / 2.0)
    if not np.isfinite(numbers).any():
        return own
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    return np.asarray(own * (high / low) ** shift if axes.get_xscale() == "log" else own + (high - low) * shift)


def _draw_series(
    axes: Axes, runs: GroupedRuns, where: tuple[int, int], x: Array, beside: Array, medians: Array, mark: Style
) -> None:
    """Draw the runs of a series, as points or as a band, and the line through its medians."""
    samples = [runs.sample(*where, place) for place in range(len(x))]
    there = np.array([len(sample) > 0 for sample in samples]) & np.isfinite(x)
    order = np.flatnonzero(there)[np.argsort(x[there], kind="stable")]
    if runs.largest > _MAX_POINTS_OF_GROUP and len(order):
        band = np.array([np.quantile(samples[i], [0.05, 0.95]) for i in order]).T
        axes.fill_between(x[order], *band, color=mark.colour, alpha=0.2, linewidth=0)
    elif runs.largest > 1 and len(order):
        points = [(beside[i], value) for i in order for value in samples[i]]
        axes.plot(
            *np.array(points).T, color=mark.colour, marker=mark.marker, linestyle="none", markersize=2.2, alpha=0.4,
            markeredgewidth=0.0, gid="runs",
        )  # fmt: skip
    axes.plot(
        x[order], medians[order], color=mark.colour, linestyle=mark.dashes, markersize=4.2, linewidth=1.2,
        marker=mark.marker if len(order) <= MAX_MARKED else None, gid="median",
    )  # fmt: skip


def _draw_intervals(axes: Axes, beside: Array, medians: Array, limits: Array, mark: Style) -> None:
    """Draw bars from the lower to the upper end of the intervals; none if there are many places."""
    there = np.isfinite(limits).all(axis=-1) & np.isfinite(beside) & np.isfinite(medians)
    if there.any() and there.sum() <= MAX_MARKED:
        axes.vlines(
            beside[there], limits[there, 0], limits[there, 1], colors=mark.colour, linewidth=1.0, alpha=0.9
        ).set_gid("interval")


def _draw_references(drawn: Sequence[Axes], numbers: Array, medians: Array, slopes: Sequence[float]) -> list[Line2D]:
    """Draw lines c x^p behind the data, through a median of each panel; none if a scale is not logarithmic."""
    if not slopes or any(axes.get_xscale() != "log" or axes.get_yscale() != "log" for axes in drawn):
        return []
    limits = drawn[0].get_ylim()  # of the data: a line that leaves them must not stretch the scale
    x = np.geomspace(np.nanmin(numbers), np.nanmax(numbers), 50)
    lines = []
    for slope, dashes in zip(slopes, cycle(SLOPE_DASHES), strict=False):
        look: dict[str, Any] = {"color": "0.7", "linewidth": 2.6, "linestyle": dashes, "dash_capstyle": "butt"}
        for axes, across, up in zip(drawn, numbers, medians, strict=True):
            there = np.isfinite(across) & (up > 0.0)
            if there.any():
                # where x^p is largest, errors are above the rounding that ends a slope
                end = float(across[there].max() if slope > 0.0 else across[there].min())
                top = float(up[there & (across == end)].max())
                # 1.5: lines of data have 2
                axes.plot(x, top * (x / end) ** slope, zorder=1.5, gid="reference", **look)
        lines.append(Line2D([], [], label=f"slope {slope:g}".replace("-", "−"), **look))
    drawn[0].set_ylim(limits)
    return lines


def _mask_choice(data: xr.Dataset, variable: str, roles: PlotRoles) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the groups, (P, S, X), that a pilot has chosen; None for runs of no pilot."""
    mask = choice_of_pilot(data)
    if mask is None:
        return None
    bare = data.assign({variable: mask.broadcast_like(data["run_status"]).astype(float)})
    return np.asarray((_group_along(bare, variable, roles).values == 1.0).any(axis=-1))


def _draw_rings(drawn: Sequence[Axes], numbers: Array, medians: Array, choice: npt.NDArray[np.bool_]) -> None:
    """Draw a ring about the median of each group of a choice."""
    for axes, across, up, here in zip(drawn, numbers, medians, choice, strict=True):
        axes.plot(
            across[here], up[here], marker="o", markersize=9.0, markerfacecolor="none", markeredgecolor="black",
            markeredgewidth=1.2, linestyle="none", zorder=4, gid="chosen",
        )  # fmt: skip


def draw_scatter(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw a point for each run, against x or its rank.  Axes without a role are all in one cloud.

    Of more than `MAX_SCATTERED` points in one series that many are drawn, evenly chosen in the order of `variable`.
    """
    x = request.roles.x or "rank"
    wanted = ("hue", "col") if request.roles.col is not None else ("hue",)
    runs, other = (group_runs(data, name, request.roles, wanted=wanted, pooled=True) for name in (variable, x))
    both = np.isfinite(runs.values) & np.isfinite(other.values) & runs.planned
    canvas = new_panels(len(runs.col.values), request)
    canvas.label_panels(runs, other.label)
    n_omitted = 0
    for number, one in np.ndindex(both.shape[:2]):
        there = both[number, one, 0]
        across, up = other.values[number, one, 0][there], runs.values[number, one, 0][there]
        most = min(len(up), MAX_SCATTERED)
        kept = np.argsort(up, kind="stable")[np.linspace(0, len(up) - 1, most).round().astype(int)]
        n_omitted += len(up) - len(kept)
        mark = series_style(one)
        canvas.axes[number].plot(
            across[kept], up[kept], color=mark.colour, marker=mark.marker, linestyle="none", markersize=3.0,
            alpha=0.6, markeredgewidth=0.0, gid="runs",
        )  # fmt: skip
    for axes in canvas.axes:
        scale_axis(axes, "x", other.values[both], min_log_ratio(other.is_error))
    canvas.scale_values(runs.values[both], runs.is_error)
    canvas.add_series_legend(runs, lines=False)
    canvas.add_footnote(runs.footnote(f"{n_omitted:,} of them are not drawn, evenly chosen" if n_omitted else ""))
    alt = "No run has a value."
    if both.any():
        ranges = [f"{each.title} from {each.values[both].min():.3g} to {each.values[both].max():.3g}"
                  for each in (other, runs)]  # fmt: skip
        alt = f"A cloud of {both.sum():,} points: {', '.join(ranges)}."
    return canvas.finish(f"{variable} against {x}", "Point: one run.", alt)
