"""Gauss collocation at three nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evogt_study.numerics.integrators.runge_kutta import RungeKutta, Tableau, collocation


@dataclass(frozen=True)
class Gauss3(RungeKutta):
    """Order six."""

    name = "gauss_3"
    tableau: ClassVar[Tableau] = collocation(0.5 + np.sqrt(15.0) / 10.0 * np.array([-1.0, 0.0, 1.0]))
