"""Compute constants from other parameters: ``N1 = { formula = "4*N" }``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from typing import Any

import numpy as np

from evogt_study.errors import FormulaError, ParameterError, StudyError, shortened
from evogt_study.schema.values import Value, Values, text_label
from evogt_study.study.case_space import Formula
from evogt_study.study.declared import Declared

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
        told = " -> ".join(names)
        raise StudyError(
            f"formulas must not use each other, got {told} ({declared.file}, constants.{names[0]})"
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
            if isinstance(found, bool) or not isinstance(found, (int, float)):
                got = "no value" if found is None else shortened(found)
                told = f"`{each}` must be a number where {formula.text!r} is computed, got {got}"
                raise StudyError(f"{told} ({declared.file}, {where})")
            given[each] = found
        number = formula.number(given)
        if not isfinite(number):
            at = ", ".join(f"{each} = {text_label(given[each])}" for each in formula.names)
            told = f"`{name}` must be a finite number, got {number} from {formula.text!r}"
            raise StudyError(f"{told}{' for ' if at else ''}{at} ({declared.file}, {where})")
        return _typed(name, number, all(isinstance(each, int) for each in given.values()), declared, where)

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
