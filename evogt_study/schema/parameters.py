"""Declare parameters: how to read and check their values, and how to describe their coordinates.

`Parameter` declares one parameter.  `declared` makes a dataclass field that declares one (`evogt_study.schema.fields`).
`integer` to `anything` are readers of raw values.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.registry import Registry
from evogt_study.schema.values import Value, Values, canonical
from evogt_study.schema.variables import LABEL

T = TypeVar("T")
Reader = Callable[[Any], Value]
"""Converts a raw value to canonical form; raises ValueError if it is not valid."""
DECLARES = "declares"
"""Key of the metadata of a field under which its declaration is."""
OF_FORMULAS = "parameter of the problem's formulas"
"""Comment of a parameter of formulas in a result."""
_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi "
    "psi omega"
)
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξοπρστυφχψω", strict=True))
"""Greek letters by their names, for long names in a result."""
BITS = 64
"""Integers of a parameter are below 2 to this power: int64 or uint64 in the file."""


def unchanged(value: Any) -> Any:
    """Return `value`."""
    return value


class TooLargeError(ValueError):
    """An integer is too large for a parameter."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: its name, its valid values (`wanted` in words, `read`), and the attributes of its coordinate.

    default: None if a study must give a value.  optional: a case may have no value.  resolve: reads a raw value with
    the folder of the study, to which paths are relative.  takes_code: a string "file.py:name" is a user function.
    short: label in figures.  kinds: classes that its values name, whose parameters are parameters of the study too.
    make: returns the attribute of a class for a value, such as the member of an enumeration.
    """

    name: str
    wanted: str
    read: Reader
    long_name: str = ""
    comment: str = ""
    remedy: str = ""
    units: str = "1"
    short: str = ""
    default: Value | None = None
    optional: bool = False
    resolve: Callable[[Any, Path], Any] | None = None
    takes_code: bool = False
    kinds: Registry[Any] | None = field(default=None, compare=False)
    make: Callable[[Any], Any] = unchanged

    def value(self, raw: Any, where: str = "") -> Value:
        """Return `raw` in canonical form.  Raises ParameterError with the place `where` it was written."""
        try:
            return self.read(raw)
        except TooLargeError:
            wanted = f"{self.wanted} and below 2^{BITS}"
            raise ParameterError(self.name, wanted, raw, where=where, remedy=self.remedy) from None
        # RecursionError: of lists that are nested too deeply
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            if isinstance(error, ParameterError) and error.name == self.name:  # the reader knows more
                raise error.at(where) from None
            # of any value the message says what this one cannot be
            wanted = str(error) if self.read is anything and isinstance(error, ValueError) else self.wanted
            raise ParameterError(self.name, wanted, raw, where=where, remedy=self.remedy) from None

    def attributes(self, label: object) -> dict[str, str]:
        """Return the attributes of the parameter's coordinate; it has no units if `label` is a string or a date."""
        units = "" if isinstance(label, (str, np.datetime64, np.timedelta64)) else self.units
        written = {"long_name": self.long_name or self.name, "units": units, "comment": self.comment, LABEL: self.short}
        return {key: text for key, text in written.items() if text}


def declared(
    wanted: str, read: Reader, long_name: str = "", comment: str = "", *, default: Value | None = None,
    optional: bool = False, **more: Any,
) -> Any:  # fmt: skip
    """Return a dataclass field that declares the parameter of its name.  more: further fields of `Parameter`."""
    metadata = {DECLARES: Parameter("", wanted, read, long_name, comment, **more)}
    return field(default=default if default is not None or optional else MISSING, metadata=metadata)


def same_as(kind: type, name: str) -> Any:
    """Return a field that declares the parameter `name` as the dataclass `kind` does."""
    (known,) = (part for part in fields(kind) if part.name == name)
    return field(default=known.default, metadata=known.metadata)


def get_defaults(parameters: Mapping[str, Parameter]) -> dict[str, Value]:
    """Return the default values of the parameters that have one."""
    return {name: parameter.default for name, parameter in parameters.items() if parameter.default is not None}


def typed(kind: Callable[..., T], values: Values) -> T:
    """Make a dataclass of parameters from the values of a case.  Values that it does not declare are ignored."""
    return kind(**{name: values[name] for name in field_names(kind) if name in values})


@cache  # called for each case: `fields` took half of the time of a case
def field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(part.name for part in fields(kind))


def integer(minimum: int, maximum: int | None = None) -> Reader:
    """Read integers in [`minimum`, `maximum`].  60.0 is not an integer: it would name the same run twice."""
    most = 2**BITS - 1 if maximum is None else maximum

    def read(raw: Any) -> Value:
        # before `canonical`, whose message has no limit
        if maximum is None and isinstance(raw, int) and raw > most:
            raise TooLargeError
        value = canonical(raw)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= most:
            raise ValueError
        return value

    return read


def real(
    low: float = float("-inf"),
    high: float = float("inf"),
    *,
    low_included: bool = False,
    high_included: bool = False,
) -> Reader:
    """Read finite numbers in (low, high), with the end points that are included."""
    return admitted(
        lambda number: low < number < high or (high_included and number == high) or (low_included and number == low)
    )


def admitted(admits: Callable[[float], bool]) -> Reader:
    """Read numbers that pass a test."""

    def read(raw: Any) -> Value:
        value = canonical(raw)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not admits(float(value)):
            raise ValueError
        return float(value)

    return read


def choice(options: Container[str]) -> Reader:
    """Read one of several strings."""

    def read(raw: Any) -> Value:
        if not isinstance(raw, str) or raw not in options:
            raise ValueError
        return raw

    return read


def registry_key(kinds: Mapping[str, object]) -> Reader:
    """Read a key of a mapping, such as a `Registry`, that raises ParameterError for unknown keys."""

    def read(raw: Any) -> Value:
        if not isinstance(raw, str):
            raise ValueError
        kinds[raw]
        return raw

    return read


def one_or_several(single: Reader) -> Reader:
    """Read a value, or a list of at least one value."""
    return lambda raw: several(single)(raw) if isinstance(raw, (list, tuple)) else single(raw)


def several(single: Reader) -> Reader:
    """Read a list of at least one value."""

    def read(raw: Any) -> Value:
        if not isinstance(raw, (list, tuple)) or not raw:
            raise ValueError
        return tuple(single(entry) for entry in raw)

    return read


def anything(raw: Any) -> Value:
    """Return any value as it is: the parameters of a user function."""
    return canonical(raw)
