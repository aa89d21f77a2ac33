"""Time integrators of the retained system, by name: one file a scheme.

- `base`: what an integrator is
- `implicit_midpoint`: the implicit midpoint rule
- `stabilized_semi_implicit`: the stabilised step for gradient flows
"""

from evogt_study.numerics.integrators.base import Integrator
from evogt_study.numerics.integrators.implicit_midpoint import ImplicitMidpoint
from evogt_study.numerics.integrators.stabilized_semi_implicit import StabilizedSemiImplicit
from evogt_study.numerics.registry import Registry

__all__ = ["INTEGRATORS", "ImplicitMidpoint", "Integrator", "StabilizedSemiImplicit"]

INTEGRATORS: Registry[type[Integrator]] = Registry(
    "time_integrator",
    "evogt_study.integrators",
    ("implicit_midpoint", ImplicitMidpoint),
    ("stabilized_semi_implicit", StabilizedSemiImplicit),
)
