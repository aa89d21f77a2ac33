"""Refuse functions that capture a random generator: each worker would have a copy and repeat the draws of the others.

Only what a function uses when it is called counts: not a generator from which its file made a constant array.
"""

from __future__ import annotations

import dis
import functools
import random
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.random import mtrand

from evogt_study.errors import StudyError
from evogt_study.methods.syntax import CACHED, is_local

GENERATORS = (
    np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence, random.Random,
)  # fmt: skip
_SEEDED = (getattr(mtrand, "_rand", None), getattr(random, "_inst", None))
"""The generators behind ``np.random`` and `random`, which are seeded before each run."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
MAX_OBJECTS = 100_000
"""Largest number of objects that are searched, in 0.3 s.  A larger graph is data of a library, such as a mesh."""


def check_generators(function: Any, reference: str) -> None:
    """Raise StudyError if a function captures a random generator."""
    name = next(_captured(function), None)
    if name is not None:
        raise StudyError(
            f"`{name}` of {reference} is a random generator, whose draws every worker would repeat; let the function "
            "have an argument `rng`, or make the generator inside the function with np.random.default_rng(seed)"
        )


def _captured(function: Any) -> Iterator[str]:
    """Names of captured generators."""
    waiting, seen = deque([("", function)]), dict[int, Any]()
    while waiting and len(seen) < MAX_OBJECTS:
        name, value = waiting.popleft()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen[id(value)] = value  # with the value, so that no other has its number
        if isinstance(value, GENERATORS):
            if not isinstance(value, random.SystemRandom) and not any(value is each for each in _SEEDED):
                yield name or type(value).__name__
            continue
        waiting.extend(_parts(name, value))


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a value refers to, with names for messages."""
    before = f"{name}." if name else ""
    if isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, functools.partial):
        yield name, value.func
        yield from ((f"argument {number}", each) for number, each in enumerate(value.args, 1))
        yield from value.keywords.items()
    elif isinstance(value, (MethodType, BuiltinFunctionType)):
        yield name, getattr(value, "__func__", None)
        yield name, value.__self__
    elif isinstance(value, (staticmethod, classmethod, CACHED)):
        yield name, value.__wrapped__
    elif isinstance(value, property):
        yield from ((name, each) for each in (value.fget, value.fset))
    elif isinstance(value, functools.cached_property):
        yield name, value.func
    elif isinstance(value, type):
        if is_local(sys.modules.get(value.__module__)):
            yield from ((f"{before}{each}", part) for each, part in vars(value).items())
            yield from ((name, each) for each in value.__bases__)
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", each) for key, each in value.items())
        yield from ((name, key) for key in value)
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from ((f"{name}[{number}]", each) for number, each in enumerate(value))
    elif isinstance(value, np.ndarray):
        yield from ((name, each) for each in (value.ravel().tolist() if value.dtype.hasobject else ()))
    elif not isinstance(value, (ModuleType, CodeType)):
        yield name, type(value)
    if not isinstance(value, (type, ModuleType)):
        yield from ((f"{before}{each}", part) for each, part in _attributes(value))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds.  Nothing is computed: neither properties nor `__getattr__` are called."""
    with suppress(AttributeError, TypeError):
        yield from object.__getattribute__(value, "__dict__").items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError, TypeError):
                yield slot, object.__getattribute__(value, slot)


def _of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    yield from zip(positional[::-1], (function.__defaults__ or ())[::-1], strict=False)
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it may have no value yet
            yield name, cell.cell_contents
    if is_local(sys.modules.get(function.__module__ or "")):
        names, modules, attributes = _used_names(code)
        values = {name: function.__globals__[name] for name in names if name in function.__globals__}
        values |= {name: sys.modules[name] for name in modules if name in sys.modules}
        for name, value in values.items():
            yield from _of_module(name, value, attributes) if isinstance(value, ModuleType) else [(name, value)]


def _of_module(name: str, module: ModuleType, attributes: set[str]) -> Iterator[tuple[str, Any]]:
    """What a function may use of a module of the user's own: what its code names."""
    if is_local(module):
        for each in sorted(attributes & vars(module).keys()):
            value = vars(module)[each]
            if isinstance(value, ModuleType):
                if value.__name__.startswith(f"{module.__name__}."):
                    yield from _of_module(f"{name}.{each}", value, attributes)
            else:
                yield f"{name}.{each}", value


# only LOAD_GLOBAL shows that a function uses a global: `co_names` has attributes too
def _used_names(code: CodeType) -> tuple[set[str], set[str], set[str]]:
    """Names of globals, of imported modules, and of attributes, in code and in the functions inside it."""
    globals_, modules, attributes = set[str](), set[str](), set(code.co_names)
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            globals_.add(str(instruction.argval))
        elif instruction.opname == "IMPORT_NAME":
            modules.add(str(instruction.argval))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            for known, found in zip((globals_, modules, attributes), _used_names(constant), strict=True):
                known |= found
    return globals_, modules, attributes
