"""Radau IIA collocation at two nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evogt_study.numerics.integrators.runge_kutta import RungeKutta, Tableau, collocation


@dataclass(frozen=True)
class RadauIIA2(RungeKutta):
    """Order three; L-stable."""

    name = "radau_iia_2"
    tableau: ClassVar[Tableau] = collocation(np.array([1.0 / 3.0, 1.0]))
