"""Tables of `evogt summary` and `evogt verdict`, and the choice of a pilot."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis.comparison import compare
from evogt_study.analysis.reduce import BOUND
from evogt_study.analysis.runs import numeric_variables, position, shown
from evogt_study.analysis.statistics import DEFAULT, summary
from evogt_study.analysis.tables import FORMATS, NumberFormat, pivot, rendered, rendered_pivot, rows, with_ratios
from evogt_study.analysis.verdict import PAIR
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference.intervals import Interval
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import CANDIDATE, Status, status_codes

VARIABLE = "variable"
"""Dimension of a table of several variables."""
NONE = "none"
"""Instead of dimensions to reduce over: each run by itself."""
DEFAULT_VARIABLES, DEFAULT_OVER = ("error",), ("seed",)
ERROR = "error"


@dataclass(frozen=True)
class Question:
    """Statistics of variables over dimensions, at labels, and their layout.

    over: dimensions, or "none" for the runs themselves.  statistics: none is mean, std, median and their intervals, or
    mean and std in a table with columns.  units: see `analysis.statistics.summary`.  rows, columns: dimensions that
    are left ("variable" where there are several), and parameters that follow rows; none for rows is all but the
    columns.  ratio: "first/second", labels of the one column axis, whose ratio of means over common `over` is a further
    column.
    """

    variables: tuple[str, ...] = DEFAULT_VARIABLES
    over: tuple[str, ...] = DEFAULT_OVER
    statistics: tuple[str, ...] = ()
    at: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    ratio: str = ""
    form: str = "text"
    numbers: NumberFormat = NumberFormat()
    interval: Interval = Interval()
    units: tuple[str, ...] | None = None
    missing: str = "warn"


def summary_table(data: xr.Dataset, question: Question) -> str:
    """The table that answers the question, in its format.

    Raises InputError or ParameterError for a variable, dimension, label, statistic or format that there is not, with
    those there are; IncompleteError by the policy `missing`.
    """
    if question.form not in FORMATS:
        raise ParameterError("format", f"one of {', '.join(FORMATS)}", question.form)
    planned = select_runs(data["run_key"], question.at)
    values = {name: select_runs(data[name], question.at) for name in asked_variables(data, question)}
    _check_seed(values, question)
    if question.over == (NONE,):
        values = {name: each.expand_dims(NONE) for name, each in values.items()}
    statistics = joined({name: _summary(each, question, planned) for name, each in values.items()})
    if not question.columns:
        if question.ratio:
            raise InputError("`ratio` must be given with the axis of its labels across; use e.g. --columns dictionary")
        return rendered(*rows(statistics, question.rows, question.numbers), question.form)
    table = pivot(statistics, question.columns, question.rows)
    if question.ratio:
        heading, compared = _ratio(values, question, planned)
        table = with_ratios(table, heading, compared, question.columns)
    return rendered_pivot(table, question.form, question.numbers)


def select_runs(values: xr.DataArray, at: Mapping[str, str]) -> xr.DataArray:
    """The values at labels given as text.  Raises InputError, with what there is."""
    for name, label in at.items():
        if name not in values.dims:
            raise InputError(f"`at` must name axes ({', '.join(map(str, values.dims))}), got {name}")
        values = values.isel({name: position(values, name, label)})
    return values


def joined(statistics: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Join the summaries of several variables along a dimension `variable`; return a single one unchanged.

    Raises InputError where they are over different dimensions.
    """
    if len(statistics) == 1:
        return next(iter(statistics.values()))
    dims = {name: each["n_ok"].dims for name, each in statistics.items()}
    if len(set(dims.values())) > 1:
        listing = ", ".join(f"{name} ({', '.join(map(str, each))})" for name, each in dims.items())
        raise InputError(f"`variable` must name variables with the same dimensions left, got {listing}")
    along = xr.Variable(VARIABLE, list(statistics))
    return xr.concat(
        list(statistics.values()), dim=along, coords="minimal", compat="override", join="exact", combine_attrs="drop"
    ).assign_coords({VARIABLE: along})


def asked_variables(data: xr.Dataset, question: Question) -> tuple[str, ...]:
    """Names of the question's variables.  Raises InputError for one that there is not."""
    for name in question.variables:
        if name not in data.data_vars:
            known = ", ".join(numeric_variables(data))
            if question.variables == DEFAULT_VARIABLES:
                raise InputError(f"the result has no `{name}`; name another variable with --variable: {known}")
            raise InputError(f"`--variable` must be one of {known}, got {name!r}")
    return question.variables


def _check_seed(values: Mapping[str, xr.DataArray], question: Question) -> None:
    """Raise InputError if the seeds are to be reduced, which is the default, and there are none."""
    for name, each in values.items():
        if question.over == DEFAULT_OVER and "seed" not in each.dims:
            raise InputError(
                f"`{name}` has no seed axis{' left' if question.at else ''}; name axes with --over: "
                + ", ".join([*map(str, each.dims), NONE])
            )


def _summary(values: xr.DataArray, question: Question, planned: xr.DataArray) -> xr.Dataset:
    defaults = ("mean",) if question.over == (NONE,) else ("mean", "std") if question.columns else DEFAULT
    return summary(
        values,
        question.over,
        statistics=question.statistics or defaults,
        interval=question.interval,
        units=question.units,
        missing=question.missing,
        planned=planned,
    )


def _ratio(values: Mapping[str, xr.DataArray], question: Question, planned: xr.DataArray) -> tuple[str, xr.Dataset]:
    """Heading and comparison of the two labels of `ratio`."""
    first, slash, second = question.ratio.partition("/")
    if not slash or len(question.columns) != 1:
        raise InputError(f"`ratio` must be first/second, two labels of one axis across, got {question.ratio!r}")
    compared = {
        name: compare(
            each,
            question.columns[0],
            first,
            second,
            question.over,
            units=question.units,
            missing="drop",  # the summary of the same runs warns of them
            planned=planned,
        )
        for name, each in values.items()
    }
    ratios = {name: each[["ratio_of_means", "ratio_ci", "n_ok", "n_planned"]] for name, each in compared.items()}
    return question.ratio, joined(ratios)


def verdict_lines(found: xr.Dataset) -> str:
    """Sentences of the cells, then effects, simultaneous intervals and adjusted p-values of their pairs."""
    rest = [str(dim) for dim in found["n_common"].dims]
    form = NumberFormat(3)
    sentences, body = [], []
    for place, labels in zip(
        np.ndindex(*found["n_common"].shape), product(*(shown(found, dim) for dim in rest)), strict=True
    ):
        cell = found.isel(dict(zip(rest, place, strict=True)))
        where = ", ".join(f"{dim} = {label}" for dim, label in zip(rest, labels, strict=True))
        sentences.append(f"{where}: {cell['verdict'].item()}" if where else str(cell["verdict"].item()))
        limits = cell["effect_ci"].transpose(PAIR, BOUND).values
        numbers = zip(cell[PAIR].values, cell["effect"].values, limits, cell["p_value"].values, strict=True)
        body += [
            [*labels, str(pair), *map(form.text, map(float, (effect, low, high, p)))]
            for pair, effect, (low, high), p in numbers
            if np.isfinite(effect)
        ]
    effect = str(found.attrs["effect"])
    header = [*rest, PAIR, effect, "lower", "upper", "p"]
    return "\n".join([*sentences, "", rendered(header, body, "text")])


def pilot_section(pilot: xr.Dataset) -> dict[str, Any]:
    """The ``[pilot]`` section of the study in a result, empty where it cannot be read."""
    try:
        section = tomllib.loads(str(pilot.attrs.get("study", ""))).get("pilot", {})
    except tomllib.TOMLDecodeError:
        return {}
    return section if isinstance(section, dict) else {}


def minimised(section: dict[str, Any]) -> tuple[str, list[str]]:
    """The variable that the pilot minimises, and the axes at whose points it chooses."""
    return str(section.get("minimise", ERROR)), list(map(str, section.get("by", [])))


def chosen(pilot: xr.Dataset) -> xr.DataArray | None:
    """Mask of the chosen candidate over `by` and the candidates, as `results.pilot_choice` chooses.

    The choice has the least mean over the other axes, among the candidates with all runs ok.  Ties go to the smaller
    candidate, or to the first if a candidate has several parameters.  None if runs or study do not determine it.
    """
    section = pilot_section(pilot)
    minimise, by = minimised(section)
    known = {minimise, "run_status"} <= set(pilot.data_vars) and {*by, CANDIDATE} <= set(pilot.dims)
    if not section or not known or pilot[minimise].dims != pilot["run_status"].dims:
        return None
    over = [dim for dim in pilot["run_status"].dims if dim not in (*by, CANDIDATE)]
    values = (
        pilot[minimise]
        .astype(float)
        .where(pilot["run_status"].copy(data=status_codes(pilot["run_status"])) == Status.ok)
    )
    means = values.mean(over, skipna=False)
    usable = means.notnull() & (abs(means) < np.inf)
    best = usable & (means == means.where(usable, np.inf).min(CANDIDATE))
    parameter = section.get("parameter")
    order = pilot[parameter] if isinstance(parameter, str) and parameter in pilot.coords else pilot[CANDIDATE]
    ranked = order.broadcast_like(best).where(best, np.inf)
    return best & (ranked == ranked.min(CANDIDATE))


def pilot_distance(pilot: xr.Dataset) -> xr.DataArray | None:
    """Mean error of the chosen candidate over the least of all candidates, over the axes of the choice.

    The choice is by the least mean of `minimise`, which the study in the result names.  None for a pilot that
    minimises the error itself, or without the two variables.
    """
    minimise, by = minimised(pilot_section(pilot))
    if minimise == ERROR or not {minimise, ERROR} <= set(pilot.data_vars) or not set(by) <= set(pilot.dims):
        return None
    over = [dim for dim in pilot["run_status"].dims if dim not in (*by, CANDIDATE)]
    means = {name: pilot[name].mean(over, skipna=False) for name in (minimise, ERROR)}
    there: xr.DataArray = means[minimise].notnull() & means[ERROR].notnull()
    if not bool(there.any(CANDIDATE).all()):
        return None
    chosen = means[minimise].where(there, np.inf).argmin(CANDIDATE)
    known = means[ERROR].where(there, np.inf)
    return (known.isel({CANDIDATE: chosen}) / known.min(CANDIDATE)).rename("pilot_distance")


def distance_told(pilot: xr.Dataset) -> str:
    """The distance in a sentence; empty where it is not known."""
    distance = pilot_distance(pilot)
    if distance is None:
        return ""
    worst = np.unravel_index(int(np.argmax(distance.values)), distance.shape)
    at = ", ".join(
        f"{dim} = {text_label(canonical(distance[dim].values[i]))}"
        for dim, i in zip(map(str, distance.dims), worst, strict=True)
    )
    same = int(np.count_nonzero(distance.values == 1.0))  # exactly, being a number over itself
    minimise, _ = minimised(pilot_section(pilot))
    choices = f"chosen by {minimise}: {same} of {distance.size} choices are those of the error itself"
    if same == distance.size:
        return choices
    median, most = float(np.median(distance.values)), float(distance.max())
    return f"{choices}; the mean error is {median:.3g} times the least (median), at most {most:.3g} times ({at})"
