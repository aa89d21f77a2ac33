"""The four dictionaries of random layers of tanh: TransNet, GTransNet, Gaussian random features, uniform ELM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.dictionaries.tanh_layers import LayeredDictionary, TanhDictionary, unit_directions
from evogt_study.pde.numerics.arrays import Array


@dataclass(frozen=True)
class TransNet(TanhDictionary):
    """a_i uniform on the unit sphere, xi_i ~ U(0, 1)."""

    IN_BALL = True

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return unit_directions(rng, width, dimension), rng.uniform(0.0, 1.0, width)


@dataclass(frozen=True)
class GTransNet(LayeredDictionary):
    """a_i uniform on the unit sphere, xi_i ~ U(-1, 1) (eq:gtrans_first), and further layers."""

    IN_BALL = True

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return unit_directions(rng, width, dimension), rng.uniform(-1.0, 1.0, width)


@dataclass(frozen=True)
class GaussianRandomFeatures(TanhDictionary):
    """a_i ~ N(0, I), xi_i ~ N(0, 1)."""

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return rng.standard_normal((width, dimension)), rng.standard_normal(width)


@dataclass(frozen=True)
class UniformELM(TanhDictionary):
    """a_i ~ U(-1, 1)^d, xi_i ~ U(-1, 1)."""

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return rng.uniform(-1.0, 1.0, (width, dimension)), rng.uniform(-1.0, 1.0, width)
