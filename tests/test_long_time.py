"""A forced nonlinear reaction over a long time, against a sine-spectral solution that shares nothing with the package.

u_t = 0.001 lap u + 5 sin(u^2) (1 + 2 sin(pi t/4)) sin(4 pi x) sin(2 pi y),    u_0 = sin(4 pi x) sin(3 pi y),    T = 100
"""

import numpy as np
import pytest
import scipy.fft

from evogt_study import pde
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve_arrays

TIMES = (20.0, 40.0, 60.0, 80.0, 100.0)
CIRCLE = np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 32)
"""Where the functions of ETD-RK4 are averaged, about each of their arguments."""


def transformed(values):
    return scipy.fft.dstn(values, type=1, norm="ortho")


def etd_weights(z):
    """Of the fourth-order exponential Runge-Kutta method of Cox and Matthews, per unit of the time step."""
    w = z[..., None] + CIRCLE
    functions = (
        (np.exp(w / 2) - 1) / w,
        (-4 - w + np.exp(w) * (4 - 3 * w + w**2)) / w**3,
        (2 + w + np.exp(w) * (w - 2)) / w**3,
        (-4 - 3 * w - w**2 + np.exp(w) * (4 - w)) / w**3,
    )
    return [np.mean(function, axis=-1).real for function in functions]


def sine_spectral(modes, dt):
    """Coefficients of 2 sin(k pi x) sin(l pi y) at `TIMES`, (5, modes, modes)."""
    x = np.arange(1, modes + 1) / (modes + 1)
    X, Y = np.meshgrid(x, x, indexing="ij")
    shape, squares = np.sin(4 * np.pi * X) * np.sin(2 * np.pi * Y), (np.pi * np.arange(1, modes + 1)) ** 2
    z = -0.001 * dt * (squares[:, None] + squares)
    whole, half = np.exp(z), np.exp(z / 2)
    q, f1, f2, f3 = (dt * weight for weight in etd_weights(z))

    def rate(state, t):
        return transformed(5 * np.sin(transformed(state) ** 2) * (1 + 2 * np.sin(np.pi * t / 4)) * shape)

    state, found = transformed(np.sin(4 * np.pi * X) * np.sin(3 * np.pi * Y)), []
    for step in range(round(TIMES[-1] / dt)):
        t = step * dt
        first = rate(state, t)
        a = half * state + q * first
        second = rate(a, t + dt / 2)
        third = rate(half * state + q * second, t + dt / 2)
        fourth = rate(half * a + q * (2 * third - first), t + dt)
        state = whole * state + f1 * first + 2 * f2 * (second + third) + f3 * fourth
        if any(abs((step + 1) * dt - time) < dt / 2 for time in TIMES):
            found.append(state / (modes + 1))
    return np.stack(found)


def evaluated(coefficients, nodes):
    waves = np.pi * np.arange(1, coefficients.shape[-1] + 1)
    x, y = (np.sin(part[:, None] * waves) for part in nodes.T)
    return 2 * np.einsum("qi,sij,qj->sq", x, coefficients, y, optimize=True)


def distances(one, other, rule):
    return np.sqrt((one - other) ** 2 @ rule.weights / (other**2 @ rule.weights))


@pytest.mark.slow
def test_a_forced_reaction_stays_near_the_spectral_solution():
    rule = UnitCube(2).quadrature(QuadratureRule("gauss_legendre", 48))
    exact = evaluated(sine_spectral(96, 0.05), rule.nodes)
    assert (distances(exact, evaluated(sine_spectral(128, 0.025), rule.nodes), rule) < 1e-3).all()
    problem = pde.FormulaProblem(
        2, initial="sin(4*pi*x)*sin(3*pi*y)", diffusion="1/1000",
        reaction="5*sin(u**2)*(1+2*sin(pi*t/4))*sin(4*pi*x)*sin(2*pi*y)",
    )()  # fmt: skip
    grid = TimeGrid.from_step(TIMES[-1], 0.05, 6)
    rules = (QuadratureRule("gauss_legendre", points) for points in (64, 16))
    dictionary = pde.Dictionary("gtransnet", N=600, N1=1200, gamma=10)
    found = solve_arrays(problem, Discretisation(dictionary, 0, 1e-12, *rules, grid, INTEGRATORS["imex_bdf_2"]()))
    assert (distances(found.evaluate(rule.nodes)[1:], exact, rule) < 5e-2).all()
