"""Tails: indices and return levels of distributions whose tails are known."""

import numpy as np
import pytest
import scipy.stats

from evogt_study.inference.tails import HEAVY, largest_share, return_level, tail_index


def test_the_index_of_a_power_tail_comes_out():
    for index in (1.0, 2.0, 4.0):
        sample = 1.0 + np.random.default_rng(1).pareto(index, 250_000)
        assert float(tail_index(sample)) == pytest.approx(index, rel=0.15)  # of 500 values: 4.5 % of deviation
    assert float(tail_index(np.full(10, 2.0))) == np.inf
    np.testing.assert_array_equal(tail_index(np.array([[1.0, 2.0, 3.0, 4.0, np.nan], [0.0] * 5])), [np.nan, np.nan])
    sample = np.array([1.0, 2.0, 4.0, 8.0, -16.0])
    assert float(tail_index(sample)) == pytest.approx(1.0 / np.log([8.0, 4.0, 2.0]).mean())


def test_the_share_of_the_largest():
    np.testing.assert_allclose(largest_share(np.array([[1.0, 2.0, -5.0], [1.0, np.nan, 1.0]])), [5 / 8, 0.5])


def test_exact_levels_hold_the_quantile_of_any_distribution():
    """One in a hundred of 2,000 values: 20 are beyond it, and order statistics bound it."""
    truth = scipy.stats.norm.ppf(0.99)
    samples = np.random.default_rng(2).normal(size=(400, 2000))
    levels = [return_level(sample, 100.0, 0.95) for sample in samples]
    assert not any(level.extrapolated for level in levels)
    assert np.mean([level.low <= truth <= level.high for level in levels]) > 0.93


@pytest.mark.long
def test_levels_beyond_the_sample_are_those_of_a_generalised_pareto_distribution():
    """One in 10,000 of 1,000 values of a power tail of index 3."""
    truth = 10_000.0 ** (1.0 / 3.0)
    samples = 1.0 + np.random.default_rng(3).pareto(3.0, (40, 1000))
    levels = [return_level(sample, 10_000.0, 0.95) for sample in samples]
    assert all(level.extrapolated and level.low < level.level < level.high for level in levels)
    assert np.mean([level.low <= truth <= level.high for level in levels]) >= 0.85  # of 40; it is 0.93 of 400


def test_the_fit_is_that_of_scipy():
    sample = 1.0 + np.random.default_rng(4).pareto(3.0, 1000)
    found = return_level(sample, 5000.0, 0.95)
    ordered = np.sort(sample)
    shape, _, scale = scipy.stats.genpareto.fit(ordered[-100:] - ordered[-101], floc=0.0)
    expected = ordered[-101] + scale / shape * ((5000.0 * 0.1) ** shape - 1.0)
    assert found.level == pytest.approx(expected, rel=0.02)


def test_few_values_have_no_level_and_equal_ones_their_own():
    assert np.isnan(return_level(np.arange(39.0), 1000.0, 0.95).level)
    assert return_level(np.full(50, 2.0), 1000.0, 0.95)[:3] == (2.0, 2.0, 2.0)
    assert HEAVY == 1.5
