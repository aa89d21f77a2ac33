"""The Radau IIA method of order five from SciPy, with adaptive steps."""

from __future__ import annotations

from dataclasses import dataclass

import scipy  # imports its subpackages at their first use, so workers start sooner

from evogt_study.errors import DivergedError
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.numerics import TimeGrid, Trajectory
from evogt_study.schema.parameters import parameter_field, real


@dataclass(frozen=True)
class AdaptiveRadau(Integrator):
    """Integrator with adaptive steps that keep the local error below rtol |alpha_i| + atol.

    The parameter `dt` only determines which times a run can save.
    """

    name = "adaptive_radau"
    GENERAL = True
    ORDER = 0

    # For a smaller rtol, SciPy uses 100 machine epsilons instead, so the result would record a wrong value.
    rtol: float = parameter_field(
        "in [2.3e-14, 1)", real(2.3e-14, 1.0, low_included=True), "rtol", "relative tolerance of a step"
    )
    atol: float = parameter_field("a positive number", real(0.0), "atol", "absolute tolerance of a step")

    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """Return the states at the observed times by interpolation.  Raises DivergedError if SciPy stops early."""
        # Without the Jacobian, SciPy would need r more evaluations for differences.
        solution = scipy.integrate.solve_ivp(
            system.rate, (0.0, grid.final_time), system.initial, method="Radau", t_eval=grid.observed_times,
            rtol=self.rtol, atol=self.atol, jac=system.jacobian,
        )  # fmt: skip
        if not solution.success:
            raise DivergedError(f"adaptive_radau stopped before t = {grid.final_time:g}: {solution.message}")
        return Trajectory(grid.observed_times, solution.y.T)
