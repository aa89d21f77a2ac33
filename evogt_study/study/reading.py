"""Turn the model of a study into a method specification and phases with checked values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import AccuracyWarning, FormulaError, InputError, ParameterError, StudyError, shorten, warn
from evogt_study.methods.code import Alternatives, MethodSpec, Output, UserCode
from evogt_study.methods.current_run import ALL, NONE, RNG, SEED, Common
from evogt_study.methods.loading import METHODS, load_method, load_named_method
from evogt_study.methods.protocol import find_problem_kind, states_problem
from evogt_study.schema.parameters import get_defaults
from evogt_study.schema.values import TYPE, Value, is_number, text_label
from evogt_study.schema.variables import BETTER, ESTIMAND, MAIN, PILOT
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, When, is_match
from evogt_study.study.designs import parse_table, read_designs, read_list
from evogt_study.study.model import ExcludeTable, StudyModel, WhenTable
from evogt_study.study.parameter_values import Declared, SourceLocation, is_formula, list_values, read_formulas
from evogt_study.study.phases import Phase, read_pilot, read_precision

# NumPy's arrays have at most 64 dimensions, 32 before NumPy 2; variables add some of their own
MAX_AXES = 30
Named = Callable[[str, Sequence[str]], UserCode]
"""Function that returns the code for a reference ``file.py:name`` and the list `depends` of a study."""
_NEAREST = 1e-12
"""Relative difference of two floats of an axis below which a warning names both."""
Columns = Mapping[str, Sequence[Value]]
"""Values of each parameter that varies."""


class Reader:
    """Reader that checks the values of a study model and creates its method and phases."""

    def __init__(self, table: StudyModel, file: str, find_user_code: Named) -> None:
        self.table, self.file, self.find_user_code = table, file, find_user_code
        try:
            self.choices = self._read_choices()
            self.spec = self._read_spec()
            self.method = load_method(self.spec)
            for name in ("method", "problem"):
                if name in table.axes and name not in self.method.parameters:
                    raise self._place(f"axes.{name}").error(f"`{name}` must be given once, got a key and an axis")
            common, (references, kinds) = self._read_common(), self._find_code()
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
        self.declared = Declared(self.method, file)

    def _place(self, where: str) -> SourceLocation:
        return SourceLocation(self.file, where)

    @cached_property
    def _given(self) -> dict[str, list[Any]]:
        """Raw values of each parameter in all sections of the study."""
        table, pilot = self.table, self.table.pilot
        parts: list[Mapping[str, Any]] = [table.axes, table.constants, *(rule.set for rule in table.when)]
        parts += [each.parameters for each in (*table.zip, *table.sample)]
        for i, listed in enumerate(table.table):
            parts += listed.rows or []
            if listed.file in table.table_files:
                parts.append(parse_table(table.table_files[listed.file], listed.file, self._place(f"table[{i}]")))
        if pilot is not None:
            parts.append(dict.fromkeys(pilot.parameters, pilot.candidates))
        return {name: [part[name] for part in parts if name in part] for part in parts for name in part}

    def _read_spec(self) -> MethodSpec:
        stated, output = self.table.problem, self.table.output
        outputs = None
        if output is not None and output.model_fields_set - {BETTER, ESTIMAND}:
            try:
                times = output.times if isinstance(output.times, int) else tuple(map(float, output.times))
            except OverflowError:  # an integer beyond the range of a double
                times = ()
            if times == ():
                raise self._place("output.times").mistake("a count, or a list of at least one time", output.times)
            outputs = Output(times, tuple(dict.fromkeys(output.record)), output.grid)
        reference = self.choices.get("method", self.table.method_reference)
        method = load_named_method(reference, lambda each: self.find_user_code(each, self.table.depends))
        problem: object = None if stated is None else self._read_problem(stated, "problem")
        if several := self.choices.get("problem"):
            each = ((label, self._read_problem(raw, f"axes.problem.{label}")) for label, raw in several.items())
            problem = Alternatives(tuple(each))
        return MethodSpec(method, problem, outputs)

    def _read_common(self) -> Common:
        """Return the parameters whose values share random streams.  Raises StudyError."""
        place = self._place("random.common")
        if self.table.random is None:
            return ALL
        raw = self.table.random.common
        if not self.method.has_streams or RNG in self._given:
            message = "`common` must be left out unless the function has an argument `rng` without a value"
            raise place.error(f"{message}, got {shorten(raw)}")
        known = [name for name in self.method.parameters if name not in (RNG, SEED)]
        if raw not in (ALL, NONE) and not (isinstance(raw, list) and {*raw} <= {*known}):
            wanted = f'"{ALL}", "{NONE}" or a list of parameters except `{SEED}` ({", ".join(known)})'
            raise place.mistake(wanted, raw)
        return (tuple(sorted(set(raw))) or NONE) if isinstance(raw, list) else raw

    def _read_problem(self, raw: str | dict[str, Any], where: str) -> object:
        """Return the problem, or the user function that returns the problem.  Raises StudyError."""
        if isinstance(raw, str) and ":" in raw:
            return self.find_user_code(raw, self.table.depends)
        place = self._place(where)
        try:
            return find_problem_kind(raw).read(raw, Path(self.file).parent, str(place))
        except ParameterError as error:
            raise StudyError(str(error.at(str(place.at(error.name))))) from None
        except FormulaError as error:
            raise place.error(str(error)) from None

    def _find_code(self) -> tuple[tuple[UserCode, ...], tuple[tuple[str, str, int], ...]]:
        """Return the functions and the classes that values of parameters name."""
        references, kinds = dict[str, UserCode](), list[tuple[str, str, int]]()
        for name, parameter in self.method.parameters.items():
            for text in dict.fromkeys(_iterate_strings(self._given.get(name))):
                # each once, since naming it reads and hashes its files
                if parameter.takes_code and ":" in text and text not in references:
                    references[text] = self.find_user_code(text, self.table.depends)
                # a mistake is reported with its place when the value is read
                with suppress(ParameterError):
                    if parameter.kinds is not None:
                        # with the declarations, since a notebook may give another class the same name
                        kinds.append((name, text, hash(tuple(parameter.kinds[text].parameters().items()))))
        return tuple(references.values()), tuple(kinds)

    def _read_choices(self) -> dict[str, dict[str, Any]]:
        """Return the entries of the axes `method` and `problem` if these axes vary the method or the problem."""
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
                raise place.mistake("a list of names, or a table of names", raw)
            for label, each in raw.items():
                if not isinstance(each, str) and not (isinstance(each, dict) and name == "problem"):
                    raise place.at(label).mistake("a name", each, name=name)
            found[name] = raw
        return found

    def read_phases(self, warn: bool) -> tuple[Phase, ...]:
        """Return the phases of the study.  With `warn`, give an `AccuracyWarning` for unbalanced designs."""
        table, space, precision = self.table, self._read_space(warn), None
        if table.precision is not None:
            precision, space = read_precision(table.precision, space, self.declared)
        main = Phase(MAIN, space, precision=precision)
        if table.pilot is None:
            return (main,)
        variable = self.method.variables.get(table.pilot.minimise)
        stated = table.output.better if table.output else {}
        better = stated.get(table.pilot.minimise, variable.better if variable is not None else "")
        pilot = read_pilot(table.pilot, space, self.declared, table.constants, better)
        return Phase(PILOT, pilot.space, pilot), main

    def _read_space(self, warn: bool) -> CaseSpace:
        """Return the cases of the study."""
        declared, axes = self.declared, list(read_designs(self.table, self.declared, warn=warn))
        for name, raw in self.table.axes.items():
            place = self._place(f"axes.{name}")
            entries = list(self.choices[name]) if name in self.choices else read_list(raw, place)
            axes.append(Axis(name, declared.read_values(name, entries, place)))
            if warn:
                _warn_of_near_values(axes[-1], place)
        if len(axes) > MAX_AXES:
            raise self._place("axes").error(f"a study must have at most {MAX_AXES} axes, got {len(axes)}")
        size = math.prod(len(axis.values) for axis in axes)
        if size > MAX_CASES:
            raise self._place("axes").error(f"a study must have at most {MAX_CASES:,} cases, got {size:,}")
        varying = {name: values for axis in axes for name, values in axis.parameters.items()}
        constants, formulas = self._read_constants(varying), read_formulas(self.table.constants, declared)
        space = CaseSpace(tuple(axes), constants, tuple(self._read_rules(axes, varying)), (), formulas)
        # values that the result file cannot hold together are refused before anything runs
        for axis in space.indices:
            for name, values in axis.parameters.items():
                declared.find_labels(name, values, self._place(f"{axis.name}.{name}"))
        for name in (*constants, *space.dependent_parameters):
            values = [rule.set[name] for rule in space.rules if rule.set is not None and name in rule.set]
            values += [constants[name]] if name in constants else []
            declared.find_labels(name, values, self._place(f"{'constants' if name in constants else 'when'}.{name}"))
        if self.table.exclude and not space.count:
            raise self._place("exclude").error(f"`exclude` must leave at least one case, got none of {size:,} points")
        return space

    def _read_constants(self, varying: Columns) -> dict[str, Value]:
        """Return the constants that no formula computes."""
        stated = self.table.constants
        constants = {
            name: default
            for name, default in get_defaults(self.method.parameters).items()
            if name not in varying and not is_formula(stated.get(name))
        }
        for name in constants:
            self.declared.check_name(name, self._place(f"constants.{name}"))
        for name, raw in stated.items():
            place = self._place(f"constants.{name}")
            if name in varying:
                raise place.error(f"`{name}` must be an axis or a constant, got both")
            if not is_formula(raw):
                constants[name] = self.declared.read_value(name, raw, place)
        return constants

    def _read_rules(self, axes: Sequence[Axis], varying: Columns) -> Iterator[When]:
        """Yield the rules that exclude points, then the rules that set parameters."""
        rules: list[tuple[str, ExcludeTable | WhenTable]]
        rules = [(f"exclude[{i}]", rule) for i, rule in enumerate(self.table.exclude)]
        rules += [(f"when[{i}]", rule) for i, rule in enumerate(self.table.when)]
        for where, rule in rules:
            place = self._place(f"{where}.match")
            match = {name: self._read_match(varying, name, raw, place.at(name)) for name, raw in rule.match.items()}
            for axis in axes:
                names = [name for name in match if name in (axis.columns or ())]
                columns = zip(*(axis.parameters[name] for name in names), strict=True)
                points = (dict(zip(names, point, strict=True)) for point in columns)
                # one parameter alone is looked at when its labels are read
                if len(names) > 1 and not any(is_match({name: match[name] for name in names}, each) for each in points):
                    message = " and ".join(f"{name} = {', '.join(sorted(match[name]))}" for name in names)
                    raise place.error(f"the rule matches no case: no {axis.name} has {message}")
            values = {}
            for name, raw in rule.set.items() if isinstance(rule, WhenTable) else ():
                here = self._place(f"{where}.set.{name}")
                if name in varying:
                    raise here.error(f"a rule must not set `{name}`, because it is an axis")
                values[name] = self.declared.read_value(name, raw, here)
            yield When(match, values if isinstance(rule, WhenTable) else None)

    def _read_match(self, varying: Columns, name: str, raw: Any, place: SourceLocation) -> frozenset[str]:
        """Return the values of a parameter that a rule matches, as strings."""
        if name not in varying:
            raise place.error(f"`match` must name axes ({', '.join(varying)}), got {shorten(name)}")
        present, labels = {text_label(value) for value in varying[name]}, [""]
        entries = list_values(raw)
        # a list may itself be one of the axis's values (widths of layers)
        with suppress(StudyError) if entries else nullcontext():
            labels = [text_label(self.declared.read_value(name, raw, place))]
        if entries and not present.issuperset(labels):
            labels = [text_label(self.declared.read_value(name, entry, place)) for entry in entries]
        for label in labels:
            if label not in present:
                raise place.error(f"the rule matches no case: {name} has no value {label}")
        return frozenset(labels)


def _iterate_strings(raw: Any) -> Iterator[str]:
    """Yield the strings in the values of a parameter: one value, a list, or the choice of a sample."""
    if isinstance(raw, str):
        yield raw
    for each in raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ():
        yield from _iterate_strings(each)


def _warn_of_near_values(axis: Axis, place: SourceLocation) -> None:
    """Give an `AccuracyWarning` for two floats of an axis that differ only by rounding."""
    has_floats = any(issubclass(kind, (float, np.floating)) for kind in set(map(type, axis.values)))
    if not has_floats or not all(map(is_number, axis.values)):
        return
    values = sorted(float(value) for value in axis.values)  # type: ignore[arg-type]  # numbers
    for one, other in itertools.pairwise(values):
        if other - one < _NEAREST * max(abs(one), abs(other)):
            warn(
                f"`{axis.name}` has two values that differ by less than {_NEAREST:g} of their size, {one!r} and "
                f"{other!r} ({place}). If both are the same value, give it once",
                AccuracyWarning,
            )
