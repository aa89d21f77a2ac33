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

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.quadrature import QuadratureRule

DEGREE = 5
"""Of the spline: with a cubic one its own error shows in references of 100 knots."""
GAUSS = 6
"""Gauss points of an interval between knots: they are exact for the square of a spline of degree five, so that states
that alternate from step to step are integrated exactly too."""
FEW = 3
"""Of them where the square of the residual changes slowly, which the difference from the midpoint rule tells."""


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
    """Gauss points of the intervals between knots: times (T,), weights (T,), those of a coarser rule (T,).

    The last time is the final one, of weight zero: the residual there is looked at too.
    """

    times: Array
    weights: Array
    coarse: Array

    @staticmethod
    def between(knots: Array, points: int = GAUSS) -> TimeRule:
        """The rule of `points` for each interval; the coarser one has all of them but the outermost."""
        return _rule_between(tuple(knots.tolist()), points)


# which all runs of a study have in common: a twentieth of what their certificates take
@lru_cache(maxsize=8)
def _rule_between(knots: tuple[float, ...], points: int) -> TimeRule:
    ends = np.array(knots)
    nodes, weights = QuadratureRule("gauss_legendre", points).on_unit_interval
    lengths, inner = np.diff(ends)[:, None], nodes[1:-1]
    powers = np.arange(len(inner))
    coarse = np.zeros(points)
    coarse[1:-1] = np.linalg.solve(inner ** powers[:, None], 1.0 / (powers + 1.0))
    return TimeRule(
        np.append(ends[:-1, None] + lengths * nodes, ends[-1]),
        np.append(lengths * weights, 0.0),
        np.append(lengths * coarse, 0.0),
    )
