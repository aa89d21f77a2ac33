"""Convert the object that a user function returns to a record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from evogt_study.errors import ReturnError
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.variables import OWN_VALUES, holds_attribute, objection

ALONE = "value"
"""Name of a value that is returned without a name."""
LARGEST = 2**53
"""Largest integer.  A result stores integers as floats if some runs have no value."""
_STORAGE = """
    missing_value scale_factor add_offset dtype calendar coordinates bounds grid_mapping valid_min valid_max valid_range
"""
STORAGE_ATTRIBUTES = frozenset(_STORAGE.split())
"""Attributes that say how a file stores values.  They are not copied."""


def as_record(returned: Any) -> Record:
    """Return the record of a mapping of names to values, a Dataset, a DataFrame, or one value, which is named `value`.

    Values are numbers, booleans, strings, arrays, lists and tuples of them, ``(dims, array)`` pairs, DataArrays, Series
    and DataFrames.  A mapping inside a mapping gives names with an underscore.  A complex value becomes two variables.
    Raises ReturnError with the name of the variable if a result file cannot hold its values.
    """
    variables: dict[str, Datum] = {}
    coordinates: dict[str, Datum] = {}
    for name, value in _named(returned):
        if not _is_a_number(value):
            for coordinate, data in getattr(value, "coords", {}).items():
                if data.ndim:
                    coordinates[str(coordinate)] = _datum(str(coordinate), data)
        for part, datum in _parts(name, value):
            if part in variables:
                raise ReturnError(f"the method returned `{part}` twice; rename one")
            variables[part] = datum
    record = Record(variables, coordinates)
    _check_dimensions(record)
    return record


def check_names(record: Record, parameters: Collection[str]) -> None:
    """Raise ReturnError if a variable, coordinate or dimension has the name of a parameter.

    Parameters are coordinates of the result.  The values of a coordinate that differ between runs become a variable,
    whose name must be free too.
    """
    dims = [name for datum in record.variables.values() for name in datum.dims]
    coordinates = [*record.coordinates, *(name + OWN_VALUES for name in record.coordinates)]
    for kind, names in (("variable", record.variables), ("coordinate", coordinates), ("dimension", dims)):
        taken = sorted(name for name in names if name in parameters)
        if taken:
            raise ReturnError(f"the method returned a {kind} named `{taken[0]}`, which is a parameter; rename it")


# most values are numbers: the other tests would take a third of a quick run
def _is_a_number(value: Any) -> bool:
    kind = type(value)
    return kind is float or kind is bool or (kind is int and -LARGEST <= value <= LARGEST)


def _named(returned: Any) -> Iterator[tuple[str, Any]]:
    """Split the returned object into values with their names."""
    if type(returned) is dict:  # the usual case
        yield from _flat("", returned)
        return
    # recognised by attributes: a worker imports neither pandas nor xarray
    if hasattr(returned, "to_xarray"):  # pandas
        returned = returned.to_xarray()
    if hasattr(returned, "data_vars"):
        for name, value in returned.data_vars.items():
            yield str(name), value
        for name, coordinate in returned.coords.items():
            if coordinate.ndim and not returned.data_vars:
                yield str(name), coordinate
    elif hasattr(returned, "_asdict") or (is_dataclass(returned) and not isinstance(returned, type)):
        yield from _flat("", returned._asdict() if hasattr(returned, "_asdict") else asdict(returned))
    elif isinstance(returned, Mapping):
        yield from _flat("", returned)
    elif returned is None:
        raise ReturnError("the method must return a number, a mapping or an xarray.Dataset, got None; return something")
    else:
        yield str(getattr(returned, "name", None) or ALONE), returned


def _flat(prefix: str, values: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a mapping and of the mappings in it, whose names follow its own."""
    for name, value in values.items():
        if _is_a_number(value):
            yield f"{prefix}{name}", value
            continue
        if hasattr(value, "to_xarray"):
            value = value.to_xarray()  # the same value
        inner = value.data_vars if hasattr(value, "data_vars") else value
        if isinstance(inner, Mapping):
            yield from _flat(f"{prefix}{name}_", inner)
        else:
            yield f"{prefix}{name}", value


def _parts(name: str, value: Any) -> Iterator[tuple[str, Datum]]:
    """Yield the value, or the real and imaginary part of a complex value."""
    if _is_a_number(value):
        _check_name("variable", name)
        yield name, Datum((), np.asarray(value))
        return
    datum = _datum(name, value)
    if datum.values.dtype.kind != "c":
        yield name, datum
        return
    for suffix, part in (("real", datum.values.real), ("imag", datum.values.imag)):
        _check_name("variable", f"{name}_{suffix}")
        yield f"{name}_{suffix}", Datum(datum.dims, part.copy(), datum.attributes)


def _datum(name: str, value: Any) -> Datum:
    _check_name("variable", name)
    attributes: dict[str, Any] = {}
    if hasattr(value, "dims") and hasattr(value, "values"):
        dims, array, attributes = tuple(map(str, value.dims)), _array(name, value.values), _kept(value.attrs)
    elif _is_pair(value):
        dims = (value[0],) if isinstance(value[0], str) else tuple(map(str, value[0]))
        array = _array(name, value[1])
    else:
        array = _array(name, value)
        dims = tuple(f"{name}_{number}" for number in range(array.ndim))
    for dim in dims:
        _check_name("dimension", dim)
    if array.ndim != len(dims) or len(set(dims)) != len(dims):
        raise ReturnError(
            f"the method returned `{name}` with {array.ndim} dimensions and {len(dims)} dimension names {list(dims)}; "
            "return (dims, array), with a different word for each dimension"
        )
    _check_values(name, array)
    return Datum(dims, array, attributes)


def _is_pair(value: Any) -> bool:
    """Return True for (dims, array): a string or a list of strings, and anything but a string."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    names = value[0] if isinstance(value[0], (list, tuple)) else [value[0]]
    return all(isinstance(name, str) for name in names) and not isinstance(value[1], str)


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ReturnError(f"the method returned `{name}`, lists of different lengths; return an array") from None
    # strings of pandas and xarray are objects
    if array.dtype.kind == "O" and all(isinstance(entry, str) for entry in array.ravel()):
        array = array.astype(str)
    if not np.ma.is_masked(value):
        return array
    # a masked entry has no value; only floats have NaN
    if array.dtype.kind != "f":
        raise ReturnError(f"the method returned `{name}` with masked entries of type {array.dtype}; return floats")
    return np.asarray(np.ma.filled(value, np.nan))


def _check_values(name: str, array: np.ndarray[Any, Any]) -> None:
    # NetCDF has no half and no extended precision
    known = (np.float32, np.float64, np.complex64, np.complex128)
    if array.dtype.kind not in "iubU" and array.dtype not in known:
        raise ReturnError(
            f"the method returned `{name}` of type {array.dtype}; return numbers, truth values or strings"
        )
    # as integers of Python: the magnitude of the smallest int64 is no int64
    if array.dtype.kind in "iu" and array.size and max(abs(int(array.min())), abs(int(array.max()))) > LARGEST:
        raise ReturnError(
            f"the method returned `{name}` with an integer above 2^53, which a float cannot hold; return text"
        )
    if array.dtype.kind == "U" and any(not _is_unicode(word) for word in array.ravel()):
        raise ReturnError(f"the method returned `{name}` with characters that are not Unicode")


def _check_dimensions(record: Record) -> None:
    """Raise ReturnError if a dimension has two lengths or the name of a variable.

    The values of a coordinate that differ between runs become a variable, whose name must be free.
    """
    if not record.coordinates and not any(datum.dims for datum in record.variables.values()):
        return
    lengths: dict[str, int] = {}
    for name, datum in (*record.variables.items(), *record.coordinates.items()):
        for dim, length in zip(datum.dims, datum.values.shape, strict=True):
            if lengths.setdefault(dim, length) != length:
                raise ReturnError(
                    f"the method returned `{name}` with {length} values along {dim}, and {lengths[dim]} elsewhere"
                )
    for name in record.variables:
        if name in lengths or name.removesuffix(OWN_VALUES) in lengths:
            raise ReturnError(
                f"the method returned a variable named `{name}`, as its dimension is or its values will be"
            )
    used = {*record.variables, *record.coordinates, *lengths}
    for name in record.coordinates:
        if name + OWN_VALUES in used:
            raise ReturnError(
                f"the method returned `{name}{OWN_VALUES}`, as the values of `{name}` will be named; rename it"
            )


@lru_cache(maxsize=1024)  # runs return the same names
def _check_name(kind: str, name: str) -> None:
    if not _is_word(name):
        raise ReturnError(f"the method returned a {kind} named {name!r}; names must be ASCII words")
    reason = objection(name)
    if reason is not None:
        raise ReturnError(f"the method returned a {kind} named {name!r}, but {reason}; rename it")


def _is_unicode(word: str) -> bool:
    return word.encode("utf-8", "replace").decode() == word


def _is_word(name: str) -> bool:
    return name.isidentifier() and name.isascii()


def _kept(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the attributes that a file can have: strings and numbers, except `STORAGE_ATTRIBUTES`."""
    return {
        str(key): value
        for key, value in attributes.items()
        if _is_storable(value)
        and _is_word(str(key))
        and holds_attribute(str(key))
        and str(key) not in STORAGE_ATTRIBUTES
    }


def _is_storable(value: Any) -> bool:
    """Return True for a value that an attribute of NetCDF can have."""
    if isinstance(value, str):
        return _is_unicode(value) and "\0" not in value
    if isinstance(value, int):
        return not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, float)
