"""Define a study in Python or read it from a file, display it and compare two states of it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from html import escape
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from evogt_study.errors import InputError, ParameterError, StudyError, shorten
from evogt_study.methods.code import CodeKind, UserCode, find_named_code, make_code, pickle_object
from evogt_study.methods.loading import load_method
from evogt_study.methods.local_files import hash_depends
from evogt_study.methods.problem_kind import is_problem, states_problem
from evogt_study.methods.protocol import Method, MethodSpec
from evogt_study.methods.streams import RNG
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.values import (
    FINGERPRINT,
    OBJECT,
    TYPE,
    Values,
    is_composite,
    labels,
    text_label,
    to_json,
    to_plain,
)  # fmt: skip
from evogt_study.schema.variables import PILOT
from evogt_study.storage.atomic import is_utf8, write_atomically
from evogt_study.storage.untrusted import MAX_STUDY_BYTES, parse_toml, read_text
from evogt_study.study.case_space import CaseSpace, ParameterTable
from evogt_study.study.designs import SECTION, SECTIONS, StatedDesign, missing_files, sections
from evogt_study.study.model import StudyModel, check_model, read_toml, suggest_reader, write_toml
from evogt_study.study.parameter_values import Declared, Resources
from evogt_study.study.phases import SEED, Phase, Pilot
from evogt_study.study.reading import Named, Reader

MAX_CHECKED = 5_000
"""Largest number of cases whose parameters are checked before anything runs, in 0.4 s for one problem.

A bad combination in another case is a failed run.
"""
MAX_DISPLAYED = 6
"""Largest number of values of an axis that are displayed; more do not fit on a line of a notebook."""
MAX_CHANGES = 4
"""Largest number of changes that a message names; more do not fit on a line of a terminal."""
MIN_RANGE = 6
"""Consecutive integers are given as start and count if there are as many: then that is the shorter text."""
_RANGE = frozenset({"start", "count", "from", "to", "step", "scale"})
_MERGED = ("axes", "constants")
"""Sections in which `Study.replace` changes only the named entries."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Study:
    """Checked study, given here or read from a file by `from_file`.

    Parameters
    ----------
    method : callable or str, optional
        Function of named parameters, or the name of a method as in a study file.  A mapping of labels to methods or
        problems can be an axis.
    axes : mapping, optional
        Values of each parameter that varies: a list, an array, or a mapping of names to any objects.
    designs : design or iterable of designs, optional
        Dimensions along which several parameters change: `evs.zip_axes`, `evs.sample` and `evs.table` give them.
    exclude : iterable of mappings, optional
        Points that are not planned: mappings with the key `match`.
    constants : mapping, optional
        Values of the parameters that do not vary.
    when : iterable of mappings, optional
        Rules for dependent parameters: mappings with the keys `match` and `set`.
    problem : optional
        Problem in formulas, the name of a problem, or a function that makes one.
    name : str, optional
        Name of the study and of its result file.  The default is the name of the method.
    title, source : str, optional
        Texts that are copied to the result.
    depends : iterable of str, optional
        Files that belong to the fingerprint of the function.
    common : str or sequence of str, optional
        Parameters along which a seed is one stream of the argument `rng`: "all", "none" or a list of names.
    command : str, optional
        Program in place of `method`, with parameters in braces.
    template, read, shell, container, keep : optional
        Keys of a study file that belong to a command.
    pilot, output, precision, publication, resources : mapping, optional
        The sections of a study file.

    Attributes
    ----------
    phases : tuple of Phase
        The phases in the order in which they run.

    Raises
    ------
    StudyError
        For every mistake, in one line.

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
        given = {key: value for key, value in locals().items() if key != "self" and not _is_left_out(value)}
        stated = _Stated({})
        stated.update(given, none_removes=False)
        if "name" not in stated.table:
            reference = str(stated.table.get("method", ":" + str(stated.table.get("command", "study")).split(" ")[0]))
            name = str(getattr(method, "__name__", reference.rpartition(":")[2]))
            stated.table["name"] = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "study"
        vars(self).update(vars(stated.check(f"study {stated.table['name']}")))

    def replace(self, **changes: Any) -> Study:
        """Return the study with other arguments of `Study`.

        Parameters
        ----------
        **changes
            Arguments of `Study`.  Entries of `axes` and `constants` that are not named stay.  An axis may become a
            constant, or the reverse.  None removes an argument or an entry.

        Returns
        -------
        Study
            A new study.

        Raises
        ------
        StudyError
            For every mistake, in one line.

        Examples
        --------
        >>> study = Study(lambda a, seed: a, axes={"a": [1, 2], "seed": range(3)}, name="small")
        >>> len(study.replace(axes={"a": [1, 2, 3]}))
        9
        """
        known = tuple(signature(Study).parameters)
        for key in changes:
            if key not in known:
                raise StudyError(f"`Study` must be given {', '.join(known)}, got {key!r}")
        stated = _Stated.of(self)
        stated.update(changes)
        return stated.check(self.file)

    def to_file(self, path: str | Path) -> Path:
        """Write the study as a new file, which `evogt run` runs.

        Parameters
        ----------
        path : str or Path
            The new file.  A file with this study stays as it is.

        Returns
        -------
        Path
            `path`.

        Raises
        ------
        StudyError
            If no file can name the function of the study, or if `path` has another text.

        Examples
        --------
        >>> study = Study("monte_carlo.py:pi", axes={"seed": range(3)})  # doctest: +SKIP
        >>> study.to_file("pi.toml")  # doctest: +SKIP
        """
        return _Stated.of(self).write(Path(path), Path(self.file).parent)

    @property
    def name(self) -> str:
        """The name of the study and of its result file."""
        return self.model.name

    @property
    def title(self) -> str:
        """The title of the study."""
        return self.model.title

    @cached_property
    def text(self) -> str:
        """The text of a study file: as it was read, or written by the package."""
        return write_toml(self.model.given)

    def with_codes(self, change: Callable[[UserCode], UserCode]) -> Study:
        """Return the study with each part of its code changed."""
        return _make(**vars(self) | {"spec": self.spec.with_codes(change)})

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The coordinate values of each axis."""
        return {axis.name: list(labels(axis.values)) for axis in self.space.axes}

    def __len__(self) -> int:
        return self.space.count

    def __repr__(self) -> str:
        constants = ", ".join(f"{name} = {_display(value)}" for name, value in self._constants.items())
        return f"study {self.name}: {self._cases}" + (f"\n  {constants}" if constants else "")

    def _repr_html_(self) -> str:
        rows = []
        for axis, values in self.axes.items():
            shown = values if len(values) <= MAX_DISPLAYED else [*values[: MAX_DISPLAYED - 1], "...", values[-1]]
            rows.append((axis, str(len(values)), ", ".join(map(_display, shown))))
        rows += [(constant, "", _display(value)) for constant, value in self._constants.items()]
        cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        head = "<tr><th>parameter</th><th>values</th><th></th></tr>"
        title = f"<b>{escape(self.name)}</b>{': ' + escape(self.title) if self.title else ''}"
        return f"<div>{title} &middot; {escape(self._cases)}<table>{head}{cells}</table></div>"

    @property
    def _cases(self) -> str:
        points = "" if len(self) == self.space.size else f" of {self.space.size:,} points"
        axes = " x ".join(f"{len(axis.values):,} {axis.name}" for axis in self.space.axes)
        return f"{len(self):,} cases{points} = {axes}"

    @property
    def _constants(self) -> dict[str, Any]:
        return {name: labels([value])[0] for name, value in self.space.constants.items()}

    @staticmethod
    def from_file(path: str | Path, *, named: Named | None = None) -> Study:
        """Read and check a study file.

        Parameters
        ----------
        path : str or Path
            The study file.  A study without `name` has the name of its file.
        named : callable, optional
            Returns the code of a reference such as ``file.py:name``.  The default reads the file.

        Returns
        -------
        Study
            The study.

        Raises
        ------
        StudyError
            For every mistake in the file, in one line.

        Examples
        --------
        >>> Study.from_file("studies/oscillatory_1d.toml").name  # doctest: +SKIP
        'oscillatory_1d'
        """
        path = Path(path)
        if not is_utf8(str(path)):  # the result contains the name
            raise StudyError(f"cannot read the study file {str(path)!a}: its name must be UTF-8; rename it")
        try:
            text = read_text(path, "the study file", StudyError, max_bytes=MAX_STUDY_BYTES)
        except StudyError as error:
            raise StudyError(f"{error}{suggest_reader(str(path))}") from None
        return Study.from_text(_with_name(text, path.stem), str(path), named=named)

    @staticmethod
    def from_text(text: str, file: str = "study", *, named: Named | None = None, recorded: bool = False) -> Study:
        """Check a study given as TOML text; `file` names it in messages, and its folder is where other files are.

        recorded: the text comes from a result.  It contains the content of its tables, and the user has seen its
        warnings.
        """
        model = read_toml(text, file)
        if not recorded and (files := missing_files(model, file)):
            # appended: the comments and the order of the study file stay
            head = "" if model.table_files else f"\n# what the files of [[table]] held\n[{SECTION}]\n"
            text = f"{text.rstrip(chr(10))}\n{head}{tomli_w.dumps(files, indent=2)}"
            model = read_toml(text, file)
        folder = Path(file).parent
        code = named or (lambda reference, depends: find_named_code(reference, folder, depends))
        return _make(**vars(_read(model, file, code, warn=not recorded)) | {"text": text})

    @property
    def space(self) -> CaseSpace:
        """The cases of the last phase, without the parameters that earlier phases choose."""
        return self.phases[-1].space

    @property
    def has_streams(self) -> bool:
        """True if runs receive a generator `rng`."""
        space = self.space
        given = {*space.names, *space.columns, *space.dependent_parameters, *space.constants}
        return self.method.has_streams and RNG not in given

    @cached_property
    def resources(self) -> Resources | None:
        """What its runs need, if the study says so."""
        table = self.model.resources
        return None if table is None else Resources.of(table, Declared(self.method, self.file))

    @property
    def pilot(self) -> Pilot | None:
        """The choice of the pilot, if the study has one."""
        return next((phase.choice for phase in self.phases if phase.choice is not None), None)

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def provisional_spaces(self) -> Iterator[CaseSpace]:
        """Yield the cases of each phase before any has run, with the first candidate as the choice of a pilot."""
        chosen: tuple[ParameterTable, ...] = ()
        for phase in self.phases:
            yield phase.space.with_chosen(*chosen)
            if phase.choice is not None:
                chosen += (phase.choice.first_candidates(self.space),)

    def parameter(self, name: str) -> Parameter:
        """Return the declaration of a parameter."""
        return self.method.parameters[name]


def check_study(given: object) -> None:
    """Raise InputError for anything except a `Study`, such as a path."""
    if not isinstance(given, Study):
        raise InputError(f"`study` must be a Study, got {shorten(given)}; use Study.from_file(PATH)")


def _make(**fields: Any) -> Study:
    # without __init__, which takes the arguments of a study
    study = object.__new__(Study)
    vars(study).update(fields)
    return study


def _read(model: StudyModel, file: str, named: Named, *, warn: bool) -> Study:
    """Return the study of a model, with checked values.  Raises StudyError."""
    reader = Reader(model, file, named)
    study = _make(model=model, file=file, spec=reader.spec, phases=reader.phases(warn=warn))
    _check_resolved(study)
    # code that is only declared was checked before it ran, and checking it again would run it
    if not any(code.kind is CodeKind.DECLARED for code in study.spec.codes):
        for space in study.provisional_spaces():
            _check_together(study, space)
    return study


def _check_resolved(study: Study) -> None:
    """Raise StudyError if a case needs a parameter that has no value."""
    given = {formula.name for formula in study.space.formulas}
    given |= set(study.pilot.parameters if study.pilot else ())
    space = replace(study.space, formulas=())  # a formula may use a parameter that the pilot chooses
    for point in space.representatives(extra=study.method.setup_parameters):
        values = space.resolve(point)
        missing = [] if values is None else study.method.required(values)
        missing = [name for name in missing if name not in (values or {}) and name not in given]
        if missing:
            at = ", ".join(f"{name} = {text_label(point[name])}" for name in study.space.names if name != SEED)
            remedy = study.parameter(missing[0]).remedy if missing[0] == SEED else ""
            message = f"`{missing[0]}` must be given ({study.file}, constants.{missing[0]}), got no value"
            remedy = remedy or "set it in [constants], [axes] or a [[when]] rule"
            raise StudyError(f"{message}{' for ' if at else ''}{at}; {remedy}")


def _check_together(study: Study, space: CaseSpace) -> None:
    """Raise StudyError if the parameters of a case are inconsistent; few seeds stand for all."""
    few = {SEED} & set(study.method.plain_parameters)
    axes = tuple(replace(axis, values=space.representative_values(axis, axis.name not in few)) for axis in space.axes)
    some = replace(space, axes=axes)
    # spread evenly over the cases, at most MAX_CHECKED
    for index in np.unique(np.linspace(0, some.size - 1, min(some.size, MAX_CHECKED)).astype(int)):
        values = some.values(int(index))
        if values is None:
            continue
        if study.resources is not None:
            study.resources.needs_of(values)
        try:
            study.method.bind(values).check()
        except ParameterError as error:
            raise StudyError(str(error.at(f"{study.file}, {_section_of(study, error.name, values)}"))) from None
        except InputError as error:
            raise StudyError(f"{error} ({study.file}, problem)") from None


def _section_of(study: Study, name: str, values: Values) -> str:
    """Return the key that gives a parameter its value in a case."""
    space = study.space
    # a rule may replace a constant in some cases: the value shows which of the two holds here
    is_constant = name in space.constants and values.get(name) == space.constants[name]
    if name in space.columns:
        section = space.columns[name]
    elif name in space.names:
        section = "axes"
    elif name in space.dependent_parameters and not is_constant:
        section = "when"
    elif study.pilot is not None and name in study.pilot.parameters:
        section = PILOT
    else:
        section = "output" if name == "times" else "constants"
    return f"{section}.{name}"


def _display(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _Stated:
    """The sections and keys of a study, and the code and the pickled objects that they name."""

    table: dict[str, Any]
    codes: dict[str, UserCode] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)

    @staticmethod
    def of(study: Study) -> _Stated:
        """Return what a study states, which can be changed."""
        codes = study.spec.codes
        objects = {name: data for code in codes for name, data in code.objects}
        return _Stated(study.model.given, {code.reference: code for code in codes}, objects)

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
        table, is_left_out = self.table, _is_left_out(value)
        if key == "designs":
            for section in (*SECTIONS, SECTION):
                table.pop(section, None)
            for section, designs in sections(() if is_left_out else value).items():
                table[section] = [self._design(section, each) for each in designs]
        elif key in _MERGED:
            given = _check_mapping(key, {} if is_left_out else value)
            # from both: an axis may become a constant, and the reverse
            for section in _MERGED:
                if section in table:
                    table[section] = {name: each for name, each in table[section].items() if name not in given}
            if not is_left_out:
                names = [name for name, each in given.items() if each is not None or not none_removes]
                table[key] = table.get(key, {}) | {name: self._entry(key, name, given[name]) for name in names}
        elif is_left_out:
            table.pop("random" if key == "common" else key, None)
        elif key == "common":
            table["random"] = {"common": to_plain(value)}
        else:
            table[key] = self._section(key, value)

    def _section(self, key: str, value: Any) -> Any:
        if key in ("method", "problem"):
            return self._named(key, value)
        if key in ("when", "depends", "exclude"):
            listed = [value] if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable) else list(value)
            kind, message = (str, "names of files") if key == "depends" else (Mapping, "mappings, { match = { ... } }")
            if not all(isinstance(each, kind) for each in listed):
                raise StudyError(f"`{key}` must be a list of {message}, got {shorten(value)}")
            return [_to_toml(key, each) for each in listed]
        if key in ("pilot", "output", "precision", "publication", "read", "resources"):
            # candidates of a pilot are values of parameters
            plain = {n: v if n == "candidates" else to_plain(v) for n, v in _check_mapping(key, value).items()}
            return {name: _to_toml(f"{key}.{name}", each) for name, each in plain.items()}
        if isinstance(value, str) and value.encode(errors="ignore").decode() != value:
            raise StudyError(f"`{key}` must be a string that UTF-8 can write, got {shorten(value)}")
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
        code = make_code(value, Path.cwd())
        self.codes[code.reference] = code
        return code.reference

    def _has_choices(self, key: str, choices: Any) -> bool:
        """Return True for the methods or problems of an axis.

        A function may have a parameter `problem`: then at least one value has to state a problem.
        """
        if not isinstance(choices, Mapping) or not all(
            is_problem(each) or callable(each) or isinstance(each, (str, Mapping)) for each in choices.values()
        ):
            return False
        is_parameter = key == "problem" and ":" in str(self.table.get("method", ""))
        return not is_parameter or any(states_problem(each, Path.cwd()) for each in choices.values())

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
            if _RANGE.intersection(values) and all(np.isscalar(each) for each in values.values()):
                return to_plain(dict(values))
            return {label: self._object(name, label, value) for label, value in values.items()}
        if hasattr(values, "dims"):  # a DataArray of xarray, whose entries are arrays
            values = values.values
        is_single = np.ndim(values) == 0 if isinstance(values, np.ndarray) else not isinstance(values, Iterable)
        if is_single or isinstance(values, (str, bytes)):
            remedy = "one value belongs in constants"
            raise StudyError(f"`{name}` must be a list of values, got {shorten(values)} (axes.{name}); {remedy}")
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
            raise StudyError(f"`{name}` must have names that are strings, got {shorten(label)} (axes.{name})")
        fingerprint, self.objects[fingerprint] = pickle_object(value, f"{name} = {label}")
        return {TYPE: OBJECT, FINGERPRINT: fingerprint}

    def check(self, file: str) -> Study:
        """Return the study, with the content of the files of its tables.  Raises StudyError."""
        model, folder = check_model(self.table, file), Path(file).parent
        if files := missing_files(model, file):
            model = check_model({**self.table, SECTION: model.table_files | files}, file)
        text = str([self.table.get(key) for key in ("axes", "zip")])
        objects = tuple((name, data) for name, data in sorted(self.objects.items()) if name in text)

        def named(reference: str, depends: Sequence[str]) -> UserCode:
            code = self.codes.get(reference)
            if code is None or code.kind is not CodeKind.OBJECT:
                return replace(find_named_code(reference, folder, depends), objects=objects)
            return replace(code, depends=hash_depends(depends, Path(code.folder)), objects=objects)

        return _read(model, file, named, warn=True)

    def write(self, path: Path, folder: Path) -> Path:
        """Write the study as the new file `path`, which names code and tables from there.

        folder: the folder to which the study's own paths are relative.  Raises StudyError.
        """
        table, there = self.table, path.resolve().parent
        _check_for_file(table, "")
        for each in table.get("table", []):
            source = folder.resolve() / each.get("file", "")
            if "file" in each and source.is_file():  # the table keeps the content of a file that is not there
                table[SECTION].pop(each["file"], None)
                # relpath, since the file need not be below the folder
                each["file"] = Path(os.path.relpath(source, there)).as_posix()
        for code in self.codes.values():
            reference = _reference_from(code, there)
            for key in table.keys() - {"name", "title", "source", "publication"}:
                table[key] = _replace_text(table[key], code.reference, reference)
            table.pop("depends", None)
            if code.depends:
                table["depends"] = [os.path.relpath(Path(code.folder) / name, there) for name, _ in code.depends]
        if not table.get(SECTION, True):
            del table[SECTION]
        text = write_toml(table)
        if path.exists():
            if path.is_file() and path.read_bytes() == text.encode():
                return path
            raise StudyError(f"`path` must be a new file, got {path}, which has another text")
        try:
            with write_atomically(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StudyError(f"cannot write {path}: {error.strerror or error}") from None
        return path


def _is_left_out(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple)) and not value)


def _check_mapping(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StudyError(f"`{key}` must be a mapping of names to values, got {shorten(value)}")
    return value


def _to_toml(where: str, value: Any) -> Any:
    """Return a value in types of TOML.  Raises StudyError for anything that is not the value of a parameter."""
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


def _replace_text(value: Any, old: str, new: str) -> Any:
    """Return the value with every string `old` in it replaced by `new`."""
    if isinstance(value, dict):
        return {name: _replace_text(each, old, new) for name, each in value.items()}
    if isinstance(value, list):
        return [_replace_text(each, old, new) for each in value]
    return new if value == old else value


def _reference_from(code: UserCode, folder: Path) -> str:
    """Name the code as a study file in `folder` does.  Raises StudyError if a file cannot name it."""
    if code.kind in (CodeKind.MODULE, CodeKind.DECLARED):
        return code.reference
    if code.kind is CodeKind.COMMAND:
        if Path(code.folder) != folder:
            raise StudyError(f"`path` must be a file in the folder of the command, {code.folder}, got one in {folder}")
        return code.reference
    if not code.path:
        raise StudyError(
            f"`{code.attribute}` must be a function of a Python file for a study file to name it, got one of "
            f"{code.reference.partition(':')[0]} that is in none; put it into a file, at the top level"
        )
    return f"{Path(os.path.relpath(code.path, folder)).as_posix()}:{code.attribute}"


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return what differs, on one line: "constants.gamma: 2 -> 3".

    before, after: the study text under "study", the declaration of the user's code under "code" and the version of the
    package under "version".  If these are equal, the pilot has made another choice.
    """
    found = list(_compare_texts(before["study"], after["study"])) if before["study"] != after["study"] else []
    if before.get("code") != after.get("code"):
        found.append("code of the method")
    elif not found:
        old, new = before.get("version"), after.get("version")
        found.append(f"evogt-study {old} -> {new}" if old != new else "choice of the pilot")
    more = f"; {len(found) - MAX_CHANGES} more" if len(found) > MAX_CHANGES else ""
    return "; ".join(found[:MAX_CHANGES]) + more


def _compare_texts(before: str, after: str) -> Iterator[str]:
    try:
        old, new = (dict(_flatten(tomllib.loads(text))) for text in (before, after))
    except (ValueError, RecursionError):  # of a result that another program has changed
        yield "the study's text"
        return
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"{name} = {shorten(old[name])} removed"
        elif name not in old:
            yield f"{name} = {shorten(new[name])} added"
        elif old[name] != new[name]:
            yield f"{name}: {shorten(old[name])} -> {shorten(new[name])}"


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its dotted name; tables of a list are numbered from 1."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            yield from _flatten({str(number): each for number, each in enumerate(value, 1)}, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _with_name(text: str, name: str) -> str:
    """Return the text of a study with a name, which the name of its file gives unless the text does."""
    try:
        is_named = "name" in parse_toml(text)
    except ValueError:  # `read_toml` explains it
        is_named = True
    return text if is_named or not re.fullmatch("[a-z0-9_]{1,100}", name) else f'name = "{name}"\n{text}'
