"""The report: every number in every form, and differences first."""

import csv
import io
import math
import re
from pathlib import Path

import numpy as np
import pytest

from evogt_study.paper.published import Entry, Measure, judge_value
from evogt_study.paper.report import (
    COMMAND,
    TITLE,
    draw_figures,
    format_computed,
    summarise,
    to_csv,
    to_markdown,
    to_terminal,
)
from evogt_study.results.netcdf import read_result

DATA = Path(__file__).parents[2] / "data" / "results"

PROVENANCE = {"date": "2026-11-21", "git revision": "7fd380e", "machine": "<two> cores"}
MISPRINT = "Most likely a misprint, by a factor of ten."


def entry(labels, published, computed, file="main", table="main1d", measure=Measure.digits, known="", n_ok=20):
    words = dict(pair.split("=") for pair in labels.split())
    return Entry(
        file, table, words, published, computed, measure, judge_value(published, computed, measure), n_ok, 20, known
    )


GOOD = entry("epsilon=0.2 dictionary=transnet variable=error statistic=mean", "4.50e-2", 0.0449683)
MEDIAN = entry("epsilon=0.2 dictionary=transnet variable=error statistic=median", "3.17e-2", 0.0317)
STD = entry("epsilon=0.2 dictionary=gtransnet variable=error statistic=mean", "5.43e-2", 0.05437, n_ok=19)
OTHER = entry("epsilon=0.1 dictionary=gtransnet variable=error statistic=mean", "3.60e-4", 3.601e-4)
GAIN = entry("epsilon=0.1 dictionary=transnet/gtransnet variable=error statistic=gain", "125.0", 125.02)
NOISE = entry("dictionary=transnet variable=mass_defect", "1.83e-10", 3e-10, "noise", "diagnostics", Measure.order)
WORD = entry("dictionary=transnet variable=raw_condition", "singular", "singular", "noise", "diagnostics")
COUNT = entry("dictionary=transnet variable=raw_unresolved", "20", 20.0, "noise", "diagnostics")
BOUND = entry("variable=condition", "500", 431.2, "limit", "text", Measure.bound)
KNOWN = entry("k=8 method=regression", "2.34e-1", 2.3401, "modes", "global_diagnostic", known=MISPRINT)
WRONG = entry("k=12 method=regression", "3.30e1", 41.0, "modes", "global_diagnostic")
NOTHING = entry("k=16 method=regression", "5.54e2", math.nan, "modes", "global_diagnostic", n_ok=0)
ENTRIES = [GOOD, STD, OTHER, GAIN, MEDIAN, NOISE, WORD, COUNT, BOUND, KNOWN, WRONG, NOTHING]


@pytest.mark.parametrize(
    ("published", "computed", "expected"),
    [
        ("4.50e-2", 0.0449683, "4.49683e-2"), ("4.50e-2", 2.3, "2.30000e0"),
        ("-1.92e-5", -1.918954e-5, "-1.91895e-5"), ("9.13e-14", 9.13366e-14, "9.13366e-14"),
        ("4.636e-5", 4.6364851e-5, "4.636485e-5"), ("1e15", 1.18182e15, "1.182e15"),
        ("99.8", 99.765432, "99.7654"), ("125.0", 124.99999, "125.0000"), ("2.000", 2.00029123, "2.000291"),
        ("150", 150.0, "150"), ("150", 149.6, "149.600"), ("20", 20, "20"), ("0", 0.0, "0"),
        ("1.16", 0.0, "0.00000"), ("1.16", 1.6e-12, "1.60000e-12"), ("1.16", -3.25e9, "-3.25000e9"),
        ("singular", "singular", "singular"), ("1e15", "singular", "singular"),
        ("singular", 1.23456e15, "1.235e+15"), ("1.16", math.nan, "nan"), ("1.16", -math.inf, "-inf"),
    ],
)  # fmt: skip
def test_computed_values_have_three_more_digits_than_printed(published, computed, expected):
    assert format_computed(published, computed) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], "no published numbers"),
        ([GOOD], "1 published number: 1 agrees in all printed digits, none differs"),
        ([GOOD, GAIN, STD, NOISE, KNOWN], "5 published numbers: 2 agree in all printed digits, "
         "1 within one unit of the last digit, 1 in order of magnitude, 1 differs (known)"),
        ([WRONG], "1 published number: 0 agree in all printed digits, 1 differs (unexplained)"),
        ([KNOWN, KNOWN], "2 published numbers: 0 agree in all printed digits, 2 differ (known)"),
        ([GOOD, WRONG, KNOWN, NOTHING],
         "4 published numbers: 1 agrees in all printed digits, 3 differ (1 known, 2 unexplained)"),
    ],
)  # fmt: skip
def test_the_summary_counts_verdicts(entries, expected):
    assert summarise(entries) == expected


def test_the_terminal_shows_totals_and_differences_first():
    totals, rest, note, summary = to_terminal(ENTRIES).split("\n\n")
    assert len(totals.splitlines()) == 2 + 4
    columns = [re.split(r"\s{2,}", line) for line in rest.splitlines()]
    assert columns[0] == ["table", "number", "published", "computed", "rel. diff.", "verdict", "runs"]
    assert columns[2:] == [
        ["global_diagnostic", "k=12, regression", "3.30e1", "4.10000e1", "+2.4e-1", "differs", "20/20"],
        ["global_diagnostic", "k=16, regression", "5.54e2", "nan", "—", "differs", "0/20"],
        ["global_diagnostic", "k=8, regression", "2.34e-1", "2.34010e0", "+9.0e0", "differs (known) [1]", "20/20"],
        ["main1d", "epsilon=0.2, gtransnet, error, mean", "5.43e-2", "5.43700e-2", "+1.3e-3",
         "within one unit of the last digit", "19/20"],
        ["diagnostics", "transnet, mass_defect", "1.83e-10", "3.00000e-10", "+6.4e-1", "same order of magnitude",
         "20/20"],
    ]  # fmt: skip
    assert note == f"[1] {MISPRINT}"
    assert summary == summarise(ENTRIES)


def test_markdown_has_a_row_for_each_number():
    text = to_markdown(ENTRIES, PROVENANCE)
    assert text.startswith(f"# {TITLE}\n\n{summarise(ENTRIES)}.\n\n")
    assert f"1. {MISPRINT}" in text
    section = text.split("## main: main1d")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    assert rows[0][:6] == ["epsilon", "dictionary", "variable", "statistic", "published", "computed"]
    numbers = ["0.2", "transnet", "error", "mean", "4.50e-2", "4.49683e-2", "-7.0e-4"]
    assert rows[2] == [*numbers, "agrees in all printed digits", "20/20"]
    assert sum(bool(re.search(r"/20 +\|$", line)) for line in text.splitlines()) == len(ENTRIES)
    assert "- git revision: 7fd380e" in text
    assert f"`{COMMAND}`" in text
    assert text.endswith("\n")


def test_csv_reads_back_in_full_precision():
    rows = list(csv.DictReader(io.StringIO(to_csv(ENTRIES))))
    assert len(rows) == len(ENTRIES)
    labels = "epsilon=0.2; dictionary=transnet; variable=error; statistic=mean"
    assert list(rows[0].values()) == [
        "main", "main1d", labels, "4.50e-2", "0.0449683", repr(GOOD.relative_difference), "digits",
        "agrees in all printed digits", "", "20", "20",
    ]  # fmt: skip
    for row, original in zip(rows, ENTRIES, strict=True):
        if isinstance(original.computed, str):
            assert row["computed"] == original.computed
        else:
            assert float(row["computed"]) == pytest.approx(original.computed, rel=0, abs=0, nan_ok=True)
    assert rows[9]["known"] == MISPRINT
    assert (rows[-1]["computed"], rows[-1]["relative_difference"]) == ("nan", "nan")


def test_the_figures_of_the_paper_show_one_field_and_two_energies():
    names = ("nonseparable_2d_field", "allen_cahn_2d", "allen_cahn_reference")
    results = {name: read_result(DATA / f"{name}.nc")["main"] for name in names}
    fields, energy = draw_figures(results)
    assert [axes.get_title() for axes in fields.figure.axes] == ["exact", "numerical", "absolute error"]
    (axes,) = energy.figure.axes
    assert [text.get_text() for text in energy.figure.legends[0].get_texts()] == ["finite differences", "GTransNet"]
    for line in axes.get_lines():
        share = line.get_ydata()
        assert share[0] == 1.0
        assert (np.diff(share) < 0.0).all()
    assert axes.get_ylabel() == "$E_q(t) / E_q(0)$"
    assert draw_figures({"allen_cahn_2d": results["allen_cahn_2d"]}) == []
