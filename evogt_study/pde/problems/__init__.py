"""Parabolic problems stated as formulas: the grammar, the derivation of their data, and the paper's benchmarks.

>>> from evogt_study import problems
>>> problem = problems.oscillatory_1d(epsilon=0.1)
>>> problem.dimension, problem.diffusion.steady
(1, True)

Its names are imported when they are used: with SymPy that takes half a second, which only formulas need.

- `grammar`: text to a symbolic expression, with nothing evaluated on the way
- `expressions`: separation of time and space
- `evaluation`: expressions as operations on arrays
- `weak_form`: symbolic derivatives held against weak ones
- `geometry`: domains, and what is given on their boundary
- `terms`: the terms of the equation as expressions
- `statement`: a problem in formulas, and the data that follow from them
- `benchmarks`: the paper's problems in one dimension
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evogt_study.registry import lazy_names

if TYPE_CHECKING:
    from evogt_study.formulas import evaluate, parse
    from evogt_study.pde.problems.statement import BUILT_IN, Statement, oscillatory_1d, target_1d


__all__ = ["BUILT_IN", "Statement", "evaluate", "oscillatory_1d", "parse", "target_1d"]

__getattr__ = lazy_names(
    __name__,
    {
        "evogt_study.pde.problems.statement": "BUILT_IN oscillatory_1d target_1d Statement",
        "evogt_study.formulas": "evaluate parse",
    },
)
