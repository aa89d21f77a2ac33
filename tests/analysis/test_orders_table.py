"""Tables of observed orders: numbers beside their orders, k/n, slopes, in text and LaTeX."""

import re

import numpy as np
import xarray as xr

from evogt_study.analysis.orders import observed_orders, orders_table

VALUES = xr.DataArray(
    np.array([[4e-2, 1e-2, 2.5e-3], [3e-1, np.nan, 3e-1 / 4]]),
    {"scheme": ["one_step", "b"], "N": [10, 20, 40], "h": ("N", [0.1, 0.05, 0.025])},
    ("scheme", "N"), name="error",
)  # fmt: skip


def test_each_series_has_its_number_and_order_and_the_last_row_the_slope():
    lines = orders_table(observed_orders(VALUES, "N"), "N", "mean").splitlines()
    assert re.split(" {2,}", lines[0]) == ["N", "one_step mean", "one_step EOC", "b mean", "b EOC"]
    assert [line.split() for line in lines[2:]] == [
        ["10", "4.00e-02", "-", "3.00e-01", "-"],
        ["20", "1.00e-02", "-2.00", "-", "0/1", "-"],
        ["40", "2.50e-03", "-2.00", "7.50e-02", "-"],
        ["slope", "-2.00", "-1.00"],
    ]


def test_orders_are_along_what_follows_an_axis_too():
    text = orders_table(observed_orders(VALUES.isel(scheme=0), "h"), "h", "mean")
    assert text.splitlines()[3].split() == ["0.05", "1.00e-02", "2.00"]


def test_latex_has_the_series_above_their_columns():
    text = orders_table(observed_orders(VALUES, "N"), "N", "mean", "latex")
    assert r" & \multicolumn{2}{c}{one\_step} & \multicolumn{2}{c}{b} \\" in text
    assert r"20 & $1.00\times10^{-2}$ & $-2.00$ & -- 0/1 & -- \\" in text
