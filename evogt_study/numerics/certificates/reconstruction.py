"""A function of space and time made of the states of a run: products in space, a spline in time.

Between the states u^n at the knots t_n the solution is the interpolating spline of degree five (less with fewer than
six knots): its value at the final time is the run's, and its derivative in time is a function that a residual can hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy  # which imports its parts when they are first used: workers would pay 0.17 s for this one at start

from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import QuadratureRule

DEGREE = 5
"""Of the spline: with a cubic one its own error shows in references of 100 knots."""
GAUSS = 6
"""Gauss points of an interval between knots: they are exact for the square of a spline of degree five, so that states
that alternate from step to step are integrated exactly too."""
KRONROD = 7
"""Gauss points of the whole time, to which Kronrod's 8 are added: half as many as three in each of ten intervals, which
differ a hundred times as much from a coarser rule.  With 10 and 11 certificates in 1-D take no less time."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """States at the knots (K + 1,), (K + 1, m, ..., m), in products of functions of one coordinate.

    along: nodes of one direction (Q,) -> values and derivatives of the functions of each direction, (Q, m) each.
    """

    knots: Array
    states: Array
    along: Callable[[Array], list[tuple[Array, Array]]]

    @property
    def dimension(self) -> int:
        """d, the number of directions."""
        return self.states.ndim - 1

    def at(self, times: Array) -> tuple[Array, Array]:
        """States and their derivatives in time, (T, m, ..., m) each."""
        flat, shape = self.states.reshape(len(self.knots), -1), (len(times), *self.states.shape[1:])
        states, rates = _at(self.knots.tobytes(), times.tobytes())
        return (states @ flat).reshape(shape), (rates @ flat).reshape(shape)

    def derivative(self, order: int) -> Array:
        """Derivatives in time at the knots, (K + 1, m, ..., m)."""
        return np.tensordot(_spline(self.knots)(self.knots, order), self.states, axes=1)


@lru_cache(maxsize=8)  # runs of a study have their knots and times in common
def _at(knots: bytes, times: bytes) -> tuple[Array, Array]:
    """Values and derivatives of the splines at times, (T, K + 1) each."""
    # bytes, since arrays have no hash
    spline, at = _spline(np.frombuffer(knots)), np.frombuffer(times)
    return spline(at), spline(at, 1)


def _spline(knots: Array) -> scipy.interpolate.BSpline:
    """The splines that are one at one knot and zero at the others."""
    return _interpolating(tuple(knots.tolist()))


@lru_cache(maxsize=8)
def _interpolating(knots: tuple[float, ...]) -> scipy.interpolate.BSpline:
    most = min(DEGREE, len(knots) - 1)
    degree = most if most % 2 else max(most - 1, 1)
    return scipy.interpolate.make_interp_spline(np.array(knots), np.eye(len(knots)), k=degree)


@dataclass(frozen=True, eq=False)
class TimeRule:
    """A rule on (0, T), with its final time: times (T,), weights (T,), those of a coarser rule (T,).

    The last time is the final one, of weight zero: the residual there is looked at too.
    """

    times: Array
    weights: Array
    coarse: Array

    @staticmethod
    def between(knots: Array) -> TimeRule:
        """`GAUSS` points of the intervals between knots; the coarser rule has all of them but the outermost."""
        return _rule_between(tuple(knots.tolist()))

    @staticmethod
    @lru_cache(maxsize=8)  # as below
    def whole(final_time: float) -> TimeRule:
        """Gauss and Kronrod's points of (0, T); the coarser rule has Gauss's alone."""
        nodes, weights, coarse = kronrod(KRONROD)
        return TimeRule(
            np.append(final_time * nodes, final_time),
            np.append(final_time * weights, 0.0),
            np.append(final_time * coarse, 0.0),
        )


def kronrod(points: int) -> tuple[Array, Array, Array]:
    """Gauss points of (0, 1) and those that Kronrod adds (2 n + 1,), their weights, and Gauss's at the same nodes.

    The n + 1 that are added are the zeros of Stieltjes' polynomial E, with int P_n E p = 0 for all p of degree at most
    n; the rule is exact for degrees up to 3 n + 1.
    """
    legendre = np.polynomial.legendre
    x, w = QuadratureRule("gauss_legendre", 2 * points + 1).on_unit_interval
    table = legendre.legvander(2.0 * x - 1.0, points + 1)
    # int P_n P_k P_j: a column for each polynomial that E is made of, E's own degree last
    products = table[:, :-1].T @ ((w * table[:, points])[:, None] * table)
    zeros = legendre.legroots(np.append(np.linalg.solve(products[:, :-1], -products[:, -1]), 1.0))
    gauss, weights = QuadratureRule("gauss_legendre", points).on_unit_interval
    # one lies between any two of the other kind
    nodes, coarse = np.empty(2 * points + 1), np.zeros(2 * points + 1)
    nodes[::2], nodes[1::2], coarse[1::2] = (np.sort(zeros.real) + 1.0) / 2.0, gauss, weights
    moments = np.zeros(2 * points + 1)
    moments[0] = 1.0
    fine = np.linalg.solve(legendre.legvander(2.0 * nodes - 1.0, 2 * points).T, moments)
    return nodes, np.asarray(fine, dtype=np.float64), coarse


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
