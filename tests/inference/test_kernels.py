"""Statistics on arrays: against NumPy and SciPy on the values that are there, with any of them missing."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evogt_study.inference import kernels

RELAXED = settings(deadline=None, max_examples=100)  # machines are shared

REFERENCES = {
    "mean": np.mean,
    "std": lambda x: np.std(x, ddof=1) if len(x) > 1 else np.nan,
    "median": np.median,
    "geometric_mean": lambda x: scipy.stats.gmean(x),
    "minimum": np.min,
    "maximum": np.max,
}
POSITIVE = st.floats(1e-12, 1e6)
SAMPLES = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 8)), elements=POSITIVE | st.just(np.nan))


@pytest.mark.parametrize("name", REFERENCES)
@RELAXED
@given(samples=SAMPLES)
def test_each_kernel_is_its_reference_on_the_finite_values(name, samples):
    found = getattr(kernels, name)(samples)
    for row, number in zip(samples, found, strict=True):
        values = row[np.isfinite(row)]
        expected = REFERENCES[name](values) if len(values) else np.nan
        scale = np.abs(values).max() if len(values) else 0.0  # a deviation of equal values is rounding of their size
        np.testing.assert_allclose(number, expected, rtol=1e-12, atol=1e-14 * scale if name == "std" else 0.0)


@RELAXED
@given(samples=SAMPLES, probability=st.floats(0.0, 1.0))
def test_a_quantile_is_that_of_numpy(samples, probability):
    for row, number in zip(samples, kernels.quantile(samples, probability), strict=True):
        values = row[np.isfinite(row)]
        expected = np.quantile(values, probability) if len(values) else np.nan
        np.testing.assert_allclose(number, expected, rtol=1e-12)


@pytest.mark.long
@RELAXED
@given(samples=SAMPLES, factor=st.sampled_from([0.5, 2.0, 1024.0]))
@pytest.mark.parametrize("name", [name for name in REFERENCES if name != "geometric_mean"])
def test_each_kernel_follows_the_scale_exactly_where_it_is_a_power_of_two(name, samples, factor):
    kernel = getattr(kernels, name)
    np.testing.assert_array_equal(kernel(factor * samples), factor * kernel(samples))


@RELAXED
@given(value=POSITIVE, count=st.integers(1, 30), missing=st.integers(0, 3))
def test_of_equal_values_each_kernel_gives_the_value_and_no_deviation(value, count, missing):
    sample = np.array([value] * count + [np.nan] * missing)
    for name in REFERENCES:
        expected = (0.0 if count > 1 else np.nan) if name == "std" else value
        found = getattr(kernels, name)(sample)
        np.testing.assert_allclose(found, expected, rtol=1e-12 if name == "geometric_mean" else 0.0)
    np.testing.assert_array_equal(kernels.quantile(sample, 0.37), value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ([1.0, np.inf, 3.0, np.nan], [np.inf, np.nan, 3.0, 1.0, np.inf]),
        ([1.0, -np.inf, 3.0], [-np.inf, np.nan, 1.0, -np.inf, 3.0]),
        ([-np.inf, np.inf], [np.nan, np.nan, np.nan, -np.inf, np.inf]),
        ([np.inf, np.inf], [np.inf, np.nan, np.inf, np.inf, np.inf]),
    ],
)
def test_infinite_values_are_values(sample, expected):
    names = ("mean", "std", "median", "minimum", "maximum")
    np.testing.assert_array_equal([getattr(kernels, name)(np.array(sample)) for name in names], expected)
    assert int(kernels.count(np.array(sample))) == int((~np.isnan(sample)).sum())


def test_a_geometric_mean_of_zero_and_of_negative_values():
    assert float(kernels.geometric_mean(np.array([0.0, 4.0]))) == 0.0
    assert np.isnan(kernels.geometric_mean(np.array([-1.0, 4.0])))
    assert float(kernels.geometric_mean(np.array([1e-300, 1e-300, 1e300]))) == pytest.approx(1e-100)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 3, 0)])
def test_of_no_values_there_is_no_statistic(name, shape):
    found = getattr(kernels, name)(np.zeros(shape))
    assert found.shape == shape[:-1]
    assert np.isnan(found).all()
