"""Plane domains with quadrature rules on triangles.  Parts of the boundary may have a given flux.

`Segmented` domains have a boundary of segments, and the factor D is a smooth distance from this boundary.  The package
scikit-fem makes and refines the triangles.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import roots_jacobi

from evogt_study.errors import ParameterError
from evogt_study.pde.dictionaries.base import Dictionary, Features
from evogt_study.pde.domains.base import Domain, map_features
from evogt_study.pde.numerics import MAX_NODES, Array, Quadrature, Rule, TriangleRule

EDGE = 1e-9
"""Largest distance of a boundary point from the boundary, relative to the size of the domain."""


class Triangulated(Domain):
    """Plane domain with quadrature rules on triangles.  The features have arguments in the unit square."""

    @abstractmethod
    def coarsest(self) -> Any:
        """Return a scikit-fem triangulation that covers the domain."""

    def refined(self, refinements: int) -> Any:
        """Return the coarsest triangulation after `refinements` that halve all edges."""
        return self.coarsest().refined(refinements)

    def quadrature(self, rule: Rule) -> Quadrature:
        """Return the nodes and weights on all triangles.  Raises ParameterError for too many nodes or another rule."""
        if not isinstance(rule, TriangleRule):
            wanted = '{ rule = "triangles", refinements = n, degree = m } on a domain that is not a box'
            raise ParameterError("rule", wanted, str(rule))
        return _quadrature(self, rule)

    def features(self, dictionary: Dictionary, seed: int) -> Features:
        return map_features(self, dictionary, dictionary.sample(seed, 2), (False, False))

    def on_face(self, face: str, rule: TriangleRule) -> Quadrature:
        """Return the nodes, weights and normals of the rule on a part of the boundary with given flux."""
        raise NotImplementedError

    def face_of(self, point: Array) -> str:
        """Return the name of the part of the boundary that contains a point, or "" if the parts have no names."""
        return ""

    @property
    def usual_rule(self) -> Rule:
        return TriangleRule(2, 8)


def make_constant_factor(nodes: Array) -> tuple[Array, ...]:
    """Return D = 1 with its derivatives, for a domain without given boundary values."""
    return np.ones(len(nodes)), np.zeros((2, len(nodes)))


@lru_cache(maxsize=8)  # the assembly, validation and check rules of a few domains
def _quadrature(domain: Triangulated, rule: TriangleRule) -> Quadrature:
    import skfem  # imported here, see `triangulate`

    nodes, weights = make_simplex_rule(2, rule.degree // 2 + 1)
    count = domain.coarsest().t.shape[1] * 4**rule.refinements * len(weights)
    if count > MAX_NODES:
        raise ParameterError("refinements", f"so few that the rule has at most {MAX_NODES:,} nodes", f"{count:,}")
    basis = skfem.Basis(domain.refined(rule.refinements), skfem.ElementTriP1(), quadrature=(nodes, weights))
    faces = {face: domain.on_face(face, rule) for face in domain.natural}
    return Quadrature(np.asarray(basis.global_coordinates()).reshape(2, -1).T, basis.dx.ravel(), faces)


# The import of scikit-fem takes 0.08 s, which would delay each worker and each report page.
def triangulate(vertices: Array, triangles: npt.NDArray[Any]) -> Any:
    """Return the scikit-fem mesh with these vertices (V, 2) and triangles of vertex numbers (T, 3)."""
    import skfem

    return skfem.MeshTri(vertices.T.copy(), triangles.T.copy())


def make_simplex_rule(dimension: int, points: int) -> tuple[Array, Array]:
    """Return nodes (d, points^d) and positive weights (points^d,) on the simplex {x >= 0, x_1 + ... + x_d <= 1}.

    The rule is the conical product of Gauss-Jacobi rules, x_l = r_l prod_{m<l} (1 - r_m).  The Jacobian is
    prod_l (1 - r_l)^(d - l).  The rule is exact for polynomials up to degree 2 points - 1.  For d = 1, the rule is the
    Gauss-Legendre rule.
    """
    # The rules of scikit-fem 12.0 end at degree 19 on triangles, and some have negative weights.  Its rules for
    # tetrahedra of a degree above 4 are exact to one degree less than their name.
    nodes, weights = np.empty((0, 1)), np.ones(1)
    remainder = np.ones(1)
    for power in reversed(range(dimension)):
        x, w = roots_jacobi(points, float(power), 0.0)
        r = (1.0 + x) / 2.0
        nodes = np.concatenate([np.repeat(nodes, points, axis=1), np.outer(remainder, r).reshape(1, -1)])
        remainder = np.outer(remainder, 1.0 - r).ravel()
        weights = np.outer(weights, w / 2.0 ** (power + 1)).ravel()
    return nodes, weights


# Bounds, distances and the factor D follow from the segments.  A polygon and a mesh differ only in their triangles.
class Segmented(Triangulated):
    """Plane domain with a boundary of straight segments."""

    @abstractmethod
    def segments(self) -> tuple[Array, Array]:
        """Return the starts and the ends of the boundary segments, (m, 2) each."""

    def dirichlet_segments(self) -> tuple[Array, Array]:
        """Return the starts and the ends of the segments with given values, by default of all segments."""
        return self.segments()

    def bounds(self) -> tuple[Array, Array]:
        starts, _ = self.segments()
        return starts.min(axis=0), starts.max(axis=0)

    def boundary_factor(self, nodes: Array, order: int = 0) -> tuple[Array, ...]:
        """Return the approximate distance from the boundary, in units of the larger side of the bounding box."""
        # scale first, because the formula of the distance depends on the unit of length
        lower, upper = self.bounds()
        scale = float(np.max(upper - lower))
        starts, ends = ((points - lower) / scale for points in self.dirichlet_segments())
        if not len(starts):
            return make_constant_factor(nodes)[: order + 1]
        # Jets give the derivatives up to rounding errors, which the stiffness needs.  They are NaN on the boundary.
        places, total = (nodes - lower) / scale, np.zeros((3, len(nodes)))
        with np.errstate(all="ignore"):
            for start, end in zip(starts, ends, strict=True):
                total += _invert(_measure_segment(places, start, end))
            phi = _invert(total)
        jet = np.where(np.isfinite(phi[0]), phi[0], 0.0), phi[1:]
        return tuple(part / scale**derivative for derivative, part in enumerate(jet[: order + 1]))

    def boundary_points(self) -> Array:
        """Return the start and two other points of each segment with given values."""
        starts, ends = self.dirichlet_segments()
        # The places are irregular, because data that vanish in the middle would pass a regular check.
        parts = np.array([0.0, 0.271, 0.618])[:, None, None]
        return np.asarray(starts + parts * (ends - starts)).reshape(-1, 2)

    def contains(self, nodes: Array) -> npt.NDArray[np.bool_]:
        starts, ends = self.segments()
        edge = EDGE * float(np.max(np.subtract(*self.bounds()[::-1])))
        # A point is inside if a ray crosses the boundary an odd number of times.  Segments are half-open in y, so a
        # vertex on the ray counts for one of its two segments.
        odd = np.zeros(len(nodes), dtype=bool)
        for (x0, y0), (x1, y1) in zip(starts, ends, strict=True):
            across = (y0 > nodes[:, 1]) != (y1 > nodes[:, 1])
            with np.errstate(all="ignore"):
                odd ^= across & (nodes[:, 0] < x0 + (nodes[:, 1] - y0) * (x1 - x0) / (y1 - y0))
        return odd | (distances(nodes, starts, ends) <= edge)

    def inner_box(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the square around the node of `usual_rule` that is farthest from the boundary."""
        nodes = self.quadrature(self.usual_rule).nodes
        away = distances(nodes, *self.segments())
        # With 0.99, the corners are inside the circle that touches the boundary, so formulas have finite values.
        middle, half = nodes[np.argmax(away)], 0.99 * float(away.max()) / np.sqrt(2.0)
        return tuple((middle - half).tolist()), tuple((middle + half).tolist())


# A jet (3, Q) holds the values of a function of the plane at Q points and its two derivatives.
def _chain(jet: Array, value: Array, slope: Array) -> Array:
    """Return the jet of h(f) for the jet of f, from the values of h(f) and h'(f)."""
    return np.vstack([value, slope * jet[1:]])


def _square(jet: Array) -> Array:
    return _chain(jet, jet[0] ** 2, 2.0 * jet[0])


def _take_root(jet: Array) -> Array:
    root = np.sqrt(jet[0])
    return _chain(jet, root, 0.5 / root)


def _invert(jet: Array) -> Array:
    return _chain(jet, 1.0 / jet[0], -1.0 / jet[0] ** 2)


def _measure_segment(nodes: Array, start: Array, end: Array) -> Array:
    """Return the jet of a smooth approximate distance from the segment, which is exact on the segment."""
    along, length = end - start, float(np.linalg.norm(end - start))
    normal = np.array([along[1], -along[0]]) / length
    line = np.vstack([(nodes - start) @ normal, np.repeat(normal[:, None], len(nodes), axis=1)])
    offset = (nodes - (start + end) / 2.0).T
    trimming = np.vstack([(0.25 * length**2 - np.sum(offset**2, axis=0)) / length, -2.0 / length * offset])
    square = _square(line)
    # The excess is (sqrt(t^2 + f^4) - t)/2 with the distance f from the line.  In the disk of the segment, t is
    # positive and the excess is small, so only the line matters there.
    excess = 0.5 * (_take_root(_square(trimming) + _square(square)) - trimming)
    return _take_root(square + _square(excess))


def distances(nodes: Array, starts: Array, ends: Array) -> Array:
    """Return the Euclidean distance of each node from the nearest segment, (Q, 2) -> (Q,)."""
    nearest = np.full(len(nodes), np.inf)
    for start, end in zip(starts, ends, strict=True):
        along = end - start
        place = np.clip((nodes - start) @ along / (along @ along), 0.0, 1.0)
        nearest = np.minimum(nearest, np.linalg.norm(nodes - start - place[:, None] * along, axis=1))
    return nearest
