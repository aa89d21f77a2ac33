"""The unit cube (0, 1)^d: tensor products of one rule per direction, and D(x) = prod_l x_l (1 - x_l)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.numerics.domains.base import Domain
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import MAX_NODES, RULES, Quadrature, QuadratureRule, Rule

# no multiples of one another, so that no usual frequency vanishes at all of them
LOOKED_AT = np.array([0.0, 0.113, 0.271, 0.5, 0.618, 0.839, 1.0])
"""Coordinates of boundary points: faces, the middle, and others without a pattern."""


@dataclass(frozen=True)
class UnitCube(Domain):
    """The open unit interval, square or cube."""

    def quadrature(self, rule: Rule) -> Quadrature:
        """The tensor product of the rule on the unit interval."""
        if not isinstance(rule, QuadratureRule):
            raise ParameterError("rule", f"{' or '.join(RULES)} on a box", str(rule))
        count = rule.points**self.dimension
        if count > MAX_NODES:
            got = f"{rule.points}^{self.dimension} = {count:,}"
            raise ParameterError("points", f"so few that the rule has at most {MAX_NODES:,} nodes", got)
        nodes, weights = rule.on_unit_interval
        product = reduce(np.multiply.outer, [weights] * self.dimension)
        return Quadrature(tensor_points([nodes] * self.dimension), np.array(product).ravel())

    def boundary_factor(self, nodes: Array, order: int = 0) -> tuple[Array, ...]:
        """D = prod_l x_l (1 - x_l) with its derivatives."""
        jet, axes = [_differentiated(nodes, ())], range(self.dimension)
        if order > 0:
            jet.append(np.array([_differentiated(nodes, (axis,)) for axis in axes]))
        if order > 1:
            jet.append(np.array([[_differentiated(nodes, (row, column)) for column in axes] for row in axes]))
        return tuple(jet)

    def boundary_points(self) -> Array:
        """Points on every face, corners included."""
        points = tensor_points([LOOKED_AT] * self.dimension)
        return points[np.any((points == 0.0) | (points == 1.0), axis=1)]

    def axes(self, points: int) -> tuple[Array, ...]:
        """The same in every direction."""
        return (np.linspace(0.0, 1.0, points),) * self.dimension


def check_unit_cube(domain: Domain, method: str) -> None:
    """Raise ProblemError for another domain, on which `method` has no mesh, grid or points."""
    if not isinstance(domain, UnitCube):
        raise ProblemError(f"{method} must have a problem on the unit cube, got one on {domain}")


def tensor_points(along: list[Array]) -> Array:
    """The points of a tensor product of coordinates, (n^d, d), in C order."""
    if len(along) == 1:
        # a copy: coordinates are remembered, and what a function of the user does to its nodes is its own
        return np.array(along[0][:, None])
    return np.stack([grid.ravel() for grid in np.meshgrid(*along, indexing="ij")], axis=1)


_BY_ORDER: tuple[Callable[[Array], Array], ...] = (
    lambda x: x * (1.0 - x),
    lambda x: 1.0 - 2.0 * x,
    lambda x: np.full_like(x, -2.0),
)


def _differentiated(nodes: Array, axes: tuple[int, ...]) -> Array:
    """D with one derivative taken along each entry of `axes`: each direction contributes x - x^2, 1 - 2x or -2."""
    return reduce(np.multiply, [_BY_ORDER[axes.count(axis)](x) for axis, x in enumerate(nodes.T)])
