"""Read the models of a study as a method specification and phases with checked values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import DoubtWarning, FormulaError, InputError, ParameterError, StudyError, shortened, warn
from evogt_study.methods.code import UserCode
from evogt_study.methods.loading import METHODS, known_method, load_method
from evogt_study.methods.problem_kind import kind_of, states_problem
from evogt_study.methods.protocol import Alternatives, MethodSpec, Output
from evogt_study.methods.streams import ALL, NONE, RNG, SEED, Common
from evogt_study.schema.values import TYPE, Value, is_number, text_label
from evogt_study.schema.variables import BETTER, ESTIMAND, MAIN, PILOT
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, Exclude, When
from evogt_study.study.definition import Named
from evogt_study.study.designs import check_occurs, read_designs, stated_values
from evogt_study.study.listed import spaced
from evogt_study.study.model import (
    ExcludeTable,
    SeedRange,
    StudyModel,
    WhenTable,
)
from evogt_study.study.parameter_values import Declared, Place, is_formula, read_formulas, stated_entries
from evogt_study.study.phases import Phase, read_pilot, read_precision

# NumPy's arrays have at most 64 dimensions, 32 before NumPy 2; variables add some of their own
MAX_AXES = 30
CHOICES = ("method", "problem")
"""Axes that choose methods or problems."""
NEAREST = 1e-12
"""Relative difference of two floats of an axis below which a warning names both."""


class Reader:
    """One pass from a table of the right shape to a study whose every value is checked."""

    def __init__(self, table: StudyModel, file: str, named: Named) -> None:
        self.table, self.file, self.named = table, file, named
        try:
            self.choices = self._choices()
            self.spec = self._spec()
            self.method = load_method(self.spec)
            self._check_choices()
            references, kinds = tuple(self._references()), tuple(self._kinds())
            if references or kinds:
                self.spec = replace(self.spec, references=references, kinds=kinds)
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
        self._check_common()
        self.declared = Declared(self.method, file, frozenset(table.constants), tuple(self._lacking()))

    @property
    def _given(self) -> set[str]:
        """Parameters that a section of the text gives."""
        table = self.table
        given = {*table.axes, *table.constants, *(table.pilot.parameters if table.pilot else ())}
        given.update(*(rule.set for rule in table.when), *(each.parameters for each in (*table.zip, *table.sample)))
        given.update(*(row for listed in table.table for row in listed.rows or ()))
        return given

    def _lacking(self) -> Iterator[str]:
        """Parameters without a default that no section of the text gives; none where a table's file may give them."""
        table, given = self.table, self._given
        for name, parameter in self.method.parameters.items():
            if parameter.default is None and not parameter.optional and name not in given and not table.table_files:
                yield name

    def _spec(self) -> MethodSpec:
        stated, output = self.table.problem, self.table.output
        outputs = None
        if output is not None and output.model_fields_set - {BETTER, ESTIMAND}:
            outputs = Output(_times(output.times), tuple(dict.fromkeys(output.record)), output.grid)
        method = known_method(self.choices.get("method", self.table.method), self._named)
        problem: object = None if stated is None else self._problem(stated, "problem")
        if several := self.choices.get("problem"):
            each = ((label, self._problem(raw, f"axes.problem.{label}")) for label, raw in several.items())
            problem = Alternatives(tuple(each))
        return MethodSpec(method, problem, outputs, common=self._common())

    def _common(self) -> Common:
        """The parameters along which seeds are common; `_check_common` looks at their names."""
        raw = self.table.random.common if self.table.random is not None else ALL
        if isinstance(raw, list):
            return tuple(sorted(set(raw))) or NONE
        if raw not in (ALL, NONE):
            message = f'`common` must be "{ALL}", "{NONE}" or a list of parameters, got {shortened(raw)}'
            raise _PlacedError(f"{message} ({self.file}, random.common)")
        return raw

    def _check_common(self) -> None:
        """Raise StudyError if seeds are to be common along what is no parameter, or for a method that draws nothing."""
        if self.table.random is None:
            return
        where = f"{self.file}, random.common"
        if not self.method.has_streams or RNG in self._given:
            message = "`common` must be left out unless the function has an argument `rng` without a value"
            raise StudyError(f"{message}, got {shortened(self.table.random.common)} ({where})")
        for name in self.spec.common if isinstance(self.spec.common, tuple) else ():
            if name == SEED:
                raise StudyError(f"`common` must leave out `{SEED}`, whose values are different streams ({where})")
            if name == RNG or name not in self.method.parameters:
                known = ", ".join(each for each in self.method.parameters if each not in (RNG, SEED))
                raise StudyError(f"`common` must name parameters ({known}), got {shortened(name)} ({where})")

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
        names = [each.name for each in self.method.parameters.values() if each.takes_code]
        # each once, since naming it reads and hashes its files
        for text in dict.fromkeys(text for name in names for text in self._texts(name) if ":" in text):
            yield self._named(text)

    def _kinds(self) -> Iterator[tuple[str, str, int]]:
        """The classes that parameters name, wherever these get a value."""
        named = {name: each.kinds for name, each in self.method.parameters.items() if each.kinds is not None}
        for name, kinds in named.items():
            for text in dict.fromkeys(self._texts(name)):
                # a mistake is reported with its place when the value is read
                with suppress(ParameterError):
                    # with the declarations, since a notebook may give another class the same name
                    yield name, text, hash(tuple(kinds[text].parameters().items()))

    def _texts(self, name: str) -> Iterator[str]:
        """The strings that the study gives to a parameter."""
        given = [self.table.axes, self.table.constants, *(rule.set for rule in self.table.when)]
        values = [*(table.get(name) for table in given), *stated_values(self.table, name, self.file)]
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
        for name in CHOICES:
            raw = self.table.axes.get(name)
            if raw is None or name in self.table.model_fields_set:
                continue
            if isinstance(raw, list) and all(isinstance(each, str) for each in raw):
                # a function is labelled by its own name
                raw = {each.rpartition(":")[2]: each for each in raw} if len(raw) > 0 else raw
            is_function = not found and self.table.method not in METHODS.own
            if name == "problem" and is_function and not self._has_problems(raw):
                continue
            if not isinstance(raw, dict) or not raw:
                raise StudyError(
                    f"`{name}` must be a list of names, or a table of labels and names, got {shortened(raw)} "
                    f"({self.file}, axes.{name})"
                )
            found[name] = {label: self._one(name, label, each) for label, each in raw.items()}
        return found

    def _has_problems(self, raw: Any) -> bool:
        """Return True if one of the labels has the name, the function or the table of a problem."""
        folder = Path(self.file).parent
        return isinstance(raw, dict) and TYPE not in raw and any(states_problem(each, folder) for each in raw.values())

    def _check_choices(self) -> None:
        """Raise StudyError for an axis of methods beside one method for all; so of problems."""
        for name in CHOICES:
            if name in self.table.axes and name not in self.method.parameters:
                message = "got one for all and an axis"
                raise StudyError(f"`{name}` must be given once, {message} ({self.file}, axes.{name})")

    def _one(self, name: str, label: str, raw: Any) -> Any:
        """One method or problem of an axis: a name, or the table of a problem."""
        if isinstance(raw, str) or (isinstance(raw, dict) and name == "problem"):
            return raw
        raise StudyError(f"`{name}` must be a name, got {shortened(raw)} ({self.file}, axes.{name}.{label})")

    def phases(self, warn: bool) -> tuple[Phase, ...]:
        """The phases of the study; of designs that are no good ones it is warned."""
        table, space = self.table, self._space(warn)
        precision = None
        if table.precision is not None:
            precision, space = read_precision(table.precision, space, self.declared)
        pilots = (
            []
            if table.pilot is None
            else [read_pilot(table.pilot, space, self.declared, self._better(table.pilot.minimise))]
        )
        return (*(Phase(PILOT, pilot.space, pilot) for pilot in pilots), Phase(MAIN, space, precision=precision))

    def _better(self, name: str) -> str:
        """The direction of a variable, as the study or the method declares it."""
        known, stated = self.method.variables.get(name), self.table.output.better if self.table.output else {}
        return stated.get(name, known.better if known is not None else "")

    def _space(self, warn: bool) -> CaseSpace:
        """The cases of the study; of designs that are no good ones it is warned."""
        designs = read_designs(self.table, self.declared, warn=warn)
        axes = (*designs, *(self._axis(name, raw) for name, raw in self.table.axes.items()))
        for axis in axes if warn else ():
            _warn_of_near_values(axis, self.file)
        if len(axes) > MAX_AXES:
            raise StudyError(f"a study must have at most {MAX_AXES} axes, got {len(axes)} ({self.file}, axes)")
        size = math.prod(len(axis.values) for axis in axes)
        if size > MAX_CASES:
            raise StudyError(f"a study must have at most {MAX_CASES:,} cases, got {size:,} ({self.file}, axes)")
        varying = {name: values for axis in axes for name, values in axis.parameters.items()}
        constants, formulas = self._constants(varying), read_formulas(self.table.constants, self.declared)
        excluded = tuple(Exclude(match) for match in self._matches("exclude", self.table.exclude, axes, varying))
        space = CaseSpace(axes, constants, self._rules(axes, varying), (), excluded, formulas)
        self._check_coordinates(space)
        if excluded and not space.count:
            raise StudyError(f"`exclude` must leave a case, got none of {size:,} points ({self.file}, exclude)")
        return space

    def _check_coordinates(self, space: CaseSpace) -> None:
        """Raise StudyError for values that the result file cannot hold together, before anything runs."""
        for axis in space.indices:
            for name, values in axis.parameters.items():
                self.declared.labels(name, values, f"{axis.name}.{name}")
        for name in (*space.constants, *space.followers):
            values = [rule.set[name] for rule in space.rules if name in rule.set]
            values += [space.constants[name]] if name in space.constants else []
            self.declared.labels(name, values, f"{'constants' if name in space.constants else 'when'}.{name}")

    def _axis(self, name: str, raw: Any) -> Axis:
        where = f"axes.{name}"
        entries = self._entries(name, raw, where)
        if not isinstance(entries, list) or not entries:
            raise StudyError(
                f"`{name}` must be a list of values, got {shortened(raw)} ({self.file}, {where}); "
                "one value belongs in [constants]"
            )
        return Axis(name, self.declared.values(name, entries, where))

    def _entries(self, name: str, raw: Any, where: str) -> Any:
        """The values of an axis, as the study states them."""
        if name in self.choices:
            return list(self.choices[name])
        entries = stated_entries(raw)
        return list(self._range(raw, where)) if entries is None and isinstance(raw, dict) else entries

    def _range(self, raw: dict[str, Any], where: str) -> Sequence[int | float]:
        if "from" in raw or "to" in raw:
            return spaced(raw, Place(self.file, where))
        try:
            return SeedRange.model_validate(raw).values
        # pydantic's ValidationError is one
        except ValueError:
            wanted = f"{{ start = integer >= 0, count = integer >= 1 and at most {MAX_CASES:,} }}"
            message = f"`{where}` must be a list, or {wanted}, {{ from, to, count }} or {{ from, to, step }}"
            raise StudyError(f"{message}, got {shortened(raw)} ({self.file}, {where})") from None

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
        entries = stated_entries(raw)
        if entries and not self._is_value_on(present, name, raw, where):
            wanted = [text_label(self.declared.value(name, entry, where)) for entry in entries]
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


def _warn_of_near_values(axis: Axis, file: str) -> None:
    """Give a `DoubtWarning` for two floats of an axis that differ by rounding only."""
    kinds = set(map(type, axis.values))
    if axis.points is not None or not all(map(is_number, axis.values[:1])) or all(map(_is_integer, kinds)):
        return
    values = sorted(float(value) for value in axis.values if is_number(value))  # type: ignore[arg-type]  # numbers
    if len(values) < len(axis.values):
        return
    for one, other in itertools.pairwise(values):
        if other - one < NEAREST * max(abs(one), abs(other)):
            warn(
                f"`{axis.name}` has two values that differ by less than {NEAREST:g} of their size, {one!r} and "
                f"{other!r} ({file}, axes.{axis.name}); if they are one value, give it once",
                DoubtWarning,
            )


def _is_integer(kind: type) -> bool:
    return issubclass(kind, (int, np.integer))


class _PlacedError(StudyError):
    """A mistake whose message has its place already."""


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
