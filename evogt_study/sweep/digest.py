"""Digests of a result's content, written into it: HDF5 has no checksums for attributes, long words and lost chunks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

DIGESTS = "content_digests"
"""Global attribute: SHA-256 of each variable with its attributes, and under "" of the other global attributes."""
DIGITS = 16


def digests(data: xr.Dataset) -> dict[str, str]:
    """The digest of every variable and coordinate of a result, the same before it is written and after it is read."""
    found = {str(name): _digest(variable) for name, variable in sorted(data.variables.items(), key=str)}
    return {"": _hash([_plain(data.attrs)]), **found}


def with_digests(data: xr.Dataset) -> xr.Dataset:
    """The same data with the attribute that holds its digests."""
    return data.assign_attrs({DIGESTS: json.dumps(digests(data))})


def changed(data: xr.Dataset) -> Iterator[str]:
    """One line for each part that is not what was written; none where a result has no digests."""
    if DIGESTS not in data.attrs:
        return
    now = digests(data)
    try:
        written = dict(json.loads(data.attrs[DIGESTS]))
    except (ValueError, TypeError):
        yield f"the attribute `{DIGESTS}` is damaged"
        return
    for name in sorted({*now, *written}):
        if now.get(name) != written.get(name):
            part = f"`{name}`" if name else "a global attribute"
            yield f"{part} is damaged: it is not what was written"


def _digest(variable: xr.Variable) -> str:
    values = np.asarray(variable.values)
    if values.dtype.kind in "OU":
        return _hash([list(map(str, variable.dims)), values.astype(str).tolist(), _plain(variable.attrs)])
    numbers = np.ascontiguousarray(values, dtype=np.float64)
    numbers = np.where(np.isnan(numbers), np.nan, numbers)  # a file keeps one of the many NaN
    digest = hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()
    return _hash([list(map(str, variable.dims)), list(values.shape), digest, _plain(variable.attrs)])


def _plain(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as lists of built-in types: a list of one value is read back as the value."""
    return {str(name): np.ravel(value).tolist() for name, value in attributes.items() if name != DIGESTS}


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:DIGITS]
