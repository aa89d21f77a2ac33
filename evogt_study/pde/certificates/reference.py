"""A spectral solution of a linear problem with its own bound, which certifies the final errors of all its runs.

For any u_ref with || u - u_ref || <= delta at the final time

    | || u - u_N || - || u_ref - u_N || | <= delta

so that one u_ref, whose delta is its own bound in the energy norm, encloses the error of every run of the problem.  It
is a Galerkin solution in `SpectralSpace`, advanced by the Radau IIA method of order five.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy  # which imports its parts when they are first used: workers would pay 0.06 s for scipy.sparse at start

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.pde.certificates.bound import bound_energy, bound_growth
from evogt_study.pde.certificates.functions import (
    ProblemData,
    Reconstruction,
    SampledBasis,
    SpectralSpace,
    TensorGrid,
    TimeRule,
    is_seen_in_space,
    is_seen_in_time,
)
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.box import to_box
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators.runge_kutta import advance
from evogt_study.pde.integrators.tableaus import RadauIIA3
from evogt_study.pde.numerics import Array, TimeGrid

OVERSAMPLED = 1.25
"""Nodes for each mode in the integrals of the Galerkin system."""
_MODES = {1: (96, 160, 256), 2: (32, 48, 64), 3: (20, 28, 36)}
"""Modes per direction, tried in this order."""
_REFERENCE_STEPS = {1: (40, 1280), 2: (30, 120), 3: (20, 80)}
"""First and largest number of steps.  They grow while this halves the bound."""
GRADED = 2
"""Power of n / steps that the times of the steps are: where the initial value does not meet the equation on the
boundary, the bound is 20 to 30 times smaller than with equal steps; otherwise it is at most 4 times larger."""
SMALL = 2e-8
"""Relative bound at which a reference is accurate enough: 5 % of an error of 8e-7."""

STAGES: Array = RadauIIA3.tableau.matrix
"""Matrix of the method.  Its last row contains the weights."""
# c_3 = 1 exactly; the sum of the row is 1 only up to rounding
_NODES = np.append(RadauIIA3.tableau.nodes[:-1], 1.0)
_TOLERANCE = 1e-12
"""Relative tolerance of the three stages of a step together."""
_MOST_ITERATIONS = 100
_STEPS, _MAX_STEPS = 12, 3072
"""First and largest number of steps of `march_semidiscrete`."""
STEADY = 1e-11
"""Relative change of the state at which it counts as free of the time steps' error: below usual errors of runs."""


@dataclass(frozen=True, eq=False)
class SpectralReference:
    """u_ref - u_b, and delta, which bounds || u - u_ref || at the final time."""

    solution: Reconstruction
    delta: float

    def final(self, grid: TensorGrid) -> Array:
        """Return the values at the final time, (Q, ..., Q)."""
        return SampledBasis(self.solution.along(grid.axis_rule[0]), grid).evaluate(self.solution.states[-1])

    def pack(self) -> Array:
        """Return the reference as one array (K + 2, n^d + 1), which workers can share."""
        states = self.solution.states.reshape(len(self.solution.knots), -1)
        return np.vstack([np.full(states.shape[1] + 1, self.delta), np.column_stack([self.solution.knots, states])])

    @staticmethod
    def unpack(array: Array, domain: Domain) -> SpectralReference:
        """Return the reference from its packed array, for a problem on `domain`."""
        d = domain.dimension
        space = SpectralSpace(d, round((array.shape[1] - 1) ** (1.0 / d)), to_box(domain).ends)
        states = array[1:, 1:].reshape(-1, *space.shape)
        return SpectralReference(Reconstruction(array[1:, 0], states, space.along), float(array[0, 0]))


def find_reference(problem: Problem, final_time: float) -> SpectralReference:
    """Return the first reference with a bound of at most `SMALL` || u_ref(T) ||, or the one with the least bound."""
    best: SpectralReference | None = None
    first, most = _REFERENCE_STEPS[problem.dimension]
    steps = first
    while not _is_seen(
        problem, _choose_grid(problem.dimension, _MODES[problem.dimension][0]), _grade_knots(final_time, steps)
    ):
        steps *= 2
        if steps > most:  # then there is no bound
            steps = most = first
            break
    for modes in _MODES[problem.dimension]:
        space, before = SpectralSpace(problem.dimension, modes, to_box(problem.domain).ends), np.inf
        least = np.inf if best is None else best.delta
        while True:
            found = solve_reference(problem, final_time, space, steps)
            if best is None or found.delta < best.delta:
                best = found
            wanted = SMALL * float(np.linalg.norm(found.solution.states[-1]))
            if found.delta <= wanted:
                return found
            if 2 * steps > most or not found.delta < 0.5 * before:
                break
            # of order five: twice the steps do not suffice
            before, steps = found.delta, (4 if found.delta > 32.0 * wanted and 4 * steps <= most else 2) * steps
        # of data with jumps or layers more modes see little more
        if np.isfinite(least) and best.delta > 0.5 * least:
            break
    assert best is not None  # noqa: S101  # there is a level for each dimension
    return best


def solve_reference(problem: Problem, final_time: float, space: SpectralSpace, steps: int) -> SpectralReference:
    """Return the spectral solution in `space` with `steps` time steps, and its bound on a finer grid."""
    knots, grid = _grade_knots(final_time, steps), _choose_grid(space.dimension, space.modes)
    solution, rule = Reconstruction(knots, _march(problem, knots, space), space.along), TimeRule.between(knots)
    # else nothing is known of what the grid or the steps do not see
    in_space = grid.dimension == 1 or is_seen_in_space(problem, grid, final_time)
    if not (in_space and _is_seen(problem, grid, knots)):
        return SpectralReference(solution, np.inf)
    # of the final time alone, so that errors may decay
    growth = bound_growth(problem, grid, rule.times, decay=True)
    return SpectralReference(
        solution, bound_energy(solution, rule, grid, partial(_evaluate, problem, grid, rule), growth).value
    )


def _grade_knots(final_time: float, steps: int) -> Array:
    return np.asarray(final_time * np.linspace(0.0, 1.0, steps + 1) ** GRADED)


def _choose_grid(dimension: int, modes: int) -> TensorGrid:
    points = int(1.5 * modes)
    # panels on a line, whose last modes tell what the grid does not resolve (`measure_on_line`)
    return TensorGrid(1, 16, -(-points // 8)) if dimension == 1 else TensorGrid(dimension, points)


def _is_seen(problem: Problem, grid: TensorGrid, knots: Array) -> bool:
    """Return True if steps between the knots resolve all changes in time."""
    rule = TimeRule.between(knots)
    middle = slice(len(rule.times) // 2, len(rule.times) // 2 + 1)
    return is_seen_in_time(problem, _evaluate(problem, grid, rule, middle), rule)


def _evaluate(problem: Problem, grid: TensorGrid, rule: TimeRule, block: slice) -> ProblemData:
    return ProblemData.of(problem, grid, rule.times[block])


def _march(problem: Problem, knots: Array, space: SpectralSpace) -> Array:
    """Return the states at the knots, (K + 1, n, ..., n)."""
    basis = SampledBasis.of(space, TensorGrid(space.dimension, int(OVERSAMPLED * space.modes) + 2))
    state = basis.moments(ProblemData.of(problem, basis.grid, knots[:1]).initial)
    states, rates = [state], np.zeros((len(_NODES), *space.shape))
    for start, step in zip(knots[:-1].tolist(), np.diff(knots).tolist(), strict=True):
        data = ProblemData.of(problem, basis.grid, start + _NODES * step)
        # rates of zero, since without any the source would be left out too
        load = data.moments(None, np.broadcast_to(state, rates.shape), np.zeros_like(rates), space)
        # constants near the diagonal of A, for the preconditioner
        if data.diffusion.ndim == space.dimension + 1:
            constants = np.full(space.dimension, np.sqrt(data.diffusion.min() * data.diffusion.max()))
        else:
            diagonal = np.einsum("tll...->l...", data.diffusion).reshape(space.dimension, -1)
            constants = diagonal.mean(axis=1) / len(data.diffusion)
        # without source, lifting and given fluxes
        faces = tuple(replace(face, flux=np.zeros_like(face.flux)) for face in data.faces)
        linear = replace(data, source=np.zeros((1,) * data.source.ndim), lifting=None, flux=None, faces=faces)

        def apply_linear(v: Array, linear: ProblemData = linear) -> Array:
            return -linear.moments(None, v, None, space)

        guess = np.broadcast_to(rates[-1:], load.shape)
        rates = _solve_stages(step, space.eigenvalues(constants), load, apply_linear, guess)
        state = state + step * np.tensordot(STAGES[-1], rates, axes=1)
        states.append(state)
    return np.stack(states)


def _solve_stages(
    step: float, eigenvalues: Array, load: Array, apply_linear: Callable[[Array], Array], guess: Array
) -> Array:
    """Return the rates k_i = b_i - K_i (y + h sum_j a_ij k_j) of the stages, from b_i - K_i y and v_i -> K_i v_i."""
    # solves for the stages if K is the diagonal matrix of `eigenvalues`, which it is near to
    inverse = np.linalg.inv(np.eye(len(STAGES)) + step * eigenvalues.reshape(-1, 1, 1) * STAGES)

    def operator(flat: Array) -> Array:
        mixed = np.tensordot(STAGES, flat.reshape(load.shape), axes=1)
        return np.asarray(flat + step * apply_linear(mixed).ravel())

    def precondition(flat: Array) -> Array:
        return np.asarray(np.einsum("kij,jk->ik", inverse, flat.reshape(3, -1)).ravel())

    # without its type an operator would be applied once to find that out
    linear: Any = partial(scipy.sparse.linalg.LinearOperator, (load.size,) * 2, dtype=np.float64)
    solved, _ = scipy.sparse.linalg.gmres(
        linear(operator), load.ravel(), guess.ravel(), M=linear(precondition),
        # maxiter counts cycles: one of at most `restart` iterations, never restarted
        rtol=_TOLERANCE, restart=_MOST_ITERATIONS, maxiter=1,
    )  # fmt: skip
    return np.asarray(solved).reshape(load.shape)


def march_semidiscrete(system: GalerkinSystem, final_time: float) -> Array:
    """Return alpha(T) of a linear system, (r,), by steps of order five; NaN if modes grow too fast for these.

    The number of steps doubles until the state changes by less than `STEADY` of its norm.
    """
    steps, known = _STEPS, np.full(system.initial.shape, np.nan)
    while steps <= _MAX_STEPS:
        try:
            state = advance(RadauIIA3.tableau, system, TimeGrid(final_time, steps, ())).coefficients[-1]
        except IndefiniteStiffnessError:
            return np.full(system.initial.shape, np.nan)
        if np.linalg.norm(state - known) <= STEADY * np.linalg.norm(state):
            return np.asarray(state)
        steps, known = 2 * steps, state
    return np.asarray(known)
