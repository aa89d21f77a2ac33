"""Format statistics as text, Markdown, LaTeX or CSV: one row for each setup, or a pivot with axes across.

The column n, or k/n in a cell of a pivot, gives the number of planned runs n and the number of them with a value k.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.reduce import BOUND, COUNTS, NOTE, NOTED, heavy
from evogt_study.analysis.runs import across, heads
from evogt_study.errors import InputError, ParameterError
from evogt_study.text import shown

NOTATIONS = ("scientific", "plain")
FORMATS = ("text", "markdown", "latex", "csv")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "_%&#${}"
}
# \providecommand, because a document may have several tables with this definition
MEANSTD = r"\providecommand{\meanstd}[2]{\begin{tabular}[c]{@{}c@{}}$#1$\\[-1pt]$(#2)$\end{tabular}}"
"""The paper's two-line entry."""


@dataclass(frozen=True)
class NumberFormat:
    r"""Significant digits, and notation: scientific (4.50e-02) or plain (0.0450).  Raises ParameterError.

    >>> NumberFormat(3).text(0.04497), NumberFormat(3).latex(0.04497), NumberFormat(3, "plain").text(26.35)
    ('4.50e-02', '4.50\\times10^{-2}', '26.4')
    """

    digits: int = 4
    notation: str = "scientific"

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 17:  # 17 tell any two doubles apart
            raise ParameterError("digits", "from 1 to 17", self.digits, remedy="use e.g. 3")
        if self.notation not in NOTATIONS:
            raise ParameterError("notation", f"one of {', '.join(NOTATIONS)}", self.notation)

    def text(self, value: float) -> str:
        """The number as it is read."""
        if not math.isfinite(value) or self.notation == "scientific":
            return f"{value:.{self.digits - 1}e}"
        return format(Decimal(f"{value:.{self.digits - 1}e}"), "f")  # a float's own "f" has a fixed number of decimals

    def latex(self, value: float) -> str:
        """The number in mathematics; numbers from 1 to 10 without a power of ten, as the paper has them."""
        if not math.isfinite(value):
            return r"\mathrm{nan}" if math.isnan(value) else (r"\infty" if value > 0 else r"-\infty")
        mantissa, _, exponent = f"{value:.{self.digits - 1}e}".partition("e")
        if self.notation == "plain":
            return self.text(value)
        return mantissa if int(exponent) == 0 else rf"{mantissa}\times10^{{{int(exponent)}}}"


def rows(
    statistics: xr.Dataset,
    names: Sequence[str] | None = None,
    form: NumberFormat = NumberFormat(),
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a summary: one row for each point, labels first, then its statistics in `form`, then k/n.

    Notes on the interval of the mean come last.  If a mean is unknown, the median comes before it.

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


def escaped(cell: str) -> str:
    """The cell with every character that means something to LaTeX written out."""
    return "".join(_LATEX.get(character, character) for character in cell)


class Cell(NamedTuple):
    """The numbers of a point, and the runs that they rest on."""

    numbers: tuple[float, ...]
    n_ok: int
    n_planned: int
    ratio: bool = False

    @property
    def missing(self) -> str:
        """ "k/n" where runs are missing, else empty."""
        return f"{self.n_ok}/{self.n_planned}" if self.n_ok < self.n_planned else ""


@dataclass(frozen=True)
class Pivot:
    """A table: names of the row heads and of the numbers in a cell, headings across, and rows of heads and cells."""

    names: tuple[str, ...]
    statistics: tuple[str, ...]
    across: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Cell, ...]], ...]

    @property
    def legend(self) -> str:
        """Contents of a cell: "mean (std), k/n where runs are missing"."""
        first, *others = self.statistics
        text = f"{first} ({', '.join(others)})" if others else first
        some = any(cell.missing for _, cells in self.rows for cell in cells)
        if any(cell.ratio and math.isfinite(cell.numbers[1]) for _, cells in self.rows for cell in cells):
            text += "; ratio of means [its interval]"
        return text + ("; k/n: of n planned runs, k have a value" if some else "")


def pivot(statistics: xr.Dataset, columns: Sequence[str], rows: Sequence[str] | None = None) -> Pivot:
    """The table of a summary with the dimensions `columns` across; `rows` are the others, or as said.

    `rows` may name parameters that follow its dimensions.  Raises InputError where a dimension is in neither, or a name
    is none, and for an interval, which is two numbers.
    """
    dims = [str(dim) for dim in statistics["n_ok"].dims]
    names = [dim for dim in dims if dim not in columns] if rows is None else list(rows)
    shown = headline_first(statistics)
    wide = [name for name in shown if statistics[name].ndim > len(dims)]
    if wide:
        raise InputError(f"`statistic` must be one number in a table with columns, got {wide[0]}; leave out --columns")
    both = heads(statistics, [*names, *columns], dims)[0]  # refuses names that are in neither
    following = [name for name in columns if name not in dims]
    if following:
        raise InputError(
            f"`columns` must be of {', '.join(dims)}, got {following[0]}, which follows "
            f"{', '.join(map(str, statistics[following[0]].dims))}; use --rows"
        )
    slanting = [name for name in names if set(statistics[name].dims) & set(columns)]
    if slanting:
        raise InputError(f"`rows` must name parameters that follow rows only, got {slanting[0]}, which follows columns")
    down = [dim for dim in both if dim not in columns]
    order, labels = heads(statistics.isel(dict.fromkeys(columns, 0)), names, down)
    arrays = [statistics[name].transpose(*order, *columns).values.ravel().tolist() for name in [*shown, *COUNTS]]
    cells = [Cell(tuple(numbers), n_ok, n_planned) for *numbers, n_ok, n_planned in zip(*arrays, strict=True)]
    headings = tuple(" ".join(words) for words in product(*(across(statistics, name) for name in columns)))
    width = len(headings)
    body = tuple((head, tuple(cells[width * i : width * (i + 1)])) for i, head in enumerate(labels))
    return Pivot(tuple(names), tuple(shown), headings, tuple(row for row in body if any(c.n_planned for c in row[1])))


def with_ratios(table: Pivot, heading: str, compared: xr.Dataset, columns: Sequence[str]) -> Pivot:
    """The table with a further column: the ratio of means of two labels of its one column axis, and its interval."""
    dims = [str(dim) for dim in compared["n_ok"].dims]
    order, labels = heads(compared, [name for name in table.names if name in compared.coords or name in dims], dims)
    if len(columns) != 1:
        raise InputError(f"`ratio` must have one axis across, got {', '.join(columns) or 'none'}")
    arrays = [compared[name].transpose(*order).values.ravel().tolist() for name in ("ratio_of_means", *COUNTS)]
    limits = compared["ratio_ci"].transpose(*order, BOUND).values.reshape(-1, 2).tolist()
    cells = [
        Cell((number, *ends), n_ok, n_planned, ratio=True)
        for number, n_ok, n_planned, ends in zip(*arrays, limits, strict=True)
    ]
    beside = dict(zip(labels, cells, strict=True))
    body = tuple((head, (*row, beside[head])) for head, row in table.rows)
    return replace(table, across=(*table.across, heading), rows=body)


def rendered_pivot(table: Pivot, form: str, numbers: NumberFormat = NumberFormat()) -> str:
    """The table in one of `FORMATS`, with its legend but in CSV.  Raises ParameterError for another."""
    if form not in FORMATS:
        raise ParameterError("format", f"one of {', '.join(FORMATS)}", form)
    if form == "csv":
        return _csv(table, numbers)
    if form == "latex":
        return _latex_pivot(table, numbers)
    body = [[*head, *(_text(cell, numbers) for cell in cells)] for head, cells in table.rows]
    return f"{rendered([*table.names, *table.across], body, form)}\n\n{table.legend}"


def _text(cell: Cell, numbers: NumberFormat) -> str:
    if not cell.n_planned:
        return ""
    some = f" {cell.missing}" if cell.missing else ""
    if cell.ratio:
        first, *ends = (ratio_text(value, numbers) for value in cell.numbers)
        return first + (f" [{', '.join(ends)}]" if math.isfinite(cell.numbers[1]) else "") + some
    first, *others = map(numbers.text, cell.numbers)
    inside = f" ({', '.join(others)})" if others else ""
    return first + inside + some


def _csv(table: Pivot, numbers: NumberFormat) -> str:
    """One column for each number of each cell, and one for its k/n."""
    header, body = list(table.names), [list(head) for head, _ in table.rows]
    for place, heading in enumerate(table.across):
        column = [cells[place] for _, cells in table.rows]
        ratio = bool(column) and column[0].ratio
        header += (
            [heading, f"{heading} lower", f"{heading} upper"]
            if ratio
            else [f"{heading} {name}" for name in table.statistics]
        )
        header.append(f"{heading} n")
        for row, cell in zip(body, column, strict=True):
            row += [*(numbers.text(n) if cell.n_planned else "" for n in cell.numbers), f"{cell.n_ok}/{cell.n_planned}"]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *body])
    return text.getvalue().rstrip("\n")


def _latex_pivot(table: Pivot, numbers: NumberFormat) -> str:
    """A tabular of booktabs; row heads that repeat those above are left out, as the paper does."""
    lines, above = [], ("",) * len(table.names)
    for head, cells in table.rows:
        same = [head[: i + 1] == above[: i + 1] and i + 1 < len(head) for i in range(len(head))]
        words = ["" if repeated else escaped(word) for word, repeated in zip(head, same, strict=True)]
        lines.append(" & ".join([*words, *(_latex_cell(cell, numbers) for cell in cells)]) + r" \\")
        above = head
    form = "l" * len(table.names) + "c" * len(table.across)
    header = " & ".join(map(escaped, [*table.names, *table.across])) + r" \\"
    two = [MEANSTD] if len(table.statistics) == 2 else []
    return "\n".join(
        [
            f"% {table.legend}; needs the package booktabs",
            *two,
            rf"\begin{{tabular}}{{@{{}}{form}@{{}}}}",
            r"\toprule",
            header,
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _latex_cell(cell: Cell, numbers: NumberFormat) -> str:
    if not cell.n_planned:
        return "--"
    some = rf"\,{{\scriptsize {cell.missing}}}" if cell.missing else ""
    if cell.ratio:
        return f"${ratio_text(cell.numbers[0], numbers)}$" + some
    first, *others = map(numbers.latex, cell.numbers)
    if len(others) == 1:
        return rf"\meanstd{{{first}}}{{{others[0]}}}" + some
    inside = r",\ ".join(others)
    return f"${first}$" + (f" $({inside})$" if others else "") + some


def ratio_text(value: float, form: NumberFormat) -> str:
    """A ratio: one decimal from 1 on, as the paper has gains, else significant digits without exponent."""
    if not math.isfinite(value):
        return f"{value}"
    return f"{value:.1f}" if abs(value) >= 1.0 else NumberFormat(form.digits, "plain").text(value)
