"""Compute the error bound in the energy norm from the dual norm of the residual (docs/background/error_bounds.md).

For the reconstruction v of a run, the residual is R(w) = F(w) - (v_t, w) - B(v, w) for all test functions w.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial, reduce
from typing import NamedTuple

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.pde.certificates.functions import (
    FIXED_ENDS,
    SPLINE_DEGREE,
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
from evogt_study.pde.galerkin.system import RetainedSpace, evaluate_retained
from evogt_study.pde.numerics import Array, QuadratureRule, TimeGrid, Trajectory
from evogt_study.pde.pipeline import Share, Solution

MAX_KNOT_STEPS = {1: 500, 2: 7, 3: 6}
"""Largest number of steps that the reconstruction interpolates.  More steps in 2-D or 3-D change bounds by 1 %."""
MAX_RULE_GAP = 1e-3
"""Largest difference of the Gauss and Kronrod rules, relative to the squared bound.  In 252 runs it is at most 5e-4."""
MIN_SIZE = 1e-14
"""Least relative size of a direction in the space of all features.  Smaller directions are rounding."""
PANEL = 32
"""Number of Gauss points in a panel.  With fewer points, a run needs up to a quarter more nodes."""
GRIDS = {1: (4, 5, 6, 7, 8, 10, 12, 16, 32, 64), 2: (48, 64, 80, 112), 3: (22, 28, 36, 44)}
"""Numbers of panels (1-D) or points per direction, in the order of the attempts."""
_MIN_NODES = 3.2
"""Least number of nodes per retained direction in 1-D.  One in 15 runs of the paper then needs a second grid."""
MIN_FULL_NODES = 1.5
"""Least number of nodes per direction of all features.  With 1.1, the best approximation had a sixth of its error."""
_MAX_UNRESOLVED = {1: 0.01, 2: 0.05, 3: 0.08}
"""Largest unresolved part of the squared bound that needs no finer grid.  The bound includes this part."""
_make_grid = cache(TensorGrid)
"""Return a cached grid.  The nodes of all `GRIDS` take 6 MB."""


@dataclass(frozen=True, eq=False)
class EnergyBound:
    """Error bound with the squares of its parts."""

    initial: float
    residual: float
    time_rule: float
    unresolved: float
    representer: Array

    @property
    def value(self) -> float:
        """Bound of the energy norm of the error."""
        return math.sqrt(self.initial + self.residual + self.time_rule + self.unresolved)


class Growth(NamedTuple):
    """Growth rate of errors due to the terms other than diffusion, and factor of the mass term in the dual norm."""

    rate: float = 0.0
    mass: float = 0.0


def bound_growth(data: ProblemData, decay: bool = False) -> Growth:
    """Compute the growth rate of errors of a linear problem from its data at the grid nodes.

    With `decay` the rate may be negative, because || sqrt(A) grad e ||^2 >= lambda || e ||^2.  A bound with this rate
    holds for || e(T) || only.
    """
    grid, dirichlet = data.grid, any(map(any, data.ends))
    if data.advection is None and data.reaction is None and dirichlet and not decay:
        return Growth()
    upper = np.zeros((1, *grid.shape)) if data.reaction is None else data.reaction
    for axis, b in enumerate(data.advection or ()):
        matrices = [np.eye(len(grid.axis_rule[0]))] * grid.dimension
        # matrix from values at the nodes to the derivatives of the interpolating polynomial, in each panel
        _, slopes = evaluate_interpolants(grid.points, TensorGrid(1, grid.points).axis_rule[0], 1)
        matrices[axis] = np.kron(np.eye(grid.panels), grid.panels * slopes)
        upper = upper + apply_matrices(matrices, b) / 2.0
    most = float(upper.max())
    if not dirichlet:
        # diffusion does not damp the mean, so the weight damps it, which increases the bound by at most exp(0.05)
        rate = max(most + 0.05 / float(data.times[-1]), 0.0)
        return Growth(rate, rate - most)
    if not decay:
        return Growth(max(most, 0.0))
    # half of a lower bound of the least eigenvalue of -div(A grad), by the least value at the nodes
    least = float(data.diffusion.min())
    if data.diffusion.ndim > grid.dimension + 1:
        least = float(np.linalg.eigvalsh(np.moveaxis(data.diffusion, (1, 2), (-2, -1))).min())
    # sin(pi x), or sin(pi x / 2) with one Dirichlet end
    squares = sum((0.25 * sum(each) ** 2) * math.pi**2 for each in data.ends)
    # less than the decay rate, because the diffusion may be smaller between the nodes
    return Growth(most - 0.5 * 0.9 * max(least, 0.0) * squares)


def bound_energy(
    solution: Reconstruction, rule: TimeRule, grid: TensorGrid, data_of: Callable[[slice], ProblemData],
    growth: Growth, end: tuple[Array, Array] | None = None,
) -> EnergyBound:  # fmt: skip
    """Compute the error bound from the data at blocks of times.  The representer uses state and rate in `end`."""
    # in blocks of times of 2 MB, so that the values of a large reference stay in cache
    size, initial, norms = max(1, (1 << 18) // grid.weights.size), 0.0, list[DualNorm]()
    run = SampledBasis(solution.along, grid)
    for start in range(0, len(rule.times), size):
        block = data_of(slice(start, start + size))
        if start == 0:
            difference = (run.evaluate(solution.states[0]) - block.initial).ravel()
            initial = float(difference**2 @ grid.weights.ravel())
        states, rates = solution.at(block.times)
        # this time has weight zero in the integral and serves only the representer
        if end is not None and start + size >= len(rule.times):
            states[-1], rates[-1] = end
        norms.append(_bound_residual(run, states, rates, block, growth.mass))
    weights = np.exp(2.0 * growth.rate * (rule.times[-1] - rule.times))  # the last time is T
    squares = weights * np.concatenate([norm.squares for norm in norms])
    unresolved = weights * np.concatenate([norm.unresolved for norm in norms])
    fine, coarse = float(rule.weights @ squares), float(rule.coarse @ squares)
    initial *= float(np.exp(2.0 * growth.rate * rule.times[-1]))
    parts = initial, fine, abs(fine - coarse), float(rule.weights @ unresolved)
    # infinity for NaN, which overflow causes
    first, residual, time_rule, left = (math.inf if math.isnan(part) else part for part in parts)
    return EnergyBound(first, residual, time_rule, left, norms[-1].representer)


def _bound_residual(run: SampledBasis, states: Array, rates: Array, data: ProblemData, mass: float) -> DualNorm:
    """Compute the dual norm of the residual for states and their time derivatives, (T, m, ..., m) each."""
    if data.grid.dimension > 1:
        space = SpectralSpace(data.grid.dimension, data.grid.points - 2, data.ends)
        return measure_in_cube(data.moments(run, states, rates, space), data, space, mass)
    gradient = run.gradient(states)
    remainder = data.remainder(run, states, gradient) - run.evaluate(rates)
    given: list[Array | float] = [0.0, 0.0]
    for face in data.faces:
        given[face.side] = face.term(run, states)
    diffusion = data.diffusion if data.diffusion.ndim == data.source.ndim else data.diffusion[:, 0, 0]
    return measure_on_line(
        remainder, data.flux_of(gradient)[0], diffusion, data.grid, data.ends[0], (given[0], given[1]), mass
    )


@dataclass(frozen=True, eq=False)
class DualNorm:
    """Squared dual norm || R ||^2 at T times, and the representer w with (a grad w, grad v) = R(v) for all v."""

    squares: Array
    unresolved: Array
    representer: Array


def measure_on_line(
    remainder: Array, flux: Array, diffusion: Array, grid: TensorGrid, ends: Ends = FIXED_ENDS,
    given: tuple[Array | float, Array | float] = (0.0, 0.0), mass: float = 0.0,
) -> DualNorm:  # fmt: skip
    """Compute the dual norm of (r, v) - (q, v') + <g, v> in 1-D from r and q (T, Q), a (T or 1, Q), g (T,), and m.

    The dual norm is || (G + q - c) / sqrt(a) || with G' = r.  At two Dirichlet ends, the constant c minimises the norm.
    Otherwise G - c = -g at a natural upper end, or G - c = g at a natural lower end.
    """
    weights, constants = grid.weights, np.zeros(())
    if not any(ends):
        # the space then contains constants, and only the mass term bounds their part
        mean = np.asarray(remainder @ weights + given[0] + given[1])
        remainder, constants = remainder - mean[:, None], mean**2 / mass
    primitive, inverse = _integrate_panels(remainder, grid), 1.0 / diffusion
    primitive += flux
    weighted = weights * inverse
    if all(ends):
        # with this constant, w = -(integral of slope) vanishes at both ends
        shift = -np.vecdot(primitive, weighted) / (inverse @ weights)
    else:
        shift = -remainder @ weights - given[1] if ends[0] else np.broadcast_to(given[0], len(primitive))
    primitive += shift[:, None]
    slope = primitive[-1:] * inverse[-1:]
    primitive *= np.sqrt(weighted)
    representer = -_integrate_panels(slope, grid)[0]
    # w vanishes at the Dirichlet end, or has mean zero without such an end
    if not ends[0]:
        representer += slope[0] @ weights if ends[1] else -(representer @ weights)
    squares = np.vecdot(primitive, primitive) + constants
    # the last quarter of the Legendre modes of each panel, for values times the roots of the weights
    *_, modes = _make_matrices(grid.points, grid.panels)
    last = (primitive.reshape(-1, grid.points) @ modes).reshape(len(primitive), -1)
    # five times these modes estimate the unresolved modes, which were at most 3.7 times as large in 1,600 runs
    return DualNorm(squares, 5.0 * np.vecdot(last, last), representer)


def _integrate_panels(values: Array, grid: TensorGrid) -> Array:
    """Integrate the interpolating polynomial of each panel from 0 to the nodes, (T, Q) -> (T, Q)."""
    inside, before, _ = _make_matrices(grid.points, grid.panels)
    result = (values.reshape(-1, grid.points) @ inside).reshape(len(values), grid.panels, grid.points)
    result += (values @ before)[:, :, None]
    return result.reshape(len(values), -1)


@lru_cache(maxsize=16)  # all `GRIDS` and the grids of references
def _make_matrices(points: int, panels: int) -> tuple[Array, Array, Array]:
    """Return matrices from nodal values to primitives in a panel, integrals over previous panels, and last modes."""
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
    """Compute the dual norm in 2-D or 3-D from the moments R(B_k) (T, n, ..., n), the diffusion and m.

    Conjugate gradients approximate w with (A grad w, grad v) = R(v).  With the remaining residual R_2, and a constant
    diagonal matrix s below A, || R ||^2 = 2 R(w) - || sqrt(A) grad w ||^2 + || R_2 ||^2, where
    || R_2 || <= sup R_2(v) / || sqrt(s) grad v ||.  Without a Dirichlet face, constants add R(1)^2 / m.
    """
    axes, basis = tuple(range(1, moments.ndim)), SampledBasis.sample(space, data.grid)
    scale, constants = space.eigenvalues(bound_below(data.diffusion, space.dimension)), np.zeros(len(moments))
    if space.ends and not any(map(any, space.ends)):
        first = moments.reshape(len(moments), -1)[:, 0]
        constants, moments = first**2 / mass, moments.copy()
        # the first function is the constant, on which the diffusion term vanishes
        moments.reshape(len(moments), -1)[:, 0], scale.reshape(len(scale), -1)[:, 0] = 0.0, 1.0
    # The preconditioner's norm bounds the rest, which costs at most 0.15 %.  Usually 4 to 8 iterations are enough.
    w, left = solve_by_conjugate_gradients(
        lambda v: basis.flux_moments(data.apply_diffusion(basis.gradient(v))), moments, scale, tolerance=3e-3, most=40
    )
    # A w = R - left, so that 2 R(w) - (A w, w) = (R + left, w) without another product with A
    squares = np.sum((moments + left) * w, axis=axes) + np.sum(left**2 / scale, axis=axes) + constants
    # modes with a high index in some direction
    low = ((np.arange(space.modes) < int(part * space.modes)).astype(np.float64) for part in (2.0 / 3.0, 1.0 / 3.0))
    masks = (1.0 - np.asarray(reduce(np.multiply.outer, [each] * space.dimension)) for each in low)
    upper, middle = (np.sum(moments**2 / scale * mask, axis=axes) for mask in masks)
    # If the modes fall by the factor q from the middle third to the upper third, the next modes have q times the upper.
    before = np.maximum(middle - upper, upper)
    unresolved = upper * np.divide(upper, before, out=np.ones_like(upper), where=before > 0.0)
    return DualNorm(squares, unresolved, basis.evaluate(w[-1:])[0])


def bound_below(diffusion: Array, dimension: int) -> Array:
    """Return the diagonal (T or 1, d) of a constant matrix below A, the mean A_ll times the least scaled eigenvalue."""
    times = len(diffusion)
    if diffusion.ndim == dimension + 1:
        return np.repeat(diffusion.reshape(times, -1).min(axis=1)[:, None], dimension, axis=1)
    flat = np.moveaxis(diffusion.reshape(times, dimension, dimension, -1), -1, 1)
    scales = np.einsum("tqll->tl", flat) / flat.shape[1]
    roots = np.sqrt(scales)
    least = np.linalg.eigvalsh(flat / (roots[:, None, :, None] * roots[:, None, None, :]))[..., 0].min(axis=1)
    if not least.min() > 0.0:
        got = f"a least eigenvalue of {least.min():.6g} of the matrix scaled to mean diagonal entries of one"
        raise ProblemError(f"`diffusion` must be positive definite on the nodes of the certificates, got {got}")
    return np.asarray(least[:, None] * scales)


def solve_by_conjugate_gradients(
    operator: Callable[[Array], Array], load: Array, diagonal: Array, tolerance: float, most: int
) -> tuple[Array, Array]:
    """Solve A x = b for T systems, with the preconditioner `diagonal` (1 or T, ...), and return x and b - A x."""
    axes = tuple(range(1, load.ndim))

    def product(left: Array, right: Array) -> Array:
        return np.asarray(np.sum(left * right, axis=axes, keepdims=True))

    def ratio(over: Array, under: Array) -> Array:
        # zero for a system that is solved exactly, so that its x does not change while other systems continue
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


@lru_cache(maxsize=64)  # the cases of a study have few time grids
def list_knot_steps(grid: TimeGrid, dimension: int) -> tuple[int, ...]:
    """Return the steps whose states the reconstruction interpolates."""
    count = min(MAX_KNOT_STEPS[dimension], grid.steps)
    return tuple(int(step) for step in np.round(np.linspace(0, grid.steps, count + 1)))


def find_knots(solution: Solution) -> Trajectory:
    """Return the states that the reconstruction interpolates, from the run or from another time integration."""
    if solution.passed is not None:  # a record with certificates keeps the states at `list_knot_steps`
        return solution.passed
    run, dimension = solution.discretisation, solution.problem.dimension
    return run.integrator.march(solution.system, replace(run.grid, saved=list_knot_steps(run.grid, dimension)))


def bound_run(
    solution: Solution, knots: Trajectory, share: Share, problem_key: Hashable, end: Array | None = None
) -> tuple[EnergyBound, RunFunctions]:
    """Compute the error bound from the states at the knots, and return it with the functions of the run on its grid."""
    problem, dimension, sizes = solution.problem, solution.problem.dimension, solution.svd.singular_values
    # if the rule has fewer nodes than features, retained functions are as rough between the nodes as the features
    directions = solution.space.rank if sizes[-1] > 0.0 else len(sizes)
    nodes = max(_MIN_NODES * directions, MIN_FULL_NODES * np.count_nonzero(sizes > MIN_SIZE * sizes[0]))
    if dimension > 1:
        grids = [_make_grid(dimension, count, 1) for count in GRIDS[dimension]]
    else:  # a second grid repeats all the work, so the first grid should usually be fine enough
        grids = [_make_grid(1, PANEL, count) for count in GRIDS[1] if count * PANEL >= nodes or count == GRIDS[1][-1]]
    # Use the first time rule that is accurate enough, because each point needs a residual.  Splines of lower degree
    # have kinks at the knots.  The last rule, for data that change faster, takes too much memory in 2-D and 3-D.
    rules = [(TimeRule.whole(float(knots.times[-1])), MAX_RULE_GAP)] if len(knots.times) > SPLINE_DEGREE else []
    rules.append((TimeRule.between(knots.times), 2.0))  # 2 accepts any difference
    if dimension == 1:
        steps = np.arange(len(knots.times))
        times = max(2, -(-80 // int(steps[-1])))  # at least 80 intervals
        finer = np.interp(np.arange(times * steps[-1] + 1) / times, steps, knots.times)
        rules.append((TimeRule.between(finer), 2.0))
    for grid in grids:
        functions = RunFunctions.from_solution(solution, grid, share)
        reconstructed = functions.reconstruct(knots.coefficients, knots.times)
        last = None if end is None else tuple(functions.reconstruct(end, knots.times).states)
        for rule, most in rules:
            key = (problem_key, grid, rule.times.tobytes())
            data, growth, in_space, in_time = share("certificate data", key, partial(_sample_data, problem, grid, rule))
            bound = bound_energy(reconstructed, rule, grid, data.part, growth, last)
            settled = in_time and bound.time_rule <= most * bound.value**2
            if settled:
                break
        if not (settled and in_space):  # unresolved data have no bound
            bound = replace(bound, unresolved=math.inf)
        if bound.unresolved / max(bound.initial + bound.residual, sys.float_info.min) <= _MAX_UNRESOLVED[dimension]:
            break
    return bound, functions


def _sample_data(problem: Problem, grid: TensorGrid, rule: TimeRule) -> tuple[ProblemData, Growth, bool, bool]:
    """Evaluate a problem on a grid, compute the growth rate, and check whether grid and rule resolve the data."""
    data = ProblemData.evaluate(problem, grid, rule.times)
    in_space = grid.dimension == 1 or is_seen_in_space(problem, grid, float(rule.times[-1]))
    return data, bound_growth(data), in_space, is_seen_in_time(problem, grid, rule)


@dataclass(frozen=True, eq=False)
class RunFunctions:
    """Retained space with the values of its features at the nodes of `grid`, and their derivatives in 1-D."""

    space: RetainedSpace
    grid: TensorGrid
    values: Array
    on_line: FirstOrder | None = None

    @staticmethod
    def from_solution(solution: Solution, grid: TensorGrid, share: Share) -> RunFunctions:
        """Evaluate the features, or use the values from the validation of the run."""
        space, run = solution.space, solution.discretisation
        key = (run.dictionary, run.seed, grid, space.domain)
        nodes = to_box(space.domain).from_unit(grid.nodes)
        if grid.dimension == 1:
            first = share("certificate features", key, lambda: space.features.first_order(nodes))
            return RunFunctions(space, grid, first.value, first)
        if solution.sums.to_nodes is None and run.validation == QuadratureRule("gauss_legendre", grid.points):
            return RunFunctions(space, grid, solution.sums.psi)
        return RunFunctions(space, grid, share("certificate features", key, lambda: space.features.values(nodes)))

    @property
    def box(self) -> Box:
        return to_box(self.space.domain)

    @cached_property
    def trial(self) -> Array:
        """Trial functions Phi at the nodes, (Q, N)."""
        return _evaluate_factor(self.space.domain, self.grid) * self.values

    def apply_weights(self, roots: Array) -> Array:
        """Return the trial functions Phi at the nodes, times the roots of the weights (Q,), (Q, N)."""
        return np.asarray((roots[:, None] * _evaluate_factor(self.space.domain, self.grid)) * self.values)

    def evaluate_states(self, coefficients: Array) -> Array:
        """Evaluate functions of the retained space at the nodes, (..., r) -> (..., Q)."""
        if self.on_line is None:
            return np.asarray((coefficients @ self.space.transform.T) @ self.trial.T)
        return np.asarray(coefficients @ self._retained[0].T)

    def reconstruct(self, states: Array, times: Array) -> Reconstruction:
        """Return the reconstruction from states at the knots, in retained functions (1-D) or D times polynomials."""
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
        assert self.on_line is not None  # noqa: S101  # callers check first
        return self._evaluate_on_line(self.box.from_unit(self.grid.nodes), self.on_line)

    def _along(self, x: Array) -> list[tuple[Array, Array]]:
        if x is self.grid.axis_rule[0] or np.array_equal(x, self.grid.axis_rule[0]):
            return [self._retained]
        nodes = self.box.from_unit(x[:, None])
        return [self._evaluate_on_line(nodes, self.space.features.first_order(nodes))]

    def _evaluate_on_line(self, nodes: Array, psi: FirstOrder) -> tuple[Array, Array]:
        transform = np.ascontiguousarray(self.space.transform)  # small products then take half the time
        values, gradients = evaluate_retained(self.space.domain, psi, nodes, transform)
        return values, gradients[0] * self.box.widths[0]


@lru_cache(maxsize=8)  # all runs of a study share these values
def _evaluate_factor(domain: Domain, grid: TensorGrid) -> Array:
    """Return the boundary factor D at the nodes, (Q, 1)."""
    return domain.boundary_factor(to_box(domain).from_unit(grid.nodes))[0][:, None]


@lru_cache(maxsize=16)
def _make_interpolants(points: int, at: tuple[float, ...], below: bool, above: bool) -> tuple[Array, Array]:
    """Return the products of D_l and the Lagrange polynomials of the Gauss nodes, with their derivatives."""
    x, one = np.array(at), np.ones(len(at))
    value, slope = evaluate_interpolants(points, x, 1)
    low, high = x if below else one, 1.0 - x if above else one
    factor, derivative = (low * high)[:, None], (below * high - above * low)[:, None]
    return factor * value, derivative * value + factor * slope
