"""What the work of a run depends on in a problem's functions: how they split, and how many operations they take.

The operations are counted by evaluating each function on a few points that keep account of the NumPy functions applied
to them: formulas and a user's own functions are counted in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.problem import Problem, Separable, SpaceTimeFunction

CHEAP = frozenset({np.add, np.subtract, np.multiply, np.divide, np.negative, np.square, np.absolute, np.matmul})
"""Operations that take about as long as reading their operands; others count as functions like the sine."""
LOOKED_AT = 2
"""Points at which functions are evaluated to count their operations."""


@dataclass(frozen=True)
class FunctionFacts:
    """terms: profiles K (1 where time and space do not split); functions and operations a point, of all profiles."""

    separable: bool
    steady: bool
    terms: int
    functions: int
    operations: int


@dataclass(frozen=True)
class ProblemFacts:
    """A problem's dimension and the facts of its functions.

    lifting: value, rate, gradient and flux where there is one; potential: F and F' together.
    """

    dimension: int
    diffusion: FunctionFacts
    source: FunctionFacts
    initial: FunctionFacts
    exact: FunctionFacts | None = None
    lifting: tuple[FunctionFacts, ...] = ()
    potential: FunctionFacts | None = None

    @staticmethod
    def of(problem: Problem) -> ProblemFacts:
        """Raises what the problem's functions raise."""
        lifting, potential, nodes = problem.lifting, problem.potential, np.full((LOOKED_AT, problem.dimension), 0.4)
        parts = () if lifting is None else (lifting.value, lifting.rate, *lifting.gradient, *lifting.flux)
        return ProblemFacts(
            dimension=problem.dimension,
            diffusion=_facts(problem.diffusion, nodes),
            source=_facts(problem.source, nodes),
            initial=_counted(problem.initial, nodes),
            exact=None if problem.exact is None else _facts(problem.exact, nodes),
            lifting=tuple(_facts(part, nodes) for part in parts),
            potential=None if potential is None else _counted(lambda u: np.add(*potential.at(u.shape)(u)), nodes[:, 0]),
        )


def _facts(function: SpaceTimeFunction, nodes: Array) -> FunctionFacts:
    if isinstance(function, Separable):
        return _counted(function.profiles, nodes, steady=function.steady)
    return _counted(lambda points: function.at(points, 0.4), nodes, separable=False, steady=False)


def _counted(
    evaluate: Callable[[Array], Array], points: Array, *, separable: bool = True, steady: bool = True
) -> FunctionFacts:
    """Facts of `evaluate`, whose values are (Q,) or one row a profile, (K, Q)."""
    tally: Counter[bool] = Counter()
    with np.errstate(all="ignore"):
        values = np.asarray(evaluate(_counting(points, tally)))
    terms = len(values) if separable and values.ndim > 1 else 1
    return FunctionFacts(separable, steady, terms, tally[False], tally[True])


def _counting(points: Array, tally: Counter[bool]) -> Array:
    """The points as an array that counts the operations applied to it and to what comes of it, cheap or not."""

    class Counting(np.ndarray[Any, Any]):
        def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
            tally[ufunc in CHEAP] += 1
            plain = [given.view(np.ndarray) if isinstance(given, Counting) else given for given in inputs]
            options = {
                name: tuple(map(np.asarray, value)) if name == "out" else value for name, value in options.items()
            }
            result = getattr(ufunc, method)(*plain, **options)
            return result.view(Counting) if isinstance(result, np.ndarray) else result

    return points.view(Counting)
