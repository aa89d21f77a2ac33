"""Plot the runs of a sample against each of its parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from evogt_study.analysis.design import SamplePoints, find_points, sample_dimensions
from evogt_study.analysis.runs import DRAWN
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Plot, PlotRequest, new_panels, wrap_label
from evogt_study.plots.groups import MAX_PANELS, GroupedRuns, PlotRoles, axes_of, group_runs, label_of, select_point
from evogt_study.plots.style import TEXT_WIDTH, label_size, scale_axis, series_style, to_drawable

SPAN = 0.4
"""Share of the points behind a value of the trend.  Cleveland uses 0.2 to 0.8.  With 50 points, 20."""
N_PLACES = 60  # points of the line of a trend


def draw_trend(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw every run of a sample against each of its parameters, or against x alone, with a local linear fit.

    The fit is on the scales of the figure.  Raises InputError if the result has no sample.
    """
    runs, sample, labels = _group_sample(data, variable, request.roles)
    names = list(sample.names)
    chosen = [names.index(request.roles.x)] if request.roles.x in names else list(range(len(names)))[:MAX_PANELS]
    alone = len(chosen) == 1
    canvas = new_panels(len(chosen), request, sharex=False)
    y = runs.values.ravel()
    there = np.isfinite(y)
    canvas.scale_values(y, runs.is_error)
    for axes, place in zip(canvas.axes, chosen, strict=True):
        words = sample.strings[place]
        x = np.repeat(sample.points[:, place], len(y) // len(sample.points))
        if words:  # a little apart, so that runs do not hide each other: multiples of the golden ratio
            x = x + 0.5 * (np.arange(len(x)) * 0.6180339887498949 % 1.0 - 0.5)
        axes.plot(
            x[there], y[there], color=series_style(2).colour, marker="o", linestyle="none", markersize=2.4, alpha=0.45,
            markeredgewidth=0.0, gid="runs",
        )  # fmt: skip
        _scale_parameter(axes, sample, place, narrow=not alone)
        if not words:  # strings have no distances to weigh by
            logs = axes.get_xscale() == "log", axes.get_yscale() == "log"
            axes.plot(*fit_trend(x[there], y[there], *logs), color="black", linewidth=1.4, gid="trend")
        axes.set_xlabel(canvas.wrap(labels[place]), fontsize=label_size())
    for axes in canvas.axes[:: canvas.columns]:
        axes.set_ylabel(wrap_label(runs.label, 32 if alone else 24), fontsize=label_size())
    left = f"{len(chosen)} of {len(names)} parameters" if 1 < len(chosen) < len(names) else ""
    canvas.add_footnote(runs.footnote("line: local linear fit", left))
    span = f"from {y[there].min():.3g} to {y[there].max():.3g}" if there.any() else "none"
    alt = f"{runs.title} against {', '.join(names)}: {span}. {runs.describe_counts()}."
    return canvas.finish(f"{variable} against the sampled parameters", "Point: one run.", alt)


def _group_sample(data: xr.Dataset, variable: str, roles: PlotRoles) -> tuple[GroupedRuns, SamplePoints, list[str]]:
    """Return the runs in one group, the points of the sample, and the labels of its parameters."""
    here = select_point(data, roles.at, axes_of(data, variable)) if variable in data else data
    over = roles.over
    if over is None:
        over = tuple(sample_dimensions(here[variable])[:1]) if variable in here else ()
    over = tuple(dim for dim in over if dim != DRAWN)
    if not over:
        raise InputError(f"`--over` must name the dimension of a sample, there is none of `{variable}`")
    whole = (*over, DRAWN) if DRAWN in here[variable].dims else over
    runs = group_runs(data, variable, replace(roles, x=None, hue=None, col=None, over=whole), wanted=())
    sample = find_points(here[variable], over)
    labels = [label_of(here[name]) if name in here.coords else name for name in sample.names]
    return runs, sample, labels


def _scale_parameter(axes: Axes, sample: SamplePoints, place: int, *, narrow: bool) -> None:
    """Scale x for a parameter: logarithmic if that suits its numbers, strings at their places."""
    points, words = sample.points[:, place], sample.strings[place]
    if words:
        axes.set_xticks(range(len(words)), labels=[to_drawable(word) for word in words])
        axes.set_xlim(-0.6, len(words) - 0.4)
        return
    scale_axis(axes, "x", points)
    if narrow and axes.get_xscale() == "log" and np.ptp(np.log10(points)) > 3:
        room = 4 if axes.figure.figure.get_figwidth() >= TEXT_WIDTH else 3  # numbers that do not meet
        axes.xaxis.set_major_locator(LogLocator(numticks=room))


def fit_trend(x: Array, y: Array, log_x: bool = False, log_y: bool = False) -> tuple[Array, Array]:
    """Fit y locally linear at `N_PLACES` values of x, weights (1 - (d / h)^3)^3 of the nearest `SPAN` of the points.

    (Cleveland, J. Am. Stat. Assoc. 74, 1979, without robustness), on logarithms if `log_x` or `log_y`; empty below
    four different x.
    """
    known = np.isfinite(x) & np.isfinite(y) & ((x > 0.0) | (not log_x)) & ((y > 0.0) | (not log_y))
    x, y = (np.log(each[known]) if log else each[known] for each, log in ((x, log_x), (y, log_y)))
    if len(np.unique(x)) < 4:
        return np.empty(0), np.empty(0)
    at = np.linspace(x.min(), x.max(), N_PLACES)
    nearest = min(len(x), max(3, int(np.ceil(SPAN * len(x)))))
    found = np.empty(N_PLACES)
    for place, centre in enumerate(at):
        distance = np.abs(x - centre)
        # a little beyond the last of the nearest, whose weight would be zero; 1e-300: all of them may be at the centre
        reach = max(float(np.partition(distance, nearest - 1)[nearest - 1]) * 1.0001, 1e-300)
        weight = np.sqrt(np.clip(1.0 - (distance / reach) ** 3, 0.0, None) ** 3)  # `lstsq` squares it
        matrix = np.stack([np.ones_like(x), x - centre], axis=1) * weight[:, None]
        found[place] = np.linalg.lstsq(matrix, y * weight)[0][0]  # the constant: x is counted from the centre
    return np.exp(at) if log_x else at, np.exp(found) if log_y else found
