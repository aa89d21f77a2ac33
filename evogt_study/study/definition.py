"""Write the arguments of `Study` as the text of a study file.

Each study is checked from its text, so a study in Python and a study in a file have the same meaning and the same keys.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import StudyError, shortened
from evogt_study.methods.code import PickledCode, PythonFile, UserCode, code_of, depended, named_code
from evogt_study.methods.problem_kind import is_problem
from evogt_study.schema.values import is_composite
from evogt_study.storage.atomic import written_whole
from evogt_study.study.designs import SECTIONS, sections
from evogt_study.study.model import (
    quoted,
)

POINTS = (*SECTIONS, "exclude")
"""Sections that may occur several times."""
MERGED = ("axes", "constants")
"""Sections in which `Study.replace` changes only the named entries."""
FEWEST_CONSECUTIVE = 6
"""Consecutive integers are written as start and count if there are as many: then that is the shorter text."""


@dataclass(frozen=True)
class Defined:
    """The text of a study, the name that messages have for it, and the code that it names."""

    text: str
    file: str
    codes: Mapping[str, UserCode]

    def named(self, reference: str, depends: Sequence[str]) -> UserCode:
        """The code of this name with the files that it depends on.  Raises StudyError."""
        code, folder = self.codes.get(reference), Path(self.file).parent
        if not isinstance(code, PickledCode):
            return named_code(reference, folder, depends)
        return replace(code, depends=depended(depends, Path(code.folder)))


def defined(given: Mapping[str, Any]) -> Defined:
    """Return the text of a study with these arguments.  Raises StudyError if a text cannot state one of them."""
    table = {key: value for key, value in given.items() if key != "designs" and not _left_out(value)}
    table |= sections(given.get("designs") or ())
    if "common" in table:
        table["random"] = {"common": table.pop("common")}
    codes: dict[str, UserCode] = {}
    for key in ("method", "problem"):
        if _is_code(table.get(key)):
            code = code_of(table[key], Path.cwd())
            codes[code.reference] = code
            table[key] = code.reference
        several = table["axes"].get(key) if isinstance(table.get("axes"), Mapping) else None
        if isinstance(several, Mapping):
            made = {label: code_of(each, Path.cwd()) for label, each in several.items() if _is_code(each)}
            codes |= {code.reference: code for code in made.values()}
            stated = {
                label: made[label].reference if label in made else _section(key, each)
                for label, each in several.items()
            }
            table["axes"] = {**table["axes"], key: stated}
    table["name"] = table.get("name") or _name_of(given.get("method"), str(table.get("method", "study")))
    return Defined(_text(table), f"study {table['name']}", codes)


def changed(text: str, file: str, codes: Iterable[UserCode], changes: Mapping[str, Any]) -> Defined:
    """Return the text of a study with some arguments changed.  Raises StudyError."""
    table = tomllib.loads(text)
    if "designs" in changes:
        table = {key: value for key, value in table.items() if key not in (*SECTIONS, "table_files")}
    for key, value in changes.items():
        if key in MERGED:
            if not isinstance(value or {}, Mapping):
                raise _no_mapping(key, value)
            # from both: an axis may become a constant, and the other way round
            for name in value or ():
                for section in MERGED:
                    table.get(section, {}).pop(name, None)
            table[key] = table.get(key, {}) | {name: each for name, each in (value or {}).items() if each is not None}
        else:
            table.pop("random" if key == "common" else key, None)
            table[key] = value
    made = defined(table)
    return replace(made, file=file, codes={**{code.reference: code for code in codes}, **made.codes})


def written(text: str, file: str, codes: Iterable[UserCode], path: Path) -> Path:
    """Write a study's text to the new file `path`, naming its code and its tables from there.  Raises StudyError."""
    table, folder = tomllib.loads(text), path.resolve().parent
    for each in table.get("table", []):
        source = Path(file).parent.resolve() / each.get("file", "")
        if "file" in each and source.is_file():  # the text keeps the content of a file that is not there
            table["table_files"].pop(each["file"], None)
            # relpath, since the file need not be below the folder
            each["file"] = Path(os.path.relpath(source, folder)).as_posix()
    for code in codes:
        for key in ("method", "problem"):
            if table.get(key) == code.reference:
                table[key] = _reference_from(code, folder)
        for key in (*MERGED, *SECTIONS, "when"):
            if key in table:
                table[key] = _with_text(table[key], code.reference, _reference_from(code, folder))
        table["depends"] = [os.path.relpath(Path(code.folder) / name, folder) for name, _ in code.depends] or None
    if path.exists():
        raise StudyError(f"`path` must be a new file, got {path}, which exists")
    try:
        with written_whole(path) as temporary:
            temporary.write_text(_text(table), encoding="utf-8")
    except OSError as error:
        raise StudyError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def _left_out(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple)) and not value)


def _is_code(value: object) -> bool:
    # a problem in formulas is callable too, with the values of its parameters
    return callable(value) and not is_problem(value)


def _name_of(method: Any, reference: str) -> str:
    """Return the name of a study, made from the name of its method."""
    name = getattr(method, "__name__", reference.rpartition(":")[2])
    return re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") or "study"


def _text(table: Mapping[str, Any]) -> str:
    """The arguments as TOML: single values first, then sections."""
    known = (
        "name", "title", "source", "method", "problem", "depends",
        "axes", "constants", *POINTS, "table_files", "when", "pilot", "random", "output", "precision", "publication",
    )  # fmt: skip
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise StudyError(f"`Study` must be given {', '.join(known)}, got {unknown[0]!r}")
    made = {key: _section(key, table[key]) for key in known if table.get(key) is not None}
    single = {key: value for key, value in made.items() if not isinstance(value, dict) and key not in POINTS}
    lines = [f"{key} = {_value(key, value)}" for key, value in single.items()]
    for key, value in made.items():
        for table in [value] if isinstance(value, dict) else value if key in POINTS else []:
            entries = (f"{_key(name)} = {_value(f'{key}.{name}', entry)}" for name, entry in table.items())
            lines += ["", f"[[{key}]]" if key in POINTS else f"[{key}]", *entries]
    return "\n".join([*lines, ""])


def _section(key: str, value: Any) -> Any:
    """A section as mappings and lists."""
    if is_problem(value):
        if key == "method":
            raise StudyError(
                "`method` must be a function or the name of a method, got a problem; give it as problem=..."
            )
        return dict(value.table)
    if key in ("when", "depends", "exclude"):
        listed = [value] if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable) else list(value)
        kind, told = (str, "names of files") if key == "depends" else (Mapping, "mappings, { match = { ... } }")
        if not all(isinstance(each, kind) for each in listed):
            raise StudyError(f"`{key}` must be a list of {told}, got {shortened(value)}")
        return listed
    if key in ("axes", "constants", "pilot", "output", "precision", "random", "table_files", "publication"):
        if not isinstance(value, Mapping):
            raise _no_mapping(key, value)
        return {name: _axis(name, each) if key == "axes" else each for name, each in value.items()}
    return value


def _no_mapping(key: str, value: Any) -> StudyError:
    return StudyError(f"`{key}` must be a mapping of names to values, got {shortened(value)}")


def _axis(name: str, values: Any) -> Any:
    """The values of an axis; consecutive integers as the first one and their number."""
    one = np.ndim(values) == 0 if isinstance(values, np.ndarray) else not isinstance(values, (Iterable, Mapping))
    if one or isinstance(values, (str, bytes)):
        raise StudyError(
            f"`{name}` must be a list of values, got {shortened(values)} (axes.{name}); one value belongs in constants"
        )
    if isinstance(values, Mapping):
        return values
    listed = list(values)
    whole = all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in listed)
    if whole and len(listed) >= FEWEST_CONSECUTIVE and listed[0] >= 0:
        start = int(listed[0])
        if all(int(value) == start + number for number, value in enumerate(listed)):
            return {"start": start, "count": len(listed)}
    return listed


def _value(where: str, value: Any) -> str:
    """Return a value in TOML; its strings, numbers and lists are written as in JSON.  Raises StudyError."""
    # before the others, since np.float64 is a float, which NumPy 2 writes as np.float64(1.0)
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if is_composite(value):
        value = dict(value.content())
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        # reads back as the same number; json would write NaN and Infinity, which TOML does not know
        return repr(value)
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(_value(where, each) for each in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(where, each)}' for name, each in value.items())} }}"
    raise StudyError(
        f"`{where}` must be a number, a word, true or false, or a list, got {shortened(value)}; "
        "give a function what else it needs by functools.partial"
    )


def _key(name: Any) -> str:
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(str(name))


def _with_text(value: Any, old: str, new: str) -> Any:
    """The value with every text `old` in it replaced by `new`."""
    if isinstance(value, dict):
        return {name: _with_text(each, old, new) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_text(each, old, new) for each in value]
    return new if value == old else value


def _reference_from(code: UserCode, folder: Path) -> str:
    """Name the code as a study file in `folder` does.  Raises StudyError if a file cannot name it."""
    file = code.path if isinstance(code, PythonFile) else code.file if isinstance(code, PickledCode) else None
    if file is None:
        return code.reference
    if not file:
        raise StudyError(
            f"`{code.attribute}` must be a function of a Python file for a study file to name it, got one of "
            f"{code.reference.partition(':')[0]} that is in none; put it into a file, at the top level"
        )
    return f"{Path(os.path.relpath(file, folder)).as_posix()}:{code.attribute}"
