"""Steps of implicit Runge-Kutta methods: linear stages at once, nonlinear stages by Newton's method.

The factors of a matrix are kept: for a linear system that does not change in time, and from one step of Newton's method
to the next while the iteration contracts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy  # which imports its parts when they are first used: workers start sooner
from scipy.linalg.lapack import dgetrf, dgetrs

from evogt_study.errors import DivergedError, IndefiniteStiffnessError
from evogt_study.pde.numerics.arrays import Array, solver_of

if TYPE_CHECKING:
    from evogt_study.pde.integrators.runge_kutta import Tableau

MAX_ITERATIONS = 40
CONTRACTION = 0.3
"""Rate of Newton's iteration above which the matrix is factorised again."""
STAGNATION = 1e-11
"""Relative change below which an iteration that does not contract has ended by rounding."""
Solver = Callable[[Array], Array]


class ImplicitSystem(Protocol):
    """M y' = R(t, y).  R(t, y) = load(t) + J(t) y if the system is linear.

    mass: a sparse matrix, or the diagonal (R,) of a matrix, whose zeros are algebraic rows.  symmetric: of M and J.
    """

    @property
    def initial(self) -> Array: ...
    @property
    def mass(self) -> Any: ...
    @property
    def linear(self) -> bool: ...
    @property
    def autonomous(self) -> bool: ...
    @property
    def symmetric(self) -> bool: ...

    def load(self, times: Array, /) -> Array: ...
    def rate(self, t: float, z: Array, /) -> Array: ...
    def jacobian(self, t: float, z: Array, /) -> Any: ...


@dataclass(eq=False)
class ImplicitSteps:
    """M (U_i - z) - dt sum_j a_ij R(U_j, t_j) = 0, so algebraic rows are R(U_i) = 0 in every stage.

    tolerance: relative error of the stages.  keep: keep Newton's factors from step to step.
    """

    system: ImplicitSystem
    tolerance: float = 1e-13
    keep: bool = True
    _known: dict[tuple[bytes, float], Solver] = field(default_factory=dict)
    _rate: float = 1.0

    def step(self, tableau: Tableau, z: Array, times: Array, dt: float) -> Array:
        """Return the state after one step, by the times of its stages (s,)."""
        A, d = tableau.matrix, tableau.closing
        stages, slopes = np.tile(z, (len(A), 1)), np.zeros((len(A), len(z)))
        for group in tableau.groups:
            block, known = A[group, group], dt * A[group, : group.start] @ slopes[: group.start]
            # a first stage with a zero block is explicit: the state itself
            if block.any():
                solve = self._solve_linear if self.system.linear else self._solve
                stages[group] = solve(block, z, known, times[group], dt)
            # nothing follows the last group except the closing, which takes stages
            for i in range(group.start, group.stop if group.stop < len(A) else group.start):
                slopes[i] = self.system.rate(float(times[i]), stages[i])
        return np.asarray((1.0 - d.sum()) * z + d @ stages)

    def make_consistent(self, z: Array, t: float) -> Array:
        """Solve for the algebraic rows by Newton's method."""
        if not isinstance(self.system.mass, np.ndarray):
            empty = self.system.mass.diagonal() == 0.0
        else:
            empty = self.system.mass == 0.0
        rows = np.flatnonzero(empty)
        if not len(rows):
            return z
        for _ in range(MAX_ITERATIONS):
            matrix = self.system.jacobian(t, z)[rows][:, rows]
            z = z.copy()
            change = factorise(matrix, t)(self.system.rate(t, z)[rows])
            z[rows] -= change
            if np.linalg.norm(change) <= STAGNATION * np.linalg.norm(z):
                return z
        raise DivergedError(f"Newton's method did not converge for the algebraic fields at t = {t:.6g}")

    def _solve_linear(self, A: Array, z: Array, known: Array, times: Array, dt: float) -> Array:
        """Return the stages of a group of a linear system, (m, R)."""
        system, key = self.system, (A.tobytes(), dt)
        side = (_multiply(system.mass, z) + known + dt * A @ system.load(times)).ravel()
        solver = self._known.get(key)
        if solver is None:
            # by Cholesky: half the work of LU, and it fails where the step is not positive definite
            definite = len(A) == 1 and system.symmetric
            solver = factorise(self._matrix(A, np.tile(z, (len(A), 1)), times, dt), float(times[-1]), definite=definite)
            if system.autonomous:
                self._known[key] = solver
        return solver(side).reshape(known.shape)

    def _solve(self, A: Array, z: Array, known: Array, times: Array, dt: float) -> Array:
        """Return the stages of a group by Newton's method from the state, (m, R)."""
        stages, before, system, size = np.tile(z, (len(A), 1)), None, self.system, np.inf
        key, instants = (A.tobytes(), dt), times.tolist()
        fresh = key not in self._known or not self.keep or self._rate > 0.2
        for _ in range(MAX_ITERATIONS):
            with np.errstate(all="ignore"):
                slopes = np.stack([system.rate(t, U) for U, t in zip(stages, instants, strict=True)])
            residual = _multiply(system.mass, stages - z) - known - dt * A @ slopes
            if not np.isfinite(residual).all():
                break
            if fresh:
                self._known = {key: factorise(self._matrix(A, stages, times, dt), instants[-1])}
            change = self._known[key](residual.ravel()).reshape(stages.shape)
            stages, size = stages - change, float(np.linalg.norm(change))
            scale, rate = float(np.linalg.norm(stages)), 0.0 if before is None else size / before
            # The rest is a geometric series of the contraction rate; nothing is known of it after a first change.
            rest = size if before is None else size * rate / max(1.0 - rate, 1e-3)
            if rest <= self.tolerance * scale or (rate > 0.5 and size <= STAGNATION * scale):
                self._rate = rate
                return stages
            fresh = not self.keep or (before is not None and rate > CONTRACTION)
            before = None if fresh and self.keep else size
        raise DivergedError(f"Newton's method did not converge at t = {times[-1]:.6g}: last change {size:.3g}")

    def _matrix(self, A: Array, stages: Array, times: Array, dt: float) -> Any:
        """Return M - dt A x J, with J of each stage, (m R, m R)."""
        slopes = [self.system.jacobian(t, U) for U, t in zip(stages, times.tolist(), strict=True)]
        mass, (count, size) = self.system.mass, stages.shape
        if not isinstance(slopes[0], np.ndarray):
            diagonal = scipy.sparse.diags_array(mass) if isinstance(mass, np.ndarray) else mass
            rows = [[-dt * A[i, j] * J + (i == j) * diagonal for j, J in enumerate(slopes)] for i in range(count)]
            return scipy.sparse.block_array(rows) if count > 1 else rows[0][0]
        blocks = np.empty((count, size, count, size))
        for j, J in enumerate(slopes):
            np.multiply(-dt * A[:, j, None, None], J, out=blocks[:, :, j])
        matrix = blocks.reshape(count * size, -1)
        matrix.ravel()[:: count * size + 1] += np.tile(mass, count)
        return matrix


def _multiply(mass: Any, z: Array) -> Array:
    """Return M z of states (..., R)."""
    return np.asarray(mass * z if isinstance(mass, np.ndarray) else (mass @ z.T).T)


def factorise(matrix: Any, t: float, *, definite: bool = False) -> Solver:
    """Return the solver of a matrix, dense in C order or sparse; a dense matrix is overwritten.

    Raises IndefiniteStiffnessError if it is singular, or not positive definite where it should be.
    """
    if not isinstance(matrix, np.ndarray):
        return solver_of(matrix, symmetric=definite)
    if definite:
        try:
            factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise IndefiniteStiffnessError(f"the step is not positive definite at t = {t:.6g}: {error}") from None
        return lambda side: np.asarray(scipy.linalg.cho_solve(factor, side, check_finite=False))
    # in C order the transpose is Fortran's, which LAPACK factorises in place, and trans=1 solves with the matrix itself
    factors, pivots, failed = dgetrf(matrix.T, overwrite_a=True)
    if failed:
        raise IndefiniteStiffnessError(f"the matrix of a step is not invertible at t = {t:.6g}")
    return lambda side: np.asarray(dgetrs(factors, pivots, side, trans=1)[0])
