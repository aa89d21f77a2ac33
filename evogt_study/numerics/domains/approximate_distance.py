"""A smooth function that vanishes on a polygon's boundary and is positive off it, by R-functions.

For a segment of length L between two points, with the signed distance f from its line and the trimming function
t = ((L/2)^2 - |x - c|^2)/L about its centre c,

    phi_i = sqrt(f^2 + ((sqrt(t^2 + f^4) - t)/2)^2),        phi = 1 / sum_i 1/phi_i

phi_i vanishes on the segment only and is its distance to first order; so is phi near the inside of each segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evogt_study.pde.numerics.arrays import Array


@dataclass(frozen=True, eq=False)
class _Jet:
    """A function of the plane at Q points with its first and second derivatives: (Q,), (2, Q), (2, 2, Q)."""

    value: Array
    gradient: Array
    hessian: Array

    def __add__(self, other: _Jet) -> _Jet:
        return _Jet(self.value + other.value, self.gradient + other.gradient, self.hessian + other.hessian)

    def times(self, number: float) -> _Jet:
        """The multiple."""
        return _Jet(number * self.value, number * self.gradient, number * self.hessian)

    def through(self, value: Array, slope: Array, curvature: Array) -> _Jet:
        """h of the function, for h, h' and h'' at its values."""
        outer = self.gradient[:, None] * self.gradient[None]
        return _Jet(value, slope * self.gradient, curvature * outer + slope * self.hessian)

    def squared(self) -> _Jet:
        """The square."""
        return self.through(self.value**2, 2.0 * self.value, np.full_like(self.value, 2.0))

    def root(self) -> _Jet:
        """The square root."""
        root = np.sqrt(self.value)
        return self.through(root, 0.5 / root, -0.25 / root**3)

    def inverse(self) -> _Jet:
        """One over it."""
        return self.through(1.0 / self.value, -1.0 / self.value**2, 2.0 / self.value**3)


# derivatives by jets, not by differences: the strong form and the stiffness need them to rounding
def approximate_distance(nodes: Array, starts: Array, ends: Array) -> tuple[Array, Array, Array]:
    """phi with its first and second derivatives; starts and ends of the segments (m, 2).

    nodes (Q, 2) -> (Q,), (2, Q), (2, 2, Q).  On the boundary phi is zero, and its derivatives are not numbers.
    """
    zero = np.zeros(len(nodes))
    total = _Jet(zero, np.zeros((2, len(nodes))), np.zeros((2, 2, len(nodes))))
    with np.errstate(all="ignore"):  # on the boundary
        for start, end in zip(starts, ends, strict=True):
            total += _to_segment(nodes, start, end).inverse()
        phi = total.inverse()
    return np.where(np.isfinite(phi.value), phi.value, 0.0), phi.gradient, phi.hessian


def _to_segment(nodes: Array, start: Array, end: Array) -> _Jet:
    along, length = end - start, float(np.linalg.norm(end - start))
    normal = np.array([along[1], -along[0]]) / length
    line = _polynomial(nodes, lambda x: (x - start) @ normal, normal, 0.0)
    centre = (start + end) / 2.0
    offset = (nodes - centre).T
    trimming = _Jet(
        (0.25 * length**2 - np.sum(offset**2, axis=0)) / length,
        -2.0 / length * offset,
        np.broadcast_to(-2.0 / length * np.eye(2)[:, :, None], (2, 2, len(nodes))),
    )
    square = line.squared()
    # (sqrt(t^2 + f^4) - t)/2 for the line's f^2 and a t that is positive within the segment's disk: small there, so
    # that beside the segment only the line counts
    excess = ((trimming.squared() + square.squared()).root() + trimming.times(-1.0)).times(0.5)
    return (square + excess.squared()).root()


def _polynomial(nodes: Array, value: Callable[[Array], Array], slope: Array, curvature: float) -> _Jet:
    count = len(nodes)
    return _Jet(value(nodes), np.repeat(slope[:, None], count, axis=1), np.full((2, 2, count), curvature))


def distances(nodes: Array, starts: Array, ends: Array) -> Array:
    """The Euclidean distance from the nearest segment, (Q, 2) -> (Q,)."""
    nearest = np.full(len(nodes), np.inf)
    for start, end in zip(starts, ends, strict=True):
        along = end - start
        place = np.clip((nodes - start) @ along / (along @ along), 0.0, 1.0)
        nearest = np.minimum(nearest, np.linalg.norm(nodes - start - place[:, None] * along, axis=1))
    return nearest


# half-open in y, so that a vertex on the ray counts for one of its two segments
def inside(nodes: Array, starts: Array, ends: Array) -> npt.NDArray[np.bool_]:
    """True where a ray from the point crosses the boundary an odd number of times, (Q, 2) -> (Q,)."""
    odd = np.zeros(len(nodes), dtype=bool)
    for (x0, y0), (x1, y1) in zip(starts, ends, strict=True):
        across = (y0 > nodes[:, 1]) != (y1 > nodes[:, 1])
        with np.errstate(all="ignore"):
            odd ^= across & (nodes[:, 0] < x0 + (nodes[:, 1] - y0) * (x1 - x0) / (y1 - y0))
    return odd
