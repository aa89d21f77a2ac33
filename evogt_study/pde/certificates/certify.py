"""Certificates of a run by name, and the check which certificates a problem has."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise

import numpy as np

from evogt_study.errors import StudyError
from evogt_study.pde.certificates import budget
from evogt_study.pde.certificates.bound import EnergyBound
from evogt_study.pde.certificates.budget import BUDGET, ErrorBudget, error_budget
from evogt_study.pde.certificates.problem_data import UnitBox
from evogt_study.pde.certificates.reconstruction import Reconstruction, TimeRule
from evogt_study.pde.certificates.reference import SpectralReference, semidiscrete_state
from evogt_study.pde.certificates.run_bound import RunBound, knots_of, run_bound
from evogt_study.pde.certificates.spectral_space import TensorGrid
from evogt_study.pde.domains import Box, Domain, UnitCube
from evogt_study.pde.domains.box import DIRECTIONS
from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import Trajectory
from evogt_study.pde.pipeline import Share, Solution

_PARTS = ("error_bound_absolute", "error_bound_initial", "error_bound_residual", "error_bound_estimated")
INTERVAL = ("error_lower", "error_upper")
CONSTANTS = (
    "coercivity", "mass_constant", "quadrature_residual", "midpoint_constant", "diffusion_min", "diffusion_max",
    "semidiscrete_constant",
)  # fmt: skip
"""Constants of the paper's estimate."""
CERTIFICATES = ("error_bound", *INTERVAL, "error_estimate", "error_indicator", *BUDGET, *CONSTANTS)
"""All certificates that `record` of a study may name.  The bound comes with `_PARTS`."""
BY_REFERENCE = frozenset({*INTERVAL, "quadrature_residual"})
"""Certificates that need the spectral reference, even if the exact solution is known."""
BY_EXACT = frozenset(BUDGET)
"""Certificates that need the exact solution, or the reference in its place."""
LINEAR = frozenset(CERTIFICATES) - {"error_indicator"}
"""Certificates of linear problems only."""
RESIDUAL_INTERVALS = 8
"""Intervals of six Gauss points in which eta_q is integrated."""
FREE = tuple(name for name in CERTIFICATES if name not in BY_REFERENCE)
"""Certificates without a spectral reference, if the exact solution is known.  `solve` gives them by default."""
FACE_POINTS, FACE_TIMES = 16, 100
"""Gauss points per direction of a face, and times, at which the inflow is checked."""
GOLDEN = (5.0**0.5 - 1.0) / 2.0
"""Golden ratio.  Its multiples modulo one spread evenly over (0, 1)."""
_ROUNDING = 1e-12
"""Inflow, relative to its largest term, that counts as rounding."""


def certificates(
    solution: Solution, wanted: Collection[str], share: Share, key: Hashable, reference: SpectralReference | None
) -> dict[str, float]:
    """Compute the `wanted` certificates, relative to || u(T) || or its estimate."""
    run = Certified(solution, share, key, reference)
    asked = {*wanted, *_PARTS} if "error_bound" in wanted else {*wanted}
    known = run.norm > 0.0
    return {name: float(of(run)) for name, of in OF_RUN.items() if name in asked and (known or name in CONSTANTS)}


def final_solution(
    problem: Problem, final_time: float, reference: SpectralReference | None, *grids: TensorGrid
) -> tuple[Array, ...]:
    """Return u(T) - u_b(T) at the nodes of each grid, (Q,), from the exact solution or from the reference."""
    if problem.exact is None:
        assert reference is not None  # noqa: S101  # `certificates` has it then
        return tuple(reference.final(grid).ravel() for grid in grids)
    nodes, parts = _together(problem.domain, grids)
    values = problem.exact(nodes, np.array([final_time]))[0] - _lift(problem, final_time, nodes)
    return tuple(values[part] for part in parts)


@lru_cache(maxsize=8)  # runs of a study have their grids in common
def _together(domain: Domain, grids: tuple[TensorGrid, ...]) -> tuple[Array, list[slice]]:
    """Return the nodes of all grids in the domain, and the slice of each grid."""
    ends = [0, *accumulate(grid.weights.size for grid in grids)]
    nodes = np.concatenate([UnitBox.of(domain).nodes(grid) for grid in grids])
    return nodes, [slice(*part) for part in pairwise(ends)]


def _lift(problem: Problem, final_time: float, nodes: Array) -> Array | float:
    return 0.0 if problem.lifting is None else problem.lifting.value(nodes, np.array([final_time]))[0]


@dataclass(frozen=True, eq=False)
class Certified:
    """Parts that the certificates of one run share, computed on first use."""

    solution: Solution
    share: Share
    key: Hashable
    reference: SpectralReference | None

    @property
    def final_time(self) -> float:
        return self.solution.discretisation.grid.final_time

    @cached_property
    def knots(self) -> Trajectory:
        """The states that the reconstruction interpolates."""
        return knots_of(self.solution)

    @cached_property
    def run_bound(self) -> RunBound:
        return run_bound(self.solution, self.knots, self.share, self.key, self._semidiscrete_end)

    @property
    def _semidiscrete_end(self) -> Array | None:
        """alpha(T) and its rate without the error of the time steps, (2, r).  None for a nonlinear problem."""
        if not linear(self.solution.problem):
            return None
        # the residual there is free of the time steps: `missing` has what they leave by itself
        state, load = self.semidiscrete
        return np.array([state, load - self.solution.system.stiffness(self.final_time) @ state])

    @property
    def bound(self) -> EnergyBound:
        return self.run_bound.bound

    @property
    def grid(self) -> TensorGrid:
        """The grid that resolves the residual."""
        return self.run_bound.functions.grid

    @cached_property
    def final(self) -> Array:
        """u_N(T) - u_b(T) on the grid, and the same without the error of the time steps for linear problems, (2, Q)."""
        final = self.solution.trajectory.coefficients[-1]
        other = self.semidiscrete[0] if linear(self.solution.problem) else final
        return self.run_bound.functions.evaluated(np.array([final, other]))

    @cached_property
    def norm(self) -> float:
        """|| u_N(T) + w ||, an estimate of || u(T) ||."""
        return self._norm_of(self.final[0] + self.missing)

    @cached_property
    def norm_of_bound(self) -> float:
        """The estimated norm, at most || u_N(T) || plus the bound."""
        return min(self.norm, self._norm_of(self.final[0]) + self.bound.value)

    @cached_property
    def missing(self) -> Array:
        """Estimate of u(T) - u_N(T) on the grid, (Q,): the error of the time steps and w, (a grad w, grad v) = R(v)."""
        final, semidiscrete = self.final
        return np.asarray(self.bound.representer.ravel() + (semidiscrete - final))

    @cached_property
    def semidiscrete(self) -> tuple[Array, Array]:
        """alpha(T) without the error of the time steps, and b(T), (r,) each."""
        known, system = self.solution.reference_state, self.solution.system
        state = semidiscrete_state(system, self.final_time) if known is None else known
        return state, system.load(np.array([self.final_time]))[0]

    @property
    def estimate(self) -> float:
        return self._l2_norm(self.missing)

    def _norm_of(self, values: Array) -> float:
        """Return || v + u_b(T) || on the grid."""
        nodes = self.run_bound.functions.box.nodes(self.grid)
        return self._l2_norm(values + _lift(self.solution.problem, self.final_time, nodes))

    def _l2_norm(self, values: Array) -> float:
        return math.sqrt(values**2 @ self.grid.weights.ravel())

    @property
    def known(self) -> SpectralReference:
        assert self.reference is not None  # noqa: S101
        return self.reference

    @cached_property
    def interval(self) -> tuple[float, float]:
        """error_lower and error_upper on the validation rule, (|| u_ref - u_N || -+ delta) / (|| u_ref || +- delta)."""
        rule, delta = self.solution.discretisation.validation, self.known.delta
        if not np.isfinite(delta):  # nor is the reference, as a rule
            return 0.0, np.inf
        grid = TensorGrid.of_rule(rule, self.solution.problem.dimension)
        target, weights = self.known.final(grid).ravel(), grid.weights.ravel()
        nodes = UnitBox.of(self.solution.problem.domain).nodes(grid)
        lifted = _lift(self.solution.problem, self.final_time, nodes)
        ours = self.solution.space.evaluate(nodes, self.solution.trajectory.coefficients[-1])
        difference, norm = (float(np.sqrt(v**2 @ weights)) for v in (target - ours, target + lifted))
        # else || u || >= || u_ref || - delta says nothing
        upper = (difference + delta) / (norm - delta) if norm > delta else np.inf
        return max(difference - delta, 0.0) / (norm + delta), upper

    @cached_property
    def budget(self) -> ErrorBudget:
        solution, functions = self.solution, self.run_bound.functions
        rule = TensorGrid.of_rule(solution.discretisation.quadrature, solution.problem.dimension)
        exact, nodal = self.share(
            "certificate solution",
            (self.key, self.final_time, self.grid, rule),
            partial(final_solution, solution.problem, self.final_time, self.reference, self.grid, rule),
        )
        # on the grid that resolves the residual, not on the rule that the space is orthonormal in
        projected, (final, semidiscrete) = functions.evaluated(solution.space.project(nodal)), self.final
        roots = np.sqrt(self.grid.weights.ravel())
        full = functions.apply_weights(roots)
        return error_budget(exact, full, roots, (projected, semidiscrete, final), self._norm_of(exact))

    @cached_property
    def norm_matrix(self) -> Array:
        return budget.norm_matrix(self.solution.space)

    @cached_property
    def diffusion_bounds(self) -> tuple[float, float]:
        return budget.diffusion_bounds(self.solution.problem, self.solution.space.quadrature, self.final_time)

    @cached_property
    def coercivity(self) -> float:
        return budget.coercivity(self.solution.system, self.norm_matrix, self.final_time)

    def semidiscrete_constant(self) -> float:
        """Return C_sd of lem:semidiscrete_error."""
        largest = self.diffusion_bounds[1]
        return budget.semidiscrete_constant(self.coercivity, self.mass_constant(), largest, self.final_time)

    def mass_constant(self) -> float:
        """Return c_{0,q} on the grid."""
        values = self.run_bound.functions.trial @ self.solution.space.transform
        return budget.mass_constant(values, self.grid.weights.ravel())

    def quadrature_residual(self) -> float:
        """Return eta_q of eq:quadrature_residual."""
        rule = TimeRule.between(np.linspace(0.0, self.final_time, RESIDUAL_INTERVALS + 1))
        solution = self.solution
        norms = budget.quadrature_residual(
            solution.problem, solution.space, self.norm_matrix, self.known.solution,
            solution.discretisation.quadrature, rule.times,
        )  # fmt: skip
        return float(np.sqrt(rule.weights @ norms**2))

    def midpoint_constant(self) -> float:
        """Return Theta_IM of eq:im_residual_explicit."""
        along = Reconstruction(self.knots.times, self.knots.coefficients, lambda nodes: [(nodes, nodes)])
        return budget.midpoint_constant(self.solution.system, along, self.final_time)


def _budget_part(name: str) -> Callable[[Certified], float]:
    return lambda run: run.budget.parts[name]


OF_RUN: dict[str, Callable[[Certified], float]] = {
    "error_bound": lambda run: run.bound.value / run.norm_of_bound,
    "error_bound_absolute": lambda run: run.bound.value,
    "error_bound_initial": lambda run: run.bound.initial**0.5 / run.norm_of_bound,
    "error_bound_residual": lambda run: run.bound.residual**0.5 / run.norm_of_bound,
    "error_bound_estimated": lambda run: (run.bound.time_rule + run.bound.unresolved) ** 0.5 / run.norm_of_bound,
    "error_indicator": lambda run: run.bound.value / run.norm,
    "error_estimate": lambda run: run.estimate / run.norm,
    "error_lower": lambda run: run.interval[0],
    "error_upper": lambda run: run.interval[1],
    **{part: _budget_part(part) for part in BUDGET},
    "coercivity": lambda run: run.coercivity,
    "diffusion_min": lambda run: run.diffusion_bounds[0],
    "diffusion_max": lambda run: run.diffusion_bounds[1],
    "semidiscrete_constant": Certified.semidiscrete_constant,
    "mass_constant": Certified.mass_constant,
    "quadrature_residual": Certified.quadrature_residual,
    "midpoint_constant": Certified.midpoint_constant,
}
"""Function of the run for each name in `CERTIFICATES` and `_PARTS`."""


def select_certificates(record: Iterable[str]) -> tuple[str, ...]:
    """Return the certificates among the names in `record`."""
    return tuple(name for name in record if name in CERTIFICATES)


def find_certificates(problem: Problem, final_time: float) -> tuple[str, ...]:
    """Return the names in `FREE` that `problem` has."""
    referenced = problem.exact is not None
    return tuple(name for name in FREE if _reason(name, problem, final_time, referenced=referenced) is None)


def check_certificates(record: Iterable[str], problem: Problem, final_time: float) -> None:
    """Raise StudyError if `record` names a certificate that the problem does not have."""
    for name in select_certificates(record):
        reason = _reason(name, problem, final_time, referenced=True)
        if reason is not None:
            raise StudyError(f"`record` must leave out {name} for {reason} (output.record)")


def _reason(name: str, problem: Problem, final_time: float, referenced: bool) -> str | None:
    """Return why the problem does not have a certificate.  `referenced`: a solution to compare with exists."""
    domain = problem.domain
    if not isinstance(domain, (Box, UnitCube)) or domain.periods():
        return "a problem on another domain than a box, or with a periodic direction"
    if name in CONSTANTS and not (problem.plain and isinstance(domain, UnitCube)):
        return "a problem with another domain, faces, or terms than scalar diffusion on the unit cube"
    if not linear(problem) and name in LINEAR:
        return "a problem that is not linear: only error_indicator is known"
    if linear(problem) and name not in LINEAR:
        return "a linear problem, which has error_bound"
    if name not in CONSTANTS and _flows_in(problem, final_time):
        return (
            "a problem with a negative transfer or advection into the domain through a face without Dirichlet data, "
            "transfer + b . n / 2 < 0"
        )
    return None if referenced or name not in BY_EXACT else "a problem without exact solution"


def linear(problem: Problem) -> bool:
    """Return True if the problem has no potential and no nonlinear reaction."""
    return problem.potential is None and not isinstance(problem.reaction, NonlinearReaction)


@lru_cache(maxsize=8)  # each certificate of a problem asks
def _flows_in(problem: Problem, final_time: float) -> bool:
    """Return True if transfer + b . n / 2 is negative on a natural face, so that errors may grow there."""
    if not problem.faces:
        return False
    box, grid = UnitBox.of(problem.domain), TensorGrid(problem.dimension, FACE_POINTS)
    times = final_time * np.append(GOLDEN * np.arange(FACE_TIMES) % 1.0, 1.0)
    for face in problem.faces:
        axis, side = DIRECTIONS.index(face.face[0]), int(face.face[1])
        nodes, terms = box.on_face(grid, axis, side), [np.zeros(1)]
        if problem.advection is not None:
            terms.append((2 * side - 1) * problem.advection[axis](nodes, times) / 2.0)
        if face.transfer is not None:
            terms.append(face.transfer(nodes, times))
        # of the terms, which may cancel: in other units all of them are as small as rounding
        largest = sum(float(np.abs(term).max()) for term in terms)
        if float(sum(terms[1:], start=terms[0]).min()) < -_ROUNDING * largest:
            return True
    return False
