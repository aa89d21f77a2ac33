"""Plot the median of a variable over two axes as colours, with the numbers if they fit into the cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Given, grid, labelled, laid_out, new_canvas, note, titled
from evogt_study.plots.groups import Arranged, Places, arranged, is_numeric
from evogt_study.plots.style import COLUMN_WIDTH, DECADES, TEXT_WIDTH, label_size, plain, scale_values, tick_size

MOST = 40  # values of an axis
ROOM = 44  # characters of numbers in a row
WRITTEN = 7, 16  # cells in a row of a column's and of a page's width up to which numbers are written into them


def heat_map(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Medians over the sample for each pair of values of `along` and `by`.

    The colour scale is logarithmic for an error, or over three decades.

    A cell that lacks runs says k/n; one without any value is hatched, one where no run is planned is empty.  Raises
    InputError where there are not two axes to draw over, or for axes or variables that are none.
    """
    runs = cells(data, variable, places or Places())
    count = len(runs.panels.labels)
    rows, columns = grid(count, ax)
    medians = runs.medians
    write = len(runs.along.labels) * columns <= WRITTEN[columns > 1] and len(runs.series.labels) <= 2 * WRITTEN[0]
    size = (COLUMN_WIDTH if count == 1 else TEXT_WIDTH, 0.8 + 1.8 * rows)
    canvas = new_canvas(rows, columns, size, ax, sharex=True, sharey=True)
    drawn = canvas.axes
    for spare in drawn[count:]:
        spare.remove()
    norm = _norm(medians, 3.0 if runs.is_error else DECADES)
    mesh = None
    for number, axes in enumerate(drawn[:count]):
        mesh = axes.imshow(medians[number], cmap="cividis", norm=norm, aspect="auto", origin="lower")
        _cells(axes, runs, number, norm, write=write)
        _named(axes, runs)
        axes.set_title(plain(runs.panels.describe(number)), fontsize=label_size())
        axes.tick_params(labelsize=tick_size(), labelbottom=number + columns >= count)
        if number % columns == 0:
            axes.set_ylabel(titled(runs.series.title, runs.series.name, 30, runs.series.short), fontsize=label_size())
        if number + columns >= count:
            axes.set_xlabel(
                titled(runs.along.title, runs.along.name, canvas.characters(48), runs.along.short),
                fontsize=label_size(),
            )
    if not is_numeric(data, runs.series.name):  # words read from the top, numbers grow upwards
        drawn[0].invert_yaxis()
    if np.isfinite(medians).any() and mesh is not None:
        bar = canvas.figure.colorbar(mesh, ax=list(drawn[:count]), aspect=40, location="top")
        bar.set_label(
            labelled(runs.label, 38 if count == 1 else 80, "median {}" if runs.over else "{}"), fontsize=label_size()
        )
        scale_values(bar.ax, "x", medians, error=runs.is_error)
        if not isinstance(norm, LogNorm):  # close numbers have long labels
            bar.ax.xaxis.set_major_locator(MaxNLocator(nbins=3 if count == 1 else 6))
        bar.ax.tick_params(labelsize=tick_size(), which="both")
    note(canvas, runs.footnote("hatched: no run has a value" if _barren(runs).any() else "", runs.lacking_told()))
    return laid_out(canvas)


def cells(data: xr.Dataset, variable: str, places: Places) -> Arranged:
    """The runs over two axes, which are chosen to have the most values where they are left open."""
    by = places.by
    runs = arranged(data, variable, places, most=MOST, most_series=MOST)
    if by is None and runs.panels.name and places.panel is None:
        swap = is_numeric(data, runs.panels.name) and runs.series.name == "dictionary"
        if swap:  # numbers make the better scale, words the better panels
            runs = arranged(
                data, variable, replace(places, by=runs.panels.name, panel="dictionary"), most=MOST, most_series=MOST
            )
    if not (runs.series.name and runs.along.name):
        axes = ", ".join(name for name in (runs.along.name, runs.series.name) if name) or "none"
        raise InputError(f"a heat map must have two axes with several values besides the sample, got {axes}")
    return runs


def _barren(runs: Arranged) -> Any:
    return runs.planned.any(axis=-1) & ~runs.present.any(axis=-1)


def _norm(medians: Array, spread: float) -> Normalize:
    known = medians[np.isfinite(medians)]
    if not len(known):
        return Normalize(0.0, 1.0)
    low, high = float(known.min()), float(known.max())
    if low > 0.0 and high > spread * low:  # as the colour bar is scaled
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + (abs(low) or 1.0))


def _cells(axes: Axes, runs: Arranged, panel: int, norm: Normalize, *, write: bool) -> None:
    """The number of each cell where it is to be written, and what it lacks; hatching where all of its runs do."""
    medians = runs.medians[panel]
    # 3: the largest number of panels in a row
    digits = _digits(runs.medians, len(runs.along.labels) * min(len(runs.panels.labels), 3))
    for row, column in np.ndindex(medians.shape):
        value = medians[row, column]
        barren = bool(runs.planned[panel, row, column].any()) and not np.isfinite(value)
        if barren:
            box = Rectangle(
                (column - 0.5, row - 0.5), 1, 1, fill=False, hatch="////", edgecolor="0.5", linewidth=0, gid="barren"
            )
            axes.add_patch(box)
        text = [_short(value, digits) if np.isfinite(value) else ""]
        words = "\n".join(filter(None, [*text, runs.lacking(panel, row, column)])) if write else ""
        if words:
            dark = np.isfinite(value) and float(norm(value)) < 0.5  # the lower half of cividis
            back = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if barren else None
            axes.text(
                column, row, words, ha="center", va="center", fontsize=tick_size(), color="white" if dark else "black",
                bbox=back,
            )  # fmt: skip


def _digits(medians: Array, across: int) -> int:
    """Digits behind the point that tell all medians apart, as far as there is room in `across` cells; else one."""
    known = np.unique(medians[np.isfinite(medians)])
    # five characters are not behind the point, as in 4.5e-2
    for digits in range(1, max(2, ROOM // across - 4)):
        if len({_short(value, digits) for value in known}) == len(known):
            return digits
    return 1


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}e}".replace("e-0", "e-").replace("e+0", "e")


def _named(axes: Axes, runs: Arranged) -> None:
    """Values along both axes, as many as there is room for."""
    for which, place, room in (("x", runs.along, 9), ("y", runs.series, 12)):
        step = -(-len(place.labels) // room)
        positions = range(0, len(place.labels), step)
        labels = [plain(place.labels[i]) for i in positions]
        if which == "x":
            axes.set_xticks(positions, labels=labels, rotation=0 if sum(map(len, labels)) < 32 else 90)
        else:
            axes.set_yticks(positions, labels=labels)
