"""Declarations of parameters: one per name, used to read and check its values and to label its coordinate."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from evogt_study.errors import ParameterError
from evogt_study.schema.values import Value, Values, canonical
from evogt_study.schema.variables import LABEL

T = TypeVar("T")
Reader = Callable[[Any], Value]
"""Reads a raw value into canonical form; raises ValueError where it does not fit."""


OF_FORMULAS = "parameter of the problem's formulas"
"""Comment of such a parameter in a result."""
_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi "
    "psi omega"
)
# long names in a result use the symbols of formulas as papers print them
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξοπρστυφχψω", strict=True))

# int64 in the file, with room for sums such as start + count of seeds
BITS = 62
"""Integers of a parameter are below 2 to this power."""


class TooLargeError(ValueError):
    """An integer that is of the right kind, but beyond what a parameter holds."""


@dataclass(frozen=True)
class Parameter:
    """A parameter's name, what its values may be (`wanted`, `read`), and its labels in the result file.

    `default` is None where a value has to be given; `optional` ones may stay without any.  resolve: reads a raw value
    with the folder of the study, to which paths are relative.  takes_code: a text "file.py:name" is a user's function.
    short: label in figures.
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

    def value(self, raw: Any, where: str = "") -> Value:
        """`raw` in canonical form.  Raises ParameterError naming the place `where` it was written."""
        try:
            return self.read(raw)
        except TooLargeError:
            wanted = f"{self.wanted} and below 2^{BITS}"
            raise ParameterError(self.name, wanted, raw, where=where, remedy=self.remedy) from None
        # RecursionError: of lists that are nested too deeply
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            if isinstance(error, ParameterError) and error.name == self.name:  # the reader knows more
                raise error.at(where) from None
            raise ParameterError(self.name, self.wanted, raw, where=where, remedy=self.remedy) from None

    def attributes(self, label: object) -> dict[str, str]:
        """Attributes of the parameter's coordinate in the result file; a `label` that is a string has no units."""
        units = "" if isinstance(label, str) else self.units
        written = {"long_name": self.long_name or self.name, "units": units, "comment": self.comment, LABEL: self.short}
        return {key: text for key, text in written.items() if text}


def declared(
    wanted: str,
    read: Reader,
    long_name: str = "",
    comment: str = "",
    *,
    remedy: str = "",
    default: Value | None = None,
    optional: bool = False,
    resolve: Callable[[Any, Path], Any] | None = None,
    takes_code: bool = False,
    short: str = "",
) -> Any:
    """A field of a dataclass of parameters: the one declaration of the parameter that has its name."""
    parameter = Parameter(
        "", wanted, read, long_name, comment, remedy, default=default, optional=optional, resolve=resolve,
        takes_code=takes_code, short=short,
    )  # fmt: skip
    return field(default=default if default is not None or optional else MISSING, metadata={"declares": parameter})


def same_as(kind: type, name: str) -> Any:
    """A field that declares the parameter `name` as another dataclass of parameters does."""
    (known,) = (part for part in fields(kind) if part.name == name)
    return field(default=known.default, metadata=known.metadata)


def declared_in(kind: type) -> dict[str, Parameter]:
    """The parameters that a dataclass declares, by name."""
    return {part.name: replace(part.metadata["declares"], name=part.name) for part in fields(kind)}


def typed(kind: Callable[..., T], values: Values) -> T:
    """The dataclass of parameters with those of a case's `values` that it declares."""
    return kind(**{name: values[name] for name in field_names(kind) if name in values})


@cache  # for each case: a look at the fields took as long as all the rest
def field_names(kind: Any) -> tuple[str, ...]:
    """Names of the fields of a dataclass."""
    return tuple(part.name for part in fields(kind))


def integer(minimum: int, maximum: int | None = None) -> Reader:
    """Whole numbers in [`minimum`, `maximum`]; 60.0 is not one, since it would name the same run twice."""
    most = 2**BITS - 1 if maximum is None else maximum

    def read(raw: Any) -> Value:
        # before `canonical`, which refuses what is beyond 64 bits without saying why
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
    """Finite numbers in (low, high), with an end point where it is said to be included."""

    return admitted(
        lambda number: low < number < high or (high_included and number == high) or (low_included and number == low)
    )


def admitted(admits: Callable[[float], bool]) -> Reader:
    """Numbers that pass a test."""

    def read(raw: Any) -> Value:
        value = canonical(raw)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not admits(float(value)):
            raise ValueError
        return float(value)

    return read


def choice(options: Container[str]) -> Reader:
    """One of some strings."""

    def read(raw: Any) -> Value:
        if not isinstance(raw, str) or raw not in options:
            raise ValueError
        return raw

    return read


def key_of(kinds: Mapping[str, object]) -> Reader:
    """A name that has a meaning: a key of a mapping that raises ParameterError for others."""

    def read(raw: Any) -> Value:
        if not isinstance(raw, str):
            raise ValueError
        kinds[raw]
        return raw

    return read


def one_or_several(single: Reader) -> Reader:
    """A value, or a list of at least one."""

    def read(raw: Any) -> Value:
        return several(single)(raw) if isinstance(raw, (list, tuple)) else single(raw)

    return read


def several(single: Reader) -> Reader:
    """A list of at least one value."""

    def read(raw: Any) -> Value:
        if not isinstance(raw, (list, tuple)) or not raw:
            raise ValueError
        return tuple(single(entry) for entry in raw)

    return read


def anything(raw: Any) -> Value:
    """Any number, string, truth value, or list of them: for a user's own parameters."""
    return canonical(raw)
