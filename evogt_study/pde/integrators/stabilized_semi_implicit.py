"""The stabilised semi-implicit step for gradient flows (eq:ac_scheme), first order in time.

    ((1 + S dt) I + dt K) alpha^{n+1} = (1 + S dt) alpha^n + dt (b - g(alpha^n)),    K and b at t_{n+1}

The linear terms are implicit, the reaction g_i = (F'(u^n), phi~_i)_q explicit, and S >= 0 damps the change of a step.
For F'' <= 2S wherever the solution goes, b = 0 and a diffusion that does not depend on time, the energy

    E_q(u) = sum_q w_q [ a |grad u|^2 / 2 + F(u) ]

does not increase.  With a lifting u = u_b + phi~ . alpha, and the damping is of u: -S (u_b^{n+1} - u_b^n) joins b.
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
from evogt_study.schema.parameters import declared, real


@dataclass(frozen=True)
class StabilizedSemiImplicit(Integrator):
    """Order one; also for problems with a potential, whose energy it records."""

    name = "stabilized_semi_implicit"

    stabilization: float = declared(
        "a number >= 0", real(0.0, low_included=True), "S", f"damping of {name}, eq:ac_scheme"
    )

    # the eigenbasis is found once; b and Phi~ are rotated into it, so that the reaction needs no products with K
    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """March from alpha(0) to final_time; keep the observed states and the energy after every step."""
        shift = 1.0 + self.stabilization * grid.dt
        return in_coordinates(system, grid, (shift,), lambda each, step: _march(each, grid, self.stabilization, step))

    def times(self, grid: TimeGrid) -> Array:
        """The start and the ends of all steps, (steps + 1,)."""
        return grid.times_of(tuple(range(grid.steps + 1)))

    def check(self, problem: Problem) -> None:
        """Nothing is refused."""


def _march(system: GalerkinSystem, grid: TimeGrid, stabilization: float, step: ImplicitPart) -> Trajectory:
    """The steps in blocks, so that loads and nodal liftings of few times are in memory at once."""
    times = grid.times_of(tuple(range(grid.steps + 1)))
    alpha, observed = system.initial.copy(), set(grid.observed)
    states, energies = {0: system.initial}, np.empty(grid.steps + 1)
    shift, reacted = 1.0 + stabilization * grid.dt, reacting(system)
    for first in range(0, grid.steps + 1, TIMES_AT_ONCE):
        now = times[first : first + TIMES_AT_ONCE]
        following = times[first + 1 : first + 1 + TIMES_AT_ONCE]
        loads = grid.dt * _loads(system, now[: len(following)], following, stabilization)
        lifted = LiftedParts.of(system, now)
        for n, t in enumerate(now):
            slope, bulk = reacted(alpha, None if lifted.nodal is None else lifted.nodal[n], float(t))
            energies[first + n] = 0.5 * (step.form(alpha, t) + lifted.energy(alpha, n)) + bulk
            if n == len(following):  # the last time has an energy, and no step
                break
            # ((1 + S dt) I + dt K) alpha^{n+1} = (1 + S dt) alpha^n - dt r^n + dt b^{n+1} (eq:ac_scheme)
            alpha *= shift
            slope *= grid.dt
            alpha -= slope
            alpha += loads[n]
            alpha = step.solve(shift, alpha, float(following[n]))
            if first + n + 1 in observed:
                states[first + n + 1] = alpha.copy()
    return Trajectory(times[list(grid.observed)], np.stack([states[s] for s in grid.observed]), energies)


def _loads(system: GalerkinSystem, now: Array, following: Array, stabilization: float) -> Array:
    """b at the ends of the steps, and what the lifting adds to the damping, (T, r)."""
    if not len(following):
        return np.zeros((0, len(system.initial)))
    loads = system.load(following)
    if system.lifting is not None:
        loads = loads - stabilization * (system.lifting.mass(following) - system.lifting.mass(now))
    return loads
