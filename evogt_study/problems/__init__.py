"""Parabolic problems stated as formulas: the grammar, the derivation of their data, and the paper's benchmarks.

>>> from evogt_study import problems
>>> problem = problems.oscillatory_1d(epsilon=0.1)
>>> problem.dimension, problem.diffusion.steady
(1, True)

- `grammar`: text to a symbolic expression, with nothing evaluated on the way
- `expressions`: separation of time and space
- `evaluation`: expressions as operations on arrays
- `weak_form`: symbolic derivatives held against weak ones
- `geometry`: domains, and what is given on their boundary
- `terms`: the terms of the equation as expressions
- `statement`: a problem in formulas, and the data that follow from them
- `oscillatory_1d`: the benchmark with an oscillatory coefficient
- `target_1d`: the benchmark with an oscillatory solution
"""

from evogt_study.problems.oscillatory_1d import oscillatory_1d
from evogt_study.problems.statement import Statement
from evogt_study.problems.target_1d import target_1d

BUILT_IN = {statement.name: statement for statement in (oscillatory_1d, target_1d)}

__all__ = ["BUILT_IN", "Statement", "oscillatory_1d", "target_1d"]
