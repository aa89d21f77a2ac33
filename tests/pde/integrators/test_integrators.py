"""Time integrators: orders, damping starts, Newton's method, fixed points, and steps that are refused."""

import dataclasses

import numpy as np
import pytest
import scipy.integrate
from wing import every_step, make_space

from evogt_study import pde
from evogt_study.errors import DivergedError, IndefiniteStiffnessError
from evogt_study.pde.galerkin.problem import NonSeparable, Problem, Separable
from evogt_study.pde.galerkin.system import DenseBasis, GalerkinSystem, Reaction, assemble
from evogt_study.pde.integrators import INTEGRATORS, Start
from evogt_study.pde.integrators.runge_kutta import RungeKutta
from evogt_study.pde.numerics import Quadrature, QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve_arrays

EPS = np.finfo(float).eps
ONE_NODE = DenseBasis(Quadrature(np.zeros((1, 1)), np.ones(1)), np.ones((1, 1)), None)
ORDERS = {
    "implicit_midpoint": 2, "trapezoidal": 2, "implicit_euler": 1, "gauss_2": 4, "gauss_3": 6, "radau_iia_2": 3,
    "radau_iia_3": 5, "sdirk_2": 2, "imex_bdf_2": 2, "stabilized_semi_implicit": 1,
}  # fmt: skip
STEPS = {1: (200, 400), 2: (160, 320), 3: (40, 80), 4: (20, 40), 5: (20, 40), 6: (16, 32)}
"""Numbers of steps at which errors are large enough to be seen and small enough to have their order."""
ONE, TWO = {"dimension": 1, "initial": "x*(1-x)*exp(x)"}, {"dimension": 2, "initial": "x*(1-x)*y*(1-y)*exp(x)"}
PROBLEMS = {
    "autonomous": ONE | {"diffusion": "1/20", "source": "x*exp(-t)"},
    "advected": ONE | {"diffusion": "1/20", "source": "x*exp(-t)", "advection": ["1+x"]},
    "moving": ONE | {"diffusion": "(1+sin(x+t)/2)/20", "advection": ["cos(t)"], "source": "cos(t)"},
    "reacting": ONE | {"diffusion": "1/20", "reaction": "u*(1-u)*cos(x+t)"},
    "plane": TWO | {"diffusion": ["1/20", "(2+cos(t))/20"], "source": "x*exp(-t)"},
    "reacting plane": TWO | {"diffusion": "1/20", "reaction": "sin(u)", "advection": ["y", "-x"]},
}


def integrator(name, **parameters):
    own = {"stabilized_semi_implicit": {"stabilization": 1.0}, "adaptive_radau": {"rtol": 1e-9, "atol": 1e-11}}
    return INTEGRATORS[name](**{**own.get(name, {}), **parameters})


def system_of(problem, N=6, points=20):
    space = make_space(pde.Dictionary("legendre", N=N), problem.dimension, points, 1e-12, 0, problem.domain)
    return assemble(space, problem)


def reference(system, final_time, rtol=3e-14):
    reacted = None if system.reaction is None else system.reaction.evaluate

    def rate(t, alpha):
        slope = system.load(np.array([t]))[0] - system.stiffness(t) @ alpha
        return slope if reacted is None else slope - reacted(alpha, system.nodal_lifting(t), t)[0]

    found = scipy.integrate.solve_ivp(rate, (0, final_time), system.initial, method="DOP853", rtol=rtol, atol=1e-16)
    return found.y[:, -1]


def final_state(scheme, system, final_time, steps):
    return scheme.march(system, TimeGrid(final_time, steps, ())).coefficients[-1]


@pytest.fixture(scope="module")
def systems():
    made = {name: system_of(pde.FormulaProblem(**formulas)()) for name, formulas in PROBLEMS.items()}
    return {name: (system, reference(system, 1.0)) for name, system in made.items()}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ORDERS)
def test_the_order_is_that_of_the_table(name, problem, systems):
    system, exact = systems[problem]
    errors = [np.linalg.norm(final_state(integrator(name), system, 1.0, n) - exact) for n in STEPS[ORDERS[name]]]
    assert errors[1] > 1e3 * EPS * np.linalg.norm(exact)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(ORDERS[name], abs=0.1)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_adaptive_steps_meet_their_tolerance(problem, systems):
    system, exact = systems[problem]
    for rtol in (1e-5, 1e-8):
        found = final_state(integrator("adaptive_radau", rtol=rtol, atol=rtol / 100), system, 1.0, 4)
        assert np.linalg.norm(found - exact) < 30 * rtol * np.linalg.norm(exact)


def test_every_integrator_has_an_order_in_these_tests():
    assert set(ORDERS) | {"adaptive_radau"} == set(INTEGRATORS)


@pytest.mark.parametrize(
    ("name", "left"),
    [("implicit_midpoint", 1), ("trapezoidal", 1), ("gauss_2", 1), ("gauss_3", 1), ("implicit_euler", 0),
     ("radau_iia_2", 0), ("radau_iia_3", 0), ("sdirk_2", 0)],
)  # fmt: skip
def test_l_stable_methods_damp_what_is_stiff_and_the_others_keep_its_size(name, left):
    for moving in (False, True):
        system = dataclasses.replace(matrix_system(np.array([[1e9]]), True), autonomous=not moving)
        assert abs(final_state(integrator(name), system, 1.0, 1)[0]) == pytest.approx(left, abs=1e-6)


@pytest.mark.parametrize("name", [name for name, kind in INTEGRATORS.kinds.items() if issubclass(kind, RungeKutta)])
def test_a_start_is_that_many_half_steps_of_the_implicit_euler_rule(name, systems):
    for problem in ("moving", "reacting", "advected"):
        system, _ = systems[problem]
        euler = integrator("implicit_euler").march(system, TimeGrid(0.2, 4, (0, 2, 4))).coefficients
        started = integrator(name, start=Start(4)).march(system, TimeGrid(1.0, 10, tuple(range(11)))).coefficients
        assert started[1:3] == pytest.approx(euler[1:], rel=1e-12, abs=1e-14)
        whole = integrator(name, start=Start(20)).march(system, TimeGrid(1.0, 10, ())).coefficients[-1]
        assert whole == pytest.approx(final_state(integrator("implicit_euler"), system, 1.0, 20), rel=1e-12)


def test_newton_that_does_not_converge_is_divergence_with_its_last_change():
    # u = 1 + u^3 of the implicit Euler step has no root near; its Newton iterates wander
    rate = pde.NonlinearReaction(lambda u, nodes, t: u**2 + 1.0, lambda u, nodes, t: 2.0 * u)
    law = Reaction(rate, ONE_NODE)
    system = dataclasses.replace(matrix_system(np.zeros((1, 1)), True), reaction=law)
    with pytest.raises(DivergedError, match=r"Newton's method did not converge at t = 1: last change \d"):
        final_state(integrator("implicit_euler"), system, 1.0, 1)


def test_newton_finds_the_root_where_its_matrix_is_not_definite():
    # U = 1/10 + 4 U - U^3: the matrix of the first change is 1 - 4 + 3/100, so it has no Cholesky factor
    rate = pde.NonlinearReaction(lambda u, nodes, t: 4.0 * u - u**3, lambda u, nodes, t: 4.0 - 3.0 * u**2)
    law = Reaction(rate, ONE_NODE)
    system = dataclasses.replace(matrix_system(np.zeros((1, 1)), True), initial=np.array([0.1]), reaction=law)
    (found,) = final_state(integrator("implicit_euler"), system, 1.0, 1)
    assert found == pytest.approx(-0.03334570, rel=1e-6)
    assert found == pytest.approx(0.1 + 4.0 * found - found**3, rel=1e-14)


def test_a_step_without_solution_is_named():
    with pytest.raises(IndefiniteStiffnessError, match="not positive definite"):
        final_state(integrator("gauss_2"), matrix_system(np.array([[-1e3]]), True), 1.0, 1)
    growing = dataclasses.replace(matrix_system(np.array([[-1.0]]), True), autonomous=False, symmetric=False)
    with pytest.raises(IndefiniteStiffnessError, match="not invertible at t = 1"):
        final_state(integrator("implicit_euler"), growing, 1.0, 1)


def pipeline(problem, dictionary, quadrature, final_time, dt, scheme, validation=2000):
    rules = QuadratureRule("gauss_legendre", quadrature), QuadratureRule("composite_midpoint", validation)
    return solve_arrays(
        problem, Discretisation(dictionary, 0, 1e-12, *rules, TimeGrid.from_step(final_time, dt, 2), scheme)
    )


@pytest.mark.long
def test_incompatible_data_need_a_damping_start():
    odd = np.pi * np.arange(1, 4001, 2)[:, None]

    def series(nodes, t):
        return np.sum(4 / odd * np.sin(odd * nodes[:, 0]) * np.exp(-(odd**2) * t), axis=0) if t else np.ones(len(nodes))

    one = Separable(lambda nodes: np.ones((1, len(nodes))))
    problem = Problem(1, one, lambda nodes: np.ones(len(nodes)), exact=NonSeparable(series))
    dictionary = pde.Dictionary("gtransnet", N=160, N1=640, gamma=12)
    plain, started = (
        [pipeline(problem, dictionary, 400, 0.1, dt, integrator("implicit_midpoint", start=start)).errors[-1]
         for dt in (1e-2, 5e-3, 2.5e-3)]
        for start in (None, Start(4))
    )  # fmt: skip
    assert plain[:2] == pytest.approx([0.26, 0.12], rel=0.05)
    assert started[:2] == pytest.approx([4.1e-3, 1.0e-3], rel=0.05)
    # the largest eigenvalue of rank 34 leaves ((z - 2)/(z + 2))^40 at z = dt lambda = 56
    assert plain[2] == pytest.approx(0.010095, rel=1e-3)


# What every integrator promises

SCHEMES = {name: INTEGRATORS[name]() for name, kind in INTEGRATORS.items() if issubclass(kind, RungeKutta)}
SCHEMES |= {
    "started": INTEGRATORS["gauss_2"](start=Start(4)),
    "imex_bdf_2": INTEGRATORS["imex_bdf_2"](),
    **{f"stabilised {S}": INTEGRATORS["stabilized_semi_implicit"](S) for S in (0.0, 2.5)},
}
ROUNDING = {"implicit_midpoint": EPS} | {name: 8 * EPS for name in SCHEMES if name != "implicit_midpoint"}
"""Rounding of a step, relative to the state: schemes of several stages, or of two steps, have more of it."""
schemes = pytest.mark.parametrize("name", SCHEMES)
kinds = pytest.mark.parametrize("autonomous", [True, False])


def spd(seed, size, stiffness):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return (basis * (stiffness * rng.uniform(0.01, 1.0, size))) @ basis.T


def matrix_system(K, autonomous, load=0.0, initial=None):
    """alpha' + K alpha = load(t), with K(t) that is constant but not stated as such if not `autonomous`."""
    size = len(K)
    forced = load if callable(load) else lambda times: np.full((len(times), size), load)
    return GalerkinSystem(lambda t: K, autonomous, forced, np.ones(size) if initial is None else initial)


@schemes
@kinds
@pytest.mark.parametrize("dt", [1e-3, 10.0])  # of slow steps, and of such that every mode alternates
def test_states_do_not_depend_on_which_are_observed(name, autonomous, dt):
    """To the last bit, though states between two strides of steps are computed only where they are observed."""
    b, initial = np.random.default_rng(4).standard_normal((2, 7))
    system = matrix_system(spd(3, 7, 20.0), autonomous, lambda times: np.outer(np.cos(3.0 * times / dt), b), initial)
    everything = SCHEMES[name].march(system, every_step(60 * dt, 60))
    assert everything.coefficients[0] == pytest.approx(initial, abs=32 * EPS)
    for observed in [(0, 60), (0, 20, 40, 60), (0, 12, 18, 60), (0, 7, 60)]:
        some = SCHEMES[name].march(system, TimeGrid(60 * dt, 60, observed))
        assert np.array_equal(some.times, everything.times[list(observed)])
        states = everything.coefficients[list(observed)]
        if isinstance(SCHEMES[name], RungeKutta):
            assert np.array_equal(some.coefficients, states)
        else:  # of fewer states the product with the eigenbasis is a smaller one, and may round otherwise
            assert some.coefficients == pytest.approx(states, abs=4 * EPS * np.abs(states).max())
            assert np.array_equal(some.energies, everything.energies)


@schemes
def test_a_constant_system_gives_the_same_states_on_both_paths(name):
    b, initial = np.random.default_rng(5).standard_normal((2, 6))
    one = matrix_system(spd(4, 6, 50.0), True, lambda times: np.outer(np.exp(-times), b), initial)
    other = dataclasses.replace(one, autonomous=False)
    states = [SCHEMES[name].march(system, TimeGrid.from_step(2.0, 0.01)).coefficients for system in (one, other)]
    assert states[0] == pytest.approx(states[1], abs=16 * ROUNDING[name])


@schemes
@kinds
@pytest.mark.parametrize("dt", [1e-4, 1.0, 100.0])
def test_a_stationary_state_is_a_fixed_point_for_every_step_size(name, autonomous, dt):
    K, state = spd(6, 5, 1e4), np.random.default_rng(7).standard_normal(5)
    system = matrix_system(K, autonomous, lambda times: np.tile(K @ state, (len(times), 1)), state)
    states = SCHEMES[name].march(system, every_step(20 * dt, 20)).coefficients
    assert states == pytest.approx(np.tile(state, (21, 1)), abs=45 * ROUNDING[name])


# of the decay -4 with n steps of 1/n: the largest n that is refused, at which a matrix is singular or indefinite
REFUSED = {
    "implicit_midpoint": ("is not positive definite", 2),
    "implicit_euler": ("is not positive definite", 4),
    "stabilised 0.0": ("is not positive definite", 4),
    "stabilised 2.5": ("is not positive definite", 1),
    "imex_bdf_2": ("is not positive definite", 4),
}


@pytest.mark.parametrize("name", REFUSED)
@kinds
def test_a_step_that_is_not_solvable_is_refused_and_a_shorter_one_is_not(name, autonomous):
    message, refused = REFUSED[name]
    system = matrix_system(np.diag([5.0, -4.0]), autonomous)
    for steps in range(1, refused + 1):
        if name != "implicit_euler" or autonomous:  # in general it is not definite, but has a solution
            with pytest.raises(IndefiniteStiffnessError, match=message):
                SCHEMES[name].march(system, every_step(1.0, steps))
    assert np.isfinite(SCHEMES[name].march(system, every_step(1.0, refused + 1)).coefficients).all()


@pytest.mark.parametrize(("name", "steps"), [("implicit_midpoint", 2), ("stabilised 0.0", 4)])
def test_the_message_has_the_time_at_which_a_step_is_not_solvable(name, steps):
    moving = dataclasses.replace(
        matrix_system(np.eye(2), False), stiffness=lambda t: np.diag([1.0, 1.0 - 8.0 * t])
    )  # 1 + (1 - 6)/4 < 0 at t = 0.75, and not before
    with pytest.raises(IndefiniteStiffnessError, match="at t = 0.75"):
        SCHEMES[name].march(moving, every_step(1.0, steps))
