"""References that errors are measured against, by the names that a study file has for them.

`refined` is the paper's method itself with more features, a finer rule and a smaller step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.baselines.finite_difference import FiniteDifferenceReference, check_differences
from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import MAX_GAUSS_POINTS, MAX_NODES, QuadratureRule, Rule, TriangleRule
from evogt_study.pde.pipeline import Discretisation, Reference, solve_arrays
from evogt_study.storage.arrays import load_or_compute

EXACT, DIFFERENCES, ELEMENTS, REFINED = "exact", "finite_difference", "finite_elements", "refined"
NAMES = (EXACT, DIFFERENCES, ELEMENTS, REFINED)
SIZED = (DIFFERENCES, ELEMENTS)
"""References that need `reference_points`."""
OWN_STEPS = {DIFFERENCES: 8, ELEMENTS: 2}
"""Steps of these references for each step of the run.  The elements have a method of order four."""
_SEED = 1_000_003
"""Seed of the features of the reference.  Studies do not use it."""
FEATURES, _STEPS = (3, 2), (8, 4)
"""Factors of features and steps, of the reference and of its coarser version: of order two, the steps of the latter
leave a sixteenth of the time step's error, so that its distance is below a tenth where the features' part is."""
_POINTS = {1: (3.0, 2.0), 2: (1.75, 1.5), 3: (1.4, 1.25)}
"""Factors of points a direction, of both; smaller in more dimensions, where nodes grow by their power."""


def make_reference(
    name: str | None, problem: Any, run: Discretisation, points: int | None, dt: float | None,
    solve: Callable[..., Any] = solve_arrays,
) -> Reference | None:  # fmt: skip
    """Return the reference of this name for a run, with its resolution.  Return None for the exact solution.

    problem: of one field or, with its own `solve`, of several.
    """
    if name is None or name == EXACT:
        if name is not None and problem.exact is None:
            raise ProblemError("`exact` must be known where `reference` asks for it, got a problem without it")
        return None
    if name == REFINED:
        return RefinedReference.of(partial(solve, problem), problem.dimension, run, dt)
    if name not in SIZED:
        raise ParameterError("reference", f"one of {', '.join(NAMES)}", name)
    if points is None:
        raise ParameterError("reference_points", f"given for {name}", None)
    if name == DIFFERENCES:
        grid = run.grid.refined(dt or run.grid.dt / OWN_STEPS[name])
        check_differences(problem, points, run.integrator, "reference_points")
        return FiniteDifferenceReference(problem, points, grid, run.integrator, extrapolated=dt is None)
    # here: with scikit-fem the import takes 0.2 s in each worker
    from evogt_study.pde.baselines.finite_elements import FiniteElementReference

    elements = FiniteElementReference(problem, points, run.grid.refined(dt or run.grid.dt / OWN_STEPS[name]))
    elements.check()
    return elements


@dataclass(frozen=True, eq=False)
class FunctionReference:
    """A user function of nodes (Q, d) and a time that returns u (Q,).  `content` identifies it."""

    function: Callable[[Array, float], Any]
    content: Hashable
    coarser: None = None

    @property
    def key(self) -> Hashable:
        return "function", self.content

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return values, (Q, d) and (T,) -> (T, Q).  Raises ProblemError for another shape or type."""
        values = [np.asarray(self.function(nodes, float(t)), dtype=float) for t in times]
        for found in values:
            if found.shape != (len(nodes),) or not np.isfinite(found).all():
                raise ProblemError(f"`reference` must give ({len(nodes)},) finite numbers, got shape {found.shape}")
        return np.stack(values)


@dataclass(frozen=True, eq=False)
class ReferenceAmongWorkers:
    """A reference whose values another worker may compute.  `content` identifies the problem."""

    reference: Reference
    content: str

    @property
    def key(self) -> Hashable:
        return self.reference.key

    @property
    def coarser(self) -> Reference | None:
        coarser = self.reference.coarser
        return None if coarser is None else ReferenceAmongWorkers(coarser, self.content)

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return the values of the reference, (Q, d) and (T,) -> (T, Q)."""
        inputs = repr((self.content, self.key, nodes.shape, times.shape)).encode()
        name = blake2b(inputs + nodes.tobytes() + times.tobytes(), digest_size=20).hexdigest()
        return load_or_compute(name, lambda: self.reference(nodes, times))


@dataclass(frozen=True, eq=False)
class RefinedReference:
    """The method with more features of another seed, a finer rule and a smaller step.  `solve` solves `run`."""

    solve: Callable[[Discretisation], Any]
    run: Discretisation
    coarser: RefinedReference | None = None

    @staticmethod
    def of(
        solve: Callable[[Discretisation], Any], dimension: int, run: Discretisation, dt: float | None = None
    ) -> RefinedReference:
        """Return the reference of a run.  `dt` is its time step, by default an eighth of the step of the run."""
        steps = [run.grid.dt / count for count in _STEPS] if dt is None else [dt, 2.0 * dt]
        fine, coarse = (refine_run(run, dimension, level, step) for level, step in enumerate(steps))
        return RefinedReference(solve, fine, RefinedReference(solve, coarse))

    @property
    def key(self) -> Hashable:
        return "refined", self.run

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return values at observed `times`, (P, d) and (T,) -> (T, [n,] P)."""
        return np.asarray(self.solve(self.run).evaluate(nodes)[self.run.grid.positions_of(times)])


def refine_run(run: Discretisation, dimension: int, level: int, dt: float) -> Discretisation:
    """Return the run with more features, nodes and steps: as the reference (level 0), or as its coarser version (1)."""
    return replace(
        run,
        dictionary=widen(run.dictionary, FEATURES[level]),
        seed=_SEED if run.dictionary.RANDOM else 0,
        quadrature=refine_rule(run.quadrature, dimension, level),
        grid=run.grid.refined(dt),
        # a reference is only evaluated, so its own diagnostics are not computed
        assessment=None,
        coefficient_reference=None,
    )


# hidden layers grow too: output features that are random sums of few neurons would be dependent
def widen(dictionary: Dictionary, times: int) -> Dictionary:
    """Return the dictionary with `factor` times the features and hidden widths."""
    given = {field.name: getattr(dictionary, field.name) for field in fields(dictionary)}
    given["N"] = times * dictionary.N
    if given.get("hidden"):
        given["hidden"] = tuple(times * width for width in given["hidden"])
    # one gamma for each neuron of the first layer, which is wider by the same factor
    if isinstance(given.get("gamma"), tuple):
        given["gamma"] = given["gamma"] * times
    return type(dictionary)(**given)


def refine_rule(rule: Rule, dimension: int, level: int) -> Rule:
    """Return the rule with more points, or more refinements."""
    if isinstance(rule, TriangleRule):
        return TriangleRule(rule.refinements + 1, rule.degree + 4 * (1 - level))
    most = min(MAX_GAUSS_POINTS, int(MAX_NODES ** (1.0 / dimension)))
    return QuadratureRule(rule.rule, min(most, int(np.ceil(_POINTS[dimension][level] * rule.points))))
