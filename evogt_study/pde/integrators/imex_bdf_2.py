"""The two-step backward differentiation formula with an explicit reaction, of order two.

    (3/2 I + dt K) alpha^{n+1} = 2 alpha^n - alpha^{n-1}/2 + dt (b - 2 r(alpha^n) + r(alpha^{n-1})),  K and b at t_{n+1}

The first step is (I + dt K) alpha^1 = alpha^0 + dt (b - r(alpha^0)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import TIMES_AT_ONCE, GalerkinSystem
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.integrators.semi_implicit import ImplicitPart, LiftedParts, in_coordinates, reacting
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory


# 2 r^n - r^{n-1} extrapolates the reaction to t_{n+1} to second order, so that no nonlinear system is solved
@dataclass(frozen=True)
class ImexBDF2(Integrator):
    """Order two; explicit in a nonlinear reaction or a potential, whose energy it records."""

    name = "imex_bdf_2"

    # Shifts: 1 for the first step, by the implicit Euler rule, and 3/2 for the others.
    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """March from alpha(0) to final_time; keep the observed states and the energy after every step."""
        return in_coordinates(system, grid, (1.0, 1.5), lambda each, step: _march(each, grid, step))

    def times(self, grid: TimeGrid) -> Array:
        """The start and the ends of all steps, (steps + 1,)."""
        return grid.times_of(tuple(range(grid.steps + 1)))

    def check(self, problem: Problem) -> None:
        """Nothing is refused."""


def _march(system: GalerkinSystem, grid: TimeGrid, step: ImplicitPart) -> Trajectory:
    """The steps in blocks, so that loads and nodal liftings of few times are in memory at once."""
    times, observed = grid.times_of(tuple(range(grid.steps + 1))), set(grid.observed)
    states, energies = {0: system.initial}, np.empty(grid.steps + 1)
    alpha, before, rate = system.initial.copy(), np.zeros_like(system.initial), np.zeros_like(system.initial)
    side, reacted = np.empty_like(alpha), reacting(system)
    for first in range(0, grid.steps + 1, TIMES_AT_ONCE):
        now = times[first : first + TIMES_AT_ONCE]
        following = times[first + 1 : first + 1 + TIMES_AT_ONCE]
        loads = system.load(following) if len(following) else np.zeros((0, len(alpha)))
        loads *= grid.dt
        lifted = LiftedParts.of(system, now)
        for n, t in enumerate(now):
            slope, bulk = reacted(alpha, None if lifted.nodal is None else lifted.nodal[n], float(t))
            energies[first + n] = 0.5 * (step.form(alpha, t) + lifted.energy(alpha, n)) + bulk
            if n == len(following):
                break
            shift = _side(side, alpha, before, slope, rate, grid.dt, first + n == 0)
            side += loads[n]
            # after `_side`, which needs the old ones; copied, as the next step overwrites both
            before[:], rate[:] = alpha, slope
            alpha[:] = step.solve(shift, side, float(following[n]))  # out of `side`, in whose place it may be
            if first + n + 1 in observed:
                states[first + n + 1] = alpha.copy()
    return Trajectory(times[list(grid.observed)], np.stack([states[s] for s in grid.observed]), energies)


def _side(side: Array, alpha: Array, before: Array, slope: Array, rate: Array, dt: float, start: bool) -> float:
    """Put the right-hand side without the load in `side`, return the shift; it overwrites `before` and `rate`."""
    # 2 r^n - r^{n-1}: the reaction extrapolated to the end of the step, which keeps the second order
    np.multiply(slope, -dt if start else -2.0 * dt, out=side)
    side += alpha
    # the first step is an implicit Euler step: there are not two states yet
    if start:
        return 1.0
    side += alpha
    rate *= dt
    side += rate
    before *= 0.5
    side -= before
    return 1.5
