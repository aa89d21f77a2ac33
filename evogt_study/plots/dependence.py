"""Plot a variable against an axis, a sampled parameter or another variable.

`dependence` draws runs, medians and lines of known slope.  `scatter` draws one point for each run.  `trend` draws the
runs of a sample against each of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from evogt_study.analysis.design import along_sample, drawn_dimensions
from evogt_study.analysis.summary_table import choice_of_pilot
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import (
    COUNT,
    Given,
    grid,
    labelled,
    laid_out,
    line_legend,
    marker_legend,
    new_canvas,
    note,
    panels,
    titled,
)
from evogt_study.plots.groups import MAX_PANELS, Arranged, Places, arranged, is_measured, sampled_runs, short_label
from evogt_study.plots.style import (
    COLUMN_WIDTH,
    TEXT_WIDTH,
    Style,
    label_size,
    marked,
    plain,
    scale_axis,
    scale_values,
    style,
    tick_size,
)

SPAN = 0.4
"""Share of the points behind a value of the trend.  Cleveland uses 0.2 to 0.8.  With 50 points, 20."""
PLACES = 60  # points of the line of a trend
MOST = 2000  # points of one series and panel of a scatter
WANTED = ("by", "panel")
EACH = 200  # largest number of runs at one place that are points: more hide each other
HALO = [withStroke(linewidth=1.8, foreground="white")]  # of text on lines
FEW_LACKING = 12  # largest number of places of a panel with k/n: more counts overlap
COUNT_HEIGHT = 0.075  # of a count, in heights of a panel: its letters and a gap
FEW = 60  # largest number of places with markers and bars: more touch each other
REFERENCES: tuple[Any, ...] = ("solid", (0, (2.0, 1.0)), (0, (0.7, 0.7)))
"""Dashes of reference lines, which are wide and light to be visible behind data."""
SLOPES: Mapping[str, tuple[float, ...]] = {"dt": (1.0, 2.0), "tau": (0.5,), "N": (-2.0, -4.0), "unknowns": (-2.0,)}
"""Default reference slopes by parameter: orders of the time steps, sqrt(tau), algebraic rates in N."""


def dependence(
    data: xr.Dataset,
    variable: str = "error",
    places: Places | None = None,
    slopes: Sequence[float] | None = None,
    *,
    ax: Given = None,
) -> Figure:
    """Values against the numbers of an axis: small points for the runs, a line through the medians of each series.

    Bars at the medians are their 95 % intervals, where there are at least six seeds and at most `FEW` places.

    With more than `EACH` runs at a place, a band between their 5 % and 95 % replaces the points.  The
    vertical scale is logarithmic for an error, or over three decades, and the other one if the numbers are positive and
    spread; if both are, `slopes` p (None: those in `SLOPES` for the parameter)
    are drawn as lines c x^p behind the data, through the largest median at the end where they are highest.  The choices
    of a pilot have rings.

    A recorded variable `along`, such as a number of unknowns, has its medians over the same groups of runs; of a sample
    it is drawn as `scatter`, and along a sampled parameter the picture is `trend`.  Raises InputError for a parameter
    without numbers, and for axes or variables that are none.
    """
    wish = places or Places()
    if along_sample(data, wish.along):
        return trend(data, variable, wish, ax=ax)
    if against_each_run(data, wish):
        return scatter(data, str(wish.along), variable, replace(wish, along=None), ax=ax)
    runs = along_numbers(data, variable, wish)
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    numbers = np.zeros(runs.planned.shape[:3]) if runs.x is None else runs.x
    scale_values(drawn[0], "y", runs.values, error=runs.is_error)
    medians, limits = runs.medians, runs.median_intervals()
    for number, axes in enumerate(drawn):
        scale_axis(axes, "x", numbers[np.isfinite(numbers)])
        for one in range(len(runs.series.labels)):
            where = (number, one)
            beside = _beside(axes, numbers, number, one)
            _series(axes, runs, where, numbers[where], beside, medians[where], style(one))
            _intervals(axes, beside, medians[where], limits[where], style(one))
        # inches that the labels to the left leave of a column, and of a third of a page
        marked(axes, numbers[np.isfinite(numbers)], 2.5 if len(drawn) == 1 else 1.5)
        axes.set_title(plain(runs.panels.describe(number)), fontsize=label_size())
        across = titled(
            runs.along.title, runs.along.name, canvas.characters(48 if len(drawn) == 1 else 30), runs.along.short
        )
        axes.set_xlabel(across, fontsize=label_size())
    drawn[0].set_ylabel(labelled(runs.label, 32), fontsize=label_size())
    wanted = SLOPES.get(runs.along.name, ()) if slopes is None else tuple(slopes)
    references = _references(drawn, numbers, medians, wanted)
    choice = _chosen(data, variable, wish)
    if choice is not None:
        _rings(drawn, numbers, medians, choice)
    for number, axes in enumerate(drawn):
        _incomplete(axes, runs, number, numbers, medians)
    line_legend(canvas, runs, *references, markers=True)
    ring = "" if choice is None else "ring: the pilot's choice"
    note(canvas, runs.footnote(ring, _told(runs, bool(np.isfinite(limits).any())), runs.lacking_told()))
    return laid_out(canvas)


def against_each_run(data: xr.Dataset, places: Places) -> bool:
    """Test for a measured `along` of a random sample, in which no two points form a group."""
    return bool(drawn_dimensions(data)) and is_measured(data, places)


def along_numbers(data: xr.Dataset, variable: str, places: Places) -> Arranged:
    """The runs over a numeric axis; where `along` is measured in each run, its medians are the numbers along."""
    name = places.along
    if name is None or not is_measured(data, places):
        return arranged(data, variable, places, numeric=True)
    groups = replace(places, along=None)
    runs, other = (arranged(data, each, groups, numeric=True) for each in (variable, name))
    return replace(
        runs, x=other.medians, along=replace(runs.along, name=name, title=other.title, short=short_label(data[name]))
    )


def _told(runs: Arranged, bars: bool) -> str:
    if runs.largest <= 1:
        return ""
    over = f"over {', '.join(runs.over)}"
    points = f"points: runs {over}" if runs.largest <= EACH else f"band: 5 to 95 % {over}"
    return f"line: median; {'bars: its 95 % interval; ' if bars else ''}{points}"


def _beside(axes: Axes, numbers: Array, panel: int, one: int) -> Array:
    """Return places of the points of a series, a little beside their number, so that series do not hide each other."""
    own: Array = numbers[panel, one]
    shift = 0.014 * (one - (numbers.shape[1] - 1) / 2.0)
    if not np.isfinite(numbers).any():
        return own
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    if axes.get_xscale() == "log":
        return np.asarray(own * (high / low) ** shift)
    return np.asarray(own + (high - low) * shift)


def _series(
    axes: Axes, runs: Arranged, where: tuple[int, int], x: Array, beside: Array, medians: Array, mark: Style
) -> None:
    samples = [runs.sample(*where, place) for place in range(len(x))]
    there = np.array([len(sample) > 0 for sample in samples]) & np.isfinite(x)
    order = np.argsort(x[there], kind="stable")
    if runs.largest > EACH and there.any():
        band = np.array([np.quantile(samples[i], [0.05, 0.95]) for i in np.flatnonzero(there)[order]]).T
        axes.fill_between(x[there][order], *band, color=mark.colour, alpha=0.2, linewidth=0)
    elif runs.largest > 1 and there.any():
        points = [(beside[i], value) for i in np.flatnonzero(there) for value in samples[i]]
        axes.plot(
            *np.array(points).T, color=mark.colour, marker=mark.marker, linestyle="none", markersize=2.2, alpha=0.4,
            markeredgewidth=0.0, gid="runs",
        )  # fmt: skip
    axes.plot(
        x[there][order], medians[there][order], color=mark.colour, linestyle=mark.dashes, markersize=4.2, linewidth=1.2,
        marker=mark.marker if there.sum() <= FEW else None, gid="median",
    )  # fmt: skip


def _intervals(axes: Axes, beside: Array, medians: Array, limits: Array, mark: Style) -> None:
    """Bars from the lower to the upper end of the intervals; none where there are many places."""
    there = np.isfinite(limits).all(axis=-1) & np.isfinite(beside) & np.isfinite(medians)
    if there.any() and there.sum() <= FEW:
        bars = axes.vlines(
            beside[there], limits[there, 0], limits[there, 1], colors=mark.colour, linewidth=1.0, alpha=0.9
        )
        bars.set_gid("interval")


def _incomplete(axes: Axes, runs: Arranged, panel: int, numbers: Array, medians: Array) -> None:
    """k/n beside the median of each place that lacks runs, or at the foot where there is none, if these are few.

    Counts that would meet at one place are moved up.  The scales have to be settled.
    """
    counts: dict[float, list[tuple[float, str, str]]] = {}  # at each number: height, text, colour
    for one in range(len(runs.series.labels)):
        texts = [runs.lacking(panel, one, place) for place in range(numbers.shape[-1])]
        for place in np.flatnonzero(np.isfinite(numbers[panel, one]) & np.array([bool(text) for text in texts])):
            entry = (_height(axes, medians[panel, one, place]), texts[place], style(one).colour)
            counts.setdefault(float(numbers[panel, one, place]), []).append(entry)
    if sum(map(len, counts.values())) > FEW_LACKING:
        return  # the small print counts them
    for x, entries in counts.items():
        free, last = -np.inf, x == np.nanmax(numbers) > np.nanmin(numbers)  # which has no room to its right
        for height, text, colour in sorted(entries):
            free = max(height + 0.04, free)
            axes.annotate(
                text, (x, free), xycoords=axes.get_xaxis_transform(), xytext=(-3 if last else 3, 0),
                textcoords="offset points", ha="right" if last else "left", fontsize=tick_size(), color=colour,
                annotation_clip=False, gid=COUNT, path_effects=HALO,
            )  # fmt: skip
            free += COUNT_HEIGHT


def _height(axes: Axes, value: float) -> float:
    """Height of a value in its panel, from 0 at the foot to 1; at the foot where there is none."""
    if not np.isfinite(value):
        return 0.0
    corner, _ = axes.get_xlim(), axes.get_ylim()  # which settles both
    return float(axes.transAxes.inverted().transform(axes.transData.transform((corner[0], value)))[1])


def _references(drawn: Sequence[Axes], numbers: Array, medians: Array, slopes: Sequence[float]) -> list[Line2D]:
    """Lines c x^p behind the data, through a median of each panel; none where a scale is not logarithmic."""
    if any(axes.get_xscale() != "log" or axes.get_yscale() != "log" for axes in drawn):
        return []
    limits = drawn[0].get_ylim()  # of the data: a line that leaves them must not stretch the scale
    x = np.geomspace(np.nanmin(numbers), np.nanmax(numbers), 50)
    lines = []
    for slope, dashes in zip(slopes, cycle(REFERENCES), strict=False):
        look: dict[str, Any] = {"color": "0.7", "linewidth": 2.6, "linestyle": dashes, "dash_capstyle": "butt"}
        for axes, across, up in zip(drawn, numbers, medians, strict=True):
            point = anchor(across, up, slope)
            if point is not None:
                # 1.5: lines of data have 2
                axes.plot(x, point[1] * (x / point[0]) ** slope, zorder=1.5, gid="reference", **look)
        lines.append(Line2D([], [], label=f"slope {slope:g}".replace("-", "−"), **look))
    drawn[0].set_ylim(limits)
    return lines


def anchor(numbers: Array, medians: Array, slope: float) -> tuple[float, float] | None:
    """The largest median at that end of the numbers, (S, X) both, where x^slope is largest; None without any.

    At this end, of large time steps or of few features, errors are above the rounding that ends a slope.
    """
    there = np.isfinite(numbers) & (medians > 0.0)
    if not there.any():
        return None
    end = float(numbers[there].max() if slope > 0.0 else numbers[there].min())
    return end, float(medians[there & (numbers == end)].max())


def _chosen(data: xr.Dataset, variable: str, places: Places) -> npt.NDArray[np.bool_] | None:
    """Mask of the groups, (P, S, X), that a pilot has chosen; None for runs of no pilot."""
    mask = choice_of_pilot(data)
    if mask is None:
        return None
    bare = data.assign({variable: mask.broadcast_like(data["run_status"]).astype(float)})
    return np.asarray((along_numbers(bare, variable, places).values == 1.0).any(axis=-1))


def _rings(drawn: Sequence[Axes], numbers: Array, medians: Array, choice: npt.NDArray[np.bool_]) -> None:
    """A ring about the median of each group of a choice."""
    for axes, across, up, here in zip(drawn, numbers, medians, choice, strict=True):
        axes.plot(
            across[here], up[here], marker="o", markersize=9.0, markerfacecolor="none", markeredgecolor="black",
            markeredgewidth=1.2, linestyle="none", zorder=4, gid="chosen",
        )  # fmt: skip


def scatter(
    data: xr.Dataset, across: str, variable: str = "error", places: Places | None = None, *, ax: Given = None
) -> Figure:
    """A point for each run, `across` horizontally and `variable` vertically.

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
        scale_values(axes, "x", other.values[both], error=other.is_error)
        axes.set_title(plain(runs.panels.describe(number)), fontsize=label_size())
        axes.set_xlabel(labelled(other.label, 48), fontsize=label_size())
    scale_values(drawn[0], "y", runs.values[both], error=runs.is_error)
    drawn[0].set_ylabel(labelled(runs.label, 32), fontsize=label_size())
    marker_legend(canvas, runs)
    note(canvas, runs.footnote(f"{left_out:,} of them left out, evenly" if left_out else ""))
    return laid_out(canvas)


def rank_error(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Each run's error against the rank of its retained space.  Raises InputError for an axis that is none."""
    return scatter(data, "rank", variable, places, ax=ax)


def trend(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Draw a panel for each sampled parameter, or for `along` only, with every run and a locally linear fit.

    The fit is on the scales of the figure.  Raises InputError where
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
    scale_values(drawn[0], "y", runs.values, error=runs.is_error)
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

    (Cleveland, J. Am. Stat. Assoc. 74, 1979, without robustness), on logarithms if `log_x` or `log_y`; empty below
    four different x.
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
