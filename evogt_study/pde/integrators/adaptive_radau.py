"""The Radau IIA method of order five of SciPy, which chooses its steps."""

from __future__ import annotations

from dataclasses import dataclass

import scipy  # which imports its parts when they are first used: workers start sooner

from evogt_study.errors import DivergedError
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.numerics import Array, TimeGrid, Trajectory
from evogt_study.schema.parameters import parameter_field, real


@dataclass(frozen=True)
class AdaptiveRadau(Integrator):
    """Steps with an error below rtol |alpha_i| + atol each.  `dt` determines the times that may be observed."""

    name = "adaptive_radau"
    GENERAL = True
    ORDER = 0

    # SciPy raises a smaller rtol to 100 machine epsilons, with a warning: it would not be what was computed
    rtol: float = parameter_field(
        "in [2.3e-14, 1)", real(2.3e-14, 1.0, low_included=True), "rtol", "relative tolerance of a step"
    )
    atol: float = parameter_field("a positive number", real(0.0), "atol", "absolute tolerance of a step")

    def march(self, system: GalerkinSystem, grid: TimeGrid) -> Trajectory:
        """March from alpha(0) to final_time and interpolate at the observed times.  Raises DivergedError."""
        # with its Jacobian, else SciPy takes r more evaluations to find each by differences
        solution = scipy.integrate.solve_ivp(
            system.rate, (0.0, grid.final_time), system.initial, method="Radau", t_eval=grid.observed_times,
            rtol=self.rtol, atol=self.atol, jac=system.jacobian,
        )  # fmt: skip
        if not solution.success:
            raise DivergedError(f"adaptive_radau gave up before t = {grid.final_time:g}: {solution.message}")
        return Trajectory(grid.observed_times, solution.y.T)

    # its own steps are not known before it runs
    def times(self, grid: TimeGrid) -> Array:
        return grid.times_of(tuple(range(grid.steps + 1)))
