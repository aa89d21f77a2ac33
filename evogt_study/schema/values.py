"""Values of parameters: their one canonical form, their JSON form, and how they label a coordinate.

Two values are the same parameter value exactly when their canonical forms are equal, so 0.1 + 0.2 and 0.3 are one
coordinate and cannot be computed twice under two labels.
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


class Composite(Protocol):
    """A value made of several, such as a quadrature rule: frozen, and `str` of it is a short label."""

    def content(self) -> Mapping[str, Any]:
        """Its parts, as JSON-able content."""

    @property
    def label(self) -> int | str:
        """Label on a coordinate: a number where that says everything, else its short label."""


def is_composite(value: object) -> TypeGuard[Composite]:
    """Return True for a value made of several."""
    return _has_parts(type(value))  # type: ignore[arg-type]  # types are hashable, which mypy does not know of them


# by type and once: looking for a protocol's members took a fifth of reading a study of many rules
@cache
def _has_parts(kind: type) -> bool:
    return hasattr(kind, "content") and hasattr(kind, "label")


Value = bool | int | float | str | Composite | tuple["Value", ...]
Values = Mapping[str, Value]


class StandIn:
    """A value in the place of many of its kind: it passes for one of them, and its JSON is the text `mark`."""

    mark: str

    # by identity, so that no cache takes it for the number that it is
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class _StandInReal(StandIn, float):
    pass


class _StandInWhole(StandIn, int):
    pass


class _StandInList(StandIn, tuple[float, ...]):
    pass


_STAND_INS: Mapping[Any, type[Any]] = {float: _StandInReal, int: _StandInWhole}


def stand_in(values: Sequence[Value], mark: str) -> Any:
    """A value in the place of `values`, which are all numbers, or all lists of as many; None where they are not.

    Nor where one of them is zero, which may be left out of an identity.
    """
    # types of the entries too: the texts of [1, 2] and [1.0, 2.0] differ
    kinds = {tuple(map(type, value)) if type(value) is tuple else type(value) for value in values}
    if len(kinds) > 1 or not all(values):
        return None
    (kind,) = kinds
    # a list is known by the types of its entries
    numbers = isinstance(kind, tuple) and {*kind} <= {float, int}
    made: type[Any] | None = _StandInList if numbers else _STAND_INS.get(kind)
    one = None if made is None else made(values[0])
    if one is not None:
        one.mark = mark
    return one


# 15 digits: every decimal number of so many digits survives a double, and what arithmetic adds behind them does not
def canonical(raw: Any) -> Value:
    """`raw` as read from TOML or Python in canonical form; floats keep 15 significant digits.

    Raises ValueError for what cannot be a parameter value, non-finite numbers among it.
    """
    if isinstance(raw, str) and "\0" in raw:
        raise ValueError("words without the character NUL, at which a file ends them")
    if isinstance(raw, (bool, str)):
        return raw
    if isinstance(raw, np.generic):
        return canonical(raw.item())
    if isinstance(raw, int):
        if not -(2**63) <= raw < 2**63:  # int64, which the file has for whole numbers
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
    """The JSON form of a canonical value, or of nested mappings and tuples of them."""
    if isinstance(value, StandIn):
        return value.mark
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [jsonable(entry) for entry in value]
    return jsonable(value.content()) if is_composite(value) else value


# 80 bits: of 10 million different cases two share a key with a probability of 4e-11
KEY_DIGITS = 20


def canonical_json(content: Any) -> str:
    """The one JSON text of the content, in ASCII."""
    return json.dumps(jsonable(content), sort_keys=True, separators=(",", ":"), allow_nan=False)


def json_text(value: Any) -> str:
    """`canonical_json`, ten times sooner for what is plain: it is asked for each parameter of each case."""
    if type(value) in (float, int):
        return repr(value)
    if type(value) is str:
        return encode_basestring_ascii(value)
    if type(value) is tuple:
        return f"[{','.join(map(json_text, value))}]"
    return "null" if value is None else canonical_json(value)


def json_object(texts: Mapping[str, str]) -> str:
    """The canonical JSON of a mapping of identifiers to values of which the JSON texts are given."""
    whole = ",".join([f'"{name}":{texts[name]}' for name in sorted(texts)])
    if not whole.isascii():  # a parameter of a user's function can have any name
        whole = ",".join([f"{json.dumps(name)}:{texts[name]}" for name in sorted(texts)])
    return f"{{{whole}}}"


def text_hash(text: str, digits: int = KEY_DIGITS) -> str:
    """`content_hash` of what has this canonical JSON."""
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def content_hash(content: Any, digits: int = KEY_DIGITS) -> str:
    """Hexadecimal SHA-256 of the content's canonical JSON, cut to `digits` (80 bits by default)."""
    return text_hash(canonical_json(content), digits)


def labels(values: Sequence[Value]) -> list[bool] | list[int] | list[float] | list[str]:
    """Label `values` as a coordinate does: numbers for numbers, else text."""
    # plain values first: a look at a protocol takes ten times as long as at a type
    made = [value for value in values if type(value) not in (int, float, str, bool) and is_composite(value)]
    numbers = [value.label for value in made if isinstance(value.label, int)]
    if values and len(numbers) == len(values):
        return numbers
    for kinds in ((bool,), (int,), (int, float)):
        if all(isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) for value in values):
            return [float(value) for value in values] if float in kinds else list(values)  # type: ignore[arg-type,return-value]  # narrowed by the check above
    return [text_label(value) for value in values]


def text_label(value: Value) -> str:
    """Label of a value as text: "composite_midpoint(4096)", "240,120", "gtransnet", "0.1"."""
    if isinstance(value, tuple):
        return ",".join(text_label(entry) for entry in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def find(values: Sequence[Value], text: str) -> int | None:
    """Find the one of `values` that `text` writes: as its label in the file, as text, or as an equal number."""
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
