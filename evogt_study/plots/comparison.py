"""Plot a comparison: the effect of each axis value over the leader of its setup, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from evogt_study.analysis.comparison import compare
from evogt_study.analysis.runs import DRAWN, KEYS, finished_runs, shown
from evogt_study.errors import InputError
from evogt_study.inference.comparisons import GEOMETRIC_MEAN, MARGIN, MEAN, MIN_UNITS, RATIO, WIN
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
    plain,
    scale_axis,
    style,
    tick_size,
)
from evogt_study.schema.variables import declared_attributes
from evogt_study.study.case_space import listed

SETUP = "setup"
MIN_SIGN_UNITS = 6
"""Fewest units at which the sign test can reject at 5 %."""
MAX_SETUPS = 24
"""Rows of a picture: with more their labels meet on a page."""


class Compared(NamedTuple):
    """A comparison, its axis, and the names of its setups."""

    found: xr.Dataset
    by: str
    setups: list[str]


def comparison(
    data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None,
    made: Compared | None = None,
) -> Figure:  # fmt: skip
    """Draw the effect of each axis value over the leader of its setup, with confidence intervals.

    An open marker is not significantly different from the leader.  made: the comparison, if it is known already.
    Raises InputError if there is no axis to compare.
    """
    made = made or compared(data, variable, places or Places())
    names, neutral = shown(made.found, made.by), 1.0 if made.found.attrs["scale"] == RATIO else 0.0
    shape = made.found["leader"].shape
    count = min(len(made.setups), MAX_SETUPS)
    rows = _row_labels(made, variable, ax)
    width = 0.053 * tick_size() / 7.0 * max(len(line) for row in rows.labels for line in row.split("\n"))
    # 0.35 in: ticks and margins
    room = max(16, int(14.2 * 8.0 / label_size() * (rows.figure_width - width - 0.35)))
    xlabel = labelled(label_of(data[variable]), room, f"{{}}: {_effect(made.found)}")
    pitch = max(0.16 * max(1, len(names) - 1) ** 0.5, 0.04 + 0.125 * rows.lines)
    height = 0.9 + pitch * count + 0.14 * max(0, xlabel.count("\n") - 1)
    canvas = panels(1, height=height, width=rows.figure_width, ax=ax)
    axes = canvas.axes[0]
    cells = [made.found.isel(dict(zip(made.found["leader"].dims, place, strict=True))) for place in np.ndindex(*shape)]
    ends = [_row(axes, row, cell, neutral) for row, cell in enumerate(cells[:count])]
    axes.axvline(neutral, color=QUIET, linewidth=0.8)
    known = np.concatenate([np.zeros(0), *(each for row in ends for each in row)])
    scale_axis(axes, "x", known[np.isfinite(known)], 3.0 if neutral else np.inf)
    axes.set_yticks(range(count), labels=rows.labels, fontsize=tick_size())
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlabel(xlabel, fontsize=label_size())
    marks = [style(one) for one in range(len(names))]
    handles = [Line2D([], [], color=m.colour, marker=m.marker, markersize=4.5, linestyle="none") for m in marks]
    legend(canvas, handles, [plain(name) for name in names], plain(made.by, LONGEST_LABEL), lines=False)
    few = sum(not _drawable(cell) for cell in cells[:count])
    texts = [
        f"{100.0 * made.found.attrs['confidence']:g} % confidence intervals",
        "open marker: not significantly different from the leader",
        f"{few} of {count} setups have too few values to compare" if few else "",
        f"{len(made.setups) - count} more setups are not shown" if len(made.setups) > count else "",
    ]
    note(canvas, "; ".join(filter(None, texts)))
    return laid_out(canvas)


def _effect(found: xr.Dataset) -> str:
    """The effect in words: "median ratio to the lowest"."""
    scale, better = str(found.attrs["scale"]), str(found.attrs["better"]) or "lower"
    kind = {RATIO: "ratio", MARGIN: "wins less losses"}.get(scale, "difference")
    kind = {WIN: f"median {kind}", MEAN: f"{kind} of means", GEOMETRIC_MEAN: "ratio of geometric means"}[
        str(found.attrs["estimand"])
    ]  # fmt: skip
    leader = {"lower": "lowest", "higher": "highest"}.get(better, better)
    return f"{kind} {'to' if scale == RATIO else 'from'} the {leader}"


def _drawable(cell: xr.Dataset) -> bool:
    """Whether a setup has an effect on the scale of the figure."""
    return bool(cell["leader"].item()) and cell["scale"].item() == cell.attrs["scale"]


class _Rows(NamedTuple):
    """Labels of the rows, the number of lines of the longest, and the width of the figure in inches."""

    labels: list[str]
    lines: int
    figure_width: float


def _row_labels(made: Compared, variable: str, ax: Given) -> _Rows:
    """Return one label for each row: the values of its axes, on lines that take 0.4 of the width.

    A figure for which a column is too narrow has the width of a page.
    """
    found = setup_values(made.found)[:MAX_SETUPS]
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


def _row(axes: Axes, row: int, cell: xr.Dataset, neutral: float) -> list[Array]:
    """One setup: the leader at the neutral value, the others with their intervals; the numbers that were drawn."""
    if not _drawable(cell):
        return []
    effects, limits = cell["over_leader"].values, cell["over_leader_ci"].values
    p, count, found = cell["p_over_leader"].values, len(effects), list[Array]()
    first = shown(cell, str(cell.attrs["dim"])).index(str(cell["leader"].item()))
    for other in range(count):
        if other == first or not np.isfinite(effects[other]):
            continue
        mark, height = style(other), row + 0.5 * ((other + 0.5) / count - 0.5)
        if np.isfinite(limits[other]).all():
            axes.plot(limits[other], [height] * 2, color=mark.colour, linewidth=1.2, gid="interval")
            found.append(limits[other])
        significant = bool(p[other] <= 1.0 - cell.attrs["confidence"] + 1e-12)
        axes.plot(
            effects[[other]], [height], color=mark.colour, marker=mark.marker, markersize=4.0, linestyle="none",
            gid="effect", markerfacecolor=mark.colour if significant else "white",
        )  # fmt: skip
        found.append(effects[[other]])
    mark = style(first)
    axes.plot([neutral], [row], color=mark.colour, marker=mark.marker, markersize=4.5, linestyle="none", gid="leader")
    return found


def compared(data: xr.Dataset, variable: str, places: Places) -> Compared:
    """The comparison of the values of the axis `by`, or of the first axis of strings, in every setup.

    Raises InputError if there is no such axis, or if the sample has too few points.
    """
    numbers_in(data, variable)
    by = axis_to_compare(data, variable, places)
    if by is None:
        least = min_units(data[variable])
        raise InputError(f"`--by` must be an axis of several values, and --over have {least} points, to compare them")
    here = at(data, places.at, axes_of(data, variable))
    over = sample_of(here, variable, places)
    found = compare(here[variable], by, over, planned=finished_runs(here))
    return Compared(found, by, [", ".join(each) for each in setup_values(found)])


def min_units(values: xr.DataArray) -> int:
    """Fewest units of a test of the declared estimand."""
    return MIN_UNITS.get(declared_attributes(values)[1], MIN_SIGN_UNITS)


def setup_values(found: xr.Dataset) -> list[list[str]]:
    """Return the values of the axes of each setup of a comparison, "epsilon = 0.1", of axes with several values."""
    rest = [str(each) for each in found["leader"].dims]
    return [
        [f"{name} = {label}" for name, label in zip(rest, labels, strict=True) if found.sizes[name] > 1]
        for labels in product(*(shown(found, name) for name in rest))
    ]


def setups_of(data: xr.Dataset, variable: str, places: Places, made: Compared) -> Arranged:
    """Arrange the runs of a comparison: its axis values as series, its setups along."""
    here = at(data, places.at, axes_of(data, variable))
    over = sample_of(here, variable, places)
    rest = [str(each) for each in made.found["leader"].dims]
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
    stacked = stacked.stack({SETUP: rest}, create_index=False).assign_coords({SETUP: made.setups})
    found = arranged(
        stacked, variable, Places(along=SETUP, by=made.by, over=over), wanted=("along", "by"), most_series=None
    )
    notes = tuple(f"at {name} = {value}" for name, value in places.at.items())
    return replace(found, along=_Setups(SETUP, SETUP, found.along.labels, listing=listing), notes=notes)


@dataclass(frozen=True)
class _Setups(Place):
    """The setups of a comparison.  listing: the values of their axes, one axis after the other."""

    listing: str = ""

    def listed(self) -> str:
        """Return the values of the axes."""
        return self.listing


def axis_to_compare(data: xr.Dataset, variable: str, places: Places) -> str | None:
    """The axis of strings whose values can be compared; None without one, or with too few seeds."""
    here = at(data, places.at, axes_of(data, variable))
    axes = axes_of(here, variable)
    named = [places.by] if places.by in axes else [each for each in axes if data[each].dtype.kind in "OU"]
    over = sample_of(here, variable, places)
    found = next((each for each in named if each is not None and here.sizes[each] > 1 and each not in over), None)
    many = int(np.prod([here.sizes[each] for each in over])) >= min_units(here[variable])
    return found if many and over else None


def comparable(data: xr.Dataset, variable: str, places: Places) -> bool:
    """Test for a setup in which two axis values have runs with values."""
    by, here = axis_to_compare(data, variable, places), at(data, places.at, axes_of(data, variable))
    if by is None:
        return False
    there = xr.apply_ufunc(np.isfinite, here[variable]).sum(sample_of(here, variable, places))
    return bool(((there >= min_units(here[variable])).sum(by) > 1).any())


def sample_of(data: xr.Dataset, variable: str, places: Places) -> tuple[str, ...]:
    """The axes whose points are the sample."""
    return tuple(places.over or (DRAWN,)) if set(places.over or (DRAWN,)) <= set(axes_of(data, variable)) else ()
