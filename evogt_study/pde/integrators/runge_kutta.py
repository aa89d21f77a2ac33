"""Implicit Runge-Kutta methods for alpha' + K(t) alpha + r(alpha, t) = b(t), by tableau (A, c) and closing weights.

    U_i = alpha^n + dt sum_j a_ij (b_j - K_j U_j - r_j(U_j)),    alpha^{n+1} = (1 - sum_i d_i) alpha^n + sum_i d_i U_i

with everything at t_n + c_j dt.  The closing needs no further product with K, which is large: d picks the last stage of
a stiffly accurate method, and is b^T A^{-1} otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

import numpy as np

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.pde.galerkin.assembly import MatrixInTime
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators.base import Integrator, Start
from evogt_study.pde.integrators.newton import ImplicitSteps
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory
from evogt_study.schema.parameters import parameter_field


@dataclass(frozen=True, eq=False)
class Tableau:
    """A method by its matrix A (s, s) and closing weights d (s,).  The nodes are c = A 1."""

    matrix: Array
    closing: Array

    @property
    def nodes(self) -> Array:
        return np.asarray(self.matrix.sum(axis=1))

    @property
    def groups(self) -> list[slice]:
        """Groups of stages that are solved together: single stages if A is lower triangular, else all."""
        count = len(self.matrix)
        one_by_one = not np.triu(self.matrix, 1).any()
        return [slice(i, i + 1) for i in range(count)] if one_by_one else [slice(0, count)]

    def times(self, grid: TimeGrid) -> Array:
        """Return the times of all stages, (steps, s)."""
        return np.asarray(grid.start + (np.arange(grid.steps)[:, None] + self.nodes) * grid.dt)


# by the monomials' moments: with three nodes the Vandermonde matrix is well-conditioned
def collocation(nodes: Array) -> Tableau:
    """Return the tableau of collocation at the nodes c: a_ij = int_0^{c_i} l_j, with Lagrange polynomials l_j."""
    powers = np.arange(len(nodes))
    inverse = np.linalg.inv(nodes[:, None] ** powers)
    matrix = nodes[:, None] ** (powers + 1) / (powers + 1) @ inverse
    weights = 1.0 / (powers + 1) @ inverse
    # with a last node of 1 the last stage is the new state. Else d = A^{-T} b, by which it follows from the stages
    # alone: their slopes, which K makes large, would lose digits
    return Tableau(matrix, np.eye(len(nodes))[-1] if nodes[-1] == 1.0 else np.linalg.solve(matrix.T, weights))


# the damping start of methods that are not L-stable (Rannacher): incompatible data decay at once
IMPLICIT_EULER = Tableau(np.ones((1, 1)), np.ones(1))


@dataclass(frozen=True)
class RungeKutta(Integrator):
    """An implicit Runge-Kutta method.  Its `start` may have half steps of the implicit Euler rule."""

    GENERAL = True
    tableau: ClassVar[Tableau]

    start: Start | None = parameter_field(
        "{ implicit_euler_half_steps = n } with an even n >= 2", Start.read, "first steps",
        "half steps of the implicit Euler rule", optional=True,
    )  # fmt: skip

    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        if self.start is None:
            return self.advance(system, grid)
        head, tail = self.start.split(grid)
        first = advance(IMPLICIT_EULER, system, head)
        states = dict(zip([step // 2 for step in head.observed], first.coefficients, strict=True))
        if tail is not None:
            whole, after = grid.steps - tail.steps, replace(system, initial=first.coefficients[-1])
            later = [step + whole for step in tail.observed]
            states |= dict(zip(later, self.advance(after, tail).coefficients, strict=True))
        return Trajectory(grid.observed_times, np.stack([states[step] for step in grid.observed]))

    def advance(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        return advance(self.tableau, system, grid)

    def times(self, grid: TimeGrid) -> Array:
        if self.start is None:
            return self.tableau.times(grid).ravel()
        head, tail = self.start.split(grid)
        later = [] if tail is None else [self.tableau.times(tail).ravel()]
        return np.concatenate([IMPLICIT_EULER.times(head).ravel(), *later])


def advance(tableau: Tableau, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
    """Return the observed states of the method of this tableau."""
    if not (system.linear and system.autonomous and system.symmetric):
        states = _by_solves(tableau, system, grid)
    else:
        states = _in_modes(tableau, system, grid)
    return Trajectory(grid.observed_times, states)


def _in_modes(tableau: Tableau, system: GalerkinSystem, grid: TimeGrid) -> Array:
    """Return the states in the eigenbasis of K, in which a step is one multiplication for each mode."""
    eigenvalues, basis = system.modes
    A, d, count = tableau.matrix, tableau.closing, len(tableau.matrix)
    # modes may grow, as a reaction makes them: refused is only what a stage cannot be solved for
    least = 1.0 + grid.dt * eigenvalues.min() * np.abs(np.linalg.eigvals(A)).max()
    if not least > 0.0:
        raise IndefiniteStiffnessError(f"I + dt A x K is not positive definite: least eigenvalue {least:.3g}")
    stages = np.eye(count) + grid.dt * eigenvalues[:, None, None] * A
    factor = 1.0 - d.sum() + np.linalg.solve(stages, np.ones((len(stages), count, 1)))[:, :, 0] @ d
    factor[eigenvalues == 0.0] = 1.0  # exactly, so that the mass is constant
    weights = np.einsum("i,rij->jr", d, np.linalg.solve(stages, np.broadcast_to(A, stages.shape)))
    loads = grid.dt * system.load(tableau.times(grid).ravel()) @ basis
    forcing = np.einsum("njr,jr->nr", loads.reshape(grid.steps, count, -1), weights)
    return recurrence(factor, forcing, system.initial, basis, grid)


# The stride depends on the grid only, and a stride never starts from an observed state: to the last bit, no state
# depends on which others are observed.
def recurrence(factor: Array, forcing: Array, initial: Array, basis: Array, grid: TimeGrid) -> Array:
    """Return the observed states (S, r) of alpha <- factor alpha + forcing[n] in modes, the columns of `basis`."""
    stride, powers, forced = in_strides(factor, forcing, math.isqrt(grid.steps))
    starts = [initial @ basis]
    for force in forced:
        starts.append(powers * starts[-1] + force)
    states, step, alpha = np.empty((len(grid.observed), len(factor))), 0, starts[0]
    for place, wanted in enumerate(grid.observed):
        block = min(wanted // stride, len(starts) - 1)
        if block * stride > step:
            step, alpha = block * stride, starts[block]
        for force in forcing[step:wanted]:
            alpha = factor * alpha + force
        step, states[place] = wanted, alpha
    # one product for each state: in a product of several the rounding of one depends on how many they are
    return np.asarray((basis @ states[:, :, None])[:, :, 0])


def in_strides(factor: Array, forcing: Array, stride: int) -> tuple[int, Array, Array]:
    """Combine `stride` steps of the recurrence: return stride, factor^stride, and the forcing of strides."""
    powers = np.empty((stride + 1, len(factor)))
    powers[0], powers[1:] = 1.0, factor
    powers = powers.cumprod(axis=0)
    # high powers of a growing mode overflow
    if stride == 1 or not np.isfinite(powers[-1]).all():
        return 1, factor, forcing
    weights, whole = np.ascontiguousarray(powers[-2::-1]), len(forcing) // stride * stride
    return stride, powers[-1], np.einsum("jr,njr->nr", weights, forcing[:whole].reshape(-1, stride, len(factor)))


def _by_solves(tableau: Tableau, system: GalerkinSystem, grid: TimeGrid) -> Array:
    """Return the states stage by stage, or with all coupled stages at once."""
    times = tableau.times(grid)
    # K is kept for as many times as a step has: Newton's iterations, and slopes after their stages, use it again
    stiffness: MatrixInTime = lru_cache(maxsize=len(tableau.matrix))(system.stiffness)
    if system.autonomous:
        constant = system.stiffness(0.0)
        stiffness = lambda t: constant  # noqa: E731
    loads = dict(zip(times.ravel().tolist(), system.load(times.ravel()), strict=True))
    at_hand = replace(system, stiffness=stiffness, load=lambda at: np.stack([loads[t] for t in at.tolist()]))
    # to rounding, since the closing of a method may enlarge what Newton's method leaves
    steps = ImplicitSteps(at_hand, tolerance=1e-15)
    return grid.observe(accumulate(times, lambda z, at: steps.step(tableau, z, at, grid.dt), initial=system.initial))
