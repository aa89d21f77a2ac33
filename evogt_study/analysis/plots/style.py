"""Common parts of all pictures: sizes, colours and marks, text that nothing interprets, and the formats of a file.

Figures are made through matplotlib's objects, without pyplot: no display, no list of open figures, and threads may
draw at the same time.
"""

from __future__ import annotations

import io
import textwrap
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from evogt_study.errors import InputError, cut
from evogt_study.printable import shown

COLUMN_WIDTH = 3.4  # inches, of one column of a two-column paper
TEXT_WIDTH = 6.5  # of the whole page
LABEL_SIZE = 8  # points
TICK_SIZE = 7
QUIET = "0.35"  # of notes and reference lines: dark enough to read
LABEL_LIMIT = 40  # characters of a name from a file

# Okabe and Ito's colours but yellow, which is too light for a line; each with a dash pattern and a marker of its own,
# for readers and printers without colour
STYLES: tuple[tuple[str, Any], ...] = (
    ("#000000", "solid"),
    ("#D55E00", "dashed"),
    ("#0072B2", "dashdot"),
    ("#009E73", "dotted"),
    ("#CC79A7", (0, (7, 2))),
    ("#E69F00", (0, (3, 1, 1, 1, 1, 1))),
    ("#56B4E9", (0, (1, 3))),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = ("png", "pdf", "svg")
CSS_PIXELS = 96  # of an inch on a page, whatever the screen has

_LOCK = threading.Lock()


class DisplayedFigure(Figure):
    """Figure that a notebook shows as the value of a cell, at its size in inches; pyplot does not know it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = (round(CSS_PIXELS * inches) for inches in self.get_size_inches())
        return png(self), {"width": width, "height": height}

    def _repr_svg_(self) -> str:
        return svg(self)


class Style(NamedTuple):
    """Colour, marker and dashes of one series."""

    colour: str
    dashes: Any
    marker: str


def style(number: int) -> Style:
    """The style of series `number`; after seven, colours come again with other markers and dashes."""
    colour, _ = STYLES[number % len(STYLES)]
    shift = number + number // len(STYLES)
    return Style(colour, STYLES[shift % len(STYLES)][1], MARKERS[shift % len(MARKERS)])


def panels(count: int, height: float = 2.3) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels: one fills a column, several a page's width, at most three in a row."""
    columns = min(count, 3) if count != 4 else 2
    rows = -(-count // columns)
    width = COLUMN_WIDTH if count == 1 else TEXT_WIDTH
    figure = DisplayedFigure(figsize=(width, height if count == 1 else 0.9 * height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for spare in grid[count:]:
        spare.remove()
    for number, axes in enumerate(grid[:count]):
        axes.tick_params(labelsize=TICK_SIZE, which="both", labelbottom=number + columns >= count)
        axes.grid(color="0.9", linewidth=0.5)
        axes.set_axisbelow(True)
    return figure, list(grid[:count])


def logarithmic(axes: Axes, which: str, values: Any) -> None:
    """A logarithmic scale of axis "x" or "y" where all finite `values` are positive and spread; linear otherwise.

    Along "y", values of at least zero are drawn on a scale that is linear up to the smallest positive one.
    """
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    axis = axes.xaxis if which == "x" else axes.yaxis
    scale = axes.set_xscale if which == "x" else axes.set_yscale
    positive = finite[finite > 0.0]
    least = 0.0 if which == "x" else -np.finfo(float).tiny  # zeros along a picture are places like others
    if not len(positive) or finite.min() <= least or positive.max() < 3.0 * positive.min():
        formatter = ScalarFormatter(useMathText=True, useOffset=False)
        formatter.set_powerlimits((-3, 4))
        axis.set_major_formatter(formatter)
        if len(finite) and bool((finite == np.round(finite)).all()):
            axis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
        axis.get_offset_text().set_fontsize(TICK_SIZE)
    elif len(positive) == len(finite):
        scale("log")
        decades = np.log10(positive.max() / positive.min())
        axis.set_minor_formatter(NullFormatter())
        if decades > 1.5:
            axis.set_major_locator(LogLocator(numticks=7))
        else:  # there may be no power of ten among them
            axis.set_major_locator(
                LogLocator(subs=(1.0, 2.0, 5.0) if decades > 0.7 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
            )
            axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    else:
        scale("symlog", linthresh=float(positive.min()))


def short(value: float) -> str:
    """A number of few digits as it stands at a tick: "0.02", "2e−5"."""
    return f"{value:g}".replace("e-0", "e-").replace("-", "−")


def marked(axes: Axes, positions: Any, width: float) -> None:
    """Ticks at the positions themselves where these are few, less those whose labels would meet on `width` inches."""
    places = np.unique(np.asarray(positions, dtype=float))
    log = axes.get_xscale() == "log"
    if not 2 <= len(places) <= 9 or (log and places.max() > 300.0 * places.min()):
        return
    scaled = np.log(places) if log else places
    room = [0.5 * 0.06 * len(short(place)) * (scaled[-1] - scaled[0]) / width for place in places]
    kept = [0]
    for i in range(1, len(places)):
        if scaled[i] - scaled[kept[-1]] > 1.25 * (room[i] + room[kept[-1]]):
            kept.append(i)
    axes.set_xticks(places[kept], labels=[short(place) for place in places[kept]])
    axes.minorticks_off()


def legend(
    figure: Figure, handles: Sequence[Any], labels: Sequence[str], title: str = "", *, lines: bool = True
) -> None:
    """One legend above all panels, which it does not take room from: as many entries in a row as there is room for."""
    if not labels:
        return
    handle = 2.6 if lines else 1.0  # in font sizes
    room = figure.get_figwidth() * 72.0 / TICK_SIZE
    widths = [0.56 * len(label) + handle + 1.8 for label in labels]
    columns = len(labels) if sum(widths) < room else max(1, int(room // (max(widths) + 0.2)))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, fontsize=TICK_SIZE, frameon=False,
        title=title or None, title_fontsize=TICK_SIZE, alignment="left", handlelength=handle, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip
    rows = -(-len(labels) // columns) + (title.count("\n") + 1 if title else 0)
    figure.set_figheight(figure.get_figheight() + 0.05 + 0.145 * rows)


def note(figure: Figure, text: str) -> None:
    """A line of small print below the panels: what is drawn, and which runs are not."""
    room = int(figure.get_figwidth() * 72.0 / (0.5 * TICK_SIZE))
    lines = textwrap.wrap(plain(text, 600), room)
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=TICK_SIZE, color=QUIET)
    figure.set_figheight(figure.get_figheight() + 0.05 + 0.125 * len(lines))


def wrapped(text: str, width: int) -> str:
    """A label on lines of about `width` characters."""
    return "\n".join(textwrap.wrap(plain(text, 160), width))


def plain(text: str, limit: int = LABEL_LIMIT) -> str:
    """Text from a file as it is drawn: no mathematics between dollars, no character that the font does not have."""
    known = _characters()
    lines = [shown(" ".join(line.split())) for line in text.split("\n")]
    lines = ["".join(c if ord(c) in known else "?" for c in line) for line in lines]
    return cut("\n".join(lines), limit).replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    """The characters of the font that labels are set in."""
    return frozenset(FT2Font(findfont("DejaVu Sans")).get_charmap())


def laid_out(figure: Figure) -> Figure:
    """The figure with its layout settled, which otherwise moves a little each time the figure is drawn."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def svg(figure: Figure) -> str:
    """The figure as SVG text, letters as outlines; the same figure gives the same text."""
    stream = io.BytesIO()
    # without a salt the identifiers are random, and there is no other place to give one than the global settings
    with _LOCK, matplotlib.rc_context({"svg.hashsalt": "evogt", "svg.fonttype": "path"}):
        figure.savefig(stream, format="svg", dpi=200, metadata={"Date": None})
    return stream.getvalue().decode()


def png(figure: Figure, dpi: float = 200.0) -> bytes:
    """The figure as PNG; the same figure gives the same bytes."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def pdf(figure: Figure) -> bytes:
    """The figure as PDF with its fonts; the same figure gives the same bytes."""
    stream = io.BytesIO()
    with _LOCK, matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(stream, format="pdf", dpi=300, metadata={"CreationDate": None, "Creator": None})
    return stream.getvalue()


def encoded(figure: Figure, form: str) -> bytes:
    """The figure as the bytes of a file.  Raises InputError for a format that is none of `FORMATS`."""
    makers = {"png": lambda: png(figure, 300.0), "pdf": lambda: pdf(figure), "svg": lambda: svg(figure).encode()}
    if form not in makers:
        raise InputError(f"`--output` must end in .{', .'.join(FORMATS)}, got {'.' + form if form else 'no ending'}")
    return makers[form]()
