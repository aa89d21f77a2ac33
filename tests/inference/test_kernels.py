"""Statistics on arrays and their standard errors: against NumPy and SciPy, with any of the values missing."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evogt_study.inference import kernels
from evogt_study.inference.intervals import compute_ratio_error, compute_standard_error
from evogt_study.inference.kernels import find_kernel, largest_share, resample_statistic, tail_index

RELAXED = settings(deadline=None, max_examples=100)  # machines are shared
REFERENCES = {
    "mean": np.mean, "std": lambda x: np.std(x, ddof=1) if len(x) > 1 else np.nan, "median": np.median,
    "geometric_mean": scipy.stats.gmean, "minimum": np.min, "maximum": np.max,
}  # fmt: skip
POSITIVE = st.floats(1e-12, 1e6)
SAMPLES = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 8)), elements=POSITIVE | st.just(np.nan))


@RELAXED
@given(samples=SAMPLES, probability=st.floats(0.0, 1.0))
def test_each_kernel_is_its_reference_on_the_values_that_are_there(samples, probability):
    for row in samples:
        values = row[np.isfinite(row)]
        scale = np.abs(values).max() if len(values) else 0.0  # a deviation of equal values is rounding of their size
        for name, reference in REFERENCES.items():
            kernel, expected = getattr(kernels, name), reference(values) if len(values) else np.nan
            atol = 1e-14 * scale if name == "std" else 0.0
            np.testing.assert_allclose(kernel(row), expected, rtol=1e-12, atol=atol, err_msg=name)
            if name != "geometric_mean":  # exact for a power of two
                np.testing.assert_array_equal(kernel(1024.0 * row), 1024.0 * kernel(row))
        expected = np.quantile(values, probability) if len(values) else np.nan
        np.testing.assert_allclose(kernels.quantile(row, probability), expected, rtol=1e-12)


def test_zero_and_negative_values_and_no_values():
    assert float(kernels.geometric_mean(np.array([0.0, 4.0]))) == 0.0
    assert np.isnan(kernels.geometric_mean(np.array([-1.0, 4.0])))
    assert float(kernels.geometric_mean(np.array([1e-300, 1e-300, 1e300]))) == pytest.approx(1e-100)
    for name in REFERENCES:
        for shape in ((3, 0), (0, 3), (2, 3, 0)):
            found = getattr(kernels, name)(np.zeros(shape))
            assert found.shape == shape[:-1]
            assert np.isnan(found).all()


def test_tails():
    for index in (1.0, 2.0, 4.0):
        sample = 1.0 + np.random.default_rng(1).pareto(index, 250_000)
        assert float(tail_index(sample)) == pytest.approx(index, rel=0.15)  # of 500 values: 4.5 % of deviation
    assert float(tail_index(np.full(10, 2.0))) == np.inf
    few = np.array([[*range(9), np.nan], [0.0] * 10])  # nine values say nothing of their tail
    np.testing.assert_array_equal(tail_index(few), [np.nan, np.nan])
    sample = np.array([1.0, 2.0, 4.0, 8.0, -16.0, *[1.0] * 5])
    assert float(tail_index(sample)) == pytest.approx(1.0 / np.log([8.0, 4.0, 2.0]).mean())
    np.testing.assert_allclose(largest_share(np.array([[1.0, 2.0, -5.0], [1.0, np.nan, 1.0]])), [5 / 8, 0.5])


# --- standard errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["mean", "median", "std", "geometric_mean", "q25", "q90"])
def test_a_standard_error_is_the_spread_of_the_statistic_over_fresh_samples(of):
    """2,000 samples of 200: a spread is known to 1.6 %, and the mean of its estimates is biased by a few per cent."""
    samples = np.random.default_rng(2).normal(8.0, 1.0, (2000, 200))
    assert compute_standard_error(samples[..., None], of).mean() == pytest.approx(
        find_kernel(of)[0](samples).std(), rel=0.08
    )


def test_standard_errors_of_means_and_quantiles():
    """SciPy has Maritz and Jarrett's weights of one order statistic; here they are the weights of Harrell and Davis."""
    sample = np.random.default_rng(3).lognormal(0.0, 1.0, 15)
    assert compute_standard_error(sample[:, None], "mean") == pytest.approx(scipy.stats.sem(sample))
    expected = scipy.stats.gmean(sample) * scipy.stats.sem(np.log(sample))
    assert compute_standard_error(sample[:, None], "geometric_mean") == pytest.approx(expected)
    for p in (0.25, 0.5, 0.75):
        name, sample = f"q{100 * p:g}", np.random.default_rng(401).gamma(2.0, 1.0, 401)
        found = float(compute_standard_error(sample[:, None], name))
        assert found == pytest.approx(scipy.stats.mstats.mjci(sample, [p])[0], rel=0.08)
        resampled = resample_statistic(sample[None, :, None], find_kernel(name)[0], 4000, 1)
        assert found == pytest.approx(resampled.std(), rel=0.08)
    above, below = np.random.default_rng(5).lognormal(0.0, 0.3, (2, 3000, 40)) + np.array([1.0, 2.0])[:, None, None]
    ratios = above.mean(axis=1) / below.mean(axis=1)
    assert compute_ratio_error(above, below).mean() == pytest.approx(ratios.std(), rel=0.05)


def test_units_of_several_values_are_one_draw_each():
    values = np.random.default_rng(4).lognormal(0.0, 1.0, (30, 1))
    copies = np.repeat(values, 3, axis=1)
    assert compute_standard_error(copies, "mean") == pytest.approx(compute_standard_error(values, "mean"))
    assert compute_standard_error(copies, "median") == pytest.approx(compute_standard_error(values, "median"), rel=0.15)
    assert compute_standard_error(copies, "mean") > 1.5 * compute_standard_error(copies.reshape(-1, 1), "mean")
