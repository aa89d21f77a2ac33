"""The contract of a domain: its quadrature, its boundary, and the factor that vanishes there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evogt_study.pde.dictionaries.base import Dictionary, Features
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature, QuadratureRule, Rule


@dataclass(frozen=True)
class Domain(ABC):
    """An open set in d = `dimension` directions.  Its fields are hashable: they tell the stages of runs apart."""

    dimension: int

    @abstractmethod
    def quadrature(self, rule: Rule) -> Quadrature:
        """The nodes and weights that `rule` means here.  Raises ParameterError, for `points`, for too many."""

    @abstractmethod
    def boundary_factor(self, nodes: Array, order: int = 0) -> tuple[Array, ...]:
        """D, positive inside and zero on the boundary, with its derivatives up to `order` (0, 1 or 2).

        nodes (Q, d) -> D (Q,), dD/dx_l (d, Q), d2D/dx_l dx_m (d, d, Q).
        """

    @abstractmethod
    def boundary_points(self) -> Array:
        """Points on all parts of the boundary with Dirichlet data, (P, d), at which boundary values are looked at."""

    @abstractmethod
    def axes(self, points: int) -> tuple[Array, ...]:
        """Coordinates of a uniform grid that spans the domain, boundary included: (points,) for each direction."""

    @property
    def natural(self) -> tuple[str, ...]:
        """Faces on which the flux is given, not the value; none unless a domain says otherwise."""
        return ()

    def periods(self) -> dict[int, tuple[float, float]]:
        """The numbers of periodic directions with the coordinates of their two faces; none unless a domain says so."""
        return {}

    @property
    def feature_dimension(self) -> int:
        """Number of coordinates that features see."""
        return self.dimension

    def features(self, dictionary: Dictionary, seed: int) -> Features:
        """The sampled dictionary as functions on the domain: features see coordinates of the unit cube."""
        return dictionary.sample(seed, self.dimension)

    def contains(self, nodes: Array) -> npt.NDArray[np.bool_]:
        """True for points of the box that `axes` span which lie in the closed domain, (P, d) -> (P,)."""
        return np.ones(len(nodes), dtype=bool)

    def inner_box(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The lower and the upper corner of a large box inside, on which formulas are looked at."""
        along = self.axes(2)
        return tuple(float(x[0]) for x in along), tuple(float(x[-1]) for x in along)

    @property
    def usual_rule(self) -> Rule:
        """A rule for looking at data."""
        return QuadratureRule("gauss_legendre", 16)
