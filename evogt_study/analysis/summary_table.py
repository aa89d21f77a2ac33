"""Tables of `evogt summary` and `evogt compare`, the default variable, and the choice of a pilot."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis.comparison import paired_dimensions
from evogt_study.analysis.reduce import BOUND, COUNTS, reduce_blocks
from evogt_study.analysis.runs import Numbers, join_numbers, layout, mark_first, planned_runs, position, typed_labels
from evogt_study.analysis.statistics import DEFAULT, kept_coordinates, summary
from evogt_study.analysis.tables import NumberFormat, check_format, make_table, render_table, with_ratios
from evogt_study.errors import InputError
from evogt_study.inference import kernels
from evogt_study.inference.intervals import Interval, ratio_interval
from evogt_study.inference.kernels import Array
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import BOOKKEEPING, CANDIDATE, HEADLINE, Status, declared_attributes, status_codes
from evogt_study.schema.variables import to_losses as losses_of

_VARIABLE = "variable"
"""Dimension of a table of several variables."""
_NONE = "none"
"""Instead of dimensions to reduce over: each run by itself."""
DEFAULT_OVER = ("seed",)
_ERROR = "error"


@dataclass(frozen=True)
class TableRequest:
    """Statistics of variables over dimensions, at coordinate values, and their layout.

    variables: by default the first of `user_variables`.  over: dimensions, or "none" for the runs themselves.
    statistics: by default mean, std, median and their intervals, or mean and std in a table with columns.  units: see
    `analysis.statistics.summary`.  rows, columns: dimensions that are left ("variable" if there are several), and
    parameters that follow rows; by default rows are all but the columns.  ratio: "first/second", values of the one
    column axis, whose ratio of means over common `over` is a further column.
    """

    variables: tuple[str, ...] = ()
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


def summary_table(data: xr.Dataset, request: TableRequest) -> str:
    """The table of a request, in its format.

    Raises InputError or ParameterError for an unknown variable, dimension, coordinate value, statistic or format, with
    those there are; IncompleteError by the policy `missing`.
    """
    check_format(request.form)
    values, statistics = summaries(data, request)
    table = make_table(_join(statistics), request.columns, request.rows)
    if not request.ratio:
        if not request.columns:
            return render_table(*table.flatten(request.numbers), request.form)
        return table.render(request.form, request.numbers)
    first, slash, second = request.ratio.partition("/")
    if not slash or len(request.columns) != 1:
        message = "`ratio` must be first/second, two values of one axis across (use e.g. --columns dictionary)"
        raise InputError(f"{message}, got {request.ratio!r}")
    planned = select_runs(data["run_key"], request.at)
    ratios = {
        name: ratio_of_means(each, request.columns[0], (first, second), request, planned)
        for name, each in values.items()
    }
    return with_ratios(table, request.ratio, _join(ratios)).render(request.form, request.numbers)


def summaries(data: xr.Dataset, request: TableRequest) -> tuple[dict[str, xr.DataArray], dict[str, xr.Dataset]]:
    """The values of the variables of a request, and their statistics.  Raises as `summary_table`."""
    planned = select_runs(data["run_key"], request.at)
    values = {name: select_runs(data[name], request.at) for name in find_variables(data, *request.variables)}
    for name, each in values.items():
        if request.over == DEFAULT_OVER and "seed" not in each.dims:
            known = ", ".join([*map(str, each.dims), _NONE])
            raise InputError(f"`{name}` has no seed axis{' left' * bool(request.at)}; name axes with --over: {known}")
    if request.over == (_NONE,):
        values = {name: each.expand_dims(_NONE) for name, each in values.items()}
    defaults = ("mean",) if request.over == (_NONE,) else ("mean", "std") if request.columns else DEFAULT
    return values, {
        name: summary(
            each, request.over, statistics=request.statistics or defaults, interval=request.interval,
            units=request.units, missing=request.missing, incomplete=request.incomplete, planned=planned,
        )
        for name, each in values.items()
    }  # fmt: skip


def select_runs(values: xr.DataArray, at: Mapping[str, str]) -> xr.DataArray:
    """The values at coordinate values given as text.  Raises InputError, with those there are."""
    for name, label in at.items():
        if name not in values.dims:
            raise InputError(f"`at` must name axes ({', '.join(map(str, values.dims))}), got {name}")
        values = values.isel({name: position(values, name, label)})
    return values


def _join(statistics: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Join the summaries of several variables along a dimension `variable`; return a single one unchanged."""
    if len(statistics) == 1:
        return next(iter(statistics.values()))
    dims = {name: each["n_ok"].dims for name, each in statistics.items()}
    if len(set(dims.values())) > 1:
        listing = ", ".join(f"{name} ({', '.join(map(str, each))})" for name, each in dims.items())
        raise InputError(f"`variable` must name variables with the same dimensions left, got {listing}")
    along = xr.Variable(_VARIABLE, list(statistics))
    return xr.concat(
        list(statistics.values()), dim=along, coords="minimal", compat="override", join="exact", combine_attrs="drop"
    ).assign_coords({_VARIABLE: along})


def user_variables(data: xr.Dataset) -> list[str]:
    """Names of the variables with numbers, without run metadata: headlines first, then one number for each run."""
    names = [
        str(name) for name, each in data.data_vars.items() if each.dtype.kind in "iufb" and name not in BOOKKEEPING
    ]
    axes = data["run_status"].dims if "run_status" in data else data.dims
    return sorted(names, key=lambda name: (data[name].attrs.get(HEADLINE) != 1, not set(data[name].dims) <= set(axes)))


def find_variables(data: xr.Dataset, *names: str) -> tuple[str, ...]:
    """The named variables, by default the first of `user_variables`.  Raises InputError, with a suggestion."""
    known = user_variables(data)
    if not names and not known:
        raise InputError("the result has no variable with numbers")
    for name in names:
        if name not in data.data_vars:
            near = difflib.get_close_matches(name, known, 1)
            meant = f". Did you mean {near[0]}?" if near else ""
            raise InputError(f"`variable` must be one of {', '.join(known)}, got {name!r}{meant}")
    return names or (known[0],)


def ratio_of_means(
    values: xr.DataArray, dim: str, pair: tuple[str, str], request: TableRequest, planned: xr.DataArray | None
) -> xr.Dataset:
    """Ratio of the means of two values over common units, with its interval: bootstrap-t, on logarithms if positive."""
    over = paired_dimensions(values, dim, request.over)
    places = [position(values, dim, label) for label in pair]
    values, runs = values.isel({dim: places}), planned_runs(values, planned)
    runs = runs.isel({dim: places}) if runs is not None and dim in runs.dims else runs
    laid_out = layout(values, over, request.units, runs, along=[dim])

    def on_pairs(samples: Array, cells: Numbers) -> list[Array]:
        pairs = mark_first(join_numbers(cells))
        there = pairs & ~np.isnan(samples).any(axis=-2)
        above, below = (laid_out.means(np.where(there, samples[..., side, :], np.nan)) for side in (0, 1))
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
    return found.assign_coords(kept_coordinates(values, [dim, *over]) | {BOUND: ["lower", "upper"]})


def comparison_lines(found: xr.Dataset) -> str:
    """Conclusions of the setups, then a table of the values of each, and the notes."""
    dim, rest = str(found.attrs["dim"]), [str(each) for each in found["leader"].dims]
    form, names = NumberFormat(3), typed_labels(found, dim)
    sentences, body, notes = [], [], dict[str, None]()
    for place, labels in zip(
        np.ndindex(*found["leader"].shape), product(*(typed_labels(found, each) for each in rest)), strict=True
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


def _pilot_section(pilot: xr.Dataset) -> tuple[dict[str, Any], str, list[str]]:
    """The ``[pilot]`` section of the study in a result, the variable that it minimises, and the axes of its choices."""
    try:
        section = tomllib.loads(str(pilot.attrs.get("study", ""))).get("pilot", {})
    except tomllib.TOMLDecodeError:
        section = {}
    section = section if isinstance(section, dict) else {}
    return section, str(section.get("minimise", _ERROR)), list(map(str, section.get("by", [])))


def _mean_losses(pilot: xr.Dataset, variable: str, by: list[str]) -> xr.DataArray:
    """Means over the axes that are not of the choice; the lowest is best by the declared direction."""
    values, ok = pilot[variable], status_codes(pilot["run_status"]) == Status.ok
    losses = losses_of(values.values.astype(float), declared_attributes(values)[0])
    kept = values.copy(data=losses).where(pilot["run_status"].copy(data=ok))
    return kept.mean([dim for dim in values.dims if dim not in (*by, CANDIDATE)], skipna=False)


def choice_of_pilot(pilot: xr.Dataset) -> xr.DataArray | None:
    """Mask of the chosen candidate over `by` and the candidates, as `results.decisions` chooses.

    The choice has the least mean over the other axes, or as the declared direction says, among the candidates with all
    runs ok.  Ties go to the smaller candidate, or to the first if a candidate has several parameters.  None if runs or
    study do not determine it.
    """
    section, minimise, by = _pilot_section(pilot)
    known = {minimise, "run_status"} <= set(pilot.data_vars) and {*by, CANDIDATE} <= set(pilot.dims)
    if not section or not known or pilot[minimise].dims != pilot["run_status"].dims:
        return None
    means = _mean_losses(pilot, minimise, by)
    usable = means.notnull() & (abs(means) < np.inf)
    best = usable & (means == means.where(usable, np.inf).min(CANDIDATE))
    parameter = section.get("parameter")
    order = pilot[parameter] if isinstance(parameter, str) and parameter in pilot.coords else pilot[CANDIDATE]
    ranked = order.broadcast_like(best).where(best, np.inf)
    return best & (ranked == ranked.min(CANDIDATE))


def pilot_distance(pilot: xr.Dataset) -> xr.DataArray | None:
    """Mean error of the chosen candidate over the least of all candidates, over the axes of the choice.

    None for a pilot that minimises the error itself, or without a choice.
    """
    best, (_, minimise, by) = choice_of_pilot(pilot), _pilot_section(pilot)
    if best is None or minimise == _ERROR or _ERROR not in pilot.data_vars:
        return None
    error = _mean_losses(pilot, _ERROR, by)
    distance = error.where(best).max(CANDIDATE) / error.min(CANDIDATE)
    return None if bool(distance.isnull().any()) else distance.rename("pilot_distance")


def describe_pilot(pilot: xr.Dataset) -> str:
    """The distance of the pilot in a sentence; empty if it is not known."""
    distance = pilot_distance(pilot)
    if distance is None:
        return ""
    worst = np.unravel_index(int(np.argmax(distance.values)), distance.shape)
    at = ", ".join(
        f"{dim} = {text_label(canonical(distance[dim].values[i]))}"
        for dim, i in zip(map(str, distance.dims), worst, strict=True)
    )
    same = int(np.count_nonzero(distance.values == 1.0))  # exactly, being a number over itself
    choices = f"chosen by {_pilot_section(pilot)[1]}: {same} of {distance.size} choices also minimise the error"
    if same == distance.size:
        return choices
    median, most = float(np.median(distance.values)), float(distance.max())
    return f"{choices}; the mean error is {median:.3g} times the least (median), at most {most:.3g} times ({at})"
