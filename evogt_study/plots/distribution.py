"""Plot a variable over the seeds: a point for each run, or letter values if there are too many runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import COUNT, Given, labelled, laid_out, marker_legend, note, panels, titled
from evogt_study.plots.groups import Arranged, Places, arranged
from evogt_study.plots.style import QUIET, Style, label_size, plain, scale_values, style, tick_size

TOLD_APART = 2.0 * 1.959963984540054**2
"""Runs at the depth of a letter value from which on its 95 % interval ends before the next one, 2 z^2 (Hofmann, Wickham
and Kafadar, J. Comput. Graph. Stat. 26, 2017)."""
WIDEST, NARROWEST = 0.84, 0.2
"""Widths of the boxes of the fourths and of the last letter values, in parts of a group's."""
EACH = 200  # runs of one group up to which every one is a point: more hide each other
MOST_GROUPS = 24  # along one panel: the labels of more meet
MOST_COUNTED = 24  # groups up to which each says k/n, for the same reason


def distribution(
    data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None
) -> Figure:
    """The values of each group of runs side by side: points, with the median as a bar and its 95 % interval as a line.

    Where a group has more than `EACH` runs all have boxes of letter values, and points for the runs beyond the last.
    Groups that lack runs say k/n above them; the scale is logarithmic for an error, or over three decades.
    Raises InputError for axes or variables that are none.
    """
    runs = arranged(data, variable, places or Places(), most=MOST_GROUPS)
    limits = runs.median_intervals()
    canvas = panels(len(runs.panels.labels), height=2.3, ax=ax)
    drawn = canvas.axes
    for number, axes in enumerate(drawn):
        above = _groups(axes, runs, number, limits[number])
        axes.set_title(plain(runs.panels.describe(number)), fontsize=label_size(), pad=above)
    scale_values(drawn[0], "y", runs.values, error=runs.is_error)
    drawn[0].set_ylabel(labelled(runs.label, 32), fontsize=label_size())
    for axes in drawn:
        axes.set_xlabel(
            titled(runs.along.title, runs.along.name, canvas.characters(48), runs.along.short), fontsize=label_size()
        )
        axes.xaxis.grid(visible=False)
    marker_legend(canvas, runs)
    note(canvas, runs.footnote(_told(runs, bool(np.isfinite(limits).any())), runs.lacking_told()))
    return laid_out(canvas)


def _told(runs: Arranged, lines: bool) -> str:
    if runs.largest <= 1:
        return ""
    over = f"over {', '.join(runs.over)}" if runs.over else ""
    median = "bar: median" + ("; black line: its 95 % interval" if lines else "")
    if runs.largest <= EACH:
        return f"points: runs {over}; {median}"
    return f"boxes: quartiles, eighths, sixteenths, ... {over}; {median}; points: runs beyond"


def _groups(axes: Axes, runs: Arranged, panel: int, limits: Array) -> float | None:
    """The groups of a panel, and the points that their counts need above them; None where there are no counts."""
    series, places = len(runs.series.labels), len(runs.along.labels)
    width = 0.8 / series
    counts: dict[float, str] = {}
    for one in range(series):
        mark = style(one)
        for place in range(places):
            centre = place + (one - (series - 1) / 2.0) * width
            sample = runs.sample(panel, one, place)
            if len(sample):
                _group(axes, centre, width, sample, mark, many=runs.largest > EACH)
            if np.isfinite(limits[one, place]).all():
                ends: dict[str, Any] = {"color": "black", "linewidth": 1.0, "zorder": 3.4, "gid": "interval"}
                axes.plot([centre - 0.34 * width] * 2, limits[one, place], **ends)
            if lacking := runs.lacking(panel, one, place):
                counts[centre] = lacking
    labels = [plain(label) for label in runs.along.labels]
    room = 60 if len(runs.panels.labels) == 1 else 30
    crowded = sum(len(label) + 2 for label in labels) > room
    axes.set_xticks(range(places), labels=labels, rotation=90 if crowded and max(map(len, labels)) > 1 else 0)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, places - 0.4)
    return _incomplete(axes, counts, width / (places + 0.2)) if counts and series * places <= MOST_COUNTED else None


def _group(axes: Axes, centre: float, width: float, sample: Array, mark: Style, *, many: bool) -> None:
    """One sample and its median: every run a point, or where some sample has too many, those beyond its boxes."""
    shown = sample
    if many:
        ends = letter_values(sample)
        letter_boxes(axes, centre, width, ends, mark.colour)
        if len(ends):
            shown = sample[(sample < ends[-1, 0]) | (sample > ends[-1, 1])]
    # neighbours in value go to different sides, so that they do not hide each other
    # multiples of the golden ratio fill the width evenly
    spread = (np.arange(len(shown)) * 0.6180339887498949) % 1.0 - 0.5 if len(shown) > 1 else np.zeros(len(shown))
    axes.plot(
        centre + (0.3 if many else 0.7) * width * spread, shown, color=mark.colour, marker=mark.marker,
        linestyle="none", markersize=2.0 if many else 3.0, markeredgewidth=0.0,
        alpha=0.55 if len(shown) > 1 else 1.0, gid="runs",
    )  # fmt: skip
    if len(sample) > 1:
        bar = [centre - 0.45 * width, centre + 0.45 * width]
        if many:  # which is drawn on a dark ground
            axes.plot(
                bar, [np.median(sample)] * 2, color="white", linewidth=3.0, solid_capstyle="butt", zorder=3,
            )  # fmt: skip
        axes.plot(
            bar, [np.median(sample)] * 2, color="black", linewidth=1.3, solid_capstyle="butt", zorder=3, gid="median"
        )


def letter_values(sample: Array) -> Array:
    """Lower and upper fourths, eighths, sixteenths, ...: quantiles 2^-i and 1 - 2^-i for i = 2, 3, ..., (k, 2).

    As many as their intervals tell apart, none of fewer than 16 runs; beyond the last are 4 to 8 runs at either end.
    """
    count = max(0, int(np.floor(np.log2(max(len(sample), 1) / TOLD_APART))))
    tails = 0.5 ** np.arange(2, count + 2)
    return np.stack([np.quantile(sample, tails), np.quantile(sample, 1.0 - tails)], axis=-1)


def letter_boxes(axes: Axes, centre: float, width: float, ends: Array, colour: str) -> None:
    """A box between the ends of each letter value: the further out, the narrower and the lighter."""
    base = np.array(to_rgb(colour))
    for number, (low, high) in enumerate(ends):
        part = number / max(1, len(ends) - 1)
        half = 0.5 * width * (WIDEST + (NARROWEST - WIDEST) * part)
        shade = 0.65 - 0.5 * part
        axes.fill_between(
            [centre - half, centre + half], low, high, facecolor=shade * base + (1.0 - shade), edgecolor="black",
            linewidth=0.4, zorder=2.9 - 0.02 * number, gid="band",  # below medians, at 3; inner boxes on outer ones
        )  # fmt: skip


def _incomplete(axes: Axes, counts: dict[float, str], share: float) -> float:
    """k/n above groups that lack runs, upright where it is wider than a group, which has a `share` of the axes.

    Returns the points that it needs above the axes.
    """
    # figures are 0.64 of a font's size wide, and a gap is as wide as one
    wide = 0.64 * tick_size() * (max(map(len, counts.values())) + 1)
    inches = share * axes.get_window_extent().width / axes.figure.dpi
    upright = wide > 72.0 * inches
    for centre, text in counts.items():
        axes.text(
            centre, 1.02, text, transform=axes.get_xaxis_transform(), fontsize=tick_size(), color=QUIET, ha="center",
            va="bottom", rotation=90 if upright else 0, clip_on=False, gid=COUNT,
        )  # fmt: skip
    return wide if upright else 2.0 * tick_size()
