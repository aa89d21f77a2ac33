"""Observed orders: powers of the axis value come out, with their sign, and what has no logarithm has none."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.analysis.statistics import observed_orders

NAN = np.nan


def make_array(name, steps, values):
    values = np.asarray(values, dtype=float)
    return xr.DataArray(values, {name: steps}, [name, "seed"][: values.ndim], name="error")


@settings(deadline=None, max_examples=50)  # machines are shared
@given(
    power=st.floats(-8.0, 8.0), factor=st.floats(1e-6, 1e6),
    steps=st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True),
)  # fmt: skip
def test_a_power_of_the_axis_has_its_exponent_between_neighbours_and_as_slope(power, factor, steps):
    steps = np.array(steps, dtype=float)
    found = observed_orders(make_array("dt", steps, factor * steps**power), "dt")
    np.testing.assert_allclose(found["order"][1:], power, atol=1e-9)
    assert np.isnan(found["order"][0])
    assert (float(found["slope"]), int(found["n_points"])) == (pytest.approx(power, abs=1e-9), len(steps))


def test_orders_of_a_statistic_and_slopes_by_least_squares():
    values = make_array("N", [10, 20], [[1.0, 3.0, 5.0], [0.5, 1.0, 9.0]])
    found = observed_orders(values, "N", "seed", of="median")
    assert float(found["order"][1]) == pytest.approx(np.log(1.0 / 3.0) / np.log(2.0))  # an error that falls with N
    assert found["n_ok"].values.tolist() == [3, 3]
    steps, errors = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 0.4, 0.05, 0.02])
    slope = float(observed_orders(make_array("h", steps, errors), "h")["slope"])
    assert slope == pytest.approx(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def test_a_value_without_logarithm_has_no_order_and_is_counted():
    found = observed_orders(make_array("dt", [0.4, 0.2, 0.1, 0.05], [16.0, 0.0, 1.0, NAN]), "dt")
    assert np.isnan(found["order"]).all()
    assert (float(found["slope"]), int(found["n_points"])) == (pytest.approx(2.0), 2)
    assert found["n_ok"].values.tolist() == [1, 1, 1, 0]
    assert np.isnan(observed_orders(make_array("dt", [0.4, 0.2], [1.0, NAN]), "dt")["slope"])


@pytest.mark.filterwarnings("error")
def test_infinite_values_leave_their_order_without_an_error():
    values = make_array("N", [10, 20, 40], np.outer([1.0, 0.25, 0.0625], np.linspace(1.0, 2.0, 9)))
    complete = observed_orders(values, "N", "seed")
    assert (complete["slope_ci"][0] < complete["slope"] < complete["slope_ci"][1]) or complete["slope_se"] < 1e-12
    values[0, 0] = np.inf
    mean, median = (observed_orders(values, "N", "seed", of=of) for of in ("mean", "median"))
    assert np.isnan(mean["order"]).values.tolist() == [True, True, False]
    assert np.isfinite(median["order"][1:]).all()
    assert all(np.isnan(each[name]).all() for each in (mean, median) for name in ("order_se", "slope_ci"))
