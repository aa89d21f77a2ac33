"""The implicit midpoint rule: time grids, marching against a naive loop, contractivity, discrete energy identity."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.errors import ParameterError
from evogt_study.pde.galerkin.system import GalerkinSystem
from evogt_study.pde.integrators import ImplicitMidpoint
from evogt_study.pde.numerics.time_grid import TimeGrid, whole_number_of_steps

EPS = np.finfo(float).eps

quickly = settings(derandomize=True, deadline=None, max_examples=60)


def assert_within(found, wanted, bound):
    assert (np.abs(found - wanted) <= bound).all(), np.max(np.abs(found - wanted) / bound)


def every_step(final_time, steps):
    return TimeGrid(final_time, steps, tuple(range(steps + 1)))


# Time grids


@quickly
@given(st.integers(1, 100_000), st.floats(1e-6, 1e6))
def test_a_step_that_divides_the_final_time_gives_that_many_steps(steps, final_time):
    assert whole_number_of_steps(final_time, final_time / steps) == steps
    grid = TimeGrid.of(final_time, final_time / steps, 2)
    assert grid.steps == steps
    assert grid.dt == pytest.approx(final_time / steps, rel=EPS, abs=0.0)


@pytest.mark.parametrize(
    ("final_time", "dt", "steps"),
    [
        (0.25, 0.0025, 100),
        (0.3, 0.1, 3),
        (0.7, 0.1, 7),
        (1.0, 1e-5, 100_000),
        (0.1, 0.1, 1),
        (3, 1, 3),
        (1e-9, 1e-10, 10),
    ],
)
def test_decimal_steps_are_understood_through_their_rounding(final_time, dt, steps):
    assert whole_number_of_steps(final_time, dt) == steps


@pytest.mark.parametrize("final_time", [0.1, 0.25, 0.3, 0.7, 1.0, 1.1, 2.5])
def test_the_observed_times_begin_at_zero_and_end_at_the_final_time_exactly(final_time):
    grids = [TimeGrid.of(final_time, final_time / steps, 2) for steps in range(1, 500)]
    assert all(grid.observed_times[0] == 0.0 for grid in grids)
    # whoever asks the result for its value at final_time has to find it
    assert [grid.steps for grid in grids if grid.observed_times[-1] != final_time] == []


@pytest.mark.parametrize(("final_time", "steps"), [(0.1, 3), (0.25, 100), (1.1, 499)])
def test_the_saved_times_are_whole_numbers_of_steps(final_time, steps):
    times = TimeGrid.of(final_time, final_time / steps).saved_times
    assert times == pytest.approx(np.linspace(0.0, final_time, steps + 1), rel=4 * EPS, abs=0.0)


def test_midpoints_lie_half_way_between_the_steps():
    grid = TimeGrid.of(0.3, 0.1)
    assert grid.midpoints == pytest.approx([0.05, 0.15, 0.25], rel=2 * EPS, abs=0.0)


def test_without_times_every_step_is_saved():
    grid = TimeGrid.of(1.0, 0.25)
    assert grid.saved == grid.observed == (0, 1, 2, 3, 4)
    assert np.array_equal(grid.saved_times, [0.0, 0.25, 0.5, 0.75, 1.0])
    assert grid.saved_positions == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("count", "saved"), [(2, (0, 12)), (3, (0, 6, 12)), (5, (0, 3, 6, 9, 12)), (13, tuple(range(13)))]
)
def test_a_count_of_times_is_spread_evenly_with_both_ends(count, saved):
    assert TimeGrid.of(3.0, 0.25, count).saved == saved


def test_listed_times_are_saved_and_the_ends_are_observed_beside_them():
    grid = TimeGrid.of(1.0, 0.1, (0.3, 0.7))
    assert grid.saved == (3, 7)
    assert grid.observed == (0, 3, 7, 10)
    assert grid.saved_times == pytest.approx([0.3, 0.7], rel=2 * EPS, abs=0.0)
    assert grid.saved_positions == [1, 2]
    assert TimeGrid.of(1.0, 0.1, (0.0, 1.0)).observed == (0, 10)


@quickly
@given(st.integers(1, 400), st.sampled_from([0.1, 0.25, 1.0, 7.0]), st.data())
def test_any_steps_can_be_listed_by_their_times(steps, final_time, data):
    chosen = sorted(data.draw(st.sets(st.integers(0, steps), max_size=6)))
    grid = TimeGrid.of(final_time, final_time / steps, tuple(final_time * step / steps for step in chosen))
    assert grid.saved == tuple(chosen)
    assert set(grid.observed) == {0, steps, *chosen}
    assert [grid.observed[position] for position in grid.saved_positions] == chosen


NAN, INF = float("nan"), float("inf")
MANY = "`dt` must be a step of which at most 1,000,000 make final_time = 1, got "
BETWEEN = "`times` must be whole numbers of steps dt = 0.1 in [0, 1], got "


@pytest.mark.parametrize(
    ("final_time", "dt", "times", "message"),
    [
        *((1.0, dt, None, f"`dt` must be in (0, final_time = 1], got {dt!r}") for dt in (0.0, -0.1, 1.1, NAN, INF)),
        *((1.0, dt, None, MANY) for dt in (1e-7, 1e-300, 5e-324)),
        *((T, 0.1, None, f"`dt` must be in (0, final_time = {T:g}], got 0.1") for T in (0.0, -1.0, NAN)),
        (INF, 0.1, None, MANY.replace("1, got", "inf, got")),
        *((1.0, 0.1, (0.2, t), f"{BETWEEN}{t!r}") for t in (0.05, -0.1, 1.1, 0.300001)),
        *((1.0, 0.1, (0.2, t), "`times` must be increasing and different, got ") for t in (0.1, 0.2, 0.2 + 1e-12)),
        *((1.0, 0.1, (t,), "`times` must be ") for t in (NAN, INF)),
    ],
)
def test_a_grid_that_cannot_be_is_refused_by_name(final_time, dt, times, message):
    with pytest.raises(ParameterError) as caught:
        TimeGrid.of(final_time, dt, times)
    assert str(caught.value).startswith(message)


def test_a_million_steps_are_admitted():
    assert TimeGrid.of(1.0, 1e-6, 2).steps == 1_000_000


@pytest.mark.parametrize(
    ("final_time", "dt"),
    [(1.0, 0.3), (0.25, 0.004), (0.1, 0.03), (1.0, 0.15), (1e-3, 7e-4), (1234.5, 1.0), (1.0, 0.0010007)],
)
def test_the_remedy_for_a_step_that_does_not_divide_is_itself_admitted(final_time, dt):
    with pytest.raises(ParameterError) as caught:
        TimeGrid.of(final_time, dt)
    message = str(caught.value)
    assert message.startswith(f"`dt` must be a step that divides final_time = {final_time:g}, got {dt!r}; use e.g. ")
    remedy, steps = re.search(r"use e\.g\. (\S+) \((\d+) steps\)", message).groups()
    asked = final_time / dt
    assert (
        abs(asked - int(steps)) <= 1.5 + asked / 4
    )  # near the one asked for, and short to write where that is possible
    assert TimeGrid.of(final_time, float(remedy)).steps == int(steps)


@pytest.mark.parametrize(
    ("steps", "count"), [(10, 4), (10, 1), (10, 0), (10, -3), (10, 12), (100, 27), (97, 5), (1, 3)]
)
def test_the_remedy_for_a_count_of_times_is_itself_admitted(steps, count):
    with pytest.raises(ParameterError) as caught:
        TimeGrid.of(1.0, 1.0 / steps, count)
    message = str(caught.value)
    assert message.startswith(
        f"`times` must be a count n >= 2 for which n - 1 divides the {steps} steps, got {count}; "
    )
    remedy = int(re.search(r"e\.g\. (\d+), or a list of times", message).group(1))
    assert len(TimeGrid.of(1.0, 1.0 / steps, remedy).saved) == remedy


# Marching


def random_spd(rng, size, stiffness):
    """A symmetric positive definite matrix with eigenvalues between 0.01 and 1 times `stiffness`."""
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return (basis * (stiffness * rng.uniform(0.01, 1.0, size))) @ basis.T


def random_system(seed, size, stiffness, *, autonomous, loaded=True):
    """alpha' + K(t) alpha = b(t) with K(t) = K_0 + sin(5t)^2 K_1: the two parts do not commute."""
    rng = np.random.default_rng(seed)
    fixed, moving = random_spd(rng, size, stiffness), random_spd(rng, size, stiffness)
    one, two = rng.standard_normal((2, size)) * loaded
    return GalerkinSystem(
        stiffness=(lambda t: fixed) if autonomous else (lambda t: fixed + np.sin(5.0 * t) ** 2 * moving),
        autonomous=autonomous,
        load=lambda times: np.cos(3.0 * times)[:, None] * one + times[:, None] * two,
        initial=rng.standard_normal(size),
    )


def naive(system, final_time, steps):
    dt = final_time / steps
    alpha, states = system.initial, [system.initial]
    for n in range(steps):
        t = (n + 0.5) * dt
        K, b = system.stiffness(t), system.load(np.array([t]))[0]
        identity = np.eye(len(alpha))
        alpha = np.linalg.solve(identity + dt / 2 * K, (identity - dt / 2 * K) @ alpha + dt * b)
        states.append(alpha)
    return np.array(states)


systems = given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 8),
    stiffness=st.sampled_from([1e-3, 1.0, 1e3, 1e6]),
    steps=st.integers(1, 30),
    final_time=st.sampled_from([1e-3, 0.3, 20.0]),
    autonomous=st.booleans(),
)


@quickly
@systems
def test_marching_agrees_with_a_naive_loop(seed, size, stiffness, steps, final_time, autonomous):
    system = random_system(seed, size, stiffness, autonomous=autonomous)
    trajectory = ImplicitMidpoint().march(system, every_step(final_time, steps))
    wanted = naive(system, final_time, steps)
    assert trajectory.coefficients.shape == (steps + 1, size)
    # both propagate by contractions, so rounding only adds up: a few eps of the largest state a step
    bound = 2 * EPS * (steps + 8) * np.abs(wanted).max()
    assert_within(trajectory.coefficients, wanted, bound)


def test_one_step_of_a_scalar_equation_is_the_formula():
    system = GalerkinSystem(
        lambda t: np.array([[3.0 + t]]), False, lambda times: np.cos(times)[:, None], np.array([2.0])
    )
    found = ImplicitMidpoint().march(system, every_step(0.5, 1)).coefficients[1, 0]
    k, b = 3.25, np.cos(0.25)
    assert found == pytest.approx(((1 - 0.25 * k) * 2.0 + 0.5 * b) / (1 + 0.25 * k), rel=4 * EPS, abs=0.0)


# Structure


@quickly
@systems
def test_without_load_the_norm_never_grows_whatever_the_step(seed, size, stiffness, steps, final_time, autonomous):
    system = random_system(seed, size, stiffness, autonomous=autonomous, loaded=False)
    norms = np.linalg.norm(ImplicitMidpoint().march(system, every_step(final_time, steps)).coefficients, axis=1)
    assert (norms[1:] <= norms[:-1] * (1.0 + 8 * EPS)).all()
    assert norms[-1] < norms[0]


@quickly
@systems
def test_the_discrete_energy_identity_holds_at_every_step(seed, size, stiffness, steps, final_time, autonomous):
    system = random_system(seed, size, stiffness, autonomous=autonomous, loaded=False)
    grid = every_step(final_time, steps)
    states = ImplicitMidpoint().march(system, grid).coefficients
    for before, after, t in zip(states[:-1], states[1:], grid.midpoints, strict=True):
        both = after + before
        half = grid.dt / 2 * system.stiffness(t)
        lost = after @ after - before @ before
        dissipated = both @ half @ both
        # `both` is the difference of near-opposites where (dt/2) K is large: its rounding is seen through K
        noise = EPS * np.linalg.norm(half, 2) * np.linalg.norm(both) * np.linalg.norm(before)
        assert_within(lost, -dissipated, 16 * EPS * (before @ before) + 16 * noise)
