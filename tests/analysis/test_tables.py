"""Statistics as text, Markdown, LaTeX and CSV: the same rows, each in its language."""

import csv
import io
import re
import warnings

import numpy as np
import pytest
import xarray as xr

from evogt_study.analysis.statistics import IncompleteWarning, summary
from evogt_study.analysis.tables import FORMATS, rendered, rows
from evogt_study.errors import InputError


def statistics(values, **coords):
    array = xr.DataArray(values, dims=[*coords, "seed"], coords=coords, name="error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)
        return summary(array)


TWO = statistics(
    [[[1.0, 3.0], [2.0, np.nan]], [[np.nan, np.nan], [1e-12, 1e-12]]],
    dictionary=["gaussian_rf", "b"],
    epsilon=[0.2, 0.05],
)
HEADER = ["dictionary", "epsilon", "mean", "std", "ci lower", "ci upper", "median", "median_ci lower"]
HEADER += ["median_ci upper", "n", "note"]
NONE = ["nan"] * 2
FEW = "few seeds: {} (Student's interval)"
BODY = [
    [
        "gaussian_rf",
        "0.2",
        "2.000e+00",
        "1.414e+00",
        "-1.071e+01",
        "1.471e+01",
        "2.000e+00",
        *NONE,
        "2/2",
        FEW.format(2),
    ],
    ["gaussian_rf", "0.05", "2.000e+00", "nan", *NONE, "2.000e+00", *NONE, "1/2", FEW.format(1)],
    ["b", "0.2", "nan", "nan", *NONE, "nan", *NONE, "0/2", ""],
    ["b", "0.05", "1.000e-12", "0.000e+00", "1.000e-12", "1.000e-12", "1.000e-12", *NONE, "2/2", FEW.format(2)],
]


def test_one_row_for_each_point_with_labels_first_and_counts_last():
    header, body = rows(TWO)
    assert header == HEADER
    assert body == BODY


def test_a_summary_over_everything_is_one_row_without_notes_where_nothing_is_to_be_doubted():
    header, body = rows(summary(xr.DataArray(np.arange(1.0, 12.0), dims="seed")))
    assert header == HEADER[2:-1]
    assert body[0][:2] + body[0][4:] == ["6.000e+00", "3.317e+00", "6.000e+00", "2.000e+00", "1.000e+01", "11/11"]
    assert float(body[0][2]) <= 6.0 - 2.228 < 6.0 + 2.228 <= float(body[0][3])  # Student's at the least


def test_where_the_mean_is_not_known_the_median_stands_first():
    header, body = rows(summary(xr.DataArray(np.exp(np.arange(0.0, 33.0, 2.0)), dims="seed")))
    assert header[:4] == ["median", "median_ci lower", "median_ci upper", "mean"]
    assert body[0][-1] == "heavy tail (index 0.2): one run has 86% of the mean"


def test_dimensions_without_labels_are_numbered():
    values = xr.DataArray([[1.0, 2.0], [3.0, 4.0]], dims=["time", "seed"])
    assert [row[0] for row in rows(summary(values))[1]] == ["0", "1"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 10], ["0", "10"]),
        ([0.1, 1e-12], ["0.1", "1e-12"]),
        (["240", "240,120"], ["240", "240,120"]),
        ([True, False], ["true", "false"]),
        ([0.25, 0.05], ["0.25", "0.05"]),
    ],
)
def test_labels_are_written_as_they_are_typed(labels, expected):
    assert [row[0] for row in rows(statistics([[1.0, 2.0], [3.0, 4.0]], p=labels))[1]] == expected


@pytest.mark.parametrize(
    "labels", [[0.1234567, 0.1234568], [1 / 3, 0.333333333333], [1e-12, 1.0000001e-12], [1e7 + 0.1, 1e7]]
)
def test_labels_tell_rows_apart(labels):
    """Two coordinates that differ are two rows that differ, else nobody knows which is which."""
    found = [row[0] for row in rows(statistics([[1.0, 2.0], [3.0, 4.0]], p=labels))[1]]
    assert len(set(found)) == 2


def test_text():
    assert rendered(["name", "n"], [["a", "10/10"], ["longer", "2/3"]], "text").splitlines() == [
        "name    n",
        "------  -----",
        "a       10/10",
        "longer  2/3",
    ]


def test_markdown():
    assert rendered(["name", "n"], [["a", "10/10"], ["longer", "2/3"]], "markdown").splitlines() == [
        "| name   | n     |",
        "| ------ | ----- |",
        "| a      | 10/10 |",
        "| longer | 2/3   |",
    ]


def test_latex():
    assert rendered(["name", "n"], [["gaussian_rf", "10/10"], ["50 %", "2/3"]], "latex").splitlines() == [
        r"\begin{tabular}{ll}",
        r"\toprule",
        r"name & n \\",
        r"\midrule",
        r"gaussian\_rf & 10/10 \\",
        r"50 \% & 2/3 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_csv():
    assert rendered(["name", "n"], [["a", "10/10"], ["240,120", "2/3"]], "csv") == 'name,n\na,10/10\n"240,120",2/3'


ODD = ["a|b", "a,b", 'a"b', "a&b", "a_b", "a%b", "a#b", "a$b", "a{b}", "a\\b", "a~b", "a^b", "composite_midpoint(4096)"]


@pytest.mark.parametrize("word", [*ODD, "a\nb"])
def test_csv_reads_back_as_it_was(word):
    text = rendered(["name", "n"], [[word, "2/3"]], "csv")
    assert list(csv.reader(io.StringIO(text))) == [["name", "n"], [word, "2/3"]]


@pytest.mark.parametrize("word", ODD)
def test_markdown_has_as_many_cells_whatever_the_words(word):
    lines = rendered(["name", "n"], [[word, "2/3"]], "markdown").splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}


@pytest.mark.parametrize("word", ODD)
def test_latex_has_no_character_left_that_means_something_else(word):
    (line,) = [line for line in rendered(["name", "n"], [[word, "2/3"]], "latex").splitlines() if "2/3" in line]
    cell = line.removesuffix(r" & 2/3 \\")
    escaped = re.sub(r"\\[&%$#_{}]|\\text[a-z]+(\{\})?|\\[\^~]\{\}", "", cell)
    assert not set(escaped) & set("&%$#_{}~^\\"), cell


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_every_row(form):
    text = rendered(HEADER, BODY, form)
    lines = [line for line in text.splitlines() if "/2" in line]
    assert len(lines) == len(BODY)
    for line, row in zip(lines, BODY, strict=True):
        assert all(cell.replace("_", r"\_" if form == "latex" else "_") in line for cell in row)
    assert not text.endswith("\n")


@pytest.mark.parametrize("form", ["html", "", "TEXT"])
def test_an_unknown_format_is_told_with_those_there_are(form):
    with pytest.raises(InputError) as caught:
        rendered(HEADER, BODY, form)
    assert str(caught.value) == f"`format` must be one of text, markdown, latex, csv, got {form!r}"
