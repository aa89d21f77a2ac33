"""From a table of runs to a labelled Dataset, and back to records when an existing result is extended."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.results.decisions import precision_coordinates
from evogt_study.results.provenance import PLAN, environment, package_version, plan_digest
from evogt_study.results.table import Column, Table, missing_value
from evogt_study.schema.records import RunRecords, Stack
from evogt_study.schema.values import Value, labels
from evogt_study.schema.variables import (
    BOOKKEEPING,
    CANDIDATE,
    CONTENT,
    COORDINATES,
    DESIGN,
    MODEL_RESULT,
    OWN_VALUES,
    TRUTH_MEANINGS,
    Status,
    Variable,
)
from evogt_study.study import model as publication
from evogt_study.study.case_space import Axis, CaseSpace
from evogt_study.study.phases import STUDY
from evogt_study.study.study import Study

RECORDED = "recorded_coordinates"
"""Global attribute that names the coordinates that runs brought, as against those made for the file."""
CONCATENATED = "concatenated_from"
"""Global attribute of a result that joins those of several studies: their global attributes, as JSON."""
RESULT_SCHEMA = "result_schema"
"""Global attribute: the version of the form of a result, MAJOR.MINOR."""
SCHEMA_VERSION = "1.1"
"""What is written.  Later minor versions only add to a result, so that all of its readers read them."""
SOFTWARE_SETS = "software_sets"
"""Attribute of `software`: the version sets that it is an index into, as JSON."""


def recorded(data: xr.Dataset) -> dict[str, str]:
    """The coordinates that the runs of a result brought, by name, and the names under which it holds them."""
    names = str(data.attrs.get(RECORDED, "")).split()
    return {name: name + OWN_VALUES if name + OWN_VALUES in data.coords else name for name in names}


def software_sets(data: xr.Dataset) -> list[dict[str, Any]]:
    """The version sets that computed the runs of a result."""
    return list(json.loads(data["software"].attrs[SOFTWARE_SETS]))


def other_schema(data: xr.Dataset) -> str:
    """Return the version of a group's form if this package cannot read it, else ""."""
    version = str(data.attrs.get(RESULT_SCHEMA, SCHEMA_VERSION))
    return "" if re.fullmatch(r"1\.[1-9]\d*", version) else version  # 1.0 was never released


def lacking(data: xr.Dataset) -> bool:
    """Return True for a group of a file that lacks something which every result has."""
    told = set(BOOKKEEPING) <= set(data.variables) and SOFTWARE_SETS in data["software"].attrs
    return not (told and {"study", RESULT_SCHEMA} <= set(data.attrs))


# every later reader indexes by these values: one that is out of range would fail there with a traceback, or be taken
# for another run's
def unsound(data: xr.Dataset) -> Iterator[str]:
    """One line for each part of the bookkeeping that has no meaning, of a group that lacks none."""
    status, software = data["status"].values, data["software"].values
    known = np.isin(status, [int(each) for each in Status])
    if not known.all():
        yield f"`status` must be one of {', '.join(str(int(each)) for each in Status)}, got {status[~known].flat[0]}"
    try:
        count = len([dict(each) for each in software_sets(data)])
    except (TypeError, ValueError, RecursionError):  # the last of JSON that is nested too deeply
        yield f"`software` must have its version sets in the attribute {SOFTWARE_SETS}, got other text"
        return
    used = software[known & (status != Status.not_run)]
    outside = used[(used < 0) | (used >= count)]
    if outside.size:
        yield f"`software` must be an index into its {count} {SOFTWARE_SETS}, got {outside.flat[0]}"
    for axis in map(str, data["status"].dims):
        labels = data[axis].values
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            yield f"`{axis}` must have finite labels, got {labels[~np.isfinite(labels)][0]}"
    missing = [name for name, held in recorded(data).items() if held not in data.coords]
    if missing:
        yield f"`{RECORDED}` must name coordinates, got {missing[0]}"


CONVENTIONS = "CF-1.11, ACDD-1.3"
TRUTH: Mapping[str, Any] = {"flag_values": np.array([0, 1], dtype=np.int8), "flag_meanings": TRUTH_MEANINGS}
"""Attributes (CF) of truth values, which are numbers in a file."""
DECLARATION = "study_code"
"""Global attribute: what the study's own code declares, with what identifies it, as JSON."""


def dataset(table: Table, study: Study, *, key_bytes: bool = False) -> xr.Dataset:
    """Label the runs of a plan by the study's axes, with every coordinate and attribute of the result file's schema.

    key_bytes: leave case keys as bytes, which take a quarter of the memory of text.
    """
    # before anything is labelled: runs that disagree on what a name is become failed here
    table.settle()
    space = table.plan.space
    meant = study.method.variables
    data: dict[str, Any] = {}
    coords: dict[str, Any] = axis_coordinates(space, study)
    for (name, dims, _), column in table.variables.items():
        attributes = _attributes(name, column, meant.get(name))
        attributes = {CONTENT: MODEL_RESULT, **attributes}
        as_returned = not meant and bool(column.present[table.keys != b""].all()) and space.size == table.plan.count
        data[name] = _variable(dims, column, space, attributes, as_returned)
    for (name, dims, _), column in table.coordinates.items():
        coords.update(_coordinate(name, dims, column, space, _attributes(name, column, meant.get(name))))
    precision = next((phase.precision for phase in study.phases if phase.name == table.plan.phase), None)
    if precision is not None:
        coords |= precision_coordinates(precision, table)
    for name, size in _extra_dimensions(data).items():
        attributes = meant[name].attributes if name in meant else {"long_name": f"index of {name}"}
        coords.setdefault(name, (name, np.arange(size), attributes))
    data |= _bookkeeping(table)
    attributes = {RECORDED: " ".join(sorted({name for name, _, _ in table.coordinates}))}
    known = [*dict.fromkeys(["error", *meant]), None, *BOOKKEEPING]
    made = xr.Dataset(dict(sorted(data.items(), key=lambda item: _rank(item[0], known))), coords, attributes)
    return made if key_bytes else with_text_keys(made)


def with_text_keys(data: xr.Dataset) -> xr.Dataset:
    """Return the same runs with case keys as text, as they are read from a file."""
    return data.assign(case_key=data["case_key"].astype(str))


def _attributes(name: str, column: Column, declared: Variable | None) -> dict[str, Any]:
    """Return the attributes that the method declares, else those that the runs bring; strings have no units.

    Runs of an earlier result bring what was declared then; the present declaration is preferred.
    """
    if declared is not None:
        return {**column.attributes, **declared.attributes}
    return {"long_name": name} | ({} if column.text else {"units": "1"}) | dict(column.attributes)


def _rank(name: str, known: list[str | None]) -> tuple[int, str]:
    """Order of the variables in the file: those that the method declares, others, then bookkeeping."""
    return (known.index(name), "") if name in known else (known.index(None), name)


def axis_coordinates(space: CaseSpace, study: Study) -> dict[str, Any]:
    """Coordinates of the axes, of the dependent parameters, and scalar ones of the constants."""
    coords: dict[str, Any] = {}
    for axis in space.axes:
        coords[axis.name] = (axis.name, _array(labels(axis.values)), _axis_attributes(axis, study))
        for name, values in axis.parameters.items() if axis.points is not None else ():
            shown = labels(values)
            coords[name] = (axis.name, _array(shown), study.parameter(name).attributes(shown[0]))
    followers = space.followers
    for name in followers:
        coords[name] = _following(space, study, name)
    for name, value in space.constants.items():
        if name not in followers:
            label = labels([value])[0]
            coords[name] = ((), label, study.parameter(name).attributes(label))
    return coords


def _axis_attributes(axis: Axis, study: Study) -> dict[str, Any]:
    """Attributes of an axis's coordinate; of a design `DESIGN` says how its points came about."""
    if axis.points is None:
        return dict(study.parameter(axis.name).attributes(labels(axis.values)[0]))
    if not axis.points.description:
        return COORDINATES[CANDIDATE].attributes
    return {"long_name": f"number of the {axis.name}", "units": "1", DESIGN: axis.points.description}


def _following(space: CaseSpace, study: Study, name: str) -> Any:
    """A dependent parameter over its axes, missing where it has no value."""
    dims = space.dependence(name)
    axes = [space.axis(dim).values for dim in dims]
    others = {axis.name: axis.values[0] for axis in space.axes}  # any value: it does not depend on them
    shape = tuple(len(values) for values in axes)
    found: list[Value | None] = []
    for position in np.ndindex(shape):
        at = {dim: values[i] for dim, values, i in zip(dims, axes, position, strict=True)}
        resolved = space.resolved({**others, **at})
        found.append(None if resolved is None else resolved.get(name))
    shown = _with_holes(found).reshape(shape)
    return dims, shown, study.parameter(name).attributes(shown.ravel()[0])


def _with_holes(values: Sequence[Value | None]) -> npt.NDArray[Any]:
    """Labels of the values; NaN, or "" among strings, where there is none."""
    present = labels([value for value in values if value is not None])
    if present and isinstance(present[0], str):
        present_iterator = iter(present)
        return np.array(["" if value is None else next(present_iterator) for value in values], dtype=object)
    if all(value is not None for value in values):
        return _array(present)
    numbers: Iterator[Any] = iter(present)
    return np.array([np.nan if value is None else float(next(numbers)) for value in values])


# as objects: NumPy's own strings have one width, and xarray would write them as if they were of another type
def _array(values: Sequence[Any]) -> npt.NDArray[Any]:
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind == "U" else array


def _variable(
    dims: tuple[str, ...],
    column: Column,
    space: CaseSpace,
    attributes: Mapping[str, Any],
    as_returned: bool = False,
) -> Any:
    """A variable over the axes; whole numbers become floats in memory, as when the file is read, to hold NaN.

    as_returned: no run lacks it, so that whole numbers and truth values can stay what they are.
    """
    cells = column.cells.reshape(space.shape + column.cells.shape[1:])
    encoding: dict[str, Any] = {}
    if column.kinds == {"b"}:
        attributes = {**attributes, **TRUTH}
    if as_returned and column.kinds <= set("biu") and (cells.dtype.kind == "i" or not np.isnan(cells).any()):
        cells = cells.astype(np.bool_ if column.kinds == {"b"} else np.int64)
    elif cells.dtype.kind == "i":
        fill = missing_value(cells.dtype)
        encoding = {"dtype": cells.dtype, "_FillValue": fill}
        cells = np.where(cells == fill, np.nan, cells.astype(float))
    return xr.Variable(space.names + dims, cells, attributes, encoding)


def _coordinate(
    name: str, dims: tuple[str, ...], column: Column, space: CaseSpace, attributes: dict[str, Any]
) -> dict[str, Any]:
    """A recorded coordinate, along its dimension where all runs agree.

    Where they do not, the dimension is an index, and the runs' own values are a coordinate of another name.
    """
    common = column.common()
    if common is not None:
        return {name: (dims, common, attributes)}
    cells = column.cells.reshape(space.shape + column.cells.shape[1:])
    attributes["comment"] = f"differs between runs; {name} is its index"
    return {name + OWN_VALUES: (space.names + dims, cells, attributes)}


def _extra_dimensions(data: Mapping[str, xr.Variable]) -> dict[str, int]:
    """Dimensions of the variables with their sizes."""
    return {str(name): size for variable in data.values() for name, size in variable.sizes.items()}


def _bookkeeping(table: Table) -> dict[str, xr.Variable]:
    space, used = table.plan.space, set(np.unique(table.software).tolist()) - {-1}  # -1: not run
    sets = sorted({table.software_sets[number] for number in used})
    # runs come back in any order, and their version sets with them: sorted, a result does not depend on it; the last
    # entry is what -1 picks
    renumbered = np.array([*(sets.index(text) if text in sets else -1 for text in table.software_sets), -1], np.int32)
    columns: dict[str, npt.NDArray[Any]] = {
        "status": table.status,
        "message": table.messages,
        "attempts": table.attempts,
        "wall_seconds": table.wall_seconds,
        "case_key": table.keys,
        "software": renumbered[table.software],
    }
    variables = {}
    for name, cells in columns.items():
        attributes: dict[str, Any] = dict(BOOKKEEPING[name].attributes)
        if name == "status":
            attributes["flag_values"] = np.array(list(Status), dtype=np.int8)
            attributes["flag_meanings"] = " ".join(status.name for status in Status)
        if name == "software":
            attributes[SOFTWARE_SETS] = json.dumps([json.loads(text) for text in sets])
        # as they are: xarray would send a million messages through pandas and back, which takes 42 bytes each
        variables[name] = xr.Variable(space.names, cells.reshape(space.shape), attributes, fastpath=True)
    return variables


def global_attributes(study: Study, phase: str) -> dict[str, Any]:
    """Title, provenance and the study itself, by the names of CF and ACDD."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = environment()
    return {
        RESULT_SCHEMA: SCHEMA_VERSION,
        "Conventions": CONVENTIONS,
        "title": (study.title or study.name) + (f" ({phase} runs)" if phase != STUDY else ""),
        "summary": f"Parametric study {study.name}: one run for each point of {' x '.join(study.space.names)}.",
        "keywords": ", ".join(["parametric study", *(study.method.keywords or (study.name, *study.space.names))]),
        "id": study.name,
        "source": study.source or f"evogt-study {package_version()}",
        "history": f"{now}: evogt-study {package_version()} ran {study.file}",
        "date_created": now,
        "product_version": package_version(),
        # the text itself, by which a result is run, merged and checked where its file is not
        "study": study.text,
        "study_sha256": hashlib.sha256(study.text.encode()).hexdigest(),
        "study_file": study.file,
        **({DECLARATION: study.spec.declaration} if study.spec.codes else {}),
        PLAN: plan_digest(study.text, study.spec.sources),
        "git_revision": known["git_revision"],
        "git_dirty": known["git_dirty"],
        # as text: an attribute of NetCDF cannot be a mapping
        "versions": json.dumps(known["versions"], sort_keys=True),
        "platform": known["platform"],
        "cpu": known["cpu"],
        "phase": phase,
        **publication.attributes(study.publication),
    }


# only runs that are ok have values: the rows of the others are fill values, and are left out
def records_of(data: xr.Dataset) -> RunRecords:
    """Read the runs of a result back as records, in the order of its axes."""
    # with sorted names, since sets of versions are known by their text
    sets = [json.dumps(entry, sort_keys=True) for entry in software_sets(data)]
    status = data["status"].values.ravel().astype(np.int8)
    done = np.flatnonzero(status != Status.not_run)
    ok = np.flatnonzero(status[done] == Status.ok)
    stacks = [_variable_stack(data, str(name), done, ok) for name in data.data_vars if name not in BOOKKEEPING]
    stacks += [_coordinate_stack(data, name, held, done, ok) for name, held in recorded(data).items()]
    return RunRecords(
        keys=tuple(map(str, data["case_key"].values.ravel()[done])),
        status=status[done],
        messages=tuple(map(str, data["message"].values.ravel()[done])),
        wall_seconds=data["wall_seconds"].values.ravel()[done],
        attempts=data["attempts"].values.ravel()[done].astype(np.int32),
        software=tuple(sets[int(i)] for i in data["software"].values.ravel()[done]),
        stacks=tuple(stacks),
    )


def _variable_stack(data: xr.Dataset, name: str, done: npt.NDArray[np.intp], ok: npt.NDArray[np.intp]) -> Stack:
    variable = data[name].variable
    axes = len(data["status"].dims)
    rows = variable.values.reshape(data["status"].size, *variable.shape[axes:])[done[ok]]
    stored = np.dtype(variable.encoding.get("dtype", rows.dtype))
    if variable.attrs.get("flag_meanings") == TRUTH_MEANINGS:
        stored = np.dtype(bool)
    if stored.kind in "bi" and np.isfinite(rows.astype(float)).all():
        rows = rows.astype(stored)  # whole numbers are floats in memory, to hold NaN
    return Stack(name, tuple(map(str, variable.dims[axes:])), ok, _text(rows), dict(variable.attrs))


def _coordinate_stack(
    data: xr.Dataset, name: str, held: str, done: npt.NDArray[np.intp], ok: npt.NDArray[np.intp]
) -> Stack:
    """A coordinate that the runs brought: their own values where they differ, else the common values once for each."""
    if held != name:
        return replace(_variable_stack(data, held, done, ok), name=name, coordinate=True)
    variable = data[name].variable
    rows = np.broadcast_to(variable.values, (len(ok), *variable.shape))  # a view: no copy for each run
    return Stack(name, tuple(map(str, variable.dims)), ok, _text(rows), dict(variable.attrs), coordinate=True)


def _text(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(str) if values.dtype.kind == "O" else values
