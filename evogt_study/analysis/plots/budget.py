"""Budget of the final error: the parts of eq:error_split_retained as shares of their squares, stacked by cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from evogt_study.analysis.plots.parts.arranged import Arranged, Places, arranged
from evogt_study.analysis.plots.parts.canvas import Given, laid_out, legend, note, panels
from evogt_study.analysis.plots.parts.labels import titled
from evogt_study.analysis.plots.parts.style import label_size, plain, style
from evogt_study.errors import InputError

BUDGET = ("error_full_space", "error_retained", "error_evolution", "error_time")
CAUSES = (
    "too few features (N)",
    "the truncation (tau)",
    "Galerkin evolution and quadrature",
    "the time step (dt)",
)
MOST_CELLS = 24  # along one panel: the labels of more meet, as in `distribution`
MOST_NAMED = 4  # cells that a sentence names


def has_budget(data: xr.Dataset) -> bool:
    """True where a result has all parts of the budget, with values."""
    return all(
        name in data and data[name].dtype.kind == "f" and bool(np.isfinite(data[name].values).any()) for name in BUDGET
    )


def budget(data: xr.Dataset, places: Places | None = None, *, ax: Given = None) -> Figure:
    """Shares of the causes in the sum of their squares, by medians over the sample, one bar for each cell.

    Raises InputError for axes that are none, or a result without the variables of `BUDGET`.
    """
    runs, shares = _shares(data, places or Places())
    canvas = panels(len(runs.panels.labels), height=2.3, ax=ax)
    drawn = canvas.axes
    series, along = len(runs.series.labels), len(runs.along.labels)
    width = 0.8 / series
    for number, axes in enumerate(drawn):
        for one in range(series):
            centres = np.arange(along) + (one - (series - 1) / 2.0) * width
            below = np.zeros(along)
            for cause, share in enumerate(shares[:, number, one]):
                colour = style(cause).colour
                axes.bar(centres, share, 0.92 * width, below, color=colour, edgecolor="white", linewidth=0.3)
                below = below + np.nan_to_num(share)
            if series > 1:
                for centre in centres:
                    axes.text(centre, 1.02, plain(runs.series.labels[one]), rotation=90, ha="center", fontsize=5)
        # 40 points: room for the series' labels, which stand upright on the bars
        axes.set_title(plain(runs.panels.told(number)), fontsize=label_size(), pad=40 if series > 1 else None)
        axes.set_xticks(range(along), labels=[plain(label) for label in runs.along.labels])
        axes.set_ylim(0.0, 1.0)
        axes.set_xlabel(
            titled(runs.along.title, runs.along.name, canvas.characters(48), runs.along.short), fontsize=label_size()
        )
    drawn[0].set_ylabel("share of the squared error", fontsize=label_size())
    legend(canvas, [Patch(color=style(cause).colour) for cause in range(len(CAUSES))], list(CAUSES), "", lines=False)
    note(canvas, runs.footnote(runs.lacking_told()))
    return laid_out(canvas)


def limits(data: xr.Dataset, places: Places | None = None) -> str:
    """The cause that limits each cell, in a sentence: the largest share."""
    runs, shares = _shares(data, places or Places())
    known = np.isfinite(shares).all(axis=0)
    sentences = []
    for cause in dict.fromkeys(np.nan_to_num(shares).argmax(axis=0)[known].tolist()):
        cells = np.argwhere(known & (np.nan_to_num(shares).argmax(axis=0) == cause))
        sentences.append(f"{CAUSES[cause]} is what limits {_where(runs, cells, int(known.sum()))}")
    told = "; ".join(sentences)
    return f"{told[:1].upper()}{told[1:]}." if told else "No run has a budget."


def _where(runs: Arranged, cells: npt.NDArray[np.intp], count: int) -> str:
    if len(cells) == count:
        return "all cells" if count > 1 else "the runs"
    named = [runs.told(*map(int, cell)) for cell in cells[:MOST_NAMED]]
    more = f" and {len(cells) - MOST_NAMED} more" if len(cells) > MOST_NAMED else ""
    return _listed(named) + more


def _listed(names: Sequence[str]) -> str:
    return " / ".join(names)


def _shares(data: xr.Dataset, places: Places) -> tuple[Arranged, npt.NDArray[np.float64]]:
    """The cells, and the shares (4, P, S, X): the retained part is counted without that of the full space."""
    if lacking := [name for name in BUDGET if name not in data]:
        told = f"{', '.join(f'`{name}`' for name in lacking)} must be in the file to draw the budget"
        raise InputError(f"{told}; put them into `record` of the study's [output]")
    arranged_by = [arranged(data, name, places, most=MOST_CELLS) for name in BUDGET]
    squares = np.stack([runs.medians for runs in arranged_by]) ** 2
    squares[1] = np.maximum(squares[1] - squares[0], 0.0)  # of medians, which may cross
    total = squares.sum(axis=0)
    return arranged_by[0], np.divide(squares, total, out=np.full_like(squares, np.nan), where=total > 0.0)
