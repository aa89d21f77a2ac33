"""Observed orders: powers of the axis value come out, with their sign, and what has no logarithm has none."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.analysis.orders import observed_orders
from evogt_study.errors import InputError, ParameterError

RELAXED = settings(deadline=None, max_examples=50)  # machines are shared

NAN = np.nan


def along(name, steps, values):
    values = np.asarray(values, dtype=float)
    return xr.DataArray(values, {name: steps}, [name, "seed"][: values.ndim], name="error")


@RELAXED
@given(
    power=st.floats(-8.0, 8.0),
    factor=st.floats(1e-6, 1e6),
    steps=st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True),
)
def test_a_power_of_the_axis_has_its_exponent_between_neighbours_and_as_slope(power, factor, steps):
    steps = np.array(steps, dtype=float)
    found = observed_orders(along("dt", steps, factor * steps**power), "dt")
    np.testing.assert_allclose(found["order"][1:], power, atol=1e-9)
    assert np.isnan(found["order"][0])
    assert float(found["slope"]) == pytest.approx(power, abs=1e-9)
    assert int(found["n_points"]) == len(steps)


def test_the_sign_is_that_of_the_exponent():
    second_order = observed_orders(along("dt", [0.1, 0.05], [4e-2, 1e-2]), "dt")
    assert float(second_order["order"][1]) == pytest.approx(2.0)
    falls_with_n = observed_orders(along("N", [20, 40], [4e-2, 1e-2]), "N")
    assert float(falls_with_n["order"][1]) == pytest.approx(-2.0)


def test_orders_are_those_of_the_statistic_over_seeds():
    values = along("N", [10, 20], [[1.0, 3.0, 5.0], [0.5, 1.0, 9.0]])
    found = observed_orders(values, "N", "seed", of="median")
    assert float(found["order"][1]) == pytest.approx(np.log(1.0 / 3.0) / np.log(2.0))
    assert found["n_ok"].values.tolist() == [3, 3]


def test_the_slope_is_that_of_least_squares():
    steps, errors = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 0.4, 0.05, 0.02])
    found = observed_orders(along("h", steps, errors), "h")
    assert float(found["slope"]) == pytest.approx(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def test_what_has_no_logarithm_has_no_order_and_is_counted():
    found = observed_orders(along("dt", [0.4, 0.2, 0.1, 0.05], [16.0, 0.0, 1.0, NAN]), "dt")
    assert np.isnan(found["order"]).all()
    assert (float(found["slope"]), int(found["n_points"])) == (pytest.approx(2.0), 2)
    assert found["n_ok"].values.tolist() == [1, 1, 1, 0]
    single = observed_orders(along("dt", [0.4, 0.2], [1.0, NAN]), "dt")
    assert np.isnan(single["slope"])


@pytest.mark.parametrize(
    ("axis", "steps", "said"),
    [
        ("family", ["a", "b"], "`along` must be a numeric axis (there is none), got 'family'"),
        ("dt", [0.0, 0.1], "`along` must be an axis of different positive numbers, got dt = [0.0, 0.1]"),
    ],
)
def test_an_axis_without_a_logarithm_is_refused(axis, steps, said):
    with pytest.raises(InputError) as caught:
        observed_orders(along(axis, steps, [1.0, 2.0]), axis)
    assert str(caught.value) == said


@pytest.mark.parametrize("over", [(), "seed"])
def test_an_unknown_statistic_is_told_with_those_there_are(over):
    values = along("dt", [0.1, 0.2], [1.0, 2.0]).expand_dims(seed=2)
    with pytest.raises(ParameterError, match="`statistic` must be one of mean, std"):
        observed_orders(values if over else values.isel(seed=0), "dt", over, of="nonsense")


def test_a_dataset_is_told_from_its_variables():
    with pytest.raises(InputError, match="`values` must be a DataArray, got a Dataset; use e.g. ds.error"):
        observed_orders(along("dt", [0.1, 0.2], [1.0, 2.0]).to_dataset(name="error"), "dt")


def test_an_unknown_axis_is_told_with_those_there_are():
    with pytest.raises(InputError, match=r"`along` must be a numeric axis \(dt\), got 'tau'"):
        observed_orders(along("dt", [0.1, 0.2], [1.0, 2.0]), "tau")


@pytest.mark.filterwarnings("error")
def test_infinite_values_leave_their_order_without_an_error():
    values = xr.DataArray(np.outer([1.0, 0.25, 0.0625], np.linspace(1.0, 2.0, 9)), dims=("N", "seed"), name="error")
    values = values.assign_coords(N=[10, 20, 40])
    values[0, 0] = np.inf
    mean, median = (observed_orders(values, "N", "seed", of=of) for of in ("mean", "median"))
    assert np.isnan(mean["order"]).values.tolist() == [True, True, False]
    assert np.isfinite(median["order"][1:]).all()
    assert all(np.isnan(each[name]).all() for each in (mean, median) for name in ("order_se", "slope_ci"))
