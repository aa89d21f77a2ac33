"""Positive quadrature rules by name, in one direction; a domain makes its nodes and weights of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics.arrays import Array

RULES = ("gauss_legendre", "composite_midpoint")
TRIANGLES = "triangles"
# 80 MB for each number that is held at every node
MAX_NODES = 10_000_000
MAX_REFINEMENTS = 10
"""Each makes four triangles of one: a million of one."""
MAX_DEGREE = 60
"""961 nodes a triangle."""
COARSEST = 4
"""Triangles of a disk and of an L-shape: for estimates, where the domain is not known."""
MAX_GAUSS_POINTS = 2048
"""Gauss-Legendre nodes are eigenvalues of a matrix of this order, which takes its third power in time."""


@dataclass(frozen=True)
class QuadratureRule:
    """The name of a rule: `rule` with `points` nodes per direction.  Scalars only, so it can identify a run."""

    rule: str
    points: int

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ParameterError("rule", f"one of {', '.join(RULES)}", self.rule)
        if not isinstance(self.points, int) or self.points < 1:
            raise ParameterError("points", "an integer >= 1", self.points)
        if self.rule == "gauss_legendre" and self.points > MAX_GAUSS_POINTS:
            raise ParameterError("points", f"at most {MAX_GAUSS_POINTS} for gauss_legendre", self.points)

    def content(self) -> dict[str, str | int]:
        """Its parts, by which it is identified."""
        return {"rule": self.rule, "points": self.points}

    @property
    def label(self) -> int | str:
        """The points alone of the usual rule, else the rule's name with them."""
        return self.points if self.rule == "gauss_legendre" else str(self)

    def __str__(self) -> str:
        return f"{self.rule}({self.points})"

    @property
    def exact_to(self) -> int:
        """Highest polynomial degree per direction that the rule integrates exactly (2n - 1 for Gauss-Legendre)."""
        return 2 * self.points - 1 if self.rule == "gauss_legendre" else 1

    @property
    def uniform(self) -> bool:
        """True where the nodes of a direction have one distance."""
        return self.rule == "composite_midpoint"

    # more points, not fewer: a rule that is too coarse is shown up by one that is not
    def another(self, dimension: int) -> QuadratureRule:
        """A Gauss-Legendre rule of n + 1 points per direction, on which to look again at what this rule of n has made.

        Its nodes lie between those of n points.  Where n + 1 are more than a rule may have, it is the largest below n.
        """
        more = self.points + 1
        allowed = more <= MAX_GAUSS_POINTS and more**dimension <= MAX_NODES
        return QuadratureRule("gauss_legendre", more if allowed else min(self.points, MAX_GAUSS_POINTS) - 1)

    def count(self, dimension: int) -> int:
        """Number of nodes."""
        return int(self.points**dimension)

    @property
    def on_unit_interval(self) -> tuple[Array, Array]:
        """Nodes and weights of one direction on (0, 1), (points,) each.

        Gauss-Legendre nodes are those of (-1, 1) mapped affinely; the composite midpoint rule has nodes (i + 1/2)/n
        and weights 1/n.
        """
        return _on_unit_interval(self.rule, self.points)


@dataclass(frozen=True)
class TriangleRule:
    """On the triangles of a domain after `refinements`, a rule that is exact for polynomials of the `degree`.

    Scalars only, so it can identify a run.  Raises ParameterError for numbers out of range.
    """

    refinements: int
    degree: int

    def __post_init__(self) -> None:
        for name, most in (("refinements", MAX_REFINEMENTS), ("degree", MAX_DEGREE)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                raise ParameterError(name, f"an integer from 0 to {most}", value)

    def content(self) -> dict[str, str | int]:
        """Its parts, by which it is identified."""
        return {"rule": TRIANGLES, "refinements": self.refinements, "degree": self.degree}

    @property
    def label(self) -> str:
        """Its short word."""
        return str(self)

    def __str__(self) -> str:
        return f"{TRIANGLES}({self.refinements},{self.degree})"

    def count(self, dimension: int) -> int:
        """Number of nodes, of a domain of `COARSEST` triangles before refinement."""
        return int(COARSEST * 4**self.refinements * (self.degree // 2 + 1) ** 2)

    @property
    def uniform(self) -> bool:
        """False: its nodes are no grid."""
        return False

    def another(self, dimension: int) -> TriangleRule:
        """A rule of two degrees more, on which to look again at what this rule has made."""
        return TriangleRule(self.refinements, min(self.degree + 2, MAX_DEGREE))


Rule = QuadratureRule | TriangleRule
"""In one direction of a box, or on triangles."""


@lru_cache(maxsize=16)  # Gauss-Legendre nodes are an eigenvalue problem: as costly as a whole 1-D run's SVD
def _on_unit_interval(rule: str, points: int) -> tuple[Array, Array]:
    if rule == "composite_midpoint":
        return (np.arange(points) + 0.5) / points, np.full(points, 1.0 / points)
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1.0) / 2.0, weights / 2.0


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Nodes x_q, shape (Q, d), and strictly positive weights w_q, shape (Q,), of a rule on a domain.

    faces: the rule on each natural face of the domain, by the face's name.
    """

    nodes: Array
    weights: Array
    faces: Mapping[str, Quadrature] = field(default_factory=dict)

    def integrate(self, values: Array) -> Array:
        """sum_q w_q v(x_q) over the last axis of `values`, shape (..., Q) -> (...)."""
        return np.asarray(values @ self.weights)

    @property
    def dimension(self) -> int:
        """d, the number of directions."""
        return int(self.nodes.shape[1])
