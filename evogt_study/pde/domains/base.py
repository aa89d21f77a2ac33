"""Define a domain by its quadrature, its boundary, its boundary factor, and the features on it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evogt_study.pde.dictionaries.base import Dictionary, Features, FirstOrder
from evogt_study.pde.numerics import Array, Quadrature, QuadratureRule, Rule

OPTIONAL = {"optional": True}
"""Metadata of a field that identifies the domain only if it differs from its default."""


@dataclass(frozen=True)
class Domain(ABC):
    """Open set in d = `dimension` directions.  All fields are hashable, because the keys of stages contain domains."""

    dimension: int

    @abstractmethod
    def quadrature(self, rule: Rule) -> Quadrature:
        """Return the nodes and weights of `rule` on the domain.  Raises ParameterError if there are too many nodes."""

    @abstractmethod
    def boundary_factor(self, nodes: Array, order: int = 0) -> tuple[Array, ...]:
        """Return D at the nodes (Q, d) with derivatives up to `order`: D (Q,), dD/dx_l (d, Q), d2D/dx_l dx_m (d, d, Q).

        D is zero on the boundary and positive inside.  Second derivatives are available only on boxes.
        """

    @abstractmethod
    def boundary_points(self) -> Array:
        """Return points on all parts of the boundary with given values, (P, d), for checks of these values."""

    @abstractmethod
    def bounds(self) -> tuple[Array, Array]:
        """Return the lower and the upper corner of the bounding box, (d,) each."""

    def axes(self, points: int) -> tuple[Array, ...]:
        """Return the coordinates (points,) in each direction of a uniform grid over the bounding box."""
        return tuple(np.linspace(low, high, points) for low, high in zip(*self.bounds(), strict=True))

    @property
    def natural(self) -> tuple[str, ...]:
        """Names of the faces with a given flux instead of a given value."""
        faces: tuple[str, ...] = getattr(self, "natural_faces", ())
        return faces

    def periods(self) -> dict[int, tuple[float, float]]:
        """Return the coordinates of the two faces of each periodic direction."""
        return {}

    @property
    def feature_dimension(self) -> int:
        """Number of arguments of the features."""
        return self.dimension

    def features(self, dictionary: Dictionary, seed: int) -> Features:
        """Return the features of the dictionary as functions on the domain, mapped to the unit cube."""
        return dictionary.sample(seed, self.dimension)

    def contains(self, nodes: Array) -> npt.NDArray[np.bool_]:
        """Return True for each point of the bounding box that lies in the closed domain, (P, d) -> (P,)."""
        return np.ones(len(nodes), dtype=bool)

    def inner_box(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the lower and the upper corner of a large box inside the domain, for checks of formulas."""
        lower, upper = self.bounds()
        return tuple(lower.tolist()), tuple(upper.tolist())

    @property
    def usual_rule(self) -> Rule:
        """Quadrature rule with the nodes at which data are checked."""
        return QuadratureRule("gauss_legendre", 16)


@dataclass(frozen=True, eq=False)
class MappedFeatures:
    """Features psi(y(x)) on a box from `lower` (d,) with the `widths` (d,), and the function 1 if `constant` is True.

    A direction that is not periodic gives one argument, s = (x - lower)/width.  A periodic direction gives two
    arguments, (1 + cos 2 pi s)/2 and (1 + sin 2 pi s)/2.  The arguments of the features lie in the unit cube.
    """

    inner: Features
    lower: Array
    widths: Array
    periodic: tuple[bool, ...]
    constant: bool

    @property
    def count(self) -> int:
        return self.inner.count + self.constant

    # |dy/dx| is at most 1/width, and pi/width for a periodic coordinate
    @property
    def strip(self) -> float:
        """Estimate of `strip` in the coordinate x, or 0 if the inner features have no attribute `strip`."""
        scale = float(self.widths[0]) / (np.pi if self.periodic[0] else 1.0)
        return scale * float(getattr(self.inner, "strip", 0.0))

    def values(self, nodes: Array) -> Array:
        values = self.inner.values(self._map(nodes))
        return np.column_stack([values, np.ones(len(nodes))]) if self.constant else values

    def first_order(self, nodes: Array) -> FirstOrder:
        """Evaluate psi(y(x)) and its first derivatives at `nodes` (Q, d), by the chain rule."""
        inner = self.inner.first_order(self._map(nodes))
        if any(self.periodic):
            first = FirstOrder(inner.value, self._chain(inner.gradient, nodes))
        elif inner.directions is None:
            first = FirstOrder(inner.value, inner.slopes / self.widths[:, None, None])
        else:
            first = FirstOrder(inner.value, inner.slopes, inner.directions / self.widths[:, None])
        if not self.constant:
            return first
        slopes = first.gradient
        value = np.column_stack([first.value, np.ones(len(nodes))])
        return FirstOrder(value, np.concatenate([slopes, np.zeros((*slopes.shape[:2], 1))], axis=2))

    def _chain(self, gradient: Array, nodes: Array) -> Array:
        """Return d psi/dx_l = sum_k d psi/dy_k dy_k/dx_l, (m, Q, N) -> (d, Q, N)."""
        chained, column = np.empty((len(self.widths), *gradient.shape[1:])), 0
        for axis, (width, periodic) in enumerate(zip(self.widths, self.periodic, strict=True)):
            if not periodic:
                np.divide(gradient[column], width, out=chained[axis])
                column += 1
                continue
            angle = 2.0 * np.pi * (nodes[:, axis] - self.lower[axis]) / width
            cosine, sine = np.pi / width * np.cos(angle), np.pi / width * np.sin(angle)
            chained[axis] = cosine[:, None] * gradient[column + 1] - sine[:, None] * gradient[column]
            column += 2
        return chained

    def _map(self, nodes: Array) -> Array:
        """Return the arguments of the features, (Q, d) -> (Q, d + number of periodic directions)."""
        columns = []
        for s, periodic in zip(((nodes - self.lower) / self.widths).T, self.periodic, strict=True):
            angle = 2.0 * np.pi * s
            # The circle lies in the unit square, so the parameters of the features keep their scale.
            columns += [0.5 + 0.5 * np.cos(angle), 0.5 + 0.5 * np.sin(angle)] if periodic else [s]
        return np.column_stack(columns)


def map_features(
    domain: Domain, dictionary: Dictionary, features: Features, periodic: tuple[bool, ...]
) -> MappedFeatures:
    """Return the features on the bounding box, with the function 1 if no part of the boundary has given values."""
    lower, upper = domain.bounds()
    # with the function 1, the method conserves the mean
    constant = not dictionary.HAS_CONSTANT and not len(domain.boundary_points())
    return MappedFeatures(features, lower, upper - lower, periodic, constant)
