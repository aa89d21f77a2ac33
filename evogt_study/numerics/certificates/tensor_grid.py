"""Tensor-product Gauss grids on the unit cube, and matrices applied along one direction after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import QuadratureRule, Rule


@dataclass(frozen=True)
class TensorGrid:
    """`panels` panels of `points` Gauss-Legendre points each, in every one of `dimension` directions."""

    dimension: int
    points: int
    panels: int = 1

    @staticmethod
    @lru_cache(maxsize=8)  # with its nodes, which take longer than the rule
    def of_rule(rule: Rule, dimension: int) -> TensorGrid:
        """The nodes and weights of a rule on the cube: composite midpoint is panels of one point.

        Raises ParameterError for a rule on triangles.
        """
        if not isinstance(rule, QuadratureRule):
            raise ParameterError("quadrature", "a rule of points per direction", rule)
        one_panel = rule.rule == "gauss_legendre"
        return TensorGrid(dimension, *((rule.points, 1) if one_panel else (1, rule.points)))

    @cached_property
    def along(self) -> tuple[Array, Array]:
        """Nodes and weights of one direction, (Q,) each."""
        nodes, weights = QuadratureRule("gauss_legendre", self.points).on_unit_interval  # which remembers them
        starts = np.arange(self.panels)[:, None]
        return ((starts + nodes) / self.panels).ravel(), np.tile(weights, self.panels) / self.panels

    @property
    def shape(self) -> tuple[int, ...]:
        """(Q, ..., Q), one for each direction."""
        return (self.points * self.panels,) * self.dimension

    @cached_property
    def nodes(self) -> Array:
        """All nodes in C order, (Q^d, d)."""
        grids = np.meshgrid(*[self.along[0]] * self.dimension, indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    @cached_property
    def weights(self) -> Array:
        """All weights, (Q, ..., Q)."""
        return np.asarray(reduce(np.multiply.outer, [self.along[1]] * self.dimension))


def applied(matrices: list[Array], values: Array) -> Array:
    """One matrix for each of the last d directions, (m_l, n_l) each: (..., n_1, ..., n_d) -> (..., m_1, ..., m_d)."""
    dimension = len(matrices)
    if dimension == 1:
        # on a line none of the reshaping below is needed
        return values @ matrices[0].T
    for axis, matrix in enumerate(matrices):
        place = values.ndim - dimension + axis
        shape = values.shape
        # the last direction is contiguous: one large product instead of a stack of small ones
        if axis == dimension - 1:
            values = values.reshape(-1, shape[-1]) @ matrix.T
        else:
            values = np.matmul(matrix, values.reshape(-1, shape[place], int(np.prod(shape[place + 1 :]))))
        values = values.reshape(*shape[:place], len(matrix), *shape[place + 1 :])
    return values
