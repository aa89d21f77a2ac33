"""Random streams: the generator `rng` of a run, and draws without a seed.

`check_generators` refuses functions that capture a generator: each worker would have a copy and repeat the draws of the
others.  Only what a function uses when it is called counts: not a generator from which its file made a constant array.

A user function with an argument `rng` that the study does not set receives a generator.  The seed and a hash of the
case decide its stream.  Draws from `random` and ``numpy.random`` that use no generator depend on the run key.
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
"""Parameters along which a seed is one stream: `ALL`, `NONE`, or names."""
STREAMS = "streams"
"""Attribute of the coordinate `seed`: JSON with `common`, the parameters along which a seed is one stream."""
GENERATORS = (
    np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence, random.Random,
)  # fmt: skip
GLOBAL_GENERATORS = (getattr(mtrand, "_rand", None), getattr(random, "_inst", None))
"""The generators behind ``np.random`` and `random`, which are seeded before each run."""
CACHED = type(functools.lru_cache(lambda: None))
"""The type that `functools.lru_cache` and `functools.cache` give a function."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
MAX_OBJECTS = 100_000
"""Largest number of objects that are searched, in 0.3 s.  A larger graph is data of a library, such as a mesh."""


def add_seed(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the parameters of a function.  A function with `rng` also has a `seed`, and `rng` may have no value."""
    if RNG not in parameters:
        return dict(parameters)
    known = parameters[SEED].default if SEED in parameters else None
    default = None if isinstance(known, bool) or not isinstance(known, (int, np.integer)) else known
    seed = Parameter(
        SEED, "an integer >= 0", integer(0), "seed of the random stream", default=default,
        remedy="the generator `rng` is made from it: set it in [axes] or [constants]",
    )  # fmt: skip
    return {**parameters, RNG: replace(parameters[RNG], default=None, optional=True), SEED: seed}


def hash_words(values: Values, common: Common) -> list[int]:
    """Return the integers of a case: none if its seed is one stream everywhere, else 8, of its other parameters.

    values: also the name of the function under "method", and the problem under "problem", which can be axes.
    """
    shared = {*values} if common == ALL else {SEED, *(common if isinstance(common, tuple) else ())}
    own = {name: value for name, value in values.items() if name not in shared}
    if not own:
        return []
    # of text, so that they are the same on every platform
    digest = hashlib.sha256(canonical_json(own).encode()).digest()
    return [int(word) for word in np.frombuffer(digest, dtype=">u4")]


def make_generator(values: Values, common: Common) -> np.random.Generator:
    """Return the generator of a case.  If its seed is one stream everywhere, it is ``default_rng(seed)``."""
    seed: Any = values[SEED]
    return np.random.default_rng(np.random.SeedSequence([int(seed), *hash_words(values, common)]))


class _LateSeed(np.random.MT19937):
    """Generator behind ``numpy.random`` that is seeded from a run key when the run first uses it.

    Seeding takes 8 us, a fifth of a trivial run.  NumPy enters the `lock` of its generator before it draws, so a lock
    that seeds is in its place until then.
    """

    key, is_late = "", False
    """The run key until the generator is seeded from it, and whether `lock` seeds."""

    @property
    def lock(self) -> Any:  # type: ignore[override]
        return self if self.is_late else super().lock

    def install(self, key: str) -> None:
        """Make this the generator of ``numpy.random`` for a run."""
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
        """Seed the generator unless it is seeded, and let NumPy draw without this lock."""
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
    """Yield a function that seeds `random` and ``numpy.random`` from a run key; restore both at the end."""
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
                    "would repeat; let the function have an argument `rng`, or make the generator inside the function "
                    "with np.random.default_rng(seed)"
                )
            continue
        waiting.extend(_list_parts(name, value))


def _list_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value refers to, with names for messages."""
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
    """Yield what an object holds.  Nothing is computed: neither properties nor `__getattr__` are called."""
    with suppress(AttributeError, TypeError):
        yield from object.__getattribute__(value, "__dict__").items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError, TypeError):
                yield slot, object.__getattribute__(value, slot)


def _list_captured(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield defaults, closure, and the globals that its code names."""
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
    """Yield what the code of a function names of a module of the user."""
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
    """Return the names of globals, of imported modules, and of attributes, in code and in the functions inside it."""
    names, modules, attributes = set[str](), set[str](), set[str]()
    for inner in iterate_codes(code):
        attributes.update(inner.co_names)
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(str(instruction.argval))
            elif instruction.opname == "IMPORT_NAME":
                modules.add(str(instruction.argval))
    return names, modules, attributes
