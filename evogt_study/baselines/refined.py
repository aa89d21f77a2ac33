"""The method itself, refined, as what its errors are measured against where no exact solution is known."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.dictionaries.base import Dictionary
from evogt_study.numerics.pipeline import Discretisation, solve
from evogt_study.numerics.problem import Problem
from evogt_study.numerics.quadrature import MAX_GAUSS_POINTS, MAX_NODES, QuadratureRule, Rule, TriangleRule

SEED = 1_000_003
"""Of the reference's features: one that studies do not use, the same for all of theirs."""
FEATURES, STEPS = 2, 4
"""Times as many features, and steps: of order two these leave a sixteenth of the time step's error."""
POINTS = {1: 2.0, 2: 1.5, 3: 1.25}
"""Times as many points a direction."""


@dataclass(frozen=True, eq=False)
class RefinedReference:
    """More features of another seed, a finer rule and a smaller step; solved when it is called.  `run` is its own."""

    problem: Problem
    run: Discretisation
    coarse: Discretisation | None = None

    @staticmethod
    def of(problem: Problem, run: Discretisation, dt: float | None = None) -> RefinedReference:
        """The reference of a run; `dt` is its time step, a quarter of the run's where that is left out."""
        given = replace(run, assessment=None, coefficient_reference=None, seed=SEED)
        fine = replace(
            given,
            dictionary=widened(run.dictionary),
            quadrature=finer(run.quadrature, problem.dimension),
            grid=run.grid.refined(run.grid.dt / STEPS if dt is None else dt),
        )
        return RefinedReference(problem, fine, given)

    @property
    def key(self) -> Hashable:
        """What the solution depends on besides the problem."""
        return "refined", self.run

    @property
    def coarser(self) -> RefinedReference | None:
        """The run itself, with the reference's seed."""
        return None if self.coarse is None else RefinedReference(self.problem, self.coarse)

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Values at `times`, which have to be observed ones of the run, (P, d) and (T,) -> (T, P)."""
        solution = solve(self.problem, self.run)
        places = np.searchsorted(solution.trajectory.times, times - 1e-9 * self.run.grid.final_time)
        return solution.evaluate(nodes)[places]


def widened(dictionary: Dictionary) -> Dictionary:
    """The dictionary with more features, and hidden layers that are wider by the same factor."""
    given = {field.name: getattr(dictionary, field.name) for field in fields(dictionary)}
    given["N"] = FEATURES * dictionary.N
    if given.get("hidden"):
        given["hidden"] = tuple(FEATURES * width for width in given["hidden"])
    if isinstance(given.get("gamma"), tuple):
        given["gamma"] = given["gamma"] * FEATURES
    return type(dictionary)(**given)


def finer(rule: Rule, dimension: int) -> Rule:
    """The rule with more points, or one more refinement."""
    if isinstance(rule, TriangleRule):
        return TriangleRule(rule.refinements + 1, rule.degree)
    most = min(MAX_GAUSS_POINTS, int(MAX_NODES ** (1.0 / dimension)))
    return QuadratureRule(rule.rule, min(most, int(np.ceil(POINTS[dimension] * rule.points))))
