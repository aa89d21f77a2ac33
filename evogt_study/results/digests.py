"""Digests of a result's content, written into it: HDF5 has no checksum of attributes, long strings and lost chunks."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.storage.arrays import SLAB, slab_shape, slabs

DIGESTS = "content_digests"
"""Global attribute: SHA-256 of each variable with its attributes, and under "" of the other global attributes."""
# 64 bits: against damage, not against forgery; short, since each variable has one in the attribute
DIGITS = 16


def digests(data: xr.Dataset) -> dict[str, str]:
    """The digest of every variable and coordinate of a result, the same before it is written and after it is read."""
    found = {name: _variable_digest(data.variables[name]) for name in sorted(map(str, data.variables))}
    return {"": _hash([_plain(data.attrs)]), **found}


def contents(data: xr.Dataset) -> dict[str, str]:
    """As `digests`, without the global attributes, which record when and where a result was written."""
    return {name: digest for name, digest in digests(data).items() if name}


def with_digests(data: xr.Dataset) -> xr.Dataset:
    """The same data with the attribute that holds its digests."""
    return data.assign_attrs({DIGESTS: json.dumps(digests(data))})


def changed(data: xr.Dataset) -> Iterator[str]:
    """One line for each part that is not what was written; none where a result has no digests."""
    yield from _compared(data, digests)


# what an earlier version of the package wrote may have other titles and attributes of axes: these are not what runs
# left
def changed_runs(data: xr.Dataset, recorded: Container[str]) -> Iterator[str]:
    """As `changed`, of what runs left behind: variables, and the coordinates named in `recorded`.

    Global attributes and the axes' own coordinates are made anew whenever a result is written.
    """
    made = {"", *(str(name) for name in data.coords if name not in recorded)}
    variables = {str(name): variable for name, variable in data.variables.items() if name not in made}
    yield from _compared(data, lambda _: {name: _variable_digest(each) for name, each in variables.items()}, made)


# names of both sides, so that a variable that was removed is reported like one that was changed
def _compared(
    data: xr.Dataset, digests_of: Callable[[xr.Dataset], dict[str, str]], left_out: Container[str] = ()
) -> Iterator[str]:
    if DIGESTS not in data.attrs:
        return
    try:
        written = dict(json.loads(data.attrs[DIGESTS]))
    except (ValueError, TypeError, RecursionError):
        yield f"the attribute `{DIGESTS}` is damaged"
        return
    now = digests_of(data)
    for name in sorted({*now, *written}):
        if name not in left_out and now.get(name) != written.get(name):
            part = f"`{name}`" if name else "a global attribute"
            yield f"{part} is damaged: it is not what was written"


def _variable_digest(variable: xr.Variable) -> str:
    """The hash of dimensions, values and attributes, of which one slab of values is in memory at a time."""
    dims, attributes = list(map(str, variable.dims)), _plain(variable.attrs)
    if variable.dtype.kind in "OUS":
        text = itertools.chain([f"[{_json(dims)}, "], _nested(variable), [f", {_json(attributes)}]"])
        return _sha256(part.encode() for part in text)[:DIGITS]
    return _hash([dims, list(variable.shape), _sha256(map(_bytes, _parts(variable))), attributes])


def _parts(variable: xr.Variable) -> Iterator[npt.NDArray[Any]]:
    return (np.asarray(variable[slab].values) for slab in slabs(variable.shape))


# what a file changes must not change the digest: integers come back as floats, and floats little-endian
def _bytes(part: npt.NDArray[Any]) -> bytes:
    numbers = np.ascontiguousarray(part, dtype=np.float64)
    numbers = np.where(np.isnan(numbers), np.nan, numbers)  # a file keeps one of the many NaN
    return numbers.astype("<f8").tobytes()


def _nested(words: xr.Variable) -> Iterator[str]:
    """Yield the JSON text of the strings' nested lists in parts, which joined are that of the whole."""
    if words.size <= SLAB:
        yield _json(np.asarray(words.values).astype(str).tolist())
        return
    rows = slab_shape(words.shape)[0]
    yield "["
    for start in range(0, words.shape[0], rows):
        yield ", " if start else ""
        part = words[start : start + rows]
        if part.size > SLAB:
            yield from _nested(part[0])
        else:
            yield _json(np.asarray(part.values).astype(str).tolist())[1:-1]
    yield "]"


# a file gives back int32 for int64, and a number for a list of one: lists of built-in types are the same on both sides
def _plain(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as lists of built-in types: a list of one value is read back as the value."""
    return {str(name): np.ravel(value).tolist() for name, value in attributes.items() if name != DIGESTS}


def _hash(content: Any) -> str:
    return _sha256([_json(content).encode()])[:DIGITS]


def _json(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _sha256(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
