"""Energy stability of source-free problems (thm:energy, thm:im): identities to rounding, decay for every step size."""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve_arrays

EPS = np.finfo(float).eps

BUMPS = {1: "x*(1-x)*(1+x)", 2: "sin(pi*x)*y*(1-y)", 3: "sin(pi*x)*sin(2*pi*y)*z*(1-z)"}
DIFFUSIONS = {
    "constant": "1/10",
    "oscillatory": "1/10 + cos(20*pi*x)/20",
    "moving": "(1 + sin(40*t)*cos(2*pi*x)/2)/10",
    "not-separable": "1/10 + cos(4*pi*(x - 3*t))/20",
}
POINTS = {1: 80, 2: 12, 3: 7}
DICTIONARIES = {
    1: pde.Dictionary("gtransnet", N=30, N1=60, gamma=10),
    2: pde.Dictionary("transnet", N=30, gamma=4),
    3: pde.Dictionary("gaussian_rf", N=30, gamma=2),
}


def cooling(dimension, diffusion):
    """A source-free problem: the source is left out."""
    return pde.FormulaProblem(dimension=dimension, initial=BUMPS[dimension], diffusion=DIFFUSIONS[diffusion])()


def solve(dimension, diffusion, dt, steps=20, tau=1e-8):
    rule, grid = QuadratureRule("gauss_legendre", POINTS[dimension]), TimeGrid.from_step(dt * steps, dt)
    return solve_arrays(
        cooling(dimension, diffusion), Discretisation(DICTIONARIES[dimension], 2, tau, rule, rule, grid)
    )


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("diffusion", DIFFUSIONS)
@pytest.mark.parametrize("dt", [1e-4, 1e-2, 1.0, 100.0])
def test_the_norm_never_grows_and_the_energy_identity_holds_to_rounding(dimension, diffusion, dt):
    solution = solve(dimension, diffusion, dt)
    grid, states = solution.discretisation.grid, solution.trajectory.coefficients
    norms = np.linalg.norm(states, axis=1)
    assert (norms[1:] <= norms[:-1] * (1.0 + 4 * EPS)).all()
    assert norms[-1] < norms[0]
    for before, after, t in zip(states[:-1], states[1:], grid.midpoints, strict=True):
        both = after + before
        half = dt / 2 * solution.system.stiffness(float(t))
        # `both` is the difference of near-opposites in stiff modes: its rounding is seen through K
        noise = np.linalg.norm(half, 2) * np.linalg.norm(both) * np.linalg.norm(before)
        balance = after @ after - before @ before + both @ half @ both
        assert abs(balance) <= 16 * EPS * (before @ before + noise)  # measured: a third of it


def test_a_heat_mode_decays_at_the_rate_of_its_eigenvalue():
    heat = pde.FormulaProblem(dimension=2, initial="sin(pi*x)*sin(pi*y)", diffusion="1/10")()
    ds = pde.solve(
        heat, pde.Dictionary("uniform_elm", N=80, gamma=3), seed=0, quadrature=20, dt=1e-3, tau=1e-13, final_time=0.5,
        certificates=False,
    )  # fmt: skip
    rate = 0.2 * np.pi**2
    growth = (1 - rate * 5e-4) / (1 + rate * 5e-4)  # of the midpoint rule
    norms = ds.norm_history.values
    # the rest is the space's distance from the mode, squared
    assert norms == pytest.approx(0.5 * growth ** np.arange(501), rel=1e-9, abs=0.0)
    assert ds.energy_history.values == pytest.approx(rate * norms**2, rel=1e-9, abs=0.0)
