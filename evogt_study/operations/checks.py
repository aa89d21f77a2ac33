"""Checks of a result that compute nothing; a check yields one line for each thing that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import PilotError, shortened
from evogt_study.operations.compare_runs import differences
from evogt_study.results.dataset import RECORDED, axis_coordinates, global_attributes, records_of
from evogt_study.results.decisions import choose
from evogt_study.results.reopened import Stored, point
from evogt_study.results.table import Table
from evogt_study.schema.variables import BOOKKEEPING, Status
from evogt_study.storage.arrays import slabs
from evogt_study.study.case_space import listed
from evogt_study.study.phases import Choice, in_words

SETTLED_ATTRIBUTES = ("Conventions", "title", "summary", "id", "study", "study_sha256", "phase")
"""Global attributes that the study's text determines; others have to be there."""
ATTEMPTED = (Status.ok, Status.failed, Status.diverged)
"""Fates that say what came of the run; the others are runs that are missing."""


# extra variables are allowed: a later minor version, or a user's function, may record more
def check_schema(result: Stored) -> Iterator[str]:
    """Dimensions, variables and attributes are those that are documented, and coordinates those of the study."""
    yield from _global_attributes(result)
    yield from _coordinates(result)
    names, data = result.plan.space.names, result.data
    for name, variable in data.data_vars.items():
        if variable.dims[: len(names)] != names or (name in BOOKKEEPING and variable.dims != names):
            yield f"`{name}` must be over the axes ({', '.join(names)}), got ({', '.join(map(str, variable.dims))})"
        yield from _attributes(result, str(name), variable)
    for dim in data.dims:
        if dim not in data.coords:
            yield f"the dimension `{dim}` has no coordinate"


def _global_attributes(result: Stored) -> Iterator[str]:
    expected, found = global_attributes(result.study, result.phase), result.data.attrs
    for name in (*expected, RECORDED):
        if name not in found:
            yield f"the attribute `{name}` is missing"
        elif name in SETTLED_ATTRIBUTES and found[name] != expected[name]:
            yield f"the attribute `{name}` must be {shortened(expected[name])}, got {shortened(found[name])}"


def _attributes(result: Stored, name: str, variable: xr.DataArray) -> Iterator[str]:
    declared: Mapping[str, Any] = {}
    if name in BOOKKEEPING:
        declared = BOOKKEEPING[name].attributes
    elif name in result.study.method.variables:
        declared = result.study.method.variables[name].attributes
    for attribute, wanted in declared.items():
        if variable.attrs.get(attribute) != wanted:
            got = shortened(variable.attrs.get(attribute))
            yield f"`{name}` must have the attribute {attribute} = {wanted!r}, got {got}"
    if not variable.attrs.get("long_name"):
        yield f"`{name}` must have a long_name, got none"
    if name == "status":
        flags = [int(value) for value in np.ravel(variable.attrs.get("flag_values", []))]
        meanings = str(variable.attrs.get("flag_meanings", "")).split()
        if flags != [int(status) for status in Status] or meanings != [status.name for status in Status]:
            yield f"the flags of `status` must be {', '.join(status.name for status in Status)}, got {meanings}"


def _coordinates(result: Stored) -> Iterator[str]:
    """The study's own coordinates are in the file; `check_choice` checks those that earlier phases chose."""
    for name, (dims, values, attributes) in axis_coordinates(result.plan.space, result.study).items():
        found = result.data.coords.get(name)
        wanted = np.asarray(values)
        dims = (dims,) if isinstance(dims, str) else tuple(dims)
        if found is None or found.dims != dims or not _equal(found.values, wanted):
            got = "none" if found is None else f"{listed(list(map(str, found.values.ravel())))} over {found.dims}"
            yield f"the coordinate `{name}` must be {listed(list(map(str, wanted.ravel())))}, got {got}"
        elif any(found.attrs.get(key) != text for key, text in attributes.items()):
            yield f"the attributes of the coordinate `{name}` must be {dict(attributes)}, got {found.attrs}"


def _equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    words = [values.dtype.kind in "OU" for values in (one, other)]  # strings are not cast to numbers
    if all(words):
        return bool(one.astype(str).tolist() == other.astype(str).tolist())
    return not any(words) and np.array_equal(one.astype(float), other.astype(float), equal_nan=True)


def check_keys(result: Stored) -> Iterator[str]:
    """Case keys are those that the study asks for."""
    plan = result.plan
    asked = plan.keys.astype(str)
    found = result.data["case_key"].values.ravel().astype(str)
    wrong = np.flatnonzero(asked != found)
    if wrong.size:
        first = int(wrong[0])
        yield (
            f"{wrong.size} of {plan.space.size} case keys are not those that the study asks for, e.g. at "
            f"{point(plan.space, first)}: {found[first] or 'none'} in the file, {asked[first] or 'none'} asked for; "
            "the method's Python file, this package, or the result was changed"
        )


# equal keys come of parameters that a case does not use: the values were computed once and copied, so they are equal
# bit for bit whatever the software
def check_twins(result: Stored) -> Iterator[str]:
    """Cases with equal keys, which are one computation, have equal values."""
    keys = result.keys[result.keys != ""]
    if len(np.unique(keys)) == len(keys):
        return
    records = records_of(result.data)
    first_of: dict[str, int] = {}
    pairs = [
        (first_of[key], row)
        for row, key in enumerate(records.keys)
        if first_of.setdefault(key, row) != row and records.status[row] == records.status[first_of[key]] == Status.ok
    ]
    for difference in differences(records, records, pairs) if pairs else ():
        yield f"{len(difference.pairs)} cases have the key of another, but other values: {difference.told('there')}"


# `check_twins` and the sample compare numbers; this finds what another program has changed in the file
def check_values(result: Stored) -> Iterator[str]:
    """Each run's fate and its numbers fit together: only runs that are ok have values, and these have an error."""
    data = result.data
    status = data["status"].values
    planned = data["case_key"].values != ""
    ok = status == Status.ok
    measured = [name for name in data.data_vars if name not in BOOKKEEPING]
    # one's own method may return a word of this name
    if "error" in measured and data["error"].dims == data["status"].dims and data["error"].dtype.kind in "iufb":
        yield from _where(
            result, ok & ~np.isfinite(data["error"].values.astype(float)), "are ok without finite `error`"
        )
    for name in measured:
        there = np.zeros_like(ok)
        # an array variable may be larger than memory
        for slab in slabs(data[name].shape):
            present = _present(data[name].variable[slab])
            there[slab[: status.ndim]] |= present.any(axis=tuple(range(status.ndim, data[name].ndim)))
        yield from _where(result, there & ~ok, f"are not ok but have a value of `{name}`")
    run = status != Status.not_run
    yield from _where(result, run & ~planned, "were run where none is planned")
    yield from _where(result, (data["message"].values == "") == (run & ~ok), "have a `message` that does not fit")
    yield from _where(result, run != (data["attempts"].values > 0), "have `attempts` that do not fit their status")
    yield from _where(result, run != np.isfinite(data["wall_seconds"].values), "have `wall_seconds` that do not fit")
    yield from _where(result, run != (data["software"].values >= 0), "have a `software` that does not fit their status")


def _present(variable: xr.Variable) -> npt.NDArray[np.bool_]:
    found = variable.values
    return np.asarray(found != "") if found.dtype.kind in "OU" else ~np.isnan(found.astype(float))


def _where(result: Stored, wrong: npt.NDArray[np.bool_], told: str) -> Iterator[str]:
    if wrong.any():
        first = int(np.flatnonzero(wrong.ravel())[0])
        yield f"{np.count_nonzero(wrong)} runs {told}, e.g. {point(result.plan.space, first)}"


def check_completeness(result: Stored) -> Iterator[str]:
    """Every planned run was run, and something came of it."""
    planned = result.plan.keys.reshape(result.plan.space.shape) != b""
    status = result.data["status"].values
    for fate in Status:
        if fate not in ATTEMPTED:
            told = f"of {np.count_nonzero(planned)} are {fate.name}; `evogt run` computes them (--retry-failed)"
            yield from _where(result, planned & (status == fate), told)


def check_choice(study: Stored, earlier: Stored, section: Choice) -> Iterator[str]:
    """The earlier phase's choice in the file is the one that its runs lead to."""
    table = Table(earlier.plan)
    table.add_all([records_of(earlier.data)])  # as `run` fills it, so that ties go the same way
    try:
        chosen = choose(section, table)
    except PilotError as error:
        yield str(error)
        return
    stated = next(known for known in study.plan.space.chosen if known.names == section.parameters)
    for at, candidate in chosen.table.items():
        if stated.table.get(at) != candidate:
            place = ", ".join(f"{name}={label}" for name, label in zip(section.by, at, strict=True)) or "all runs"
            both = f"{in_words(candidate)} for {place}, the file has {in_words(stated.table.get(at, ('none',)))}"
            yield f"the {earlier.phase}'s runs choose {in_words(section.parameters)} = {both}"
