"""Failures that depend on parameters are found, and others are not."""

import numpy as np
from known_indices import points

from evogt_study.inference.sensitivity import corners


def test_a_corner_is_found_with_its_ranges():
    sample = points("sobol", 512, 4, 0)
    failed = (sample[:, 1] > 0.8) & (sample[:, 3] < 0.4)
    found = corners(failed, sample)
    assert sorted(corner.parameter for corner in found) == [1, 3]
    one = next(corner for corner in found if corner.parameter == 1)
    assert 0.8 < one.lower < 0.84 < 0.96 < one.upper < 1.0


def test_words_and_the_middle_of_a_range_are_found_too():
    sample = points("random", 300, 2, 1)
    sample[:, 0] = np.floor(3 * sample[:, 0])
    assert [c.parameter for c in corners((sample[:, 0] == 1) & (sample[:, 1] > 0.5), sample)] == [0, 1]
    assert [c.parameter for c in corners(np.abs(sample[:, 1] - 0.5) < 0.05, sample)] == [1]


def test_failures_at_random_are_taken_for_a_corner_in_one_of_a_hundred_samples():
    sample = points("sobol", 256, 3, 0)
    rng = np.random.default_rng(0)
    assert sum(bool(corners(rng.random(256) < 0.05, sample)) for _ in range(200)) <= 5
    assert corners(np.zeros(256, dtype=bool), sample) == []
