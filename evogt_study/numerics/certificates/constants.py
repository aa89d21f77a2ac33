"""The constants of the paper's error estimate (thm:full_error), for one retained space and one rule."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from evogt_study.numerics.certificates.problem_data import ProblemData
from evogt_study.numerics.certificates.reconstruction import Reconstruction
from evogt_study.numerics.certificates.spectral_space import Sampled
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.retained_space import RetainedSpace
from evogt_study.pde.galerkin.stiffness import weighted_gram
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Rule

LOOKED_AT = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Parts of the final time at which the stiffness is looked at, as for the cross-grid defects."""


def norm_matrix(space: RetainedSpace) -> Array:
    """I + sum_l G_l^T W G_l, whose form is || z ||_{1,q}^2, (r, r)."""
    return np.eye(space.rank) + weighted_gram(space.gradients, space.quadrature.weights)


def coercivity(system: GalerkinSystem, norm: Array, final_time: float) -> float:
    """c_A of eq:discrete_coercivity: the least A_q(t; z, z) / || z ||_{1,q}^2, over times `LOOKED_AT`."""
    times = LOOKED_AT[:1] if system.autonomous else LOOKED_AT
    # the least eigenvalue alone takes a part of the time of all
    first = [0, 0]
    return min(
        float(scipy.linalg.eigh(system.stiffness(t), norm, eigvals_only=True, subset_by_index=first)[0])
        for t in times * final_time
    )


def mass_constant(values: Array, weights: Array) -> float:
    """c_{0,q} of eq:mass_lower_bound: 1 / lambda_max of the mass of the retained functions, (Q, r), on a finer rule."""
    # the largest alone, as above
    largest = [values.shape[1] - 1] * 2
    mass = values.T @ (weights[:, None] * values)
    return 1.0 / float(scipy.linalg.eigh(mass, eigvals_only=True, subset_by_index=largest)[0])


def quadrature_residual(
    problem: Problem, space: RetainedSpace, norm: Array, solution: Reconstruction, rule: Rule, times: Array
) -> Array:
    """R_q(t) of eq:quadrature_residual at `times`, (T,): how far `solution`, u - u_b, is from solving the system.

    sup_z [ (u_t, z)_q + A_q(t; u, z) - (f, z)_q ] / || z ||_{1,q} over the retained space, with the rule of assembly.
    """
    grid = TensorGrid.of_rule(rule, problem.dimension)
    data = ProblemData.of(problem, grid, times)
    states, rates = solution.at(times)
    basis = Sampled(solution.along(grid.along[0]), grid)
    remainder = (basis.evaluate(rates) - data.source).reshape(len(times), -1)
    defect = space.project(remainder)
    for axis, flux in enumerate(data.flux_of(basis.gradient(states))):
        defect += (flux.reshape(len(times), -1) * space.quadrature.weights) @ space.gradients[axis]
    # the sup over z is d . N^{-1} d for the norm matrix N: no maximisation is needed
    return np.asarray(np.sqrt(np.sum(defect * np.linalg.solve(norm, defect.T).T, axis=1)))


def midpoint_constant(system: GalerkinSystem, trajectory: Reconstruction, final_time: float) -> float:
    """Theta_IM of eq:im_residual_explicit: max |alpha'''| / 24 + max || K || max |alpha''| / 8.

    The derivatives are those of the spline through the run's states, at its knots.
    """
    times = LOOKED_AT[:1] if system.autonomous else LOOKED_AT
    last = [len(system.initial) - 1] * 2
    norm = max(
        float(scipy.linalg.eigh(system.stiffness(t), eigvals_only=True, subset_by_index=last)[0])
        for t in times * final_time
    )
    second, third = (np.linalg.norm(trajectory.derivative(order), axis=1).max() for order in (2, 3))
    return float(third / 24.0 + norm * second / 8.0)
