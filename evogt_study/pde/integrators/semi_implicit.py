"""Semi-implicit schemes with an implicit K and an explicit reaction: the stabilised step and a BDF formula."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import TIMES_AT_ONCE, GalerkinSystem
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.integrators.runge_kutta import Solver, factorise
from evogt_study.pde.numerics import Array, TimeGrid, Trajectory
from evogt_study.schema.parameters import parameter_field, real

History = tuple[Array, Array] | None
"""State alpha and reaction r before the previous step, or None in the first step."""


class SemiImplicit(Integrator):
    """Scheme (shift I + dt K) alpha^{n+1} = side(alpha^n, r(alpha^n), dt b^{n+1}) that records the energy."""

    @abstractmethod
    def side(self, dt: float, alpha: Array, slope: Array, load: Array, before: History) -> tuple[float, Array]:
        """Return the shift and the right-hand side of a step from alpha, r and dt b."""

    # In the eigenbasis of K, a step is one division per mode.  The code transforms b and Phi~ to this basis.
    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """Return the observed states and the energy at every step."""
        if not system.autonomous or not system.symmetric:

            def factor(shift: float, t: float) -> Solver:
                matrix = shift * np.eye(len(system.initial)) + grid.dt * system.stiffness(t)
                return factorise(matrix, t, definite=system.symmetric)

            return self._march(system, grid, factor, lambda alpha, t: float(alpha @ system.stiffness(t) @ alpha))
        eigenvalues, basis = system.modes
        squares = np.empty_like(eigenvalues)

        def divide(shift: float, t: float) -> Solver:
            diagonal = shift + grid.dt * eigenvalues
            if not diagonal.min() > 0.0:
                got = f"least eigenvalue {diagonal.min():.3g}"
                raise IndefiniteStiffnessError(f"(1 + S dt) I + dt K is not positive definite: {got}")
            return lambda rhs: np.divide(rhs, diagonal, out=rhs)

        # the system in the coordinates basis^T alpha, without K, because `divide` has its eigenvalues
        lifting, reaction = system.lifting, system.reaction
        if lifting is not None:
            mass, flux = lifting.mass, lifting.flux
            lifting = replace(lifting, mass=lambda times: mass(times) @ basis, flux=lambda times: flux(times) @ basis)
        if reaction is not None:
            reaction = replace(reaction, basis=replace(reaction.basis, values=reaction.basis.values @ basis))
        rotated = replace(
            system, load=lambda times: system.load(times) @ basis, initial=system.initial @ basis, lifting=lifting,
            reaction=reaction,
        )  # fmt: skip
        trajectory = self._march(
            rotated, grid, divide, lambda alpha, t: float(eigenvalues @ np.square(alpha, out=squares))
        )
        return replace(trajectory, coefficients=trajectory.coefficients @ basis.T)

    def _march(
        self, system: GalerkinSystem, grid: TimeGrid, make_solver: Callable[[float, float], Solver],
        form: Callable[[Array, float], float],
    ) -> Trajectory:  # fmt: skip
        """Return the observed states and the energies from the solver of shift I + dt K at t and alpha . K alpha."""
        times, lifting, energies, solvers = grid.step_times, system.lifting, list[float](), dict[float, Solver]()
        zeros, damping = np.zeros_like(system.initial), getattr(self, "stabilization", 0.0)
        react = (lambda alpha, lifted, t: (zeros, 0.0)) if system.reaction is None else system.reaction.evaluate

        # Compute in blocks, so that only the loads and nodal liftings of few times are in memory.
        def advance() -> Iterator[Array]:
            alpha, before, nodal, flux, own = system.initial, None, None, None, None
            for first in range(0, grid.steps + 1, TIMES_AT_ONCE):
                now, following = (times[at : at + TIMES_AT_ONCE] for at in (first, first + 1))
                loads = system.load(following) if len(following) else np.zeros((0, len(zeros)))
                if lifting is not None and damping and len(following):
                    loads = loads - damping * (lifting.mass(following) - lifting.mass(now[: len(following)]))
                loads = grid.dt * loads
                if lifting is not None:
                    nodal, flux, own = lifting.nodal(now), lifting.flux(now), lifting.energy(now)
                for n, t in enumerate(now):
                    yield alpha
                    slope, bulk = react(alpha, 0.0 if nodal is None else nodal[n], float(t))
                    lifted = 0.0 if flux is None or own is None else float(2.0 * (alpha @ flux[n]) + own[n])
                    energies.append(0.5 * (form(alpha, t) + lifted) + bulk)
                    if n < len(following):  # the last time has an energy but no step
                        shift, rhs = self.side(grid.dt, alpha, slope, loads[n], before)
                        if shift not in solvers or not system.autonomous:
                            solvers[shift] = make_solver(shift, float(following[n]))
                        alpha, before = solvers[shift](rhs), (alpha, slope)

        states = grid.observe(advance())
        return Trajectory(grid.observed_times, states, np.array(energies))

    def check(self, problem: Problem) -> None:
        """Accept every problem."""


@dataclass(frozen=True)
class StabilizedSemiImplicit(SemiImplicit):
    """Stabilised semi-implicit step for gradient flows (eq:ac_scheme), of order one.

        ((1 + S dt) I + dt K) alpha^{n+1} = (1 + S dt) alpha^n + dt (b - g(alpha^n)),    K and b at t_{n+1}

    The energy E_q(u) = sum_q w_q [ a |grad u|^2 / 2 + F(u) ] does not increase if F'' <= 2S at all values of u, b = 0,
    and the diffusion is constant in time.  With a lifting, the damping adds -S (u_b^{n+1} - u_b^n) to b.
    """

    name = "stabilized_semi_implicit"

    stabilization: float = parameter_field(
        "a number >= 0", real(0.0, low_included=True), "S", f"damping of {name}, eq:ac_scheme"
    )

    def side(self, dt: float, alpha: Array, slope: Array, load: Array, before: History) -> tuple[float, Array]:
        shift = 1.0 + self.stabilization * dt
        return shift, shift * alpha - dt * slope + load


# The extrapolation 2 r^n - r^{n-1} of the reaction to t_{n+1} has order two and avoids a nonlinear system.
class ImexBDF2(SemiImplicit):
    """Two-step backward differentiation formula of order two, after a first step of order one.

    (3/2 I + dt K) alpha^{n+1} = 2 alpha^n - alpha^{n-1}/2 + dt (b^{n+1} - 2 r(alpha^n) + r(alpha^{n-1}))
    """

    name, ORDER = "imex_bdf_2", 2

    def side(self, dt: float, alpha: Array, slope: Array, load: Array, before: History) -> tuple[float, Array]:
        if before is None:
            return 1.0, alpha - dt * slope + load
        # two sums instead of 2 alpha, so that the bits of older results stay
        return 1.5, alpha - 2.0 * dt * slope + alpha + dt * before[1] - 0.5 * before[0] + load
