"""Standard errors: closed forms, SciPy, and the spread of the statistic over fresh samples."""

import numpy as np
import pytest
import scipy.stats
from scipy.stats import mstats

from evogt_study.inference import means as resampling
from evogt_study.inference.intervals import ratio_error, standard_error
from evogt_study.inference.kernels import kernel_of


@pytest.mark.parametrize("of", ["mean", "median", "std", "geometric_mean", "q25", "q90"])
def test_it_is_the_spread_of_the_statistic_over_fresh_samples(of):
    """2,000 samples of 200: a spread is known to 1.6 %, and the mean of its estimates is biased by a few per cent."""
    samples = np.random.default_rng(2).normal(8.0, 1.0, (2000, 200))
    kernel = kernel_of(of)[0]
    assert standard_error(samples[..., None], of).mean() == pytest.approx(kernel(samples).std(), rel=0.08)


def test_that_of_a_mean_and_of_a_geometric_mean_are_those_of_scipy():
    sample = np.random.default_rng(3).lognormal(0.0, 1.0, 15)
    assert standard_error(sample[:, None], "mean") == pytest.approx(scipy.stats.sem(sample))
    expected = scipy.stats.gmean(sample) * scipy.stats.sem(np.log(sample))
    assert standard_error(sample[:, None], "geometric_mean") == pytest.approx(expected)


@pytest.mark.parametrize("p", [0.25, 0.5, 0.75])
def test_that_of_a_quantile_is_about_that_of_maritz_and_jarrett_and_of_the_bootstrap(p):
    """SciPy has the weights of one order statistic, here they are those of Harrell and Davis."""
    name = f"q{100 * p:g}"
    for size, tolerance in ((41, 0.25), (401, 0.08)):
        sample = np.random.default_rng(size).gamma(2.0, 1.0, size)
        found = float(standard_error(sample[:, None], name))
        assert found == pytest.approx(mstats.mjci(sample, [p])[0], rel=tolerance)
        resampled = resampling.resampled_statistic(sample[None, :, None], kernel_of(name)[0], 4000, 1)
        assert found == pytest.approx(resampled.std(), rel=tolerance)


def test_units_of_several_values_are_one_draw_each():
    values = np.random.default_rng(4).lognormal(0.0, 1.0, (30, 1))
    copies = np.repeat(values, 3, axis=1)
    assert standard_error(copies, "mean") == pytest.approx(standard_error(values, "mean"))
    assert standard_error(copies, "median") == pytest.approx(standard_error(values, "median"), rel=0.15)
    assert standard_error(copies, "mean") > 1.5 * standard_error(copies.reshape(-1, 1), "mean")


def test_that_of_a_ratio_is_its_spread():
    above, below = np.random.default_rng(5).lognormal(0.0, 0.3, (2, 3000, 40)) + np.array([1.0, 2.0])[:, None, None]
    ratios = above.mean(axis=1) / below.mean(axis=1)
    assert ratio_error(above, below).mean() == pytest.approx(ratios.std(), rel=0.05)


def test_of_one_value_and_of_extremes_there_is_none():
    assert np.isnan(standard_error(np.array([[1.0]]), "mean"))
    assert np.isnan(standard_error(np.array([[1.0], [2.0], [3.0]]), "max"))
    assert standard_error(np.full((5, 1), 0.1), "std") == 0.0
    assert standard_error(np.full((5, 1), 0.1), "median") == pytest.approx(0.0, abs=1e-17)
