"""Domains of problems: `base` says what one is; then a file a kind."""

from evogt_study.numerics.domains.base import Domain
from evogt_study.numerics.domains.unit_cube import UnitCube
from evogt_study.numerics.registry import Registry

__all__ = ["DOMAINS", "Domain", "UnitCube"]

DOMAINS: Registry[type[Domain]] = Registry("domain", "evogt_study.domains", ("unit_cube", UnitCube))
