"""The part of a Python file that one of its functions uses: what its identity is made of.

Nothing is run or imported.  Comments, docstrings and layout do not count, nor do other functions of the file.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

UNKNOWN_NAMES = frozenset({"eval", "exec", "globals", "vars", "__import__"})
"""Names that reach others by text: of a function that uses one of these the whole file counts."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NO_CODE = ("ctx", "type_comment", "kind", "lineno", "end_lineno")


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
