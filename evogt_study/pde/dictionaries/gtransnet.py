"""GTransNet: TransNet's planes on both sides of the centre, and further layers of random weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.dictionaries.tanh_layers import LayeredDictionary, unit_directions
from evogt_study.pde.numerics.arrays import Array


@dataclass(frozen=True)
class GTransNet(LayeredDictionary):
    """a_i uniform on the unit sphere, xi_i ~ U(-1, 1) (eq:gtrans_first), and further layers."""

    IN_BALL = True

    def first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return unit_directions(rng, width, dimension), rng.uniform(-1.0, 1.0, width)
