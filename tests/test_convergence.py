"""The implicit midpoint rule has order two in time, with the constant that the analysis gives.

Errors are measured in the Euclidean norm of the coefficients, which is the assembly-quadrature norm (prop:mass), on one
fixed retained space, so that nothing but the time step is seen.
"""

import numpy as np
import pytest
import scipy.integrate

from evogt_study import pde
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import assemble
from evogt_study.pde.integrators import ImplicitMidpoint
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid

LINE = UnitCube(1)


def retained_space(dictionary, seed=0, tau=1e-12, points=320):
    trial = trial_functions(LINE, dictionary.sample(seed, 1), LINE.quadrature(QuadratureRule("gauss_legendre", points)))
    return retain(trial, weighted_svd(trial), tau)


@pytest.fixture(scope="module")
def paper_space():
    """The retained space of the paper's temporal-convergence table (tab:temporal_convergence)."""
    return retained_space(pde.Dictionary("gtransnet", N=60, N1=240, gamma=20))


def final_state(system, final_time, steps):
    return ImplicitMidpoint().march(system, TimeGrid(final_time, steps, ())).coefficients[-1]


def errors_against(reference, system, final_time, steps):
    states = [final_state(system, final_time, count) for count in steps]
    return np.array([np.linalg.norm(state - reference) for state in states]) / np.linalg.norm(reference)


def orders(errors):
    """Observed orders over successive halvings of the step."""
    return np.log2(errors[:-1] / errors[1:])


# References


def eigenbasis_solution(system, t):
    """alpha(t) of an autonomous system without load."""
    eigenvalues, basis = np.linalg.eigh(system.stiffness(0.0))
    return basis @ (np.exp(-eigenvalues * t) * (basis.T @ system.initial))


def adaptive_solution(system, final_time):
    """alpha(final_time) by the eighth-order Dormand-Prince method, at the paper's tolerances."""
    solution = scipy.integrate.solve_ivp(
        lambda t, alpha: system.load(np.array([t]))[0] - system.stiffness(t) @ alpha,
        (0.0, final_time),
        system.initial,
        method="DOP853",
        rtol=1e-12,
        atol=1e-14,
    )
    assert solution.success
    return solution.y[:, -1]


# The paper's two tests, on its retained space (tab:temporal_convergence)

STEP_COUNTS = {"autonomous": [25, 50, 100, 200], "nonautonomous": [10, 20, 40, 80]}  # dt = 1e-2 ... 1.25e-3


def test_autonomous_temporal_convergence_of_the_paper(paper_space):
    heat = pde.FormulaProblem(dimension=1, initial="sin(8*pi*x)", diffusion="1e-2")()
    system = assemble(paper_space, heat)
    assert system.autonomous
    errors = errors_against(eigenbasis_solution(system, 0.25), system, 0.25, STEP_COUNTS["autonomous"])
    assert orders(errors) == pytest.approx([2.0] * 3, abs=1e-3)
    assert [f"{error:.2e}" for error in errors] == ["5.25e-04", "1.31e-04", "3.28e-05", "8.20e-06"]


def test_nonautonomous_temporal_convergence_of_the_paper(paper_space):
    moving = pde.FormulaProblem(
        dimension=1, initial="sin(4*pi*x)", diffusion="1e-2*(1 + 0.2*sin(2*pi*t/0.1)*cos(2*pi*x))"
    )()
    system = assemble(paper_space, moving)
    assert not system.autonomous
    errors = errors_against(adaptive_solution(system, 0.1), system, 0.1, STEP_COUNTS["nonautonomous"])
    assert orders(errors) == pytest.approx([2.0] * 3, abs=0.02)
    assert [f"{error:.2e}" for error in errors] == ["1.23e-05", "3.04e-06", "7.59e-07", "1.90e-07"]


# The floor that the time step sets to a manufactured solution
#
# Let u = exp(-t) v(x) with v in the space, K v = k v and the manufactured load b(t) = (k - 1) exp(-t) v.  The midpoint
# rule keeps the particular solution C exp(-t_n) v, where with h = dt, after division by exp(-t_{n+1/2}),
#
#     -(2/h) sinh(h/2) C + k cosh(h/2) C = k - 1,    so    C = (k - 1) / (k cosh(h/2) - (2/h) sinh(h/2)).
#
# The expansion of both functions gives 1 - C = h^2 (3k - 1) / (24 (k - 1)) + O(h^4), and h^2/8 for a stiff mode.
# The start v = C v + (1 - C) v adds (1 - C) g^n v with the rule's growth factor g = (1 - h k/2)/(1 + h k/2), so that
#
#     relative error at t_n  =  |1 - C| |1 - g^n exp(t_n)|.
