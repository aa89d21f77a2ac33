"""The baselines as methods of the sweep: P1 finite elements, finite differences, global space-time regression."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from evogt_study.baselines.finite_difference import (
    check_differences,
    finite_difference_flops,
    finite_difference_memory,
    finite_differences,
)
from evogt_study.baselines.space_time_regression import (
    check_size,
    residual_points,
    space_time_regression,
    strong_form,
)
from evogt_study.errors import ParameterError, ProblemError
from evogt_study.methods.evolution_parameters import PARAMETERS as EVOLUTION_PARAMETERS
from evogt_study.methods.fields import fields
from evogt_study.methods.integrator_parameters import INTEGRATOR_PARAMETERS, integrator_of, own_fields
from evogt_study.methods.problem_method import ProblemMethod, dictionary_of, finite, quadrature_of, seconds_of
from evogt_study.methods.protocol import MethodSpec
from evogt_study.methods.recordable import energy_scalars
from evogt_study.numerics.arrays import Array
from evogt_study.numerics.dictionaries import FAMILIES
from evogt_study.numerics.domains.unit_cube import check_unit_cube
from evogt_study.numerics.galerkin import check_diffusion
from evogt_study.numerics.pipeline import Share
from evogt_study.numerics.problem import Problem, Separable
from evogt_study.numerics.quadrature import Quadrature
from evogt_study.numerics.time_grid import TimeGrid
from evogt_study.numerics.validation import relative_errors
from evogt_study.problems import Statement
from evogt_study.schema.doubts import outside_ball, warn_outside_ball
from evogt_study.schema.parameters import Parameter, integer, real
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values, content_hash
from evogt_study.schema.variables import MEASURED

OF_DICTIONARIES = frozenset().union(*(family.takes() for family in FAMILIES.values()))
"""Parameters of dictionaries, which some families take."""
MAX_TIMES = 1_000_000
LOOKED_AT = 200
"""Operations for a validation node: interpolation, and the exact solution."""
SAMPLED = 7
"""Residual points per direction, and levels, at which the data of a regression are looked at before it runs."""

Evaluate = Callable[[Array], Array]
"""A solution at the observed times: nodes (P, d) -> (S, P)."""


class Observed(Protocol):
    """Saved times, and where they stand among the observed ones, which begin with 0 and end with T."""

    @property
    def observed_times(self) -> Array: ...
    @property
    def saved_times(self) -> Array: ...
    @property
    def saved_positions(self) -> list[int]: ...


@dataclass(frozen=True)
class FreeTimes:
    """Any times in [0, T], for a method without steps.

    Raises ParameterError, for `times`, where they are not increasing or outside.
    """

    final_time: float
    saved: tuple[float, ...]

    @staticmethod
    def of(final_time: float, times: int | tuple[float, ...]) -> FreeTimes:
        """A count of evenly spaced times with 0 and T, or the times themselves."""
        if isinstance(times, int) and times > MAX_TIMES:
            raise ParameterError("times", f"at most {MAX_TIMES:,}", times)
        saved = tuple(np.linspace(0.0, final_time, times).tolist()) if isinstance(times, int) else times
        if list(saved) != sorted(set(saved)) or not 0.0 <= saved[0] <= saved[-1] <= final_time:
            raise ParameterError("times", f"increasing, different and in [0, {final_time:g}]", list(saved))
        return FreeTimes(final_time, saved)

    @property
    def observed_times(self) -> Array:
        """The saved times with 0 and T."""
        return np.array(sorted({0.0, self.final_time, *self.saved}))

    @property
    def saved_times(self) -> Array:
        """The saved times."""
        return np.array(self.saved)

    @property
    def saved_positions(self) -> list[int]:
        """Where they stand among the observed ones."""
        return [int(i) for i in np.searchsorted(self.observed_times, self.saved_times)]


def _parameters(*own: Parameter, shared: tuple[str, ...]) -> dict[str, Parameter]:
    """A baseline's own parameters after those that it has in common with `evolution`."""
    return {name: EVOLUTION_PARAMETERS[name] for name in shared} | {parameter.name: parameter for parameter in own}


class Baseline(ProblemMethod, ABC):
    """A method whose run shares no stage but the problem with other runs."""

    NAME: ClassVar[str]
    VERSION: ClassVar[int] = 1  # raised when the same parameters come to mean other numbers
    PARAMETERS: ClassVar[Mapping[str, Parameter]]
    RECORDABLE: ClassVar[tuple[str, ...]]
    SCALARS: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, spec: MethodSpec) -> Baseline:
        """Raises StudyError where the problem or the outputs cannot be had."""
        return cls.declared(spec, cls.PARAMETERS, cls.RECORDABLE)

    def scalars(self, values: Values) -> tuple[str, ...]:
        exact = () if self.source.has_exact is False else ("error",)
        return (*exact, *self.SCALARS)

    def check(self, values: Values) -> None:
        self.observed(values)
        problem = self.problem(values)
        if problem.exact is None and "error_history" in self.output.record:
            raise ProblemError("`exact` must be known where `record` asks for error_history, got a problem without it")
        quadrature_of("validation", self.given(values)["validation"], problem)
        if problem.potential is None and "free_energy_history" in self.output.record:
            raise ProblemError("`record` must leave out free_energy_history for a problem without potential")
        with np.errstate(all="ignore"):
            self.check_problem(values, problem)

    @abstractmethod
    def check_problem(self, values: Values, problem: Problem) -> None:
        """Raise ProblemError or ParameterError where the method cannot solve `problem`."""

    def identity(self, values: Values) -> Mapping[str, Any]:
        used = self.canonical(values, {name: values[name] for name in self.used(values) if name in values})
        recorded = sorted(self.output.record)
        return {
            "method": self.NAME,
            "version": self.VERSION,
            "problem": self.problem_identity(values),
            "values": used,
            "record": recorded,
            "times": self.observed(values).saved_times.tolist() if recorded else None,
            "grid": self.output.grid if "field" in recorded else None,
        }

    def used(self, values: Values) -> tuple[str, ...]:
        """Names of the parameters that the case uses, the problem's own left out."""
        unused = set(INTEGRATOR_PARAMETERS) - {part.name for part in own_fields(values)}
        if "dictionary" in values:
            unused |= OF_DICTIONARIES - FAMILIES[str(values["dictionary"])].takes()
        return tuple(name for name in self.PARAMETERS if name not in unused)

    def canonical(self, values: Values, used: dict[str, Any]) -> dict[str, Any]:
        """The used parameters with those left out that say what would hold without them."""
        return used

    def stages(self, values: Values) -> Mapping[str, Hashable]:
        return {"problem": content_hash(self.problem_identity(values))}

    def leading(self) -> tuple[str, ...]:
        return (*self.source.parameters, *self.PARAMETERS)  # the problem is all that is shared

    def sizes(self) -> tuple[str, ...]:
        return tuple(name for name in self.PARAMETERS if name != "seed")

    def work(self, values: Values) -> float | None:
        problem = self.example(values)
        if problem is None:
            return None
        looked_at = self.given(values)["validation"].points ** problem.dimension
        return seconds_of(self.flops(values, problem) + LOOKED_AT * looked_at)

    @abstractmethod
    def flops(self, values: Values, problem: Problem) -> float:
        """Rough operations of the solution itself."""

    def run(self, values: Values, share: Share) -> Record:
        return finite(self.record(values, self.shared_problem(values, share)))

    @abstractmethod
    def memory(self, values: Values) -> float: ...

    @abstractmethod
    def record(self, values: Values, problem: Problem) -> Record:
        """Solve one case."""

    def given(self, values: Values) -> dict[str, Any]:
        """The case's parameters, to be used as what they were declared to be."""
        return dict(values)

    def grid(self, values: Values) -> TimeGrid:
        """The time steps.  Raises ParameterError."""
        given = self.given(values)
        return TimeGrid.of(given["final_time"], given["dt"], self.output.times)

    def observed(self, values: Values) -> Observed:
        """The times at which the solution is looked at.  Raises ParameterError."""
        return self.grid(values)

    def measured(self, values: Values, problem: Problem, evaluate: Evaluate, grid: Observed) -> Record:
        """Errors on the validation rule and what else is asked for of a solution that can be evaluated anywhere."""
        rule = problem.domain.quadrature(self.given(values)["validation"])
        at_nodes, saved = evaluate(rule.nodes), grid.saved_positions
        variables = {"initial_error": Datum((), _initial_error(problem, rule, at_nodes))}
        coordinates = {"time": Datum(("time",), grid.saved_times)} if self.output.record else {}
        if problem.exact is not None:
            errors = relative_errors(at_nodes, problem.exact(rule.nodes, grid.observed_times), rule.weights)
            variables["error"] = Datum((), np.asarray(errors[-1]))
            if "error_history" in self.output.record:
                variables["error_history"] = Datum(MEASURED["error_history"].dims, errors[saved])
        if "validation_values" in self.output.record:
            variables["validation_values"] = Datum(("node",), at_nodes[-1])
            coordinates["weight"] = Datum(("node",), rule.weights)
        if "field" in self.output.record:
            data, axes = fields(lambda nodes: evaluate(nodes)[saved], problem, grid.saved_times, self.output.grid)
            variables |= data
            coordinates |= axes
        return Record(variables, coordinates)


def _initial_error(problem: Problem, rule: Quadrature, at_nodes: Array) -> Array:
    return np.asarray(relative_errors(at_nodes[:1], problem.initial(rule.nodes)[None, :], rule.weights)[0])


def _with_scalars(record: Record, scalars: Mapping[str, float]) -> Record:
    added = {name: Datum((), np.asarray(value)) for name, value in scalars.items()}
    return Record({**record.variables, **added}, record.coordinates)


class P1FiniteElements(Baseline):
    """Continuous piecewise-linear finite elements and the implicit midpoint rule (tab:p1_fem)."""

    NAME = "p1_fem"
    PARAMETERS = _parameters(
        Parameter("unknowns", "an integer >= 1", integer(1), "interior vertices per direction", "h = 1/(unknowns + 1)"),
        Parameter("degree", "an integer >= 2", integer(2), "polynomial degree that element integrals are exact for",
                  "31 in 1-D, 9 in 2-D, 5 in 3-D where left out", optional=True),
        shared=("validation", "dt", "final_time"),
    )  # fmt: skip
    RECORDABLE = ("error_history", "field", "validation_values")
    SCALARS = ("initial_error", "degrees_of_freedom")

    def check_problem(self, values: Values, problem: Problem) -> None:
        from evogt_study.baselines.p1_fem import check_size as check_mesh

        given = self.given(values)
        _check_plain(self.NAME, problem)
        check_mesh(problem.dimension, given["unknowns"], given.get("degree"))
        check_diffusion(problem, problem.domain.quadrature(given["validation"]), self.grid(values).midpoints)

    def canonical(self, values: Values, used: dict[str, Any]) -> dict[str, Any]:
        from evogt_study.baselines.p1_fem import DEGREES

        default = DEGREES.get(self.source.dimension or 0)
        return {name: value for name, value in used.items() if name != "degree" or value != default}

    def memory(self, values: Values) -> float:
        from evogt_study.baselines.p1_fem import quadrature_nodes

        given = self.given(values)
        return 330.0 * quadrature_nodes(self.dimension(values), given["unknowns"], given.get("degree"))

    def flops(self, values: Values, problem: Problem) -> float:
        from evogt_study.baselines.p1_fem import quadrature_nodes

        given, steps = self.given(values), self.grid(values).steps
        nodes = quadrature_nodes(problem.dimension, given["unknowns"], given.get("degree"))
        unknowns = given["unknowns"] ** problem.dimension
        factorised = unknowns * (500, 4_000, 18_000)[problem.dimension - 1]  # sparse LU, of runs of seconds
        times = 1 if problem.diffusion.steady else steps
        assembled = 250 * nodes  # a matrix in scikit-fem
        return float(
            (3 + (0 if isinstance(problem.diffusion, Separable) else times)) * assembled
            + (times + 0.05 * steps) * factorised
        )

    def record(self, values: Values, problem: Problem) -> Record:
        from evogt_study.baselines.p1_fem import p1_fem  # scikit-fem takes a moment to import

        given, grid = self.given(values), self.grid(values)
        solution = p1_fem(problem, given["unknowns"], grid, given.get("degree"))
        record = self.measured(values, problem, solution.evaluate, grid)
        return _with_scalars(record, {"degrees_of_freedom": solution.dofs})


class FiniteDifferences(Baseline):
    """Finite differences diagonalised by the discrete sine transform, for a constant diffusion (tab:allen_cahn)."""

    NAME = "finite_difference"
    PARAMETERS = _parameters(
        Parameter("points", "an integer >= 1", integer(1), "interior points per direction", "h = 1/(points + 1)"),
        shared=("validation", "dt", "final_time", "time_integrator", *INTEGRATOR_PARAMETERS),
    )
    RECORDABLE = ("error_history", "free_energy_history", "field", "validation_values")
    SCALARS = ("initial_error", "degrees_of_freedom", "energy_drop_percent", "energy_increment")

    def check_problem(self, values: Values, problem: Problem) -> None:
        check_differences(problem, self.given(values)["points"], integrator_of(values))

    def memory(self, values: Values) -> float:
        times = len(self.observed(values).observed_times)
        return finite_difference_memory(self.dimension(values), self.given(values)["points"], times)

    def flops(self, values: Values, problem: Problem) -> float:
        return finite_difference_flops(problem, self.given(values)["points"], self.grid(values).steps)

    def record(self, values: Values, problem: Problem) -> Record:
        grid = self.grid(values)
        solution = finite_differences(problem, self.given(values)["points"], grid, integrator_of(values))
        record = self.measured(values, problem, solution.evaluate, grid)
        scalars: dict[str, float] = {"degrees_of_freedom": solution.fields[0].size}
        if problem.potential is None:
            return _with_scalars(record, scalars)
        if "free_energy_history" in self.output.record:
            history = Datum(MEASURED["free_energy_history"].dims, solution.energies[list(grid.saved)])
            record = Record({**record.variables, "free_energy_history": history}, record.coordinates)
        return _with_scalars(record, scalars | energy_scalars(solution.energies))


class SpaceTimeRegression(Baseline):
    """Global least-squares regression in space and time at once (tab:global_diagnostic)."""

    NAME = "space_time_regression"
    DIRECTIONS_OF_TIME = 1
    PARAMETERS = _parameters(
        Parameter("points", "an integer >= 1", integer(1), "interior residual points per direction", default=68),
        Parameter("levels", "an integer >= 1", integer(1), "positive time levels of the residual", default=69),
        Parameter("ridge", "a number >= 0", real(0.0, low_included=True), "rho N / tr(A^T A)",
                  "relative weight of the ridge term", default=1e-10),
        shared=("dictionary", "seed", "N", "N1", "hidden", "gamma", "delta", "radius", "centre",
                "validation", "final_time"),
    )  # fmt: skip
    RECORDABLE = ("error_history", "field")
    SCALARS = ("initial_error", "scaled_condition")

    def check_problem(self, values: Values, problem: Problem) -> None:
        if problem.dimension == 3:
            raise ProblemError("space_time_regression must have a problem in one or two dimensions, got 3")
        _check_plain(self.NAME, problem)
        dictionary_of(values).check_dimension(problem.dimension + 1)
        warn_outside_ball(dictionary_of(values), problem.dimension + 1)
        given = self.given(values)
        check_size(problem.dimension, dictionary_of(values).N, given["points"], given["levels"])
        nodes, times = residual_points(problem.dimension, given["final_time"], SAMPLED, SAMPLED)
        check_diffusion(problem, Quadrature(nodes, np.ones(len(nodes))), times)
        strong_form(self.statement(), self.problem_values(values)).initial_residual(nodes[:1], times[:1])

    def canonical(self, values: Values, used: dict[str, Any]) -> dict[str, Any]:
        dictionary = dictionary_of(values)
        used = {name: value for name, value in used.items() if name not in ("N1", "hidden")}
        return used | ({"hidden": dictionary.widths[:-1]} if len(dictionary.widths) > 1 else {})

    def statement(self) -> Statement:
        """The problem's formulas, which the residual differentiates.  Raises ProblemError where there are none."""
        if self.source.statement is None:
            raise ProblemError(f"space_time_regression must have a problem in formulas, got {self.source.name}")
        return self.source.statement

    def observed(self, values: Values) -> Observed:
        return FreeTimes.of(self.given(values)["final_time"], self.output.times)

    def memory(self, values: Values) -> float:
        given, dimension = self.given(values), self.dimension(values)
        rows = given["points"] ** dimension * given["levels"] + given["N"]
        return 8.0 * 4 * float(rows * given["N"])

    def flops(self, values: Values, problem: Problem) -> float:
        given, widths, D = self.given(values), dictionary_of(values).widths, problem.dimension + 1
        rows = given["points"] ** problem.dimension * given["levels"]
        features = (1 + D + D * D) * (sum(map(operator.mul, widths, widths[1:])) + 25 * sum(widths))
        return float(2 * rows * (features + widths[-1] ** 2) + 20 * widths[-1] ** 3)

    def record(self, values: Values, problem: Problem) -> Record:
        given, observed = self.given(values), self.observed(values)
        strong = strong_form(self.statement(), self.problem_values(values))
        solution = space_time_regression(
            strong, dictionary_of(values), given["seed"], given["final_time"],
            points=given["points"], levels=given["levels"], ridge=given["ridge"],
        )  # fmt: skip
        at_times = observed.observed_times
        record = self.measured(values, problem, lambda nodes: solution.evaluate(nodes, at_times), observed)
        outside = outside_ball(dictionary_of(values), problem.dimension + 1)
        return _with_scalars(record, {"scaled_condition": solution.condition, **outside})


def _check_plain(name: str, problem: Problem) -> None:
    check_unit_cube(problem.domain, name)
    if problem.lifting is not None or problem.potential is not None:
        extra = "lifting" if problem.lifting is not None else "potential"
        raise ProblemError(f"{name} must have a linear problem with zero boundary values, got one with a {extra}")


BASELINES: Mapping[str, type[Baseline]] = {
    method.NAME: method for method in (P1FiniteElements, FiniteDifferences, SpaceTimeRegression)
}
