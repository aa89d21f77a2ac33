"""The functions of one run on a tensor grid: its features there, and its states as functions of one coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.certificates.reconstruction import Reconstruction
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.numerics.dictionaries.base import FirstOrder
from evogt_study.numerics.dictionaries.legendre import polynomials
from evogt_study.numerics.pipeline import Share, Solution
from evogt_study.numerics.quadrature import QuadratureRule
from evogt_study.numerics.retained_space import RetainedSpace, retained_functions


@dataclass(frozen=True, eq=False)
class RunFunctions:
    """A retained space with its features at the nodes of `grid`: derivatives are only needed on a line."""

    space: RetainedSpace
    grid: TensorGrid
    values: Array
    on_a_line: FirstOrder | None = None

    @staticmethod
    def of(solution: Solution, grid: TensorGrid, share: Share) -> RunFunctions:
        """Evaluate the features, where the run has not done so for its validation."""
        space, run = solution.space, solution.discretisation
        key = (run.dictionary, run.seed, grid, space.domain)
        if grid.dimension == 1:
            first = share("certificate features", key, lambda: space.features.first_order(grid.nodes))
            return RunFunctions(space, grid, first.value, first)
        if run.validation == QuadratureRule("gauss_legendre", grid.points):
            return RunFunctions(space, grid, solution.features)
        return RunFunctions(space, grid, share("certificate features", key, lambda: space.features.values(grid.nodes)))

    @cached_property
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
    return lambda x: _interpolating(points, tuple(x.tolist()))


@lru_cache(maxsize=8)
def _interpolating(points: int, at: tuple[float, ...]) -> tuple[Array, Array]:
    nodes, weights = TensorGrid(1, points).along
    x = np.array(at)
    value, slope = polynomials(x, points, 1) @ (polynomials(nodes, points, 0)[0].T * weights)
    factor, derivative = (x * (1.0 - x))[:, None], (1.0 - 2.0 * x)[:, None]
    return factor * value, derivative * value + factor * slope
