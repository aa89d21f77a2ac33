"""The dual norm of a residual R(v) = (r, v) - (q, grad v) + <g, v>, weighted by A: sup R(v) / || sqrt(A) grad v ||.

In one direction it is exact: with G' = r, R(v) = -(G + q - c, v'), and the norm is || (G + q - c) / sqrt(a) ||.
Where both ends are Dirichlet c is the constant that makes it least; else it is such that G - c = -g at an upper end and
g at a lower one.  In more, w with (A grad w, grad v) = R(v) is approached by conjugate gradients in a spectral space;
what they leave, R_2, and the modes that the space has are accounted for:

    || R ||^2 = 2 R(w) - || sqrt(A) grad w ||^2 + || R_2 ||^2,    || R_2 ||^2 <= sup R_2(v) / || sqrt(s) grad v ||

for the constants s_1, ..., s_d of a diagonal matrix below A, so that w need not be exact.  Without Dirichlet face the
norm has m || v ||^2 too: R(1)^2 / m is added for the constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.pde.certificates.problem_data import ProblemData
from evogt_study.pde.certificates.spectral_space import FIXED, Ends, Sampled, SpectralSpace, TensorGrid
from evogt_study.pde.numerics.arrays import Array

ITERATIONS = 40
"""Largest number of iterations.  4 to 8 are enough for diffusions that vary by a factor of three."""
LEFT = 3e-3
"""Part of || R ||^2 that conjugate gradients may leave: it is added, at most the contrast of the diffusion times.  With
1e-3 the bounds of runs of the paper's studies in 2-D and 3-D are smaller by at most 0.15 %, for an iteration more."""
BEYOND = 5.0
"""Times the part in the last quarter of a panel's modes, for modes beyond them: in 1,600 manufactured runs, good and
bad, it was at most 3.7 times that part; of the last two modes of 32, which may both be small, 77 times."""
UPPER, MIDDLE = 2.0 / 3.0, 1.0 / 3.0
"""Modes above the first part of those in a direction, and what they have fallen to from those above the second, tell
how much the space does not resolve."""


@dataclass(frozen=True, eq=False)
class DualNorm:
    """|| R ||^2 at T times, and w with (a grad w, grad v) = R(v) for all v."""

    squares: Array
    unresolved: Array
    representer: Array


def on_a_line(
    remainder: Array, flux: Array, diffusion: Array, grid: TensorGrid, ends: Ends = FIXED,
    given: tuple[Array | float, Array | float] = (0.0, 0.0), mass: float = 0.0,
) -> DualNorm:  # fmt: skip
    """Return the norm in 1-D: r, q (T, Q), a (T or 1, Q) at nodes; g (T,) at ends; m without Dirichlet end."""
    weights, constants = grid.weights, np.zeros(())
    if not any(ends):
        # constants are among the functions then, and only the mass term bounds their part
        mean = np.asarray(remainder @ weights + given[0] + given[1])
        remainder, constants = remainder - mean[:, None], mean**2 / mass
    primitive, inverse = _primitive(remainder, grid), 1.0 / diffusion
    primitive += flux
    weighted = weights * inverse
    if all(ends):
        # the primitive is known up to a constant: with this one w, which is minus the integral of slope, vanishes at
        # both ends
        shift = -np.vecdot(primitive, weighted) / (inverse @ weights)
    else:
        shift = -remainder @ weights - given[1] if ends[0] else np.broadcast_to(given[0], len(primitive))
    primitive += shift[:, None]
    slope = primitive[-1:] * inverse[-1:]
    primitive *= np.sqrt(weighted)
    representer = -_primitive(slope, grid)[0]
    # w vanishes at the Dirichlet end, or has mean zero if there is none
    if not ends[0]:
        representer += slope[0] @ weights if ends[1] else -(representer @ weights)
    squares = np.vecdot(primitive, primitive) + constants
    return DualNorm(squares, BEYOND * _last_modes(primitive, grid), representer)


def _primitive(values: Array, grid: TensorGrid) -> Array:
    """Integrate the interpolating polynomial of each panel from 0 to the nodes, (T, Q) -> (T, Q)."""
    inside, before, _ = _matrices(grid.points, grid.panels)
    result = (values.reshape(-1, grid.points) @ inside).reshape(len(values), grid.panels, grid.points)
    result += (values @ before)[:, :, None]
    return result.reshape(len(values), -1)


@lru_cache(maxsize=16)  # all that `GRIDS` of a run's bound have, and a reference's
def _matrices(points: int, panels: int) -> tuple[Array, Array, Array]:
    """Return matrices from values on a line to primitives in a panel, integrals of previous panels, and last modes."""
    nodes, weights = TensorGrid(1, points).along
    degrees = np.arange(points)
    table: Array = np.polynomial.legendre.legvander(2.0 * nodes - 1.0, points).astype(float)
    integrals = np.empty((points, points))
    integrals[:, 0] = nodes
    integrals[:, 1:] = (table[:, 2:] - table[:, :-2]) / (2.0 * (2.0 * degrees[1:] + 1.0))
    modes = table[:, :-1] * weights[:, None]
    before = np.kron(np.triu(np.ones((panels, panels)), 1), weights[:, None]) / panels
    last = (np.sqrt(weights)[:, None] * table[:, :-1] * np.sqrt(2.0 * degrees + 1.0))[:, -(points // 4) :]
    return ((2.0 * degrees + 1.0) * modes) @ integrals.T / panels, before, last


def _last_modes(values: Array, grid: TensorGrid) -> Array:
    """Return the squared norm of the last quarter of the Legendre modes of every panel."""
    modes = (values.reshape(-1, grid.points) @ _matrices(grid.points, grid.panels)[2]).reshape(len(values), -1)
    return np.asarray(np.vecdot(modes, modes))


def in_a_cube(moments: Array, data: ProblemData, space: SpectralSpace, mass: float = 0.0) -> DualNorm:
    """Return the norm in 2-D or 3-D: R(B_k) (T, n, ..., n) and the diffusion; mass: m without Dirichlet face."""
    axes, basis = tuple(range(1, moments.ndim)), Sampled.of(space, data.grid)
    scale, constants = space.eigenvalues(below(data.diffusion, space.dimension)), np.zeros(len(moments))
    if space.has_constants:
        first = moments.reshape(len(moments), -1)[:, 0]
        constants, moments = first**2 / mass, moments.copy()
        # the first function is the constant, which the diffusion does not see
        moments.reshape(len(moments), -1)[:, 0], scale.reshape(len(scale), -1)[:, 0] = 0.0, 1.0
    # the preconditioner's norm bounds the rest
    w, left = conjugate_gradients(
        lambda v: basis.flux_moments(data.apply_diffusion(basis.gradient(v))), moments, scale, LEFT, ITERATIONS
    )
    # A w = R - left, so that 2 R(w) - (A w, w) = (R + left, w) without another product with A
    squares = np.sum((moments + left) * w, axis=axes) + np.sum(left**2 / scale, axis=axes) + constants
    upper, middle = (np.sum(moments**2 / scale * space.above(part), axis=axes) for part in (UPPER, MIDDLE))
    # as much again as these modes have, less where they fall: to q of the third before, so that q of them is beyond
    before = np.maximum(middle - upper, upper)
    unresolved = upper * np.divide(upper, before, out=np.ones_like(upper), where=before > 0.0)
    return DualNorm(squares, unresolved, basis.evaluate(w[-1:])[0])


def below(diffusion: Array, dimension: int) -> Array:
    """Return the diagonal (T or 1, d) of a constant matrix below A: mean A_ll times its least scaled eigenvalue."""
    times = len(diffusion)
    if diffusion.ndim == dimension + 1:
        return np.repeat(diffusion.reshape(times, -1).min(axis=1)[:, None], dimension, axis=1)
    flat = np.moveaxis(diffusion.reshape(times, dimension, dimension, -1), -1, 1)
    scales = np.einsum("tqll->tl", flat) / flat.shape[1]
    roots = np.sqrt(scales)
    least = np.linalg.eigvalsh(flat / (roots[:, None, :, None] * roots[:, None, None, :]))[..., 0].min(axis=1)
    if not least.min() > 0.0:
        raise ProblemError(
            "`diffusion` must be positive definite on the nodes of the certificates, got a least eigenvalue of "
            f"{least.min():.6g} where diagonal entries are one on average"
        )
    return np.asarray(least[:, None] * scales)


def conjugate_gradients(
    operator: Callable[[Array], Array], load: Array, diagonal: Array, tolerance: float, most: int
) -> tuple[Array, Array]:
    """Return x with A x = b for T systems, and b - A x, with the preconditioner `diagonal` (1 or T, ...)."""
    axes = tuple(range(1, load.ndim))

    def product(left: Array, right: Array) -> Array:
        return np.asarray(np.sum(left * right, axis=axes, keepdims=True))

    def ratio(over: Array, under: Array) -> Array:
        # of a system that is solved exactly all is zero: it stays where it is while others go on
        return np.divide(over, under, out=np.zeros_like(over), where=under > 0.0)

    x, left = np.zeros_like(load), load.copy()
    direction = left / diagonal
    rho = product(left, direction)
    enough = tolerance * rho
    for _ in range(most):
        if np.all(rho <= enough):
            break
        image = operator(direction)
        length = ratio(rho, product(direction, image))
        x += length * direction
        left -= length * image
        corrected = left / diagonal
        rho, before = product(left, corrected), rho
        direction = corrected + ratio(rho, before) * direction
    return x, left
