"""A bound of the error in the energy norm from the residual, without the exact solution.

For the reconstruction v of a run, e = u - v, and the residual R(w) = F(w) - (v_t, w) - B(v, w),

    || e(T) ||^2 + int_0^T || sqrt(A) grad e ||^2 dt  <=  || e(0) ||^2 + int_0^T || R ||_{-1,A}^2 dt

where (b . grad w - c w, w) + <transfer w, w> >= 0 for all w: where c + div b / 2 <= 0, and transfer + b . n / 2 >= 0
on natural faces.  With c + div b / 2 <= g the right-hand side is weighted by exp(2 g (T - t)).  Without advection and
reaction the difference of both sides is int_0^T || e_t ||_{-1,A}^2 dt, which is small for errors that oscillate in
space.

The dual norm of a residual R(v) = (r, v) - (q, grad v) + <g, v>, weighted by A: sup R(v) / || sqrt(A) grad v ||.

In one direction it is exact: with G' = r, R(v) = -(G + q - c, v'), and the norm is || (G + q - c) / sqrt(a) ||.
Where both ends are Dirichlet c is the constant that makes it least; else it is such that G - c = -g at an upper end and
g at a lower one.  In more, w with (A grad w, grad v) = R(v) is approached by conjugate gradients in a spectral space;
what they leave, R_2, and the modes that the space has are accounted for:

    || R ||^2 = 2 R(w) - || sqrt(A) grad w ||^2 + || R_2 ||^2,    || R_2 ||^2 <= sup R_2(v) / || sqrt(s) grad v ||

for the constants s_1, ..., s_d of a diagonal matrix below A, so that w need not be exact.  Without Dirichlet face the
norm has m || v ||^2 too: R(1)^2 / m is added for the constants.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial, reduce

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.pde.certificates.functions import (
    DEGREE,
    FIXED,
    Ends,
    ProblemData,
    Reconstruction,
    SampledBasis,
    SpectralSpace,
    TensorGrid,
    TimeRule,
    apply_matrices,
    evaluate_interpolants,
    is_seen_in_space,
    is_seen_in_time,
)
from evogt_study.pde.dictionaries.base import FirstOrder
from evogt_study.pde.domains import Box, Domain
from evogt_study.pde.domains.box import to_box
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.retained_space import RetainedSpace
from evogt_study.pde.galerkin.validation import AtNodes
from evogt_study.pde.numerics import Array, QuadratureRule, TimeGrid, Trajectory
from evogt_study.pde.pipeline import Share, Solution

VALUES_AT_ONCE = 1 << 18
"""Values of a function at several times in one block (2 MB), so that they stay in cache."""
DECAY = 0.9
"""Part of the decay that counts, because the diffusion may be smaller between the nodes."""
ITERATIONS = 40
"""Largest number of iterations.  4 to 8 are enough for diffusions that vary by a factor of three."""
LEFT = 3e-3
"""Part of || R ||^2 that conjugate gradients may leave: it is added, at most the contrast of the diffusion times.  With
1e-3 the bounds of runs of the paper's studies in 2-D and 3-D are smaller by at most 0.15 %, for an iteration more."""
BEYOND = 5.0
"""Times the part in the last quarter of a panel's modes, for modes beyond them: in 1,600 manufactured runs, good and
bad, it was at most 3.7 times that part; of the last two modes of 32, which may both be small, 77 times."""
UPPER, MIDDLE = 2.0 / 3.0, 1.0 / 3.0
"""Modes above the first part of those in a direction, and what they have fallen to from those above the second, tell
how much the space does not resolve."""
LEAST_DECAY = 0.05
"""Part of the final time in which the weight for problems without Dirichlet face decays: their bound is larger by the
factor exp(0.05), and errors of the mean count 20 times."""
KNOTS = {1: 500, 2: 7, 3: 6}
"""Steps whose states the reconstruction interpolates, at most: in 1-D all of usual runs.  With 20 (2-D) and 12 (3-D)
the bounds of runs of the paper's operator_2d, nonseparable_2d and nonseparable_3d change by at most 1 %.  With 6 in 2-D
the bounds of nonseparable_2d are 1 % smaller."""
SETTLED = 1e-3
"""Part of the bound's square by which Gauss's and Kronrod's rule for the whole time may differ: else time is integrated
between knots.  Of 252 runs of the paper's studies in 1-D and 2-D it is 5e-4 at most, with a median of 1e-5; a pulse in
time that both nearly missed made it 4e-3."""
SMALLEST = 1e-14
"""Least relative size of a direction in the space of all features.  Smaller directions are rounding."""
_ANY = 2.0
"""Larger than the squared bound: accept any difference."""
_FINER = 80
"""Least number of intervals if data change faster than the states."""
PANEL = 32
"""Gauss points of a panel in one direction: on panels of 8, 16 and 24 a run needs up to a quarter more nodes.  With 48
grids are far apart."""
GRIDS = {1: (4, 5, 6, 7, 8, 10, 12, 16, 32, 64), 2: (48, 64, 80, 112), 3: (22, 28, 36, 44)}
"""Panels (1-D) or points per direction, tried in this order."""
_NODES = 3.2
"""Nodes for each retained direction in 1-D at least: of 216 runs of the paper's oscillatory_1d and target_1d, whose
ranks are 8 to 86, 14 then need a second grid."""
FULL_NODES = 1.5
"""Nodes for each direction of the space of all features, at least: the best approximation of target_1d by 114 of them
came out 5.6 times too small with 1.1, 5 % with 1.4, and wrong by 0.2 % with 1.7."""
_RESOLVED = {1: 0.01, 2: 0.05, 3: 0.08}
"""Part of the squared bound that the grid may leave unresolved.  The bound contains it."""
_grid = cache(TensorGrid)
"""Grid by its arguments.  Each grid keeps its nodes: 6 MB for all of `GRIDS`."""


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


@dataclass(frozen=True)
class Growth:
    """Growth rate of errors by the terms without diffusion."""

    rate: float = 0.0
    mass: float = 0.0
    ends: tuple[Ends, ...] = ()


def bound_growth(problem: Problem, grid: TensorGrid, times: Array, decay: bool = False) -> Growth:
    """Return the growth of errors of a linear problem, by the values at grid nodes and the polynomials through them.

    decay: the rate may be negative, by || sqrt(A) grad e ||^2 >= lambda || e ||^2.
    The bound is then of || e(T) || alone.
    """
    ends = to_box(problem.domain).ends
    dirichlet = any(map(any, ends))
    if problem.advection is None and problem.reaction is None and dirichlet and not decay:
        return Growth(ends=ends)
    data = ProblemData.of(problem, grid, times)
    zero = np.zeros((1, *grid.shape))
    upper = zero if data.reaction is None else data.reaction
    for axis, b in enumerate(data.advection or ()):
        matrices = [np.eye(len(grid.axis_rule[0]))] * grid.dimension
        # to the derivatives at the nodes of the polynomials through values there, in each panel
        _, slopes = evaluate_interpolants(grid.points, TensorGrid(1, grid.points).axis_rule[0], 1)
        matrices[axis] = np.kron(np.eye(grid.panels), grid.panels * slopes)
        upper = upper + apply_matrices(matrices, b) / 2.0
    most = float(upper.max())
    if dirichlet and not decay:
        return Growth(max(most, 0.0), ends=ends)
    if dirichlet:
        # half of a lower bound of the least eigenvalue of -div(A grad), by the least value at the nodes
        least = float(data.diffusion.min())
        if data.diffusion.ndim > grid.dimension + 1:
            least = float(np.linalg.eigvalsh(np.moveaxis(data.diffusion, (1, 2), (-2, -1))).min())
        # sin(pi x), or sin(pi x / 2) with one Dirichlet end
        squares = sum((0.25 * sum(each) ** 2) * math.pi**2 for each in ends)
        return Growth(most - 0.5 * DECAY * max(least, 0.0) * squares, ends=ends)
    # the mean does not decay by diffusion then: a little of the weight does it instead
    rate = max(most + LEAST_DECAY / float(times[-1]), 0.0)
    return Growth(rate, rate - most, ends)


def bound_energy(
    solution: Reconstruction, rule: TimeRule, grid: TensorGrid, data_of: Callable[[slice], ProblemData],
    growth: Growth, end: tuple[Array, Array] | None = None,
) -> EnergyBound:  # fmt: skip
    """Return the bound for `solution` by the data at blocks of times; `end`: state and rate for the representer."""
    # in blocks of times, so that the values of a large reference stay in cache
    size, initial = max(1, VALUES_AT_ONCE // grid.weights.size), 0.0
    norms = []
    for start in range(0, len(rule.times), size):
        block = data_of(slice(start, start + size))
        if start == 0:
            run = SampledBasis(solution.along(grid.axis_rule[0]), grid)
            difference = (run.evaluate(solution.states[0]) - block.initial).ravel()
            initial = float(difference**2 @ grid.weights.ravel())
        states, rates = solution.at(block.times)
        # this time has no weight in the integral: it is there for the representer alone
        if end is not None and start + size >= len(rule.times):
            states[-1], rates[-1] = end
        norms.append(_bound_residual(solution, states, rates, block, growth))
    weights = np.exp(2.0 * growth.rate * (rule.times[-1] - rule.times))  # the last time is T
    squares = weights * np.concatenate([norm.squares for norm in norms])
    unresolved = weights * np.concatenate([norm.unresolved for norm in norms])
    fine, coarse = float(rule.weights @ squares), float(rule.coarse @ squares)
    initial *= float(np.exp(2.0 * growth.rate * rule.times[-1]))
    parts = initial, fine, abs(fine - coarse), float(rule.weights @ unresolved)
    # infinity for NaN, which comes from numbers outside their range
    first, residual, time_rule, left = (math.inf if math.isnan(part) else part for part in parts)
    return EnergyBound(first, residual, time_rule, left, norms[-1].representer)


def _bound_residual(
    solution: Reconstruction, states: Array, rates: Array, data: ProblemData, growth: Growth
) -> DualNorm:
    """Return the norm of the residual of states and their time derivatives, (T, m, ..., m) each."""
    if data.grid.dimension > 1:
        space = SpectralSpace(data.grid.dimension, data.grid.points - 2, growth.ends)
        return measure_in_cube(data.moments(solution.along, states, rates, space), data, space, growth.mass)
    run = SampledBasis(solution.along(data.grid.axis_rule[0]), data.grid)
    gradient = run.gradient(states)
    remainder = data.remainder(run, states, gradient) - run.evaluate(rates)
    given: list[Array | float] = [0.0, 0.0]
    for face in data.faces:
        given[face.side] = face.term(solution.along, run, states)
    flux, (ends,) = data.flux_of(gradient)[0], growth.ends
    diffusion = data.diffusion if data.diffusion.ndim == data.source.ndim else data.diffusion[:, 0, 0]
    return measure_on_line(remainder, flux, diffusion, data.grid, ends, (given[0], given[1]), growth.mass)


@dataclass(frozen=True, eq=False)
class DualNorm:
    """|| R ||^2 at T times, and w with (a grad w, grad v) = R(v) for all v."""

    squares: Array
    unresolved: Array
    representer: Array


def measure_on_line(
    remainder: Array, flux: Array, diffusion: Array, grid: TensorGrid, ends: Ends = FIXED,
    given: tuple[Array | float, Array | float] = (0.0, 0.0), mass: float = 0.0,
) -> DualNorm:  # fmt: skip
    """Return the norm in 1-D: r, q (T, Q), a (T or 1, Q) at nodes, g (T,) at ends, m without Dirichlet end."""
    weights, constants = grid.weights, np.zeros(())
    if not any(ends):
        # constants are among the functions then, and only the mass term bounds their part
        mean = np.asarray(remainder @ weights + given[0] + given[1])
        remainder, constants = remainder - mean[:, None], mean**2 / mass
    primitive, inverse = _integrate_panels(remainder, grid), 1.0 / diffusion
    primitive += flux
    weighted = weights * inverse
    if all(ends):
        # the primitive is known up to a constant: with this one w, which is minus the integral of slope, vanishes at
        # both ends
        shift = -np.vecdot(primitive, weighted) / (inverse @ weights)
    else:
        shift = -remainder @ weights - given[1] if ends[0] else np.broadcast_to(given[0], len(primitive))
    primitive += shift[:, None]
    slope = primitive[-1:] * inverse[-1:]
    primitive *= np.sqrt(weighted)
    representer = -_integrate_panels(slope, grid)[0]
    # w vanishes at the Dirichlet end, or has mean zero if there is none
    if not ends[0]:
        representer += slope[0] @ weights if ends[1] else -(representer @ weights)
    squares = np.vecdot(primitive, primitive) + constants
    # of values times the roots of weights, the last quarter of the Legendre modes of every panel
    last = (primitive.reshape(-1, grid.points) @ _matrices(grid.points, grid.panels)[2]).reshape(len(primitive), -1)
    return DualNorm(squares, BEYOND * np.vecdot(last, last), representer)


def _integrate_panels(values: Array, grid: TensorGrid) -> Array:
    """Integrate the interpolating polynomial of each panel from 0 to the nodes, (T, Q) -> (T, Q)."""
    inside, before, _ = _matrices(grid.points, grid.panels)
    result = (values.reshape(-1, grid.points) @ inside).reshape(len(values), grid.panels, grid.points)
    result += (values @ before)[:, :, None]
    return result.reshape(len(values), -1)


@lru_cache(maxsize=16)  # all that `GRIDS` of a run's bound have, and a reference's
def _matrices(points: int, panels: int) -> tuple[Array, Array, Array]:
    """Return matrices from values on a line to primitives in a panel, integrals of previous panels, and last modes."""
    nodes, weights = TensorGrid(1, points).axis_rule
    degrees = np.arange(points)
    table: Array = np.polynomial.legendre.legvander(2.0 * nodes - 1.0, points).astype(float)
    integrals = np.empty((points, points))
    integrals[:, 0] = nodes
    integrals[:, 1:] = (table[:, 2:] - table[:, :-2]) / (2.0 * (2.0 * degrees[1:] + 1.0))
    modes = table[:, :-1] * weights[:, None]
    before = np.kron(np.triu(np.ones((panels, panels)), 1), weights[:, None]) / panels
    last = (np.sqrt(weights)[:, None] * table[:, :-1] * np.sqrt(2.0 * degrees + 1.0))[:, -(points // 4) :]
    return ((2.0 * degrees + 1.0) * modes) @ integrals.T / panels, before, last


def measure_in_cube(moments: Array, data: ProblemData, space: SpectralSpace, mass: float = 0.0) -> DualNorm:
    """Return the norm in 2-D or 3-D: R(B_k) (T, n, ..., n) and the diffusion; mass: m without Dirichlet face."""
    axes, basis = tuple(range(1, moments.ndim)), SampledBasis.of(space, data.grid)
    scale, constants = space.eigenvalues(bound_below(data.diffusion, space.dimension)), np.zeros(len(moments))
    if space.ends and not any(map(any, space.ends)):  # without Dirichlet face
        first = moments.reshape(len(moments), -1)[:, 0]
        constants, moments = first**2 / mass, moments.copy()
        # the first function is the constant, which the diffusion does not see
        moments.reshape(len(moments), -1)[:, 0], scale.reshape(len(scale), -1)[:, 0] = 0.0, 1.0
    # the preconditioner's norm bounds the rest
    w, left = solve_by_conjugate_gradients(
        lambda v: basis.flux_moments(data.apply_diffusion(basis.gradient(v))), moments, scale, LEFT, ITERATIONS
    )
    # A w = R - left, so that 2 R(w) - (A w, w) = (R + left, w) without another product with A
    squares = np.sum((moments + left) * w, axis=axes) + np.sum(left**2 / scale, axis=axes) + constants
    # of modes with an index of at least a part of all in some direction
    low = ((np.arange(space.modes) < int(part * space.modes)).astype(np.float64) for part in (UPPER, MIDDLE))
    masks = (1.0 - np.asarray(reduce(np.multiply.outer, [each] * space.dimension)) for each in low)
    upper, middle = (np.sum(moments**2 / scale * mask, axis=axes) for mask in masks)
    # as much again as these modes have, less where they fall: to q of the third before, so that q of them is beyond
    before = np.maximum(middle - upper, upper)
    unresolved = upper * np.divide(upper, before, out=np.ones_like(upper), where=before > 0.0)
    return DualNorm(squares, unresolved, basis.evaluate(w[-1:])[0])


def bound_below(diffusion: Array, dimension: int) -> Array:
    """Return the diagonal (T or 1, d) of a constant matrix below A: mean A_ll times its least scaled eigenvalue."""
    times = len(diffusion)
    if diffusion.ndim == dimension + 1:
        return np.repeat(diffusion.reshape(times, -1).min(axis=1)[:, None], dimension, axis=1)
    flat = np.moveaxis(diffusion.reshape(times, dimension, dimension, -1), -1, 1)
    scales = np.einsum("tqll->tl", flat) / flat.shape[1]
    roots = np.sqrt(scales)
    least = np.linalg.eigvalsh(flat / (roots[:, None, :, None] * roots[:, None, None, :]))[..., 0].min(axis=1)
    if not least.min() > 0.0:
        got = f"a least eigenvalue of {least.min():.6g} where diagonal entries are one on average"
        raise ProblemError(f"`diffusion` must be positive definite on the nodes of the certificates, got {got}")
    return np.asarray(least[:, None] * scales)


def solve_by_conjugate_gradients(
    operator: Callable[[Array], Array], load: Array, diagonal: Array, tolerance: float, most: int
) -> tuple[Array, Array]:
    """Return x with A x = b for T systems, and b - A x, with the preconditioner `diagonal` (1 or T, ...)."""
    axes = tuple(range(1, load.ndim))

    def product(left: Array, right: Array) -> Array:
        return np.asarray(np.sum(left * right, axis=axes, keepdims=True))

    def ratio(over: Array, under: Array) -> Array:
        # of a system that is solved exactly all is zero: it stays where it is while others go on
        return np.divide(over, under, out=np.zeros_like(over), where=under > 0.0)

    x, left = np.zeros_like(load), load.copy()
    direction = left / diagonal
    rho = product(left, direction)
    enough = tolerance * rho
    for _ in range(most):
        if np.all(rho <= enough):
            break
        image = operator(direction)
        length = ratio(rho, product(direction, image))
        x += length * direction
        left -= length * image
        corrected = left / diagonal
        rho, before = product(left, corrected), rho
        direction = corrected + ratio(rho, before) * direction
    return x, left


@lru_cache(maxsize=64)  # cases of a study have few
def list_knot_steps(grid: TimeGrid, dimension: int) -> tuple[int, ...]:
    """Return the steps whose states the reconstruction interpolates."""
    count = min(KNOTS[dimension], grid.steps)
    return tuple(int(step) for step in np.round(np.linspace(0, grid.steps, count + 1)))


def find_knots(solution: Solution) -> Trajectory:
    """Return the states that the reconstruction interpolates, from the run or from another march."""
    grid, dimension = solution.discretisation.grid, solution.problem.dimension
    steps = list_knot_steps(grid, dimension)
    times = grid.times_of(steps)
    for known in (solution.passed, solution.trajectory):
        # to the last bit, since all of these times come of `TimeGrid.times_of`
        if known is not None and set(times.tolist()).issubset(known.times.tolist()):
            return known.at(times) if len(known.times) > len(times) else known
    return solution.discretisation.integrator.march(solution.system, TimeGrid(grid.final_time, grid.steps, steps))


def bound_run(
    solution: Solution, knots: Trajectory, share: Share, problem_key: Hashable, end: Array | None = None
) -> tuple[EnergyBound, RunFunctions]:
    """Return the bound by the states at the knots, and the functions of the run on its grid.

    end: state and rate (2, r) for the representer.
    """
    problem, dimension, sizes = solution.problem, solution.problem.dimension, solution.svd.singular_values
    # retained by a rule of fewer nodes than features, functions are as rough between them as any feature is
    directions = solution.space.rank if sizes[-1] > 0.0 else len(sizes)
    nodes = max(_NODES * directions, FULL_NODES * np.count_nonzero(sizes > SMALLEST * sizes[0]))
    if dimension > 1:
        grids = [_grid(dimension, count, 1) for count in GRIDS[dimension]]
    else:  # a grid that is too coarse costs all of its work again, so that the first has to do as a rule
        grids = [_grid(1, PANEL, count) for count in GRIDS[1] if count * PANEL >= nodes or count == GRIDS[1][-1]]
    # rules in time, of which the first that is accurate enough counts: each point is another residual.  Splines of less
    # degree have kinks in the knots.  The last rule, for data that change faster, takes too much memory in 2-D and 3-D.
    rules = [(TimeRule.whole(float(knots.times[-1])), SETTLED)] if len(knots.times) > DEGREE else []
    rules.append((TimeRule.between(knots.times), _ANY))
    if dimension == 1:
        steps = np.arange(len(knots.times))
        times = max(2, -(-_FINER // int(steps[-1])))
        finer = np.interp(np.arange(times * steps[-1] + 1) / times, steps, knots.times)
        rules.append((TimeRule.between(finer), _ANY))
    for grid in grids:
        functions = RunFunctions.of(solution, grid, share)
        reconstructed = functions.reconstruct(knots.coefficients, knots.times)
        last = None if end is None else tuple(functions.reconstruct(end, knots.times).states)
        for rule, most in rules:
            key = (problem_key, grid, rule.times.tobytes())
            data, growth, in_space, in_time = share("certificate data", key, partial(_sample_data, problem, grid, rule))
            bound = bound_energy(reconstructed, rule, grid, data.part, growth, last)
            settled = in_time and bound.time_rule <= most * bound.value**2
            if settled:
                break
        if not (settled and in_space):  # nothing is known of what the grid or the times miss
            bound = replace(bound, unresolved=math.inf)
        if bound.unresolved / max(bound.initial + bound.residual, sys.float_info.min) <= _RESOLVED[dimension]:
            break
    return bound, functions


def _sample_data(problem: Problem, grid: TensorGrid, rule: TimeRule) -> tuple[ProblemData, Growth, bool, bool]:
    """Return the problem on a grid, and whether grid and rule resolve its data."""
    data, growth = ProblemData.of(problem, grid, rule.times), bound_growth(problem, grid, rule.times)
    in_space = grid.dimension == 1 or is_seen_in_space(problem, grid, float(rule.times[-1]))
    return data, growth, in_space, is_seen_in_time(problem, data, rule)


@dataclass(frozen=True, eq=False)
class RunFunctions:
    """A retained space with its features at the nodes of `grid`.  Only a line needs derivatives."""

    space: RetainedSpace
    grid: TensorGrid
    values: Array
    on_line: FirstOrder | None = None

    @staticmethod
    def of(solution: Solution, grid: TensorGrid, share: Share) -> RunFunctions:
        """Evaluate the features, unless the run has these values for its validation."""
        space, run = solution.space, solution.discretisation
        key = (run.dictionary, run.seed, grid, space.domain)
        nodes = to_box(space.domain).from_unit(grid.nodes)
        if grid.dimension == 1:
            first = share("certificate features", key, lambda: space.features.first_order(nodes))
            return RunFunctions(space, grid, first.value, first)
        if isinstance(solution.sums, AtNodes) and run.validation == QuadratureRule("gauss_legendre", grid.points):
            return RunFunctions(space, grid, solution.sums.psi)
        return RunFunctions(space, grid, share("certificate features", key, lambda: space.features.values(nodes)))

    @property
    def box(self) -> Box:
        return to_box(self.space.domain)

    @cached_property
    def trial(self) -> Array:
        """Phi at the nodes, (Q, N)."""
        return _evaluate_factor(self.space.domain, self.grid)[0] * self.values

    def apply_weights(self, roots: Array) -> Array:
        """Return Phi at the nodes times the roots of their weights (Q,), (Q, N)."""
        return np.asarray((roots[:, None] * _evaluate_factor(self.space.domain, self.grid)[0]) * self.values)

    def evaluate_states(self, coefficients: Array) -> Array:
        """Return functions of the retained space at the nodes, (..., r) -> (..., Q)."""
        if self.on_line is None:
            return np.asarray((coefficients @ self.space.transform.T) @ self.trial.T)
        return np.asarray(coefficients @ self._retained[0].T)

    def reconstruct(self, states: Array, times: Array) -> Reconstruction:
        """Return the run by its coefficients at the knots: of retained functions (1-D), or of D times polynomials."""
        if self.on_line is not None:
            return Reconstruction(times, states, self._along)
        values = (states @ self.space.transform.T) @ self.values.T
        points, ends = self.grid.points, self.box.ends

        def along(x: Array) -> list[tuple[Array, Array]]:
            return [_make_interpolants(points, tuple(x.tolist()), *of) for of in ends]

        return Reconstruction(times, values.reshape(-1, *self.grid.shape), along)

    @cached_property
    def _retained(self) -> tuple[Array, Array]:
        """Retained functions and their derivatives in the unit interval at the nodes, (Q, r) each."""
        assert self.on_line is not None  # noqa: S101  # asked before
        return self._apply_factor(self.on_line, *_evaluate_factor(self.space.domain, self.grid))

    def _along(self, x: Array) -> list[tuple[Array, Array]]:
        if x is self.grid.axis_rule[0] or np.array_equal(x, self.grid.axis_rule[0]):
            return [self._retained]
        nodes = self.box.from_unit(x[:, None])
        D, dD = self.space.domain.boundary_factor(nodes, 1)
        return [self._apply_factor(self.space.features.first_order(nodes), D[:, None], dD[0][:, None])]

    # as `evaluate_retained`, of few nodes in one direction and with a boundary factor that is at hand
    def _apply_factor(self, psi: FirstOrder, D: Array, dD: Array) -> tuple[Array, Array]:
        transform = np.ascontiguousarray(self.space.transform)  # with which small products take half the time
        values = psi.value @ transform
        slopes = D * psi.mapped(psi.factor(transform))[0]
        slopes += dD * values
        values *= D
        slopes *= self.box.widths[0]
        return values, slopes


@lru_cache(maxsize=8)  # which all runs of a study have in common
def _evaluate_factor(domain: Domain, grid: TensorGrid) -> tuple[Array, Array]:
    """Return D at the nodes, and its derivative in the first direction, (Q, 1) each."""
    D, dD = domain.boundary_factor(to_box(domain).from_unit(grid.nodes), 1)
    return D[:, None], dD[0][:, None]


@lru_cache(maxsize=16)
def _make_interpolants(points: int, at: tuple[float, ...], below: bool, above: bool) -> tuple[Array, Array]:
    """Return D_l times the Lagrange polynomials of the Gauss nodes, with their derivatives."""
    x, one = np.array(at), np.ones(len(at))
    value, slope = evaluate_interpolants(points, x, 1)
    low, high = x if below else one, 1.0 - x if above else one
    factor, derivative = (low * high)[:, None], (below * high - above * low)[:, None]
    return factor * value, derivative * value + factor * slope
