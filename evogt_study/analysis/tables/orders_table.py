"""Observed orders as a table: a row for each value of an axis, for each series its number and its order (EOC)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import xarray as xr

from evogt_study.analysis.blocks import BOUND
from evogt_study.analysis.labels import across, shown
from evogt_study.analysis.orders import observed_orders
from evogt_study.analysis.tables.numbers import NumberFormat
from evogt_study.analysis.tables.summary_table import Question, asked_variables, select_runs
from evogt_study.analysis.tables.tables import FORMATS, escaped, rendered
from evogt_study.errors import InputError, ParameterError

EOC = "EOC"
"""Heading of an order: experimental order of convergence."""


def orders_table(
    found: xr.Dataset, along: str, of: str, form: str = "text", numbers: NumberFormat = NumberFormat(3)
) -> str:
    """The table of `analysis.orders.observed_orders` in one of `FORMATS`; its last row has the least-squares slopes.

    found: with the statistic `of` over `along` and other dimensions, each point of which is a series of two columns,
    the statistic with k/n where runs are missing, and the order between this row and the one above.  Series without any
    run are left out.  Raises ParameterError for a format that is none.
    """
    if form not in FORMATS:
        raise ParameterError("format", f"one of {', '.join(FORMATS)}", form)
    rest = [str(dim) for dim in found["slope"].dims]
    places = [place for place in np.ndindex(*found["slope"].shape) if (_at(found, rest, place)["n_planned"] > 0).any()]
    headings = [" ".join(words) for words in product(*(across(found, dim) for dim in rest))]
    series = [headings[int(np.ravel_multi_index(place, found["slope"].shape)) if rest else 0] for place in places]
    columns = [_series(_at(found, rest, place), along, of, numbers, form) for place in places]
    labels = [*shown(found, along), "slope"]
    body = [[label, *(cell for pair in row for cell in pair)] for label, *row in zip(labels, *columns, strict=True)]
    name = str(of)
    if form == "latex":
        return _latex(along, name, series, body)
    header = [along, *(f"{one} {each}".strip() for one in series for each in (name, EOC))]
    return rendered(header, body, form)


def eoc_table(data: xr.Dataset, question: Question, along: str = "") -> str:
    """The table of observed orders of the question's first variable along an axis ("": the numeric one there is).

    Over the dimensions `over` that the variable has; the statistic is the question's first, or the mean.  Raises as
    `summary_table`, and InputError where there is no such axis, or which one is open.
    """
    values = select_runs(data[asked_variables(data, question)[0]], question.at)
    over = [dim for dim in question.over if dim in values.dims]
    numeric = [str(dim) for dim in values.dims if dim not in over and values[dim].dtype.kind in "iuf"]
    if not along and len(numeric) != 1:
        raise InputError(f"`--orders` must name one of the numeric axes ({', '.join(numeric) or 'there is none'})")
    if along in over:
        raise InputError(f"`--orders` must name another axis than `--over`, got {along} for both")
    of = question.statistics[0] if question.statistics else "mean"
    found = observed_orders(
        values, along or numeric[0], over, of=of, interval=question.interval, units=question.units,
        missing=question.missing, planned=select_runs(data["case_key"], question.at),
    )  # fmt: skip
    return orders_table(found, along or numeric[0], of, question.form, question.numbers)


def _at(found: xr.Dataset, rest: Sequence[str], place: Sequence[int]) -> xr.Dataset:
    return found.isel(dict(zip(rest, map(int, place), strict=True)))


def _series(one: xr.Dataset, along: str, of: str, numbers: NumberFormat, form: str) -> list[tuple[str, str]]:
    """Number and order of each row of one series, then nothing and the slope with its interval."""
    none = "--" if form == "latex" else "" if form == "csv" else "-"
    number = (lambda value: f"${numbers.latex(value)}$") if form == "latex" else numbers.text
    cells = []
    for value, order, n_ok, n_planned in zip(
        *(one[name].transpose(along).values.tolist() for name in (of, "order", "n_ok", "n_planned")), strict=True
    ):
        lacking = f" {n_ok}/{n_planned}" if n_ok < n_planned else ""
        text = number(value) + lacking if math.isfinite(value) else f"{none}{lacking}"
        cells.append((text, _order(order, none, form)))
    slope = _order(float(one["slope"]), none, form)
    if "slope_ci" in one and bool(np.isfinite(one["slope_ci"]).all()) and form != "csv":
        ends = [_order(float(one["slope_ci"][{BOUND: i}]), none, form) for i in (0, 1)]
        slope += f" [{', '.join(ends)}]"
    return [*cells, ("", slope)]


def _order(value: float, none: str, form: str) -> str:
    if not math.isfinite(value):
        return none
    return f"${value:.2f}$" if form == "latex" else f"{value:.2f}"


def _latex(along: str, name: str, series: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A tabular of booktabs, with the series above their two columns."""
    above = " & ".join(["", *(rf"\multicolumn{{2}}{{c}}{{{escaped(one)}}}" for one in series)]) + r" \\"
    rules = " ".join(rf"\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(len(series)))
    header = " & ".join([escaped(along), *[escaped(name), EOC] * len(series)]) + r" \\"
    rows = [" & ".join([escaped(row[0]), *row[1:]]) + r" \\" for row in body]
    return "\n".join(
        [
            "% experimental orders of convergence, in the last row least-squares slopes; needs the package booktabs",
            rf"\begin{{tabular}}{{@{{}}l{'cc' * len(series)}@{{}}}}",
            r"\toprule",
            *([above, rules] if any(series) else []),
            header,
            r"\midrule",
            *rows[:-1],
            r"\midrule",
            rows[-1],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
