"""Polynomials on the unit cube that vanish on its Dirichlet faces, in a basis in which the Laplacian is diagonal.

In one direction the integrals of Legendre polynomials, with linear functions for ends where values are free, have a
nearly diagonal stiffness; with their mass matrix it makes a basis b_1, ..., b_n with (b_i, b_j) = delta_ij and
(b_i', b_j') = lambda_i delta_ij.  In d directions products of it have
(grad B_k, s grad B_m) = (s_1 lambda_{k_1} + ... + s_d lambda_{k_d}) delta_km for constants s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
import scipy.linalg

from evogt_study.numerics.certificates.tensor_grid import TensorGrid, applied
from evogt_study.pde.dictionaries.legendre import polynomials
from evogt_study.pde.numerics.arrays import Array

Ends = tuple[bool, bool]
"""Of one direction: whether functions vanish at its lower and at its upper end."""
FIXED: Ends = (True, True)
"""Both do."""


@dataclass(frozen=True)
class SpectralSpace:
    """Products of n = `modes` polynomials in each of `dimension` directions, zero on all faces without `ends`."""

    dimension: int
    modes: int
    ends: tuple[Ends, ...] = ()

    @property
    def along_each(self) -> tuple[Array, ...]:
        """Eigenvalues of each direction, (n,) each, increasing."""
        return tuple(_eigenbasis(self.modes, *ends)[1] for ends in self.ends or (FIXED,) * self.dimension)

    def eigenvalues(self, scales: Array) -> Array:
        """Eigenvalues of - div s grad for constants s, (..., d) -> (..., n, ..., n)."""
        parts = [
            scales[(..., axis) + (None,) * self.dimension] * _on_axis(values, axis, self.dimension)
            for axis, values in enumerate(self.along_each)
        ]
        return np.asarray(reduce(np.add, parts))

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, ..., n)."""
        return (self.modes,) * self.dimension

    @property
    def has_constants(self) -> bool:
        """True where there is no Dirichlet face; the first function is then one."""
        return len(self.ends) > 0 and not any(map(any, self.ends))

    def above(self, part: float) -> Array:
        """Ones at the modes that are beyond this part of all in some direction, (n, ..., n)."""
        high = (np.arange(self.modes) >= int(part * self.modes)).astype(np.float64)
        return 1.0 - np.asarray(reduce(np.multiply.outer, [1.0 - high] * self.dimension))

    def along(self, nodes: Array) -> list[tuple[Array, Array]]:
        """Values and derivatives of the basis of each direction, (Q,) -> (Q, n) and (Q, n)."""
        slopes = polynomials(nodes, self.modes + 2, 0)[0]
        whole = (_integrated(slopes), slopes[:, 1:-1])
        return [_of_one_direction(nodes, *whole, ends) for ends in self.ends or (FIXED,) * self.dimension]


def _on_axis(values: Array, axis: int, dimension: int) -> Array:
    return values.reshape([-1 if each == axis else 1 for each in range(dimension)])


@dataclass(frozen=True, eq=False)
class Sampled:
    """Products of functions of one coordinate on a grid: their values and derivatives (Q, n) in each direction."""

    along: list[tuple[Array, Array]]
    grid: TensorGrid

    @staticmethod
    @lru_cache(maxsize=8)
    def of(space: SpectralSpace, grid: TensorGrid) -> Sampled:
        """The basis of `space` on `grid`, which all runs of a problem have in common."""
        return Sampled(space.along(grid.along[0]), grid)

    def _matrices(self, derived: int | None) -> list[Array]:
        return [slopes if axis == derived else values for axis, (values, slopes) in enumerate(self.along)]

    def evaluate(self, coefficients: Array) -> Array:
        """Functions on the grid, (..., n, ..., n) -> (..., Q, ..., Q)."""
        return applied(self._matrices(None), coefficients)

    def gradient(self, coefficients: Array) -> list[Array]:
        """The derivative in each direction on the grid."""
        return [applied(self._matrices(axis), coefficients) for axis in range(self.grid.dimension)]

    def moments(self, values: Array) -> Array:
        """(v, B_k) of functions on the grid, (..., Q, ..., Q) -> (..., n, ..., n)."""
        return applied([matrix.T for matrix in self._matrices(None)], values * self.grid.weights)

    def flux_moments(self, flux: list[Array]) -> Array:
        """(q, grad B_k) of vector fields on the grid."""
        weights = self.grid.weights
        return reduce(
            np.add,
            [applied([matrix.T for matrix in self._matrices(axis)], part * weights) for axis, part in enumerate(flux)],
        )

    def on_face(self, coefficients: Array, axis: int, ends: Array) -> Array:
        """Functions on a face across `axis`, by the values there of those of one coordinate (n,)."""
        matrices = self._matrices(None)
        matrices[axis] = ends[None]
        return np.squeeze(applied(matrices, coefficients), axis=coefficients.ndim - self.grid.dimension + axis)

    def face_moments(self, values: Array, axis: int, ends: Array) -> Array:
        """(v, B_k) over that face, of functions on it, (T, Q, ...) -> (T, n, ..., n)."""
        matrices = [matrix.T for matrix in self._matrices(None)]
        matrices[axis] = ends[:, None]
        weights = [self.grid.along[1]] * (self.grid.dimension - 1)
        weighted = values * np.asarray(reduce(np.multiply.outer, weights, np.ones(())))
        return applied(matrices, np.expand_dims(weighted, 1 + axis))


def _integrated(legendre: Array) -> Array:
    """Integrals from 0 of the normalised polynomials of degrees 1 to n, from those of degrees 0 to n + 1."""
    scaled = legendre / np.sqrt(2.0 * np.arange(legendre.shape[1]) + 1.0)
    degrees = np.arange(1, legendre.shape[1] - 1)
    return np.asarray((scaled[:, 2:] - scaled[:, :-2]) / (2.0 * np.sqrt(2.0 * degrees + 1.0)))


def _of_one_direction(nodes: Array, values: Array, slopes: Array, ends: Ends) -> tuple[Array, Array]:
    """The basis of one direction from the integrals of Legendre polynomials and their derivatives, (Q, n) each."""
    combination, _ = _eigenbasis(values.shape[1], *ends)
    values, slopes = _with_free_ends(nodes, values, slopes, *ends)
    return values @ combination, slopes @ combination


def _with_free_ends(nodes: Array, values: Array, slopes: Array, below: bool, above: bool) -> tuple[Array, Array]:
    """The same number of functions, of which the first are linear where they need not vanish at an end."""
    one, linear = np.ones_like(nodes), list[tuple[Array, Array]]()
    if not (below or above):
        linear.append((one, 0.0 * one))
    if not (below and above):
        linear.append((1.0 - nodes, -one) if above else (nodes, one))
    kept = values.shape[1] - len(linear)
    return (
        np.column_stack([*(each for each, _ in linear), values[:, :kept]]),
        np.column_stack([*(each for _, each in linear), slopes[:, :kept]]),
    )


@lru_cache(maxsize=16)
def _eigenbasis(modes: int, below: bool, above: bool) -> tuple[Array, Array]:
    """Coefficients of b_1, ..., b_n in the functions of `_with_free_ends` (n, n), and lambda (n,), increasing."""
    # n + 2 points are exact for the mass of polynomials of degree n + 1
    nodes, weights = TensorGrid(1, modes + 2).along
    legendre = polynomials(nodes, modes + 2, 0)[0]
    values, slopes = _with_free_ends(nodes, _integrated(legendre), legendre[:, 1:-1], below, above)
    mass, stiffness = (part.T @ (weights[:, None] * part) for part in (values, slopes))
    # of M and S + M, which is well-conditioned: the smallest lambda come out to full precision
    parts, vectors = scipy.linalg.eigh(mass, mass + stiffness)
    # parts are 1/(1 + lambda), increasing where lambda falls, and v . M v of vectors normalised in S + M
    return vectors[:, ::-1] / np.sqrt(parts[::-1]), np.maximum(1.0 / parts[::-1] - 1.0, 0.0)
