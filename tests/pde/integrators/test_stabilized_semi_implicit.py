"""The stabilised semi-implicit step: against dense formulas, its order in time, and its energy (eq:ac_scheme)."""

import numpy as np
import pytest
from wing import every_step, make_space

from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.galerkin.problem import Lifting, NonSeparable, Potential, Problem, Separable
from evogt_study.pde.galerkin.system import TIMES_AT_ONCE, assemble
from evogt_study.pde.integrators import StabilizedSemiImplicit
from evogt_study.pde.numerics import QuadratureRule
from evogt_study.pde.pipeline import Discretisation, solve_arrays
from evogt_study.pde.problems.formula_problem import FormulaProblem

EPS = np.finfo(float).eps
POINTS = {1: 24, 2: 8, 3: 5}
DOUBLE_WELL = Potential(lambda u: (u**2 - 1.0) ** 2 / 4.0, lambda u: u**3 - u)

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])
reactions = pytest.mark.parametrize("reaction", [True, False], ids=["reaction", "linear"])
liftings = pytest.mark.parametrize("lifted", [True, False], ids=["lifted", "homogeneous"])
stiffnesses = pytest.mark.parametrize("moving", [True, False], ids=["moving", "steady"])


def assert_within(found, wanted, bound):
    assert (np.abs(found - wanted) <= bound).all(), np.max(np.abs(found - wanted) / bound)


def space_of(dimension, N=8):
    return make_space(Dictionary("gtransnet", N, 4.0, N1=2 * N), dimension, POINTS[dimension], 1e-6, 0)


# One set of data as plain functions of nodes (Q, d) and a time, and the package's form of it.


def diffusion_at(nodes, t):
    return 0.05 * (1.0 + 0.4 * np.sin(9.0 * t) * np.cos(2.0 * nodes.sum(axis=1)) + 0.3 * nodes[:, 0])


def steady_diffusion(nodes):
    return 0.05 * (1.0 + 0.3 * nodes[:, 0])


def source_at(nodes, t):
    return np.cos(5.0 * t) * np.sin(np.pi * nodes[:, 0]) + t * nodes.prod(axis=1)


def initial_at(nodes):
    return 0.8 * np.prod(np.sin(np.pi * nodes), axis=1) + 0.1 * nodes[:, 0]


def lifting_at(nodes, t):
    return 0.3 * np.cos(3.0 * t) * nodes[:, 0] ** 2 + 0.2 * nodes.sum(axis=1)


def lifting_rate_at(nodes, t):
    return -0.9 * np.sin(3.0 * t) * nodes[:, 0] ** 2


def lifting_slope_at(nodes, t, axis):
    return 0.2 + 0.6 * np.cos(3.0 * t) * nodes[:, 0] * (axis == 0)


def lifting_of(dimension, diffusion):
    slopes = [lambda nodes, t, axis=axis: lifting_slope_at(nodes, t, axis) for axis in range(dimension)]
    fluxes = [lambda nodes, t, slope=slope: diffusion(nodes, t) * slope(nodes, t) for slope in slopes]
    return Lifting(
        NonSeparable(lifting_at),
        NonSeparable(lifting_rate_at),
        tuple(map(NonSeparable, slopes)),
        tuple(map(NonSeparable, fluxes)),
    )


def diffusion_of(moving):
    return diffusion_at if moving else lambda nodes, t: steady_diffusion(nodes)


def problem_of(dimension, *, moving, reaction, lifted):
    return Problem(
        dimension=dimension,
        diffusion=NonSeparable(diffusion_at) if moving else Separable(lambda nodes: steady_diffusion(nodes)[None]),
        initial=initial_at,
        source=NonSeparable(source_at),
        lifting=lifting_of(dimension, diffusion_of(moving)) if lifted else None,
        potential=DOUBLE_WELL if reaction else None,
    )


def naive(space, *, moving, reaction, lifted, stabilization, final_time, steps):
    """States and energies from dense matrices and nodal values, in the order of eq:ac_scheme."""
    x, w, V, G = space.rule.nodes, space.rule.weights, space.values, space.gradients
    a, dt, S = diffusion_of(moving), final_time / steps, stabilization
    zero, axes = np.zeros(len(x)), range(len(G))
    u_b = lambda t: lifting_at(x, t) if lifted else zero  # noqa: E731
    rate = lambda t: lifting_rate_at(x, t) if lifted else zero  # noqa: E731
    slope = lambda t, axis: lifting_slope_at(x, t, axis) if lifted else zero  # noqa: E731

    def energy(alpha, t):
        u = u_b(t) + V @ alpha
        gradients = sum((slope(t, axis) + G[axis] @ alpha) ** 2 for axis in axes)
        return np.sum(w * (0.5 * a(x, t) * gradients + (0.25 * (u**2 - 1.0) ** 2 if reaction else 0.0)))

    alpha = V.T @ (w * (initial_at(x) - u_b(0.0)))
    states, energies = [alpha], [energy(alpha, 0.0)]
    for n in range(steps):
        before, after = n * dt, (n + 1) * dt
        W = np.diag(w * a(x, after))
        K = sum(G[axis].T @ W @ G[axis] for axis in axes)
        b = V.T @ (w * (source_at(x, after) - rate(after))) - sum(G[axis].T @ W @ slope(after, axis) for axis in axes)
        u = u_b(before) + V @ alpha
        g = V.T @ (w * (u**3 - u)) if reaction else 0.0
        damping = S * (V.T @ (w * (u_b(after) - u_b(before))))
        matrix = (1.0 + S * dt) * np.eye(len(alpha)) + dt * K
        alpha = np.linalg.solve(matrix, (1.0 + S * dt) * alpha + dt * (b - g - damping))
        states.append(alpha)
        energies.append(energy(alpha, after))
    return np.array(states), np.array(energies)


@dimensions
@stiffnesses
@reactions
@liftings
def test_steps_and_energies_are_the_dense_formula(dimension, moving, reaction, lifted):
    space = space_of(dimension)
    case = {"moving": moving, "reaction": reaction, "lifted": lifted}
    system = assemble(space, problem_of(dimension, **case))
    for stabilization, steps in ((0.0, 1), (2.0, 1), (3.5, 7)):
        found = StabilizedSemiImplicit(stabilization).march(system, every_step(0.6, steps))
        states, energies = naive(space, **case, stabilization=stabilization, final_time=0.6, steps=steps)
        assert found.coefficients.shape == states.shape
        # sums of Q products, and a condition number below 10 of each step's matrix: measured 10 EPS
        assert_within(found.coefficients, states, 64 * EPS * np.abs(states).max())
        assert found.energies == pytest.approx(energies, rel=32 * EPS, abs=0.0)


@pytest.mark.parametrize("steps", [TIMES_AT_ONCE - 1, TIMES_AT_ONCE, TIMES_AT_ONCE + 1, 2 * TIMES_AT_ONCE + 5])
@stiffnesses
def test_the_blocks_of_times_leave_no_seam(steps, moving):
    space = space_of(1)
    case = {"moving": moving, "reaction": True, "lifted": True}
    found = StabilizedSemiImplicit(2.0).march(assemble(space, problem_of(1, **case)), every_step(1.0, steps))
    states, energies = naive(space, **case, stabilization=2.0, final_time=1.0, steps=steps)
    assert_within(found.coefficients, states, 8 * EPS * (steps + 8) * np.abs(states).max())
    assert found.energies.shape == (steps + 1,)
    assert found.energies == pytest.approx(energies, rel=8 * EPS * (steps + 8), abs=0.0)


ALLEN_CAHN = {
    1: "0.9*sin(3*pi*x) + 0.3*sin(5*pi*x)",
    2: "0.5*sin(2*pi*x)*sin(3*pi*y) + 0.4*sin(pi*x)*sin(pi*y)",
    3: "0.8*sin(pi*x)*sin(2*pi*y)*sin(pi*z)",
}


def gradient_flow(dimension, dt, stabilization, steps=90):
    statement = FormulaProblem(
        dimension, initial=ALLEN_CAHN[dimension], diffusion="1/400 + x/900", potential="(u**2 - 1)**2/4"
    )
    dictionary = Dictionary("gaussian_rf", 40, {1: 8.0, 2: 3.0, 3: 2.0}[dimension])
    rule = QuadratureRule("gauss_legendre", {1: 60, 2: 14, 3: 8}[dimension])
    integrator, grid = StabilizedSemiImplicit(stabilization), every_step(dt * steps, steps)
    return solve_arrays(statement(), Discretisation(dictionary, 2, 1e-8, rule, rule, grid, integrator))


@pytest.mark.long
@dimensions
@pytest.mark.parametrize("dt", [1e-3, 0.05, 1.0, 50.0])
def test_the_energy_never_grows_whatever_the_step(dimension, dt):
    solution = gradient_flow(dimension, dt, 2.0)
    energies = solution.trajectory.energies
    # F'' = 3u^2 - 1 is at most 2S = 4 as long as u^2 <= 5/3
    nodal = solution.evaluate(solution.space.rule.nodes)
    assert np.abs(nodal).max() < np.sqrt(5 / 3)
    assert energies[-1] < energies[0] * (1.0 - 1e-4)
    assert (np.diff(energies) <= 16 * EPS * energies[0]).all()


def test_without_stabilisation_a_long_step_does_raise_the_energy():
    # so that the decay above is the stabilisation's doing, and not the test's blindness
    assert (np.diff(gradient_flow(1, 1.9, 0.0).trajectory.energies) > 1e-3).any()
    assert (np.diff(gradient_flow(1, 1.9, 2.0).trajectory.energies) <= 16 * EPS).all()
