"""A run as a function of space and time, and whether a grid and times resolve the data of its problem.

A `Reconstruction` is made of products in space and a spline in time.  Between the states u^n at the knots t_n it is the
interpolating spline of degree five (less with fewer than six knots).  Its value at the final time is the run's, and it
has a derivative in time, which a residual needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy  # imports its parts when they are first used: workers would pay 0.17 s for this one at start

from evogt_study.pde.certificates.spectral_space import ProblemData, TensorGrid, UnitBox, evaluate_interpolants
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.numerics import Array, QuadratureRule

DEGREE = 5
"""Degree of the spline.  The error of a cubic spline would show in references of 100 knots."""
GAUSS = 6
"""Gauss points of an interval between knots: they are exact for the square of a spline of degree five, so that states
that alternate from step to step are integrated exactly too."""
KRONROD_NODES = np.array([
    0.991455371120812639207, 0.949107912342758524526, 0.864864423359769072790, 0.741531185599394439864,
    0.586087235467691130294, 0.405845151377397166907, 0.207784955007898467601, 0.0,
])  # fmt: skip
KRONROD_WEIGHTS = np.array([
    0.022935322010529224964, 0.063092092629978553291, 0.104790010322250183840, 0.140653259715525918745,
    0.169004726639267902827, 0.190350578064785409913, 0.204432940075298892414, 0.209482141084727828013,
])  # fmt: skip
GAUSS_WEIGHTS = np.array(
    [0.129484966168869693271, 0.279705391489276667901, 0.381830050505118944950, 0.417959183673469387755]
)
"""7 Gauss points of (-1, 1) with 8 Kronrod points (QUADPACK), from the outermost to the middle."""
BETWEEN = 4
"""Points between two nodes at which `is_seen_in_space` compares."""
_TIMES = 499
"""Number of times in `is_seen_in_time`: a prime, so no simple period meets them.  A pulse of 0.4 % has two."""
_FAR = 0.08
"""Part of a function by which what the nodes say of it may be wrong.  In 200 manufactured problems it is at most 1e-3;
a jump from zero makes 0.07 on 64 nodes, tanh(30 x - 30 y) 0.2 on 48.  With 0.15 the bound of a ridge of 60 on 112
nodes was 0.1 % too small; with 0.08 the bounds of ridges of 20 to 52 are at least 0.4 % above the error."""
_ROUNDING = 1e-9
"""Source that changes the solution by less than this part of the initial value is not checked."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """States at the knots, in products of functions of one coordinate."""

    knots: Array
    states: Array
    along: Callable[[Array], list[tuple[Array, Array]]]

    @property
    def dimension(self) -> int:
        return self.states.ndim - 1

    def at(self, times: Array) -> tuple[Array, Array]:
        """Return states and their time derivatives, (T, m, ..., m) each."""
        flat, shape = self.states.reshape(len(self.knots), -1), (len(times), *self.states.shape[1:])
        states, rates = _evaluate_splines(self.knots.tobytes(), times.tobytes())
        return (states @ flat).reshape(shape), (rates @ flat).reshape(shape)

    def derivative(self, order: int) -> Array:
        """Return time derivatives at the knots, (K + 1, m, ..., m)."""
        return np.tensordot(_spline(self.knots.tobytes())(self.knots, order), self.states, axes=1)


@lru_cache(maxsize=8)  # runs of a study have their knots and times in common
def _evaluate_splines(knots: bytes, times: bytes) -> tuple[Array, Array]:
    """Return values and derivatives of the splines at times, (T, K + 1) each."""
    spline, at = _spline(knots), np.frombuffer(times)
    return spline(at), spline(at, 1)


@lru_cache(maxsize=8)
def _spline(knots: bytes) -> scipy.interpolate.BSpline:
    """Return the splines that are one at one knot and zero at the others."""
    at = np.frombuffer(knots)
    most = min(DEGREE, len(at) - 1)
    return scipy.interpolate.make_interp_spline(at, np.eye(len(at)), k=most if most % 2 else max(most - 1, 1))


@dataclass(frozen=True, eq=False)
class TimeRule:
    """A rule on (0, T) and a coarser rule.  The last time is T with weight zero, because the residual needs it."""

    times: Array
    weights: Array
    coarse: Array

    @staticmethod
    def between(knots: Array) -> TimeRule:
        """Return a rule of `GAUSS` points between knots.  The coarser rule omits the outermost points."""
        return _rule_between(tuple(knots.tolist()))

    @staticmethod
    @lru_cache(maxsize=8)  # as below
    def whole(final_time: float) -> TimeRule:
        """Return the Gauss and Kronrod points of (0, T).  The coarser rule has the Gauss points."""
        nodes = 0.5 + 0.5 * np.concatenate([-KRONROD_NODES[:-1], KRONROD_NODES[::-1]])
        coarse, weights = np.zeros(len(nodes)), np.concatenate([KRONROD_WEIGHTS[:-1], KRONROD_WEIGHTS[::-1]])
        coarse[1::2] = np.concatenate([GAUSS_WEIGHTS[:-1], GAUSS_WEIGHTS[::-1]])
        times = final_time * np.append(nodes, 1.0)
        return TimeRule(times, final_time / 2.0 * np.append(weights, 0.0), final_time / 2.0 * np.append(coarse, 0.0))


# which all runs of a study have in common: a twentieth of what their certificates take
@lru_cache(maxsize=8)
def _rule_between(knots: tuple[float, ...]) -> TimeRule:
    ends = np.array(knots)
    nodes, weights = QuadratureRule("gauss_legendre", GAUSS).on_unit_interval
    lengths, inner = np.diff(ends)[:, None], nodes[1:-1]
    powers = np.arange(len(inner))
    coarse = np.zeros(GAUSS)
    coarse[1:-1] = np.linalg.solve(inner ** powers[:, None], 1.0 / (powers + 1.0))
    return TimeRule(
        np.append(ends[:-1, None] + lengths * nodes, ends[-1]),
        np.append(lengths * weights, 0.0),
        np.append(lengths * coarse, 0.0),
    )


@lru_cache(maxsize=16)  # certificates of one problem ask for several grids
def is_seen_in_space(problem: Problem, grid: TensorGrid, final_time: float) -> bool:
    """Return True if the nodes of one panel resolve the data on lines through their largest values."""
    box, some = UnitBox.of(problem.domain), final_time * np.array([0.4, 1.0])

    def diffusion(nodes: Array) -> Array:
        # all entries of a tensor, as functions of the nodes
        return np.moveaxis(problem.diffusion(nodes, some), 1, -1).reshape(-1, len(nodes))

    functions: tuple[Callable[[Array], Array], ...] = (lambda nodes: problem.initial(nodes)[None], diffusion)
    return all(_is_seen_on_lines(function, grid, box) for function in functions) and _is_seen_on_lines(
        lambda nodes: problem.source(nodes, some), grid, box, _rounding(problem.initial(box.nodes(grid)), final_time)
    )


def _is_seen_on_lines(
    function: Callable[[Array], Array], grid: TensorGrid, box: UnitBox, rounding: float = 0.0
) -> bool:
    """Return the same for functions, nodes to (K, Q), on lines through the largest value of all."""
    places, through = _between_nodes(grid)
    known = len(places) - len(through)
    largest = grid.nodes[np.argmax(np.abs(function(box.nodes(grid))).max(axis=0))]
    for axis in range(grid.dimension):
        points = np.tile(largest, (len(places), 1))
        points[:, axis] = places
        found = function(box.mapped(points))
        if not _is_near(found[:, :known] @ through.T, found[:, known:], rounding):
            return False
    return True


@lru_cache(maxsize=8)  # the grids of a study
def _between_nodes(grid: TensorGrid) -> tuple[Array, Array]:
    """Return nodes of one direction with M points between, (Q + M,), and the matrix (M, Q) of interpolation."""
    nodes, fine = grid.axis_rule[0], _make_midpoints(BETWEEN * grid.points + 1)
    (through,) = evaluate_interpolants(grid.points, fine, 0)
    return np.concatenate([nodes, fine]), through


def _rounding(initial: Array, final_time: float) -> float:
    """Return the size of a source that is only rounding, for example if the terms of the equation cancel."""
    return _ROUNDING * float(np.abs(initial).max()) / final_time


def is_seen_in_time(problem: Problem, data: ProblemData, rule: TimeRule) -> bool:
    """Return True if the times of `rule` resolve the data, at the point of the largest source at half time."""
    functions = problem.source, problem.diffusion, *(problem.advection or ()), problem.linear_reaction
    changing = [function for function in functions if function is not None and not function.steady]
    if not changing:
        return True
    largest = np.argmax(np.abs(data.source[len(data.times) // 2]))
    place, fine = UnitBox.of(problem.domain).nodes(data.grid)[largest][None], rule.times[-1] * _make_midpoints(_TIMES)
    times, known = np.concatenate([rule.times, fine[fine >= rule.times[0]]]), len(rule.times)
    for function in changing:
        values = function(place, times).reshape(len(times), -1)
        rounding = _rounding(data.initial, float(rule.times[-1])) if function is problem.source else 0.0
        spline = scipy.interpolate.make_interp_spline(rule.times, values[:known], k=DEGREE)
        if not _is_near(spline(times[known:]), values[known:], rounding):
            return False
    return True


def _make_midpoints(count: int) -> Array:
    return np.asarray((np.arange(count) + 0.5) / count)


def _is_near(guess: Array, truth: Array, rounding: float) -> bool:
    return bool(np.linalg.norm(guess - truth) <= _FAR * np.linalg.norm(truth) + rounding * truth.size**0.5)
