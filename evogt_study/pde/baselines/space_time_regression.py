"""Global space-time regression: time as one more input, fitted by least squares (tab:global_diagnostic).

    u_st(x, t) = u_0(x) + t D(x) psi(x, t/T)^T alpha

has the initial and the boundary values exactly.  The residual u_t - div(a grad u) - f of the strong form is sampled at
J points of space and L positive times, and alpha minimises

    || A alpha - b ||^2 + rho || alpha ||^2,    rho = ridge tr(A^T A) / N,

    A_j = D psi_j + t D d(psi_j)/dt - t (a Lap(D psi_j) + grad a . grad(D psi_j)),    b = f + div(a grad u_0).

The dictionary is sampled in d + 1 dimensions.  Nothing in the ansatz enforces causality or the decay of the energy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.linalg
import sympy

from evogt_study.errors import FormulaError, ParameterError, ProblemError, cut
from evogt_study.pde.dictionaries.base import Dictionary, Jet, SmoothFeatures, node_blocks
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.box import check_domain, tensor_points
from evogt_study.pde.galerkin.problem import Problem, SpaceTimeFunction, check_terms
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.numerics import Array, Quadrature, TimeGrid
from evogt_study.pde.problems.expressions import COORDINATES, TIME, space_time_function
from evogt_study.pde.problems.formula_problem import FormulaProblem, derive_source, derive_terms

POINTS, LEVELS, RIDGE = 68, 69, 1e-10
"""The paper's values (tab:global_diagnostic): the interior of linspace(0, 1, 70), the positive levels of
linspace(0, T, 70), and the relative weight of the ridge term."""
IMPLICIT = np.array([
    [0, 0, 0, 0, 0], [0, 1 / 2, 0, 0, 0], [0, 1 / 6, 1 / 2, 0, 0], [0, -1 / 2, 1 / 2, 1 / 2, 0],
    [0, 3 / 2, -3 / 2, 1 / 2, 1 / 2],
])  # fmt: skip
EXPLICIT = np.array([
    [0, 0, 0, 0, 0], [1 / 2, 0, 0, 0, 0], [11 / 18, 1 / 18, 0, 0, 0], [5 / 6, -5 / 6, 1 / 2, 0, 0],
    [1 / 4, 7 / 4, 3 / 4, -7 / 4, 0],
])  # fmt: skip
"""ARS(4,4,3) of Ascher, Ruuth and Spiteri (1997), of order three, whose last stage is the end of the step."""
_MAX_ENTRIES = 100_000_000
"""Limit of the entries of A: 0.8 GB.  The least-squares solver needs a few copies."""


@dataclass(frozen=True, eq=False)
class StrongForm:
    """A problem with the derivatives of its data that the strong form needs."""

    problem: Problem
    diffusion_gradient: tuple[SpaceTimeFunction, ...]
    initial_residual: SpaceTimeFunction


def strong_form(statement: FormulaProblem, values: Mapping[str, float]) -> StrongForm:
    """Differentiate the `statement` symbolically for the parameter `values`.  u_0 is u at t = 0."""
    if statement.dimension > 2:
        raise ParameterError("dimension", "1 or 2 for space-time regression", statement.dimension)
    problem = statement(**values)
    check_terms(problem, "space-time regression")
    gradient, initial_residual = _derive_strong_form(statement)
    numbers = {name: float(value) for name, value in values.items()}
    return StrongForm(
        problem,
        tuple(space_time_function(part, numbers) for part in gradient),
        space_time_function(initial_residual, numbers),
    )


@lru_cache(maxsize=64)  # once a process, however many seeds and parameter values are run
def _derive_strong_form(statement: FormulaProblem) -> tuple[tuple[sympy.Expr, ...], sympy.Expr]:
    """Return grad a and f + div(a grad u_0)."""
    data = derive_terms(statement)
    initial = data.initial.subs(TIME, 0)
    gradient = [sympy.diff(data.terms.diffusion, x) for x in COORDINATES[: statement.dimension]]
    # u_0 has no time derivative, so the source manufactured from it is -div(a grad u_0)
    residual = data.source - derive_source(initial, data.terms)
    if residual.has(sympy.zoo, sympy.nan, sympy.oo, sympy.DiracDelta, sympy.Derivative):
        raise FormulaError(
            "`initial` must have second derivatives for a residual in strong form, "
            f"got {cut(str(residual), 80)} after differentiation"
        )
    return tuple(gradient), residual


@dataclass(frozen=True, eq=False)
class SpaceTimeSolution:
    """The fitted u_st: coefficients of features in d + 1 dimensions."""

    domain: Domain
    initial: Callable[[Array], Array]
    features: SmoothFeatures
    final_time: float
    coefficients: Array
    rho: float
    condition: float

    def evaluate(self, nodes: Array, times: Array) -> Array:
        """Return u_st, nodes (P, d) and times (S,) -> (S, P)."""
        scaled = (_in_space_time(nodes, t, self.final_time) for t in times.tolist())
        sums = np.stack([self.features.values(points) @ self.coefficients for points in scaled])
        (D,) = self.domain.boundary_factor(nodes)
        return np.asarray(self.initial(nodes) + times[:, None] * D * sums)


def space_time_regression(
    strong: StrongForm, dictionary: Dictionary, seed: int, final_time: float, *, points: int = POINTS,
    levels: int = LEVELS, ridge: float = RIDGE,
) -> SpaceTimeSolution:  # fmt: skip
    """Fit u_st on (0, T) to the strong form at `residual_points`.  The defaults are the paper's."""
    check_domain(strong.problem.domain, "space-time regression")
    check_terms(strong.problem, "space-time regression")
    _check(strong.problem.dimension, dictionary, final_time, points, levels, ridge)
    features = dictionary.sample(seed, strong.problem.dimension + 1)
    nodes, times = residual_points(strong.problem.dimension, final_time, points, levels)
    A, b = residual_system(strong, features, nodes, times, final_time, dictionary.widths)
    alpha, rho, condition = ridge_least_squares(A, b, ridge)
    return SpaceTimeSolution(strong.problem.domain, strong.problem.initial, features, final_time, alpha, rho, condition)


def _check(dimension: int, dictionary: Dictionary, final_time: float, points: int, levels: int, ridge: float) -> None:
    for name, count in (("points", points), ("levels", levels)):
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 1:
            raise ParameterError(name, "an integer of at least 1", count)
    if not 0.0 < final_time < np.inf:
        raise ParameterError("final_time", "positive and finite", final_time)
    if not 0.0 <= ridge < np.inf:
        raise ParameterError("ridge", "at least 0 and finite", ridge)
    check_regression_size(dimension, dictionary.N, points, levels)


def check_regression_size(dimension: int, N: int, points: int, levels: int) -> None:
    """Raise ParameterError if the matrix of the residual would not fit in memory."""
    entries = points**dimension * levels * N
    if entries > _MAX_ENTRIES:
        got = f"{points}^{dimension} x {levels} x {N} = {entries:,}"
        raise ParameterError("points", f"so few that points^d x levels x N is at most {_MAX_ENTRIES:,}", got)


def residual_points(dimension: int, final_time: float, points: int, levels: int) -> tuple[Array, Array]:
    """Return evenly spaced interior points of the unit cube (points^d, d), and positive times up to T (levels,)."""
    # without the boundary and t = 0, where the ansatz has the data exactly (tab:global_diagnostic)
    along = np.linspace(0.0, 1.0, points + 2)[1:-1]
    return tensor_points([along] * dimension), np.linspace(0.0, final_time, levels + 1)[1:]


# the diffusion is checked with equal weights: only the sign of its values matters here
def residual_system(
    strong: StrongForm, features: SmoothFeatures, nodes: Array, times: Array, final_time: float,
    widths: Sequence[int] = (),
) -> tuple[Array, Array]:  # fmt: skip
    """Return A (L J, N) and b (L J,) of the residual A alpha - b.  The `widths` of layers determine the blocks."""
    check_diffusion(strong.problem, Quadrature(nodes, np.full(len(nodes), 1.0 / len(nodes))), times)
    rows = np.empty((len(times), len(nodes), features.count))
    blocks = list(node_blocks(len(nodes), widths or (features.count,)))
    with np.errstate(all="ignore"):  # values that are not finite are refused below
        b = strong.initial_residual(nodes, times).ravel()
        for level, t in enumerate(times.tolist()):
            for block in blocks:
                rows[level, block] = _evaluate_residual(strong, features, nodes[block], t, final_time)
    A = rows.reshape(-1, features.count)
    if not (np.isfinite(b).all() and np.isfinite(A).all()):
        raise ProblemError(
            "the strong form must be finite at the residual points, where f, grad a and div(a grad u_0) are sampled"
        )
    return A, b


def _evaluate_residual(
    strong: StrongForm, features: SmoothFeatures, nodes: Array, t: float, final_time: float
) -> Array:
    """Return the rows of A at one time, (J, N): phi + t phi_t - t (a Lap phi + grad a . grad phi) for phi = D psi."""
    psi = features.second_order(_in_space_time(nodes, t, final_time))
    D, divergence = apply_operator(strong, psi, nodes, t)
    rate = psi.gradient[nodes.shape[1]] / final_time  # the features' last input is t/T
    return np.asarray(D * (psi.value + t * rate) - t * divergence)


def apply_operator(strong: StrongForm, psi: Jet, nodes: Array, t: float) -> tuple[Array, Array]:
    """Return D (J, 1), and a Lap phi + grad a . grad phi of phi = D psi at one time, (J, N)."""
    d, now = nodes.shape[1], np.array([t])
    D, dD, hessian = (part[..., None] for part in strong.problem.domain.boundary_factor(nodes, 2))
    gradient = dD * psi.value + D * psi.gradient[:d]
    laplacian = np.trace(hessian) * psi.value + 2.0 * np.sum(dD * psi.gradient[:d], axis=0)
    laplacian += D * np.trace(psi.hessian[:d, :d])
    divergence = strong.problem.diffusion(nodes, now)[0][:, None] * laplacian
    for da, part in zip(strong.diffusion_gradient, gradient, strict=True):
        divergence += da(nodes, now)[0][:, None] * part
    return D, divergence


def _in_space_time(nodes: Array, t: float, final_time: float) -> Array:
    """Return the inputs (x, t/T) of the features, (P, d) -> (P, d + 1)."""
    return np.column_stack([nodes, np.full(len(nodes), t / final_time)])


def ridge_least_squares(A: Array, b: Array, ridge: float) -> tuple[Array, float, float]:
    """Minimise || A alpha - b ||^2 + rho || alpha ||^2 by the SVD of [A; sqrt(rho) I] with columns of unit norm."""
    count = A.shape[1]
    norms_squared = np.einsum("ij,ij->j", A, A)
    rho = float(ridge * norms_squared.sum() / count)
    scale = np.sqrt(norms_squared + rho)
    scale[scale == 0.0] = 1.0  # without a ridge a column may be zero, whose coefficient the least norm makes zero
    # columns of unit norm, as the paper's condition number is of the scaled matrix
    scaled = np.concatenate([A / scale, np.diag(np.sqrt(rho) / scale)])
    right = np.concatenate([b, np.zeros(count)])
    y, _, _, sigma = scipy.linalg.lstsq(scaled, right, lapack_driver="gelsd", overwrite_a=True, check_finite=False)
    with np.errstate(divide="ignore"):
        return np.asarray(y / scale), rho, float(sigma[0] / sigma[-1])


def march_by_collocation(
    strong: StrongForm, features: SmoothFeatures, nodes: Array, grid: TimeGrid, cutoff: float
) -> Iterator[Array]:
    """Return the coefficients after each step of the discrete-time random feature method (arXiv 2604.25502).

    Each stage of an IMEX Runge-Kutta scheme is a collocation problem in the span of phi = D psi:

        min_c sum_m | phi(x_m) . c - dt gamma (L phi)(x_m) . c - rhs_m |^2,    L u = div(a grad u)

    The source is explicit.
    """
    problem, dt, nodal, psi = strong.problem, grid.dt, EXPLICIT.sum(axis=1), features.second_order(nodes)
    values = np.asarray(apply_operator(strong, psi, nodes, 0.0)[0] * psi.value)

    @lru_cache(maxsize=1)
    def linearise(t: float) -> tuple[Array, Array]:
        """Return L phi at the nodes, and the solution operator of the least squares."""
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
