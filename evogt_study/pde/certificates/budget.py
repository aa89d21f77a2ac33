"""The final error of a run split by its causes (eq:error_split_retained), and constants of the theory.

On a rule with weights w

    u - u_N = (u - v_N) + (v_N - P u) + (P u - u_semi) + (u_semi - u_N)

v_N is the best approximation of u in the span of all features, P u the quadrature-orthogonal projection on the retained
space, u_semi the semidiscrete solution in it: full space, truncation, evolution and quadrature, time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from evogt_study.pde.certificates.problem_data import ProblemData, UnitBox
from evogt_study.pde.certificates.reconstruction import Reconstruction
from evogt_study.pde.certificates.spectral_space import Sampled, TensorGrid
from evogt_study.pde.galerkin.problem import Problem, Tensor
from evogt_study.pde.galerkin.retained_space import RetainedSpace, retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.stiffness import weighted_gram
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature, Rule
from evogt_study.pde.pipeline import Discretisation

SMALLEST = 1e-14
"""Least relative size of a direction in the space of all features.  Smaller directions are rounding."""
BUDGET = ("error_full_space", "error_retained", "error_evolution", "error_time")
"""Names of the variables that record the split."""
_LOOKED_AT = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Parts of the final time at which the constants use the stiffness."""


@dataclass(frozen=True, eq=False)
class ErrorBudget:
    """The four differences at the nodes, (Q,) each, with the sum u - u_N, roots of the weights (Q,), and || u ||."""

    full_space: Array
    truncation: Array
    evolution: Array
    time: Array
    roots: Array
    norm: float

    @cached_property
    def parts(self) -> dict[str, float]:
        """Relative norms by variable.  error_retained is the norm of u - P u, so it decreases with tau."""
        retained = self.full_space + self.truncation
        differences = self.roots * np.array([self.full_space, retained, self.evolution, self.time])
        norms = np.sqrt(np.vecdot(differences, differences)) / self.norm
        return dict(zip(BUDGET, norms.tolist(), strict=True))


def error_budget(
    exact: Array, weighted: Array, roots: Array, states: tuple[Array, Array, Array], norm: float
) -> ErrorBudget:
    """Split the final error u - u_b (Q,).

    weighted: all features at the nodes times the weights' roots (Q, N); states: P u, semidiscrete and final, (Q,) each.
    """
    best = weighted @ _least_squares(weighted, roots * exact) / roots
    projected, semidiscrete, final = states
    return ErrorBudget(exact - best, best - projected, projected - semidiscrete, semidiscrete - final, roots, norm)


def _least_squares(weighted: Array, values: Array) -> Array:
    """Return the coefficients of the best approximation, by a QR factorisation of the weighted trial functions."""
    # R of [A b] has all of the problem, in N + 1 rows instead of Q: the SVD inside lstsq is of that
    augmented = np.column_stack([weighted, values])
    (triangle,) = scipy.linalg.qr(augmented, mode="r", overwrite_a=True, check_finite=False)
    count = weighted.shape[1]
    return np.asarray(scipy.linalg.lstsq(triangle[:count, :count], triangle[:count, count], cond=SMALLEST)[0])


def compute_retained_error(problem: Problem, run: Discretisation, solved: Callable[..., tuple[Array, ...]]) -> float:
    """Return || u - P u || / || u || in the space of `run` on its validation rule.  `solved` gives u - u_b on grids."""
    features = problem.domain.features(run.dictionary, run.seed)
    trial = trial_functions(problem.domain, features, problem.domain.quadrature(run.quadrature))
    space = retain(trial, weighted_svd(trial), run.tau)
    grid = TensorGrid.of_rule(run.validation, problem.dimension)
    nodal, exact = solved(TensorGrid.of_rule(run.quadrature, problem.dimension), grid)
    projected = space.project(nodal)
    nodes = UnitBox.of(problem.domain).nodes(grid)
    difference, weights = space.evaluate(nodes, projected) - exact, grid.weights.ravel()
    return float(np.sqrt(difference**2 @ weights / (exact**2 @ weights)))


def norm_matrix(space: RetainedSpace) -> Array:
    """Return I + sum_l G_l^T W G_l, the matrix (r, r) of the norm || z ||_{1,q}^2."""
    return np.eye(space.rank) + weighted_gram(space.gradients, space.quadrature.weights)


def coercivity(system: GalerkinSystem, norm: Array, final_time: float) -> float:
    """Return c_A of eq:discrete_coercivity: the least A_q(t; z, z) / || z ||_{1,q}^2 at the times `_LOOKED_AT`."""
    times = _LOOKED_AT[:1] if system.autonomous else _LOOKED_AT
    # the least eigenvalue alone takes a part of the time of all
    first = [0, 0]
    return min(
        float(scipy.linalg.eigh(system.stiffness(t), norm, eigvals_only=True, subset_by_index=first)[0])
        for t in times * final_time
    )


def mass_constant(values: Array, weights: Array) -> float:
    """Return c_{0,q} of eq:mass_lower_bound: 1 / lambda_max of the mass of retained functions (Q, r)."""
    largest = [values.shape[1] - 1] * 2
    mass = values.T @ (weights[:, None] * values)
    return 1.0 / float(scipy.linalg.eigh(mass, eigvals_only=True, subset_by_index=largest)[0])


def dual_seminorm(space: RetainedSpace, norm: Array, nodal: Array) -> Array:
    """Compute || g ||_{-1,q,r} of eq:discrete_dual_norm for nodal values g, (..., Q) -> (...).

    norm: the `norm_matrix` of the space.
    """
    return _dual_norm(norm, space.project(nodal))


def _dual_norm(norm: Array, functional: Array) -> Array:
    """Return sup_z f . z / || z ||_{1,q} for coefficients f (..., r)."""
    solved = np.linalg.solve(norm, functional[..., None])[..., 0]
    return np.asarray(np.sqrt(np.sum(functional * solved, axis=-1)))


def diffusion_bounds(problem: Problem, rule: Quadrature, final_time: float) -> tuple[float, float]:
    """Return a_0 and a_1: least and largest diffusion at the nodes, at the times `_LOOKED_AT`."""
    assert not isinstance(problem.diffusion, Tensor)  # noqa: S101  # only plain problems have constants
    values = problem.diffusion(rule.nodes, _LOOKED_AT * final_time)
    return float(values.min()), float(values.max())


def semidiscrete_constant(coercivity: float, mass: float, largest: float, final_time: float) -> float:
    """C_sd of lem:semidiscrete_error, from c_A, c_{0,q}, a_1 and T.

    Young's inequality with c_A / 2 gives || e_r ||_q <= eta_0 + (3 / c_A)^{1/2} (E_t + a_1 T^{1/2} E_sp + eta_q), and
    eta_0 <= E_sp.
    """
    scale = np.sqrt(3.0 / coercivity)
    return float(max(1.0 + (1.0 + largest * np.sqrt(final_time) * scale) / np.sqrt(mass), scale / np.sqrt(mass)))


def quadrature_residual(
    problem: Problem, space: RetainedSpace, norm: Array, solution: Reconstruction, rule: Rule, times: Array
) -> Array:
    """R_q(t) of eq:quadrature_residual for `solution`, u - u_b, with the rule of assembly, (T,).

    sup_z [ (u_t, z)_q + A_q(t; u, z) - (f, z)_q ] / || z ||_{1,q} over the retained space.
    """
    grid = TensorGrid.of_rule(rule, problem.dimension)
    data = ProblemData.of(problem, grid, times)
    states, rates = solution.at(times)
    basis = Sampled(solution.along(grid.along[0]), grid)
    remainder = (basis.evaluate(rates) - data.source).reshape(len(times), -1)
    defect = space.project(remainder)
    for axis, flux in enumerate(data.flux_of(basis.gradient(states))):
        defect += (flux.reshape(len(times), -1) * space.quadrature.weights) @ space.gradients[axis]
    return _dual_norm(norm, defect)


def midpoint_constant(system: GalerkinSystem, trajectory: Reconstruction, final_time: float) -> float:
    """Return Theta_IM of eq:im_residual_explicit: max |alpha'''| / 24 + max || K || max |alpha''| / 8, at the knots."""
    times = _LOOKED_AT[:1] if system.autonomous else _LOOKED_AT
    last = [len(system.initial) - 1] * 2
    norm = max(
        float(scipy.linalg.eigh(system.stiffness(t), eigvals_only=True, subset_by_index=last)[0])
        for t in times * final_time
    )
    second, third = (np.linalg.norm(trajectory.derivative(order), axis=1).max() for order in (2, 3))
    return float(third / 24.0 + norm * second / 8.0)
