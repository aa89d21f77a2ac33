"""Time grids: steps that divide the final time, saved times, and refusals."""

import re

import numpy as np
import pytest

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics import TimeGrid

EPS = np.finfo(float).eps


@pytest.mark.parametrize(
    ("final_time", "dt", "steps"),
    [
        (0.25, 0.0025, 100), (0.3, 0.1, 3), (0.7, 0.1, 7), (1.0, 1e-5, 100_000), (0.1, 0.1, 1), (3, 1, 3),
        (1e-9, 1e-10, 10),
    ],
)  # fmt: skip
def test_decimal_steps_are_understood_through_their_rounding(final_time, dt, steps):
    assert TimeGrid.from_step(final_time, dt).steps == steps


@pytest.mark.parametrize("final_time", [0.1, 0.25, 0.3, 0.7, 1.0, 1.1, 2.5])
def test_the_observed_times_begin_at_zero_and_end_at_the_final_time_exactly(final_time):
    grids = [TimeGrid.from_step(final_time, final_time / steps, 2) for steps in range(1, 500)]
    assert all(grid.observed_times[0] == 0.0 for grid in grids)
    # whoever asks the result for its value at final_time has to find it
    assert [grid.steps for grid in grids if grid.observed_times[-1] != final_time] == []


def test_listed_times_are_saved_and_the_ends_are_observed_beside_them():
    grid = TimeGrid.from_step(1.0, 0.1, (0.3, 0.7))
    assert grid.saved == (3, 7)
    assert grid.observed == (0, 3, 7, 10)
    assert grid.saved_times == pytest.approx([0.3, 0.7], rel=2 * EPS, abs=0.0)
    assert grid.saved_positions == [1, 2]
    assert TimeGrid.from_step(1.0, 0.1, (0.0, 1.0)).observed == (0, 10)


def test_a_million_steps_are_admitted():
    assert TimeGrid.from_step(1.0, 1e-6, 2).steps == 1_000_000


@pytest.mark.parametrize(
    ("final_time", "dt"),
    [(1.0, 0.3), (0.25, 0.004), (0.1, 0.03), (1.0, 0.15), (1e-3, 7e-4), (1234.5, 1.0), (1.0, 0.0010007)],
)
def test_the_remedy_for_a_step_that_does_not_divide_is_itself_admitted(final_time, dt):
    with pytest.raises(ParameterError) as caught:
        TimeGrid.from_step(final_time, dt)
    message = str(caught.value)
    assert message.startswith(f"`dt` must be a step that divides final_time = {final_time:g}, got {dt!r}. Use e.g. ")
    remedy, steps = re.search(r"Use e\.g\. (\S+) \((\d+) steps\)", message).groups()
    asked = final_time / dt
    assert abs(asked - int(steps)) <= 1.5 + asked / 4  # near the wanted one, and short to write if possible
    assert TimeGrid.from_step(final_time, float(remedy)).steps == int(steps)


@pytest.mark.parametrize(
    ("steps", "count"), [(10, 4), (10, 1), (10, 0), (10, -3), (10, 12), (100, 27), (97, 5), (1, 3)]
)
def test_the_remedy_for_a_count_of_times_is_itself_admitted(steps, count):
    with pytest.raises(ParameterError) as caught:
        TimeGrid.from_step(1.0, 1.0 / steps, count)
    message = str(caught.value)
    assert message.startswith(
        f"`times` must be a count n >= 2 for which n - 1 divides the {steps} steps, got {count}. Use "
    )
    remedy = int(re.search(r"e\.g\. (\d+), or a list of times", message).group(1))
    assert len(TimeGrid.from_step(1.0, 1.0 / steps, remedy).saved) == remedy
