"""The content of a function in memory: its code, and the values of all that it uses, whatever file or cell has them.

Two functions with equal content compute the same.  Line numbers, comments, docstrings and other functions beside it do
not count; what is installed counts by its name.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)
# what Python puts into every class, which says nothing of what it computes and differs between versions
_OWN_OF_CLASSES = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__")
_PLACES = tuple(Path(place) for place in {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def is_local(module: ModuleType | None) -> bool:
    """True of a module of the user's own: a script, a notebook, or a file that is not installed."""
    if module is None or module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    package = module.__name__.partition(".")[0]
    if file is None or package == "evogt_study" or package in sys.stdlib_module_names:
        return False
    path = Path(file).resolve()
    # a user's own packages, and those of a parent environment, are in none of these places, but in a folder so named
    return not any(path.is_relative_to(place) for place in _PLACES) and "site-packages" not in path.parts


@dataclass(eq=False)
class Content:
    """Walks through what a function is made of.  modules: the user's own of which it uses things, by name; whole: those
    that it uses as modules, of which only the name counts.

    seen: numbers of what was met, with the objects, so that none gets the identity of another.
    """

    modules: dict[str, ModuleType] = field(default_factory=dict)
    whole: dict[str, ModuleType] = field(default_factory=dict)
    seen: dict[int, tuple[int, Any]] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)

    def hash(self, function: Any) -> str:
        """Hash of the function's content."""
        self.add(function)
        return str(self.digest.hexdigest())

    def say(self, *words: object) -> None:
        """Add words to the hash, each with its length."""
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogatepass")
            # with the length, else "ab", "c" and "a", "bc" would be the same
            self.digest.update(b"%d:" % len(data) + data)

    def add(self, value: Any) -> None:
        """Add a value with all that it refers to."""
        if isinstance(value, _PLAIN):
            # with the type: 1, 1.0 and true are equal, but not the same to a function
            self.say(type(value).__name__, repr(value))
        elif id(value) in self.seen:
            self.say("seen", self.seen[id(value)][0])
        else:
            # before its parts, else what contains itself would never end
            self.seen[id(value)] = len(self.seen), value
            next((way for kinds, way in _WAYS if isinstance(value, kinds)), Content.add_object)(self, value)

    def add_all(self, kind: str, values: Iterable[Any]) -> None:
        """Add several values in order."""
        values = list(values)
        self.say(kind, len(values))
        for value in values:
            self.add(value)

    def add_named(self, kind: str, values: Mapping[Any, Any]) -> None:
        """Add a mapping in its order."""
        self.say(kind, len(values))
        for name, value in values.items():
            self.add(name)
            self.add(value)

    def add_function(self, function: FunctionType) -> None:
        """Add a function's code, defaults, enclosed variables and the globals that it names."""
        if self.is_installed(function):
            return
        self.add_code(function.__code__)
        self.add_all("defaults", function.__defaults__ or ())
        self.add_named("keywords", function.__kwdefaults__ or {})
        self.add_all("closure", function.__closure__ or ())
        names = sorted(set(_global_names(function.__code__)) & function.__globals__.keys())
        self.add_named("globals", {name: function.__globals__[name] for name in names})

    def add_code(self, code: CodeType) -> None:
        """Add compiled code without its name, place and docstring."""
        self.say("code", code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.say(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        # what a `try` covers is nowhere else; said where there is one, so that the others' keys stay
        if code.co_exceptiontable:
            self.say("exceptions", code.co_exceptiontable)
        has_text = bool(code.co_consts) and isinstance(code.co_consts[0], str) and _starts_with_text(code)
        self.add_all("constants", (None, *code.co_consts[1:]) if has_text else code.co_consts)

    def add_class(self, kind: type) -> None:
        """Add a class of the user's own with its bases and members."""
        if self.is_installed(kind):
            return
        members = {name: value for name, value in vars(kind).items() if name not in _OWN_OF_CLASSES}
        # of a dataclass: Field objects cannot be pickled, and say nothing more
        fields = members.pop("__dataclass_fields__", {})
        if fields:
            self.add_all("fields", ((each.name, each.default, each.default_factory) for each in fields.values()))
        self.add_all(kind.__qualname__, kind.__bases__)
        self.add_named("members", members)

    def is_installed(self, thing: Any) -> bool:
        """Add a thing of a module that is not the user's own by its name; False where it is none."""
        module = sys.modules.get(thing.__module__ or "")
        if is_local(module):
            if module is not None and module.__name__ != "__main__":
                self.modules[module.__name__] = module
            return False
        self.say("installed", thing.__module__, thing.__qualname__)
        return _found(module, thing.__qualname__) is thing

    def add_module(self, module: ModuleType) -> None:
        """Add a module by its name."""
        if is_local(module):
            self.whole[module.__name__] = module
        self.say("module", module.__name__)

    def add_array(self, array: Any) -> None:
        """Add an array's shape, type and values."""
        self.say("array", array.shape, array.dtype.descr)
        if array.dtype.hasobject:
            self.add_all("entries", array.ravel().tolist())
        else:
            self.say(np.ascontiguousarray(array).tobytes())

    def add_set(self, values: Any) -> None:
        """Add a set in an order that does not change."""
        self.say(type(values).__name__, *sorted(Content(self.modules, self.whole).hash(value) for value in values))

    def add_cached(self, function: Any) -> None:
        """Add the function behind a cache, which would be pickled by its name alone."""
        if not self.is_installed(function):
            self.add_all("cached", (function.__wrapped__, dict(function.cache_parameters())))

    def add_cell(self, cell: CellType) -> None:
        """Add an enclosed variable."""
        try:
            contents = cell.cell_contents
        except ValueError:  # it has no value yet
            contents = ...
        self.add(contents)

    def add_object(self, value: Any) -> None:
        """Add any other object by what it would be pickled as."""
        # by one protocol: the highest of each Python would give the same object other hashes
        made = value.__reduce_ex__(4)
        if isinstance(made, str):
            self.say("named", type(value).__module__, made)
        else:
            self.add_all("object", [list(part) if isinstance(part, Iterator) else part for part in made])


def _found(module: ModuleType | None, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _global_names(code: CodeType) -> Iterator[str]:
    """Names of globals that compiled code, and functions inside it, use."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _starts_with_text(code: CodeType) -> bool:
    """True where the first constant is a docstring: nothing loads it."""
    return not any(each.opname == "LOAD_CONST" and each.arg == 0 for each in dis.get_instructions(code))


CACHED = type(functools.lru_cache(lambda: None))
"""What `functools.lru_cache` and `functools.cache` make of a function."""
_WAYS: tuple[tuple[Any, Any], ...] = (
    (FunctionType, Content.add_function),
    (CACHED, Content.add_cached),
    (type, Content.add_class),
    (ModuleType, Content.add_module),
    (CodeType, Content.add_code),
    (MethodType, lambda self, value: self.add_all("method", (value.__func__, value.__self__))),
    (functools.partial, lambda self, value: self.add_all("partial", (value.func, value.args, value.keywords))),
    ((staticmethod, classmethod), lambda self, value: self.add_all("bound", (value.__func__,))),
    (property, lambda self, value: self.add_all("property", (value.fget, value.fset, value.fdel))),
    (functools.cached_property, lambda self, value: self.add_all("cached property", (value.func,))),
    (CellType, Content.add_cell),
    (BuiltinFunctionType, lambda self, value: self.add_all("built-in", (value.__qualname__, value.__self__))),
    (np.ndarray, Content.add_array),
    ((set, frozenset), Content.add_set),
    ((tuple, list), lambda self, value: self.add_all(type(value).__name__, value)),
    (dict, lambda self, value: self.add_named("dict", value)),
    (MappingProxyType, lambda self, value: self.add_named("mapping", value)),
)


def text_of(function: Any) -> str:
    """The source of a function, as far as Python knows it."""
    while isinstance(function, functools.partial):
        function = function.func
    kind = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""
