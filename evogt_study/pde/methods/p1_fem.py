"""P1 finite elements as the methods `p1_fem` and `pod_galerkin` of a study."""

from typing import Any, ClassVar

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.baselines import finite_elements as elements
from evogt_study.pde.galerkin.problem import Problem, Separable
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.integrators.flux_system import FieldSolution
from evogt_study.pde.methods.declarations import declare_parameters
from evogt_study.pde.methods.evolution import FIELD_PARAMETERS, FieldCase
from evogt_study.pde.methods.problem_method import BaselineCase, estimate_seconds
from evogt_study.pde.pipeline import Share
from evogt_study.pde.problems.fields import FieldData
from evogt_study.schema.parameters import Parameter, integer, real
from evogt_study.schema.records import Record

P1_PARAMETERS = declare_parameters(
    "validation", "dt", "final_time",
    Parameter("unknowns", "an integer >= 1", integer(1), "interior vertices per direction", "h = 1/(unknowns + 1)"),
    Parameter("degree", "an integer >= 2", integer(2), "polynomial degree that element integrals are exact for",
        "31 in 1-D, 9 in 2-D, 5 in 3-D where left out", optional=True),
)  # fmt: skip
"""Parameters of P1 finite elements."""


class P1Fields(FieldCase):
    """Case of P1 finite elements for several fields or nonlinear fluxes."""

    NAME = "p1_fem"
    PARAMETERS = P1_PARAMETERS | {"newton": FIELD_PARAMETERS["newton"]}
    SCALARS = ("degrees_of_freedom",)

    def list_unused(self) -> tuple[str, ...]:
        return ("degree",) if self.given.degree == elements.DEGREES.get(self.method.source.dimension or 0) else ()

    def check_problem(self, data: FieldData) -> None:
        super().check_problem(data)
        elements.check_mesh_size(data.dimension, self.given.unknowns, self.given.degree)

    @property
    def work(self) -> float | None:
        d = self.method.source.dimension or 1
        assembled = 500 * elements.count_nodes(d, self.given.unknowns, self.given.degree)
        return estimate_seconds(float(len(self.method.source.field_names) ** 2 * 4 * assembled * self.observed.steps))

    def solve(self, data: FieldData, share: Share) -> tuple[FieldSolution, dict[str, float]]:
        degree = int(self.given.degree or elements.DEGREES[data.dimension])
        solution = elements.solve_fields_by_elements(
            data, 1, self.given.unknowns + 1, degree, self.observed, elements.MIDPOINT, *self.newton
        )
        return solution, {"degrees_of_freedom": solution.system.initial.size}


class P1FiniteElements(BaselineCase):
    """Case of continuous piecewise-linear finite elements with the implicit midpoint rule (tab:p1_fem)."""

    NAME = "p1_fem"
    FIELDS_CASE: ClassVar[Any] = P1Fields
    PARAMETERS = P1_PARAMETERS
    RECORDABLE = ("error_history", "field", "validation_values")
    SCALARS: ClassVar[tuple[str, ...]] = ("initial_error", "degrees_of_freedom")

    def check_problem(self, problem: Problem) -> None:
        super().check_problem(problem)
        elements.check_admitted(problem)
        elements.check_mesh_size(problem.dimension, self.given.unknowns, self.given.degree)
        check_diffusion(problem, problem.domain.quadrature(self.given.validation), self.observed.midpoints)

    def list_unused(self) -> tuple[str, ...]:
        return ("degree",) if self.given.degree == elements.DEGREES.get(self.method.source.dimension or 0) else ()

    @property
    def memory(self) -> float:
        # measured bytes per node for the sparse values and gradients with copies, at 1 to 1.5 million nodes
        d = self.method.estimate_dimension(self.values)
        return (300.0, 450.0, 600.0)[d - 1] * elements.count_nodes(d, self.given.unknowns, self.given.degree)

    # A factorisation takes 500, 4,000 or 18,000 operations per unknown, because the fill grows with the dimension.
    def estimate_flops(self, problem: Problem) -> float:
        d, steps = problem.dimension, self.observed.steps
        factorised = self.given.unknowns**d * (500, 4_000, 18_000)[d - 1]  # sparse LU, measured in runs of seconds
        times = 1 if problem.diffusion.steady else steps
        matrices = 3 + (0 if isinstance(problem.diffusion, Separable) else times)
        # a matrix is a product of sparse matrices
        assembled = 250 * elements.count_nodes(d, self.given.unknowns, self.given.degree)
        # a solve takes a twentieth of a factorisation, as in `baselines.finite_elements`
        return float(matrices * assembled + (times + 0.05 * steps) * factorised)

    def solve(self, problem: Problem) -> Record:
        solution = elements.p1_fem(problem, self.given.unknowns, self.observed, self.given.degree)
        return self.measure(problem, solution.evaluate, {"degrees_of_freedom": solution.states.shape[1]})


class PodGalerkin(P1FiniteElements):
    """Case of the Galerkin method in the leading POD modes of `p1_fem`, with the implicit midpoint rule."""

    NAME = "pod_galerkin"
    FIELDS_CASE = None
    PARAMETERS = P1_PARAMETERS | declare_parameters(
        Parameter("modes", "an integer >= 1", integer(1), "largest number of POD modes"),
        Parameter("training_time", "a positive number", real(0.0), "end of the snapshots",
            "the final time if left out", optional=True),
    )  # fmt: skip
    SCALARS = ("initial_error", "degrees_of_freedom", "offline_seconds", "online_seconds")

    def check_problem(self, problem: Problem) -> None:
        super().check_problem(problem)
        if not problem.is_linear:
            raise ProblemError("pod_galerkin needs a reaction that is linear in u")
        if (self.given.training_time or 0.0) > self.given.final_time:
            raise ParameterError("training_time", "at most final_time", self.given.training_time)

    def solve(self, problem: Problem) -> Record:
        given = self.given
        training_time = float(given.training_time or given.final_time)
        solution, scalars = elements.pod_galerkin(
            problem, given.unknowns, self.observed, given.modes, training_time, given.degree
        )
        return self.measure(problem, solution.evaluate, scalars)
