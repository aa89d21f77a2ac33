"""Read raw values of a study as values of declared parameters, and compute values that are formulas of others.

Every error message names the file and the key.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import FormulaError, ParameterError, StudyError, shortened
from evogt_study.methods.protocol import Method
from evogt_study.schema.parameters import Parameter, anything
from evogt_study.schema.values import (
    FINGERPRINT,
    OBJECT,
    TYPE,
    Exact,
    Value,
    Values,
    from_json,
    is_composite,
    is_number,
    labels,
    named_object,
    text_label,
    to_plain,
)
from evogt_study.schema.variables import TAKEN_REASON, objection
from evogt_study.study.case_space import Formula

LARGEST = sys.float_info.max
"""Largest number that can be stored.  An integer of Python may be larger."""


@dataclass(frozen=True, eq=False)
class Declared:
    """The parameters that a method declares, and the file in which they get values.

    given: names in its ``[constants]``; lacking: required parameters without a value in the file.
    """

    method: Method
    file: str
    given: frozenset[str] = frozenset()
    lacking: tuple[str, ...] = ()

    def value(self, name: str, raw: Any, where: str) -> Value:
        """`raw` as a value of the parameter `name`.  Raises StudyError."""
        self.check_name(name, where)
        parameter = self.method.parameters[name]
        try:
            raw = _given(parameter, raw)
        except (ValueError, RecursionError) as error:  # a mapping with an unknown type, or nested too deeply
            wanted = parameter.wanted if isinstance(error, RecursionError) else str(error)
            raise StudyError(f"`{name}` must be {wanted}, got {shortened(raw)} ({self.file}, {where})") from None
        try:
            if parameter.resolve is not None:
                raw = parameter.resolve(raw, Path(self.file).parent)
            return parameter.value(raw, f"{self.file}, {where}")
        except ParameterError as error:
            raise StudyError(str(error if error.where else error.at(f"{self.file}, {where}"))) from None

    def values(self, name: str, entries: Iterable[Any], where: str) -> tuple[Value, ...]:
        """A list of values with different coordinates.  Raises StudyError."""
        values = self.column(name, entries, where)
        seen: dict[Any, Value] = {}
        for value, label in zip(values, self.labels(name, values, where), strict=True):
            if label != label:
                raise StudyError(f"`{name}` must be a value other than {label} on an axis ({self.file}, {where})")
            if label in seen:
                one, other = _shown(seen[label]), _shown(value)
                message = f"{other} twice" if one == other else f"{one} and {other}, which have one coordinate"
                raise StudyError(f"`{name}` must have different values, got {message} ({self.file}, {where})")
            seen[label] = value
        return values

    def labels(self, name: str, values: Sequence[Value], where: str) -> list[Any]:
        """The coordinate values.  Raises StudyError if no type of a file holds them."""
        try:
            return labels(values)
        except ValueError as error:
            raise StudyError(f"`{name}` must have {error} ({self.file}, {where})") from None

    def column(self, name: str, entries: Iterable[Any], where: str, *, settled: bool = False) -> tuple[Value, ...]:
        """Values that may repeat, read together.  settled: they need no reading.  Raises StudyError."""
        self.check_name(name, where)
        parameter = self.method.parameters[name]
        if parameter.resolve is not None:
            return tuple(self.value(name, entry, f"{where}[{i}]") for i, entry in enumerate(entries))
        if settled and parameter.read is anything:
            return tuple(entries)
        found = []
        for i, entry in enumerate(entries):
            try:
                found.append(parameter.read(_given(parameter, entry)))
            except (ValueError, TypeError, OverflowError, RecursionError):
                found.append(self.value(name, entry, f"{where}[{i}]"))  # raises the error with its place
        return tuple(found)

    # here, before anything runs: the result file would refuse the name when all runs are done
    def check_name(self, name: str, where: str) -> None:
        """Raise StudyError unless `name` is a parameter, and one that the result file can hold."""
        known = self.method.parameters
        if name not in known:
            raise StudyError(f"unknown parameter `{name}` ({self.file}, {where}); {self._advice(name)}")
        reason = TAKEN_REASON if name in self.method.variables else objection(name)
        if reason is not None:
            raise StudyError(f"the parameter `{name}` must have another name, since {reason} ({self.file}, {where})")

    def _advice(self, name: str) -> str:
        """Suggest the parameter that an unknown name may mean, else the parameters without a value, else all."""
        near = difflib.get_close_matches(name, self.method.parameters, 1)
        if near:
            return f"did you mean `{near[0]}`?"
        lacking = ", ".join(f"`{each}`" for each in self.lacking)
        known = ", ".join(self.method.parameters)
        more = f", and {lacking} must be given a value" if lacking else f"; known are {known}"
        return f"neither the method nor a problem uses it{more}"


def _given(parameter: Parameter, stated: Any) -> Any:
    """Return the value that a study states, as the user gave it; of a declared parameter in Python's types."""
    if type(stated) in (int, float, str):
        return stated
    raw = stated if isinstance(stated, Exact) else from_json(stated)
    return raw if parameter.read is anything else to_plain(raw)


def _shown(value: Value) -> str:
    """Return a value for a message, as Python prints it."""
    if is_composite(value):
        return text_label(value)
    return shortened(value.make({}) if isinstance(value, Exact) else value)


def stated_entries(raw: Any) -> list[Any] | None:
    """Return the values that a study lists: a list, an array or objects under names; None for anything else."""
    if not isinstance(raw, dict):
        return raw if isinstance(raw, list) else None
    if TYPE in raw:
        try:
            return list(from_json(raw))
        except (ValueError, TypeError):
            return None
    if raw and all(isinstance(each, dict) and each.get(TYPE) == OBJECT for each in raw.values()):
        return [named_object(label, str(each.get(FINGERPRINT))) for label, each in raw.items()]
    return None


@dataclass(frozen=True)
class Place:
    """Location of a key in a study file, such as ``sample[0].gamma`` in FILE."""

    file: str
    where: str

    def __str__(self) -> str:
        return f"{self.file}, {self.where}"

    def at(self, key: str) -> Place:
        """The place of a key below."""
        return Place(self.file, f"{self.where}.{key}")

    def mistake(self, wanted: str, got: object, remedy: str = "") -> StudyError:
        """The line "`gamma` must be ..., got ... (FILE, sample[0].gamma); remedy"."""
        key = self.where.rpartition(".")[2]
        message = f"`{key}` must be {wanted}, got {shortened(got)} ({self})"
        return StudyError(f"{message}; {remedy}" if remedy else message)

    def check_keys(self, table: Mapping[str, Any], required: Iterable[str], optional: Iterable[str] = ()) -> None:
        """Raise StudyError for a key that is unknown or missing."""
        required = tuple(required)
        known = (*required, *optional)
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                advice = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
                raise StudyError(f"unknown key `{key}` ({self}); {advice}")
        for key in required:
            if key not in table:
                raise StudyError(f"`{key}` must be given ({self}), got {shortened(table)}")

    def number(self, table: Mapping[str, Any], key: str) -> float | int:
        """A finite number under a key.  Raises StudyError."""
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -LARGEST <= value <= LARGEST:
            raise self.at(key).mistake("a finite number", value)
        return value

    def interval(self, table: Mapping[str, Any], logarithmic: bool = False) -> tuple[float | int, float | int]:
        """The numbers `from` < `to`, above zero if `logarithmic`.  Raises StudyError."""
        low, high = self.number(table, "from"), self.number(table, "to")
        if not low < high:
            raise self.at("from").mistake(f"below `to` = {high}", low)
        if not math.isfinite(float(high) - float(low)):
            raise self.at("from").mistake(f"nearer to `to` = {high}, by a finite difference", low)
        if logarithmic and low <= 0:
            raise self.at("from").mistake("above 0 on a logarithmic scale", low)
        return low, high

    def logarithmic(self, table: Mapping[str, Any]) -> bool:
        """Return True for the scale "log".  Raises StudyError for any other scale except "linear"."""
        scale = table.get("scale", "linear")
        if scale not in ("linear", "log"):
            raise self.at("scale").mistake('"linear" or "log"', scale)
        return bool(scale == "log")


KEY = "formula"


def is_formula(raw: Any) -> bool:
    """Return True for a constant that a formula gives."""
    return isinstance(raw, dict) and KEY in raw


def read_formulas(constants: Mapping[str, Any], declared: Declared) -> tuple[Formula, ...]:
    """The formulas among the constants, each after those that it uses.  Raises StudyError."""
    stated = {name: _read(name, raw, declared) for name, raw in constants.items() if is_formula(raw)}
    try:
        order = list(TopologicalSorter({name: formula.names for name, formula in stated.items()}).static_order())
    except CycleError as error:
        # graphlib names each before what uses it; backwards each uses the next
        names = error.args[1][::-1]
        message = " -> ".join(names)
        raise StudyError(
            f"formulas must not use each other, got {message} ({declared.file}, constants.{names[0]})"
        ) from None
    return tuple(
        Formula(name, stated[name].names, _valued(name, stated[name], declared)) for name in order if name in stated
    )


def _read(name: str, raw: Mapping[str, Any], declared: Declared) -> ParameterFormula:
    where = f"constants.{name}"
    declared.check_name(name, where)
    if set(raw) != {KEY} or not isinstance(raw[KEY], str):
        raise StudyError(f'`{name}` must be {{ formula = "..." }}, got {shortened(raw)} ({declared.file}, {where})')
    try:
        formula = ParameterFormula.read(raw[KEY])
    except FormulaError as error:
        raise StudyError(f"{error} ({declared.file}, {where}.{KEY})") from None
    known = declared.method.parameters
    for each in formula.names:
        if each not in known:
            near = difflib.get_close_matches(each, known, 1)
            advice = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
            raise StudyError(f"unknown parameter `{each}` in {raw[KEY]!r} ({declared.file}, {where}.{KEY}); {advice}")
    return formula


@dataclass(frozen=True, eq=False)
class ParameterFormula:
    """A formula of parameters, `names`."""

    text: str
    names: tuple[str, ...]
    _expression: Any

    @staticmethod
    def read(text: str) -> ParameterFormula:
        """Read a formula.  Raises FormulaError for anything outside the grammar."""
        from evogt_study.formulas import parse  # with SymPy, which a study without formulas does not need

        expression = parse(text)
        return ParameterFormula(text, tuple(sorted(map(str, expression.free_symbols))), expression)

    def number(self, values: Mapping[str, float]) -> float:
        """The value of the formula; infinite or NaN if it has none."""
        from evogt_study.formulas import evaluate

        with np.errstate(all="ignore"):
            return float(evaluate(self._expression, {name: float(values[name]) for name in self.names}))


def _valued(name: str, formula: ParameterFormula, declared: Declared) -> Callable[[Values], Value]:
    """The function that gives the parameter its value in a case.  It raises StudyError if there is none."""
    where = f"constants.{name}.{KEY}"

    def value(values: Values) -> Value:
        given: dict[str, Any] = {}
        for each in formula.names:
            found = values.get(each)
            if not is_number(found):
                got = "no value" if found is None else shortened(found)
                message = f"`{each}` must be a number where {formula.text!r} is computed, got {got}"
                raise StudyError(f"{message} ({declared.file}, {where})")
            given[each] = found
        number = formula.number(given)
        if not isfinite(number):
            at = ", ".join(f"{each} = {text_label(given[each])}" for each in formula.names)
            message = f"`{name}` must be a finite number, got {number} from {formula.text!r}"
            raise StudyError(f"{message}{' for ' if at else ''}{at} ({declared.file}, {where})")
        of_integers = all(isinstance(each, (int, np.integer)) for each in given.values())
        return _typed(name, number, of_integers, declared, where)

    return value


# 80.0 is not a number of features: an integral value becomes an integer if the parameter or all operands are integers
def _typed(name: str, number: float, of_integers: bool, declared: Declared, where: str) -> Value:
    whole = number.is_integer()
    if whole and of_integers:
        return declared.value(name, int(number), where)
    try:
        return declared.method.parameters[name].value(number)
    except ParameterError:
        return declared.value(name, int(number) if whole else number, where)
