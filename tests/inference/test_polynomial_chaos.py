"""Sobol indices from any sample: known values, discrete parameters, noise, and what the intervals hold."""

import numpy as np
import pytest
from known_indices import FUNCTIONS, by_polynomials, held, ishigami, points

from evogt_study.inference.polynomial_chaos import indices


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
    found = indices(np.repeat((sample[:, 0] > 0.5).astype(float)[:, None], 2, axis=1)[None], sample, 0.95)[0]
    assert float(found.seed) == 0.0
    alone = indices((sample[:, 0] > 0.5).astype(float)[:, None][None], sample, 0.95)[0]
    assert np.isnan(alone.seed)


def test_a_full_product_of_discrete_values_has_its_analysis_of_variance():
    """y = f(a) + g(b) + f(a) g(b) on 4 x 3 values, five times: all shares are exact."""
    f, g = np.array([-1.0, 0.0, 2.0, -1.0]), np.array([1.0, -2.0, 1.0])
    a, b, _ = (each.ravel() for each in np.meshgrid(range(4), range(3), range(5), indexing="ij"))
    values = f[a] + g[b] + f[a] * g[b]
    found = indices(values[None, :, None], np.stack([a, b], axis=1).astype(float), 0.95)[0]
    parts = np.array([f.var(), g.var(), f.var() * g.var()])
    np.testing.assert_allclose(found.first, parts[:2] / parts.sum(), atol=1e-12)
    np.testing.assert_allclose(found.total, (parts[:2] + parts[2]) / parts.sum(), atol=1e-12)


def test_the_seed_has_a_share_apart_and_is_not_held_against_the_polynomials():
    sample = points("sobol", 256, 3, 0)
    rng = np.random.default_rng(0)
    values = ishigami(sample)[:, None] + rng.normal(0.0, 2.0, (256, 5))
    values[rng.random(values.shape) < 0.05] = np.nan
    found = indices(values[None], sample, 0.95)[0]
    assert found.seed_ci[0] < 4.0 / 17.84 < found.seed_ci[1]
    assert found.unexplained < 0.04  # 0.08 with the noise of the means
    np.testing.assert_allclose(found.total, (1 - 4.0 / 17.84) * FUNCTIONS["Ishigami"][2][1], atol=0.06)


def test_several_numbers_are_as_each_alone_whatever_each_lacks():
    sample = points("random", 200, 3, 1)
    values = np.stack([ishigami(sample), np.exp(sample[:, 0]), np.ones(200)])
    values[1, ::7] = np.nan
    together = indices(values[..., None], sample, 0.95)
    for row, found in zip(values, together, strict=True):
        alone = indices(row[None, :, None], sample, 0.95)[0]
        np.testing.assert_allclose(found.first_ci, alone.first_ci, rtol=1e-9)
        assert found.n_ok == np.isfinite(row).sum()
    assert np.isnan(together[2].first).all()


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
