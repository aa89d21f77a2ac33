"""Plot one number of each run over axes, for example as a distribution, a trend or a heat map."""

import math
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, product
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator

from evogt_study.analysis import runs as study_runs
from evogt_study.analysis.comparison import compare
from evogt_study.analysis.runs import SEED, find_finished_keys, find_points, format_coordinates, select_point
from evogt_study.errors import InputError
from evogt_study.inference.comparisons import GEOMETRIC_MEAN, MARGIN, MEAN, MIN_UNITS, RATIO, WIN
from evogt_study.inference.kernels import Array
from evogt_study.plots import groups, style
from evogt_study.plots.canvas import PlottedFigure, find_requested_size, make_canvas, make_panels, wrap_label
from evogt_study.plots.groups import PlotRequest
from evogt_study.schema.variables import CANDIDATE, Status, read_direction, to_losses, to_status
from evogt_study.study.case_space import join_names

MAX_POINTS_OF_GROUP = 200  # more points hide each other
MAX_GROUPS = 24  # labels of more groups overlap
MIN_RUNS_BEYOND_BOX = 2.0 * 1.959963984540054**2  # 2 z^2 runs beyond a letter value (Hofmann et al. 2017)
MAX_POINTS_WITH_MARKERS = 60  # markers and bars of more points touch
SLOPE_DASHES: tuple[Any, ...] = ("solid", (0, (2.0, 1.0)), (0, (0.7, 0.7)))  # dashes of reference lines
TREND_SPAN = 0.4  # share of the points in a local fit (Cleveland: 0.2 to 0.8)
N_TREND_POINTS = 60  # points of a trend line
MAX_CELLS = 40  # values of an axis of a heat map
MAX_NUMBERS_PER_ROW = 7, 16  # largest number of cells with numbers in a row, for a column and for a page
MAX_SETUPS, MAX_CONCLUSIONS = 24, 3  # rows of a figure, conclusions in an alternative text
_GOLDEN_RATIO = 0.6180339887498949  # the multiples of this number fill an interval evenly


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
    """Draw a sample and its median.  Many runs become boxes of letter values, with points for outer runs."""
    points = sample
    if many and len(sample):
        # the quantiles 2^-i and 1 - 2^-i whose 95 % intervals do not overlap
        tails = 0.5 ** np.arange(2, max(0, int(np.floor(np.log2(len(sample) / MIN_RUNS_BEYOND_BOX)))) + 2)
        ends = np.stack([np.quantile(sample, tails), np.quantile(sample, 1.0 - tails)], axis=-1)
        base = np.array(to_rgb(mark.colour))
        for number, (low, high) in enumerate(ends):  # outer boxes are narrower and lighter
            part = number / max(1, len(ends) - 1)
            half, shade = width * (0.42 - 0.32 * part), 0.65 - 0.5 * part
            axes.fill_between(
                [centre - half, centre + half], low, high, facecolor=shade * base + (1.0 - shade), edgecolor="black",
                linewidth=0.4, zorder=2.9 - 0.02 * number, gid="band",  # below the medians
            )  # fmt: skip
        if len(ends):
            points = sample[(sample < ends[-1, 0]) | (sample > ends[-1, 1])]
    # points with similar values go to different sides, so that no point hides another
    spread = (np.arange(len(points)) * _GOLDEN_RATIO) % 1.0 - 0.5 if len(points) > 1 else 0.0 * points
    part, size = (0.3, 2.0) if many else (0.7, 3.0)
    alpha = 0.55 if len(points) > 1 else 1.0
    style.draw_runs(axes, centre + part * width * spread, points, mark, markersize=size, alpha=alpha)
    if len(sample) > 1:
        bar, median = [centre - 0.45 * width, centre + 0.45 * width], [np.median(sample)] * 2
        if many:  # a white edge on dark boxes
            axes.plot(bar, median, color="white", linewidth=3.0, solid_capstyle="butt", zorder=3)
        axes.plot(bar, median, color="black", linewidth=1.3, solid_capstyle="butt", zorder=3, gid="median")


def draw_dependence(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw values over an axis, a recorded variable or a sampled parameter, with a line through the medians."""
    if study_runs.is_along_sample(data, request.x):
        return draw_trend(data, variable, request)
    if study_runs.find_drawn_dimensions(data) and groups.has_recorded_x(data, request):  # each run has its own x
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
            # a small offset, so that no series hides another
            beside, shift = numbers[panel, one], 0.014 * (one - (len(runs.hue.values) - 1) / 2.0)
            if len(known) and axes.get_xscale() == "log":
                beside = beside * (known.max() / known.min()) ** shift
            elif len(known):
                beside = beside + (known.max() - known.min()) * shift
            _draw_series(axes, runs, (panel, one), numbers[panel, one], beside, medians[panel, one], limits[panel, one])
        # width in inches without labels, in a column and in a third of a page
        style.mark_positions(axes, known, 2.5 if len(canvas.axes) == 1 else 1.5)
    references = _draw_references(canvas.axes, numbers, medians, request.slope)
    choice = find_pilot_choice(data)
    if choice is not None:
        bare = data.assign({variable: choice.broadcast_like(data["run_status"]).astype(float)})
        chosen = (_group_along(bare, variable, request).values == 1.0).any(axis=-1)
        for axes, across, up, here in zip(canvas.axes, numbers, medians, chosen, strict=True):
            ring: Any = {"markersize": 9.0, "markerfacecolor": "none", "markeredgewidth": 1.2}
            axes.plot(across[here], up[here], "o", color="black", zorder=4, gid="chosen", **ring)
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
    """Group the runs along a numeric axis.  If x is a recorded variable, its medians are the numbers along x."""
    if request.x is None or not groups.has_recorded_x(data, request):
        return groups.group_runs(data, variable, request, numeric=True)
    axes = replace(request, x=None)
    runs, other = (groups.group_runs(data, each, axes, numeric=True) for each in (variable, request.x))
    x = replace(runs.x, name=request.x, label=groups.make_label(data[request.x]))
    return replace(runs, numbers=other.medians, x=x)


def find_pilot_choice(pilot: xr.Dataset) -> xr.DataArray | None:
    """Return a mask of the candidates that the pilot has chosen, or None if the result does not show the choice."""
    section: object = None
    with suppress(tomllib.TOMLDecodeError):
        section = tomllib.loads(str(pilot.attrs.get("study", ""))).get("pilot")
    if not isinstance(section, dict) or not section:
        return None
    name, by = str(section.get("minimise", "error")), [*map(str, section.get("by", []))]
    known = {name, "run_status"} <= set(pilot.data_vars) and {*by, CANDIDATE} <= set(pilot.dims)
    if not known or pilot[name].dims != pilot["run_status"].dims:
        return None
    values, ok = pilot[name], to_status(pilot["run_status"]) == Status.ok
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
    """Draw a series: its runs as points or a band, the line through the medians, and the intervals of the medians."""
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
        marker=mark.marker if len(order) <= MAX_POINTS_WITH_MARKERS else None, gid="median",
    )  # fmt: skip
    known = np.isfinite(limits).all(axis=-1) & np.isfinite(beside) & np.isfinite(medians)
    if known.any() and known.sum() <= MAX_POINTS_WITH_MARKERS:
        low, high = limits[known].T
        axes.vlines(beside[known], low, high, colors=mark.colour, linewidth=1.0, alpha=0.9, gid="interval")


def _draw_references(drawn: Sequence[Axes], numbers: Array, medians: Array, slopes: Sequence[float]) -> list[Line2D]:
    """Draw reference lines c x^p through a median of each panel if both scales are logarithmic."""
    if not slopes or any(axes.get_xscale() != "log" or axes.get_yscale() != "log" for axes in drawn):
        return []
    limits = drawn[0].get_ylim()  # reference lines must not extend the scale
    x = np.geomspace(np.nanmin(numbers), np.nanmax(numbers), 50)
    lines = []
    for slope, dashes in zip(slopes, cycle(SLOPE_DASHES), strict=False):
        look: dict[str, Any] = {"color": "0.7", "linewidth": 2.6, "linestyle": dashes, "dash_capstyle": "butt"}
        for axes, across, up in zip(drawn, numbers, medians, strict=True):
            there = np.isfinite(across) & (up > 0.0)
            if there.any():
                # at the largest x^p, errors exceed rounding errors
                end = float(across[there].max() if slope > 0.0 else across[there].min())
                top = float(up[there & (across == end)].max())
                # behind the lines of data, which have zorder 2
                axes.plot(x, top * (x / end) ** slope, zorder=1.5, gid="reference", **look)
        lines.append(Line2D([], [], label=f"slope {slope:g}".replace("-", "−"), **look))
    drawn[0].set_ylim(limits)
    return lines


def draw_scatter(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw a point for each run over x or the rank, with all axes without a role in one cloud."""
    x = request.x or "rank"
    wanted = ("hue", "col") if request.col is not None else ("hue",)
    runs, other = (groups.group_runs(data, name, request, wanted=wanted, pooled=True) for name in (variable, x))
    both = np.isfinite(runs.values) & np.isfinite(other.values) & runs.planned
    canvas = make_panels(len(runs.col.values), request)
    canvas.label_panels(runs, other.label)
    for panel, one in np.ndindex(both.shape[:2]):
        across, up = (each.values[panel, one, 0][both[panel, one, 0]] for each in (other, runs))
        style.draw_runs(canvas.axes[panel], across, up, style.choose_series_style(one), markersize=3.0, alpha=0.6)
    for axes in canvas.axes:
        style.scale_axis(axes, "x", other.values[both], style.MIN_LOG_RATIO[other.is_error])
    canvas.scale_values(runs.values[both], runs.is_error)
    canvas.add_series_legend(runs, lines=False)
    canvas.add_footnote(runs.make_footnote())
    alt = "No run has a value."
    if both.any():
        ends = [(each.title, each.values[both]) for each in (other, runs)]
        ranges = ", ".join(f"{title} from {values.min():.3g} to {values.max():.3g}" for title, values in ends)
        alt = f"A cloud of {both.sum():,} points: {ranges}."
    return canvas.finish(f"{variable} against {x}", "Point: one run.", alt)


def draw_trend(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw each run of a sample over each sampled parameter, or over x, with a local linear fit."""
    groups.get_numeric_array(data, variable)
    here = select_point(data, request.at, groups.find_axes(data, variable))
    over = request.over if request.over is not None else study_runs.find_sample_dimensions(here[variable])[:1]
    over = tuple(dim for dim in over if dim != SEED)
    if not over:
        raise InputError(f"`over` must name the dimension of a sample, got no sample of `{variable}`")
    whole = (*over, SEED) if SEED in here[variable].dims else over
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
        if strings:  # a small offset, so that no run hides another
            x = x + 0.5 * (np.arange(len(x)) * _GOLDEN_RATIO % 1.0 - 0.5)
            axes.set_xticks(range(len(strings)), labels=[style.to_drawable(each) for each in strings])
            axes.set_xlim(-0.6, len(strings) - 0.4)
        else:
            style.scale_axis(axes, "x", points)
            if not alone and axes.get_xscale() == "log" and np.ptp(np.log10(points)) > 3:
                room = 4 if canvas.figure.get_figwidth() >= style.PAGE_INCHES else 3  # labels without overlap
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
    """Return a locally linear fit (Cleveland 1979) of y, or of logarithms, at `N_TREND_POINTS` values of x."""
    known = np.isfinite(x) & np.isfinite(y) & ((x > 0.0) | (not log_x)) & ((y > 0.0) | (not log_y))
    x, y = (np.log(each[known]) if log else each[known] for each, log in ((x, log_x), (y, log_y)))
    if len(np.unique(x)) < 4:
        return np.empty(0), np.empty(0)
    at = np.linspace(x.min(), x.max(), N_TREND_POINTS)
    nearest = min(len(x), max(3, int(np.ceil(TREND_SPAN * len(x)))))
    found = np.empty(N_TREND_POINTS)
    for place, centre in enumerate(at):
        distance = np.abs(x - centre)
        # beyond the last point, because its weight would be zero, and positive if all points are equal
        reach = max(float(np.partition(distance, nearest - 1)[nearest - 1]) * 1.0001, 1e-300)
        weight = np.sqrt(np.clip(1.0 - (distance / reach) ** 3, 0.0, None) ** 3)  # `lstsq` squares it
        matrix = np.stack([np.ones_like(x), x - centre], axis=1) * weight[:, None]
        found[place] = np.linalg.lstsq(matrix, y * weight)[0][0]  # the constant is the value at the centre
    return np.exp(at) if log_x else at, np.exp(found) if log_y else found


def draw_heat_map(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw medians over two axes as colours, with k/n for missing runs and hatches for cells without a value."""
    runs = groups.group_runs(data, variable, request, max_x=MAX_CELLS, max_hue=MAX_CELLS)
    # prefer numbers along y and strings for panels
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
    is_log = low > 0.0 and high > min_ratio * low  # also the scale of the colour bar
    norm = LogNorm(low, high) if is_log else Normalize(low, high if high > low else low + (abs(low) or 1.0))
    canvas = make_panels(count, request, (style.COLUMN_INCHES, 2.6))
    across = len(runs.x.values) * canvas.columns
    write = across <= MAX_NUMBERS_PER_ROW[canvas.columns > 1] and len(runs.hue.values) <= 2 * MAX_NUMBERS_PER_ROW[0]
    meshes = [axes.imshow(medians[panel], cmap="cividis", norm=norm, aspect="auto", origin="lower")
              for panel, axes in enumerate(canvas.axes)]  # fmt: skip
    canvas.label_panels(runs, runs.x.label)
    for panel, axes in enumerate(canvas.axes):
        axes.grid(visible=False)
        _annotate_cells(axes, runs, panel, norm, write=write)
        for which, role, room in ((axes.xaxis, runs.x, 9), (axes.yaxis, runs.hue, 12)):
            places = range(0, len(role.values), -(-len(role.values) // room))  # at most `room` labels
            labels = [style.to_drawable(role.values[i]) for i in places]
            crowded = role is runs.x and sum(map(len, labels)) >= 32
            which.set_ticks(places, labels=labels, rotation=90 if crowded else 0)
        axes.set_ylabel(wrap_label(runs.hue.label, 30) if panel % canvas.columns == 0 else "")
    if not groups.is_numeric(data, runs.hue.name):  # list strings from the top
        canvas.axes[0].invert_yaxis()
    if len(known):
        bar = canvas.figure.colorbar(meshes[0], ax=canvas.axes, aspect=40, location="top")
        label = f"median {runs.label}" if runs.over else runs.label
        bar.set_label(wrap_label(label, 38 if count == 1 else 80))
        style.scale_axis(bar.ax, "x", medians, min_ratio)
        if not is_log:  # few labels, because close numbers have long labels
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
            dark = np.isfinite(value) and float(norm(value)) < 0.5  # the lower half of cividis is dark
            back = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if empty else None
            look: Any = {"color": "white" if dark else "black", "fontsize": style.find_font_size(), "bbox": back}
            axes.text(column, row, text, ha="center", va="center", **look)


def draw_comparison(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw the effect of each axis value over the leader of its setup."""
    made = request.compared if request.compared is not None else compare_axis(data, variable, request)
    names, neutral = format_coordinates(made, made.attrs["dim"]), 1.0 if made.attrs["scale"] == RATIO else 0.0
    places, dims = [*np.ndindex(made["leader"].shape)], made["leader"].dims
    more, cells = len(places) - MAX_SETUPS, [made.isel(dict(zip(dims, at, strict=True))) for at in places[:MAX_SETUPS]]
    # labels take up to 0.4 of the width, and long labels need the width of a page
    setups, size = _list_setups(made)[:MAX_SETUPS], find_requested_size(request)
    per_inch = 72.0 / (0.53 * style.find_font_size())
    width = (size or (style.COLUMN_INCHES,))[0]
    longest = max((len(value) for setup in setups for value in setup), default=0)
    if size is None and longest > int(0.4 * width * per_inch):
        width = style.PAGE_INCHES
    room = int(0.4 * width * per_inch)
    labels = [wrap_label(style.to_drawable(", ".join(each) or f"all of {variable}", 3 * room), room) for each in setups]
    left = max(len(line) for label in labels for line in label.split("\n")) / per_inch + 0.35  # with ticks
    beside = max(16, int(14.2 * 8.0 / style.find_font_size("axes.labelsize") * (width - left)))
    scale, better = str(made.attrs["scale"]), str(made.attrs["better"]) or "lower"
    kind = {RATIO: "ratio", MARGIN: "wins less losses"}.get(scale, "difference")
    kinds = {WIN: f"median {kind}", MEAN: f"{kind} of means", GEOMETRIC_MEAN: "ratio of geometric means"}
    leader = {"lower": "lowest", "higher": "highest"}.get(better, better)
    effect = f"{kinds[str(made.attrs['estimand'])]} {'to' if scale == RATIO else 'from'} the {leader}"
    xlabel = wrap_label(f"{groups.make_label(data[variable])}: {effect}", beside)
    lines = max(label.count("\n") + 1 for label in labels)
    pitch = max(0.16 * max(1, len(names) - 1) ** 0.5, 0.04 + 0.125 * lines)
    height = 0.9 + pitch * len(cells) + 0.14 * max(0, xlabel.count("\n") - 1)
    canvas = make_canvas(1, 1, (width, height), request)
    (axes,) = canvas.axes
    drawn = np.concatenate([np.zeros(0), *(_draw_row(axes, row, cell) for row, cell in enumerate(cells))])
    axes.axvline(neutral, color=style.NOTE_COLOUR, linewidth=0.8)
    style.scale_axis(axes, "x", drawn, 3.0 if neutral else np.inf)
    axes.set_yticks(range(len(cells)), labels=labels)
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlabel(xlabel)
    marks = [style.choose_series_style(one) for one in range(len(names))]
    handles = [Line2D([], [], color=m.colour, marker=m.marker, markersize=4.5, linestyle="none") for m in marks]
    title = style.to_drawable(str(made.attrs["dim"]), groups.MAX_LABEL)
    canvas.add_legend(handles, [style.to_drawable(name) for name in names], title, lines=False)
    few = sum(not _has_effect(cell) for cell in cells)
    texts = [
        f"{100.0 * made.attrs['confidence']:g} % confidence intervals",
        "open marker: not significantly different from the leader",
        f"{few} of {len(cells)} setups have too few values to compare" if few else "",
        f"{more} more setups are not shown" if more > 0 else "",
    ]
    canvas.add_footnote("; ".join(filter(None, texts)))
    meaning = "Effect of each value over the leader of its setup, with confidence intervals."
    return canvas.finish(f"comparison of {variable}", meaning, *_describe_comparison(data, variable, request, made))


def _describe_comparison(data: xr.Dataset, variable: str, request: PlotRequest, made: xr.Dataset) -> tuple[str, str]:
    """Return the alternative text with the first conclusions, and a sentence on the compared values."""
    texts = made["conclusion"].values.ravel().tolist()
    lines = [f"{name}: {text}" if name else text for name, text in zip(name_setups(made), texts, strict=True)]
    if len(texts) > MAX_CONCLUSIONS:
        lines[MAX_CONCLUSIONS:] = [f"{len(texts) - MAX_CONCLUSIONS} more setups."]
    over = tuple(str(made.attrs["over"]).split())
    chosen = replace(request, x=None, hue=made.attrs["dim"], col=None, over=over)
    runs = groups.group_runs(data, variable, chosen, wanted=("hue",), pooled=True, max_hue=None)
    at = "".join(f", at {name} = {value}" for name, value in request.at.items())
    listed = (
        (name, join_names(format_coordinates(made, str(name)), groups.MAX_LISTED)) for name in made["leader"].dims
    )
    setups = " and ".join(f"{name} = {values}" for name, values in listed)
    against = f", for {setups}" if setups else ""
    sizes = ", ".join(f"{data.sizes[name]:,} values of {name}" for name in over)
    counts = runs.describe_counts()
    subject = f"{runs.title} by {runs.hue.list_values()}{against}, over {sizes}{at}; {counts}"
    return f"Comparison by {made.attrs['dim']}. {' '.join(lines)} {counts}.", subject


def _has_effect(cell: xr.Dataset) -> bool:
    """Return True if the effect of a setup has the scale of the figure."""
    return bool(cell["leader"].item()) and cell["scale"].item() == cell.attrs["scale"]


def _draw_row(axes: Axes, row: int, cell: xr.Dataset) -> Array:
    """Draw the leader of a setup and all other values with intervals.  Return the drawn numbers."""
    if not _has_effect(cell):
        return np.zeros(0)
    effects, limits, p = (cell[name].values for name in ("over_leader", "over_leader_ci", "p_over_leader"))
    leader, neutral = str(cell["leader"].item()), 1.0 if cell.attrs["scale"] == RATIO else 0.0
    names, drawn = format_coordinates(cell, str(cell.attrs["dim"])), [np.zeros(0)]
    for number, name in enumerate(names):
        colour, _, marker = style.choose_series_style(number)
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none"}
        if name == leader:
            axes.plot([neutral], [row], markersize=4.5, gid="leader", zorder=2.1, **look)
        elif np.isfinite(effects[number]):
            height = row + 0.5 * ((number + 0.5) / len(names) - 0.5)
            if np.isfinite(limits[number]).all():
                axes.plot(limits[number], [height] * 2, color=colour, linewidth=1.2, gid="interval")
                drawn.append(limits[number])
            inside = colour if p[number] <= 1.0 - cell.attrs["confidence"] + 1e-12 else "white"
            axes.plot(effects[[number]], [height], markersize=4.0, gid="effect", markerfacecolor=inside, **look)
            drawn.append(effects[[number]])
    return np.concatenate(drawn)


def compare_axis(data: xr.Dataset, variable: str, request: PlotRequest) -> xr.Dataset:
    """Compare the values of the axis `hue`, by default the first axis of strings, in each setup."""
    groups.get_numeric_array(data, variable)
    here, axis, over = _choose_comparison(data, variable, request)
    if axis is None:
        least = _find_min_units(data[variable])
        raise InputError(f"`hue` must be an axis with several values, and `over` must have {least} points")
    return compare(here[variable], axis, over, planned=find_finished_keys(here))


def name_setups(found: xr.Dataset) -> list[str]:
    """Return the names of the setups of a comparison, such as "epsilon = 0.1, N = 20"."""
    return [", ".join(each) for each in _list_setups(found)]


def _list_setups(found: xr.Dataset) -> list[list[str]]:
    """Return texts such as "epsilon = 0.1" for each setup and each axis with several values."""
    names = [str(name) for name in found["leader"].dims if found.sizes[name] > 1]
    values = product(*(format_coordinates(found, name) for name in names))
    return [[f"{name} = {value}" for name, value in zip(names, each, strict=True)] for each in values]


def _find_min_units(values: xr.DataArray) -> int:
    """Return the smallest number of units for a test of the estimand that a variable declares."""
    return MIN_UNITS[read_direction(values)[1] or WIN]


def _choose_comparison(
    data: xr.Dataset, variable: str, request: PlotRequest
) -> tuple[xr.Dataset, str | None, tuple[str, ...]]:
    """Return the selected runs, the axis to compare and the sample.  The axis is None if no axis is suitable."""
    here = select_point(data, request.at, groups.find_axes(data, variable))
    axes, over = groups.find_axes(here, variable), tuple(request.over or (SEED,))
    named = [request.hue] if request.hue in axes else [name for name in axes if data[name].dtype.kind in "OU"]
    found = next((name for name in named if name and here.sizes[name] > 1 and name not in over), None)
    few = not set(over) <= set(axes) or math.prod(here.sizes[name] for name in over) < _find_min_units(here[variable])
    return here, None if few else found, over


def has_comparison(data: xr.Dataset, variable: str, request: PlotRequest) -> bool:
    """Return True if two axis values of a setup have enough runs with values."""
    here, axis, over = _choose_comparison(data, variable, request)
    if axis is None:
        return False
    present = (abs(here[variable]) < np.inf).sum(over)
    return bool(((present >= _find_min_units(here[variable])).sum(axis) > 1).any())
