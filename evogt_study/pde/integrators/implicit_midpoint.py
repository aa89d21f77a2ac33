"""The implicit midpoint rule for alpha' + K(t) alpha = b(t) (eq:im_retained).

(I + s K) alpha^{n+1} = (I - s K) alpha^n + dt b,    s = dt/2,  K and b at t_{n+1/2} = (n + 1/2) dt
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators.runge_kutta import RungeKutta, Tableau, collocation, factorise, recurrence
from evogt_study.pde.numerics import Array, TimeGrid


class ImplicitMidpoint(RungeKutta):
    """Implicit midpoint rule of order two."""

    name, ORDER = "implicit_midpoint", 2
    tableau = collocation(np.array([0.5]))

    def advance(self, tableau: Tableau, system: GalerkinSystem, grid: TimeGrid) -> Array:
        """Return the observed states.  A constant K uses its eigenbasis, and K(t) a Cholesky factorisation per step."""
        if tableau is not self.tableau or system.reaction is not None or not system.symmetric:
            return super().advance(tableau, system, grid)
        loads = grid.dt * system.load(grid.midpoints)
        if system.autonomous:
            # In the eigenbasis of K, the modes are independent, and one multiplication can advance several steps.
            eigenvalues, basis = system.modes
            scaled = 0.5 * grid.dt * eigenvalues
            # Require 1 + s lambda > 0 for every mode.  For lambda >= 0, the factor below is at most 1 in size (thm:im).
            if not scaled.min() > -1.0:
                least = 1 + scaled.min()
                raise IndefiniteStiffnessError(f"I + (dt/2) K is not positive definite: least eigenvalue {least:.3g}")
            factor, forcing = (1.0 - scaled) / (1.0 + scaled), (loads @ basis) / (1.0 + scaled)
            return recurrence(factor, forcing, system.initial, basis, grid)
        identity = np.eye(len(system.initial))

        # K(t) has no common eigenbasis.  Cholesky fails if eq:im_retained may have no solution.
        def step(alpha: Array, given: tuple[float, Array]) -> Array:
            half = 0.5 * grid.dt * system.stiffness(given[0])
            return factorise(identity + half, given[0], definite=True)(alpha - half @ alpha + given[1])

        each = zip(grid.midpoints.tolist(), loads, strict=True)
        return grid.observe(accumulate(each, step, initial=system.initial))
