"""Define a study in Python or read it from a file, display it and compare two states of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from evogt_study.errors import InputError, ParameterError, StudyError, shortened
from evogt_study.methods.code import CodeKind, UserCode, named_code
from evogt_study.methods.loading import load_method
from evogt_study.methods.protocol import Method, MethodSpec
from evogt_study.methods.streams import RNG
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.values import Values, labels, text_label
from evogt_study.schema.variables import PILOT
from evogt_study.storage.atomic import is_utf8
from evogt_study.storage.untrusted import MAX_STUDY_BYTES, read_text
from evogt_study.study.case_space import CaseSpace, Chosen
from evogt_study.study.definition import Definition, Named
from evogt_study.study.designs import StatedDesign
from evogt_study.study.listed import SECTION, missing_files
from evogt_study.study.model import StudyModel, check_model, read_toml, taken_by, write_toml
from evogt_study.study.phases import SEED, Phase, Pilot
from evogt_study.study.reading import Reader

MAX_CHECKED = 5_000
"""Largest number of cases whose parameters are checked before anything runs, in 0.4 s for one problem.

A bad combination in another case is a failed run.
"""
_MOST_VALUES = 6
"""Largest number of values of an axis that are displayed; more do not fit on a line of a notebook."""
MOST_CHANGES = 4
"""Largest number of changes that a message names; more do not fit on a line of a terminal."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Study:
    """A checked study, given here, or read from a file by `from_file`.

    method: a function of named parameters, or the name of a method as a study file has it.  axes: the values of each
    parameter that varies: a list, an array or a mapping of names to any objects; constants: the values of others.
    designs: what `evs.zip_axes`, `evs.sample` and `evs.table` give, each a dimension.  when: mappings with `match` and
    `set`; exclude: with `match` only.  problem: a problem in formulas, a name, or a function that makes a problem.
    Methods and problems can be axes: mappings of labels to several.  depends: files that belong to the function's
    identity.  common: parameters along which a seed is one stream of the argument `rng`: "all", "none" or a list of
    names.  title, source: copied to the result.  pilot, output, precision, publication: as the sections of a study
    file.  Raises StudyError, one line, for every mistake.

    `phases` are run in their order.

    >>> study = Study("monte_carlo.py:pi", axes={"points": [10, 100], "seed": range(3)})  # doctest: +SKIP
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
        output: Mapping[str, Any] | None = None,
        precision: Mapping[str, Any] | None = None,
        publication: Mapping[str, Any] | None = None,
    ) -> None:
        arguments = {key: value for key, value in locals().items() if key != "self"}
        made = Definition.of(arguments)
        vars(self).update(vars(_defined(made, f"study {made.table['name']}")))

    def replace(self, **changes: Any) -> Study:
        """The same study with other arguments of `Study`; of axes and constants only those that are named change.

        A parameter that was an axis becomes a constant, or the other way round, as it is given; None takes it away.
        """
        known = tuple(signature(Study).parameters)
        for key in changes:
            if key not in known:
                raise StudyError(f"`Study` must be given {', '.join(known)}, got {key!r}")
        made = Definition.of_model(self.model, self.spec.codes)
        made.update(changes)
        return _defined(made, self.file)

    def to_file(self, path: str | Path) -> Path:
        """Write the study as a file, by which `evogt run` runs it.

        Raises StudyError where its function is not one of a file, or `path` exists.
        """
        return Definition.of_model(self.model, self.spec.codes).write(Path(path), Path(self.file).parent)

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
        """The same study with each part of its code changed."""
        return _made(**vars(self) | {"spec": self.spec.with_codes(change)})

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The values of each axis, as they label the result."""
        return {axis.name: list(labels(axis.values)) for axis in self.space.axes}

    def __len__(self) -> int:
        """Number of cases: points of the product of the axes that are not excluded."""
        return self.space.count

    def __repr__(self) -> str:
        constants = ", ".join(f"{name} = {_shown(value)}" for name, value in self._constant_labels.items())
        return f"study {self.name}: {self._cases}" + (f"\n  {constants}" if constants else "")

    def _repr_html_(self) -> str:
        rows = [(axis, str(len(values)), _values(values)) for axis, values in self.axes.items()]
        rows += [(constant, "", _shown(value)) for constant, value in self._constant_labels.items()]
        cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        head = "<tr><th>parameter</th><th>values</th><th></th></tr>"
        title = f"<b>{escape(self.name)}</b>{': ' + escape(self.title) if self.title else ''}"
        return f"<div>{title} &middot; {escape(self._cases)}<table>{head}{cells}</table></div>"

    @property
    def _cases(self) -> str:
        points = "" if len(self) == self.space.size else f" of {self.space.size:,} points"
        axes = " x ".join(f"{len(values):,} {name}" for name, values in self.axes.items())
        return f"{len(self):,} cases{points} = {axes}"

    @property
    def _constant_labels(self) -> dict[str, Any]:
        return {name: labels([value])[0] for name, value in self.space.constants.items()}

    @staticmethod
    def from_file(path: str | Path, *, named: Named | None = None) -> Study:
        """Read and check a study file.  Raises StudyError, one line, for every mistake in it.

        named: as in `from_text`.
        """
        path = Path(path)
        if not is_utf8(str(path)):  # the result contains the name
            raise StudyError(f"cannot read the study file {str(path)!a}: its name must be UTF-8; rename it")
        try:
            text = read_text(path, "the study file", StudyError, max_bytes=MAX_STUDY_BYTES)
        except StudyError as error:
            raise StudyError(f"{error}{taken_by(str(path))}") from None
        return Study.from_text(text, str(path), named=named)

    @staticmethod
    def from_text(text: str, file: str = "study", *, named: Named | None = None, recorded: bool = False) -> Study:
        """Check a study given as TOML text; `file` names it in messages, and its folder is where other files are.

        named: returns the code for a ``file.py:name``, if it is not loaded from that file.  recorded: the text comes
        from a result.  It contains the content of its tables, and the user has seen its warnings.
        """
        model = read_toml(text, file)
        if not recorded and (files := missing_files(model, file)):
            # appended: the comments and the order of the study file stay
            head = "" if model.table_files else f"\n# what the files of [[table]] held\n[{SECTION}]\n"
            text = f"{text.rstrip(chr(10))}\n{head}{tomli_w.dumps(files, indent=2)}"
            model = read_toml(text, file)
        folder = Path(file).parent
        code = named or (lambda reference, depends: named_code(reference, folder, depends))
        return _made(**vars(_read(model, file, code, warn=not recorded)) | {"text": text})

    @property
    def space(self) -> CaseSpace:
        """The cases of the last phase, without the parameters that earlier phases choose."""
        return self.phases[-1].space

    @property
    def has_streams(self) -> bool:
        """True if runs receive a generator `rng`."""
        space = self.space
        return self.method.has_streams and RNG not in (
            *space.names,
            *space.columns,
            *space.dependent_parameters,
            *space.constants,
        )

    @property
    def pilot(self) -> Pilot | None:
        """The choice of the pilot, if the study has one."""
        return next((phase.choice for phase in self.phases if phase.choice is not None), None)

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def provisional_spaces(self) -> Iterator[CaseSpace]:
        """The cases of each phase before any has run, with the first candidate as the choice of an earlier phase."""
        chosen: tuple[Chosen, ...] = ()
        for phase in self.phases:
            yield phase.space.with_chosen(*chosen)
            if phase.choice is not None:
                chosen += (phase.choice.first_candidates(self.space),)

    def parameter(self, name: str) -> Parameter:
        """Declaration of a parameter."""
        return self.method.parameters[name]

    def where(self, name: str, values: Values) -> str:
        """The section that gives a parameter its value in a case, for messages."""
        # a rule may replace a constant in some cases: the value shows which of the two holds here
        stated = name in self.space.constants and values.get(name) == self.space.constants[name]
        if name in self.space.columns:
            return f"{self.file}, {self.space.columns[name]}.{name}"
        if name in self.space.names:
            section = "axes"
        elif name in self.space.dependent_parameters and not stated:
            section = "when"
        elif self.pilot is not None and name in self.pilot.parameters:
            section = PILOT
        else:
            section = "output" if name == "times" else "constants"
        return f"{self.file}, {section}.{name}"


def _made(**fields: Any) -> Study:
    # without __init__, which takes the arguments of a study
    study = object.__new__(Study)
    vars(study).update(fields)
    return study


def _defined(made: Definition, file: str) -> Study:
    """Return the study of a definition.  Raises StudyError."""
    model = check_model(made.table, file)
    if files := missing_files(model, file):
        model = check_model({**made.table, SECTION: model.table_files | files}, file)
    return _read(model, file, made.named(Path(file).parent), warn=True)


def _read(model: StudyModel, file: str, named: Named, *, warn: bool) -> Study:
    """Return the study of a model, with checked values.  Raises StudyError."""
    reader = Reader(model, file, named)
    study = _made(model=model, file=file, spec=reader.spec, phases=reader.phases(warn=warn))
    _check_resolved(study)
    for space in study.provisional_spaces():
        _check_together(study, space)
    return study


def check_study(given: object) -> None:
    """Raise InputError for anything except a `Study`, such as a path."""
    if not isinstance(given, Study):
        raise InputError(f"`study` must be a Study, got {shortened(given)}; use Study.from_file(PATH)")


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
            at = ", ".join(f"{name} = {text_label(point[name])}" for name in study.space.names if name != "seed")
            remedy = study.parameter(missing[0]).remedy if missing[0] == SEED else ""
            message = f"`{missing[0]}` must be given ({study.file}, constants.{missing[0]}), got no value"
            remedy = remedy or "set it in [constants], [axes] or a [[when]] rule"
            raise StudyError(f"{message}{' for ' if at else ''}{at}; {remedy}")


def _check_together(study: Study, space: CaseSpace) -> None:
    """Raise StudyError if the parameters of a case are inconsistent; few seeds stand for all."""
    if any(code.kind is CodeKind.DECLARED for code in study.spec.codes):
        return  # it was checked before it ran, and checking it again would run it
    few = {SEED} & set(study.method.plain_parameters)
    axes = tuple(replace(axis, values=space.representative_values(axis, axis.name not in few)) for axis in space.axes)
    some = replace(space, axes=axes)
    # spread evenly over the cases, at most MAX_CHECKED
    for index in np.unique(np.linspace(0, some.size - 1, min(some.size, MAX_CHECKED)).astype(int)):
        values = some.values(int(index))
        if values is None:
            continue
        try:
            study.method.bind(values).check()
        except ParameterError as error:
            raise StudyError(str(error.at(study.where(error.name, values)))) from None
        except InputError as error:
            raise StudyError(f"{error} ({study.file}, problem)") from None


def _values(values: Sequence[Any]) -> str:
    shown = [_shown(value) for value in values]
    return ", ".join(shown if len(shown) <= _MOST_VALUES else [*shown[: _MOST_VALUES - 1], "...", shown[-1]])


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return what differs, on one line: "constants.gamma: 2 -> 3".

    before, after: the study text under "study", the declaration of the user's code under "code" and the version of the
    package under "version".  If these are equal, the pilot has made another choice.
    """
    old, new = before["study"], after["study"]
    found = [] if old == new else list(_lines(old, new))
    if before.get("code") != after.get("code"):
        found.append("code of the method")
    elif not found:
        versions = before.get("version"), after.get("version")
        is_new = versions[0] != versions[1]
        found.append(f"evogt-study {versions[0]} -> {versions[1]}" if is_new else "choice of the pilot")
    more = f"; {len(found) - MOST_CHANGES} more" if len(found) > MOST_CHANGES else ""
    return "; ".join(found[:MOST_CHANGES]) + more


def _lines(before: str, after: str) -> Iterator[str]:
    try:
        old, new = (dict(_flat(tomllib.loads(text))) for text in (before, after))
    except (ValueError, RecursionError):  # of a result that another program has changed
        yield "the study's text"
        return
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"{name} = {shortened(old[name])} removed"
        elif name not in old:
            yield f"{name} = {shortened(new[name])} added"
        elif old[name] != new[name]:
            yield f"{name}: {shortened(old[name])} -> {shortened(new[name])}"


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its dotted name; tables of a list are numbered from 1."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            yield from _flat({str(number): each for number, each in enumerate(value, 1)}, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
