"""The common part of the baselines: cases that share no stage except the problem, and their measurements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

from evogt_study.errors import ProblemError
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.validation import relative_errors
from evogt_study.pde.methods.parameters import EvolutionParameters
from evogt_study.pde.methods.problem_method import ProblemCase, ProblemMethod, check_finite, estimate_seconds
from evogt_study.pde.methods.recording import sample_fields, scalar_data
from evogt_study.pde.methods.variables import VARIABLES
from evogt_study.pde.numerics import Array, Rule
from evogt_study.pde.pipeline import Share
from evogt_study.schema.parameters import declared_parameters, same_as
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values

_NODE_FLOPS = 200
"""Operations for each validation node.  Timed cases scale all predictions."""


@dataclass(frozen=True, kw_only=True)
class StepParameters:
    """Parameters of each baseline with time steps."""

    validation: Rule = same_as(EvolutionParameters, "validation")
    dt: float = same_as(EvolutionParameters, "dt")
    final_time: float = same_as(EvolutionParameters, "final_time")


class Baseline(ProblemMethod):
    """A baseline method for one problem and one choice of outputs."""

    def list_scalar_variables(self, values: Values) -> tuple[str, ...]:
        exact = () if self.source.has_exact is False else ("error",)
        return (*exact, *self.kind.SCALARS)

    @cached_property
    def stage_parameters(self) -> tuple[str, ...]:  # type: ignore[override]  # the problem is all that is shared
        own = {*declared_parameters(self.kind.PARAMETERS)}.union(*self.of_kinds.values())
        return (*self.source.parameters, *(name for name in self.parameters if name in own))


# baselines share no stage except the problem: their matrices depend on all of their parameters
class BaselineCase(ProblemCase):
    """One case of a baseline."""

    METHOD = Baseline

    def check_problem(self, problem: Problem) -> None:
        record = self.method.output.record
        if problem.exact is None and "error_history" in record:
            raise ProblemError("`exact` must be known where `record` asks for error_history, got a problem without it")
        if problem.potential is None and "free_energy_history" in record:
            raise ProblemError("`record` must leave out free_energy_history for a problem without potential")

    @property
    def stages(self) -> Mapping[str, Hashable]:
        return {"problem": self.method.problem_identity(self.values)}

    @property
    def work(self) -> float | None:
        problem = self.method.example(self.values)
        if problem is None:
            return None
        return estimate_seconds(self.flops(problem) + _NODE_FLOPS * self.given.validation.count(problem.dimension))

    @abstractmethod
    def flops(self, problem: Problem) -> float:
        """Estimate the operations of the solution."""

    def run(self, share: Share) -> Record:
        return check_finite(self.solve(self.method.shared_problem(self.values, share)))

    @abstractmethod
    def solve(self, problem: Problem) -> Record:
        """Solve the case."""

    # one evaluation at the validation nodes for all times and all that is measured there
    def measure(self, problem: Problem, evaluate: Callable[[Array], Array], scalars: Mapping[str, float]) -> Record:
        """Return the outputs of a solution, nodes (P, d) -> values at the observed times (S, P), and these numbers."""
        grid, wanted = self.observed, self.method.output.record
        rule, saved = problem.domain.quadrature(self.given.validation), grid.saved_positions
        values = evaluate(rule.nodes)
        initial = relative_errors(values[:1], problem.initial(rule.nodes)[None, :], rule.weights)
        variables = scalar_data({"initial_error": initial[0]})
        coordinates = {"time": Datum(("time",), grid.saved_times)} if wanted else {}
        if problem.exact is not None:
            errors = relative_errors(values, problem.exact(rule.nodes, grid.observed_times), rule.weights)
            variables |= scalar_data({"error": errors[-1]})
            if "error_history" in wanted:
                variables["error_history"] = Datum(VARIABLES["error_history"].dims, errors[saved])
        if "validation_values" in wanted:
            variables["validation_values"] = Datum(("node",), values[-1])
            coordinates["weight"] = Datum(("node",), rule.weights)
        if "field" in wanted:
            data, axes = sample_fields(
                lambda nodes: evaluate(nodes)[saved], problem, grid.saved_times, self.method.output.grid
            )
            variables, coordinates = variables | data, coordinates | axes
        return Record(variables | scalar_data(scalars), coordinates)
