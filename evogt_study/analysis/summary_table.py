"""Tables of `evogt summary` and `evogt compare`, and the choice of a pilot."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis.comparison import paired_dimensions
from evogt_study.analysis.reduce import BOUND, COUNTS, reduced
from evogt_study.analysis.runs import (
    Numbers,
    join_numbers,
    layout,
    mark_first,
    numeric_variables,
    planned_runs,
    position,
    shown,
)
from evogt_study.analysis.statistics import DEFAULT, kept_coordinates, summary
from evogt_study.analysis.tables import FORMATS, NumberFormat, pivot, rendered, rendered_pivot, rows, with_ratios
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference import kernels
from evogt_study.inference.intervals import Interval, ratio_interval
from evogt_study.inference.kernels import Array
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import CANDIDATE, Status, declared_attributes, status_codes, to_losses

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
    incomplete: str = "blocks"


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
        incomplete=question.incomplete,
        planned=planned,
    )


def _ratio(values: Mapping[str, xr.DataArray], question: Question, planned: xr.DataArray) -> tuple[str, xr.Dataset]:
    """Heading and ratios of the means of the two values in `ratio`."""
    first, slash, second = question.ratio.partition("/")
    if not slash or len(question.columns) != 1:
        raise InputError(f"`ratio` must be first/second, two labels of one axis across, got {question.ratio!r}")
    ratios = {
        name: ratio_of_means(each, question.columns[0], (first, second), question, planned)
        for name, each in values.items()
    }
    return question.ratio, joined(ratios)


def ratio_of_means(
    values: xr.DataArray,
    dim: str,
    pair: tuple[str, str],
    question: Question,
    planned: xr.DataArray | None,
) -> xr.Dataset:
    """Ratio of the means of two values over common units, with its interval: bootstrap-t, on logarithms if positive."""
    over = paired_dimensions(values, dim, question.over)
    places = [position(values, dim, label) for label in pair]
    values, runs = values.isel({dim: places}), planned_runs(values, planned)
    runs = runs.isel({dim: places}) if runs is not None and dim in runs.dims else runs
    laid_out = layout(values, over, question.units, runs, along=[dim])

    def on_pairs(samples: Array, cells: Numbers) -> list[Array]:
        pairs = mark_first(join_numbers(cells))
        there = pairs & ~np.isnan(samples).any(axis=-2)
        above, below = (laid_out.means(np.where(there, samples[..., side, :], np.nan)) for side in (0, 1))
        rows = [each.reshape(-1, each.shape[-1]) for each in (above, below)]
        limits = ratio_interval(rows[0], rows[1], question.interval, logarithmic=True)
        limits[kernels.count(rows[0]) < question.interval.min_units] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = kernels.mean(above) / kernels.mean(below)
        planned_units, found = (laid_out.blocks(each).sum(axis=-1) for each in (pairs, there))
        counts = [(planned_units > 0) & (found == planned_units), planned_units > 0]
        return [ratio, limits.reshape(*ratio.shape, 2), *(each.sum(axis=-1).astype(float) for each in counts)]

    outputs = {"ratio_of_means": (), "ratio_ci": (BOUND,), **dict.fromkeys(COUNTS, ())}
    found = reduced(values, laid_out.dims, on_pairs, outputs, along=[dim], runs=runs)
    found = found.assign({name: found[name].astype(np.int64) for name in COUNTS})
    return found.assign_coords(kept_coordinates(values, [dim, *over]) | {BOUND: ["lower", "upper"]})


def comparison_lines(found: xr.Dataset) -> str:
    """Conclusions of the setups, then a table of the values of each, and the notes."""
    dim = str(found.attrs["dim"])
    rest = [str(each) for each in found["leader"].dims]
    form, names = NumberFormat(3), shown(found, dim)
    sentences, body, notes = [], [], dict[str, None]()
    for place, labels in zip(
        np.ndindex(*found["leader"].shape), product(*(shown(found, each) for each in rest)), strict=True
    ):
        cell = found.isel(dict(zip(rest, place, strict=True)))
        where = ", ".join(f"{name} = {label}" for name, label in zip(rest, labels, strict=True))
        sentences.append(f"{where}: {cell['conclusion'].item()}" if where else str(cell["conclusion"].item()))
        notes |= dict.fromkeys(each for each in str(cell["note"].item()).split("; ") if each)
        for i, name in enumerate(names):
            if int(cell["n_planned"][i]):
                ends = cell["over_leader_ci"].values[i]
                numbers = [cell["over_leader"].values[i], *ends, cell["p_over_leader"].values[i]]
                counts = [f"{int(cell['n_ok'][i])}/{int(cell['n_planned'][i])}"]
                body.append([*labels, name, *counts, *(form.text(float(v)) if v == v else "" for v in numbers)])
    header = [*rest, dim, f"{found.attrs['unit']}s", f"{found.attrs['scale']} to leader", "lower", "upper", "p"]
    lines = [f"Note: {each}." for each in notes]
    return "\n".join([*sentences, "", rendered(header, body, "text"), *lines])


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


def losses_of(values: xr.DataArray) -> xr.DataArray:
    """Numbers whose lowest is best, by the declared direction."""
    better, _ = declared_attributes(values)
    return values.copy(data=to_losses(values.values.astype(float), better))


def chosen(pilot: xr.Dataset) -> xr.DataArray | None:
    """Mask of the chosen candidate over `by` and the candidates, as `results.decisions` chooses.

    The choice has the least mean over the other axes, or as the declared direction says, among the candidates with all
    runs ok.  Ties go to the smaller candidate, or to the first if a candidate has several parameters.  None if runs or
    study do not determine it.
    """
    section = pilot_section(pilot)
    minimise, by = minimised(section)
    known = {minimise, "run_status"} <= set(pilot.data_vars) and {*by, CANDIDATE} <= set(pilot.dims)
    if not section or not known or pilot[minimise].dims != pilot["run_status"].dims:
        return None
    over = [dim for dim in pilot["run_status"].dims if dim not in (*by, CANDIDATE)]
    values = losses_of(pilot[minimise]).where(
        pilot["run_status"].copy(data=status_codes(pilot["run_status"])) == Status.ok
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
    means = {name: losses_of(pilot[name]).mean(over, skipna=False) for name in (minimise, ERROR)}
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
