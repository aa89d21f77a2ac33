"""A bound of the error in the energy norm from the residual, without the exact solution.

For the reconstruction v of a run, e = u - v, and the residual R(w) = F(w) - (v_t, w) - B(v, w),

    || e(T) ||^2 + int_0^T || sqrt(A) grad e ||^2 dt  <=  || e(0) ||^2 + int_0^T || R ||_{-1,A}^2 dt

where (b . grad w - c w, w) + <transfer w, w> >= 0 for all w: where c + div b / 2 <= 0, and transfer + b . n / 2 >= 0
on natural faces.  With c + div b / 2 <= g the right-hand side is weighted by exp(2 g (T - t)).  Without advection and
reaction the difference of both sides is int_0^T || e_t ||_{-1,A}^2 dt, which is small for errors that oscillate in
space.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evogt_study.pde.certificates.problem_data import ProblemData, UnitBox
from evogt_study.pde.certificates.reconstruction import Reconstruction, TimeRule
from evogt_study.pde.certificates.residual_norm import DualNorm, in_a_cube, on_a_line
from evogt_study.pde.certificates.spectral_space import (
    Ends,
    Sampled,
    SpectralSpace,
    TensorGrid,
    apply_matrices,
    interpolants,
)
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.numerics.arrays import Array

VALUES_AT_ONCE = 1 << 18
"""Values of a function at several times in one block (2 MB), so that they stay in cache."""
DECAY = 0.9
"""Part of the decay that counts, because the diffusion may be smaller between the nodes."""
LEAST_DECAY = 0.05
"""Part of the final time in which the weight for problems without Dirichlet face decays: their bound is larger by the
factor exp(0.05), and errors of the mean count 20 times."""


@dataclass(frozen=True, eq=False)
class EnergyBound:
    """The bound, and the squares of its parts."""

    initial: float
    residual: float
    time_rule: float
    unresolved: float
    representer: Array

    @property
    def value(self) -> float:
        """The bound of the energy norm of the error."""
        return math.sqrt(self.initial + self.residual + self.time_rule + self.unresolved)

    @property
    def resolution(self) -> float:
        """Part of the squared bound that the grid does not resolve."""
        return self.unresolved / max(self.initial + self.residual, sys.float_info.min)


@dataclass(frozen=True)
class Growth:
    """Growth rate of errors by the terms without diffusion."""

    rate: float = 0.0
    mass: float = 0.0
    ends: tuple[Ends, ...] = ()

    def weights(self, times: Array) -> Array:
        """Return exp(2 g (T - t)) at times.  The last time is T."""
        return np.asarray(np.exp(2.0 * self.rate * (times[-1] - times)))


def growth_of(problem: Problem, grid: TensorGrid, times: Array, decay: bool = False) -> Growth:
    """The growth of errors of a linear problem, by the values at grid nodes and the polynomials through them.

    decay: the rate may be negative, by || sqrt(A) grad e ||^2 >= lambda || e ||^2.
    The bound is then of || e(T) || alone.
    """
    box = UnitBox.of(problem.domain)
    dirichlet = any(map(any, box.ends))
    if problem.advection is None and problem.reaction is None and dirichlet and not decay:
        return Growth(ends=box.ends)
    data = ProblemData.of(problem, grid, times)
    zero = np.zeros((1, *grid.shape))
    upper = zero if data.reaction is None else data.reaction
    for axis, b in enumerate(data.advection or ()):
        matrices = [np.eye(len(grid.along[0]))] * grid.dimension
        matrices[axis] = _differentiation(grid)
        upper = upper + apply_matrices(matrices, b) / 2.0
    most = float(upper.max())
    if dirichlet:
        return Growth(most - _decay(data, box.ends) if decay else max(most, 0.0), ends=box.ends)
    # the mean does not decay by diffusion then: a little of the weight does it instead
    rate = max(most + LEAST_DECAY / float(times[-1]), 0.0)
    return Growth(rate, rate - most, box.ends)


def _decay(data: ProblemData, ends: tuple[Ends, ...]) -> float:
    """Return half of a lower bound of the least eigenvalue of -div(A grad), by the least value at the nodes."""
    d, diffusion = data.grid.dimension, data.diffusion
    least = float(diffusion.min())
    if diffusion.ndim > d + 1:
        least = float(np.linalg.eigvalsh(np.moveaxis(diffusion, (1, 2), (-2, -1))).min())
    # sin(pi x), or sin(pi x / 2) with one Dirichlet end
    squares = sum((0.25 * sum(each) ** 2) * math.pi**2 for each in ends)
    return 0.5 * DECAY * max(least, 0.0) * squares


def _differentiation(grid: TensorGrid) -> Array:
    """Return the matrix (Q, Q) from values at the nodes of one direction to derivatives of their interpolant."""
    _, slopes = interpolants(grid.points, TensorGrid(1, grid.points).along[0], 1)
    return np.kron(np.eye(grid.panels), grid.panels * slopes)


def energy_bound(
    solution: Reconstruction, rule: TimeRule, grid: TensorGrid, data_of: Callable[[slice], ProblemData],
    growth: Growth, end: tuple[Array, Array] | None = None,
) -> EnergyBound:  # fmt: skip
    """The bound for `solution` by the data at blocks of times; `end`: another state and rate for the representer."""
    # in blocks of times, so that the values of a large reference stay in cache
    size, initial = max(1, VALUES_AT_ONCE // grid.weights.size), 0.0
    norms = []
    for start in range(0, len(rule.times), size):
        block = data_of(slice(start, start + size))
        initial = initial if start else _initial(solution, block)
        states, rates = solution.at(block.times)
        # this time has no weight in the integral: it is there for the representer alone
        if end is not None and start + size >= len(rule.times):
            states[-1], rates[-1] = end
        norms.append(_residual(solution, states, rates, block, growth))
    weights = growth.weights(rule.times)
    squares = weights * np.concatenate([norm.squares for norm in norms])
    unresolved = weights * np.concatenate([norm.unresolved for norm in norms])
    fine, coarse = float(rule.weights @ squares), float(rule.coarse @ squares)
    return EnergyBound(
        initial=_or_inf(float(np.exp(2.0 * growth.rate * rule.times[-1])) * initial),
        residual=_or_inf(fine),
        time_rule=_or_inf(abs(fine - coarse)),
        unresolved=_or_inf(float(rule.weights @ unresolved)),
        representer=norms[-1].representer,
    )


def _or_inf(square: float) -> float:
    """Return infinity for NaN, which comes from numbers outside their range."""
    return math.inf if math.isnan(square) else square


def _initial(solution: Reconstruction, data: ProblemData) -> float:
    run = Sampled(solution.along(data.grid.along[0]), data.grid)
    difference = (run.evaluate(solution.states[0]) - data.initial).ravel()
    return float(difference**2 @ data.grid.weights.ravel())


def _residual(solution: Reconstruction, states: Array, rates: Array, data: ProblemData, growth: Growth) -> DualNorm:
    """Return the norm of the residual of states and their time derivatives, (T, m, ..., m) each."""
    if solution.dimension > 1:
        space = SpectralSpace(solution.dimension, data.grid.points - 2, growth.ends)
        return in_a_cube(data.moments(solution.along, states, rates, space), data, space, growth.mass)
    run = Sampled(solution.along(data.grid.along[0]), data.grid)
    gradient = run.gradient(states)
    remainder = data.remainder(run, states, gradient) - run.evaluate(rates)
    given: list[Array | float] = [0.0, 0.0]
    for face in data.faces:
        given[face.side] = face.term(solution.along, run, states)
    flux, (ends,) = data.flux_of(gradient)[0], growth.ends
    diffusion = data.diffusion if data.diffusion.ndim == data.source.ndim else data.diffusion[:, 0, 0]
    return on_a_line(remainder, flux, diffusion, data.grid, ends, (given[0], given[1]), growth.mass)
