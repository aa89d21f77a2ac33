"""Seeds until a number is known: decisions follow from the values in the order of their seeds, and from these alone."""

from itertools import pairwise

import numpy as np
import pytest

from evogt_study.inference.intervals import (
    FIRST_SEEDS,
    MAX_GROWTH,
    Goal,
    Interval,
    compute_boundary,
    compute_look_confidence,
    decide,
    interval,
)

VALUES = np.random.default_rng(4).lognormal(-5.0, 0.7, 3000)


def decide_in_batches(values, goal):
    """The decisions as a study makes them, batch by batch, up to the last."""
    made = [decide(values[:0], goal)]
    while not made[-1].reason:
        made.append(decide(values[: made[-1].wanted], goal))
    return made


def test_boundaries_equal_the_tables_and_are_crossed_at_their_level():
    """Jennison & Turnbull, Group Sequential Methods (2000), Table 2.3, alpha = 0.05, three decimals."""
    for looks, constant in ((1, 1.960), (2, 1.977), (3, 2.004), (4, 2.024), (5, 2.040), (10, 2.087)):
        assert compute_boundary(0.95, looks) == pytest.approx(constant, abs=6e-4)
    sums = np.random.default_rng(0).standard_normal((40_000, 10)).cumsum(axis=1)
    crossed = (np.abs(sums) > compute_boundary(0.9, 10) * np.sqrt(10)).any(axis=1).mean()
    assert crossed == pytest.approx(0.1, abs=0.006)  # four standard errors


def test_a_study_grows_batch_by_batch_until_the_number_is_known():
    goal = Goal(half_width=0.1)
    made = decide_in_batches(VALUES, goal)
    sizes = [each.wanted for each in made[:-1]]
    assert sizes[0] == FIRST_SEEDS
    assert sizes == sorted(set(sizes))
    assert all(new <= np.ceil(MAX_GROWTH * 1.05 * old) for old, new in pairwise(sizes))
    last = made[-1].looks[-1]
    assert (made[-1].reason, last.n, made[-1].wanted) == ("known", sizes[-1], sizes[-1])
    assert last.half_width <= 0.1 < made[-2].looks[-1].half_width
    how = Interval(confidence=compute_look_confidence(0.95))
    np.testing.assert_allclose([last.low, last.high], interval(VALUES[: last.n, None], how))
    assert last.low < VALUES.mean() < last.high
    expected = decide_in_batches(VALUES, Goal(half_width=0.05))
    assert expected[-2].expected == pytest.approx(expected[-1].wanted, rel=0.1)


def test_further_values_change_no_decision_and_a_stricter_goal_uses_them():
    wide, narrow = Goal(half_width=0.2), Goal(half_width=0.05)
    first, second = decide_in_batches(VALUES, wide), decide_in_batches(VALUES, narrow)
    assert decide(VALUES, wide) == first[-1]
    assert second[-1].wanted > first[-1].wanted
    assert decide(VALUES[: first[-1].wanted], narrow).wanted > first[-1].wanted  # which has all of the earlier ones
    made = decide_in_batches(VALUES, Goal(half_width=0.001, max_seeds=200))
    assert (made[-1].reason, made[-1].wanted) == ("at most", 200)
    assert [each.expected for each in made] == [FIRST_SEEDS, *[200] * (len(made) - 1)]


@pytest.mark.parametrize("of", ["mean", "median", "ratio"])
def test_every_kind_of_number_is_known_in_the_end(of):
    rng, holds = np.random.default_rng(5), 0
    truth = {"mean": np.exp(-5.0 + 0.245), "median": np.exp(-5.0), "ratio": np.exp(1.045)}[of]
    for _ in range(20):
        values = rng.lognormal(-5.0, 0.7, 1500)
        both = np.stack([values * rng.lognormal(1.0, 0.3, 1500), values]) if of == "ratio" else values
        last = decide(both, Goal(statistic=of, half_width=0.2))
        assert last.reason == "known"
        holds += last.looks[-1].low < truth < last.looks[-1].high
    assert holds >= 17  # of 20 at 95 %, fewer have a chance of 0.3 %


def test_an_absolute_width_and_seeds_that_failed():
    assert decide(VALUES, Goal(half_width=2e-3, relative=False)).looks[-1].half_width <= 2e-3
    lost = VALUES.copy()
    lost[:18] = np.nan  # two of the first batch: there is no interval
    assert decide(lost, Goal()).looks[0].half_width == np.inf
    assert decide(lost, Goal()).looks[1].n == 42  # the next size on the grid from twice as many on
    failed = decide(np.full(3000, np.nan), Goal())
    assert (failed.reason, failed.wanted) == ("failed", 20)


def test_equal_values_are_known_only_after_59_of_them():
    """Another value then has a probability below 5 %."""
    made = decide(np.full(20, 3.7), Goal())
    assert (made.reason, made.wanted) == ("", 42)
    made = decide(np.full(3000, 3.7), Goal())
    assert (made.reason, 59 <= made.wanted < 100) == ("constant", True)
    late = np.full(3000, 3.7)
    late[30] = 40.0
    assert decide(late, Goal()).reason != "constant"
    assert decide(np.full((2, 3000), 3.7), Goal(statistic="ratio")).reason == "constant"
    assert decide(np.full(30, 3.7), Goal(max_seeds=30)).reason == "at most"


def test_a_mean_of_two_values_has_the_interval_of_a_share():
    """One run in twenty is ten times as large: a sample without it is not taken as known."""
    values = np.where(np.random.default_rng(0).random(3000) < 0.05, 10.0, 1.0)
    made = decide(values, Goal(half_width=0.2))
    assert made.reason == "known"
    assert made.looks[-1].low <= 1.45 <= made.looks[-1].high
    hits, goal = (np.arange(400) % 25 == 24) * 1.0, Goal(half_width=0.1, relative=False, max_seeds=400)
    assert decide(hits[:10], goal).reason == ""
    last = decide_in_batches(hits, goal)[-1]
    assert (last.reason, last.looks[-1].n > 10) == ("known", True)  # Wilson's of none among 20 is from 0 to 0.17
    assert last.looks[-1].low >= 0.0
    assert last.looks[-1].half_width <= 0.1
