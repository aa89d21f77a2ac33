"""The functions of one run on a tensor grid: its features there, and its states as functions of one coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.certificates.reconstruction import Reconstruction
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.numerics.dictionaries.base import FirstOrder
from evogt_study.numerics.dictionaries.legendre import polynomials
from evogt_study.numerics.retained_space import RetainedSpace, retained_functions


@dataclass(frozen=True, eq=False)
class RunFunctions:
    """A retained space with its features at the nodes of `grid`: derivatives are only needed on a line."""

    space: RetainedSpace
    grid: TensorGrid
    values: Array
    on_a_line: FirstOrder | None = None

    @staticmethod
    def of(space: RetainedSpace, grid: TensorGrid) -> RunFunctions:
        """Evaluate the features."""
        if grid.dimension > 1:
            return RunFunctions(space, grid, space.features.values(grid.nodes))
        first = space.features.first_order(grid.nodes)
        return RunFunctions(space, grid, first.value, first)

    @property
    def trial(self) -> Array:
        """Phi at the nodes, (Q, N)."""
        (D,) = self.space.domain.boundary_factor(self.grid.nodes)
        return np.asarray(D[:, None] * self.values)

    def reconstructed(self, states: Array, times: Array) -> Reconstruction:
        """The run by its coefficients at the knots, (K + 1, r) and (K + 1,).

        On a line these are the coefficients of the retained functions.  Else the solution is D p, p the polynomial that
        has the values psi . (T_r alpha) at the nodes: it vanishes on the boundary.
        """
        first = self.on_a_line
        if first is not None:
            x, space = self.grid.nodes, self.space
            values, gradients = retained_functions(space.domain, first, x, space.transform)
            return Reconstruction(times, states, lambda nodes: (values, gradients[0]))
        values = (states @ self.space.transform.T) @ self.values.T
        return Reconstruction(times, values.reshape(-1, *self.grid.shape), _interpolated(self.grid.points))


def _interpolated(points: int) -> Callable[[Array], tuple[Array, Array]]:
    """x (1 - x) times the polynomials that are one at one Gauss node and zero at the others."""
    nodes, weights = TensorGrid(1, points).along
    inverse = polynomials(nodes, points, 0)[0].T * weights

    def along(x: Array) -> tuple[Array, Array]:
        value, slope = polynomials(x, points, 1) @ inverse
        factor, derivative = (x * (1.0 - x))[:, None], (1.0 - 2.0 * x)[:, None]
        return factor * value, derivative * value + factor * slope

    return along
