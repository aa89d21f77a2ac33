"""Declare parameters one by one or as fields of a dataclass, and create readers of raw values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Container, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import Enum
from functools import cache
from pathlib import Path
from sys import modules
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from evogt_study.errors import InputError, ParameterError
from evogt_study.registry import Registry
from evogt_study.schema.values import Value, to_canonical, to_string
from evogt_study.schema.variables import LABEL

T = TypeVar("T")
Reader = Callable[[Any], Value]
"""Function that converts a raw value to canonical form, or raises ValueError if the value is not valid."""
DECLARATION_KEY = "declares"
"""Key of the `Parameter` in the metadata of a dataclass field."""
NO_PARAMETER: Mapping[str, None] = {DECLARATION_KEY: None}
"""Metadata that mark a dataclass field as no parameter."""
BITS = 64
"""Maximum number of bits of an integer parameter.  A file stores integers as int64 or uint64."""


@dataclass(frozen=True)
class Parameter:
    """Declaration of a parameter: its name, its valid values, and the attributes of its coordinate.

    `wanted` describes the valid values in text, and `read` converts a valid value.  `default` is None if a study must
    give a value.  If `optional` is true, a case may have no value.  `resolve` converts a raw value that contains paths
    relative to the folder of the study.  If `takes_code` is true, a string "file.py:name" is a user function.  `short`
    is the label in figures.  If the values name classes, `kinds` maps each name to its class, and the parameters of the
    class become parameters of the study.  `make` converts a value to an attribute of a class, such as an enum member.
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
    make: Callable[[Any], Any] = lambda value: value

    def value(self, raw: Any, where: str = "") -> Value:
        """Convert a raw value to canonical form.  Raises ParameterError with the place `where` for an invalid value."""
        try:
            return self.read(raw)
        # deeply nested lists cause RecursionError
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            if isinstance(error, ParameterError) and error.name == self.name:  # from the reader, with details
                raise error.at(where) from None
            # `read_anything` explains in its message what is wrong
            wanted = str(error) if self.read is read_anything and isinstance(error, ValueError) else self.wanted
            if self.read is not read_anything and isinstance(raw, int) and raw >= 2**BITS:
                wanted += f" and below 2^{BITS}"
            raise ParameterError(self.name, wanted, raw, where=where, remedy=self.remedy) from None

    def attributes(self, label: object) -> dict[str, str]:
        """Return the attributes of the coordinate of the parameter.  Strings and dates have no units."""
        units = "" if isinstance(label, (str, np.datetime64, np.timedelta64)) else self.units
        written = {"long_name": self.long_name or self.name, "units": units, "comment": self.comment, LABEL: self.short}
        return {key: text for key, text in written.items() if text}


def parameter_field(
    wanted: str, read: Reader, long_name: str = "", comment: str = "", *, default: Value | None = None,
    optional: bool = False, **more: Any,
) -> Any:  # fmt: skip
    """Return a dataclass field that declares a parameter.  `more` contains other fields of `Parameter`."""
    metadata = {DECLARATION_KEY: Parameter("", wanted, read, long_name, comment, **more)}
    return field(default=default if default is not None or optional else MISSING, metadata=metadata)


def same_as(kind: type, name: str) -> Any:
    """Return a dataclass field with the same declaration as the field `name` of the dataclass `kind`."""
    (known,) = (part for part in fields(kind) if part.name == name)
    return field(default=known.default, metadata=known.metadata)


def get_defaults(parameters: Mapping[str, Parameter]) -> dict[str, Value]:
    """Return the default values by parameter, without parameters that have no default."""
    return {name: parameter.default for name, parameter in parameters.items() if parameter.default is not None}


def integer(minimum: int, maximum: int = 2**BITS - 1) -> Reader:
    """Return a reader of integers in [`minimum`, `maximum`].  Floats are invalid, because their run keys differ."""
    return _read_if(lambda value: type(value) is not bool and isinstance(value, int) and minimum <= value <= maximum)


def _read_if(admits: Callable[[Any], bool]) -> Reader:
    def read(raw: Any) -> Value:
        value = to_canonical(raw)
        if not admits(value):
            raise ValueError
        return value

    return read


def real(
    low: float = float("-inf"), high: float = float("inf"), *, low_included: bool = False, high_included: bool = False
) -> Reader:
    """Return a reader of finite numbers in the interval (`low`, `high`), optionally with its end points."""

    def admits(value: Any) -> bool:
        is_number = isinstance(value, (int, float)) and type(value) is not bool
        is_end = (high_included and value == high) or (low_included and value == low)
        return is_number and (low < value < high or is_end)

    read: Any = _read_if(admits)
    return lambda raw: float(read(raw))


def choice(options: Container[str]) -> Reader:
    """Return a reader of strings in `options`."""
    return _read_if(lambda value: isinstance(value, str) and value in options)


def registry_key(kinds: Mapping[str, object]) -> Reader:
    """Return a reader that accepts the keys of `kinds`.  A `Registry` raises ParameterError for an unknown key."""
    return _read_if(lambda value: isinstance(value, str) and kinds[value] is not None)


def one_or_several(single: Reader) -> Reader:
    """Return a reader of a single value, or of a list with at least one value."""
    return lambda raw: several(single)(raw) if isinstance(raw, (list, tuple)) else single(raw)


def several(single: Reader) -> Reader:
    """Return a reader of lists with at least one value."""

    def read(raw: Any) -> Value:
        if not isinstance(raw, (list, tuple)) or not raw:
            raise ValueError
        return tuple(single(entry) for entry in raw)

    return read


read_anything: Reader = to_canonical
"""Reader of all values that a parameter of a user function can have."""


@cache  # each case calls this function
def declared_parameters(kind: Any) -> Mapping[str, Parameter]:
    """Return the parameters that the fields of a dataclass declare.  Raises InputError for a wrong type or default."""
    own = [each for each in inspect.get_annotations(kind).values() if "ClassVar" not in str(each)]
    if own and "__dataclass_fields__" not in vars(kind):
        raise InputError(f"`{kind.__name__}` must be a dataclass to have parameters. Add @dataclass(frozen=True)")
    found = {}
    for part in fields(kind):
        declaration = _find_declaration(kind, part) if part.init else None
        if declaration is not None:
            default = part.default if part.default_factory is MISSING else part.default_factory()
            parameter = replace(declaration, name=part.name, default=None, optional=default is None)
            if default not in (MISSING, None):
                try:
                    parameter = replace(parameter, default=parameter.value(default))
                except ParameterError as error:
                    raise InputError(f"{error}, as its default in {kind.__name__}") from None
            found[part.name] = parameter
    return MappingProxyType(found)


class Parametrised:
    """Base class of frozen dataclasses with parameters as fields.  An invalid value raises ParameterError."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        for name, parameter in self.parameters().items():
            value = getattr(self, name)
            if not (value is None and parameter.optional):
                read = parameter.value(value)
                object.__setattr__(self, name, read if read is None else parameter.make(read))

    @classmethod
    def parameters(cls) -> Mapping[str, Parameter]:
        """Return the parameters of the class by name."""
        kind: Any = cls
        return declared_parameters(kind)

    @classmethod
    def list_required_parameters(cls, given: Collection[str]) -> tuple[str, ...]:
        """Return the names of all parameters that require a value.  Subclasses may use the names in `given`."""
        return tuple(name for name, each in cls.parameters().items() if each.default is None and not each.optional)

    @property
    def values(self) -> dict[str, Value]:
        """Values of all parameters except None, as a study states them."""
        found = {name: getattr(self, name) for name in self.parameters()}
        plain = {name: value.value if isinstance(value, Enum) else value for name, value in found.items()}
        return {name: value for name, value in plain.items() if value is not None}


def _find_declaration(kind: type[Any], part: Field[Any]) -> Parameter | None:
    """Return the declaration of a field from `parameter_field` in the class or a base class, or from its type."""
    for base in kind.__mro__:
        known = vars(base).get("__dataclass_fields__", {}).get(part.name)
        if known is not None and DECLARATION_KEY in known.metadata:
            return cast("Parameter | None", known.metadata[DECLARATION_KEY])
    owner = next(base for base in kind.__mro__ if part.name in inspect.get_annotations(base))
    annotation = SimpleNamespace(__annotations__={part.name: part.type})
    try:
        hint = get_type_hints(annotation, vars(modules[owner.__module__]), dict(vars(owner)))[part.name]
        return _declare_by_type(hint)
    except (NameError, TypeError, ValueError):
        message = "of a type that a study can state, or declared by evogt_study.schema.parameters.parameter_field"
        raise InputError(f"`{part.name}` of {owner.__name__} must be {message}, got {part.type}") from None


@cache  # equal types must give equal declarations
def _declare_by_type(hint: Any) -> Parameter:
    """Return the declaration of a parameter with a Python type.  Raises TypeError for an unsupported type."""
    whole = _list_options(hint)
    options = [option for option in whole if option is not NoneType]
    if len(options) == 1 and isinstance(options[0], type) and issubclass(options[0], Enum):
        (make,) = options
        wanted, read = _make_option_reader([member.value for member in make])
        made = Parameter("", wanted, lambda raw: read(raw.value if isinstance(raw, make) else raw), make=make)
    else:
        made = Parameter("", *_make_reader(options[0] if len(options) == 1 else hint))
    if len(options) == len(whole):
        return made
    return replace(made, read=lambda raw: cast("Value", raw) if raw is None else made.read(raw))


def _list_options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@cache
def _make_reader(hint: Any) -> tuple[str, Reader]:
    """Return the description and the reader of the values of a type.  Raises TypeError for an unsupported type."""
    if hint in _SCALAR_READERS:
        return _SCALAR_READERS[hint]
    if get_origin(hint) is Literal:
        return _make_option_reader(get_args(hint))
    if get_origin(hint) is tuple and get_args(hint):
        return _make_entries_reader(get_args(hint))
    # integers before floats, so that integers stay integers
    options = sorted((each for each in _list_options(hint) if each is not NoneType), key=lambda option: option is float)
    if len(options) < 2:
        raise TypeError(hint)
    each = [_make_reader(option) for option in options]

    def read(raw: Any) -> Value:
        for _, known in each:
            with suppress(ValueError, TypeError, OverflowError):
                return known(raw)
        raise ValueError

    return ", or ".join(wanted for wanted, _ in each), read


_SCALAR_READERS: Mapping[Any, tuple[str, Reader]] = {
    bool: ("true or false", _read_if(lambda value: type(value) is bool)),
    int: ("an integer", _read_if(lambda value: type(value) is int)),
    float: ("a finite number", real()),
    str: ("a string", _read_if(lambda value: type(value) is str)),
}


def _make_option_reader(options: Collection[Any]) -> tuple[str, Reader]:
    known = [to_canonical(option) for option in options]
    if not known:
        raise TypeError("an enumeration without members")

    def read(raw: Any) -> Value:
        value = to_canonical(raw)
        return known[[(type(option), option) for option in known].index((type(value), value))]

    return f"one of {', '.join(map(to_string, known))}", read


def _make_entries_reader(hints: tuple[Any, ...]) -> tuple[str, Reader]:
    count = None if hints[-1] is Ellipsis else len(hints)
    each = [_make_reader(hint) for hint in hints[: count or 1]]

    def read(raw: Any) -> Value:
        if not isinstance(raw, (list, tuple)) or (count is not None and len(raw) != count):
            raise ValueError
        readers = [read for _, read in each] * (1 if count else len(raw))
        return tuple(read(entry) for read, entry in zip(readers, raw, strict=True))

    if count is None:
        return f"a list with {each[0][0]} as each entry", read
    return f"a list of {count} entries ({', '.join(wanted for wanted, _ in each)})", read
