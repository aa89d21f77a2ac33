"""The whole method on one screen: Algorithm 1 (alg:evo_gtransnet_im) and its diagnostics, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from evogt_study.method import diagnostics
from evogt_study.method.arrays import Array
from evogt_study.method.dictionary import Dictionary
from evogt_study.method.galerkin import GalerkinSystem, assemble, check_diffusion
from evogt_study.method.implicit_midpoint import TimeGrid, Trajectory, implicit_midpoint
from evogt_study.method.problem import Problem
from evogt_study.method.quadrature import Quadrature, QuadratureRule
from evogt_study.method.retained_space import (
    RetainedSpace,
    TrialFunctions,
    WeightedSVD,
    retain,
    trial_functions,
    trial_values,
    weighted_svd,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Discretisation:
    """Everything but the problem that a run depends on: scalars only."""

    dictionary: Dictionary
    seed: int
    tau: float
    quadrature: QuadratureRule
    validation: QuadratureRule
    grid: TimeGrid


class Share(Protocol):
    """Hands out a stage's result for a key, computing it only where it is not at hand."""

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """The result of `stage` for `key`."""


def afresh(stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
    """The `Share` of a single run: compute every stage."""
    return compute()


@dataclass(frozen=True, eq=False)
class Solution:
    """One run: the retained space, the trajectory at the observed times, and what was measured on them.

    errors (S,): relative L2 errors on the validation rule at the observed times.  Where the problem has no exact
    solution only the initial error is known, and the others are left out: errors is (1,).
    """

    problem: Problem
    discretisation: Discretisation
    svd: WeightedSVD
    space: RetainedSpace
    system: GalerkinSystem
    trajectory: Trajectory
    errors: Array

    def evaluate(self, nodes: Array) -> Array:
        """The numerical solution at any points of the domain and all observed times, (P, d) -> (S, P)."""
        return self.space.evaluate(nodes, self.trajectory.coefficients)


def stage_keys(problem: Hashable, dimension: int, run: Discretisation) -> dict[str, Hashable]:
    """What each stage depends on; two runs with the same key can share the stage.  `problem` identifies the problem."""
    trial = (run.dictionary, run.seed, run.quadrature, dimension)
    system = (trial, run.tau, problem)
    return {
        "trial functions": trial,
        "weighted SVD": trial,
        "retained space": (trial, run.tau),
        "diffusion check": (problem, run.quadrature, run.grid.final_time, run.grid.steps),
        "Galerkin system": system,
        "trajectory": (system, run.grid),
        "validation features": (run.dictionary, run.seed, run.validation, dimension),
        "reference": (problem, run.validation, run.grid.final_time, run.grid.steps, run.grid.observed),
    }


def solve(problem: Problem, run: Discretisation, share: Share = afresh) -> Solution:
    """Solve `problem` in the retained space of one sampled dictionary (eq:im_retained) and measure it.

    Raises ProblemError, EmptySpaceError, IndefiniteStiffnessError.
    """
    key = stage_keys(problem, problem.dimension, run)
    trial = share("trial functions", key["trial functions"], lambda: _trial(problem, run))
    svd = share("weighted SVD", key["weighted SVD"], lambda: weighted_svd(trial))
    space = share("retained space", key["retained space"], lambda: retain(trial, svd, run.tau))
    share("diffusion check", key["diffusion check"], lambda: _check(problem, run))
    system = share("Galerkin system", key["Galerkin system"], lambda: assemble(space, problem))
    trajectory = share("trajectory", key["trajectory"], lambda: implicit_midpoint(system, run.grid))
    rule = share("validation nodes", (run.validation, problem.dimension), lambda: _validation_rule(problem, run))
    features = share(
        "validation features", key["validation features"], lambda: trial_values(trial.features, rule.nodes)
    )
    exact = share("reference", key["reference"], lambda: _reference(problem, run, rule))
    coefficients = trajectory.coefficients[: len(exact)] @ space.transform.T
    errors = diagnostics.relative_errors(coefficients @ features.T, exact, rule.weights)
    return Solution(problem, run, svd, space, system, trajectory, errors)


def _trial(problem: Problem, run: Discretisation) -> TrialFunctions:
    features = run.dictionary.sample(run.seed, problem.dimension)
    return trial_functions(features, run.quadrature.on_unit_cube(problem.dimension))


def _check(problem: Problem, run: Discretisation) -> None:
    check_diffusion(problem, run.quadrature.on_unit_cube(problem.dimension), run.grid.midpoints)


def _validation_rule(problem: Problem, run: Discretisation) -> Quadrature:
    return run.validation.on_unit_cube(problem.dimension)


def _reference(problem: Problem, run: Discretisation, rule: Quadrature) -> Array:
    """The exact solution at the observed times, or the initial value alone where there is none, (S or 1, Q)."""
    if problem.exact is None:
        return problem.initial(rule.nodes)[None, :]
    return problem.exact(rule.nodes, run.grid.observed_times)
