"""Read the imports, statements, names and functions of Python files without executing the files.

The structural hash of a text is a hash of its syntax tree.  It ignores comments, docstrings, positions and layout, and
it is equal in all supported versions of Python.
"""

from __future__ import annotations

import ast
import hashlib
import json
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import groupby
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from evogt_study.errors import StudyError, shorten
from evogt_study.storage.files import hash_file, read_bytes

FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DEFINITION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORT_NODES = (ast.Import, ast.ImportFrom)
_IGNORED_FIELDS = ("ctx", "type_comment", "type_ignores", "kind")
_MAIN_GUARDS = ("__name__ == '__main__'", "'__main__' == __name__")


def hash_lists(content: Any) -> str:
    """Return the hash of nested lists of strings and integers."""
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def hash_part(kind: str, **parts: Any) -> str:
    """Return the structural hash of a syntax node or a value from its kind and the hashes of its parts."""
    return hash_lists([kind, *([name, part] for name, part in parts.items() if part is not None and part != [])])


def hash_constant(value: Any) -> str:
    """Return the hash of a number, string, boolean or other constant.  The hashes of 1, 1.0 and True differ."""
    text = value if type(value) is str else hex(value) if type(value) is int else repr(value)
    return hash_part("Constant", type=type(value).__name__, value=text)


def hash_import(name: str) -> str:
    """Return the structural hash of an installed object, which depends on its name only."""
    return hash_part("import", name=name)


def hash_tree(node: Any) -> Any:
    """Return the structural hash of a syntax tree, or a list of hashes for a list of trees."""
    if isinstance(node, list):
        return [hash_tree(each) for each in node]
    if isinstance(node, ast.Constant):
        return hash_constant(node.value)
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, (ast.UnaryOp, ast.BinOp)):
        with suppress(ValueError):  # -1 and 1+2j are constants
            return hash_constant(ast.literal_eval(node))
    fields = {name: value for name, value in ast.iter_fields(node) if name not in _IGNORED_FIELDS}
    if isinstance(node, (*DEFINITION_NODES, ast.Module)) and node.body and _is_text(node.body[0]):
        fields["body"] = node.body[1:]
    if isinstance(node, ast.JoinedStr):  # Python 3.12 adds an empty text between two fields
        fields["values"] = []
        for is_text, group in groupby(node.values, lambda each: isinstance(each, ast.Constant)):
            parts: list[Any] = list(group)
            text = "".join(part.value for part in parts) if is_text else ""
            fields["values"] += [ast.Constant(text)] * bool(text) if is_text else parts
    made = {name: hash_tree(value) for name, value in fields.items()}
    if isinstance(node, ast.Set):  # the order of a set has no effect
        made["elts"].sort()
    return hash_part(type(node).__name__, **made)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@dataclass(frozen=True)
class Import:
    """One import of a module, or of an `attribute` of a module.

    `name` is the bound name.  It is "" inside a function, and "*" for a star import.  `level` is the number of leading
    dots.  `loads` is the whole name "a.b" of ``import a.b``, which binds only "a".
    """

    name: str
    module: str
    attribute: str = ""
    level: int = 0
    loads: str = ""

    def find_module(self, package: str) -> str:
        """Return the dotted name of the module that a file of `package` imports."""
        # one dot means the package, and each further dot means the next parent package
        parts = package.split(".")[: len(package.split(".")) + 1 - self.level] if self.level else []
        return ".".join(filter(None, [*parts, self.module]))


class Names(ast.NodeVisitor):
    """Names in one scope: a statement, a function or a comprehension.

    `uses` holds names from outside the scope with attributes, such as "np.linalg.norm".  `changes` holds the names with
    attributes, entries or global values that the scope sets.  `calls` holds the names with methods that it calls.
    """

    def __init__(self, *nodes: ast.AST, binds: Iterable[str] = ()) -> None:
        self.uses, self.binds, self.outer = set[str](), set(binds), set[str]()
        self.changes, self.calls = set[str](), set[str]()
        self.imports: list[Import] = []
        for node in nodes:
            self.visit(node)

    def _add_scope(self, inner: Names, local: set[str]) -> None:
        """Add the names of an inner scope, except its `local` names."""
        self.uses |= {name for name in inner.uses if get_root(name) not in local}
        self.changes |= inner.changes - local
        self.calls |= inner.calls - local
        self.imports += [replace(each, name="") for each in inner.imports]

    def visit(self, node: ast.AST) -> None:
        """Add the names of a syntax node and of its parts."""
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                self.changes.add(find_owner(node))
            case ast.Call(func=ast.Attribute() as method):
                self.calls.add(find_owner(method))
            case ast.AugAssign(target=ast.Name(id=name)):
                self.uses.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self.binds.add(name)
            case ast.MatchMapping(rest=str(name)):
                self.binds.add(name)
        match node:
            case ast.Name(id=name, ctx=context):
                (self.uses if isinstance(context, ast.Load) else self.binds).add(name)
            case ast.Attribute(value=inner, attr=attributes):
                while isinstance(inner, ast.Attribute):
                    attributes, inner = f"{inner.attr}.{attributes}", inner.value
                if isinstance(inner, ast.Name):
                    self.uses.add(f"{inner.id}.{attributes}")
                else:
                    self.visit(inner)
            case ast.Global(names=names):
                for known in (self.outer, self.uses, self.changes):
                    known.update(names)
            case ast.Nonlocal(names=names):
                self.outer.update(names)
            case ast.Import(names=aliases):
                for alias in aliases:
                    name = alias.asname or get_root(alias.name)
                    self.imports.append(Import(name, alias.name if alias.asname else name, loads=alias.name))
                    self.binds.add(name)
            case ast.ImportFrom(names=aliases):
                for alias in aliases:
                    self.imports.append(Import(alias.asname or alias.name, node.module or "", alias.name, node.level))
                    self.binds.add(alias.asname or alias.name)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._visit_definition(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._visit_comprehension(node)
            case _:
                self.generic_visit(node)

    def _visit_definition(self, node: Any) -> None:
        is_class = isinstance(node, ast.ClassDef)
        self.binds |= set() if isinstance(node, ast.Lambda) else {node.name}
        for part in (*node.decorator_list, *node.bases, *node.keywords) if is_class else _list_outer_parts(node):
            self.visit(part)
        arguments = [] if is_class else [part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)]
        inner = Names(*(node.body if isinstance(node.body, list) else [node.body]), binds=arguments)
        self._add_scope(inner, set() if is_class else inner.binds - inner.outer)  # methods do not see class names

    def _visit_comprehension(self, node: Any) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner = Names(first.target, *first.ifs, *others, *results)
        assigned = {part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}
        self.binds |= assigned
        self._add_scope(inner, inner.binds - assigned - inner.outer)


def find_owner(node: ast.expr) -> str:
    """Return the variable `a` of an expression such as ``a.b[0].c``, or "" for any other expression."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def get_root(name: str) -> str:
    """Return the first part of a dotted name."""
    return name.partition(".")[0]


def _list_outer_parts(node: Any) -> list[ast.AST]:
    """Return the decorators, defaults and annotations of a function."""
    body = node.body if isinstance(node.body, list) else [node.body]
    return [part for part in ast.iter_child_nodes(node) if part not in body]


@dataclass(frozen=True, eq=False)
class Statement:
    """Statement at the top level of a file."""

    node: ast.stmt

    @cached_property
    def form(self) -> str:
        """Structural hash of the statement, of the assigned value or of the imported object."""
        if isinstance(self.node, IMPORT_NODES):
            (each,) = self.names.imports
            return hash_import(f"{'.' * each.level}{each.module}.{each.attribute}".rstrip("."))
        return str(hash_tree(self.assigned or self.node))

    @cached_property
    def names(self) -> Names:
        """Names that the statement binds, uses and changes."""
        return Names(self.node)

    @cached_property
    def roots(self) -> set[str]:
        """Names that the statement uses, without attributes."""
        return set(map(get_root, self.names.uses))

    @cached_property
    def roots_at_import(self) -> set[str]:
        """Names that the statement uses during the import of the file, without attributes."""
        is_function = isinstance(self.node, FUNCTION_NODES)
        return set(map(get_root, Names(*_list_outer_parts(self.node)).uses)) if is_function else self.roots

    @cached_property
    def is_idle(self) -> bool:
        """True for a docstring, and for a block under ``if __name__ == "__main__"``."""
        return _is_text(self.node) or (isinstance(self.node, ast.If) and ast.unparse(self.node.test) in _MAIN_GUARDS)

    @property
    def assigned(self) -> ast.expr | None:
        """Value of an assignment ``name = value``, or None for other statements."""
        match self.node:
            case ast.Assign(targets=[ast.Name()], value=value):
                return value
        return None

    @cached_property
    def is_ordered(self) -> bool:
        """True if the position of the statement can affect values, as for calls and for changes of a value."""
        if self.assigned is None:
            return not isinstance(self.node, (*DEFINITION_NODES, *IMPORT_NODES))
        calls = [part for part in ast.walk(self.assigned) if isinstance(part, (ast.Call, ast.Await))]
        # the source text of an empty set is a call
        return any(getattr(getattr(part, "func", None), "id", "") not in ("set", "frozenset") for part in calls)


def is_constant(node: ast.expr | None) -> bool:
    """Return True if a node is a number, a string, a boolean or another constant."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


@lru_cache(maxsize=64)
def parse_statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a file, split into single imports and assignments, or () for invalid Python."""
    try:
        return tuple(Statement(part) for node in ast.parse(text).body for part in _split_statement(node))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _split_statement(node: ast.stmt) -> list[ast.stmt]:
    """Split ``import a, b``, ``a = b = 1`` and ``a, b = 1, 2``, and remove the type in ``a: int = 1``."""
    match node:
        case ast.Import(names=names):
            return [ast.Import([alias]) for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            return [ast.ImportFrom(module, [alias], level) for alias in names]
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
            return [ast.Assign([target], value)]
        case ast.Assign(targets=[_, _, *_] as targets, value=ast.Constant() as value):
            return [part for target in targets for part in _split_statement(ast.Assign([target], value))]
        # only constants, because ``a, b = b, a`` differs from ``a = b`` and ``b = a``
        case ast.Assign(
            targets=[ast.Tuple(elts=names) | ast.List(elts=names)],
            value=ast.Tuple(elts=values) | ast.List(elts=values),
        ) if len(names) == len(values) > 0 and all(isinstance(each, ast.Name) for each in names):
            if all(map(is_constant, values)):
                return [ast.Assign([target], value) for target, value in zip(names, values, strict=True)]
    return [node]


# --- the text of functions and notebooks ------------------------------------------------------------------------------


def unwrap(value: Any) -> Any:
    """Return the function behind a decorator or a descriptor."""
    for _ in range(20):
        inner = vars(value).get("__wrapped__") if hasattr(value, "__dict__") else None
        inner = inner or (value.__func__ if isinstance(value, (staticmethod, classmethod)) else None)
        inner = inner or (value.fget if isinstance(value, property) else None)
        inner = inner or (value.func if isinstance(value, cached_property) else None)
        if inner is None:
            break
        value = inner
    return value


def find_function(value: Any) -> Any:
    """Return the function behind decorators, partials and bound methods."""
    value = unwrap(value)
    while isinstance(value, (partial, MethodType)):
        value = unwrap(value.func if isinstance(value, partial) else value.__func__)
    return value


@lru_cache(maxsize=32)
def find_functions(text: str) -> Mapping[str, Sequence[tuple[Any, Any]]]:
    """Return the syntax trees and compiled code of all functions in a text, by qualified name."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    try:
        tree = ast.parse(text)
        nodes = dict(enumerate((node for node in ast.walk(tree) if isinstance(node, FUNCTION_NODES)), 1))
        for number, node in nodes.items():  # the line number of compiled code then identifies its syntax tree
            if isinstance(node, ast.Lambda):  # in Python 3.12, the line of a constant affects the compiled code
                ast.increment_lineno(node.body, number - node.lineno)
            for each in (node, *getattr(node, "decorator_list", ())):
                each.lineno, each.end_lineno, each.col_offset, each.end_col_offset = number, number, 0, 0
        # a notebook compiles each statement separately, which changes the code for calls of imported names
        for part in (tree, *(ast.Module([node], []) for node in tree.body)):
            for code in iterate_codes(compile(part, "<text>", "exec", dont_inherit=True)):
                made = nodes.get(code.co_firstlineno)
                if made is not None and code.co_name == getattr(made, "name", "<lambda>"):
                    found.setdefault(code.co_qualname, []).append((made, describe_code(code)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return found


def iterate_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and the code objects of its nested functions."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from iterate_codes(each)


def describe_code(code: CodeType) -> Any:
    """Return compiled code as nested lists, without positions in the text."""
    constants = [
        describe_code(each) if isinstance(each, CodeType)
        else sorted(map(repr, each)) if isinstance(each, frozenset)
        else repr(each)
        for each in code.co_consts
    ]  # fmt: skip
    # without the flags of `from __future__`, which a cell of a notebook inherits from earlier cells
    names = [list(code.co_names), list(code.co_varnames), list(code.co_freevars), code.co_flags & 0xFFF]
    return [code.co_code.hex(), code.co_exceptiontable.hex(), names, constants]


def list_cells(names: Mapping[str, Any]) -> list[str]:
    """Return the texts of all cells of a notebook that are known and valid Python, in order."""
    cells = names.get("In")
    if not (isinstance(cells, list) and all(isinstance(each, str) for each in cells)):
        own = [unwrap(value) for value in list(names.values())]
        own += [each for kind in own if isinstance(kind, type) for each in map(unwrap, vars(kind).values())]
        own = [each.__code__ for each in own if isinstance(each, FunctionType) and each.__globals__ is names]
        files = dict.fromkeys(each.co_filename for each in own)
        cells = ["".join(linecache.getlines(file, dict(names))) for file in files]
    return list(filter(parse_statements, cells))  # magic commands are not Python


def remove_old_cells(statements: Sequence[Statement]) -> list[Statement]:
    """Remove statements that a later cell has replaced or repeated."""
    kept: list[Statement] = []
    last: dict[str, str] = {}
    for each in reversed(statements):
        names, is_definition = each.names.binds, isinstance(each.node, (*DEFINITION_NODES, *IMPORT_NODES))
        if not names or any(name not in last or not (is_definition or last[name] == each.form) for name in names):
            kept.append(each)
            last |= dict.fromkeys(names, each.form)
    return kept[::-1]


# --- files ------------------------------------------------------------------------------------------------------------

Contents = tuple[tuple[str, str], ...]
"""Names of files, each with a hash of its content."""
PACKAGE = "evogt_study"
DYNAMIC_IMPORTS = ("import_module", "__import__", "runpy", "exec")
"""Names that can import a module whose name is a string."""
_SITE_FOLDERS = tuple(Path(place) for place in {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def read_source(path: Path) -> str:
    """Return the text of a file, or "" if the file is not readable text."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except (OSError, ValueError):
        return ""


def hash_content(path: Path) -> str:
    """Return the structural hash of a Python file, or the hash of the bytes of any other file.  Raises OSError."""
    if path.suffix == ".py":
        with suppress(SyntaxError, ValueError, RecursionError):  # not valid in this version of Python
            return _hash_code(read_bytes(path).decode("utf-8-sig"))
    return hash_file(path)


_hash_code = lru_cache(maxsize=64)(lambda text: str(hash_tree(ast.parse(text))))


def hash_depends(names: Iterable[str], folder: Path) -> Contents:
    """Return the hash of each file.  The `names` are paths relative to `folder`.  Raises StudyError."""
    try:
        return tuple(sorted({name: hash_content(folder / name) for name in names}.items()))
    except (OSError, ValueError) as error:
        raise StudyError(f"`depends` must list readable files, got {shorten(str(error))}") from None


def add_depends(fingerprint: str, depends: Contents, folder: Path) -> str:
    """Extend a fingerprint by the hashes of the files in `depends` and their paths below a common folder."""
    if not depends:
        return fingerprint
    paths = [(folder / name).resolve() for name, _ in depends]
    common = Path(os.path.commonpath([path.parent for path in paths]))
    files = zip(paths, depends, strict=True)
    return hash_lists([fingerprint, sorted([path.relative_to(common).as_posix(), found] for path, (_, found) in files)])


def find_module_file(folder: Path, name: str) -> Path | None:
    """Return the file of a module below `folder`, or of a namespace package, or None if it does not exist."""
    place = folder.joinpath(*name.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return place if place.is_dir() and any(place.glob("*.py")) else None


def find_package(module: str, file: Path) -> str:
    """Return the name of the package that contains a module, or the name of the module if it is a package."""
    return module if file.name == "__init__.py" or file.is_dir() else module.rpartition(".")[0]


def find_search_folder(top: str) -> Path | None:
    """Return the folder in `sys.path` that holds the user module `top`, or None if no folder holds it."""
    for place in sys.path if top not in sys.stdlib_module_names else ():
        path = find_module_file(Path(place), top)
        if path is not None and path.is_file():
            return Path(place).resolve() if is_local_path(path) else None
    return None


def is_local(module: ModuleType | None) -> bool:
    """Return True for a user module: a script, a notebook or a file that is not installed."""
    if module is None or module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    package = get_root(module.__name__)
    is_of_user = package != PACKAGE and package not in sys.stdlib_module_names
    return file is not None and is_of_user and is_local_path(Path(file))


@lru_cache(maxsize=4096)
def is_local_path(path: Path) -> bool:
    """Return True for a file that is not installed."""
    path = path.resolve()
    # user packages and packages of a parent environment are in other folders named "site-packages"
    return not any(path.is_relative_to(place) for place in _SITE_FOLDERS) and "site-packages" not in path.parts


def find_imported_files(path: Path, source: str, root: Path, package: str = "") -> dict[str, Path]:
    """Return the files of `package`, or of any module below `root`, that a file imports, by path from `root`."""
    found: dict[str, Path] = {}
    names = [*_list_imports(source, package), *([package] if package else [])]
    while names:
        parts = names.pop().split(".")
        if package and parts[0] != get_root(package):
            continue
        for inner in (".".join(parts[:number]) for number in range(1, len(parts) + 1)):
            file = find_module_file(root, inner)
            key = file.relative_to(root).as_posix() if file is not None and file.is_file() else ""
            if file is not None and key and key not in found and file != path:
                found[key] = file
                names += _list_imports(read_source(file), find_package(inner, file))
    return dict(sorted(found.items()))


def _list_imports(source: str, package: str) -> Iterator[str]:
    """Yield the dotted names of all modules that a file may import."""
    statements = parse_statements(source)
    for each in (each for part in statements for each in part.names.imports):
        yield each.loads or ".".join(filter(None, [each.find_module(package), each.attribute]))
    if any(word in source for word in DYNAMIC_IMPORTS):
        for node in (node for part in statements for node in ast.walk(part.node)):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and all(map(str.isidentifier, text.split("."))):
                yield text


def hash_code_files(
    path: Path, source: str, root: Path, package: str, folder: Path, depends: Iterable[str]
) -> Contents:
    """Return the SHA-256 of a Python file under the name "", of its imports, and of the files in `depends`."""
    whole = folder.resolve()
    files = {"": path}
    files |= {os.path.relpath(whole / name, whole if package else root): whole / name for name in depends}
    if get_root(package) != PACKAGE and is_local_path(path):  # an installed package takes seconds to hash
        files |= find_imported_files(path, source, root, package)
    try:
        return tuple((name, hash_file(each)) for name, each in sorted(files.items()))
    except OSError as error:
        raise StudyError(f"{path} cannot be imported: {error.filename}: {error.strerror}") from None


def read_file_sources(path: Path, folder: Path, depends: Sequence[str]) -> tuple[str, str]:
    """Return the text of a Python file, and the hashes of its dependencies and imports as JSON."""
    whole, source = path.resolve(), read_source(path)
    files = hash_code_files(whole, source, whole.parent, "", folder, depends)
    return source, json.dumps([hash_depends(depends, folder), files])
