"""Convert a table of runs to a labelled Dataset, and a Dataset back to records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.results.provenance import PLAN, environment, package_version, plan_digest
from evogt_study.results.run_metadata import (
    RECORDED,
    RESULT_SCHEMA,
    SCHEMA_VERSION,
    SOFTWARE_SETS,
    recorded,
    software_sets,
)
from evogt_study.results.table import Column, Table, missing_value
from evogt_study.results.target_precision import precision_coordinates
from evogt_study.schema.records import RunRecords, Stack
from evogt_study.schema.values import Value, labels, text_label
from evogt_study.schema.variables import (
    BOOKKEEPING,
    CANDIDATE,
    CONTENT,
    COORDINATES,
    DESIGN,
    MAIN,
    MODEL_RESULT,
    OWN_VALUES,
    TRUTH_MEANINGS,
    Status,
    Variable,
)
from evogt_study.study import model as publication
from evogt_study.study.case_space import Axis, CaseSpace
from evogt_study.study.study import Study

DECLARATION = "study_code"
"""Global attribute: the declarations of the user's code and its identity, as JSON."""
CONVENTIONS = "CF-1.11, ACDD-1.3"
TRUTH: Mapping[str, Any] = {"flag_values": np.array([0, 1], dtype=np.int8), "flag_meanings": TRUTH_MEANINGS}
"""Attributes (CF) of booleans, which are numbers in a file."""


def dataset(table: Table, study: Study, *, key_bytes: bool = False) -> xr.Dataset:
    """Label the runs of a plan by the study's axes, with every coordinate and attribute of the result file's schema.

    key_bytes: keep run keys as bytes, which need a quarter of the memory of text.
    """
    # first: runs that disagree on the shape of a variable fail here
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
    """Return the same runs with run keys as text, as in a file that was read."""
    return data.assign(run_key=data["run_key"].astype(str))


def _attributes(name: str, column: Column, declared: Variable | None) -> dict[str, Any]:
    """Return the attributes that the method declares, or else the attributes of the runs; strings have no units.

    Runs of an earlier result have the attributes that were declared then.  The declaration of today wins.
    """
    if declared is not None:
        return {**column.attributes, **declared.attributes}
    return {"long_name": name} | ({} if column.text else {"units": "1"}) | dict(column.attributes)


def _rank(name: str, known: list[str | None]) -> tuple[int, str]:
    """Order of the variables in the file: variables that the method declares, others, run metadata."""
    return (known.index(name), "") if name in known else (known.index(None), name)


def axis_coordinates(space: CaseSpace, study: Study) -> dict[str, Any]:
    """Coordinates of the axes and the dependent parameters, and scalar coordinates of the constants."""
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
            label = _array(labels([value]))[0]
            coords[name] = ((), label, study.parameter(name).attributes(label))
    return coords


def _axis_attributes(axis: Axis, study: Study) -> dict[str, Any]:
    """Attributes of the coordinate of an axis; for a design, `DESIGN` describes its points."""
    if axis.points is None:
        return dict(study.parameter(axis.name).attributes(labels(axis.values)[0]))
    if not axis.points.description:
        return COORDINATES[CANDIDATE].attributes
    return {"long_name": f"number of the {axis.name}", "units": "1", DESIGN: axis.points.description}


def _following(space: CaseSpace, study: Study, name: str) -> Any:
    """A dependent parameter over its axes, missing at points without a value."""
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
    """Labels of the values; for None, NaN among numbers, NaT among dates, "" among strings."""
    present = labels([value for value in values if value is not None])
    if len(present) == len(values):
        return _array(present)
    if isinstance(present[0], (np.datetime64, np.timedelta64)):
        hole: Any = type(present[0])("NaT")
    elif isinstance(present[0], (bool, str)) or any(type(each) is int and int(float(each)) != each for each in present):
        present, hole = [text_label(label) for label in present], ""
    else:
        present, hole = list(map(float, present)), np.nan
    found = iter(present)
    return _array([hole if value is None else next(found) for value in values])


# as objects: xarray would write NumPy's strings of one width as another type
def _array(values: Sequence[Any]) -> npt.NDArray[Any]:
    # NumPy would make floats of integers that only uint64 holds
    unsigned = type(values[0]) is int and max(values) >= 2**63
    array = np.asarray(values, dtype=np.uint64 if unsigned else None)
    return array.astype(object) if array.dtype.kind == "U" else array


def _variable(
    dims: tuple[str, ...],
    column: Column,
    space: CaseSpace,
    attributes: Mapping[str, Any],
    as_returned: bool = False,
) -> Any:
    """A variable over the axes; integers become floats in memory, as when the file is read, to represent NaN.

    as_returned: every run has the variable, so that integers and booleans keep their type.
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
    """A recorded coordinate, along its dimension if all runs agree.

    Otherwise the dimension is an index, and the values of each run are a coordinate with another name.
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
    # sorted, since runs arrive in any order and a result must not depend on it; the number -1 picks the last entry
    renumbered = np.array([*(sets.index(text) if text in sets else -1 for text in table.software_sets), -1], np.int32)
    columns: dict[str, npt.NDArray[Any]] = {
        "run_status": table.status,
        "run_message": table.messages,
        "run_attempts": table.attempts,
        "run_seconds": table.wall_seconds,
        "run_key": table.keys,
        "run_software": renumbered[table.software],
    }
    variables = {}
    for name, cells in columns.items():
        attributes: dict[str, Any] = dict(BOOKKEEPING[name].attributes)
        if name == "run_status":
            attributes["flag_values"] = np.array(list(Status), dtype=np.int8)
            attributes["flag_meanings"] = " ".join(status.name for status in Status)
        if name == "run_software":
            attributes[SOFTWARE_SETS] = json.dumps([json.loads(text) for text in sets])
        # fastpath: xarray would otherwise convert a million messages through pandas, which takes 42 bytes each
        variables[name] = xr.Variable(space.names, cells.reshape(space.shape), attributes, fastpath=True)
    return variables


def global_attributes(study: Study, phase: str) -> dict[str, Any]:
    """Title, provenance and text of the study, by the names of CF and ACDD."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = environment()
    return {
        RESULT_SCHEMA: SCHEMA_VERSION,
        "Conventions": CONVENTIONS,
        "title": (study.title or study.name) + (f" ({phase} runs)" if phase != MAIN else ""),
        "summary": f"Parametric study {study.name}: one run for each point of {' x '.join(study.space.names)}.",
        "keywords": ", ".join(["parametric study", *(study.method.keywords or (study.name, *study.space.names))]),
        "id": study.name,
        "source": study.source or f"evogt-study {package_version()}",
        "history": f"{now}: evogt-study {package_version()} ran {study.file}",
        "date_created": now,
        "product_version": package_version(),
        # the text, so that a result can be run, merged and checked without its file
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


# only runs with the status ok have values; the fill values of other runs are left out
def records_of(data: xr.Dataset) -> RunRecords:
    """Read the runs of a result back as records, in the order of its axes."""
    # with sorted names, since version sets are compared as text
    sets = [json.dumps(entry, sort_keys=True) for entry in software_sets(data)]
    status = data["run_status"].values.ravel().astype(np.int8)
    done = np.flatnonzero(status != Status.not_run)
    ok = np.flatnonzero(status[done] == Status.ok)
    stacks = [_variable_stack(data, str(name), done, ok) for name in data.data_vars if name not in BOOKKEEPING]
    stacks += [_coordinate_stack(data, name, held, done, ok) for name, held in recorded(data).items()]
    return RunRecords(
        keys=tuple(map(str, data["run_key"].values.ravel()[done])),
        status=status[done],
        messages=tuple(map(str, data["run_message"].values.ravel()[done])),
        wall_seconds=data["run_seconds"].values.ravel()[done],
        attempts=data["run_attempts"].values.ravel()[done].astype(np.int32),
        software=tuple(sets[int(i)] for i in data["run_software"].values.ravel()[done]),
        stacks=tuple(stacks),
    )


def _variable_stack(data: xr.Dataset, name: str, done: npt.NDArray[np.intp], ok: npt.NDArray[np.intp]) -> Stack:
    variable = data[name].variable
    axes = len(data["run_status"].dims)
    rows = variable.values.reshape(data["run_status"].size, *variable.shape[axes:])[done[ok]]
    stored = np.dtype(variable.encoding.get("dtype", rows.dtype))
    if variable.attrs.get("flag_meanings") == TRUTH_MEANINGS:
        stored = np.dtype(bool)
    if stored.kind in "bi" and np.isfinite(rows.astype(float)).all():
        rows = rows.astype(stored)  # integers are floats in memory, to represent NaN
    return Stack(name, tuple(map(str, variable.dims[axes:])), ok, _text(rows), dict(variable.attrs))


def _coordinate_stack(
    data: xr.Dataset, name: str, held: str, done: npt.NDArray[np.intp], ok: npt.NDArray[np.intp]
) -> Stack:
    """A coordinate that the runs returned: the values of each run, or the common values repeated for each run."""
    if held != name:
        return replace(_variable_stack(data, held, done, ok), name=name, coordinate=True)
    variable = data[name].variable
    rows = np.broadcast_to(variable.values, (len(ok), *variable.shape))  # a view: no copy for each run
    return Stack(name, tuple(map(str, variable.dims)), ok, _text(rows), dict(variable.attrs), coordinate=True)


def _text(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(str) if values.dtype.kind == "O" else values
