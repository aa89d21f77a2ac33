"""Sensitivity as a table: a row for each parameter, largest first, and one for the seed, with what it rests on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from evogt_study.analysis.blocks import BOUND, COUNTS
from evogt_study.analysis.labels import numeric_variables
from evogt_study.analysis.notes import NOTE
from evogt_study.analysis.sensitivity.estimators import OTHER, PARAMETER
from evogt_study.analysis.sensitivity.sensitivity import known, sensitivity
from evogt_study.analysis.tables.numbers import NumberFormat
from evogt_study.analysis.tables.summary_table import Question, select_runs
from evogt_study.analysis.tables.tables import rendered, rows
from evogt_study.analysis.units import DRAWN
from evogt_study.errors import InputError

SEED_SHARE = "seed_share"
COLUMNS = ("first_order", "first_order_ci", "total_order", "total_order_ci", "mu", "mu_star", "mu_star_ci", "sigma")
"""Numbers of a parameter, in the order of the columns; pairs of parameters have a table of their own."""


def sensitivity_table(found: xr.Dataset, form: str = "text", numbers: NumberFormat = NumberFormat(3, "plain")) -> str:
    """The tables of `analysis.sensitivity.sensitivity.sensitivity` in one of `FORMATS`, pairs of parameters below.

    The row `seed` has what involves the seed, beside the parameters' shares.  Below the text stands what cannot be in a
    row: on which parameters failures depend, and what polynomials do not explain.  Raises InputError for a format that
    is none.
    """
    rest = [str(dim) for dim in found["n_ok"].dims]
    kept = found[[name for name in COLUMNS if name in found]].transpose(*rest, ...)
    kept = _with_seed(kept, found) if SEED_SHARE in found else kept
    head, body = rows(_counted(kept, found, [PARAMETER]), [*rest, PARAMETER], numbers)
    parts = [rendered(head, [_without_first_order(head, row) for row in body], form)]
    if "second_order" in found:
        pairs = _pairs(found)
        if pairs.sizes[PARAMETER]:
            parts.append(rendered(*rows(_counted(pairs, found, [PARAMETER]), [*rest, PARAMETER], numbers), form))
    if form in ("text", "markdown"):
        parts += _told(found)
    return "\n\n".join(parts)


def shares_table(data: xr.Dataset, question: Question, over: tuple[str, ...] | None, log: bool = False) -> str:
    """The table of the sensitivity of the question's first variable over a sample (None: the one there is).

    Raises as `summary_table`, and InputError where there is no sample, or values that are all equal.
    """
    name = question.variables[0]
    variables = [*numeric_variables(data)]
    if name not in variables:
        raise InputError(f"`--sensitivity` must be one of {', '.join(variables)}, got {name!r}")
    values = select_runs(data[name], question.at)
    found = sensitivity(
        values, over, log=log, interval=question.interval, missing=question.missing,
        planned=select_runs(data["case_key"], question.at),
    )  # fmt: skip
    return sensitivity_table(
        largest_first(known(found, values)), question.form, replace(question.numbers, notation="plain")
    )


def largest_first(found: xr.Dataset) -> xr.Dataset:
    """The indices with the parameters in order of their largest total index, or mean magnitude of effects."""
    by = found["total_order" if "total_order" in found else "mu_star"]
    largest = by.max([dim for dim in by.dims if dim != PARAMETER]).fillna(-np.inf).values  # unknown ones last
    order = np.argsort(-largest, kind="stable")
    return found.isel({dim: order for dim in (PARAMETER, OTHER) if dim in found.dims})


def _with_seed(kept: xr.Dataset, found: xr.Dataset) -> xr.Dataset:
    """A further row, whose total is the share of the seed."""
    row = xr.full_like(kept.isel({PARAMETER: [0]}), np.nan).assign_coords({PARAMETER: [DRAWN]})
    row["total_order"] = found[SEED_SHARE].expand_dims({PARAMETER: [DRAWN]}, -1)
    row["total_order_ci"] = found[f"{SEED_SHARE}_ci"].expand_dims({PARAMETER: [DRAWN]}, -2)
    return xr.concat(
        [kept, row], PARAMETER, coords="minimal", compat="override", join="outer", combine_attrs="override"
    )


def _without_first_order(head: list[str], row: list[str]) -> list[str]:
    """The row; that of the seed, of which only the whole share is known, with nothing in its first-order columns."""
    if row[head.index(PARAMETER)] != DRAWN:
        return row
    return ["" if name.startswith("first_order") else text for name, text in zip(head, row, strict=True)]


def _pairs(found: xr.Dataset) -> xr.Dataset:
    """Second-order indices along one dimension of pairs, those that are known."""
    names = found[PARAMETER].values.tolist()
    upper = [(i, j) for i in range(len(names)) for j in range(len(names)) if bool(found["second_order"][
        {PARAMETER: i, OTHER: j}].notnull().any())]  # fmt: skip
    label = xr.Variable(PARAMETER, [f"{names[i]}, {names[j]}" for i, j in upper])
    first, second = (
        xr.Variable(PARAMETER, np.array(each, dtype=int)) for each in ([i for i, _ in upper], [j for _, j in upper])
    )
    data = found[["second_order", "second_order_ci"]].drop_vars([PARAMETER, OTHER])
    rest = [str(dim) for dim in found["n_ok"].dims]
    data = data.isel({PARAMETER: first, OTHER: second}).assign_coords({PARAMETER: label})
    return data.transpose(*rest, PARAMETER, BOUND)


def _counted(data: xr.Dataset, found: xr.Dataset, own: list[str]) -> xr.Dataset:
    """The numbers with the counts of `found` at every parameter."""
    sizes = {name: data.sizes[name] for name in own}
    return data.assign({name: found[name].expand_dims(sizes, range(-len(own), 0)) for name in COUNTS})


def _told(found: xr.Dataset) -> list[str]:
    """Notes on failures, each once, and what is not explained."""
    lines = [note for note in dict.fromkeys(np.ravel(found[NOTE].values).tolist()) if note]
    if "unexplained" in found and bool(np.isfinite(found["unexplained"]).any()):
        low, high = (float(each) for each in (found["unexplained"].min(), found["unexplained"].max()))
        share = f"{high:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
        lines.append(f"not explained by the polynomials, and in the intervals: {share} of the variance")
    return ["\n".join(lines)] if lines else []
