"""A singly diagonally implicit Runge-Kutta method of two stages, with gamma = 1 - 1/sqrt(2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evogt_study.numerics.integrators.runge_kutta import RungeKutta, Tableau

# the smaller root of gamma^2 - 2 gamma + 1/2, for which the method is of order two and L-stable
GAMMA = 1.0 - np.sqrt(0.5)


@dataclass(frozen=True)
class SDIRK2(RungeKutta):
    """Order two; L-stable; stages are solved for one after the other."""

    name = "sdirk_2"
    tableau: ClassVar[Tableau] = Tableau(np.array([[GAMMA, 0.0], [1.0 - GAMMA, GAMMA]]), np.array([0.0, 1.0]))
