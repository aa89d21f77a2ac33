"""The trapezoidal rule, the method of Crank and Nicolson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evogt_study.numerics.integrators.runge_kutta import RungeKutta, Tableau


@dataclass(frozen=True)
class Trapezoidal(RungeKutta):
    """Order two; not damping: stiff modes keep their size."""

    name = "trapezoidal"
    tableau: ClassVar[Tableau] = Tableau(np.array([[0.0, 0.0], [0.5, 0.5]]), np.array([0.0, 1.0]))
