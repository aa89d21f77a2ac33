"""A mean and its interval against the number of seeds: whether there are enough of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.histories import WANTED, incomplete_told
from evogt_study.analysis.plots.parts.arranged import Arranged, Places, arranged
from evogt_study.analysis.plots.parts.canvas import Canvas, Given, laid_out, note, panels
from evogt_study.analysis.plots.parts.labels import labelled
from evogt_study.analysis.plots.parts.legends import line_legend
from evogt_study.analysis.plots.parts.style import label_size, logarithmic, plain, style
from evogt_study.errors import InputError
from evogt_study.inference.intervals import CONFIDENCE, Interval, interval
from evogt_study.inference.kernels import Array, kernel_of
from evogt_study.inference.tails import HEAVY, tail_index

Key = tuple[int, int]
Curve = tuple[Array, Array, Array, Array]
"""Sizes n, the number, and both ends of its interval."""

STEPS = 12
"""Sample sizes at which the interval is computed: as many as are told apart on a panel three inches wide."""
MOST = 2000
"""Runs of a sample that are used: beyond them a 95 % interval is a line, and resampling takes seconds."""


def settling(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Mean over the first n runs with a value of each series, with its 95 % interval from six on, against n.

    The runs are taken in the order of the file, at most 2,000 of them.  Where the mean of a series is not known, for a
    heavy tail, medians stand in the picture instead.  Raises InputError for a sample of fewer than three planned runs,
    and for axes or variables that are none.
    """
    runs, of, curves = growing(data, variable, places or Places(), 3)
    count = int(runs.planned.sum(axis=-1).max(initial=0))
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    for (number, one), (sizes, middle, low, high) in curves.items():
        axes, mark = drawn[number], style(one)
        axes.fill_between(sizes, low, high, color=mark.colour, alpha=0.18, linewidth=0, gid="band")
        axes.plot(
            sizes, middle, color=mark.colour, linestyle=mark.dashes, marker=mark.marker, markersize=3.5,
            linewidth=1.2, gid=of,
        )  # fmt: skip
    if curves:
        logarithmic(drawn[0], "x", np.concatenate([each[0] for each in curves.values()]))
        logarithmic(drawn[0], "y", np.concatenate([end for each in curves.values() for end in each[2:]]))
    named_panels(canvas, runs, labelled(runs.label, 32, f"{of} {{}}"))
    line_legend(canvas, runs, markers=True)
    first = f"the first {MOST:,} of each {count:,} are used" if runs.largest > MOST else ""
    note(canvas, runs.footnote(f"band: {CONFIDENCE:.0%} interval of the {of}", first, incomplete_told(runs)))
    return laid_out(canvas)


def growing(data: xr.Dataset, variable: str, places: Places, least: int) -> tuple[Arranged, str, dict[Key, Curve]]:
    """The runs, the statistic that is known of all series, and its curve for each of them by panel and series.

    Raises InputError for a sample of fewer than `least` planned runs.
    """
    runs = arranged(data, variable, places, wanted=WANTED)
    count = int(runs.planned.sum(axis=-1).max(initial=0))
    if count < least:
        raise InputError(f"`--over` must name axes with at least {least} runs together, got {count}")
    samples: dict[Key, Array] = {
        (number, one): values[~np.isnan(values)][:MOST]
        for number, one in product(*map(range, runs.values.shape[:2]))
        for values in [runs.values[number, one, 0]]
    }
    of = headline(samples.values())
    return runs, of, settled(samples, of)


def named_panels(canvas: Canvas, runs: Arranged, up: str) -> None:
    """Titles of the panels, and labels of the numbers of runs and of what is drawn against them."""
    for number, axes in enumerate(canvas.axes):
        axes.set_title(plain(runs.panels.told(number)), fontsize=label_size())
        axes.set_xlabel(f"number of runs over {', '.join(runs.over)}", fontsize=label_size())
    canvas.axes[0].set_ylabel(up, fontsize=label_size())


def headline(samples: Iterable[Array]) -> str:
    """The statistic that is known of all samples: mean, or median where the tail of some is heavy."""
    return "median" if any(tail_index(sample) < HEAVY for sample in samples) else "mean"


def settled(samples: Mapping[Key, Array], of: str) -> dict[Key, Curve]:
    """Sizes n, and the statistic `of` the first n values with its interval from six on, of each sample."""
    found: dict[Key, list[tuple[float, float, float, float]]] = {}
    by_size: dict[int, list[Key]] = {}
    for key, values in samples.items():
        if len(values) > 1:
            for size in np.unique(np.geomspace(2, len(values), STEPS).round().astype(int)):
                by_size.setdefault(int(size), []).append(key)
    for size in sorted(by_size):  # samples of one size share their resamples
        rows = np.array([samples[key][:size] for key in by_size[size]])
        limits, middles = interval(rows[..., None], Interval(of)), kernel_of(of)[0](rows)
        for key, middle, (low, high) in zip(by_size[size], middles, limits, strict=True):
            found.setdefault(key, []).append((float(size), middle, low, high))
    return {key: _columns(rows) for key, rows in found.items()}


def _columns(rows: list[tuple[float, float, float, float]]) -> tuple[Array, Array, Array, Array]:
    sizes, middle, low, high = np.array(rows).T
    return sizes, middle, low, high
