"""Read Python text as statements in a normal form, with the names that each one binds, uses and changes.

It also finds the user's own modules, and the text that gave an object.
Nothing is executed or imported.  The normal form is the same on all supported versions of Python.  It has no comments,
docstrings, positions or layout.
"""

from __future__ import annotations

import ast
import cmath
import functools
import hashlib
import json
import linecache
import math
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from evogt_study.errors import StudyError, shorten
from evogt_study.storage.untrusted import hash_file, read_bytes

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NO_CODE = ("ctx", "type_comment", "type_ignores", "kind")
_GUARDS = ("__name__ == '__main__'", "'__main__' == __name__")


def shape(node: Any) -> Any:
    """Return a syntax tree as nested lists without empty parts."""
    if isinstance(node, list):
        return [shape(each) for each in node]
    if isinstance(node, ast.Constant):
        # the type too: 1, 1.0 and True are equal, but not the same to a function
        value = hex(node.value) if type(node.value) is int else repr(node.value)
        return ["Constant", type(node.value).__name__, value]
    if not isinstance(node, ast.AST):
        return node if node is None or isinstance(node, (str, int)) else [type(node).__name__, repr(node)]
    fields = {name: value for name, value in ast.iter_fields(node) if name not in _NO_CODE}
    if isinstance(node, (*DEFINITIONS, ast.Module)) and node.body and _is_text(node.body[0]):
        fields["body"] = node.body[1:]
    if isinstance(node, ast.JoinedStr):
        fields["values"] = list(_join_texts(node.values))
    made = [[name, shape(value)] for name, value in fields.items() if value is not None and value != []]
    if isinstance(node, ast.Set):  # its order means nothing
        made = [["elts", sorted(made[0][1], key=json.dumps)]]
    return [type(node).__name__, *made]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# Python 3.12 has an empty text between two fields
def _join_texts(values: Iterable[ast.expr]) -> Iterator[ast.expr]:
    text = ""
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            text += value.value
            continue
        if text:
            yield ast.Constant(text)
        yield value
        text = ""
    if text:
        yield ast.Constant(text)


def free_names(node: ast.AST) -> set[str]:
    """Return the names that a piece of code takes from its file, with the attributes behind them: "np.linalg.norm"."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        parts: list[str] = []
        inner: Any = node
        while isinstance(inner, ast.Attribute):
            inner, parts = inner.value, [inner.attr, *parts]
        return {".".join([inner.id, *parts])} if isinstance(inner, ast.Name) else free_names(inner)
    if isinstance(node, ast.Global):
        return {*node.names}
    if not isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS)):
        return _all_free(ast.iter_child_nodes(node))
    outer, inside, local = _scope(node)
    found = {name for name in _all_free(inside) if name.partition(".")[0] not in local}
    return found | _all_free(outer)


def _all_free(nodes: Iterable[ast.AST]) -> set[str]:
    return set[str]().union(*map(free_names, nodes))


def _scope(node: Any) -> tuple[list[ast.AST], list[ast.AST], set[str]]:
    """The parts of a function or comprehension outside and inside of its scope, and its local names."""
    if isinstance(node, _COMPREHENSIONS):
        first = node.generators[0].iter
        inside = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.comprehension)]
        inside += [each for part in node.generators for each in (part.target, *part.ifs)]
        inside += [part.iter for part in node.generators[1:]]
        return [first], inside, {name for part in node.generators for name in bound_names(part.target)}
    body = node.body if isinstance(node.body, list) else [node.body]
    outer = [part for part in ast.iter_child_nodes(node) if part not in body]  # decorators, defaults, annotations
    arguments = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    elsewhere = {name for part in body for name in _declared_names(part)}
    return outer, body, {*arguments, *(name for part in body for name in bound_names(part))} - elsewhere


def _declared_names(node: ast.AST) -> Iterator[str]:
    """Names that a function declares as global or nonlocal."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names
    elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from _declared_names(child)


def bound_names(node: ast.AST) -> Iterator[str]:
    """Names that a statement may bind in the scope in which it is."""
    if isinstance(node, DEFINITIONS):
        yield node.name
    elif isinstance(node, _COMPREHENSIONS):
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr):
                yield part.target.id
    elif isinstance(node, IMPORTS):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif not isinstance(node, ast.Lambda):
        name = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None)
        if isinstance(name, str):  # of an exception or a pattern
            yield name
        for child in ast.iter_child_nodes(node):
            yield from bound_names(child)


def _changed_names(node: ast.AST) -> Iterator[str]:
    """Names of variables that code sets as globals, whose entries or attributes it sets, or whose methods it calls."""
    for part in ast.walk(node):
        inner: ast.AST | None = None
        if isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(part.ctx, ast.Load):
            inner = part
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            inner = part.func
        elif isinstance(part, ast.Global):
            yield from part.names
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield inner.id


@dataclass(frozen=True)
class Import:
    """One import: `module` bound to `name`, or its `attribute`, which may be a module too.

    name: "" inside of a function, "*" for all names.  level: leading dots.
    """

    name: str
    module: str
    attribute: str = ""
    level: int = 0


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement at the top level of a file."""

    node: ast.stmt

    @cached_property
    def form(self) -> Any:
        """Its `shape`."""
        return shape(self.node)

    @cached_property
    def uses(self) -> frozenset[str]:
        """Names with attributes that it takes from the file."""
        return frozenset(free_names(self.node))

    @cached_property
    def binds(self) -> frozenset[str]:
        """Names that it may give a meaning in the file."""
        return frozenset(bound_names(self.node))

    @cached_property
    def runs(self) -> frozenset[str]:
        """Names that it uses when the file is imported."""
        if isinstance(self.node, _FUNCTIONS):
            return frozenset(roots(_all_free(_scope(self.node)[0])))
        return frozenset(roots(self.uses))

    @cached_property
    def changes(self) -> frozenset[str]:
        """Names whose values it changes without binding them, or code in it when it is called."""
        if isinstance(self.node, (*DEFINITIONS, *IMPORTS, ast.Assign, ast.AnnAssign)) or self.is_idle:
            return frozenset(_changed_names(self.node))
        return frozenset(roots(self.uses))

    @cached_property
    def is_idle(self) -> bool:
        """True of docstrings and of what a script does under its guard."""
        return _is_text(self.node) or (isinstance(self.node, ast.If) and ast.unparse(self.node.test) in _GUARDS)

    @property
    def assigned(self) -> ast.expr | None:
        """The value of ``name = value``; None for other statements."""
        node = self.node
        is_name = isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        return node.value if isinstance(node, ast.Assign) and is_name else None

    @cached_property
    def calls(self) -> bool:
        """True of a statement that is more than a definition, an import or a value: its place among others counts."""
        if isinstance(self.node, (*DEFINITIONS, *IMPORTS)):
            return False
        if self.assigned is None:
            return True
        calls = [part for part in ast.walk(self.assigned) if isinstance(part, (ast.Call, ast.Await))]
        # the only text of a set may be a call
        sets = {"set", "frozenset"}
        return any(getattr(getattr(part, "func", None), "id", "") not in sets for part in calls)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """All imports in it, also inside of functions."""
        found = []
        for part in ast.walk(self.node):
            for alias in part.names if isinstance(part, IMPORTS) else ():
                name = (alias.asname or alias.name).partition(".")[0]
                name = name if name in self.binds else ""
                if isinstance(part, ast.ImportFrom):
                    found.append(Import(name, part.module or "", alias.name, part.level))
                else:
                    found.append(Import(name, alias.name if alias.asname or not name else name))
        return tuple(found)


def module_name(each: Import, package: str) -> str:
    """Return the dotted name of the module that a file of `package` imports."""
    # one dot is the package itself, each further one the package above
    parts = package.split(".")[: len(package.split(".")) + 1 - each.level] if each.level else []
    return ".".join([*filter(None, parts), *([each.module] if each.module else [])])


def roots(names: Iterable[str]) -> Iterator[str]:
    """Return the names without the attributes behind them."""
    return (name.partition(".")[0] for name in names)


@lru_cache(maxsize=64)
def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a file, each import and each value as one.  Raises SyntaxError for no Python."""
    return tuple(Statement(part) for node in ast.parse(text).body for part in _single(node))


def _single(node: ast.stmt) -> Iterator[ast.stmt]:
    """A statement as several: ``import a, b``, ``a = b = 1`` and ``a, b = 1, 2``; ``a: int = 1`` without its type."""
    if isinstance(node, ast.Import):
        yield from (ast.Import([alias]) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (ast.ImportFrom(node.module, [alias], node.level) for alias in node.names)
    elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
        yield ast.Assign([node.target], node.value)
    elif isinstance(node, ast.Assign) and len(node.targets) > 1 and isinstance(node.value, ast.Constant):
        for target in node.targets:
            yield from _single(ast.Assign([target], node.value))
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, (ast.Tuple, ast.List)):
        # only constants: a, b = b, a is more than a = b and b = a
        names, values = getattr(node.targets[0], "elts", []), node.value.elts
        is_plain = len(names) == len(values) > 0 and all(map(_is_constant, values))
        if is_plain and all(isinstance(each, ast.Name) for each in names):
            yield from (ast.Assign([target], value) for target, value in zip(names, values, strict=True))
        else:
            yield node
    else:
        yield node


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def content_of(path: Path) -> str:
    """Return the hash of a file: of its code if it is Python, else of its bytes.  Raises OSError."""
    if path.suffix == ".py":
        try:
            return _whole_hash(read_bytes(path).decode("utf-8-sig"))
        except (SyntaxError, ValueError, RecursionError):
            pass
    return hash_file(path)  # Python of another version, or none, counts by its bytes


@lru_cache(maxsize=64)
def _whole_hash(text: str) -> str:
    return hash_of(shape(ast.parse(text)))


def hash_of(form: Any) -> str:
    """Return the hash of nested lists of strings and integers."""
    return hashlib.sha256(json.dumps(form, separators=(",", ":")).encode()).hexdigest()


PACKAGE = "evogt_study"
_PLACES = tuple(Path(place) for place in {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def read_source(path: Path) -> str:
    """Return the text of a file; empty if it is no text."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except (OSError, ValueError):
        return ""


def module_path(folder: Path, name: str) -> Path | None:
    """The file of a module below `folder`, or the folder of a package without a file of its own."""
    place = folder.joinpath(*name.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return place if place.is_dir() and any(place.glob("*.py")) else None


def search_folder(top: str) -> Path | None:
    """The folder on Python's path in which a module of the user's own is; None for any other name."""
    for place in sys.path if top not in sys.stdlib_module_names else ():
        path = module_path(Path(place), top)
        if path is not None and path.is_file():
            return Path(place).resolve() if is_local_path(path) else None
    return None


def is_local(module: ModuleType | None) -> bool:
    """True of a module of the user's own: a script, a notebook, or a file that is not installed."""
    if module is None or module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    package = module.__name__.partition(".")[0]
    if file is None or package == PACKAGE or package in sys.stdlib_module_names:
        return False
    return is_local_path(Path(file))


@lru_cache(maxsize=4096)
def is_local_path(path: Path) -> bool:
    """Return True for a file that is not installed."""
    path = path.resolve()
    # packages of a user, and of a parent environment, are in none of these places but in a folder of this name
    return not any(path.is_relative_to(place) for place in _PLACES) and "site-packages" not in path.parts


def find_imported_files(path: Path, source: str, root: Path, package: str = "") -> dict[str, Path]:
    """Python files below `root` that a file imports, and those that they import, by their path from there.

    package: dotted name of the package that the file belongs to, if any.  Its own files count, and files of other
    packages do not.
    """
    found: dict[str, Path] = {}
    names = [*_import_candidates(source, package), *([package] if package else [])]
    while names:
        name = names.pop()
        if package and name.partition(".")[0] != package.partition(".")[0]:
            continue
        for file, inner in _files_of(name, root):
            key = file.relative_to(root).as_posix()
            if key not in found and file != path:
                found[key] = file
                names += _import_candidates(read_source(file), inner)
    return dict(sorted(found.items()))


def code_hash(
    path: Path, source: str, root: Path, package: str, folder: Path, depends: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    """The SHA-256 of each file, as a whole, that running a Python file imports, and of those on which it depends.

    Of an installed package only the file itself counts: all of a large one would take seconds.

    Files have their paths from `root`, or from the study's `folder` if the code is in a package; "" is the file itself.
    Raises StudyError if one cannot be read.
    """
    whole = folder.resolve()
    listed = {os.path.relpath(whole / name, whole if package else root): whole / name for name in depends}
    is_installed = package.partition(".")[0] == PACKAGE or not is_local_path(path)
    imported = {} if is_installed else find_imported_files(path, source, root, package)
    files = {"": path} | listed | imported
    try:
        return tuple((name, hash_file(each)) for name, each in sorted(files.items()))
    except OSError as error:
        raise StudyError(f"{path} cannot be imported: {error.filename}: {error.strerror}") from None


def hash_depends(names: Iterable[str], folder: Path) -> tuple[tuple[str, str], ...]:
    """The files that a study depends on, relative to `folder`, with their content.  Raises StudyError."""
    found = {}
    try:
        for name in names:
            found[name] = content_of(folder / name)
    except (OSError, ValueError) as error:
        raise StudyError(f"`depends` must list readable files, got {shorten(str(error))}") from None
    return tuple(sorted(found.items()))


def python_file_sources(path: Path, folder: Path, depends: Sequence[str]) -> tuple[str, str]:
    """All text that follows from a Python file: its own, and the content of what it depends on and imports."""
    whole, source = path.resolve(), read_source(path)
    return source, json.dumps(
        [hash_depends(depends, folder), code_hash(whole, source, whole.parent, "", folder, depends)]
    )


def _import_candidates(source: str, package: str) -> Iterator[str]:
    """Dotted names of what may be modules; none where the file is no Python."""
    try:
        parts = statements(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    is_dynamic = any(word in source for word in IMPORTS_BY_TEXT)
    for node in (node for part in parts for node in ast.walk(part.node)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module_name(Import("", node.module or "", "", node.level), package)
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_dynamic:
            yield from [node.value] if all(map(str.isidentifier, node.value.split("."))) else []


def _files_of(name: str, root: Path) -> Iterator[tuple[Path, str]]:
    """Files that importing the dotted `name` runs, as far as they are below `root`, each with its package."""
    parts = name.split(".")
    for inner in (".".join(parts[: number + 1]) for number in range(len(parts))):
        path = module_path(root, inner)
        if path is not None and path.is_file():
            yield path, inner if path.name == "__init__.py" else inner.rpartition(".")[0]


IMPORTS_BY_TEXT = ("import_module", "__import__", "runpy", "exec")
"""Names in a file that may import a module by its name in a string."""
CACHED = type(functools.lru_cache(lambda: None))
"""What `functools.lru_cache` and `functools.cache` make of a function."""
MAX_LITERAL, MAX_NESTED = 5_000, 60
"""Entries of a value that counts as its text, and how deep they may be nested: Python reads 100 brackets."""
LITERALS = (bool, int, float, complex, str, bytes, type(None), type(...))


@lru_cache(maxsize=32)
def codes_of(text: str) -> Mapping[str, Sequence[CodeType]]:
    """Return the compiled code of all functions in a text by their qualified names; none for no Python."""
    found: dict[str, list[CodeType]] = {}
    try:
        # a notebook compiles each statement of a cell alone, and a call of an imported name is other code then
        parts: list[Any] = [text, *(ast.Module([node], []) for node in ast.parse(text).body)]
        for part in parts:
            for each in iterate_codes(compile(part, "<text>", "exec", dont_inherit=True)):
                found.setdefault(each.co_qualname, []).append(each)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return found


@lru_cache(maxsize=32)
def _nodes_of(text: str) -> Mapping[tuple[str, int], Sequence[Any]]:
    """The definitions of the functions in a text, by name and first line."""
    found: dict[tuple[str, int], list[Any]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _FUNCTIONS):
            lines = [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]
            found.setdefault((getattr(node, "name", "<lambda>"), min(lines)), []).append(node)
    return found


def iterate_codes(code: CodeType) -> Iterator[CodeType]:
    """Compiled code, and the code of the functions inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from iterate_codes(each)


def code_form(code: CodeType) -> Any:
    """Return nested lists that stand for compiled code, wherever it is."""
    constants = [
        code_form(each)
        if isinstance(each, CodeType)
        else sorted(map(repr, each))
        if isinstance(each, frozenset)
        else repr(each)
        for each in code.co_consts
    ]
    # without the flags of `from __future__`, which a notebook's cell has from earlier cells
    names = [list(code.co_names), list(code.co_varnames), list(code.co_freevars), code.co_flags & 0xFFF]
    return [code.co_code.hex(), code.co_exceptiontable.hex(), names, constants]


def literal(value: Any) -> str | None:
    """The value as Python text; None for a value without a literal form, or with one of more than `MAX_LITERAL`."""
    try:
        return repr(value) if _entries(value, {}) <= MAX_LITERAL else None
    except ValueError:  # an integer that is too long
        return None


def _entries(value: Any, known: dict[int, float], depth: int = 0) -> float:
    """Number of the entries of a literal, each as often as it is written; infinite for anything else."""
    kind = type(value)
    if kind in (float, complex):  # not infinity, and no complex number with a zero that loses its sign
        return 1 if cmath.isfinite(value) and repr(ast.literal_eval(repr(value))) == repr(value) else math.inf
    if kind not in (list, tuple, set, frozenset, dict):
        return 1 if kind in LITERALS else math.inf
    if depth > MAX_NESTED:
        return math.inf
    if id(value) not in known:
        known[id(value)] = math.inf  # if it contains itself
        entries = 1.0
        for each in value if kind is not dict else [*value, *value.values()]:
            entries += _entries(each, known, depth + 1)
            if entries > MAX_LITERAL:
                return math.inf
        known[id(value)] = entries
    return known[id(value)]


def is_made_of_literals(value: Any) -> bool:
    """True of a function that captures only literals: what was called to make it is in the text."""
    parts = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    if isinstance(value, functools.partial):
        parts = [value.func, *value.args, *value.keywords.values()]
    is_function = isinstance(value, (functools.partial, FunctionType, CACHED))
    return is_function and all(literal(part) is not None or isinstance(part, (FunctionType, type)) for part in parts)


def unwrap(value: Any) -> Any:
    """The function behind a decorator or a descriptor."""
    for _ in range(20):
        inner = vars(value).get("__wrapped__") if hasattr(value, "__dict__") else None
        inner = inner or (value.__func__ if isinstance(value, (staticmethod, classmethod)) else None)
        inner = inner or (value.fget if isinstance(value, property) else None)
        inner = inner or (value.func if isinstance(value, functools.cached_property) else None)
        if inner is None:
            break
        value = inner
    return value


def node_of(function: FunctionType) -> ast.stmt | ast.expr | None:
    """The definition of a function in the text that Python knows of it; None if that gives other code."""
    code, file = function.__code__, function.__code__.co_filename
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, function.__globals__))
    same = [each for each in codes_of(text).get(code.co_qualname, ()) if each.co_firstlineno == code.co_firstlineno]
    if not any(code_form(each) == code_form(code) for each in same):
        return None
    found = [*_nodes_of(text).get((code.co_name, code.co_firstlineno), ())]
    if len(found) > 1:  # several lambdas on one line: the smallest that contains the code
        places = [
            (line, column) for line, last, column, end in code.co_positions() if last and end and column is not None
        ]
        first, last = min(places[1:] or places), max(places)
        found = [
            node
            for node in found
            if (node.body.lineno, node.body.col_offset) <= first
            and last <= (node.body.end_lineno, node.body.end_col_offset)
        ]
        found.sort(key=lambda node: (node.end_lineno - node.lineno, node.end_col_offset - node.col_offset))
    return found[0] if found else None


def cells_of(names: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a notebook's cells, in their order, as far as Python knows them."""
    cells = names.get("In")
    if isinstance(cells, list) and all(isinstance(each, str) for each in cells):
        yield from (each for each in cells if codes_of(each))
        return
    own = [unwrap(value) for value in list(names.values())]
    own += [each for kind in own if isinstance(kind, type) for each in map(unwrap, vars(kind).values())]
    files = [each.__code__.co_filename for each in own if isinstance(each, FunctionType) and each.__globals__ is names]
    for file in sorted(set(files), key=files.index):
        text = "".join(linecache.getlines(file, dict(names)))
        if codes_of(text):
            yield text


def last_bindings(parts: Sequence[Statement]) -> list[Statement]:
    """The statements without definitions that a later cell has replaced; equal ones count once."""
    kept: list[Statement] = []
    last: dict[str, Any] = {}
    for part in reversed(parts):
        form, is_definition = part.form, isinstance(part.node, (*DEFINITIONS, *IMPORTS))
        if not part.binds or any(name not in last or not (is_definition or last[name] == form) for name in part.binds):
            kept.append(part)
            last |= dict.fromkeys(part.binds, form)
    return kept[::-1]
