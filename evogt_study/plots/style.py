"""Sizes, colours and markers of all figures, text from files without markup, and file formats.

Figures use the objects of matplotlib without pyplot.  They need no display and no list of open figures, and several
threads can draw at the same time.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.mathtext import MathTextParser
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from evogt_study.errors import InputError, cut, shortened
from evogt_study.text import shown

COLUMN_WIDTH = 3.4  # inches, of one column of a two-column paper
TEXT_WIDTH = 6.5  # of the whole page
OWN_SIZES = {"axes.labelsize": 8.0, "xtick.labelsize": 7.0}  # points, that fit a column
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

_LOCK = threading.Lock()


def label_size() -> float:
    """Return the points of labels and titles: the default of the package, or of rcParams if they were changed."""
    return _size("axes.labelsize")


def tick_size() -> float:
    """Return the points of numbers, legends and footnotes, by the same rule."""
    return _size("xtick.labelsize")


def _size(name: str) -> float:
    now, default = _settings()
    if now[name] != default[name]:
        return float(FontProperties(size=now[name]).get_size_in_points())
    return OWN_SIZES[name] * float(now["font.size"]) / float(default["font.size"])


def changed(name: str) -> bool:
    """Test for a setting of rcParams that the user has changed."""
    now, default = _settings()
    return bool(now[name] != default[name])


def _settings() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The settings of matplotlib now, and its defaults."""
    return cast(Mapping[str, Any], matplotlib.rcParams), cast(Mapping[str, Any], matplotlib.rcParamsDefault)


class Style(NamedTuple):
    """Colour, marker and dashes of one series."""

    colour: str
    dashes: Any
    marker: str


def style(number: int) -> Style:
    """The style of series `number`; after seven, colours come again with other markers and dashes.

    A changed colour cycle in rcParams replaces these colours.
    """
    colour, _ = STYLES[number % len(STYLES)]
    if changed("axes.prop_cycle"):
        cycle = matplotlib.rcParams["axes.prop_cycle"].by_key().get("color", [colour])
        colour = str(cycle[number % len(cycle)])
    shift = number + number // len(STYLES)
    return Style(colour, STYLES[shift % len(STYLES)][1], MARKERS[shift % len(MARKERS)])


DECADES = 1e3
"""Ratio of values from which on their scale is logarithmic, although nothing declares them an error."""


def scale_values(axes: Axes, which: str, values: Any, *, error: bool) -> None:
    """Scale axis "x" or "y" for values of a variable: logarithmic for an error, or if they span three decades."""
    scale_axis(axes, which, values, 3.0 if error else DECADES)


def scale_axis(axes: Axes, which: str, values: Any, spread: float = 3.0) -> None:
    """A logarithmic scale of axis "x" or "y" if all finite `values` are positive and span `spread`; linear otherwise.

    Along "y", values of at least zero are drawn on a scale that is linear up to the smallest positive one.
    """
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    axis = axes.xaxis if which == "x" else axes.yaxis
    scale = axes.set_xscale if which == "x" else axes.set_yscale
    positive = finite[finite > 0.0]
    least = 0.0 if which == "x" else -np.finfo(float).tiny  # zeros along a picture are places like others
    if not len(positive) or finite.min() <= least or positive.max() < spread * positive.min():
        formatter = ScalarFormatter(useMathText=True, useOffset=False)
        formatter.set_powerlimits((-3, 4))
        axis.set_major_formatter(formatter)
        if len(finite) and bool((finite == np.round(finite)).all()):
            axis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
        axis.get_offset_text().set_fontsize(tick_size())
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
    """Return a number of few digits as text at a tick: "0.02", "2e−5"."""
    return f"{value:g}".replace("e-0", "e-").replace("-", "−")


def marked(axes: Axes, positions: Any, width: float) -> None:
    """Ticks at the positions themselves where these are few, less those whose labels would meet on `width` inches."""
    places = np.unique(np.asarray(positions, dtype=float))
    log = axes.get_xscale() == "log"
    if not 2 <= len(places) <= 9 or (log and places.max() > 300.0 * places.min()):
        return
    scaled = np.log(places) if log else places
    # 0.06 in: a digit of 7 points
    room = [0.5 * 0.06 * len(short(place)) * (scaled[-1] - scaled[0]) / width for place in places]
    kept = [0]
    for i in range(1, len(places)):
        if scaled[i] - scaled[kept[-1]] > 1.25 * (room[i] + room[kept[-1]]):
            kept.append(i)
    axes.set_xticks(places[kept], labels=[short(place) for place in places[kept]])
    axes.minorticks_off()


def plain(text: str, limit: int = LABEL_LIMIT) -> str:
    """Text from a file as it is drawn: no mathematics between dollars, no character that the font does not have."""
    known = _characters()
    lines = [shown(" ".join(line.split())) for line in text.split("\n")]
    lines = ["".join(c if ord(c) in known else "?" for c in line) for line in lines]
    return cut("\n".join(lines), limit).replace("$", r"\$")


def typeset(option: str, text: str) -> str:
    """Text as it was typed, with mathematics between dollars.  Raises InputError where that cannot be read."""
    known = _characters()
    line = "".join(c if ord(c) in known else "?" for c in shown(text))
    try:
        if is_math_text(line):
            MathTextParser("path").parse(line)
    except ValueError:
        raise InputError(
            f"`--{option}` must have mathematics between its dollars that Matplotlib reads, got {shortened(text)}; "
            r"write \$ for a dollar"
        ) from None
    return line


@cache
def _characters() -> frozenset[int]:
    """The characters of the font that labels are set in."""
    return frozenset(FT2Font(findfont(FontProperties())).get_charmap())


def svg(figure: Figure, dpi: float = 200.0) -> str:
    """The figure as SVG text, letters as outlines; the same figure gives the same text.

    dpi: of fields and of clouds of many points, which are images in it.
    """
    stream = io.BytesIO()
    # without a salt the identifiers are random, and there is no other place to give one than the global settings
    with _LOCK, matplotlib.rc_context({"svg.hashsalt": "evogt", "svg.fonttype": "path"}):
        figure.savefig(stream, format="svg", dpi=dpi, metadata={"Date": None})
    return stream.getvalue().decode()


def png(figure: Figure, dpi: float = 200.0) -> bytes:
    """The figure as PNG; the same figure gives the same bytes."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})  # else matplotlib's version is in it
    return stream.getvalue()


# fonttype 42, TrueType: some journals refuse matplotlib's default, Type 3
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
