"""Parts that a file must have to be read as a result: its bookkeeping, in the ranges that give it a meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.schema.variables import BOOKKEEPING, OWN_VALUES, Status

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
