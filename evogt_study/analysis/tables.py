"""Format statistics as tables in text, Markdown, LaTeX or CSV, and find the choice of a pilot.

A table has one row for each setup, or axes across.  Without axes across, each number has a cell, followed by k/n: k of
n planned runs or units have a value.  With axes across, a cell contains all statistics.
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

import numpy as np
import xarray as xr

from evogt_study.analysis.comparison import check_paired_dimensions
from evogt_study.analysis.runs import (
    find_position,
    labels_as_typed,
    lay_out_units,
    list_headings,
    list_row_heads,
    mark_runs,
)
from evogt_study.analysis.statistics import (
    BOUND,
    BOUNDS,
    COUNTS,
    DEFAULT,
    NOTE,
    check_options,
    keep_coordinates,
    reduce_blocks,
    summary,
)
from evogt_study.errors import InputError, ParameterError, name_error
from evogt_study.inference import kernels
from evogt_study.inference.intervals import Interval, ratio_interval
from evogt_study.inference.kernels import HEAVY, Array, Bools, Counts
from evogt_study.inference.means import unit_sums
from evogt_study.schema.variables import (
    CANDIDATE,
    HEADLINE,
    RUN_METADATA,
    Status,
    read_direction,
    status_codes,
    to_losses,
)
from evogt_study.text import escape_text

NOTATIONS = ("auto", "scientific", "plain")
FORMATS = ("text", "markdown", "latex", "csv")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: "\\" + character for character in "_%&#${}"
}
# \providecommand, because a document may have several tables with this definition
MEANSTD = r"\providecommand{\meanstd}[2]{\begin{tabular}[c]{@{}c@{}}$#1$\\[-1pt]$(#2)$\end{tabular}}"
"""LaTeX macro for the two-line entries in the tables of the paper."""
DEFAULT_OVER, _NONE = ("seed",), "none"
"""Default of `over`, and its value for single runs."""


# --- numbers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberFormat:
    r"""Format of the numbers in a table.

    Parameters
    ----------
    digits : int, default 4
        Significant digits.
    notation : {"auto", "scientific", "plain"}, default "auto"
        Notation, such as 4.50e-02 (scientific) or 0.0450 (plain).  auto is plain for zero and numbers from 1e-3 to 1e4,
        else scientific.

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
        check_options(notation=(self.notation, NOTATIONS))

    def text(self, value: float) -> str:
        """Return a number as plain text."""
        scientific = f"{value:.{self.digits - 1}e}"
        if not self._is_plain(value, scientific):
            return scientific
        if value == 0.0 and self.notation == "auto":
            return "0"
        return format(Decimal(scientific), "f")  # the "f" of a float has a fixed number of decimals

    def latex(self, value: float) -> str:
        """Return a number in LaTeX mathematics, without a power of ten for numbers from 1 to 10."""
        if not math.isfinite(value):
            return r"\mathrm{nan}" if math.isnan(value) else (r"\infty" if value > 0 else r"-\infty")
        scientific = f"{value:.{self.digits - 1}e}"
        if self._is_plain(value, scientific):
            return self.text(value)
        mantissa, _, exponent = scientific.partition("e")
        return mantissa if int(exponent) == 0 else rf"{mantissa}\times10^{{{int(exponent)}}}"

    def _is_plain(self, value: float, scientific: str) -> bool:
        inside = value == 0.0 or 1e-3 <= abs(float(scientific)) < 1e4
        return math.isfinite(value) and (self.notation == "plain" or (self.notation == "auto" and inside))


def format_ratio(value: float, form: NumberFormat) -> str:
    """Return a ratio with one decimal from 1 on, as in the paper, else with significant digits."""
    if not math.isfinite(value):
        return f"{value}"
    return f"{value:.1f}" if abs(value) >= 1.0 else NumberFormat(form.digits, "plain").text(value)


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Column:
    """Statistics of all rows under one heading: numbers (rows,) or intervals (rows, 2) by name, and the counts."""

    heading: str
    numbers: Mapping[str, Array]
    n_ok: Counts
    n_planned: Counts
    is_ratio: bool = False

    def show_cell(self, row: int, form: NumberFormat, *, latex: bool) -> str:
        """Return all statistics of a row in the form "mean (std) [interval] k/n"."""
        if not self.n_planned[row]:
            return "--" if latex else ""

        def show(value: float) -> str:
            return format_ratio(value, form) if self.is_ratio else form.latex(value) if latex else form.text(value)

        single = [show(float(each[row])) for each in self.numbers.values() if each.ndim == 1]
        limits = [each[row].tolist() for each in self.numbers.values() if each.ndim == 2 and not np.isnan(each[row][0])]
        intervals = [] if latex and self.is_ratio else [f"[{', '.join(map(show, ends))}]" for ends in limits]
        inside = [f"({', '.join(single[1:])})"] if single[1:] else []
        parts = [*single[:1], *inside, *intervals]
        some = f"{self.n_ok[row]}/{self.n_planned[row]}" if self.n_ok[row] < self.n_planned[row] else ""
        if not latex:
            return " ".join([*parts, *filter(None, [some])])
        two = len(single) == 2 and not intervals
        text = rf"\meanstd{{{single[0]}}}{{{single[1]}}}" if two else " ".join(f"${part}$" for part in parts)
        return text + (rf"\,{{\scriptsize {some}}}" if some else "")


@dataclass(frozen=True, eq=False)
class Table:
    """A table of columns, with the names and values of the row heads, and an optional note for each row."""

    names: tuple[str, ...]
    heads: tuple[tuple[str, ...], ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @property
    def legend(self) -> str:
        """Contents of a cell, such as "mean (std), k/n: of n planned runs, k have a value"."""
        numbers = self.columns[0].numbers if self.columns else {}
        first, *others = [name for name, each in numbers.items() if each.ndim == 1] or [""]
        wide = [f"[{name}]" for name, each in numbers.items() if each.ndim == 2]
        text = " ".join(filter(None, [first, f"({', '.join(others)})" if others else "", *wide]))
        if any(each.is_ratio and bool(np.isfinite(each.numbers[" "]).any()) for each in self.columns):
            text += "; ratio of means [its interval]"
        some = any(bool((each.n_ok < each.n_planned).any()) for each in self.columns)
        return text + ("; k/n: of n planned runs, k have a value" if some else "")

    def flatten(self, form: NumberFormat) -> tuple[list[str], list[list[str]]]:
        """Return the header and rows with one cell for each number, each column followed by its k/n."""
        header, body = [*self.names], [[*head] for head in self.heads]
        for column in self.columns:
            ends = {1: ("",), 2: (" lower", " upper")}
            names = [f"{name}{end}" for name, each in column.numbers.items() for end in ends[each.ndim]]
            header += [f"{column.heading} {name.strip()}".strip() for name in (*names, "n")]
            values = np.column_stack([*column.numbers.values()])
            for row, numbers, ok, planned in zip(body, values.tolist(), column.n_ok, column.n_planned, strict=True):
                row += [*map(form.text, numbers), f"{ok}/{planned}"] if planned else [""] * (len(numbers) + 1)
        if any(self.notes):
            return [*header, NOTE], [[*row, note] for row, note in zip(body, self.notes, strict=True)]
        return header, body

    def render(self, form: str, numbers: NumberFormat = NumberFormat()) -> str:
        """Return the table with axes across in one of `FORMATS`, with its legend except in CSV."""
        if form == "csv":
            return render_table(*self.flatten(numbers), form)
        latex = form == "latex"
        body = [
            [*head, *(column.show_cell(row, numbers, latex=latex) for column in self.columns)]
            for row, head in enumerate(self.heads)
        ]
        header = [*self.names, *(column.heading for column in self.columns)]
        if not latex:
            return f"{render_table(header, body, form)}\n\n{self.legend}"
        two = [MEANSTD] if any(r"\meanstd" in cell for row in body for cell in row) else []
        lines = [f"% {self.legend}; needs the package booktabs", *two]
        return "\n".join([*lines, render_table(header, body, form, len(self.names))])


def make_table(
    statistics: xr.Dataset, columns: Sequence[str] = (), names: Sequence[str] | None = None,
    ratio: xr.Dataset | None = None,
) -> Table:  # fmt: skip
    """Return the table of a summary, with `columns` across and the row heads `names`.

    The table contains only rows with a planned run.  If a sample has a heavy tail, the medians come first.
    """
    dims = [str(dim) for dim in statistics["n_ok"].dims]
    names = [dim for dim in dims if dim not in columns] if names is None else list(names)
    both = list_row_heads(statistics, [*names, *columns], dims)[0]  # refuses names that are in neither
    following = [name for name in columns if name not in dims]
    if following:
        axes = ", ".join(map(str, statistics[following[0]].dims))
        message = f"`columns` must be some of {', '.join(dims)}, got {following[0]}"
        raise InputError(f"{message}, which depends on {axes}. Use --rows")
    slanting = [name for name in names if set(statistics[name].dims) & set(columns)]
    if slanting:
        message = f"`rows` must name parameters that depend only on rows, got {slanting[0]}"
        raise InputError(f"{message}, which depends on columns")
    down = [dim for dim in both if dim not in columns]
    order, labels = list_row_heads(statistics.isel(dict.fromkeys(columns, 0)), names, down)
    headings = [" ".join(each) for each in product(*(list_headings(statistics, name) for name in columns))]
    data = statistics.transpose(*order, *columns, ...)
    shape = (len(labels), len(headings))
    n_ok, n_planned = (data[name].values.reshape(shape) for name in COUNTS)
    kept = np.flatnonzero(n_planned.any(axis=1))
    values = {
        str(name): np.reshape(each.values, (*shape, *([2] if BOUND in each.dims else []))).astype(float)
        for name, each in data.data_vars.items()
        if name not in (*COUNTS, "largest_share", "tail_index", NOTE)
    }
    if NOTE in data and "tail_index" in data and bool((data["tail_index"] < HEAVY).any()):  # a mean is not known
        values = dict(sorted(values.items(), key=lambda item: not item[0].startswith("median")))
    notes = data[NOTE].values.ravel()[kept].tolist() if NOTE in data and not columns else []
    found = [
        Column(heading, {name: each[kept, i] for name, each in values.items()}, n_ok[kept, i], n_planned[kept, i])
        for i, heading in enumerate(headings)
    ]
    if ratio is not None:
        data = ratio.transpose(*order, ...)
        shown = {"": data["ratio_of_means"].values.ravel()[kept], " ": data["ratio_ci"].values.reshape(-1, 2)[kept]}
        n_ok, n_planned = (data[name].values.ravel()[kept] for name in COUNTS)
        found.append(Column(ratio.attrs["name"], shown, n_ok, n_planned, is_ratio=True))
    return Table(tuple(names), tuple(labels[i] for i in kept), tuple(found), tuple(notes))


def render_table(header: Sequence[str], body: Sequence[Sequence[str]], form: str, n_heads: int | None = None) -> str:
    """Return a table in one of `FORMATS`, with escaped control characters.

    In LaTeX, the first `n_heads` cells of a row are text, without repeated values.  The other cells are LaTeX code.
    """
    check_options(format=(form, FORMATS))
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
    """Return a LaTeX tabular with the rules of the package booktabs."""

    def escape(cells: Sequence[str]) -> list[str]:
        return ["".join(_LATEX.get(character, character) for character in cell) for cell in cells]

    count, lines, above = len(header) if n_heads is None else n_heads, list[str](), list[str]()
    for row in body:
        same = [n_heads is not None and row[: i + 1] == above[: i + 1] and i + 1 < count for i in range(count)]
        labels = ["" if repeats else cell for cell, repeats in zip(escape(row[:count]), same, strict=True)]
        lines.append(" & ".join([*labels, *row[count:]]) + r" \\")
        above = [*row[:count]]
    columns = "l" * count + "c" * (len(header) - count)
    first = " & ".join(escape(header)) + r" \\"
    start = [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule", first, r"\midrule"]
    return "\n".join([*start, *lines, r"\bottomrule", r"\end{tabular}"])


# --- tables of a result -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableRequest:
    """The options of `evogt summary`.

    `over` contains dimensions, or "none" for single runs.  `ratio` has the form "first/second", with two values of the
    only axis across.
    """

    variables: tuple[str, ...] = ()
    over: tuple[str, ...] = DEFAULT_OVER
    statistics: tuple[str, ...] = ()
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    ratio: str = ""
    form: str = "text"
    numbers: NumberFormat = NumberFormat()
    interval: Interval = Interval()
    units: tuple[str, ...] | None = None
    missing: str = "warn"
    incomplete: str = "blocks"


def summary_table(data: xr.Dataset, request: TableRequest) -> str:
    """Return the table of a request, in its format.  Raises InputError for unknown names."""
    check_options(format=(request.form, FORMATS))
    values, statistics = summarise_variables(data, request)
    ratio, pair = None, tuple(request.ratio.split("/", 1))
    if request.ratio:
        if len(pair) < 2 or len(request.columns) != 1:
            message = "`ratio` must be first/second, two values of one axis across (use e.g. --columns dictionary)"
            raise InputError(f"{message}, got {request.ratio!r}")
        dim, planned = request.columns[0], data["run_key"]
        found = {name: ratio_of_means(each, dim, pair, request, planned) for name, each in values.items()}
        ratio = _join_statistics(found).assign_attrs(name=request.ratio)
    table = make_table(_join_statistics(statistics), request.columns, request.rows, ratio)
    if not request.columns:
        return render_table(*table.flatten(request.numbers), request.form)
    return table.render(request.form, request.numbers)


def summarise_variables(
    data: xr.Dataset, request: TableRequest
) -> tuple[dict[str, xr.DataArray], dict[str, xr.Dataset]]:
    """Return the values of the variables of a request, and their statistics.  Raises InputError for unknown names."""
    values = {name: data[name] for name in find_variables(data, *request.variables)}
    for name, each in values.items():
        if request.over == DEFAULT_OVER and "seed" not in each.dims:
            known = ", ".join([*map(str, each.dims), _NONE])
            raise InputError(f"`{name}` has no seed axis. Name axes with --over: {known}")
    if request.over == (_NONE,):
        values = {name: each.expand_dims(_NONE) for name, each in values.items()}
    defaults = ("mean",) if request.over == (_NONE,) else ("mean", "std") if request.columns else DEFAULT
    return values, {
        name: summary(
            each, request.over, statistics=request.statistics or defaults, interval=request.interval,
            units=request.units, missing=request.missing, incomplete=request.incomplete, planned=data["run_key"],
        )
        for name, each in values.items()
    }  # fmt: skip


def select_runs(data: xr.Dataset, at: Mapping[str, str]) -> xr.Dataset:
    """Return the runs at coordinate values given as strings.  Raises InputError for unknown axes or values."""
    for name, label in at.items():
        axes = list(map(str, data["run_status"].dims))
        if name not in axes:
            raise InputError(f"`at` must name axes ({', '.join(axes)}), got {name}")
        data = data.isel({name: find_position(data, name, label)})
    return data


def _join_statistics(statistics: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Join the summaries of several variables along a dimension `variable`, or return a single summary."""
    if len(statistics) == 1:
        return next(iter(statistics.values()))
    dims = {name: each["n_ok"].dims for name, each in statistics.items()}
    if len(set(dims.values())) > 1:
        listing = ", ".join(f"{name} ({', '.join(map(str, each))})" for name, each in dims.items())
        raise InputError(f"`variable` must name variables with the same remaining dimensions, got {listing}")
    along = xr.Variable("variable", list(statistics))
    return xr.concat(
        list(statistics.values()), dim=along, coords="minimal", compat="override", join="exact", combine_attrs="drop"
    ).assign_coords({"variable": along})


def user_variables(data: xr.Dataset) -> list[str]:
    """Return the names of numeric variables except run metadata: headlines first, then scalars of a run."""
    names = [
        str(name) for name, each in data.data_vars.items() if each.dtype.kind in "iufb" and name not in RUN_METADATA
    ]
    axes = data["run_status"].dims if "run_status" in data else data.dims
    return sorted(names, key=lambda name: (data[name].attrs.get(HEADLINE) != 1, not set(data[name].dims) <= set(axes)))


def find_variables(data: xr.Dataset, *names: str) -> tuple[str, ...]:
    """Return the named variables, by default the first of `user_variables`.  Raises InputError for unknown names."""
    known = user_variables(data)
    if not names and not known:
        raise InputError("the result has no variable with numbers")
    for name in names:
        if name not in data.data_vars:
            raise name_error("variable", name, known)
    return names or (known[0],)


def ratio_of_means(
    values: xr.DataArray, dim: str, pair: Sequence[str], request: TableRequest, planned: xr.DataArray | None
) -> xr.Dataset:
    """Return the ratio of the means of two axis values over common units, with its bootstrap-t interval."""
    over = check_paired_dimensions(values, dim, request.over)
    places = [find_position(values, dim, label) for label in pair]
    values = values.isel({dim: places})
    planned = planned.isel({dim: places}) if planned is not None and dim in planned.dims else planned
    laid_out = lay_out_units(values, over, request.units, planned)
    runs = mark_runs(values, laid_out.dims, planned, paired=dim)

    def on_pairs(samples: Array, once: Bools) -> list[Array]:
        pairs = np.asarray(once.all(axis=-2))
        there = pairs & ~np.isnan(samples).any(axis=-2)
        with np.errstate(invalid="ignore", over="ignore"):
            sides = (laid_out.blocks(np.where(there, samples[..., side, :], np.nan)) for side in (0, 1))
            above, below = (np.divide(*unit_sums(each)) for each in sides)
        rows = [each.reshape(-1, each.shape[-1]) for each in (above, below)]
        limits = ratio_interval(rows[0], rows[1], request.interval, logarithmic=True)
        limits[kernels.count(rows[0]) < request.interval.min_units] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = kernels.mean(above) / kernels.mean(below)
        planned_units, found = (laid_out.blocks(each).sum(axis=-1) for each in (pairs, there))
        counts = [(planned_units > 0) & (found == planned_units), planned_units > 0]
        return [ratio, limits.reshape(*ratio.shape, 2), *(each.sum(axis=-1).astype(float) for each in counts)]

    outputs = {"ratio_of_means": (), "ratio_ci": (BOUND,), **dict.fromkeys(COUNTS, ())}
    found = reduce_blocks(values, laid_out.dims, on_pairs, outputs, along=[dim], runs=runs)
    return found.assign_coords(keep_coordinates(values, [dim, *over]) | BOUNDS)


def format_comparison(found: xr.Dataset) -> str:
    """Return a comparison as text: the conclusions, a table with the values of each setup, and the notes."""
    dim, rest = str(found.attrs["dim"]), [str(each) for each in found["leader"].dims]
    form, names = NumberFormat(3), labels_as_typed(found, dim)
    sentences, body, notes = [], [], dict[str, None]()
    for place, labels in zip(
        np.ndindex(*found["leader"].shape), product(*(labels_as_typed(found, each) for each in rest)), strict=True
    ):
        cell = found.isel(dict(zip(rest, place, strict=True)))
        where = ", ".join(f"{name} = {label}" for name, label in zip(rest, labels, strict=True))
        sentences.append(f"{where}: {cell['conclusion'].item()}" if where else str(cell["conclusion"].item()))
        notes |= dict.fromkeys(each for each in str(cell["note"].item()).split("; ") if each)
        for i, name in enumerate(names):
            if int(cell["n_planned"][i]):
                ends = cell["over_leader_ci"].values[i]
                numbers = [cell["over_leader"].values[i], *ends, cell["p_over_leader"].values[i]]
                counts = f"{int(cell['n_ok'][i])}/{int(cell['n_planned'][i])}"
                body.append([*labels, name, counts, *(form.text(float(v)) if v == v else "" for v in numbers)])
    header = [*rest, dim, f"{found.attrs['unit']}s", f"{found.attrs['scale']} to leader", "lower", "upper", "p"]
    lines = [f"Note: {each}." for each in notes]
    return "\n".join([*sentences, "", render_table(header, body, "text"), *lines])


def find_pilot_choice(pilot: xr.Dataset) -> xr.DataArray | None:
    """Return a mask of the chosen candidates over `by` and the candidates, or None if the choice is unknown."""
    section: object = None
    with suppress(tomllib.TOMLDecodeError):
        section = tomllib.loads(str(pilot.attrs.get("study", ""))).get("pilot")
    if not isinstance(section, dict) or not section:
        return None
    name, by = str(section.get("minimise", "error")), [*map(str, section.get("by", []))]
    known = {name, "run_status"} <= set(pilot.data_vars) and {*by, CANDIDATE} <= set(pilot.dims)
    if not known or pilot[name].dims != pilot["run_status"].dims:
        return None
    values, ok = pilot[name], status_codes(pilot["run_status"]) == Status.ok
    losses = to_losses(values.values.astype(float), read_direction(values)[0])
    others = [dim for dim in values.dims if dim not in (*by, CANDIDATE)]
    means = values.copy(data=np.where(ok, losses, np.nan)).mean(others, skipna=False)
    usable = means.notnull() & (abs(means) < np.inf)
    best = usable & (means == means.where(usable, np.inf).min(CANDIDATE))
    parameter = section.get("parameter")
    order = pilot[parameter] if isinstance(parameter, str) and parameter in pilot.coords else pilot[CANDIDATE]
    ranked = order.broadcast_like(best).where(best, np.inf)
    return best & (ranked == ranked.min(CANDIDATE))
