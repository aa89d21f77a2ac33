"""Tables with labels across: the paper's layout, k/n where runs are missing, and what no table can be."""

import csv
import io
import re

import numpy as np
import pytest
import xarray as xr

from evogt_study.analysis.statistics import summary
from evogt_study.analysis.summary_table import Question, ratio_of_means
from evogt_study.analysis.tables import MEANSTD, NumberFormat, pivot, ratio_text, rendered_pivot, rows, with_ratios
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference.intervals import Interval

NAN = np.nan
THREE = NumberFormat(3)


@pytest.fixture
def values():
    return xr.DataArray(
        [[[0.04, 0.06], [1.0, 3.0]], [[0.02, 0.02], [5.0, NAN]]],
        {"dictionary": ["transnet", "g_rf"], "N": [20, 40], "N1": ("N", [80, 160]), "seed": [0, 1]},
        ["dictionary", "N", "seed"],
        name="error",
    )


def of(values, *statistics):
    return summary(values, statistics=statistics or ("mean", "std"), missing="drop")


def test_text(values):
    text = rendered_pivot(pivot(of(values), ["dictionary"], ["N", "N1"]), "text", THREE)
    assert text.splitlines() == [
        "N   N1   transnet             g_rf",
        "--  ---  -------------------  -------------------",
        "20  80   5.00e-02 (1.41e-02)  2.00e-02 (0.00e+00)",
        "40  160  2.00e+00 (1.41e+00)  5.00e+00 (nan) 1/2",
        "",
        "mean (std); k/n: of n planned runs, k have a value",
    ]


def test_headings_of_numbers_say_of_what(values):
    lines = rendered_pivot(pivot(of(values, "mean"), ["N"]), "markdown", THREE).splitlines()
    assert lines[0] == "| dictionary | N=20     | N=40         |"
    assert lines[3] == "| g_rf       | 2.00e-02 | 5.00e+00 1/2 |"
    assert lines[-1].startswith("mean; k/n")


def test_latex_has_the_two_lines_of_the_paper(values):
    lines = rendered_pivot(pivot(of(values), ["dictionary"], ["N", "N1"]), "latex", THREE).splitlines()
    assert lines == [
        "% mean (std); k/n: of n planned runs, k have a value; needs the package booktabs",
        MEANSTD,
        r"\begin{tabular}{@{}llcc@{}}",
        r"\toprule",
        r"N & N1 & transnet & g\_rf \\",
        r"\midrule",
        r"20 & 80 & \meanstd{5.00\times10^{-2}}{1.41\times10^{-2}} & \meanstd{2.00\times10^{-2}}{0.00} \\",
        r"40 & 160 & \meanstd{2.00}{1.41} & \meanstd{5.00}{\mathrm{nan}}\,{\scriptsize 1/2} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_leaves_out_heads_that_repeat(values):
    deep = values.expand_dims(epsilon=[0.2, 0.1])
    lines = rendered_pivot(pivot(of(deep, "mean"), ["N"]), "latex", THREE).splitlines()
    heads = [line.split(" & ")[:2] for line in lines[5:9]]
    assert heads == [["0.2", "transnet"], ["", r"g\_rf"], ["0.1", "transnet"], ["", r"g\_rf"]]
    assert MEANSTD not in lines


def test_csv_has_a_column_for_each_number_and_each_count(values):
    text = rendered_pivot(pivot(of(values), ["dictionary"]), "csv", THREE)
    read = list(csv.reader(io.StringIO(text)))
    assert read[0] == ["N", "transnet mean", "transnet std", "transnet n", "g_rf mean", "g_rf std", "g_rf n"]
    assert read[2] == ["40", "2.00e+00", "1.41e+00", "2/2", "5.00e+00", "nan", "1/2"]


def test_ratios_are_a_further_column_with_runs_of_their_own(values):
    compared = ratio_of_means(values, "dictionary", ("transnet", "g_rf"), Question(), None)
    table = with_ratios(pivot(of(values), ["dictionary"]), "T/G", compared, ["dictionary"])
    lines = rendered_pivot(table, "text", THREE).splitlines()
    assert lines[0].endswith("T/G")
    assert lines[2].endswith(" 2.5")
    assert lines[3].endswith(" 0.200 1/2")  # over the one common seed
    assert r" & $2.5$ \\" in rendered_pivot(table, "latex", THREE)
    asked = Question(interval=Interval(min_units=2))
    asked = ratio_of_means(values, "dictionary", ("transnet", "g_rf"), asked, None)
    known = with_ratios(pivot(of(values), ["dictionary"]), "T/G", asked, ["dictionary"])
    lines = rendered_pivot(known, "text", THREE).splitlines()
    low, high = asked["ratio_ci"].values[0]
    assert lines[2].endswith(f" 2.5 [{ratio_text(low, THREE)}, {ratio_text(high, THREE)}]")
    assert lines[-1].startswith("mean (std); ratio of means [its interval]")
    assert "T/G,T/G lower,T/G upper,T/G n" in rendered_pivot(known, "csv", THREE).splitlines()[0]
    assert r" & $2.5$ \\" in rendered_pivot(known, "latex", THREE)


def test_points_without_planned_runs_have_no_row_and_cells_no_number(values):
    planned = xr.ones_like(values, dtype=bool)
    planned[0, 0] = planned[:, 1] = False
    found = summary(values, statistics=["mean"], missing="drop", planned=planned)
    lines = rendered_pivot(pivot(found, ["dictionary"]), "text", THREE).splitlines()
    assert [line.split() for line in lines[2:4]] == [["20", "2.00e-02"], []]
    assert "20 & -- & $2.00" in rendered_pivot(pivot(found, ["dictionary"]), "latex", THREE)
    assert [row[:2] for row in rows(found)[1]] == [["g_rf", "20"]]


def test_axes_of_one_value_may_be_left_out(values):
    one = of(values.isel(N=[0]))
    assert pivot(one, ["dictionary"], []).rows[0][0] == ()
    assert pivot(one, ["dictionary"]).names == ("N",)


def test_rows_are_put_in_order_and_may_name_what_follows_them(values):
    header, body = rows(of(values, "mean"), ["N", "N1", "dictionary"], THREE)
    assert header == ["N", "N1", "dictionary", "mean", "n"]
    assert [row[:3] for row in body] == [
        ["20", "80", "transnet"],
        ["20", "80", "g_rf"],
        ["40", "160", "transnet"],
        ["40", "160", "g_rf"],
    ]
    assert body[3][3:] == ["5.00e+00", "1/2"]


@pytest.mark.parametrize(
    ("columns", "names", "said"),
    [
        (["tau"], None, "`rows` and `columns` must be of dictionary, N, N1, got tau"),
        (["dictionary"], ["tau"], "`rows` and `columns` must be of dictionary, N, N1, got tau"),
        (["dictionary"], ["N1"], "must name each of dictionary, N once, got N1, dictionary; N is left out"),
        (["dictionary"], ["N", "dictionary"], "must name each of dictionary, N once, got N, dictionary, dictionary"),
        (
            ["N"],
            ["dictionary", "N1"],
            "`rows` must name parameters that follow rows only, got N1",
        ),
        (["seed"], None, "`rows` and `columns` must be of dictionary, N, N1, got seed"),
        (["dictionary", "N", "N1"], [], "`columns` must be of dictionary, N, got N1, which follows N; use --rows"),
    ],
)
def test_what_no_table_can_be(values, columns, names, said):
    with pytest.raises(InputError) as caught:
        pivot(of(values), columns, names)
    assert said in str(caught.value)


def test_an_interval_is_no_number_for_a_cell(values):
    with pytest.raises(InputError, match="`statistic` must be one number in a table with columns, got ci"):
        pivot(of(values, "mean", "ci"), ["dictionary"])


def test_an_unknown_format_is_told_with_those_there_are(values):
    with pytest.raises(ParameterError, match="`format` must be one of text, markdown, latex, csv, got 'html'"):
        rendered_pivot(pivot(of(values), ["N"]), "html")


@pytest.mark.parametrize(
    ("form", "value", "text", "latex"),
    [
        (NumberFormat(3), 0.0, "0.00e+00", "0.00"),
        (NumberFormat(3), -1.92e-5, "-1.92e-05", r"-1.92\times10^{-5}"),
        (NumberFormat(3), 33.0, "3.30e+01", r"3.30\times10^{1}"),
        (NumberFormat(3), 9.996, "1.00e+01", r"1.00\times10^{1}"),
        (NumberFormat(3), 1.155, "1.16e+00", "1.16"),
        (NumberFormat(1), 0.25, "2e-01", r"2\times10^{-1}"),
        (NumberFormat(3, "plain"), 26.35, "26.4", "26.4"),
        (NumberFormat(3, "plain"), 0.04497, "0.0450", "0.0450"),
        (NumberFormat(3, "plain"), 150.0, "150", "150"),
        (NumberFormat(3, "plain"), 123456.0, "123000", "123000"),
        (NumberFormat(3, "plain"), np.nan, "nan", r"\mathrm{nan}"),
        (NumberFormat(3), -np.inf, "-inf", r"-\infty"),
    ],
)
def test_numbers(form, value, text, latex):
    assert form.text(value) == text
    assert form.latex(value) == latex


def test_ratios():
    assert [ratio_text(value, THREE) for value in (125.04, 2.06, 0.0123, np.nan)] == ["125.0", "2.1", "0.0123", "nan"]


@pytest.mark.parametrize(("wrong", "said"), [((0,), "`digits` must be from 1 to 17"), ((3, "e"), "`notation` must be")])
def test_formats_that_are_none(wrong, said):
    with pytest.raises(ParameterError, match=re.escape(said)):
        NumberFormat(*wrong)
