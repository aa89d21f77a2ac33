"""Diagnostics of a trajectory: norm and energy histories, and the distance of coefficients."""

from __future__ import annotations

import numpy as np

from evogt_study.numerics.galerkin import GalerkinSystem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import Trajectory


# the maximum with zero: rounding may leave a square of -1e-17 where the lifting and the coefficients cancel
def norm_history(system: GalerkinSystem, trajectory: Trajectory) -> Array:
    """|| u_{N,r}(t) ||_q at the observed times, (S,): || alpha ||_2 (prop:mass), and the lifting's part.

    With u = u_b + v the square is || alpha ||^2 + 2 (u_b, v)_q + || u_b ||_q^2.
    """
    squares = np.sum(trajectory.coefficients**2, axis=1)
    if system.lifting is not None:
        mixed = np.sum(system.lifting.mass(trajectory.times) * trajectory.coefficients, axis=1)
        squares = np.maximum(squares + 2.0 * mixed + system.lifting.square(trajectory.times), 0.0)
    return np.asarray(np.sqrt(squares))


def energy_history(system: GalerkinSystem, trajectory: Trajectory) -> Array:
    """The quadrature diffusion energy sum_q w_q a |grad u|^2 at the observed times, (S,).

    Without a lifting it is alpha^T K(t) alpha, with the diffusion's part of K (eq:quadrature_diffusion_energy).
    """
    states = trajectory.coefficients
    stiffness = system.stiffness if system.diffusion is None else system.diffusion
    if system.autonomous:
        # states times K, not K times states: the diffusion's part is symmetric, whatever else the operator has
        images = states @ stiffness(0.0)
    else:
        images = np.stack([stiffness(float(t)) @ alpha for t, alpha in zip(trajectory.times, states, strict=True)])
    energies = np.sum(images * states, axis=1)
    if system.lifting is not None:
        mixed = np.sum(system.lifting.flux(trajectory.times) * states, axis=1)
        energies = energies + 2.0 * mixed + system.lifting.energy(trajectory.times)
    return np.asarray(energies)


def relative_difference(vector: Array, reference: Array) -> float:
    """|| vector - reference ||_2 / || reference ||_2; NaN for a reference of zero."""
    norm = float(np.linalg.norm(reference))
    return float(np.linalg.norm(vector - reference)) / norm if norm else float("nan")
