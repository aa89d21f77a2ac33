"""Galerkin finite elements for every term of the equation, advanced by diagonally implicit Runge-Kutta methods.

    M u' + K(t) u + r(u, t) = F(t)

with the terms of `galerkin.stiffness` on continuous elements: linear ones as a baseline of the paper (`p1_fem`),
quadratic ones as a reference.  With a lifting u_b the elements carry u - u_b.  Stages are solved by sparse LU, and
nonlinear ones by Newton's method.  Fields with nonlinear fluxes have a `FluxSystem` on elements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from math import factorial

import numpy as np
import scipy.sparse as sparse

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.baselines.element_space import (
    ElementSpace,
    SparseBasis,
    SparseMatrix,
    check_element_space,
    element_space,
)
from evogt_study.pde.domains.box import Box, check_domain
from evogt_study.pde.domains.triangulated import Triangulated
from evogt_study.pde.galerkin.flux_system import FieldSpace, FluxSystem
from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem, Separable, SpaceTimeFunction, Tensor, multiply
from evogt_study.pde.galerkin.stiffness import has_steady_operator
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.integrators.field_steps import FieldSolution, march_fields
from evogt_study.pde.integrators.newton import ImplicitSteps
from evogt_study.pde.integrators.runge_kutta import Tableau
from evogt_study.pde.numerics.arrays import Array, solver_of
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.problems.fields import FieldData

MIDPOINT = Tableau(np.array([[0.5]]), np.array([2.0]))
"""The implicit midpoint rule: one stage, extrapolated to the end of the step."""
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
"""Largest degree: 64 Gauss-Jacobi points per direction.  Their error is far below the error of the elements."""
MAX_QUADRATURE_NODES = 3_000_000
"""Limit of the quadrature nodes of `p1_fem`, with 600 bytes each in 3-D: 1.8 GB."""

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
        """Number of evolved unknowns n."""
        return self.space.count

    def evaluate(self, nodes: Array) -> Array:
        """Return u_h at points of the domain and all observed times, (P, d) -> (S, P)."""
        values, lifting = self.space.evaluate(nodes, self.states), self.problem.lifting
        return values if lifting is None else values + lifting.value(nodes, self.times)

    def make_system(self) -> ElementSystem:
        """Return the system that the states solve."""
        basis = self.space.interior
        mass = _product(basis.values, basis.values, basis.rule.weights)
        return ElementSystem(self.problem, self.space, self.states[0], mass)


def finite_elements(
    problem: Problem, space: ElementSpace, grid: TimeGrid, tableau: Tableau = SDIRK_4
) -> ElementSolution:
    """Solve `problem` in `space`, and keep the observed states."""
    basis, rule = space.interior, space.interior.rule
    initial = problem.initial(rule.nodes)
    if problem.lifting is not None:
        initial = initial - problem.lifting.value(rule.nodes, np.zeros(1))[0]
    # projected, not interpolated: as the P1 elements of the paper (tab:p1_fem), which this advances on other problems
    mass = _product(basis.values, basis.values, rule.weights)
    u = solver_of(mass, symmetric=True)(np.asarray(basis.values.T @ (rule.weights * initial)))
    steps = ImplicitSteps(ElementSystem(problem, space, u, mass))
    march = accumulate(tableau.times(grid), lambda u, at: steps.step(tableau, u, at, grid.dt), initial=u)
    return ElementSolution(problem, space, grid.observed_times, grid.observe(march))


def element_fields(
    data: FieldData, order: int, size: int, degree: int, grid: TimeGrid, tableau: Tableau = SDIRK_4,
    tolerance: float = 1e-13, keep: bool = True,
) -> FieldSolution:  # fmt: skip
    """Solve for fields with nonlinear fluxes by elements of the `order`, with `size` cells a direction."""
    boxes = [data.problem.box(each) for _, each in data.problem.fields]
    names = tuple({name: None for box in boxes for name in box.natural})
    spaces = {box: _field_space(element_space(box, order, size, degree, faces=names)) for box in boxes}
    return march_fields(FluxSystem(data.terms, [spaces[box] for box in boxes]), tableau, grid, tolerance, keep)


def _field_space(space: ElementSpace) -> FieldSpace:
    rule, values = space.interior.rule, space.interior.values
    mass = _product(values, values, rule.weights)
    solve = solver_of(mass, symmetric=True)
    faces = {name: (face.rule, face.values) for name, face in space.faces.items()}
    return FieldSpace(
        rule, (values, *space.interior.gradients), faces, mass,
        lambda nodal: solve(np.asarray(values.T @ (rule.weights * nodal))), space.evaluate,
    )  # fmt: skip


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
    """Return the number of quadrature nodes of all elements, which determines the memory."""
    degree = DEGREES[dimension] if degree is None else degree
    return int(factorial(dimension) * ((unknowns + 1) * (degree // 2 + 1)) ** dimension)


@dataclass(frozen=True, eq=False)
class FiniteElementReference:
    """Quadratic elements and SDIRK_4 as a reference; size: cells a direction of a box, or refinements."""

    problem: Problem | FieldData
    size: int
    grid: TimeGrid

    def check(self) -> None:
        """Raise ParameterError or ProblemError if the reference cannot be computed."""
        check_element_space(self.problem.domain, self.size, _DEGREE)
        if isinstance(self.problem, Problem) and self.problem.potential is not None:
            raise ProblemError("finite_elements must have a problem without `potential`; state -F'(u) as `reaction`")

    @property
    def key(self) -> Hashable:
        return "finite_elements", self.size, self.grid

    @property
    def coarser(self) -> FiniteElementReference:
        """Elements of twice the size, or one refinement less, and half the steps, for the final time."""
        boxed = not isinstance(self.problem.domain, Triangulated)
        size = max(1, self.size // 2 if boxed else self.size - 1)
        return replace(self, size=size, grid=TimeGrid(self.grid.final_time, (self.grid.steps + 1) // 2, ()))

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return values at observed `times`, (P, d) and (T,) -> (T, [n,] P)."""
        if isinstance(self.problem, Problem):
            space = element_space(self.problem.domain, 2, self.size, _DEGREE)
            values = finite_elements(self.problem, space, self.grid).evaluate(nodes)
        else:
            values = element_fields(self.problem, 2, self.size, _DEGREE, self.grid).evaluate(nodes)
        return values[self.grid.positions_of(times)]


class ElementSystem:
    """The system M u' = F(t) - K(t) u - r(u, t)."""

    def __init__(self, problem: Problem, space: ElementSpace, initial: Array, mass: SparseMatrix) -> None:
        self.problem, self.basis, self.initial, self.mass = problem, space.interior, initial, mass
        self.linear = not isinstance(problem.reaction, NonlinearReaction)
        # a reaction's Jacobian may make the matrix indefinite, which LU without pivoting is not stable for
        self.symmetric = problem.advection is None and self.linear
        self.autonomous = self.linear and has_steady_operator(problem)
        self._force, self._stiffness = _load(problem, space), _stiffness(problem, space)
        if has_steady_operator(problem):
            constant = self._stiffness(0.0)
            self._stiffness = lambda t: constant

    def load(self, times: Array) -> Array:
        """Return F at times, (T,) -> (T, n)."""
        return np.stack([self._force(t) for t in times.tolist()])

    def rate(self, t: float, U: Array) -> Array:
        """Return F - K u - r(u)."""
        linear = self._force(t) - self._stiffness(t) @ U
        if isinstance(law := self.problem.reaction, NonlinearReaction):
            weights, u = self.basis.rule.weights, self._nodal(U, t)
            linear = linear + self.basis.values.T @ (weights * law.value(u, self.basis.rule.nodes, t))
        return np.asarray(linear)

    def jacobian(self, t: float, U: Array) -> SparseMatrix:
        """Return -(K + r'(u))."""
        matrix = -self._stiffness(t)
        if isinstance(law := self.problem.reaction, NonlinearReaction):
            slope = law.slope(self._nodal(U, t), self.basis.rule.nodes, t)
            matrix = matrix + _product(self.basis.values, self.basis.values, self.basis.rule.weights * slope)
        return matrix

    def _nodal(self, U: Array, t: float) -> Array:
        u, lifting = np.asarray(self.basis.values @ U), self.problem.lifting
        return u if lifting is None else u + lifting.value(self.basis.rule.nodes, np.array([t]))[0]


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
    """Assemble left^T diag(w f(t)) right, once for each profile of a separable function."""
    rule = basis.rule
    if not isinstance(function, Separable):
        return lambda t: _product(left, right, rule.weights * function.at(rule.nodes, t))
    terms = [_product(left, right, rule.weights * profile) for profile in function.profiles(rule.nodes)]

    def summed(t: float) -> SparseMatrix:
        weighted = [
            float(m) * term for m, term in zip(function.evaluate_modulations(np.array([t]))[:, 0], terms, strict=True)
        ]
        return reduce(lambda one, two: one + two, weighted)

    return summed


def _load(problem: Problem, space: ElementSpace) -> VectorAt:
    """Return (f, phi_i) and the fluxes on faces, minus the terms of a lifting."""
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
    return lambda t: np.asarray(function.evaluate_modulations(np.array([t]))[:, 0] @ terms)
