"""Integrators that are only a tableau: Gauss, Radau IIA, SDIRK, trapezoidal and implicit Euler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evogt_study.pde.integrators.runge_kutta import IMPLICIT_EULER, RungeKutta, Tableau, collocation

GAMMA = 1.0 - np.sqrt(0.5)
"""Diagonal of `SDIRK2`: the smaller root of gamma^2 - 2 gamma + 1/2, so that it has order two and is L-stable."""


@dataclass(frozen=True)
class Gauss2(RungeKutta):
    """Gauss method of order four, which keeps the norm of modes that do not decay."""

    name = "gauss_2"
    ORDER = 4
    tableau: ClassVar[Tableau] = collocation(0.5 + np.sqrt(3.0) / 6.0 * np.array([-1.0, 1.0]))


@dataclass(frozen=True)
class Gauss3(RungeKutta):
    """Gauss method of order six."""

    name = "gauss_3"
    ORDER = 6
    tableau: ClassVar[Tableau] = collocation(0.5 + np.sqrt(15.0) / 10.0 * np.array([-1.0, 0.0, 1.0]))


@dataclass(frozen=True)
class RadauIIA2(RungeKutta):
    """Radau IIA method of order three, L-stable."""

    name = "radau_iia_2"
    ORDER = 3
    tableau: ClassVar[Tableau] = collocation(np.array([1.0 / 3.0, 1.0]))


@dataclass(frozen=True)
class RadauIIA3(RungeKutta):
    """Radau IIA method of order five, L-stable."""

    name = "radau_iia_3"
    ORDER = 5
    tableau: ClassVar[Tableau] = collocation(np.array([0.4 - np.sqrt(6.0) / 10.0, 0.4 + np.sqrt(6.0) / 10.0, 1.0]))


@dataclass(frozen=True)
class SDIRK2(RungeKutta):
    """SDIRK method of order two, L-stable.  Its stages are solved one after the other."""

    name = "sdirk_2"
    ORDER = 2
    tableau: ClassVar[Tableau] = Tableau(np.array([[GAMMA, 0.0], [1.0 - GAMMA, GAMMA]]), np.array([0.0, 1.0]))


@dataclass(frozen=True)
class Trapezoidal(RungeKutta):
    """Trapezoidal rule of order two (Crank and Nicolson).  It does not damp stiff modes."""

    name = "trapezoidal"
    ORDER = 2
    tableau: ClassVar[Tableau] = Tableau(np.array([[0.0, 0.0], [0.5, 0.5]]), np.array([0.0, 1.0]))


@dataclass(frozen=True)
class ImplicitEuler(RungeKutta):
    """Implicit Euler rule of order one, L-stable."""

    name = "implicit_euler"
    tableau: ClassVar[Tableau] = IMPLICIT_EULER
