"""Tails: indices of distributions whose tails are known."""

import numpy as np
import pytest

from evogt_study.inference.kernels import largest_share, tail_index


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
