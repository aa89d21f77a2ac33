"""Time integrators of the retained system, by name: Runge-Kutta methods and semi-implicit schemes."""

from evogt_study.pde.integrators.base import Integrator, Start
from evogt_study.pde.integrators.runge_kutta import ImplicitMidpoint
from evogt_study.pde.integrators.semi_implicit import StabilizedSemiImplicit
from evogt_study.registry import Registry

__all__ = ["INTEGRATORS", "ImplicitMidpoint", "Integrator", "StabilizedSemiImplicit", "Start"]

INTEGRATORS: Registry[type[Integrator]] = Registry("time_integrator", "evogt_study.integrators")
"""Registry of integrators, which includes integrators of installed packages."""
