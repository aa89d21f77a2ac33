"""Tensor-product Gauss grids on the unit cube, and polynomials on them that diagonalise the Laplacian.

The functions of one direction are integrals of Legendre polynomials, which vanish at Dirichlet ends.  They are combined
so that their mass is the identity and their stiffness is diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np
import scipy.linalg

from evogt_study.errors import ParameterError
from evogt_study.pde.dictionaries.legendre import polynomials
from evogt_study.pde.domains.box import tensor_points
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import QuadratureRule, Rule

Ends = tuple[bool, bool]
"""Two booleans: whether functions vanish at the lower and at the upper end of a direction."""
FIXED: Ends = (True, True)
"""Functions vanish at both ends."""


@dataclass(frozen=True)
class TensorGrid:
    """Grid of `panels` panels with `points` Gauss-Legendre points each, in each of `dimension` directions."""

    dimension: int
    points: int
    panels: int = 1

    @staticmethod
    @lru_cache(maxsize=8)  # with its nodes, which take longer than the rule
    def of_rule(rule: Rule, dimension: int) -> TensorGrid:
        """Return the grid of a rule on the cube.  A composite midpoint rule has panels of one point."""
        if not isinstance(rule, QuadratureRule):
            raise ParameterError("quadrature", "a rule of points per direction", rule)
        one_panel = rule.rule == "gauss_legendre"
        return TensorGrid(dimension, *((rule.points, 1) if one_panel else (1, rule.points)))

    @cached_property
    def axis_rule(self) -> tuple[Array, Array]:
        """Nodes and weights of one direction, (Q,) each."""
        nodes, weights = QuadratureRule("gauss_legendre", self.points).on_unit_interval  # which remembers them
        starts = np.arange(self.panels)[:, None]
        return ((starts + nodes) / self.panels).ravel(), np.tile(weights, self.panels) / self.panels

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.points * self.panels,) * self.dimension

    @cached_property
    def nodes(self) -> Array:
        """All nodes in C order, (Q^d, d)."""
        return tensor_points([self.axis_rule[0]] * self.dimension)

    @cached_property
    def weights(self) -> Array:
        """All weights, (Q, ..., Q)."""
        return np.asarray(reduce(np.multiply.outer, [self.axis_rule[1]] * self.dimension))


def evaluate_interpolants(points: int, x: Array, order: int) -> Array:
    """Return the Lagrange polynomials of the Gauss nodes with derivatives, (order + 1, Q, P)."""
    nodes, weights = TensorGrid(1, points).axis_rule
    # Gauss points are exact for products of two Legendre polynomials: values^T W is the inverse of values
    return np.asarray(polynomials(x, points, order) @ (polynomials(nodes, points, 0)[0].T * weights))


@dataclass(frozen=True)
class SpectralSpace:
    """Products of n = `modes` polynomials in each of `dimension` directions, zero on all faces by default."""

    dimension: int
    modes: int
    ends: tuple[Ends, ...] = ()

    def eigenvalues(self, scales: Array) -> Array:
        """Return the eigenvalues of - div s grad for constants s, (..., d) -> (..., n, ..., n)."""
        each = self.ends or (FIXED,) * self.dimension
        parts = [
            scales[(..., axis) + (None,) * self.dimension] * values.reshape([-1] + [1] * (self.dimension - 1 - axis))
            for axis, values in enumerate(_eigenbasis(self.modes, *ends)[1] for ends in each)
        ]
        return np.asarray(reduce(np.add, parts))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.modes,) * self.dimension

    def high_mode_mask(self, part: float) -> Array:
        """Return 1 for modes with an index of at least `part` times `modes` in some direction, else 0, (n, ..., n)."""
        high = (np.arange(self.modes) >= int(part * self.modes)).astype(np.float64)
        return 1.0 - np.asarray(reduce(np.multiply.outer, [1.0 - high] * self.dimension))

    def along(self, nodes: Array) -> list[tuple[Array, Array]]:
        """Return values and derivatives of the basis of each direction, (Q,) -> (Q, n) and (Q, n)."""
        slopes = polynomials(nodes, self.modes + 2, 0)[0]
        whole = (_integrate(slopes), slopes[:, 1:-1])
        pairs = []
        for ends in self.ends or (FIXED,) * self.dimension:
            combination, _ = _eigenbasis(self.modes, *ends)
            values, derivatives = _with_free_ends(nodes, *whole, *ends)
            pairs.append((values @ combination, derivatives @ combination))
        return pairs


@dataclass(frozen=True, eq=False)
class SampledBasis:
    """Products of functions of one coordinate on a grid: their values and derivatives (Q, n) in each direction."""

    along: list[tuple[Array, Array]]
    grid: TensorGrid

    @staticmethod
    @lru_cache(maxsize=8)
    def of(space: SpectralSpace, grid: TensorGrid) -> SampledBasis:
        """Return the basis of `space` on `grid`.  All runs of a problem share it."""
        return SampledBasis(space.along(grid.axis_rule[0]), grid)

    def _matrices(self, derivative_axis: int | None) -> list[Array]:
        return [slopes if axis == derivative_axis else values for axis, (values, slopes) in enumerate(self.along)]

    def evaluate(self, coefficients: Array) -> Array:
        """Evaluate functions on the grid, (..., n, ..., n) -> (..., Q, ..., Q)."""
        return apply_matrices(self._matrices(None), coefficients)

    def gradient(self, coefficients: Array) -> list[Array]:
        """Return the derivative in each direction on the grid."""
        return [apply_matrices(self._matrices(axis), coefficients) for axis in range(self.grid.dimension)]

    def moments(self, values: Array) -> Array:
        """Return (v, B_k) of functions on the grid, (..., Q, ..., Q) -> (..., n, ..., n)."""
        return apply_matrices([matrix.T for matrix in self._matrices(None)], values * self.grid.weights)

    def flux_moments(self, flux: list[Array]) -> Array:
        """Return (q, grad B_k) of vector fields on the grid."""
        parts = [part * self.grid.weights for part in flux]
        matrices = [[matrix.T for matrix in self._matrices(axis)] for axis in range(len(flux))]
        return reduce(np.add, [apply_matrices(*pair) for pair in zip(matrices, parts, strict=True)])

    def on_face(self, coefficients: Array, axis: int, ends: Array) -> Array:
        """Evaluate functions on a face normal to `axis`.  `ends`: basis of this direction at the face, (n,)."""
        matrices = self._matrices(None)
        matrices[axis] = ends[None]
        return np.squeeze(apply_matrices(matrices, coefficients), axis=coefficients.ndim - self.grid.dimension + axis)

    def face_moments(self, values: Array, axis: int, ends: Array) -> Array:
        """Return (v, B_k) on the face of `on_face`, for functions v on this face, (T, Q, ...) -> (T, n, ..., n)."""
        matrices = [matrix.T for matrix in self._matrices(None)]
        matrices[axis] = ends[:, None]
        weights = [self.grid.axis_rule[1]] * (self.grid.dimension - 1)
        weighted = values * np.asarray(reduce(np.multiply.outer, weights, np.ones(())))
        return apply_matrices(matrices, np.expand_dims(weighted, 1 + axis))


def apply_matrices(matrices: list[Array], values: Array) -> Array:
    """Apply one matrix (m_l, n_l) to each of the last d directions: (..., n_1, ..., n_d) -> (..., m_1, ..., m_d)."""
    dimension = len(matrices)
    if dimension == 1:
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


def _integrate(legendre: Array) -> Array:
    """Integrate the normalised polynomials of degrees 1 to n from 0, given the polynomials of degrees 0 to n + 1."""
    scaled = legendre / np.sqrt(2.0 * np.arange(legendre.shape[1]) + 1.0)
    degrees = np.arange(1, legendre.shape[1] - 1)
    return np.asarray((scaled[:, 2:] - scaled[:, :-2]) / (2.0 * np.sqrt(2.0 * degrees + 1.0)))


def _with_free_ends(nodes: Array, values: Array, slopes: Array, below: bool, above: bool) -> tuple[Array, Array]:
    """Replace the first functions by linear ones if they need not vanish at an end."""
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
    """Return coefficients of b_1, ..., b_n in the functions of `_with_free_ends` (n, n), and increasing lambda (n,)."""
    # n + 2 points are exact for the mass of polynomials of degree n + 1
    nodes, weights = TensorGrid(1, modes + 2).axis_rule
    legendre = polynomials(nodes, modes + 2, 0)[0]
    values, slopes = _with_free_ends(nodes, _integrate(legendre), legendre[:, 1:-1], below, above)
    mass, stiffness = (part.T @ (weights[:, None] * part) for part in (values, slopes))
    # of M and S + M, which is well-conditioned: the smallest lambda come out to full precision
    parts, vectors = scipy.linalg.eigh(mass, mass + stiffness)
    # parts are 1/(1 + lambda), increasing where lambda falls, and v . M v of vectors normalised in S + M
    return vectors[:, ::-1] / np.sqrt(parts[::-1]), np.maximum(1.0 / parts[::-1] - 1.0, 0.0)
