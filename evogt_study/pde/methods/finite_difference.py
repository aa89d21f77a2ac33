"""Finite differences as a method of a study."""

from __future__ import annotations

from dataclasses import dataclass

from evogt_study.pde.baselines.finite_difference import (
    check_differences,
    finite_difference_flops,
    finite_difference_memory,
    finite_differences,
)
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.methods.baseline import BaselineCase, with_scalars
from evogt_study.pde.methods.evolution import time_grid
from evogt_study.pde.methods.parameters import EvolutionParameters, integrator_of
from evogt_study.pde.methods.recording import energy_scalars
from evogt_study.pde.methods.variables import VARIABLES
from evogt_study.pde.numerics.quadrature import Rule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.schema.parameters import integer, parameter_field, same_as
from evogt_study.schema.records import Datum, Record


@dataclass(frozen=True, kw_only=True)
class DifferenceParameters:
    """Parameters of a case of the method, except the parameters of its integrator."""

    validation: Rule = same_as(EvolutionParameters, "validation")
    dt: float = same_as(EvolutionParameters, "dt")
    final_time: float = same_as(EvolutionParameters, "final_time")
    time_integrator: str = same_as(EvolutionParameters, "time_integrator")
    points: int = parameter_field("an integer >= 1", integer(1), "interior points per direction", "h = 1/(points + 1)")


class FiniteDifferences(BaselineCase[DifferenceParameters]):
    """Finite differences diagonalised by the discrete sine transform, for a constant diffusion (tab:allen_cahn)."""

    NAME = "finite_difference"
    PARAMETERS = DifferenceParameters
    RECORDABLE = ("error_history", "free_energy_history", "field", "validation_values")
    SCALARS = ("initial_error", "degrees_of_freedom", "energy_drop_percent", "energy_increment")

    @property
    def observed(self) -> TimeGrid:
        return time_grid(self.given.final_time, self.given.dt, self.method.output.times)

    def check_problem(self, problem: Problem) -> None:
        check_differences(problem, self.given.points, integrator_of(self.values))

    @property
    def memory(self) -> float:
        times = len(self.observed.observed_times)
        return finite_difference_memory(self.method.dimension(self.values), self.given.points, times)

    def flops(self, problem: Problem) -> float:
        return finite_difference_flops(problem, self.given.points, self.observed.steps)

    def record(self, problem: Problem) -> Record:
        grid = self.observed
        solution = finite_differences(problem, self.given.points, grid, integrator_of(self.values))
        record = self.measured(problem, solution.evaluate, grid)
        scalars: dict[str, float] = {"degrees_of_freedom": solution.fields[0].size}
        if problem.potential is None:
            return with_scalars(record, scalars)
        if "free_energy_history" in self.method.output.record:
            history = Datum(VARIABLES["free_energy_history"].dims, solution.energies[list(grid.saved)])
            record = Record({**record.variables, "free_energy_history": history}, record.coordinates)
        return with_scalars(record, scalars | energy_scalars(solution.energies))
