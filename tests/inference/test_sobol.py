"""Sobol indices by Saltelli's blocks: SALib's numbers, blocks with missing runs, and the seed."""

import numpy as np
import pytest
from known_indices import FUNCTIONS, by_blocks, held, indices_of_blocks, saltelli
from SALib.analyze import sobol as salib

from evogt_study.inference.sensitivity import moments_of_blocks


def values_of(name, count=128, seed=1):
    function, dimension, _ = FUNCTIONS[name]
    blocks = saltelli(dimension, count, seed)
    return function(blocks.reshape(-1, dimension)).reshape(blocks.shape[:2]), dimension


def by_salib(values, dimension, second_order=True):
    problem = {"num_vars": dimension, "names": [f"x{i}" for i in range(dimension)], "bounds": [[0, 1]] * dimension}
    return salib.analyze(problem, values.ravel(), calc_second_order=second_order, num_resamples=999, seed=1)


def assert_equal(found, expected):
    np.testing.assert_allclose(found.first, expected["S1"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.total, expected["ST"], rtol=0, atol=1e-10)
    for limits, each in ((found.first_ci, expected["S1"]), (found.total_ci, expected["ST"])):
        assert ((limits[:, 0] <= each.clip(0)) & (each <= limits[:, 1])).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_indices_are_salibs(name):
    values, dimension = values_of(name)
    found, expected = indices_of_blocks(values[..., None], dimension), by_salib(values, dimension)
    assert_equal(found, expected)
    np.testing.assert_allclose(found.second, expected["S2"][np.triu_indices(dimension, 1)], rtol=0, atol=1e-10)
    without = np.delete(values, range(1 + dimension, 1 + 2 * dimension), axis=1)
    found = indices_of_blocks(without[..., None], dimension)
    assert_equal(found, by_salib(without, dimension, second_order=False))
    assert not len(found.second)


def test_an_index_rests_on_the_blocks_that_have_its_members():
    values, dimension = values_of("Ishigami")
    lost = values.copy()
    lost[3, 2] = np.nan  # AB_2
    lost[9, 4] = np.nan  # BA_1
    found = indices_of_blocks(lost[..., None], dimension)
    assert found.n_ok == 126  # of S_12
    whole, part = (
        by_salib(np.delete(each, 3, axis=0) if rows else each, dimension) for rows, each in ((0, values), (1, values))
    )
    assert found.first[[0, 2]] == pytest.approx(whole["S1"][[0, 2]], abs=1e-3)
    assert found.total[[0, 2]] == pytest.approx(whole["ST"][[0, 2]], abs=1e-10)
    assert found.first[1] == pytest.approx(part["S1"][1], abs=1e-3)
    assert found.second[2] == pytest.approx(part["S2"][1, 2], abs=3e-3)
    assert found.second[1] == pytest.approx(by_salib(np.delete(values, 9, axis=0), dimension)["S2"][0, 2], abs=3e-3)


def test_blocks_without_a_or_b_are_left_out_of_all_indices():
    values, dimension = values_of("Ishigami")
    lost = values.copy()
    lost[3, 0] = lost[70, -1] = lost[9, 1] = lost[9, 2] = lost[9, 3] = np.nan
    lost[[3, 9, 70], 4:-1] = np.nan
    found = indices_of_blocks(lost[..., None], dimension)
    kept = np.delete(values, [3, 9, 70], axis=0)
    assert found.n_ok == 125
    lost[[3, 70]] = lost[9] = np.nan
    assert_equal(indices_of_blocks(lost[..., None], dimension), by_salib(kept, dimension))
    assert found.first == pytest.approx(by_salib(kept, dimension)["S1"], abs=5e-3)


def test_the_seed_has_a_share_apart_and_does_not_move_the_others():
    """Noise of variance 4 beside the function's 13.84, a twentieth of the runs missing."""
    values, dimension = values_of("Ishigami", 1024)
    rng = np.random.default_rng(0)
    noisy = values[..., None] + rng.normal(0.0, 2.0, (*values.shape, 4))
    noisy[rng.random(noisy.shape) < 0.05] = np.nan
    found = indices_of_blocks(noisy, dimension, fresh=True)
    rest = 1.0 - 4.0 / 17.84
    for share, limits in ((found.first, found.first_ci), (found.total, found.total_ci)):
        truth = rest * np.array(FUNCTIONS["Ishigami"][2][0 if share is found.first else 1])
        assert ((limits[:, 0] <= truth) & (truth <= limits[:, 1])).all()
    assert found.seed_ci[0] < 4.0 / 17.84 < found.seed_ci[1]
    assert np.diff(found.seed_ci)[0] < 0.05


def test_fewer_than_two_blocks_have_no_indices():
    assert moments_of_blocks(np.full((8, 5, 1), np.nan), 3) is None


def test_intervals_hold_the_truth_with_failed_runs():
    """60 samples: 0.95 is known to 0.03."""
    shares, _ = held("Ishigami", lambda seed: by_blocks("Ishigami", 64, seed), 60)
    assert shares.min() > 0.88


@pytest.mark.long
def test_of_independent_blocks_intervals_hold_the_truth_of_eight_parameters_too():
    """Of those of Sobol points some are too short: docs/statistics.md; 100 samples: 0.95 is known to 0.022."""
    shares, _ = held("g, 8 parameters", lambda seed: by_blocks("g, 8 parameters", 64, seed, rule="random"), 100)
    assert shares.min() > 0.88


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Ishigami", "g, 3 parameters"])
def test_intervals_hold_the_truth_in_500_samples(name):
    """Not of eight parameters: docs/statistics.md says of which index intervals are too short there."""
    shares, _ = held(name, lambda seed: by_blocks(name, 256, seed), 500)
    assert shares.min() >= 0.93
