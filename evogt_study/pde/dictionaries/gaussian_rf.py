"""Gaussian random features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.dictionaries.tanh_layers import TanhDictionary
from evogt_study.pde.numerics.arrays import Array


@dataclass(frozen=True)
class GaussianRandomFeatures(TanhDictionary):
    """a_i ~ N(0, I), xi_i ~ N(0, 1)."""

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return rng.standard_normal((width, dimension)), rng.standard_normal(width)
