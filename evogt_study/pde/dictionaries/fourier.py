"""Fourier series for periodic directions, without a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.dictionaries.tensor_products import TensorProducts
from evogt_study.pde.numerics.arrays import Array


@dataclass(frozen=True)
class Fourier(Dictionary):
    """1, sqrt(2) cos(2 pi k s), sqrt(2) sin(2 pi k s) in each direction s of a periodic box, and their products.

    Products have whole shells of total frequency: the largest number of shells with at most N functions.
    """

    RANDOM = False
    PERIODIC = True

    def sample(self, seed: int, dimension: int) -> TensorProducts:
        """Return the features; there is nothing to draw."""
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
