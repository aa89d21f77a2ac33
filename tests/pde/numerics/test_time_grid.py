"""Time grids: steps that divide the final time, saved times, and refusals."""

import re

import numpy as np
import pytest

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics.time_grid import TimeGrid, count_steps

EPS = np.finfo(float).eps


@pytest.mark.parametrize(
    ("final_time", "dt", "steps"),
    [
        (0.25, 0.0025, 100), (0.3, 0.1, 3), (0.7, 0.1, 7), (1.0, 1e-5, 100_000), (0.1, 0.1, 1), (3, 1, 3),
        (1e-9, 1e-10, 10),
    ],
)  # fmt: skip
def test_decimal_steps_are_understood_through_their_rounding(final_time, dt, steps):
    assert count_steps(final_time, dt) == steps


@pytest.mark.parametrize("final_time", [0.1, 0.25, 0.3, 0.7, 1.0, 1.1, 2.5])
def test_the_observed_times_begin_at_zero_and_end_at_the_final_time_exactly(final_time):
    grids = [TimeGrid.of(final_time, final_time / steps, 2) for steps in range(1, 500)]
    assert all(grid.observed_times[0] == 0.0 for grid in grids)
    # whoever asks the result for its value at final_time has to find it
    assert [grid.steps for grid in grids if grid.observed_times[-1] != final_time] == []


def test_listed_times_are_saved_and_the_ends_are_observed_beside_them():
    grid = TimeGrid.of(1.0, 0.1, (0.3, 0.7))
    assert grid.saved == (3, 7)
    assert grid.observed == (0, 3, 7, 10)
    assert grid.saved_times == pytest.approx([0.3, 0.7], rel=2 * EPS, abs=0.0)
    assert grid.saved_positions == [1, 2]
    assert TimeGrid.of(1.0, 0.1, (0.0, 1.0)).observed == (0, 10)


NAN, INF = float("nan"), float("inf")
MANY = "`dt` must be such that at most 1,000,000 steps make final_time = 1, got "
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
    assert abs(asked - int(steps)) <= 1.5 + asked / 4  # near the wanted one, and short to write if possible
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
