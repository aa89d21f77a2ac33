"""P1 finite elements as a method of a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evogt_study.errors import ParameterError
from evogt_study.methods.protocol import Method, MethodSpec
from evogt_study.pde.baselines.finite_elements import (
    DEGREES,
    MIDPOINT,
    check_admitted,
    check_mesh_size,
    element_fields,
    p1_fem,
    quadrature_nodes,
)
from evogt_study.pde.baselines.pod_galerkin import check_linear, pod_galerkin
from evogt_study.pde.galerkin.problem import Problem, Separable
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.integrators.field_steps import FieldSolution
from evogt_study.pde.methods.baseline import Baseline, BaselineCase, with_scalars
from evogt_study.pde.methods.evolution import time_grid
from evogt_study.pde.methods.field_evolution import FieldCase, FieldMethod, Newton, states_fields
from evogt_study.pde.methods.parameters import EvolutionParameters
from evogt_study.pde.methods.problem_method import seconds_of
from evogt_study.pde.numerics.quadrature import Rule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.pipeline import Share
from evogt_study.pde.problems.fields import FieldData
from evogt_study.schema.parameters import integer, parameter_field, real, same_as
from evogt_study.schema.records import Record


@dataclass(frozen=True, kw_only=True)
class P1Parameters:
    """Parameters of a case of the method."""

    validation: Rule = same_as(EvolutionParameters, "validation")
    dt: float = same_as(EvolutionParameters, "dt")
    final_time: float = same_as(EvolutionParameters, "final_time")
    unknowns: int = parameter_field(
        "an integer >= 1", integer(1), "interior vertices per direction", "h = 1/(unknowns + 1)"
    )
    degree: int | None = parameter_field(
        "an integer >= 2", integer(2), "polynomial degree that element integrals are exact for",
        "31 in 1-D, 9 in 2-D, 5 in 3-D where left out", optional=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class P1FieldParameters(P1Parameters):
    """Parameters of a case with several fields or nonlinear fluxes."""

    newton: Newton | None = parameter_field(
        '{ tolerance = 1e-13, factors = "kept" or "fresh" }', Newton.read, "Newton's method", optional=True
    )


class P1FiniteElements(BaselineCase[P1Parameters]):
    """Continuous piecewise-linear finite elements and the implicit midpoint rule (tab:p1_fem)."""

    NAME = "p1_fem"
    PARAMETERS = P1Parameters
    RECORDABLE = ("error_history", "field", "validation_values")
    SCALARS: ClassVar[tuple[str, ...]] = ("initial_error", "degrees_of_freedom")

    @classmethod
    def of(cls, spec: MethodSpec) -> Method:  # type: ignore[override]  # for another kind of problem
        """Return the method of these cases, or of `P1Fields`."""
        return FieldMethod.of(spec, P1Fields) if states_fields(spec.problem) else super().of(spec)

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
        """Return the number of quadrature nodes in all elements."""
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


@dataclass(frozen=True, kw_only=True)
class PodParameters(P1Parameters):
    """Parameters of a case of POD-Galerkin."""

    modes: int = parameter_field("an integer >= 1", integer(1), "largest number of POD modes")
    training_time: float | None = parameter_field(
        "a positive number", real(0.0), "end of the snapshots", "the final time if left out", optional=True
    )


class PodGalerkin(P1FiniteElements):
    """Galerkin method in the leading modes of the states of `p1_fem`, and the implicit midpoint rule."""

    NAME = "pod_galerkin"
    PARAMETERS = PodParameters
    SCALARS = ("initial_error", "degrees_of_freedom", "offline_seconds", "online_seconds")

    @classmethod
    def of(cls, spec: MethodSpec) -> Method:  # type: ignore[override]  # fields are refused
        """Return the method of these cases."""
        return Baseline.of(spec, cls)

    given: PodParameters

    @property
    def training_time(self) -> float:
        """End time of the snapshots."""
        return self.given.training_time or self.given.final_time

    def check_problem(self, problem: Problem) -> None:
        super().check_problem(problem)
        check_linear(problem)
        if self.training_time > self.given.final_time:
            raise ParameterError("training_time", "at most final_time", self.training_time)

    def record(self, problem: Problem) -> Record:
        solution, scalars = pod_galerkin(
            problem, self.given.unknowns, self.observed, self.given.modes, self.training_time, self.given.degree
        )
        return with_scalars(self.measured(problem, solution.evaluate, self.observed), scalars)


class P1Fields(FieldCase):
    """The same elements for several fields or nonlinear fluxes."""

    NAME = "p1_fem"
    PARAMETERS = P1FieldParameters
    SCALARS = ("degrees_of_freedom",)

    @property
    def degree(self) -> int:
        """Polynomial degree for which element integrals are exact."""
        return int(self.given.degree or DEGREES[self.method.source.dimension or 1])

    def list_unused(self) -> tuple[str, ...]:
        return ("degree",) if self.given.degree == DEGREES.get(self.method.source.dimension or 0) else ()

    def check_fields(self, data: FieldData) -> None:
        check_mesh_size(data.dimension, self.given.unknowns, self.given.degree)

    @property
    def work(self) -> float | None:
        d = self.method.source.dimension or 1
        assembled = 500 * quadrature_nodes(d, self.given.unknowns, self.given.degree)
        return seconds_of(float(len(self.method.problem_names) ** 2 * 4 * assembled * self.grid.steps))

    def solve(self, data: FieldData, share: Share) -> FieldSolution:
        tolerance, keep = self.newton
        return element_fields(data, 1, self.given.unknowns + 1, self.degree, self.grid, MIDPOINT, tolerance, keep)

    def diagnose(self, solution: FieldSolution) -> dict[str, float]:
        return {"degrees_of_freedom": solution.system.size}
