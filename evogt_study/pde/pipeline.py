"""The stages of the paper's method: Algorithm 1 (alg:evo_gtransnet_im) and its diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Protocol, TypeVar

import numpy as np

from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.galerkin import validation
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import (
    DECOMPOSITIONS,
    GalerkinSystem,
    RetainedSpace,
    TrialFunctions,
    WeightedSVD,
    assemble,
    check_diffusion,
    make_trial,
    retain,
    sample_data,
)
from evogt_study.pde.galerkin.validation import CoefficientReference
from evogt_study.pde.integrators import ImplicitMidpoint, Integrator
from evogt_study.pde.integrators.runge_kutta import RungeKutta
from evogt_study.pde.numerics import Array, Quadrature, Rule, TimeGrid, Trajectory

NORMS = ("error_absolute", "error_max", "error_h1", "error_max_over_time")
"""Names of the errors that a run can measure besides the relative L2 error at the final time."""

T = TypeVar("T")


@dataclass(frozen=True)
class Discretisation:
    """Settings of a run except the problem."""

    dictionary: Dictionary
    seed: int
    tau: float
    quadrature: Rule
    validation: Rule
    grid: TimeGrid
    integrator: Integrator = field(default_factory=ImplicitMidpoint)
    assessment: Rule | None = None
    coefficient_reference: CoefficientReference | None = None
    decomposition: str = "svd"


class Share(Protocol):
    """Function that returns the result of a stage from a cache, or computes it."""

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of `stage` for `key`, and call `compute` if no cache has it."""


def compute_stage(stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
    """Compute the stage without a cache.  A single run uses this function as its `Share`."""
    return compute()


@dataclass(frozen=True, eq=False)
class Reference:
    """Solution that replaces the exact solution in errors.  The distance from `coarser` estimates its error."""

    key: Hashable  # identifies the reference except its problem
    values: Callable[[Array, Array], Array]  # nodes (Q, d) and times (T,) -> (T, Q)
    coarser: Reference | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """Results of one run: the retained space, the trajectory at the observed times, and the measured errors."""

    problem: Problem
    discretisation: Discretisation
    svd: WeightedSVD
    space: RetainedSpace
    system: GalerkinSystem
    trajectory: Trajectory
    errors: Array
    quadrature_defect: float
    sums: validation.FeatureSums
    passed: Trajectory | None = None
    reference_state: Array | None = None
    cross_grid: Mapping[str, float] = field(default_factory=dict)
    norms: Mapping[str, float] = field(default_factory=dict)
    reference_error: float | None = None

    @property
    def has_final_error(self) -> bool:
        return len(self.errors) == len(self.trajectory.times)

    @property
    def coefficient_error(self) -> float | None:
        """Coefficient error || alpha^{N_t} - alpha_ref(T) ||_2 / || alpha_ref(T) ||_2, or None without a reference."""
        if self.reference_state is None:
            return None
        norm, final = float(np.linalg.norm(self.reference_state)), self.trajectory.coefficients[-1]
        return float(np.linalg.norm(final - self.reference_state)) / norm if norm else float("nan")

    def evaluate(self, nodes: Array) -> Array:
        """Return the numerical solution at the points `nodes` and all observed times, (P, d) -> (S, P)."""
        values = self.space.evaluate(nodes, self.trajectory.coefficients)
        return values + _lift(self.problem, nodes, self.trajectory.times)


# A key contains only the settings that the result of a stage depends on, so that many runs share the stage.  For
# example, all problems and thresholds share the trial functions, and all problems share the retained space.
def list_stage_keys(
    problem: Hashable, domain: Hashable, run: Discretisation, reference: Hashable = None
) -> dict[str, Hashable]:
    """Return the keys of the stages.  Two runs with equal keys of a stage can share its result."""
    trial = (run.dictionary, run.seed, run.quadrature, domain)
    directions = (trial, run.decomposition)
    space = (directions, run.tau)
    system = (space, problem)  # a key contains the keys of the stages before it
    keys: dict[str, Hashable] = {
        "trial functions": trial,
        "weighted SVD": directions,
        "retained space": space,
        "quadrature defect": space,
        # with the integrator, because it determines the times at which the diffusion is checked
        "diffusion check": (problem, run.quadrature, run.grid.final_time, run.grid.steps, run.integrator),
        "nodal data": (problem, run.quadrature, domain),
        "Galerkin system": system,
        "trajectory": (system, run.grid, run.integrator),
        "validation features": (run.dictionary, run.seed, run.validation, domain),
        # with the steps, since a reference without its own dt uses the dt of the run
        "reference": (problem, reference, run.validation, run.grid.final_time, run.grid.steps, run.grid.observed),
    }
    if run.coefficient_reference is not None:
        keys["coefficient reference"] = (system, run.grid.final_time, run.coefficient_reference)
    if run.assessment is not None:
        keys["assessed basis"] = (space, run.assessment)
        keys["assessment"] = (system, run.assessment, run.grid.final_time)
    return keys


def solve_arrays(
    problem: Problem, run: Discretisation, share: Share = compute_stage, reference: Reference | None = None,
    norms: Collection[str] = (), passed: tuple[int, ...] = (),
) -> Solution:  # fmt: skip
    """Solve a problem with one sampled dictionary (eq:im_retained), and measure its errors and the `norms`."""
    # check the integrator first, before the space is computed
    run.integrator.check(problem)
    keys = list_stage_keys(problem, problem.domain, run, None if reference is None else reference.key)

    def stages(name: str, compute: Callable[[], T]) -> T:
        return share(name, keys[name], compute)

    domain = problem.domain

    @cache  # the stage cache may discard the trial functions between their two uses
    def trial() -> TrialFunctions:
        def compute() -> TrialFunctions:
            features = domain.features(run.dictionary, run.seed)
            return make_trial(domain, features, domain.quadrature(run.quadrature))

        return stages("trial functions", compute)

    svd = stages("weighted SVD", lambda: DECOMPOSITIONS[run.decomposition](trial()))
    space = stages("retained space", lambda: retain(trial(), svd, run.tau))
    times = run.integrator.times(run.grid)
    stages("diffusion check", lambda: check_diffusion(problem, domain.quadrature(run.quadrature), times))
    nodal = stages("nodal data", lambda: sample_data(problem, space.rule.nodes))
    system = stages("Galerkin system", lambda: assemble(space, problem, nodal))
    trajectory, between = _march_trajectories(run, system, share, keys["Galerkin system"], passed)
    rule = share("validation nodes", (run.validation, domain), lambda: domain.quadrature(run.validation))
    sums = stages(
        "validation features",
        lambda: validation.make_feature_sums(space.features, rule.nodes, run.validation.uniform),
    )
    target, reference_error = stages("reference", lambda: _make_target(problem, run, rule, reference))
    # if the solution of the problem is unknown, the target has only the initial time
    raw = trajectory.coefficients[: len(target.norms)] @ space.transform.T
    errors = target.errors(raw, sums)
    # The nodes of the check rule lie between the nodes of the assembly rule.  On them, unresolved features are not
    # orthonormal.
    another, wanted = run.quadrature.make_check_rule(domain.dimension), run.coefficient_reference
    defect = stages("quadrature defect", lambda: validation.measure_mass_defect(space, domain.quadrature(another)))
    reference_state, cross_grid = None, dict[str, float]()
    if wanted is not None:
        reference_state = stages("coefficient reference", lambda: wanted.final_state(system, run.grid.final_time))
    if run.assessment is not None:
        assessment = run.assessment
        basis = stages("assessed basis", lambda: validation.evaluate_basis(space, domain.quadrature(assessment)))
        compare = partial(validation.measure_cross_grid, space, basis, problem, system, run.grid.final_time)
        cross_grid = stages("assessment", compare)
    known = dict[str, float]()
    if norms and len(errors) == len(trajectory.times):  # the solution is known at the final time
        # nanmax, because the relative error is undefined at times when the exact solution is zero
        known = target.final_norms(space.transform @ trajectory.coefficients[-1], sums) | {
            "error_max_over_time": float(np.nanmax(errors))
        }
        if "error_h1" in norms and problem.exact_gradient is not None:
            known["error_h1"] = validation.measure_seminorm(problem, space, trajectory, rule)
    return Solution(
        problem, run, svd, space, system, trajectory, errors, defect, sums, between, reference_state, cross_grid,
        {name: known[name] for name in NORMS if name in norms and name in known}, reference_error,
    )  # fmt: skip


def _march_trajectories(
    run: Discretisation, system: GalerkinSystem, share: Share, system_key: Hashable, passed: tuple[int, ...]
) -> tuple[Trajectory, Trajectory | None]:
    """Return the states at the observed steps, and the states at the steps in `passed`."""

    def march(grid: TimeGrid) -> Trajectory:
        return share("trajectory", (system_key, grid, run.integrator), lambda: run.integrator.march(system, grid))

    if not passed:
        return march(run.grid), None
    # The results of a run must not depend on `passed`, but other integrators may adapt to the observed times.
    if not isinstance(run.integrator, RungeKutta):
        return march(run.grid), march(replace(run.grid, saved=passed))
    whole = march(replace(run.grid, saved=tuple(sorted({*run.grid.observed, *passed}))))
    return whole.at(run.grid.observed_times), whole.at(run.grid.times_of(passed))


def _make_target(
    problem: Problem, run: Discretisation, rule: Quadrature, reference: Reference | None
) -> tuple[validation.Target, float | None]:
    """Return the target of the errors at the observed times, which is u_0 at t = 0, and the error of the reference."""
    times, nodes, error = run.grid.observed_times, rule.nodes, None
    if reference is None and problem.exact is not None:
        exact = problem.exact(nodes, times)
    else:
        exact = problem.initial(nodes)[None, :]
        if reference is not None:
            exact = np.concatenate([exact, reference.values(nodes, times[1:])])
            error = estimate_error(reference, exact[-1], rule, times[-1:])
    return validation.Target.from_exact(problem.domain, exact, _lift(problem, nodes, times[: len(exact)]), rule), error


def estimate_error(reference: Reference, values: Array, rule: Quadrature, final: Array) -> float | None:
    """Return the largest relative distance of the `values` ([n,] Q) of `reference` from its coarser version."""
    if reference.coarser is None:
        return None
    fine = values.reshape(-1, len(rule.nodes))
    coarse = reference.coarser.values(rule.nodes, final).reshape(fine.shape)
    return float(validation.compute_errors(coarse, fine, rule.weights).max())


def _lift(problem: Problem, nodes: Array, times: Array) -> Array | float:
    """Return the lifting u_b at nodes and times, (T, Q), or zero if the problem has no lifting."""
    return 0.0 if problem.lifting is None else problem.lifting.value(nodes, times)
