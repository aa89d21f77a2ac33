"""Confidence intervals: against SciPy, closed forms and counting; their coverage is in `test_simulations`."""

import numpy as np
import pytest
import scipy.stats

from evogt_study.inference import kernels
from evogt_study.inference import kernels as resampling
from evogt_study.inference.intervals import Interval, compute_ratio_interval, interval
from evogt_study.inference.kernels import find_kernel

NAN = np.nan
KINDS = [
    Interval(), Interval(method="student"), Interval(method="percentile"), Interval("median"),
    Interval("q75"), Interval("geometric_mean"), Interval("std"), Interval("std", "percentile"), Interval("max"),
]  # fmt: skip


def draw_values(*shape, seed=0):
    return np.random.default_rng(seed).lognormal(-7.0, 1.0, shape)


def interval_of(samples, how=Interval()):
    """The interval of samples of units of one value each."""
    return interval(np.asarray(samples, dtype=float)[..., None], how)


# --- against definitions ----------------------------------------------------------------------------------------------


def brute_force_bootstrap_t(sample, places, confidence=0.95):
    """The definition, resample by resample, each end the wider one of bootstrap-t and Student's."""
    n, mean, error = len(sample), sample.mean(), sample.std(ddof=1) / np.sqrt(len(sample))
    resamples = [sample[row] for row in places if len(set(sample[row])) > 1]
    t = [(each.mean() - mean) / (each.std(ddof=1) / np.sqrt(n)) for each in resamples]
    student = scipy.stats.t.ppf((1 + confidence) / 2, n - 1)
    low, high = np.quantile(t, [(1 - confidence) / 2, (1 + confidence) / 2])
    return mean - max(high, student) * error, mean - min(low, -student) * error


def test_bootstrap_t_and_students_interval_are_their_definitions():
    sample = draw_values(12)
    places = np.random.default_rng(0).integers(0, 12, (999, 12))
    np.testing.assert_allclose(interval_of(sample), brute_force_bootstrap_t(sample, places), rtol=1e-10)
    shifted = sample - sample.mean()  # also of values of both signs
    np.testing.assert_allclose(interval_of(shifted), brute_force_bootstrap_t(shifted, places), rtol=1e-9, atol=1e-18)
    samples = draw_values(3, 9)
    reference = scipy.stats.t.interval(0.9, 8, samples.mean(axis=1), scipy.stats.sem(samples, axis=1))
    np.testing.assert_allclose(
        interval_of(samples, Interval(method="student", confidence=0.9)).T, reference, rtol=1e-10
    )


@pytest.mark.parametrize("n", [6, 7, 20, 51])
@pytest.mark.parametrize(("name", "p"), [("median", 0.5), ("q25", 0.25), ("q90", 0.9)])
def test_order_statistics_hold_a_quantile_with_the_binomial_probability(n, name, p):
    """Counted: of samples of the uniform distribution, those whose l-th value is below p and u-th above."""
    low, high = interval_of(np.arange(1.0, n + 1.0), Interval(name, min_units=2))
    below, above = 0 if np.isinf(low) else int(low), n + 1 if np.isinf(high) else int(high)
    assert sum(scipy.stats.binom.pmf(k, n, p) for k in range(below, above)) >= 0.95
    assert below == n or scipy.stats.binom.cdf(below, n, p) > 0.025  # no narrower interval has such tails
    test = scipy.stats.quantile_test(np.arange(1.0, n + 1.0), p=p).confidence_interval(0.95)
    np.testing.assert_allclose([low if np.isfinite(low) else NAN, high if np.isfinite(high) else NAN], test)


@pytest.mark.parametrize("name", ["median", "std"])
def test_percentile_intervals_equal_scipys(name):
    values = draw_values(3, 15)
    values[1, 4] = NAN
    how = Interval(name, "percentile", confidence=0.9, resamples=200, seed=3)
    reference = {"median": np.median, "std": lambda x, axis: np.std(x, axis=axis, ddof=1)}[name]
    for row, limits in zip(values, interval_of(values, how), strict=True):
        expected = scipy.stats.bootstrap(
            (row[np.isfinite(row)],), reference, confidence_level=0.9, n_resamples=200, vectorized=True,
            method="percentile", rng=np.random.default_rng(3),
        ).confidence_interval  # fmt: skip
        np.testing.assert_allclose(limits, [expected.low, expected.high], rtol=1e-10)


def test_sums_of_resamples_do_not_depend_on_the_batch(monkeypatch):
    values = draw_values(2, 3, 30)
    kept = resampling.resample_sums(values, 200, 5)
    places = np.random.default_rng(5).integers(0, 30, (200, 30))
    np.testing.assert_allclose(kept, values[..., places].sum(axis=-1), rtol=1e-12)
    monkeypatch.setattr(resampling, "_MAX_CACHED_COUNTS", 0)
    monkeypatch.setattr(resampling, "MAX_BATCH_VALUES", 40 * 30)
    np.testing.assert_allclose(resampling.resample_sums(values, 200, 5), kept, rtol=1e-12)


def test_bonetts_interval_is_the_formula_of_its_paper():
    """Bonett (2006), formula 2, with z / (2 (n - 4)^(1/2)) trimmed from each end for the kurtosis."""
    sample, n, z = draw_values(30), 30, scipy.stats.norm.ppf(0.975)
    middle = scipy.stats.trim_mean(sample, 1 / (2 * np.sqrt(n - 4)))
    kurtosis = n * ((sample - middle) ** 4).sum() / ((sample - sample.mean()) ** 2).sum() ** 2
    factor = n / (n - z)
    error = factor * np.sqrt((kurtosis - (n - 3) / n) / (n - 1))
    expected = np.sqrt(np.exp(np.log(factor * sample.var(ddof=1)) + np.array([-z, z]) * error))
    np.testing.assert_allclose(interval_of(sample, Interval("std")), expected, rtol=1e-12)
    for size, share in ((6, 0.984), (20, 0.947)):  # docs/background/coverage.md, of 20,000 samples; here of 1,000
        found = interval(np.random.default_rng(3).normal(size=(1000, size, 1)), Interval("std"))
        assert ((found[:, 0] <= 1.0) & (found[:, 1] >= 1.0)).mean() == pytest.approx(share, abs=0.02)


# --- properties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [how for how in KINDS if how.of != "q75"])  # which seven values do not bound
def test_equal_values_have_an_interval_of_one_value_and_few_values_have_none(how):
    values = np.full((4, 7), 0.1)
    values[1, 1], values[2, 1:3], values[3] = NAN, NAN, NAN
    found, of_mean = interval_of(values, how), how.of in ("mean", "geometric_mean")
    np.testing.assert_allclose(found[:2], 0.0 if how.of == "std" else 0.1, atol=1e-16)
    np.testing.assert_allclose(found[2], 0.1 if of_mean else NAN, atol=1e-16)  # Student's interval of few
    assert np.isnan(found[3]).all()
    assert np.isnan(interval_of([[1.0, 2.0], [1.0, NAN]], Interval(how.of, how.method, min_units=2))[1]).all()


@pytest.mark.parametrize("how", KINDS)
def test_it_depends_neither_on_other_rows_nor_on_missing_values_nor_on_scale(how):
    values = draw_values(5, 12)
    values[2, 3:5] = NAN
    together = interval_of(values, how)
    for row in range(5):
        np.testing.assert_allclose(interval_of(values[row], how), together[row], rtol=1e-12)
    np.testing.assert_allclose(interval_of(np.delete(values[2], [3, 4]), how), together[2], rtol=1e-12)
    np.testing.assert_allclose(interval_of(8.0 * values, how), 8.0 * together, rtol=1e-9)
    short, long = (
        np.diff(interval_of(draw_values(40), Interval(how.of, how.method, level))).item() for level in (0.5, 0.8)
    )
    assert 0.0 < short < long or how.of in ("max", "std")
    if how.of in ("mean", "geometric_mean"):  # three equal values of a unit are one value
        np.testing.assert_allclose(interval(np.repeat(values[:2, :, None], 3, axis=-1), how), together[:2], rtol=1e-12)


def test_the_interval_of_an_inverse_ratio_is_the_inverse():
    above, below = draw_values(2, 3, 15)
    one = compute_ratio_interval(above, below, Interval(), logarithmic=True)
    other = compute_ratio_interval(below, above, Interval(), logarithmic=True)
    np.testing.assert_allclose(one, 1.0 / other[:, ::-1], rtol=1e-10)
    np.testing.assert_allclose(
        compute_ratio_interval(3.0 * below, below, Interval(), logarithmic=True), 3.0, rtol=1e-10
    )


def test_the_lower_end_of_positive_values_is_positive():
    """A standard error of more than half the mean: Student's interval goes below zero."""
    sample = np.array([1.0] * 3 + [2.0] * 8 + [90.0])
    assert interval_of(sample, Interval(method="student"))[0] < 0.0
    assert interval_of(sample)[0] == pytest.approx(1.0)
    assert interval_of(np.array([-1.0, *sample]))[0] < -1.0
    few = np.array([4.472, 3.755])  # both are above the mean in a quarter of samples of a symmetric distribution
    student = interval_of(few, Interval(method="student", min_units=2))
    np.testing.assert_allclose(interval_of(few, Interval(min_units=2)), [0.0, student[1]])
    skewed = np.array([1.0, 1.0, 1.0, 1.0, 90.0, 1.0])
    assert [interval_of(skewed[:n], Interval(min_units=2))[0] for n in (5, 6)] == [0.0, pytest.approx(1.0)]


def test_seeds_sizes_and_degenerate_samples():
    sample = draw_values(15)
    assert (interval_of(sample, Interval(seed=1)) != interval_of(sample)).any()
    np.testing.assert_array_equal(interval_of(sample), interval_of(sample))
    found = interval_of([1.0] * 19 + [5.0])  # 36 % of the resamples are of equal values: t would be infinite
    assert np.isfinite(found).all()
    assert found[0] < 1.2 < found[1]
    for scale in (1e-300, 1e150, 1e300):
        np.testing.assert_allclose(interval_of(draw_values(8) * scale) / scale, interval_of(draw_values(8)), rtol=1e-10)
    for shape in ((0, 3, 1), (2, 0, 1), (2, 3, 0)):
        assert interval(np.zeros(shape), Interval()).shape == (shape[0], 2)
    assert np.isnan(interval_of(np.full((2, 8), -1.0) * np.arange(1, 9), Interval("geometric_mean"))).all()
    assert kernels.count(np.zeros((2, 0))).tolist() == [0, 0]
    sample, half = np.random.default_rng(1).normal(5.0, 2.0, 20_000), 1.96 * 2.0 / np.sqrt(20_000)
    for how, width in ((Interval(), 1.0), (Interval("median"), np.sqrt(np.pi / 2))):  # normal for large samples
        expected = float(find_kernel(how.of)[0](sample)) + np.array([-1.0, 1.0]) * width * half
        np.testing.assert_allclose(interval_of(sample, how), expected, atol=0.2 * half)
