"""Format statistics as tables in text, Markdown, LaTeX or CSV.  k/n means that k of n planned runs have a value."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from evogt_study.analysis import runs as study_runs
from evogt_study.analysis import statistics as estimates
from evogt_study.analysis.comparison import check_paired_dimensions
from evogt_study.analysis.runs import SEED, find_position, format_coordinates, list_headings
from evogt_study.analysis.sensitivity import OTHER, PARAMETER, STATUS, check_indices, sensitivity
from evogt_study.analysis.statistics import BOUND, NOTE, UNIT_COUNTS, check_options, reduce_blocks, summary
from evogt_study.errors import InputError, ParameterError, name_error
from evogt_study.inference import kernels
from evogt_study.inference.intervals import Interval, compute_ratio_interval
from evogt_study.inference.kernels import Array, Bools, Counts, sum_units
from evogt_study.schema.values import to_canonical, to_string
from evogt_study.schema.variables import HEADLINE, RUN_METADATA
from evogt_study.text import escape_text

NOTATIONS = ("auto", "scientific", "plain")
FORMATS = ("text", "markdown", "latex", "csv")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {character: "\\" + character for character in "_%&#${}"}
# LaTeX macro for an entry of two lines (several tables of a document may define it)
MEAN_STD_MACRO = r"\providecommand{\meanstd}[2]{\begin{tabular}[c]{@{}c@{}}$#1$\\[-1pt]$(#2)$\end{tabular}}"
EOC = "EOC"  # heading of an order: experimental order of convergence
NO_SOLUTION_ERROR = (
    "there is no solution error because the problem has no exact solution and the study has no reference"
)
DEFAULT_OVER, _NONE = ("seed",), "none"  # default of `over`, and the value of `over` for single runs


@dataclass(frozen=True)
class NumberFormat:
    """Format of numbers: significant digits, and a notation.  The notation "auto" is plain from 1e-3 to 1e4."""

    digits: int = 4
    notation: str = "auto"

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 17:  # any two doubles differ in 17 digits
            raise ParameterError("digits", "from 1 to 17", self.digits, remedy="use e.g. 3")
        check_options(notation=(self.notation, NOTATIONS))

    def text(self, value: float) -> str:
        """Return a number as plain text."""
        text, auto = f"{value:.{self.digits - 1}e}", self.notation == "auto"
        if value == 0.0 and auto:
            return "0"
        plain = self.notation == "plain" or (auto and 1e-3 <= abs(float(text)) < 1e4)
        # the format "f" of a float has a fixed number of decimals
        return format(Decimal(text), "f") if plain and math.isfinite(value) else text

    def latex(self, value: float) -> str:
        """Return a number in LaTeX mathematics, without a power of ten for numbers from 1 to 10."""
        if not math.isfinite(value):
            return r"\mathrm{nan}" if math.isnan(value) else (r"\infty" if value > 0 else r"-\infty")
        mantissa, _, exponent = self.text(value).partition("e")
        return rf"{mantissa}\times10^{{{int(exponent)}}}" if int(exponent or 0) else mantissa


def format_ratio(value: float, form: NumberFormat) -> str:
    """Return a ratio with one decimal from 1 on, as in the paper, else with significant digits."""
    return NumberFormat(form.digits, "plain").text(value) if abs(value) < 1.0 else f"{value:.1f}"


class Column(NamedTuple):
    """Statistics of all rows under one heading: numbers (rows,) or intervals (rows, 2) by name, and the counts."""

    heading: str
    numbers: Mapping[str, Array]
    n_ok: Counts
    n_planned: Counts
    is_ratio: bool = False

    def format_cell(self, row: int, form: NumberFormat, *, latex: bool) -> str:
        """Return all statistics of a row in the form "mean (std) [interval] k/n"."""
        if not self.n_planned[row]:
            return "--" if latex else ""
        show = partial(format_ratio, form=form) if self.is_ratio else form.latex if latex else form.text
        first, *others = [show(float(each[row])) for each in self.numbers.values() if each.ndim == 1] or [""]
        limits = [each[row].tolist() for each in self.numbers.values() if each.ndim == 2 and not np.isnan(each[row][0])]
        intervals = [] if latex and self.is_ratio else [f"[{', '.join(map(show, ends))}]" for ends in limits]
        parts = [*filter(None, [first, f"({', '.join(others)})" if others else ""]), *intervals]
        some = f"{self.n_ok[row]}/{self.n_planned[row]}" if self.n_ok[row] < self.n_planned[row] else ""
        if not latex:
            return " ".join([*parts, *filter(None, [some])])
        two = len(others) == 1 and not intervals
        text = rf"\meanstd{{{first}}}{{{others[0]}}}" if two else " ".join(f"${part}$" for part in parts)
        return text + (rf"\,{{\scriptsize {some}}}" if some else "")


class Table(NamedTuple):
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
        """Return the header and rows with one cell for each number.  A cell k/n follows the numbers of a column."""
        header, body = [*self.names], [[*head] for head in self.heads]
        count = "ok/planned" if "n" in header else "n"
        for column in self.columns:
            ends = {1: ("",), 2: (" lower", " upper")}
            names = [f"{name}{end}" for name, each in column.numbers.items() for end in ends[each.ndim]]
            header += [f"{column.heading} {name.strip()}".strip() for name in (*names, count)]
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
            [*head, *(column.format_cell(row, numbers, latex=latex) for column in self.columns)]
            for row, head in enumerate(self.heads)
        ]
        text = render_table([*self.names, *(each.heading for each in self.columns)], body, form, len(self.names))
        if not latex:
            return f"{text}\n\n{self.legend}"
        macro = f"{MEAN_STD_MACRO}\n" if r"\meanstd" in text else ""
        return f"% {self.legend}; needs the package booktabs\n{macro}{text}"


def make_table(
    statistics: xr.Dataset, columns: Sequence[str] = (), names: Sequence[str] | None = None,
    ratio: xr.Dataset | None = None,
) -> Table:  # fmt: skip
    """Return the table of a summary with a column for each value of the axes `columns`."""
    dims = [str(dim) for dim in statistics["n_ok"].dims]
    names = [dim for dim in dims if dim not in columns] if names is None else list(names)
    order = _order_dimensions(statistics, [*names, *columns], dims)
    for name in (name for name in columns if name not in dims):
        axes = ", ".join(map(str, statistics[name].dims))
        message = f"`columns` must be some of {', '.join(dims)}, got {name}"
        raise InputError(f"{message}, which depends on {axes}. Use `rows`")
    for name in (name for name in names if set(statistics[name].dims) & set(columns)):
        message = f"`rows` must name parameters that depend only on rows, got {name}"
        raise InputError(f"{message}, which depends on columns")
    order = [dim for dim in order if dim not in columns]
    sizes = {dim: statistics.sizes[dim] for dim in order}
    heads = [statistics[name].variable.set_dims(sizes).values.ravel() for name in names]  # type: ignore[no-untyped-call]
    labels = [tuple(to_string(to_canonical(each)) for each in row) for row in zip(*heads, strict=True)] or [()]
    headings = [" ".join(each) for each in product(*(list_headings(statistics, name) for name in columns))]
    data, shape = statistics.transpose(*order, *columns, ...), (len(labels), len(headings))
    n_ok, n_planned = (data[name].values.reshape(shape) for name in UNIT_COUNTS)
    kept = np.flatnonzero(n_planned.any(axis=1))
    values = {
        str(name): np.reshape(each.values, (*shape, *([2] if BOUND in each.dims else []))).astype(float)
        for name, each in data.data_vars.items()
        if name not in (*UNIT_COUNTS, "largest_share", "tail_index", NOTE)
    }
    if NOTE in data and "tail_index" in data and bool((data["tail_index"] < kernels.HEAVY_TAIL_INDEX).any()):
        values = dict(sorted(values.items(), key=lambda item: not item[0].startswith("median")))
    notes = data[NOTE].values.ravel()[kept].tolist() if NOTE in data and not columns else []
    found = [
        Column(heading, {name: each[kept, i] for name, each in values.items()}, n_ok[kept, i], n_planned[kept, i])
        for i, heading in enumerate(headings)
    ]
    if ratio is not None:
        data = ratio.transpose(*order, ...)
        shown = {"": data["ratio_of_means"].values.ravel()[kept], " ": data["ratio_ci"].values.reshape(-1, 2)[kept]}
        n_ok, n_planned = (data[name].values.ravel()[kept] for name in UNIT_COUNTS)
        found.append(Column(ratio.attrs["name"], shown, n_ok, n_planned, is_ratio=True))
    return Table(tuple(names), tuple(labels[i] for i in kept), tuple(found), tuple(notes))


def _order_dimensions(data: xr.Dataset, names: Sequence[str], dims: Sequence[str]) -> list[str]:
    """Return the dimensions in the order of the names.  Raises InputError for unknown, repeated or missing names."""
    followers = [str(name) for name, coord in data.coords.items() if coord.ndim and name not in data.dims]
    unknown = [name for name in names if name not in dims and name not in followers]
    if unknown:
        known = ", ".join([*dims, *followers]) or "none, because the result is one number"
        raise InputError(f"`rows` and `columns` must be some of {known}, got {', '.join(unknown)}")
    lacking = [dim for dim in dims if dim not in names]
    needed = [dim for dim in lacking if data.sizes[dim] > 1]
    if needed or len(set(names)) < len(names):
        got = (", ".join(names) or "none") + (f", without {', '.join(needed)}" if needed else "")
        raise InputError(f"`rows` and `columns` must name each of {', '.join(dims)} once, got {got}")
    return [*(name for name in names if name in dims), *lacking]


def render_table(header: Sequence[str], body: Sequence[Sequence[str]], form: str, n_heads: int | None = None) -> str:
    """Return a table in one of `FORMATS`.  In LaTeX, the first `n_heads` cells are text without repeated values."""
    check_options(format=(form, FORMATS))
    kept = "\n" if form == "csv" else ""  # CSV quotes line breaks
    header, *body = ([escape_text(cell, kept) for cell in row] for row in (header, *body))
    if form == "csv":
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([header, *body])
        return file.getvalue().rstrip("\n")
    if form == "latex":  # a tabular with the rules of the package booktabs
        count, above, lines = len(header) if n_heads is None else n_heads, list[str](), list[str]()
        texts = [["".join(_LATEX.get(c, c) for c in cell) for cell in row] for row in (header, *body)]
        for row, text in zip(body, texts[1:], strict=True):
            same = [n_heads is not None and row[: i + 1] == above[: i + 1] and i + 1 < count for i in range(count)]
            labels = ["" if repeats else cell for cell, repeats in zip(text, same, strict=False)]
            lines.append(" & ".join([*labels, *row[count:]]) + r" \\")
            above = row[:count]
        columns = "l" * count + "c" * (len(header) - count)
        start = [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule", " & ".join(texts[0]) + r" \\", r"\midrule"]
        return "\n".join([*start, *lines, r"\bottomrule", r"\end{tabular}"])
    if form == "markdown":
        body = [[cell.replace("|", "\\|") for cell in row] for row in body]
    widths = [max(len(row[i]) for row in [header, *body]) for i in range(len(header))]
    rows = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [header, *body]]
    rows.insert(1, ["-" * width for width in widths])
    if form == "markdown":
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join("  ".join(row).rstrip() for row in rows)


@dataclass(frozen=True)
class TableRequest:
    """The options of `evogt summary`, with `over` "none" for single runs, and `ratio` "first/second"."""

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


def make_summary_table(data: xr.Dataset, request: TableRequest) -> str:
    """Return the text of the table of a request.  Raises InputError for unknown names."""
    check_options(format=(request.form, FORMATS))
    values, statistics = summarise_variables(data, request)
    ratio, pair = None, tuple(request.ratio.split("/", 1))
    if request.ratio:
        if len(pair) < 2 or len(request.columns) != 1:
            message = "`ratio` must be first/second, two values of one axis across (use e.g. --columns dictionary)"
            raise InputError(f"{message}, got {request.ratio!r}")
        dim, planned = request.columns[0], data["run_key"]
        found = {name: compute_ratio_of_means(each, dim, pair, request, planned) for name, each in values.items()}
        ratio = _join_statistics(found).assign_attrs(name=request.ratio)
    table = make_table(_join_statistics(statistics), request.columns, request.rows, ratio)
    form, numbers = request.form, request.numbers
    text = table.render(form, numbers) if request.columns else render_table(*table.flatten(numbers), form)
    return _add_title(text, *values.values(), form=form)


def _add_title(table: str, *values: xr.DataArray, form: str) -> str:
    """Return a text table under the name and the long name of its variable, and any other table unchanged."""
    named = [dict.fromkeys([str(each.name), str(each.attrs.get("long_name", each.name))]) for each in values]
    titles = [escape_text(": ".join(each)) for each in named]
    return "\n".join([*titles, table]) if form == "text" and len(titles) == 1 else table


def summarise_variables(
    data: xr.Dataset, request: TableRequest
) -> tuple[dict[str, xr.DataArray], dict[str, xr.Dataset]]:
    """Return the values of the variables of a request, and their statistics.  Raises InputError for unknown names."""
    values = {name: data[name] for name in find_variables(data, *request.variables)}
    for name, each in values.items():
        if request.over == DEFAULT_OVER and "seed" not in each.dims:
            known = ", ".join([*map(str, each.dims), f"{_NONE} (a row for each run)"])
            raise InputError(f"`{name}` has no axis `seed`. Name axes with `over`: {known}")
    if request.over == (_NONE,):
        values = {name: each.expand_dims(_NONE) for name, each in values.items()}
    defaults = ("mean",) if request.over == (_NONE,) else ("mean", "std") if request.columns else estimates.DEFAULT
    return values, {
        name: summary(
            each, request.over, statistics=request.statistics or defaults, interval=request.interval,
            units=request.units, missing=request.missing, incomplete=request.incomplete, planned=data["run_key"],
        )
        for name, each in values.items()
    }  # fmt: skip


def _join_statistics(statistics: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Join the summaries of several variables along a dimension `variable`, or return a single summary."""
    if len(statistics) == 1:
        return next(iter(statistics.values()))
    dims = {name: each["n_ok"].dims for name, each in statistics.items()}
    if len(set(dims.values())) > 1:
        listing = ", ".join(f"{name} ({', '.join(map(str, each))})" for name, each in dims.items())
        raise InputError(f"`variable` must name variables with the same remaining dimensions, got {listing}")
    along: Any = xr.Variable("variable", list(statistics))
    options: Any = {"coords": "minimal", "compat": "override", "join": "exact", "combine_attrs": "drop"}
    return xr.concat(list(statistics.values()), along, **options).assign_coords({"variable": along})


def list_user_variables(data: xr.Dataset) -> list[str]:
    """Return the names of numeric variables except run metadata: headlines first, then scalars of a run."""
    names = [name for name in study_runs.list_numeric_variables(data) if name not in RUN_METADATA]
    axes = data["run_status"].dims if "run_status" in data else data.dims
    return sorted(names, key=lambda name: (data[name].attrs.get(HEADLINE) != 1, not set(data[name].dims) <= set(axes)))


def has_no_error(data: xr.Dataset) -> bool:
    """Return True if a result has an initial error but no error at the end."""
    return "initial_error" in data and "error" not in data


def find_variables(data: xr.Dataset, *names: str) -> tuple[str, ...]:
    """Return the named variables, by default the first user variable.  Raises InputError for unknown names."""
    known = list_user_variables(data)
    if not known and not (names and set(names) <= set(data.data_vars)):
        runs = study_runs.count_status(data) if study_runs.KEYS in data else None
        if runs is not None and runs.messages and not runs.ok:
            advice = "See `ds.run_message` or `evogt status`"
            raise InputError(f"no run is ok ({runs.describe()}): {runs.messages[0].text.rstrip('.')}. {advice}")
        raise InputError("the result has no variable with numbers")
    if not names and has_no_error(data) and data[known[0]].attrs.get(HEADLINE) != 1:
        raise InputError(f"{NO_SOLUTION_ERROR}. Choose a variable with `variable`: {', '.join(known)}")
    for name in names:
        if name not in data.data_vars:
            raise name_error("variable", name, known)
    return names or (known[0],)


def compute_ratio_of_means(
    values: xr.DataArray, dim: str, pair: Sequence[str], request: TableRequest, planned: xr.DataArray | None
) -> xr.Dataset:
    """Return the ratio of the means of two axis values over common units, with its bootstrap-t interval."""
    over = check_paired_dimensions(values, dim, request.over)
    places = [find_position(values, dim, label) for label in pair]
    values = values.isel({dim: places})
    planned = planned.isel({dim: places}) if planned is not None and dim in planned.dims else planned
    laid_out = study_runs.lay_out_units(values, over, request.units, planned, paired=dim)

    def on_pairs(samples: Array, once: Bools) -> list[Array]:
        pairs = np.asarray(once.all(axis=-2))
        there = pairs & ~np.isnan(samples).any(axis=-2)
        with np.errstate(invalid="ignore", over="ignore"):
            sides = (laid_out.split_units(np.where(there, samples[..., side, :], np.nan)) for side in (0, 1))
            above, below = (np.divide(*sum_units(each)) for each in sides)
        rows = [each.reshape(-1, each.shape[-1]) for each in (above, below)]
        limits = compute_ratio_interval(rows[0], rows[1], request.interval, logarithmic=True)
        limits[kernels.count(rows[0]) < request.interval.min_units] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = kernels.mean(above) / kernels.mean(below)
        planned_units, found = (laid_out.split_units(each).sum(axis=-1) for each in (pairs, there))
        counts = [(planned_units > 0) & (found == planned_units), planned_units > 0]
        return [ratio, limits.reshape(*ratio.shape, 2), *(each.sum(axis=-1).astype(float) for each in counts)]

    outputs = {"ratio_of_means": (), "ratio_ci": (BOUND,), **dict.fromkeys(UNIT_COUNTS, ())}
    found = reduce_blocks(values, laid_out.dims, on_pairs, outputs, along=[dim], runs=laid_out.runs)
    return found.assign_coords(estimates.keep_coordinates(values, [dim, *over]) | estimates.BOUNDS)


def format_comparison(found: xr.Dataset) -> str:
    """Return a comparison as text: the conclusions, a table with the values of each setup, and the notes."""
    dim, rest = str(found.attrs["dim"]), [str(each) for each in found["leader"].dims]
    form, names = NumberFormat(3), format_coordinates(found, dim)
    sentences, body, notes = [], [], dict[str, None]()
    for place, labels in zip(
        np.ndindex(*found["leader"].shape), product(*(format_coordinates(found, each) for each in rest)), strict=True
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


def make_order_table(data: xr.Dataset, request: TableRequest, along: str = "") -> str:
    """Return the table of observed orders of the first variable, by default along the only numeric axis."""
    values = data[find_variables(data, *request.variables)[0]]
    over = [dim for dim in request.over if dim in values.dims]
    numeric = [str(dim) for dim in values.dims if dim not in over and values[dim].dtype.kind in "iuf"]
    if not along and len(numeric) != 1:
        raise InputError(f"`orders` must name one of the numeric axes ({', '.join(numeric) or 'there is none'})")
    if along in over:
        raise InputError(f"`orders` must name another axis than `over`, got {along} for both")
    of = request.statistics[0] if request.statistics else "mean"
    found = estimates.observed_orders(
        values, along or numeric[0], over, of=of, interval=request.interval, units=request.units,
        missing=request.missing, planned=data["run_key"],
    )  # fmt: skip
    table = format_orders(found, along or numeric[0], of, request.form, request.numbers)
    return _add_title(table, values, form=request.form)


def format_orders(
    found: xr.Dataset, along: str, of: str, form: str = "text", numbers: NumberFormat = NumberFormat(3)
) -> str:
    """Return the table of `observed_orders`, with the least-squares slopes in the last row."""
    check_options(format=(form, FORMATS))
    rest, none = [str(dim) for dim in found["slope"].dims], {"latex": "--", "csv": ""}.get(form, "-")

    def show(value: float, text: str) -> str:
        return none if not math.isfinite(value) else f"${text}$" if form == "latex" else text

    labels = [" ".join(each) for each in product(*(list_headings(found, dim) for dim in rest))]
    header, body = [along], [[label] for label in [*format_coordinates(found, along), "slope"]]
    for place, label in zip(np.ndindex(*found["slope"].shape), labels, strict=True):
        one = found.isel(dict(zip(rest, place, strict=True)))
        if not (one["n_planned"] > 0).any():
            continue
        header += [f"{label} {name}".strip() for name in (of, EOC)]
        columns = (one[name].transpose(along).values.tolist() for name in (of, "order", "n_ok", "n_planned"))
        for row, value, order, n_ok, n_planned in zip(body[:-1], *columns, strict=True):
            number = show(value, numbers.latex(value) if form == "latex" else numbers.text(value))
            row += [number + (f" {n_ok}/{n_planned}" if n_ok < n_planned else ""), show(order, f"{order:.2f}")]
        slope = show(float(one["slope"]), f"{float(one['slope']):.2f}")
        if "slope_ci" in one and bool(np.isfinite(one["slope_ci"]).all()) and form != "csv":
            slope += " [{:.2f}, {:.2f}]".format(*one["slope_ci"].values.tolist())
        body[-1] += ["", slope]
    return render_table(header, body, form, 1)


def format_shares(
    data: xr.Dataset, variable: str, request: TableRequest, over: tuple[str, ...] | None, log: bool = False
) -> str:
    """Return the table of the sensitivity of a variable over a sample, by default over the only sample."""
    values = data[variable if variable == STATUS else find_variables(data, variable)[0]]
    options: Any = {"interval": request.interval, "missing": request.missing, "planned": data["run_key"]}
    found = check_indices(sensitivity(values, over, log=log, **options), values)
    table = format_sensitivity(found, request.form, replace(request.numbers, notation="plain"))
    return _add_title(table, values, form=request.form)


def format_sensitivity(found: xr.Dataset, form: str = "text", numbers: NumberFormat = NumberFormat(3, "plain")) -> str:
    """Return the tables of `sensitivity`, with the largest index first and the seed last, then pairs and notes."""
    by = next(found[name] for name in ("total", "shapley", "mu_star") if name in found)
    largest = by.max([dim for dim in by.dims if dim != PARAMETER]).fillna(-np.inf).values  # NaN comes last
    order = np.argsort(-largest, kind="stable")
    found = found.isel({dim: order for dim in (PARAMETER, OTHER) if dim in found.dims})
    columns = ("first_order", "total", "shapley", "mu", "mu_star", "sigma")
    tables = [found[[name for each in columns for name in (each, f"{each}_ci") if name in found]]]
    if "seed_share" in found:
        row = found[["seed_share", "seed_share_ci"]].rename(seed_share="total", seed_share_ci="total_ci")
        row = row.expand_dims({PARAMETER: [SEED]})
        tables[0] = xr.concat([tables[0], row], PARAMETER, coords="minimal", compat="override", join="outer")
    if "second_order" in found:
        pairs = found[["second_order", "second_order_ci"]].stack(pair=[PARAMETER, OTHER], create_index=False)
        names = [f"{a}, {b}" for a, b in zip(pairs[PARAMETER].values, pairs[OTHER].values, strict=True)]
        pairs = pairs.drop_vars([PARAMETER, OTHER]).rename(pair=PARAMETER).assign_coords({PARAMETER: names})
        pairs = pairs.dropna(PARAMETER, how="all", subset=["second_order"])
        tables += [pairs] if pairs.sizes[PARAMETER] else []
    parts = []
    for table in tables:
        counts = {name: found[name].expand_dims({PARAMETER: table[PARAMETER].values}, -1) for name in UNIT_COUNTS}
        header, body = make_table(table.assign(counts)).flatten(numbers)
        for cells in (each for each in body if each[header.index(PARAMETER)] == SEED):  # a seed has only one share
            named = zip(header, cells, strict=True)
            cells[:] = ["" if name.startswith("first_order") else cell for name, cell in named]
        parts.append(render_table(header, body, form))
    if form in ("text", "markdown"):
        lines = [note for note in dict.fromkeys(np.ravel(found[NOTE].values).tolist()) if note]
        if "unexplained" in found and bool(np.isfinite(found["unexplained"]).any()):
            ends = dict.fromkeys(f"{float(each(found['unexplained'])):.2g}" for each in (np.nanmin, np.nanmax))
            lines.append(f"the intervals include the unexplained part of the variance, {' to '.join(ends)}")
        parts += ["\n".join(lines)] if lines else []
    return "\n\n".join(parts)
