"""One step of an implicit Runge-Kutta method: linear stages at once, nonlinear stages by Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotrs

from evogt_study.errors import DivergedError, IndefiniteStiffnessError
from evogt_study.pde.galerkin.stiffness import weighted_gram, with_weighted_gram
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.numerics.arrays import Array

if TYPE_CHECKING:
    from evogt_study.pde.integrators.runge_kutta import Tableau

MOST_ITERATIONS = 20
"""Newton's method needs 3 to 5 where it converges."""
CONVERGED = 1e-7
"""Relative size of Newton's last change; convergence is quadratic, so the rest is rounding of its square."""


# Newton's method starts from alpha^n, since the stages of a step are near it.  Its Jacobian is a matrix of the retained
# space.
@dataclass(frozen=True, eq=False)
class StageSolver:
    """One step by solving for the stages."""

    tableau: Tableau
    system: GalerkinSystem
    dt: float
    stiffness: Callable[[float], Array]
    reacted: Callable[[Array, Array | None, float], tuple[Array, float]] | None

    # K is kept for as many times as a step has: Newton's iterations, and slopes after their stages, ask for it again
    @staticmethod
    def of(tableau: Tableau, system: GalerkinSystem, dt: float) -> StageSolver:
        kept: Callable[[float], Array] = lru_cache(maxsize=len(tableau.matrix))(system.stiffness)
        if system.autonomous:
            constant = system.stiffness(0.0)
            kept = lambda t: constant  # noqa: E731
        return StageSolver(tableau, system, dt, kept, None if system.reaction is None else system.reaction.prepare())

    def __call__(self, alpha: Array, times: Array, loads: Array) -> Array:
        """alpha^{n+1} from alpha^n (r,), the stages' times (s,) and loads (s, r)."""
        A, d = self.tableau.matrix, self.tableau.closing
        stages, slopes = np.empty_like(loads), np.zeros_like(loads)
        for group in self.tableau.groups:
            known = alpha + self.dt * A[group, : group.start] @ slopes[: group.start]
            stages[group] = known
            # a stage with a zero block is explicit
            if A[group, group].any():
                stages[group] = self.solved(A[group, group], known, alpha, times[group], loads[group])
            # nothing follows the last group but the closing, which takes stages
            if group.stop < len(stages):
                slopes[group] = self.slopes(stages[group], times[group], loads[group])
        return np.asarray((1.0 - d.sum()) * alpha + d @ stages)

    def slopes(self, stages: Array, times: Array, loads: Array) -> Array:
        """b - K U - r(U) of some stages, (m, r)."""
        slopes = np.stack(
            [b - self.stiffness(float(t)) @ U for b, U, t in zip(loads, stages, times, strict=True)], dtype=np.float64
        )
        if self.reacted is not None:
            for slope, U, t in zip(slopes, stages, times.tolist(), strict=True):
                slope -= self.reacted(U, self.system.nodal_lifting(t), t)[0]
        return slopes

    def solved(self, A: Array, known: Array, alpha: Array, times: Array, loads: Array) -> Array:
        """The stages U = known + dt A slopes(U), (m, r)."""
        matrix, sides = self.linear(A, times), known + self.dt * A @ loads
        if self.system.reaction is not None:
            return self.newton(A, matrix, sides, alpha, times)
        if len(A) == 1 and self.system.symmetric:
            # by Cholesky: half the work of LU, and it fails where the step is not positive definite
            return solve_definite(matrix, sides[0], float(times[0]))[None]
        return solve_in_place(matrix, sides.ravel(), float(times[-1])).reshape(sides.shape)

    def linear(self, A: Array, times: Array) -> Array:
        """I + dt A x K, with K of each stage, (m r, m r)."""
        stiffness = [self.stiffness(t) for t in times.tolist()]
        count, r = len(times), len(stiffness[0])
        blocks = np.empty((count, r, count, r))
        for j, K in enumerate(stiffness):
            np.multiply(self.dt * A[:, j, None, None], K, out=blocks[:, :, j])
        matrix = blocks.reshape(count * r, -1)
        matrix.ravel()[:: count * r + 1] += 1.0
        return matrix

    def newton(self, A: Array, matrix: Array, sides: Array, alpha: Array, times: Array) -> Array:
        """The stages U (m, r) of `matrix` U + dt A r(U) = `sides`."""
        law, instants = self.system.reaction, times.tolist()
        assert law is not None  # noqa: S101  # else the stages are solved for at once
        lifted, stages = list(map(self.system.nodal_lifting, instants)), np.broadcast_to(alpha, sides.shape).copy()
        for _ in range(MOST_ITERATIONS):
            laws = [law.linearised(*each) for each in zip(stages, lifted, instants, strict=True)]
            residual = (matrix @ stages.ravel()).reshape(sides.shape) - sides
            residual += self.dt * A @ np.stack([r for r, _ in laws])
            if not np.isfinite(residual).all():
                break
            change = self.change(A, matrix, [slope for _, slope in laws], residual, times)
            stages -= change
            if np.linalg.norm(change) <= CONVERGED * np.linalg.norm(stages):
                return stages
        size = float(np.linalg.norm(residual))
        raise DivergedError(f"Newton's method did not converge at t = {times[-1]:.6g}: last residual {size:.3g}")

    # a step with one symmetric stage is definite unless the reaction grows faster than 1/dt: Cholesky then halves the
    # work, and one triangle is enough
    def change(self, A: Array, matrix: Array, slopes: list[Array], residual: Array, times: Array) -> Array:
        """(matrix + dt A x R)^{-1} residual, (m, r), with R of each stage by its weighted slope (Q,)."""
        basis, shape = self.system.reaction.values[None], residual.shape  # type: ignore[union-attr]
        if len(A) == 1 and self.system.symmetric:
            upper = with_weighted_gram(matrix.copy(order="F"), basis, self.dt * A[0, 0] * slopes[0])
            factor, indefinite = dpotrf(upper, clean=False)
            if not indefinite:
                return np.asarray(dpotrs(factor, residual[0])[0])[None]
        whole = matrix.copy()
        blocks = whole.reshape(*shape, *shape)
        for j, slope in enumerate(slopes):
            blocks[:, :, j] += self.dt * A[:, j, None, None] * weighted_gram(basis, slope)
        return solve_in_place(whole, residual.ravel(), float(times[-1])).reshape(shape)


def solve_definite(matrix: Array, side: Array, t: float) -> Array:
    """matrix^{-1} side by Cholesky."""
    try:
        factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise IndefiniteStiffnessError(f"the step is not positive definite at t = {t:.6g}: {error}") from None
    return np.asarray(scipy.linalg.cho_solve(factor, side, check_finite=False))


# in C order the transpose is Fortran's, which LAPACK factorises in place, and trans=1 solves with the matrix itself
def solve_in_place(matrix: Array, side: Array, t: float) -> Array:
    """matrix^{-1} side; the matrix, in C order, is overwritten by the factors of its transpose."""
    factors, pivots, failed = dgetrf(matrix.T, overwrite_a=True)
    if failed:
        raise IndefiniteStiffnessError(f"the matrix of a step is not invertible at t = {t:.6g}")
    return np.asarray(dgetrs(factors, pivots, side, trans=1)[0])
