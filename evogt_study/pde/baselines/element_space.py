"""Finite element spaces on the domains of problems: sparse matrices of values at quadrature nodes, by scikit-fem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import skfem
from scipy.spatial import cKDTree

from evogt_study.errors import ParameterError
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.box import DIRECTIONS, Box, as_box
from evogt_study.pde.domains.triangulated import Triangulated, simplex_rule
from evogt_study.pde.galerkin.assembly import Basis
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature

SparseMatrix = sparse.csr_array[np.float64]

MOST_NODES = 4_000_000
"""Limit of the quadrature nodes of all elements: some 2 GB with the matrices of quadratic elements."""
POINTS_AT_ONCE = 20_000
"""Number of points in one search, with 12 candidate elements each: tens of MB of small systems."""
_NEAREST, MOST_NEAREST = 12, 3072
"""Elements in which a point is searched: the nearest centroids at first, then four times as many until the point is in
one, or outside of the mesh.  Triangles 50 times as long as wide need some 200."""
_ROUNDING = 1e-9
"""Tolerance below zero for a coordinate of a point on a face of an element."""
_MESHES = {1: skfem.MeshLine, 2: skfem.MeshTri, 3: skfem.MeshTet}
_ELEMENTS = {
    (1, 1): skfem.ElementLineP1, (1, 2): skfem.ElementTriP1, (1, 3): skfem.ElementTetP1,
    (2, 1): skfem.ElementLineP2, (2, 2): skfem.ElementTriP2, (2, 3): skfem.ElementTetP2,
}  # fmt: skip


class SparseBasis(Basis):
    """Functions that vanish at most nodes, as sparse matrices."""

    values: SparseMatrix
    gradients: tuple[SparseMatrix, ...]

    def product(self, left: SparseMatrix, right: SparseMatrix, nodal: Array) -> SparseMatrix:
        return sparse.csr_array(left.T @ (sparse.diags_array(self.rule.weights * nodal) @ right))

    @cached_property
    def mass(self) -> SparseMatrix:
        """The mass matrix."""
        mass: SparseMatrix = self.gram(np.ones(len(self.rule.weights)))
        return mass


@dataclass(frozen=True, eq=False)
class ElementSpace:
    """Continuous elements that vanish on Dirichlet faces and are equal on periodic faces."""

    basis: Any
    reduction: SparseMatrix
    interior: SparseBasis
    faces: dict[str, SparseBasis]

    @property
    def count(self) -> int:
        """Number of unknowns n."""
        return int(self.reduction.shape[1])

    def evaluate(self, nodes: Array, states: Array) -> Array:
        """Return functions with these unknowns, (S, n), at any points of the domain, (P, d) -> (S, P).

        A point outside of the mesh, by which a curved boundary is missed, takes the polynomial of the nearest element.
        """
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

    # scikit-fem searches the candidates of all points for each of them, and refuses points outside of a curved boundary
    def _locate(self, nodes: Array) -> tuple[npt.NDArray[np.intp], Array]:
        """Find the element of each point among the nearest elements, and its coordinates there (d, P)."""
        mesh, count = self.basis.mesh, _NEAREST
        corners = np.moveaxis(mesh.doflocs[:, mesh.t[: mesh.dim() + 1]], -1, 0)
        tree, outside = cKDTree(corners.mean(axis=2)), np.arange(len(nodes))
        elements, local = np.zeros(len(nodes), dtype=np.intp), np.empty_like(nodes)
        while outside.size:
            depth = np.empty(len(outside))
            for part in np.array_split(
                np.arange(len(outside)), -(-len(outside) * count // (_NEAREST * POINTS_AT_ONCE))
            ):
                places = outside[part]
                nearest = np.asarray(tree.query(nodes[places], k=range(1, min(count, tree.n) + 1))[1])
                found, within, depth[part] = _find_deepest(corners, nodes[places], nearest)
                # one that a curved boundary leaves out of the mesh stays with the nearest
                inside = (depth[part] >= -_ROUNDING) | (count == _NEAREST)
                elements[places[inside]], local[places[inside]] = found[inside], within[inside]
            if count >= min(MOST_NEAREST, tree.n):
                break
            outside, count = outside[depth < -_ROUNDING], 4 * count
        # sides are curved: the affine map through the corners finds the element, but not the place in it
        return elements, self._invert(nodes, elements) if isinstance(mesh, skfem.MeshTri2) else local.T

    def _invert(self, nodes: Array, elements: npt.NDArray[np.intp]) -> Array:
        """Return coordinates in the reference element.  Raises ParameterError if a point is in no element."""
        try:
            return np.asarray(self.basis.mapping.invF(nodes.T[:, :, None], tind=elements)[:, :, 0])
        except Exception as error:  # scikit-fem has no narrower one
            if "Newton iteration" not in str(error):
                raise
            wanted = "so large that each point is in a curved triangle, of the coarser version too"
            raise ParameterError("reference_points", wanted, f"{self.basis.mesh.nelements} triangles") from error


# on a face two are equally good, and give the same value
def _find_deepest(corners: Array, nodes: Array, candidates: npt.NDArray[np.intp]) -> tuple[Array, Array, Array]:
    """Choose the candidate (P, C) in which each point lies deepest.  Return its coordinates (P, d) and its depth."""
    chosen = corners[candidates]
    offset = nodes[:, None] - chosen[..., 0]
    local = np.linalg.solve(np.asarray(chosen[..., 1:] - chosen[..., :1]), offset[..., None])[..., 0]
    depth = np.minimum(local.min(axis=2), 1.0 - local.sum(axis=2))
    best, point = np.argmax(depth, axis=1), np.arange(len(nodes))
    return candidates[point, best], local[point, best], depth[point, best]


def element_space(
    domain: Domain, order: int, size: int, degree: int, name: str = "reference_points",
    faces: tuple[str, ...] | None = None,
) -> ElementSpace:  # fmt: skip
    """Return elements of `order` 1 or 2 with rules exact to `degree`; size: cells a direction of a box, or refinements.

    faces: on which the functions are evaluated, by default the natural ones.
    """
    d = domain.dimension
    check_element_space(domain, size, degree, name)
    if isinstance(domain, Triangulated):
        mesh = domain.refined(size)
    else:
        mesh = _MESHES[d].init_tensor(*as_box(domain).axes(size + 1))
    element = _ELEMENTS[order, d]()
    # p = degree // 2 + 1 Gauss points a direction: the least with 2 p - 1 >= degree
    basis = skfem.Basis(mesh, element, quadrature=simplex_rule(d, degree // 2 + 1))
    reduction = _reduction(basis, domain)
    on_faces = {
        face: _on_face(basis, domain, face, degree, reduction) for face in (domain.natural if faces is None else faces)
    }
    return ElementSpace(basis, reduction, _sparse(basis, reduction), on_faces)


def check_element_space(domain: Domain, size: int, degree: int, name: str = "reference_points") -> None:
    """Raise the ParameterError of `element_space` without building the space."""
    if not isinstance(size, int) or size < 1:
        raise ParameterError(name, "an integer >= 1", size)
    per_element = (degree // 2 + 1) ** domain.dimension
    if isinstance(domain, Triangulated):
        elements = 4**size * int(domain.coarsest().t.shape[1])
    else:
        elements = factorial(domain.dimension) * size**domain.dimension
    if elements * per_element > MOST_NODES:
        wanted = f"so small that the elements have at most {MOST_NODES:,} quadrature nodes"
        raise ParameterError(name, wanted, size)


def _reduction(basis: Any, domain: Domain) -> SparseMatrix:
    """Number the unknowns.  Degrees of freedom on Dirichlet faces have none."""
    count, places = int(basis.N), np.asarray(basis.doflocs)
    if isinstance(domain, Triangulated):
        facets = _facets(basis, domain, domain.natural)
        fixed = np.asarray(basis.get_dofs(np.setdiff1d(basis.mesh.boundary_facets(), facets)).flatten())
        master = np.arange(count)
    else:
        fixed, master = _on_box(places, as_box(domain))
    kept = np.setdiff1d(np.unique(master), fixed)
    number = np.full(count, -1)
    number[kept] = np.arange(len(kept))
    rows = np.flatnonzero(number[master] >= 0)
    return sparse.csr_array((np.ones(len(rows)), (rows, number[master[rows]])), shape=(count, len(kept)))


# periodic faces: a degree of freedom on the upper face has the coordinates of its partner modulo one;
# rounded to nine digits, since both are computed
def _on_box(places: Array, box: Box) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the degrees of freedom on Dirichlet faces, and for each one the degree of freedom with its value."""
    unit = (places - np.array(box.lower)[:, None]) / box.widths[:, None]
    fixed, wrapped = np.zeros(unit.shape[1], dtype=bool), np.round(unit, 9)
    for axis, name in enumerate(DIRECTIONS[: box.dimension]):
        if name in box.periodic:
            wrapped[axis] %= 1.0
            continue
        for side in (0, 1):
            if f"{name}{side}" not in box.natural_faces:
                fixed |= np.abs(unit[axis] - side) < 1e-9
    _, first, inverse = np.unique(wrapped, axis=1, return_index=True, return_inverse=True)
    return np.flatnonzero(fixed), first[np.ravel(inverse)]


def _on_face(basis: Any, domain: Domain, name: str, degree: int, reduction: SparseMatrix) -> SparseBasis:
    d, facets = domain.dimension, _facets(basis, domain, (name,))
    rule = simplex_rule(d - 1, degree // 2 + 1) if d > 1 else (np.zeros((1, 1)), np.ones(1))
    return _sparse(skfem.FacetBasis(basis.mesh, basis.elem, facets=facets, quadrature=rule), reduction)


def _facets(basis: Any, domain: Domain, names: tuple[str, ...]) -> npt.NDArray[np.intp]:
    """Return the facets on parts of the boundary."""
    facets = np.asarray(basis.mesh.boundary_facets())
    middles = basis.mesh.p[:, basis.mesh.facets[:, facets]].mean(axis=1)
    if isinstance(domain, Triangulated):
        on = np.array([domain.face_of(middle) in names for middle in middles.T], dtype=bool)
    else:
        box, on = as_box(domain), np.zeros(len(facets), dtype=bool)
        unit = (middles - np.array(box.lower)[:, None]) / box.widths[:, None]
        for name in names:
            on |= np.abs(unit[DIRECTIONS.index(name[0])] - int(name[1])) < 1e-9
    return np.asarray(facets[on], dtype=np.intp)


# as sparse matrices: each term of the equation is then a product of two of them with a diagonal of weights
def _sparse(basis: Any, reduction: SparseMatrix) -> SparseBasis:
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
