"""Hash the source that a user function depends on, so that a change of other code changes no run key.

The fingerprint is a hash of the definitions that a function uses: in its file, and in the user's own files that it
imports.  It is the same for a function that is named in a file and for a function that is given as an object.  Reading
a file executes and imports nothing.  Of an object, the text counts too, as far as the text gives the values that the
object uses.  Other values count as ``name = literal``.  A value without a literal form counts by its pickled content.

`Scope` is the text of one file.  `UsedCode` follows names within a file, into the user's own files that the file
imports, and, for an object, through the values that it captures.
"""

from __future__ import annotations

import ast
import builtins
import copyreg
import functools
import hashlib
import inspect
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from evogt_study.errors import CodeWarning, warn
from evogt_study.methods.streams import GLOBAL_GENERATORS
from evogt_study.methods.syntax import (
    CACHED,
    DEFINITIONS,
    IMPORTS,
    LITERALS,
    PACKAGE,
    Import,
    Statement,
    cells_of,
    code_form,
    codes_of,
    content_of,
    hash_of,
    is_local,
    is_local_path,
    is_made_of_literals,
    iterate_codes,
    last_bindings,
    literal,
    module_name,
    module_path,
    node_of,
    read_source,
    roots,
    search_folder,
    shape,
    statements,
    unwrap,
)

UNKNOWN_NAMES = frozenset({"eval", "exec", "globals", "vars", "__import__"})
"""Names that reach others by text: of a function that uses one of these the whole file counts."""


# what Python puts into every class, which says nothing of what it computes and differs between versions
_OWN_OF_CLASSES = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__")
_SAFE_PARTS = (
    ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Call, ast.keyword, ast.Name,
    ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip
_SAFE_CALLS = (
    range, list, tuple, dict, set, frozenset, float, int, str, bool, abs, len, min, max, sum, sorted, round, np.array,
    np.asarray, np.arange, np.linspace, np.logspace, np.geomspace, np.zeros, np.ones, np.full, np.eye, np.dtype,
    *(function for function in vars(math).values() if callable(function)),
)  # fmt: skip


@dataclass(frozen=True)
class Link:
    """A name of another file, or the file as a module."""

    scope: Scope
    name: str | None


@dataclass(eq=False)
class Scope:
    """The text of one file, or of the cells of a notebook, and the part of it that is used.

    folder: where its imports are searched first.  package: dotted name of its package.  names: the values of its names,
    if it was imported.  path: its file, or "".  kept: numbers of the statements that count, with what they import in
    functions.  links: imported names of the user's own files.  values: forms of values that count in place of the text.
    used: names with attributes that count.
    """

    statements: Sequence[Statement]
    folder: Path
    package: str = ""
    names: Mapping[str, Any] | None = None
    path: str = ""
    text: str = ""
    needed: set[str] = field(default_factory=set)
    kept: dict[int, list[Link]] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    @cached_property
    def binders(self) -> Mapping[str, list[int]]:
        """Numbers of the statements that bind each name."""
        found: dict[str, list[int]] = {}
        for number, statement in enumerate(self.statements):
            for name in () if statement.is_idle else statement.binds:
                found.setdefault(name, []).append(number)
        return found

    @cached_property
    def changers(self) -> Mapping[str, list[int]]:
        """Numbers of the statements that change the value of each name without binding it."""
        imported = {each.name for statement in self.statements for each in statement.imports}
        found: dict[str, list[int]] = {}
        for number, statement in enumerate(self.statements):
            if statement.is_idle or isinstance(statement.node, IMPORTS):
                continue
            is_definition = isinstance(statement.node, DEFINITIONS)
            own = set() if is_definition else set(statement.changes)
            # x = np.zeros(3) calls what a module has, by which the module is not changed
            own -= imported if isinstance(statement.node, ast.Assign) else set()
            for name in own | (self._names_changed_by(statement.runs) - imported):
                if name not in statement.binds:
                    found.setdefault(name, []).append(number)
        return found

    def _names_changed_by(self, called: Iterable[str]) -> set[str]:
        """Names that functions of the file change when they are called."""
        found, waiting, seen = set[str](), list(called), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            for statement in [self.statements[number] for number in self.binders.get(name, ())]:
                if isinstance(statement.node, DEFINITIONS):
                    found |= statement.changes & self.binders.keys()
                    waiting += roots(statement.uses)
        return found

    def is_settled(self, binders: Sequence[int]) -> bool:
        """Return True if one statement binds a name, once, and so each name that it uses: no loop, no second cell."""
        waiting, seen, known = [binders], set[int](), self.names or {}
        while waiting:
            binders = waiting.pop()
            if len(binders) != 1:
                return False
            if binders[0] in seen:
                continue
            seen.add(binders[0])
            statement = self.statements[binders[0]]
            if statement.assigned is None and not isinstance(statement.node, (*DEFINITIONS, *IMPORTS, ast.If, ast.Try)):
                return False
            names = {name for name in roots(statement.uses) if name in known and name[:2] != "__"}
            if any(not isinstance(known[name], ModuleType) for name in names & self.changers.keys()):
                return False
            waiting += [self.binders.get(name, []) for name in names]
        return True

    def has_code(self, function: Any) -> bool:
        """Return False for a function of this file whose text has changed since it was imported."""
        if not isinstance(function, FunctionType) or function.__globals__ is not self.names:
            return True
        code = function.__code__
        same = codes_of(self.text).get(code.co_qualname, ())
        return not same or any(code_form(each) == code_form(code) for each in same)


Making = Generator[Any, Any, Any]
"""Makes a form: yields the values inside of a value, and receives their forms."""
_MAX_READINGS = 4
"""Number of times that an object is read until its pickled content stays the same."""
_MAX_PARTS, _MAX_DEPTH = 2_000, 100
"""Largest size of a form that other forms contain as it is."""


class NestedForm(list[Any]):
    """The form of a value that contains others, with the number of its parts, and how deep they are nested.

    What several values share is written once for each, and so on inside of these: 30 levels are a billion parts.
    So other forms contain the hash of a large form.  It depends on the parts alone, not on which of them are shared.
    """

    extent: tuple[int, int]

    @staticmethod
    def of(parts: Any) -> NestedForm:
        """The form with these parts, or with their hash and what it refers to."""
        form = NestedForm(parts if isinstance(parts, list) else [parts])
        form.extent = _extent(list(form))
        if form.extent[0] > _MAX_PARTS or form.extent[1] > _MAX_DEPTH:
            order: list[Scope] = []
            return NestedForm.of(["hash", hash_of(_encode(form, order)), *(Link(scope, None) for scope in order)])
        return form


def _extent(form: Any) -> tuple[int, int]:
    if isinstance(form, NestedForm):
        return form.extent
    if not isinstance(form, (list, tuple)):
        return 1, 0
    inner = [_extent(part) for part in form]
    return 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)


class UnknownValueError(Exception):
    """The value of an expression is only known by executing user code."""


class UsedCode:
    """Walks through the definitions that a function uses.

    files: the user's files that it uses, with their content.  modules: modules of the user with functions that
    an object uses; whole: modules that it uses as a whole.  notes: why a value counts by more than its text.
    """

    def __init__(self) -> None:
        self.scopes: dict[Any, Scope] = {}
        self.waiting: list[tuple[Scope, str, bool]] = []
        self.files: dict[str, str] = {}
        self.modules: dict[str, ModuleType] = {}
        self.whole: dict[str, ModuleType] = {}
        self.notes: dict[str, str] = {}
        self._forms: dict[int, tuple[Any, Any]] = {}
        self._open: dict[int, int] = {}
        self.has_pickled = False

    # --- files ---

    def file(self, path: Path, folder: Path, package: str = "", text: str | None = None) -> Scope:
        """Return the scope of a file.  Raises SyntaxError for the text of no Python."""
        key = str(path)
        if key not in self.scopes:
            found = read_source(path) if text is None else text
            try:
                parts = statements(found)
            except (SyntaxError, ValueError, RecursionError):
                if text is not None:
                    raise
                parts = ()  # Python of another version counts by its bytes
            scope = self.scopes[key] = Scope(parts, folder, package, path=key)
            if path.is_file():
                self.files[key] = content_of(path)
                if found and not parts:
                    scope.values[""] = self.files[key]
        return self.scopes[key]

    def module(self, scope: Scope, name: str) -> Scope | None:
        """Return the scope of a module that `scope` imports; None unless it is one of the user's own."""
        known = sys.modules.get(name) if scope.names is not None else None
        if not name or name.partition(".")[0] == PACKAGE:
            return None
        if known is not None:
            return self.live(vars(known)) if is_local(known) else None
        top = name.partition(".")[0]
        is_installed = bool(scope.path) and not is_local_path(Path(scope.path))
        if is_installed and top != scope.package.partition(".")[0]:
            return None
        for folder in (scope.folder, search_folder(top)):
            found = None if folder is None else module_path(folder, name)
            if folder is not None and found is not None:
                package = name if found.name == "__init__.py" or found.is_dir() else name.rpartition(".")[0]
                return self.file(found, folder, package)
        return None

    # --- objects ---

    def live(self, names: Mapping[str, Any]) -> Scope:
        """Return the scope of a module that was imported, or of a notebook."""
        known = self.scopes.get(id(names))
        if known is not None:
            return known
        package, path = str(names.get("__package__") or ""), Path(str(names.get("__file__") or "")).resolve()
        is_file = path.suffix == ".py" and path.is_file()
        folder = path.parents[len(package.split(".")) if package else 0] if is_file else Path.cwd()
        texts = [read_source(path)] if is_file else list(cells_of(names))
        try:
            parts = [each for text in texts for each in statements(text)]
        except (SyntaxError, ValueError, RecursionError):
            parts = []
        parts = parts if is_file else last_bindings(parts)
        scope = Scope(parts, folder, package, names, str(path) if is_file else "", "\n".join(texts))
        self.scopes[id(names)] = scope
        module = sys.modules.get(str(names.get("__name__")))
        if module is not None and vars(module) is names and module.__name__ != "__main__":
            self.modules[module.__name__] = module
        return scope

    # --- which definitions are used ---

    def need(self, scope: Scope, dotted: str) -> None:
        """Add what a name means, with the attributes behind it that are used; "" for everything in a file."""
        if dotted not in scope.used:
            scope.used.add(dotted)
            self.waiting.append((scope, dotted, True))

    def settle(self) -> None:
        """Add all definitions that the needed ones use."""
        while self.waiting:
            scope, dotted, is_followed = self.waiting.pop()
            first, _, rest = dotted.partition(".")
            if first:
                self._bind(scope, first)
                if is_followed and first in scope.links:
                    self._follow(scope.links[first], rest)
                continue
            self._add_all(scope)
            module = sys.modules.get(str((scope.names or {}).get("__name__")))
            if module is not None:
                self.whole[module.__name__] = module

    def _bind(self, scope: Scope, name: str) -> None:
        """Add the definitions of a name."""
        if name in scope.needed:
            return
        scope.needed.add(name)
        binders = scope.binders.get(name, [])
        if scope.names is not None and name in scope.names and self._is_captured(scope, name, binders):
            return
        for number in binders:
            for each in scope.statements[number].imports:
                found = self._target(scope, each) if each.name == name else None
                if found is not None:
                    scope.links.setdefault(name, found)
        for number in binders + scope.changers.get(name, []):
            self._keep(scope, number)
        for number in scope.binders.get("*", []):
            for each in scope.statements[number].imports:
                other = self.module(scope, module_name(each, scope.package))
                if other is None:
                    self._keep(scope, number)  # what it binds may be any of the names
                elif not binders and (name in other.binders or "*" in other.binders):
                    scope.links.setdefault(name, Link(other, name))
        if name in UNKNOWN_NAMES and not binders:
            self._add_all(scope)

    def _add_all(self, scope: Scope) -> None:
        for number, statement in enumerate(scope.statements):
            if not statement.is_idle:
                self._keep(scope, number)
                for name in statement.binds:
                    self.need(scope, name)

    def _keep(self, scope: Scope, number: int) -> None:
        if number not in scope.kept:
            scope.kept[number] = []
            scope.kept[number] = self.use(scope, scope.statements[number])

    def use(self, scope: Scope, statement: Statement, but: Iterable[str] = ()) -> list[Link]:
        """Add what a statement uses, and return what it imports inside of functions."""
        inner = [found for each in statement.imports if not each.name and (found := self._target(scope, each))]
        for link in inner:
            self._follow(link, "")
        self.waiting += [(scope, name, False) for name in statement.binds]
        for dotted in statement.uses:
            if dotted.partition(".")[0] not in but:
                self.need(scope, dotted)
        return inner

    def _target(self, scope: Scope, each: Import) -> Link | None:
        """What an import means, if it is in a file of the user's own."""
        base = module_name(each, scope.package)
        found = self.module(scope, base)
        if each.attribute and (found is None or found is scope or each.attribute not in found.binders):
            inside = self.module(scope, f"{base}.{each.attribute}".strip("."))
            if inside is not None:
                return Link(inside, None)
        return None if found is None else Link(found, each.attribute.strip("*") or None)

    def _follow(self, link: Link, rest: str) -> None:
        """Add what a name of another file means, with the attributes that are used of it."""
        scope, first = link.scope, rest.partition(".")[0]
        if link.name is None and first and first not in scope.binders:
            is_package = Path(scope.path).name == "__init__.py" or not scope.path.endswith(".py")
            inside = self.module(scope, f"{scope.package}.{first}") if scope.package and is_package else None
            if inside is not None:
                scope.links.setdefault(first, Link(inside, None))
        self.need(scope, ".".join(filter(None, (link.name, rest))))

    # --- values of objects ---

    def _is_captured(self, scope: Scope, name: str, binders: Sequence[int]) -> bool:
        """Add the value of a name as it is, unless the text gives this value."""
        value = (scope.names or {})[name]
        if not binders and (name in scope.links or "*" in scope.binders or name[:2] == name[-2:] == "__"):
            return False
        last = scope.statements[binders[-1]] if binders else None
        is_imported = last is not None and any(each.name == name for each in last.imports)
        if isinstance(value, ModuleType):
            if is_local(value):
                self.whole[value.__name__] = value
            if is_imported:
                return False
            if is_local(value):
                scope.links[name] = Link(self.live(vars(value)), None)
            else:
                scope.values[name] = ["import", value.__name__]
            return True
        if last is not None and (is_imported or self._is_text(scope, name, value, binders)):
            return False
        scope.values[name] = self.form(value, is_reference=False)
        return True

    def _is_text(self, scope: Scope, name: str, value: Any, binders: Sequence[int]) -> bool:
        """Return True if the text of a scope gives a name this value."""
        last = scope.statements[binders[-1]]
        node, function = last.node, unwrap(value)
        if isinstance(function, FunctionType) and function.__globals__ is scope.names:
            if not scope.has_code(function):
                return False
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.__name__ == name:
                nodes = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
                return len(nodes) == len(values) and all(
                    self._gives(scope, *pair) for pair in zip(nodes, values, strict=True)
                )
        if isinstance(value, type) and isinstance(node, ast.ClassDef):
            members = vars(value)
            parts = {next(iter(part.binds), ""): part.assigned for part in map(Statement, node.body)}
            return all(scope.has_code(unwrap(each)) for each in members.values()) and all(
                self._gives(scope, part, members[each])
                for each, part in parts.items()
                if part is not None and type(members.get(each)) in LITERALS
            )
        is_single = len(binders) == 1 and name not in scope.changers
        return self._gives(scope, last.assigned if is_single else None, value, scope.is_settled(binders))

    def _gives(self, scope: Scope, node: ast.expr | None, value: Any, is_settled: bool = False) -> bool:
        """Return True if an expression has this value, or if only executing it would show that.

        The second is not enough in a script or a notebook, unless one statement binds the name, once, to a function.
        """
        try:
            return bool(self.form(self.evaluated(scope, node)) == self.form(value))
        except UnknownValueError:
            # names of a script that runs and of a notebook may have had other values before
            is_main = scope.names is not None and (scope.names.get("__name__") == "__main__" or not scope.path)
            return not is_main or (is_settled and is_made_of_literals(value))

    def evaluated(self, scope: Scope, node: ast.expr | None, depth: int = 0) -> Any:
        """Return the value of an expression of literals, operators and functions of NumPy.

        Raises UnknownValueError for any other expression.
        """
        if node is None or depth > 50:
            raise UnknownValueError
        names: dict[str, Any] = {}

        def value(part: ast.expr) -> Any:
            return eval(compile(ast.Expression(part), "<text>", "eval"), {"__builtins__": {}}, names)  # noqa: S307

        try:
            parts = list(ast.walk(node))
            names |= {part.id: self._value_of(scope, part.id, depth) for part in parts if isinstance(part, ast.Name)}
            for part in parts:
                owner = names.get(getattr(part.value, "id", "")) if isinstance(part, ast.Attribute) else None
                if not isinstance(part, _SAFE_PARTS) and owner is not np and owner is not math:
                    raise UnknownValueError
            for part in reversed(parts):  # a call inside of another first
                called = value(part.func) if isinstance(part, ast.Call) else float
                is_numpy = isinstance(called, np.ufunc) or (isinstance(called, type) and issubclass(called, np.generic))
                if not is_numpy and not any(called is each for each in _SAFE_CALLS):
                    raise UnknownValueError
            return value(node)
        except Exception:  # noqa: BLE001  # as the text would raise it, which then does not give the value
            raise UnknownValueError from None

    def _value_of(self, scope: Scope, name: str, depth: int) -> Any:
        binders = scope.binders.get(name, [])
        if len(binders) == 1 and name not in scope.changers:
            node = scope.statements[binders[0]].assigned
            if node is not None:
                return self.evaluated(scope, node, depth + 1)
        value = (scope.names or {}).get(name, vars(builtins).get(name))
        if any(each is value for each in (np, math, *_SAFE_CALLS)):
            return value
        raise UnknownValueError

    def form(self, value: Any, is_reference: bool = True) -> Any:
        """Return nested lists that stand for a value.  is_reference: a definition counts as the name that it has."""
        # values inside of others on a list, not by recursion: a thousand classes may follow from each other
        waiting, found = [self._made(value, is_reference)], None
        try:
            while waiting:
                try:
                    waiting.append(self._made(waiting[-1].send(found), True))
                    found = None
                except StopIteration as end:
                    found = end.value
                    waiting.pop()
        finally:
            for each in reversed(waiting):
                each.close()
        return found

    def _made(self, value: Any, is_reference: bool) -> Making:
        """The form of a value; asks for the forms of those inside of it."""
        text = literal(value)
        if text is not None:
            return shape(ast.parse(text, mode="eval").body)
        if type(value) is float:
            return ["float", repr(value)]
        if any(value is each for each in GLOBAL_GENERATORS):  # as frozen distributions of SciPy hold one
            return ["global generator", type(value).__name__]
        if isinstance(value, (*LITERALS, np.generic, np.dtype)) and type(value).__module__ in ("builtins", "numpy"):
            text = hex(value) if type(value) is int else repr(value)
            return [type(value).__name__, str(value.dtype) if isinstance(value, np.generic) else "", text]
        if isinstance(value, (FunctionType, CACHED, type)):
            if self._is_installed(value):
                return ["import", f"{value.__module__}.{value.__qualname__}"]
            found = self.name_of(value) if is_reference else None
            if found is not None:
                self.need(*found)
                return Link(*found)
        if id(value) in self._open:  # it contains itself
            return ["cycle", len(self._open) - self._open[id(value)]]
        if id(value) not in self._forms:
            self._open[id(value)] = len(self._open)
            way = next((way for kinds, way in _WAYS if isinstance(value, kinds)), UsedCode._object)
            try:
                made = way(self, value)
                form = NestedForm.of((yield from made) if isinstance(made, Generator) else made)
                self._forms[id(value)] = form, value  # with the value, so that no other has its number
            finally:
                self._open.popitem()
        return self._forms[id(value)][0]

    def _all(self, kind: str, values: Iterable[Any]) -> Making:
        found = [kind]
        for value in values:
            form = yield value
            found.append(form)
        return found

    def _named(self, kind: str, values: Mapping[Any, Any]) -> Making:
        found: list[Any] = [kind]
        for name, value in values.items():
            found.append([(yield name), (yield value)])
        return found

    def _is_installed(self, thing: Any) -> bool:
        module = sys.modules.get(thing.__module__ or "")
        found = functools.reduce(lambda each, name: getattr(each, name, None), thing.__qualname__.split("."), module)
        return not is_local(module) and getattr(found, "__func__", found) is thing

    def name_of(self, thing: Any) -> tuple[Scope, str] | None:
        """The scope and the name of something that has a name in a file or a notebook of the user; None without.

        So of nothing that is installed: its own names would lead through the packages.
        """
        inner = unwrap(thing)
        while isinstance(inner, (functools.partial, MethodType)):
            inner = inner.func if isinstance(inner, functools.partial) else inner.__func__
        if isinstance(inner, FunctionType):
            spaces = [inner.__globals__]
        else:
            kind = inner if isinstance(inner, type) else type(inner)
            spaces = [each.__globals__ for each in vars(kind).values() if isinstance(each, FunctionType)]
            module = sys.modules.get(kind.__module__ or "")
            spaces += [vars(module)] if module is not None else []
        for names in filter(_are_local, spaces):
            own = getattr(thing, "__name__", "")
            name = own if names.get(own) is thing else ""
            name = name or next((each for each, value in list(names.items()) if value is thing), "")
            if name and (scope := self.live(names)).binders.get(name):
                return scope, name
        return None

    def _function(self, function: FunctionType) -> Making:
        """A function without a name in its file, or one whose name means something else: its own text."""
        node, code = node_of(function), function.__code__
        captured = [
            ["defaults", (yield function.__defaults__ or ()), (yield function.__kwdefaults__ or {})],
            ["closure", *(yield from self._closure(function))],
        ]
        if not _are_local(function.__globals__):  # one that an installed function made
            text = code_form(code) if node is None else shape(node)
            return ["installed", f"{function.__module__}.{function.__qualname__}", text, *captured]
        scope = self.live(function.__globals__)
        if node is not None:
            statement = Statement(ast.Expr(node) if isinstance(node, ast.expr) else node)
            inner = self.use(scope, statement, {function.__name__, *code.co_freevars})
            return ["function", shape(node), *captured, *inner, Link(scope, None)]
        self.notes[function.__qualname__] = (
            f"the source of `{function.__qualname__}` is not known, or has changed since it was imported, so its "
            "compiled code counts; another Python version computes its runs again. Put it into a file, or import it "
            "again"
        )
        for name in sorted({name for each in iterate_codes(code) for name in each.co_names}):
            self.need(scope, name)
        return ["compiled", code_form(code), *captured, Link(scope, None)]

    def _closure(self, function: FunctionType) -> Making:
        found: list[Any] = []
        for name, cell in sorted(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)):
            try:
                value = cell.cell_contents
            except ValueError:  # it has no value yet
                found.append([name])
            else:
                found.append([name, (yield value)])
        return found

    def _class(self, kind: type) -> Making:
        members = {name: value for name, value in vars(kind).items() if name not in _OWN_OF_CLASSES}
        # of a dataclass: Field objects cannot be pickled, and say nothing more
        fields = members.pop("__dataclass_fields__", {}).values()
        made = [each for each in members.values() if isinstance(each, FunctionType)]
        # methods that a library wrote, as for dataclasses, follow from the rest
        written = {id(each) for each in made if each.__code__.co_filename == "<string>"}
        members = {name: value for name, value in members.items() if id(value) not in written}
        own = type(kind)
        return [
            "class", kind.__qualname__, (yield from self._all("bases", kind.__bases__)),
            (yield from self._named("members", members)),
            (yield from self._all("fields", ((each.name, each.default, each.default_factory) for each in fields))),
            *([] if self._is_installed(own) else [["metaclass", (yield own)]]),
        ]  # fmt: skip

    def _built_in(self, function: Any) -> Any:
        owner = function.__self__
        if isinstance(owner, ModuleType):
            return ["import", f"{owner.__name__}.{function.__qualname__}"]
        return self._all("built-in", (function.__qualname__, owner))

    def _module(self, module: ModuleType) -> Any:
        if not is_local(module):
            return ["import", module.__name__]
        scope = self.live(vars(module))
        self.need(scope, "")
        return Link(scope, None)

    def _array(self, array: Any) -> Making:
        if array.dtype.hasobject:
            entries = yield from self._all("entries", array.ravel().tolist())
            return ["array", list(array.shape), str(array.dtype), entries]
        data = np.ascontiguousarray(array).tobytes()
        return ["array", list(array.shape), repr(array.dtype.descr), hashlib.sha256(data).hexdigest()]

    def _set(self, values: Any) -> Making:
        kind, *forms = yield from self._all(type(values).__name__, values)
        return [kind, *sorted(forms, key=sort_key)]

    def _object(self, value: Any) -> Any:
        """Any other object by what it would be pickled as."""
        kind = type(value)
        # by one protocol: the highest of each Python would give the same object other forms
        made = copyreg.dispatch_table[kind](value) if kind in copyreg.dispatch_table else value.__reduce_ex__(4)
        if isinstance(made, str):
            return ["import", f"{getattr(value, '__module__', None) or kind.__module__}.{made}"]
        package = kind.__module__.partition(".")[0]
        if package not in sys.stdlib_module_names and not is_local(sys.modules.get(kind.__module__)):
            self.notes.setdefault(
                "pickled",
                f"an object of type {kind.__module__}.{kind.__qualname__} has no literal form, so it counts by its "
                f"pickled content; another version of {package} may compute the runs again. Make it in the file of the "
                "function, or inside the function",
            )
        self.has_pickled = True
        function, arguments, *more = made
        state = [_without_caches(kind, part) for part in more[:1]]
        parts = [function, arguments, *state, *more[1:]]
        return self._all("object", [list(part) if isinstance(part, Iterator) else part for part in parts])

    # --- the fingerprint ---

    def hash(self, root: Any) -> str:
        """Return the hash of a form, with all definitions that it uses."""
        self.settle()
        order: list[Scope] = []
        first = _encode(root, order)
        return hash_of([first, *(_encode(_select_used(scope), order) for scope in order)])  # `order` grows


def _select_used(scope: Scope) -> Any:
    """The used statements of a scope; their order counts only as far as it changes the values."""
    kept = [(scope.statements[number], inner) for number, inner in sorted(scope.kept.items())]
    # without statements whose values count in their place
    kept = [(each, inner) for each, inner in kept if not each.binds or not each.binds <= scope.values.keys()]
    bound = Counter(name for each, _ in kept for name in each.binds)
    several = {name for name, count in bound.items() if count > 1}
    several |= {name for name, by in scope.changers.items() if not scope.kept.keys().isdisjoint(by)}
    made: list[tuple[str, Any]] = [(name, ["value", name, form]) for name, form in scope.values.items()]
    made += [(name, ["value", name, link]) for name, link in scope.links.items() if name in scope.needed]
    ordered = []
    for statement, inner in kept:
        if isinstance(statement.node, IMPORTS) and statement.binds & scope.links.keys():
            continue
        form = _statement_form(statement, inner)
        if statement.calls or (statement.binds | statement.runs) & several:
            ordered.append(form)
        else:
            made.append((min(statement.binds, default=""), form))
    often = Counter(name for name, _ in made)
    made.sort(key=lambda each: (each[0], sort_key(each[1]) if often[each[0]] > 1 else ""))
    return [[form for _, form in made], ordered]


def _statement_form(statement: Statement, inner: Sequence[Link]) -> Any:
    node = statement.node
    if isinstance(node, IMPORTS):
        (each,) = statement.imports
        return ["value", each.name, ["import", f"{'.' * each.level}{each.module}.{each.attribute}".rstrip(".")]]
    if statement.assigned is not None:
        return ["value", min(statement.binds), shape(statement.assigned)]
    return [statement.form, *inner]


def _without_caches(kind: type, state: Any) -> Any:
    """Return the state of an object without values that reading it adds.

    These are values of `cached_property`, and in an object of a package `_cache` and empty private attributes.
    """
    if isinstance(state, tuple):
        parts = [(part, _without_caches(kind, part)) for part in state]
        return tuple(kept for part, kept in parts if not isinstance(part, dict) or kept or not part)
    if not isinstance(state, dict):
        return state
    members = {name: each for base in kind.__mro__ for name, each in vars(base).items()}
    caches = {name for name, each in members.items() if isinstance(each, functools.cached_property)}
    if not is_local(sys.modules.get(kind.__module__)):
        private = {name: each for name, each in state.items() if isinstance(name, str) and name.startswith("_")}
        caches |= {
            "_cache",
            *(name for name, each in private.items() if each is None or (type(each) is dict and not each)),
        }
    return {name: each for name, each in state.items() if name not in caches}


def _are_local(names: Mapping[str, Any]) -> bool:
    """True of the names of a module of the user's own, as `is_local` says."""
    return is_local(sys.modules.get(str(names.get("__name__"))))


def _encode(form: Any, order: list[Scope]) -> Any:
    if isinstance(form, Link):
        if form.scope not in order:
            order.append(form.scope)
        return ["name", order.index(form.scope), form.name]
    return [_encode(part, order) for part in form] if isinstance(form, (list, tuple)) else form


def sort_key(form: Any) -> str:
    """Return a text by which forms are sorted."""
    return json.dumps(form, default=lambda link: link.name)


_WAYS: tuple[tuple[Any, Any], ...] = (
    (FunctionType, UsedCode._function),
    (CACHED, lambda self, value: self._all("cached", (value.__wrapped__, dict(value.cache_parameters())))),
    (type, UsedCode._class),
    (ModuleType, UsedCode._module),
    (MethodType, lambda self, value: self._all("method", (value.__func__, value.__self__))),
    (functools.partial, lambda self, value: self._all("partial", (value.func, value.args, value.keywords))),
    ((staticmethod, classmethod), lambda self, value: self._all("bound", (value.__func__,))),
    (property, lambda self, value: self._all("property", (value.fget, value.fset, value.fdel))),
    (functools.cached_property, lambda self, value: self._all("cached property", (value.func,))),
    (BuiltinFunctionType, UsedCode._built_in),
    (np.ndarray, UsedCode._array),
    ((set, frozenset), UsedCode._set),
    ((tuple, list), lambda self, value: self._all(type(value).__name__, value)),
    (dict, lambda self, value: self._named("dict", value)),
    (MappingProxyType, lambda self, value: self._named("mapping", value)),
)


def file_fingerprint(
    text: str, attribute: str, path: Path, folder: Path, package: str = ""
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the fingerprint of `attribute` in a file, and the other files that it uses, with their content.

    folder: where its imports are searched first.  Raises SyntaxError or ValueError if the text is no Python.
    """
    used = UsedCode()
    scope = used.file(path, folder, package, text)
    first, *rest = attribute.split(".")
    used.need(scope, first)
    used.settle()
    root = Link(scope, first)
    while root.name in root.scope.links:  # a name that the file imports is the name there
        root = root.scope.links[root.name]
    used.files.pop(str(path), None)
    return used.hash([root, *rest]), tuple(sorted(used.files.items()))


def object_fingerprint(function: Any) -> tuple[str, UsedCode]:
    """Return the fingerprint of a function or another object, and what it uses.

    Reading an object may change it, as xarray makes empty attributes when they are first read.  So an object that
    counts by its pickled content is read until its content stays the same.  Warns with CodeWarning for such a value.
    Raises TypeError for a value that has no such content.
    """
    before = ""
    for _ in range(_MAX_READINGS):
        used = UsedCode()
        named = used.name_of(function) if callable(function) else None
        if named is not None:
            used.need(*named)
        found = used.hash([used.form(function) if named is None else Link(*named)])
        if found == before or not used.has_pickled:
            for note in used.notes.values():
                warn(note, CodeWarning)
            return found, used
        before = found
    raise TypeError("its pickled content differs each time it is read")


def with_depends(fingerprint: str, depends: Sequence[tuple[str, str]], folder: Path) -> str:
    """Return the fingerprint of code that depends on these files, by their paths from their common folder."""
    if not depends:
        return fingerprint
    paths = [(folder / name).resolve() for name, _ in depends]
    common = Path(os.path.commonpath([path.parent for path in paths]))
    files = sorted(
        [path.relative_to(common).as_posix(), hashed] for path, (_, hashed) in zip(paths, depends, strict=True)
    )
    return hash_of([fingerprint, files])


def text_of(function: Any) -> str:
    """The source of a function, as far as Python knows it."""
    while isinstance(function, functools.partial):
        function = function.func
    kind = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""
