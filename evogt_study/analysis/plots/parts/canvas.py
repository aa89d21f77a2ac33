"""Canvas of a picture: a figure with panels, a legend above and small print below, or somebody else's axes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evogt_study.analysis.plots.parts.style import (
    COLUMN_WIDTH,
    QUIET,
    TEXT_WIDTH,
    changed,
    plain,
    png,
    svg,
    tick_size,
)
from evogt_study.errors import InputError

CSS_PIXELS = 96  # of an inch on a page, whatever the screen has
Given = Axes | Sequence[Axes] | None
"""Axes to draw on, as many as the picture has panels; None for a figure of our own."""


class DisplayedFigure(Figure):
    """Figure that a notebook shows as the value of a cell, at its size in inches; pyplot does not know it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = (round(CSS_PIXELS * inches) for inches in self.get_size_inches())
        return png(self), {"width": width, "height": height}

    def _repr_svg_(self) -> str:
        return svg(self)


@dataclass(frozen=True, eq=False)
class Canvas:
    """A figure and the panels that are drawn; own: whether the figure is ours to lay out."""

    figure: Figure
    axes: list[Axes]
    own: bool = True


def new_canvas(rows: int, columns: int, size: tuple[float, float], ax: Given = None, **subplots: Any) -> Canvas:
    """A figure of `size` inches with rows x columns axes; or the axes that are given.

    A size that rcParams were given stands in the place of ours.  Raises InputError for another number of axes.
    """
    if ax is not None:
        given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != rows * columns:
            raise InputError(f"`ax` must be as many axes as there are panels, {rows * columns}, got {len(given)}")
        root = given[0].figure.figure  # of a subfigure the figure
        return Canvas(root, given, own=False)
    if changed("figure.figsize"):
        size = tuple(matplotlib.rcParams["figure.figsize"])
    figure = DisplayedFigure(figsize=size, layout="constrained")
    drawn = figure.subplots(rows, columns, squeeze=False, **subplots).ravel()
    return Canvas(figure, list(drawn))


def panels(count: int, height: float = 2.3, ax: Given = None) -> Canvas:
    """A canvas of `count` panels: one fills a column, several a page's width, at most three in a row.

    Raises InputError where axes are given, and another number of them.
    """
    if ax is not None:
        given = new_canvas(1, count, (COLUMN_WIDTH, height), ax)
        for axes in given.axes:
            axes.tick_params(labelsize=tick_size(), which="both")
            axes.set_axisbelow(True)
        return given
    columns = min(count, 3) if count != 4 else 2
    rows = -(-count // columns)
    size = (COLUMN_WIDTH, height) if count == 1 else (TEXT_WIDTH, 0.9 * height * rows)
    made = new_canvas(rows, columns, size, sharex=True, sharey=True)
    for spare in made.axes[count:]:
        spare.remove()
    for number, axes in enumerate(made.axes[:count]):
        axes.tick_params(labelsize=tick_size(), which="both", labelbottom=number + columns >= count)
        axes.grid(color="0.9", linewidth=0.5)
        axes.set_axisbelow(True)
    return Canvas(made.figure, made.axes[:count])


def legend(
    canvas: Canvas, handles: Sequence[Any], labels: Sequence[str], title: str = "", *, lines: bool = True
) -> None:
    """One legend above all panels, which it does not take room from: as many entries in a row as there is room for.

    On somebody else's axes it is in the first of them, where there is most room.
    """
    if not labels:
        return
    figure, size = canvas.figure, tick_size()
    if not canvas.own:
        canvas.axes[0].legend(handles, labels, fontsize=size, title=title or None, title_fontsize=size, frameon=False)
        return
    handle = 2.6 if lines else 1.0  # in font sizes
    room = figure.get_figwidth() * 72.0 / size
    widths = [0.56 * len(label) + handle + 1.8 for label in labels]
    columns = len(labels) if sum(widths) < room else max(1, int(room // (max(widths) + 0.2)))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, fontsize=size, frameon=False,
        title=title or None, title_fontsize=size, alignment="left", handlelength=handle, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip
    rows = -(-len(labels) // columns) + (title.count("\n") + 1 if title else 0)
    figure.set_figheight(figure.get_figheight() + 0.05 + 0.145 * rows)


def note(canvas: Canvas, text: str) -> None:
    """A line of small print below the panels: what is drawn, and which runs are not.

    On somebody else's axes only its beginning, the count of runs, above the last of them.
    """
    figure, size = canvas.figure, tick_size()
    if not canvas.own:
        canvas.axes[-1].set_title(plain(text.partition(";")[0], 600), loc="right", fontsize=size, color=QUIET)
        return
    room = int(figure.get_figwidth() * 72.0 / (0.5 * size))
    lines = textwrap.wrap(plain(text, 600), room)
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=size, color=QUIET)
    figure.set_figheight(figure.get_figheight() + 0.05 + 0.125 * len(lines))


def laid_out(canvas: Canvas) -> Figure:
    """The figure with its layout settled, which otherwise moves a little each time the figure is drawn.

    Somebody else's figure is left as it is.
    """
    if canvas.own:
        settle(canvas.figure)
    return canvas.figure


def settle(figure: Figure) -> None:
    """Lay a figure out once."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
