"""A parameter as a formula of others, in the grammar of problems' formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


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
        """The formula's value; infinite or NaN where it has none."""
        from evogt_study.formulas import evaluate

        with np.errstate(all="ignore"):
            return float(evaluate(self._expression, {name: float(values[name]) for name in self.names}))
