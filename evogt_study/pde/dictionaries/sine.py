"""Tensor products of Fourier sines, and of Fourier series in periodic directions, without a seed.

The features of `Sine` are products of sines divided by x (1 - x).  The boundary factor cancels the divisors, so the
trial functions are products of sines, the eigenfunctions of the Laplacian.
"""

from __future__ import annotations

import numpy as np

from evogt_study.pde.dictionaries.base import Dictionary, TensorProducts, by_total_degree
from evogt_study.pde.numerics import Array


class Sine(Dictionary):
    """The first N features psi_k(x) = prod_l sqrt(2) sin(k_l pi x_l) / (x_l (1 - x_l)), k_l >= 1, by total degree."""

    RANDOM = False

    def sample(self, seed: int, dimension: int) -> TensorProducts:
        return TensorProducts(by_total_degree(self.N, dimension), sines)


# The formulas avoid the plain quotient, because both factors vanish at the ends and rounding errors would dominate.
def sines(x: Array, count: int, order: int) -> Array:
    """Return the first `count` functions q = sqrt(2) sin(k pi x) / w with derivatives, (order + 1, Q, count).

    The divisor is w = x (1 - x), and k starts at 1.
    The derivatives follow from q' w + q w' = (q w)' and q'' w + 2 q' w' + q w'' = (q w)''.  At x = 0 and
    x = 1, the function returns limits.
    """
    frequency, x = np.pi * np.arange(1.0, count + 1.0), x[:, None]
    end = np.where(x < 0.5, 1.0, -1.0) * np.where(x < 0.5, 1.0, (-1.0) ** np.arange(count))  # sign of q' at the ends
    near = np.where(x < 0.5, x, 1.0 - x)  # sin(k pi x) = +-sin(k pi (1 - x)) is accurate near 1
    sign = end * np.where(x < 0.5, 1.0, -1.0)
    w, slope, inside = x * (1.0 - x), 1.0 - 2.0 * x, near > 0.0
    divisor = np.where(inside, w, 1.0)
    amplitude = np.sqrt(2.0)
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
        """Return the features, which do not depend on the seed."""
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
    return np.stack(
        [size * frequency**m * np.cos(frequency * s[:, None] + phase + m * np.pi / 2) for m in range(order + 1)]
    )
