"""Files beside a study file that its runs need: Python, what that imports, tables, meshes, references."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evogt_study.errors import ResultError
from evogt_study.methods.code import DeclaredCode
from evogt_study.methods.fingerprint import imported_files
from evogt_study.results.reopened import check_beside
from evogt_study.study.declared import Place
from evogt_study.study.listed import SECTION, rows_of
from evogt_study.study.study import Study

IN_WORDS = frozenset({"name", "title", "source", "publication"})
"""Keys whose texts name no file."""


def files_beside(result: Path, study: Study) -> dict[str, Path]:
    """Files that the study names, or that its Python imports, by their path from its folder.

    A file is named by any text of the study that is the path of one.  Raises ResultError for one outside of the study's
    folder, and for Python that is not there or is not what computed the result.
    """
    folder, table = Path(study.file).parent, tomllib.loads(study.text)
    remedy = "publish it from the folder in which `evogt run` was called, with the study as it was then"
    for code in study.spec.codes:
        if isinstance(code, DeclaredCode) and ".py:" in code.reference and not code.runs_in_python:
            check_beside(result, code, folder, table.get("depends", []), remedy)
    found: dict[str, Path] = {}
    stated = {key: each for key, each in table.items() if key not in IN_WORDS}
    # of tables whose lines are in the study's text the cells: a column may name meshes or Python
    columns = {
        name: rows_of(lines, name, Place(study.file, SECTION)) for name, lines in stated.get(SECTION, {}).items()
    }
    for text in dict.fromkeys(_texts(stated | {SECTION: columns})):
        path = folder / (text.rpartition(":")[0] if ".py:" in text else text)
        if not _is_file(path):
            continue
        for each in (path, *_imported(path)):
            # resolved, since a link or `..` may lead out of the folder
            inside = each.resolve()
            if not inside.is_relative_to(folder.resolve()):
                raise ResultError(f"{each}, which {study.file} needs, must lie in its folder to be published; move it")
            found[inside.relative_to(folder.resolve()).as_posix()] = inside
    return dict(sorted(found.items()))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a formula may be no path at all
        return False


def _imported(path: Path) -> Iterator[Path]:
    if path.suffix == ".py":
        whole = path.resolve()
        yield from imported_files(whole, whole.read_text(encoding="utf-8-sig"), whole.parent).values()
