"""Format statistics as text, Markdown, LaTeX or CSV: one row for each setup, or axes across.

A `Table` has row labels and columns of numbers.  Without axes across, and in CSV, each number is a cell, followed by
k/n: of n planned runs or units, k have a value.  With axes across, a cell has all statistics, and k/n if runs are
missing.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product

import numpy as np
import xarray as xr

from evogt_study.analysis.reduce import BOUND, COUNTS, NOTE
from evogt_study.analysis.runs import across, heads
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference.kernels import HEAVY, Array, Counts
from evogt_study.text import escape_text

NOTATIONS = ("auto", "scientific", "plain")
FORMATS = ("text", "markdown", "latex", "csv")
PLAIN_FROM, PLAIN_BELOW = 1e-3, 1e4
"""Sizes of numbers that are plain in the notation "auto"."""
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "_%&#${}"
}
# \providecommand, because a document may have several tables with this definition
MEANSTD = r"\providecommand{\meanstd}[2]{\begin{tabular}[c]{@{}c@{}}$#1$\\[-1pt]$(#2)$\end{tabular}}"
"""The paper's two-line entry."""


@dataclass(frozen=True)
class NumberFormat:
    r"""Format of the numbers in a table.

    Parameters
    ----------
    digits : int, default 4
        Significant digits.
    notation : {"auto", "scientific", "plain"}, default "auto"
        scientific: 4.50e-02.  plain: 0.0450.  auto: plain for zero and numbers from 1e-3 to 1e4, else scientific.

    Raises
    ------
    ParameterError
        If a value is not valid.

    Examples
    --------
    >>> NumberFormat(3).text(0.04497), NumberFormat(3).text(4.497e-4), NumberFormat(3, "plain").text(26.35)
    ('0.0450', '4.50e-04', '26.4')
    >>> NumberFormat(3, "scientific").latex(0.04497)
    '4.50\\times10^{-2}'
    """

    digits: int = 4
    notation: str = "auto"

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 17:  # any two doubles differ in 17 digits
            raise ParameterError("digits", "from 1 to 17", self.digits, remedy="use e.g. 3")
        if self.notation not in NOTATIONS:
            raise ParameterError("notation", f"one of {', '.join(NOTATIONS)}", self.notation)

    def text(self, value: float) -> str:
        """Format the number for a reader."""
        scientific = f"{value:.{self.digits - 1}e}"
        if not self._is_plain(value, scientific):
            return scientific
        if value == 0.0 and self.notation == "auto":
            return "0"
        return format(Decimal(scientific), "f")  # the "f" of a float has a fixed number of decimals

    def latex(self, value: float) -> str:
        """Format the number for mathematics; numbers from 1 to 10 have no power of ten, as in the paper."""
        if not math.isfinite(value):
            return r"\mathrm{nan}" if math.isnan(value) else (r"\infty" if value > 0 else r"-\infty")
        scientific = f"{value:.{self.digits - 1}e}"
        if self._is_plain(value, scientific):
            return self.text(value)
        mantissa, _, exponent = scientific.partition("e")
        return mantissa if int(exponent) == 0 else rf"{mantissa}\times10^{{{int(exponent)}}}"

    def _is_plain(self, value: float, scientific: str) -> bool:
        inside = value == 0.0 or PLAIN_FROM <= abs(float(scientific)) < PLAIN_BELOW
        return math.isfinite(value) and (self.notation == "plain" or (self.notation == "auto" and inside))


def format_ratio(value: float, form: NumberFormat) -> str:
    """A ratio: one decimal from 1 on, as the paper has gains, else significant digits without exponent."""
    if not math.isfinite(value):
        return f"{value}"
    return f"{value:.1f}" if abs(value) >= 1.0 else NumberFormat(form.digits, "plain").text(value)


@dataclass(frozen=True, eq=False)
class Column:
    """Statistics of all rows under one heading: names with 1 number or 2, the numbers (rows, K), and the counts."""

    heading: str
    sizes: dict[str, int]
    numbers: Array
    n_ok: Counts
    n_planned: Counts
    is_ratio: bool = False

    def show_cell(self, row: int, form: NumberFormat, *, latex: bool) -> str:
        """All statistics of a row: "mean (std) [interval] k/n"."""
        if not self.n_planned[row]:
            return "--" if latex else ""
        single, intervals, place = list[str](), list[str](), 0
        for size in self.sizes.values():
            values = self.numbers[row, place : place + size].tolist()
            texts = [
                format_ratio(each, form) if self.is_ratio else form.latex(each) if latex else form.text(each)
                for each in values
            ]
            if size == 1:
                single += texts
            elif not math.isnan(values[0]) and not (latex and self.is_ratio):
                intervals.append(f"[{', '.join(texts)}]")
            place += size
        inside = [f"({', '.join(single[1:])})"] if single[1:] else []
        parts = [*single[:1], *inside, *intervals]
        some = f"{self.n_ok[row]}/{self.n_planned[row]}" if self.n_ok[row] < self.n_planned[row] else ""
        if not latex:
            return " ".join([*parts, *filter(None, [some])])
        two = len(single) == 2 and not intervals
        text = rf"\meanstd{{{single[0]}}}{{{single[1]}}}" if two else " ".join(f"${part}$" for part in parts)
        return text + (rf"\,{{\scriptsize {some}}}" if some else "")

    @property
    def number_names(self) -> list[str]:
        """A name for each number; an interval has "NAME lower" and "NAME upper"."""
        ends = (" lower", " upper")
        return [f"{name}{end}".strip() for name, size in self.sizes.items() for end in (ends if size == 2 else ("",))]


@dataclass(frozen=True, eq=False)
class Table:
    """Names of the row heads, their labels in each row, columns, and a note for each row or none."""

    names: tuple[str, ...]
    heads: tuple[tuple[str, ...], ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @property
    def legend(self) -> str:
        """Contents of a cell: "mean (std), k/n: of n planned runs, k have a value"."""
        first, *others = [name for name, size in self.columns[0].sizes.items() if size == 1] or [""]
        wide = [f"[{name}]" for name, size in self.columns[0].sizes.items() if size == 2]
        text = " ".join(filter(None, [first, f"({', '.join(others)})" if others else "", *wide]))
        if any(each.is_ratio and bool(np.isfinite(each.numbers[:, 1]).any()) for each in self.columns):
            text += "; ratio of means [its interval]"
        some = any(bool((each.n_ok < each.n_planned).any()) for each in self.columns)
        return text + ("; k/n: of n planned runs, k have a value" if some else "")

    def flatten(self, form: NumberFormat) -> tuple[list[str], list[list[str]]]:
        """Header and rows with one cell for each number, each column followed by its k/n."""
        header, body = [*self.names], [[*head] for head in self.heads]
        for column in self.columns:
            header += [f"{column.heading} {name}".strip() for name in (*column.number_names, "n")]
            for row, values, ok, planned in zip(body, column.numbers, column.n_ok, column.n_planned, strict=True):
                row += [form.text(float(value)) if planned else "" for value in values]
                row.append(f"{ok}/{planned}" if planned else "")
        if any(self.notes):
            header.append(NOTE)
            body = [[*row, note] for row, note in zip(body, self.notes, strict=True)]
        return header, body

    def render(self, form: str, numbers: NumberFormat = NumberFormat()) -> str:
        """The table with axes across in one of `FORMATS`, with its legend except in CSV."""
        if form == "csv":
            return render_table(*self.flatten(numbers), form)
        latex, places = form == "latex", range(len(self.heads))
        body = [
            [*self.heads[row], *(column.show_cell(row, numbers, latex=latex) for column in self.columns)]
            for row in places
        ]
        header = [*self.names, *(column.heading for column in self.columns)]
        if not latex:
            return f"{render_table(header, body, form)}\n\n{self.legend}"
        two = [MEANSTD] if any(r"\meanstd" in cell for row in body for cell in row) else []
        lines = [f"% {self.legend}; needs the package booktabs", *two]
        return "\n".join([*lines, render_table(header, body, form, len(self.names))])


def make_table(statistics: xr.Dataset, columns: Sequence[str] = (), names: Sequence[str] | None = None) -> Table:
    """Return the table of a summary, with the dimensions `columns` across.

    names: dimensions that go down, in their order, and parameters that follow them; by default all others.  Rows
    without a planned run are left out.  If a mean is unknown, the medians come first.  Raises InputError if a dimension
    is neither down nor across, or a name is unknown.
    """
    dims = [str(dim) for dim in statistics["n_ok"].dims]
    names = [dim for dim in dims if dim not in columns] if names is None else list(names)
    both = heads(statistics, [*names, *columns], dims)[0]  # refuses names that are in neither
    following = [name for name in columns if name not in dims]
    if following:
        axes = ", ".join(map(str, statistics[following[0]].dims))
        message = f"`columns` must be of {', '.join(dims)}, got {following[0]}, which follows {axes}; use --rows"
        raise InputError(message)
    slanting = [name for name in names if set(statistics[name].dims) & set(columns)]
    if slanting:
        raise InputError(f"`rows` must name parameters that follow rows only, got {slanting[0]}, which follows columns")
    down = [dim for dim in both if dim not in columns]
    order, labels = heads(statistics.isel(dict.fromkeys(columns, 0)), names, down)
    headings = [" ".join(each) for each in product(*(across(statistics, name) for name in columns))]
    data = statistics.transpose(*order, *columns, ...)
    sizes = {name: data[name].sizes.get(BOUND, 1) for name in _headline_first(statistics)}
    shape = (len(labels), len(headings), -1)
    numbers = np.concatenate([data[name].values.reshape(shape) for name in sizes], axis=-1).astype(float)
    counts = [data[name].values.reshape(shape[:2]) for name in COUNTS]
    kept = np.flatnonzero(counts[1].any(axis=1))
    notes = data[NOTE].values.ravel()[kept].tolist() if NOTE in data and not columns else []
    found = [
        Column(heading, sizes, numbers[kept, i], *(each[kept, i] for each in counts))
        for i, heading in enumerate(headings)
    ]
    return Table(tuple(names), tuple(labels[i] for i in kept), tuple(found), tuple(notes))


def with_ratios(table: Table, heading: str, ratios: xr.Dataset) -> Table:
    """The table with one more column: ratios of means, with their intervals and units of their own."""
    dims = [str(dim) for dim in ratios["n_ok"].dims]
    order, labels = heads(ratios, [name for name in table.names if name in ratios.coords or name in dims], dims)
    places = [labels.index(head) for head in table.heads]
    data = ratios.transpose(*order, ...)
    ends = data["ratio_ci"].values.reshape(-1, 2)
    numbers = np.column_stack([data["ratio_of_means"].values.ravel(), ends])[places]
    n_ok, n_planned = (data[name].values.ravel()[places] for name in COUNTS)
    column = Column(heading, {"": 1, " ": 2}, numbers, n_ok, n_planned, is_ratio=True)
    return replace(table, columns=(*table.columns, column))


def _headline_first(statistics: xr.Dataset) -> list[str]:
    """Names of the statistics of a table, medians first if a mean is not known."""
    names = [str(name) for name in statistics.data_vars if name not in (*COUNTS, "largest_share", "tail_index", NOTE)]
    if NOTE not in statistics or not bool((statistics["tail_index"] < HEAVY).any()):
        return names
    return sorted(names, key=lambda name: not name.startswith("median"))


def check_format(form: str) -> None:
    """Raise ParameterError for an unknown format."""
    if form not in FORMATS:
        raise ParameterError("format", f"one of {', '.join(FORMATS)}", form)


def render_table(header: Sequence[str], body: Sequence[Sequence[str]], form: str, n_heads: int | None = None) -> str:
    """Return a table in one of `FORMATS`.  No cell acts on a terminal or adds a row.

    n_heads: in LaTeX only so many cells of a row are text, without labels that repeat those above, and the others are
    LaTeX already.  Raises ParameterError for an unknown format.
    """
    check_format(form)
    kept = "\n" if form == "csv" else ""  # which is quoted there
    header, *body = ([escape_text(cell, kept) for cell in row] for row in (header, *body))
    if form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *body])
        return text.getvalue().rstrip("\n")
    if form == "latex":
        return _render_latex(header, body, n_heads)
    if form == "markdown":
        body = [[cell.replace("|", "\\|") for cell in row] for row in body]
    widths = [max(len(row[i]) for row in [header, *body]) for i in range(len(header))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [header, *body]]
    lines.insert(1, ["-" * width for width in widths])
    if form == "markdown":
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _render_latex(header: Sequence[str], body: Sequence[Sequence[str]], n_heads: int | None) -> str:
    """A tabular of booktabs."""
    count, lines, above = len(header) if n_heads is None else n_heads, list[str](), list[str]()
    for row in body:
        same = [n_heads is not None and row[: i + 1] == above[: i + 1] and i + 1 < count for i in range(count)]
        labels = ["" if repeats else escape_latex(cell) for cell, repeats in zip(row[:count], same, strict=True)]
        lines.append(" & ".join([*labels, *row[count:]]) + r" \\")
        above = [*row[:count]]
    columns = "l" * count + "c" * (len(header) - count)
    first = " & ".join(map(escape_latex, header)) + r" \\"
    start = [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule", first, r"\midrule"]
    return "\n".join([*start, *lines, r"\bottomrule", r"\end{tabular}"])


def escape_latex(cell: str) -> str:
    """The cell with every character that means something to LaTeX written out."""
    return "".join(_LATEX.get(character, character) for character in cell)
