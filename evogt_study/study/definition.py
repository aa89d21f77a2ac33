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
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from evogt_study.errors import StudyError, shortened
from evogt_study.methods.code import PickledCode, PythonFile, UserCode, code_of, named_code, pickled_object
from evogt_study.methods.fingerprint import depended
from evogt_study.methods.problem_kind import is_problem, states_problem
from evogt_study.schema.values import FINGERPRINT, OBJECT, TYPE, is_composite, to_json, to_plain
from evogt_study.storage.atomic import written_whole
from evogt_study.study.designs import SECTIONS, sections
from evogt_study.study.model import (
    quoted,
)

POINTS = (*SECTIONS, "exclude")
"""Sections that may occur several times."""
MERGED = ("axes", "constants")
"""Sections in which `Study.replace` changes only the named entries."""
RANGE = frozenset({"start", "count", "from", "to", "step", "scale"})
"""Keys of a range of values."""
FEWEST_CONSECUTIVE = 6
"""Consecutive integers are written as start and count if there are as many: then that is the shorter text."""


@dataclass(frozen=True)
class Defined:
    """The text of a study, the name that messages have for it, and the code that it names."""

    text: str
    file: str
    codes: Mapping[str, UserCode]
    objects: Mapping[str, bytes]

    def named(self, reference: str, depends: Sequence[str]) -> UserCode:
        """The code of this name with the files that it depends on.  Raises StudyError."""
        code, folder = self.codes.get(reference), Path(self.file).parent
        # without those that `Study.replace` has replaced
        objects = tuple((name, data) for name, data in sorted(self.objects.items()) if name in self.text)
        if not isinstance(code, PickledCode):
            return replace(named_code(reference, folder, depends), objects=objects)
        return replace(code, depends=depended(depends, Path(code.folder)), objects=objects)


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
        if isinstance(several, Mapping) and key not in table and _are_choices(key, several, table):
            made = {label: code_of(each, Path.cwd()) for label, each in several.items() if _is_code(each)}
            codes |= {code.reference: code for code in made.values()}
            stated = {
                label: made[label].reference if label in made else _section(key, each)
                for label, each in several.items()
            }
            table["axes"] = {**table["axes"], key: _Stated(stated)}
    table["name"] = table.get("name") or _name_of(given.get("method"), str(table.get("method", "study")))
    objects: dict[str, bytes] = {}
    try:
        return Defined(_text(table, objects), f"study {table['name']}", codes, objects)
    except RecursionError:
        raise StudyError("a value must not be nested too deeply, or contain itself") from None


def changed(text: str, file: str, codes: Sequence[UserCode], changes: Mapping[str, Any]) -> Defined:
    """Return the text of a study with some arguments changed.  Raises StudyError."""
    table = _stated(tomllib.loads(text))
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
    known = {code.reference: code for code in codes}
    objects = {name: data for code in codes for name, data in code.objects}
    return replace(made, file=file, codes=known | dict(made.codes), objects=objects | dict(made.objects))


def written(text: str, file: str, codes: Iterable[UserCode], path: Path) -> Path:
    """Write a study's text to the new file `path`, naming its code and its tables from there.  Raises StudyError."""
    table, folder = _stated(tomllib.loads(text)), path.resolve().parent
    _check_for_file(table, "")
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
            temporary.write_text(_text(table, {}), encoding="utf-8")
    except OSError as error:
        raise StudyError(f"cannot write {path}: {error.strerror or error}") from None
    return path


class _Stated(dict[str, Any]):
    """A mapping that is written as it is: the text of a study has it."""


def _stated(value: Any) -> Any:
    """Return what a text has with the mappings that state a type, or label methods and objects, as `_Stated`."""
    if isinstance(value, list):
        return [_stated(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    made = {name: _stated(entry) for name, entry in value.items()}
    is_labelled = bool(made) and all(isinstance(each, _Stated) and each.get(TYPE) == OBJECT for each in made.values())
    return _Stated(made) if TYPE in made or is_labelled else made


def _check_for_file(value: Any, where: str) -> None:
    """Raise StudyError for a value that a study file cannot state: None, and an object under a name."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        place = f"{where}[{name}]" if isinstance(value, list) else f"{where}.{name}".lstrip(".")
        kind = entry.get(TYPE) if isinstance(entry, _Stated) else ""
        if kind in ("None", OBJECT):
            message = "None" if kind == "None" else f"the object {str(name)!r}"
            remedy = "leave it out" if kind == "None" else "let the function make it from its name"
            raise StudyError(f"a study file cannot hold {message} ({place}); run the study in Python, or {remedy}")
        _check_for_file(entry, place)


def _is_choice_of_values(value: object) -> bool:
    return isinstance(value, Mapping) and "choice" in value


def _are_choices(key: str, several: Mapping[Any, Any], table: Mapping[str, Any]) -> bool:
    """Return True for the methods or problems of an axis.

    A function may have a parameter `problem` of its own: then at least one value has to state a problem.
    """
    is_parameter = key == "problem" and ":" in str(table.get("method", ""))
    if is_parameter and not any(states_problem(each, Path.cwd()) for each in several.values()):
        return False
    return all(_is_code(each) or is_problem(each) or isinstance(each, (str, Mapping)) for each in several.values())


def _left_out(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple)) and not value)


def _is_code(value: object) -> bool:
    # a problem in formulas is callable too, with the values of its parameters
    return callable(value) and not is_problem(value)


def _name_of(method: Any, reference: str) -> str:
    """Return the name of a study, made from the name of its method."""
    name = getattr(method, "__name__", reference.rpartition(":")[2])
    return re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") or "study"


def _text(table: Mapping[str, Any], objects: dict[str, bytes]) -> str:
    """The arguments as TOML: single values first, then sections.  The bytes of objects under names go to `objects`."""
    known = (
        "name", "title", "source", "method", "problem", "depends",
        "axes", "constants", *POINTS, "table_files", "when", "pilot", "random", "output", "precision", "publication",
    )  # fmt: skip
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise StudyError(f"`Study` must be given {', '.join(known)}, got {unknown[0]!r}")
    made = {key: _section(key, table[key]) for key in known if table.get(key) is not None}
    for key in ("axes", "zip"):
        for section in [made[key]] if key == "axes" and key in made else made.get(key, []):
            values = {name: each for name, each in section.items() if (key, name) != ("zip", "name")}
            section.update({name: _axis(name, each, objects) for name, each in values.items()})
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
        return {name: to_plain(each) for name, each in value.table.items()}
    if key in ("when", "depends", "exclude"):
        listed = [value] if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable) else list(value)
        kind, message = (str, "names of files") if key == "depends" else (Mapping, "mappings, { match = { ... } }")
        if not all(isinstance(each, kind) for each in listed):
            raise StudyError(f"`{key}` must be a list of {message}, got {shortened(value)}")
        return listed
    if key in ("axes", "constants", "pilot", "output", "precision", "random", "table_files", "publication"):
        if not isinstance(value, Mapping):
            raise _no_mapping(key, value)
        if key in MERGED:
            return dict(value)
        # of parameters: the candidates of a pilot
        return {name: each if name == "candidates" else to_plain(each) for name, each in value.items()}
    if key == "sample":  # the values of a choice are values of a parameter, and the others numbers of a distribution
        return [
            {name: each if _is_choice_of_values(each) else to_plain(each) for name, each in table.items()}
            for table in value
        ]
    if key in SECTIONS:
        return [dict(each) for each in value]
    return value


def _no_mapping(key: str, value: Any) -> StudyError:
    return StudyError(f"`{key}` must be a mapping of names to values, got {shortened(value)}")


def _axis(name: str, values: Any, objects: dict[str, bytes]) -> Any:
    """The values of an axis; consecutive integers are their first one and their number."""
    if isinstance(values, Mapping):
        return _labelled(name, values, objects)
    if hasattr(values, "dims"):  # a DataArray of xarray, whose entries are arrays of their own
        values = values.values
    one = np.ndim(values) == 0 if isinstance(values, np.ndarray) else not isinstance(values, Iterable)
    if one or isinstance(values, (str, bytes)):
        raise StudyError(
            f"`{name}` must be a list of values, got {shortened(values)} (axes.{name}); one value belongs in constants"
        )
    if type(values).__name__ == "DatetimeIndex" or isinstance(values, np.ndarray):
        return values
    listed = list(values)
    kinds = set(map(type, listed))
    if kinds == {int} and len(listed) >= FEWEST_CONSECUTIVE and listed[0] >= 0:
        start = listed[0]
        if all(value == start + number for number, value in enumerate(listed)):
            return {"start": start, "count": len(listed)}
    if len(kinds) == 1 and isinstance(listed[0], (np.number, np.bool_)):  # the shorter text
        return np.array(listed)
    return listed


def _labelled(name: str, values: Mapping[Any, Any], objects: dict[str, bytes]) -> Any:
    """A range of values, or objects under names, whose bytes go to `objects`."""
    if isinstance(values, _Stated):
        return values
    if RANGE.intersection(values) and all(np.isscalar(each) for each in values.values()):
        return to_plain(dict(values))
    made = {}
    for label, value in values.items():
        if not isinstance(label, str) or not label:
            raise StudyError(f"`{name}` must have names that are strings, got {shortened(label)} (axes.{name})")
        fingerprint, objects[fingerprint] = pickled_object(value, f"{name} = {label}")
        made[label] = _Stated({TYPE: OBJECT, FINGERPRINT: fingerprint})
    return _Stated(made)


def _value(where: str, value: Any) -> str:
    """Return a value in TOML.  Raises StudyError for anything that is not the value of a parameter."""
    if type(value) is str:
        return quoted(value)
    if is_composite(value):
        value = dict(value.content())
    if isinstance(value, MappingProxyType):  # of a composite
        value = dict(value)
    is_plain = type(value) is dict and TYPE not in value and all(type(name) is str for name in value)
    if is_plain or isinstance(value, _Stated):
        return f"{{ {', '.join(f'{_key(name)} = {_value(where, each)}' for name, each in value.items())} }}"
    if type(value) is list:
        return f"[{', '.join(_value(where, each) for each in value)}]"
    try:
        stated = to_json(value)
    except ValueError as error:
        raise StudyError(f"`{where}` must be {error}, got {shortened(value)}") from None
    if isinstance(stated, (bool, int)):
        return json.dumps(stated)
    if isinstance(stated, float):
        # reads back as the same number; json would write Infinity, which TOML does not know
        return repr(stated)
    return _date(value) or _value(where, _stated(stated))


def _date(value: Any) -> str:
    """A date as TOML states it; "" if it would not read back as it is."""
    if not isinstance(value, date):
        return ""
    text = value.isoformat()
    try:
        back = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return ""
    return text if (back, repr(back)) == (value, repr(value)) else ""


def _key(name: Any) -> str:
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(str(name))


def _with_text(value: Any, old: str, new: str) -> Any:
    """The value with every text `old` in it replaced by `new`."""
    if isinstance(value, dict):
        return type(value)({name: _with_text(each, old, new) for name, each in value.items()})
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
