"""Plot one number of each run over axes: distribution, dependence, scatter, trend of a sample, and heat map."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator

from evogt_study.analysis import runs as study_runs
from evogt_study.analysis.runs import DRAWN, find_points, select_point
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.plots import groups, style
from evogt_study.plots.canvas import PlottedFigure, make_panels, wrap_label
from evogt_study.plots.groups import PlotRequest
from evogt_study.schema.variables import CANDIDATE, Status, read_direction, status_codes, to_losses

MAX_POINTS_OF_GROUP = 200  # more points hide each other
MAX_GROUPS = 24  # along one panel of a distribution: more labels overlap
MIN_DEPTH = 2.0 * 1.959963984540054**2  # least number 2 z^2 of runs beyond a letter value (Hofmann et al. 2017)
MAX_SCATTERED = 2000  # points of one series and panel of a scatter
MAX_MARKED = 60  # points with markers and bars: more would touch
SLOPE_DASHES: tuple[Any, ...] = ("solid", (0, (2.0, 1.0)), (0, (0.7, 0.7)))  # of reference lines
SPAN = 0.4  # share of the points that determine one value of the trend: Cleveland uses 0.2 to 0.8
N_PLACES = 60  # points of the line of a trend
MAX_CELLS = 40  # values of an axis of a heat map
MAX_WRITTEN = 7, 16  # most cells with numbers in a row of a column and of a page
_GOLDEN = 0.6180339887498949  # the multiples of this number fill an interval evenly


def draw_distribution(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw the values of each group of runs, with its median and the 95 % interval of the median."""
    runs = groups.group_runs(data, variable, request, max_x=MAX_GROUPS)
    limits, many = runs.compute_median_intervals(), runs.largest > MAX_POINTS_OF_GROUP
    canvas = make_panels(len(runs.col.values), request)
    canvas.label_panels(runs, runs.x.label)
    _, series, places = runs.medians.shape
    width = 0.8 / series
    labels = [style.to_drawable(value) for value in runs.x.values]
    crowded = sum(len(label) + 2 for label in labels) > (60 if len(canvas.axes) == 1 else 30)
    for panel, axes in enumerate(canvas.axes):
        axes.xaxis.grid(visible=False)
        for one, place in np.ndindex(series, places):
            centre = place + (one - (series - 1) / 2.0) * width
            ends = limits[panel, one, place]
            sample, mark = runs.get_sample(panel, one, place), style.choose_series_style(one)
            _draw_group(axes, centre, width, sample, mark, many=many)
            if np.isfinite(ends).all():
                axes.plot([centre - 0.34 * width] * 2, ends, color="black", linewidth=1.0, zorder=3.4, gid="interval")
        axes.set_xticks(range(places), labels=labels, rotation=90 if crowded and max(map(len, labels)) > 1 else 0)
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.6, places - 0.4)
    canvas.scale_values(runs.values, runs.is_error)
    canvas.add_series_legend(runs, lines=False)
    over = f"over {', '.join(runs.over)}" if runs.over else ""
    median = "bar: median" + ("; black line: its 95 % interval" if np.isfinite(limits).any() else "")
    boxes = f"boxes: quartiles, eighths, sixteenths, ... {over}; {median}; points: runs beyond"
    note = boxes if many else f"points: runs {over}; {median}"
    canvas.add_footnote(runs.make_footnote(runs.list_incomplete(groups.MAX_LISTED), note if runs.largest > 1 else ""))
    marks = "Point: one run.  Bar: median of the group."
    return canvas.finish(f"{variable} of every run", marks, runs.describe_extremes(), runs.describe_subject())


def _draw_group(axes: Axes, centre: float, width: float, sample: Array, mark: style.Style, *, many: bool) -> None:
    """Draw one sample and its median, as points, or as boxes of letter values with points for outer runs.

    Letter values are the quantiles 2^-i and 1 - 2^-i for i = 2, 3, ... with separate 95 % intervals.  Samples of fewer
    than 16 runs have no boxes.
    """
    points = sample
    if many and len(sample):
        tails = 0.5 ** np.arange(2, max(0, int(np.floor(np.log2(len(sample) / MIN_DEPTH)))) + 2)
        ends = np.stack([np.quantile(sample, tails), np.quantile(sample, 1.0 - tails)], axis=-1)
        base = np.array(to_rgb(mark.colour))
        for number, (low, high) in enumerate(ends):  # outer boxes are narrower and lighter
            part = number / max(1, len(ends) - 1)
            half, shade = width * (0.42 - 0.32 * part), 0.65 - 0.5 * part
            axes.fill_between(
                [centre - half, centre + half], low, high, facecolor=shade * base + (1.0 - shade), edgecolor="black",
                linewidth=0.4, zorder=2.9 - 0.02 * number, gid="band",  # below the medians, which are at 3
            )  # fmt: skip
        if len(ends):
            points = sample[(sample < ends[-1, 0]) | (sample > ends[-1, 1])]
    # neighbours in value go to different sides, so that they do not hide each other
    spread = (np.arange(len(points)) * _GOLDEN) % 1.0 - 0.5 if len(points) > 1 else 0.0 * points
    part, size = (0.3, 2.0) if many else (0.7, 3.0)
    alpha = 0.55 if len(points) > 1 else 1.0
    style.draw_runs(axes, centre + part * width * spread, points, mark, markersize=size, alpha=alpha)
    if len(sample) > 1:
        bar, median = [centre - 0.45 * width, centre + 0.45 * width], [np.median(sample)] * 2
        if many:  # the median is on dark boxes
            axes.plot(bar, median, color="white", linewidth=3.0, solid_capstyle="butt", zorder=3)
        axes.plot(bar, median, color="black", linewidth=1.3, solid_capstyle="butt", zorder=3, gid="median")


def draw_dependence(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw values against x, with a point for each run, or a band, and a line through the medians.

    Bars at the medians show their 95 % intervals.  Rings mark the choices of a pilot.  If x is a recorded variable, the
    numbers along x are its medians over the groups of runs.  A random sample has a scatter or a trend instead.
    """
    if study_runs.is_along_sample(data, request.x):
        return draw_trend(data, variable, request)
    if study_runs.find_drawn_dimensions(data) and groups.is_measured(
        data, request
    ):  # two points of a sample form no group
        return draw_scatter(data, variable, request)
    runs = _group_along(data, variable, request)
    canvas = make_panels(len(runs.col.values), request)
    numbers = np.zeros(runs.planned.shape[:3]) if runs.numbers is None else runs.numbers
    medians, limits, known = runs.medians, runs.compute_median_intervals(), numbers[np.isfinite(numbers)]
    canvas.scale_values(runs.values, runs.is_error)
    canvas.label_panels(runs, runs.x.label)
    for panel, axes in enumerate(canvas.axes):
        style.scale_axis(axes, "x", known)
        for one in range(len(runs.hue.values)):
            # with a small offset, so that series do not hide each other
            beside, shift = numbers[panel, one], 0.014 * (one - (len(runs.hue.values) - 1) / 2.0)
            if len(known) and axes.get_xscale() == "log":
                beside = beside * (known.max() / known.min()) ** shift
            elif len(known):
                beside = beside + (known.max() - known.min()) * shift
            _draw_series(axes, runs, (panel, one), numbers[panel, one], beside, medians[panel, one], limits[panel, one])
        # inches beside the labels, in a column and in a third of a page
        style.mark_positions(axes, known, 2.5 if len(canvas.axes) == 1 else 1.5)
    references = _draw_references(canvas.axes, numbers, medians, request.slope)
    choice = find_pilot_choice(data)
    if choice is not None:
        bare = data.assign({variable: choice.broadcast_like(data["run_status"]).astype(float)})
        chosen = (_group_along(bare, variable, request).values == 1.0).any(axis=-1)
        for axes, across, up, here in zip(canvas.axes, numbers, medians, chosen, strict=True):
            axes.plot(
                across[here], up[here], marker="o", markersize=9.0, markerfacecolor="none", markeredgecolor="black",
                markeredgewidth=1.2, linestyle="none", zorder=4, gid="chosen",
            )  # fmt: skip
    canvas.add_series_legend(runs, *references)
    notes = [runs.list_incomplete(groups.MAX_LISTED), "" if choice is None else "ring: the pilot's choice"]
    if runs.largest > 1:
        over = f"over {', '.join(runs.over)}"
        points = f"points: runs {over}" if runs.largest <= MAX_POINTS_OF_GROUP else f"band: 5 to 95 % {over}"
        notes.append(f"line: median; {'bars: its 95 % interval; ' if np.isfinite(limits).any() else ''}{points}")
    canvas.add_footnote(runs.make_footnote(*notes))
    title, marks = f"{variable} against {runs.x.name}", "Line: median.  Points: runs."
    return canvas.finish(title, marks, runs.describe_extremes(), runs.describe_subject())


def _group_along(data: xr.Dataset, variable: str, request: PlotRequest) -> groups.GroupedRuns:
    """Return the runs over a numeric axis.  If x is a recorded variable, its medians are the numbers along x."""
    if request.x is None or not groups.is_measured(data, request):
        return groups.group_runs(data, variable, request, numeric=True)
    axes = replace(request, x=None)
    runs, other = (groups.group_runs(data, each, axes, numeric=True) for each in (variable, request.x))
    x = replace(runs.x, name=request.x, label=groups.make_label(data[request.x]))
    return replace(runs, numbers=other.medians, x=x)


def find_pilot_choice(pilot: xr.Dataset) -> xr.DataArray | None:
    """Return a mask of the chosen candidates over `by` and the candidates, or None if the choice is unknown."""
    section: object = None
    with suppress(tomllib.TOMLDecodeError):
        section = tomllib.loads(str(pilot.attrs.get("study", ""))).get("pilot")
    if not isinstance(section, dict) or not section:
        return None
    name, by = str(section.get("minimise", "error")), [*map(str, section.get("by", []))]
    known = {name, "run_status"} <= set(pilot.data_vars) and {*by, CANDIDATE} <= set(pilot.dims)
    if not known or pilot[name].dims != pilot["run_status"].dims:
        return None
    values, ok = pilot[name], status_codes(pilot["run_status"]) == Status.ok
    losses = np.where(ok, to_losses(values.values.astype(float), read_direction(values)[0]), np.nan)
    means = values.copy(data=losses).mean([dim for dim in values.dims if dim not in (*by, CANDIDATE)], skipna=False)
    usable = abs(means) < np.inf
    best = usable & (means == means.where(usable, np.inf).min(CANDIDATE))
    parameter = section.get("parameter")
    order = pilot[parameter] if isinstance(parameter, str) and parameter in pilot.coords else pilot[CANDIDATE]
    ranked = order.broadcast_like(best).where(best, np.inf)
    return best & (ranked == ranked.min(CANDIDATE))


def _draw_series(
    axes: Axes, runs: groups.GroupedRuns, where: tuple[int, int], x: Array, beside: Array, medians: Array, limits: Array
) -> None:
    """Draw the runs of a series as points or a band, the line through the medians, and the intervals of the medians."""
    mark, samples = style.choose_series_style(where[1]), [runs.get_sample(*where, place) for place in range(len(x))]
    there = np.array([len(sample) > 0 for sample in samples]) & np.isfinite(x)
    order = np.flatnonzero(there)[np.argsort(x[there], kind="stable")]
    if runs.largest > MAX_POINTS_OF_GROUP and len(order):
        band = np.array([np.quantile(samples[i], [0.05, 0.95]) for i in order]).T
        axes.fill_between(x[order], *band, color=mark.colour, alpha=0.2, linewidth=0)
    elif runs.largest > 1 and len(order):
        points = [(beside[i], value) for i in order for value in samples[i]]
        across, up = np.array(points).T
        style.draw_runs(axes, across, up, mark, markersize=2.2, alpha=0.4)
    axes.plot(
        x[order], medians[order], color=mark.colour, linestyle=mark.dashes, markersize=4.2, linewidth=1.2,
        marker=mark.marker if len(order) <= MAX_MARKED else None, gid="median",
    )  # fmt: skip
    known = np.isfinite(limits).all(axis=-1) & np.isfinite(beside) & np.isfinite(medians)
    if known.any() and known.sum() <= MAX_MARKED:
        low, high = limits[known].T
        axes.vlines(beside[known], low, high, colors=mark.colour, linewidth=1.0, alpha=0.9, gid="interval")


def _draw_references(drawn: Sequence[Axes], numbers: Array, medians: Array, slopes: Sequence[float]) -> list[Line2D]:
    """Draw lines c x^p behind the data and through a median of each panel if both scales are logarithmic."""
    if not slopes or any(axes.get_xscale() != "log" or axes.get_yscale() != "log" for axes in drawn):
        return []
    limits = drawn[0].get_ylim()  # limits of the data: a reference line must not extend the scale
    x = np.geomspace(np.nanmin(numbers), np.nanmax(numbers), 50)
    lines = []
    for slope, dashes in zip(slopes, cycle(SLOPE_DASHES), strict=False):
        look: dict[str, Any] = {"color": "0.7", "linewidth": 2.6, "linestyle": dashes, "dash_capstyle": "butt"}
        for axes, across, up in zip(drawn, numbers, medians, strict=True):
            there = np.isfinite(across) & (up > 0.0)
            if there.any():
                # at the largest x^p, errors are above the rounding errors
                end = float(across[there].max() if slope > 0.0 else across[there].min())
                top = float(up[there & (across == end)].max())
                # 1.5: lines of data have 2
                axes.plot(x, top * (x / end) ** slope, zorder=1.5, gid="reference", **look)
        lines.append(Line2D([], [], label=f"slope {slope:g}".replace("-", "−"), **look))
    drawn[0].set_ylim(limits)
    return lines


def draw_scatter(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw a point for each run against x or the rank, and at most `MAX_SCATTERED` points of a series."""
    x = request.x or "rank"
    wanted = ("hue", "col") if request.col is not None else ("hue",)
    runs, other = (groups.group_runs(data, name, request, wanted=wanted, pooled=True) for name in (variable, x))
    both = np.isfinite(runs.values) & np.isfinite(other.values) & runs.planned
    canvas = make_panels(len(runs.col.values), request)
    canvas.label_panels(runs, other.label)
    n_omitted = 0
    for panel, one in np.ndindex(both.shape[:2]):
        there, mark = both[panel, one, 0], style.choose_series_style(one)
        across, up = other.values[panel, one, 0][there], runs.values[panel, one, 0][there]
        most = min(len(up), MAX_SCATTERED)
        kept = np.argsort(up, kind="stable")[np.linspace(0, len(up) - 1, most).round().astype(int)]
        n_omitted += len(up) - len(kept)
        style.draw_runs(canvas.axes[panel], across[kept], up[kept], mark, markersize=3.0, alpha=0.6)
    for axes in canvas.axes:
        style.scale_axis(axes, "x", other.values[both], style.MIN_LOG_RATIO[other.is_error])
    canvas.scale_values(runs.values[both], runs.is_error)
    canvas.add_series_legend(runs, lines=False)
    canvas.add_footnote(runs.make_footnote(f"{n_omitted:,} of them are not drawn, evenly chosen" if n_omitted else ""))
    alt = "No run has a value."
    if both.any():
        ends = [(each.title, each.values[both]) for each in (other, runs)]
        ranges = ", ".join(f"{title} from {values.min():.3g} to {values.max():.3g}" for title, values in ends)
        alt = f"A cloud of {both.sum():,} points: {ranges}."
    return canvas.finish(f"{variable} against {x}", "Point: one run.", alt)


def draw_trend(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw every run of a sample against each sampled parameter, or against x, with a local linear fit."""
    groups.get_numeric_array(data, variable)
    here = select_point(data, request.at, groups.find_axes(data, variable))
    over = request.over if request.over is not None else study_runs.find_sample_dimensions(here[variable])[:1]
    over = tuple(dim for dim in over if dim != DRAWN)
    if not over:
        raise InputError(f"`--over` must name the dimension of a sample, got no sample of `{variable}`")
    whole = (*over, DRAWN) if DRAWN in here[variable].dims else over
    runs = groups.group_runs(data, variable, replace(request, x=None, hue=None, col=None, over=whole), wanted=())
    sample = find_points(here[variable], over)
    names = list(sample.names)
    chosen = [names.index(request.x)] if request.x in names else list(range(len(names)))[: groups.MAX_PANELS]
    alone = len(chosen) == 1
    canvas = make_panels(len(chosen), request, sharex=False)
    y = runs.values.ravel()
    there = np.isfinite(y)
    canvas.scale_values(y, runs.is_error)
    for axes, place in zip(canvas.axes, chosen, strict=True):
        points, strings = sample.points[:, place], sample.strings[place]
        x = np.repeat(points, len(y) // len(points))
        if strings:  # with a small distance, so that runs do not hide each other
            x = x + 0.5 * (np.arange(len(x)) * _GOLDEN % 1.0 - 0.5)
            axes.set_xticks(range(len(strings)), labels=[style.to_drawable(each) for each in strings])
            axes.set_xlim(-0.6, len(strings) - 0.4)
        else:
            style.scale_axis(axes, "x", points)
            if not alone and axes.get_xscale() == "log" and np.ptp(np.log10(points)) > 3:
                room = 4 if canvas.figure.get_figwidth() >= style.TEXT_WIDTH else 3  # numbers that do not overlap
                axes.xaxis.set_major_locator(LogLocator(numticks=room))
            logs = axes.get_xscale() == "log", axes.get_yscale() == "log"
            axes.plot(*fit_trend(x[there], y[there], *logs), color="black", linewidth=1.4, gid="trend")
        mark = style.choose_series_style(2)._replace(marker="o")
        style.draw_runs(axes, x[there], y[there], mark, markersize=2.4, alpha=0.45, zorder=1.9)
        label = groups.make_label(here[names[place]]) if names[place] in here.coords else names[place]
        axes.set_xlabel(canvas.wrap(label))
    for axes in canvas.axes[:: canvas.columns]:
        axes.set_ylabel(wrap_label(runs.label, 32 if alone else 24))
    left = f"{len(chosen)} of {len(names)} parameters" if 1 < len(chosen) < len(names) else ""
    canvas.add_footnote(runs.make_footnote("line: local linear fit", left))
    span = f"from {y[there].min():.3g} to {y[there].max():.3g}" if there.any() else "none"
    alt = f"{runs.title} against {', '.join(names)}: {span}. {runs.describe_counts()}."
    return canvas.finish(f"{variable} against the sampled parameters", "Point: one run.", alt)


def fit_trend(x: Array, y: Array, log_x: bool = False, log_y: bool = False) -> tuple[Array, Array]:
    """Return a locally linear fit (Cleveland 1979) of y, or of logarithms, at `N_PLACES` values of x."""
    known = np.isfinite(x) & np.isfinite(y) & ((x > 0.0) | (not log_x)) & ((y > 0.0) | (not log_y))
    x, y = (np.log(each[known]) if log else each[known] for each, log in ((x, log_x), (y, log_y)))
    if len(np.unique(x)) < 4:
        return np.empty(0), np.empty(0)
    at = np.linspace(x.min(), x.max(), N_PLACES)
    nearest = min(len(x), max(3, int(np.ceil(SPAN * len(x)))))
    found = np.empty(N_PLACES)
    for place, centre in enumerate(at):
        distance = np.abs(x - centre)
        # beyond the last point, because its weight would be zero; 1e-300 if all points are at the centre
        reach = max(float(np.partition(distance, nearest - 1)[nearest - 1]) * 1.0001, 1e-300)
        weight = np.sqrt(np.clip(1.0 - (distance / reach) ** 3, 0.0, None) ** 3)  # `lstsq` squares it
        matrix = np.stack([np.ones_like(x), x - centre], axis=1) * weight[:, None]
        found[place] = np.linalg.lstsq(matrix, y * weight)[0][0]  # the constant, because x is relative to the centre
    return np.exp(at) if log_x else at, np.exp(found) if log_y else found


def draw_heat_map(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw medians over two axes as colours, with k/n for missing runs and hatches for cells without a value."""
    runs = groups.group_runs(data, variable, request, max_x=MAX_CELLS, max_hue=MAX_CELLS)
    # numbers suit a scale, strings suit panels
    swap = runs.col.name and groups.is_numeric(data, runs.col.name) and not groups.is_numeric(data, runs.hue.name)
    if swap and request.hue is None and request.col is None:
        swapped = replace(request, hue=runs.col.name, col=runs.hue.name)
        runs = groups.group_runs(data, variable, swapped, max_x=MAX_CELLS, max_hue=MAX_CELLS)
    if not (runs.hue.name and runs.x.name):
        axis = runs.x.name or runs.hue.name or "none"
        raise InputError(f"a heat map must have two axes with several values besides the sample, got {axis}")
    medians, count = runs.medians, len(runs.col.values)
    known, min_ratio = medians[np.isfinite(medians)], style.MIN_LOG_RATIO[runs.is_error]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    is_log = low > 0.0 and high > min_ratio * low  # with the scale of the colour bar
    norm = LogNorm(low, high) if is_log else Normalize(low, high if high > low else low + (abs(low) or 1.0))
    canvas = make_panels(count, request, (style.COLUMN_WIDTH, 2.6))
    across = len(runs.x.values) * canvas.columns
    write = across <= MAX_WRITTEN[canvas.columns > 1] and len(runs.hue.values) <= 2 * MAX_WRITTEN[0]
    meshes = [axes.imshow(medians[panel], cmap="cividis", norm=norm, aspect="auto", origin="lower")
              for panel, axes in enumerate(canvas.axes)]  # fmt: skip
    canvas.label_panels(runs, runs.x.label)
    for panel, axes in enumerate(canvas.axes):
        axes.grid(visible=False)
        _annotate_cells(axes, runs, panel, norm, write=write)
        for which, role, room in ((axes.xaxis, runs.x, 9), (axes.yaxis, runs.hue, 12)):
            places = range(0, len(role.values), -(-len(role.values) // room))  # as many as fit
            labels = [style.to_drawable(role.values[i]) for i in places]
            crowded = role is runs.x and sum(map(len, labels)) >= 32
            which.set_ticks(places, labels=labels, rotation=90 if crowded else 0)
        axes.set_ylabel(wrap_label(runs.hue.label, 30) if panel % canvas.columns == 0 else "")
    if not groups.is_numeric(data, runs.hue.name):  # strings start at the top, numbers increase upwards
        canvas.axes[0].invert_yaxis()
    if len(known):
        bar = canvas.figure.colorbar(meshes[0], ax=canvas.axes, aspect=40, location="top")
        label = f"median {runs.label}" if runs.over else runs.label
        bar.set_label(wrap_label(label, 38 if count == 1 else 80))
        style.scale_axis(bar.ax, "x", medians, min_ratio)
        if not is_log:  # labels of close numbers are long
            bar.ax.xaxis.set_major_locator(MaxNLocator(nbins=3 if count == 1 else 6))
    empty = (runs.planned.any(axis=-1) & ~runs.present.any(axis=-1)).any()
    canvas.add_footnote(runs.make_footnote("hatched: no run has a value" if empty else ""))
    title = f"{variable} over {runs.x.name} and {runs.hue.name}"
    return canvas.finish(title, "Colour: median of the cell.", runs.describe_extremes(), runs.describe_subject())


def _annotate_cells(axes: Axes, runs: groups.GroupedRuns, panel: int, norm: Normalize, *, write: bool) -> None:
    """Write the median into each cell, with k/n for missing runs.  Hatch a cell without any value."""
    medians = runs.medians[panel]
    for row, column in np.ndindex(medians.shape):
        value = medians[row, column]
        empty = bool(runs.planned[panel, row, column].any()) and not np.isfinite(value)
        if empty:
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor="0.5", linewidth=0, gid="empty"))
        number = f"{value:.3g}".replace("e-0", "e-") if np.isfinite(value) else ""
        text = "\n".join(filter(None, [number, runs.format_missing(panel, row, column)]))
        if write and text:
            dark = np.isfinite(value) and float(norm(value)) < 0.5  # the lower half of cividis
            back = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if empty else None
            look: Any = {"color": "white" if dark else "black", "fontsize": style.find_font_size(), "bbox": back}
            axes.text(column, row, text, ha="center", va="center", **look)
