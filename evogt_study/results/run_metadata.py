"""Define the schema version, the run metadata and the recorded coordinates of a result.

This module does not import `study.study`, so commands that only read a result start quickly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.errors import DamagedResultError, ResultError, shorten
from evogt_study.results.index import DIGESTS as DIGESTS
from evogt_study.schema.variables import (
    EARLIER_PHASES,
    OUTPUT,
    RUN_METADATA,
    STATUS_FLAGS,
    STATUS_NAMES,
    Status,
    status_codes,
)

RECORDED = "recorded_coordinates"  # global attribute: names of the coordinates that runs returned
RETURNED_ATTRIBUTES = "returned_attributes"
"""Name of a global attribute.  Its JSON maps attributes of returned Datasets to their names in the result."""
CONCATENATED = "concatenated_from"  # global attribute of a joined result: the global attributes of its parts, as JSON
OWN_ATTRIBUTES = (
    DIGESTS, RECORDED, RETURNED_ATTRIBUTES, CONCATENATED, "merged_from", *(f"{phase}_group" for phase in EARLIER_PHASES)
)  # fmt: skip
"""Names of global attributes that a result has in addition to `dataset.global_attributes`."""
RESULT_SCHEMA = "result_schema"  # global attribute: version of the result schema, MAJOR.MINOR
SCHEMA_VERSION = "2.0"
"""Schema version of new results.  This package also reads later minor versions, which only add parts to a result."""
SOFTWARE_SETS = "software_sets"  # attribute of `run_software`, which is an index into these version sets, as JSON


def returned_coordinates(data: xr.Dataset) -> list[str]:
    """Return the names of the coordinates that the runs of a result returned."""
    return str(data.attrs.get(RECORDED, "")).split()


def returned_attributes(data: xr.Dataset) -> dict[str, str]:
    """Return a mapping from attributes of returned Datasets to their names in the result."""
    return {str(name): str(place) for name, place in json.loads(data.attrs.get(RETURNED_ATTRIBUTES, "{}")).items()}


def select_metadata(data: xr.Dataset, variables: Sequence[str] = ()) -> xr.Dataset:
    """Return the run metadata of a result and the given variables that the result has."""
    return data[[name for name in (*RUN_METADATA, *variables) if name in data]]


def with_status_names(data: xr.Dataset) -> xr.Dataset:
    """Return a result as users see it, with statuses as strings and run keys as coordinates.

    Statistics recognise equal runs by their run keys.  The checksums are removed, because they hold for one file only.
    """
    status = data["run_status"].variable
    codes = status_codes(status)
    attributes = {key: value for key, value in status.attrs.items() if key not in STATUS_FLAGS}
    found = data.assign(run_status=xr.Variable(status.dims, STATUS_NAMES[codes], attributes))
    found.attrs = {key: value for key, value in data.attrs.items() if key != DIGESTS}
    found = found.set_coords("run_key")
    found.set_close(data.close)  # xarray loses it; a file closed by the garbage collector can end the process
    return found


def with_status_codes(data: xr.Dataset) -> xr.Dataset:
    """Return a result as a file stores it, with the status of each run as an integer."""
    status = data["run_status"].variable
    if status.dtype.kind not in "OUS":
        return data
    return data.assign(run_status=xr.Variable(status.dims, status_codes(status), {**status.attrs, **STATUS_FLAGS}))


def software_sets(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return the sets of software versions that computed the runs of a result."""
    return list(json.loads(data["run_software"].attrs[SOFTWARE_SETS]))


def lacks_parts(data: xr.Dataset) -> bool:
    """Return True if a part of a result is missing in a group of a file."""
    is_whole = set(RUN_METADATA) - {OUTPUT} <= set(data.variables) and SOFTWARE_SETS in data["run_software"].attrs
    return not (is_whole and {"study", RESULT_SCHEMA} <= set(data.attrs))


def check_result(path: Path, data: xr.Dataset) -> None:
    """Raise ResultError if an open group is not part of a result, or has invalid run metadata."""
    version = str(data.attrs.get(RESULT_SCHEMA, SCHEMA_VERSION))
    if not re.fullmatch(r"2\.\d+", version):
        raise ResultError(
            f"{path} is a result of schema {shorten(version)}, but this evogt-study reads {SCHEMA_VERSION} and later "
            "2.x. Read the result with the version that wrote it"
        )
    if lacks_parts(data):
        raise ResultError(f"{path} is not a result of this package")
    for damage in find_invalid_metadata(data):
        raise DamagedResultError(f"{path} is damaged: {damage}")


# readers use these values as indices: a value out of range would raise an error there, or point to another run
def find_invalid_metadata(data: xr.Dataset) -> Iterator[str]:
    """Yield one line for each invalid value in the run metadata of a complete group."""
    status, software = status_codes(data["run_status"]), data["run_software"].values
    known = np.isin(status, [int(each) for each in Status])
    if not known.all():
        yield f"`run_status` must be one of {', '.join(map(str, map(int, Status)))}, got {status[~known].flat[0]}"
    try:
        count = len([dict(each) for each in software_sets(data)])
    except (TypeError, ValueError, RecursionError):  # RecursionError: JSON that is nested too deeply
        yield f"`run_software` must have its version sets as JSON in the attribute {SOFTWARE_SETS}, got other text"
        return
    used = software[known & (status != Status.not_run)]
    outside = used[(used < 0) | (used >= count)]
    if outside.size:
        yield f"`run_software` must be an index into its {count} {SOFTWARE_SETS}, got {outside.flat[0]}"
    for axis in map(str, data["run_status"].dims):
        labels = data[axis].values
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            yield f"`{axis}` must have finite values, got {labels[~np.isfinite(labels)][0]}"
    missing = [name for name in returned_coordinates(data) if name not in data.coords]
    if missing:
        yield f"`{RECORDED}` must name coordinates, got {missing[0]}"
    try:
        missing = [place for place in returned_attributes(data).values() if place not in {*data.attrs, *data.coords}]
    except (TypeError, ValueError, AttributeError, RecursionError):
        missing = ["other text"]
    if missing:
        yield f"`{RETURNED_ATTRIBUTES}` must name attributes, got {missing[0]}"
