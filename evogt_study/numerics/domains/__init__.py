"""Domains of problems, by name: one file a kind.

- `base`: what a domain is
- `unit_cube`: the unit interval, square and cube
"""

from evogt_study.numerics.domains.base import Domain
from evogt_study.numerics.domains.unit_cube import UnitCube
from evogt_study.numerics.registry import Registry

__all__ = ["DOMAINS", "Domain", "UnitCube"]

DOMAINS: Registry[type[Domain]] = Registry("domain", "evogt_study.domains", ("unit_cube", UnitCube))
