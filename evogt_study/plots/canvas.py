"""A figure with panels, a legend above and a footnote below, or axes of the user; labels and legends."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from evogt_study.errors import InputError, shortened
from evogt_study.plots.groups import LONGEST_TITLE, Arranged, short_label, title_of
from evogt_study.plots.style import (
    COLUMN_WIDTH,
    QUIET,
    TEXT_WIDTH,
    changed,
    label_size,
    plain,
    png,
    style,
    svg,
    tick_size,
    typeset,
)
from evogt_study.schema.parameters import GREEK

CSS_PIXELS = 96  # of an inch on a page, whatever the screen has
PANEL_WIDTH = 1.6
"""Least distance of panels in inches.  The numbers and the label on the left take a third of it."""
NOTE, COUNT = "note", "count"
"""Identifiers of footnotes, and of the counts of runs inside the panels."""
MOST_DRAWN = {"runs": 1000, "band": 10_000, "median": 10_000}
"""Largest number of points by identifier, 0.1 or 0.2 MB of SVG.  More points become an image, also in SVG and PDF."""
Given = Axes | Sequence[Axes] | Figure | None
"""Axes to draw on, one for each panel; an empty figure, whose width decides how many panels are in a row; or None for a
new figure."""
SCALES = ("linear", "log")
_INDEXED = re.compile(r"([A-Za-z])_?(\d+)?")
TITLE_WIDTH = 48  # characters of a column of 3.4 in, 14.2 an inch as `Canvas.characters` has them


@dataclass(frozen=True)
class Look:
    """Title, labels and scales of the panels, and size in inches of a figure.

    Text may have mathematics between dollars.  xscale, yscale: one of `SCALES`; None: as the values are.
    """

    title: str = ""
    xlabel: str | None = None
    ylabel: str | None = None
    size: tuple[float, float] | None = None
    xscale: str | None = None
    yscale: str | None = None


class DisplayedFigure(Figure):
    """Figure that a notebook shows as the value of a cell, at its size in inches; pyplot does not know it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = (round(CSS_PIXELS * inches) for inches in self.get_size_inches())
        return png(self), {"width": width, "height": height}

    def _repr_svg_(self) -> str:
        return svg(self)


@dataclass(frozen=True, eq=False)
class Canvas:
    """A figure and its panels; own: False if the user gave the axes, and lays the figure out."""

    figure: Figure
    axes: list[Axes]
    own: bool = True

    def characters(self, most: int) -> int:
        """Return how many characters, at most `most`, a label below a panel has room for: 14.2 per inch."""
        spec = self.axes[0].get_subplotspec()
        if not self.own or spec is None:
            return most
        return min(most, int(14.2 * self.figure.get_figwidth() / spec.get_gridspec().ncols))


def new_canvas(rows: int, columns: int, size: tuple[float, float], ax: Given = None, **subplots: Any) -> Canvas:
    """A figure of `size` inches with rows x columns axes; or the axes or figure that are given.

    A changed size in rcParams replaces `size`.  Raises InputError for another number of axes.
    """
    if ax is not None and not isinstance(ax, Figure):
        given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != rows * columns:
            raise InputError(f"`ax` must be as many axes as there are panels, {rows * columns}, got {len(given)}")
        root = given[0].figure.figure  # of a subfigure the figure
        return Canvas(root, given, own=False)
    figure = ax or DisplayedFigure(figsize=wished_size() or size)
    figure.set_layout_engine("constrained")
    drawn = figure.subplots(rows, columns, squeeze=False, **subplots).ravel()
    return Canvas(figure, list(drawn))


def wished_size() -> tuple[float, float] | None:
    """Return width and height from rcParams, or None if they are the defaults of matplotlib."""
    return tuple(matplotlib.rcParams["figure.figsize"]) if changed("figure.figsize") else None


def grid(count: int, ax: Given = None) -> tuple[int, int]:
    """Rows and columns of `count` panels: at most three in a row that are `PANEL_WIDTH` wide; one row of given axes."""
    if ax is not None and not isinstance(ax, Figure):
        return 1, count
    width = (wished_size() or (TEXT_WIDTH, 0.0))[0] if ax is None else ax.get_figwidth()
    columns = min(count, 2 if count == 4 else 3, max(1, int(width / PANEL_WIDTH)))
    return -(-count // columns), columns


def panels(count: int, height: float = 2.3, ax: Given = None, *, width: float = COLUMN_WIDTH) -> Canvas:
    """A canvas of `count` panels: one has a `width`, several fill a page's width, at most three in a row.

    Raises InputError where axes are given, and another number of them.
    """
    rows, columns = grid(count, ax)
    size = (width, height) if count == 1 else (TEXT_WIDTH, 0.9 * height * rows)
    made = new_canvas(rows, columns, size, ax, sharex=True, sharey=True)
    if not made.own:
        for axes in made.axes:
            axes.tick_params(labelsize=tick_size(), which="both")
            axes.set_axisbelow(True)
        return made
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
    """Put one legend above all panels and make the figure higher by it, with as many entries in a row as fit.

    On axes of the user, put it into the first of them.
    """
    if not labels:
        return
    figure, size = canvas.figure, tick_size()
    if not canvas.own:
        canvas.axes[0].legend(handles, labels, fontsize=size, title=title or None, title_fontsize=size, frameon=False)
        return
    handle = 2.6 if lines else 1.0  # in font sizes
    room = figure.get_figwidth() * 72.0 / size
    # estimated, since text is only measured by drawing it
    widths = [0.56 * len(label) + handle + 1.8 for label in labels]
    columns = len(labels) if sum(widths) < room else max(1, int(room // (max(widths) + 0.2)))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, fontsize=size, frameon=False,
        title=title or None, title_fontsize=size, alignment="left", handlelength=handle, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip
    # the figure grows by what its legend takes, so that the panels keep their size
    # 0.145 in: 7 points of text and half of that between rows, as legend.labelspacing has it
    rows = -(-len(labels) // columns) + (title.count("\n") + 1 if title else 0)
    figure.set_figheight(figure.get_figheight() + 0.05 + 0.145 * rows)


def line_legend(canvas: Canvas, runs: Arranged, *more: Line2D, markers: bool = False) -> None:
    """Lines of the series, with their markers if these are drawn, and further lines by their labels."""
    count = len(runs.series.labels) if runs.series.name else 0
    handles = []
    for one in range(count):
        mark = style(one)
        own: dict[str, Any] = {"marker": mark.marker, "markersize": 4.2} if markers else {}
        handles.append(Line2D([], [], color=mark.colour, linestyle=mark.dashes, linewidth=1.2, **own))
    labels = [plain(label) for label in runs.series.labels] if count else []
    title = titled(runs.series.title, runs.series.name, TITLE_WIDTH, runs.series.short) if count else ""
    legend(canvas, [*handles, *more], [*labels, *(str(line.get_label()) for line in more)], title)


def marker_legend(canvas: Canvas, runs: Arranged) -> None:
    """Markers of the series."""
    if not runs.series.name:
        return
    marks = [style(one) for one in range(len(runs.series.labels))]
    handles = [
        Line2D([], [], color=mark.colour, marker=mark.marker, markersize=4.5, linestyle="none") for mark in marks
    ]
    labels = [plain(label) for label in runs.series.labels]
    legend(
        canvas,
        handles,
        labels,
        titled(runs.series.title, runs.series.name, TITLE_WIDTH, runs.series.short),
        lines=False,
    )


def note(canvas: Canvas, text: str) -> None:
    """Put a footnote below the panels.

    On axes of the user, put only its beginning, the count of runs, above the last of them.
    """
    figure, size = canvas.figure, tick_size()
    if not canvas.own:
        beginning = plain(text.partition(";")[0], 600)
        canvas.axes[-1].set_title(beginning, loc="right", fontsize=size, color=QUIET).set_gid(NOTE)
        return
    # letters of matplotlib's own font are about half as wide as its size
    room = int(figure.get_figwidth() * 72.0 / (0.53 * size))
    lines = textwrap.wrap(plain(text, 600), room)
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=size, color=QUIET).set_gid(NOTE)
    figure.set_figheight(figure.get_figheight() + _room(len(lines)))


def _room(lines: int) -> float:
    """Return the height of a footnote in inches."""
    return 0.05 + 0.125 * lines if lines else 0.0


def laid_out(canvas: Canvas) -> Figure:
    """The figure with its layout settled, which otherwise moves a little each time the figure is drawn.

    The layout of a figure of the user does not change.
    """
    for name, most in MOST_DRAWN.items():
        artists = [each for axes in canvas.axes for each in axes.get_children() if each.get_gid() == name]
        if sum(map(_corners, artists)) > most:
            for each in artists:
                each.set_rasterized(True)
    if canvas.own:
        settle(canvas.figure)
    return canvas.figure


def _corners(artist: Artist) -> int:
    """Points that an artist is drawn through."""
    paths = artist.get_paths() if isinstance(artist, Collection) else [cast(Line2D, artist).get_path()]
    return sum(len(np.asarray(path.vertices)) for path in paths)


def settle(figure: Figure) -> None:
    """Lay a figure out once."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def restyled(figure: Figure, look: Look) -> Figure:
    """The figure with its title, labels and size as wished, laid out again.

    Labels replace those of the panels, or go to the first panel.  Raises InputError for unreadable mathematics.
    """
    if look == Look():
        return figure
    if look.size is not None:
        figure.set_size_inches(look.size)  # its height without what legend and small print have added
    drawn = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]  # matplotlib's own name of these
    for name, text in (("x", look.xlabel), ("y", look.ylabel)):
        if text is not None:
            labelled = [axes for axes in drawn if getattr(axes, f"get_{name}label")()] or drawn[:1]
            for axes in labelled:
                getattr(axes, f"set_{name}label")(typeset(f"{name}label", text), fontsize=label_size())
    for which, scale in (("x", look.xscale), ("y", look.yscale)):
        if scale is not None:
            _rescale(drawn, which, scale)
    figure.set_layout_engine("constrained")
    if look.title:
        _entitled(figure, typeset("title", look.title), higher=look.size is None)
    settle(figure)
    return figure


def _rescale(drawn: Sequence[Axes], which: str, scale: str) -> None:
    """Set the scale of all panels.  Raises InputError for an unknown one, and if a logarithm does not exist."""
    if scale not in SCALES:
        raise InputError(f"`--{which}scale` must be one of {', '.join(SCALES)}, got {shortened(scale)}")
    for axes in drawn:
        least = float(getattr(axes.dataLim, f"{which}min"))
        if scale == "log" and not least > 0.0:
            raise InputError(f"`--{which}scale` must be linear where values or places are not positive, got {scale}")
        getattr(axes, f"set_{which}scale")(scale)
        axes.autoscale_view()


def _entitled(figure: Figure, title: str, *, higher: bool) -> None:
    """Put a title above all of a figure, legends too, which is made higher by it if that is free."""
    points = label_size() + 1.0
    inches = 1.8 * points / 72.0  # a line with room above and below
    if higher:
        figure.set_figheight(figure.get_figheight() + inches)
    top = 1.0 - inches / figure.get_figheight()
    for each in figure.legends:
        each.set_bbox_to_anchor((0.0, 0.0, 1.0, top), figure.transFigure)
    legends = max((each.get_window_extent().height for each in figure.legends), default=0.0) / figure.bbox.height
    figure.set_layout_engine("constrained", rect=(0.0, 0.0, 1.0, top - 1.05 * legends))
    # not in the layout, whose rectangle leaves room for it
    figure.text(0.5, 0.5 * (1.0 + top), title, ha="center", va="center", fontsize=points).set_in_layout(False)


def without_notes(figure: Figure) -> str:
    """Remove footnotes and counts of runs from a figure, make it lower, and return the footnotes as one line."""
    notes = [each for each in figure.findobj(Text) if each.get_gid() == NOTE]
    counts = [each for each in figure.findobj(Text) if each.get_gid() == COUNT]
    lines = [line for text in notes for line in text.get_text().splitlines()]
    for axes in [axes for axes in figure.axes if any(each.axes is axes for each in counts)]:
        axes.set_title(axes.get_title(), fontsize=label_size())  # nearer, where counts stood below
    for each in counts:
        each.remove()
    for text in notes:
        text.set_text("")
    if any(text.axes is None for text in notes):  # we lay the figure out
        figure.set_figheight(figure.get_figheight() - _room(len(lines)))
        figure.set_layout_engine("constrained")
        settle(figure)
    return " ".join(lines).replace(r"\$", "$")


def labelled(label: str, width: int, form: str = "{}") -> str:
    """A label in the place of {} in `form`, on lines of about `width` characters."""
    return "\n".join(textwrap.wrap(form.format(label), width))


def symbol(name: str) -> str:
    """A parameter's name in mathematical type where it is a symbol: tau, N1, dt; else as it is."""
    if name in GREEK and name != "omicron":  # which is no mathematics' letter
        return rf"$\{'var' if name == 'epsilon' else ''}{name}$"  # \varepsilon has the form of GREEK's
    if name == "dt":
        return r"$\Delta t$"
    found = _INDEXED.fullmatch(name)
    if found is None:
        return plain(name)
    return f"${found[1]}_{{{found[2]}}}$" if found[2] else f"${found[1]}$"


def titled(title: str, name: str, width: int, short: str = "") -> str:
    """A parameter's label: its short one, or its title with its symbol behind, or the symbol alone to save a line."""
    if short:
        return labelled(short, width)
    sign = symbol(name) if name else ""
    if title == name and sign:
        return sign
    if sign.startswith("$") and title in (GREEK.get(name), "Δt"):
        return sign
    if not sign.startswith("$") or len(title) <= 3:  # which is a symbol itself
        return labelled(plain(title, LONGEST_TITLE), width)
    words = plain(title.removesuffix(f" {name}"), LONGEST_TITLE)
    quantity, opening, units = words.rpartition(" (")  # of units
    with_units = bool(opening) and units.endswith(")")
    text = f"{quantity} {sign} ({units}" if with_units else f"{words} {sign}"
    return text if len(text) <= width else f"{sign} ({units}" if with_units else sign


def explained(figure: Figure, data: xr.Dataset, variable: str) -> str:
    """The long names of what a figure names by a short label or by a symbol alone, as a sentence; empty without any."""
    drawn = [" ".join(text.split()) for text in _labels(figure)]
    found: dict[str, str] = {}
    for name in dict.fromkeys(map(str, [variable, *data.variables])):
        title, short = (title_of(data[name]), short_label(data[name])) if name in data.variables else (name, "")
        sign = symbol(name)
        if short and any(short in text for text in drawn):
            if not any(_as_text(short) in other for other in found):  # of a variable that is drawn, or more than that
                found[_as_text(short)] = title
        elif sign in drawn and sign.startswith("$") and len(title) > len(name):
            found[name] = title.removesuffix(f" {name}")
    text = "; ".join(f"{short} = {title}" for short, title in found.items() if short != title)
    return f"Labels: {text}." if text else ""


def _labels(figure: Figure) -> Iterator[str]:
    """Every label of an axis, a colour bar or a legend."""
    for axes in figure.axes:
        yield from (axes.get_xlabel(), axes.get_ylabel())
    for legend in (*figure.legends, *(each for axes in figure.axes if (each := axes.get_legend()) is not None)):
        yield legend.get_title().get_text()


def _as_text(label: str) -> str:
    """A label without its mathematical type: "relative L2 error", "E_q(u)"."""
    return re.sub(r"[$\\{}]|\^(?=\w)", "", label)
