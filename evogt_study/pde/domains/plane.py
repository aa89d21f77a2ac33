"""Plane domains with quadrature rules on triangles of scikit-fem: disks, polygons, and meshes from files."""

from __future__ import annotations

import io
import math
from abc import abstractmethod
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import roots_jacobi

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.dictionaries.base import Dictionary, Features
from evogt_study.pde.domains.base import OPTIONAL, Domain, map_features
from evogt_study.pde.numerics import MAX_NODES, Array, Quadrature, QuadratureRule, Rule, TriangleRule
from evogt_study.storage.files import open_file

Point = tuple[float, float]
MAX_EDGE = 1e-9
"""Largest distance of a boundary point from the boundary, relative to the size of the domain."""
MAX_SINE = 1e-9
"""Largest sine of a turn that rounding errors of the corners cause along a straight side."""
CIRCLE = "circle"
"""Name of the boundary of a disk."""
MAX_MESH_BYTES = 64 * 2**20
"""Largest size of a mesh file in bytes.  A file with a million triangles has 40 MB."""
_CHECKED_ANGLES = 2.0 * np.pi * np.array([0.0, 0.113, 0.25, 0.371, 0.5, 0.618, 0.75, 0.839])
"""Angles of boundary points on the axes, where symmetric formulas may vanish, and at irregular places."""


class Triangulated(Domain):
    """Plane domain with quadrature rules on triangles.  The features have arguments in the unit square."""

    # Each method imports scikit-fem itself, because the import would delay each worker and report page by 0.08 s.
    @abstractmethod
    def make_triangles(self) -> Any:
        """Return a scikit-fem triangulation that covers the domain."""

    def refine(self, refinements: int) -> Any:
        """Return the coarsest triangulation after `refinements` that halve all edges."""
        return self.make_triangles().refined(refinements)

    @lru_cache(maxsize=8)  # noqa: B019  # the assembly, validation and check rules of a few domains
    def quadrature(self, rule: Rule) -> Quadrature:
        import skfem

        if not isinstance(rule, TriangleRule):
            wanted = '{ rule = "triangles", refinements = n, degree = m } on a domain that is not a box'
            raise ParameterError("rule", wanted, str(rule))
        nodes, weights = make_simplex_rule(2, rule.degree // 2 + 1)
        count = self.make_triangles().t.shape[1] * 4**rule.refinements * len(weights)
        if count > MAX_NODES:
            raise ParameterError("refinements", f"so few that the rule has at most {MAX_NODES:,} nodes", f"{count:,}")
        basis = skfem.Basis(self.refine(rule.refinements), skfem.ElementTriP1(), quadrature=(nodes, weights))
        faces = {face: self.make_face_rule(face, rule) for face in self.natural}
        return Quadrature(np.asarray(basis.global_coordinates()).reshape(2, -1).T, basis.dx.ravel(), faces)

    def features(self, dictionary: Dictionary, seed: int) -> Features:
        return map_features(self, dictionary, dictionary.sample(seed, 2), (False, False))

    def make_face_rule(self, face: str, rule: TriangleRule) -> Quadrature:
        """Return the nodes, weights and normals of the rule on a part of the boundary with given flux."""
        raise NotImplementedError

    def find_face(self, point: Array) -> str:
        """Return the name of the part of the boundary that contains a point, or "" if the parts have no names."""
        return ""

    @property
    def usual_rule(self) -> Rule:
        return TriangleRule(2, 8)


# This rule is the conical product of Gauss-Jacobi rules, x_l = r_l prod_{m<l} (1 - r_m), with the Jacobian
# prod_l (1 - r_l)^(d - l).  The rules of scikit-fem 12.0 end at degree 19 on triangles, and some have negative weights.
# Its rules for tetrahedra of a degree above 4 are exact to one degree less than their name.
def make_simplex_rule(dimension: int, points: int) -> tuple[Array, Array]:
    """Return nodes (d, points^d) and positive weights on {x >= 0, x_1 + ... + x_d <= 1}, exact to 2 points - 1."""
    nodes, weights = np.empty((0, 1)), np.ones(1)
    remainder = np.ones(1)
    for power in reversed(range(dimension)):
        x, w = roots_jacobi(points, float(power), 0.0)
        r = (1.0 + x) / 2.0
        nodes = np.concatenate([np.repeat(nodes, points, axis=1), np.outer(remainder, r).reshape(1, -1)])
        remainder = np.outer(remainder, 1.0 - r).ravel()
        weights = np.outer(weights, w / 2.0 ** (power + 1)).ravel()
    return nodes, weights


def make_constant_factor(nodes: Array, order: int) -> tuple[Array, ...]:
    """Return D = 1 with its derivatives, for a domain without given boundary values."""
    return (np.ones(len(nodes)), np.zeros((2, len(nodes))))[: order + 1]


@dataclass(frozen=True)
class Disk(Triangulated):
    """Open disk, with D = 1 - |x - c|^2 / R^2, or D = 1 if its circle has a given flux."""

    centre: tuple[float, ...]
    radius: float
    natural_faces: tuple[str, ...] = field(default=(), metadata=OPTIONAL)

    def __post_init__(self) -> None:
        if not set(self.natural_faces) <= {CIRCLE}:
            raise ProblemError(f"`boundary` of a disk must name {CIRCLE}, got {', '.join(self.natural_faces)}")
        if self.dimension != 2 or len(self.centre) != 2 or not np.isfinite(self.centre).all():
            raise ParameterError("domain.disk.centre", "two numbers", self.centre)
        if not 0.0 < self.radius < np.inf:
            raise ParameterError("domain.disk.radius", "a positive number", self.radius)

    def make_triangles(self) -> Any:
        return self.refine(0)

    def refine(self, refinements: int) -> Any:
        """Return triangles with parabolic sides on the boundary.  The error of the area has order four."""
        import skfem

        return skfem.MeshTri2.init_circle(refinements).scaled(self.radius).translated(self.centre)

    def find_face(self, point: Array) -> str:
        return CIRCLE

    def make_face_rule(self, face: str, rule: TriangleRule) -> Quadrature:
        """Return the trapezoidal rule on the circle, which converges faster than any power of h for smooth data."""
        count = 8 * 2**rule.refinements * (rule.degree // 2 + 1)
        angles = 2.0 * np.pi * np.arange(count) / count
        normals = np.column_stack([np.cos(angles), np.sin(angles)])
        weights = np.full(count, 2.0 * np.pi * self.radius / count)
        return Quadrature(np.asarray(self.centre) + self.radius * normals, weights, normals=normals)

    def bounds(self) -> tuple[Array, Array]:
        centre = np.asarray(self.centre, dtype=float)
        return centre - self.radius, centre + self.radius

    def boundary_factor(self, nodes: Array, order: int = 0) -> tuple[Array, ...]:
        if self.natural_faces:
            return make_constant_factor(nodes, order)
        offset, square = (nodes - np.asarray(self.centre)).T, self.radius**2
        return (1.0 - np.sum(offset**2, axis=0) / square, -2.0 / square * offset)[: order + 1]

    def boundary_points(self) -> Array:
        angles = _CHECKED_ANGLES[:0] if self.natural_faces else _CHECKED_ANGLES
        return np.asarray(self.centre) + self.radius * np.column_stack([np.cos(angles), np.sin(angles)])

    def contains(self, nodes: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(np.linalg.norm(nodes - np.asarray(self.centre), axis=1) <= self.radius * (1.0 + MAX_EDGE))

    def inner_box(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        half = self.radius / np.sqrt(2.0)
        return tuple(c - half for c in self.centre), tuple(c + half for c in self.centre)


# Bounds, distances and the factor D follow from the segments.  A polygon and a mesh differ only in their triangles.
class Segmented(Triangulated):
    """Plane domain with a boundary of straight segments.  D is a smooth distance from the boundary."""

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
            return make_constant_factor(nodes, order)
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
        edge = MAX_EDGE * float(np.max(np.subtract(*self.bounds()[::-1])))
        # A point is inside if a ray crosses the boundary an odd number of times.  Segments are half-open in y, so a
        # vertex on the ray counts for one of its two segments.
        odd = np.zeros(len(nodes), dtype=bool)
        for (x0, y0), (x1, y1) in zip(starts, ends, strict=True):
            across = (y0 > nodes[:, 1]) != (y1 > nodes[:, 1])
            with np.errstate(all="ignore"):
                odd ^= across & (nodes[:, 0] < x0 + (nodes[:, 1] - y0) * (x1 - x0) / (y1 - y0))
        return odd | (measure_distances(nodes, starts, ends) <= edge)

    def inner_box(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the square around the node of `usual_rule` that is farthest from the boundary."""
        nodes = self.quadrature(self.usual_rule).nodes
        away = measure_distances(nodes, *self.segments())
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


def measure_distances(nodes: Array, starts: Array, ends: Array) -> Array:
    """Return the Euclidean distance of each node from the nearest segment, (Q, 2) -> (Q,)."""
    nearest = np.full(len(nodes), np.inf)
    for start, end in zip(starts, ends, strict=True):
        along = end - start
        place = np.clip((nodes - start) @ along / (along @ along), 0.0, 1.0)
        nearest = np.minimum(nearest, np.linalg.norm(nodes - start - place[:, None] * along, axis=1))
    return nearest


@dataclass(frozen=True)
class Polygon(Segmented):
    """Inside of a closed line through `corners` that does not cross or touch itself.

    Side i has the name "side{i}" and starts at corner i.  If no side is natural, the corners run counterclockwise.
    """

    corners: tuple[Point, ...]
    natural_faces: tuple[str, ...] = field(default=(), metadata=OPTIONAL)

    def __post_init__(self) -> None:
        known = [f"side{i}" for i in range(len(self.corners))]
        if unknown := [name for name in self.natural_faces if name not in known]:
            raise ProblemError(f"`boundary` must name sides {known[0]} to {known[-1]}, got {unknown[0]!r}")

    @staticmethod
    def from_vertices(raw: Any, natural_faces: tuple[str, ...] = ()) -> Polygon:
        """Return the polygon with these corners.  Raises ParameterError if its line crosses itself."""
        try:
            corners = [(float(x), float(y)) for x, y in raw]
        except (TypeError, ValueError):
            raise ParameterError("domain.polygon", "a list of corners [x, y]", raw) from None
        if len(set(corners)) != len(corners) or len(corners) < 3 or not np.isfinite(corners).all():
            raise ParameterError("domain.polygon", "at least three different corners [x, y]", raw)
        sides = list(zip(corners, corners[1:] + corners[:1], strict=True))
        for one, two in combinations(sides, 2):
            if _is_crossed(one, two):
                crossed = " and ".join(f"{list(side[0])} to {list(side[1])}" for side in (one, two))
                raise ParameterError("domain.polygon", "a line that does not cross itself", f"sides {crossed}")
        polygon = Polygon(2, tuple(corners), natural_faces)
        return polygon if natural_faces else Polygon(2, polygon.counterclockwise)

    @property
    def counterclockwise(self) -> tuple[Point, ...]:
        """Corners of the polygon in counterclockwise order."""
        x, y = np.array(self.corners).T
        twice_the_area = float(x @ np.roll(y, -1) - y @ np.roll(x, -1))
        return self.corners if twice_the_area > 0.0 else self.corners[::-1]

    def segments(self) -> tuple[Array, Array]:
        corners = np.array(self.corners)
        return corners, np.roll(corners, -1, axis=0)

    def dirichlet_segments(self) -> tuple[Array, Array]:
        given = [i for i in range(len(self.corners)) if f"side{i}" not in self.natural_faces]
        starts, ends = self.segments()
        return starts[given], ends[given]

    def find_face(self, point: Array) -> str:
        sides = zip(*(points[:, None] for points in self.segments()), strict=True)
        return f"side{int(np.argmin([measure_distances(point[None], *side)[0] for side in sides]))}"

    def make_face_rule(self, face: str, rule: TriangleRule) -> Quadrature:
        """Return Gauss points on the 2^refinements parts of a side, exact to the degree of `rule`."""
        start, end = (points[int(face.removeprefix("side"))] for points in self.segments())
        along, weights = QuadratureRule("gauss_legendre", rule.degree // 2 + 1).on_unit_interval
        parts = 2**rule.refinements
        places = ((np.arange(parts)[:, None] + along) / parts).ravel()
        length, sign = float(np.linalg.norm(end - start)), 1.0 if self.counterclockwise == self.corners else -1.0
        normal = sign * np.array([end[1] - start[1], start[0] - end[0]]) / length
        nodes = start + places[:, None] * (end - start)
        return Quadrature(nodes, np.tile(length * weights / parts, parts), normals=np.tile(normal, (len(nodes), 1)))

    def make_triangles(self) -> Any:
        """Return triangles with the corners as vertices, made by ear clipping."""
        import skfem

        corners, triangles = self.counterclockwise, []
        left = list(range(len(corners)))
        while len(left) > 3:
            # `next` finds an ear, because a simple polygon has at least two ears (Meisters, Am. Math. Mon. 82, 1975)
            place = next(k for k in range(len(left)) if _is_ear(corners, left, k))
            triangles.append((left[place - 1], left[place], left[(place + 1) % len(left)]))
            del left[place]
        if _is_bent(*(corners[i] for i in left)):  # the last three corners may be on one line
            triangles.append((left[0], left[1], left[2]))
        return skfem.MeshTri(np.array(corners).T.copy(), np.array(triangles).T.copy())


def _turn(a: Point, b: Point, c: Point) -> float:
    """Return twice the signed area of a triangle, positive if its corners run counterclockwise."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _is_bent(a: Point, b: Point, c: Point) -> bool:
    """Return True unless three corners are on one line up to rounding errors."""
    return abs(_turn(a, b, c)) > MAX_SINE * math.dist(a, b) * math.dist(b, c)


def _is_crossed(one: tuple[Point, Point], two: tuple[Point, Point]) -> bool:
    """Return True if two sides have a common point that is no common corner."""
    for at in set(one) & set(two):
        a, b = (next(point for point in side if point != at) for side in (one, two))
        same = (a[0] - at[0]) * (b[0] - at[0]) + (a[1] - at[1]) * (b[1] - at[1]) > 0.0
        return _turn(at, a, b) == 0.0 and same
    (a, b), (c, d) = one, two
    apart = _turn(a, b, c) * _turn(a, b, d) > 0.0 or _turn(c, d, a) * _turn(c, d, b) > 0.0
    beside = np.any((np.maximum(a, b) < np.minimum(c, d)) | (np.maximum(c, d) < np.minimum(a, b)))
    return not (apart or beside)


def _is_ear(corners: tuple[Point, ...], left: list[int], k: int) -> bool:
    """Return True if the triangle at place k of the corners `left` contains no other corner."""
    ear = (left[k - 1], left[k], left[(k + 1) % len(left)])
    a, b, c = (corners[i] for i in ear)
    if not (_turn(a, b, c) > 0.0 and _is_bent(a, b, c)):
        return False
    others = (corners[i] for i in left if i not in ear)
    return not any(_turn(a, b, p) >= 0.0 and _turn(b, c, p) >= 0.0 and _turn(c, a, p) >= 0.0 for p in others)


@dataclass(frozen=True)
class Mesh(Segmented):
    """Inside of a triangulation.  The checksum `digest` of the vertices and triangles identifies the mesh."""

    digest: str
    vertices: Array = field(compare=False, repr=False)
    triangles: npt.NDArray[np.int64] = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", np.asarray(self.vertices, dtype=float))
        object.__setattr__(self, "triangles", np.asarray(self.triangles, dtype=np.int64))

    @staticmethod
    def read(path: Any) -> Mesh:
        """Read the triangles of a mesh file, such as .msh of Gmsh.  Raises ParameterError for an invalid file."""
        if find_spec("meshio") is None:  # scikit-fem reads meshes with meshio
            raise ProblemError("`domain.mesh` needs meshio. Install it with pip install 'evogt-study[mesh]'")
        if not isinstance(path, str) or not Path(path).exists():
            raise ParameterError("domain.mesh", "an existing file", path)
        import skfem

        try:
            open_file(Path(path), max_bytes=MAX_MESH_BYTES).close()
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # meshio prints its errors
                mesh = skfem.Mesh.load(path)
        except OSError as error:
            raise ParameterError("domain.mesh", f"a file that can be read ({error.strerror})", path) from None
        except (Exception, SystemExit) as error:  # noqa: BLE001  # meshio raises any exception, and may exit
            raise ParameterError("domain.mesh", f"a mesh that meshio can read ({type(error).__name__})", path) from None
        if not isinstance(mesh, skfem.MeshTri1):
            raise ParameterError("domain.mesh", "a mesh of triangles in the plane", type(mesh).__name__)
        if not np.isfinite(mesh.p).all():
            raise ParameterError("domain.mesh", "a mesh of finite vertices", path)
        return Mesh.from_triangles(np.ascontiguousarray(mesh.p.T), np.ascontiguousarray(mesh.t.T))

    @staticmethod
    def from_triangles(vertices: Array, triangles: Any) -> Mesh:
        """Return the mesh with these vertices (V, 2) and triangles of vertex numbers (T, 3)."""
        places, numbers = np.asarray(vertices, dtype=float), np.asarray(triangles, dtype=np.int64)
        return Mesh(2, blake2b(places.tobytes() + numbers.tobytes(), digest_size=16).hexdigest(), places, numbers)

    def make_triangles(self) -> Any:
        import skfem

        return skfem.MeshTri(self.vertices.T.copy(), self.triangles.T.copy())

    @lru_cache(maxsize=8)  # noqa: B019  # each evaluation of the boundary factor uses the segments
    def segments(self) -> tuple[Array, Array]:
        """Return the segments of the boundary.  A segment joins neighbouring edges of equal direction."""
        triangles = self.triangles
        edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
        _, first, count = np.unique(np.sort(edges, axis=1), axis=0, return_index=True, return_counts=True)
        neighbours: dict[int, list[int]] = {}
        # an edge that belongs to one triangle is on the boundary
        for a, b in edges[first[count == 1]].tolist():
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
        if any(len(others) != 2 for others in neighbours.values()):
            raise ProblemError("`domain.mesh` must have a boundary of closed lines, got a boundary that branches")
        starts, ends = list[Array](), list[Array]()
        while neighbours:
            before, vertex, loop = -1, next(iter(neighbours)), list[int]()
            while vertex in neighbours:
                loop.append(vertex)
                one, two = neighbours.pop(vertex)
                before, vertex = vertex, two if one == before else one
            # D is not smooth at the ends of segments.  Without joined edges, these would be all boundary vertices.
            points = self.vertices[loop]
            back, ahead = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
            turn = back[:, 0] * ahead[:, 1] - back[:, 1] * ahead[:, 0]
            # A corner needs a turn with a sine above `MAX_SINE`, so rounding errors make no corners on a straight side.
            bent = np.abs(turn) > MAX_SINE * np.linalg.norm(back, axis=1) * np.linalg.norm(ahead, axis=1)
            starts.append(points[bent])
            ends.append(np.roll(points[bent], -1, axis=0))
        return np.concatenate(starts), np.concatenate(ends)
