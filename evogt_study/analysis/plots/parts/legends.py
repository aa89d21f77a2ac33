"""Legends of the series: by their lines, or by their markers where there are no lines."""

from __future__ import annotations

from typing import Any

from matplotlib.lines import Line2D

from evogt_study.analysis.plots.parts.arranged import Arranged
from evogt_study.analysis.plots.parts.canvas import Canvas, legend
from evogt_study.analysis.plots.parts.labels import titled
from evogt_study.analysis.plots.parts.style import plain, style

TITLE_WIDTH = 48  # characters of a column of 3.4 in, 14.2 an inch as `Canvas.characters` has them


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
