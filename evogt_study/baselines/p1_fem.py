"""Continuous piecewise-linear Galerkin finite elements on a uniform mesh of the unit cube (tab:p1_fem).

    M u' + K(t) u = F(t),    M_ij = (phi_i, phi_j),  K_ij = (a(t) grad phi_i, grad phi_j),  F_i = (f(t), phi_i)

for the hat functions phi_i of the n^d interior vertices of a mesh with h = 1/(n + 1): consistent mass, L2-projected
initial value, zero Dirichlet values, and the implicit midpoint rule in time,

    (M + s K) u^{n+1} = (M - s K) u^n + dt F,    s = dt/2,  K and F at t_{n+1/2} = (n + 1/2) dt.

Meshes and element matrices are scikit-fem's; linear systems are solved by sparse LU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import skfem

from evogt_study.baselines.element_space import element_space
from evogt_study.baselines.finite_elements import MIDPOINT, ElementSolution, finite_elements
from evogt_study.baselines.sparse_solve import SparseMatrix, factorised
from evogt_study.errors import ParameterError, ProblemError
from evogt_study.numerics.arrays import Array
from evogt_study.numerics.domains import UnitCube
from evogt_study.numerics.domains.box import check_box
from evogt_study.numerics.domains.triangulated import simplex_rule
from evogt_study.numerics.galerkin import check_diffusion
from evogt_study.numerics.problem import Problem, Separable, SpaceTimeFunction, Tensor
from evogt_study.numerics.quadrature import Quadrature
from evogt_study.numerics.time_grid import TimeGrid

# high, so that coefficients that oscillate within an element are integrated as exactly as by the paper's 16 points
DEGREES = {1: 31, 2: 9, 3: 5}
"""Polynomial degree of the default element integration: 16 points in 1-D (the paper's), 5^2 in 2-D, 3^3 in 3-D."""
# 64 Gauss-Jacobi points a direction, far beyond what the elements' own error leaves visible
MAX_DEGREE = 127
# at 330 bytes a node, with scikit-fem's copies, this is one gigabyte
MAX_QUADRATURE_NODES = 3_000_000

_ELEMENTS = {
    1: (skfem.MeshLine, skfem.ElementLineP1),
    2: (skfem.MeshTri, skfem.ElementTriP1),
    3: (skfem.MeshTet, skfem.ElementTetP1),
}
_MASS = skfem.BilinearForm(lambda u, v, w: u * v)
_STIFFNESS = skfem.BilinearForm(lambda u, v, w: w.a * sum(u.grad[i] * v.grad[i] for i in range(len(u.grad))))
_LOAD = skfem.LinearForm(lambda v, w: w.f * v)


@dataclass(frozen=True, eq=False)
class P1Space:
    """The hat functions of the interior vertices, and the element quadrature that integrates against them.

    unknowns n, the number of interior vertices in a direction; basis: scikit-fem's, with one degree of freedom for each
    vertex of the mesh; interior (n^d,): the degrees of freedom that are unknowns; quadrature: all element rules as one
    rule on the unit cube.
    """

    unknowns: int
    basis: Any
    interior: npt.NDArray[np.intp]
    quadrature: Quadrature

    @property
    def vertices(self) -> Array:
        """Vertices whose nodal values are the unknowns, (n^d, d)."""
        return np.asarray(self.basis.doflocs[:, self.interior].T)

    def mass(self) -> SparseMatrix:
        """M, (n^d, n^d), integrated exactly and not lumped."""
        return self._restricted(_MASS.assemble(self.basis))

    def stiffness(self, nodal: Array) -> SparseMatrix:
        """K, (n^d, n^d), for a diffusion with the values `nodal` (Q,) at the quadrature nodes."""
        return self._restricted(_STIFFNESS.assemble(self.basis, a=self._by_element(nodal)))

    def load(self, nodal: Array) -> Array:
        """(v, phi_i) for a function v with the values `nodal` (Q,) at the quadrature nodes, (n^d,)."""
        return np.asarray(_LOAD.assemble(self.basis, f=self._by_element(nodal))[self.interior])

    def interpolation(self, nodes: Array) -> sparse.csr_array[np.float64]:
        """The matrix that takes unknowns to values at `nodes` (P, d), shape (P, n^d).

        Raises ParameterError for a point outside the unit cube.
        """
        if not np.all((nodes >= 0.0) & (nodes <= 1.0)):
            raise ParameterError("nodes", "points of the closed unit cube", nodes)
        elements, barycentric = self._located(nodes)
        columns = self.basis.element_dofs[:, elements]
        rows = np.broadcast_to(np.arange(len(nodes)), columns.shape)
        shape = (len(nodes), int(self.basis.N))
        every = sparse.coo_array((barycentric.ravel(), (rows.ravel(), columns.ravel())), shape=shape)
        return sparse.csr_array(every.tocsc()[:, self.interior])

    def _located(self, nodes: Array) -> tuple[npt.NDArray[np.intp], Array]:
        """The element around each of the `nodes`, (P,), and barycentric coordinates in it, (d + 1, P).

        A point is compared with the d! elements of its own cube only.  (scikit-fem's finder for any mesh compares every
        point with the candidates of all points, which is too much memory for a validation grid.)
        """
        mesh, cells = self.basis.mesh, self.unknowns + 1
        centroids = mesh.p[:, mesh.t].mean(axis=1).T
        in_cube = np.argsort(_cube_of(centroids, cells), kind="stable").reshape(cells ** nodes.shape[1], -1)
        candidates = in_cube[_cube_of(nodes, cells)]
        repeated = np.repeat(nodes.T, candidates.shape[1], axis=1)[:, :, None]
        local = self.basis.mapping.invF(repeated, tind=candidates.ravel())[:, :, 0]
        barycentric = np.concatenate([1.0 - local.sum(axis=0, keepdims=True), local]).reshape(-1, *candidates.shape)
        # the element in which the least coordinate is largest: on a common face, where rounding makes both slightly
        # negative, it is either, and both give the same value
        inside = np.argmax(barycentric.min(axis=0), axis=1)
        point = np.arange(len(nodes))
        return candidates[point, inside], barycentric[:, point, inside]

    def _by_element(self, nodal: Array) -> Array:
        return np.reshape(nodal, self.basis.dx.shape)

    def _restricted(self, matrix: Any) -> SparseMatrix:
        return sparse.csc_array(matrix)[self.interior][:, self.interior]


def _cube_of(nodes: Array, cells: int) -> npt.NDArray[np.intp]:
    """Number of the mesh cube around each of the `nodes`, (P, d) -> (P,)."""
    # the point x = 1 belongs to the last cube
    steps = np.minimum((nodes * cells).astype(np.intp), cells - 1)
    return np.asarray(np.ravel_multi_index(tuple(steps.T), (cells,) * nodes.shape[1]))


def p1_space(dimension: int, unknowns: int, degree: int | None = None) -> P1Space:
    """P1 elements on the uniform mesh with `unknowns` interior vertices a direction, h = 1/(unknowns + 1).

    Intervals, triangles (two a square) or tetrahedra (six a cube); element integrals are exact for polynomials of
    `degree`, see `DEGREES` for what None stands for.  Raises ParameterError for a count or a degree that is too small,
    or so large that the quadrature nodes would not fit in memory.
    """
    check_size(dimension, unknowns, degree)
    degree = DEGREES[dimension] if degree is None else degree
    mesh, element = _ELEMENTS[dimension]
    along = np.linspace(0.0, 1.0, unknowns + 2)
    rule = simplex_rule(dimension, degree // 2 + 1)
    basis = skfem.Basis(mesh.init_tensor(*[along] * dimension), element(), quadrature=rule)
    interior = basis.complement_dofs(basis.get_dofs().flatten())
    nodes = np.asarray(basis.global_coordinates()).reshape(dimension, -1).T
    return P1Space(unknowns, basis, interior, Quadrature(nodes, basis.dx.ravel()))


def check_size(dimension: int, unknowns: int, degree: int | None = None) -> None:
    """Raise the ParameterError of `p1_space`, without building the space."""
    degree = DEGREES[dimension] if degree is None else degree
    if not isinstance(unknowns, (int, np.integer)) or isinstance(unknowns, bool) or unknowns < 1:
        raise ParameterError("unknowns", "an integer of at least 1", unknowns)
    if not isinstance(degree, (int, np.integer)) or isinstance(degree, bool) or not 2 <= degree <= MAX_DEGREE:
        raise ParameterError("degree", f"an integer from 2, for an exact mass matrix, to {MAX_DEGREE}", degree)
    count = quadrature_nodes(dimension, unknowns, degree)
    if count > MAX_QUADRATURE_NODES:
        raise ParameterError(
            "unknowns",
            f"so few that the elements have at most {MAX_QUADRATURE_NODES:,} quadrature nodes",
            unknowns,
            where=f"{count:,} nodes in {dimension}-D with degree {degree}",
            remedy="use fewer unknowns or a lower degree",
        )


def quadrature_nodes(dimension: int, unknowns: int, degree: int | None = None) -> int:
    """Number of quadrature nodes of all elements, on which memory depends."""
    degree = DEGREES[dimension] if degree is None else degree
    return int(factorial(dimension) * ((unknowns + 1) * (degree // 2 + 1)) ** dimension)


@dataclass(frozen=True, eq=False)
class FiniteElementSolution:
    """Nodal values `states` (S, n^d) of the interior vertices at the observed `times` (S,)."""

    space: P1Space
    times: Array
    states: Array

    @property
    def dofs(self) -> int:
        """n^d, the number of evolved unknowns."""
        return int(self.states.shape[1])

    def evaluate(self, nodes: Array) -> Array:
        """u_h at any points of the unit cube and all observed times, (P, d) -> (S, P).

        Raises ParameterError for a point outside.
        """
        return np.asarray((self.space.interpolation(nodes) @ self.states.T).T)


def p1_fem(
    problem: Problem, unknowns: int, grid: TimeGrid, degree: int | None = None
) -> FiniteElementSolution | ElementSolution:
    """Solve `problem` by P1 elements with `unknowns` interior vertices a direction, and the implicit midpoint rule.

    `grid` says which steps are kept (its observed ones: the saved ones, the first and the last).  `degree` is the
    polynomial degree of the element integration, by default `DEGREES`; the paper's 16-point Gauss rule is degree 31.

    Raises ParameterError (see `p1_space`), and ProblemError where the diffusion is not positive at a quadrature node,
    for a potential, and for another domain than a box.
    """
    check_admitted(problem)
    diffusion = problem.diffusion
    if not is_basic(problem) or isinstance(diffusion, Tensor):
        every = element_space(problem.domain, 1, unknowns + 1, degree or DEGREES[problem.dimension], "unknowns")
        check_diffusion(problem, every.interior.rule, grid.midpoints)
        return finite_elements(problem, every, grid, MIDPOINT)
    space = p1_space(problem.dimension, unknowns, degree)
    _check_diffusion(space, problem, grid)
    mass = space.mass()
    # projected, not interpolated: the paper's numbers come of that
    initial = factorised(mass)(space.load(problem.initial(space.quadrature.nodes)))
    stiffness, load = _stiffness(space, diffusion), _load(space, problem.source)
    states = _march(mass, stiffness, load, initial, grid, steady=diffusion.steady)
    return FiniteElementSolution(space, grid.observed_times, states)


def is_basic(problem: Problem) -> bool:
    """Return True for the paper's problem: a scalar diffusion and zero values on the boundary of the unit cube."""
    return problem.plain and problem.lifting is None and isinstance(problem.domain, UnitCube)


def check_admitted(problem: Problem) -> None:
    """Raise ProblemError for a potential, and for another domain than a box."""
    check_box(problem.domain, "p1_fem")
    if problem.potential is not None:
        raise ProblemError("p1_fem must have a problem without `potential`; state -F'(u) as `reaction`")


def _check_diffusion(space: P1Space, problem: Problem, grid: TimeGrid) -> None:
    """Raise ProblemError unless a > 0 at every quadrature node and midpoint; asks for as many times at once as fit."""
    times = grid.midpoints[:1] if problem.diffusion.steady else grid.midpoints
    at_once = max(1, MAX_QUADRATURE_NODES // len(space.quadrature.weights))
    for part in np.array_split(times, -(-len(times) // at_once)):
        check_diffusion(problem, space.quadrature, part)


def _stiffness(space: P1Space, diffusion: SpaceTimeFunction) -> Callable[[float], SparseMatrix]:
    """t -> K(t), assembled once for each profile of a separable diffusion and at each t otherwise."""
    nodes = space.quadrature.nodes
    if not isinstance(diffusion, Separable):
        return lambda t: space.stiffness(diffusion.at(nodes, t))
    terms = [space.stiffness(profile) for profile in diffusion.profiles(nodes)]

    def summed(t: float) -> SparseMatrix:
        modulations = diffusion.modulated(np.array([t]))[:, 0]
        first, *others = (float(m) * term for m, term in zip(modulations, terms, strict=True))
        return sum(others, start=first)

    return summed


def _load(space: P1Space, source: SpaceTimeFunction) -> Callable[[float], Array]:
    """t -> F(t), likewise."""
    nodes = space.quadrature.nodes
    if not isinstance(source, Separable):
        return lambda t: space.load(source.at(nodes, t))
    terms = np.stack([space.load(profile) for profile in source.profiles(nodes)])
    return lambda t: np.asarray(source.modulated(np.array([t]))[:, 0] @ terms)


def _march(
    mass: SparseMatrix,
    stiffness: Callable[[float], SparseMatrix],
    load: Callable[[float], Array],
    initial: Array,
    grid: TimeGrid,
    *,
    steady: bool,
) -> Array:
    """The observed states of the implicit midpoint rule, (S, n^d); the matrix is factorised once where K is steady."""
    half, observed = 0.5 * grid.dt, set(grid.observed)
    u, states = initial, {0: initial}
    K, solve = None, None
    for step, t in enumerate(grid.midpoints.tolist()):
        # a factorisation takes some twenty times as long as a solve
        if K is None or solve is None or not steady:
            K = stiffness(t)
            solve = factorised(mass + half * K)
        u = solve(mass @ u - half * (K @ u) + grid.dt * load(t))
        if step + 1 in observed:
            states[step + 1] = u
    return np.stack([states[step] for step in grid.observed])
