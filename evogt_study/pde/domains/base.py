"""The contract of a domain: its quadrature, its boundary, its boundary factor, and the features on it."""

from __future__ import annotations

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
    def axes(self, points: int) -> tuple[Array, ...]:
        """Return the coordinates (points,) in each direction of a uniform grid over the bounding box of the domain."""

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
        along = self.axes(2)
        return tuple(float(x[0]) for x in along), tuple(float(x[-1]) for x in along)

    @property
    def usual_rule(self) -> Rule:
        """Quadrature rule with the nodes at which data are checked."""
        return QuadratureRule("gauss_legendre", 16)


def add_constant(domain: Domain, dictionary: Dictionary, features: Features) -> Features:
    """Return the features, and the function 1 if no part of the boundary has given values.

    With the function 1, the method conserves the mean.
    """
    has_constant = dictionary.HAS_CONSTANT or len(domain.boundary_points())
    return features if has_constant else WithConstant(features)


@dataclass(frozen=True, eq=False)
class WithConstant:
    """Features of a dictionary together with the function 1."""

    inner: Features

    @property
    def count(self) -> int:
        """Number N + 1 of the features."""
        return self.inner.count + 1

    @property
    def strip(self) -> float:
        """Attribute `strip` of the inner features, or 0 if the attribute is missing."""
        return float(getattr(self.inner, "strip", 0.0))

    def values(self, nodes: Array) -> Array:
        """Evaluate all features at `nodes`, (Q, d) -> (Q, N + 1)."""
        return np.column_stack([self.inner.values(nodes), np.ones(len(nodes))])

    def first_order(self, nodes: Array) -> FirstOrder:
        """Evaluate all features and their first derivatives at `nodes` (Q, d)."""
        inner = self.inner.first_order(nodes)
        value, slopes = np.column_stack([inner.value, np.ones(len(nodes))]), inner.gradient
        return FirstOrder(value, np.concatenate([slopes, np.zeros((*slopes.shape[:2], 1))], axis=2))


@dataclass(frozen=True, eq=False)
class MappedFeatures:
    """Features psi(y(x)) on a box from `lower` (d,) with the `widths` (d,).

    A direction that is not periodic gives one argument, s = (x - lower)/width.  A periodic direction gives two
    arguments, (1 + cos 2 pi s)/2 and (1 + sin 2 pi s)/2.  The arguments of the features lie in the unit cube.
    """

    inner: Features
    lower: Array
    widths: Array
    periodic: tuple[bool, ...]

    @property
    def count(self) -> int:
        return self.inner.count

    # |dy/dx| is at most 1/width, and pi/width for a periodic coordinate
    @property
    def strip(self) -> float:
        """Estimate of `strip` in the coordinate x, or 0 if the inner features have no attribute `strip`."""
        scale = float(self.widths[0]) / (np.pi if self.periodic[0] else 1.0)
        return scale * float(getattr(self.inner, "strip", 0.0))

    def values(self, nodes: Array) -> Array:
        return self.inner.values(self._mapped(nodes))

    def first_order(self, nodes: Array) -> FirstOrder:
        """Evaluate psi(y(x)) and its first derivatives at `nodes` (Q, d), by the chain rule."""
        inner = self.inner.first_order(self._mapped(nodes))
        if not any(self.periodic):
            if inner.directions is not None:
                return FirstOrder(inner.value, inner.slopes, inner.directions / self.widths[:, None])
            return FirstOrder(inner.value, inner.slopes / self.widths[:, None, None])
        # d psi/dx_l = sum_k d psi/dy_k dy_k/dx_l, (m, Q, N) -> (d, Q, N)
        gradient, column = inner.gradient, 0
        chained = np.empty((len(self.widths), *gradient.shape[1:]))
        for axis, (width, periodic) in enumerate(zip(self.widths, self.periodic, strict=True)):
            if not periodic:
                np.divide(gradient[column], width, out=chained[axis])
                column += 1
                continue
            angle = 2.0 * np.pi * (nodes[:, axis] - self.lower[axis]) / width
            cosine, sine = np.pi / width * np.cos(angle), np.pi / width * np.sin(angle)
            chained[axis] = cosine[:, None] * gradient[column + 1] - sine[:, None] * gradient[column]
            column += 2
        return FirstOrder(inner.value, chained)

    def _mapped(self, nodes: Array) -> Array:
        """Return the arguments of the features, (Q, d) -> (Q, d + number of periodic directions)."""
        columns = []
        for s, periodic in zip(((nodes - self.lower) / self.widths).T, self.periodic, strict=True):
            angle = 2.0 * np.pi * s
            # The circle lies in the unit square, so the parameters of the features keep their scale.
            columns += [0.5 + 0.5 * np.cos(angle), 0.5 + 0.5 * np.sin(angle)] if periodic else [s]
        return np.column_stack(columns)
