"""Features that are products of functions of one coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from evogt_study.pde.dictionaries.base import FirstOrder, Jet
from evogt_study.pde.numerics.arrays import Array

Functions = Callable[[Array, int, int], Array]
"""Function of x (Q,), a count n and an order m that returns n functions with m derivatives, (m + 1, Q, n)."""


# by total degree, not by the largest one: N features then resolve the same scale in every direction of space
@lru_cache(maxsize=16)
def by_total_degree(count: int, dimension: int) -> npt.NDArray[np.intp]:
    """Return the first `count` multi-indices by total degree, then in decreasing lexical order, (count, d)."""
    indices: list[tuple[int, ...]] = []
    degree = 0
    while len(indices) < count:
        indices += _of_degree(degree, dimension)
        degree += 1
    return np.array(indices[:count])


def _of_degree(degree: int, dimension: int) -> list[tuple[int, ...]]:
    if dimension == 1:
        return [(degree,)]
    return [(k, *rest) for k in range(degree, -1, -1) for rest in _of_degree(degree - k, dimension - 1)]


@dataclass(frozen=True, eq=False)
class TensorProducts:
    """psi_k(x) = prod_l f_{k_l}(x_l) for the multi-indices k, (N, d), of functions f of one coordinate."""

    indices: npt.NDArray[np.intp]
    functions: Functions

    @property
    def count(self) -> int:
        return len(self.indices)

    def values(self, nodes: Array) -> Array:
        return self._tabulate(nodes, 0)()

    def first_order(self, nodes: Array) -> FirstOrder:
        along = self._tabulate(nodes, 1)
        return FirstOrder(along(), np.stack([along(i) for i in range(nodes.shape[1])]))

    def second_order(self, nodes: Array) -> Jet:
        along, axes = self._tabulate(nodes, 2), range(nodes.shape[1])
        hessian = np.stack([np.stack([along(i, j) for j in axes]) for i in axes])
        return Jet(along(), np.stack([along(i) for i in axes]), hessian)

    def _tabulate(self, nodes: Array, order: int) -> Callable[..., Array]:
        """Return psi at `nodes` differentiated along each of the arguments, at most `order`, by the product rule."""
        tables = [
            # each function of one coordinate is evaluated once, however many products have it
            self.functions(x, int(indices.max()) + 1, order)[:, :, indices]
            for x, indices in zip(nodes.T, self.indices.T, strict=True)
        ]
        return lambda *derived: np.asarray(prod(table[derived.count(axis)] for axis, table in enumerate(tables)))
