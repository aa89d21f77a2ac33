"""Parabolic problems given by formulas, and the problems of the paper.

>>> from evogt_study.pde import problems
>>> problem = problems.oscillatory_1d(epsilon=0.1)
>>> problem.dimension, problem.diffusion.steady
(1, True)

- `formula_problem` has the class `FormulaProblem` and the problems of the paper.
- `fields` has the class `Field` and problems with several fields or nonlinear fluxes.
- `terms` reads the terms of the equation, the domain and the boundary data of a study file.
- `expressions` separates time and space, and checks symbolic derivatives against weak derivatives.

Python imports `FormulaProblem` and the problems on first use, because SymPy takes half a second to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evogt_study.registry import make_lazy_import

if TYPE_CHECKING:
    from evogt_study.pde.problems.formula_problem import BUILT_IN, FormulaProblem, oscillatory_1d, target_1d

__all__ = ["BUILT_IN", "FormulaProblem", "oscillatory_1d", "target_1d"]

__getattr__ = make_lazy_import(__name__, __file__)
