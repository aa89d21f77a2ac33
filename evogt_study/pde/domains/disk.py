"""The disk, with the boundary factor D = 1 - |x - c|^2 / R^2, or D = 1 if its circle has a given flux."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.domains.base import OPTIONAL
from evogt_study.pde.domains.triangulated import EDGE, Triangulated, make_constant_factor
from evogt_study.pde.numerics import Array, Quadrature, TriangleRule

_LOOKED_AT = 2.0 * np.pi * np.array([0.0, 0.113, 0.25, 0.371, 0.5, 0.618, 0.75, 0.839])
"""Angles of boundary points on the axes, where symmetric formulas may vanish, and at irregular places."""

CIRCLE = "circle"
"""Name of the boundary of a disk."""


@dataclass(frozen=True)
class Disk(Triangulated):
    """Open disk with a centre and a radius.  Raises ParameterError or ProblemError for invalid fields."""

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

    def coarsest(self) -> Any:
        """Return four triangles with curved sides."""
        return self.refined(0)

    def refined(self, refinements: int) -> Any:
        """Return triangles with parabolic sides on the boundary.  The error of the area has order four."""
        import skfem  # imported here, see `triangulate`

        return skfem.MeshTri2.init_circle(refinements).scaled(self.radius).translated(self.centre)

    def face_of(self, point: Array) -> str:
        return CIRCLE

    def on_face(self, face: str, rule: TriangleRule) -> Quadrature:
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
            return make_constant_factor(nodes)[: order + 1]
        offset, square = (nodes - np.asarray(self.centre)).T, self.radius**2
        jet = (1.0 - np.sum(offset**2, axis=0) / square, -2.0 / square * offset)
        return jet[: order + 1]

    def boundary_points(self) -> Array:
        angles = _LOOKED_AT[:0] if self.natural_faces else _LOOKED_AT
        return np.asarray(self.centre) + self.radius * np.column_stack([np.cos(angles), np.sin(angles)])

    def contains(self, nodes: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(np.linalg.norm(nodes - np.asarray(self.centre), axis=1) <= self.radius * (1.0 + EDGE))

    def inner_box(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        half = self.radius / np.sqrt(2.0)
        return tuple(c - half for c in self.centre), tuple(c + half for c in self.centre)
