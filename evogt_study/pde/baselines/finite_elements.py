"""Galerkin finite elements for every term of the equation, advanced by diagonally implicit Runge-Kutta methods.

    M u' + K(t) u + r(u, t) = F(t)

with the terms of `galerkin.stiffness` on continuous elements: linear ones as a baseline of the paper (`p1_fem`),
quadratic ones as a reference.  With a lifting u_b the elements carry u - u_b.  Stages are solved by sparse LU, and
nonlinear reactions by Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from math import factorial

import numpy as np
import scipy.sparse as sparse

from evogt_study.errors import DivergedError, ParameterError, ProblemError
from evogt_study.pde.baselines.element_space import (
    ElementSpace,
    SparseBasis,
    SparseMatrix,
    check_element_space,
    element_space,
)
from evogt_study.pde.domains.box import Box, check_domain
from evogt_study.pde.domains.triangulated import Triangulated
from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem, Separable, SpaceTimeFunction, Tensor, multiply
from evogt_study.pde.galerkin.stiffness import has_steady_operator
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.integrators.newton import CONVERGED, MOST_ITERATIONS
from evogt_study.pde.integrators.runge_kutta import Tableau
from evogt_study.pde.numerics.arrays import Array, solver_of
from evogt_study.pde.numerics.time_grid import TimeGrid

MIDPOINT = Tableau(np.array([[0.5]]), np.array([2.0]))
"""The implicit midpoint rule: one stage, closed by extrapolation to the end of the step."""
SDIRK_4 = Tableau(
    np.array([
        [1 / 4, 0, 0, 0, 0],
        [1 / 2, 1 / 4, 0, 0, 0],
        [17 / 50, -1 / 25, 1 / 4, 0, 0],
        [371 / 1360, -137 / 2720, 15 / 544, 1 / 4, 0],
        [25 / 24, -49 / 48, 125 / 16, -85 / 12, 1 / 4],
    ]),
    np.array([0.0, 0.0, 0.0, 0.0, 1.0]),
)  # fmt: skip
"""A method of order four, L-stable (Hairer and Wanner, Solving Ordinary Differential Equations II, table IV.6.5)."""
_DEGREE = 8
"""Degree of the element rules of a reference: two more than twice the order of gradients and coefficients."""
DEGREES = {1: 31, 2: 9, 3: 5}
"""Degree of the element rules of `p1_fem` by default: 16 points in 1-D (the paper's), 5^2 in 2-D, 3^3 in 3-D.  So many
points integrate coefficients that oscillate within an element."""
MAX_DEGREE = 127
"""Largest degree: 64 Gauss-Jacobi points a direction, whose error is far below the error of the elements."""
MAX_QUADRATURE_NODES = 3_000_000
"""Quadrature nodes of `p1_fem`, with 600 bytes each in 3-D: 1.8 GB."""

MatrixAt = Callable[[float], SparseMatrix]
VectorAt = Callable[[float], Array]


@dataclass(frozen=True, eq=False)
class ElementSolution:
    """Unknowns `states` (S, n) of u - u_b at the observed `times` (S,)."""

    problem: Problem
    space: ElementSpace
    times: Array
    states: Array

    @property
    def dofs(self) -> int:
        """n, the number of evolved unknowns."""
        return self.space.count

    def evaluate(self, nodes: Array) -> Array:
        """u_h at any points of the domain and all observed times, (P, d) -> (S, P)."""
        values, lifting = self.space.evaluate(nodes, self.states), self.problem.lifting
        return values if lifting is None else values + lifting.value(nodes, self.times)


def finite_elements(
    problem: Problem, space: ElementSpace, grid: TimeGrid, tableau: Tableau = SDIRK_4
) -> ElementSolution:
    """Advance `problem` in `space` and keep the observed states."""
    step = _Step(problem, space, grid.dt, tableau)
    rule, zero = space.interior.rule, np.zeros(1)
    initial = problem.initial(rule.nodes)
    if problem.lifting is not None:
        initial = initial - problem.lifting.value(rule.nodes, zero)[0]
    # projected, not interpolated: as the P1 elements of the paper (tab:p1_fem), which this advances on other problems
    u = solver_of(step.mass, symmetric=True)(np.asarray(space.interior.values.T @ (rule.weights * initial)))
    states = grid.observe(accumulate(tableau.times(grid).tolist(), step, initial=u))
    return ElementSolution(problem, space, grid.observed_times, states)


def p1_fem(problem: Problem, unknowns: int, grid: TimeGrid, degree: int | None = None) -> ElementSolution:
    """Solve by P1 elements with `unknowns` interior vertices a direction and the implicit midpoint rule."""
    check_admitted(problem)
    check_mesh_size(problem.dimension, unknowns, degree)
    degree = DEGREES[problem.dimension] if degree is None else degree
    space = element_space(problem.domain, 1, int(unknowns) + 1, int(degree), "unknowns")
    times = grid.midpoints[:1] if problem.diffusion.steady else grid.midpoints
    at_once = max(1, MAX_QUADRATURE_NODES // len(space.interior.rule.weights))
    for part in np.array_split(times, -(-len(times) // at_once)):
        check_diffusion(problem, space.interior.rule, part)
    return finite_elements(problem, space, grid, MIDPOINT)


def check_admitted(problem: Problem) -> None:
    """Raise ProblemError for a potential, and for another domain than a box."""
    check_domain(problem.domain, "p1_fem", Box)
    if problem.potential is not None:
        raise ProblemError("p1_fem must have a problem without `potential`; state -F'(u) as `reaction`")


def check_mesh_size(dimension: int, unknowns: int, degree: int | None = None) -> None:
    """Raise the ParameterError of `p1_fem` for the size of its space, without building it."""
    degree = DEGREES[dimension] if degree is None else degree
    if not isinstance(unknowns, (int, np.integer)) or isinstance(unknowns, bool) or unknowns < 1:
        raise ParameterError("unknowns", "an integer of at least 1", unknowns)
    if not isinstance(degree, (int, np.integer)) or isinstance(degree, bool) or not 2 <= degree <= MAX_DEGREE:
        raise ParameterError("degree", f"an integer from 2, for an exact mass matrix, to {MAX_DEGREE}", degree)
    count = quadrature_nodes(dimension, unknowns, degree)
    if count > MAX_QUADRATURE_NODES:
        wanted = f"so few that the elements have at most {MAX_QUADRATURE_NODES:,} quadrature nodes"
        where = f"{count:,} nodes in {dimension}-D with degree {degree}"
        raise ParameterError("unknowns", wanted, unknowns, where=where, remedy="use fewer unknowns or a lower degree")


def quadrature_nodes(dimension: int, unknowns: int, degree: int | None = None) -> int:
    """Number of quadrature nodes of all elements, on which memory depends."""
    degree = DEGREES[dimension] if degree is None else degree
    return int(factorial(dimension) * ((unknowns + 1) * (degree // 2 + 1)) ** dimension)


@dataclass(frozen=True, eq=False)
class FiniteElementReference:
    """Quadratic elements and SDIRK_4 as a reference; size: cells a direction of a box, or refinements."""

    problem: Problem
    size: int
    grid: TimeGrid

    def check(self) -> None:
        """Raise ParameterError or ProblemError if it cannot be computed."""
        check_element_space(self.problem.domain, self.size, _DEGREE)
        if self.problem.potential is not None:
            raise ProblemError("finite_elements must have a problem without `potential`; state -F'(u) as `reaction`")

    @property
    def key(self) -> Hashable:
        return "finite_elements", self.size, self.grid

    @property
    def coarser(self) -> FiniteElementReference:
        """Elements of twice the size, or one refinement less, and half the steps; of the final time alone."""
        boxed = not isinstance(self.problem.domain, Triangulated)
        size = max(1, self.size // 2 if boxed else self.size - 1)
        return replace(self, size=size, grid=TimeGrid(self.grid.final_time, (self.grid.steps + 1) // 2, ()))

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Values at `times`, which must be observed times of the grid, (P, d) and (T,) -> (T, P)."""
        solution = finite_elements(self.problem, element_space(self.problem.domain, 2, self.size, _DEGREE), self.grid)
        return solution.evaluate(nodes)[self.grid.positions_of(times)]


class _Step:
    """One step of a diagonally implicit method; `known` holds the solvers of a linear autonomous problem."""

    def __init__(self, problem: Problem, space: ElementSpace, dt: float, tableau: Tableau) -> None:
        self.tableau, self.dt, self.symmetric = tableau, dt, problem.advection is None
        self.autonomous, self.load = has_steady_operator(problem), _load(problem, space)
        self.stiffness = _stiffness(problem, space)
        if self.autonomous:
            constant = self.stiffness(0.0)
            self.stiffness = lambda t: constant
        self.problem, self.basis = problem, space.interior
        self.nonlinear = isinstance(problem.reaction, NonlinearReaction)
        self.mass = _product(self.basis.values, self.basis.values, self.basis.rule.weights)
        self.known: dict[float, Callable[[Array], Array]] = {}

    def __call__(self, u: Array, times: list[float]) -> Array:
        A, d = self.tableau.matrix, self.tableau.closing
        stages, slopes = list[Array](), list[Array]()
        for i, t in enumerate(times):
            side, load = np.asarray(self.mass @ u), self.load(t)
            # A is lower triangular: only the stages before have slopes yet
            for a, slope in zip(A[i], slopes, strict=False):
                side = side + self.dt * a * slope
            U = self.solved(side, load, u, A[i, i], t)
            stages.append(U)
            slopes.append(self.slope(U, load, t))
        return np.asarray((1.0 - d.sum()) * u + d @ np.stack(stages))

    def slope(self, U: Array, load: Array, t: float) -> Array:
        """F - K u - r(u)."""
        linear = load - self.stiffness(t) @ U
        return np.asarray(linear - self.reacted(U, t)[0] if self.nonlinear else linear)

    def reacted(self, U: Array, t: float) -> tuple[Array, Array]:
        """(r, phi_i) of r = -g(u, x, t), and w r_u at the nodes."""
        law, lifting, rule = self.problem.reaction, self.problem.lifting, self.basis.rule
        assert isinstance(law, NonlinearReaction)  # noqa: S101
        u = np.asarray(self.basis.values @ U)
        if lifting is not None:
            u = u + lifting.value(rule.nodes, np.array([t]))[0]
        weights = -rule.weights
        value, slope = law.value(u, rule.nodes, t), law.slope(u, rule.nodes, t)
        return np.asarray(self.basis.values.T @ (weights * value)), weights * slope

    def solved(self, side: Array, load: Array, u: Array, a: float, t: float) -> Array:
        """U of M U = side + dt a slope(U)."""
        if not self.nonlinear:
            return self.solver(None, a, t)(side + self.dt * a * load)
        U = u
        for _ in range(MOST_ITERATIONS):
            residual = self.mass @ U - side - self.dt * a * self.slope(U, load, t)
            if not np.isfinite(residual).all():
                break
            change = self.solver(U, a, t)(residual)
            U = U - change
            if np.linalg.norm(change) <= CONVERGED * np.linalg.norm(U):
                return U
        size = float(np.linalg.norm(residual))
        raise DivergedError(f"Newton's method did not converge at t = {t:.6g}: last residual {size:.3g}")

    def solver(self, U: Array | None, a: float, t: float) -> Callable[[Array], Array]:
        """Solver of M + dt a (K + r'(U)), made once for a linear autonomous problem."""
        if a in self.known:
            return self.known[a]
        matrix = self.stiffness(t)
        if U is not None:
            matrix = matrix + _product(self.basis.values, self.basis.values, self.reacted(U, t)[1])
        # a reaction's Jacobian may make the matrix indefinite, which LU without pivoting is not stable for
        made = solver_of(self.mass + self.dt * a * matrix, symmetric=self.symmetric and U is None)
        if U is None and self.autonomous:
            self.known[a] = made
        return made


def _product(left: SparseMatrix, right: SparseMatrix, nodal: Array) -> SparseMatrix:
    return sparse.csr_array(left.T @ (sparse.diags_array(nodal) @ right))


def _stiffness(problem: Problem, space: ElementSpace) -> MatrixAt:
    basis, parts = space.interior, list[MatrixAt]()
    G, B = basis.gradients, basis.values
    diffusion = problem.diffusion
    scalar = {} if isinstance(diffusion, Tensor) else {(axis, axis): diffusion for axis in range(problem.dimension)}
    for (i, j), function in (diffusion.upper if isinstance(diffusion, Tensor) else scalar).items():
        pairs = [(G[i], G[j])] if i == j else [(G[i], G[j]), (G[j], G[i])]
        parts += [_matrix(function, basis, left, right) for left, right in pairs]
    parts += [_matrix(b, basis, B, G[axis]) for axis, b in enumerate(problem.advection or ())]
    if problem.reaction is not None and not isinstance(problem.reaction, NonlinearReaction):
        parts.append(_matrix(problem.reaction, basis, B, -B))
    for data in problem.faces:
        if data.transfer is not None:
            face = space.faces[data.face]
            parts.append(_matrix(data.transfer, face, face.values, face.values))
    return lambda t: reduce(lambda one, two: one + two, [part(t) for part in parts])


def _matrix(function: SpaceTimeFunction, basis: SparseBasis, left: SparseMatrix, right: SparseMatrix) -> MatrixAt:
    """left^T diag(w f(t)) right, assembled once for each profile of a separable function."""
    rule = basis.rule
    if not isinstance(function, Separable):
        return lambda t: _product(left, right, rule.weights * function.at(rule.nodes, t))
    terms = [_product(left, right, rule.weights * profile) for profile in function.profiles(rule.nodes)]

    def summed(t: float) -> SparseMatrix:
        weighted = [float(m) * term for m, term in zip(function.modulated(np.array([t]))[:, 0], terms, strict=True)]
        return reduce(lambda one, two: one + two, weighted)

    return summed


def _load(problem: Problem, space: ElementSpace) -> VectorAt:
    """(f, phi_i) and the fluxes on faces, less what a lifting takes."""
    basis, lifting = space.interior, problem.lifting
    parts = [_moments(problem.source, basis, basis.values, 1.0)]
    for data in problem.faces:
        face = space.faces[data.face]
        parts.append(_moments(data.flux, face, face.values, 1.0))
        if lifting is not None and data.transfer is not None:
            parts.append(_moments(multiply(data.transfer, lifting.value), face, face.values, -1.0))
    if lifting is not None:
        parts.append(_moments(lifting.rate, basis, basis.values, -1.0))
        parts += [_moments(q, basis, G, -1.0) for q, G in zip(lifting.flux, basis.gradients, strict=True)]
        if lifting.lower_order is not None:
            parts.append(_moments(lifting.lower_order, basis, basis.values, -1.0))
    return lambda t: reduce(np.add, [part(t) for part in parts])


def _moments(
    function: SpaceTimeFunction | Callable[[Array, Array], Array], basis: SparseBasis, matrix: SparseMatrix, sign: float
) -> VectorAt:
    rule = basis.rule
    if not isinstance(function, Separable):
        return lambda t: np.asarray(matrix.T @ (sign * rule.weights * function(rule.nodes, np.array([t]))[0]))
    terms = np.stack([matrix.T @ (sign * rule.weights * profile) for profile in function.profiles(rule.nodes)])
    return lambda t: np.asarray(function.modulated(np.array([t]))[:, 0] @ terms)
