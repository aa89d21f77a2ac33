"""Plot a verdict: ratio of the mean of each axis value to the best mean, for all pairs together."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from evogt_study.analysis import verdict as verdicts
from evogt_study.analysis.runs import DRAWN, KEYS, shown
from evogt_study.errors import InputError
from evogt_study.inference.comparisons import pairs_of, winner
from evogt_study.inference.intervals import FEWEST
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Given, labelled, laid_out, legend, note, panels
from evogt_study.plots.groups import Places, at, axes_of, label_of, numbers_in
from evogt_study.plots.style import QUIET, label_size, logarithmic, plain, style, tick_size

MOST_CELLS = 24
"""Rows of a picture: with more their labels meet on a page."""


class Judged(NamedTuple):
    """A verdict, the axis that it is about, and the names of its cells."""

    found: xr.Dataset
    by: str
    cells: list[str]


def verdict(
    data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None,
    made: Judged | None = None,
) -> Figure:  # fmt: skip
    """Ratios of the mean of each label to the best mean in its cell, with intervals that hold together.

    A filled marker is told apart from the best, an empty one is not.  Differences where a value is not positive.
    made: the verdict, where it is known already.  Raises InputError where there are no labels to judge.
    """
    made = made or judged(data, variable, places or Places())
    names = shown(made.found, made.by)
    ratios = made.found.attrs["effect"] == "ratio"
    canvas = panels(1, height=0.9 + 0.16 * min(len(made.cells), MOST_CELLS) * max(1, len(names) - 1) ** 0.5, ax=ax)
    drawn = canvas.axes
    axes = drawn[0]
    rest = made.found["n_common"].dims
    ends = [
        _cell(axes, row, made.found.isel(dict(zip(rest, place, strict=True))), len(names), ratios)
        for row, place in enumerate(np.ndindex(*made.found["n_common"].shape))
        if row < MOST_CELLS
    ]
    axes.axvline(1.0 if ratios else 0.0, color=QUIET, linewidth=0.8)
    known = np.concatenate([np.ravel(each) for each in ends] or [np.zeros(0)])
    logarithmic(axes, "x", known[np.isfinite(known)])
    shown_cells = [plain(cell or f"all of {variable}") for cell in made.cells[:MOST_CELLS]]
    axes.set_yticks(range(len(shown_cells)), labels=shown_cells, fontsize=tick_size())
    axes.set_ylim(len(shown_cells) - 0.4, -0.6)
    what = "ratio of means to the best" if ratios else "difference of means from the best"
    axes.set_xlabel(labelled(label_of(data[variable]), 44, f"{{}}: {what}"), fontsize=label_size())
    marks = [style(one) for one in range(len(names))]
    handles = [Line2D([], [], color=m.colour, marker=m.marker, markersize=4.5, linestyle="none") for m in marks]
    legend(canvas, handles, [plain(name) for name in names], made.by, lines=False)
    left_out = f"; {len(made.cells) - MOST_CELLS} more cells are not shown" if len(made.cells) > MOST_CELLS else ""
    note(canvas, f"intervals hold for all pairs of a cell together at 95 %; empty: not told apart{left_out}")
    return laid_out(canvas)


def _cell(axes: Axes, row: int, cell: xr.Dataset, count: int, ratios: bool) -> list[Array]:
    """One cell: the best at one (or zero), the others with their intervals beside it; the numbers that were drawn."""
    first = winner(cell["value"].sel(statistic="mean").values, str(cell.attrs["better"]))
    neutral = 1.0 if ratios else 0.0
    found: list[Array] = []
    for pair, (i, j) in enumerate(pairs_of(count)):
        if first not in (i, j) or not np.isfinite(cell["effect"].values[pair]):
            continue
        other, numbers = (
            j if i == first else i,
            np.array([cell["effect"].values[pair], *cell["effect_ci"].values[pair]]),
        )
        if i == first:  # the other way round, which swaps the ends
            numbers = 1.0 / numbers[[0, 2, 1]] if ratios else -numbers[[0, 2, 1]]
        mark = style(other)
        height = row + 0.5 * ((other + 0.5) / count - 0.5)
        apart = bool(numbers[1] > neutral or numbers[2] < neutral)
        axes.plot(numbers[1:], [height] * 2, color=mark.colour, linewidth=1.2, gid="interval")
        axes.plot(
            numbers[:1], [height], color=mark.colour, marker=mark.marker, markersize=4.0, linestyle="none",
            gid="effect", markerfacecolor=mark.colour if apart else "white",
        )  # fmt: skip
        found.append(numbers)
    if first >= 0:
        best = style(first)
        axes.plot([neutral], [row], color=best.colour, marker=best.marker, markersize=4.5, linestyle="none", gid="best")
    return found


def judged(data: xr.Dataset, variable: str, places: Places) -> Judged:
    """The verdict on the labels of the axis `by`, or of the first axis of words, in every cell of the other axes.

    Raises InputError where there is no such axis, or fewer than six points of the sample.
    """
    numbers_in(data, variable)
    by = contested(data, variable, places)
    if by is None:
        raise InputError(f"`--by` must be an axis of several labels, and --over have {FEWEST} points, to judge them")
    here = at(data, places.at, axes_of(data, variable))
    over = sample_of(here, variable, places)
    found = verdicts.verdict(here[variable], by, over, planned=here.get(KEYS), missing="drop")
    rest = [str(each) for each in found["n_common"].dims]
    cells = [
        ", ".join(f"{name} = {label}" for name, label in zip(rest, labels, strict=True) if found.sizes[name] > 1)
        for labels in product(*(shown(found, name) for name in rest))
    ]
    return Judged(found, by, cells)


def contested(data: xr.Dataset, variable: str, places: Places) -> str | None:
    """The axis of words whose labels can be judged, None where there is none or seeds are too few."""
    here = at(data, places.at, axes_of(data, variable))
    axes = axes_of(here, variable)
    named = [places.by] if places.by in axes else [each for each in axes if data[each].dtype.kind in "OU"]
    over = sample_of(here, variable, places)
    found = next((each for each in named if each is not None and here.sizes[each] > 1 and each not in over), None)
    many = int(np.prod([here.sizes[each] for each in over])) >= FEWEST
    return found if many and over else None


def comparable(data: xr.Dataset, variable: str, places: Places) -> bool:
    """Test for a cell whose labels have values at enough common points of the sample; one without any takes no part."""
    by, here = contested(data, variable, places), at(data, places.at, axes_of(data, variable))
    if by is None:
        return False
    there, over = xr.apply_ufunc(np.isfinite, here[variable]), sample_of(here, variable, places)
    part = there.any(over)
    common = (there | ~part).all(by).sum(over)
    return bool(((common >= FEWEST) & (part.sum(by) > 1)).any())


def sample_of(data: xr.Dataset, variable: str, places: Places) -> tuple[str, ...]:
    """The axes whose points are the sample."""
    return tuple(places.over or (DRAWN,)) if set(places.over or (DRAWN,)) <= set(axes_of(data, variable)) else ()
