"""The stabilised semi-implicit step for gradient flows (eq:ac_scheme), first order in time.

    ((1 + S dt) I + dt K) alpha^{n+1} = (1 + S dt) alpha^n + dt (b - g(alpha^n)),    K and b at t_{n+1}

The diffusion is implicit, the reaction g_i = (F'(u^n), phi~_i)_q explicit, and S >= 0 damps the change of a step.  For
F'' <= 2S wherever the solution goes, b = 0 and a diffusion that does not depend on time, the energy

    E_q(u) = sum_q w_q [ a |grad u|^2 / 2 + F(u) ]

does not increase.  With a lifting u = u_b + phi~ . alpha, and the damping is of u: -S (u_b^{n+1} - u_b^n) joins b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.numerics.arrays import Array
from evogt_study.numerics.galerkin import TIMES_AT_ONCE, GalerkinSystem
from evogt_study.numerics.integrators.base import Integrator, number
from evogt_study.numerics.problem import Problem
from evogt_study.numerics.time_grid import TimeGrid, Trajectory


@dataclass(frozen=True, eq=False)
class _Step:
    """The linear parts of a step: solve (rhs, t) for ((1 + S dt) I + dt K(t))^{-1} rhs, form for alpha . K(t) alpha.

    The solution may take the place of the right-hand side.
    """

    solve: Callable[[Array, float], Array]
    form: Callable[[Array, float], float]


@dataclass(frozen=True)
class StabilizedSemiImplicit(Integrator):
    """Order one; for problems with a potential too, of whose energy it keeps account."""

    name = "stabilized_semi_implicit"

    stabilization: float = field(
        metadata=number("a number >= 0", lambda S: 0.0 <= S < np.inf, "S", f"damping of {name}, eq:ac_scheme")
    )

    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """March from alpha(0) to final_time; keep the observed states and the energy after every step.

        A system whose stiffness does not depend on time is advanced in the eigenbasis of K, where the implicit part is
        one division a mode; otherwise one Cholesky factorisation a step.  Raises IndefiniteStiffnessError where the
        matrix of a step is not positive definite.
        """
        shift = 1.0 + self.stabilization * grid.dt
        if not system.autonomous:
            return _march(system, grid, self.stabilization, _factorised(system, grid.dt, shift))
        eigenvalues, basis = np.linalg.eigh(system.stiffness(0.0))
        diagonal, squares = shift + grid.dt * eigenvalues, np.empty_like(eigenvalues)
        if not diagonal.min() > 0.0:
            raise IndefiniteStiffnessError(
                f"(1 + S dt) I + dt K is not positive definite: least eigenvalue {diagonal.min():.3g}"
            )
        step = _Step(
            lambda rhs, t: np.divide(rhs, diagonal, out=rhs),
            lambda alpha, t: float(eigenvalues @ np.square(alpha, out=squares)),
        )
        trajectory = _march(_rotated(system, basis), grid, self.stabilization, step)
        return replace(trajectory, coefficients=trajectory.coefficients @ basis.T)

    def times(self, grid: TimeGrid) -> Array:
        """The start and the ends of all steps, (steps + 1,)."""
        return grid.times_of(tuple(range(grid.steps + 1)))

    def check(self, problem: Problem) -> None:
        """Nothing is refused."""


def _rotated(system: GalerkinSystem, basis: Array) -> GalerkinSystem:
    """The system in the coordinates basis^T alpha."""
    lifting, reaction = system.lifting, system.reaction
    if lifting is not None:
        mass, flux = lifting.mass, lifting.flux
        lifting = replace(lifting, mass=lambda times: mass(times) @ basis, flux=lambda times: flux(times) @ basis)
    if reaction is not None:
        reaction = replace(reaction, values=reaction.values @ basis)
    return replace(
        system,
        load=lambda times: system.load(times) @ basis,
        initial=system.initial @ basis,
        lifting=lifting,
        reaction=reaction,
    )


def _factorised(system: GalerkinSystem, dt: float, shift: float) -> _Step:
    def solve(rhs: Array, t: float) -> Array:
        stiffness = system.stiffness(t)
        try:
            factor = scipy.linalg.cho_factor(shift * np.eye(len(rhs)) + dt * stiffness, lower=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise IndefiniteStiffnessError(
                f"(1 + S dt) I + dt K is not positive definite at t = {t:.6g}: {error}"
            ) from None
        return np.asarray(scipy.linalg.cho_solve(factor, rhs, check_finite=False))

    return _Step(solve, lambda alpha, t: float(alpha @ system.stiffness(t) @ alpha))


def _march(system: GalerkinSystem, grid: TimeGrid, stabilization: float, step: _Step) -> Trajectory:
    """The steps in blocks, so that loads and nodal liftings of few times are in memory at once."""
    times = grid.times_of(tuple(range(grid.steps + 1)))
    alpha, observed = system.initial.copy(), set(grid.observed)
    states, energies = {0: system.initial}, np.empty(grid.steps + 1)
    shift, reacted = 1.0 + stabilization * grid.dt, _reacting(system)
    for first in range(0, grid.steps + 1, TIMES_AT_ONCE):
        now = times[first : first + TIMES_AT_ONCE]
        following = times[first + 1 : first + 1 + TIMES_AT_ONCE]
        loads = grid.dt * _loads(system, now[: len(following)], following, stabilization)
        lifted = _Lifted.of(system, now)
        for n, t in enumerate(now):
            slope, bulk = reacted(alpha, None if lifted.nodal is None else lifted.nodal[n])
            energies[first + n] = 0.5 * (step.form(alpha, t) + lifted.energy(alpha, n)) + bulk
            if n == len(following):
                break
            alpha *= shift
            slope *= grid.dt
            alpha -= slope
            alpha += loads[n]
            alpha = step.solve(alpha, float(following[n]))
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


@dataclass(frozen=True, eq=False)
class _Lifted:
    """The lifting at the times of one block; zeros where there is none."""

    nodal: Array | None
    flux: Array | None
    own: Array | None

    @staticmethod
    def of(system: GalerkinSystem, times: Array) -> _Lifted:
        lifting = system.lifting
        if lifting is None:
            return _Lifted(None, None, None)
        return _Lifted(lifting.nodal(times), lifting.flux(times), lifting.energy(times))

    def energy(self, alpha: Array, n: int) -> float:
        """a |grad u|^2 integrated, less alpha . K alpha."""
        if self.flux is None or self.own is None:
            return 0.0
        return float(2.0 * (alpha @ self.flux[n]) + self.own[n])


def _reacting(system: GalerkinSystem) -> Callable[[Array, Array | None], tuple[Array, float]]:
    """(alpha, u_b at the nodes) -> (F'(u), phi~_i)_q and sum_q w_q F(u), in memory that the next call overwrites."""
    reaction, projected = system.reaction, np.zeros_like(system.initial)
    if reaction is None:
        return lambda alpha, lifted: (projected, 0.0)
    values, weights = reaction.values, reaction.weights
    u, weighted = np.empty_like(weights), np.empty_like(weights)
    potential = reaction.potential.at(u.shape)

    def reacted(alpha: Array, lifted: Array | None) -> tuple[Array, float]:
        np.matmul(values, alpha, out=u)
        if lifted is not None:
            np.add(u, lifted, out=u)
        value, slope = potential(u)
        np.matmul(np.multiply(weights, slope, out=weighted), values, out=projected)
        return projected, float(weights @ value)

    return reacted
