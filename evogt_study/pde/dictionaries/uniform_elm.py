"""Uniform extreme learning machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.dictionaries.tanh_layers import TanhDictionary
from evogt_study.pde.numerics.arrays import Array


@dataclass(frozen=True)
class UniformELM(TanhDictionary):
    """a_i ~ U(-1, 1)^d, xi_i ~ U(-1, 1)."""

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return rng.uniform(-1.0, 1.0, (width, dimension)), rng.uniform(-1.0, 1.0, width)
