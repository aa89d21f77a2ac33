"""Compute the fingerprint of a user function: a hash of the definitions that the function uses in all user files.

A function in a file and the imported function object have the same fingerprint.  The hash of a captured value comes
from its source text, from its literal form or from its pickled content, in this order of preference.
"""

from __future__ import annotations

import ast
import builtins
import copyreg
import functools
import hashlib
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from evogt_study.errors import CodeWarning, warn
from evogt_study.methods import python_files
from evogt_study.methods.current_run import CACHED_TYPE, GLOBAL_GENERATORS
from evogt_study.methods.python_files import IMPORT_NODES, Contents, Import, Statement, get_root, hash_import, hash_part

UNKNOWN_NAMES = frozenset({"eval", "exec", "globals", "vars", "__import__"})
"""Names of functions that look up names by strings.  A function that calls one of them uses its whole file."""
_FIXED_NODES = (*python_files.DEFINITION_NODES, *IMPORT_NODES)
_SINGLE_BINDERS = (*_FIXED_NODES, ast.If, ast.Try)
_CONSTANT_TYPES = (bool, int, float, complex, str, bytes, type(None), type(...))
# Python adds these attributes to every class.  They do not affect values and differ between versions
_IGNORED_ATTRIBUTES = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__")
_SAFE_NODES = (
    ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Call, ast.keyword, ast.Name,
    ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip
_SAFE_FUNCTIONS = (
    range, list, tuple, dict, set, frozenset, float, int, str, bool, abs, len, min, max, sum, sorted, round, np.array,
    np.asarray, np.arange, np.linspace, np.logspace, np.geomspace, np.zeros, np.ones, np.full, np.eye, np.dtype,
    *(function for function in vars(math).values() if callable(function)),
)  # fmt: skip
_DESCRIPTOR_PARTS: Mapping[type, Sequence[str]] = {
    staticmethod: ["__func__"], classmethod: ["__func__"], MethodType: ["__func__", "__self__"],
    property: ["fget", "fset", "fdel"], cached_property: ["func"],
}  # fmt: skip


@dataclass(frozen=True)
class Link:
    """Reference to a name in another file, or to the whole file as a module."""

    scope: Scope
    name: str | None

    @property
    def form(self) -> str:
        """Structural hash of the reference, without the name of the file."""
        return hash_part("link", scope=self.scope.number, name=self.name)


@dataclass(eq=False)
class Scope:
    """Text of one file or of the cells of a notebook, and the parts that a function uses.

    `names` holds the values of an imported module.  `kept` maps each used statement to the structural hashes of the
    imports inside its functions.  `links` holds the names that the file imports from user files.  `values` holds the
    structural hashes of captured values by name.
    """

    number: int
    statements: Sequence[Statement]
    folder: Path
    package: str = ""
    names: Mapping[str, Any] | None = None
    path: str = ""
    text: str = ""
    needed: set[str] = field(default_factory=set)
    kept: dict[Statement, list[str]] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    @cached_property
    def binders(self) -> Mapping[str, list[Statement]]:
        """Statements that bind each name."""
        found = defaultdict[str, list[Statement]](list)
        for statement in self.statements:
            for name in () if statement.is_idle else statement.names.binds:
                found[name].append(statement)
        return dict(found)

    @cached_property
    def fixed_names(self) -> set[str]:
        """Names that only definitions, imports or constants bind, because their use cannot change the values."""
        changing = {each for each in self.statements if not isinstance(each.node, _FIXED_NODES)}
        changing = {each for each in changing if not python_files.is_constant(each.assigned)}
        return {name for name, binders in self.binders.items() if changing.isdisjoint(binders)}

    @cached_property
    def changers(self) -> Mapping[str, list[Statement]]:
        """Statements that change the value of each name without assigning to the name."""
        found = defaultdict[str, list[Statement]](list)
        for statement in self.statements:
            if statement.is_idle or isinstance(statement.node, IMPORT_NODES):
                continue
            names, changed = statement.names, self._find_changed_names(statement.roots_at_import)
            if not isinstance(statement.node, python_files.DEFINITION_NODES):
                is_value = isinstance(statement.node, (ast.Assign, ast.AnnAssign))
                used = set() if is_value else statement.roots
                changed |= names.changes | (names.calls | used) - self.fixed_names
            match statement.node:
                # a global setting, such as np.seterr(all="raise").  Workers do not execute the cells of a notebook
                case ast.Expr(value=ast.Call(func=ast.Attribute() as method)) if self.path:
                    changed.add(python_files.find_owner(method))
            for name in (changed & self.binders.keys()) - names.binds:
                found[name].append(statement)
        return dict(found)

    def _find_changed_names(self, called: Iterable[str]) -> set[str]:
        """Return the names that the `called` functions of the file change."""
        found, waiting, seen = set[str](), list(called), set[str]()
        while waiting:
            name = waiting.pop()
            for statement in self.binders.get(name, ()) if name not in seen else ():
                if isinstance(statement.node, python_files.DEFINITION_NODES):
                    found |= (statement.names.changes | statement.names.calls - self.fixed_names) & self.binders.keys()
                    waiting += statement.roots
            seen.add(name)
        return found

    def find_only_binder(self, name: str) -> Statement | None:
        """Return the only statement that binds or changes a name, or None if there is not exactly one."""
        binders = self.binders.get(name, ())
        is_changed = name in self.changers and not isinstance((self.names or {}).get(name), ModuleType)
        return binders[0] if len(binders) == 1 and not is_changed else None

    def is_bound_once(self, name: str) -> bool:
        """Return True if a file binds a name, and each name in its definition, exactly once and outside loops."""
        waiting, seen, known = [name], set[str](), (self.names or {}).keys()
        while waiting:
            name = waiting.pop()
            statement = self.find_only_binder(name)
            if statement is None or (statement.assigned is None and not isinstance(statement.node, _SINGLE_BINDERS)):
                return False
            seen.add(name)
            waiting += [each for each in statement.roots & known - seen if each[:2] != "__"]
        return True

    def find_definition(self, function: FunctionType) -> Any:
        """Return the syntax tree of a function, or None if the text of the file has changed since its import."""
        code = function.__code__  # a decorator may rename the function, but not its code
        known, form = python_files.find_functions(self.text).get(code.co_qualname, ()), python_files.describe_code(code)
        return next((node for node, each in known if each == form), None)

    def has_current_code(self, function: Any) -> bool:
        """Return False if the text of a function has changed since the import of this file."""
        is_own = isinstance(function, FunctionType) and function.__globals__ is self.names
        is_in_text = is_own and function.__code__.co_qualname in python_files.find_functions(self.text)
        return not is_in_text or self.find_definition(function) is not None

    def hash_used(self) -> str:
        """Return the structural hash of the used statements, which ignores their order if it cannot change values."""
        # without statements whose values replace their text
        kept = [each for each in self.statements if each in self.kept]
        kept = [each for each in kept if not each.names.binds or each.names.binds - self.values.keys()]
        bound = Counter(name for each in kept for name in each.names.binds)
        several = {name for name, count in bound.items() if count > 1}
        several |= {name for name, changers in self.changers.items() if not self.kept.keys().isdisjoint(changers)}
        made = [*self.values.items(), *((name, link.form) for name, link in self.links.items() if name in self.needed)]
        ordered = list[tuple[str, str]]()
        for statement in kept:
            binds, form, inner = statement.names.binds, statement.form, self.kept[statement]
            if isinstance(statement.node, IMPORT_NODES) and binds & self.links.keys():
                continue
            is_ordered = statement.is_ordered or (binds | statement.roots_at_import) & several
            form = hash_part("statement", form=form, inner=inner) if inner else form
            (ordered if is_ordered else made).append((min(binds, default=""), form))
        return python_files.hash_lists([sorted(made), ordered])


HashSteps = Generator[Any, str, str]
"""Generator that returns the structural hash of a value.  It yields each part and receives the hash of the part."""


class UnknownValueError(Exception):
    """The value of an expression cannot be computed without executing user code."""


class UsedCode:
    """Collector of the definitions that a function uses, in its file and in the user files that the file imports.

    `modules` holds the user modules whose functions an object uses.  `whole` holds the modules that an object uses
    completely.  `notes` holds the texts of the `CodeWarning` of a fingerprint.
    """

    def __init__(self) -> None:
        self.root: Link | None = None
        self.scopes: dict[Any, Scope] = {}
        self.waiting: list[tuple[Scope, str, bool]] = []
        self.files: dict[str, str] = {}
        self.modules: dict[str, ModuleType] = {}
        self.whole: dict[str, ModuleType] = {}
        self.notes: dict[str, str] = {}
        self.has_pickled = False
        self._forms: dict[int, tuple[str, Any]] = {}
        self._open: dict[int, int] = {}

    def read_file(self, path: Path, folder: Path, package: str = "", text: str | None = None) -> Scope:
        """Return the scope of a file with this `text`, or read the text from `path` if `text` is None."""
        key = str(path)
        if key not in self.scopes:
            text = python_files.read_source(path) if text is None else text
            statements = python_files.parse_statements(text)
            scope = self.scopes[key] = Scope(len(self.scopes), statements, folder, package, path=key)
            if path.is_file():
                self.files[key] = python_files.hash_content(path)
                if text and not statements:  # this version of Python cannot parse the file: use its bytes
                    scope.values[""] = self.files[key]
        return self.scopes[key]

    def find_module(self, scope: Scope, name: str) -> Scope | None:
        """Return the scope of a module that `scope` imports, or None if it is not a user module."""
        top = get_root(name)
        if not name or top == python_files.PACKAGE:
            return None
        known = sys.modules.get(name) if scope.names is not None else None
        if known is not None:
            return self.read_names(vars(known)) if python_files.is_local(known) else None
        is_installed = bool(scope.path) and not python_files.is_local_path(Path(scope.path))
        if is_installed and top != get_root(scope.package):
            return None
        for folder in filter(None, (scope.folder, python_files.find_search_folder(top))):
            if found := python_files.find_module_file(folder, name):
                return self.read_file(found, folder, python_files.find_package(name, found))
        return None

    def read_names(self, names: Mapping[str, Any]) -> Scope:
        """Return the scope of an imported module or a notebook from its namespace `names`."""
        if id(names) in self.scopes:
            return self.scopes[id(names)]
        package, path = str(names.get("__package__") or ""), Path(str(names.get("__file__") or "")).resolve()
        is_file = path.suffix == ".py" and path.is_file()
        folder = path.parents[len(package.split(".")) if package else 0] if is_file else Path.cwd()
        texts = [python_files.read_source(path)] if is_file else python_files.list_cells(names)
        statements = [each for text in texts for each in python_files.parse_statements(text)]
        scope = self.scopes[id(names)] = Scope(
            len(self.scopes), statements if is_file else python_files.remove_old_cells(statements), folder, package,
            names, str(path) if is_file else "", "\n".join(texts),
        )  # fmt: skip
        module = sys.modules.get(str(names.get("__name__")))
        if module is not None and vars(module) is names and module.__name__ != "__main__":
            self.modules[module.__name__] = module
        return scope

    # --- search for the used definitions ---

    def add_name(self, scope: Scope, dotted: str) -> None:
        """Add the definition of a dotted name to the used code.  The name "" adds the whole file."""
        if dotted not in scope.used:
            scope.used.add(dotted)
            self.waiting.append((scope, dotted, True))

    def add_all_definitions(self) -> None:
        """Add the definitions that the added names use, directly or indirectly."""
        while self.waiting:
            scope, dotted, is_followed = self.waiting.pop()
            first, _, rest = dotted.partition(".")
            if not first:
                self._keep_file(scope)
                module = sys.modules.get(str((scope.names or {}).get("__name__")))
                self.whole |= {} if module is None else {module.__name__: module}
            elif first not in scope.needed:
                scope.needed.add(first)
                self._add_definition(scope, first)
            if is_followed and first in scope.links:
                self._follow_link(scope.links[first], rest)

    def _add_definition(self, scope: Scope, name: str) -> None:
        """Add the statements that define a name, or the captured value of the name."""
        binders = scope.binders.get(name, [])
        if scope.names is not None and name in scope.names and self._capture_value(scope, name, binders):
            return
        for each in (each for statement in binders for each in statement.names.imports if each.name == name):
            if found := self._find_target(scope, each):
                scope.links.setdefault(name, found)
        for statement in (*binders, *scope.changers.get(name, ())):
            self._keep_statement(scope, statement)
        for statement in scope.binders.get("*", ()):
            for each in statement.names.imports:
                other = self.find_module(scope, each.find_module(scope.package))
                if other is None:
                    self._keep_statement(scope, statement)  # a star import can bind any name
                elif not binders and (name in other.binders or "*" in other.binders):
                    scope.links.setdefault(name, Link(other, name))
        if name in UNKNOWN_NAMES and not binders:
            self._keep_file(scope)

    def _keep_file(self, scope: Scope) -> None:
        for statement in scope.statements:
            if not statement.is_idle:
                self._keep_statement(scope, statement)
                for name in sorted(statement.names.binds):
                    self.add_name(scope, name)

    def _keep_statement(self, scope: Scope, statement: Statement) -> None:
        if statement not in scope.kept:
            scope.kept[statement] = []
            scope.kept[statement] = self._add_used_names(scope, statement)

    def _add_used_names(self, scope: Scope, statement: Statement, local: Iterable[str] = ()) -> list[str]:
        """Add the names that a statement uses, except `local` names.  Return the hashes of imports in its functions."""
        names = statement.names
        inner = [found for each in names.imports if not each.name and (found := self._find_target(scope, each))]
        for link in inner:
            self._follow_link(link, "")
        self.waiting += [(scope, name, False) for name in sorted(names.binds)]
        for dotted in sorted(names.uses):
            if get_root(dotted) not in local:
                self.add_name(scope, dotted)
        return [link.form for link in inner]

    def _find_target(self, scope: Scope, each: Import) -> Link | None:
        """Return the link to imported user code, or None for an import of installed code."""
        base = each.find_module(scope.package)
        found = self.find_module(scope, base if each.name else each.loads or base)
        if each.attribute and (found is None or found is scope or each.attribute not in found.binders):
            inside = self.find_module(scope, f"{base}.{each.attribute}".strip("."))
            if inside is not None:
                return Link(inside, None)
        return None if found is None else Link(found, each.attribute.strip("*") or None)

    def _follow_link(self, link: Link, rest: str) -> None:
        """Add the definition that a link refers to.  `rest` is the dotted attribute that the code uses."""
        scope, first = link.scope, get_root(rest)
        if link.name is None and first and first not in scope.binders:
            is_package = Path(scope.path).name == "__init__.py" or not scope.path.endswith(".py")
            inside = self.find_module(scope, f"{scope.package}.{first}") if scope.package and is_package else None
            if inside is not None:
                scope.links.setdefault(first, Link(inside, None))
        self.add_name(scope, ".".join(filter(None, (link.name, rest))))

    # --- values that replace the text ---

    def _capture_value(self, scope: Scope, name: str, binders: Sequence[Statement]) -> bool:
        """Add the value of a name to the fingerprint.  Return False if the text of the file determines the value."""
        value = (scope.names or {})[name]
        if not binders and (name in scope.links or "*" in scope.binders or name[:2] == name[-2:] == "__"):
            return False
        last = binders[-1] if binders else None
        is_imported = last is not None and any(each.name == name for each in last.names.imports)
        if isinstance(value, ModuleType):
            is_local = python_files.is_local(value)
            self.whole |= {value.__name__: value} if is_local else {}
            if is_local and not is_imported:
                scope.links[name] = Link(self.read_names(vars(value)), None)
            elif not is_imported:
                scope.values[name] = hash_import(value.__name__)
            return not is_imported
        if last is not None and (is_imported or self._is_in_text(scope, name, value, last)):
            return False
        scope.values[name] = self.hash_value(value, is_reference=False)
        return True

    def _is_in_text(self, scope: Scope, name: str, value: Any, last: Statement) -> bool:
        """Return True if the text of a file gives this value to a name."""
        node, function = last.node, python_files.unwrap(value)
        if isinstance(function, FunctionType) and function.__globals__ is scope.names:
            if not scope.has_current_code(function):
                return False
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.__name__ == name:
                nodes = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
                return len(nodes) == len(values) and all(
                    self._can_have_value(scope, *pair) for pair in zip(nodes, values, strict=True)
                )
        if isinstance(value, type) and isinstance(node, ast.ClassDef):
            members, parts = vars(value), [Statement(part) for part in node.body]
            constants = {
                min(part.names.binds): part.assigned for part in parts if python_files.is_constant(part.assigned)
            }
            return all(scope.has_current_code(python_files.unwrap(each)) for each in members.values()) and all(
                self._can_have_value(scope, constants[each], value)
                for each, value in members.items()
                if each in constants and type(value) in _CONSTANT_TYPES
            )
        only = scope.find_only_binder(name)
        return self._can_have_value(scope, None if only is None else only.assigned, value, name)

    def _can_have_value(self, scope: Scope, node: ast.expr | None, value: Any, name: str = "") -> bool:
        """Return True if an expression has this value, or if the value is unknown without executing user code."""
        try:
            return self.hash_value(self._evaluate_node(scope, node)) == self.hash_value(value)
        except UnknownValueError:  # a script or a notebook may have changed a name since
            is_main = scope.names is not None and (scope.names.get("__name__") == "__main__" or not scope.path)
            return not is_main or (bool(name) and _captures_constants(value) and scope.is_bound_once(name))

    def _evaluate_node(self, scope: Scope, node: ast.expr | None, depth: int = 0) -> Any:
        """Compute an expression of literals, operators and NumPy functions.  Other code raises UnknownValueError."""
        if node is None or depth > 50:
            raise UnknownValueError
        names: dict[str, Any] = {}

        def compute(part: ast.expr) -> Any:
            return eval(compile(ast.Expression(part), "<text>", "eval"), {"__builtins__": {}}, names)  # noqa: S307

        try:
            parts = list(ast.walk(node))
            names |= {part.id: self._find_value(scope, part.id, depth) for part in parts if isinstance(part, ast.Name)}
            for part in parts:
                owner = names.get(getattr(part.value, "id", "")) if isinstance(part, ast.Attribute) else None
                if not isinstance(part, _SAFE_NODES) and owner is not np and owner is not math:
                    raise UnknownValueError
            for part in reversed(parts):  # inner calls first
                called = compute(part.func) if isinstance(part, ast.Call) else float
                is_numpy = isinstance(called, np.ufunc) or (isinstance(called, type) and issubclass(called, np.generic))
                if not is_numpy and not any(called is each for each in _SAFE_FUNCTIONS):
                    raise UnknownValueError
            return compute(node)
        except Exception:  # noqa: BLE001  # an expression that raises has no value
            raise UnknownValueError from None

    def _find_value(self, scope: Scope, name: str, depth: int) -> Any:
        only = scope.find_only_binder(name)
        if only is not None and only.assigned is not None:
            return self._evaluate_node(scope, only.assigned, depth + 1)
        value = (scope.names or {}).get(name, vars(builtins).get(name))
        if any(each is value for each in (np, math, *_SAFE_FUNCTIONS)):
            return value
        raise UnknownValueError

    # --- structural hashes of values ---

    def hash_value(self, value: Any, is_reference: bool = True) -> str:
        """Compute the structural hash of a value.  With `is_reference`, a named definition counts by its name only."""
        # a stack instead of recursion, because classes may refer to each other in a chain of a thousand
        waiting: list[HashSteps] = [self._hash_steps(value, is_reference)]
        form: Any = None
        while waiting:
            try:
                waiting.append(self._hash_steps(waiting[-1].send(form), True))
                form = None
            except StopIteration as end:
                form = end.value
                waiting.pop()
        return str(form)

    def _hash_steps(self, value: Any, is_reference: bool) -> HashSteps:
        if type(value) in _CONSTANT_TYPES:
            return python_files.hash_constant(value)
        if any(value is each for each in GLOBAL_GENERATORS):  # for example in frozen distributions of SciPy
            return hash_part("global generator", type=type(value).__name__)
        if isinstance(value, (np.generic, np.dtype)):
            content = value.tobytes().hex() if isinstance(value, np.generic) else ""
            return hash_part("NumPy", type=str(getattr(value, "dtype", value)), content=content)
        if isinstance(value, (FunctionType, CACHED_TYPE, type)):
            names, module = value.__qualname__.split("."), sys.modules.get(value.__module__ or "")
            found: Any = functools.reduce(lambda each, name: getattr(each, name, None), names, module)
            if not python_files.is_local(module) and getattr(found, "__func__", found) is value:
                return hash_import(f"{value.__module__}.{value.__qualname__}")
            link = self.find_name(value) if is_reference else None
            if link is not None:
                return link.form
        if id(value) in self._open:  # the value contains itself
            return hash_part("cycle", levels=len(self._open) - self._open[id(value)])
        if id(value) not in self._forms:
            self._open[id(value)] = len(self._open)
            self._forms[id(value)] = (yield from self._hash_parts(value)), value  # a reference keeps the id unique
            del self._open[id(value)]
        return self._forms[id(value)][0]

    def _hash_parts(self, value: Any) -> HashSteps:
        """Compute the structural hash of a value with parts.  A list, set or dict has the hash of its source text."""
        kind: Any = type(value)
        if kind in (list, tuple):
            return hash_part(kind.__name__.capitalize(), elts=(yield from _hash_each(value)))
        if kind is dict:
            keys = yield from _hash_each(value)
            return hash_part("Dict", keys=keys, values=(yield from _hash_each(value.values())))
        if kind in (set, frozenset):
            entries = sorted((yield from _hash_each(value)))
            written = hash_part("Set", elts=entries)
            if kind is set and entries:
                return written
            return hash_part("Call", func=hash_part("Name", id=kind.__name__), args=[written] if entries else [])
        if kind is np.ndarray and not value.dtype.hasobject:
            data = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return hash_part("array", shape=list(value.shape), type=repr(value.dtype.descr), data=data)
        if isinstance(value, FunctionType):
            return (yield from self._hash_function(value))
        if isinstance(value, type):
            return (yield from self._hash_class(value))
        if isinstance(value, ModuleType):
            if not python_files.is_local(value):
                return hash_import(value.__name__)
            scope = self.read_names(vars(value))
            self.add_name(scope, "")
            return Link(scope, None).form
        for each, attributes in _DESCRIPTOR_PARTS.items():
            if isinstance(value, each):
                parts = yield from _hash_each(getattr(value, name) for name in attributes)
                return hash_part(each.__name__, parts=parts)
        if isinstance(value, CACHED_TYPE):
            return hash_part("cached", parts=(yield from _hash_each((value.__wrapped__, value.cache_parameters()))))
        if isinstance(value, MappingProxyType):
            return hash_part("mapping", content=(yield dict(value)))
        return (yield from self._hash_object(value))

    def find_name(self, thing: Any) -> Link | None:
        """Return the link to a named object of a user file or notebook, and add the definition of the object."""
        inner = python_files.find_function(thing)
        if isinstance(inner, FunctionType):
            spaces = [inner.__globals__]
        else:
            kind = inner if isinstance(inner, type) else type(inner)
            spaces = [each.__globals__ for each in vars(kind).values() if isinstance(each, FunctionType)]
            module = sys.modules.get(kind.__module__ or "")
            spaces += [vars(module)] if module is not None else []
        for names in filter(_is_local_namespace, spaces):
            own = getattr(thing, "__name__", "")
            name = own if names.get(own) is thing else ""
            name = name or next((each for each, value in list(names.items()) if value is thing), "")
            if name and (scope := self.read_names(names)).binders.get(name):
                self.add_name(scope, name)
                return Link(scope, name)
        return None

    def _hash_function(self, function: FunctionType) -> HashSteps:
        """Compute the structural hash of a function from its text, or from compiled code if the text is unknown."""
        code, enclosed = function.__code__, dict[str, Any]()
        for name, cell in sorted(zip(code.co_freevars, function.__closure__ or (), strict=True)):
            try:
                enclosed[name] = cell.cell_contents
            except ValueError:  # the variable has no value yet
                enclosed[name] = UnknownValueError
        captured = yield from _hash_each((function.__defaults__, function.__kwdefaults__, enclosed))
        if not _is_local_namespace(function.__globals__):  # an installed function created this function
            text = hash_import(f"{function.__module__}.{function.__qualname__}")
            return hash_part("function", text=text, captured=captured)
        scope = self.read_names(function.__globals__)
        node, inner = scope.find_definition(function), list[str]()
        if node is None:
            text = python_files.hash_lists(python_files.describe_code(code))
            self.notes[function.__qualname__] = (
                f"the source of `{function.__qualname__}` is unknown or has changed since its import, so its "
                "fingerprint uses the compiled code. Another Python version computes its runs again. Put the function "
                "into a file, or import the file again."
            )
            for name in sorted({name for each in python_files.iterate_codes(code) for name in each.co_names}):
                self.add_name(scope, name)
        else:
            text = str(python_files.hash_tree(node))
            statement = Statement(ast.Expr(node) if isinstance(node, ast.expr) else node)
            inner = self._add_used_names(scope, statement, {function.__name__, *code.co_freevars})
        return hash_part("function", text=text, captured=captured, inner=inner, scope=scope.number)

    def _hash_class(self, kind: type) -> HashSteps:
        members = {}
        for name, value in vars(kind).items():
            # libraries such as dataclasses generate methods from the other members
            is_generated = isinstance(value, FunctionType) and value.__code__.co_filename == "<string>"
            if name not in _IGNORED_ATTRIBUTES and not is_generated:
                members[name] = value
        # Field objects of a dataclass cannot be pickled: use their content
        fields = members.pop("__dataclass_fields__", {}).values()
        fields = [[each.name, each.default, each.default_factory] for each in fields]
        parts = yield from _hash_each((kind.__qualname__, kind.__bases__, members, fields, type(kind)))
        return hash_part("class", parts=parts)

    def _hash_object(self, value: Any) -> HashSteps:
        """Compute the structural hash of an object from its pickled content."""
        kind = type(value)
        # a fixed protocol, because the highest protocol depends on the version of Python
        made = copyreg.dispatch_table[kind](value) if kind in copyreg.dispatch_table else value.__reduce_ex__(4)
        if isinstance(made, str):
            return hash_import(f"{getattr(value, '__module__', None) or kind.__module__}.{made}")
        package = get_root(kind.__module__)
        if package not in sys.stdlib_module_names and not python_files.is_local(sys.modules.get(kind.__module__)):
            self.notes.setdefault(
                "pickled",
                f"an object of type {kind.__module__}.{kind.__qualname__} has no literal form, so the fingerprint "
                f"uses its pickled content. Another version of {package} may compute the runs again. Create the object "
                "in the file of the function or inside the function.",
            )
        self.has_pickled = True
        function, arguments, *more = made
        parts = [function, arguments, *(_remove_caches(kind, part) for part in more[:1]), *more[1:]]
        forms = yield from _hash_each(list(part) if isinstance(part, Iterator) else part for part in parts)
        return hash_part("object", parts=forms)

    def hash_all(self, root: str) -> str:
        """Combine the structural hashes of all used definitions and the hash `root`."""
        self.add_all_definitions()
        return python_files.hash_lists([root, *(scope.hash_used() for scope in self.scopes.values())])


def _hash_each(values: Iterable[Any]) -> Generator[Any, str, list[str]]:
    forms = []
    for value in values:
        form = yield value
        forms.append(form)
    return forms


def _is_local_namespace(names: Mapping[str, Any]) -> bool:
    """Return True if `names` is the namespace of a user module."""
    return python_files.is_local(sys.modules.get(str(names.get("__name__"))))


def _remove_caches(kind: type, state: Any) -> Any:
    """Return the state of an object sorted by name, without the values of a `cached_property` and other caches."""
    if isinstance(state, tuple):
        parts = [(part, _remove_caches(kind, part)) for part in state]
        return tuple(kept for part, kept in parts if not isinstance(part, dict) or kept or not part)
    if not isinstance(state, dict):
        return state
    members = {name: each for base in kind.__mro__ for name, each in vars(base).items()}
    caches = {name for name, each in members.items() if isinstance(each, cached_property)}
    if not python_files.is_local(sys.modules.get(kind.__module__)):
        empty = {name for name, each in state.items() if each is None or (type(each) is dict and not each)}
        caches |= {"_cache", *(name for name in empty if str(name).startswith("_"))}
    # unpickling may change the order of attributes
    return {name: state[name] for name in sorted(state, key=str) if name not in caches}


def _captures_constants(value: Any) -> bool:
    """Return True for a function that captures only constants, functions and classes."""
    parts = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    if isinstance(value, functools.partial):
        parts = [value.func, *value.args, *value.keywords.values()]
    is_function = isinstance(value, (functools.partial, FunctionType, CACHED_TYPE))
    return is_function and all(type(part) in (*_CONSTANT_TYPES, FunctionType, type) for part in parts)


# --- fingerprints -----------------------------------------------------------------------------------------------------


def fingerprint_file(text: str, attribute: str, path: Path, folder: Path, package: str = "") -> tuple[str, Contents]:
    """Return the fingerprint of `attribute` in a file, and the hashes of other files.  Imports begin in `folder`."""
    ast.parse(text)
    used = UsedCode()
    scope = used.read_file(path, folder, package, text)
    first, *rest = attribute.split(".")
    used.add_name(scope, first)
    used.add_all_definitions()
    files = {name: content for name, content in used.files.items() if name != str(path)}
    link = scope.links.get(first)
    if link is not None and link.scope.path in files:  # the file only imports the name: fingerprint its definition
        source, name = python_files.read_source(Path(link.scope.path)), ".".join(filter(None, (link.name, *rest)))
        found, inner = fingerprint_file(source, name, Path(link.scope.path), link.scope.folder, link.scope.package)
        return found, tuple(sorted((files | dict(inner)).items()))
    return used.hash_all(python_files.hash_lists([Link(scope, first).form, *rest])), tuple(sorted(files.items()))


def fingerprint_object(function: Any) -> tuple[str, UsedCode]:
    """Return the fingerprint of an object, and the code that it uses.  Pickled content that varies raises TypeError."""
    before = ""
    for _ in range(4):  # a first access may change an object: xarray then creates empty attributes
        used = UsedCode()
        used.root = used.find_name(function) if callable(function) else None
        found = used.hash_all(
            used.hash_value(function) if used.root is None else python_files.hash_lists([used.root.form])
        )
        if found == before or not used.has_pickled:
            for note in used.notes.values():
                warn(note, CodeWarning)
            return found, used
        before = found
    raise TypeError("its pickled content differs at each access")
