"""The Gauss, Radau IIA, SDIRK, trapezoidal and implicit Euler methods, each given by its tableau."""

from __future__ import annotations

import numpy as np

from evogt_study.pde.integrators.runge_kutta import IMPLICIT_EULER, RungeKutta, Tableau, collocation

GAMMA = 1.0 - np.sqrt(0.5)
"""Diagonal of `SDIRK2`.  The smaller root of gamma^2 - 2 gamma + 1/2 gives order two and L-stability."""


class Gauss2(RungeKutta):
    """Gauss method of order four, which conserves the norm of modes without decay."""

    name, ORDER = "gauss_2", 4
    tableau = collocation(0.5 + np.sqrt(3.0) / 6.0 * np.array([-1.0, 1.0]))


class Gauss3(RungeKutta):
    """Gauss method of order six."""

    name, ORDER = "gauss_3", 6
    tableau = collocation(0.5 + np.sqrt(15.0) / 10.0 * np.array([-1.0, 0.0, 1.0]))


class RadauIIA2(RungeKutta):
    """Radau IIA method of order three, L-stable."""

    name, ORDER = "radau_iia_2", 3
    tableau = collocation(np.array([1.0 / 3.0, 1.0]))


class RadauIIA3(RungeKutta):
    """Radau IIA method of order five, L-stable."""

    name, ORDER = "radau_iia_3", 5
    tableau = collocation(np.array([0.4 - np.sqrt(6.0) / 10.0, 0.4 + np.sqrt(6.0) / 10.0, 1.0]))


class SDIRK2(RungeKutta):
    """SDIRK method of order two, L-stable.  The method solves one stage after another."""

    name, ORDER = "sdirk_2", 2
    tableau = Tableau(np.array([[GAMMA, 0.0], [1.0 - GAMMA, GAMMA]]), np.array([0.0, 1.0]))


class Trapezoidal(RungeKutta):
    """Trapezoidal rule of order two (Crank and Nicolson).  The rule does not damp stiff modes."""

    name, ORDER = "trapezoidal", 2
    tableau = Tableau(np.array([[0.0, 0.0], [0.5, 0.5]]), np.array([0.0, 1.0]))


class ImplicitEuler(RungeKutta):
    """Implicit Euler rule of order one, L-stable."""

    name = "implicit_euler"
    tableau = IMPLICIT_EULER
