"""The common part of the baselines: cases that share only the problem, and their outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.methods.protocol import MethodSpec
from evogt_study.pde.domains.box import check_domain
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.problem_checks import check_terms
from evogt_study.pde.galerkin.validation import relative_errors
from evogt_study.pde.methods.problem_method import ProblemCase, ProblemMethod, finite, quadrature_of, seconds_of
from evogt_study.pde.methods.recording import fields
from evogt_study.pde.methods.variables import VARIABLES
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Rule
from evogt_study.pde.pipeline import Share
from evogt_study.schema.parameters import declared_parameters, make_typed
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values, canonical_json

_LOOKED_AT = 200
"""Operations for each validation node.  Timed cases scale all predictions."""

Evaluate = Callable[[Array], Array]
"""Function that returns a solution at the observed times: nodes (P, d) -> (S, P)."""


class Observed(Protocol):
    """Saved times, and their positions among the observed times from 0 to T."""

    @property
    def observed_times(self) -> Array: ...
    @property
    def saved_times(self) -> Array: ...
    @property
    def saved_positions(self) -> list[int]: ...


class BaselineParameters(Protocol):
    """Parameters that every baseline has."""

    @property
    def validation(self) -> Rule: ...


P = TypeVar("P", bound=BaselineParameters)


@dataclass(frozen=True, eq=False)
class Baseline(ProblemMethod):
    """A baseline method for one problem and one choice of outputs."""

    kind: type[BaselineCase[Any]]

    @staticmethod
    def of(spec: MethodSpec, kind: type[BaselineCase[Any]]) -> Baseline:
        """Make the method of `spec`.  Raises StudyError if the problem or an output does not exist."""
        return Baseline.declared(
            spec, declared_parameters(kind.PARAMETERS), kind.RECORDABLE, kind.DIRECTIONS_OF_TIME, kind=kind
        )

    def bind(self, values: Values) -> BaselineCase[Any]:
        return self.kind(self, values, make_typed(self.kind.PARAMETERS, values))

    def scalars(self, values: Values) -> tuple[str, ...]:
        exact = () if self.source.has_exact is False else ("error",)
        return (*exact, *self.kind.SCALARS)

    @property
    def stage_parameters(self) -> tuple[str, ...]:  # type: ignore[override]  # the problem is all that is shared
        return (*self.source.parameters, *self.own_names)

    @cached_property
    def own_names(self) -> tuple[str, ...]:
        """Names of its parameters without the parameters of the problem."""
        known = {*declared_parameters(self.kind.PARAMETERS)}
        return tuple(name for name in self.parameters if name in known.union(*self.of_kinds.values()))


@dataclass(frozen=True, eq=False)
class BaselineCase(ProblemCase, Generic[P]):
    """One case of a baseline, whose parameters are `given`."""

    PARAMETERS: ClassVar[Any]
    RECORDABLE: ClassVar[tuple[str, ...]]
    SCALARS: ClassVar[tuple[str, ...]]
    DIRECTIONS_OF_TIME: ClassVar[int] = 0

    method: Baseline
    values: Values
    given: P

    @classmethod
    def of(cls, spec: MethodSpec) -> Baseline:
        """Return the method of these cases."""
        return Baseline.of(spec, cls)

    @property
    def times_text(self) -> str:
        return canonical_json(self.observed.saved_times.tolist()) if self.method.output.record else "null"

    def check(self) -> None:
        output, problem = self.method.output, self.method.problem(self.values)
        len(self.observed.saved_times)  # raises where they do not fit
        if problem.exact is None and "error_history" in output.record:
            raise ProblemError("`exact` must be known where `record` asks for error_history, got a problem without it")
        quadrature_of("validation", self.given.validation, problem)
        if problem.potential is None and "free_energy_history" in output.record:
            raise ProblemError("`record` must leave out free_energy_history for a problem without potential")
        with np.errstate(all="ignore"):
            self.check_problem(problem)

    @abstractmethod
    def check_problem(self, problem: Problem) -> None:
        """Raise ProblemError or ParameterError if the method cannot solve `problem`."""

    # baselines share nothing else: their matrices depend on all of their parameters, and each run has its own
    @property
    def stages(self) -> Mapping[str, Hashable]:
        return {"problem": self.method.problem_identity(self.values)}

    @property
    def work(self) -> float | None:
        problem = self.method.example(self.values)
        if problem is None:
            return None
        looked_at = self.given.validation.count(problem.dimension)
        return seconds_of(self.flops(problem) + _LOOKED_AT * looked_at)

    @abstractmethod
    def flops(self, problem: Problem) -> float:
        """Estimate the operations of the solution."""

    def run(self, share: Share) -> Record:
        return finite(self.record(self.method.shared_problem(self.values, share)))

    @abstractmethod
    def record(self, problem: Problem) -> Record:
        """Solve the case."""

    @property
    @abstractmethod
    def observed(self) -> Observed:
        """The observed times.  Raises ParameterError."""

    # one evaluation at the validation nodes for all times and all that is measured there
    def measured(self, problem: Problem, evaluate: Evaluate, grid: Observed) -> Record:
        """Return errors on the validation rule and the other outputs of a solution."""
        rule = problem.domain.quadrature(self.given.validation)
        at_nodes, saved = evaluate(rule.nodes), grid.saved_positions
        initial = relative_errors(at_nodes[:1], problem.initial(rule.nodes)[None, :], rule.weights)
        variables = {"initial_error": Datum((), np.asarray(initial[0]))}
        coordinates = {"time": Datum(("time",), grid.saved_times)} if self.method.output.record else {}
        if problem.exact is not None:
            errors = relative_errors(at_nodes, problem.exact(rule.nodes, grid.observed_times), rule.weights)
            variables["error"] = Datum((), np.asarray(errors[-1]))
            if "error_history" in self.method.output.record:
                variables["error_history"] = Datum(VARIABLES["error_history"].dims, errors[saved])
        if "validation_values" in self.method.output.record:
            variables["validation_values"] = Datum(("node",), at_nodes[-1])
            coordinates["weight"] = Datum(("node",), rule.weights)
        if "field" in self.method.output.record:
            data, axes = fields(
                lambda nodes: evaluate(nodes)[saved], problem, grid.saved_times, self.method.output.grid
            )
            variables |= data
            coordinates |= axes
        return Record(variables, coordinates)


def with_scalars(record: Record, scalars: Mapping[str, float]) -> Record:
    """Return the record with additional numbers."""
    added = {name: Datum((), np.asarray(value)) for name, value in scalars.items()}
    return Record({**record.variables, **added}, record.coordinates)


def check_plain(name: str, problem: Problem) -> None:
    """Raise ProblemError if the problem is not linear scalar diffusion on the unit cube."""
    check_domain(problem.domain, name)
    check_terms(problem, name)
    if problem.lifting is not None or problem.potential is not None:
        extra = "lifting" if problem.lifting is not None else "potential"
        raise ProblemError(f"{name} must have a linear problem with zero boundary values, got one with a {extra}")
