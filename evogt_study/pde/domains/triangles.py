"""Triangulations by scikit-fem.  `triangulated` imports this module on first use."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import skfem

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature
from evogt_study.storage.untrusted import open_file

MAX_MESH_BYTES = 64 * 2**20
"""Largest size of a mesh file in bytes.  A million triangles have 40 MB."""


def circle(refinements: int) -> Any:
    """Return the unit disk in triangles with parabolic sides on the boundary."""
    return skfem.MeshTri2.init_circle(refinements)


def triangulation(vertices: Array, triangles: npt.NDArray[Any]) -> Any:
    """Return the mesh of vertices (V, 2) and triangles of vertex numbers (T, 3)."""
    return skfem.MeshTri(vertices.T.copy(), triangles.T.copy())


def read(path: str) -> tuple[Array, npt.NDArray[np.int64]]:
    """Read vertices and triangles of a file with meshio.  Raises ParameterError."""
    try:
        open_file(Path(path), max_bytes=MAX_MESH_BYTES).close()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # meshio prints its errors
            mesh = skfem.Mesh.load(path)
    except OSError as error:
        raise ParameterError("domain.mesh", f"a file that can be read ({error.strerror})", path) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  # meshio raises anything, and may exit
        raise ParameterError("domain.mesh", f"a mesh that meshio reads ({type(error).__name__})", path) from None
    if not isinstance(mesh, skfem.MeshTri1):
        raise ParameterError("domain.mesh", "a mesh of triangles in the plane", type(mesh).__name__)
    if not np.isfinite(mesh.p).all():
        raise ParameterError("domain.mesh", "a mesh of finite vertices", path)
    return np.ascontiguousarray(mesh.p.T), np.ascontiguousarray(mesh.t.T)


def on_triangles(mesh: Any, nodes: Array, weights: Array) -> Quadrature:
    """Return the rule of the reference triangle, nodes (2, q) and weights (q,), on each triangle of a mesh."""
    basis = skfem.Basis(mesh, skfem.ElementTriP1(), quadrature=(nodes, weights))
    return Quadrature(np.asarray(basis.global_coordinates()).reshape(2, -1).T, basis.dx.ravel())
