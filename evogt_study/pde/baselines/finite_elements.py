"""Solve problems by linear elements (a baseline), by quadratic elements (a reference) and by POD-Galerkin.

`galerkin.system` assembles the sparse matrices.  Fields with nonlinear fluxes use a `FluxSystem` on elements.
"""

import time
from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sparse
import skfem
from scipy.spatial import cKDTree

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.box import DIRECTIONS, Box, check_domain, to_box
from evogt_study.pde.domains.plane import Triangulated, make_simplex_rule
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import Basis, GalerkinSystem, assemble_system, check_diffusion
from evogt_study.pde.integrators import ImplicitMidpoint
from evogt_study.pde.integrators.flux_system import FieldSolution, FieldSpace, FluxSystem, march_fields
from evogt_study.pde.integrators.runge_kutta import ImplicitSteps, Tableau, factorise
from evogt_study.pde.numerics import Array, Quadrature, TimeGrid
from evogt_study.pde.problems.fields import FieldData

SparseMatrix = sparse.csr_array[np.float64]

MAX_REFERENCE_NODES = 4_000_000
"""Largest number of quadrature nodes.  The matrices of quadratic elements then take about 2 GB."""
POINTS_AT_ONCE = 20_000
"""Number of points in one search.  Their small systems, for 12 candidate elements per point, take tens of MB."""
_NEAREST, _MAX_NEAREST = 12, 3072
"""Smallest and largest number of near elements in the search for a point.  Most points need 12 elements."""
_ROUNDING = 1e-9
"""Tolerance for negative local coordinates of a point on a face of an element."""
_MESHES = {1: skfem.MeshLine, 2: skfem.MeshTri, 3: skfem.MeshTet}
_ELEMENTS = {
    (1, 1): skfem.ElementLineP1, (1, 2): skfem.ElementTriP1, (1, 3): skfem.ElementTetP1,
    (2, 1): skfem.ElementLineP2, (2, 2): skfem.ElementTriP2, (2, 3): skfem.ElementTetP2,
}  # fmt: skip
MIDPOINT = ImplicitMidpoint.tableau
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
"""L-stable tableau of order four (Hairer and Wanner, Solving Ordinary Differential Equations II, table IV.6.5)."""
_DEGREE = 8
"""Degree of the quadrature rules on the elements of a reference."""
_MIN_EIGENVALUE_RATIO = 1e-14
"""Smallest ratio of a snapshot eigenvalue to the largest eigenvalue in POD-Galerkin.  Smaller ratios are rounding."""
DEGREES = {1: 31, 2: 9, 3: 5}
"""Default degree of the quadrature rules of `p1_fem`, with 16 points in 1-D, 5^2 in 2-D and 3^3 in 3-D."""
MAX_DEGREE = 127
"""Largest degree of a quadrature rule on elements, with 64 Gauss-Jacobi points per direction."""
MAX_QUADRATURE_NODES = 3_000_000
"""Largest number of quadrature nodes of `p1_fem`.  In 3-D, each node takes 600 bytes, 1.8 GB in total."""


class SparseBasis(Basis):
    """Basis functions that vanish at most nodes, as sparse matrices."""

    values: SparseMatrix
    gradients: tuple[SparseMatrix, ...]

    def product(self, left: SparseMatrix, right: SparseMatrix, nodal: Array) -> SparseMatrix:
        return sparse.csr_array(left.T @ (sparse.diags_array(self.rule.weights * nodal) @ right))

    @cached_property
    def mass(self) -> SparseMatrix:
        """Mass matrix of the basis functions."""
        mass: SparseMatrix = self.gram(np.ones(len(self.rule.weights)))
        return mass


@dataclass(frozen=True, eq=False)
class ElementSpace:
    """Space of continuous elements that vanish on faces with given values and agree on periodic faces."""

    basis: Any
    reduction: SparseMatrix
    interior: SparseBasis
    faces: dict[str, SparseBasis]

    def evaluate(self, nodes: Array, states: Array) -> Array:
        """Evaluate functions with unknowns (S, n) at points (P, d).  Points off the mesh use the nearest element."""
        dofs = self.reduction @ states.T
        parts = [nodes[first : first + POINTS_AT_ONCE] for first in range(0, len(nodes), POINTS_AT_ONCE)]
        return np.concatenate([self._evaluate_basis(part) @ dofs for part in parts]).T

    def _evaluate_basis(self, nodes: Array) -> SparseMatrix:
        elements, local = self._locate(nodes)
        columns = self.basis.element_dofs[:, elements]
        values = [
            np.asarray(self.basis.elem.gbasis(self.basis.mapping, local[:, :, None], i, tind=elements)[0])[:, 0]
            for i in range(len(columns))
        ]
        rows = np.broadcast_to(np.arange(len(nodes)), columns.shape)
        shape = (len(nodes), int(self.basis.N))
        return sparse.csr_array((np.concatenate(values), (rows.ravel(), columns.ravel())), shape=shape)

    # The search of scikit-fem is slower, and it raises an error for points outside of a curved boundary.
    def _locate(self, nodes: Array) -> tuple[npt.NDArray[np.intp], Array]:
        """Return the element of each point, and the local coordinates of the point in this element (d, P)."""
        mesh, count = self.basis.mesh, _NEAREST
        corners = np.moveaxis(mesh.doflocs[:, mesh.t[: mesh.dim() + 1]], -1, 0)
        tree = cKDTree(corners.mean(axis=2))
        # a point outside of the mesh keeps the first element
        elements, local, depth = _find_deepest(corners, tree, nodes, count)
        while (outside := np.flatnonzero(depth < -_ROUNDING)).size and count < min(_MAX_NEAREST, tree.n):
            count *= 4
            for part in np.array_split(outside, -(-outside.size * count // (_NEAREST * POINTS_AT_ONCE))):
                found = _find_deepest(corners, tree, nodes[part], count)
                inside = found[2] >= -_ROUNDING
                elements[part[inside]], local[part[inside]], depth[part[inside]] = (each[inside] for each in found)
        if not isinstance(mesh, skfem.MeshTri2):
            return elements, local.T
        # For curved sides, the affine map through the corners finds the element but not the local coordinates.
        try:
            return elements, np.asarray(self.basis.mapping.invF(nodes.T[:, :, None], tind=elements)[:, :, 0])
        except Exception as error:  # scikit-fem raises no narrower type
            if "Newton iteration" not in str(error):
                raise
            wanted = "so large that each point is in a curved triangle, also of the coarser reference"
            raise ParameterError("reference_points", wanted, f"{mesh.nelements} triangles") from error


def _find_deepest(corners: Array, tree: Any, nodes: Array, count: int) -> tuple[npt.NDArray[np.intp], Array, Array]:
    """Return the near element in which each point lies deepest, its local coordinates there, and its depth."""
    nearest = np.asarray(tree.query(nodes, k=range(1, min(count, tree.n) + 1))[1])
    chosen = corners[nearest]
    offset = nodes[:, None] - chosen[..., 0]
    inner = np.linalg.solve(np.asarray(chosen[..., 1:] - chosen[..., :1]), offset[..., None])[..., 0]
    depths = np.minimum(inner.min(axis=2), 1.0 - inner.sum(axis=2))
    best = np.arange(len(nodes)), np.argmax(depths, axis=1)
    return nearest[best], inner[best], depths[best]


def make_element_space(
    domain: Domain, order: int, size: int, degree: int, faces: tuple[str, ...] | None = None
) -> ElementSpace:
    """Return the space of elements of `order` 1 or 2 with rules exact to `degree`, also on natural or given `faces`.

    The `size` is the number of cells per direction of a box, or the number of refinements of triangles.
    """
    d = domain.dimension
    if isinstance(domain, Triangulated):
        mesh = domain.refine(size)
    else:
        mesh = _MESHES[d].init_tensor(*to_box(domain).axes(size + 1))
    element = _ELEMENTS[order, d]()
    # p = degree // 2 + 1 Gauss points per direction, the least number with 2 p - 1 >= degree
    basis = skfem.Basis(mesh, element, quadrature=make_simplex_rule(d, degree // 2 + 1))
    reduction = _number_unknowns(basis, domain)
    rule = make_simplex_rule(d - 1, degree // 2 + 1) if d > 1 else (np.zeros((1, 1)), np.ones(1))
    on_faces = {
        face: _sample_basis(
            skfem.FacetBasis(mesh, element, facets=_find_facets(basis, domain, (face,)), quadrature=rule), reduction
        )
        for face in (domain.natural if faces is None else faces)
    }
    return ElementSpace(basis, reduction, _sample_basis(basis, reduction), on_faces)


def _number_unknowns(basis: Any, domain: Domain) -> SparseMatrix:
    """Return the matrix from unknowns to degrees of freedom, which are zero on faces with given values."""
    count, periods = int(basis.N), domain.periods()
    free = (*domain.natural, *(f"{DIRECTIONS[axis]}{side}" for axis in periods for side in (0, 1)))
    facets = np.setdiff1d(basis.mesh.boundary_facets(), _find_facets(basis, domain, free))
    fixed, master = np.asarray(basis.get_dofs(facets).flatten()), np.arange(count)
    if periods:
        # A degree of freedom on the upper face has the coordinates of its partner modulo one, up to rounding errors.
        box = to_box(domain)
        unit = np.round((np.asarray(basis.doflocs) - np.array(box.lower)[:, None]) / box.widths[:, None], 9)
        unit[list(periods)] %= 1.0
        _, first, inverse = np.unique(unit, axis=1, return_index=True, return_inverse=True)
        master = first[np.ravel(inverse)]
    kept = np.setdiff1d(master, fixed)
    number = np.full(count, -1)
    number[kept] = np.arange(len(kept))
    rows = np.flatnonzero(number[master] >= 0)
    return sparse.csr_array((np.ones(len(rows)), (rows, number[master[rows]])), shape=(count, len(kept)))


def _find_facets(basis: Any, domain: Domain, names: tuple[str, ...]) -> npt.NDArray[np.intp]:
    """Return the numbers of the facets on the parts of the boundary with these names."""
    facets = np.asarray(basis.mesh.boundary_facets())
    middles = basis.mesh.p[:, basis.mesh.facets[:, facets]].mean(axis=1)
    if isinstance(domain, Triangulated):
        on = np.array([domain.find_face(middle) in names for middle in middles.T], dtype=bool)
    else:
        box, on = to_box(domain), np.zeros(len(facets), dtype=bool)
        unit = (middles - np.array(box.lower)[:, None]) / box.widths[:, None]
        for name in names:
            on |= np.abs(unit[DIRECTIONS.index(name[0])] - int(name[1])) < 1e-9
    return np.asarray(facets[on], dtype=np.intp)


# Each term of the equation is then a product of two sparse matrices and a diagonal matrix of weights.
def _sample_basis(basis: Any, reduction: SparseMatrix) -> SparseBasis:
    """Return the basis functions of the unknowns at the nodes of a scikit-fem basis."""
    dimension, (elements, points) = basis.mesh.dim(), basis.dx.shape
    rows = np.arange(elements * points).reshape(elements, points)
    columns = [np.broadcast_to(dofs[:, None], rows.shape) for dofs in basis.element_dofs]

    def matrix(parts: list[Array]) -> SparseMatrix:
        data = np.concatenate([np.broadcast_to(part, rows.shape).ravel() for part in parts])
        places = (np.tile(rows.ravel(), len(parts)), np.concatenate([c.ravel() for c in columns]))
        return sparse.csr_array(sparse.csr_array((data, places), shape=(rows.size, int(basis.N))) @ reduction)

    functions = [found[0] for found in basis.basis]
    nodes = np.asarray(basis.global_coordinates()).reshape(dimension, -1).T
    gradients = tuple(matrix([f.grad[axis] for f in functions]) for axis in range(dimension))
    return SparseBasis(Quadrature(nodes, basis.dx.ravel()), matrix([np.asarray(f) for f in functions]), gradients)


@dataclass(frozen=True, eq=False)
class ElementSolution:
    """Solution in elements, as unknowns `states` (S, n) of u - u_b at the observed `times` (S,)."""

    problem: Problem
    space: ElementSpace
    times: Array
    states: Array

    def evaluate(self, nodes: Array) -> Array:
        """Return u_h at the points `nodes` and all observed times, (P, d) -> (S, P)."""
        values, lifting = self.space.evaluate(nodes, self.states), self.problem.lifting
        return values if lifting is None else values + lifting.value(nodes, self.times)


def finite_elements(
    problem: Problem, space: ElementSpace, grid: TimeGrid, tableau: Tableau = SDIRK_4
) -> ElementSolution:
    """Solve `problem` in `space`, and return the states at the observed times."""
    basis, nodes = space.interior, space.interior.rule.nodes
    initial = problem.initial(nodes) - problem.lift_at(nodes, 0.0)
    # a projection instead of an interpolation, as for the P1 elements of the paper (tab:p1_fem)
    u = factorise(basis.mass, definite=True)(basis.project(initial))
    states = ImplicitSteps(_assemble_elements(problem, space, u)).march(tableau, u, grid)
    return ElementSolution(problem, space, grid.observed_times, states)


def _assemble_elements(problem: Problem, space: ElementSpace, initial: Array) -> GalerkinSystem:
    return assemble_system(space.interior, problem, space.faces, initial, mass=space.interior.mass)


def solve_fields_by_elements(
    data: FieldData, order: int, size: int, degree: int, grid: TimeGrid, tableau: Tableau = SDIRK_4,
    tolerance: float = 1e-13, keep: bool = True,
) -> FieldSolution:  # fmt: skip
    """Solve for fields with nonlinear fluxes by elements of this `order`, with `size` cells per direction."""
    boxes = [data.problem.box(each) for _, each in data.problem.fields]
    names = tuple({name: None for box in boxes for name in box.natural})

    def make_space(box: Box) -> FieldSpace:
        space = make_element_space(box, order, size, degree, faces=names)
        basis, solve = space.interior, factorise(space.interior.mass, definite=True)
        return FieldSpace(basis, space.faces, basis.mass, lambda nodal: solve(basis.project(nodal)), space.evaluate)

    spaces = {box: make_space(box) for box in {*boxes}}
    return march_fields(FluxSystem(data.terms, [spaces[box] for box in boxes]), tableau, grid, tolerance, keep)


def p1_fem(problem: Problem, unknowns: int, grid: TimeGrid, degree: int | None = None) -> ElementSolution:
    """Solve `problem` by P1 elements with `unknowns` interior vertices per direction and the implicit midpoint rule."""
    check_admitted(problem)
    degree = check_mesh_size(problem.dimension, unknowns, degree)
    space = make_element_space(problem.domain, 1, int(unknowns) + 1, int(degree))
    times = grid.midpoints[:1] if problem.diffusion.steady else grid.midpoints
    at_once = max(1, MAX_QUADRATURE_NODES // len(space.interior.rule.weights))
    for part in np.array_split(times, -(-len(times) // at_once)):
        check_diffusion(problem, space.interior.rule, part)
    return finite_elements(problem, space, grid, MIDPOINT)


def check_admitted(problem: Problem) -> None:
    """Raise ProblemError if `problem` has a potential or its domain is not a box."""
    check_domain(problem.domain, "p1_fem", Box)
    if problem.potential is not None:
        raise ProblemError("p1_fem must have a problem without `potential`. State -F'(u) as `reaction`")


def check_mesh_size(dimension: int, unknowns: int, degree: int | None = None) -> int:
    """Raise ParameterError if `unknowns` or `degree` is invalid for `p1_fem`, and return the degree."""
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
    return degree


def count_nodes(dimension: int, unknowns: int, degree: int | None = None) -> int:
    """Return the number of quadrature nodes of all elements, which determines the memory."""
    degree = DEGREES[dimension] if degree is None else degree
    return int(factorial(dimension) * ((unknowns + 1) * (degree // 2 + 1)) ** dimension)


def solve_by_quadratic_elements(
    problem: Problem | FieldData, size: int, grid: TimeGrid
) -> ElementSolution | FieldSolution:
    """Solve `problem` by quadratic elements and `SDIRK_4`, with `size` cells per direction or refinements."""
    if isinstance(problem, Problem):
        return finite_elements(problem, make_element_space(problem.domain, 2, size, _DEGREE), grid)
    return solve_fields_by_elements(problem, 2, size, _DEGREE, grid)


def check_quadratic_elements(problem: Problem | FieldData, size: int) -> int:
    """Raise ParameterError or ProblemError for an invalid reference, and return the size of its coarser version."""
    if not isinstance(size, int) or size < 1:
        raise ParameterError("reference_points", "an integer >= 1", size)
    domain, d = problem.domain, problem.domain.dimension
    elements = factorial(d) * size**d
    if isinstance(domain, Triangulated):
        elements = 4**size * int(domain.make_triangles().t.shape[1])
    if elements * (_DEGREE // 2 + 1) ** d > MAX_REFERENCE_NODES:
        wanted = f"so small that the elements have at most {MAX_REFERENCE_NODES:,} quadrature nodes"
        raise ParameterError("reference_points", wanted, size)
    if isinstance(problem, Problem) and problem.potential is not None:
        raise ProblemError("finite_elements must have a problem without `potential`. State -F'(u) as `reaction`")
    return max(1, size - 1 if isinstance(domain, Triangulated) else size // 2)


def pod_galerkin(
    problem: Problem, unknowns: int, grid: TimeGrid, count: int, training_time: float, degree: int | None = None
) -> tuple[ElementSolution, dict[str, float]]:
    """Solve `problem` in the leading POD modes of `p1_fem` up to `training_time` (Kunisch and Volkwein 2001).

    Return the solution, and a dictionary with the number of modes and the CPU seconds of the basis and of the steps.
    """
    start = time.process_time()
    whole = replace(grid, saved=tuple(range(grid.steps + 1)))
    full = p1_fem(problem, unknowns, whole, degree)
    system = _assemble_elements(problem, full.space, full.states[0])
    snapshots = full.states[whole.observed_times <= training_time * (1.0 + 1e-12)]
    # the leading modes (n, r), orthonormal with respect to the mass matrix
    values, vectors = scipy.linalg.eigh(np.asarray(snapshots @ (system.mass @ snapshots.T)))
    kept = [k for k in reversed(range(len(values))) if values[k] > _MIN_EIGENVALUE_RATIO * values[-1] > 0.0][:count]
    if not kept:
        raise ProblemError("pod_galerkin must have snapshots that are not zero")
    modes = np.asarray(snapshots.T @ (vectors[:, kept] / np.sqrt(values[kept])))
    middle = time.process_time()

    first = full.states[0]
    reduced = GalerkinSystem(
        lambda t: np.asarray(-modes.T @ (system.jacobian(t, first) @ modes)), system.autonomous,
        lambda times: np.stack([modes.T @ system.load(np.array([t]))[0] for t in times]),
        modes.T @ (system.mass @ first), symmetric=False,
    )  # fmt: skip
    states = ImplicitMidpoint().march(reduced, grid).coefficients @ modes.T
    seconds = {"offline_seconds": middle - start, "online_seconds": time.process_time() - middle}
    solution = ElementSolution(problem, full.space, grid.observed_times, states)
    return solution, {"degrees_of_freedom": modes.shape[1], **seconds}
