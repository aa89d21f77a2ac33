"""Turn the arguments of `Study` into a `StudyModel`, change it, and write it as a file.

The model has the types of TOML.  So a study in Python and a study in a file have the same checks and keys.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import StudyError, shortened
from evogt_study.methods.code import CodeKind, UserCode, code_of, named_code, pickled_object
from evogt_study.methods.fingerprint import depended
from evogt_study.methods.problem_kind import is_problem, states_problem
from evogt_study.schema.values import FINGERPRINT, OBJECT, TYPE, is_composite, to_json, to_plain
from evogt_study.storage.atomic import written_whole
from evogt_study.study.designs import SECTIONS, sections
from evogt_study.study.model import StudyModel, write_toml

MERGED = ("axes", "constants")
"""Sections in which `Study.replace` changes only the named entries."""
RANGE = frozenset({"start", "count", "from", "to", "step", "scale"})
"""Keys of a range of values."""
MIN_RANGE = 6
"""Consecutive integers are given as start and count if there are as many: then that is the shorter text."""
Named = Callable[[str, Sequence[str]], UserCode]
"""Gives the code that a ``file.py:name`` means, for a study that depends on some files."""


@dataclass(frozen=True)
class Definition:
    """The sections and keys of a study, and the code and the pickled objects that they name."""

    table: dict[str, Any]
    codes: dict[str, UserCode] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)

    @staticmethod
    def of(arguments: Mapping[str, Any]) -> Definition:
        """Return the definition with these arguments of `Study`.  Raises StudyError."""
        made = Definition({})
        made.update({key: value for key, value in arguments.items() if not _is_left_out(value)}, none_removes=False)
        if "name" not in made.table:
            reference = str(made.table.get("method", "study"))
            name = getattr(arguments.get("method"), "__name__", reference.rpartition(":")[2])
            made.table["name"] = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "study"
        return made

    @staticmethod
    def of_model(model: StudyModel, codes: Iterable[UserCode]) -> Definition:
        """Return the definition of a checked study, which can be changed."""
        codes = tuple(codes)
        objects = {name: data for code in codes for name, data in code.objects}
        return Definition(model.given, {code.reference: code for code in codes}, objects)

    def update(self, arguments: Mapping[str, Any], *, none_removes: bool = True) -> None:
        """Set arguments of `Study`; None removes one.  Raises StudyError.

        none_removes: None removes entries of axes and constants too, else it is their value.
        """
        try:
            # first what decides whether labels of an axis are methods and problems
            for key in sorted(arguments, key=lambda key: key == "axes"):
                self._set(key, arguments[key], none_removes)
        except RecursionError:
            raise StudyError("a value must not be nested too deeply, or contain itself") from None

    def _set(self, key: str, value: Any, none_removes: bool) -> None:
        is_left_out = _is_left_out(value)
        if key == "designs":
            for section in (*SECTIONS, "table_files"):
                self.table.pop(section, None)
            for section, tables in sections(() if is_left_out else value).items():
                self.table[section] = [self._design(section, each) for each in tables]
        elif key in MERGED:
            given = _check_mapping(key, {} if is_left_out else value)
            # from both: an axis may become a constant, and the other way round
            kept = {
                section: {name: each for name, each in self.table[section].items() if name not in given}
                for section in MERGED
                if section in self.table
            }
            self.table.update(kept)
            if not is_left_out:
                names = [name for name, each in given.items() if each is not None or not none_removes]
                self.table[key] = kept.get(key, {}) | {name: self._entry(key, name, given[name]) for name in names}
        elif is_left_out:
            self.table.pop("random" if key == "common" else key, None)
        elif key == "common":
            self.table["random"] = {"common": to_plain(value)}
        else:
            self.table[key] = self._section(key, value)

    def _section(self, key: str, value: Any) -> Any:
        if key in ("method", "problem"):
            return self._named(key, value)
        if key in ("when", "depends", "exclude"):
            listed = [value] if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable) else list(value)
            kind, message = (str, "names of files") if key == "depends" else (Mapping, "mappings, { match = { ... } }")
            if not all(isinstance(each, kind) for each in listed):
                raise StudyError(f"`{key}` must be a list of {message}, got {shortened(value)}")
            return [_to_toml(key, each) for each in listed]
        if key in ("pilot", "output", "precision", "publication"):
            # candidates of a pilot are values of parameters
            plain = {n: v if n == "candidates" else to_plain(v) for n, v in _check_mapping(key, value).items()}
            return {name: _to_toml(f"{key}.{name}", each) for name, each in plain.items()}
        if isinstance(value, str) and value.encode(errors="ignore").decode() != value:
            raise StudyError(f"`{key}` must be a string that UTF-8 can write, got {shortened(value)}")
        return value

    def _entry(self, key: str, name: str, value: Any) -> Any:
        """An axis or a constant."""
        if key == "constants":
            return _to_toml(f"{key}.{name}", value)
        if name in ("method", "problem") and name not in self.table and self._has_choices(name, value):
            return {label: self._named(name, each) for label, each in value.items()}
        return self._axis(name, value)

    def _named(self, key: str, value: Any) -> Any:
        """A method or problem: the name of code, or what a file states."""
        if is_problem(value):
            if key == "method":
                message = "a function or the name of a method, got a problem; give it as problem=..."
                raise StudyError(f"`method` must be {message}")
            return {name: to_plain(each) for name, each in value.table.items()}
        if not callable(value):
            return value if isinstance(value, str) else _to_toml(key, value)
        code = code_of(value, Path.cwd())
        self.codes[code.reference] = code
        return code.reference

    def _has_choices(self, key: str, several: Any) -> bool:
        """Return True for the methods or problems of an axis.

        A function may have a parameter `problem`: then at least one value has to state a problem.
        """
        if not isinstance(several, Mapping) or not all(
            is_problem(each) or callable(each) or isinstance(each, (str, Mapping)) for each in several.values()
        ):
            return False
        is_parameter = key == "problem" and ":" in str(self.table.get("method", ""))
        return not is_parameter or any(states_problem(each, Path.cwd()) for each in several.values())

    def _design(self, section: str, table: Mapping[str, Any]) -> dict[str, Any]:
        made = {}
        for name, value in table.items():
            if section == "zip" and name != "name":
                made[name] = self._axis(name, value)
            else:  # the values of a choice are values of a parameter, and the others numbers of a distribution
                is_plain = section == "sample" and not (isinstance(value, Mapping) and "choice" in value)
                made[name] = _to_toml(f"{section}.{name}", to_plain(value) if is_plain else value)
        return made

    def _axis(self, name: str, values: Any) -> Any:
        """The values of an axis; consecutive integers are their first one and their number."""
        if isinstance(values, Mapping):
            if RANGE.intersection(values) and all(np.isscalar(each) for each in values.values()):
                return to_plain(dict(values))
            return {label: self._object(name, label, value) for label, value in values.items()}
        if hasattr(values, "dims"):  # a DataArray of xarray, whose entries are arrays of their own
            values = values.values
        one = np.ndim(values) == 0 if isinstance(values, np.ndarray) else not isinstance(values, Iterable)
        if one or isinstance(values, (str, bytes)):
            remedy = "one value belongs in constants"
            raise StudyError(f"`{name}` must be a list of values, got {shortened(values)} (axes.{name}); {remedy}")
        if not isinstance(values, np.ndarray) and type(values).__name__ != "DatetimeIndex":
            values = list(values)
            kinds = set(map(type, values))
            if kinds == {int} and len(values) >= MIN_RANGE and values[0] >= 0:
                if values == list(range(values[0], values[0] + len(values))):
                    return {"start": values[0], "count": len(values)}
            elif len(kinds) == 1 and isinstance(values[0], (np.number, np.bool_)):  # the shorter text
                values = np.array(values)
        return _to_toml(f"axes.{name}", values)

    def _object(self, name: str, label: Any, value: Any) -> dict[str, Any]:
        if not isinstance(label, str) or not label:
            raise StudyError(f"`{name}` must have names that are strings, got {shortened(label)} (axes.{name})")
        fingerprint, self.objects[fingerprint] = pickled_object(value, f"{name} = {label}")
        return {TYPE: OBJECT, FINGERPRINT: fingerprint}

    def named(self, folder: Path) -> Named:
        """Return the function that finds the code of the study."""
        text = str([self.table.get(key) for key in ("axes", "zip")])
        objects = tuple((name, data) for name, data in sorted(self.objects.items()) if name in text)

        def named(reference: str, depends: Sequence[str]) -> UserCode:
            code = self.codes.get(reference)
            if code is None or code.kind is not CodeKind.OBJECT:
                return replace(named_code(reference, folder, depends), objects=objects)
            return replace(code, depends=depended(depends, Path(code.folder)), objects=objects)

        return named

    def write(self, path: Path, folder: Path) -> Path:
        """Write the study as the new file `path`, which names code and tables from there.

        folder: the folder to which the study's own paths are relative.  Raises StudyError.
        """
        table, there = self.table, path.resolve().parent
        _check_for_file(table, "")
        for each in table.get("table", []):
            source = folder.resolve() / each.get("file", "")
            if "file" in each and source.is_file():  # the table keeps the content of a file that is not there
                table["table_files"].pop(each["file"], None)
                # relpath, since the file need not be below the folder
                each["file"] = Path(os.path.relpath(source, there)).as_posix()
        for code in self.codes.values():
            reference = _reference_from(code, there)
            for key in table.keys() - {"name", "title", "source", "publication"}:
                table[key] = _with_text(table[key], code.reference, reference)
            table.pop("depends", None)
            if code.depends:
                table["depends"] = [os.path.relpath(Path(code.folder) / name, there) for name, _ in code.depends]
        if not table.get("table_files", True):
            del table["table_files"]
        if path.exists():
            raise StudyError(f"`path` must be a new file, got {path}, which exists")
        try:
            with written_whole(path) as temporary:
                temporary.write_text(write_toml(table), encoding="utf-8")
        except OSError as error:
            raise StudyError(f"cannot write {path}: {error.strerror or error}") from None
        return path


def _is_left_out(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple)) and not value)


def _check_mapping(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StudyError(f"`{key}` must be a mapping of names to values, got {shortened(value)}")
    return value


def _to_toml(where: str, value: Any) -> Any:
    """Return a value in types of TOML.  Raises StudyError for anything that is not the value of a parameter."""
    if is_composite(value):
        value = value.content()
    if isinstance(value, Mapping) and TYPE not in value and all(type(name) is str for name in value):
        return {name: _to_toml(where, each) for name, each in value.items()}
    if type(value) is list:
        return [_to_toml(where, each) for each in value]
    if isinstance(value, date) and _has_toml(value):
        return value
    try:
        return to_json(value)
    except ValueError as error:
        raise StudyError(f"`{where}` must be {error}, got {shortened(value)}") from None


def _has_toml(value: date) -> bool:
    """Return True for a date that reads back from TOML as it is."""
    try:
        back = tomllib.loads(f"value = {value.isoformat()}")["value"]
    except tomllib.TOMLDecodeError:
        return False
    return bool((back, repr(back)) == (value, repr(value)))


def _check_for_file(value: Any, where: str) -> None:
    """Raise StudyError for a value that a study file cannot state: None, and an object under a name."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        place = f"{where}[{name}]" if isinstance(value, list) else f"{where}.{name}".lstrip(".")
        kind = entry.get(TYPE) if isinstance(entry, dict) else ""
        if kind in ("None", OBJECT):
            message = "None" if kind == "None" else f"the object {str(name)!r}"
            remedy = "leave it out" if kind == "None" else "let the function make it from its name"
            raise StudyError(f"a study file cannot hold {message} ({place}); run the study in Python, or {remedy}")
        _check_for_file(entry, place)


def _with_text(value: Any, old: str, new: str) -> Any:
    """Return the value with every string `old` in it replaced by `new`."""
    if isinstance(value, dict):
        return {name: _with_text(each, old, new) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_text(each, old, new) for each in value]
    return new if value == old else value


def _reference_from(code: UserCode, folder: Path) -> str:
    """Name the code as a study file in `folder` does.  Raises StudyError if a file cannot name it."""
    if code.kind in (CodeKind.MODULE, CodeKind.DECLARED):
        return code.reference
    if not code.path:
        raise StudyError(
            f"`{code.attribute}` must be a function of a Python file for a study file to name it, got one of "
            f"{code.reference.partition(':')[0]} that is in none; put it into a file, at the top level"
        )
    return f"{Path(os.path.relpath(code.path, folder)).as_posix()}:{code.attribute}"
