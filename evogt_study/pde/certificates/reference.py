"""A spectral solution of a linear problem with its own bound, which certifies the final errors of all its runs.

For any u_ref with || u - u_ref || <= delta at the final time

    | || u - u_N || - || u_ref - u_N || | <= delta

so that one u_ref, whose delta is its own bound in the energy norm, encloses the error of every run of the problem.  It
is a Galerkin solution in `SpectralSpace`, advanced by the Radau IIA method of order five.  By the same method
`semidiscrete_state` advances the system of a run without the error of its time steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy  # which imports its parts when they are first used: workers would pay 0.06 s for scipy.sparse at start

from evogt_study.pde.certificates.bound import energy_bound, growth_of
from evogt_study.pde.certificates.problem_data import ProblemData, UnitBox
from evogt_study.pde.certificates.reconstruction import Reconstruction, TimeRule, seen_in_space, seen_in_time
from evogt_study.pde.certificates.spectral_space import Sampled, SpectralSpace, TensorGrid
from evogt_study.pde.domains import Domain
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.stiffness import products_at
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators.tableaus import RadauIIA3
from evogt_study.pde.numerics.arrays import Array

OVERSAMPLED = 1.25
"""Nodes for each mode in the integrals of the Galerkin system; the bound sees what they do not resolve."""
LEVELS = {
    1: ((96, 40), (160, 60), (256, 100)),
    2: ((32, 30), (48, 50), (64, 80)),
    3: ((20, 20), (28, 30), (36, 50)),
}
"""Modes per direction and steps that are tried one after the other."""
GRADED = 2
"""Power of n / steps that the times of the steps are: where the initial value does not meet the equation on the
boundary, the bound is 20 to 30 times smaller than with equal steps; otherwise it is at most 4 times larger."""
SMALL = 2e-8
"""Relative bound at which a reference is good enough: 5 % of an error of 8e-7, less of larger ones."""

STAGES: Array = RadauIIA3.tableau.matrix
"""The matrix of the method; its last row are the weights too."""
# c_3 = 1 exactly; the sum of the row is 1 only up to rounding
NODES = np.append(RadauIIA3.tableau.nodes[:-1], 1.0)
TRACES = np.array([1.0, np.trace(STAGES), np.linalg.det(STAGES) * np.trace(np.linalg.inv(STAGES))])
ADJUGATE = np.stack([np.eye(3), TRACES[1] * np.eye(3) - STAGES, np.linalg.det(STAGES) * np.linalg.inv(STAGES)]).reshape(
    3, 9
)
DETERMINANT = np.append(TRACES, np.linalg.det(STAGES))
"""Coefficients of the polynomials adj(I + z A) and det(I + z A) in z, whose ratio is the inverse.  They take less than
half of the time of LAPACK for many small matrices."""
LAST_ROW = np.concatenate([ADJUGATE[:, 6:].sum(axis=1, keepdims=True), STAGES[-1] @ ADJUGATE.reshape(3, 3, 3)], axis=1)
"""Those of what a step makes of the state before it, which is the sum of the inverse's last row and so does not cancel
where K is stiff, and of f at its three stages, (3, 4)."""
TOLERANCE = 1e-12
"""Relative, of the three stages of a step together."""
MOST_ITERATIONS = 100
STEPS = 12
"""Steps of `semidiscrete_state`.  Against 48 steps the part of time in runs of the paper's five linear studies changes
by less than 1 %, or by up to 11 % if it is below 1e-5 of the error."""
STAGE_TIMES: Array = (np.arange(STEPS)[:, None] + NODES) / STEPS
"""The stages of all steps in parts of the final time, (STEPS, 3)."""
NEAR = 1e-8
"""`TOLERANCE` of all their stages together."""
FEW_ITERATIONS = 12
"""For these; 5 or 6 are enough for diffusions that vary by a quarter in time, and a tenfold change takes over 100."""


@dataclass(frozen=True, eq=False)
class SpectralReference:
    """u_ref - u_b, and delta, which bounds || u - u_ref || at the final time."""

    solution: Reconstruction
    delta: float

    def final(self, grid: TensorGrid) -> Array:
        """Values at the final time, (Q, ..., Q)."""
        return Sampled(self.solution.along(grid.along[0]), grid).evaluate(self.solution.states[-1])

    def packed(self) -> Array:
        """All of it in one array (K + 2, n^d + 1), which workers can share."""
        states = self.solution.states.reshape(len(self.solution.knots), -1)
        return np.vstack([np.full(states.shape[1] + 1, self.delta), np.column_stack([self.solution.knots, states])])

    @staticmethod
    def unpacked(array: Array, domain: Domain) -> SpectralReference:
        """The reference from its packed array, for a problem on `domain`."""
        d = domain.dimension
        space = SpectralSpace(d, round((array.shape[1] - 1) ** (1.0 / d)), UnitBox.of(domain).ends)
        states = array[1:, 1:].reshape(-1, *space.shape)
        return SpectralReference(Reconstruction(array[1:, 0], states, space.along), float(array[0, 0]))


def spectral_reference(problem: Problem, final_time: float) -> SpectralReference:
    """The first of `LEVELS` whose bound is at most `SMALL` || u_ref(T) ||, or the reference with the least bound."""
    best: SpectralReference | None = None
    for modes, steps in LEVELS[problem.dimension]:
        space = SpectralSpace(problem.dimension, modes, UnitBox.of(problem.domain).ends)
        found = reference_of(problem, final_time, space, steps)
        if best is None or found.delta < best.delta:
            best = found
        if found.delta <= SMALL * np.linalg.norm(found.solution.states[-1]):
            break
    assert best is not None  # noqa: S101  # there is a level for each dimension
    return best


def reference_of(problem: Problem, final_time: float, space: SpectralSpace, steps: int) -> SpectralReference:
    """The spectral solution in `space` with `steps` time steps, and its bound on a grid of half as many nodes more."""
    knots = final_time * np.linspace(0.0, 1.0, steps + 1) ** GRADED
    solution = Reconstruction(knots, _march(problem, knots, space), space.along)
    rule = TimeRule.between(knots)
    points = int(1.5 * space.modes)
    # panels on a line, whose last modes tell what the grid does not resolve (`on_a_line`)
    grid = TensorGrid(1, 16, -(-points // 8)) if space.dimension == 1 else TensorGrid(space.dimension, points)
    # else nothing is known of what the grid or the steps do not see
    middle = _evaluated(problem, grid, rule, slice(len(rule.times) // 2, len(rule.times) // 2 + 1))
    if not (seen_in_time(problem, middle, rule) and (grid.dimension == 1 or seen_in_space(problem, grid, final_time))):
        return SpectralReference(solution, np.inf)
    growth = growth_of(problem, grid, rule.times)
    return SpectralReference(
        solution, energy_bound(solution, rule, grid, partial(_evaluated, problem, grid, rule), growth).value
    )


def _evaluated(problem: Problem, grid: TensorGrid, rule: TimeRule, block: slice) -> ProblemData:
    return ProblemData.of(problem, grid, rule.times[block])


def _march(problem: Problem, knots: Array, space: SpectralSpace) -> Array:
    """States at the knots, (K + 1, n, ..., n)."""
    basis = Sampled.of(space, TensorGrid(space.dimension, int(OVERSAMPLED * space.modes) + 2))
    state = basis.moments(ProblemData.of(problem, basis.grid, knots[:1]).initial)
    states, rates = [state], np.zeros((len(NODES), *space.shape))
    for start, step in zip(knots[:-1].tolist(), np.diff(knots).tolist(), strict=True):
        data = ProblemData.of(problem, basis.grid, start + NODES * step)
        # rates of zero, since without any the source would be left out too
        load = data.moments(None, np.broadcast_to(state, rates.shape), np.zeros_like(rates), space)
        method, linear = (
            RadauSteps.of(step, space.eigenvalues(_middle(data.diffusion, space.dimension))),
            data.homogeneous,
        )

        def images(v: Array, linear: ProblemData = linear) -> Array:
            return -linear.moments(None, v, None, space)

        # the last rate: extrapolation supposes steps of equal size, and these are graded
        guess = np.broadcast_to(rates[-1:], load.shape)
        state, rates = method.advanced(state, load, images, guess)
        states.append(state)
    return np.stack(states)


def _middle(diffusion: Array, dimension: int) -> Array:
    """Constants near the diagonal of A, (d,), to precondition with: of a scalar the mean of its logarithms' ends."""
    if diffusion.ndim == dimension + 1:
        return np.full(dimension, np.sqrt(diffusion.min() * diffusion.max()))
    diagonal = np.einsum("tll...->l...", diffusion).reshape(dimension, -1)
    return np.asarray(diagonal.mean(axis=1) / len(diffusion))


@dataclass(frozen=True, eq=False)
class RadauSteps:
    """Steps of one size; `inverse` (m, 3, 3) solves for the stages where K is the diagonal matrix of `eigenvalues`."""

    step: float
    inverse: Array

    @staticmethod
    def of(step: float, eigenvalues: Array) -> RadauSteps:
        """For the eigenvalues (m,) of the diagonal matrix that K is, or is near to."""
        return RadauSteps(step, _over_determinant(step * eigenvalues, ADJUGATE).reshape(-1, 3, 3))

    def advanced(
        self, state: Array, load: Array, images: Callable[[Array], Array], guess: Array
    ) -> tuple[Array, Array]:
        """The state after a step, and the rates k_i = b_i - K_i (y + h sum_j a_ij k_j); load: b_i - K_i y."""
        rates = self._solved(load, images, guess).reshape(load.shape)
        return state + self.step * np.tensordot(STAGES[-1], rates, axes=1), rates

    def _corrected(self, flat: Array) -> Array:
        return np.asarray(np.einsum("kij,jk->ik", self.inverse, flat.reshape(3, -1)).ravel())

    def _solved(self, load: Array, images: Callable[[Array], Array], guess: Array) -> Array:
        def operator(flat: Array) -> Array:
            mixed = np.tensordot(STAGES, flat.reshape(load.shape), axes=1)
            return np.asarray(flat + self.step * images(mixed).ravel())

        preconditioner = _linear(self._corrected, load.size)
        solved, _ = scipy.sparse.linalg.gmres(
            _linear(operator, load.size), load.ravel(), guess.ravel(), M=preconditioner,
            # maxiter counts cycles: one of at most `restart` iterations, never restarted
            rtol=TOLERANCE, restart=MOST_ITERATIONS, maxiter=1,
        )  # fmt: skip
        return np.asarray(solved)


def _over_determinant(z: Array, coefficients: Array) -> Array:
    """Polynomials in z = h lambda (m,) over det(I + z A), by their coefficients (3, n), (m, n)."""
    # for z >= 0 all terms of the determinant are positive: nothing cancels, however stiff
    powers = np.empty((z.size, 4))
    powers[:, 0], powers[:, 1:] = 1.0, z.reshape(-1, 1)
    np.multiply.accumulate(powers, axis=1, out=powers)
    return np.asarray(powers[:, :3] @ coefficients / (powers @ DETERMINANT)[:, None])


def _linear(function: Callable[[Array], Array], size: int) -> Any:
    # without its type it would be applied once to find that out
    return scipy.sparse.linalg.LinearOperator((size, size), function, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class DiagonalSteps:
    """All steps of one size of y' = f - lambda y for eigenvalues lambda (r,), as sums over the steps before."""

    step: float
    eigenvalues: Array

    @cached_property
    def inverse(self) -> Array:
        """The inverse of `RadauSteps`, (r, 3, 3)."""
        return RadauSteps.of(self.step, self.eigenvalues).inverse

    @cached_property
    def _of_a_step(self) -> Array:
        """Factors of the state before a step, and of h f at its stages, (4, r)."""
        return _over_determinant(self.step * self.eigenvalues, LAST_ROW).T

    @cached_property
    def powers(self) -> Array:
        """What is left of a state after 0, 1, ... steps, (STEPS + 1, r)."""
        powers = np.empty((STEPS + 1, len(self.eigenvalues)))
        powers[0], powers[1:] = 1.0, self._of_a_step[0]
        return np.multiply.accumulate(powers, out=powers)

    def final(self, initial: Array, forces: Array) -> Array:
        """The state after the last step, (r,), by f at the stages of all steps (3 STEPS, r)."""
        weights = self.powers[-2::-1, None] * self._of_a_step[1:]
        added = np.vecdot(forces.T, weights.reshape(forces.shape).T)
        return np.asarray(self.powers[-1] * initial + self.step * added)

    def stages(self, initial: Array, forces: Array) -> Array:
        """The states at all stages, (STEPS, 3, r)."""
        added = np.einsum("kij,njk->nik", self.inverse, self.step * np.einsum("ij,njk->nik", STAGES, forces))
        starts = np.einsum("nmk,mk->nk", self._left, np.concatenate([initial[None], added[:-1, -1]]))
        return np.asarray(added + starts[:, None] * self.inverse.sum(axis=2).T)

    @cached_property  # for each iteration
    def _left(self) -> Array:
        """Factors: the part left at the start of each step of what was added before it, (STEPS, STEPS, r)."""
        # the initial state is as old as what the first step began with
        ages = np.arange(STEPS)[:, None] - np.arange(STEPS)
        return np.where((ages >= 0)[:, :, None], self.powers[ages], 0.0)


def semidiscrete_state(system: GalerkinSystem, final_time: float) -> tuple[Array, Array]:
    """alpha(T) of alpha' + K(t) alpha = b(t), (r,), by `STEPS` steps, and b(T), (r,)."""
    step, times = final_time / STEPS, final_time * STAGE_TIMES
    loads = system.load(times.ravel())
    if system.autonomous and system.symmetric:
        eigenvalues, basis = system.modes
        steps = DiagonalSteps(step, eigenvalues)
        return basis @ steps.final(system.initial @ basis, loads @ basis), loads[-1]
    each = loads.reshape(*times.shape, -1)
    state = _all_at_once(system, step, times, each)
    return _one_by_one(system, step, times, each) if state is None else state, loads[-1]


def _all_at_once(system: GalerkinSystem, step: float, times: Array, loads: Array) -> Array | None:
    """The final state by iteration: of the diagonal of K at half time, with what it leaves of K(t) as a force."""
    middle = system.stiffness(STEPS * step / 2.0)
    eigenvalues, basis = np.linalg.eigh((middle + middle.T) / 2.0)
    steps, product = DiagonalSteps(step, eigenvalues), products_at(system.stiffness, times.ravel())
    nothing = np.zeros_like(eigenvalues)

    def operator(flat: Array) -> Array:
        given = flat.reshape(times.size, -1)
        left = eigenvalues * given - product(given @ basis.T) @ basis
        return flat - steps.stages(nothing, left.reshape(loads.shape)).ravel()

    free = steps.stages(system.initial @ basis, loads @ basis).ravel()
    states, failed = scipy.sparse.linalg.gmres(
        _linear(operator, free.size), free, free, rtol=NEAR, restart=FEW_ITERATIONS, maxiter=1
    )
    return None if failed else np.asarray(basis @ states[-len(nothing) :])


def _one_by_one(system: GalerkinSystem, step: float, times: Array, loads: Array) -> Array:
    """The final state by a solve for the three rates of each step."""
    state, size = system.initial, loads.shape[1:]
    for at, load in zip(times, loads, strict=True):
        stiffness = np.stack([system.stiffness(float(t)) for t in at])
        coupled = np.einsum("ij,ikl->ikjl", STAGES, stiffness).reshape(load.size, -1)
        rates = np.linalg.solve(np.eye(load.size) + step * coupled, (load - stiffness @ state).ravel())
        state = state + step * STAGES[-1] @ rates.reshape(size)
    return state
