"""Domains of problems, by name: one file a kind.

- `base`: the contract of a domain
- `unit_cube`: the unit interval, square and cube
- `mapped_features`: what features see of another box
- `box`: boxes, periodic directions, and faces with a given flux
- `approximate_distance`: a smooth function that vanishes on a boundary of segments
- `triangulated`: what domains have in common that are integrated over triangles
- `triangles`: what scikit-fem does for them
- `disk`: the disk
- `polygon`: polygons by their corners
- `mesh`: domains given by a mesh in a file
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from evogt_study.pde.domains.base import Domain
from evogt_study.pde.domains.box import Box, UnitCube
from evogt_study.pde.domains.disk import Disk
from evogt_study.pde.domains.mesh import Mesh
from evogt_study.pde.domains.polygon import Polygon
from evogt_study.registry import Registry

__all__ = ["DOMAINS", "Box", "Disk", "Domain", "Mesh", "Polygon", "UnitCube", "content_of", "domain_from"]


def content_of(domain: Domain, *, whole: bool = False) -> dict[str, Any]:
    """Identity of a domain, as JSON-able content; from the `whole` of it the domain can be made again."""
    kind = next(name for name, known in DOMAINS.items() if known is type(domain))
    # what is not compared is not identity: the digest of a mesh stands for its arrays
    parts = {part.name: getattr(domain, part.name) for part in fields(domain) if whole or part.compare}
    return {"kind": kind} | {
        name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in parts.items()
    }


def domain_from(content: Mapping[str, Any]) -> Domain:
    """The domain that the whole content is of."""
    kind = DOMAINS[content["kind"]]
    return kind(**{name: _tuples(part) for name, part in content.items() if name != "kind"})


def _tuples(part: Any) -> Any:
    return tuple(map(_tuples, part)) if isinstance(part, list) else part


DOMAINS: Registry[type[Domain]] = Registry("domain", "evogt_study.domains")
