"""Radau IIA collocation at three nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evogt_study.numerics.integrators.runge_kutta import RungeKutta, Tableau, collocation


@dataclass(frozen=True)
class RadauIIA3(RungeKutta):
    """Order five; L-stable."""

    name = "radau_iia_3"
    tableau: ClassVar[Tableau] = collocation(np.array([0.4 - np.sqrt(6.0) / 10.0, 0.4 + np.sqrt(6.0) / 10.0, 1.0]))
