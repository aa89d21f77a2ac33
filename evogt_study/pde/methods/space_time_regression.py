"""Global least-squares regression with time as an additional input of the features (tab:global_diagnostic).

The ansatz

    u_st(x, t) = u_0(x) + t D(x) psi(x, t/T)^T alpha

has the exact initial and boundary values.  The residual is u_t - div(a grad u) - f at J points of space and L positive
times.  The coefficients alpha minimise

    || A alpha - b ||^2 + rho || alpha ||^2,    rho = ridge tr(A^T A) / N,

    A_j = D psi_j + t D d(psi_j)/dt - t (a Lap(D psi_j) + grad a . grad(D psi_j)),    b = f + div(a grad u_0).

The dictionary has features in d + 1 dimensions.  The method `discrete_time_rfm` uses collocation in the stages of time
steps instead.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import sympy

from evogt_study.errors import FormulaError, ParameterError, ProblemError, cut
from evogt_study.pde.dictionaries.base import Dictionary, Jet, SmoothFeatures, split_nodes
from evogt_study.pde.domains.box import check_domain, tensor_points
from evogt_study.pde.galerkin.problem import Problem, SpaceTimeFunction, check_terms
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.methods.declarations import declare_parameters, make_dictionary, measure_reach, warn_of_reach
from evogt_study.pde.methods.problem_method import BaselineCase
from evogt_study.pde.numerics import Array, Quadrature, TimeGrid
from evogt_study.pde.problems.expressions import COORDINATES, TIME, make_space_time_function
from evogt_study.pde.problems.formula_problem import FormulaProblem, derive_terms
from evogt_study.pde.problems.terms import GridTable
from evogt_study.schema.parameters import Parameter, integer, real
from evogt_study.schema.records import Record

POINTS, LEVELS, RIDGE = 68, 69, 1e-10
"""Values of the paper (tab:global_diagnostic) for the residual points, the time levels and the ridge term.

The points are the interior of linspace(0, 1, 70), and the levels are the positive values of linspace(0, T, 70)."""
IMPLICIT = np.array([
    [0, 0, 0, 0, 0], [0, 1 / 2, 0, 0, 0], [0, 1 / 6, 1 / 2, 0, 0], [0, -1 / 2, 1 / 2, 1 / 2, 0],
    [0, 3 / 2, -3 / 2, 1 / 2, 1 / 2],
])  # fmt: skip
EXPLICIT = np.array([
    [0, 0, 0, 0, 0], [1 / 2, 0, 0, 0, 0], [11 / 18, 1 / 18, 0, 0, 0], [5 / 6, -5 / 6, 1 / 2, 0, 0],
    [1 / 4, 7 / 4, 3 / 4, -7 / 4, 0],
])  # fmt: skip
"""Tableaus of ARS(4,4,3) of order three (Ascher, Ruuth and Spiteri 1997).  Its last stage is the new state."""
_MAX_ENTRIES = 100_000_000
"""Largest number of entries of A, which takes 0.8 GB.  The least-squares solver needs a few copies of A."""
# the largest number of steps of a time grid
MAX_TIMES = 1_000_000
# The check takes milliseconds for at most 343 points.  The run checks the diffusion at all residual points.
N_CHECK_POINTS = 7
"""Number of points per direction and of time levels at which the study checks the data of a regression."""


@dataclass(frozen=True, eq=False)
class StrongForm:
    """Problem with the derivatives of its data that the strong form needs."""

    problem: Problem
    diffusion_gradient: tuple[SpaceTimeFunction, ...]
    initial_residual: SpaceTimeFunction


def derive_strong_form(statement: FormulaProblem, values: Mapping[str, Any]) -> StrongForm:
    """Return the strong form of a formula problem for the parameter `values`, by symbolic differentiation."""
    if isinstance(statement.diffusion, GridTable):
        raise ProblemError("`diffusion` must be a formula for a residual in strong form, got a table")
    problem, data = statement(**values), derive_terms(statement)
    # u_0 has no time derivative, so its manufactured source is -div(a grad u_0)
    residual = data.source - data.derive_source(data.initial.subs(TIME, 0))
    if residual.has(sympy.zoo, sympy.nan, sympy.oo, sympy.DiracDelta, sympy.Derivative):
        got = f"{cut(str(residual), 80)} after differentiation"
        raise FormulaError(f"`initial` must have second derivatives for a residual in strong form, got {got}")
    gradient = [sympy.diff(data.diffusion, x) for x in COORDINATES[: statement.dimension]]
    parts = *gradient, residual
    *slopes, initial_residual = (make_space_time_function(each, problem.parameters) for each in parts)
    return StrongForm(problem, tuple(slopes), initial_residual)


@dataclass(frozen=True, eq=False)
class SpaceTimeSolution:
    """Solution u_st of a regression, with coefficients of features in d + 1 dimensions."""

    problem: Problem
    features: SmoothFeatures
    final_time: float
    coefficients: Array
    rho: float
    condition: float

    def evaluate(self, nodes: Array, times: Array) -> Array:
        """Return u_st at nodes (P, d) and times (S,), as an array (S, P)."""
        scaled = (_append_time(nodes, t, self.final_time) for t in times.tolist())
        sums = np.stack([self.features.values(points) @ self.coefficients for points in scaled])
        (D,) = self.problem.domain.boundary_factor(nodes)
        return np.asarray(self.problem.initial(nodes) + times[:, None] * D * sums)


def space_time_regression(
    strong: StrongForm, dictionary: Dictionary, seed: int, final_time: float, *, points: int = POINTS,
    levels: int = LEVELS, ridge: float = RIDGE,
) -> SpaceTimeSolution:  # fmt: skip
    """Return the fit u_st to the strong form at `list_residual_points`.  The defaults are the values of the paper."""
    features = dictionary.sample(seed, strong.problem.dimension + 1)
    nodes, times = list_residual_points(strong.problem.dimension, final_time, points, levels)
    A, b = assemble_residual(strong, features, nodes, times, final_time, dictionary.widths)
    return SpaceTimeSolution(strong.problem, features, final_time, *solve_ridge(A, b, ridge))


def list_residual_points(dimension: int, final_time: float, points: int, levels: int) -> tuple[Array, Array]:
    """Return evenly spaced interior points of the unit cube (points^d, d), and positive times up to T (levels,)."""
    # without the boundary and t = 0, where the ansatz is exact (tab:global_diagnostic)
    along = np.linspace(0.0, 1.0, points + 2)[1:-1]
    return tensor_points([along] * dimension), np.linspace(0.0, final_time, levels + 1)[1:]


def assemble_residual(
    strong: StrongForm, features: SmoothFeatures, nodes: Array, times: Array, final_time: float,
    widths: Sequence[int] = (),
) -> tuple[Array, Array]:  # fmt: skip
    """Return A (L J, N) and b (L J,) of the residual A alpha - b, in blocks of nodes that suit layers of `widths`."""
    # any weights, because the check uses only the sign of the diffusion
    check_diffusion(strong.problem, Quadrature(nodes, np.ones(len(nodes))), times)
    rows = np.empty((len(times), len(nodes), features.count))
    blocks = list(split_nodes(len(nodes), widths or (features.count,)))
    with np.errstate(all="ignore"):  # the check below reports values that are not finite
        b = strong.initial_residual(nodes, times).ravel()
        for level, t in enumerate(times.tolist()):
            for block in blocks:
                # phi + t phi_t - t (a Lap phi + grad a . grad phi) for phi = D psi
                psi = features.second_order(_append_time(nodes[block], t, final_time))
                D, divergence = apply_operator(strong, psi, nodes[block], t)
                rate = psi.gradient[nodes.shape[1]] / final_time  # the last input of the features is t/T
                rows[level, block] = D * (psi.value + t * rate) - t * divergence
    A = rows.reshape(-1, features.count)
    if not (np.isfinite(b).all() and np.isfinite(A).all()):
        data = "f, grad a and div(a grad u_0)"
        raise ProblemError(f"{data} must be finite at all residual points")
    return A, b


def apply_operator(strong: StrongForm, psi: Jet, nodes: Array, t: float) -> tuple[Array, Array]:
    """Return D (J, 1), and a Lap phi + grad a . grad phi for phi = D psi at the time `t`, (J, N)."""
    d, now = nodes.shape[1], np.array([t])
    D, dD, hessian = (part[..., None] for part in strong.problem.domain.boundary_factor(nodes, 2))
    gradient = dD * psi.value + D * psi.gradient[:d]
    laplacian = np.trace(hessian) * psi.value + 2.0 * np.sum(dD * psi.gradient[:d], axis=0)
    laplacian += D * np.trace(psi.hessian[:d, :d])
    divergence = strong.problem.diffusion(nodes, now)[0][:, None] * laplacian
    for da, part in zip(strong.diffusion_gradient, gradient, strict=True):
        divergence += da(nodes, now)[0][:, None] * part
    return D, divergence


def _append_time(nodes: Array, t: float, final_time: float) -> Array:
    """Return the inputs (x, t/T) of the features, (P, d) -> (P, d + 1)."""
    return np.column_stack([nodes, np.full(len(nodes), t / final_time)])


def solve_ridge(A: Array, b: Array, ridge: float) -> tuple[Array, float, float]:
    """Return the minimiser alpha of || A alpha - b ||^2 + rho || alpha ||^2, rho, and the condition number."""
    count = A.shape[1]
    norms_squared = np.einsum("ij,ij->j", A, A)
    rho = float(ridge * norms_squared.sum() / count)
    scale = np.sqrt(norms_squared + rho)
    scale[scale == 0.0] = 1.0  # without a ridge, a zero column gets a zero coefficient
    # columns of unit norm, because the paper gives the condition number of the scaled matrix
    scaled = np.concatenate([A / scale, np.diag(np.sqrt(rho) / scale)])
    right = np.concatenate([b, np.zeros(count)])
    y, _, _, sigma = scipy.linalg.lstsq(scaled, right, lapack_driver="gelsd", overwrite_a=True, check_finite=False)
    with np.errstate(divide="ignore"):
        return np.asarray(y / scale), rho, float(sigma[0] / sigma[-1])


def march_by_collocation(
    strong: StrongForm, features: SmoothFeatures, nodes: Array, grid: TimeGrid, cutoff: float
) -> Iterator[Array]:
    """Yield the coefficients at each step of the discrete-time random feature method (arXiv 2604.25502).

    Each stage of an IMEX scheme minimises sum_m | phi(x_m) . c - dt gamma (L phi)(x_m) . c - rhs_m |^2 over c for
    phi = D psi and L u = div(a grad u).
    """
    problem, dt, nodal, psi = strong.problem, grid.dt, EXPLICIT.sum(axis=1), features.second_order(nodes)
    values = np.asarray(apply_operator(strong, psi, nodes, 0.0)[0] * psi.value)

    @lru_cache(maxsize=1)
    def linearise(t: float) -> tuple[Array, Array]:
        """Return L phi at the nodes, and the pseudo-inverse for the least squares."""
        L = apply_operator(strong, psi, nodes, t)[1]
        return L, np.asarray(scipy.linalg.pinv(values - dt / 2.0 * L, rtol=cutoff), dtype=np.float64)

    c = scipy.linalg.pinv(values, rtol=cutoff) @ problem.initial(nodes)
    yield c
    for n in range(grid.steps):
        times, base, slopes = (n + nodal) * dt, values @ c, np.zeros((len(nodal), len(nodes)))
        sources = problem.source(nodes, times)
        for i in range(1, len(nodal)):
            L, solve = linearise(0.0 if problem.diffusion.steady else float(times[i]))
            c = solve @ (base + dt * (EXPLICIT[i, :i] @ sources[:i] + IMPLICIT[i, :i] @ slopes[:i]))
            slopes[i] = L @ c
        yield c


FORMULA_PARAMETERS = declare_parameters(
    "dictionary", "seed", "validation", "final_time",
    Parameter("points", "an integer >= 1", integer(1), "interior residual points per direction", default=POINTS),
)  # fmt: skip
"""Parameters of the methods that differentiate the formulas of the problem."""


class FormulaCase(BaselineCase):
    """Case of a method that differentiates the formulas of the problem."""

    @cached_property
    def strong(self) -> StrongForm:
        """Strong form of the problem of the case.  Raises ProblemError if the problem is not a formula problem."""
        source = self.method.source
        if not isinstance(source.statement, FormulaProblem):
            raise ProblemError(f"{self.NAME} needs a formula problem, got {source.name}")
        return derive_strong_form(source.statement, self.method.select_problem_values(self.values))

    def check_problem(self, problem: Problem) -> None:
        super().check_problem(problem)
        if problem.dimension == 3:
            raise ProblemError(f"{self.NAME} needs a problem in one or two dimensions, got 3")
        check_domain(problem.domain, self.NAME)
        check_terms(problem, self.NAME)
        if problem.lifting is not None or problem.potential is not None:
            extra = "lifting" if problem.lifting is not None else "potential"
            wanted = "a linear problem with zero boundary values"
            raise ProblemError(f"{self.NAME} needs {wanted}, got a problem with a {extra}")
        dictionary, directions = make_dictionary(self.values), problem.dimension + self.DIRECTIONS_OF_TIME
        dictionary.check_dimension(directions)
        warn_of_reach(dictionary, directions)
        d, N, points, levels = problem.dimension, dictionary.N, self.given.points, getattr(self.given, "levels", 1)
        if (entries := points**d * levels * N) > _MAX_ENTRIES:
            got = f"{points}^{d} x {levels} x {N} = {entries:,}"
            raise ParameterError("points", f"so few that points^d x levels x N is at most {_MAX_ENTRIES:,}", got)
        nodes, times = list_residual_points(d, self.given.final_time, N_CHECK_POINTS, N_CHECK_POINTS)
        check_diffusion(problem, Quadrature(nodes, np.ones(len(nodes))), times)
        # evaluate once, so that formulas without a value raise an error before the run
        self.strong.initial_residual(nodes[:1], times[:1])


class SpaceTimeRegression(FormulaCase):
    """Case of the global least-squares regression in space and time (tab:global_diagnostic)."""

    NAME = "space_time_regression"
    DIRECTIONS_OF_TIME = 1
    PARAMETERS = FORMULA_PARAMETERS | declare_parameters(
        Parameter("levels", "an integer >= 1", integer(1), "positive time levels of the residual", default=LEVELS),
        Parameter("ridge", "a number >= 0", real(0.0, low_included=True), "rho N / tr(A^T A)",
            "relative weight of the ridge term", default=RIDGE),
    )  # fmt: skip
    RECORDABLE = ("error_history", "field")
    SCALARS = ("initial_error", "scaled_condition")

    @cached_property
    def observed(self) -> Any:
        """Saved times and observed times, which are the saved times, 0 and T.  The method has no steps."""
        final_time, times = self.given.final_time, self.method.output.times
        if isinstance(times, int) and times > MAX_TIMES:
            raise ParameterError("times", f"at most {MAX_TIMES:,}", times)
        saved = tuple(np.linspace(0.0, final_time, times).tolist()) if isinstance(times, int) else times
        if list(saved) != sorted(set(saved)) or not 0.0 <= saved[0] <= saved[-1] <= final_time:
            raise ParameterError("times", f"increasing, different and in [0, {final_time:g}]", list(saved))
        observed = np.array(sorted({0.0, final_time, *saved}))
        places = np.searchsorted(observed, saved).tolist()
        return SimpleNamespace(observed_times=observed, saved_times=np.array(saved), saved_positions=places)

    @property
    def memory(self) -> float:
        given, N = self.given, make_dictionary(self.values).N
        rows = given.points ** self.method.estimate_dimension(self.values) * given.levels + N
        return 8.0 * 4 * float(rows * N)  # A, the scaled copy, and two copies of the solver

    # A tanh with its derivatives takes 25 operations, as in `evolution`.  The SVD of the solver takes 20 N^3.
    def estimate_flops(self, problem: Problem) -> float:
        widths, D = make_dictionary(self.values).widths, problem.dimension + 1
        rows = self.given.points**problem.dimension * self.given.levels
        features = (1 + D + D * D) * (sum(map(operator.mul, widths, widths[1:])) + 25 * sum(widths))
        return float(2 * rows * (features + widths[-1] ** 2) + 20 * widths[-1] ** 3)

    def solve(self, problem: Problem) -> Record:
        given, dictionary, times = self.given, make_dictionary(self.values), self.observed.observed_times
        solution = space_time_regression(
            self.strong, dictionary, given.seed, given.final_time,
            points=given.points, levels=given.levels, ridge=given.ridge,
        )  # fmt: skip
        scalars = {"scaled_condition": solution.condition, **measure_reach(dictionary, problem.dimension + 1)}
        return self.measure(problem, lambda nodes: solution.evaluate(nodes, times), scalars)


class DiscreteTimeRandomFeatures(FormulaCase):
    """Case of `discrete_time_rfm`, collocation by least squares in each stage of an IMEX Runge-Kutta scheme."""

    NAME = "discrete_time_rfm"
    PARAMETERS = FORMULA_PARAMETERS | declare_parameters(
        "dt",
        Parameter("cutoff", "in (0, 1)", real(0.0, 1.0), "relative cut-off of singular values in least squares",
            default=1e-12),
    )  # fmt: skip
    RECORDABLE = ("error_history", "field", "validation_values")
    SCALARS = ("initial_error",)

    @property
    def memory(self) -> float:
        rows = self.given.points ** self.method.estimate_dimension(self.values)
        return 64.0 * float(rows * make_dictionary(self.values).N)

    def estimate_flops(self, problem: Problem) -> float:
        widths, rows = make_dictionary(self.values).widths, self.given.points**problem.dimension
        solves = 1 if problem.diffusion.steady else 4 * self.observed.steps
        features = 10 * (sum(map(operator.mul, widths, widths[1:])) + 25 * sum(widths))
        march = 4 * self.observed.steps * widths[-1]
        return float(rows * (features + 20 * solves * widths[-1] ** 2 + 4 * march))

    def solve(self, problem: Problem) -> Record:
        given, grid, dictionary = self.given, self.observed, make_dictionary(self.values)
        features = dictionary.sample(given.seed if dictionary.RANDOM else 0, problem.dimension)
        nodes, _ = list_residual_points(problem.dimension, given.final_time, given.points, 1)
        states = grid.observe(march_by_collocation(self.strong, features, nodes, grid, given.cutoff))

        def evaluate(points: Array) -> Array:
            (D,) = problem.domain.boundary_factor(points)
            return np.asarray(D * (states @ features.values(points).T))

        return self.measure(problem, evaluate, {})
