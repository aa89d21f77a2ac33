"""Bootstrap intervals beyond the percentile one of the mean, which `test_statistics` looks at."""

import numpy as np
import pytest
import scipy.stats

from evogt_study.errors import ParameterError
from evogt_study.inference import intervals, kernels
from evogt_study.inference.intervals import Bootstrap, bootstrap_interval, interval

NAN = np.nan


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).lognormal(-7.0, 2.0, shape)


def of_scipy(sample, statistic, how):
    found = scipy.stats.bootstrap(
        (sample,), statistic, confidence_level=how.confidence, n_resamples=how.resamples,
        method={"bca": "BCa"}.get(how.method, how.method), rng=np.random.default_rng(how.seed), vectorized=True,
    )  # fmt: skip
    return [found.confidence_interval.low, found.confidence_interval.high]


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("of", ["mean", "median", "std"])
def test_each_interval_is_that_of_scipy_on_the_values_that_are_there(of, method):
    if (of, method) == ("mean", "percentile"):
        pytest.skip("its own route; its draws differ, and test_statistics compares it")
    how = Bootstrap(of, method, confidence=0.9, resamples=200, seed=3)
    values = drawn(4, 9)
    values[1, 2] = values[3, 0] = NAN
    references = {"mean": np.mean, "median": np.median, "std": lambda x, axis: np.std(x, axis=axis, ddof=1)}
    found = interval(values, getattr(kernels, of), how)
    for row, limits in zip(values, found, strict=True):
        np.testing.assert_allclose(limits, of_scipy(row[np.isfinite(row)], references[of], how), rtol=1e-10)


@pytest.mark.parametrize("how", [Bootstrap(), Bootstrap(method="bca"), Bootstrap("median"), Bootstrap("std", "bca")])
def test_of_equal_values_the_interval_is_the_value_and_of_one_there_is_none(how):
    kernel = getattr(kernels, how.of)
    found = interval(np.array([[0.1, 0.1, 0.1], [0.1, NAN, 0.1], [0.1, NAN, NAN], [NAN] * 3]), kernel, how)
    expected = 0.0 if how.of == "std" else 0.1
    np.testing.assert_allclose(found[:2], expected, atol=1e-17)
    assert np.isnan(found[2:]).all()


@pytest.mark.parametrize("how", [Bootstrap(), Bootstrap(method="bca"), Bootstrap("median")])
def test_an_interval_does_not_depend_on_what_stands_beside_its_row(how):
    values = drawn(5, 12)
    values[2, 3:5] = NAN
    together = interval(values, getattr(kernels, how.of), how)
    for row in range(5):
        np.testing.assert_allclose(interval(values[row], getattr(kernels, how.of), how), together[row], rtol=1e-12)


def test_the_seed_is_what_it_depends_on():
    sample = drawn(15)
    assert (interval(sample, kernels.mean, Bootstrap(seed=1)) != interval(sample, kernels.mean, Bootstrap())).any()
    np.testing.assert_array_equal(interval(sample, kernels.mean, Bootstrap()), bootstrap_interval(sample))


def test_a_large_sample_is_resampled_without_its_weights():
    """999 weights of 100,000 values would be 800 MB.  The normal interval is the reference: n is large."""
    sample = np.random.default_rng(1).normal(5.0, 2.0, 20_000)
    low, high = bootstrap_interval(sample)
    half = 1.96 * 2.0 / np.sqrt(20_000)
    assert low == pytest.approx(sample.mean() - half, abs=0.2 * half)
    assert high == pytest.approx(sample.mean() + half, abs=0.2 * half)


def test_both_ways_to_resample_are_the_same_distribution(monkeypatch):
    rows = drawn(2, 50)
    weighted = intervals.resampled_means(rows, 4000, 0)
    monkeypatch.setattr(intervals, "WEIGHTED_UP_TO", 10)
    drawn_one_by_one = intervals.resampled_means(rows, 4000, 0)
    for one, other in zip(weighted, drawn_one_by_one, strict=True):
        assert scipy.stats.ks_2samp(one, other).pvalue > 1e-3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "bc"}, "`method` must be one of percentile, bca, got 'bc'"),
        ({"confidence": 95}, "`confidence` must be in (0, 1), got 95; use e.g. 0.95"),
        ({"resamples": 0}, "`resamples` must be at least 1, got 0; use e.g. 999"),
        ({"seed": -1}, "`seed` must be an integer >= 0, got -1"),
    ],
)
def test_what_cannot_be_is_told(wrong, said):
    with pytest.raises(ParameterError) as caught:
        Bootstrap(**wrong)
    assert str(caught.value) == said
