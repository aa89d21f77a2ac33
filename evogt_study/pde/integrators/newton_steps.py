"""Time steps of a `FluxSystem`: implicit Runge-Kutta methods by Newton's method, and a semi-implicit formula.

The factors of Newton's matrix are kept from step to step while the iteration contracts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from evogt_study.errors import DivergedError, ParameterError
from evogt_study.pde.galerkin.flux_system import FluxSystem
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.integrators.runge_kutta import IMPLICIT_EULER, RungeKutta, Tableau
from evogt_study.pde.integrators.semi_implicit import ImexBDF2
from evogt_study.pde.integrators.tableaus import RadauIIA2
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory

MAX_ITERATIONS = 40
CONTRACTION = 0.3
"""Rate of Newton's iteration above which the matrix is factorised again."""
STAGNATION = 1e-11
"""Relative change below which an iteration that no longer contracts has ended: rounding."""


@dataclass(eq=False)
class NewtonSteps:
    """m (U_i - z) - dt sum_j a_ij R(U_j, t_j) = 0, so algebraic rows are R(U_i) = 0 in every stage.

    tolerance: relative error of the stages.  keep: keep the factors from step to step.
    """

    system: FluxSystem
    tolerance: float = 1e-13
    keep: bool = True
    _factors: Any = None
    _factors_of: tuple[int, float] | None = None
    _rate: float = 1.0
    _before: list[Array] = field(default_factory=list)

    def march(self, integrator: Integrator, grid: TimeGrid) -> Trajectory:
        """The states at the observed times.  Raises DivergedError if Newton's method does not converge."""
        z, wanted = self.make_consistent(self.system.initial, 0.0), set(grid.observed)
        states = {0: z}
        step = self._step_of(integrator)
        for n in range(grid.steps):
            z = step(z, n, grid.dt)
            if n + 1 in wanted:
                # algebraic fields of a method that is not stiffly accurate are solved for
                states[n + 1] = self.make_consistent(z, (n + 1) * grid.dt)
        return Trajectory(grid.observed_times, np.stack([states[n] for n in grid.observed]))

    def _step_of(self, integrator: Integrator) -> Any:
        if isinstance(integrator, ImexBDF2):
            return self.semi_implicit_step
        assert isinstance(integrator, RungeKutta)  # noqa: S101  # `check_integrator` has refused others
        halves = 0 if integrator.start is None else integrator.start.implicit_euler_half_steps

        def step(z: Array, n: int, dt: float) -> Array:
            if 2 * n < halves:
                for half in (0, 1):
                    z = self.step(IMPLICIT_EULER, z, (n + half / 2) * dt, dt / 2)
                return z
            return self.step(integrator.tableau, z, n * dt, dt)

        return step

    def step(self, tableau: Tableau, z: Array, t: float, dt: float) -> Array:
        """One step of an implicit Runge-Kutta method."""
        A, d, c = tableau.matrix, tableau.closing, tableau.nodes
        stages, slopes = np.tile(z, (len(A), 1)), np.zeros((len(A), self.system.size))
        for group in tableau.groups:
            known = dt * A[group, : group.start] @ slopes[: group.start]
            if A[group, group].any():
                stages[group] = self._solve(A[group, group], z, known, t + dt * c[group], dt)
            else:
                stages[group] = z + known
            for i in range(group.start, group.stop if group.stop < len(A) else group.start):
                slopes[i] = self.system.residual(stages[i], t + dt * c[i])
        return np.asarray((1.0 - d.sum()) * z + d @ stages)

    def make_consistent(self, z: Array, t: float) -> Array:
        """Algebraic fields that fit the others, by Newton's method."""
        rows = np.flatnonzero(self.system.mass == 0.0)
        for _ in range(MAX_ITERATIONS if len(rows) else 0):
            matrix, side = self.system.jacobian(z, t)[np.ix_(rows, rows)], self.system.residual(z, t)[rows]
            change = scipy.linalg.solve(matrix, side)
            z = z.copy()
            z[rows] -= change
            if np.linalg.norm(change) <= STAGNATION * np.linalg.norm(z):
                return z
        if len(rows):
            raise DivergedError(f"Newton's method did not converge for the algebraic fields at t = {t:.6g}")
        return z

    def _solve(self, A: Array, z: Array, known: Array, times: Array, dt: float) -> Array:
        """The stages of a group, (m, R)."""
        stages, before, system = np.tile(z, (len(A), 1)), None, self.system
        of = (hash(A.tobytes()), dt)
        fresh = self._factors_of != of or not self.keep or self._rate > 0.2
        for _ in range(MAX_ITERATIONS):
            with np.errstate(all="ignore"):
                slopes = np.stack([system.residual(U, t) for U, t in zip(stages, times, strict=True)])
            residual = system.mass * (stages - z) - known - dt * A @ slopes
            if not np.isfinite(residual).all():
                break
            if fresh:
                self._factors, self._factors_of = self._factorise(A, stages, times, dt), of
            change = scipy.linalg.lu_solve(self._factors, residual.ravel(), check_finite=False).reshape(stages.shape)
            stages, size = stages - change, float(np.linalg.norm(change))
            scale, rate = float(np.linalg.norm(stages)), 0.0 if before is None else size / before
            # The rest is a geometric series of the contraction rate; nothing is known of it after a first change.
            rest = size if before is None else size * rate / max(1.0 - rate, 1e-3)
            if rest <= self.tolerance * scale or (rate > 0.5 and size <= STAGNATION * scale):
                self._rate = rate
                return stages
            fresh = not self.keep or (before is not None and rate > CONTRACTION)
            before = None if fresh and self.keep else size
        raise DivergedError(f"Newton's method did not converge at t = {times[-1]:.6g}")

    def _factorise(self, A: Array, stages: Array, times: Array, dt: float) -> Any:
        count, size = stages.shape
        matrix = np.empty((count, size, count, size))
        for j in range(count):
            matrix[:, :, j] = -dt * A[:, j, None, None] * self.system.jacobian(stages[j], times[j])
            matrix[j, :, j] += np.diag(self.system.mass)
        return scipy.linalg.lu_factor(matrix.reshape(count * size, -1), overwrite_a=True, check_finite=False)

    # L is the Jacobian at the start: the order is two with any L, and the linear terms alone would leave a flux like
    # u^2 u_x explicit.  The first step is one of the two-stage Radau IIA method.
    def semi_implicit_step(self, z: Array, n: int, dt: float) -> Array:
        """(3/2 m - dt L) z^{n+1} = m (2 z^n - z^{n-1}/2) + dt (2 N(z^n) - N(z^{n-1})), N = R - L z."""
        system = self.system
        if n == 0:
            L = system.jacobian(z, 0.0)
            self._before = [z, system.residual(z, 0.0) - L @ z, L]
            z = self.step(RadauIIA2.tableau, z, 0.0, dt)
            self._factors = scipy.linalg.lu_factor(np.diag(1.5 * system.mass) - dt * L)
            return z
        before, rate, L = self._before
        now = system.residual(z, n * dt) - L @ z
        side = system.mass * (2.0 * z - before / 2.0) + dt * (2.0 * now - rate)
        self._before = [z, now, L]
        following = scipy.linalg.lu_solve(self._factors, side)
        if not np.isfinite(following).all():
            raise DivergedError(f"the solution is not finite at t = {(n + 1) * dt:.6g}")
        return np.asarray(following)


def check_integrator(integrator: Integrator) -> None:
    """Raise ParameterError if the integrator cannot advance fields with nonlinear fluxes."""
    if not isinstance(integrator, (RungeKutta, ImexBDF2)):
        wanted = "a Runge-Kutta method or imex_bdf_2 for nonlinear fluxes and several fields"
        raise ParameterError("time_integrator", wanted, integrator.name)
