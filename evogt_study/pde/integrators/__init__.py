"""Time integrators of the retained system, by name.

- `base` defines integrators, and first steps by the implicit Euler rule.
- `runge_kutta` has implicit Runge-Kutta methods, and Newton's method for nonlinear systems.
- `semi_implicit` has schemes with an explicit reaction: the stabilised step for gradient flows and imex_bdf_2.
- `flux_system` has the Galerkin system of fields with nonlinear fluxes, and its time steps.
"""

from evogt_study.pde.integrators.base import Integrator, Start
from evogt_study.pde.integrators.runge_kutta import ImplicitMidpoint
from evogt_study.pde.integrators.semi_implicit import StabilizedSemiImplicit
from evogt_study.registry import Registry

__all__ = ["INTEGRATORS", "ImplicitMidpoint", "Integrator", "StabilizedSemiImplicit", "Start"]

INTEGRATORS: Registry[type[Integrator]] = Registry("time_integrator", "evogt_study.integrators")
"""Registry of integrators, which includes integrators of installed packages."""
