"""Domains of problems, by name.

- `base` defines domains, and features on a mapped box.
- `box` has the unit cube, and boxes with periodic directions and natural faces.
- `plane` has disks, polygons, and meshes from files, with quadrature rules on triangles.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.pde.domains.base import Domain
from evogt_study.pde.domains.box import Box, UnitCube
from evogt_study.pde.domains.plane import Disk, Mesh, Polygon
from evogt_study.registry import Registry

__all__ = ["DOMAINS", "Box", "Disk", "Domain", "Mesh", "Polygon", "UnitCube", "describe_domain", "make_domain"]

DOMAINS: Registry[type[Domain]] = Registry("domain", "evogt_study.domains")
"""Registry of domains, which includes domains of installed packages."""


def describe_domain(domain: Domain, *, whole: bool = False) -> dict[str, Any]:
    """Return the JSON values that identify a domain, or with `whole` all values that `make_domain` needs.

    Raises ParameterError if the type of the domain is not registered.
    """
    # `type` instead of `isinstance`, because a derived class is another kind.  Installed packages come last, because
    # their search takes time.
    names = (name for list_names in (lambda: DOMAINS, DOMAINS.list_installed) for name in list_names())
    kind = next((name for name in names if DOMAINS[name] is type(domain)), None)
    if kind is None:
        remedy = "add an entry point of the group evogt_study.domains"
        raise ParameterError("domain", "of a registered type", domain, remedy=remedy)
    # A field without comparison does not identify the domain.  For example, the checksum of a mesh replaces its arrays.
    parts = {
        part.name: getattr(domain, part.name)
        for part in fields(domain)
        if (whole or part.compare) and not ("optional" in part.metadata and getattr(domain, part.name) == part.default)
    }
    return {"kind": kind} | {
        name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in parts.items()
    }


def make_domain(content: Mapping[str, Any]) -> Domain:
    """Return the domain from the values of `describe_domain` with `whole`."""
    kind = DOMAINS[content["kind"]]
    return kind(**{name: _to_tuples(part) for name, part in content.items() if name != "kind"})


def _to_tuples(part: Any) -> Any:
    return tuple(map(_to_tuples, part)) if isinstance(part, list) else part
