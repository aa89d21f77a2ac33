"""A study: one question, stated in one file, with every parameter checked."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import FormulaError, InputError, ParameterError, StudyError, shortened
from evogt_study.methods.code import DeclaredCode, PickledCode, PythonFile, UserCode, code_of, depended, named_code
from evogt_study.methods.loading import known_method, load_method
from evogt_study.methods.problem_kind import is_problem, kind_of
from evogt_study.methods.protocol import Alternatives, Method, MethodSpec, Output
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.values import Value, Values, is_composite, labels, text_label
from evogt_study.schema.variables import PILOT
from evogt_study.storage.atomic import is_utf8, written_whole
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, Chosen, Exclude, When
from evogt_study.study.computed import is_formula, read_formulas
from evogt_study.study.declared import Declared, Place
from evogt_study.study.designs import SECTIONS, Design, check_occurs, read_designs, sections, stated_values
from evogt_study.study.listed import spaced, with_files
from evogt_study.study.model import (
    ExcludeTable,
    PublicationTable,
    SeedRange,
    StudyTable,
    WhenTable,
    quoted,
    read_table,
    taken_by,
)
from evogt_study.study.phases import STUDY, Choice, Phase, read_pilot, read_precision

POINTS = (*SECTIONS, "exclude")
"""Sections of which there may be several."""
MERGED = ("axes", "constants")
"""Sections of which a change names only what changes."""
FEWEST_CONSECUTIVE = 6
"""Consecutive integers are written as start and count if there are as many: then that is the shorter text."""


@dataclass(frozen=True)
class Defined:
    """The text of a study, the name that messages have for it, and the code that it names."""

    text: str
    file: str
    codes: Mapping[str, UserCode]

    def named(self, reference: str, depends: Sequence[str]) -> UserCode:
        """The code of this name with what it depends on.  Raises StudyError."""
        code, folder = self.codes.get(reference), Path(self.file).parent
        if not isinstance(code, PickledCode):
            return named_code(reference, folder, depends)
        return replace(code, depends=depended(depends, Path(code.folder)))


def defined(given: Mapping[str, Any]) -> Defined:
    """The text of a study of these arguments.  Raises StudyError for what no text can state."""
    table = {key: value for key, value in given.items() if key != "designs" and not _left_out(value)}
    table |= sections(given.get("designs") or ())
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


def _left_out(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple)) and not value)


def _is_code(value: object) -> bool:
    # a problem in formulas is callable too: with the values of its parameters
    return callable(value) and not is_problem(value)


def changed(text: str, file: str, codes: Iterable[UserCode], changes: Mapping[str, Any]) -> Defined:
    """The text of a study in which some arguments are changed.  Raises StudyError."""
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
            table[key] = value
    made = defined(table)
    return replace(made, file=file, codes={**{code.reference: code for code in codes}, **made.codes})


def _name_of(method: Any, reference: str) -> str:
    """A study's name after its method's."""
    name = getattr(method, "__name__", reference.rpartition(":")[2])
    return re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") or "study"


def _text(table: Mapping[str, Any]) -> str:
    """The arguments as TOML: single values first, then sections."""
    known = (
        "name", "title", "source", "method", "problem", "depends",
        "axes", "constants", *POINTS, "table_files", "when", "pilot", "output", "precision", "publication",
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
    if key in ("axes", "constants", "pilot", "output", "precision", "table_files", "publication"):
        if not isinstance(value, Mapping):
            raise _no_mapping(key, value)
        return {name: _axis(name, each) if key == "axes" else each for name, each in value.items()}
    return value


def _no_mapping(key: str, value: Any) -> StudyError:
    return StudyError(f"`{key}` must be a mapping of names to values, got {shortened(value)}")


def _axis(name: str, values: Any) -> Any:
    """The values of an axis: of consecutive integers the first and their number."""
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
    """A value in TOML, of which JSON's texts, numbers and lists are a part.  Raises StudyError."""
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


def written(text: str, file: str, codes: Iterable[UserCode], path: Path) -> Path:
    """Write a study's text to the new file `path`, naming its code and its tables from there.  Raises StudyError."""
    table, folder = tomllib.loads(text), path.resolve().parent
    for each in table.get("table", []):
        source = Path(file).parent.resolve() / each.get("file", "")
        if "file" in each and source.is_file():  # what is not there stays a part of the text
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


def _with_text(value: Any, old: str, new: str) -> Any:
    """The value with every text `old` in it replaced by `new`."""
    if isinstance(value, dict):
        return {name: _with_text(each, old, new) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_text(each, old, new) for each in value]
    return new if value == old else value


def _reference_from(code: UserCode, folder: Path) -> str:
    """Name the code as a study file in `folder` does.  Raises StudyError where it cannot."""
    file = code.path if isinstance(code, PythonFile) else code.file if isinstance(code, PickledCode) else None
    if file is None:
        return code.reference
    if not file:
        raise StudyError(
            f"`{code.attribute}` must be a function of a Python file for a study file to name it, got one of "
            f"{code.reference.partition(':')[0]} that is in none; put it into a file, at the top level"
        )
    return f"{Path(os.path.relpath(file, folder)).as_posix()}:{code.attribute}"


MOST_VALUES = 6
"""Values of an axis that are shown; more do not fit on a line of a notebook."""


def described(name: str, axes: Mapping[str, Sequence[Any]], count: int) -> str:
    """Return the number of cases, `count`: "study lorenz: 20 cases = 2 rho x 10 seed"."""
    return f"study {name}: {_cases(axes, count)}"


def _cases(axes: Mapping[str, Sequence[Any]], count: int) -> str:
    points = prod(map(len, axes.values()))
    holes = "" if count == points else f" of {points:,} points"
    return f"{count:,} cases{holes} = " + " x ".join(f"{len(values):,} {name}" for name, values in axes.items())


def constants_line(constants: Mapping[str, Any]) -> list[str]:
    """Return the constants on a line, if there are any."""
    return ["  " + ", ".join(f"{name} = {_shown(value)}" for name, value in constants.items())] if constants else []


def html_of(name: str, title: str, axes: Mapping[str, Sequence[Any]], constants: Mapping[str, Any], count: int) -> str:
    """Return a table of the axes and constants."""
    rows = [(axis, str(len(values)), _values(values)) for axis, values in axes.items()]
    rows += [(constant, "", _shown(value)) for constant, value in constants.items()]
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    head = "<tr><th>parameter</th><th>values</th><th></th></tr>"
    caption = f"<b>{escape(name)}</b>{': ' + escape(title) if title else ''} &middot; {escape(_cases(axes, count))}"
    return f"<div>{caption}<table>{head}{cells}</table></div>"


def _values(values: Sequence[Any]) -> str:
    shown = [_shown(value) for value in values]
    return ", ".join(shown if len(shown) <= MOST_VALUES else [*shown[: MOST_VALUES - 1], "...", shown[-1]])


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# NumPy's arrays have at most 64 dimensions, 32 before NumPy 2; variables add some of their own
MAX_AXES = 30
MAX_CHECKED = 5_000
"""Cases whose parameters are checked together before anything runs, in 0.4 s where they have one problem.

A bad combination beyond them is a failed run.
"""

Named = Callable[[str, Sequence[str]], UserCode]
"""Gives the code that a ``file.py:name`` means, for a study that depends on some files."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Study:
    """A checked study, given here, or read from a file by `from_file`.

    method: a function of named parameters, or the name of a method as a study file has it.  axes: the values of each
    parameter that varies; constants: of those that do not.  designs: what `evs.together`, `evs.sample` and `evs.table`
    give, each a dimension.  when: mappings with `match` and `set`; exclude: with `match` only.  problem: a
    problem in formulas, a name, or a function that makes a problem.  Methods and problems can be axes: mappings of labels to
    several.  depends: files that belong to the function's identity.  pilot, output, precision, publication: as the
    sections of a study file.  Raises StudyError, one line, for every mistake.

    `phases` are run in their order.

    >>> study = Study("monte_carlo.py:pi", axes={"points": [10, 100], "seed": range(3)})  # doctest: +SKIP
    """

    name: str
    title: str
    source: str
    spec: MethodSpec
    phases: tuple[Phase, ...]
    text: str
    file: str
    publication: PublicationTable | None

    def __init__(
        self,
        method: Callable[..., Any] | str | None = None,
        *,
        axes: Mapping[str, Any] | None = None,
        designs: Design | Iterable[Design] = (),
        exclude: Iterable[Mapping[str, Mapping[str, Any]]] = (),
        constants: Mapping[str, Any] | None = None,
        when: Iterable[Mapping[str, Mapping[str, Any]]] = (),
        problem: Any = None,
        name: str | None = None,
        title: str = "",
        depends: Iterable[str] = (),
        pilot: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
        precision: Mapping[str, Any] | None = None,
        publication: Mapping[str, Any] | None = None,
    ) -> None:
        given = {
            "name": name, "title": title, "method": method, "problem": problem, "depends": depends, "axes": axes,
            "designs": designs, "exclude": exclude, "constants": constants, "when": when, "pilot": pilot,
            "output": output, "precision": precision, "publication": publication,
        }  # fmt: skip
        # by way of its text: what is given in Python is checked, written down and identified as a file is
        made = defined(given)
        vars(self).update(vars(Study.from_text(made.text, made.file, named=made.named)))

    @staticmethod
    def made(**fields: Any) -> Study:
        """A study of these fields, as a reader has checked them."""
        # without __init__, which would write a text of the fields and read that
        study = object.__new__(Study)
        vars(study).update(fields)
        return study

    def replace(self, **changes: Any) -> Study:
        """The same study with other arguments of `Study`; of axes and constants only those that are named change.

        A parameter that was an axis becomes a constant, or the other way round, as it is given; None takes it away.
        """
        made = changed(self.text, self.file, self.spec.codes, changes)
        return Study.from_text(made.text, made.file, named=made.named)

    def to_file(self, path: str | Path) -> Path:
        """Write the study as a file, by which `evogt run` runs it.

        Raises StudyError where its function is not one of a file, or `path` exists.
        """
        return written(self.text, self.file, self.spec.codes, Path(path))

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The values of each axis, as they label the result."""
        return {axis.name: list(labels(axis.values)) for axis in self.space.axes}

    def __len__(self) -> int:
        """Number of cases: points of the product of the axes that are not excluded."""
        return self.space.count

    def __repr__(self) -> str:
        return "\n".join([described(self.name, self.axes, len(self)), *constants_line(self._constant_labels)])

    def _repr_html_(self) -> str:
        return html_of(self.name, self.title, self.axes, self._constant_labels, len(self))

    @property
    def _constant_labels(self) -> dict[str, Any]:
        return {name: labels([value])[0] for name, value in self.space.constants.items()}

    @staticmethod
    def from_file(path: str | Path) -> Study:
        """Read and check a study file.  Raises StudyError, one line, for every mistake in it."""
        path = Path(path)
        if not is_utf8(str(path)):  # the result names it
            raise StudyError(f"cannot read the study file {str(path)!a}: its name must be UTF-8; rename it")
        try:
            text = path.read_text(encoding="utf-8-sig")  # editors of Windows write a byte order mark
        except (OSError, UnicodeDecodeError, ValueError) as error:
            no_text = isinstance(error, UnicodeDecodeError)
            reason = f"it is no text{taken_by(str(path))}" if no_text else getattr(error, "strerror", None) or error
            raise StudyError(f"cannot read the study file {path}: {reason}") from None
        return Study.from_text(text, str(path))

    @staticmethod
    def from_text(text: str, file: str = "study", *, named: Named | None = None, recorded: bool = False) -> Study:
        """Check a study given as TOML text; `file` names it in messages, and its folder is where other files are.

        named: gives the code for a ``file.py:name``, where it is not to be found there, or not to be run.  recorded:
        the text is that of a result, which says itself what its tables hold, and is not to be warned of again.
        """
        folder = Path(file).parent
        text = text if recorded else with_files(text, file)
        known = named or (lambda name, depends: named_code(name, folder, depends))
        return _Reader(read_table(text, file), text, file, known).study(warn=not recorded)

    @property
    def space(self) -> CaseSpace:
        """The cases of the last phase, which lack the parameters that earlier ones choose."""
        return self.phases[-1].space

    @property
    def pilot(self) -> Choice | None:
        """The choice of the study's pilot, where it has one."""
        return next((phase.choice for phase in self.phases if phase.choice is not None), None)

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    # the first candidate stands for the choice: every candidate was checked as a value, and its rules and keys look the
    # same
    def provisional_spaces(self) -> Iterator[CaseSpace]:
        """The cases of each phase, before any has run: a stand-in has the place of what earlier ones choose."""
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
        # a rule may set what is a constant elsewhere: the value tells which of the two holds in this case
        stated = name in self.space.constants and values.get(name) == self.space.constants[name]
        if name in self.space.columns:
            return f"{self.file}, {self.space.columns[name]}.{name}"
        if name in self.space.names:
            section = "axes"
        elif name in self.space.followers and not stated:
            section = "when"
        elif self.pilot is not None and name in self.pilot.parameters:
            section = PILOT
        else:
            section = "output" if name == "times" else "constants"
        return f"{self.file}, {section}.{name}"


def check_study(given: object) -> None:
    """Raise InputError for what is no `Study`, such as the path of one."""
    if not isinstance(given, Study):
        raise InputError(f"`study` must be a Study, got {shortened(given)}; use Study.from_file(PATH)")


def _times(raw: int | list[float | int]) -> int | tuple[float, ...]:
    """The saved times as a count or as numbers."""
    try:
        times = raw if isinstance(raw, int) else tuple(float(t) for t in raw)
    # an integer beyond the range of a double
    except OverflowError:
        times = ()
    if times == ():
        raise StudyError(
            f"`times` must be a count, or a list of at least one time, got {shortened(raw)} (output.times)"
        )
    return times


class _PlacedError(StudyError):
    """A mistake whose message has its place already."""


class _Reader:
    """One pass from a table of the right shape to a study whose every value is checked."""

    def __init__(self, table: StudyTable, text: str, file: str, named: Named) -> None:
        self.table, self.text, self.file, self.named = table, text, file, named
        try:
            self.spec = self._spec()
            self.method = load_method(self.spec)
            if references := tuple(self._references()):
                self.spec = replace(self.spec, references=references)
                self.method = load_method(self.spec)
        except _PlacedError as error:
            raise StudyError(str(error)) from None
        except ParameterError as error:
            raise StudyError(str(error.at(f"{file}, problem.{error.name}"))) from None
        except FormulaError as error:
            raise StudyError(f"{error} ({file}, problem)") from None
        except InputError as error:
            raise StudyError(f"{error} ({file})") from None
        if table.depends and not self.spec.codes:
            raise StudyError(f"`depends` must be left out with the method {table.method}, which reads no files")
        self.declared = Declared(self.method, file, frozenset(table.constants), tuple(self._lacking()))

    def _lacking(self) -> Iterator[str]:
        """Parameters without a default that no section of the text gives; none where a table's file may give them."""
        table = self.table
        given = {*table.axes, *table.constants, *(table.pilot.parameters if table.pilot else ())}
        given.update(
            *(rule.set for rule in table.when), *(each.parameters for each in (*table.together, *table.sample))
        )
        given.update(*(row for listed in table.table for row in listed.rows or ()))
        for name, parameter in self.method.parameters.items():
            if parameter.default is None and not parameter.optional and name not in given and not table.table_files:
                yield name

    def _spec(self) -> MethodSpec:
        stated, output = self.table.problem, self.table.output
        outputs = None
        if output is not None:
            outputs = Output(_times(output.times), tuple(dict.fromkeys(output.record)), output.grid)
        method = known_method(self._labelled("method", self.table.method) or self.table.method, self._named)
        problem: object = None if stated is None else self._problem(stated, "problem")
        if several := self._labelled("problem", stated):
            each = ((label, self._problem(raw, f"axes.problem.{label}")) for label, raw in several.items())
            problem = Alternatives(tuple(each))
        return MethodSpec(method, problem, outputs)

    def _named(self, reference: str) -> UserCode:
        return self.named(reference, self.table.depends)

    def _problem(self, raw: str | dict[str, Any], where: str) -> object:
        """The problem, or the user's code that makes it.  Raises _PlacedError."""
        if isinstance(raw, str) and ":" in raw:
            return self._named(raw)
        place = f"{self.file}, {where}"
        try:
            return kind_of(raw).read(raw, Path(self.file).parent, place)
        except ParameterError as error:
            raise _PlacedError(str(error.at(f"{place}.{error.name}"))) from None
        except FormulaError as error:
            raise _PlacedError(f"{error} ({place})") from None
        except StudyError as error:
            raise _PlacedError(str(error)) from None

    def _references(self) -> Iterator[UserCode]:
        """The functions that parameters name, wherever these get a value."""
        given = [self.table.axes, self.table.constants, *(rule.set for rule in self.table.when)]
        texts: list[Any] = []
        for name in [each.name for each in self.method.parameters.values() if each.takes_code]:
            several = [table.get(name) for table in given]
            texts += [text for raw in several for text in (raw if isinstance(raw, list) else [raw])]
            texts += stated_values(self.table, name, self.file)
        # each once, since naming it reads and hashes its files
        for text in dict.fromkeys(text for text in texts if isinstance(text, str) and ":" in text):
            yield self._named(text)

    def _labelled(self, name: str, alone: object) -> dict[str, Any] | None:
        """The methods or problems of an axis by their labels, if there is such an axis."""
        raw = self.table.axes.get(name)
        if raw is None:
            return None
        if name in self.table.model_fields_set and alone is not None:
            raise StudyError(f"`{name}` must be given once, got one for all and an axis ({self.file}, axes.{name})")
        if isinstance(raw, list) and all(isinstance(each, str) for each in raw):
            # a function is labelled by its own name
            raw = {each.rpartition(":")[2]: each for each in raw} if len(raw) > 0 else raw
        if not isinstance(raw, dict) or not raw:
            raise StudyError(
                f"`{name}` must be a list of names, or a table of labels and names, got {shortened(raw)} "
                f"({self.file}, axes.{name})"
            )
        return {label: self._one(name, label, each) for label, each in raw.items()}

    def _one(self, name: str, label: str, raw: Any) -> Any:
        """One method or problem of an axis: a name, or the table of a problem."""
        if isinstance(raw, str) or (isinstance(raw, dict) and name == "problem"):
            return raw
        raise StudyError(f"`{name}` must be a name, got {shortened(raw)} ({self.file}, axes.{name}.{label})")

    def study(self, warn: bool) -> Study:
        table, space = self.table, self._space(warn)
        precision = None
        if table.precision is not None:
            precision, space = read_precision(table.precision, space, self.declared)
        pilots = [] if table.pilot is None else [read_pilot(table.pilot, space, self.declared)]
        phases = (*(Phase(PILOT, pilot.space, pilot) for pilot in pilots), Phase(STUDY, space, precision=precision))
        study = Study.made(
            name=table.name, title=table.title, source=table.source, spec=self.spec, phases=phases,
            text=self.text, file=self.file, publication=table.publication,
        )  # fmt: skip
        self._check_resolved(study)
        for phase_space in study.provisional_spaces():
            self._check_together(study, phase_space)
        return study

    def _space(self, warn: bool) -> CaseSpace:
        """The cases of the study; of designs that are no good ones it is warned."""
        designs = read_designs(self.table, self.declared, warn=warn)
        axes = (*designs, *(self._axis(name, raw) for name, raw in self.table.axes.items()))
        if len(axes) > MAX_AXES:
            raise StudyError(f"a study must have at most {MAX_AXES} axes, got {len(axes)} ({self.file}, axes)")
        size = math.prod(len(axis.values) for axis in axes)
        if size > MAX_CASES:
            raise StudyError(f"a study must have at most {MAX_CASES:,} cases, got {size:,} ({self.file}, axes)")
        varying = {name: values for axis in axes for name, values in axis.parameters.items()}
        constants, formulas = self._constants(varying), read_formulas(self.table.constants, self.declared)
        excluded = tuple(Exclude(match) for match in self._matches("exclude", self.table.exclude, axes, varying))
        space = CaseSpace(axes, constants, self._rules(axes, varying), (), excluded, formulas)
        if excluded and not space.count:
            raise StudyError(f"`exclude` must leave a case, got none of {size:,} points ({self.file}, exclude)")
        return space

    def _axis(self, name: str, raw: Any) -> Axis:
        where = f"axes.{name}"
        if name in ("method", "problem") and name in self.declared.method.parameters:
            raw = list(self._labelled(name, None) or raw)
        entries = self._range(raw, where) if isinstance(raw, dict) else raw
        if not isinstance(entries, list) or not entries:
            raise StudyError(
                f"`{name}` must be a list of values, got {shortened(raw)} ({self.file}, {where}); "
                "one value belongs in [constants]"
            )
        return Axis(name, self.declared.values(name, entries, where))

    def _range(self, raw: dict[str, Any], where: str) -> Sequence[int | float]:
        if "from" in raw or "to" in raw:
            return spaced(raw, Place(self.file, where))
        try:
            return SeedRange.model_validate(raw).values
        # pydantic's ValidationError is one
        except ValueError:
            wanted = f"{{ start = integer >= 0, count = integer >= 1 and at most {MAX_CASES:,} }}"
            told = f"`{where}` must be a list, or {wanted}, {{ from, to, count }} or {{ from, to, step }}"
            raise StudyError(f"{told}, got {shortened(raw)} ({self.file}, {where})") from None

    def _constants(self, varying: Mapping[str, Sequence[Value]]) -> dict[str, Value]:
        """Values that are the same in all cases; those computed by a formula are left out."""
        stated = self.table.constants
        constants = {
            name: parameter.default
            for name, parameter in self.method.parameters.items()
            if parameter.default is not None and name not in varying and not is_formula(stated.get(name))
        }
        for name in constants:
            self.declared.check_name(name, f"constants.{name}")
        for name, raw in stated.items():
            if name in varying:
                raise StudyError(f"`{name}` must be an axis or a constant, got both ({self.file}, constants.{name})")
            if not is_formula(raw):
                constants[name] = self.declared.value(name, raw, f"constants.{name}")
        return constants

    def _rules(self, axes: Sequence[Axis], varying: Mapping[str, Sequence[Value]]) -> tuple[When, ...]:
        matches = self._matches("when", self.table.when, axes, varying)
        return tuple(
            When(match, {name: self._set(varying, name, raw, f"when[{i}].set") for name, raw in rule.set.items()})
            for i, (rule, match) in enumerate(zip(self.table.when, matches, strict=True))
        )

    def _matches(
        self,
        section: str,
        rules: Sequence[WhenTable | ExcludeTable],
        axes: Sequence[Axis],
        varying: Mapping[str, Sequence[Value]],
    ) -> Iterator[dict[str, frozenset[str]]]:
        """Labels that each rule of a section admits, by the parameters that it matches."""
        for i, rule in enumerate(rules):
            place = Place(self.file, f"{section}[{i}].match")
            match = {name: self._admitted(varying, name, raw, place.where) for name, raw in rule.match.items()}
            check_occurs(match, axes, place)
            yield match

    def _set(self, varying: Mapping[str, Sequence[Value]], name: str, raw: Any, where: str) -> Value:
        if name in varying:
            raise StudyError(f"`{name}` must not be set by a rule, since it is an axis ({self.file}, {where}.{name})")
        return self.declared.value(name, raw, f"{where}.{name}")

    def _admitted(self, varying: Mapping[str, Sequence[Value]], name: str, raw: Any, where: str) -> frozenset[str]:
        """Labels of the values that a rule's match means: the one it names, or the several that it lists.

        The parameter has to have each somewhere, else the rule matches no case.
        """
        where = f"{where}.{name}"
        if name not in varying:
            known = ", ".join(varying)
            raise StudyError(f"`match` must name axes ({known}), got {shortened(name)} ({self.file}, {where})")
        present = {text_label(value) for value in varying[name]}
        if isinstance(raw, list) and raw and not self._is_value_on(present, name, raw, where):
            wanted = [text_label(self.declared.value(name, entry, where)) for entry in raw]
        else:
            wanted = [text_label(self.declared.value(name, raw, where))]
        for label in wanted:
            if label not in present:
                raise StudyError(f"the rule matches no case: {name} has no value {label} ({self.file}, {where})")
        return frozenset(wanted)

    def _is_value_on(self, present: set[str], name: str, raw: Any, where: str) -> bool:
        """Return True for a list that is itself one of the axis's values (widths of layers), not a list of them."""
        try:
            return text_label(self.declared.value(name, raw, where)) in present
        except StudyError:
            return False

    def _check_resolved(self, study: Study) -> None:
        """Every parameter that some case needs has a value there."""
        given = {formula.name for formula in study.space.formulas}
        given |= set(study.pilot.parameters if study.pilot else ())
        space = replace(study.space, formulas=())  # which may be of what the pilot chooses
        for point in space.representatives(extra=self.method.hints.deciding):
            values = space.resolved(point)
            missing = [] if values is None else self.method.required(values)
            missing = [name for name in missing if name not in (values or {}) and name not in given]
            if missing:
                at = ", ".join(f"{name} = {text_label(point[name])}" for name in study.space.names if name != "seed")
                raise StudyError(
                    f"`{missing[0]}` must be given ({self.file}, constants.{missing[0]}), got no value"
                    + (f" for {at}" if at else "")
                    + "; set it in [constants], [axes] or a [[when]] rule"
                )

    def _check_together(self, study: Study, space: CaseSpace) -> None:
        """Each case's parameters fit together; a seed matters only where a rule or the problem mentions it."""
        if any(isinstance(code, DeclaredCode) for code in self.spec.codes):
            return  # it was checked before it ran, and cannot be without running it
        every = {axis.name for axis in space.axes} - self.method.hints.unchecked
        axes = tuple(replace(axis, values=space.telling_values(axis, axis.name in every)) for axis in space.axes)
        few = replace(space, axes=axes)
        # spread evenly, where all would be too many
        for index in np.unique(np.linspace(0, few.size - 1, min(few.size, MAX_CHECKED)).astype(int)):
            values = few.values(int(index))
            if values is None:
                continue
            try:
                self.method.bind(values).check()
            except ParameterError as error:
                raise StudyError(str(error.at(study.where(error.name, values)))) from None
            except InputError as error:
                raise StudyError(f"{error} ({self.file}, problem)") from None


# a line of a terminal, which is where they are read
MOST = 4
"""Changes that are named; more would not be read on one line."""


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return what differs, on one line: "constants.gamma: 2 -> 3".

    before, after: the text under "study", what the study's own Python file declares under "code", and the package's
    version under "version".  Where nothing of that differs, it is the pilot that chose otherwise.
    """
    found = list(itertools.chain(_lines(before["study"], after["study"]), _others(before, after)))
    return "; ".join(found[:MOST]) + (f"; {len(found) - MOST} more" if len(found) > MOST else "")


def _others(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    if before.get("code") != after.get("code"):
        yield "code of the method"
    elif before["study"] == after["study"] and before.get("version") != after.get("version"):
        yield f"evogt-study {before.get('version')} -> {after.get('version')}"
    elif before["study"] == after["study"]:
        yield "choice of the pilot"


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
