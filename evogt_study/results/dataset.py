"""Convert a table of runs to a labelled Dataset, and a Dataset back to records."""

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.core import indexing

from evogt_study.methods.current_run import SEED, STREAMS_ATTRIBUTE
from evogt_study.results import netcdf
from evogt_study.results.provenance import PLAN_DIGEST, hash_plan, read_environment, read_package_version
from evogt_study.results.table import Cells, RunColumn, RunTable, are_equal
from evogt_study.schema import variables
from evogt_study.schema.records import ATTRIBUTE, COORDINATE, MAX_EXACT_INT, VARIABLE, RunRecords, Stack
from evogt_study.schema.values import Value, make_coordinate, to_string
from evogt_study.schema.variables import MAIN, OUTPUT, RUN_METADATA, Status, to_status
from evogt_study.storage.arrays import Packed, choose_padding
from evogt_study.study.case_space import CaseSpace
from evogt_study.study.plan import Order, make_precision_coordinates
from evogt_study.study.study import Study

DECLARATION = "study_code"  # global attribute: the declarations of the user's code and its identity, as JSON
_BOOL_FLAGS: Mapping[str, Any] = {"flag_values": np.array([0, 1], np.int8), "flag_meanings": variables.TRUTH_MEANINGS}
"""CF attributes of booleans, which a file stores as integers."""


def to_dataset(table: RunTable, study: Study, *, key_bytes: bool = False) -> xr.Dataset:
    """Return the runs of a plan as a Dataset, as in the result file.  `key_bytes` keeps run keys as bytes."""
    space, meant, columns = table.plan.space, study.method.variables, table.columns
    cells, unions, index_of, lengths = _align_runs(columns)
    data: dict[str, Any] = {}
    coords: dict[str, Any] = make_axis_coordinates(space, study)
    for name, column in columns.items():
        dims = tuple(index_of.get(dim, dim) for dim in column.dims)
        # the attributes that the method declares today, or else the attributes of the runs
        units = {} if column.dtype.kind in "OMm" else {"units": "1"}
        least = {} if name in meant else {"long_name": name, **units}
        declared = meant[name].attributes if name in meant else {}
        attributes = {**least, **column.attributes, **declared, **study.model.attributes.get(name, {})}
        shape = tuple(lengths[dim] for dim in column.dims)
        if column.role == VARIABLE:
            attributes = {variables.CONTENT: variables.MODEL_RESULT, **attributes}
            data[name] = _make_run_variable(column, cells.get(name), space, dims, shape, attributes)
        elif name in unions:
            coords[name] = _to_variable(dims, unions[name], attributes)
        elif (common := column.common_value()) is not None and common.shape == shape and name not in cells:
            coords[name] = _to_variable(dims, common, attributes)
        elif column.dims and _differs_along_all_axes(column, space) and name not in cells:
            coords[name] = _make_run_variable(column, None, space, dims, shape, attributes)
        else:
            coords[name] = _drop_constant_axes(cells.get(name) or column.load(shape), column, dims, space, attributes)
    returned = [*data.values(), *(each for each in coords.values() if isinstance(each, xr.Variable))]
    for name, size in ((str(dim), size) for each in returned for dim, size in each.sizes.items()):
        attributes = meant[name].attributes if name in meant else {"long_name": f"index of {name}"}
        coords.setdefault(name, (name, np.arange(size), attributes))
    counts: dict[str, npt.NDArray[np.int32]] = {}  # of the values of each run along each dimension in which runs differ
    for column in (each for each in columns.values() if each.dims):
        for dim, sizes in zip(column.dims, column.data.shapes.T, strict=True):
            is_label = dim in columns and dim not in index_of and columns[dim].dims == (dim,)
            if not is_label and (sizes[column.present] != lengths[dim]).any():
                there = np.where(column.present, sizes, 0).astype(np.int32)
                counts[dim] = np.maximum(there, counts.get(dim, there))
    for name, each_run in counts.items():
        described = {"long_name": f"number of values along {index_of.get(name, name)}", "units": "1"}
        coords.setdefault(f"{name}_count", (space.names, each_run.reshape(space.shape), described))
    attributes = _place_attributes(table, study, coords, data)
    for precision in (phase.precision for phase in study.phases if phase.name == table.plan.phase):
        coords |= {} if precision is None else make_precision_coordinates(precision, table)
    recorded = sorted(name for name, each in columns.items() if each.role == COORDINATE)
    attributes[netcdf.RECORDED_COORDINATES] = " ".join(recorded)
    first = [name for name in dict.fromkeys(["error", *meant]) if name in data]
    data = {name: data[name] for name in (*first, *sorted(data.keys() - {*first}))} | _make_run_metadata(table)
    coords = {name: _to_variable(*each) if isinstance(each, tuple) else each for name, each in coords.items()}
    made = xr.Dataset(data, coords, attributes)
    return made if key_bytes else with_text_keys(made)


def with_text_keys(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset with its run keys as strings, as after reading a file."""
    return data.assign(run_key=data["run_key"].astype(str))


# --- coordinates that differ between runs -----------------------------------------------------------------------------


def _align_runs(
    columns: Mapping[str, RunColumn],
) -> tuple[dict[str, Cells], dict[str, npt.NDArray[Any]], dict[str, str], dict[str, int]]:
    """Align runs by unique strings, dates or integers.  Return values, coordinates, index dimensions, and sizes."""
    cells, unions, index_of = dict[str, Cells](), dict[str, npt.NDArray[Any]](), dict[str, str]()
    used = {name for name, column in columns.items() for name in (name, *column.dims)}
    for name, column in columns.items():
        if column.role == COORDINATE and column.dims == (name,) and column.common_value() is None:
            along = {key: each for key, each in columns.items() if name in each.dims}
            known = dict[int, npt.NDArray[Any]]()
            is_everywhere = not any((each.present & ~column.present).any() for each in along.values())
            if is_everywhere and column.dtype.kind in "OMiu":
                values, missing = column.load()
                known = {case: values[case][~missing[case]] for case in np.flatnonzero(column.present).tolist()}
            if not known or any(len(set(each.tolist())) < len(each) for each in known.values()):
                index_of[name] = f"{name}_index"
                while index_of[name] in used:
                    index_of[name] += "_"
                continue
            unions[name] = np.unique(np.concatenate(list(known.values())))
            for key, each in along.items():
                if key == name:
                    continue
                old, before = cells.get(key) or each.load(), (slice(None),) * each.dims.index(name)
                shape = list(old.values.shape)
                shape[len(before) + 1] = len(unions[name])
                blank = np.full(shape, choose_padding(old.values.dtype), old.values.dtype)
                cells[key] = Cells(blank, np.ones(shape, dtype=bool))
                for case, own in known.items():
                    count = min(len(own), old.values.shape[len(before) + 1])
                    at = (*before, np.searchsorted(unions[name], own[:count]))
                    for new, part in zip(cells[key], old, strict=True):
                        new[case][at] = part[case][(*before, slice(count))]
    lengths: dict[str, int] = {name: len(union) for name, union in unions.items()}
    for column in (each for each in columns.values() if each.dims):
        for dim, length in zip(column.dims, column.data.shape[1:], strict=True):
            if dim not in unions:
                lengths[dim] = max(length, lengths.get(dim, 0))
    return cells, unions, index_of, lengths


def _differs_along_all_axes(column: RunColumn, space: CaseSpace) -> bool:
    """Return True if the checksums of the arrays differ along each axis."""
    _, marks = np.unique(column.data.pieces["checksum"][:, 0], return_inverse=True)
    there, marks = column.present.reshape(space.shape), marks.reshape(space.shape)
    places = (np.expand_dims(there.argmax(axis), axis) for axis in range(there.ndim))
    first = (np.take_along_axis(marks, place, axis) for axis, place in enumerate(places))
    return bool(there.any()) and not any(((marks == each) | ~there).all() for each in first)


def _drop_constant_axes(
    cells: Cells, column: RunColumn, dims: tuple[str, ...], space: CaseSpace, attributes: dict[str, Any]
) -> xr.Variable:
    """Return a column over its dimensions and over the axes along which its values differ."""
    values, missing = (each.reshape(space.shape + each.shape[1:]) for each in cells)
    there, names = column.present.reshape(space.shape), list(space.names)
    for name in space.names:
        axis = names.index(name)
        pick = np.expand_dims(there.argmax(axis), axis)
        wide = pick.reshape(pick.shape + (1,) * (values.ndim - pick.ndim))
        one, lacks = np.take_along_axis(values, wide, axis), np.take_along_axis(missing, wide, axis)
        same = (missing & lacks) | (are_equal(values, one) & (missing == lacks))
        if bool((same.all(axis=tuple(range(there.ndim, values.ndim))) | ~there).all()):
            values, missing = one.squeeze(axis), lacks.squeeze(axis)
            there = np.asarray(there.any(axis))
            names.remove(name)
    return _make_variable((*names, *dims), values, missing, attributes)


def _place_attributes(table: RunTable, study: Study, coords: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of returned Datasets under unused names, or add them to `coords` if they differ."""
    attributes, places = dict[str, Any](), dict[str, str]()
    own = {*make_global_attributes(study, table.plan.phase), *netcdf.OWN_ATTRIBUTES} if table.attributes else set()
    for name, column in sorted(table.attributes.items()):
        common = column.common_value()
        if common is not None and column.present[table.status == Status.ok].all():
            places[name] = variables.RUN_PREFIX + name if name in own else name
            attributes[places[name]] = common.tolist() if common.dtype.kind in "OU" else common[()]
            continue
        places[name] = f"{name}_attribute" if name in coords or name in data else name
        described = {"long_name": name, "comment": "attribute of the returned Dataset"}
        coords[places[name]] = _drop_constant_axes(column.load(), column, column.dims, table.plan.space, described)
    return attributes | ({netcdf.RETURNED_ATTRIBUTES: json.dumps(places)} if places else {})


# --- variables of a Dataset -------------------------------------------------------------------------------------------


def _make_run_variable(
    column: RunColumn, cells: Cells | None, space: CaseSpace, dims: tuple[str, ...], lengths: tuple[int, ...],
    attributes: dict[str, Any],
) -> xr.Variable:  # fmt: skip
    """Return a column of all runs as a variable.  Without `cells`, arrays of numbers are read on access."""
    if cells is not None or not column.dims or column.dtype.kind in "OMm":
        known = cells or column.load(lengths)
        values, missing = (each.reshape(space.shape + lengths) for each in known)
        return _make_variable(space.names + dims, values, missing, attributes)
    dtype, shown, encoding = column.dtype, column.dtype, dict[str, Any]()
    if dtype.kind in "biu" and not (column.present.all() and (column.data.shapes == lengths).all()):
        shown, encoding = choose_fill_value(dtype, column.data.limits[column.present], lambda: column.load(lengths))
    if dtype.kind == "b":
        attributes = {**attributes, **_BOOL_FLAGS}
    data = indexing.LazilyIndexedArray(netcdf.RunArray(column, space.shape, lengths, shown))
    return xr.Variable(space.names + dims, data, attributes, encoding, fastpath=True)


# fastpath: xarray imports dask.array, for 0.3 s, to look whether the values are one of its arrays
def _to_variable(dims: Any, values: Any, attributes: Any = None, encoding: Any = None) -> xr.Variable:
    """Return an xarray variable without converting its numbers and strings."""
    values = np.asarray(values)
    return xr.Variable(dims, values, attributes, encoding, fastpath=values.dtype.kind in "biufSU")


def _make_variable(
    dims: tuple[str, ...], cells: npt.NDArray[Any], missing: npt.NDArray[np.bool_], attributes: Mapping[str, Any]
) -> xr.Variable:
    """Return `cells` as a variable.  Integers with `missing` values become floats, or objects if they are large."""
    if cells.dtype.kind == "b":
        attributes = {**attributes, **_BOOL_FLAGS}
    if cells.dtype.kind not in "biu" or not missing.any():
        return _to_variable(dims, cells, attributes)
    shown, encoding = choose_fill_value(cells.dtype, cells[~missing], lambda: Cells(cells, missing))
    return _to_variable(dims, np.where(missing, np.array(np.nan, shown), cells), attributes, encoding)


def choose_fill_value(
    dtype: np.dtype[Any], limits: npt.NDArray[Any], load: Callable[[], Cells]
) -> tuple[np.dtype[Any], dict[str, Any]]:
    """Return the dtype in memory and the file encoding of integers with missing values, within `limits`."""
    low, high = int(limits.min(initial=0)), int(limits.max(initial=1))
    stored = np.dtype(np.int8) if dtype.kind == "b" else dtype
    top = int(np.iinfo(f"i{min(4, stored.itemsize)}").max)  # a fill value of classic NetCDF has at most 32 bits
    candidates = range(-top, top + 1) if stored.kind == "i" else range(top, -1, -1)
    fill = next((each for each in (candidates[0], candidates[-1]) if not low <= each <= high), None)
    if fill is None:
        values, missing = load()
        used = set(np.unique(values[~missing]).tolist())
        fill = next((each for each in candidates if each not in used), None)
    if fill is None:  # all values of a short type
        stored = np.dtype(f"i{2 * stored.itemsize}")
        fill = int(np.iinfo(stored).min) + 1
    is_large = dtype.itemsize == 8 and max(-low, high) >= MAX_EXACT_INT
    return np.dtype(object if is_large else float), {"dtype": stored, "_FillValue": stored.type(fill)}


def make_axis_coordinates(space: CaseSpace, study: Study) -> dict[str, Any]:
    """Return the coordinates of axes and dependent parameters, and scalar coordinates of fixed parameters."""
    coords: dict[str, Any] = {}
    for axis in space.axes:
        if axis.columns is not None:
            attributes = variables.COORDINATES[variables.CANDIDATE].attributes
            if axis.description:
                attributes = {"long_name": f"number of the {axis.name}", "units": "1"}
                attributes[variables.DESIGN] = axis.description
            coords[axis.name] = (axis.name, _make_array(make_coordinate(axis.values)), attributes)
        for name, values in axis.parameters.items():
            shown = make_coordinate(values)
            coords[name] = (axis.name, _make_array(shown), dict(study.method.parameters[name].attributes(shown[0])))
    for name in space.dependent_parameters:
        dims = space.find_dependence(name)
        axes = [space.axis(dim).values for dim in dims]
        others = {axis.name: axis.values[0] for axis in space.axes}  # any value: it does not depend on them
        points = (space.resolve({**others, **dict(zip(dims, at, strict=True))}) for at in itertools.product(*axes))
        found = _fill_holes([None if resolved is None else resolved.get(name) for resolved in points])
        coords[name] = (dims, found.reshape([*map(len, axes)]), study.method.parameters[name].attributes(found[0]))
    for name, value in space.constants.items():
        if name not in space.dependent_parameters:
            label = _make_array(make_coordinate([value]))[0]
            coords[name] = ((), label, study.method.parameters[name].attributes(label))
    if study.has_streams and SEED in coords:
        coords[SEED][-1][STREAMS_ATTRIBUTE] = json.dumps({"common": study.spec.common})
    return coords


def _fill_holes(values: Sequence[Value | None]) -> npt.NDArray[Any]:
    """Return coordinate values.  None becomes NaN among numbers, NaT among dates, and "" among strings."""
    present = make_coordinate([value for value in values if value is not None])
    if len(present) == len(values):
        return _make_array(present)
    if isinstance(present[0], (np.datetime64, np.timedelta64)):
        hole: Any = type(present[0])("NaT")
    elif isinstance(present[0], (bool, str)) or any(type(each) is int and int(float(each)) != each for each in present):
        present, hole = [to_string(label) for label in present], ""
    else:
        present, hole = list(map(float, present)), np.nan
    found = iter(present)
    return _make_array([hole if value is None else next(found) for value in values])


# as objects: xarray would write NumPy's strings of one width as another type
def _make_array(values: Sequence[Any]) -> npt.NDArray[Any]:
    unsigned = type(values[0]) is int and max(values) >= 2**63  # NumPy would make floats
    array = np.asarray(values, dtype=np.uint64 if unsigned else None)
    return array.astype(object) if array.dtype.kind == "U" else array


def _make_run_metadata(table: RunTable) -> dict[str, xr.Variable]:
    space, used = table.plan.space, set(np.unique(table.software).tolist()) - {-1}  # -1: not run
    sets = sorted({table.software_sets[number] for number in used})
    # sorted, since runs arrive in any order and a result must not depend on it. The number -1 picks the last entry
    renumbered = np.array([*(sets.index(text) if text in sets else -1 for text in table.software_sets), -1], np.int32)
    flags, versions = variables.STATUS_FLAGS, {netcdf.SOFTWARE_SETS: json.dumps(list(map(json.loads, sets)))}
    columns: dict[str, tuple[Any, dict[str, Any]]] = {
        "run_status": (table.status, flags), "run_message": (table.messages, {}), OUTPUT: (table.outputs, {}),
        "run_attempts": (table.attempts, {}), "run_seconds": (table.wall_seconds, {}), "run_key": (table.keys, {}),
        "run_software": (renumbered[table.software], versions),
    }  # fmt: skip
    found = {name: (cells.reshape(space.shape), more) for name, (cells, more) in columns.items() if cells is not None}
    # fastpath: xarray would otherwise convert a million messages through pandas, which takes 42 bytes each
    return {
        name: xr.Variable(space.names, cells, RUN_METADATA[name].attributes | more, fastpath=True)
        for name, (cells, more) in found.items()
    }


def make_global_attributes(study: Study, phase: str) -> dict[str, Any]:
    """Return the title, provenance and text of a study under the attribute names of CF and ACDD."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        netcdf.RESULT_SCHEMA: netcdf.SCHEMA_VERSION,
        "Conventions": "CF-1.11, ACDD-1.3",
        "title": (study.model.title or study.name) + (f" ({phase} runs)" if phase != MAIN else ""),
        "summary": f"Parametric study {study.name}: one run for each point of {' x '.join(study.space.names)}.",
        "keywords": ", ".join(["parametric study", *(study.method.keywords or (study.name, *study.space.names))]),
        "id": study.name,
        "source": study.model.source or f"evogt-study {read_package_version()}",
        "history": f"{now}: evogt-study {read_package_version()} ran {study.file}",
        "date_created": now,
        "product_version": read_package_version(),
        "study": study.text,  # so that a result can be run, merged and checked without its file
        "study_sha256": hashlib.sha256(study.text.encode()).hexdigest(),
        "study_file": study.file,
        **({DECLARATION: study.spec.declaration} if study.spec.codes else {}),
        PLAN_DIGEST: hash_plan(study.text, study.spec.sources),
        **read_environment(),
        "phase": phase,
        **(study.model.publication.attributes if study.model.publication else {}),
    }


# only runs with the status ok have values. The records leave out the fill values of other runs
def to_records(data: xr.Dataset) -> RunRecords:
    """Return the runs of a result as records, in the order of its axes."""
    # with sorted names, since version sets are compared as text
    sets = [json.dumps(entry, sort_keys=True) for entry in netcdf.read_software_sets(data)]
    status = to_status(data["run_status"]).ravel()
    done = np.flatnonzero(status != Status.not_run)
    ok = np.flatnonzero(status[done] == Status.ok)
    places, recorded = netcdf.read_returned_attributes(data), netcdf.list_returned_coordinates(data)
    names = {str(name): (str(name), VARIABLE) for name in data.data_vars if name not in RUN_METADATA}
    names |= {name: (name, COORDINATE) for name in recorded}
    names |= {place: (name, ATTRIBUTE) for name, place in places.items() if place in data.coords}
    # a coordinate whose values differ between runs has an index as its dimension
    differs = [name for name in recorded if name in data.coords and name not in data.dims]
    dims = {str(dim): name for name in differs for dim in data[name].dims if str(dim).rstrip("_") == f"{name}_index"}
    stacks = [_make_stack(data, held, name, role, done, ok, dims) for held, (name, role) in names.items()]
    for name, place in places.items():
        if place not in data.coords:
            value = np.asarray(data.attrs[place])
            values = np.broadcast_to(value, (len(ok), *value.shape))
            stacks.append(Stack(name, (f"{name}_0",) * value.ndim, ok, values, role=ATTRIBUTE))
    found = {name: data[name].values.ravel()[done] for name in RUN_METADATA if name in data}
    keys, messages, outputs = (tuple(map(str, found.get(name, ()))) for name in ("run_key", "run_message", OUTPUT))
    software = tuple(sets[int(number)] for number in found["run_software"])
    attempts = found["run_attempts"].astype(np.int32)
    return RunRecords(keys, status[done], messages, found["run_seconds"], attempts, software, tuple(stacks), outputs)


def _make_stack(
    data: xr.Dataset, held: str, name: str, role: str, done: Order, ok: Order, names: Mapping[str, str]
) -> Stack:
    """Return the variable `held` of a result as a stack, with a row for each ok run that has a value."""
    variable, axes = data[held].variable, data["run_status"]
    dims = tuple(str(dim) for dim in variable.dims if dim not in axes.dims)
    sizes: dict[Any, int] = {**axes.sizes, **{dim: variable.sizes[dim] for dim in dims}}
    wide = variable.set_dims(sizes)  # type: ignore[no-untyped-call]
    rows = wide.transpose(*sizes).values.reshape(axes.size, *list(sizes.values())[axes.ndim :])[done[ok]]
    attributes = {} if role == ATTRIBUTE else dict(variable.attrs)
    stored = np.dtype(variable.encoding.get("dtype", rows.dtype))
    if variable.attrs.get("flag_meanings") == variables.TRUTH_MEANINGS:
        stored = np.dtype(bool)
    values: Any = rows
    if role == ATTRIBUTE and rows.ndim == 1:  # a run without the attribute
        there = rows != "" if rows.dtype.kind in "OU" else rows == rows
        values, ok = rows[there], ok[there]
    if values.dtype.kind in "fO" and stored.kind in "biu":  # some values of the file are missing
        absent = values != values
        there = ~absent.all(axis=tuple(range(1, values.ndim)))
        values, ok, absent = np.where(absent, 0, values).astype(stored)[there], ok[there], absent[there]
        if absent.any():
            own = []
            for array, gap in zip(values, absent, strict=True):  # without missing values at the end
                there = tuple(slice(int(each.max(initial=-1)) + 1) for each in np.nonzero(~gap))
                # missing values among others, of a file that another program has changed
                own.append(np.where(gap, np.nan, array)[there] if gap[there].any() else array[there])
            values = Packed.pack([each.astype(np.result_type(*own), copy=False) for each in own])
    elif values.dtype.kind == "O":
        values = values.astype(str)
    return Stack(name, tuple(names.get(dim, dim) for dim in dims), ok, values, attributes, role)
