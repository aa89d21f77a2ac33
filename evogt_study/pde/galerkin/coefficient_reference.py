"""References for the coefficients at final time, without the error of time steps (tab:temporal_convergence).

They solve the same retained system as the time integrator, so that the difference is due to the time step alone.  One
uses the eigendecomposition of a stiffness that does not depend on time, the other the adaptive eighth-order
Dormand-Prince method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts when they are first used: workers start sooner

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.numerics.arrays import Array

NAMES = ("eigendecomposition", "dop853")
_NOT_STEADY = (
    "`coefficient_reference` eigendecomposition must have a linear problem without advection whose terms do not depend "
    "on t. Use dop853"
)


@dataclass(frozen=True)
class CoefficientReference:
    """A reference by name.  Only dop853 uses rtol, atol and max_step (0 for none)."""

    name: str
    # the paper's tolerances (tab:temporal_convergence): tightened to 1e-13 and 1e-15 they change the coefficients by
    # 9e-14, six orders below the smallest error that is measured against them
    rtol: float = 1e-12
    atol: float = 1e-14
    max_step: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ParameterError("coefficient_reference", f"one of {', '.join(NAMES)}", self.name)

    def check(self, problem: Problem) -> None:
        """Raise ProblemError if the problem of an eigendecomposition is not steady and linear."""
        steady = problem.has_steady_operator and problem.has_steady_load
        if self.name == "eigendecomposition" and not (steady and problem.is_linear and problem.advection is None):
            raise ProblemError(_NOT_STEADY)

    def final_state(self, system: GalerkinSystem, final_time: float) -> Array:
        """Return alpha(T) of the system, (r,).  Raises ProblemError."""
        if self.name == "eigendecomposition":
            return _by_eigendecomposition(system, final_time)
        solution = scipy.integrate.solve_ivp(
            system.rate,
            (0.0, final_time),
            system.initial,
            method="DOP853",
            # else it keeps each of its own steps, and an explicit method takes many if K is stiff
            t_eval=[final_time],
            rtol=self.rtol,
            atol=self.atol,
            max_step=self.max_step or np.inf,
        )
        if not solution.success:
            raise ProblemError(f"dop853 gave up before t = {final_time:g}: {solution.message}")
        return np.asarray(solution.y[:, -1])


# expm1 keeps the digits of (e^z - 1)/z for small z; for z = 0 the limit 1 is used
def _by_eigendecomposition(system: GalerkinSystem, final_time: float) -> Array:
    """Return exp(-T K) alpha(0) + T phi_1(-T K) b, with phi_1(z) = (e^z - 1)/z, for constant K and b."""
    if not (system.autonomous and system.steady_load and system.symmetric) or system.reaction is not None:
        raise ProblemError(_NOT_STEADY)
    # K is symmetric (eq:raw_to_normalized), so that its eigenbasis is orthonormal and no inverse is needed
    eigenvalues, basis = system.modes
    exponents = -final_time * eigenvalues
    weights = np.divide(np.expm1(exponents), exponents, out=np.ones_like(exponents), where=exponents != 0.0)
    decayed = np.exp(exponents) * (system.initial @ basis) + final_time * weights * (
        system.load(np.zeros(1))[0] @ basis
    )
    return np.asarray(basis @ decayed)
