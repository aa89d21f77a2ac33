"""Plot a verdict: ratio of the mean of each axis value to the best mean, for all pairs together."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from evogt_study.plots.canvas import (
    Given,
    labelled,
    laid_out,
    legend,
    note,
    panels,
    wished_size,
)
from evogt_study.plots.groups import (
    LONGEST_LABEL,
    MOST_LISTED,
    Arranged,
    Place,
    Places,
    arranged,
    at,
    axes_of,
    label_of,
    numbers_in,
)
from evogt_study.plots.style import (
    COLUMN_WIDTH,
    QUIET,
    TEXT_WIDTH,
    label_size,
    logarithmic,
    plain,
    style,
    tick_size,
)
from evogt_study.study.case_space import listed

CELL = "cell"
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

    An open marker is not significantly different from the best.  Differences if a value is not positive.
    made: the verdict, where it is known already.  Raises InputError where there are no labels to judge.
    """
    made = made or judged(data, variable, places or Places())
    names = shown(made.found, made.by)
    ratios = made.found.attrs["effect"] == "ratio"
    shape = made.found["n_common"].shape
    count = min(len(made.cells), MOST_CELLS)
    rows = _row_labels(made, variable, ax)
    width = 0.053 * tick_size() / 7.0 * max(len(line) for row in rows.labels for line in row.split("\n"))
    what = "ratio of means to the best" if ratios else "difference of means from the best"
    # 0.35 in: ticks and margins
    room = max(16, int(14.2 * 8.0 / label_size() * (rows.figure_width - width - 0.35)))
    xlabel = labelled(label_of(data[variable]), room, f"{{}}: {what}")
    pitch = max(0.16 * max(1, len(names) - 1) ** 0.5, 0.04 + 0.125 * rows.lines)
    height = 0.9 + pitch * count + 0.14 * max(0, xlabel.count("\n") - 1)
    canvas = panels(1, height=height, width=rows.figure_width, ax=ax)
    axes = canvas.axes[0]
    cells = [
        made.found.isel(dict(zip(made.found["n_common"].dims, place, strict=True))) for place in np.ndindex(*shape)
    ]
    ends = [_cell(axes, row, cell, len(names), ratios) for row, cell in enumerate(cells[:count])]
    axes.axvline(1.0 if ratios else 0.0, color=QUIET, linewidth=0.8)
    known = np.concatenate([np.ravel(each) for each in ends] or [np.zeros(0)])
    logarithmic(axes, "x", known[np.isfinite(known)])
    axes.set_yticks(range(count), labels=rows.labels, fontsize=tick_size())
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlabel(xlabel, fontsize=label_size())
    marks = [style(one) for one in range(len(names))]
    handles = [Line2D([], [], color=m.colour, marker=m.marker, markersize=4.5, linestyle="none") for m in marks]
    legend(canvas, handles, [plain(name) for name in names], plain(made.by, LONGEST_LABEL), lines=False)
    few = sum(not np.isfinite(cell["effect"].values).any() for cell in cells[:count])
    texts = [
        f"{100.0 * made.found.attrs['confidence']:g} % intervals for all pairs of a cell together",
        "open marker: not significantly different from the best",
        f"{few} of {count} cells have too few values to compare" if few else "",
        f"{len(made.cells) - count} more cells are not shown" if len(made.cells) > count else "",
    ]
    note(canvas, "; ".join(filter(None, texts)))
    return laid_out(canvas)


class _Rows(NamedTuple):
    """Labels of the rows, the number of lines of the longest, and the width of the figure in inches."""

    labels: list[str]
    lines: int
    figure_width: float


def _row_labels(made: Judged, variable: str, ax: Given) -> _Rows:
    """Return one label for each row: the values of its axes, on lines that take 0.4 of the width.

    A figure for which a column is too narrow has the width of a page.
    """
    found = cell_values(made.found)[:MOST_CELLS]
    per_inch = 72.0 / (0.53 * tick_size())

    def characters(width: float) -> int:
        return int(0.4 * width * per_inch)

    width = ax.get_figwidth() if isinstance(ax, Figure) else (wished_size() or (COLUMN_WIDTH,))[0]
    if (
        ax is None
        and not wished_size()
        and max((len(each) for row in found for each in row), default=0) > characters(width)
    ):
        width = TEXT_WIDTH
    room = characters(width)
    rows = []
    for row in found:
        lines: list[str] = []
        for each in row or [f"all of {variable}"]:
            part = plain(each, room)
            if lines and len(lines[-1]) + len(part) + 2 <= room:
                lines[-1] += f", {part}"
            else:
                lines.append(part)
        rows.append("\n".join(lines))
    return _Rows(rows, max(row.count("\n") + 1 for row in rows), width)


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
    return Judged(found, by, [", ".join(each) for each in cell_values(found)])


def cell_values(found: xr.Dataset) -> list[list[str]]:
    """Return the values of the axes of each cell of a verdict, "epsilon = 0.1", of axes with several values."""
    rest = [str(each) for each in found["n_common"].dims]
    return [
        [f"{name} = {label}" for name, label in zip(rest, labels, strict=True) if found.sizes[name] > 1]
        for labels in product(*(shown(found, name) for name in rest))
    ]


def cells_of(data: xr.Dataset, variable: str, places: Places, made: Judged) -> Arranged:
    """Arrange the runs of a verdict: its labels as series, its cells along."""
    here = at(data, places.at, axes_of(data, variable))
    over = sample_of(here, variable, places)
    rest = [str(each) for each in made.found["n_common"].dims]
    if not rest:
        return arranged(
            data,
            variable,
            replace(places, along=None, by=made.by, panel=None, over=over),
            wanted=("by",),
            most_series=None,
        )
    listing = " and ".join(
        f"{name} = {listed(shown(here, name), MOST_LISTED)}" for name in rest if here.sizes[name] > 1
    )
    runs = [variable, *({"run_status", KEYS} & set(here.variables))]
    stacked = here[runs].drop_vars([name for name in here.coords if name not in (made.by, *over)], errors="ignore")
    stacked = stacked.stack({CELL: rest}, create_index=False).assign_coords({CELL: made.cells})
    found = arranged(
        stacked, variable, Places(along=CELL, by=made.by, over=over), wanted=("along", "by"), most_series=None
    )
    notes = tuple(f"at {name} = {value}" for name, value in places.at.items())
    return replace(found, along=_Cells(CELL, CELL, found.along.labels, listing=listing), notes=notes)


@dataclass(frozen=True)
class _Cells(Place):
    """The cells of a verdict.  listing: the values of their axes, one axis after the other."""

    listing: str = ""

    def listed(self) -> str:
        """Return the values of the axes."""
        return self.listing


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
