"""Implicit Runge-Kutta methods for alpha' + K(t) alpha + r(alpha, t) = b(t), with a tableau (A, c) and weights d.

    U_i = alpha^n + dt sum_j a_ij (b_j - K_j U_j - r_j(U_j)),    alpha^{n+1} = (1 - sum_i d_i) alpha^n + sum_i d_i U_i

The terms b_j, K_j and r_j are at t_n + c_j dt.  The weights d avoid another product with the large matrix K.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy  # imports its subpackages at their first use, so workers start sooner
from scipy.linalg.lapack import dgetrf, dgetrs

from evogt_study.errors import DivergedError, IndefiniteStiffnessError, ParameterError
from evogt_study.pde.galerkin.system import GalerkinSystem, MatrixInTime
from evogt_study.pde.integrators.base import Integrator, Start
from evogt_study.pde.numerics import Array, TimeGrid, Trajectory
from evogt_study.schema.parameters import parameter_field, real

if TYPE_CHECKING:
    from evogt_study.pde.integrators.flux_system import FluxSystem

MAX_NEWTON_STEPS = 40
MAX_CONTRACTION = 0.3
"""Largest convergence rate of Newton's method without another factorisation of the matrix."""
MAX_STAGNANT_CHANGE = 1e-11
"""Largest relative change at which a slow iteration counts as converged, because of rounding errors."""
Solver = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Tableau:
    """Tableau of a method: its matrix A (s, s) and its closing weights d (s,).  The nodes are c = A 1."""

    matrix: Array
    closing: Array

    @property
    def nodes(self) -> Array:
        return np.asarray(self.matrix.sum(axis=1))

    @property
    def groups(self) -> list[slice]:
        """Groups of stages that a step solves together.  If A is lower triangular, each stage is a group."""
        count = len(self.matrix)
        one_by_one = not np.triu(self.matrix, 1).any()
        return [slice(i, i + 1) for i in range(count)] if one_by_one else [slice(0, count)]

    def times(self, grid: TimeGrid) -> Array:
        """Return the times of all stages, (steps, s)."""
        return np.asarray(grid.start + (np.arange(grid.steps)[:, None] + self.nodes) * grid.dt)


# The integrals come from monomials, because the Vandermonde matrix of up to three nodes is well-conditioned.
def collocate(nodes: Array) -> Tableau:
    """Return the tableau of collocation at the nodes c: a_ij = int_0^{c_i} l_j, with Lagrange polynomials l_j."""
    powers = np.arange(len(nodes))
    inverse = np.linalg.inv(nodes[:, None] ** powers)
    matrix = nodes[:, None] ** (powers + 1) / (powers + 1) @ inverse
    weights = 1.0 / (powers + 1) @ inverse
    # If the last node is 1, the last stage is the new state.  Otherwise d = A^{-T} b computes the new state from the
    # stages.  The slopes of the stages would lose digits, because K is large.
    return Tableau(matrix, np.eye(len(nodes))[-1] if nodes[-1] == 1.0 else np.linalg.solve(matrix.T, weights))


# the first steps of methods that are not L-stable, which damp incompatible data (Rannacher)
IMPLICIT_EULER = Tableau(np.ones((1, 1)), np.ones(1))


@dataclass(frozen=True)
class RungeKutta(Integrator):
    """Implicit Runge-Kutta method.  With `start`, the first steps use the implicit Euler rule."""

    GENERAL = True
    tableau: ClassVar[Tableau]

    start: Start | None = parameter_field(
        "{ implicit_euler_half_steps = n } with an even n >= 2", Start.read, "first steps",
        "half steps of the implicit Euler rule", optional=True,
    )  # fmt: skip

    def list_parts(self, grid: TimeGrid) -> list[tuple[Tableau, TimeGrid, tuple[int, ...]]]:
        """Return the tableau, the grid and the numbers of the observed steps for the first and for the later steps."""
        if self.start is None:
            return [(self.tableau, grid, grid.observed)]
        count = self.start.implicit_euler_half_steps
        whole, rest = count // 2, grid.steps - count // 2
        if rest < 0:
            wanted = f"at most {2 * grid.steps} half steps, for {grid.steps} steps"
            raise ParameterError("start", wanted, count)
        head = TimeGrid(whole * grid.dt, count, tuple(2 * step for step in grid.observed if step <= whole))
        parts = [(IMPLICIT_EULER, head, tuple(step // 2 for step in head.observed))]
        if rest:
            later = tuple(step - whole for step in grid.observed if step >= whole)
            tail = TimeGrid(rest * grid.dt, rest, later, head.final_time)
            parts.append((self.tableau, tail, tuple(step + whole for step in tail.observed)))
        return parts

    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        states: dict[int, Array] = {}
        for tableau, part, numbers in self.list_parts(grid):
            found = self.advance(tableau, system, part)
            states |= zip(numbers, found, strict=True)
            system = replace(system, initial=found[-1])
        return Trajectory(grid.observed_times, np.stack([states[step] for step in grid.observed]))

    def times(self, grid: TimeGrid) -> Array:
        return np.concatenate([tableau.times(part).ravel() for tableau, part, _ in self.list_parts(grid)])

    def advance(self, tableau: Tableau, system: GalerkinSystem, grid: TimeGrid) -> Array:
        """Return the observed states of `system`, (S, r), after steps with one tableau."""
        A, d, count, times = tableau.matrix, tableau.closing, len(tableau.matrix), tableau.times(grid)
        if system.linear and system.autonomous and system.symmetric:
            # in the eigenbasis of K, a step is one multiplication for each mode
            eigenvalues, basis = system.modes
            # A reaction may let modes grow.  The method only fails if a stage is not solvable.
            least = 1.0 + grid.dt * eigenvalues.min() * np.abs(np.linalg.eigvals(A)).max()
            if not least > 0.0:
                raise IndefiniteStiffnessError(f"I + dt A x K is not positive definite: least eigenvalue {least:.3g}")
            stages = np.eye(count) + grid.dt * eigenvalues[:, None, None] * A
            factor = 1.0 - d.sum() + np.linalg.solve(stages, np.ones((len(stages), count, 1)))[:, :, 0] @ d
            factor[eigenvalues == 0.0] = 1.0  # exactly 1, so that the mass is constant
            weights = np.einsum("i,rij->jr", d, np.linalg.solve(stages, np.broadcast_to(A, stages.shape)))
            loads = grid.dt * system.load(times.ravel()) @ basis
            forcing = np.einsum("njr,jr->nr", loads.reshape(grid.steps, count, -1), weights)
            return run_recurrence(factor, forcing, system.initial, basis, grid)
        # Keep K for all times of a step, because Newton's iterations and the slopes of the stages use it again.
        stiffness: MatrixInTime = lru_cache(maxsize=count)(system.stiffness)
        if system.autonomous:
            constant = system.stiffness(0.0)
            stiffness = lambda t: constant  # noqa: E731
        known = dict(zip(times.ravel().tolist(), system.load(times.ravel()), strict=True))
        at_hand = replace(system, stiffness=stiffness, load=lambda at: np.stack([known[t] for t in at.tolist()]))
        # near rounding errors, because the closing weights can enlarge the error of Newton's method
        return ImplicitSteps(at_hand, tolerance=1e-15).march(tableau, system.initial, grid)


# The stride depends only on the grid, and no stride starts from an observed state.  So the bits of a state do not
# depend on the set of observed states.
def run_recurrence(factor: Array, forcing: Array, initial: Array, basis: Array, grid: TimeGrid) -> Array:
    """Return the observed states (S, r) of alpha <- factor alpha + forcing[n] for the modes in `basis`."""
    stride = math.isqrt(grid.steps)
    powers = np.empty((stride + 1, len(factor)))
    powers[0], powers[1:] = 1.0, factor
    powers = powers.cumprod(axis=0)
    if stride == 1 or not np.isfinite(powers[-1]).all():  # high powers of a growing mode overflow
        stride, power, forced = 1, factor, forcing
    else:
        weights, whole = np.ascontiguousarray(powers[-2::-1]), len(forcing) // stride * stride
        power, parts = powers[-1], forcing[:whole].reshape(-1, stride, len(factor))
        forced = np.einsum("jr,njr->nr", weights, parts)
    starts = [initial @ basis]
    for force in forced:
        starts.append(power * starts[-1] + force)
    states, step, alpha = np.empty((len(grid.observed), len(factor))), 0, starts[0]
    for place, wanted in enumerate(grid.observed):
        block = min(wanted // stride, len(starts) - 1)
        if block * stride > step:
            step, alpha = block * stride, starts[block]
        for force in forcing[step:wanted]:
            alpha = factor * alpha + force
        step, states[place] = wanted, alpha
    # One product for each state, because the rounding errors of a joint product depend on the number of states.
    return np.asarray((basis @ states[:, :, None])[:, :, 0])


@dataclass(eq=False)
class ImplicitSteps:
    """Solver for the stages U_i of M (U_i - z) - dt sum_j a_ij R(U_j, t_j) = 0, to the relative error `tolerance`.

    A linear system has R(y, t) = load(t) + J(t) y.  The mass M is sparse or the diagonal (R,).
    If `keep` is True, Newton's method keeps its factorisation from step to step.
    """

    system: GalerkinSystem | FluxSystem
    tolerance: float = 1e-13
    keep: bool = True
    _known: dict[tuple[bytes, float], Solver] = field(default_factory=dict)
    _rate: float = 1.0

    def march(self, tableau: Tableau, z: Array, grid: TimeGrid) -> Array:
        """Return the observed states, (S, R), after steps from `z`."""
        steps = accumulate(tableau.times(grid), lambda z, at: self.step(tableau, z, at, grid.dt), initial=z)
        return grid.observe(steps)

    def step(self, tableau: Tableau, z: Array, times: Array, dt: float) -> Array:
        """Return the state after a step from `z` with stages at `times` (s,)."""
        A, d = tableau.matrix, tableau.closing
        stages, slopes = np.tile(z, (len(A), 1)), np.zeros((len(A), len(z)))
        for group in tableau.groups:
            block, known = A[group, group], dt * A[group, : group.start] @ slopes[: group.start]
            # a first stage with a zero block is explicit and equals the state
            if block.any():
                solve = self._solve_linear if self.system.linear else self._solve_nonlinear
                stages[group] = solve(block, z, known, times[group], dt)
            # no slopes for the last group, because the closing weights need only the stages
            for i in range(group.start, group.stop if group.stop < len(A) else group.start):
                slopes[i] = self.system.rate(float(times[i]), stages[i])
        return np.asarray((1.0 - d.sum()) * z + d @ stages)

    def make_consistent(self, z: Array, t: float) -> Array:
        """Return the state `z` with algebraic fields that solve the algebraic rows, by Newton's method."""
        mass = self.system.mass
        rows = np.flatnonzero((mass if isinstance(mass, np.ndarray) else mass.diagonal()) == 0.0)
        if not len(rows):
            return z
        for _ in range(MAX_NEWTON_STEPS):
            matrix = self.system.jacobian(t, z)[rows][:, rows]
            z = z.copy()
            change = factorise(matrix, t)(self.system.rate(t, z)[rows])
            z[rows] -= change
            if np.linalg.norm(change) <= MAX_STAGNANT_CHANGE * np.linalg.norm(z):
                return z
        raise DivergedError(f"Newton's method did not converge for the algebraic fields at t = {t:.6g}")

    def _solve_linear(self, A: Array, z: Array, known: Array, times: Array, dt: float) -> Array:
        """Return the stages of one group, (m, R), for a linear system."""
        system, key = self.system, (A.tobytes(), dt)
        side = (_multiply(system.mass, z) + known + dt * A @ system.load(times)).ravel()
        solver = self._known.get(key)
        if solver is None:
            # Cholesky needs half the work of LU, and it fails if the matrix is not positive definite.
            definite = len(A) == 1 and system.symmetric
            matrix = self._make_matrix(A, np.tile(z, (len(A), 1)), times, dt)
            solver = factorise(matrix, float(times[-1]), definite=definite)
            if system.autonomous:
                self._known[key] = solver
        return solver(side).reshape(known.shape)

    def _solve_nonlinear(self, A: Array, z: Array, known: Array, times: Array, dt: float) -> Array:
        """Return the stages of one group, (m, R), by Newton's method with the state `z` as initial guess."""
        stages, before, system, size = np.tile(z, (len(A), 1)), None, self.system, np.inf
        key, instants = (A.tobytes(), dt), times.tolist()
        fresh = key not in self._known or not self.keep or self._rate > 0.2
        for _ in range(MAX_NEWTON_STEPS):
            with np.errstate(all="ignore"):
                slopes = np.stack([system.rate(t, U) for U, t in zip(stages, instants, strict=True)])
            residual = _multiply(system.mass, stages - z) - known - dt * A @ slopes
            if not np.isfinite(residual).all():
                break
            if fresh:
                self._known = {key: factorise(self._make_matrix(A, stages, times, dt), instants[-1])}
            change = self._known[key](residual.ravel()).reshape(stages.shape)
            stages, size = stages - change, float(np.linalg.norm(change))
            scale, rate = float(np.linalg.norm(stages)), 0.0 if before is None else size / before
            # The rest is a geometric series of the convergence rate.  After the first change the rate is unknown.
            rest = size if before is None else size * rate / max(1.0 - rate, 1e-3)
            if rest <= self.tolerance * scale or (rate > 0.5 and size <= MAX_STAGNANT_CHANGE * scale):
                self._rate = rate
                return stages
            fresh = not self.keep or (before is not None and rate > MAX_CONTRACTION)
            before = None if fresh and self.keep else size
        raise DivergedError(f"Newton's method did not converge at t = {times[-1]:.6g}: last change {size:.3g}")

    def _make_matrix(self, A: Array, stages: Array, times: Array, dt: float) -> Any:
        """Return the matrix M - dt A x J with the Jacobian J of each stage, (m R, m R)."""
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
    """Return the product M z for states (..., R)."""
    return np.asarray(mass * z if isinstance(mass, np.ndarray) else (mass @ z.T).T)


def factorise(matrix: Any, t: float = 0.0, *, definite: bool = False) -> Solver:
    """Return the function b -> matrix^{-1} b.  The factorisation overwrites a dense matrix, which is in C order."""
    if not isinstance(matrix, np.ndarray):
        # Minimum degree on A + A^T and pivots on the diagonal give the fill of a Cholesky factorisation.  SciPy has no
        # sparse Cholesky factorisation.
        sparse = scipy.sparse.linalg.splu(
            scipy.sparse.csc_array(matrix), permc_spec="MMD_AT_PLUS_A" if definite else None,
            diag_pivot_thresh=0.0 if definite else None, options={"SymmetricMode": definite},
        )  # fmt: skip
        return lambda side: np.asarray(sparse.solve(side))
    if definite:
        try:
            factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise IndefiniteStiffnessError(f"the step is not positive definite at t = {t:.6g}: {error}") from None
        return lambda side: np.asarray(scipy.linalg.cho_solve(factor, side, check_finite=False))
    # The transpose of the matrix is in Fortran order, so LAPACK factorises it in place.  The argument trans=1 then
    # solves with the matrix itself.
    factors, pivots, failed = dgetrf(matrix.T, overwrite_a=True)
    if failed:
        raise IndefiniteStiffnessError(f"the matrix of a step is not invertible at t = {t:.6g}")
    return lambda side: np.asarray(dgetrs(factors, pivots, side, trans=1)[0])


GAMMA = 1.0 - np.sqrt(0.5)
"""Diagonal of `SDIRK2`.  The smaller root of gamma^2 - 2 gamma + 1/2 gives order two and L-stability."""


class Gauss2(RungeKutta):
    """Gauss method of order four, which conserves the norm of modes without decay."""

    name, ORDER = "gauss_2", 4
    tableau = collocate(0.5 + np.sqrt(3.0) / 6.0 * np.array([-1.0, 1.0]))


class Gauss3(RungeKutta):
    """Gauss method of order six."""

    name, ORDER = "gauss_3", 6
    tableau = collocate(0.5 + np.sqrt(15.0) / 10.0 * np.array([-1.0, 0.0, 1.0]))


class RadauIIA2(RungeKutta):
    """Radau IIA method of order three, L-stable."""

    name, ORDER = "radau_iia_2", 3
    tableau = collocate(np.array([1.0 / 3.0, 1.0]))


class RadauIIA3(RungeKutta):
    """Radau IIA method of order five, L-stable."""

    name, ORDER = "radau_iia_3", 5
    tableau = collocate(np.array([0.4 - np.sqrt(6.0) / 10.0, 0.4 + np.sqrt(6.0) / 10.0, 1.0]))


class SDIRK2(RungeKutta):
    """SDIRK method of order two, L-stable.  The method solves one stage after another."""

    name, ORDER = "sdirk_2", 2
    tableau = Tableau(np.array([[GAMMA, 0.0], [1.0 - GAMMA, GAMMA]]), np.array([0.0, 1.0]))


class Trapezoidal(RungeKutta):
    """Trapezoidal rule of order two (Crank and Nicolson).  The rule does not damp stiff modes."""

    name, ORDER = "trapezoidal", 2
    tableau = Tableau(np.array([[0.0, 0.0], [0.5, 0.5]]), np.array([0.0, 1.0]))


class ImplicitEuler(RungeKutta):
    """Implicit Euler rule of order one, L-stable."""

    name = "implicit_euler"
    tableau = IMPLICIT_EULER


class ImplicitMidpoint(RungeKutta):
    """Implicit midpoint rule of order two."""

    name, ORDER = "implicit_midpoint", 2
    tableau = collocate(np.array([0.5]))

    def advance(self, tableau: Tableau, system: GalerkinSystem, grid: TimeGrid) -> Array:
        """Return the observed states, by the eigenbasis of a constant K or by a Cholesky factorisation in each step."""
        if tableau is not self.tableau or system.reaction is not None or not system.symmetric:
            return super().advance(tableau, system, grid)
        loads = grid.dt * system.load(grid.midpoints)
        if system.autonomous:
            # In the eigenbasis of K, the modes are independent, and one multiplication can advance several steps.
            eigenvalues, basis = system.modes
            scaled = 0.5 * grid.dt * eigenvalues
            # Require 1 + s lambda > 0 for every mode.  For lambda >= 0, the factor below is at most 1 in size (thm:im).
            if not scaled.min() > -1.0:
                least = 1 + scaled.min()
                raise IndefiniteStiffnessError(f"I + (dt/2) K is not positive definite: least eigenvalue {least:.3g}")
            factor, forcing = (1.0 - scaled) / (1.0 + scaled), (loads @ basis) / (1.0 + scaled)
            return run_recurrence(factor, forcing, system.initial, basis, grid)
        identity = np.eye(len(system.initial))

        # K(t) has no common eigenbasis.  Cholesky fails if eq:im_retained may have no solution.
        def step(alpha: Array, given: tuple[float, Array]) -> Array:
            half = 0.5 * grid.dt * system.stiffness(given[0])
            return factorise(identity + half, given[0], definite=True)(alpha - half @ alpha + given[1])

        each = zip(grid.midpoints.tolist(), loads, strict=True)
        return grid.observe(accumulate(each, step, initial=system.initial))


@dataclass(frozen=True)
class AdaptiveRadau(Integrator):
    """Radau IIA method of order five from SciPy.  Its steps keep the local error below rtol |alpha_i| + atol."""

    name = "adaptive_radau"
    GENERAL = True
    ORDER = 0

    # For a smaller rtol, SciPy uses 100 machine epsilons instead, so the result would record a wrong value.
    rtol: float = parameter_field(
        "in [2.3e-14, 1)", real(2.3e-14, 1.0, low_included=True), "rtol", "relative tolerance of a step"
    )
    atol: float = parameter_field("a positive number", real(0.0), "atol", "absolute tolerance of a step")

    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """Return the states at the observed times by interpolation.  Raises DivergedError if SciPy stops early."""
        # Without the Jacobian, SciPy would need r more evaluations for differences.
        solution = scipy.integrate.solve_ivp(
            system.rate, (0.0, grid.final_time), system.initial, method="Radau", t_eval=grid.observed_times,
            rtol=self.rtol, atol=self.atol, jac=system.jacobian,
        )  # fmt: skip
        if not solution.success:
            raise DivergedError(f"adaptive_radau stopped before t = {grid.final_time:g}: {solution.message}")
        return Trajectory(grid.observed_times, solution.y.T)
