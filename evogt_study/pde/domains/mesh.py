"""Domains given by a mesh of triangles in a file."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.domains.triangulated import Segmented, triangulate
from evogt_study.pde.numerics import Array
from evogt_study.storage.files import open_file

MAX_MESH_BYTES = 64 * 2**20
"""Largest size of a mesh file in bytes.  A file with a million triangles has 40 MB."""


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
        import skfem  # imported here, see `triangulate`

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
        return Mesh.of(np.ascontiguousarray(mesh.p.T), np.ascontiguousarray(mesh.t.T))

    @staticmethod
    def of(vertices: Array, triangles: Any) -> Mesh:
        """Return the mesh with these vertices (V, 2) and triangles of vertex numbers (T, 3)."""
        places, numbers = np.asarray(vertices, dtype=float), np.asarray(triangles, dtype=np.int64)
        return Mesh(2, blake2b(places.tobytes() + numbers.tobytes(), digest_size=16).hexdigest(), places, numbers)

    def coarsest(self) -> Any:
        return triangulate(self.vertices, self.triangles)

    def segments(self) -> tuple[Array, Array]:
        """Return the segments of the boundary.  A segment joins neighbouring edges of equal direction."""
        return _find_segments(self)


@lru_cache(maxsize=8)  # each evaluation of the boundary factor uses the segments
def _find_segments(mesh: Mesh) -> tuple[Array, Array]:
    triangles = mesh.triangles
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    _, first, count = np.unique(np.sort(edges, axis=1), axis=0, return_index=True, return_counts=True)
    neighbours: dict[int, list[int]] = {}
    # an edge that belongs to one triangle is on the boundary
    for a, b in edges[first[count == 1]].tolist():
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    if any(len(found) != 2 for found in neighbours.values()):
        raise ProblemError("`domain.mesh` must have a boundary of closed lines, got a boundary that branches")
    starts, ends = list[Array](), list[Array]()
    while neighbours:
        before, vertex, loop = -1, next(iter(neighbours)), list[int]()
        while vertex in neighbours:
            loop.append(vertex)
            one, two = neighbours.pop(vertex)
            before, vertex = vertex, two if one == before else one
        # D is not smooth at the ends of segments.  Without joined edges, these would be all vertices of the boundary.
        corners = _find_corners(mesh.vertices[loop])
        starts.append(corners)
        ends.append(np.roll(corners, -1, axis=0))
    return np.concatenate(starts), np.concatenate(ends)


# A corner needs a turn with a sine above 1e-9, so rounding errors make no corners on a straight side.
def _find_corners(points: Array) -> Array:
    """Return the points of a closed line at which its direction changes."""
    back, ahead = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    turn = back[:, 0] * ahead[:, 1] - back[:, 1] * ahead[:, 0]
    sizes = np.linalg.norm(back, axis=1) * np.linalg.norm(ahead, axis=1)
    return np.asarray(points[np.abs(turn) > 1e-9 * sizes])
