"""Global space-time regression as a method of a study."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.baselines import space_time_regression as regression
from evogt_study.pde.domains.box import check_domain
from evogt_study.pde.galerkin.problem import Problem, check_terms
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.methods.baseline import BaselineCase
from evogt_study.pde.methods.parameters import EvolutionParameters
from evogt_study.pde.methods.problem_method import make_dictionary
from evogt_study.pde.methods.variables import measure_reach, warn_of_reach
from evogt_study.pde.numerics import Array, Quadrature, Rule
from evogt_study.pde.problems import FormulaProblem
from evogt_study.schema.parameters import integer, parameter_field, real, same_as
from evogt_study.schema.records import Record

# as many as a time grid may have steps
MAX_TIMES = 1_000_000
# 343 points at most, in milliseconds; positivity of the diffusion is checked at all residual points when it runs
SAMPLED = 7
"""Residual points per direction, and levels, at which the data of a regression are checked."""


@dataclass(frozen=True)
class FreeTimes:
    """Any times in [0, T], for a method without steps.

    Raises ParameterError, for `times`, if they are not increasing or outside.
    """

    final_time: float
    saved: tuple[float, ...]

    @staticmethod
    def of(final_time: float, times: int | tuple[float, ...]) -> FreeTimes:
        """Return evenly spaced times from 0 to T, or the given times."""
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
        """Positions of the saved times among the observed times."""
        return [int(i) for i in np.searchsorted(self.observed_times, self.saved_times)]


@dataclass(frozen=True, kw_only=True)
class FormulaParameters:
    """Parameters of both methods, except the parameters of the dictionary."""

    dictionary: str = same_as(EvolutionParameters, "dictionary")
    seed: int = same_as(EvolutionParameters, "seed")
    validation: Rule = same_as(EvolutionParameters, "validation")
    final_time: float = same_as(EvolutionParameters, "final_time")
    points: int = parameter_field(
        "an integer >= 1", integer(1), "interior residual points per direction", default=regression.POINTS
    )


@dataclass(frozen=True, kw_only=True)
class RegressionParameters(FormulaParameters):
    """Parameters of a case of regression in space and time."""

    levels: int = parameter_field(
        "an integer >= 1", integer(1), "positive time levels of the residual", default=regression.LEVELS
    )
    ridge: float = parameter_field(
        "a number >= 0", real(0.0, low_included=True), "rho N / tr(A^T A)", "relative weight of the ridge term",
        default=regression.RIDGE,
    )  # fmt: skip


class FormulaCase(BaselineCase):
    """A case of a method that differentiates the formulas of the problem."""

    @property
    def strong(self) -> regression.StrongForm:
        """The problem with derivatives of its formulas.  Raises ProblemError if there are none."""
        source = self.method.source
        if not isinstance(source.statement, FormulaProblem):
            raise ProblemError(f"{self.NAME} must have a problem in formulas, got {source.name}")
        given = self.method.problem_values(self.values).items()
        return regression.strong_form(
            source.statement, {name: value for name, value in given if isinstance(value, (int, float))}
        )

    def check_features(self, problem: Problem, levels: int) -> None:
        """Raise ProblemError or ParameterError if the features or their matrix do not fit the problem."""
        check_domain(problem.domain, self.NAME)
        check_terms(problem, self.NAME)
        if problem.lifting is not None or problem.potential is not None:
            extra = "lifting" if problem.lifting is not None else "potential"
            raise ProblemError(
                f"{self.NAME} must have a linear problem with zero boundary values, got one with a {extra}"
            )
        dictionary, directions = make_dictionary(self.values), problem.dimension + self.DIRECTIONS_OF_TIME
        dictionary.check_dimension(directions)
        warn_of_reach(dictionary, directions)
        regression.check_regression_size(problem.dimension, dictionary.N, self.given.points, levels)


class SpaceTimeRegression(FormulaCase):
    """Global least-squares regression in space and time at once (tab:global_diagnostic)."""

    NAME = "space_time_regression"
    DIRECTIONS_OF_TIME = 1
    PARAMETERS = RegressionParameters
    RECORDABLE = ("error_history", "field")
    SCALARS = ("initial_error", "scaled_condition")

    @property
    def observed(self) -> FreeTimes:
        return FreeTimes.of(self.given.final_time, self.method.output.times)

    def check_problem(self, problem: Problem) -> None:
        super().check_problem(problem)
        if problem.dimension == 3:
            raise ProblemError("space_time_regression must have a problem in one or two dimensions, got 3")
        self.check_features(problem, self.given.levels)
        nodes, times = regression.residual_points(problem.dimension, self.given.final_time, SAMPLED, SAMPLED)
        # any weights: only the sign of the diffusion is looked at
        check_diffusion(problem, Quadrature(nodes, np.ones(len(nodes))), times)
        # once, so that what has no value is refused before anything runs
        self.strong.initial_residual(nodes[:1], times[:1])

    @property
    def memory(self) -> float:
        given, N = self.given, make_dictionary(self.values).N
        rows = given.points ** self.method.dimension(self.values) * given.levels + N
        return 8.0 * 4 * float(rows * N)  # A, the scaled copy, and two of the solver's

    # 25 operations of a tanh with its derivatives, as in `evolution`; 20 N^3 of the solver's SVD of a triangle
    def flops(self, problem: Problem) -> float:
        widths, D = make_dictionary(self.values).widths, problem.dimension + 1
        rows = self.given.points**problem.dimension * self.given.levels
        features = (1 + D + D * D) * (sum(map(operator.mul, widths, widths[1:])) + 25 * sum(widths))
        return float(2 * rows * (features + widths[-1] ** 2) + 20 * widths[-1] ** 3)

    def solve(self, problem: Problem) -> Record:
        given, dictionary, times = self.given, make_dictionary(self.values), self.observed.observed_times
        solution = regression.space_time_regression(
            self.strong, dictionary, given.seed, given.final_time,
            points=given.points, levels=given.levels, ridge=given.ridge,
        )  # fmt: skip
        scalars = {"scaled_condition": solution.condition, **measure_reach(dictionary, problem.dimension + 1)}
        return self.measure(problem, lambda nodes: solution.evaluate(nodes, times), scalars)


@dataclass(frozen=True, kw_only=True)
class DiscreteTimeParameters(FormulaParameters):
    """Parameters of a case of `discrete_time_rfm`: collocation in each time step."""

    dt: float = same_as(EvolutionParameters, "dt")
    cutoff: float = parameter_field(
        "in (0, 1)", real(0.0, 1.0), "relative cut-off of singular values in least squares", default=1e-12
    )


class DiscreteTimeRandomFeatures(FormulaCase):
    """Collocation by least squares in each stage of an IMEX Runge-Kutta scheme."""

    NAME = "discrete_time_rfm"
    PARAMETERS = DiscreteTimeParameters
    RECORDABLE = ("error_history", "field", "validation_values")
    SCALARS = ("initial_error",)

    def check_problem(self, problem: Problem) -> None:
        super().check_problem(problem)
        self.check_features(problem, 1)
        _ = self.strong  # raises

    @property
    def memory(self) -> float:
        rows = self.given.points ** self.method.dimension(self.values)
        return 64.0 * float(rows * make_dictionary(self.values).N)

    def flops(self, problem: Problem) -> float:
        widths, rows = make_dictionary(self.values).widths, self.given.points**problem.dimension
        solves = 1 if problem.diffusion.steady else 4 * self.observed.steps
        features = 10 * (sum(map(operator.mul, widths, widths[1:])) + 25 * sum(widths))
        march = 4 * self.observed.steps * widths[-1]
        return float(rows * (features + 20 * solves * widths[-1] ** 2 + 4 * march))

    def solve(self, problem: Problem) -> Record:
        given, grid, dictionary = self.given, self.observed, make_dictionary(self.values)
        features = dictionary.sample(given.seed if dictionary.RANDOM else 0, problem.dimension)
        nodes, _ = regression.residual_points(problem.dimension, given.final_time, given.points, 1)
        states = grid.observe(regression.march_by_collocation(self.strong, features, nodes, grid, given.cutoff))

        def evaluate(points: Array) -> Array:
            (D,) = problem.domain.boundary_factor(points)
            return np.asarray(D * (states @ features.values(points).T))

        return self.measure(problem, evaluate, {})
