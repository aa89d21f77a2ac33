"""Domains of problems, by name: one file a kind.

- `base`: what a domain is
- `unit_cube`: the unit interval, square and cube
- `mapped_features`: what features see of another box
- `box`: boxes, periodic directions, and faces with a given flux
- `approximate_distance`: a smooth function that vanishes on a boundary of segments
- `triangulated`: what domains have in common that are integrated over triangles
- `disk`: the disk
- `polygon`: polygons by their corners
- `mesh`: domains given by a mesh in a file
"""

from evogt_study.numerics.domains.base import Domain
from evogt_study.numerics.domains.box import Box
from evogt_study.numerics.domains.disk import Disk
from evogt_study.numerics.domains.mesh import Mesh
from evogt_study.numerics.domains.polygon import Polygon
from evogt_study.numerics.domains.unit_cube import UnitCube
from evogt_study.numerics.registry import Registry

__all__ = ["DOMAINS", "Box", "Disk", "Domain", "Mesh", "Polygon", "UnitCube"]

DOMAINS: Registry[type[Domain]] = Registry(
    "domain",
    "evogt_study.domains",
    ("unit_cube", UnitCube),
    ("box", Box),
    ("disk", Disk),
    ("polygon", Polygon),
    ("mesh", Mesh),
)
