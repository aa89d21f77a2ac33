"""Read the model of a study as a method specification and phases with checked values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import AccuracyWarning, FormulaError, InputError, ParameterError, StudyError, shorten, warn
from evogt_study.methods.code import UserCode
from evogt_study.methods.loading import METHODS, load_method, load_named_method
from evogt_study.methods.problem_kind import problem_kind_of, states_problem
from evogt_study.methods.protocol import Alternatives, MethodSpec, Output
from evogt_study.methods.streams import ALL, NONE, RNG, SEED, Common
from evogt_study.schema.values import TYPE, Value, is_number, text_label
from evogt_study.schema.variables import BETTER, ESTIMAND, MAIN, PILOT
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, Match, When
from evogt_study.study.designs import check_occurs, read_designs, read_list, values_in_designs
from evogt_study.study.model import ExcludeTable, StudyModel, WhenTable
from evogt_study.study.parameter_values import Declared, SourceLocation, is_formula, read_formulas, values_in_study
from evogt_study.study.phases import Phase, read_pilot, read_precision

# NumPy's arrays have at most 64 dimensions, 32 before NumPy 2; variables add some of their own
MAX_AXES = 30
Named = Callable[[str, Sequence[str]], UserCode]
"""Gives the code that a ``file.py:name`` means, for a study that depends on some files."""
_NEAREST = 1e-12
"""Relative difference of two floats of an axis below which a warning names both."""
Columns = Mapping[str, Sequence[Value]]
"""Values of each parameter that varies."""


class Reader:
    """One pass from a model of the right shape to a study whose every value is checked."""

    def __init__(self, table: StudyModel, file: str, named: Named) -> None:
        self.table, self.file, self.named = table, file, named
        try:
            self.choices = self._choices()
            self.spec = self._spec()
            self.method = load_method(self.spec)
            for name in ("method", "problem"):
                if name in table.axes and name not in self.method.parameters:
                    raise self._place(f"axes.{name}").error(f"`{name}` must be given once, got one for all and an axis")
            common, references, kinds = self._common(), tuple(self._references()), tuple(self._kinds())
            if common != self.spec.common or references or kinds:
                self.spec = replace(self.spec, common=common, references=references, kinds=kinds)
                self.method = load_method(self.spec)
        except ParameterError as error:
            raise StudyError(str(error.at(f"{file}, problem.{error.name}"))) from None
        except FormulaError as error:
            raise self._place("problem").error(str(error)) from None
        except InputError as error:
            raise StudyError(f"{error}" if f"({file}" in str(error) else f"{error} ({file})") from None
        if table.depends and not self.spec.codes:
            raise StudyError(f"`depends` must be left out with the method {table.method}, which reads no files")
        # a file of a table may give any parameter
        given = {*self.method.parameters} if table.table_files else self._given
        lacking = (
            name
            for name, parameter in self.method.parameters.items()
            if parameter.default is None and not parameter.optional and name not in given
        )
        self.declared = Declared(self.method, file, frozenset(table.constants), tuple(lacking))

    def _place(self, where: str) -> SourceLocation:
        return SourceLocation(self.file, where)

    @property
    def _given(self) -> set[str]:
        """Parameters that a section of the study gives."""
        table = self.table
        given = {*table.axes, *table.constants, *(table.pilot.parameters if table.pilot else ())}
        given.update(*(rule.set for rule in table.when), *(each.parameters for each in (*table.zip, *table.sample)))
        given.update(*(row for listed in table.table for row in listed.rows or ()))
        return given

    def _spec(self) -> MethodSpec:
        stated, output = self.table.problem, self.table.output
        outputs = None

        def code(reference: str) -> UserCode:
            return self.named(reference, self.table.depends)

        if output is not None and output.model_fields_set - {BETTER, ESTIMAND}:
            outputs = Output(_times(output.times), tuple(dict.fromkeys(output.record)), output.grid)
        method = load_named_method(self.choices.get("method", self.table.method_reference), code)
        problem: object = None if stated is None else self._problem(stated, "problem")
        if several := self.choices.get("problem"):
            each = ((label, self._problem(raw, f"axes.problem.{label}")) for label, raw in several.items())
            problem = Alternatives(tuple(each))
        return MethodSpec(method, problem, outputs)

    def _common(self) -> Common:
        """The parameters along which seeds are common.  Raises StudyError."""
        place = self._place("random.common")
        if self.table.random is None:
            return ALL
        raw, known = self.table.random.common, self.method.parameters
        if not isinstance(raw, list) and raw not in (ALL, NONE):
            raise place.mistake(f'"{ALL}", "{NONE}" or a list of parameters', raw)
        if not self.method.has_streams or RNG in self._given:
            message = "`common` must be left out unless the function has an argument `rng` without a value"
            raise place.error(f"{message}, got {shorten(raw)}")
        for name in raw if isinstance(raw, list) else ():
            if name == SEED:
                raise place.error(f"`common` must leave out `{SEED}`, whose values are different streams")
            if name == RNG or name not in known:
                names = ", ".join(each for each in known if each not in (RNG, SEED))
                raise place.error(f"`common` must name parameters ({names}), got {shorten(name)}")
        return (tuple(sorted(set(raw))) or NONE) if isinstance(raw, list) else raw

    def _problem(self, raw: str | dict[str, Any], where: str) -> object:
        """The problem, or the user's code that makes it.  Raises StudyError."""
        if isinstance(raw, str) and ":" in raw:
            return self.named(raw, self.table.depends)
        place = self._place(where)
        try:
            return problem_kind_of(raw).read(raw, Path(self.file).parent, str(place))
        except ParameterError as error:
            raise StudyError(str(error.at(str(place.at(error.name))))) from None
        except FormulaError as error:
            raise place.error(str(error)) from None

    def _references(self) -> Iterator[UserCode]:
        """The functions that parameters name, wherever these get a value."""
        names = [each.name for each in self.method.parameters.values() if each.takes_code]
        # each once, since naming it reads and hashes its files
        for text in dict.fromkeys(text for name in names for text in self._texts(name) if ":" in text):
            yield self.named(text, self.table.depends)

    def _kinds(self) -> Iterator[tuple[str, str, int]]:
        """The classes that parameters name, wherever these get a value."""
        for parameter in self.method.parameters.values():
            for text in dict.fromkeys(self._texts(parameter.name) if parameter.kinds is not None else ()):
                # a mistake is reported with its place when the value is read
                with suppress(ParameterError):
                    # with the declarations, since a notebook may give another class the same name
                    declarations = tuple(parameter.kinds[text].parameters().items())  # type: ignore[index]  # as above
                    yield parameter.name, text, hash(declarations)

    def _texts(self, name: str) -> Iterator[str]:
        """The strings that the study gives to a parameter."""
        given = [self.table.axes, self.table.constants, *(rule.set for rule in self.table.when)]
        values = [*(table.get(name) for table in given), *values_in_designs(self.table, name, self.file)]
        if (pilot := self.table.pilot) is not None and name in pilot.parameters:
            lists = pilot.candidates.values() if isinstance(pilot.candidates, dict) else [pilot.candidates]
            place = pilot.parameters.index(name)
            values += [each[place : place + 1] if isinstance(each, list) else each for some in lists for each in some]
        every = [text for raw in values for text in (raw if isinstance(raw, list) else [raw])]
        return (text for text in every if isinstance(text, str))

    def _choices(self) -> dict[str, dict[str, Any]]:
        """The methods and problems that axes choose, by their labels.

        An axis `method` chooses methods if the study names no method for all.  An axis `problem` chooses problems if
        the study states none, except if its values are no problems and the method is a function.
        """
        found: dict[str, dict[str, Any]] = {}
        folder = Path(self.file).parent
        for name in ("method", "problem"):
            raw, place = self.table.axes.get(name), self._place(f"axes.{name}")
            if raw is None or name in self.table.model_fields_set or (name == "method" and self.table.command):
                continue
            if isinstance(raw, list) and raw and all(isinstance(each, str) for each in raw):
                # a function is labelled by its own name
                raw = {each.rpartition(":")[2]: each for each in raw}
            is_function = name == "problem" and not found and self.table.method_reference not in METHODS.own
            if is_function and not (
                isinstance(raw, dict) and TYPE not in raw and any(states_problem(each, folder) for each in raw.values())
            ):
                continue
            if not isinstance(raw, dict) or not raw:
                raise place.mistake("a list of names, or a table of labels and names", raw)
            for label, each in raw.items():
                if not isinstance(each, str) and not (isinstance(each, dict) and name == "problem"):
                    raise place.at(label).mistake("a name", each, name=name)
            found[name] = raw
        return found

    def phases(self, warn: bool) -> tuple[Phase, ...]:
        """The phases of the study.  warn: give a `AccuracyWarning` for designs that are not balanced."""
        table, space, precision = self.table, self._space(warn), None
        if table.precision is not None:
            precision, space = read_precision(table.precision, space, self.declared)
        main = Phase(MAIN, space, precision=precision)
        if table.pilot is None:
            return (main,)
        variable = self.method.variables.get(table.pilot.minimise)
        stated = table.output.better if table.output else {}
        better = stated.get(table.pilot.minimise, variable.better if variable is not None else "")
        pilot = read_pilot(table.pilot, space, self.declared, better)
        return Phase(PILOT, pilot.space, pilot), main

    def _space(self, warn: bool) -> CaseSpace:
        """The cases of the study."""
        designs = read_designs(self.table, self.declared, warn=warn)
        axes = list(designs)
        for name, raw in self.table.axes.items():
            place = self._place(f"axes.{name}")
            entries = list(self.choices[name]) if name in self.choices else read_list(raw, place)
            axes.append(Axis(name, self.declared.values(name, entries, place)))
            if warn:
                _warn_of_near_values(axes[-1], place)
        if len(axes) > MAX_AXES:
            raise self._place("axes").error(f"a study must have at most {MAX_AXES} axes, got {len(axes)}")
        size = math.prod(len(axis.values) for axis in axes)
        if size > MAX_CASES:
            raise self._place("axes").error(f"a study must have at most {MAX_CASES:,} cases, got {size:,}")
        varying = {name: values for axis in axes for name, values in axis.parameters.items()}
        constants, formulas = self._constants(varying), read_formulas(self.table.constants, self.declared)
        excluded = tuple(self._matches("exclude", self.table.exclude, axes, varying))
        space = CaseSpace(tuple(axes), constants, tuple(self._rules(axes, varying)), (), excluded, formulas)
        # values that the result file cannot hold together are refused before anything runs
        for axis in space.indices:
            for name, values in axis.parameters.items():
                self.declared.labels(name, values, self._place(f"{axis.name}.{name}"))
        for name in (*constants, *space.dependent_parameters):
            stated = [rule.set[name] for rule in space.rules if name in rule.set]
            stated += [constants[name]] if name in constants else []
            section = "constants" if name in constants else "when"
            self.declared.labels(name, stated, self._place(f"{section}.{name}"))
        if excluded and not space.count:
            raise self._place("exclude").error(f"`exclude` must leave a case, got none of {size:,} points")
        return space

    def _constants(self, varying: Columns) -> dict[str, Value]:
        """Values that are the same in all cases; those computed by a formula are left out."""
        stated = self.table.constants
        constants = {
            name: parameter.default
            for name, parameter in self.method.parameters.items()
            if parameter.default is not None and name not in varying and not is_formula(stated.get(name))
        }
        for name in constants:
            self.declared.check_name(name, self._place(f"constants.{name}"))
        for name, raw in stated.items():
            place = self._place(f"constants.{name}")
            if name in varying:
                raise place.error(f"`{name}` must be an axis or a constant, got both")
            if not is_formula(raw):
                constants[name] = self.declared.value(name, raw, place)
        return constants

    def _rules(self, axes: Sequence[Axis], varying: Columns) -> Iterator[When]:
        for i, match in enumerate(self._matches("when", self.table.when, axes, varying)):
            given = {}
            for name, raw in self.table.when[i].set.items():
                place = self._place(f"when[{i}].set.{name}")
                if name in varying:
                    raise place.error(f"`{name}` must not be set by a rule, since it is an axis")
                given[name] = self.declared.value(name, raw, place)
            yield When(match, given)

    def _matches(
        self, section: str, rules: Sequence[WhenTable | ExcludeTable], axes: Sequence[Axis], varying: Columns
    ) -> Iterator[Match]:
        """Labels that each rule of a section admits, by the parameters that it matches."""
        for i, rule in enumerate(rules):
            place = self._place(f"{section}[{i}].match")
            match = {name: self._admit(varying, name, raw, place.at(name)) for name, raw in rule.match.items()}
            check_occurs(match, axes, place)
            yield match

    def _admit(self, varying: Columns, name: str, raw: Any, place: SourceLocation) -> frozenset[str]:
        """Labels of the values that a rule's match means: the one it names, or the several that it lists.

        The parameter has to have each somewhere, else the rule matches no case.
        """
        if name not in varying:
            raise place.error(f"`match` must name axes ({', '.join(varying)}), got {shorten(name)}")
        present, wanted = {text_label(value) for value in varying[name]}, ""
        entries = values_in_study(raw)
        # a list may itself be one of the axis's values (widths of layers)
        with suppress(StudyError) if entries else nullcontext():
            wanted = text_label(self.declared.value(name, raw, place))
        labels = [wanted]
        if entries and wanted not in present:
            labels = [text_label(self.declared.value(name, entry, place)) for entry in entries]
        for label in labels:
            if label not in present:
                raise place.error(f"the rule matches no case: {name} has no value {label}")
        return frozenset(labels)


def _warn_of_near_values(axis: Axis, place: SourceLocation) -> None:
    """Give a `AccuracyWarning` for two floats of an axis that differ by rounding only."""
    has_floats = any(issubclass(kind, (float, np.floating)) for kind in set(map(type, axis.values)))
    if not has_floats or not all(map(is_number, axis.values)):
        return
    values = sorted(float(value) for value in axis.values)  # type: ignore[arg-type]  # numbers
    for one, other in itertools.pairwise(values):
        if other - one < _NEAREST * max(abs(one), abs(other)):
            warn(
                f"`{axis.name}` has two values that differ by less than {_NEAREST:g} of their size, {one!r} and "
                f"{other!r} ({place}); if they are one value, give it once",
                AccuracyWarning,
            )


def _times(raw: int | list[float | int]) -> int | tuple[float, ...]:
    """The saved times as a count or as numbers."""
    try:
        times = raw if isinstance(raw, int) else tuple(float(t) for t in raw)
    except OverflowError:  # an integer beyond the range of a double
        times = ()
    if times == ():
        wanted = "a count, or a list of at least one time"
        raise StudyError(f"`times` must be {wanted}, got {shorten(raw)} (output.times)")
    return times
