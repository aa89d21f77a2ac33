"""Tables of statistics as text, Markdown, LaTeX and CSV: rows, axes across, ratios, orders and formats of numbers."""

import csv
import io
import re
import warnings

import numpy as np
import pytest
import xarray as xr

from evogt_study.analysis.statistics import IncompleteWarning, observed_orders, summary
from evogt_study.analysis.tables import (
    NumberFormat,
    TableRequest,
    compute_ratio_of_means,
    find_variables,
    format_orders,
    format_ratio,
    make_order_table,
    make_summary_table,
    make_table,
    render_table,
)
from evogt_study.errors import InputError

NAN = np.nan
THREE = NumberFormat(3, "scientific")


def statistics(values, *names, **coords):
    array = xr.DataArray(values, dims=[*coords, "seed"], coords=coords, name="error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)
        return summary(array, **({"statistics": names} if names else {}))


# --- a cell for each number -------------------------------------------------------------------------------------------


def test_medians_come_first_if_the_mean_is_not_known_and_notes_only_if_an_interval_is_doubtful():
    header, body = make_table(summary(xr.DataArray(np.exp(np.arange(0.0, 33.0, 2.0)), dims="seed"))).flatten(THREE)
    assert header[:4] == ["median", "median_ci lower", "median_ci upper", "mean"]
    assert body[0][-1] == "heavy tail (index 0.2): one run has 86% of the mean"
    header, body = make_table(summary(xr.DataArray(np.arange(1.0, 12.0), dims="seed"))).flatten(NumberFormat())
    assert (header[0], header[-1], body[0][:2]) == ("mean", "n", ["6.000", "3.317"])


ODD = ["a|b", "a,b", 'a"b', "a&b", "a_b", "a%b", "a#b", "a$b", "a{b}", "a\\b", "a~b", "a^b", "a\nb"]


@pytest.mark.parametrize("text", ODD)
def test_no_cell_means_something_to_its_format(text):
    made = render_table(["name", "n"], [[text, "2/3"]], "csv")
    assert list(csv.reader(io.StringIO(made))) == [["name", "n"], [text, "2/3"]]
    lines = render_table(["name", "n"], [[text, "2/3"]], "markdown").splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}
    (line,) = [line for line in render_table(["name", "n"], [[text, "2/3"]], "latex").splitlines() if "2/3" in line]
    left = re.sub(r"\\[&%$#_{}]|\\text[a-z]+(\{\})?|\\[\^~]\{\}", "", line.removesuffix(r" & 2/3 \\"))
    assert not set(left) & set("&%$#_{}~^\\"), line


# --- axes across ------------------------------------------------------------------------------------------------------


@pytest.fixture
def values():
    return xr.DataArray(
        [[[0.04, 0.06], [1.0, 3.0]], [[0.02, 0.02], [5.0, NAN]]],
        {"dictionary": ["transnet", "g_rf"], "N": [20, 40], "N1": ("N", [80, 160]), "seed": [0, 1]},
        ["dictionary", "N", "seed"], name="error",
    )  # fmt: skip


def summarise(values, *names, **options):
    return summary(values, statistics=names or ("mean", "std"), missing="drop", **options)


def test_a_cell_has_all_statistics_and_k_of_n_if_runs_are_missing(values):
    assert make_table(summarise(values), ["dictionary"], ["N", "N1"]).render("text", THREE).splitlines() == [
        "N   N1   transnet             g_rf",
        "--  ---  -------------------  -------------------",
        "20  80   5.00e-02 (1.41e-02)  2.00e-02 (0.00e+00)",
        "40  160  2.00e+00 (1.41e+00)  5.00e+00 (nan) 1/2",
        "",
        "mean (std); k/n: of n planned runs, k have a value",
    ]
    lines = make_table(summarise(values, "mean"), ["N"]).render("markdown", THREE).splitlines()
    assert lines[0] == "| dictionary | N=20     | N=40         |"
    assert lines[3] == "| g_rf       | 2.00e-02 | 5.00e+00 1/2 |"
    both = make_table(summarise(values, "mean", "ci"), ["dictionary"]).render("text", NumberFormat(3)).splitlines()
    assert both[2].split("  ")[1:] == ["0.0500 [-0.0771, 0.177]", "0.0200 [0.0200, 0.0200]"]
    assert both[3].endswith("5.00 1/2")
    assert both[-1].startswith("mean [ci]; k/n")
    text = make_table(summarise(values, "ci"), ["dictionary"]).render("latex", NumberFormat(3))
    assert r"20 & $[-0.0771, 0.177]$ & $[0.0200, 0.0200]$ \\" in text


def test_ratios_are_one_more_column_with_units_of_their_own(values):
    many = xr.concat([values.isel(seed=[0]) * each for each in (1.0, 1.1, 0.9, 1.2, 0.8, 1.05)], "seed")
    many = many.drop_vars("seed") + 0.001 * xr.DataArray(np.arange(6.0) ** 2, dims="seed")
    many = many.rename("error").where((many.N == 20) | (many.seed < 5))
    data = many.to_dataset().assign(run_key=many.astype(str).astype(object))
    request = TableRequest(columns=("dictionary",), ratio="transnet/g_rf", missing="drop", numbers=NumberFormat(3))
    lines = make_summary_table(data, request).splitlines()
    assert lines.pop(0) == "error"
    assert lines[0].endswith("transnet/g_rf")
    found = compute_ratio_of_means(many, "dictionary", ("transnet", "g_rf"), request, data["run_key"])
    low, high = found["ratio_ci"].values[0]
    ends = f"[{format_ratio(low, THREE)}, {format_ratio(high, THREE)}]"
    assert lines[2].endswith(f"{format_ratio(float(found.ratio_of_means[0]), THREE)} {ends}")
    assert lines[3].endswith(" 0.201 5/6")  # fewer than six common seeds have no interval
    assert lines[-1].startswith("mean (std); ratio of means [its interval]")
    header = make_summary_table(data, TableRequest(**{**vars(request), "form": "csv"})).splitlines()[0]
    assert header.endswith("transnet/g_rf,transnet/g_rf lower,transnet/g_rf upper,transnet/g_rf n")
    with pytest.raises(InputError, match="`ratio` must be first/second, two values of one axis across"):
        make_summary_table(data, TableRequest(ratio="transnet/g_rf", missing="drop"))


def test_points_without_planned_runs_have_no_row_and_cells_no_number(values):
    planned = xr.ones_like(values, dtype=bool)
    planned[0, 0] = planned[:, 1] = False
    found = summarise(values, "mean", planned=planned)
    assert [line.split() for line in make_table(found, ["dictionary"]).render("text", THREE).splitlines()[2:4]] == [
        ["20", "2.00e-02"], [],
    ]  # fmt: skip
    assert "20 & -- & $2.00" in make_table(found, ["dictionary"]).render("latex", THREE)
    assert make_table(found).heads == (("g_rf", "20"),)


def test_rows_have_an_order_and_may_name_parameters_that_follow(values):
    found = make_table(summarise(values, "mean"), (), ["N", "N1", "dictionary"])
    assert found.heads[1:3] == (("20", "80", "g_rf"), ("40", "160", "transnet"))
    assert found.flatten(THREE)[1][3][3:] == ["5.00e+00", "1/2"]
    assert make_table(summarise(values.isel(N=[0])), ["dictionary"], []).heads == (
        (),
    )  # an axis of one value may be left out


# --- numbers, variables, orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "value", "text", "latex"),
    [
        (THREE, -1.92e-5, "-1.92e-05", r"-1.92\times10^{-5}"), (THREE, 9.996, "1.00e+01", r"1.00\times10^{1}"),
        (THREE, 1.155, "1.16e+00", "1.16"), (NumberFormat(3, "plain"), 123456.0, "123000", "123000"),
        (NumberFormat(3, "plain"), 0.04497, "0.0450", "0.0450"), (NumberFormat(3), 1e-3, "0.00100", "0.00100"),
        (NumberFormat(3), 9.99e-4, "9.99e-04", r"9.99\times10^{-4}"), (NumberFormat(3), 9994.0, "9990", "9990"),
        (NumberFormat(3), -9996.0, "-1.00e+04", r"-1.00\times10^{4}"), (NumberFormat(3), 0.0, "0", "0"),
        (NumberFormat(3), NAN, "nan", r"\mathrm{nan}"), (NumberFormat(3), -np.inf, "-inf", r"-\infty"),
    ],
)  # fmt: skip
def test_numbers_from_a_thousandth_to_ten_thousand_are_plain_by_default(form, value, text, latex):
    assert (form.text(value), form.latex(value)) == (text, latex)


def test_ratios_have_one_decimal_or_three_digits():
    assert [format_ratio(each, THREE) for each in (125.04, 2.06, 0.0123, NAN)] == ["125.0", "2.1", "0.0123", "nan"]


def test_the_default_variable_is_the_first_of_the_user_and_never_run_metadata():
    runs = xr.DataArray(np.zeros((2, 3)), dims=("n", "seed"))
    data = xr.Dataset({"run_seconds": runs, "run_status": runs, "curve": runs.expand_dims(time=4), "cost": runs})
    assert find_variables(data) == ("cost",)
    assert find_variables(data.assign(error=runs)) == ("cost",)
    assert find_variables(data.assign(error=runs.assign_attrs(headline=1))) == ("error",)
    with pytest.raises(InputError, match=r"`variable` must be one of cost, curve, got 'cots'\. Did you mean `cost`\?"):
        find_variables(data, "cots")
    initial = xr.Dataset({"initial_error": runs.assign_attrs(headline=0), "drop": runs.assign_attrs(headline=1)})
    assert find_variables(initial) == ("drop",)
    with pytest.raises(InputError, match="there is no solution error .* with `variable`: initial_error$"):
        find_variables(initial.drop_vars("drop"))
    with pytest.raises(InputError, match="the result has no variable with numbers"):
        find_variables(data.drop_vars(["cost", "curve"]))


ORDERS = xr.DataArray(
    np.array([[4e-2, 1e-2, 2.5e-3], [3e-1, NAN, 3e-1 / 4]]),
    {"scheme": ["one_step", "b"], "N": [10, 20, 40], "h": ("N", [0.1, 0.05, 0.025])}, ("scheme", "N"), name="error",
)  # fmt: skip


def test_each_series_has_its_number_and_order_and_the_last_row_the_slope():
    lines = format_orders(observed_orders(ORDERS, "N"), "N", "mean").splitlines()
    assert re.split(" {2,}", lines[0]) == ["N", "one_step mean", "one_step EOC", "b mean", "b EOC"]
    assert [line.split() for line in lines[2:]] == [
        ["10", "0.0400", "-", "0.300", "-"],
        ["20", "0.0100", "-2.00", "-", "0/1", "-"],
        ["40", "0.00250", "-2.00", "0.0750", "-"],
        ["slope", "-2.00", "-1.00"],
    ]
    latex = format_orders(observed_orders(ORDERS, "N"), "N", "mean", "latex", THREE)
    assert r"N & one\_step mean & one\_step EOC & b mean & b EOC \\" in latex
    assert r"20 & $1.00\times10^{-2}$ & $-2.00$ & -- 0/1 & -- \\" in latex
    one = ORDERS.isel(scheme=0)  # also along a parameter that follows an axis
    assert format_orders(observed_orders(one, "h"), "h", "mean").splitlines()[3].split() == ["0.05", "0.0100", "2.00"]
    data = one.to_dataset().assign(run_key=one.astype(str).astype(object))
    assert make_order_table(data, TableRequest(), "h").splitlines()[-1].split() == ["slope", "2.00"]
