"""Values of parameters: their JSON, hashes and coordinates.

A value is as the user wrote it, to the bit and with its type.  Its JSON, which a run key contains, distinguishes kinds:
1, 1.0, true and "1" are four values.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from json.encoder import encode_basestring_ascii
from typing import Any, Protocol, TypeGuard

import numpy as np

from evogt_study.schema.exact import Exact, date_coordinate, exact, exact_label, to_json

KEY_DIGITS = 20
"""Hexadecimal digits of a key, 80 bits.  Among 10 million cases two share a key with a probability of 4e-11."""


class Composite(Protocol):
    """A value with parts, such as a quadrature rule.  It is frozen, and its `str` is a short label."""

    def content(self) -> Mapping[str, Any]:
        """Return its parts in types that JSON knows."""

    @property
    def label(self) -> int | str:
        """Its coordinate value: an integer that determines it, or a string."""


def is_composite(value: object) -> TypeGuard[Composite]:
    """Return True for a value with parts."""
    return _has_parts(type(value))  # type: ignore[arg-type]  # types are hashable, which mypy does not know of them


# a test of the protocol took a fifth of the time to read a study with many quadrature rules
@cache
def _has_parts(kind: type) -> bool:
    return hasattr(kind, "content") and hasattr(kind, "label")


Value = bool | int | float | str | np.generic | Exact | Composite | tuple["Value", ...]
Values = Mapping[str, Value]
_SCALARS = (bool, int, float, str, np.generic)
_LIKE_PYTHON = frozenset(map(np.dtype, (np.bool_, np.int64, np.uint64, np.float64)))
"""Types of NumPy whose scalars equal Python's to the bit."""


def canonical(raw: Any) -> Value:
    """Return `raw` as a value: a scalar as it is, anything else as `Exact`.

    Raises ValueError for anything that is not a parameter value.
    """
    # plain numbers first: there may be millions
    if (type(raw) is int and abs(raw) < 2**63) or (type(raw) is float and raw == raw) or type(raw) is np.int64:
        return raw
    if type(raw) is Exact or is_composite(raw):
        return raw
    if isinstance(raw, _SCALARS):
        to_json(raw)  # refuses what a file cannot hold
        return raw
    return exact(raw)


def jsonable(value: Any) -> Any:
    """Return a value, or nested mappings and tuples of them, in types that JSON knows."""
    if isinstance(value, np.generic):
        # a scalar that equals one of Python to the bit has its key
        is_like_python = value.dtype.kind == "U" or value.dtype in _LIKE_PYTHON
        return jsonable(value.item()) if is_like_python else to_json(value)
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return to_json(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [jsonable(entry) for entry in value]
    if isinstance(value, Exact):
        return value.stated
    return jsonable(value.content()) if is_composite(value) else value


def canonical_json(content: Any) -> str:
    """Return the canonical JSON text of the content, in ASCII."""
    return json.dumps(jsonable(content), sort_keys=True, separators=(",", ":"))


def json_text(value: Any) -> str:
    """Return `canonical_json`, ten times faster for plain values.  It is called for each parameter of each case."""
    if type(value) is int or type(value) is np.int64:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):  # np.float64 is a float
        return float.__repr__(value)
    if type(value) is str:
        return encode_basestring_ascii(value)
    if type(value) is tuple:
        return f"[{','.join(map(json_text, value))}]"
    if type(value) is Exact:
        return value.text
    return "null" if value is None else canonical_json(value)


def json_object(texts: Mapping[str, str]) -> str:
    """Return the canonical JSON of a mapping from the JSON texts of its values."""
    whole = ",".join([f'"{name}":{texts[name]}' for name in sorted(texts)])
    if not whole.isascii():  # a parameter of a user function can have any name
        whole = ",".join([f"{json.dumps(name)}:{texts[name]}" for name in sorted(texts)])
    return f"{{{whole}}}"


def text_hash(text: str, digits: int = KEY_DIGITS) -> str:
    """Return the `content_hash` of content with this canonical JSON."""
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def content_hash(content: Any, digits: int = KEY_DIGITS) -> str:
    """Return the hexadecimal SHA-256 of the canonical JSON, cut to `digits`."""
    return text_hash(canonical_json(content), digits)


def labels(values: Sequence[Value]) -> list[Any]:
    """Return the coordinate values of `values`: of their kind if all have one kind, floats for numbers, else strings.

    Raises ValueError for numbers and dates that no one type of a file holds together.
    """
    types: set[Any] = set(map(type, values))
    kinds = set(map(_kind_of_type, types))
    if "" in kinds:
        kinds = {_kind(value) for value in values}
    if kinds == {"bool"}:
        return list(map(bool, values))
    if kinds == {"composite"}:
        return [value.label for value in values]  # type: ignore[union-attr]  # all are composites
    if kinds == {"int"}:
        integers = list(map(int, values))  # type: ignore[arg-type]  # all are integers
        if min(integers) < 0 and max(integers) >= 2**63:
            raise ValueError(f"integers that int64 or uint64 holds, got {min(integers)} and {max(integers)}")
        return integers
    if kinds in ({"float"}, {"float", "int"}):
        return list(map(_as_float, values))
    if kinds in ({"date"}, {"duration"}):
        return date_coordinate([value.make({}) if isinstance(value, Exact) else value for value in values])
    return [text_label(value) for value in values]


_KINDS: Mapping[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_),
    "duration": (np.timedelta64, timedelta),
    "date": (np.datetime64, date),
    "int": (int, np.integer),
    "float": (float, np.floating),
    "string": (str,),
}
"""Types of each kind, in the order in which they are tried: np.timedelta64 is an np.integer."""


@cache
def _kind_of_type(kind: Any) -> str:
    """Return the kind of all values of a type; "" if it depends on the value."""
    return next((name for name, types in _KINDS.items() if issubclass(kind, types)), "")


def _kind(value: Value) -> str:
    kind: Any = type(value)
    if isinstance(value, Exact):
        kind = type(value.make({})) if value.is_date else None
    if is_composite(value):
        return "composite" if isinstance(value.label, int) else ""
    return "" if kind is None else _kind_of_type(kind)


def _as_float(value: Any) -> float:
    if not isinstance(value, (float, np.floating)) and int(float(value)) != value:
        raise ValueError(f"numbers that a float holds, since one of them is a float, got {value}")
    return float(value)


def is_number(value: object) -> bool:
    """Return True for an integer or a float, of Python or NumPy."""
    kind: Any = type(value)
    return _kind_of_type(kind) in ("int", "float")


def text_label(value: Value) -> str:
    """Return the coordinate value as a string: "composite_midpoint(4096)", "240,120", "gtransnet", "0.1"."""
    if isinstance(value, str) or type(value) is int:
        return str(value)
    if isinstance(value, tuple):
        return ",".join(text_label(entry) for entry in value)
    return str(value) if type(value) is Exact or is_composite(value) else exact_label(value)


NEAR = 1e-9
"""Largest relative difference between a float and the text that states it."""


def find(values: Sequence[Value], text: str) -> int | None:
    """Return the index of the value that `text` states: by its coordinate value, its text, or the nearest number."""
    shown = labels(values)
    for i, (value, label) in enumerate(zip(values, shown, strict=True)):
        if text in (text_label(value), str(label)):
            return i
    if shown and isinstance(shown[0], (np.datetime64, np.timedelta64)):
        try:
            return shown.index(np.datetime64(text))
        except ValueError:
            return None
    numbers = {i: label for i, label in enumerate(shown) if is_number(label)}
    try:
        number = float(text)
    except ValueError:
        return None
    nearest = min(numbers, key=lambda i: abs(numbers[i] - number), default=None)
    if nearest is None:
        return None
    near = NEAR if isinstance(numbers[nearest], float) else 0.0
    return nearest if math.isclose(numbers[nearest], number, rel_tol=near) else None
