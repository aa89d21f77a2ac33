"""Turn the arguments of `Study` into sections of a study file, and write the file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evogt_study.errors import StudyError, shorten
from evogt_study.methods.code import CodeKind, UserCode, find_named_code, make_code, pickle_object
from evogt_study.methods.protocol import is_problem, states_problem
from evogt_study.methods.python_files import hash_depends
from evogt_study.schema.values import FINGERPRINT, OBJECT, TYPE, is_composite, to_json, to_plain
from evogt_study.storage.files import is_utf8, write_atomically
from evogt_study.study.designs import SECTION, SECTIONS, StatedDesign, read_files
from evogt_study.study.model import StudyModel, validate_table, write_toml

if TYPE_CHECKING:
    from evogt_study.study.study import Study

MIN_RANGE = 6
"""Smallest number of consecutive integers that a study file gives as start and count."""
_RANGE = frozenset({"start", "count", "from", "to", "step", "scale"})
_MERGED = ("axes", "constants")
"""Sections in which `Study.replace` changes only the named entries."""
_NO_CODE = frozenset({"name", "title", "source", "publication"})
"""Keys whose values never name code."""


@dataclass(frozen=True)
class StudyArguments:
    """The sections and keys of a study, and the code and the pickled objects that they name."""

    table: dict[str, Any]
    codes: dict[str, UserCode] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)

    @staticmethod
    def of(study: Study) -> StudyArguments:
        """Return a copy of the arguments of a study for changes."""
        codes = study.spec.codes
        objects = {name: data for code in codes for name, data in code.objects}
        return StudyArguments(study.model.given, {code.reference: code for code in codes}, objects)

    def update(self, arguments: Mapping[str, Any], *, none_removes: bool = True) -> None:
        """Set arguments of `Study`.  None removes an argument, or an entry of axes or constants if `none_removes`."""
        try:
            # first what decides whether labels of an axis are methods and problems
            for key in sorted(arguments, key=lambda key: key == "axes"):
                value = arguments[key]
                is_empty = value is None or (isinstance(value, (str, tuple)) and not value)
                self._set(key, None if is_empty else value, none_removes)
        except RecursionError:
            raise StudyError("a value must not be nested too deeply, or contain itself") from None

    def set_default_name(self, method: Any) -> None:
        """Give a study without a name the name of its method."""
        program = str(self.table.get("command", "study")).split(" ")[0]
        name = getattr(method, "__name__", str(self.table.get("method", program)).rpartition(":")[2])
        self.table.setdefault("name", re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") or "study")

    def _set(self, key: str, value: Any, none_removes: bool) -> None:
        table = self.table
        if key in _MERGED:
            given = {} if value is None else value
            if not isinstance(given, Mapping):
                raise StudyError(f"`{key}` must be a mapping of names to values, got {shorten(given)}")
            is_set = value is not None
            names = [name for name, each in given.items() if is_set and (each is not None or not none_removes)]
            # an axis may become a constant, and the reverse; an axis with new values keeps its place
            for section in _MERGED:
                if section in table:
                    stays = names if section == key else ()
                    table[section] = {k: each for k, each in table[section].items() if k not in given or k in stays}
            if is_set:
                table[key] = table.get(key, {}) | {name: self._read_entry(key, name, given[name]) for name in names}
        elif key == "designs":
            value = () if value is None else value
            for section in (*SECTIONS, SECTION):
                table.pop(section, None)
            for design in (value,) if isinstance(value, StatedDesign) or not isinstance(value, Iterable) else value:
                if not isinstance(design, StatedDesign):
                    message = "`designs` must be made by evs.zip_axes, evs.sample or evs.table"
                    raise StudyError(f"{message}, got {shorten(design)}")
                table.setdefault(design.section, []).append(self._read_design(design))
        elif value is None:
            table.pop("random" if key == "common" else key, None)
        elif key == "common":
            table["random"] = {"common": to_plain(value)}
        elif key in ("method", "problem"):
            table[key] = self._read_named(key, value)
        elif key in ("when", "exclude", "depends"):
            is_one = isinstance(value, (str, Mapping))
            table[key] = _to_toml(key, [value] if is_one else list(value) if isinstance(value, Iterable) else value)
        elif isinstance(value, Mapping):  # candidates of a pilot are values of parameters
            plain = {name: each if name == "candidates" else to_plain(each) for name, each in value.items()}
            table[key] = {name: _to_toml(f"{key}.{name}", each) for name, each in plain.items()}
        elif isinstance(value, str) and not is_utf8(value):
            raise StudyError(f"`{key}` must be a string that UTF-8 can write, got {shorten(value)}")
        else:
            table[key] = to_plain(value)

    def _read_entry(self, key: str, name: str, value: Any) -> Any:
        """Convert the values of an axis, or a constant, to TOML types."""
        if key == "constants":
            return _to_toml(f"{key}.{name}", value)
        if name in ("method", "problem") and name not in self.table and self._has_choices(name, value):
            return {label: self._read_named(name, each) for label, each in value.items()}
        return self._read_axis(name, value)

    def _read_named(self, key: str, value: Any) -> Any:
        """Convert a method or problem to a reference of its code or to a section of a study file."""
        if is_problem(value):
            if key == "method":
                message = "a function or the name of a method, got a problem. Give it as problem=..."
                raise StudyError(f"`method` must be {message}")
            return {name: to_plain(each) for name, each in value.table.items()}
        if not callable(value):
            return value if isinstance(value, str) else _to_toml(key, value)
        code = make_code(value, Path.cwd())
        self.codes[code.reference] = code
        return code.reference

    def _has_choices(self, key: str, choices: Any) -> bool:
        """Return True if the values of an axis are methods or problems, not values of a user function's parameter."""
        if not isinstance(choices, Mapping) or not all(
            is_problem(each) or callable(each) or isinstance(each, (str, Mapping)) for each in choices.values()
        ):
            return False
        is_parameter = key == "problem" and ":" in str(self.table.get("method", ""))
        return not is_parameter or any(states_problem(each, Path.cwd()) for each in choices.values())

    def _read_design(self, design: StatedDesign) -> dict[str, Any]:
        made, section = {}, design.section
        for name, value in design.table.items():
            if section == "zip" and name != "name":
                made[name] = self._read_axis(name, value)
            else:  # the values of a choice are values of a parameter, and the others numbers of a distribution
                is_plain = section == "sample" and not (isinstance(value, Mapping) and "choice" in value)
                made[name] = _to_toml(f"{section}.{name}", to_plain(value) if is_plain else value)
        return made

    def _read_axis(self, name: str, values: Any) -> Any:
        """Convert the values of an axis to TOML types, with consecutive integers as start and count."""
        if isinstance(values, Mapping):
            if _RANGE.intersection(values) and all(np.isscalar(each) for each in values.values()):
                return to_plain(dict(values))
            return {label: self._read_object(name, label, value) for label, value in values.items()}
        if hasattr(values, "dims"):  # a DataArray of xarray, whose entries are arrays
            values = values.values
        if isinstance(values, (set, frozenset)):
            raise StudyError(f"`{name}` must be a list of values, got a set (axes.{name}). Give its values an order")
        is_single = np.ndim(values) == 0 if isinstance(values, np.ndarray) else not isinstance(values, Iterable)
        if is_single or isinstance(values, (str, bytes)):
            remedy = "Give a single value in `constants`"
            raise StudyError(f"`{name}` must be a list of values, got {shorten(values)} (axes.{name}). {remedy}")
        if not isinstance(values, np.ndarray) and type(values).__name__ != "DatetimeIndex":
            values = list(values)
            kinds = set(map(type, values))
            if kinds == {int} and len(values) >= MIN_RANGE and values[0] >= 0:
                if values == list(range(values[0], values[0] + len(values))):
                    return {"start": values[0], "count": len(values)}
            elif len(kinds) == 1 and isinstance(values[0], (np.number, np.bool_)):  # the shorter text
                values = np.array(values)
        return _to_toml(f"axes.{name}", values)

    def _read_object(self, name: str, label: Any, value: Any) -> dict[str, Any]:
        if not isinstance(label, str) or not label:
            raise StudyError(f"`{name}` must have names that are strings, got {shorten(label)} (axes.{name})")
        fingerprint, self.objects[fingerprint], _ = pickle_object(value, f"{name} = {label}")
        return {TYPE: OBJECT, FINGERPRINT: fingerprint}

    def check(self, file: str) -> tuple[StudyModel, str, Callable[[str, Sequence[str]], UserCode]]:
        """Return the checked model, `file`, and a function that returns code by its reference."""
        model, folder = validate_table(StudyModel, self.table, file), Path(file).parent
        if files := read_files(model, file):
            model = model.model_copy(update={SECTION: model.table_files | files})
        text = str([self.table.get(key) for key in ("axes", "zip")])
        objects = tuple((name, data) for name, data in sorted(self.objects.items()) if name in text)

        def find_user_code(reference: str, depends: Sequence[str]) -> UserCode:
            code = self.codes.get(reference)
            if code is None or code.kind is not CodeKind.OBJECT:
                return replace(find_named_code(reference, folder, depends), objects=objects)
            return replace(code, depends=hash_depends(depends, Path(code.folder)), objects=objects)

        return model, file, find_user_code

    def write(self, path: Path, folder: Path) -> Path:
        """Write the study to the new file `path`.  `folder` is the base of its relative paths.  Raises StudyError."""
        there = path.resolve().parent
        references = {code.reference: _make_reference(code, there) for code in self.codes.values()}
        table = {key: _to_file(key, each, {} if key in _NO_CODE else references) for key, each in self.table.items()}
        for each in table.get("table", []):
            source = folder.resolve() / each.get("file", "")
            if "file" in each and source.is_file():  # the table keeps the content of a file that is not there
                table[SECTION].pop(each["file"], None)
                # relpath, since the file need not be below the folder
                each["file"] = Path(os.path.relpath(source, there)).as_posix()
        for code in self.codes.values():
            if code.depends:
                table["depends"] = [os.path.relpath(Path(code.folder) / name, there) for name, _ in code.depends]
        if not table.get(SECTION, True):
            del table[SECTION]
        text = write_toml(table)
        if path.exists():
            if path.is_file() and path.read_bytes() == text.encode():
                return path
            raise StudyError(f"`path` must be a new file, got {path}, which has other content")
        try:
            with write_atomically(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StudyError(f"cannot write {path}: {error.strerror or error}") from None
        return path


def _to_toml(where: str, value: Any) -> Any:
    """Convert a value to TOML types.  Raises StudyError for a value that a parameter cannot have."""
    if is_composite(value):
        value = value.content()
    if isinstance(value, Mapping) and TYPE not in value and all(type(name) is str for name in value):
        return {name: _to_toml(where, each) for name, each in value.items()}
    if type(value) is list:
        return [_to_toml(where, each) for each in value]
    try:
        if isinstance(value, date):
            with_toml = tomllib.loads(f"value = {value.isoformat()}")["value"]
            if (with_toml, repr(with_toml)) == (value, repr(value)):
                return value
    except tomllib.TOMLDecodeError:
        pass
    try:
        return to_json(value)
    except ValueError as error:
        raise StudyError(f"`{where}` must be {error}, got {shorten(value)}") from None


def _to_file(where: str, value: Any, references: Mapping[str, str]) -> Any:
    """Return a value with the code references of a new file.  Raises StudyError for None and objects."""
    if isinstance(value, list):
        return [_to_file(f"{where}[{number}]", each, references) for number, each in enumerate(value)]
    if not isinstance(value, dict):
        return references.get(value, value) if isinstance(value, str) else value
    if value.get(TYPE) in ("None", OBJECT):
        is_none = value[TYPE] == "None"
        message = "None" if is_none else f"the object {where.rpartition('.')[2]!r}"
        remedy = "leave it out" if is_none else "let the function create it from a name"
        raise StudyError(f"a study file cannot hold {message} ({where}). Run the study in Python, or {remedy}")
    return {name: _to_file(f"{where}.{name}", each, references) for name, each in value.items()}


def _make_reference(code: UserCode, folder: Path) -> str:
    """Return the reference of the code for a study file in `folder`.  Raises StudyError for code without a file."""
    if code.kind in (CodeKind.MODULE, CodeKind.DECLARED):
        return code.reference
    if code.kind is CodeKind.COMMAND:
        if Path(code.folder) != folder:
            raise StudyError(f"`path` must be a file in the folder of the command, {code.folder}, got one in {folder}")
        return code.reference
    if not code.path:
        got = f"a function of {code.reference.partition(':')[0]} without a file. Define it at the top level of a file"
        wanted = "a function in a Python file, so that a study file can name it"
        raise StudyError(f"`{code.attribute}` must be {wanted}, got {got}")
    return f"{Path(os.path.relpath(code.path, folder)).as_posix()}:{code.attribute}"
