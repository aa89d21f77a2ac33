"""The two-step backward differentiation formula with an explicit reaction, of order two.

    (3/2 I + dt K) alpha^{n+1} = 2 alpha^n - alpha^{n-1}/2 + dt (b - 2 r(alpha^n) + r(alpha^{n-1})),  K and b at t_{n+1}

The first step is (I + dt K) alpha^1 = alpha^0 + dt (b - r(alpha^0)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.integrators.semi_implicit import SemiImplicit, Side
from evogt_study.pde.numerics.arrays import Array


# 2 r^n - r^{n-1} extrapolates the reaction to t_{n+1} to second order, so that no nonlinear system is solved
@dataclass(frozen=True)
class ImexBDF2(SemiImplicit):
    """Order two; explicit in a nonlinear reaction or a potential, whose energy it records."""

    name = "imex_bdf_2"
    ORDER = 2

    def shifts(self, dt: float) -> tuple[float, ...]:
        """1 for the first step, by the implicit Euler rule, and 3/2 for the others."""
        return 1.0, 1.5

    def side(self, dt: float) -> Side:
        """The right-hand sides of one march, which keep the state and the reaction of the step before."""
        before: list[Array] = []

        def side(alpha: Array, slope: Array, load: Array) -> float:
            start, state, reacted = not before, alpha.copy(), slope.copy()
            result = slope * (-dt if start else -2.0 * dt)
            result += alpha
            if not start:
                result += alpha
                result += dt * before[1]
                result -= 0.5 * before[0]
            np.add(result, load, out=alpha)
            before[:] = state, reacted
            return 1.0 if start else 1.5

        return side
