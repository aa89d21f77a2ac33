"""The contract of a time integrator: one type a scheme, whose dataclass fields are the parameters of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from functools import cache
from math import isfinite
from typing import Any, ClassVar

from evogt_study.errors import ParameterError
from evogt_study.numerics.galerkin import GalerkinSystem
from evogt_study.numerics.problem import NonlinearReaction, Problem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory


def number(
    wanted: str = "a finite number", admits: Callable[[float], bool] = isfinite, symbol: str = "", meaning: str = ""
) -> dict[str, Any]:
    """Metadata of a field that holds a number.

    wanted: what it must be, in words; admits: the same as a test; symbol and meaning: its labels in a result.  A field
    that holds something else has also `read`, which makes it of what a study file has.
    """
    return {"wanted": wanted, "admits": admits, "symbol": symbol, "meaning": meaning}


@cache  # asked for each case, where they are parameters of the study
def parameters_of(kind: type[Integrator]) -> tuple[Field[Any], ...]:
    """The parameters of an integrator of its own."""
    return fields(kind)


@dataclass(frozen=True)
class Integrator(ABC):
    """A scheme for alpha' + K(t) alpha + r(alpha, t) = b(t), alpha(0) (eq:retained_ode).

    Its fields are declared by `number`, or like it: they are parameters of a study, and what is neither zero nor None
    is part of a run's identity.  Raises ParameterError for one that is not admitted.
    """

    GENERAL: ClassVar[bool] = False
    """True where it advances systems with a nonlinear reaction, and with a K that is not symmetric."""

    def __post_init__(self) -> None:
        for part in parameters_of(type(self)):
            declared, value = part.metadata or number(), getattr(self, part.name)
            if not declared["admits"](value):
                raise ParameterError(part.name, declared["wanted"], value)

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in the registry."""

    @abstractmethod
    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """The states at the observed times, from alpha(0).  Raises IndefiniteStiffnessError."""

    @abstractmethod
    def times(self, grid: TimeGrid) -> Array:
        """Times at which the diffusion is evaluated, (T,)."""

    def check(self, problem: Problem) -> None:
        """Raise ParameterError where it cannot advance `problem`; with a potential, unless a scheme says otherwise."""
        if problem.potential is not None:
            wanted = "stabilized_semi_implicit or imex_bdf_2 for a problem with a potential"
            raise ParameterError("time_integrator", wanted, self.name)
        nonlinear = isinstance(problem.reaction, NonlinearReaction)
        if not self.GENERAL and (nonlinear or problem.advection is not None):
            wanted = f"one that admits {'a nonlinear reaction' if nonlinear else 'an advection'}"
            raise ParameterError("time_integrator", wanted, self.name)
