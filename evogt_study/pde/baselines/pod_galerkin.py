"""POD-Galerkin: a reduced basis from snapshots of P1 elements (Kunisch and Volkwein 2001).

The basis needs the solution that it then approximates, or a first part of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.linalg

from evogt_study.errors import ProblemError
from evogt_study.pde.baselines.element_space import SparseMatrix
from evogt_study.pde.baselines.finite_elements import ElementSolution, p1_fem
from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid

_SMALLEST = 1e-14
"""Smallest eigenvalue of the snapshots, relative to the largest, that is not rounding."""


def check_linear(problem: Problem) -> None:
    """Raise ProblemError for a nonlinear reaction."""
    if isinstance(problem.reaction, NonlinearReaction):
        raise ProblemError("pod_galerkin must have a reaction that is linear in u")


def pod_galerkin(
    problem: Problem, unknowns: int, grid: TimeGrid, count: int, training_time: float, degree: int | None = None
) -> tuple[ElementSolution, dict[str, float]]:
    """Evolve the `count` leading modes of the states of `p1_fem` up to `training_time`.

    Return the solution in the elements, the number of modes, and CPU seconds of the basis and of the time steps.
    """
    start = time.process_time()
    whole = replace(grid, saved=tuple(range(grid.steps + 1)))
    full = p1_fem(problem, unknowns, whole, degree)
    system = full.make_system()
    modes = pod_modes(full.states[whole.observed_times <= training_time * (1.0 + 1e-12)], system.mass, count)
    middle = time.process_time()

    def march() -> Iterator[Array]:
        alpha, identity = modes.T @ (system.mass @ full.states[0]), np.eye(modes.shape[1])
        yield alpha
        for n, t in enumerate(grid.midpoints.tolist()):
            if n == 0 or not system.autonomous:
                K = -modes.T @ (system.jacobian(t, full.states[0]) @ modes)
                factors = scipy.linalg.lu_factor(identity + grid.dt / 2.0 * K)
            load = modes.T @ system.load(np.array([t]))[0]
            alpha = scipy.linalg.lu_solve(factors, alpha - grid.dt / 2.0 * (K @ alpha) + grid.dt * load)
            yield alpha

    states = grid.observe(march()) @ modes.T
    seconds = {"offline_seconds": middle - start, "online_seconds": time.process_time() - middle}
    solution = ElementSolution(problem, full.space, grid.observed_times, states)
    return solution, {"degrees_of_freedom": modes.shape[1], **seconds}


def pod_modes(states: Array, mass: SparseMatrix, count: int) -> Array:
    """Return the leading modes (n, r) of states (S, n), orthonormal in the mass."""
    eigenvalues, vectors = scipy.linalg.eigh(np.asarray(states @ (mass @ states.T)))
    kept = [k for k in reversed(range(len(eigenvalues))) if eigenvalues[k] > _SMALLEST * eigenvalues[-1] > 0.0][:count]
    if not kept:
        raise ProblemError("pod_galerkin must have snapshots that are not zero")
    return np.asarray(states.T @ (vectors[:, kept] / np.sqrt(eigenvalues[kept])))
