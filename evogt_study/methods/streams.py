"""Random streams of runs: the generator `rng`, and draws from the global generators.

A user function with an argument `rng` receives a generator if the study does not set `rng`.  The seed and a hash of the
case determine the stream of this generator.  The run key determines the draws from the global generators of `random`
and ``numpy.random``.

`check_generators` raises StudyError if a function captures a generator.  Otherwise each worker would have a copy of the
generator and repeat its draws.  A generator counts only if the function uses it during a call.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.random import mtrand

from evogt_study.errors import StudyError
from evogt_study.methods.local_files import find_module_file, is_local
from evogt_study.methods.syntax import iterate_codes, unwrap
from evogt_study.schema.parameters import Parameter, integer
from evogt_study.schema.values import Values, canonical_json

RNG, SEED = "rng", "seed"
ALL, NONE = "all", "none"
Common = str | tuple[str, ...]
"""Parameters along which equal seeds share one stream: `ALL`, `NONE` or names."""
STREAMS = "streams"
"""Attribute of the coordinate `seed`: a JSON object whose entry `common` has the type `Common`."""
GENERATORS = (
    np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence, random.Random,
)  # fmt: skip
GLOBAL_GENERATORS = (getattr(mtrand, "_rand", None), getattr(random, "_inst", None))
"""Global generators of ``numpy.random`` and `random`.  The package seeds them before each run."""
CACHED = type(functools.lru_cache(lambda: None))
"""Type of functions with the decorator `functools.cache` or `functools.lru_cache`."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
MAX_OBJECTS = 100_000
"""Largest number of objects to search, which takes 0.3 s.  A larger graph is library data, such as a mesh."""


def add_seed(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the parameters of a function.  If the function has `rng`, add `seed` and make `rng` optional."""
    if RNG not in parameters:
        return dict(parameters)
    known = parameters[SEED].default if SEED in parameters else None
    default = None if isinstance(known, bool) or not isinstance(known, (int, np.integer)) else known
    seed = Parameter(
        SEED, "an integer >= 0", integer(0), "seed of the random stream", default=default,
        remedy="set `seed` in [axes] or [constants]. It decides the generator `rng`",
    )  # fmt: skip
    return {**parameters, RNG: replace(parameters[RNG], default=None, optional=True), SEED: seed}


def hash_words(values: Values, common: Common) -> list[int]:
    """Return 8 integers that identify the stream of a case, or none if equal seeds share one stream everywhere.

    `values` also holds the name of the function under "method" and the problem under "problem".
    """
    shared = {*values} if common == ALL else {SEED, *(common if isinstance(common, tuple) else ())}
    own = {name: value for name, value in values.items() if name not in shared}
    if not own:
        return []
    # of text, so that they are the same on every platform
    digest = hashlib.sha256(canonical_json(own).encode()).digest()
    return [int(word) for word in np.frombuffer(digest, dtype=">u4")]


def make_generator(values: Values, common: Common) -> np.random.Generator:
    """Return the generator of a case, which is ``default_rng(seed)`` if equal seeds share one stream everywhere."""
    seed: Any = values[SEED]
    return np.random.default_rng(np.random.SeedSequence([int(seed), *hash_words(values, common)]))


class _LateSeed(np.random.MT19937):
    """Global generator of ``numpy.random`` that is seeded from the run key at the first draw of a run.

    Seeding takes 8 us, a fifth of a trivial run.  NumPy enters the `lock` of a generator before each draw.  Until the
    first draw, this object is the lock and seeds the generator.
    """

    key, is_late = "", False
    """`key` is the run key until the generator is seeded.  `is_late` is true while the lock seeds the generator."""

    @property
    def lock(self) -> Any:  # type: ignore[override]
        return self if self.is_late else super().lock

    def install(self, key: str) -> None:
        """Install this generator in ``numpy.random`` for the run with the run key `key`."""
        self.key = ""
        if not self.is_late or mtrand.get_bit_generator() is not self:  # a run has drawn, or replaced it
            self.is_late = True
            mtrand.set_bit_generator(self)  # it enters the lock
        self.key = key

    def __enter__(self) -> None:
        super().lock.acquire()
        self.seed_now()

    def __exit__(self, *raised: object) -> None:
        super().lock.release()

    def seed_now(self) -> None:
        """Seed the generator if it is not seeded, and restore its usual lock."""
        if self.key:
            key, self.key, self.is_late = self.key, "", False
            super()._legacy_seeding(np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype="<u4"))
            if mtrand.get_bit_generator() is self:  # else a run replaces it now
                mtrand.set_bit_generator(self)

    def _legacy_seeding(self, seed: Any) -> None:  # by ``np.random.seed``
        self.seed_now()
        super()._legacy_seeding(seed)

    @property
    def state(self) -> Any:
        self.seed_now()
        return super().state

    @state.setter
    def state(self, value: Any) -> None:
        self.seed_now()
        np.random.MT19937.state.__set__(self, value)  # type: ignore[attr-defined]


_LateSeed.__name__ = np.random.MT19937.__name__  # which NumPy compares before it takes a state


@contextmanager
def isolate_global_draws() -> Iterator[Callable[[str], None]]:
    """Yield a function that seeds `random` and ``numpy.random`` from a run key.  Restore both generators at the end."""
    late = _LateSeed(0)

    def seed_draws(key: str) -> None:
        random.seed(key)
        late.install(key)

    python, bits, numpy = random.getstate(), mtrand.get_bit_generator(), np.random.get_state(legacy=False)
    try:
        yield seed_draws
    finally:
        random.setstate(python)
        mtrand.set_bit_generator(bits)
        np.random.set_state(numpy)


def check_generators(function: Any, reference: str) -> None:
    """Raise StudyError if a function captures a random generator."""
    waiting, seen = deque([("", function)]), dict[int, Any]()
    while waiting and len(seen) < MAX_OBJECTS:
        name, value = waiting.popleft()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen[id(value)] = value  # with the value, so that no other has its number
        if isinstance(value, GENERATORS):
            if not isinstance(value, random.SystemRandom) and not any(value is each for each in GLOBAL_GENERATORS):
                raise StudyError(
                    f"`{name or type(value).__name__}` of {reference} is a random generator, whose draws every worker "
                    "would repeat. Add an argument `rng` to the function, or create the generator inside the function "
                    "with np.random.default_rng(seed)"
                )
            continue
        waiting.extend(_list_parts(name, value))


def _list_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each object that a value refers to, with a name for messages."""
    before = f"{name}." if name else ""
    if isinstance(value, FunctionType):
        yield from _list_captured(value)
    elif isinstance(value, functools.partial):
        yield name, value.func
        yield from ((f"argument {number}", each) for number, each in enumerate(value.args, 1))
        yield from value.keywords.items()
    elif isinstance(value, (MethodType, BuiltinFunctionType)):
        yield name, getattr(value, "__func__", None)
        yield name, value.__self__
    elif isinstance(value, (staticmethod, classmethod, property, functools.cached_property, CACHED)):
        yield name, unwrap(value)
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
        yield from ((f"{before}{each}", part) for each, part in _list_attributes(value))


def _list_attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each attribute of an object, without calls of properties or `__getattr__`."""
    with suppress(AttributeError, TypeError):
        yield from object.__getattribute__(value, "__dict__").items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError, TypeError):
                yield slot, object.__getattribute__(value, slot)


def _list_captured(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the defaults, the closure values and the used globals of a function."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    yield from zip(positional[::-1], (function.__defaults__ or ())[::-1], strict=False)
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it may have no value yet
            yield name, cell.cell_contents
    if is_local(sys.modules.get(function.__module__ or "")):
        names, modules, attributes = _list_names(code)
        for name in modules - sys.modules.keys():  # files beside it that it imports when it is called
            if find_module_file(Path(code.co_filename).parent, name) is not None:
                with suppress(Exception):  # the run shows the error
                    importlib.import_module(name)
        values = {name: function.__globals__[name] for name in names if name in function.__globals__}
        values |= {name: sys.modules[name] for name in modules if name in sys.modules}
        for name, value in values.items():
            yield from _list_used(name, value, attributes) if isinstance(value, ModuleType) else [(name, value)]


def _list_used(name: str, module: ModuleType, attributes: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a user module that the code of a function names."""
    if is_local(module):
        for each in sorted(attributes & vars(module).keys()):
            value = vars(module)[each]
            if isinstance(value, ModuleType):
                if value.__name__.startswith(f"{module.__name__}."):
                    yield from _list_used(f"{name}.{each}", value, attributes)
            else:
                yield f"{name}.{each}", value


# only LOAD_GLOBAL shows that a function uses a global: `co_names` has attributes too
def _list_names(code: CodeType) -> tuple[set[str], set[str], set[str]]:
    """Return the names of globals, imported modules and attributes in code, including nested functions."""
    names, modules, attributes = set[str](), set[str](), set[str]()
    for inner in iterate_codes(code):
        attributes.update(inner.co_names)
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(str(instruction.argval))
            elif instruction.opname == "IMPORT_NAME":
                modules.add(str(instruction.argval))
    return names, modules, attributes
