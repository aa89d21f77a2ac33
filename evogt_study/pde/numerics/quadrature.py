"""Quadrature rules with positive weights, by name.

A rule is a name with integers, so that it can identify a run.  A domain makes nodes and weights from a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics.arrays import Array

RULES = ("gauss_legendre", "composite_midpoint")
TRIANGLES = "triangles"
MAX_NODES = 10_000_000
"""Largest number of nodes of a rule: 80 MB for each array with a number for every node."""
MAX_GAUSS_POINTS = 2048
"""Largest number of Gauss-Legendre points.  Computing them takes a time of its third power."""
MAX_REFINEMENTS = 10
"""Largest number of refinements of triangles.  Each divides a triangle into four."""
_MAX_DEGREE = 60
"""Largest degree of a rule on triangles: 961 nodes for each triangle."""
COARSEST = 4
"""Triangles of a disk and of an L-shape, for estimates of an unknown domain."""


@dataclass(frozen=True)
class QuadratureRule:
    """Quadrature rule of a box, by its name.

    Parameters
    ----------
    rule : str
        "gauss_legendre" or "composite_midpoint".
    points : int
        Number of nodes per direction.

    Examples
    --------
    >>> nodes, weights = QuadratureRule("gauss_legendre", 3).on_unit_interval
    >>> round(float(weights @ nodes**4), 12)
    0.2
    """

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
        return {"rule": self.rule, "points": self.points}

    @property
    def label(self) -> int | str:
        """Number of points of a Gauss-Legendre rule, else the name of the rule with its points."""
        return self.points if self.rule == "gauss_legendre" else str(self)

    def __str__(self) -> str:
        return f"{self.rule}({self.points})"

    @property
    def uniform(self) -> bool:
        """True if the nodes of a direction are equally spaced."""
        return self.rule == "composite_midpoint"

    # More points, not fewer: a finer rule shows that this one is too coarse.
    def make_check_rule(self, dimension: int) -> QuadratureRule:
        """Return a Gauss-Legendre rule of n + 1 points per direction (or n - 1), to check this rule of n points."""
        more = self.points + 1
        allowed = more <= MAX_GAUSS_POINTS and more**dimension <= MAX_NODES
        return QuadratureRule("gauss_legendre", more if allowed else min(self.points, MAX_GAUSS_POINTS) - 1)

    def count(self, dimension: int) -> int:
        return int(self.points**dimension)

    @property
    def on_unit_interval(self) -> tuple[Array, Array]:
        """Nodes and weights of one direction on (0, 1), (points,) each."""
        return _on_unit_interval(self.rule, self.points)


@dataclass(frozen=True)
class TriangleRule:
    """Rule on the triangles of a domain after `refinements`, exact for polynomials of the `degree`."""

    refinements: int
    degree: int

    def __post_init__(self) -> None:
        for name, most in (("refinements", MAX_REFINEMENTS), ("degree", _MAX_DEGREE)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                raise ParameterError(name, f"an integer from 0 to {most}", value)

    def content(self) -> dict[str, str | int]:
        return {"rule": TRIANGLES, "refinements": self.refinements, "degree": self.degree}

    @property
    def label(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{TRIANGLES}({self.refinements},{self.degree})"

    def count(self, dimension: int) -> int:
        """Return the number of nodes on a domain of `COARSEST` triangles before refinement."""
        return int(COARSEST * 4**self.refinements * (self.degree // 2 + 1) ** 2)

    @property
    def uniform(self) -> bool:
        return False

    def make_check_rule(self, dimension: int) -> TriangleRule:
        """Return a rule of two degrees more, to check the results of this rule."""
        return TriangleRule(self.refinements, min(self.degree + 2, _MAX_DEGREE))


Rule = QuadratureRule | TriangleRule
"""A rule in each direction of a box, or on triangles."""


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Nodes and positive weights of a rule on a domain, or on a face with its outward `normals` (Q, d)."""

    nodes: Array
    weights: Array
    faces: Mapping[str, Quadrature] = field(default_factory=dict)
    normals: Array | None = None


@lru_cache(maxsize=16)  # Gauss-Legendre nodes are an eigenvalue problem: as costly as a whole 1-D run's SVD
def _on_unit_interval(rule: str, points: int) -> tuple[Array, Array]:
    if rule == "composite_midpoint":
        return (np.arange(points) + 0.5) / points, np.full(points, 1.0 / points)
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1.0) / 2.0, weights / 2.0
