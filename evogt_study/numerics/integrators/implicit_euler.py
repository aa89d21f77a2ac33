"""The implicit Euler rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evogt_study.numerics.integrators.runge_kutta import IMPLICIT_EULER, RungeKutta, Tableau


@dataclass(frozen=True)
class ImplicitEuler(RungeKutta):
    """Order one; L-stable."""

    name = "implicit_euler"
    tableau: ClassVar[Tableau] = IMPLICIT_EULER
