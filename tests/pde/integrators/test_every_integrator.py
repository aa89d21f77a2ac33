"""What every integrator promises: states that depend on nothing else, fixed points, and steps that are refused."""

import dataclasses

import numpy as np
import pytest

from evogt_study.errors import IndefiniteStiffnessError
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators import INTEGRATORS, Start
from evogt_study.pde.integrators.runge_kutta import RungeKutta
from evogt_study.pde.numerics import TimeGrid

EPS = np.finfo(float).eps
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


def every_step(final_time, steps):
    return TimeGrid(final_time, steps, tuple(range(steps + 1)))


def spd(seed, size, stiffness):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return (basis * (stiffness * rng.uniform(0.01, 1.0, size))) @ basis.T


def system_of(K, autonomous, load=0.0, initial=None):
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
    system = system_of(spd(3, 7, 20.0), autonomous, lambda times: np.outer(np.cos(3.0 * times / dt), b), initial)
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
    one = system_of(spd(4, 6, 50.0), True, lambda times: np.outer(np.exp(-times), b), initial)
    other = dataclasses.replace(one, autonomous=False)
    states = [SCHEMES[name].march(system, TimeGrid.of(2.0, 0.01)).coefficients for system in (one, other)]
    assert states[0] == pytest.approx(states[1], abs=16 * ROUNDING[name])


@schemes
@kinds
@pytest.mark.parametrize("dt", [1e-4, 1.0, 100.0])
def test_a_stationary_state_is_a_fixed_point_for_every_step_size(name, autonomous, dt):
    K, state = spd(6, 5, 1e4), np.random.default_rng(7).standard_normal(5)
    system = system_of(K, autonomous, lambda times: np.tile(K @ state, (len(times), 1)), state)
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
    system = system_of(np.diag([5.0, -4.0]), autonomous)
    for steps in range(1, refused + 1):
        if name != "implicit_euler" or autonomous:  # in general it is not definite, but has a solution
            with pytest.raises(IndefiniteStiffnessError, match=message):
                SCHEMES[name].march(system, every_step(1.0, steps))
    assert np.isfinite(SCHEMES[name].march(system, every_step(1.0, refused + 1)).coefficients).all()


@pytest.mark.parametrize(("name", "steps"), [("implicit_midpoint", 2), ("stabilised 0.0", 4)])
def test_the_message_has_the_time_at_which_a_step_is_not_solvable(name, steps):
    moving = dataclasses.replace(
        system_of(np.eye(2), False), stiffness=lambda t: np.diag([1.0, 1.0 - 8.0 * t])
    )  # 1 + (1 - 6)/4 < 0 at t = 0.75, and not before
    with pytest.raises(IndefiniteStiffnessError, match="at t = 0.75"):
        SCHEMES[name].march(moving, every_step(1.0, steps))
