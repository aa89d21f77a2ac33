"""Time steps of fields with nonlinear fluxes: implicit Runge-Kutta methods, and a semi-implicit formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from evogt_study.errors import DivergedError, ParameterError
from evogt_study.pde.galerkin.flux_system import FluxSystem
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.integrators.runge_kutta import IMPLICIT_EULER, ImplicitSteps, RungeKutta, Tableau, factorise
from evogt_study.pde.integrators.semi_implicit import ImexBDF2
from evogt_study.pde.integrators.tableaus import RadauIIA2
from evogt_study.pde.numerics import Array, TimeGrid, Trajectory


@dataclass(frozen=True, eq=False)
class FieldSolution:
    """Coefficients of all fields at the observed times."""

    system: FluxSystem
    trajectory: Trajectory

    def evaluate(self, nodes: Array) -> Array:
        """Return the fields at the observed times, (P, d) -> (S, n, P)."""
        return self.system.evaluate(self.trajectory.coefficients, self.trajectory.times, nodes)


def march_fields(
    system: FluxSystem, integrator: Integrator | Tableau, grid: TimeGrid, tolerance: float = 1e-13, keep: bool = True
) -> FieldSolution:
    """Return the solution at the observed times.  Raises DivergedError if Newton's method does not converge."""
    steps = ImplicitSteps(system, tolerance, keep)
    march = _semi_implicit if isinstance(integrator, ImexBDF2) else partial(_implicit, integrator)
    states, wanted = list[Array](), set(grid.observed)
    for n, z in enumerate(march(steps, steps.make_consistent(system.initial, 0.0), grid)):
        if n in wanted:
            # algebraic fields of a method that is not stiffly accurate are solved for
            states.append(steps.make_consistent(z, n * grid.dt) if n else z)
    return FieldSolution(system, Trajectory(grid.observed_times, np.stack(states)))


def _implicit(integrator: Integrator | Tableau, steps: ImplicitSteps, z: Array, grid: TimeGrid) -> Iterator[Array]:
    tableau = integrator.tableau if isinstance(integrator, RungeKutta) else integrator
    start = integrator.start if isinstance(integrator, RungeKutta) else None
    halves = 0 if start is None else start.implicit_euler_half_steps
    assert isinstance(tableau, Tableau)  # noqa: S101  # `check_integrator` has refused others
    yield z
    for n, times in enumerate(tableau.times(grid)):
        if 2 * n < halves:
            for half in (1, 2):
                z = steps.step(IMPLICIT_EULER, z, np.array([(n + half / 2) * grid.dt]), grid.dt / 2)
        else:
            z = steps.step(tableau, z, times, grid.dt)
        yield z


# L is the Jacobian at the start: the order is two with any L, and the linear terms alone would leave a flux like
# u^2 u_x explicit.  The first step is one of the two-stage Radau IIA method.
def _semi_implicit(steps: ImplicitSteps, z: Array, grid: TimeGrid) -> Iterator[Array]:
    """Return (3/2 M - dt L) z^{n+1} = M (2 z^n - z^{n-1}/2) + dt (2 N(z^n) - N(z^{n-1})), N = R - L z."""
    system, dt = steps.system, grid.dt
    L, mass = system.jacobian(0.0, z), np.asarray(system.mass)
    before, rate = z, system.rate(0.0, z) - L @ z
    yield z
    z = steps.step(RadauIIA2.tableau, z, RadauIIA2.tableau.nodes * dt, dt)
    solve = factorise(np.diag(1.5 * mass) - dt * L, 0.0)
    yield z
    for n in range(1, grid.steps):
        now = system.rate(n * dt, z) - L @ z
        side = mass * (2.0 * z - before / 2.0) + dt * (2.0 * now - rate)
        before, rate, z = z, now, solve(side)
        if not np.isfinite(z).all():
            raise DivergedError(f"the solution is not finite at t = {(n + 1) * dt:.6g}")
        yield z


def check_integrator(integrator: Integrator) -> None:
    """Raise ParameterError if the integrator cannot advance fields with nonlinear fluxes."""
    if not isinstance(integrator, (RungeKutta, ImexBDF2)):
        wanted = "a Runge-Kutta method or imex_bdf_2 for nonlinear fluxes and several fields"
        raise ParameterError("time_integrator", wanted, integrator.name)
