"""P1 finite elements as a method of a study."""

from __future__ import annotations

from dataclasses import dataclass

from evogt_study.pde.baselines.finite_elements import DEGREES, check_admitted, check_mesh_size, p1_fem, quadrature_nodes
from evogt_study.pde.galerkin.problem import Problem, Separable
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.methods.baseline import BaselineCase, with_scalars
from evogt_study.pde.methods.evolution import time_grid
from evogt_study.pde.methods.parameters import EvolutionParameters
from evogt_study.pde.numerics.quadrature import Rule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.schema.parameters import declared, integer, same_as
from evogt_study.schema.records import Record


@dataclass(frozen=True, kw_only=True)
class P1Parameters:
    """Parameters of a case of the method."""

    validation: Rule = same_as(EvolutionParameters, "validation")
    dt: float = same_as(EvolutionParameters, "dt")
    final_time: float = same_as(EvolutionParameters, "final_time")
    unknowns: int = declared("an integer >= 1", integer(1), "interior vertices per direction", "h = 1/(unknowns + 1)")
    degree: int | None = declared(
        "an integer >= 2", integer(2), "polynomial degree that element integrals are exact for",
        "31 in 1-D, 9 in 2-D, 5 in 3-D where left out", optional=True,
    )  # fmt: skip


class P1FiniteElements(BaselineCase[P1Parameters]):
    """Continuous piecewise-linear finite elements and the implicit midpoint rule (tab:p1_fem)."""

    NAME = "p1_fem"
    PARAMETERS = P1Parameters
    RECORDABLE = ("error_history", "field", "validation_values")
    SCALARS = ("initial_error", "degrees_of_freedom")

    @property
    def observed(self) -> TimeGrid:
        return time_grid(self.given.final_time, self.given.dt, self.method.output.times)

    def check_problem(self, problem: Problem) -> None:
        check_admitted(problem)
        check_mesh_size(problem.dimension, self.given.unknowns, self.given.degree)
        check_diffusion(problem, problem.domain.quadrature(self.given.validation), self.observed.midpoints)

    def list_unused(self) -> tuple[str, ...]:
        follows = self.given.degree == DEGREES.get(self.method.source.dimension or 0)
        return ("degree",) if follows else ()

    def quadrature_nodes(self, dimension: int) -> int:
        """Quadrature nodes in all elements."""
        return quadrature_nodes(dimension, self.given.unknowns, self.given.degree)

    @property
    def memory(self) -> float:
        # bytes a node of the sparse values and gradients, measured with 1 to 1.5 million nodes, with copies
        d = self.method.dimension(self.values)
        return (300.0, 450.0, 600.0)[d - 1] * self.quadrature_nodes(d)

    # 500, 4,000 and 18,000 operations an unknown: fill of the sparse factor grows with the dimension
    def flops(self, problem: Problem) -> float:
        d, steps = problem.dimension, self.observed.steps
        factorised = self.given.unknowns**d * (500, 4_000, 18_000)[d - 1]  # sparse LU, of runs of seconds
        times = 1 if problem.diffusion.steady else steps
        matrices = 3 + (0 if isinstance(problem.diffusion, Separable) else times)
        assembled = 250 * self.quadrature_nodes(d)  # a matrix, a product of sparse ones
        # a solve takes a twentieth of a factorisation, as in `baselines.finite_elements`
        return float(matrices * assembled + (times + 0.05 * steps) * factorised)

    def record(self, problem: Problem) -> Record:
        solution = p1_fem(problem, self.given.unknowns, self.observed, self.given.degree)
        record = self.measured(problem, solution.evaluate, self.observed)
        return with_scalars(record, {"degrees_of_freedom": solution.dofs})
