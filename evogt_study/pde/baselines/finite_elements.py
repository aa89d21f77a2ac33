"""Galerkin finite elements for every term of the equation, advanced by diagonally implicit Runge-Kutta methods.

    M u' + K(t) u + r(u, t) = F(t)

with the terms of `galerkin.stiffness` on continuous elements: linear ones as a baseline of the paper (`p1_fem`),
quadratic ones as a reference.  With a lifting u_b the elements carry u - u_b.  Stages are solved by sparse LU, and
nonlinear ones by Newton's method.  Fields with nonlinear fluxes have a `FluxSystem` on elements.  POD-Galerkin is a
reduced basis from snapshots of linear elements.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from math import factorial
from typing import Any

import numpy as np
import scipy.linalg

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.baselines.element_space import ElementSpace, SparseMatrix, check_element_space, element_space
from evogt_study.pde.domains.box import Box, check_domain
from evogt_study.pde.domains.triangulated import Triangulated
from evogt_study.pde.galerkin.assembly import assemble_load, operator_matrix
from evogt_study.pde.galerkin.flux_system import FieldSpace, FluxSystem
from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem
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
_SMALLEST = 1e-14
"""Eigenvalues of the snapshots of POD-Galerkin below this part of the largest one are rounding."""
DEGREES = {1: 31, 2: 9, 3: 5}
"""Degree of the element rules of `p1_fem` by default: 16 points in 1-D (the paper's), 5^2 in 2-D, 3^3 in 3-D.  So many
points integrate coefficients that oscillate within an element."""
MAX_DEGREE = 127
"""Largest degree: 64 Gauss-Jacobi points per direction.  Their error is far below the error of the elements."""
MAX_QUADRATURE_NODES = 3_000_000
"""Limit of the quadrature nodes of `p1_fem`, with 600 bytes each in 3-D: 1.8 GB."""


@dataclass(frozen=True, eq=False)
class ElementSolution:
    """Unknowns `states` (S, n) of u - u_b at the observed `times` (S,)."""

    problem: Problem
    space: ElementSpace
    times: Array
    states: Array

    def evaluate(self, nodes: Array) -> Array:
        """Return u_h at points of the domain and all observed times, (P, d) -> (S, P)."""
        values, lifting = self.space.evaluate(nodes, self.states), self.problem.lifting
        return values if lifting is None else values + lifting.value(nodes, self.times)


def finite_elements(
    problem: Problem, space: ElementSpace, grid: TimeGrid, tableau: Tableau = SDIRK_4
) -> ElementSolution:
    """Solve `problem` in `space`, and keep the observed states."""
    basis, nodes = space.interior, space.interior.rule.nodes
    initial = problem.initial(nodes) - problem.lift_at(nodes, 0.0)
    # projected, not interpolated: as the P1 elements of the paper (tab:p1_fem), which this advances on other problems
    u = solver_of(basis.mass, symmetric=True)(basis.project(initial))
    steps = ImplicitSteps(ElementSystem(problem, space, u))
    march = accumulate(tableau.times(grid), lambda u, at: steps.step(tableau, u, at, grid.dt), initial=u)
    return ElementSolution(problem, space, grid.observed_times, grid.observe(march))


def element_fields(
    data: FieldData, order: int, size: int, degree: int, grid: TimeGrid, tableau: Tableau = SDIRK_4,
    tolerance: float = 1e-13, keep: bool = True,
) -> FieldSolution:  # fmt: skip
    """Solve for fields with nonlinear fluxes by elements of the `order`, with `size` cells a direction."""
    boxes = [data.problem.box(each) for _, each in data.problem.fields]
    names = tuple({name: None for box in boxes for name in box.natural})

    def make_space(box: Box) -> FieldSpace:
        space = element_space(box, order, size, degree, faces=names)
        basis, solve = space.interior, solver_of(space.interior.mass, symmetric=True)
        faces = {name: (face.rule, face.values) for name, face in space.faces.items()}
        matrices = (basis.values, *basis.gradients)
        return FieldSpace(
            basis.rule, matrices, faces, basis.mass, lambda nodal: solve(basis.project(nodal)), space.evaluate
        )

    spaces = {box: make_space(box) for box in {*boxes}}
    return march_fields(FluxSystem(data.terms, [spaces[box] for box in boxes]), tableau, grid, tolerance, keep)


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
        raise ProblemError("p1_fem must have a problem without `potential`. State -F'(u) as `reaction`")


def check_mesh_size(dimension: int, unknowns: int, degree: int | None = None) -> None:
    """Raise the ParameterError of `p1_fem` for the size of its space, without building it."""
    degree = DEGREES[dimension] if degree is None else degree
    if not isinstance(unknowns, (int, np.integer)) or isinstance(unknowns, bool) or unknowns < 1:
        raise ParameterError("unknowns", "an integer of at least 1", unknowns)
    if not isinstance(degree, (int, np.integer)) or isinstance(degree, bool) or not 2 <= degree <= MAX_DEGREE:
        raise ParameterError("degree", f"an integer from 2, for an exact mass matrix, to {MAX_DEGREE}", degree)
    count = count_nodes(dimension, unknowns, degree)
    if count > MAX_QUADRATURE_NODES:
        wanted = f"so few that the elements have at most {MAX_QUADRATURE_NODES:,} quadrature nodes"
        where = f"{count:,} nodes in {dimension}-D with degree {degree}"
        raise ParameterError("unknowns", wanted, unknowns, where=where, remedy="use fewer unknowns or a lower degree")


def count_nodes(dimension: int, unknowns: int, degree: int | None = None) -> int:
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
            raise ProblemError("finite_elements must have a problem without `potential`. State -F'(u) as `reaction`")

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

    def __init__(self, problem: Problem, space: ElementSpace, initial: Array) -> None:
        self.problem, self.basis, self.initial, self.mass = problem, space.interior, initial, space.interior.mass
        self.linear = problem.is_linear
        # a reaction's Jacobian may make the matrix indefinite, which LU without pivoting is not stable for
        self.symmetric = problem.advection is None and self.linear
        self.autonomous = self.linear and problem.has_steady_operator
        self.load, _ = assemble_load(self.basis, problem, space.faces)
        self._stiffness, _ = operator_matrix(self.basis, problem, space.faces)

    def rate(self, t: float, U: Array) -> Array:
        """Return F - K u - r(u)."""
        linear = self.load(np.array([t]))[0] - self._stiffness(t) @ U
        if isinstance(law := self.problem.reaction, NonlinearReaction):
            linear = linear + self.basis.project(law.value(self._nodal(U, t), self.basis.rule.nodes, t))
        return np.asarray(linear)

    def jacobian(self, t: float, U: Array) -> Any:
        """Return -(K + r'(u))."""
        matrix = -self._stiffness(t)
        if isinstance(law := self.problem.reaction, NonlinearReaction):
            matrix = matrix + self.basis.gram(law.slope(self._nodal(U, t), self.basis.rule.nodes, t))
        return matrix

    def _nodal(self, U: Array, t: float) -> Array:
        return np.asarray(self.basis.values @ U) + self.problem.lift_at(self.basis.rule.nodes, t)


def check_linear(problem: Problem) -> None:
    """Raise ProblemError for a nonlinear reaction."""
    if not problem.is_linear:
        raise ProblemError("pod_galerkin must have a reaction that is linear in u")


def pod_galerkin(
    problem: Problem, unknowns: int, grid: TimeGrid, count: int, training_time: float, degree: int | None = None
) -> tuple[ElementSolution, dict[str, float]]:
    """Evolve the `count` leading modes of the states of `p1_fem` up to `training_time` (Kunisch and Volkwein 2001).

    The basis needs the solution that it then approximates, or a first part of it.

    Return the solution in the elements, the number of modes, and CPU seconds of the basis and of the time steps.
    """
    start = time.process_time()
    whole = replace(grid, saved=tuple(range(grid.steps + 1)))
    full = p1_fem(problem, unknowns, whole, degree)
    system = ElementSystem(problem, full.space, full.states[0])
    modes = pod_modes(full.states[whole.observed_times <= training_time * (1.0 + 1e-12)], system.mass, count)
    middle = time.process_time()

    def march() -> Iterator[Array]:
        alpha, identity = modes.T @ (system.mass @ full.states[0]), np.eye(modes.shape[1])
        yield alpha
        for n, t in enumerate(grid.midpoints.tolist()):
            if n == 0 or not system.autonomous:
                K = -modes.T @ (system.jacobian(t, full.states[0]) @ modes)
                factors = scipy.linalg.lu_factor(identity + grid.dt / 2.0 * K)
            load = modes.T @ system.load(np.array([t]))[0]
            alpha = scipy.linalg.lu_solve(factors, alpha - grid.dt / 2.0 * (K @ alpha) + grid.dt * load)
            yield alpha

    states = grid.observe(march()) @ modes.T
    seconds = {"offline_seconds": middle - start, "online_seconds": time.process_time() - middle}
    solution = ElementSolution(problem, full.space, grid.observed_times, states)
    return solution, {"degrees_of_freedom": modes.shape[1], **seconds}


def pod_modes(states: Array, mass: SparseMatrix, count: int) -> Array:
    """Return the leading modes (n, r) of states (S, n), orthonormal in the mass."""
    eigenvalues, vectors = scipy.linalg.eigh(np.asarray(states @ (mass @ states.T)))
    kept = [k for k in reversed(range(len(eigenvalues))) if eigenvalues[k] > _SMALLEST * eigenvalues[-1] > 0.0][:count]
    if not kept:
        raise ProblemError("pod_galerkin must have snapshots that are not zero")
    return np.asarray(states.T @ (vectors[:, kept] / np.sqrt(eigenvalues[kept])))
