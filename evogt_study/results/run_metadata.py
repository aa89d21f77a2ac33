"""Define the parts that every result has: its schema version, the run metadata, and the recorded coordinates.

It imports no study, so that commands that only read a result start quickly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.schema.variables import BOOKKEEPING, OWN_VALUES, Status

RECORDED = "recorded_coordinates"
"""Global attribute: names of the coordinates that runs returned."""
CONCATENATED = "concatenated_from"
"""Global attribute of a joined result: the global attributes of its parts, as JSON."""
RESULT_SCHEMA = "result_schema"
"""Global attribute: version of the result schema, MAJOR.MINOR."""
SCHEMA_VERSION = "2.0"
"""Version that is written.  A later minor version only adds to a result, so today's readers can read it."""
SOFTWARE_SETS = "software_sets"
"""Attribute of `run_software`, which is an index into these version sets, as JSON."""


def recorded(data: xr.Dataset) -> dict[str, str]:
    """The coordinates that the runs of a result returned, with the names that they have in the result."""
    names = str(data.attrs.get(RECORDED, "")).split()
    return {name: name + OWN_VALUES if name + OWN_VALUES in data.coords else name for name in names}


def software_sets(data: xr.Dataset) -> list[dict[str, Any]]:
    """The version sets that computed the runs of a result."""
    return list(json.loads(data["run_software"].attrs[SOFTWARE_SETS]))


def other_schema(data: xr.Dataset) -> str:
    """Return the version of a group's form if this package cannot read it, else ""."""
    version = str(data.attrs.get(RESULT_SCHEMA, SCHEMA_VERSION))
    return "" if re.fullmatch(r"2\.\d+", version) else version


def lacking(data: xr.Dataset) -> bool:
    """Return True if a group of a file has not all parts of a result."""
    told = set(BOOKKEEPING) <= set(data.variables) and SOFTWARE_SETS in data["run_software"].attrs
    return not (told and {"study", RESULT_SCHEMA} <= set(data.attrs))


# readers use these values as indices: a value out of range would raise an error there, or point to another run
def unsound(data: xr.Dataset) -> Iterator[str]:
    """Yield one line for each invalid value in the run metadata of a complete group."""
    status, software = data["run_status"].values, data["run_software"].values
    known = np.isin(status, [int(each) for each in Status])
    if not known.all():
        yield f"`run_status` must be one of {', '.join(map(str, map(int, Status)))}, got {status[~known].flat[0]}"
    try:
        count = len([dict(each) for each in software_sets(data)])
    except (TypeError, ValueError, RecursionError):  # RecursionError: JSON that is nested too deeply
        yield f"`run_software` must have its version sets in the attribute {SOFTWARE_SETS}, got other text"
        return
    used = software[known & (status != Status.not_run)]
    outside = used[(used < 0) | (used >= count)]
    if outside.size:
        yield f"`run_software` must be an index into its {count} {SOFTWARE_SETS}, got {outside.flat[0]}"
    for axis in map(str, data["run_status"].dims):
        labels = data[axis].values
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            yield f"`{axis}` must have finite labels, got {labels[~np.isfinite(labels)][0]}"
    missing = [name for name, held in recorded(data).items() if held not in data.coords]
    if missing:
        yield f"`{RECORDED}` must name coordinates, got {missing[0]}"
