"""Domains of problems, by name.

- `base`: the contract of a domain; features on a mapped box
- `box`: boxes, with periodic directions and natural faces; the unit cube
- `triangulated`: the common part of domains that are integrated over triangles
- `triangles`: the part of it that uses scikit-fem, imported when it is first used
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

DOMAINS: Registry[type[Domain]] = Registry("domain", "evogt_study.domains")
"""Domains by name, also from installed packages."""


def content_of(domain: Domain, *, whole: bool = False) -> dict[str, Any]:
    """Identity of a domain as JSON values.  `domain_from` makes the domain from its `whole` content."""
    kind = next(name for name, known in DOMAINS.items() if known is type(domain))
    # A field that is not compared is not part of the identity: a mesh is identified by the digest of its arrays.
    parts = {part.name: getattr(domain, part.name) for part in fields(domain) if whole or part.compare}
    return {"kind": kind} | {
        name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in parts.items()
    }


def domain_from(content: Mapping[str, Any]) -> Domain:
    """The domain with this whole content."""
    kind = DOMAINS[content["kind"]]
    return kind(**{name: _tuples(part) for name, part in content.items() if name != "kind"})


def _tuples(part: Any) -> Any:
    return tuple(map(_tuples, part)) if isinstance(part, list) else part
