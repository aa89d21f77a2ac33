"""What is measured on a trajectory: relative errors on a validation rule, norm and energy histories."""

from __future__ import annotations

import numpy as np

from evogt_study.method.arrays import Array
from evogt_study.method.galerkin import GalerkinSystem
from evogt_study.method.implicit_midpoint import Trajectory


def relative_errors(numerical: Array, exact: Array, weights: Array) -> Array:
    """e_rel (eq:validation_error): weighted L2 norm of the difference over that of `exact`, (S, Q), (S, Q) -> (S,).

    NaN where `exact` vanishes at every node: a relative error is not defined there.
    """
    norms = np.sqrt((exact**2) @ weights)
    differences = np.sqrt(((numerical - exact) ** 2) @ weights)
    return np.divide(differences, norms, out=np.full_like(norms, np.nan), where=norms != 0.0)


def norm_history(trajectory: Trajectory) -> Array:
    """|| u_{N,r}(t) ||_q = || alpha(t) ||_2 (prop:mass) at the saved times, (S,)."""
    return np.asarray(np.linalg.norm(trajectory.coefficients, axis=1))


def energy_history(system: GalerkinSystem, trajectory: Trajectory) -> Array:
    """The quadrature diffusion energy alpha^T K(t) alpha (eq:quadrature_diffusion_energy) at the saved times, (S,)."""
    states = trajectory.coefficients
    if system.autonomous:
        images = states @ system.stiffness(0.0)
    else:
        images = np.stack(
            [system.stiffness(float(t)) @ alpha for t, alpha in zip(trajectory.times, states, strict=True)]
        )
    return np.asarray(np.sum(images * states, axis=1))
