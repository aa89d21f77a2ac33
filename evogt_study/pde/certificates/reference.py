"""Spectral reference solution of a linear problem, whose error bound certifies the final errors of all runs.

Every function u_ref with || u - u_ref || <= delta at the final time satisfies

    | || u - u_N || - || u_ref - u_N || | <= delta

One reference u_ref with its error bound delta therefore encloses the error of every run of the problem.  The reference
is a Galerkin solution in `SpectralSpace`, computed with the Radau IIA method of order five.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
"""Number of nodes per mode in the integrals of the Galerkin system."""
_MODES = {1: (96, 160, 256), 2: (32, 48, 64), 3: (20, 28, 36)}
"""Numbers of modes per direction, by dimension, in the order of the attempts."""
_REFERENCE_STEPS = {1: (40, 1280), 2: (30, 120), 3: (20, 80)}
"""First and largest number of steps.  The number grows while more steps halve the bound."""
GRADED = 2
"""Exponent p of the step times T (n / steps)^p.  If the initial value violates the equation on the boundary, the bound
is 20 to 30 times smaller than with equal steps.  Otherwise the bound is at most 4 times larger."""
SMALL = 2e-8
"""Relative bound of a reference that is accurate enough.  The interval of an error of 8e-7 is then 5 % wide."""

STAGES: Array = RadauIIA3.tableau.matrix
"""Matrix of the Radau IIA method.  The last row contains the weights."""
# c_3 = 1 exactly, but the sum of the row is 1 only up to rounding
_NODES = np.append(RadauIIA3.tableau.nodes[:-1], 1.0)
_TOLERANCE = 1e-12
"""Relative tolerance of the three stages of a step together."""
_MOST_ITERATIONS = 100
_STEPS, _MAX_STEPS = 12, 3072
"""First and largest number of steps of `march_semidiscrete`."""
STEADY = 1e-11
"""Relative change of the state below which its time-step error is negligible, compared with usual errors of runs."""


@dataclass(frozen=True, eq=False)
class SpectralReference:
    """Reference solution u_ref - u_b, and the bound delta of || u - u_ref || at the final time."""

    solution: Reconstruction
    delta: float

    def final(self, grid: TensorGrid) -> Array:
        """Return the values of u_ref - u_b on a grid at the final time, (Q, ..., Q)."""
        return SampledBasis(self.solution.along, grid).evaluate(self.solution.states[-1])

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
    """Compute references until a bound is at most `SMALL` || u_ref(T) ||, and return the reference with least bound."""
    best: SpectralReference | None = None
    first, most = _REFERENCE_STEPS[problem.dimension]
    steps = first
    while not _is_seen(
        problem, _choose_grid(problem.dimension, _MODES[problem.dimension][0]), _grade_knots(final_time, steps)
    ):
        steps *= 2
        if steps > most:  # the bound will be infinite
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
            # the method has order five, so twice the steps are not enough
            before, steps = found.delta, (4 if found.delta > 32.0 * wanted and 4 * steps <= most else 2) * steps
        # for data with jumps or layers, more modes change the bound little
        if np.isfinite(least) and best.delta > 0.5 * least:
            break
    assert best is not None  # noqa: S101  # `_MODES` has an entry for each dimension
    return best


def solve_reference(problem: Problem, final_time: float, space: SpectralSpace, steps: int) -> SpectralReference:
    """Compute the spectral solution in `space` with `steps` time steps, and its bound on a finer grid."""
    knots, grid = _grade_knots(final_time, steps), _choose_grid(space.dimension, space.modes)
    solution = Reconstruction(knots, _march(problem, knots, space), space.along)
    rule, evaluate = _sample_blocks(problem, grid, knots)
    # otherwise no bound is known for data that grid or steps do not resolve
    in_space = grid.dimension == 1 or is_seen_in_space(problem, grid, final_time)
    if not (in_space and _is_seen(problem, grid, knots)):
        return SpectralReference(solution, np.inf)
    # the bound is only for the final time, so errors may decay
    growth = bound_growth(evaluate(slice(None)), decay=True)
    return SpectralReference(solution, bound_energy(solution, rule, grid, evaluate, growth).value)


def _grade_knots(final_time: float, steps: int) -> Array:
    return np.asarray(final_time * np.linspace(0.0, 1.0, steps + 1) ** GRADED)


def _choose_grid(dimension: int, modes: int) -> TensorGrid:
    points = int(1.5 * modes)
    # panels on a line, because `measure_on_line` needs their last modes
    return TensorGrid(1, 16, -(-points // 8)) if dimension == 1 else TensorGrid(dimension, points)


def _is_seen(problem: Problem, grid: TensorGrid, knots: Array) -> bool:
    """Return True if the time rule between the knots resolves the data in time."""
    rule, evaluate = _sample_blocks(problem, grid, knots)
    middle = len(rule.times) // 2
    return is_seen_in_time(problem, evaluate(slice(middle, middle + 1)), rule)


def _sample_blocks(problem: Problem, grid: TensorGrid, knots: Array) -> tuple[TimeRule, Callable[[slice], ProblemData]]:
    """Return the time rule between the knots, and the function that evaluates the data at a block of its times."""
    rule = TimeRule.between(tuple(knots.tolist()))
    return rule, lambda block: ProblemData.of(problem, grid, rule.times[block])


def _march(problem: Problem, knots: Array, space: SpectralSpace) -> Array:
    """Compute the states of the reference at the knots, (K + 1, n, ..., n)."""
    basis = SampledBasis.of(space, TensorGrid(space.dimension, int(OVERSAMPLED * space.modes) + 2))
    state = basis.moments(ProblemData.of(problem, basis.grid, knots[:1]).initial)
    states, rates = [state], np.zeros((len(_NODES), *space.shape))
    for start, step in zip(knots[:-1].tolist(), np.diff(knots).tolist(), strict=True):
        data = ProblemData.of(problem, basis.grid, start + _NODES * step)
        # rates of zero, because `moments` omits the source if the rates are None
        load = data.moments(basis, np.broadcast_to(state, rates.shape), np.zeros_like(rates), space)
        # constants near the diagonal of A, for the preconditioner
        if data.diffusion.ndim == space.dimension + 1:
            constants = np.full(space.dimension, np.sqrt(data.diffusion.min() * data.diffusion.max()))
        else:
            diagonal = np.einsum("tll...->l...", data.diffusion).reshape(space.dimension, -1)
            constants = diagonal.mean(axis=1) / len(data.diffusion)

        def apply_linear(v: Array, data: ProblemData = data) -> Array:
            return -data.moments(basis, v, None, space)

        guess = np.broadcast_to(rates[-1:], load.shape)
        rates = _solve_stages(step, space.eigenvalues(constants), load, apply_linear, guess)
        state = state + step * np.tensordot(STAGES[-1], rates, axes=1)
        states.append(state)
    return np.stack(states)


def _solve_stages(
    step: float, eigenvalues: Array, load: Array, apply_linear: Callable[[Array], Array], guess: Array
) -> Array:
    """Solve k_i = b_i - K_i (y + h sum_j a_ij k_j) for the stages, given the load b_i - K_i y and v_i -> K_i v_i."""
    # the inverse for a diagonal K with these eigenvalues, which approximates K
    inverse = np.linalg.inv(np.eye(len(STAGES)) + step * eigenvalues.reshape(-1, 1, 1) * STAGES)

    def operator(flat: Array) -> Array:
        mixed = np.tensordot(STAGES, flat.reshape(load.shape), axes=1)
        return np.asarray(flat + step * apply_linear(mixed).ravel())

    def precondition(flat: Array) -> Array:
        return np.asarray(np.einsum("kij,jk->ik", inverse, flat.reshape(3, -1)).ravel())

    # the type is given, because SciPy would apply the operator once to find the type
    linear: Any = partial(scipy.sparse.linalg.LinearOperator, (load.size,) * 2, dtype=np.float64)
    solved, _ = scipy.sparse.linalg.gmres(
        linear(operator), load.ravel(), guess.ravel(), M=linear(precondition),
        # maxiter counts cycles.  One cycle has at most `restart` iterations.
        rtol=_TOLERANCE, restart=_MOST_ITERATIONS, maxiter=1,
    )  # fmt: skip
    return np.asarray(solved).reshape(load.shape)


def march_semidiscrete(system: GalerkinSystem, final_time: float) -> Array:
    """Return alpha(T) of a linear system, (r,), or NaN if modes grow too fast for the implicit steps.

    The number of steps doubles until the relative change of the state is below `STEADY`.
    """
    steps, known = _STEPS, np.full(system.initial.shape, np.nan)
    while steps <= _MAX_STEPS:
        try:
            state = advance(RadauIIA3.tableau, system, TimeGrid(final_time, steps, ()))[-1]
        except IndefiniteStiffnessError:
            return np.full(system.initial.shape, np.nan)
        if np.linalg.norm(state - known) <= STEADY * np.linalg.norm(state):
            return np.asarray(state)
        steps, known = 2 * steps, state
    return np.asarray(known)
