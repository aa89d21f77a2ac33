"""Polynomials that vanish on the boundary of the unit cube, in a basis in which the Laplacian is diagonal.

In one direction the integrals of Legendre polynomials have the identity as stiffness; the eigenvectors of their mass
matrix make a basis b_1, ..., b_n with (b_i, b_j) = delta_ij and (b_i', b_j') = lambda_i delta_ij.  In d directions
products of it have (grad B_k, grad B_m) = (lambda_{k_1} + ... + lambda_{k_d}) delta_km.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.certificates.tensor_grid import TensorGrid, applied
from evogt_study.numerics.dictionaries.legendre import polynomials


@dataclass(frozen=True)
class SpectralSpace:
    """Products of n = `modes` polynomials of degrees 2 to n + 1 in each of `dimension` directions."""

    dimension: int
    modes: int

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of the Laplacian, (n, ..., n)."""
        _, along = _eigenbasis(self.modes)
        return np.asarray(reduce(np.add.outer, [along] * self.dimension))

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, ..., n)."""
        return (self.modes,) * self.dimension

    def above(self, part: float) -> Array:
        """Ones at the modes that are beyond this part of all in some direction, (n, ..., n)."""
        high = (np.arange(self.modes) >= int(part * self.modes)).astype(np.float64)
        return 1.0 - np.asarray(reduce(np.multiply.outer, [1.0 - high] * self.dimension))

    def along(self, nodes: Array) -> tuple[Array, Array]:
        """Values and derivatives of the basis of one direction, (Q,) -> (Q, n) and (Q, n)."""
        combination, _ = _eigenbasis(self.modes)
        slopes = polynomials(nodes, self.modes + 2, 0)[0]
        return _integrated(slopes) @ combination, slopes[:, 1:-1] @ combination


@dataclass(frozen=True, eq=False)
class Sampled:
    """A basis of products on a grid: values and derivatives (Q, n) of one direction, and the grid's weights."""

    values: Array
    slopes: Array
    grid: TensorGrid

    @staticmethod
    @lru_cache(maxsize=8)
    def of(space: SpectralSpace, grid: TensorGrid) -> Sampled:
        """The basis of `space` on `grid`, which all runs of a problem have in common."""
        return Sampled(*space.along(grid.along[0]), grid)

    def _matrices(self, derived: int | None) -> list[Array]:
        return [self.slopes if axis == derived else self.values for axis in range(self.grid.dimension)]

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

    def diffused(self, diffusion: Array, coefficients: Array) -> Array:
        """(a grad v, grad B_k) of functions v by their coefficients."""
        return self.flux_moments([diffusion * part for part in self.gradient(coefficients)])


def _integrated(legendre: Array) -> Array:
    """Integrals from 0 of the normalised polynomials of degrees 1 to n, from those of degrees 0 to n + 1."""
    scaled = legendre / np.sqrt(2.0 * np.arange(legendre.shape[1]) + 1.0)
    degrees = np.arange(1, legendre.shape[1] - 1)
    return np.asarray((scaled[:, 2:] - scaled[:, :-2]) / (2.0 * np.sqrt(2.0 * degrees + 1.0)))


@lru_cache(maxsize=16)
def _eigenbasis(modes: int) -> tuple[Array, Array]:
    """Coefficients of b_1, ..., b_n in the integrals of Legendre polynomials (n, n), and lambda (n,), increasing."""
    nodes, weights = TensorGrid(1, modes + 2).along
    basis = _integrated(polynomials(nodes, modes + 2, 0)[0])
    mass, vectors = np.linalg.eigh(basis.T @ (weights[:, None] * basis))
    return vectors[:, ::-1] / np.sqrt(mass[::-1]), 1.0 / mass[::-1]
