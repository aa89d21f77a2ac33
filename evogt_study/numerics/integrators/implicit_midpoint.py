"""The implicit midpoint rule for alpha' + K(t) alpha = b(t) (eq:im_retained).

(I + s K) alpha^{n+1} = (I - s K) alpha^n + dt b,    s = dt/2,  K and b at t_{n+1/2} = (n + 1/2) dt
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.numerics.arrays import Array
from evogt_study.numerics.galerkin import GalerkinSystem
from evogt_study.numerics.integrators.base import Integrator
from evogt_study.numerics.time_grid import TimeGrid, Trajectory


@dataclass(frozen=True)
class ImplicitMidpoint(Integrator):
    """Order two; for linear problems."""

    name = "implicit_midpoint"

    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """March from alpha(0) to final_time and keep the observed states.

        An autonomous system is advanced in the eigenbasis of K, where a step is one multiplication a mode; otherwise
        one Cholesky factorisation a step.  Raises IndefiniteStiffnessError where I + s K is not positive definite.
        """
        loads = grid.dt * system.load(grid.midpoints)
        march = _march_autonomous if system.autonomous else _march_nonautonomous
        return Trajectory(grid.observed_times, march(system, grid, loads))

    def times(self, grid: TimeGrid) -> Array:
        """Midpoints of the steps, (steps,)."""
        return grid.midpoints


def _march_autonomous(system: GalerkinSystem, grid: TimeGrid, loads: Array) -> Array:
    eigenvalues, basis = np.linalg.eigh(system.stiffness(0.0))
    scaled = 0.5 * grid.dt * eigenvalues
    if not scaled.min() > -1.0:
        raise IndefiniteStiffnessError(
            f"I + (dt/2) K is not positive definite: least eigenvalue {1 + scaled.min():.3g}"
        )
    factor = (1.0 - scaled) / (1.0 + scaled)
    forcing = (loads @ basis) / (1.0 + scaled)
    stride, factor, forcing = _in_strides(factor, forcing, math.gcd(*grid.observed))
    alpha, observed = system.initial @ basis, set(grid.observed)
    states = {0: alpha}
    for number, force in enumerate(forcing, start=1):
        alpha = factor * alpha + force
        if number * stride in observed:
            states[number * stride] = alpha
    return np.asarray(np.stack([states[step] for step in grid.observed]) @ basis.T)


def _in_strides(factor: Array, forcing: Array, stride: int) -> tuple[int, Array, Array]:
    """The recurrence alpha <- factor alpha + forcing[n] over `stride` steps at once, where powers are in range.

    forcing (steps, r) -> the stride, factor^stride (r,), sum_j factor^(stride - 1 - j) forcing[n stride + j]
    (steps / stride, r).
    """
    powers = np.cumprod(np.broadcast_to(factor, (stride, len(factor))), axis=0)
    if stride == 1 or not np.isfinite(powers).all():
        return 1, factor, forcing
    weights = np.concatenate([powers[-2::-1], np.ones((1, len(factor)))])
    return stride, powers[-1], np.einsum("jr,njr->nr", weights, forcing.reshape(-1, stride, len(factor)))


def _march_nonautonomous(system: GalerkinSystem, grid: TimeGrid, loads: Array) -> Array:
    alpha = system.initial
    identity = np.eye(len(alpha))
    observed = set(grid.observed)
    states = {0: alpha}
    for step, t in enumerate(grid.midpoints):
        half = 0.5 * grid.dt * system.stiffness(float(t))
        try:
            factor = scipy.linalg.cho_factor(identity + half, lower=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise IndefiniteStiffnessError(f"I + (dt/2) K is not positive definite at t = {t:.6g}: {error}") from None
        alpha = scipy.linalg.cho_solve(factor, alpha - half @ alpha + loads[step], check_finite=False)
        if step + 1 in observed:
            states[step + 1] = alpha
    return np.stack([states[step] for step in grid.observed])
