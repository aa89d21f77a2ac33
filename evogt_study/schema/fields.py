"""Fields of dataclasses as parameters: a class declares each of its parameters once, by a field.

A plain field declares its parameter by its type and default.  `evogt_study.schema.parameters.declared` makes a field
that also has a range, a long name, a comment and units::

    @dataclass(frozen=True)
    class Waves(Legendre):
        direction: Literal["up", "down"] = "up"
        wavelength: float = declared("a positive number", real(0.0), "λ", "length of a wave", units="m", default=1.0)

The types are bool, int, float, str, a literal, an enumeration of strings or numbers, tuples and unions of them, and
None.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields, replace
from enum import Enum
from functools import cache
from sys import modules
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union, cast, get_args, get_origin, get_type_hints

from evogt_study.errors import InputError, ParameterError
from evogt_study.schema.parameters import DECLARES, Parameter, Reader, real
from evogt_study.schema.values import Value, canonical, text_label

NO_PARAMETER: Mapping[str, None] = {DECLARES: None}
"""Metadata of a field that is no parameter."""


@cache  # used for each case
def declared_in(kind: Any) -> Mapping[str, Parameter]:
    """Return the parameters that the fields of a dataclass declare, by name.

    A field that a base class declares keeps this declaration, also if the subclass gives it another default.

    Raises InputError for a type that declares no parameter, and for a default that is not valid.
    """
    own = [each for each in inspect.get_annotations(kind).values() if "ClassVar" not in str(each)]
    if own and "__dataclass_fields__" not in vars(kind):
        raise InputError(f"`{kind.__name__}` must be a dataclass to have parameters; add @dataclass(frozen=True)")
    found = {}
    for part in fields(kind):
        declaration = _declaration(kind, part) if part.init else None
        if declaration is not None:
            default = part.default if part.default_factory is MISSING else part.default_factory()
            parameter = replace(declaration, name=part.name, default=None, optional=default is None)
            if default not in (MISSING, None):
                parameter = replace(parameter, default=_default(kind, parameter, default))
            found[part.name] = parameter
    return MappingProxyType(found)


def _default(kind: type[Any], parameter: Parameter, default: Any) -> Value:
    try:
        return parameter.value(default)
    except ParameterError as error:
        raise InputError(f"{error}, as its default in {kind.__name__}") from None


class Parametrised:
    """A frozen dataclass whose fields are parameters of a study.

    Raises ParameterError for a value that its declaration does not admit.
    """

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
        """Return its parameters by name."""
        kind: Any = cls
        return declared_in(kind)

    @classmethod
    def required(cls, given: Collection[str]) -> tuple[str, ...]:
        """Return the names of the parameters that it needs beside those `given`, which may be among them."""
        return tuple(name for name, each in cls.parameters().items() if each.default is None and not each.optional)

    @property
    def values(self) -> dict[str, Value]:
        """Values of its parameters as a study holds them, without None."""
        found = {name: getattr(self, name) for name in self.parameters()}
        return {name: _plain(value) for name, value in found.items() if value is not None}


def _plain(value: Any) -> Value:
    plain: Value = value.value if isinstance(value, Enum) else value
    return plain


def _declaration(kind: type[Any], part: Field[Any]) -> Parameter | None:
    """Return the declaration of a field by `declared`, here or in a base class; else by its type."""
    for base in kind.__mro__:
        known = vars(base).get("__dataclass_fields__", {}).get(part.name)
        if known is not None and DECLARES in known.metadata:
            declaration: Parameter | None = known.metadata[DECLARES]
            return declaration
    owner = next(base for base in kind.__mro__ if part.name in inspect.get_annotations(base))
    annotation = SimpleNamespace(__annotations__={part.name: part.type})
    try:
        hint = get_type_hints(annotation, vars(modules[owner.__module__]), dict(vars(owner)))[part.name]
        return _by_type(hint)
    except (NameError, TypeError, ValueError):
        message = "of a type that a study can state, or declared by evogt_study.schema.parameters.declared"
        raise InputError(f"`{part.name}` of {owner.__name__} must be {message}, got {part.type}") from None


@cache  # so that equal types of two classes are equal declarations
def _by_type(hint: Any) -> Parameter:
    """Return the declaration that a type makes.  Raises TypeError if there is none."""
    options = [option for option in _options(hint) if option is not NoneType]
    if len(options) == 1 and isinstance(options[0], type) and issubclass(options[0], Enum):
        (make,) = options
        wanted, read = _option([member.value for member in make])
        made = Parameter("", wanted, lambda raw: read(raw.value if isinstance(raw, make) else raw), make=make)
    else:
        made = Parameter("", *_reader(options[0] if len(options) == 1 else hint))
    if len(options) == len(_options(hint)):
        return made
    return replace(made, read=lambda raw: cast("Value", raw) if raw is None else made.read(raw))


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@cache
def _reader(hint: Any) -> tuple[str, Reader]:
    """Return the valid values in words, and their reader.  Raises TypeError for a type without one."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) is Literal:
        return _option(get_args(hint))
    if get_origin(hint) is tuple and get_args(hint):
        return _entries(get_args(hint))
    # integers first, so that they stay integers where floats are valid too
    options = [option for option in _options(hint) if option is not NoneType]
    options.sort(key=lambda option: option is float)
    if len(options) < 2:
        raise TypeError(hint)
    each = [_reader(option) for option in options]
    return ", or ".join(wanted for wanted, _ in each), _first_of([read for _, read in each])


def _exactly(kind: type) -> Reader:
    def read(raw: Any) -> Value:
        value = canonical(raw)
        if type(value) is not kind:
            raise ValueError
        return value

    return read


_PLAIN: Mapping[Any, tuple[str, Reader]] = {
    bool: ("true or false", _exactly(bool)),
    int: ("an integer", _exactly(int)),
    float: ("a finite number", real()),
    str: ("a string", _exactly(str)),
}


def _option(options: Collection[Any]) -> tuple[str, Reader]:
    known = [canonical(option) for option in options]
    if not known:
        raise TypeError("an enumeration without members")

    def read(raw: Any) -> Value:
        value = canonical(raw)
        return known[[(type(option), option) for option in known].index((type(value), value))]

    return f"one of {', '.join(map(text_label, known))}", read


def _entries(hints: tuple[Any, ...]) -> tuple[str, Reader]:
    count = None if hints[-1] is Ellipsis else len(hints)
    each = [_reader(hint) for hint in hints[: count or 1]]

    def read(raw: Any) -> Value:
        if not isinstance(raw, (list, tuple)) or (count is not None and len(raw) != count):
            raise ValueError
        readers = [read for _, read in each] * (1 if count else len(raw))
        return tuple(read(entry) for read, entry in zip(readers, raw, strict=True))

    if count is None:
        return f"a list with {each[0][0]} as each entry", read
    return f"a list of {count} entries ({', '.join(wanted for wanted, _ in each)})", read


def _first_of(readers: Collection[Reader]) -> Reader:
    def read(raw: Any) -> Value:
        for each in readers:
            try:
                return each(raw)
            except (ValueError, TypeError, OverflowError):
                continue
        raise ValueError

    return read
