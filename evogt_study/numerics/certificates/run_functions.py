"""The functions of one run on a tensor grid: its features there, and its states as functions of one coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from evogt_study.numerics.certificates.problem_data import UnitBox
from evogt_study.numerics.certificates.reconstruction import Reconstruction
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.numerics.pipeline import Share, Solution
from evogt_study.pde.dictionaries.base import FirstOrder
from evogt_study.pde.dictionaries.legendre import polynomials
from evogt_study.pde.domains import Domain
from evogt_study.pde.galerkin.retained_space import RetainedSpace
from evogt_study.pde.galerkin.validation import AtNodes, Interpolated
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import QuadratureRule


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
        # with the validation, at whose points layered features are known
        key = (run.dictionary, run.seed, run.validation, grid, space.domain)
        nodes = UnitBox.of(space.domain).nodes(grid)
        if grid.dimension == 1:
            first = share("certificate features", key, lambda: _first_order(solution, nodes))
            return RunFunctions(space, grid, first.value, first)
        if isinstance(solution.sums, AtNodes) and run.validation == QuadratureRule("gauss_legendre", grid.points):
            return RunFunctions(space, grid, solution.sums.psi)
        return RunFunctions(space, grid, share("certificate features", key, lambda: space.features.values(nodes)))

    @cached_property
    def box(self) -> UnitBox:
        """The part of the domain that the grid covers."""
        return UnitBox.of(self.space.domain)

    @cached_property
    def trial(self) -> Array:
        """Phi at the nodes, (Q, N)."""
        return _boundary_factor(self.space.domain, self.grid)[0] * self.values

    def weighted(self, roots: Array) -> Array:
        """Phi at the nodes times the roots of their weights (Q,), (Q, N)."""
        return np.asarray((roots[:, None] * _boundary_factor(self.space.domain, self.grid)[0]) * self.values)

    def evaluated(self, coefficients: Array) -> Array:
        """Functions of the retained space at the nodes, (..., r) -> (..., Q)."""
        if self.on_a_line is None:
            return np.asarray((coefficients @ self.space.transform.T) @ self.trial.T)
        # r products a node instead of N, by functions that the bound has asked for already
        return np.asarray(coefficients @ self._retained[0].T)

    def reconstructed(self, states: Array, times: Array) -> Reconstruction:
        """The run by its coefficients at the knots, (K + 1, r) and (K + 1,).

        On a line these are the coefficients of the retained functions.  Else the solution is D p, p the polynomial that
        has the values psi . (T_r alpha) at the nodes: it vanishes on Dirichlet faces.
        """
        if self.on_a_line is not None:
            return Reconstruction(times, states, self._along)
        values = (states @ self.space.transform.T) @ self.values.T
        points, ends = self.grid.points, self.box.ends

        def along(x: Array) -> list[tuple[Array, Array]]:
            return [_interpolating(points, tuple(x.tolist()), *of) for of in ends]

        return Reconstruction(times, values.reshape(-1, *self.grid.shape), along)

    @cached_property
    def _retained(self) -> tuple[Array, Array]:
        """The retained functions and their derivatives in the unit interval at the nodes, (Q, r) each."""
        assert self.on_a_line is not None  # noqa: S101  # asked before
        return self._conforming(self.on_a_line, *_boundary_factor(self.space.domain, self.grid))

    def _along(self, x: Array) -> list[tuple[Array, Array]]:
        if x is self.grid.along[0] or np.array_equal(x, self.grid.along[0]):
            return [self._retained]
        nodes = self.box.mapped(x[:, None])
        D, dD = self.space.domain.boundary_factor(nodes, 1)
        return [self._conforming(self.space.features.first_order(nodes), D[:, None], dD[0][:, None])]

    # as `retained_functions`, of few nodes in one direction and with a boundary factor that is at hand
    def _conforming(self, psi: FirstOrder, D: Array, dD: Array) -> tuple[Array, Array]:
        transform = np.ascontiguousarray(self.space.transform)  # with which small products take half the time
        values = psi.value @ transform
        slopes = D * psi.mapped(psi.factor(transform))[0]
        slopes += dD * values
        values *= D
        slopes *= self.box.widths[0]
        return values, slopes


# of several layers the run has them at points that they follow from in a fraction of the time; the bounds of 48 runs of
# the paper changed by 8e-11 of them
def _first_order(solution: Solution, nodes: Array) -> FirstOrder:
    if len(solution.discretisation.dictionary.widths) > 1 and isinstance(solution.sums, Interpolated):
        return solution.sums.first_order(nodes)
    return solution.space.features.first_order(nodes)


@lru_cache(maxsize=8)  # which all runs of a study have in common
def _boundary_factor(domain: Domain, grid: TensorGrid) -> tuple[Array, Array]:
    """D at the nodes, and its derivative in the first direction, (Q, 1) each."""
    D, dD = domain.boundary_factor(UnitBox.of(domain).nodes(grid), 1)
    return D[:, None], dD[0][:, None]


@lru_cache(maxsize=16)
def _interpolating(points: int, at: tuple[float, ...], below: bool, above: bool) -> tuple[Array, Array]:
    """D_l times the polynomials that are one at one Gauss node and zero at the others, with their derivatives.

    D_l is x, 1 - x or x (1 - x) where the lower, the upper or both ends are Dirichlet, else one.
    """
    nodes, weights = TensorGrid(1, points).along
    x, one = np.array(at), np.ones(len(at))
    # Gauss points are exact for products of two of the polynomials: values^T W is the inverse of values
    value, slope = polynomials(x, points, 1) @ (polynomials(nodes, points, 0)[0].T * weights)
    low, high = x if below else one, 1.0 - x if above else one
    factor, derivative = (low * high)[:, None], (below * high - above * low)[:, None]
    return factor * value, derivative * value + factor * slope
