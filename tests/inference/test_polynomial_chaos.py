"""Sobol indices from any sample: known values, discrete parameters, noise, and what the intervals hold."""

import numpy as np
import pytest
from known_indices import FUNCTIONS, by_polynomials, held, indices_of_sample, ishigami, points

from evogt_study.errors import InputError
from evogt_study.inference.polynomial_chaos import shapley_effects


@pytest.mark.long
@pytest.mark.parametrize(("name", "error"), [("Ishigami", 0.01), ("g, 3 parameters", 0.01)])
def test_indices_are_those_that_are_known(name, error):
    found = by_polynomials(name, 512, 0, share=0.0)
    truth = FUNCTIONS[name][2]
    np.testing.assert_allclose(found.first, truth[0], rtol=0, atol=error)
    np.testing.assert_allclose(found.total, truth[1], rtol=0, atol=error)
    assert found.unexplained < error


def test_a_number_that_the_seed_does_not_change_has_a_seed_share_of_zero():
    sample = points("sobol", 64, 2, 0)
    found = indices_of_sample(np.repeat((sample[:, 0] > 0.5).astype(float)[:, None], 2, axis=1), sample)
    assert float(found.seed) == 0.0


def test_a_full_product_of_discrete_values_has_its_analysis_of_variance():
    """y = f(a) + g(b) + f(a) g(b) on 4 x 3 values, five times: all shares are exact."""
    f, g = np.array([-1.0, 0.0, 2.0, -1.0]), np.array([1.0, -2.0, 1.0])
    a, b, _ = (each.ravel() for each in np.meshgrid(range(4), range(3), range(5), indexing="ij"))
    values = f[a] + g[b] + f[a] * g[b]
    found = indices_of_sample(values[:, None], np.stack([a, b], axis=1).astype(float))
    parts = np.array([f.var(), g.var(), f.var() * g.var()])
    np.testing.assert_allclose(found.first, parts[:2] / parts.sum(), atol=1e-12)
    np.testing.assert_allclose(found.total, (parts[:2] + parts[2]) / parts.sum(), atol=1e-12)


def test_the_seed_has_a_share_apart_and_is_not_held_against_the_polynomials():
    sample = points("sobol", 256, 3, 0)
    rng = np.random.default_rng(0)
    values = ishigami(sample)[:, None] + rng.normal(0.0, 2.0, (256, 5))
    values[rng.random(values.shape) < 0.05] = np.nan
    found = indices_of_sample(values, sample)
    assert found.seed_ci[0] < 4.0 / 17.84 < found.seed_ci[1]
    assert found.unexplained < 0.04  # 0.08 with the noise of the means
    np.testing.assert_allclose(found.total, (1 - 4.0 / 17.84) * FUNCTIONS["Ishigami"][2][1], atol=0.06)


def test_shapley_effects_of_dependent_parameters():
    """y = x_1 + x_2 with correlation 0.9: each has half, and explains (1 + 0.9) / 2 alone (Owen & Prieur 2017)."""
    x = np.random.default_rng(0).normal(size=(256, 2)) @ np.array([[1, 0.9], [0, 0.19**0.5]])
    effects, alone = shapley_effects(x, x.sum(axis=1), 0.95)
    np.testing.assert_allclose([each.value for each in effects], 0.5, atol=0.02)
    np.testing.assert_allclose([each.value for each in alone], 0.95, atol=0.03)
    assert sum(each.value for each in effects) == pytest.approx(1.0, abs=0.01)
    independent = points("sobol", 256, 3, 0)
    effects, alone = shapley_effects(independent, independent @ [1.0, 2.0, 0.0], 0.95)
    np.testing.assert_allclose([each.value for each in effects], [0.2, 0.8, 0.0], atol=0.02)
    with pytest.raises(InputError, match="at most 8 for Shapley effects, got 9"):
        shapley_effects(np.zeros((30, 9)), np.zeros(30), 0.95)


def test_intervals_hold_the_truth_with_failed_runs():
    """60 samples: 0.95 is known to 0.03."""
    shares, _ = held("Ishigami", lambda seed: by_polynomials("Ishigami", 128, seed, "random"), 60)
    assert shares.min() > 0.88


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rule", ["sobol", "latin_hypercube", "random"])
def test_intervals_hold_the_truth_in_500_samples(name, rule):
    shares, _ = held(name, lambda seed: by_polynomials(name, 256, seed, rule), 500)
    assert shares.min() >= 0.93
