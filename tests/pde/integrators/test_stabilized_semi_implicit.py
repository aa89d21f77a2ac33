"""The stabilised semi-implicit step: against dense formulas, its order in time, and its energy (eq:ac_scheme)."""

import dataclasses
import gc
import itertools
import multiprocessing
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.errors import DivergedError, ParameterError, ProblemError
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.coefficient_reference import CoefficientReference
from evogt_study.pde.galerkin.problem import Lifting, NonSeparable, Potential, Problem, Separable
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import TIMES_AT_ONCE, GalerkinSystem, Reaction, assemble
from evogt_study.pde.integrators import ImplicitMidpoint, StabilizedSemiImplicit
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve
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


def space_of(dimension, N=8, tau=1e-6, seed=0):
    cube = UnitCube(dimension)
    quadrature = cube.quadrature(QuadratureRule("gauss_legendre", POINTS[dimension]))
    trial = trial_functions(cube, Dictionary("gtransnet", N, 4.0, N1=2 * N).sample(seed, dimension), quadrature)
    return retain(trial, weighted_svd(trial), tau)


def every_step(final_time, steps):
    return TimeGrid(final_time, steps, tuple(range(steps + 1)))


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
    x, w, V, G = space.quadrature.nodes, space.quadrature.weights, space.values, space.gradients
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


# Against the formula


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


@reactions
@liftings
@pytest.mark.parametrize("steps", [1, 40, TIMES_AT_ONCE])
def test_the_eigenbasis_and_the_factorisations_give_the_same_states(reaction, lifted, steps):
    system = assemble(space_of(2, N=20, tau=1e-10), problem_of(2, moving=False, reaction=reaction, lifted=lifted))
    assert system.autonomous
    wrapped = dataclasses.replace(system, autonomous=False)
    one, other = (StabilizedSemiImplicit(2.0).march(each, every_step(1.0, steps)) for each in (system, wrapped))
    assert_within(one.coefficients, other.coefficients, 16 * EPS * (steps + 8) * np.abs(other.coefficients).max())
    # in energies the rounding of a state is seen through K, whose condition it is that counts
    stiffness = np.linalg.norm(system.stiffness(0.0), 2)
    noise = 16 * EPS * (steps + 8) * max(1.0, stiffness) * np.abs(other.coefficients).max() ** 2
    assert_within(one.energies, other.energies, noise)


@stiffnesses
@liftings
def test_without_stabilisation_it_is_the_semi_implicit_euler_method(moving, lifted):
    space = space_of(1)
    system = assemble(space, problem_of(1, moving=moving, reaction=True, lifted=lifted))
    steps, dt = 20, 0.05
    x, w, V = space.quadrature.nodes, space.quadrature.weights, space.values
    alpha = system.initial
    for n in range(steps):
        t = np.array([(n + 1) * dt])
        u = V @ alpha + (lifting_at(x, n * dt) if lifted else 0.0)
        rhs = alpha + dt * (system.load(t)[0] - V.T @ (w * (u**3 - u)))
        alpha = np.linalg.solve(np.eye(len(alpha)) + dt * system.stiffness(t[0]), rhs)
    found = StabilizedSemiImplicit(0.0).march(system, every_step(1.0, steps)).coefficients[-1]
    assert_within(found, alpha, 8 * EPS * (steps + 8) * np.abs(alpha).max())


@pytest.mark.parametrize("autonomous", [True, False])
def test_a_linear_mode_is_damped_by_the_factor_of_the_scheme(autonomous):
    k, S, dt, steps = 7.0, 2.5, 0.1, 12
    system = GalerkinSystem(
        lambda t: np.array([[k]]), autonomous, lambda times: np.zeros((len(times), 1)), np.array([3.0])
    )
    found = StabilizedSemiImplicit(S).march(system, every_step(dt * steps, steps))
    factor = (1 + S * dt) / (1 + S * dt + dt * k)
    wanted = 3.0 * factor ** np.arange(steps + 1)
    assert found.coefficients[:, 0] == pytest.approx(wanted, rel=8 * EPS * steps, abs=0.0)
    assert found.energies == pytest.approx(0.5 * k * wanted**2, rel=16 * EPS * steps, abs=0.0)


@stiffnesses
def test_only_the_observed_states_are_kept_and_all_energies(moving):
    system = assemble(space_of(1), problem_of(1, moving=moving, reaction=True, lifted=True))
    everything = StabilizedSemiImplicit(2.0).march(system, TimeGrid.of(1.0, 0.01))
    some = StabilizedSemiImplicit(2.0).march(system, TimeGrid.of(1.0, 0.01, (0.2, 0.65)))
    assert np.array_equal(some.times, everything.times[[0, 20, 65, 100]])
    # of fewer states the product with the eigenbasis is a smaller one, and may round otherwise
    assert some.coefficients == pytest.approx(everything.coefficients[[0, 20, 65, 100]], abs=4 * EPS)
    assert np.array_equal(some.energies, everything.energies)


OBSERVED = [(0, 4, 12), (0, 12)]


@pytest.mark.long
def test_no_step_asks_for_memory():
    """Between one look at the reaction and the next no array of nodes, nor of modes that is not kept, is allocated."""
    Q, r = 4_000, 300
    # in a process of one thread: what the test runner's threads allocate meanwhile would be counted
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
        for observed, taken in zip(OBSERVED, alone.map(taken_by_steps, OBSERVED, repeat(Q), repeat(r)), strict=True):
            assert [step for step, each in enumerate(taken, start=1) if each > 4 * r] == list(observed[1:])  # kept
            assert max(taken) < 8 * Q


def taken_by_steps(observed, Q, r):
    """Bytes that each of 12 steps allocates at most, beyond what it found."""
    double_well = FormulaProblem(dimension=1, initial="x*(1-x)", potential="(u**2 - 1)**2/4")().potential
    looks = []

    def looked_at(shape):
        both = double_well.at(shape)

        def function(u):
            looks.append(tracemalloc.get_traced_memory())
            tracemalloc.reset_peak()
            return both(u)

        return function

    rng = np.random.default_rng(3)
    potential = dataclasses.replace(double_well, in_place=looked_at)
    system = GalerkinSystem(
        lambda t: np.diag(np.arange(1.0, r + 1.0)),
        autonomous=True,
        load=lambda times: np.zeros((len(times), r)),
        initial=rng.normal(size=r),
        reaction=Reaction(potential, rng.normal(size=(Q, r)) / Q, np.ones(Q)),
    )
    gc.disable()  # what it frees between two looks would hide as much that is allocated
    tracemalloc.start()
    for _ in range(2):  # the first march makes what is kept from then on
        looks.clear()
        StabilizedSemiImplicit(2.0).march(system, TimeGrid(0.1, 12, observed))
    tracemalloc.stop()
    return [peak - before for (before, _), (_, peak) in itertools.pairwise(looks)]


@stiffnesses
@liftings
def test_a_stationary_state_is_a_fixed_point_for_every_step_size(moving, lifted):
    space, lifting = space_of(1), None
    if lifted:  # u_b = x
        one, nothing = Separable(lambda nodes: np.ones((1, len(nodes)))), Separable(lambda nodes: 0.0 * nodes.T)
        flux = Separable(lambda nodes: steady_diffusion(nodes)[None])
        lifting = Lifting(Separable(lambda nodes: nodes.T), nothing, (one,), (flux,))
    problem = problem_of(1, moving=False, reaction=False, lifted=False)
    steady = dataclasses.replace(problem, source=Separable(lambda nodes: nodes.T), lifting=lifting)
    system = dataclasses.replace(assemble(space, steady), autonomous=not moving)
    state = np.linalg.solve(system.stiffness(0.0), system.load(np.zeros(1))[0])
    system = dataclasses.replace(system, initial=state)
    for dt, stabilization in itertools.product((1e-3, 1.0, 100.0), (0.0, 2.0)):
        states = StabilizedSemiImplicit(stabilization).march(system, every_step(20 * dt, 20)).coefficients
        assert states == pytest.approx(np.tile(state, (21, 1)), abs=256 * EPS * np.abs(state).max())


# Order one in time

EXACT = {
    "homogeneous-1d": {
        "dimension": 1,
        "exact": "exp(-t)*sin(pi*x)",
        "diffusion": "(2 + x)/20",
    },
    "lifted-1d": {
        "dimension": 1,
        "exact": "exp(-t)*sin(pi*x) + (1 + t/2)*(1 - x)/2 + x*cos(3*t)/2",
        "lifting": "(1 + t/2)*(1 - x)/2 + x*cos(3*t)/2",
        "diffusion": "(2 + x*sin(4*t))/20",
    },
    "homogeneous-2d": {
        "dimension": 2,
        "exact": "cos(2*t)*sin(pi*x)*y*(1-y)*4",
        "diffusion": "1/20",
    },
    "lifted-2d": {
        "dimension": 2,
        "exact": "cos(2*t)*sin(pi*x)*y*(1-y)*4 + exp(-t)*(x + y**2)/2",
        "lifting": "exp(-t)*(x + y**2)/2",
        "diffusion": "1/20",
    },
}
RESOLVING = {1: (Dictionary("uniform_elm", 40, 6.0), 48), 2: (Dictionary("transnet", 90, 2.0), 14)}


def manufactured(case, steps, stabilization):
    statement = FormulaProblem(**EXACT[case], potential="(u**2 - 1)**2/4")
    dictionary, points = RESOLVING[statement.dimension]
    rule = QuadratureRule("gauss_legendre", points)
    grid = TimeGrid(1.0, steps, ())
    integrator = StabilizedSemiImplicit(stabilization)
    return solve(statement(), Discretisation(dictionary, 1, 1e-13, rule, rule, grid, integrator))


@pytest.mark.long
@pytest.mark.parametrize("case", EXACT)
@pytest.mark.parametrize("stabilization", [0.0, 2.0])
def test_order_one_towards_an_exact_solution_of_the_allen_cahn_equation(case, stabilization):
    solutions = [manufactured(case, steps, stabilization) for steps in (100, 200, 400, 800)]
    errors = np.array([solution.errors[-1] for solution in solutions])
    assert solutions[0].errors[0] < 1e-2 * errors[-1]  # the space is not what is seen
    assert np.log2(errors[:-1] / errors[1:]) == pytest.approx([1.0] * 3, abs=0.04)
    # Richardson: without its leading term the error is of order two
    extrapolated = np.abs(2.0 * errors[1:] - errors[:-1])
    assert (extrapolated < 0.05 * errors[1:]).all()


def test_the_error_constant_of_one_mode_is_half_the_squared_rate_and_the_stabilisation():
    # log factor = log(1 + S h) - log(1 + S h + k h) = -k h + (k^2/2 + S k) h^2 + ...: over T, T h (k^2/2 + S k)
    k, S = 1.5, 2.0
    system = GalerkinSystem(lambda t: np.array([[k]]), True, lambda times: np.zeros((len(times), 1)), np.ones(1))
    for steps in (1000, 2000):
        found = StabilizedSemiImplicit(S).march(system, TimeGrid(2.0, steps, ())).coefficients[-1, 0]
        assert np.log(found) + 2.0 * k == pytest.approx(2.0 * (2.0 / steps) * (k**2 / 2 + S * k), rel=0.01)


def test_the_coefficients_approach_those_of_the_adaptive_reference_with_order_one():
    system = assemble(space_of(1), problem_of(1, moving=True, reaction=True, lifted=True))
    state = CoefficientReference("dop853").final_state(system, 1.0)
    errors = [
        np.linalg.norm(StabilizedSemiImplicit(2.0).march(system, TimeGrid(1.0, steps, ())).coefficients[-1] - state)
        for steps in (400, 800, 1600)
    ]
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([1.0] * 2, abs=0.02)


# Energy

ALLEN_CAHN = {
    1: "0.9*sin(3*pi*x) + 0.3*sin(5*pi*x)",
    2: "0.5*sin(2*pi*x)*sin(3*pi*y) + 0.4*sin(pi*x)*sin(pi*y)",
    3: "0.8*sin(pi*x)*sin(2*pi*y)*sin(pi*z)",
}
SPREAD = {1: "(1 - 2*x)/5", 2: "x*y/2", 3: "(x + y - z)/2"}


def gradient_flow(dimension, dt, stabilization, *, lifted=False, steps=90):
    initial, lifting = ALLEN_CAHN[dimension], None
    if lifted:
        lifting, initial = SPREAD[dimension], f"{initial} + {SPREAD[dimension]}"
    statement = FormulaProblem(
        dimension, initial=initial, diffusion="1/400 + x/900", lifting=lifting, potential="(u**2 - 1)**2/4"
    )
    dictionary = {1: Dictionary("gtransnet", 30, 10.0, N1=60), 2: Dictionary("transnet", 40, 4.0)}.get(
        dimension, Dictionary("gaussian_rf", 40, 2.0)
    )
    rule = QuadratureRule("gauss_legendre", {1: 60, 2: 14, 3: 8}[dimension])
    integrator = StabilizedSemiImplicit(stabilization)
    return solve(
        statement(), Discretisation(dictionary, 2, 1e-8, rule, rule, every_step(dt * steps, steps), integrator)
    )


@pytest.mark.long
@dimensions
@liftings
@pytest.mark.parametrize("dt", [1e-3, 0.05, 1.0, 50.0])
def test_the_energy_never_grows_whatever_the_step(dimension, lifted, dt):
    solution = gradient_flow(dimension, dt, 2.0, lifted=lifted)
    energies = solution.trajectory.energies
    # F'' = 3u^2 - 1 is at most 2S = 4 as long as u^2 <= 5/3
    nodal = solution.evaluate(solution.space.quadrature.nodes)
    assert np.abs(nodal).max() < np.sqrt(5 / 3)
    assert energies[-1] < energies[0] * (1.0 - 1e-4)
    assert (np.diff(energies) <= 16 * EPS * energies[0]).all()


def test_without_stabilisation_a_long_step_does_raise_the_energy():
    # so that the decay above is the stabilisation's doing, and not the test's blindness
    assert (np.diff(gradient_flow(1, 1.9, 0.0).trajectory.energies) > 1e-3).any()
    assert (np.diff(gradient_flow(1, 1.9, 2.0).trajectory.energies) <= 16 * EPS).all()


@dimensions
@liftings
def test_the_energy_is_the_nodal_sum_after_every_step(dimension, lifted):
    solution = gradient_flow(dimension, 0.05, 2.0, lifted=lifted)
    space, trajectory = solution.space, solution.trajectory
    x, w = space.quadrature.nodes, space.quadrature.weights
    a = 1 / 400 + x[:, 0] / 900
    u_b = {1: (1 - 2 * x[:, 0]) / 5, 2: x[:, 0] * x[:, -1] / 2, 3: (x[:, 0] + x[:, 1 % dimension] - x[:, -1]) / 2}[
        dimension
    ]
    slopes = {1: [-0.4], 2: [x[:, -1] / 2, x[:, 0] / 2], 3: [0.5, 0.5, -0.5]}[dimension]
    wanted = []
    for alpha in trajectory.coefficients:
        u = space.values @ alpha + lifted * u_b
        square = sum((space.gradients[axis] @ alpha + lifted * slopes[axis]) ** 2 for axis in range(dimension))
        wanted.append(np.sum(w * (a * square / 2 + (u**2 - 1) ** 2 / 4)))
    assert len(wanted) == 91
    assert trajectory.energies == pytest.approx(wanted, rel=32 * EPS, abs=0.0)  # sums of r^2 and of Q products


def test_the_energy_of_a_problem_without_potential_is_half_the_diffusion_energy():
    space = space_of(1)
    system = assemble(space, problem_of(1, moving=True, reaction=False, lifted=False))
    trajectory = StabilizedSemiImplicit(1.0).march(system, every_step(1.0, 10))
    wanted = [
        0.5 * alpha @ system.stiffness(float(t)) @ alpha
        for t, alpha in zip(trajectory.times, trajectory.coefficients, strict=True)
    ]
    assert trajectory.energies == pytest.approx(wanted, rel=16 * EPS, abs=0.0)


# What is refused


@pytest.mark.parametrize("value", [-1.0, -1e-300, np.inf, np.nan])
def test_a_stabilisation_that_is_not_a_number_from_zero_on_is_refused(value):
    with pytest.raises(ParameterError, match="`stabilization` must be a number >= 0, got"):
        StabilizedSemiImplicit(value)


def test_the_midpoint_rule_is_refused_for_a_problem_with_a_potential():
    problem = problem_of(1, moving=False, reaction=True, lifted=False)
    with pytest.raises(ParameterError, match="`time_integrator` must be stabilized_semi_implicit or imex_bdf_2 for"):
        ImplicitMidpoint().check(problem)
    StabilizedSemiImplicit(0.0).check(problem)
    ImplicitMidpoint().check(problem_of(1, moving=False, reaction=False, lifted=False))


def test_the_diffusion_is_checked_where_the_step_uses_it():
    # at t_{n+1}, not at midpoints: 1 - 1.02 t is -0.02 at t = 1, the last step's
    problem = FormulaProblem(dimension=1, initial="x*(1-x)", diffusion="1 - 1.02*t")()
    dictionary = Dictionary("transnet", N=6, gamma=2)
    options = {"seed": 0, "quadrature": 12, "dt": 0.1, "final_time": 1.0}
    with pytest.raises(ProblemError, match="`diffusion` must be positive"):
        pde.solve(problem, dictionary, time_integrator="stabilized_semi_implicit", **options)
    assert np.isfinite(pde.solve(problem, dictionary, **options).norm_history).all()  # midpoints: up to 0.95


def test_a_flow_that_blows_up_is_said_to_diverge_and_warns_of_nothing():
    problem = FormulaProblem(dimension=1, initial="5*x*(1-x)", potential="-u**4", diffusion="1/100")()
    with pytest.raises(DivergedError, match="not finite"):
        pde.solve(
            problem, Dictionary("transnet", N=6, gamma=2), seed=0, quadrature=12, dt=0.5, final_time=20.0,
            time_integrator="stabilized_semi_implicit",
        )  # fmt: skip


def test_the_midpoint_rule_refuses_a_potential_in_the_pipeline_itself():
    """It has no reaction term: without the check its states are those of the problem without the potential."""
    problem = FormulaProblem(dimension=1, initial="x*(1-x)", potential="(u**2 - 1)**2/4")()
    rule = QuadratureRule("gauss_legendre", 24)
    run = Discretisation(Dictionary("transnet", 8, 3.0), 0, 1e-12, rule, rule, TimeGrid.of(0.1, 0.05, 2))
    with pytest.raises(ParameterError, match="`time_integrator` must be stabilized_semi_implicit or imex_bdf_2 for"):
        solve(problem, run)
    stabilised = dataclasses.replace(run, integrator=StabilizedSemiImplicit(2.0))
    assert solve(problem, stabilised).system.reaction is not None
