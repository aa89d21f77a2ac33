"""Tensor products of Legendre polynomials, Fourier sines, and Fourier series on periodic boxes, without a seed."""

import numpy as np

from evogt_study.pde.dictionaries.base import Dictionary, TensorProducts, by_total_degree
from evogt_study.pde.numerics import Array


# With the boundary factor, the features span polynomials that vanish on the boundary.  So the error of an analytic
# solution falls exponentially with the degree.
class Legendre(Dictionary):
    """The first N orthonormal features psi_k(x) = prod_l sqrt(2 k_l + 1) P_{k_l}(2 x_l - 1) by total degree."""

    RANDOM = False
    HAS_CONSTANT = True

    def sample(self, seed: int, dimension: int) -> TensorProducts:
        return TensorProducts(by_total_degree(self.N, dimension), evaluate_legendre)


# The recurrences (k + 1) P_{k+1} = (2k + 1) z P_k - k P_{k-1} and P_{k+1}' = P_{k-1}' + (2k + 1) P_k are stable on
# [-1, 1], while coefficients of high powers would cancel.
def evaluate_legendre(x: Array, count: int, order: int) -> Array:
    """Return the normalised polynomials of degrees below `count` and their derivatives, (order + 1, Q, count)."""
    z, tables = 2.0 * x - 1.0, np.zeros((order + 1, count + 1, len(x)))
    tables[0, 0] = 1.0
    for k in range(count):
        before = tables[:, k - 1] if k else np.zeros_like(tables[:, 0])
        tables[0, k + 1] = ((2 * k + 1) * z * tables[0, k] - k * before[0]) / (k + 1)
        tables[1:, k + 1] = before[1:] + (2 * k + 1) * tables[:-1, k]
    scale = 2.0 ** np.arange(order + 1)[:, None, None] * np.sqrt(2.0 * np.arange(count) + 1.0)
    return np.asarray(tables[:, :count].swapaxes(1, 2) * scale)


# The boundary factor cancels the divisors, so the trial functions are products of sines, the eigenfunctions of the
# Laplacian.
class Sine(Dictionary):
    """The first N features psi_k(x) = prod_l sqrt(2) sin(k_l pi x_l) / (x_l (1 - x_l)), k_l >= 1, by total degree."""

    RANDOM = False

    def sample(self, seed: int, dimension: int) -> TensorProducts:
        return TensorProducts(by_total_degree(self.N, dimension), sines)


# The derivatives follow from q' w + q w' = (q w)' and q'' w + 2 q' w' + q w'' = (q w)'' with w = x (1 - x).  The plain
# quotient would have large rounding errors at the ends, where both factors vanish.
def sines(x: Array, count: int, order: int) -> Array:
    """Return q_k = sqrt(2) sin(k pi x) / (x (1 - x)) with derivatives and their limits, (order + 1, Q, count)."""
    frequency, x = np.pi * np.arange(1.0, count + 1.0), x[:, None]
    end = np.where(x < 0.5, 1.0, -1.0) * np.where(x < 0.5, 1.0, (-1.0) ** np.arange(count))  # sign of q' at the ends
    near = np.where(x < 0.5, x, 1.0 - x)  # sin(k pi x) = +-sin(k pi (1 - x)) is accurate near 1
    sign = end * np.where(x < 0.5, 1.0, -1.0)
    w, slope, inside = x * (1.0 - x), 1.0 - 2.0 * x, near > 0.0
    divisor, amplitude = np.where(inside, w, 1.0), np.sqrt(2.0)
    q = amplitude * sign * np.where(inside, np.sin(frequency * near) / divisor, frequency)
    tables = [q]
    if order >= 1:
        first = (amplitude * frequency * np.cos(frequency * x) - q * slope) / divisor
        tables.append(np.where(inside, first, amplitude * end * frequency))
    if order >= 2:
        second = (-(frequency**2) * q * w - 2.0 * tables[1] * slope + 2.0 * q) / divisor
        tables.append(np.where(inside, second, amplitude * sign * (2.0 * frequency - frequency**3 / 3.0)))
    return np.stack(tables)


class Fourier(Dictionary):
    """Products of 1, sqrt(2) cos(2 pi k s) and sqrt(2) sin(2 pi k s) in the directions s of a periodic box.

    The dictionary contains all products up to the largest total frequency that gives at most N functions.
    """

    RANDOM = False
    PERIODIC = True
    HAS_CONSTANT = True

    def sample(self, seed: int, dimension: int) -> TensorProducts:
        frequency, kept = 0, np.zeros((1, dimension), dtype=int)
        while True:
            grid = np.stack(np.meshgrid(*[np.arange(2 * frequency + 3)] * dimension, indexing="ij"), -1)
            indices = grid.reshape(-1, dimension)
            wider = indices[((indices + 1) // 2).sum(axis=1) <= frequency + 1]
            if len(wider) > self.N:
                return TensorProducts(kept, waves)
            frequency, kept = frequency + 1, wider


def waves(s: Array, count: int, order: int) -> Array:
    """Evaluate the first `count` functions of one coordinate with their derivatives, (order + 1, Q, count)."""
    k = np.arange(count)
    frequency = 2.0 * np.pi * ((k + 1) // 2)
    phase, size = np.where(k % 2, 0.0, -np.pi / 2), np.where(k, np.sqrt(2.0), 1.0)  # sin z = cos(z - pi/2)
    phase[0] = 0.0
    angle = frequency * s[:, None] + phase
    return np.stack([size * frequency**m * np.cos(angle + m * np.pi / 2) for m in range(order + 1)])
