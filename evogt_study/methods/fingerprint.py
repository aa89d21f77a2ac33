"""Hash the code that a function depends on, so that a change of other code changes no run key.

- `used_content`, `file_content` and `imported_files` read Python files as syntax trees.  They execute and import
  nothing.  Comments, docstrings and layout do not count, nor do other functions of the file.
- `Content` walks through a function as an object, with its globals, defaults and enclosed variables.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

UNKNOWN_NAMES = frozenset({"eval", "exec", "globals", "vars", "__import__"})
"""Names that reach others by text: of a function that uses one of these the whole file counts."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NO_CODE = ("ctx", "type_comment", "kind", "lineno", "end_lineno")
CACHED = type(functools.lru_cache(lambda: None))
"""What `functools.lru_cache` and `functools.cache` make of a function."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)
# what Python puts into every class, which says nothing of what it computes and differs between versions
_OWN_OF_CLASSES = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__")
_PLACES = tuple(Path(place) for place in {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


@lru_cache(maxsize=32)
def used_content(source: str, attribute: str) -> str:
    """Hash of the top-level statements on which `attribute` depends, through the names that they use in turn.

    Raises SyntaxError for what is no Python.
    """
    statements = [_Statement(node) for node in ast.parse(source).body]
    return _hash([_shape(statement.node) for statement in _used(statements, attribute)])


@lru_cache(maxsize=32)
def whole_content(source: str) -> str:
    """Hash of a whole file's code.  Raises SyntaxError for what is no Python."""
    return _hash(_shape(ast.parse(source)))


def file_content(path: Path) -> str:
    """Hash of a file: of its code where it is Python, else of its bytes.  Raises OSError."""
    data = path.read_bytes()
    if path.suffix == ".py":
        try:
            return whole_content(data.decode("utf-8-sig"))
        except (SyntaxError, ValueError):
            pass
    # Python of another version, or none, counts by its bytes
    return hashlib.sha256(data).hexdigest()


def _hash(shape: Any) -> str:
    return hashlib.sha256(json.dumps(shape).encode()).hexdigest()


def _shape(node: Any) -> Any:
    """A syntax tree as nested lists without what is empty, which is the same in all versions of Python."""
    if isinstance(node, list):
        return [_shape(each) for each in node]
    if not isinstance(node, ast.AST):
        return node if node is None or isinstance(node, (str, int, bool)) else [type(node).__name__, repr(node)]
    fields = {name: value for name, value in ast.iter_fields(node) if name not in _NO_CODE}
    if isinstance(node, (*_DEFINITIONS, ast.Module)):
        fields["body"] = _without_docstring(node.body)
    if isinstance(node, ast.Constant):
        return ["Constant", type(node.value).__name__, repr(node.value)]
    return [type(node).__name__, *([name, _shape(value)] for name, value in fields.items() if value not in (None, []))]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return body[1:] if body and _is_text(body[0]) else body


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@dataclass(frozen=True)
class _Statement:
    """A statement at the top level of a file."""

    node: ast.stmt

    @cached_property
    def uses(self) -> frozenset[str]:
        """All names in it, local ones too."""
        # too many rather than too few: a change that is missed would bring back an old result
        return frozenset(node.id for node in ast.walk(self.node) if isinstance(node, ast.Name))

    @cached_property
    def binds(self) -> frozenset[str]:
        """Names that it may give a meaning in the file."""
        return frozenset(_bound(self.node))

    @cached_property
    def affects(self) -> frozenset[str]:
        """Names whose values it may change without binding them."""
        if isinstance(self.node, (*_DEFINITIONS, ast.Import, ast.ImportFrom)) or self.is_idle:
            return frozenset()
        if isinstance(self.node, (ast.Assign, ast.AnnAssign)):
            return frozenset(_changed(self.node))
        return self.uses

    @property
    def is_idle(self) -> bool:
        """True of docstrings and of what a script does under its guard."""
        test = ast.unparse(self.node.test) if isinstance(self.node, ast.If) else ""
        return _is_text(self.node) or test in ("__name__ == '__main__'", "'__main__' == __name__")


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, _DEFINITIONS):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def _changed(node: ast.AST) -> Iterator[str]:
    """Names of the variables whose entries or attributes an assignment sets, or of which it calls a method."""
    for part in ast.walk(node):
        inner: ast.AST | None = None
        if isinstance(part, (ast.Attribute, ast.Subscript)) and isinstance(part.ctx, ast.Store):
            inner = part
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            inner = part.func
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield inner.id


def _used(statements: Sequence[_Statement], attribute: str) -> list[_Statement]:
    """The statements that give `attribute` its meaning, in order; all where names are used that are not written."""
    imported = {
        name for each in statements if isinstance(each.node, (ast.Import, ast.ImportFrom)) for name in each.binds
    }
    # what a star import binds may be any of the names
    needed, kept = {attribute, "*"}, set[int]()
    while True:
        new = {
            number
            for number, each in enumerate(statements)
            if number not in kept and not each.is_idle and _concerns(each, needed, imported)
        }
        if not new:
            break
        kept |= new
        needed = needed.union(*(statements[number].uses | statements[number].binds for number in new))
    if needed & UNKNOWN_NAMES:
        return [each for each in statements if not each.is_idle]
    return [statements[number] for number in sorted(kept)]


def _concerns(statement: _Statement, needed: set[str], imported: set[str]) -> bool:
    # x = np.zeros(3) calls what a module has, by which the module is not changed
    plain = isinstance(statement.node, (ast.Assign, ast.AnnAssign))
    return bool(statement.binds & needed or (statement.affects - (imported if plain else set())) & needed)


def imported_files(path: Path, source: str, root: Path, package: str = "") -> dict[str, Path]:
    """Python files below `root` that a file imports, and those that they import, by their path from there.

    package: dotted name of the package that the file belongs to, if any; then files of others are left out.
    """
    found: dict[str, Path] = {}
    waiting = [(path, source, package)]
    while waiting:
        _, text, own = waiting.pop()
        for name in _imported_names(text, own):
            if package and name.partition(".")[0] != package.partition(".")[0]:
                continue
            for file, inner in _files_of(name, root):
                key = file.relative_to(root).as_posix()
                if key not in found and file != path:
                    found[key] = file
                    waiting.append((file, _text(file), inner))
    return dict(sorted(found.items()))


def _imported_names(source: str, package: str) -> Iterator[str]:
    """Dotted names of what may be modules; none where the file is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # one dot is the package itself, each further one the package above
            parts = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*filter(None, parts), *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)


def _files_of(name: str, root: Path) -> Iterator[tuple[Path, str]]:
    """Files that importing the dotted `name` runs, as far as they are below `root`, each with its package."""
    place = root
    parts = name.split(".")
    for number, part in enumerate(parts):
        place = place / part
        package = ".".join(parts[: number + 1])
        if (place / "__init__.py").is_file():
            yield place / "__init__.py", package
        elif place.with_suffix(".py").is_file():
            yield place.with_suffix(".py"), package.rpartition(".")[0]
            return


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ""


def helper_contents(files: Mapping[str, Path], folder: Path, depends: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The content of imported files that are not among those on which a study in `folder` depends."""
    listed = {(folder / name).resolve() for name in depends}
    return tuple((key, file_content(path)) for key, path in files.items() if path.resolve() not in listed)


def depended_contents(depends: Iterable[str], folder: Path) -> tuple[tuple[str, str], ...]:
    """The content of the files on which a study in `folder` depends.  Raises OSError, with the name first."""
    found = {}
    for name in depends:
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(2, "no such file", str(path))
        found[name] = file_content(path)
    return tuple(sorted(found.items()))


def python_file_sources(path: Path, folder: Path, depends: Sequence[str]) -> tuple[str, str]:
    """All text that follows from a Python file: its own, and the content of what it depends on and imports."""
    whole, source = path.resolve(), path.read_text(encoding="utf-8-sig")
    helpers = helper_contents(imported_files(whole, source, whole.parent), folder, depends)
    return source, json.dumps([depended_contents(depends, folder), helpers])


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
