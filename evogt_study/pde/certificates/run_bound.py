"""The bound of one run: its functions on a grid, and the candidate grids and rules in time.

`RunFunctions` has the features of a run on a tensor grid, and its states as functions of one coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial

import numpy as np

from evogt_study.pde.certificates import reconstruction
from evogt_study.pde.certificates.bound import EnergyBound, Growth, bound_energy, bound_growth
from evogt_study.pde.certificates.problem_data import ProblemData, UnitBox
from evogt_study.pde.certificates.spectral_space import TensorGrid, evaluate_interpolants
from evogt_study.pde.dictionaries.base import FirstOrder
from evogt_study.pde.domains import Domain
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.retained_space import RetainedSpace
from evogt_study.pde.galerkin.validation import AtNodes
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory
from evogt_study.pde.pipeline import Share, Solution

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
class RunBound:
    """The bound, and the functions of the run on its grid."""

    bound: EnergyBound
    functions: RunFunctions


@lru_cache(maxsize=64)  # cases of a study have few
def knot_steps(grid: TimeGrid, dimension: int) -> tuple[int, ...]:
    """Return the steps whose states the reconstruction interpolates."""
    count = min(KNOTS[dimension], grid.steps)
    return tuple(int(step) for step in np.round(np.linspace(0, grid.steps, count + 1)))


def find_knots(solution: Solution) -> Trajectory:
    """Return the states that the reconstruction interpolates, from the run or from another march."""
    grid, dimension = solution.discretisation.grid, solution.problem.dimension
    steps = knot_steps(grid, dimension)
    times = grid.times_of(steps)
    for known in (solution.passed, solution.trajectory):
        # to the last bit, since all of these times come of `TimeGrid.times_of`
        if known is not None and set(times.tolist()).issubset(known.times.tolist()):
            return known.at(times) if len(known.times) > len(times) else known
    return solution.discretisation.integrator.march(solution.system, TimeGrid(grid.final_time, grid.steps, steps))


def bound_run(
    solution: Solution, knots: Trajectory, share: Share, problem_key: Hashable, end: Array | None = None
) -> RunBound:
    """Return the bound by the states at the knots.  `end`: state and rate (2, r) for the representer."""
    dimension, nodes = solution.problem.dimension, _count_nodes(solution)
    if dimension > 1:
        grids = [_grid(dimension, count, 1) for count in GRIDS[dimension]]
    else:  # a grid that is too coarse costs all of its work again, so that the first has to do as a rule
        grids = [_grid(1, PANEL, count) for count in GRIDS[1] if count * PANEL >= nodes or count == GRIDS[1][-1]]
    for grid in grids:
        functions = RunFunctions.of(solution, grid, share)
        bound = _on_a_grid(solution.problem, functions, knots, share, problem_key, end)
        if bound.resolution <= _RESOLVED[dimension]:
            break
    return RunBound(bound, functions)


# retained by a rule of fewer nodes than features, functions are as rough between them as any feature is
def _count_nodes(solution: Solution) -> float:
    """Return the number of nodes on a line that resolve the residual and products of two functions."""
    sizes = solution.svd.singular_values
    directions = solution.space.rank if sizes[-1] > 0.0 else len(sizes)
    return max(_NODES * directions, FULL_NODES * np.count_nonzero(sizes > SMALLEST * sizes[0]))


def _on_a_grid(
    problem: Problem, functions: RunFunctions, knots: Trajectory, share: Share, problem_key: Hashable,
    end: Array | None,
) -> EnergyBound:  # fmt: skip
    """Return the bound by the first rule in time that is accurate enough.  It is infinite if the grid misses data."""
    grid, reconstructed = functions.grid, functions.reconstruct(knots.coefficients, knots.times)
    last = None if end is None else tuple(functions.reconstruct(end, knots.times).states)
    for rule, most in _list_rules(knots.times, grid.dimension):
        key = (problem_key, grid, rule.times.tobytes())
        data, growth, in_space, in_time = share("certificate data", key, partial(_sample_data, problem, grid, rule))
        bound = bound_energy(reconstructed, rule, grid, data.part, growth, last)
        settled = in_time and bound.time_rule <= most * bound.value**2
        if settled:
            break
    return bound if settled and in_space else replace(bound, unresolved=math.inf)


def _sample_data(
    problem: Problem, grid: TensorGrid, rule: reconstruction.TimeRule
) -> tuple[ProblemData, Growth, bool, bool]:
    """Return the problem on a grid, and whether grid and rule resolve its data."""
    data, growth = ProblemData.of(problem, grid, rule.times), bound_growth(problem, grid, rule.times)
    in_space = grid.dimension == 1 or reconstruction.is_seen_in_space(problem, grid, float(rule.times[-1]))
    return data, growth, in_space, reconstruction.is_seen_in_time(problem, data, rule)


# each point is another residual, and as a rule the fewer are enough
def _list_rules(knots: Array, dimension: int) -> Iterator[tuple[reconstruction.TimeRule, float]]:
    """Yield rules in time, with the part by which each may differ from a coarser rule."""
    # of less degree, splines have kinks in the knots
    if len(knots) > reconstruction.DEGREE:
        yield reconstruction.TimeRule.whole(float(knots[-1])), SETTLED
    yield reconstruction.TimeRule.between(knots), _ANY
    # for data that change faster; in 2-D and 3-D it would take too much memory
    if dimension == 1:
        steps = np.arange(len(knots))
        times = max(2, -(-_FINER // int(steps[-1])))
        yield reconstruction.TimeRule.between(np.interp(np.arange(times * steps[-1] + 1) / times, steps, knots)), _ANY


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
        nodes = UnitBox.of(space.domain).nodes(grid)
        if grid.dimension == 1:
            first = share("certificate features", key, lambda: space.features.first_order(nodes))
            return RunFunctions(space, grid, first.value, first)
        if isinstance(solution.sums, AtNodes) and run.validation == QuadratureRule("gauss_legendre", grid.points):
            return RunFunctions(space, grid, solution.sums.psi)
        return RunFunctions(space, grid, share("certificate features", key, lambda: space.features.values(nodes)))

    @cached_property
    def box(self) -> UnitBox:
        return UnitBox.of(self.space.domain)

    @cached_property
    def trial(self) -> Array:
        """Phi at the nodes, (Q, N)."""
        return _boundary_factor(self.space.domain, self.grid)[0] * self.values

    def apply_weights(self, roots: Array) -> Array:
        """Return Phi at the nodes times the roots of their weights (Q,), (Q, N)."""
        return np.asarray((roots[:, None] * _boundary_factor(self.space.domain, self.grid)[0]) * self.values)

    def evaluate_states(self, coefficients: Array) -> Array:
        """Return functions of the retained space at the nodes, (..., r) -> (..., Q)."""
        if self.on_line is None:
            return np.asarray((coefficients @ self.space.transform.T) @ self.trial.T)
        return np.asarray(coefficients @ self._retained[0].T)

    def reconstruct(self, states: Array, times: Array) -> reconstruction.Reconstruction:
        """Return the run by its coefficients at the knots: of retained functions (1-D), or of D times polynomials."""
        if self.on_line is not None:
            return reconstruction.Reconstruction(times, states, self._along)
        values = (states @ self.space.transform.T) @ self.values.T
        points, ends = self.grid.points, self.box.ends

        def along(x: Array) -> list[tuple[Array, Array]]:
            return [_interpolating(points, tuple(x.tolist()), *of) for of in ends]

        return reconstruction.Reconstruction(times, values.reshape(-1, *self.grid.shape), along)

    @cached_property
    def _retained(self) -> tuple[Array, Array]:
        """Retained functions and their derivatives in the unit interval at the nodes, (Q, r) each."""
        assert self.on_line is not None  # noqa: S101  # asked before
        return self._apply_factor(self.on_line, *_boundary_factor(self.space.domain, self.grid))

    def _along(self, x: Array) -> list[tuple[Array, Array]]:
        if x is self.grid.axis_rule[0] or np.array_equal(x, self.grid.axis_rule[0]):
            return [self._retained]
        nodes = self.box.mapped(x[:, None])
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
def _boundary_factor(domain: Domain, grid: TensorGrid) -> tuple[Array, Array]:
    """Return D at the nodes, and its derivative in the first direction, (Q, 1) each."""
    D, dD = domain.boundary_factor(UnitBox.of(domain).nodes(grid), 1)
    return D[:, None], dD[0][:, None]


@lru_cache(maxsize=16)
def _interpolating(points: int, at: tuple[float, ...], below: bool, above: bool) -> tuple[Array, Array]:
    """Return D_l times the Lagrange polynomials of the Gauss nodes, with their derivatives."""
    x, one = np.array(at), np.ones(len(at))
    value, slope = evaluate_interpolants(points, x, 1)
    low, high = x if below else one, 1.0 - x if above else one
    factor, derivative = (low * high)[:, None], (below * high - above * low)[:, None]
    return factor * value, derivative * value + factor * slope
