"""Make figures with panels, a legend and a footnote, or draw on axes of the user."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from evogt_study.errors import InputError, shorten
from evogt_study.plots import style
from evogt_study.plots.groups import GroupedRuns, PlotRequest

PIXELS_PER_INCH = 96  # pixels per inch of an HTML page on each screen
MIN_PANEL_INCHES = 1.6  # smallest width of a panel in inches, with its labels on the left
_NOTE = "note"  # identifier of footnotes
_MAX_POINTS = {"runs": 1000, "band": 10_000, "median": 10_000}  # more points than 0.2 MB of SVG become an image
SCALES = ("linear", "log")
MAX_LINE_CHARACTERS = 48  # characters in a column of 3.4 in


@dataclass(frozen=True, eq=False)
class PlottedFigure:
    """Figure with its title, caption, alternative text, footnote and file name."""

    figure: Figure
    title: str
    caption: str
    alt: str
    footnote: str
    name: str = ""


class DisplayedFigure(Figure):
    """Figure that a notebook shows at its size in inches, without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = (round(PIXELS_PER_INCH * inches) for inches in self.get_size_inches())
        return style.encode_figure(self, "png", 200), {"width": width, "height": height}

    def _repr_svg_(self) -> str:
        return style.encode_figure(self, "svg").decode()

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save the figure like Matplotlib, by default with 300 dots per inch."""
        super().savefig(fname, **{"dpi": 300} | options)


@dataclass(eq=False)
class Canvas:
    """Figure with panels in rows of `columns`, and with a footnote."""

    figure: Figure
    axes: list[Axes]
    columns: int
    request: PlotRequest
    footnote: str = ""

    @property
    def has_own_figure(self) -> bool:
        """True if the package made the figure, False for axes of the user."""
        return self.request.ax is None or isinstance(self.request.ax, Figure)

    def grow(self, inches: float) -> None:
        """Increase the height of the figure for a legend or a footnote, so that panels keep their size."""
        if self.request.size is None:
            self.figure.set_figheight(self.figure.get_figheight() + inches)

    def wrap(self, label: str, width: int = MAX_LINE_CHARACTERS) -> str:
        """Return a label on lines of at most `width` characters, by default 14.2 characters per inch of a panel."""
        room = int(14.2 * self.figure.get_figwidth() / self.columns) if self.has_own_figure else width
        return wrap_label(label, min(width, room))

    def label_panels(self, runs: GroupedRuns, xlabel: str) -> None:
        """Set the title and x label of each panel, and the label of the variable at the first panel."""
        for number, axes in enumerate(self.axes):
            axes.set_title(style.to_drawable(runs.col.describe(number)))
            axes.set_xlabel(self.wrap(xlabel))
        self.axes[0].set_ylabel(wrap_label(runs.label, 32))

    def scale_values(self, values: Any, is_error: bool) -> None:
        """Set the y scale, which is logarithmic for errors and for values over three decades."""
        style.scale_axis(self.axes[0], "y", values, style.MIN_LOG_RATIO[is_error])

    def add_legend(self, handles: Sequence[Any], labels: Sequence[str], title: str = "", *, lines: bool = True) -> None:
        """Add one legend above all panels, or into the first of the user's axes."""
        if not labels:
            return
        figure, size = self.figure, style.find_font_size()
        if not self.has_own_figure:
            self.axes[0].legend(handles, labels, title=title or None)
            return
        title = "\n".join(filter(None, [style.parse_label("title", self.request.title), title]))
        handle = 2.6 if lines else 1.0  # width of the handle in font sizes
        room = figure.get_figwidth() * 72.0 / size
        # estimated widths, because Matplotlib measures text only when it draws
        widths = [0.56 * len(label) + handle + 1.8 for label in labels]
        columns = len(labels) if sum(widths) < room else max(1, int(room // (max(widths) + 0.2)))
        figure.legend(
            handles, labels, loc="outside upper left", ncols=columns, title=title or None, alignment="left",
            handlelength=handle, columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
        # a row has 0.145 in: 7 points of text, and half of it as legend.labelspacing
        rows = -(-len(labels) // columns) + (title.count("\n") + 1 if title else 0)
        self.grow(0.05 + 0.145 * rows)

    def add_series_legend(self, runs: GroupedRuns, *more: Line2D, lines: bool = True, markers: bool = True) -> None:
        """Add a legend of the series and of more lines.  Series are lines, markers or both."""
        series = runs.hue.values if runs.hue.name else ()
        handles = []
        for mark in map(style.choose_series_style, range(len(series))):
            dashes: Any = mark.dashes if lines else "none"
            marker = mark.marker if markers else None
            handles.append(Line2D([], [], color=mark.colour, linestyle=dashes, marker=marker, lw=1.2, markersize=4.2))
        labels = [*map(style.to_drawable, series), *(str(line.get_label()) for line in more)]
        title = wrap_label(runs.hue.label, MAX_LINE_CHARACTERS) if series else ""
        self.add_legend([*handles, *more], labels, title, lines=lines)

    def add_footnote(self, text: str) -> None:
        """Add a footnote below the panels.  On axes of the user, write only the number of runs above the last panel."""
        self.footnote = text
        if self.request.notes and not self.has_own_figure:
            look: dict[str, Any] = {"fontsize": style.find_font_size(), "color": style.NOTE_COLOUR, "gid": _NOTE}
            self.axes[-1].set_title(style.to_drawable(text.partition(";")[0], 600), loc="right", **look)
        elif self.request.notes:
            # letters of Matplotlib's font are about half as wide as its size
            room = int(self.figure.get_figwidth() * 72.0 / (0.53 * style.find_font_size()))
            lines = textwrap.wrap(style.to_drawable(text, 600), room)
            self.figure.supxlabel("\n".join(lines), x=0.01, ha="left", color=style.NOTE_COLOUR, gid=_NOTE)
            self.grow(0.05 + 0.125 * len(lines))

    def finish(self, title: str, marks: str, alt: str, subject: str = "") -> PlottedFigure:
        """Apply the labels and scales of the request, compute the layout, and return the figure with its texts."""
        for gid, most in _MAX_POINTS.items():
            artists = [each for axes in self.axes for each in axes.get_children() if each.get_gid() == gid]
            lines = [each.get_path() for each in artists if isinstance(each, Line2D)]
            paths = [path for each in artists if isinstance(each, Collection) for path in each.get_paths()]
            if sum(len(np.asarray(path.vertices)) for path in (*lines, *paths)) > most:
                for each in artists:
                    each.set_rasterized(True)
        if self.has_own_figure:
            for which in ("x", "y"):
                label, scale = getattr(self.request, f"{which}label"), getattr(self.request, f"{which}scale")
                if label is not None:
                    text = style.parse_label(f"{which}label", label)
                    labelled = [axes for axes in self.axes if getattr(axes, f"get_{which}label")()]
                    for axes in labelled or self.axes[:1]:
                        getattr(axes, f"set_{which}label")(text)
                if scale not in (None, *SCALES):
                    raise InputError(f"`{which}scale` must be one of {', '.join(SCALES)}, got {shorten(scale)}")
                for axes in self.axes if scale is not None else ():
                    if scale == "log" and not getattr(axes.dataLim, f"{which}min") > 0.0:
                        message = f"`{which}scale` must be linear if values or positions are not positive"
                        raise InputError(f"{message}, got {scale}")
                    getattr(axes, f"set_{which}scale")(scale)
                    axes.autoscale_view()
            if self.request.title and not self.figure.legends:  # the legend has the title above it
                self.figure.suptitle(style.parse_label("title", self.request.title), x=0.01, ha="left")
                self.grow(0.2)
            # the number of ticks depends on this font size, not on rcParams
            for axes in self.figure.axes:
                axes.tick_params(labelsize=style.find_font_size(), which="both")
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")  # without this line, each drawing changes the layout
        return PlottedFigure(self.figure, title, join_sentences(subject or alt, marks), alt, self.footnote)


def make_canvas(rows: int, columns: int, size: tuple[float, float], request: PlotRequest, **subplots: Any) -> Canvas:
    """Return a canvas of `size` inches with rows x columns axes, or with the axes or the figure of the request."""
    ax = request.ax
    if ax is not None and not isinstance(ax, Figure):
        given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != rows * columns:
            raise InputError(f"`ax` must be as many axes as there are panels, {rows * columns}, got {len(given)}")
        return Canvas(given[0].figure.figure, given, columns, request)  # the figure of the axes or of their subfigure
    figure = ax or DisplayedFigure(figsize=find_requested_size(request) or size)
    figure.set_layout_engine("constrained")
    return Canvas(figure, list(figure.subplots(rows, columns, squeeze=False, **subplots).ravel()), columns, request)


def find_requested_size(request: PlotRequest) -> tuple[float, float] | None:
    """Return width and height from the given figure, the request or rcParams, or None for the default size."""
    if isinstance(request.ax, Figure):
        return cast(tuple[float, float], tuple(request.ax.get_size_inches()))
    changed = style.is_changed("figure.figsize")
    return request.size or (tuple(matplotlib.rcParams["figure.figsize"]) if changed else None)


def make_panels(
    count: int, request: PlotRequest, size: tuple[float, float] = (style.COLUMN_INCHES, 2.3), *, sharex: bool = True
) -> Canvas:
    """Return a canvas of `count` panels, at most three in a row, in one column or the width of a page."""
    width = (find_requested_size(request) or (style.PAGE_INCHES,))[0]
    columns = min(count, 2 if count == 4 else 3, max(1, int(width / MIN_PANEL_INCHES)))
    columns = columns if request.ax is None or isinstance(request.ax, Figure) else count
    rows = -(-count // columns)
    size = size if count == 1 else (style.PAGE_INCHES, 0.9 * size[1] * rows)
    canvas = make_canvas(rows, columns, size, request, sharex=sharex, sharey=True)
    for spare in canvas.axes[count:]:
        spare.remove()
    canvas.axes = canvas.axes[:count]
    for number, axes in enumerate(canvas.axes if canvas.has_own_figure else ()):
        axes.tick_params(labelbottom=not sharex or number + columns >= count, which="both")
    return canvas


def join_sentences(*texts: str) -> str:
    """Return several texts joined as sentences of a caption."""
    return "  ".join(f"{text[:1].upper()}{text[1:]}".removesuffix(".") + "." for text in texts if text)


def wrap_label(label: str, width: int) -> str:
    """Return a label on lines of at most `width` characters."""
    return "\n".join(textwrap.wrap(label, width))
