"""Parabolic problems in formulas, and the problems of the paper by name.

>>> from evogt_study.pde import problems
>>> problem = problems.oscillatory_1d(epsilon=0.1)
>>> problem.dimension, problem.diffusion.steady
(1, True)

- `formula_problem`: `FormulaProblem`, a problem in formulas; the problems of the paper
- `fields`: `Field`, problems with several fields or nonlinear fluxes
- `terms`: the shape of a problem in a study file; terms of the equation; domain and boundary data
- `expressions`: separation of time and space; symbolic derivatives checked against weak derivatives

The names below are imported when they are first used, because SymPy takes half a second to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evogt_study.registry import lazy_names

if TYPE_CHECKING:
    from evogt_study.pde.problems.formula_problem import BUILT_IN, FormulaProblem, oscillatory_1d, target_1d

__all__ = ["BUILT_IN", "FormulaProblem", "oscillatory_1d", "target_1d"]

__getattr__ = lazy_names(
    __name__, {"evogt_study.pde.problems.formula_problem": "BUILT_IN FormulaProblem oscillatory_1d target_1d"}
)
