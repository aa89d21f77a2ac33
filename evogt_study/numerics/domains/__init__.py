"""Domains of problems, by name: one file a kind.

- `base`: what a domain is
- `unit_cube`: the unit interval, square and cube
- `mapped_features`: what features see of another box
- `box`: boxes, periodic directions, and faces with a given flux
"""

from evogt_study.numerics.domains.base import Domain
from evogt_study.numerics.domains.box import Box
from evogt_study.numerics.domains.unit_cube import UnitCube
from evogt_study.numerics.registry import Registry

__all__ = ["DOMAINS", "Box", "Domain", "UnitCube"]

DOMAINS: Registry[type[Domain]] = Registry("domain", "evogt_study.domains", ("unit_cube", UnitCube), ("box", Box))
