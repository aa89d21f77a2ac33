"""Polygons, convex or not, as a list of their corners."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.pde.domains.triangulated import Segmented, scikit_fem
from evogt_study.pde.numerics.arrays import Array

Point = tuple[float, float]
STRAIGHT = 1e-9
"""Sine of a turn that rounding of corners makes along a straight side, for example of a mesh."""


@dataclass(frozen=True)
class Polygon(Segmented):
    """The inside of a closed line through `corners`, which does not cross or touch itself; counterclockwise."""

    corners: tuple[Point, ...]

    @staticmethod
    def of(raw: Any) -> Polygon:
        """The polygon with these corners.  Raises ParameterError if they do not make one."""
        try:
            corners = [(float(x), float(y)) for x, y in raw]
        except (TypeError, ValueError):
            raise ParameterError("domain.polygon", "a list of corners [x, y]", raw) from None
        if len(set(corners)) != len(corners) or len(corners) < 3 or not np.isfinite(corners).all():
            raise ParameterError("domain.polygon", "at least three different corners [x, y]", raw)
        _check_simple(corners)
        x, y = np.array(corners).T
        counterclockwise = float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) > 0.0  # twice the area
        return Polygon(2, tuple(corners if counterclockwise else corners[::-1]))

    def segments(self) -> tuple[Array, Array]:
        corners = np.array(self.corners)
        return corners, np.roll(corners, -1, axis=0)

    def coarsest(self) -> Any:
        """Triangles between corners, by cutting off one ear after another."""
        return scikit_fem().triangulation(np.array(self.corners), np.array(_ears(self.corners)))


def _turn(a: Point, b: Point, c: Point) -> float:
    """Twice the area of a triangle, positive where its corners run counterclockwise."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _bent(a: Point, b: Point, c: Point) -> bool:
    """True unless three corners are on one line up to rounding: their triangle would have no area."""
    return abs(_turn(a, b, c)) > STRAIGHT * math.dist(a, b) * math.dist(b, c)


def _check_simple(corners: list[Point]) -> None:
    """Raise ParameterError if two sides meet that are not neighbours, or neighbours run back on each other."""
    sides = list(zip(corners, corners[1:] + corners[:1], strict=True))
    for (i, one), (j, two) in combinations(enumerate(sides), 2):
        neighbours = j - i in (1, len(sides) - 1)
        if _run_back(one, two) if neighbours else _meet(one, two):
            crossed = " and ".join(f"{list(side[0])} to {list(side[1])}" for side in (one, two))
            raise ParameterError("domain.polygon", "a line that does not cross itself", f"sides {crossed}")


def _run_back(one: tuple[Point, Point], two: tuple[Point, Point]) -> bool:
    at = (set(one) & set(two)).pop()
    a, b = (next(point for point in side if point != at) for side in (one, two))
    same = (a[0] - at[0]) * (b[0] - at[0]) + (a[1] - at[1]) * (b[1] - at[1]) > 0.0
    return _turn(at, a, b) == 0.0 and same


def _meet(one: tuple[Point, Point], two: tuple[Point, Point]) -> bool:
    (a, b), (c, d) = one, two
    apart = _turn(a, b, c) * _turn(a, b, d) > 0.0 or _turn(c, d, a) * _turn(c, d, b) > 0.0
    beside = np.any((np.maximum(a, b) < np.minimum(c, d)) | (np.maximum(c, d) < np.minimum(a, b)))
    return not (apart or beside)


def _ears(corners: tuple[Point, ...]) -> list[tuple[int, int, int]]:
    """Triangles of corner numbers that fill a polygon whose corners run counterclockwise."""
    left, triangles = list(range(len(corners))), []
    while len(left) > 3:
        # there is one: a simple polygon has two ears at least (Meisters, Am. Math. Mon. 82, 1975)
        place = next(k for k in range(len(left)) if _is_ear(corners, left, k))
        triangles.append((left[place - 1], left[place], left[(place + 1) % len(left)]))
        del left[place]
    last = (left[0], left[1], left[2])
    # the three that are left may be on one line
    return triangles + ([last] if _bent(*(corners[i] for i in last)) else [])


def _is_ear(corners: tuple[Point, ...], left: list[int], k: int) -> bool:
    ear = (left[k - 1], left[k], left[(k + 1) % len(left)])
    a, b, c = (corners[i] for i in ear)
    if not (_turn(a, b, c) > 0.0 and _bent(a, b, c)):
        return False
    others = (corners[i] for i in left if i not in ear)
    return not any(_turn(a, b, p) >= 0.0 and _turn(b, c, p) >= 0.0 and _turn(c, a, p) >= 0.0 for p in others)
