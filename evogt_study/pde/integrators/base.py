"""The contract of a time integrator, and first steps that damp stiff modes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from evogt_study.errors import ParameterError
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.numerics import Array, Labelled, TimeGrid, Trajectory
from evogt_study.schema.parameters import Parametrised


@dataclass(frozen=True)
class Integrator(Parametrised, ABC):
    """Time integrator for alpha' + K(t) alpha + r(alpha, t) = b(t) with given alpha(0) (eq:retained_ode).

    The fields of an integrator are parameters of a study.  A field enters the run key if its value is neither zero nor
    None.
    """

    ORDER: ClassVar[int] = 1
    """Order of convergence in dt, or 0 if the steps do not depend on dt."""
    GENERAL: ClassVar[bool] = False
    """True if the integrator can advance systems with a nonlinear reaction or a nonsymmetric K."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the integrator in the registry."""

    @abstractmethod
    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """Return the states at the observed times.  Raises IndefiniteStiffnessError if a step is not solvable."""

    def times(self, grid: TimeGrid) -> Array:
        """Return the times at which the integrator evaluates the diffusion, (T,), by default the ends of all steps."""
        return grid.step_times

    def check(self, problem: Problem) -> None:
        """Raise ParameterError if the integrator cannot advance `problem`, by default if it has a potential."""
        if problem.potential is not None:
            wanted = "stabilized_semi_implicit or imex_bdf_2 for a problem with a potential"
            raise ParameterError("time_integrator", wanted, self.name)
        if not self.GENERAL and not (problem.is_linear and problem.advection is None):
            wanted = f"an integrator for problems with {'advection' if problem.is_linear else 'a nonlinear reaction'}"
            raise ParameterError("time_integrator", wanted, self.name)


@dataclass(frozen=True)
class Start(Labelled):
    """First steps by the implicit Euler rule.  Two half steps replace one step of the grid."""

    implicit_euler_half_steps: int

    def __post_init__(self) -> None:
        count = self.implicit_euler_half_steps
        # The number is even, because two half steps make one step of the grid with the saved times.
        if not isinstance(count, int) or isinstance(count, bool) or count < 2 or count % 2:
            raise ParameterError("start", "an even number >= 2 of implicit_euler_half_steps", count)

    def __str__(self) -> str:
        return f"implicit_euler({self.implicit_euler_half_steps})"
