"""Gauss collocation at two nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evogt_study.numerics.integrators.runge_kutta import RungeKutta, Tableau, collocation


@dataclass(frozen=True)
class Gauss2(RungeKutta):
    """Order four; keeps the norm of what does not decay."""

    name = "gauss_2"
    tableau: ClassVar[Tableau] = collocation(0.5 + np.sqrt(3.0) / 6.0 * np.array([-1.0, 1.0]))
