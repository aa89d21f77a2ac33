"""Time integrators of the retained system, by name: one file a scheme.

- `base`: what an integrator is
- `starting`: a start by half steps of the implicit Euler rule
- `runge_kutta`: implicit Runge-Kutta methods by their tableau, and Newton's method
- `implicit_midpoint`: the implicit midpoint rule
- `trapezoidal`: the method of Crank and Nicolson
- `implicit_euler`: the implicit Euler rule
- `gauss_2`: Gauss collocation at two nodes
- `gauss_3`: Gauss collocation at three nodes
- `radau_iia_2`: Radau IIA collocation at two nodes
- `radau_iia_3`: Radau IIA collocation at three nodes
- `sdirk_2`: a diagonally implicit method of two stages
- `semi_implicit`: what schemes with an explicit reaction have in common
- `imex_bdf_2`: backward differentiation with an explicit reaction
- `adaptive_radau`: SciPy's Radau IIA method with steps of its own choice
- `stabilized_semi_implicit`: the stabilised step for gradient flows
"""

from evogt_study.pde.integrators.base import Integrator, Start
from evogt_study.pde.integrators.implicit_midpoint import ImplicitMidpoint
from evogt_study.pde.integrators.stabilized_semi_implicit import StabilizedSemiImplicit
from evogt_study.registry import Registry

__all__ = ["INTEGRATORS", "ImplicitMidpoint", "Integrator", "StabilizedSemiImplicit", "Start"]

INTEGRATORS: Registry[type[Integrator]] = Registry("time_integrator", "evogt_study.integrators")
