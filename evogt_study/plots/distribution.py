"""Plot a variable over the seeds: a point for each run, or letter values if there are too many runs."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Plot, PlotRequest, new_panels
from evogt_study.plots.groups import MAX_LISTED, GroupedRuns, group_runs
from evogt_study.plots.style import Style, series_style, to_drawable

MIN_DEPTH = 2.0 * 1.959963984540054**2
"""Runs at the depth of a letter value from which on its 95 % interval ends before the next one, 2 z^2 (Hofmann, Wickham
and Kafadar, J. Comput. Graph. Stat. 26, 2017)."""
_WIDEST, _NARROWEST = 0.84, 0.2
"""Widths of the boxes of the fourths and of the last letter values, as shares of the width of a group."""
MAX_POINTS_OF_GROUP = 200  # more hide each other
MAX_GROUPS = 24  # along one panel: the labels of more meet


def draw_distribution(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw the values of each group of runs, with its median and the 95 % interval of the median.

    If a group has more than `MAX_POINTS_OF_GROUP` runs, all groups have boxes of letter values, and points for the runs
    beyond the last.  Raises InputError for axes or variables that do not exist.
    """
    runs = group_runs(data, variable, request.roles, max_x=MAX_GROUPS)
    limits = runs.median_intervals()
    canvas = new_panels(len(runs.col.values), request)
    canvas.label_panels(runs, runs.x.label)
    for number, axes in enumerate(canvas.axes):
        axes.xaxis.grid(visible=False)
        _draw_groups(axes, runs, number, limits[number])
    canvas.scale_values(runs.values, runs.is_error)
    canvas.add_series_legend(runs, lines=False)
    canvas.add_footnote(
        runs.footnote(runs.list_incomplete(MAX_LISTED), _explain(runs, intervals=bool(np.isfinite(limits).any())))
    )
    marks = "Point: one run.  Bar: median of the group."
    return canvas.finish(f"{variable} of every run", marks, runs.describe_medians(), runs.describe_subject())


def _explain(runs: GroupedRuns, *, intervals: bool) -> str:
    if runs.largest <= 1:
        return ""
    over = f"over {', '.join(runs.over)}" if runs.over else ""
    median = "bar: median" + ("; black line: its 95 % interval" if intervals else "")
    if runs.largest <= MAX_POINTS_OF_GROUP:
        return f"points: runs {over}; {median}"
    return f"boxes: quartiles, eighths, sixteenths, ... {over}; {median}; points: runs beyond"


def _draw_groups(axes: Axes, runs: GroupedRuns, panel: int, limits: Array) -> None:
    """Draw the groups of a panel."""
    series, places = limits.shape[:2]
    width = 0.8 / series
    for one, place in np.ndindex(series, places):
        centre = place + (one - (series - 1) / 2.0) * width
        sample = runs.sample(panel, one, place)
        if len(sample):
            _draw_group(axes, centre, width, sample, series_style(one), many=runs.largest > MAX_POINTS_OF_GROUP)
        if np.isfinite(limits[one, place]).all():
            ends = [centre - 0.34 * width] * 2
            axes.plot(ends, limits[one, place], color="black", linewidth=1.0, zorder=3.4, gid="interval")
    labels = [to_drawable(value) for value in runs.x.values]
    room = 60 if len(runs.col.values) == 1 else 30
    crowded = sum(len(label) + 2 for label in labels) > room
    axes.set_xticks(range(places), labels=labels, rotation=90 if crowded and max(map(len, labels)) > 1 else 0)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, places - 0.4)


def _draw_group(axes: Axes, centre: float, width: float, sample: Array, mark: Style, *, many: bool) -> None:
    """Draw one sample and its median: every run a point, or of too many the runs beyond its boxes."""
    points = sample
    if many:
        ends = letter_values(sample)
        _draw_letter_boxes(axes, centre, width, ends, mark.colour)
        if len(ends):
            points = sample[(sample < ends[-1, 0]) | (sample > ends[-1, 1])]
    # neighbours in value go to different sides, so that they do not hide each other
    # multiples of the golden ratio fill the width evenly
    spread = (np.arange(len(points)) * 0.6180339887498949) % 1.0 - 0.5 if len(points) > 1 else np.zeros(len(points))
    axes.plot(
        centre + (0.3 if many else 0.7) * width * spread, points, color=mark.colour, marker=mark.marker,
        linestyle="none", markersize=2.0 if many else 3.0, markeredgewidth=0.0,
        alpha=0.55 if len(points) > 1 else 1.0, gid="runs",
    )  # fmt: skip
    if len(sample) > 1:
        bar, median = [centre - 0.45 * width, centre + 0.45 * width], [np.median(sample)] * 2
        if many:  # which is drawn on dark boxes
            axes.plot(bar, median, color="white", linewidth=3.0, solid_capstyle="butt", zorder=3)
        axes.plot(bar, median, color="black", linewidth=1.3, solid_capstyle="butt", zorder=3, gid="median")


def letter_values(sample: Array) -> Array:
    """Return lower and upper fourths, eighths, ...: quantiles 2^-i and 1 - 2^-i for i = 2, 3, ..., (k, 2).

    As many as differ by their intervals, none of fewer than 16 runs; beyond the last are 4 to 8 runs at either end.
    """
    count = max(0, int(np.floor(np.log2(max(len(sample), 1) / MIN_DEPTH))))
    tails = 0.5 ** np.arange(2, count + 2)
    return np.stack([np.quantile(sample, tails), np.quantile(sample, 1.0 - tails)], axis=-1)


def _draw_letter_boxes(axes: Axes, centre: float, width: float, ends: Array, colour: str) -> None:
    """Draw a box between the ends of each letter value: the further out, the narrower and the lighter."""
    base = np.array(to_rgb(colour))
    for number, (low, high) in enumerate(ends):
        part = number / max(1, len(ends) - 1)
        half = 0.5 * width * (_WIDEST + (_NARROWEST - _WIDEST) * part)
        shade = 0.65 - 0.5 * part
        axes.fill_between(
            [centre - half, centre + half], low, high, facecolor=shade * base + (1.0 - shade), edgecolor="black",
            linewidth=0.4, zorder=2.9 - 0.02 * number, gid="band",  # below medians, at 3; inner boxes on outer ones
        )  # fmt: skip
