"""Certificates of a run by name: bound, interval, estimate, budget and constants; which of them a problem has.

The budget splits the final error by its causes (eq:error_split_retained).  On a rule with weights w

    u - u_N = (u - v_N) + (v_N - P u) + (P u - u_semi) + (u_semi - u_N)

v_N is the best approximation of u in the span of all features, P u the quadrature-orthogonal projection on the retained
space, u_semi the semidiscrete solution in it: full space, truncation, evolution and quadrature, time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from operator import attrgetter

import numpy as np
import scipy.linalg

from evogt_study.errors import StudyError
from evogt_study.pde.certificates.bound import SMALLEST, EnergyBound, RunBound, bound_run, find_knots
from evogt_study.pde.certificates.functions import (
    ProblemData,
    Reconstruction,
    SampledBasis,
    TensorGrid,
    TimeRule,
    list_face_nodes,
)
from evogt_study.pde.certificates.reference import SpectralReference, march_semidiscrete
from evogt_study.pde.domains import Box, Domain, UnitCube
from evogt_study.pde.domains.box import DIRECTIONS, as_box
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.retained_space import RetainedSpace, retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import weighted_gram
from evogt_study.pde.numerics import Array, Trajectory
from evogt_study.pde.pipeline import Discretisation, Share, Solution

_PARTS = ("error_bound_absolute", "error_bound_initial", "error_bound_residual", "error_bound_estimated")
INTERVAL = ("error_lower", "error_upper")
BUDGET = ("error_full_space", "error_retained", "error_evolution", "error_time")
"""Names of the variables that record the split."""
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
_QUARTERS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Parts of the final time at which constants are computed."""
_ROUNDING = 1e-12
"""Inflow, relative to its largest term, that counts as rounding."""


def certify(
    solution: Solution, wanted: Collection[str], share: Share, key: Hashable, reference: SpectralReference | None
) -> dict[str, float]:
    """Compute the `wanted` certificates, relative to || u(T) || or its estimate."""
    run = Certified(solution, share, key, reference)
    asked = {*wanted, *_PARTS} if "error_bound" in wanted else {*wanted}
    known = run.norm > 0.0
    return {name: float(of(run)) for name, of in OF_RUN.items() if name in asked and (known or name in CONSTANTS)}


def evaluate_final(
    problem: Problem, final_time: float, reference: SpectralReference | None, *grids: TensorGrid
) -> tuple[Array, ...]:
    """Return u(T) - u_b(T) at the nodes of each grid, (Q,), from the exact solution or from the reference."""
    if problem.exact is None:
        assert reference is not None  # noqa: S101  # `certificates` has it then
        return tuple(reference.final(grid).ravel() for grid in grids)
    nodes, parts = _join_grids(problem.domain, grids)
    values = problem.exact(nodes, np.array([final_time]))[0] - problem.lift_at(nodes, final_time)
    return tuple(values[part] for part in parts)


@lru_cache(maxsize=8)  # runs of a study have their grids in common
def _join_grids(domain: Domain, grids: tuple[TensorGrid, ...]) -> tuple[Array, list[slice]]:
    """Return the nodes of all grids in the domain, and the slice of each grid."""
    ends = [0, *accumulate(grid.weights.size for grid in grids)]
    nodes = np.concatenate([as_box(domain).from_unit(grid.nodes) for grid in grids])
    return nodes, [slice(*part) for part in pairwise(ends)]


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
        return find_knots(self.solution)

    @cached_property
    def run_bound(self) -> RunBound:
        end = None
        if self.solution.problem.is_linear:
            # the residual at T is free of the error of the time steps: `missing` has what they leave by itself
            state, load = self.semidiscrete
            end = np.array([state, load - self.solution.system.stiffness(self.final_time) @ state])
        return bound_run(self.solution, self.knots, self.share, self.key, end)

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
        other = self.semidiscrete[0] if self.solution.problem.is_linear else final
        return self.run_bound.functions.evaluate_states(np.array([final, other]))

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
        state = march_semidiscrete(system, self.final_time) if known is None else known
        return state, system.load(np.array([self.final_time]))[0]

    def _norm_of(self, values: Array) -> float:
        """Return || v + u_b(T) || on the grid."""
        nodes = self.run_bound.functions.box.from_unit(self.grid.nodes)
        return self.l2_norm(values + self.solution.problem.lift_at(nodes, self.final_time))

    def l2_norm(self, values: Array) -> float:
        return math.sqrt(values**2 @ self.grid.weights.ravel())

    @property
    def known(self) -> SpectralReference:
        """The reference, for certificates that need it."""
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
        nodes = as_box(self.solution.problem.domain).from_unit(grid.nodes)
        lifted = self.solution.problem.lift_at(nodes, self.final_time)
        ours = self.solution.space.evaluate(nodes, self.solution.trajectory.coefficients[-1])
        difference, norm = (float(np.sqrt(v**2 @ weights)) for v in (target - ours, target + lifted))
        # else || u || >= || u_ref || - delta says nothing
        upper = (difference + delta) / (norm - delta) if norm > delta else np.inf
        return max(difference - delta, 0.0) / (norm + delta), upper

    @cached_property
    def exact(self) -> tuple[Array, Array]:
        """u(T) - u_b(T) on the grid that resolves the residual and on the assembly rule, (Q,) each."""
        problem = self.solution.problem
        rule = TensorGrid.of_rule(self.solution.discretisation.quadrature, problem.dimension)
        key = self.key, self.final_time, self.grid, rule
        compute = partial(evaluate_final, problem, self.final_time, self.reference, self.grid, rule)
        grid, nodal = self.share("certificate solution", key, compute)
        return grid, nodal

    @cached_property
    def differences(self) -> Array:
        """The four parts of u - u_N on the grid, by all features, truncation, evolution and time steps, (4, Q)."""
        (exact, nodal), functions, (final, semidiscrete) = self.exact, self.run_bound.functions, self.final
        projected, roots = functions.evaluate_states(self.solution.space.project(nodal)), self._roots
        # R of [A b] has all of the least squares, in N + 1 rows instead of Q: the SVD inside lstsq is of that
        weighted = functions.apply_weights(roots)
        augmented, count = np.column_stack([weighted, roots * exact]), weighted.shape[1]
        (triangle,) = scipy.linalg.qr(augmented, mode="r", overwrite_a=True, check_finite=False)
        coefficients = scipy.linalg.lstsq(triangle[:count, :count], triangle[:count, count], cond=SMALLEST)[0]
        best = weighted @ coefficients / roots
        return np.array([exact - best, best - projected, projected - semidiscrete, semidiscrete - final])

    @property
    def _roots(self) -> Array:
        """Roots of the weights of the grid, (Q,)."""
        return np.sqrt(self.grid.weights.ravel())

    @cached_property
    def budget(self) -> dict[str, float]:
        """Relative norms by variable.  error_retained is the norm of u - P u, so it decreases with tau."""
        full, truncation, evolution, time = self.differences
        differences = self._roots * np.array([full, full + truncation, evolution, time])
        norms = np.sqrt(np.vecdot(differences, differences)) / self._norm_of(self.exact[0])
        return dict(zip(BUDGET, norms.tolist(), strict=True))

    @cached_property
    def norm_matrix(self) -> Array:
        return norm_matrix(self.solution.space)

    @property
    def _times(self) -> Array:
        """Times at which the constants use the stiffness, as for the cross-grid defects."""
        return self.final_time * (_QUARTERS[:1] if self.solution.system.autonomous else _QUARTERS)

    @cached_property
    def coercivity(self) -> float:
        """c_A of eq:discrete_coercivity: the least A_q(t; z, z) / || z ||_{1,q}^2."""
        return min(_find_eigenvalue(self.solution.system.stiffness(t), 0, self.norm_matrix) for t in self._times)

    @cached_property
    def mass_constant(self) -> float:
        """c_{0,q} of eq:mass_lower_bound: 1 / lambda_max of the mass of the retained functions on the grid."""
        values = self.run_bound.functions.trial @ self.solution.space.transform
        return 1.0 / _find_eigenvalue(values.T @ (self.grid.weights.ravel()[:, None] * values), -1)

    @cached_property
    def diffusion_bounds(self) -> tuple[float, float]:
        """a_0 and a_1: least and largest diffusion at the assembly nodes."""
        values = self.solution.problem.diffusion(self.solution.space.quadrature.nodes, _QUARTERS * self.final_time)
        return float(values.min()), float(values.max())

    @property
    def semidiscrete_constant(self) -> float:
        """C_sd of lem:semidiscrete_error, from c_A, c_{0,q}, a_1 and T.

        Young's inequality with c_A / 2 gives || e_r ||_q <= eta_0 + (3 / c_A)^{1/2} (E_t + a_1 T^{1/2} E_sp + eta_q),
        and eta_0 <= E_sp.
        """
        scale, mass = np.sqrt(3.0 / self.coercivity), np.sqrt(self.mass_constant)
        largest = self.diffusion_bounds[1]
        return float(max(1.0 + (1.0 + largest * np.sqrt(self.final_time) * scale) / mass, scale / mass))

    @property
    def quadrature_residual(self) -> float:
        """eta_q of eq:quadrature_residual, of the spectral reference u.

        At each time it is sup_z [ (u_t, z)_q + A_q(t; u, z) - (f, z)_q ] / || z ||_{1,q} over the retained space.
        """
        rule = TimeRule.between(np.linspace(0.0, self.final_time, RESIDUAL_INTERVALS + 1))
        space, problem, reference = self.solution.space, self.solution.problem, self.known.solution
        grid = TensorGrid.of_rule(self.solution.discretisation.quadrature, problem.dimension)
        data, (states, rates) = ProblemData.of(problem, grid, rule.times), reference.at(rule.times)
        basis, count = SampledBasis(reference.along(grid.axis_rule[0]), grid), len(rule.times)
        defect = space.project((basis.evaluate(rates) - data.source).reshape(count, -1))
        for axis, flux in enumerate(data.flux_of(basis.gradient(states))):
            defect += (flux.reshape(count, -1) * space.quadrature.weights) @ space.gradients[axis]
        return float(np.sqrt(rule.weights @ _dual_norm(self.norm_matrix, defect) ** 2))

    @property
    def midpoint_constant(self) -> float:
        """Return Theta_IM of eq:im_residual_explicit: max |alpha'''| / 24 + max || K || max |alpha''| / 8."""
        along = Reconstruction(self.knots.times, self.knots.coefficients, lambda nodes: [(nodes, nodes)])
        norm = max(_find_eigenvalue(self.solution.system.stiffness(t), -1) for t in self._times)
        second, third = (np.linalg.norm(along.derivative(order), axis=1).max() for order in (2, 3))
        return float(third / 24.0 + norm * second / 8.0)


def compute_retained_error(problem: Problem, run: Discretisation, solved: Callable[..., tuple[Array, ...]]) -> float:
    """Return || u - P u || / || u || in the space of `run` on its validation rule.  `solved` gives u - u_b on grids."""
    features = problem.domain.features(run.dictionary, run.seed)
    trial = trial_functions(problem.domain, features, problem.domain.quadrature(run.quadrature))
    space = retain(trial, weighted_svd(trial), run.tau)
    grid = TensorGrid.of_rule(run.validation, problem.dimension)
    nodal, exact = solved(TensorGrid.of_rule(run.quadrature, problem.dimension), grid)
    projected = space.project(nodal)
    nodes = as_box(problem.domain).from_unit(grid.nodes)
    difference, weights = space.evaluate(nodes, projected) - exact, grid.weights.ravel()
    return float(np.sqrt(difference**2 @ weights / (exact**2 @ weights)))


def norm_matrix(space: RetainedSpace) -> Array:
    """Return I + sum_l G_l^T W G_l, the matrix (r, r) of the norm || z ||_{1,q}^2."""
    return np.eye(space.rank) + weighted_gram(space.gradients, space.quadrature.weights)


def dual_seminorm(space: RetainedSpace, norm: Array, nodal: Array) -> Array:
    """Return || g ||_{-1,q,r} of eq:discrete_dual_norm for nodal values g, (..., Q) -> (...), and `norm_matrix`."""
    return _dual_norm(norm, space.project(nodal))


def _dual_norm(norm: Array, functional: Array) -> Array:
    """Return sup_z f . z / || z ||_{1,q} for coefficients f (..., r)."""
    solved = np.linalg.solve(norm, functional[..., None])[..., 0]
    return np.asarray(np.sqrt(np.sum(functional * solved, axis=-1)))


# one eigenvalue takes a part of the time of all
def _find_eigenvalue(matrix: Array, place: int, norm: Array | None = None) -> float:
    """Return the eigenvalue at a place in increasing order."""
    places = [place % len(matrix)] * 2
    return float(scipy.linalg.eigh(matrix, norm, eigvals_only=True, subset_by_index=places)[0])


OF_RUN: dict[str, Callable[[Certified], float]] = {
    "error_bound": lambda run: run.bound.value / run.norm_of_bound,
    "error_bound_absolute": lambda run: run.bound.value,
    "error_bound_initial": lambda run: run.bound.initial**0.5 / run.norm_of_bound,
    "error_bound_residual": lambda run: run.bound.residual**0.5 / run.norm_of_bound,
    "error_bound_estimated": lambda run: (run.bound.time_rule + run.bound.unresolved) ** 0.5 / run.norm_of_bound,
    "error_indicator": lambda run: run.bound.value / run.norm,
    "error_estimate": lambda run: run.l2_norm(run.missing) / run.norm,
    "error_lower": lambda run: run.interval[0],
    "error_upper": lambda run: run.interval[1],
    "diffusion_min": lambda run: run.diffusion_bounds[0],
    "diffusion_max": lambda run: run.diffusion_bounds[1],
    **{name: lambda run, name=name: run.budget[name] for name in BUDGET},  # type: ignore[misc]
    **{name: attrgetter(name) for name in CONSTANTS if not name.startswith("diffusion")},
}
"""Function of the run for each name in `CERTIFICATES` and `_PARTS`."""


def select_certificates(record: Iterable[str]) -> tuple[str, ...]:
    """Return the certificates among the names in `record`."""
    return tuple(name for name in record if name in CERTIFICATES)


def find_certificates(problem: Problem, final_time: float) -> tuple[str, ...]:
    """Return the names in `FREE` that `problem` has."""
    referenced = problem.exact is not None
    return tuple(name for name in FREE if _find_reason(name, problem, final_time, referenced=referenced) is None)


def check_certificates(record: Iterable[str], problem: Problem, final_time: float) -> None:
    """Raise StudyError if `record` names a certificate that the problem does not have."""
    for name in select_certificates(record):
        reason = _find_reason(name, problem, final_time, referenced=True)
        if reason is not None:
            raise StudyError(f"`record` must leave out {name} for {reason} (output.record)")


def _find_reason(name: str, problem: Problem, final_time: float, referenced: bool) -> str | None:
    """Return why the problem does not have a certificate.  `referenced`: a solution to compare with exists."""
    domain = problem.domain
    if not isinstance(domain, (Box, UnitCube)) or domain.periods():
        return "a problem on another domain than a box, or with a periodic direction"
    if name in CONSTANTS and not (problem.plain and isinstance(domain, UnitCube)):
        return "a problem with another domain, faces, or terms than scalar diffusion on the unit cube"
    if not problem.is_linear and name in LINEAR:
        return "a problem that is not linear: only error_indicator is known"
    if problem.is_linear and name not in LINEAR:
        return "a linear problem, which has error_bound"
    if name not in CONSTANTS and _has_inflow(problem, final_time):
        return (
            "a problem with a negative transfer or advection into the domain through a face without Dirichlet data, "
            "transfer + b . n / 2 < 0"
        )
    return None if referenced or name not in BY_EXACT else "a problem without exact solution"


@lru_cache(maxsize=8)  # each certificate of a problem asks
def _has_inflow(problem: Problem, final_time: float) -> bool:
    """Return True if transfer + b . n / 2 is negative on a natural face, so that errors may grow there."""
    if not problem.faces:
        return False
    box, grid = as_box(problem.domain), TensorGrid(problem.dimension, FACE_POINTS)
    times = final_time * np.append(GOLDEN * np.arange(FACE_TIMES) % 1.0, 1.0)
    for face in problem.faces:
        axis, side = DIRECTIONS.index(face.face[0]), int(face.face[1])
        nodes, terms = list_face_nodes(box, grid, axis, side), [np.zeros(1)]
        if problem.advection is not None:
            terms.append((2 * side - 1) * problem.advection[axis](nodes, times) / 2.0)
        if face.transfer is not None:
            terms.append(face.transfer(nodes, times))
        # of the terms, which may cancel: in other units all of them are as small as rounding
        largest = sum(float(np.abs(term).max()) for term in terms)
        if float(sum(terms[1:], start=terms[0]).min()) < -_ROUNDING * largest:
            return True
    return False
