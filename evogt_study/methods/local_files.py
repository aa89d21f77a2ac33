"""Find the user files that a file imports, and hash their content.

The functions of this module execute and import no user code.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from evogt_study.errors import StudyError, shorten
from evogt_study.methods.syntax import hash_of, hash_tree, parse_statements
from evogt_study.storage.files import hash_file, read_bytes

Contents = tuple[tuple[str, str], ...]
"""Names of files, each with a hash of its content."""
PACKAGE = "evogt_study"
IMPORTS_BY_TEXT = ("import_module", "__import__", "runpy", "exec")
"""Names that can import a module whose name is a string."""
_PLACES = tuple(Path(place) for place in {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def read_source(path: Path) -> str:
    """Return the text of a file, or "" if the file is not readable text."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except (OSError, ValueError):
        return ""


def hash_content(path: Path) -> str:
    """Return the hash of the code of a Python file, or of the bytes of any other file.  Raises OSError."""
    if path.suffix == ".py":
        try:
            return _hash_code(read_bytes(path).decode("utf-8-sig"))
        except (SyntaxError, ValueError, RecursionError):
            pass
    return hash_file(path)  # Python of another version, or none, counts by its bytes


@lru_cache(maxsize=64)
def _hash_code(text: str) -> str:
    return str(hash_tree(ast.parse(text)))


def hash_depends(names: Iterable[str], folder: Path) -> Contents:
    """Return the hash of each file in `names`, which are paths from `folder`.

    Raises StudyError if a file is not readable.
    """
    try:
        return tuple(sorted({name: hash_content(folder / name) for name in names}.items()))
    except (OSError, ValueError) as error:
        raise StudyError(f"`depends` must list readable files, got {shorten(str(error))}") from None


def add_depends(fingerprint: str, depends: Contents, folder: Path) -> str:
    """Return the fingerprint extended by the files in `depends` and their paths below a common folder."""
    if not depends:
        return fingerprint
    paths = [(folder / name).resolve() for name, _ in depends]
    common = Path(os.path.commonpath([path.parent for path in paths]))
    files = zip(paths, depends, strict=True)
    return hash_of([fingerprint, sorted([path.relative_to(common).as_posix(), found] for path, (_, found) in files)])


def find_module_file(folder: Path, name: str) -> Path | None:
    """Return the file of a module below `folder`, or the folder of a package without ``__init__.py``."""
    place = folder.joinpath(*name.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return place if place.is_dir() and any(place.glob("*.py")) else None


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
    """Return the Python files below `root` that a file imports directly or indirectly, by path from `root`.

    `package` is the dotted name of the package of the file.  With a package, only files of this package count.
    """
    found: dict[str, Path] = {}
    names = [*_list_imports(source, package), *([package] if package else [])]
    while names:
        parts = names.pop().split(".")
        if package and parts[0] != package.partition(".")[0]:
            continue
        for inner in (".".join(parts[:number]) for number in range(1, len(parts) + 1)):
            file = find_module_file(root, inner)
            key = file.relative_to(root).as_posix() if file is not None and file.is_file() else ""
            if file is not None and key and key not in found and file != path:
                found[key] = file
                owner = inner if file.name == "__init__.py" else inner.rpartition(".")[0]
                names += _list_imports(read_source(file), owner)
    return dict(sorted(found.items()))


def _list_imports(source: str, package: str) -> Iterator[str]:
    """Yield the dotted names in a file that may be modules.  Yield nothing if the file is not valid Python."""
    statements = parse_statements(source)
    for each in (each for part in statements for each in part.names.imports):
        yield each.loads or ".".join(filter(None, [each.find_module(package), each.attribute]))
    if any(word in source for word in IMPORTS_BY_TEXT):
        for node in (node for part in statements for node in ast.walk(part.node)):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and all(map(str.isidentifier, text.split("."))):
                yield text


def hash_code_files(
    path: Path, source: str, root: Path, package: str, folder: Path, depends: Iterable[str]
) -> Contents:
    """Return the SHA-256 of a Python file, of the files that it imports, and of the files in `depends`.

    If the Python file is installed, its imports do not count, because hashing a large package takes seconds.  The name
    "" is the Python file itself.  Imports are named by their path from `root`.  Files in `depends` are named by their
    path from `root`, or from `folder` if the code is in a package.  Raises StudyError if a file is not readable.
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


def read_file_sources(path: Path, folder: Path, depends: Sequence[str]) -> tuple[str, str]:
    """Return the text of a Python file, and the hashes of its dependencies and imports as JSON."""
    whole, source = path.resolve(), read_source(path)
    files = hash_code_files(whole, source, whole.parent, "", folder, depends)
    return source, json.dumps([hash_depends(depends, folder), files])
