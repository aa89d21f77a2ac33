"""TransNet: neurons whose planes pass the ball at distances uniform in its radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.dictionaries.tanh_layers import TanhDictionary, unit_directions
from evogt_study.pde.numerics.arrays import Array


@dataclass(frozen=True)
class TransNet(TanhDictionary):
    """a_i uniform on the unit sphere, xi_i ~ U(0, 1)."""

    IN_BALL = True

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return unit_directions(rng, width, dimension), rng.uniform(0.0, 1.0, width)
