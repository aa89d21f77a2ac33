"""Statistics as a table of text, Markdown, LaTeX or CSV, one row for each point.

k/n in the column n says on how many of the planned runs a row rests.  Tables with an axis across are in `pivot`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.blocks import BOUND, COUNTS
from evogt_study.analysis.labels import heads
from evogt_study.analysis.notes import NOTE, NOTED, heavy
from evogt_study.analysis.tables.numbers import NumberFormat
from evogt_study.errors import InputError
from evogt_study.text import shown

FORMATS = ("text", "markdown", "latex", "csv")


def rows(
    statistics: xr.Dataset,
    names: Sequence[str] | None = None,
    form: NumberFormat = NumberFormat(),
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a summary: one row for each point, labels first, then its statistics in `form`, then k/n.

    Doubts about its interval of the mean come last.  Where a mean is not known the median stands before it.

    names: the dimensions in the order in which rows go through them, and parameters that follow them (all dimensions,
    in their order).  Points where no run is planned have no row.

    Raises InputError where a dimension is not among the names, or a name is none.
    """
    dims = [str(dim) for dim in statistics["n_ok"].dims]
    names = dims if names is None else list(names)
    order, labels = heads(statistics, names, dims)
    columns = dict(_columns(statistics, order))
    texts = [[form.text(number) for number in column] for column in columns.values()]
    n_ok, n_planned = (statistics[name].transpose(*order).values.ravel().tolist() for name in COUNTS)
    counts = [f"{ok}/{planned}" if planned else "" for ok, planned in zip(n_ok, n_planned, strict=True)]
    notes = statistics[NOTE].transpose(*order).values.ravel().tolist() if NOTE in statistics else []
    last = [[count, note] for count, note in zip(counts, notes, strict=True)] if any(notes) else [[n] for n in counts]
    body = [[*head, *cells, *end] for head, *cells, end in zip(labels, *texts, last, strict=True) if end[0]]
    return [*names, *columns, "n", *([NOTE] if any(notes) else [])], body


def headline_first(statistics: xr.Dataset) -> list[str]:
    """Names of the statistics of a table, the median's first where a mean is not known."""
    names = [str(name) for name in statistics.data_vars if name not in (*COUNTS, *NOTED, NOTE)]
    if NOTE not in statistics or not bool(heavy(statistics).any()):
        return names
    return sorted(names, key=lambda name: not name.startswith("median"))


def _columns(statistics: xr.Dataset, order: Sequence[str]) -> Iterator[tuple[str, list[float]]]:
    """Heading and numbers of each column; an interval has two."""
    for name in headline_first(statistics):
        values: npt.NDArray[np.float64] = statistics[name].transpose(*order, ...).values
        if BOUND in statistics[name].dims:
            yield f"{name} lower", values[..., 0].ravel().tolist()
            yield f"{name} upper", values[..., 1].ravel().tolist()
        else:
            yield name, values.ravel().tolist()


def rendered(header: Sequence[str], body: Sequence[Sequence[str]], form: str) -> str:
    """The table in one of `FORMATS`, with cells in which nothing acts or forges a row.  Raises InputError."""
    if form not in FORMATS:
        raise InputError(f"`format` must be one of {', '.join(FORMATS)}, got {form!r}")
    kept = "\n" if form == "csv" else ""  # which is quoted there
    header, *body = ([shown(cell, kept) for cell in row] for row in (header, *body))
    if form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *body])
        return text.getvalue().rstrip("\n")
    if form == "latex":
        return _latex(header, body)
    if form == "markdown":
        body = [[cell.replace("|", "\\|") for cell in row] for row in body]
    widths = [max(len(row[i]) for row in [header, *body]) for i in range(len(header))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [header, *body]]
    if form == "markdown":
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _latex(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [" & ".join(escaped(cell) for cell in row) + r" \\" for row in [header, *body]]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{'l' * len(header)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "_%&#${}"
}


def escaped(cell: str) -> str:
    """The cell with every character that means something to LaTeX written out."""
    return "".join(_LATEX.get(character, character) for character in cell)
