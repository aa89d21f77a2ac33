"""Set sizes, colours and markers of all figures, escape their text and write their files, without pyplot."""

import io
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
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from evogt_study.errors import InputError, cut, shorten
from evogt_study.text import escape_text

COLUMN_INCHES = 3.4  # inches of a column of a two-column paper
PAGE_INCHES = 6.5  # inches of a page
RC_PARAMS: dict[str, Any] = {
    "axes.grid": True, "grid.color": "0.9", "grid.linewidth": 0.5, "axes.axisbelow": True, "legend.frameon": False,
    "axes.formatter.use_mathtext": True, "axes.formatter.useoffset": False, "axes.formatter.limits": (-3, 4),
}  # fmt: skip
NOTE_COLOUR = "0.35"  # grey of notes and reference lines, dark enough to read
MAX_NAME_CHARACTERS = 40  # largest number of characters of a name from a file
MIN_LOG_RATIO = {True: 3.0, False: 1e3}  # smallest ratios for a logarithmic scale, by "is an error"

# colours of Okabe and Ito without yellow, which is too light for a line
# dashes and markers differ too, for readers and printers without colour
STYLES: tuple[tuple[str, Any], ...] = (
    ("#000000", "solid"), ("#D55E00", "dashed"), ("#0072B2", "dashdot"), ("#009E73", "dotted"),
    ("#CC79A7", (0, (7, 2))), ("#E69F00", (0, (3, 1, 1, 1, 1, 1))), ("#56B4E9", (0, (1, 3))),
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = ("png", "pdf", "svg")


def make_settings() -> Any:
    """Return the rcParams for a figure, without the rcParams that the user has changed."""
    scale = matplotlib.rcParams["font.size"] / matplotlib.rcParamsDefault["font.size"]
    own = {"axes.labelsize": 8.0 * scale, "xtick.labelsize": 7.0 * scale, **RC_PARAMS}
    own = {name: value for name, value in own.items() if not is_changed(name)}
    current: Any = matplotlib.rcParams | own
    labels = dict.fromkeys(("axes.titlesize", "figure.titlesize"), current["axes.labelsize"])
    numbers = ("ytick.labelsize", "legend.fontsize", "legend.title_fontsize", "figure.labelsize")
    return own | labels | dict.fromkeys(numbers, current["xtick.labelsize"])


def find_font_size(name: str = "xtick.labelsize") -> float:
    """Return a font size of rcParams in points, by default the size of numbers, legends and footnotes."""
    return float(FontProperties(size=cast(Any, matplotlib.rcParams)[name]).get_size_in_points())


def is_changed(name: str) -> bool:
    """Return True if the user has changed a setting of rcParams."""
    return bool(cast(Any, matplotlib.rcParams)[name] != cast(Any, matplotlib.rcParamsDefault)[name])


class Style(NamedTuple):
    """Colour, dashes and marker of one series."""

    colour: str
    dashes: Any
    marker: str


def draw_runs(axes: Axes, x: Any, y: Any, look: Style, **more: Any) -> None:
    """Draw a marker for each run."""
    axes.plot(x, y, color=look.colour, marker=look.marker, linestyle="none", markeredgewidth=0.0, gid="runs", **more)


def choose_series_style(number: int) -> Style:
    """Return the style of a series, with the colour cycle of rcParams if the user has changed it."""
    colour, _ = STYLES[number % len(STYLES)]
    if is_changed("axes.prop_cycle"):
        cycle = matplotlib.rcParams["axes.prop_cycle"].by_key().get("color", [colour])
        colour = str(cycle[number % len(cycle)])
    shift = number + number // len(STYLES)
    return Style(colour, STYLES[shift % len(STYLES)][1], MARKERS[shift % len(MARKERS)])


def scale_axis(axes: Axes, which: str, values: Any, min_ratio: float = 3.0) -> None:
    """Make axis "x" or "y" logarithmic if all finite `values` are positive and span `min_ratio`."""
    finite_values = np.asarray(values, dtype=float)
    finite_values = finite_values[np.isfinite(finite_values)]
    axis = axes.xaxis if which == "x" else axes.yaxis
    scale = axes.set_xscale if which == "x" else axes.set_yscale
    positive = finite_values[finite_values > 0.0]
    least = 0.0 if which == "x" else -np.finfo(float).tiny  # zeros along x prevent a logarithmic scale
    if not len(positive) or finite_values.min() <= least or positive.max() < min_ratio * positive.min():
        if len(finite_values) and bool((finite_values == np.round(finite_values)).all()):
            axis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    elif len(positive) == len(finite_values):
        scale("log")
        decades = np.log10(positive.max() / positive.min())
        axis.set_minor_formatter(NullFormatter())
        if decades > 1.5:
            axis.set_major_locator(LogLocator(numticks=7))
        else:  # a short range may contain no power of ten
            digits = (1.0, 2.0, 5.0) if decades > 0.7 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
            axis.set_major_locator(LogLocator(subs=digits))
            axis.set_major_formatter(FuncFormatter(lambda value, _: format_tick(value)))
    else:  # zeros along y need a linear part, up to the smallest positive value
        scale("symlog", linthresh=float(positive.min()))


def format_tick(value: float) -> str:
    """Return the text of a number at a tick, such as "0.02" or "2e−5"."""
    return f"{value:g}".replace("e-0", "e-").replace("-", "−")


def mark_positions(axes: Axes, positions: Any, width: float) -> None:
    """Set a tick at each position if there are few, except ticks whose labels overlap on `width` inches."""
    places = np.unique(np.asarray(positions, dtype=float))
    log = axes.get_xscale() == "log"
    if not 2 <= len(places) <= 9 or (log and places.max() > 300.0 * places.min()):
        return
    scaled = np.log(places) if log else places
    # half widths of labels, with 0.06 in for a digit of 7 points
    room = [0.5 * 0.06 * len(format_tick(place)) * (scaled[-1] - scaled[0]) / width for place in places]
    kept = [0]
    for i in range(1, len(places)):
        if scaled[i] - scaled[kept[-1]] > 1.25 * (room[i] + room[kept[-1]]):
            kept.append(i)
    axes.set_xticks(places[kept], labels=[format_tick(place) for place in places[kept]])
    axes.minorticks_off()


def to_drawable(text: str, limit: int = MAX_NAME_CHARACTERS) -> str:
    """Return text from a file without mathematics, and with "?" for characters that the font lacks."""
    lines = [_replace_missing_glyphs(" ".join(line.split())) for line in text.split("\n")]
    return cut("\n".join(lines), limit).replace("$", r"\$")


def parse_label(option: str, text: str) -> str:
    """Return a label with mathematics between dollars.  Raises InputError for invalid mathematics."""
    line = _replace_missing_glyphs(text)
    try:
        if is_math_text(line):
            MathTextParser("path").parse(line)
    except ValueError:
        message = f"`{option}` must have mathematics between its dollars that Matplotlib reads"
        raise InputError(rf"{message}, got {shorten(text)}. Write \$ for a dollar.") from None
    return line


def _replace_missing_glyphs(text: str) -> str:
    return "".join(c if ord(c) in _read_font_characters() else "?" for c in escape_text(text))


@cache
def _read_font_characters() -> frozenset[int]:
    """Return the characters that the font of labels has."""
    return frozenset(FT2Font(findfont(FontProperties())).get_charmap())


def encode_figure(figure: Figure, form: str, dpi: float | None = None) -> bytes:
    """Return the bytes of a figure file, which are equal for equal figures.  `dpi` is the resolution of images."""
    if form not in FORMATS:
        raise InputError(f"`--output` must end in .{', .'.join(FORMATS)}, got {'.' + form if form else 'no ending'}")
    # files without dates and versions are reproducible, and Matplotlib reads the salt only from global settings
    # journals refuse fonts of type 3
    settings: Any = {"svg.hashsalt": "evogt", "svg.fonttype": "path", "pdf.fonttype": 42}
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Creator": None}, "svg": {"Date": None}}
    stream = io.BytesIO()
    with matplotlib.rc_context(settings):
        figure.savefig(stream, format=form, dpi=dpi or (200 if form == "svg" else 300), metadata=metadata[form])
    return stream.getvalue()
