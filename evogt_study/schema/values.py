"""Values of parameters: their canonical form, JSON, hashes and coordinates.

Two values are the same parameter value if their canonical forms are equal.  So 0.1 + 0.2 and 0.3 are one coordinate
value, and no run is computed twice.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from json.encoder import encode_basestring_ascii
from typing import Any, Protocol, TypeGuard

import numpy as np

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


Value = bool | int | float | str | Composite | tuple["Value", ...]
Values = Mapping[str, Value]


# a double keeps every decimal number of 15 digits, and rounding errors of arithmetic are beyond them
def canonical(raw: Any) -> Value:
    """Return `raw`, from TOML or Python, in canonical form.  Floats keep 15 significant digits.

    Raises ValueError for anything that is not a parameter value, such as a number that is not finite.
    """
    if isinstance(raw, str) and "\0" in raw:
        raise ValueError("words without the character NUL, at which a file ends them")
    if isinstance(raw, (bool, str)):
        return raw
    if isinstance(raw, np.generic):
        return canonical(raw.item())
    if isinstance(raw, int):
        if not -(2**63) <= raw < 2**63:  # int64 in the file
            raise ValueError("an integer of at most 64 bits")
        return raw
    if isinstance(raw, float):
        if not math.isfinite(raw):
            raise ValueError("a finite number")
        rounded = float(f"{raw:.15g}") + 0.0  # + 0.0 turns -0.0 into 0.0
        return rounded if math.isfinite(rounded) else raw  # the largest doubles round up to infinity
    if isinstance(raw, (list, tuple)):
        return tuple(canonical(entry) for entry in raw)
    if is_composite(raw):
        return raw
    raise ValueError("a number, a string, true or false, or a list of them")


def jsonable(value: Any) -> Any:
    """Return a canonical value, or nested mappings and tuples of them, in types that JSON knows."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [jsonable(entry) for entry in value]
    return jsonable(value.content()) if is_composite(value) else value


def canonical_json(content: Any) -> str:
    """Return the canonical JSON text of the content, in ASCII."""
    return json.dumps(jsonable(content), sort_keys=True, separators=(",", ":"), allow_nan=False)


def json_text(value: Any) -> str:
    """Return `canonical_json`, ten times faster for plain values.  It is called for each parameter of each case."""
    if type(value) in (float, int):
        return repr(value)
    if type(value) is str:
        return encode_basestring_ascii(value)
    if type(value) is tuple:
        return f"[{','.join(map(json_text, value))}]"
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


def labels(values: Sequence[Value]) -> list[bool] | list[int] | list[float] | list[str]:
    """Return the coordinate values of `values`: numbers if all are numbers, else strings."""
    # plain values first: a test of a protocol takes ten times as long as a test of the type
    made = [value for value in values if type(value) not in (int, float, str, bool) and is_composite(value)]
    numbers = [value.label for value in made if isinstance(value.label, int)]
    if values and len(numbers) == len(values):
        return numbers
    for kinds in ((bool,), (int,), (int, float)):
        if all(isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) for value in values):
            return [float(value) for value in values] if float in kinds else list(values)  # type: ignore[arg-type,return-value]  # narrowed by the check above
    return [text_label(value) for value in values]


def text_label(value: Value) -> str:
    """Return the coordinate value as a string: "composite_midpoint(4096)", "240,120", "gtransnet", "0.1"."""
    if isinstance(value, tuple):
        return ",".join(text_label(entry) for entry in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def find(values: Sequence[Value], text: str) -> int | None:
    """Return the index of the value that `text` states: by its coordinate value, its text, or an equal number."""
    shown = labels(values)
    for i, (value, label) in enumerate(zip(values, shown, strict=True)):
        if text in (text_label(value), str(label)):
            return i
    try:
        number = canonical(float(text))
    except ValueError:
        return None
    numbers = [not isinstance(label, (bool, str)) and label == number for label in shown]
    return numbers.index(True) if any(numbers) else None
