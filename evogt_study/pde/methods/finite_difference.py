"""Finite differences as the method `finite_difference` of a study."""

from typing import Any

from evogt_study.pde.baselines import finite_difference as differences
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.methods.declarations import declare_parameters, make_integrator
from evogt_study.pde.methods.problem_method import BaselineCase, measure_energies
from evogt_study.schema.parameters import Parameter, integer
from evogt_study.schema.records import Record


class FiniteDifferences(BaselineCase):
    """Case of finite differences with the discrete sine transform, for a constant diffusion (tab:allen_cahn)."""

    NAME = "finite_difference"
    PARAMETERS = declare_parameters(
        "validation", "dt", "final_time", "time_integrator",
        Parameter("points", "an integer >= 1", integer(1), "interior points per direction", "h = 1/(points + 1)"),
    )  # fmt: skip
    RECORDABLE = ("error_history", "free_energy_history", "field", "validation_values")
    SCALARS = ("initial_error", "degrees_of_freedom", "energy_drop_percent", "energy_increment")

    def check_problem(self, problem: Problem) -> None:
        super().check_problem(problem)
        differences.check_differences(problem, self.given.points, make_integrator(self.values))

    @property
    def memory(self) -> float:
        times = len(self.observed.observed_times)
        dimension = self.method.estimate_dimension(self.values)
        return differences.estimate_difference_memory(dimension, self.given.points, times)

    def estimate_flops(self, problem: Problem) -> float:
        # per unknown and step, 20 operations for products, sums and the energy, and two transforms of a reaction
        d, points = problem.dimension, self.given.points
        transforms = 0 if problem.potential is None else 2 * d * points
        return float(points**d * self.observed.steps * (20 + transforms))

    def solve(self, problem: Problem) -> Record:
        grid = self.observed
        solution = differences.solve_differences(problem, self.given.points, grid, make_integrator(self.values))
        more: dict[str, Any] = {"degrees_of_freedom": solution.fields[0].size}
        more |= {} if problem.potential is None else measure_energies(solution.energies)
        if "free_energy_history" in self.method.output.record:
            more["free_energy_history"] = solution.energies[list(grid.saved)]
        return self.measure(problem, solution.evaluate, more)
