"""Turn the model of a study into a method and phases, with values of the parameters that the method declares."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evogt_study.errors import FormulaError, InputError, ParameterError, StudyError, format_remedy, shorten, suggest
from evogt_study.methods.code import Alternatives, CodeKind, MethodSpec, Output, UserCode
from evogt_study.methods.current_run import ALL, NONE, RNG, SEED, Common
from evogt_study.methods.loading import METHODS, load_method, load_named_method
from evogt_study.methods.protocol import can_be_problem, find_problem_kind
from evogt_study.schema.parameters import get_defaults, read_anything
from evogt_study.schema.records import Needs
from evogt_study.schema.values import (
    Exact,
    Value,
    Values,
    from_json,
    is_composite,
    is_number,
    make_coordinate,
    to_plain,
    to_string,
)
from evogt_study.schema.variables import BETTER, ESTIMAND, MAIN, PILOT, RESERVED_REASON, explain_reserved_name
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, Formula, When, is_match
from evogt_study.study.designs import list_values, parse_table, read_designs, read_list, warn_of_near_values
from evogt_study.study.model import ExcludeTable, StudyModel, WhenTable
from evogt_study.study.plan import Phase, read_pilot, read_precision

if TYPE_CHECKING:
    from evogt_study.study.study import Study

MAX_CHECKED_CASES = 5_000  # largest number of cases whose parameters are checked before the first run, in 0.4 s
_MAX_NUMBER = sys.float_info.max  # a Python integer may be larger
_MEMORY = re.compile(r"(.+?)\s*([MG])B")
_FORMULA = "formula"  # key of a constant that a formula gives
MAX_AXES = 30  # NumPy's arrays have at most 64 dimensions, 32 before NumPy 2, and variables add some
FindCode = Callable[[str, Sequence[str]], UserCode]  # of a reference ``file.py:name`` and the files in `depends`
Columns = Mapping[str, Sequence[Value]]  # values of each parameter that varies


@dataclass(frozen=True)
class SourceLocation:
    """Location of a key in a study file, such as ``sample[0].gamma`` in FILE."""

    file: str
    where: str

    def __str__(self) -> str:
        return f"{self.file}, {self.where}"

    def at(self, key: str | int) -> SourceLocation:
        """Return the location of a key or a list entry inside this location."""
        return SourceLocation(self.file, f"{self.where}[{key}]" if isinstance(key, int) else f"{self.where}.{key}")

    def mistake(self, wanted: str, got: object, remedy: str = "", name: str = "") -> StudyError:
        """Return an error "`gamma` must be ..., got ... (FILE, sample[0].gamma). Remedy"."""
        name = name or self.where.rpartition(".")[2]
        return self.error(f"`{name}` must be {wanted}, got {shorten(got)}", remedy)

    def error(self, message: str, remedy: str = "") -> StudyError:
        """Return an error "message (FILE, sample[0].gamma). Remedy"."""
        return StudyError(f"{message} ({self}){format_remedy(remedy)}")

    def check_keys(self, table: Mapping[str, Any], required: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Raise StudyError for a key that is unknown or missing."""
        for key in table:
            if key not in (*required, *optional):
                raise StudyError(f"unknown key `{key}` ({self}). {suggest(key, (*required, *optional))}")
        for key in required:
            if key not in table:
                raise StudyError(f"`{key}` must be given ({self}), got {shorten(table)}")

    def number(self, table: Mapping[str, Any], key: str) -> float | int:
        """Return the finite number of a key.  Raises StudyError for any other value."""
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_MAX_NUMBER <= value <= _MAX_NUMBER:
            raise self.at(key).mistake("a finite number", value)
        return value

    def interval(self, table: Mapping[str, Any]) -> tuple[float | int, float | int, bool]:
        """Return `from` and `to`, and True for the scale "log".  Raises StudyError unless `from` < `to`."""
        scale = table.get("scale", "linear")
        if scale not in ("linear", "log"):
            raise self.at("scale").mistake('"linear" or "log"', scale)
        low, high = self.number(table, "from"), self.number(table, "to")
        if not low < high:
            raise self.at("from").mistake(f"below `to` = {high}", low)
        if not math.isfinite(float(high) - float(low)):
            raise self.at("from").mistake(f"closer to `to` = {high}, because the difference must be finite", low)
        if scale == "log" and low <= 0:
            raise self.at("from").mistake("above 0 on a logarithmic scale", low)
        return low, high, scale == "log"


class StudyReader:
    """Reader of a study model, which creates the method and the phases and checks the values of parameters."""

    def __init__(self, table: StudyModel, file: str, find_user_code: FindCode) -> None:
        self.table, self.file, self.find_user_code = table, file, find_user_code
        try:
            self.choices = self._read_choices()
            self.spec = self._read_spec()
            self.method = load_method(self.spec)
            for name in ("method", "problem"):
                if name in table.axes and name not in self.method.parameters:
                    raise self.locate(f"axes.{name}").error(f"`{name}` must be given once, got a key and an axis")
            common, (references, kinds) = self._read_common(), self._find_code()
            if common != self.spec.common or references or kinds:
                self.spec = replace(self.spec, common=common, references=references, kinds=kinds)
                self.method = load_method(self.spec)
        except ParameterError as error:
            raise StudyError(str(error.at(f"{file}, problem.{error.name}"))) from None
        except FormulaError as error:
            raise self.locate("problem").error(str(error)) from None
        except InputError as error:
            raise StudyError(f"{error}" if f"({file}" in str(error) else f"{error} ({file})") from None
        if table.depends and not self.spec.codes:
            raise StudyError(f"`depends` must be left out with the method {table.method}, which reads no files")

    def locate(self, where: str) -> SourceLocation:
        """Return the location of a key in the file."""
        return SourceLocation(self.file, where)

    def read_value(self, name: str, raw: Any, place: SourceLocation) -> Value:
        """Convert `raw` to a value of the parameter `name`.  Raises StudyError."""
        return self.read_column(name, [raw], place, is_list=False)[0]

    def read_values(self, name: str, entries: Iterable[Any], place: SourceLocation) -> tuple[Value, ...]:
        """Convert the values of an axis, which must have different coordinate values.  Raises StudyError."""
        values = self.read_column(name, entries, place)
        seen: dict[Any, Value] = {}
        for value, label in zip(values, self.make_coordinate_values(name, values, place), strict=True):
            if label != label:
                raise place.error(f"`{name}` must be a value other than {label} on an axis")
            if label in seen:
                both = (each.make({}) if isinstance(each, Exact) else each for each in (seen[label], value))
                one, other = (to_string(each) if is_composite(each) else shorten(each) for each in both)
                message = f"{other} twice" if one == other else f"{one} and {other} with one coordinate value"
                raise place.error(f"`{name}` must have different values, got {message}")
            seen[label] = value
        return values

    def make_coordinate_values(self, name: str, values: Sequence[Value], place: SourceLocation) -> list[Any]:
        """Return the coordinate values of an axis.  Raises StudyError if the result file has no type for the values."""
        try:
            return make_coordinate(values)
        except ValueError as error:
            raise place.error(f"`{name}` must have {error}") from None

    def read_column(
        self, name: str, entries: Iterable[Any], place: SourceLocation, *, is_list: bool = True
    ) -> tuple[Value, ...]:
        """Convert values that may repeat.  Messages number the values if `is_list`.  Raises StudyError."""
        self.check_name(name, place)
        parameter, found = self.method.parameters[name], []
        for number, raw in enumerate(entries):
            try:
                if type(raw) not in (int, float, str):
                    raw = raw if isinstance(raw, Exact) else from_json(raw)
                    # the values of a declared parameter have types of Python
                    raw = raw if parameter.read is read_anything else to_plain(raw)
                if parameter.resolve is not None:
                    raw = parameter.resolve(raw, Path(self.file).parent)
                found.append(parameter.value(raw))
            except (ValueError, RecursionError) as error:  # also a mapping with an unknown type, or a deep nesting
                here = place.at(number) if is_list else place
                if isinstance(error, ParameterError):
                    raise StudyError(str(error if error.where else error.at(str(here)))) from None
                wanted = parameter.wanted if isinstance(error, RecursionError) else str(error)
                raise here.mistake(wanted, raw, name=name) from None
        return tuple(found)

    def check_name(self, name: str, place: SourceLocation) -> None:
        """Raise StudyError unless `name` is a parameter with a name that the result file can use."""
        known = self.method.parameters
        if name not in known:
            advice = suggest(name, tuple(known))
            unused = "" if advice.startswith("Did") else "Neither the method nor a problem uses it. "
            raise StudyError(f"unknown parameter `{name}` ({place}). {unused}{advice}")
        self.check_free(name, place, "parameter")

    def check_free(self, name: str, place: SourceLocation, role: str) -> None:
        """Raise StudyError if the result file needs the name of a parameter or dimension for something else."""
        reason = RESERVED_REASON if name in self.method.variables else explain_reserved_name(name)
        if reason is not None:
            raise place.error(f"the {role} `{name}` must have another name, because {reason}")

    @cached_property
    def _given(self) -> dict[str, list[Any]]:
        """Raw values of each parameter in all sections of the study."""
        table, pilot = self.table, self.table.pilot
        parts: list[Mapping[str, Any]] = [table.axes, table.constants, *(rule.set for rule in table.when)]
        parts += [each.parameters for each in (*table.zip, *table.sample)]
        for i, listed in enumerate(table.table):
            parts += listed.rows or []
            if listed.file in table.table_files:
                parts.append(parse_table(table.table_files[listed.file], listed.file, self.locate(f"table[{i}]")))
        if pilot is not None:
            parts.append(dict.fromkeys(pilot.parameters, pilot.candidates))
        return {name: [part[name] for part in parts if name in part] for part in parts for name in part}

    def _read_spec(self) -> MethodSpec:
        stated, output, outputs = self.table.problem, self.table.output, None
        if output is not None and output.model_fields_set - {BETTER, ESTIMAND}:
            times = output.times if isinstance(output.times, int) else tuple(output.times)
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
        place = self.locate("random.common")
        if self.table.random is None:
            return ALL
        raw = self.table.random.common
        if not self.method.has_streams or RNG in self._given:
            message = "`common` must be left out unless the function has an argument `rng` without a value"
            raise place.error(f"{message}, got {shorten(raw)}")
        known = [name for name in self.method.parameters if name not in (RNG, SEED)]
        if raw in (ALL, NONE):
            return raw
        if isinstance(raw, str) or not {*raw} <= {*known}:
            wanted = f'"{ALL}", "{NONE}" or a list of parameters except `{SEED}` ({", ".join(known)})'
            raise place.mistake(wanted, raw)
        return tuple(sorted(set(raw))) or NONE

    def _read_problem(self, raw: str | dict[str, Any], where: str) -> object:
        """Return the problem, or the user function that returns the problem.  Raises StudyError."""
        if isinstance(raw, str) and ":" in raw:
            return self.find_user_code(raw, self.table.depends)
        place = self.locate(where)
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
        found, folder = dict[str, dict[str, Any]](), Path(self.file).parent
        for name in ("method", "problem"):
            raw, place = self.table.axes.get(name), self.locate(f"axes.{name}")
            if raw is None or name in self.table.model_fields_set or (name == "method" and self.table.command):
                continue
            if isinstance(raw, list) and raw and all(isinstance(each, str) for each in raw):
                raw = {each.rpartition(":")[2]: each for each in raw}  # the label of a function is its name
            is_function = name == "problem" and not found and self.table.method_reference not in METHODS.own
            choices = raw.values() if isinstance(raw, dict) and not list_values(raw) else ()
            if is_function and not any(can_be_problem(each, folder) for each in choices):
                continue
            if not isinstance(raw, dict) or not raw:
                raise place.mistake("a list of names, or a table of names", raw)
            for label, each in raw.items():
                if not isinstance(each, str) and not (isinstance(each, dict) and name == "problem"):
                    raise place.at(label).mistake("a name", each, name=name)
            found[name] = raw
        return found

    def read_phases(self, warns: bool) -> tuple[Phase, ...]:
        """Return the phases of the study.  With `warns`, give an `AccuracyWarning` for unbalanced designs."""
        table, space, precision = self.table, self._read_space(warns), None
        if table.precision is not None:
            precision, space = read_precision(table.precision, space, self)
        main = Phase(MAIN, space, precision=precision)
        if table.pilot is None:
            return (main,)
        better = {name: variable.better for name, variable in self.method.variables.items()}
        better |= table.output.better if table.output else {}
        return read_pilot(table.pilot, space, self, better.get(table.pilot.minimise, "")), main

    def read_resources(self) -> Resources | None:
        """Return the section `resources`, or None if the study has no such section."""
        table, place = self.table.resources, self.locate("resources")
        if table is None:
            return None
        texts = {name: str(raw) for name in ("cores", "minutes") if (raw := getattr(table, name)) is not None}
        if table.memory is not None:
            match = _MEMORY.fullmatch(table.memory.strip())
            if match is None:
                wanted = "a number or formula with the unit MB or GB, such as 4 GB"
                raise place.at("memory").mistake(wanted, table.memory)
            texts["memory"] = match[1] if match[2] == "M" else f"1000*({match[1]})"
        formulas = {name: compile_formula(name, text, place.at(name), self)[1] for name, text in texts.items()}
        return Resources(formulas, table.queue, table.retry_memory, place)

    def _read_space(self, warns: bool) -> CaseSpace:
        """Return the cases of the study."""
        axes = list(read_designs(self.table, self, warns=warns))
        for name, raw in self.table.axes.items():
            place = self.locate(f"axes.{name}")
            entries = list(self.choices[name]) if name in self.choices else read_list(raw, place)
            axes.append(Axis(name, self.read_values(name, entries, place)))
            if warns:
                warn_of_near_values(axes[-1], place)
        size = math.prod(len(axis.values) for axis in axes)
        for got, limit, unit in ((len(axes), MAX_AXES, "axes"), (size, MAX_CASES, "cases")):
            if got > limit:
                raise self.locate("axes").error(f"a study must have at most {limit:,} {unit}, got {got:,}")
        varying = {name: values for axis in axes for name, values in axis.parameters.items()}
        constants, formulas = self._read_constants(varying), read_formulas(self.table.constants, self)
        space = CaseSpace(tuple(axes), constants, tuple(self._read_rules(axes, varying)), (), formulas)
        # values that the result file cannot hold together are refused before anything runs
        for axis in space.indices:
            for name, values in axis.parameters.items():
                self.make_coordinate_values(name, values, self.locate(f"{axis.name}.{name}"))
        for name in (*constants, *space.dependent_parameters):
            values = [rule.set[name] for rule in space.rules if rule.set is not None and name in rule.set]
            values += [constants[name]] if name in constants else []
            self.make_coordinate_values(
                name, values, self.locate(f"{'constants' if name in constants else 'when'}.{name}")
            )
        if self.table.exclude and not space.count:
            raise self.locate("exclude").error(f"`exclude` must leave at least one case, got none of {size:,} points")
        return space

    def _read_constants(self, varying: Columns) -> dict[str, Value]:
        """Return the constants that no formula computes."""
        stated = self.table.constants
        defaults = get_defaults(self.method.parameters).items()
        constants = {name: each for name, each in defaults if name not in varying and not is_formula(stated.get(name))}
        for name in constants:
            self.check_name(name, self.locate(f"constants.{name}"))
        for name, raw in stated.items():
            place = self.locate(f"constants.{name}")
            if name in varying:
                raise place.error(f"`{name}` must be an axis or a constant, got both")
            if not is_formula(raw):
                constants[name] = self.read_value(name, raw, place)
        return constants

    def _read_rules(self, axes: Sequence[Axis], varying: Columns) -> Iterator[When]:
        """Yield the rules that exclude points, then the rules that set parameters."""
        rules: list[tuple[str, ExcludeTable | WhenTable]]
        rules = [(f"exclude[{i}]", rule) for i, rule in enumerate(self.table.exclude)]
        rules += [(f"when[{i}]", rule) for i, rule in enumerate(self.table.when)]
        for where, rule in rules:
            place = self.locate(f"{where}.match")
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
                here = self.locate(f"{where}.set.{name}")
                if name in varying:
                    raise here.error(f"a rule must not set `{name}`, because it is an axis")
                values[name] = self.read_value(name, raw, here)
            yield When(match, values if isinstance(rule, WhenTable) else None)

    def _read_match(self, varying: Columns, name: str, raw: Any, place: SourceLocation) -> frozenset[str]:
        """Return the values of a parameter that a rule matches, as strings."""
        if name not in varying:
            raise place.error(f"`match` must name axes ({', '.join(varying)}), got {shorten(name)}")
        present, labels = {to_string(value) for value in varying[name]}, [""]
        entries = list_values(raw)
        # a list may itself be one of the axis's values (widths of layers)
        with suppress(StudyError) if entries else nullcontext():
            labels = [to_string(self.read_value(name, raw, place))]
        if entries and not present.issuperset(labels):
            labels = [to_string(self.read_value(name, entry, place)) for entry in entries]
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


def check_cases(study: Study) -> None:
    """Raise StudyError if a case lacks a parameter that it needs, or if its parameters are inconsistent."""
    method, few = study.method, {SEED} & {*study.method.key_only_parameters}  # few seeds stand for all
    for space in reversed([*study.iterate_provisional_spaces()]):
        for at in space.representatives(method.setup_parameters):
            values = space.resolve(at)
            needed = () if values is None else method.list_required_parameters(values)
            if missing := [name for name in needed if name not in (values or {})]:
                point = ", ".join(f"{name} = {to_string(at[name])}" for name in space.names if name != SEED)
                pronoun, names = "it" if len(missing) == 1 else "them", ", ".join(f"`{name}`" for name in missing)
                remedy = method.parameters[SEED].remedy if missing[0] == SEED else ""
                remedy = remedy or f"set {pronoun} in [constants], [axes] or a [[when]] rule"
                message = f"{names} must be given ({study.file}, constants.{missing[0]}), got no value"
                raise StudyError(f"{message}{' for ' if point else ''}{point}{format_remedy(remedy)}")
        # code that is only declared was checked before it ran, and checking it again would run it
        is_declared = any(code.kind is CodeKind.DECLARED for code in study.spec.codes)
        points = () if is_declared else space.representatives({*space.names} - few, MAX_CHECKED_CASES)
        for values in filter(None, map(space.resolve, points)):
            if study.resources is not None:
                study.resources.compute_needs(values)
            try:
                method.bind(values).check()
            except ParameterError as error:
                raise StudyError(str(error.at(f"{study.file}, {_find_section(study, error.name, values)}"))) from None
            except InputError as error:
                raise StudyError(f"{error} ({study.file}, problem)") from None


def _find_section(study: Study, name: str, values: Values) -> str:
    """Return the key of the study file that sets a parameter in a case."""
    space, pilot = study.space, study.pilot
    # a rule may replace a constant in some cases: the value shows which of the two holds here
    is_constant = name in space.constants and values.get(name) == space.constants[name]
    sections = {"axes": space.names, "when": () if is_constant else space.dependent_parameters}
    sections |= {PILOT: () if pilot is None else pilot.parameters, "output": ("times",)}
    found = (section for section, names in sections.items() if name in names)
    return f"{space.columns.get(name) or next(found, 'constants')}.{name}"


def is_formula(raw: Any) -> bool:
    """Return True if a formula gives the constant."""
    return isinstance(raw, dict) and _FORMULA in raw


def read_formulas(constants: Mapping[str, Any], declared: StudyReader) -> tuple[Formula, ...]:
    """Return the formulas of constants, each after the formulas that it uses.  Raises StudyError."""
    found = {name: _read_formula(name, raw, declared) for name, raw in constants.items() if is_formula(raw)}
    try:
        order = list(TopologicalSorter({name: each.names for name, each in found.items()}).static_order())
    except CycleError as error:
        names = error.args[1][::-1]  # graphlib names each before what uses it
        place = declared.locate(f"constants.{names[0]}")
        raise place.error(f"formulas must not use each other, got {' -> '.join(names)}") from None
    return tuple(found[name] for name in order if name in found)


def _read_formula(name: str, raw: Mapping[str, Any], declared: StudyReader) -> Formula:
    place, known = declared.locate(f"constants.{name}"), declared.method.parameters
    declared.check_name(name, place)
    text = raw[_FORMULA]
    if set(raw) != {_FORMULA} or not isinstance(text, str):
        raise place.mistake('{ formula = "..." }', raw)
    place = place.at(_FORMULA)
    names, compute = compile_formula(name, text, place, declared)

    def value(values: Values) -> Value:
        number = compute(values)
        # 80.0 is no number of features: an integer, if the parameter or all operands are integers
        if not (number.is_integer() and all(isinstance(values[each], (int, np.integer)) for each in names)):
            with suppress(ParameterError):
                return known[name].value(number)
        return declared.read_value(name, int(number) if number.is_integer() else number, place)

    return Formula(name, names, value)


def compile_formula(
    name: str, text: str, place: SourceLocation, declared: StudyReader
) -> tuple[tuple[str, ...], Callable[[Values], float]]:
    """Return the parameters of a formula, and a function that evaluates it for a case.  Raises StudyError."""
    if text.isdecimal():
        return (), lambda values: float(text)
    from evogt_study.formulas import evaluate_formula, parse  # with SymPy, which a study without formulas does not need

    known = declared.method.parameters
    try:
        expression = parse(text)
    except FormulaError as error:
        raise place.error(str(error)) from None
    names = tuple(sorted(map(str, expression.free_symbols)))
    for each in names:
        if each not in known:
            raise StudyError(f"unknown parameter `{each}` in {text!r} ({place}). {suggest(each, tuple(known))}")

    def compute(values: Values) -> float:
        given: dict[str, Any] = {each: values.get(each) for each in names}
        for each, found in given.items():
            if not is_number(found):
                got = "no value" if found is None else shorten(found)
                raise place.error(f"`{each}` must be a number in the formula {text!r}, got {got}")
        with np.errstate(all="ignore"):
            number = float(evaluate_formula(expression, {each: float(found) for each, found in given.items()}))
        if not math.isfinite(number):
            at = ", ".join(f"{each} = {to_string(found)}" for each, found in given.items())
            message = f"`{name}` must be a finite number, got {number} from {text!r}"
            raise place.error(f"{message}{' for ' if at else ''}{at}")
        return number

    return names, compute


@dataclass(frozen=True, eq=False)
class Resources:
    """The ``[resources]`` section, with a function of a case for each need.  Needs are not part of run keys."""

    formulas: Mapping[str, Callable[[Values], float]]
    queue: str
    retry_memory: bool
    place: SourceLocation

    def compute_needs(self, values: Values) -> Needs:
        """Compute the needs of a case, rounded up.  Raises StudyError if a need is not positive."""
        found = dict[str, int]()
        for name, formula in self.formulas.items():
            if not (amount := formula(values)) > 0.0:
                at = ", ".join(f"{each} = {value}" for each, value in values.items())
                raise self.place.at(name).error(f"`{name}` must be positive for every case, got {amount} for {at}")
            found[name] = math.ceil(round(amount, 6))
        return Needs(**found, queue=self.queue)
