"""Join results of different studies along a new dimension."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.errors import InputError, shorten
from evogt_study.operations.merge import write_joined
from evogt_study.results.dataset import DECLARATION, with_room
from evogt_study.results.netcdf import MAX_LOADED_BYTES, load_result, open_result, open_written
from evogt_study.results.provenance import PLAN, package_version
from evogt_study.results.run_metadata import (
    CONCATENATED,
    DIGESTS,
    RECORDED,
    RESULT_SCHEMA,
    RETURNED_ATTRIBUTES,
    SCHEMA_VERSION,
    SOFTWARE_SETS,
    lacks_parts,
    returned_attributes,
    returned_coordinates,
    software_sets,
    with_status_codes,
    with_status_names,
)
from evogt_study.results.table import Cells
from evogt_study.schema.records import EXACT
from evogt_study.schema.variables import (
    EARLIER_PHASES,
    MAIN,
    RUN_METADATA,
    TRUTH_MEANINGS,
    Status,
    explain_reserved_name,
)

Results = Mapping[Any, xr.Dataset]
"""Results by their value along the new dimension."""
NOT_PLANNED = {"run_status": Status.not_run, "run_attempts": 0, "run_software": -1}
MISSING = {
    "numbers": np.nan,
    "strings": "",
    "dates": np.datetime64("NaT", "ns"),
    "durations": np.timedelta64("NaT", "ns"),
}
"""Value of a variable at a case that a result does not have, for each kind of variable."""
OF_ONE_STUDY = {
    DIGESTS, RETURNED_ATTRIBUTES, PLAN, DECLARATION, *(f"{phase}_group" for phase in EARLIER_PHASES)
}  # fmt: skip
"""Global attributes that have no meaning for joined results."""


def concat(
    results: Mapping[Any, xr.Dataset | str | Path], dim: str = "problem", *, output: str | Path | None = None
) -> xr.Dataset:
    """Join results of different studies along a new dimension.

    A fixed parameter that differs, or that some results do not have, becomes a coordinate along `dim`.  A dependent
    parameter with different rules also becomes a coordinate along `dim`.  An axis of one result that is a fixed
    parameter of another result becomes an axis of the joined result.  A case that is not in a result has the status
    not_run.  The joined result has no pilots.

    Parameters
    ----------
    results : mapping
        Datasets of `run` or `open`, or result files, by their value along `dim`.
    dim : str, default "problem"
        Name of the new dimension.
    output : str or Path, optional
        New file for the joined result.  Commands read this file like any other result, but it has no study to run.

    Returns
    -------
    Dataset
        The runs of all results, with `dim` as the first dimension.

    Raises
    ------
    InputError
        If a result lacks an axis of another result, or a variable has different dimensions, units or types.
    ResultError
        If a file cannot be read or written.

    Examples
    --------
    >>> import evogt_study as evs
    >>> lines = {k: evs.run(evs.Study(lambda x, k: {"y": k * x}, axes={"x": [1, 2]}, constants={"k": k}), workers=0)
    ...          for k in (2, 3)}
    >>> evs.concat({"two": lines[2], "three": lines[3]}, dim="line").y.values.tolist()
    [[2, 4], [3, 6]]
    """
    if not isinstance(results, Mapping) or len(results) < 2:
        raise InputError(f"`results` must map values of `{dim}` to two or more results, got {shorten(results)}")
    kinds = {isinstance(label, str) for label in results}
    if len(kinds) > 1 or not all(isinstance(label, (str, int, float)) for label in results):
        raise InputError(f"the keys of `results` must be all strings or all numbers, got {shorten(list(results))}")
    with ExitStack() as opened:
        given = {label: _read(label, result, opened) for label, result in results.items()}
        owner = next((label for label, data in given.items() if dim in data.variables or dim in data.dims), None)
        conflict = "" if owner is None else f"the result {owner!r} has a variable of this name. Choose another name"
        if reason := explain_reserved_name(dim) or conflict:
            raise InputError(f"`dim` must be a new name, got {dim!r}: {reason}")
        joined = _join(given, dim)
        if output is None:
            return with_status_names(joined.load())
        write_joined(Path(output), lambda: ({MAIN: joined}, {}))
    return with_status_names(open_written(Path(output)))


def _read(label: object, result: xr.Dataset | str | Path, opened: ExitStack) -> xr.Dataset:
    """Return the runs of a result with integers as status.  Read the variables of a large file in chunks."""
    if not isinstance(result, xr.Dataset):
        data = opened.enter_context(open_result(Path(result)))
        if data.nbytes > MAX_LOADED_BYTES:
            return opened.enter_context(open_result(Path(result), chunks={}))
        return load_result(Path(result), data)
    if lacks_parts(result):
        raise InputError(f"`results` must be results of this package, got a Dataset without run metadata for {label!r}")
    axes = result["run_status"].dims
    names = {name for name in result.data_vars if result[name].dims[: len(axes)] == axes}
    wanted = [name for name in result.variables if name in names or name == "run_key"]
    return with_status_codes(result.reset_coords([name for name in wanted if name in result.coords])[wanted].load())


def _join(given: Results, dim: str) -> xr.Dataset:
    """Join results along a new first dimension.  Each other axis has the axis values of all results."""
    axes = list(dict.fromkeys(str(name) for data in given.values() for name in data["run_status"].dims))
    sets = sorted({json.dumps(entry, sort_keys=True) for data in given.values() for entry in software_sets(data)})
    parts = {label: _renumber_software(_expand_axes(axes, label, data, given), sets) for label, data in given.items()}
    found: dict[str, dict[Any, xr.Variable]] = {}
    for label, data in parts.items():
        for name, variable in data.variables.items():
            found.setdefault(str(name), {})[label] = variable
    fill, stored = dict[str, Any](), dict[str, list[np.dtype[Any]]]()
    for name, each in sorted(found.items(), key=lambda entry: entry[0] not in axes):
        units = {label: of.attrs.get("units", "1") for label, of in each.items()}
        kinds = {label: _kind_of(of) for label, of in each.items()}
        _check_same(f"`{name}`", {of: kind + f" in {units[of]}" * (units[of] != "1") for of, kind in kinds.items()})
        fill[name] = NOT_PLANNED.get(name, MISSING[next(iter(kinds.values()))])
        stored[name] = [np.dtype(of.encoding.get("dtype", of.dtype)) for of in each.values()]
        if name not in RUN_METADATA and any(name in data.data_vars for data in parts.values()):
            _check_same(f"`{name}`", {label: f"over ({', '.join(map(str, of.dims))})" for label, of in each.items()})
    beside = dict.fromkeys(str(name) for data in parts.values() for name in data.coords if name not in data.dims)

    # a coordinate that differs, or that some results do not have, lies along the new dimension
    def differs(name: str) -> bool:
        first, *others = found[name].values()
        return len(found[name]) < len(parts) or not all(first.equals(each) for each in others)  # type: ignore[no-untyped-call]

    along = list(filter(differs, beside))
    wide = []
    for data in parts.values():
        moved = data.reset_coords([name for name in along if name in data.coords])
        room = {name: _with_room(moved[name]) for name in moved.data_vars if name not in NOT_PLANNED}
        wide.append(moved.assign(room))
    values = np.array(list(parts), dtype=object if isinstance(next(iter(parts)), str) else None)
    joined = xr.concat(
        wide, xr.DataArray(values, dims=dim, name=dim, attrs={"long_name": dim}), data_vars="all", coords="minimal",
        compat="override", join="outer", fill_value=fill, combine_attrs="override",
    )  # fmt: skip
    # axes keep the order of their study; along other dimensions, such as time, values increase
    labels = {
        axis: dict.fromkeys(value for each in found[axis].values() for value in each.values.tolist()) for axis in axes
    }
    joined = joined.sel({axis: list(every) for axis, every in labels.items()})
    names = list(map(str, joined.data_vars))
    joined = joined.assign({name: _as_stored(joined[name], stored[name], name in along) for name in names})
    returned = [name for name in names if name not in along]
    joined = joined.set_coords(along)[sorted(returned, key=lambda name: name in RUN_METADATA)]
    return joined.assign_attrs(_attributes(parts, dim))


def _expand_axes(axes: Sequence[str], label: object, data: xr.Dataset, given: Results) -> xr.Dataset:
    """Return the result with a dimension for each of `axes`, also for its fixed parameters."""
    own = data["run_status"].dims
    returned = [*returned_coordinates(data), *returned_attributes(data).values()]
    of_runs = [*data.data_vars, *(name for name in returned if name in data.coords and {*data[name].dims} & {*own})]
    for name in (name for name in axes if name not in own):
        if name not in data.coords or data[name].ndim:
            owner = next(each for each, other in given.items() if name in other["run_status"].dims)
            what = f"depends on other axes of {label!r}" if name in data.coords else f"is no parameter of {label!r}"
            raise InputError(f"`{name}` is an axis of {owner!r}, but {what}. Select one value of `{name}` in {owner!r}")
        constant = data[name]
        data = data.drop_vars(name)
        data = data.assign({each: data[each].expand_dims({name: [constant.item()]}) for each in of_runs})
        data[name].attrs = constant.attrs
    return data.transpose(*axes, ...)


def _check_same(what: str, facts: Mapping[Any, str]) -> None:
    """Raise InputError if `facts` differ between results."""
    labels = list(facts)
    other = next((label for label in labels if facts[label] != facts[labels[0]]), None)
    if other is not None:
        raise InputError(
            f"{what} cannot be joined: {facts[labels[0]]} in {labels[0]!r}, {facts[other]} in {other!r}. Rename or "
            "drop this variable in one of the results."
        )


def _kind_of(variable: xr.Variable) -> str:
    if variable.dtype.kind in "OU" and np.dtype(variable.encoding.get("dtype", object)).kind not in "iu":
        return "strings"  # integers that no float holds are objects too
    return {"M": "dates", "m": "durations"}.get(variable.dtype.kind, "numbers")


def _with_room(variable: xr.DataArray) -> xr.DataArray:
    """Convert integers and booleans to a type that can hold NaN."""
    if variable.dtype.kind not in "biu":
        return variable
    large = variable.dtype.itemsize == 8 and bool((abs(variable.astype(float)) >= EXACT).any())
    return variable.astype(object if large else float)


def _as_stored(joined: xr.DataArray, stored: Sequence[np.dtype[Any]], is_coordinate: bool) -> xr.DataArray:
    """Prepare a variable for storage as integers if all results have integers, even if values are missing."""
    joined.encoding = {}
    if joined.dtype.kind not in "fO" or any(dtype.kind not in "biu" for dtype in stored):
        return joined
    missing, dtype = np.asarray(joined.values != joined.values), np.result_type(*stored)
    if not missing.any():
        return joined.astype(bool if joined.attrs.get("flag_meanings") == TRUTH_MEANINGS else dtype)
    if not is_coordinate:  # which is stored without a fill value (CF)
        own = joined.values[~missing].astype(dtype)
        joined.encoding = with_room(dtype, own, lambda: Cells(own, np.zeros(own.shape, dtype=bool)))[1]
    return joined


# -1, for cases that have not run, picks the last entry of the new numbers, which is -1
def _renumber_software(data: xr.Dataset, sets: Sequence[str]) -> xr.Dataset:
    """Return the result with `run_software` as an index into `sets`."""
    numbers = [sets.index(json.dumps(entry, sort_keys=True)) for entry in software_sets(data)]
    software = data["run_software"].copy(data=np.array([*numbers, -1], np.int32)[data["run_software"].values])
    software.attrs = {**software.attrs, SOFTWARE_SETS: json.dumps([json.loads(each) for each in sets])}
    return data.assign(run_software=software)


def _attributes(parts: Results, dim: str) -> dict[str, Any]:
    """Return the common global attributes, the origin of each result, and the history."""
    each = {str(label): data.attrs for label, data in parts.items()}
    first = next(iter(each.values()))
    common = {key for key in first if all(other.get(key) == first[key] for other in each.values())}
    attributes = {key: first[key] for key in first if key in common - OF_ONE_STUDY}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    members = ", ".join(f"{label} ({known.get('id', '')})" for label, known in each.items())
    left_out = (DIGESTS, RECORDED, RETURNED_ATTRIBUTES)
    coordinates = {name for data in parts.values() for name in returned_coordinates(data)}
    return attributes | {
        RESULT_SCHEMA: SCHEMA_VERSION,
        "title": " and ".join(dict.fromkeys(str(known.get("title", "")) for known in each.values())),
        "summary": f"Results of {len(each)} studies along {dim}: {members}.",
        "id": "+".join(dict.fromkeys(str(known.get("id", "")) for known in each.values())),
        "study": "",
        "study_sha256": hashlib.sha256(b"").hexdigest(),
        "date_created": now,
        "product_version": package_version(),
        "history": f"{now}: evogt-study {package_version()} joined {members} along {dim}",
        RECORDED: " ".join(sorted(coordinates)),
        CONCATENATED: json.dumps([
            {dim: label, **{key: str(value) for key, value in known.items() if key not in left_out}}
            for label, known in each.items()
        ]),
    }  # fmt: skip
