"""Sobol indices, Shapley effects and elementary effects: known values, SALib's numbers, failed runs and coverage."""

import numpy as np
import pytest
from known_indices import (
    FUNCTIONS,
    by_blocks,
    by_polynomials,
    held,
    indices_of_blocks,
    indices_of_sample,
    ishigami,
    points,
    saltelli,
)
from SALib.analyze import morris as salib_morris
from SALib.analyze import sobol as salib
from SALib.sample import morris

from evogt_study.errors import InputError
from evogt_study.inference.intervals import Interval
from evogt_study.inference.polynomial_chaos import compute_shapley_effects
from evogt_study.inference.sensitivity import compute_effects

PROBLEM = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": [[0, 1]] * 3}


def test_effects_are_salibs_and_a_trajectory_with_a_missing_run_is_left_out():
    sample = morris.sample(PROBLEM, 40, num_levels=6, seed=2)
    values = ishigami(sample)
    lost = values.copy()
    lost[[5, 101]] = np.nan
    kept = np.delete(np.arange(160).reshape(40, 4), [1, 25], axis=0).ravel()
    for given, which in ((values, np.arange(160)), (lost, kept)):
        found = compute_effects(given, sample, 6, Interval())
        expected = salib_morris.analyze(PROBLEM, sample[which], values[which], num_levels=6, num_resamples=999, seed=1)
        for name in ("mu", "mu_star", "sigma"):
            np.testing.assert_allclose(found[name], np.asarray(expected[name]), rtol=1e-10, atol=1e-10)
        width = np.diff(found["mu_star_ci"])[:, 0] / 2
        np.testing.assert_allclose(width, np.asarray(expected["mu_star_conf"]), rtol=0.1, atol=1e-10)
        assert found["n_ok"] == len(which) // 4


# --- Saltelli's blocks ------------------------------------------------------------------------------------------------


def values_of(name, count=128, seed=1):
    function, dimension, _ = FUNCTIONS[name]
    blocks = saltelli(dimension, count, seed)
    return function(blocks.reshape(-1, dimension)).reshape(blocks.shape[:2]), dimension


def by_salib(values, dimension, second_order=True):
    problem = {"num_vars": dimension, "names": [f"x{i}" for i in range(dimension)], "bounds": [[0, 1]] * dimension}
    return salib.analyze(problem, values.ravel(), calc_second_order=second_order, num_resamples=999, seed=1)


def assert_equal(found, expected):
    for share, limits, each in ((found.first, found.first_ci, "S1"), (found.total, found.total_ci, "ST")):
        np.testing.assert_allclose(share, expected[each], rtol=0, atol=1e-10)
        assert ((limits[:, 0] <= expected[each].clip(0)) & (expected[each] <= limits[:, 1])).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_indices_of_blocks_are_salibs(name):
    values, dimension = values_of(name)
    found, expected = indices_of_blocks(values[..., None], dimension), by_salib(values, dimension)
    assert_equal(found, expected)
    np.testing.assert_allclose(found.second, expected["S2"][np.triu_indices(dimension, 1)], rtol=0, atol=1e-10)
    without = np.delete(values, range(1 + dimension, 1 + 2 * dimension), axis=1)
    found = indices_of_blocks(without[..., None], dimension)
    assert_equal(found, by_salib(without, dimension, second_order=False))
    assert not len(found.second)


# --- polynomials ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["Ishigami", "g, 3 parameters"])
def test_indices_of_polynomials_are_those_that_are_known(name):
    found = by_polynomials(name, 512, 0, share=0.0)
    np.testing.assert_allclose([found.first, found.total], FUNCTIONS[name][2], rtol=0, atol=0.01)
    assert found.unexplained < 0.01


def test_a_full_product_of_discrete_values_has_its_analysis_of_variance():
    """y = f(a) + g(b) + f(a) g(b) on 4 x 3 values, five times: all shares are exact."""
    f, g = np.array([-1.0, 0.0, 2.0, -1.0]), np.array([1.0, -2.0, 1.0])
    a, b, _ = (each.ravel() for each in np.meshgrid(range(4), range(3), range(5), indexing="ij"))
    found = indices_of_sample((f[a] + g[b] + f[a] * g[b])[:, None], np.stack([a, b], axis=1).astype(float))
    parts = np.array([f.var(), g.var(), f.var() * g.var()])
    np.testing.assert_allclose(found.first, parts[:2] / parts.sum(), atol=1e-12)
    np.testing.assert_allclose(found.total, (parts[:2] + parts[2]) / parts.sum(), atol=1e-12)


def test_shapley_effects_of_dependent_parameters():
    """y = x_1 + x_2 with correlation 0.9: each has half, and explains (1 + 0.9) / 2 alone (Owen & Prieur 2017)."""
    x = np.random.default_rng(0).normal(size=(256, 2)) @ np.array([[1, 0.9], [0, 0.19**0.5]])
    found, alone = compute_shapley_effects(x, x.sum(axis=1), 0.95)
    np.testing.assert_allclose(found[:, 0], 0.5, atol=0.02)
    np.testing.assert_allclose(alone[:, 0], 0.95, atol=0.03)
    assert found[:, 0].sum() == pytest.approx(1.0, abs=0.01)
    independent = points("sobol", 256, 3, 0)
    found, alone = compute_shapley_effects(independent, independent @ [1.0, 2.0, 0.0], 0.95)
    np.testing.assert_allclose(found[:, 0], [0.2, 0.8, 0.0], atol=0.02)
    with pytest.raises(InputError, match="at most 8 for Shapley effects, got 9"):
        compute_shapley_effects(np.zeros((30, 9)), np.zeros(30), 0.95)


# --- coverage ---------------------------------------------------------------------------------------------------------


def test_intervals_hold_the_truth_with_failed_runs():
    """60 samples: 0.95 is known to 0.03."""
    assert held("Ishigami", lambda seed: by_blocks("Ishigami", 64, seed), 60)[0].min() > 0.88
    assert held("Ishigami", lambda seed: by_polynomials("Ishigami", 128, seed, "random"), 60)[0].min() > 0.88


@pytest.mark.long
def test_intervals_of_independent_blocks_hold_the_truth_of_eight_parameters_too():
    """Some intervals for Sobol points are too short (docs/background/coverage.md); 0.95 is known to 0.022."""
    shares, _ = held("g, 8 parameters", lambda seed: by_blocks("g, 8 parameters", 64, seed, rule="random"), 100)
    assert shares.min() > 0.88


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rule", ["saltelli", "sobol", "latin_hypercube", "random"])
def test_intervals_hold_the_truth_in_500_samples(name, rule):
    """Blocks not of eight parameters: docs/background/coverage.md names the indices whose intervals are too short."""
    if rule == "saltelli" and name == "g, 8 parameters":
        pytest.skip("intervals are too short")
    estimate = by_blocks if rule == "saltelli" else lambda *args: by_polynomials(*args, rule)
    assert held(name, lambda seed: estimate(name, 256, seed), 500)[0].min() >= 0.93
