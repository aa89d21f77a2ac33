"""The implicit midpoint rule has order two in time, with the paper's errors (tab:temporal_convergence).

Errors are measured in the Euclidean norm of the coefficients, which is the assembly-quadrature norm (prop:mass), on one
fixed retained space, so that nothing but the time step is seen.
"""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.coefficient_reference import CoefficientReference
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import assemble
from evogt_study.pde.integrators import ImplicitMidpoint
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid

MOVING = "1e-2*(1 + 0.2*sin(2*pi*t/0.1)*cos(2*pi*x))"
# reference, wave, diffusion, T, least number of steps, and the printed errors for it and its doubles
CASES = [
    ("eigendecomposition", 8, "1e-2", 0.25, 25, ["5.25e-04", "1.31e-04", "3.28e-05", "8.20e-06"]),
    ("dop853", 4, MOVING, 0.1, 10, ["1.23e-05", "3.04e-06", "7.59e-07", "1.90e-07"]),
]


@pytest.mark.parametrize(("name", "wave", "diffusion", "final_time", "least", "printed"), CASES)
def test_temporal_convergence_of_the_paper(name, wave, diffusion, final_time, least, printed):
    line, dictionary = UnitCube(1), pde.Dictionary("gtransnet", N=60, N1=240, gamma=20)
    trial = trial_functions(line, dictionary.sample(0, 1), line.quadrature(QuadratureRule("gauss_legendre", 320)))
    problem = pde.FormulaProblem(1, initial=f"sin({wave}*pi*x)", diffusion=diffusion)()
    system = assemble(retain(trial, weighted_svd(trial), 1e-12), problem)
    exact = CoefficientReference(name).final_state(system, final_time)
    grids = [TimeGrid(final_time, least * factor, ()) for factor in (1, 2, 4, 8)]
    states = [ImplicitMidpoint().march(system, grid).coefficients[-1] for grid in grids]
    errors = np.array([np.linalg.norm(state - exact) for state in states]) / np.linalg.norm(exact)
    assert np.log2(errors[:-1] / errors[1:]) == pytest.approx([2.0] * 3, abs=0.02)
    assert [f"{error:.2e}" for error in errors] == printed
