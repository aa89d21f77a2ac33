"""Define a study in Python or read it from a file, and write it to a file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from evogt_study.errors import InputError, StudyError, shorten
from evogt_study.methods.code import CodeKind, MethodSpec, UserCode, find_named_code, make_user_code, pickle_object
from evogt_study.methods.current_run import RNG
from evogt_study.methods.loading import load_method
from evogt_study.methods.protocol import Method, can_be_problem, is_problem
from evogt_study.methods.python_files import hash_depends
from evogt_study.schema.values import FINGERPRINT, OBJECT, TYPE, is_composite, make_coordinate, to_json, to_plain
from evogt_study.storage.files import MAX_STUDY_BYTES, is_utf8, read_text, write_file
from evogt_study.study.case_space import CaseSpace, ParameterTable
from evogt_study.study.designs import DESIGN_SECTIONS, TABLE_FILES, StatedDesign, read_files
from evogt_study.study.model import StudyModel, parse_study, suggest_reader, validate_table, write_toml
from evogt_study.study.plan import Phase, Pilot
from evogt_study.study.reading import FindCode, Resources, StudyReader, check_cases
from evogt_study.text import format_count

MIN_RANGE_LENGTH = 6  # smallest number of consecutive integers that a study file gives as start and count
_RANGE_KEYS = frozenset({"start", "count", "from", "to", "step", "scale"})
_MERGED_SECTIONS = ("axes", "constants")  # sections in which `Study.replace` changes only the named entries
MAX_CHANGES = 4  # largest number of changes that a message names, so that it fits on a line of a terminal
_KEYS_WITHOUT_CODE = frozenset({"name", "title", "source", "publication"})  # keys whose values never name code


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Study:
    """Study with checked values, from arguments or from a file (`from_file`).

    Parameters
    ----------
    method : callable or str, optional
        Function with named parameters, or the name of a method as in a study file.  To vary the method or the problem,
        give `axes` a mapping of names to methods or problems.
    axes : mapping, optional
        Values of each parameter that varies: a list, an array, or a mapping of names to any objects.
    designs : design or iterable of designs, optional
        Dimensions along which several parameters change, from `evs.zip_axes`, `evs.sample` or `evs.table`.
    exclude : iterable of mappings, optional
        Rules for points without a case: mappings with the key `match`.
    constants : mapping, optional
        Values of the parameters that do not vary.
    when : iterable of mappings, optional
        Rules for dependent parameters: mappings with the keys `match` and `set`.
    problem : optional
        Problem in formulas, the name of a problem, or a function that returns a problem.
    name : str, optional
        Name of the study and of its result file.  The default is the name of the method.
    title, source : str, optional
        Title and origin of the study.  The result file contains both texts.
    depends : iterable of str, optional
        Files whose content is part of the fingerprint of the function.
    common : str or sequence of str, optional
        Parameters whose values share the random stream of a seed (argument `rng`), or "all" or "none".
    command : str, optional
        Program and arguments in place of `method`, with parameters in braces.
    template, read, shell, container, keep : optional
        Keys of a study file for a command.
    pilot, output, precision, publication, resources : mapping, optional
        Sections of a study file with these names.

    Attributes
    ----------
    phases : tuple of Phase
        The phases in the order in which they run.

    Raises
    ------
    StudyError
        If an argument is wrong.  The message is one line.

    Examples
    --------
    >>> study = Study(lambda points, seed: points + seed, axes={"points": [10, 100], "seed": range(3)}, name="sums")
    >>> study
    study sums: 6 cases = 2 points x 3 seed
    """

    model: StudyModel
    file: str
    spec: MethodSpec
    phases: tuple[Phase, ...]
    resources: Resources | None

    def __init__(
        self,
        method: Callable[..., Any] | str | None = None,
        *,
        axes: Mapping[str, Any] | None = None,
        designs: StatedDesign | Iterable[StatedDesign] = (),
        exclude: Iterable[Mapping[str, Mapping[str, Any]]] = (),
        constants: Mapping[str, Any] | None = None,
        when: Iterable[Mapping[str, Mapping[str, Any]]] = (),
        problem: Any = None,
        name: str | None = None,
        title: str = "",
        source: str = "",
        depends: Iterable[str] = (),
        pilot: Mapping[str, Any] | None = None,
        common: str | Sequence[str] | None = None,
        command: str | None = None,
        template: str | Sequence[str] | None = None,
        read: Mapping[str, str] | None = None,
        shell: bool | None = None,
        container: str | None = None,
        keep: bool | None = None,
        resources: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
        precision: Mapping[str, Any] | None = None,
        publication: Mapping[str, Any] | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self"}
        sections = StudySections({})
        sections.update(given, none_removes=False)
        program = str(sections.table.get("command", "study")).split(" ")[0]
        default = getattr(method, "__name__", str(sections.table.get("method", program)).rpartition(":")[2])
        default = re.sub(r"[^a-z0-9]+", "_", str(default).lower()).strip("_") or "study"
        vars(self).update(vars(sections.read(f"study {sections.table.setdefault('name', default)}")))

    def replace(self, **changes: Any) -> Study:
        """Return a new study with some arguments changed.

        Parameters
        ----------
        **changes
            Arguments of `Study`.  Unnamed entries of `axes` and `constants` do not change.  An axis may become a
            constant, and a constant may become an axis.  The value None removes an argument or an entry.

        Returns
        -------
        Study
            A new study.

        Raises
        ------
        StudyError
            If an argument is wrong.  The message is one line.

        Examples
        --------
        >>> study = Study(lambda a, seed: a, axes={"a": [1, 2], "seed": range(3)}, name="small")
        >>> len(study.replace(axes={"a": [1, 2, 3]}))
        9
        """
        known = tuple(signature(Study).parameters)
        for key in changes:
            if key not in known:
                raise StudyError(f"unknown argument {key!r} of `Study`. Use one of {', '.join(known)}")
        sections = StudySections.from_study(self)
        sections.update(changes)
        return sections.read(self.file)

    def to_file(self, path: str | Path) -> Path:
        """Write the study to a new study file for `evogt run`.

        Parameters
        ----------
        path : str or Path
            Study file.  If the file already contains this study, it does not change.

        Returns
        -------
        Path
            `path`.

        Raises
        ------
        StudyError
            If a study file cannot name the function of the study, or if `path` contains another text.

        Examples
        --------
        >>> study = Study("monte_carlo.py:pi", axes={"seed": range(3)})  # doctest: +SKIP
        >>> study.to_file("pi.toml")  # doctest: +SKIP
        """
        path, sections, folder = Path(path), StudySections.from_study(self), Path(self.file).resolve().parent
        there = path.resolve().parent
        references = {code.reference: _make_reference(code, there) for code in sections.codes.values()}
        entries = sections.table.items()
        table = {key: _to_file(key, each, {} if key in _KEYS_WITHOUT_CODE else references) for key, each in entries}
        for each in table.get("table", []):
            source = folder / each.get("file", "")
            if "file" in each and source.is_file():  # the table keeps the content of a file that is not there
                table[TABLE_FILES].pop(each["file"], None)
                each["file"] = Path(os.path.relpath(source, there)).as_posix()  # it need not be below the folder
        for code in sections.codes.values():
            if code.depends:
                table["depends"] = [os.path.relpath(Path(code.folder) / name, there) for name, _ in code.depends]
        if not table.get(TABLE_FILES, True):
            del table[TABLE_FILES]
        text = write_toml(table)
        if path.exists():
            if path.is_file() and path.read_bytes() == text.encode():
                return path
            raise StudyError(f"`path` must be a new file, got {path}, which has other content")
        write_file(path, text.encode())
        return path

    @property
    def name(self) -> str:
        """The name of the study and of its result file."""
        return self.model.name

    @cached_property
    def text(self) -> str:
        """The TOML text of the study, from its file or made from its arguments."""
        return write_toml(self.model.given)

    def replace_codes(self, change: Callable[[UserCode], UserCode]) -> Study:
        """Return a copy of the study in which `change` replaces each `UserCode`."""
        study = copy(self)
        vars(study)["spec"] = self.spec.replace_codes(change)
        return study

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The coordinate values of each axis."""
        return {axis.name: list(make_coordinate(axis.values)) for axis in self.space.axes}

    def __len__(self) -> int:
        return self.space.count

    def __repr__(self) -> str:
        points = "" if len(self) == self.space.size else f" of {self.space.size:,} points"
        axes = " x ".join(f"{len(axis.values):,} {axis.name}" for axis in self.space.axes)
        values = {name: make_coordinate([value])[0] for name, value in self.space.constants.items()}
        forms = {name: ".6g" if isinstance(value, float) else "" for name, value in values.items()}
        constants = ", ".join(f"{name} = {value:{forms[name]}}" for name, value in values.items())
        cases = f"study {self.name}: {format_count(len(self), 'case')}{points} = {axes}"
        return f"{cases}\n  {constants}" if constants else cases

    @staticmethod
    def from_file(path: str | Path, *, find_user_code: FindCode | None = None) -> Study:
        """Read and check a study file.

        Parameters
        ----------
        path : str or Path
            Study file.  Without the key `name`, the study has the name of the file.
        find_user_code : callable, optional
            Function that returns the code for a reference such as ``file.py:name``.  By default, the study reads the
            code from the file.

        Returns
        -------
        Study
            The study.

        Raises
        ------
        StudyError
            If the file has a mistake.  The message is one line.

        Examples
        --------
        >>> Study.from_file("studies/oscillatory_1d.toml").name  # doctest: +SKIP
        'oscillatory_1d'
        """
        path = Path(path)
        if not is_utf8(str(path)):  # the result contains the name
            raise StudyError(f"cannot read the study file {str(path)!a}: its name must be UTF-8. Rename it")
        try:
            text = read_text(path, "the study file", StudyError, max_bytes=MAX_STUDY_BYTES)
        except StudyError as error:
            raise StudyError(f"{error}{suggest_reader(str(path))}") from None
        return Study.from_text(text, str(path), find_user_code=find_user_code)

    @staticmethod
    def from_text(
        text: str, file: str = "study", *, find_user_code: FindCode | None = None, recorded: bool = False
    ) -> Study:
        """Return the checked study of a TOML text.  Messages name `file`, and relative paths start in its folder.

        If the text comes from a result (`recorded`), read no files of tables and give no warnings.
        """
        raw, text = parse_study(text, file)
        study = StudySections(raw).read(file, find_user_code, recorded=recorded)
        added = {name: lines for name, lines in study.model.table_files.items() if name not in raw.get(TABLE_FILES, {})}
        if added:  # appended: the comments and the order of the study file stay
            head = "" if TABLE_FILES in raw else f"\n# what the files of [[table]] held\n[{TABLE_FILES}]\n"
            text = f"{text.rstrip(chr(10))}\n{head}{tomli_w.dumps(added, indent=2)}"
        vars(study)["text"] = text
        return study

    @property
    def space(self) -> CaseSpace:
        """The cases of the main phase, without the parameters that the pilot chooses."""
        return self.phases[-1].space

    @property
    def has_streams(self) -> bool:
        """True if runs receive a random generator `rng`."""
        space = self.space
        given = {*space.names, *space.columns, *space.dependent_parameters, *space.constants}
        return self.method.has_streams and RNG not in given

    @property
    def pilot(self) -> Pilot | None:
        """The choice of the pilot, if the study has one."""
        return next((phase.choice for phase in self.phases if phase.choice is not None), None)

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def iterate_provisional_spaces(self) -> Iterator[CaseSpace]:
        """Yield the cases of each phase before the first run, with the first candidates as the pilot's choice."""
        chosen: tuple[ParameterTable, ...] = ()
        for phase in self.phases:
            yield phase.space.with_chosen(*chosen)
            if (pilot := phase.choice) is not None:
                first = {key: candidates[0] for key, candidates in pilot.candidates.items()}
                chosen += (ParameterTable(pilot.parameters, pilot.by, first),)


def check_study(given: object) -> None:
    """Raise InputError for anything except a `Study`, such as a path."""
    if not isinstance(given, Study):
        raise InputError(f"`study` must be a Study, got {shorten(given)}. Use Study.from_file(PATH)")


@dataclass(frozen=True)
class StudySections:
    """The sections and keys of a study, and the code and the pickled objects that they name."""

    table: dict[str, Any]
    codes: dict[str, UserCode] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)

    @staticmethod
    def from_study(study: Study) -> StudySections:
        """Return a copy of the arguments of a study for changes."""
        codes = {code.reference: code for code in study.spec.codes}
        return StudySections(study.model.given, codes, dict(pair for code in codes.values() for pair in code.objects))

    def update(self, arguments: Mapping[str, Any], *, none_removes: bool = True) -> None:
        """Set arguments of `Study`.  None removes an argument, or an entry of axes or constants if `none_removes`."""
        stated = (arguments.get(key) for key in _MERGED_SECTIONS)
        axes, constants = (each if isinstance(each, Mapping) else {} for each in stated)
        for name in axes:
            if name in constants and not (none_removes and (axes[name] is None or constants[name] is None)):
                raise StudyError(f"`{name}` must be an axis or a constant, got both")
        kept: dict[str, Any] = {key: each for key, each in self.table.items() if key not in arguments}
        kept["axes"] = {name: each for name, each in self.table.get("axes", {}).items() if name not in axes}
        for reference in [each for each in self.codes if each not in str(kept)]:  # another function may take its name
            del self.codes[reference]
        try:
            # first what decides whether labels of an axis are methods and problems
            for key in sorted(arguments, key=lambda key: key == "axes"):
                value = arguments[key]
                is_empty = value is None or (isinstance(value, (str, tuple)) and not value)
                self._set_argument(key, None if is_empty else value, none_removes)
        except RecursionError:
            raise StudyError("a value must not be nested too deeply, or contain itself") from None

    def _set_argument(self, key: str, value: Any, none_removes: bool) -> None:
        table = self.table
        if key == "designs":
            self._set_designs(() if value is None else value)
        elif value is None:
            table.pop("random" if key == "common" else key, None)
        elif key in _MERGED_SECTIONS:
            if not isinstance(value, Mapping):
                raise StudyError(f"`{key}` must be a mapping of names to values, got {shorten(value)}")
            names = [name for name, each in value.items() if each is not None or not none_removes]
            # an axis may become a constant, and the reverse; an axis with new values keeps its place
            for section in _MERGED_SECTIONS:
                if section in table:
                    stays = names if section == key else ()
                    table[section] = {k: each for k, each in table[section].items() if k not in value or k in stays}
            table[key] = table.get(key, {}) | {name: self._read_entry(key, name, value[name]) for name in names}
        elif key == "common":
            table["random"] = {"common": to_plain(value)}
        elif key in ("method", "problem"):
            table[key] = self._read_named(key, value)
        elif key in ("when", "exclude", "depends"):
            is_one = isinstance(value, (str, Mapping))
            table[key] = _to_toml(key, [value] if is_one else list(value) if isinstance(value, Iterable) else value)
        elif isinstance(value, Mapping):  # candidates of a pilot are values of parameters
            plain = {name: each if name == "candidates" else to_plain(each) for name, each in value.items()}
            table[key] = _to_toml(key, plain)
        elif isinstance(value, str) and not is_utf8(value):
            raise StudyError(f"`{key}` must be a string that UTF-8 can write, got {shorten(value)}")
        else:
            table[key] = to_plain(value)

    def _read_entry(self, key: str, name: str, value: Any) -> Any:
        """Convert the values of an axis, or a constant, to TOML types."""
        if key == "constants":
            return _to_toml(f"{key}.{name}", value)
        if name in ("method", "problem") and name not in self.table and isinstance(value, Mapping):
            choices = value.values()  # methods and problems, or values of a parameter of a user function
            is_parameter = name == "problem" and ":" in str(self.table.get("method", ""))
            is_choice = all(is_problem(each) or callable(each) or isinstance(each, (str, Mapping)) for each in choices)
            if is_choice and (not is_parameter or any(can_be_problem(each, Path.cwd()) for each in choices)):
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
        code, number = make_user_code(value, Path.cwd()), 1
        while self.codes.setdefault(code.reference, code).fingerprint != code.fingerprint:
            number += 1  # such as two functions that one function has made
            code = replace(code, reference=f"{code.reference.partition(' (')[0]} ({number})")
        self.codes[code.reference] = code
        return code.reference

    def _set_designs(self, designs: Any) -> None:
        for section in (*DESIGN_SECTIONS, TABLE_FILES):
            self.table.pop(section, None)
        is_one = isinstance(designs, StatedDesign) or not isinstance(designs, Iterable)
        for design in (designs,) if is_one else designs:
            if not isinstance(design, StatedDesign):
                message = "`designs` must be made by evs.zip_axes, evs.sample or evs.table"
                raise StudyError(f"{message}, got {shorten(design)}")
            made, section = {}, design.section
            for name, value in design.table.items():
                if section == "zip" and name != "name":
                    made[name] = self._read_axis(name, value)
                else:  # the values of a choice are values of a parameter, and the others numbers of a distribution
                    is_plain = section == "sample" and not (isinstance(value, Mapping) and "choice" in value)
                    made[name] = _to_toml(f"{section}.{name}", to_plain(value) if is_plain else value)
            self.table.setdefault(section, []).append(made)

    def _read_axis(self, name: str, values: Any) -> Any:
        """Convert the values of an axis to TOML types, with consecutive integers as start and count."""
        if isinstance(values, Mapping):
            if _RANGE_KEYS.intersection(values) and all(np.isscalar(each) for each in values.values()):
                return to_plain(dict(values))
            made: dict[str, Any] = {}
            for label, value in values.items():
                if not isinstance(label, str) or not label:
                    raise StudyError(f"`{name}` must have names that are strings, got {shorten(label)} (axes.{name})")
                fingerprint, self.objects[fingerprint], _ = pickle_object(value, f"{name} = {label}")
                made[label] = {TYPE: OBJECT, FINGERPRINT: fingerprint}
            return made
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
            if kinds == {int} and len(values) >= MIN_RANGE_LENGTH and values[0] >= 0:
                if values == list(range(values[0], values[0] + len(values))):
                    return {"start": values[0], "count": len(values)}
            elif len(kinds) == 1 and isinstance(values[0], (np.number, np.bool_)):  # the shorter text
                values = np.array(values)
        return _to_toml(f"axes.{name}", values)

    def read(self, file: str, find_user_code: FindCode | None = None, *, recorded: bool = False) -> Study:
        """Return the checked study.  Sections from a result (`recorded`) read no files and give no warnings."""
        model, folder = validate_table(StudyModel, self.table, file), Path(file).parent
        if not recorded and (files := read_files(model, file)):
            model = model.model_copy(update={TABLE_FILES: model.table_files | files})
        text = str([self.table.get(key) for key in ("axes", "zip")]) if self.objects else ""
        objects = tuple((name, data) for name, data in sorted(self.objects.items()) if name in text)

        def find_code(reference: str, depends: Sequence[str]) -> UserCode:
            code = self.codes.get(reference)
            if code is None or code.kind is not CodeKind.OBJECT:
                return replace(find_named_code(reference, folder, depends), objects=objects)
            return replace(code, depends=hash_depends(depends, Path(code.folder)), objects=objects)

        reader, study = StudyReader(model, file, find_user_code or find_code), object.__new__(Study)
        phases, resources = reader.read_phases(warns=not recorded), reader.read_resources()
        vars(study).update(model=model, file=file, spec=reader.spec, phases=phases, resources=resources)
        check_cases(study)
        return study


def _to_toml(where: str, value: Any) -> Any:
    """Convert a value to TOML types.  Raises StudyError for a value that a parameter cannot have."""
    if is_composite(value):
        value = value.content()
    if isinstance(value, Mapping) and TYPE not in value and all(type(name) is str for name in value):
        return {name: _to_toml(f"{where}.{name}", each) for name, each in value.items()}
    if type(value) is list:
        return [_to_toml(where, each) for each in value]
    with suppress(tomllib.TOMLDecodeError):
        if isinstance(value, date) and repr(tomllib.loads(f"x = {value.isoformat()}")["x"]) == repr(value):
            return value
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
    if code.kind is CodeKind.COMMAND and Path(code.folder) != folder:
        raise StudyError(f"`path` must be a file in the folder of the command, {code.folder}, got one in {folder}")
    if code.kind in (CodeKind.MODULE, CodeKind.DECLARED, CodeKind.COMMAND):
        return code.reference
    if not code.path:
        got = f"a function of {code.reference.partition(':')[0]} without a file. Define it at the top level of a file"
        wanted = "a function in a Python file, so that a study file can name it"
        raise StudyError(f"`{code.attribute}` must be {wanted}, got {got}")
    return f"{Path(os.path.relpath(code.path, folder)).as_posix()}:{code.attribute}"


def describe_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the changes of the texts "study", "code" and "version" on one line, such as "constants.gamma: 2 -> 3"."""
    found = []
    try:
        old, new = (dict(_flatten(tomllib.loads(each["study"]))) for each in (before, after))
        for name in (name for name in {**old, **new} if old.get(name) != new.get(name)):
            one, other = (shorten(texts[name]) if name in texts else "" for texts in (old, new))
            only = f"{name} = {one or other} {'added' if other else 'removed'}"
            found.append(f"{name}: {one} -> {other}" if one and other else only)
    except (ValueError, RecursionError):  # another program has changed the result
        found += ["the study's text"] if before["study"] != after["study"] else []
    if before.get("code") != after.get("code"):
        found.append("code of the method")
    elif not found:
        versions = before.get("version"), after.get("version")
        found.append("evogt-study {} -> {}".format(*versions) if len({*versions}) > 1 else "choice of the pilot")
    more = f"; {len(found) - MAX_CHANGES} more" if len(found) > MAX_CHANGES else ""
    return "; ".join(found[:MAX_CHANGES]) + more


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its dotted name.  Numbers from 1 name the tables of a list."""
    for name, value in table.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            value = {str(number): each for number, each in enumerate(value, 1)}
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
