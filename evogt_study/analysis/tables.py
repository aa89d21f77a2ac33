"""Statistics as a table of text, Markdown, LaTeX or CSV.

k/n in the column n says on how many of the planned runs a row rests.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np
import xarray as xr

from evogt_study.errors import InputError
from evogt_study.sweep.values import canonical, text_label

FORMATS = ("text", "markdown", "latex", "csv")
COLUMNS = ("mean", "std", "median", "ci lower", "ci upper")


def rows(statistics: xr.Dataset) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a summary: one row for each point of its dimensions, labels first."""
    dims = [str(dim) for dim in statistics["mean"].dims]
    header = [*dims, *COLUMNS, "n"]
    body = []
    for position in np.ndindex(statistics["mean"].shape):
        point = statistics.isel(dict(zip(dims, position, strict=True)))
        names = [text_label(canonical(statistics[dim].values[i])) for dim, i in zip(dims, position, strict=True)]
        numbers = [point["mean"], point["std"], point["median"], *point["ci"]]
        body.append(
            [*names, *(f"{float(number):.3e}" for number in numbers), f"{int(point['n_ok'])}/{int(point['n_planned'])}"]
        )
    return header, body


def rendered(header: Sequence[str], body: Sequence[Sequence[str]], form: str) -> str:
    """The table in one of `FORMATS`.  Raises InputError for another."""
    if form not in FORMATS:
        raise InputError(f"`format` must be one of {', '.join(FORMATS)}, got {form!r}")
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
    lines = [" & ".join(_escaped(cell) for cell in row) + r" \\" for row in [header, *body]]
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


def _escaped(cell: str) -> str:
    """The cell with every character that means something to LaTeX written out."""
    return "".join(_LATEX.get(character, character) for character in cell)
