"""Polygons, convex or not, given by a list of their corners."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.domains.base import OPTIONAL
from evogt_study.pde.domains.triangulated import Segmented, distances, triangulate
from evogt_study.pde.numerics import Array, Quadrature, QuadratureRule, TriangleRule

Point = tuple[float, float]
STRAIGHT = 1e-9
"""Largest sine of a turn that rounding errors of the corners cause along a straight side."""


@dataclass(frozen=True)
class Polygon(Segmented):
    """Inside of a closed line through `corners` that does not cross or touch itself.

    The sides are "side0", "side1", and so on, where side i starts at corner i.  If no side is natural, the corners run
    counterclockwise.
    """

    corners: tuple[Point, ...]
    natural_faces: tuple[str, ...] = field(default=(), metadata=OPTIONAL)

    def __post_init__(self) -> None:
        known = [f"side{i}" for i in range(len(self.corners))]
        if unknown := [name for name in self.natural_faces if name not in known]:
            raise ProblemError(f"`boundary` must name sides {known[0]} to {known[-1]}, got {unknown[0]!r}")

    @staticmethod
    def of(raw: Any, natural_faces: tuple[str, ...] = ()) -> Polygon:
        """Return the polygon with these corners.  Raises ParameterError if its line crosses itself."""
        try:
            corners = [(float(x), float(y)) for x, y in raw]
        except (TypeError, ValueError):
            raise ParameterError("domain.polygon", "a list of corners [x, y]", raw) from None
        if len(set(corners)) != len(corners) or len(corners) < 3 or not np.isfinite(corners).all():
            raise ParameterError("domain.polygon", "at least three different corners [x, y]", raw)
        sides = list(zip(corners, corners[1:] + corners[:1], strict=True))
        for (i, one), (j, two) in combinations(enumerate(sides), 2):
            neighbours = j - i in (1, len(sides) - 1)
            if _do_run_back(one, two) if neighbours else _do_meet(one, two):
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

    def face_of(self, point: Array) -> str:
        starts, ends = self.segments()
        away = [float(distances(point[None], *side)[0]) for side in zip(starts[:, None], ends[:, None], strict=True)]
        return f"side{int(np.argmin(away))}"

    def on_face(self, face: str, rule: TriangleRule) -> Quadrature:
        """Return Gauss points on the 2^refinements parts of a side, exact to the degree of `rule`."""
        start, end = (points[int(face.removeprefix("side"))] for points in self.segments())
        along, weights = QuadratureRule("gauss_legendre", rule.degree // 2 + 1).on_unit_interval
        parts = 2**rule.refinements
        places = ((np.arange(parts)[:, None] + along) / parts).ravel()
        length, sign = float(np.linalg.norm(end - start)), 1.0 if self.counterclockwise == self.corners else -1.0
        normal = sign * np.array([end[1] - start[1], start[0] - end[0]]) / length
        nodes = start + places[:, None] * (end - start)
        return Quadrature(nodes, np.tile(length * weights / parts, parts), normals=np.tile(normal, (len(nodes), 1)))

    def coarsest(self) -> Any:
        """Return triangles with the corners as vertices, made by ear clipping."""
        return triangulate(np.array(self.counterclockwise), np.array(_cut_ears(self.counterclockwise)))


def _turn(a: Point, b: Point, c: Point) -> float:
    """Return twice the signed area of a triangle, positive if its corners run counterclockwise."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _is_bent(a: Point, b: Point, c: Point) -> bool:
    """Return True unless three corners are on one line up to rounding errors."""
    return abs(_turn(a, b, c)) > STRAIGHT * math.dist(a, b) * math.dist(b, c)


def _do_run_back(one: tuple[Point, Point], two: tuple[Point, Point]) -> bool:
    at = (set(one) & set(two)).pop()
    a, b = (next(point for point in side if point != at) for side in (one, two))
    same = (a[0] - at[0]) * (b[0] - at[0]) + (a[1] - at[1]) * (b[1] - at[1]) > 0.0
    return _turn(at, a, b) == 0.0 and same


def _do_meet(one: tuple[Point, Point], two: tuple[Point, Point]) -> bool:
    (a, b), (c, d) = one, two
    apart = _turn(a, b, c) * _turn(a, b, d) > 0.0 or _turn(c, d, a) * _turn(c, d, b) > 0.0
    beside = np.any((np.maximum(a, b) < np.minimum(c, d)) | (np.maximum(c, d) < np.minimum(a, b)))
    return not (apart or beside)


def _cut_ears(corners: tuple[Point, ...]) -> list[tuple[int, int, int]]:
    """Return triangles of corner numbers that fill a polygon with counterclockwise corners."""
    left, triangles = list(range(len(corners))), []
    while len(left) > 3:
        # `next` finds an ear, because a simple polygon has at least two ears (Meisters, Am. Math. Mon. 82, 1975)
        place = next(k for k in range(len(left)) if _is_ear(corners, left, k))
        triangles.append((left[place - 1], left[place], left[(place + 1) % len(left)]))
        del left[place]
    last = (left[0], left[1], left[2])
    # the last three corners may be on one line
    return triangles + ([last] if _is_bent(*(corners[i] for i in last)) else [])


def _is_ear(corners: tuple[Point, ...], left: list[int], k: int) -> bool:
    ear = (left[k - 1], left[k], left[(k + 1) % len(left)])
    a, b, c = (corners[i] for i in ear)
    if not (_turn(a, b, c) > 0.0 and _is_bent(a, b, c)):
        return False
    others = (corners[i] for i in left if i not in ear)
    return not any(_turn(a, b, p) >= 0.0 and _turn(b, c, p) >= 0.0 and _turn(c, a, p) >= 0.0 for p in others)
