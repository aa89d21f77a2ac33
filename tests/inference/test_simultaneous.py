"""All pairs at once; how often verdicts are wrong is in `test_simulations`."""

import numpy as np
import pytest

from evogt_study.inference.comparisons import best_in_a_run, best_on_average, max_t, pairs_of, winner, winners_without
from evogt_study.inference.intervals import Interval

UNITS = np.array([[1.0, 2.0, 3.0, 2.0], [2.0, 1.0, 6.0, 2.0], [9.0, 9.0, 9.0, 9.0]])


def test_chances_and_winners_in_the_head():
    np.testing.assert_allclose(best_in_a_run(UNITS, "lower"), [2.5 / 4, 1.5 / 4, 0.0])
    np.testing.assert_allclose(best_in_a_run(UNITS, "higher"), [0.0, 0.0, 1.0])
    assert best_on_average(UNITS, Interval(), "lower").sum() == pytest.approx(1.0)
    assert winners_without(np.array([[1.0, 1.0, 9.0], [3.0, 3.0, 3.0]]), "lower").tolist() == [1.0, 2.0]
    assert (winner(np.array([2.0, np.nan, 1.0]), "lower"), winner(np.full(2, np.nan), "lower")) == (2, -1)


def test_pairs_hold_together():
    rng = np.random.default_rng(1)
    units = rng.lognormal(0.0, 0.3, (3, 25)) * np.array([1.0, 1.0, 10.0])[:, None]
    found = max_t(units, Interval(), ratios=True)
    assert pairs_of(3) == [(0, 1), (0, 2), (1, 2)]
    np.testing.assert_allclose(found.effect[1], units[0].mean() / units[2].mean())
    assert found.limits[0, 0] < 1.0 < found.limits[0, 1]
    assert (found.limits[1:] < 0.3).all()
    assert found.p_value[0] > 0.1 > 0.002 > found.p_value[1:].max()
    together = np.diff(np.log(found.limits[1]))
    alone = np.diff(np.log(max_t(units[[0, 2]], Interval(), ratios=True).limits[0]))
    assert together > alone  # three pairs are more than one
    apart = max_t(units - 5.0, Interval(), ratios=False)
    np.testing.assert_allclose(apart.effect[1], units[0].mean() - units[2].mean())
