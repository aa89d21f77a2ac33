"""The common part of schemes with an implicit K and an explicit reaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory


@dataclass(frozen=True, eq=False)
class ImplicitPart:
    """The linear parts of a step: (shift I + dt K(t))^{-1} rhs, perhaps in place, and alpha . K(t) alpha."""

    solve: Callable[[float, Array, float], Array]
    form: Callable[[Array, float], float]


def in_coordinates(
    system: GalerkinSystem,
    grid: TimeGrid,
    shifts: tuple[float, ...],
    march: Callable[[GalerkinSystem, ImplicitPart], Trajectory],
) -> Trajectory:
    """March in the eigenbasis of a symmetric steady K, with known `shifts`; else with factorisations."""
    if not system.autonomous or not system.symmetric:
        return march(system, _factorised(system, grid.dt))
    eigenvalues, basis = np.linalg.eigh(system.stiffness(0.0))
    diagonals, squares = {shift: shift + grid.dt * eigenvalues for shift in shifts}, np.empty_like(eigenvalues)
    least = min(diagonal.min() for diagonal in diagonals.values())
    if not least > 0.0:
        raise IndefiniteStiffnessError(f"(1 + S dt) I + dt K is not positive definite: least eigenvalue {least:.3g}")
    step = ImplicitPart(
        lambda shift, rhs, t: np.divide(rhs, diagonals[shift], out=rhs),
        lambda alpha, t: float(eigenvalues @ np.square(alpha, out=squares)),
    )
    trajectory = march(_rotated(system, basis), step)
    return replace(trajectory, coefficients=trajectory.coefficients @ basis.T)


def _rotated(system: GalerkinSystem, basis: Array) -> GalerkinSystem:
    """The system in the coordinates basis^T alpha."""
    lifting, reaction = system.lifting, system.reaction
    if lifting is not None:
        mass, flux = lifting.mass, lifting.flux
        lifting = replace(lifting, mass=lambda times: mass(times) @ basis, flux=lambda times: flux(times) @ basis)
    if reaction is not None:
        reaction = replace(reaction, values=reaction.values @ basis)
    # K itself stays as it is: a step has what it needs of it by its `ImplicitPart`
    return replace(
        system,
        load=lambda times: system.load(times) @ basis,
        initial=system.initial @ basis,
        lifting=lifting,
        reaction=reaction,
    )


def _factorised(system: GalerkinSystem, dt: float) -> ImplicitPart:
    factors: dict[float, Callable[[Array], Array]] = {}

    def solve(shift: float, rhs: Array, t: float) -> Array:
        solver = factors.get(shift)
        if solver is None:
            solver = _factor(shift * np.eye(len(rhs)) + dt * system.stiffness(t), system.symmetric, t)
            if system.autonomous:
                factors[shift] = solver
        return solver(rhs)

    return ImplicitPart(solve, lambda alpha, t: float(alpha @ system.stiffness(t) @ alpha))


def _factor(matrix: Array, symmetric: bool, t: float) -> Callable[[Array], Array]:
    try:
        if not symmetric:
            lu = scipy.linalg.lu_factor(matrix, check_finite=False)
            return lambda rhs: np.asarray(scipy.linalg.lu_solve(lu, rhs, check_finite=False))
        factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise IndefiniteStiffnessError(
            f"(1 + S dt) I + dt K is not positive definite at t = {t:.6g}: {error}"
        ) from None
    return lambda rhs: np.asarray(scipy.linalg.cho_solve(factor, rhs, check_finite=False))


@dataclass(frozen=True, eq=False)
class LiftedParts:
    """The lifting at the times of one block; zeros if there is none."""

    nodal: Array | None
    flux: Array | None
    own: Array | None

    @staticmethod
    def of(system: GalerkinSystem, times: Array) -> LiftedParts:
        """The lifting of the system at `times`."""
        lifting = system.lifting
        if lifting is None:
            return LiftedParts(None, None, None)
        return LiftedParts(lifting.nodal(times), lifting.flux(times), lifting.energy(times))

    def energy(self, alpha: Array, n: int) -> float:
        """a |grad u|^2 integrated, less alpha . K alpha."""
        if self.flux is None or self.own is None:
            return 0.0
        return float(2.0 * (alpha @ self.flux[n]) + self.own[n])


def reacting(system: GalerkinSystem) -> Callable[[Array, Array | None, float], tuple[Array, float]]:
    """`Reaction.prepared` of the system; zeros for a linear one."""
    # one array for all steps: they scale it in place, which leaves it zero
    zeros = np.zeros_like(system.initial)
    return (lambda alpha, lifted, t: (zeros, 0.0)) if system.reaction is None else system.reaction.prepared()
