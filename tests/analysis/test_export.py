"""The flat table: every run once, with what it was asked, what became of it and what it found."""

import csv
import importlib.util
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.analysis import export
from evogt_study.analysis.export import run_table, write_table
from evogt_study.errors import InputError, ResultError

SOURCE = """
def method(family, N, gamma, seed, tau):
    assert seed != 1 or family != 'b', 'bad, "luck"'
    return {'error': N / 3 + seed, 'rank': N, 'word': family, 'curve': ('time', [1.0, 2.0])}
"""
REST = """
[axes]
family = ["a", "b"]
N = [20, 40]
seed = { count = 2 }
[constants]
tau = 1e-12
[[when]]
match = { family = "a" }
set = { gamma = 1.5 }
[[when]]
match = { family = "b" }
set = { gamma = 3 }
"""
RESULT = Path(__file__).parents[2] / "data" / "results" / "oscillatory_1d.nc"
COLUMNS = [
    "family", "N", "seed", "gamma", "tau", "run_status", "run_message", "error", "rank", "word", "run_attempts",
    "run_seconds", "run_key", "run_software",
]  # fmt: skip


@pytest.fixture
def data(own_study, result_of, tmp_path):
    with evs.open(result_of(own_study(SOURCE, REST), tmp_path / "own.nc")) as data:
        yield data


def test_one_row_a_run_with_everything_that_is_one_number_a_run(data, tmp_path):
    assert write_table(data, tmp_path / "own.csv") == 8
    with (tmp_path / "own.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS
    assert len(rows) == 8
    assert [row["seed"] for row in rows] == ["0", "1"] * 4
    first, failed = rows[0], rows[5]
    assert (first["family"], first["N"], first["gamma"], first["tau"]) == ("a", "20", "1.5", "1e-12")
    assert (first["run_status"], first["run_message"], first["rank"], first["word"]) == ("ok", "", "20", "a")
    assert float(first["error"]) == 20 / 3  # to the last bit
    assert (failed["run_status"], failed["run_message"]) == ("failed", 'AssertionError: bad, "luck"')
    assert (failed["error"], failed["rank"], failed["word"], failed["gamma"]) == ("", "", "", "3.0")


def test_the_values_are_those_of_the_result(data):
    table = run_table(data)
    np.testing.assert_array_equal(table["error"], data["error"].values.ravel())
    assert table["rank"].tolist() == [20, 20, 40, 40, 20, None, 40, None]
    assert table["run_key"].tolist() == data["run_key"].values.ravel().tolist()


def test_a_file_that_is_read_back_by_pandas_has_the_same_numbers(data, tmp_path):
    write_table(data, tmp_path / "own.csv")
    read = pd.read_csv(tmp_path / "own.csv")
    np.testing.assert_allclose(read["error"], data["error"].values.ravel(), rtol=1e-15)  # older ones round otherwise


@pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is not installed (extra parquet)")
def test_parquet_keeps_types_and_values(data, tmp_path):
    write_table(data, tmp_path / "own.parquet")
    read = pd.read_parquet(tmp_path / "own.parquet")
    assert list(read.columns) == COLUMNS
    np.testing.assert_array_equal(read["error"], data["error"].values.ravel())
    assert read["rank"].dropna().tolist() == [20, 20, 40, 40, 20, 40]


@pytest.mark.parametrize("lacking", [["pyarrow"], ["pandas", "pyarrow"]])
def test_what_parquet_needs_is_told_in_one_line(data, tmp_path, monkeypatch, lacking):
    monkeypatch.setattr(export, "find_spec", lambda name: None if name in lacking else object())
    with pytest.raises(InputError) as caught:
        write_table(data, tmp_path / "own.parquet")
    assert str(caught.value) == (
        f"a Parquet file needs {' and '.join(lacking)}: pip install {' '.join(lacking)}; or write CSV"
    )
    assert not (tmp_path / "own.parquet").exists()


def test_other_suffixes_and_places_are_refused(data, tmp_path):
    with pytest.raises(InputError, match=r"`--output` must end in \.csv or \.parquet, got 'own\.xlsx'"):
        write_table(data, tmp_path / "own.xlsx")
    with pytest.raises(ResultError, match=r"cannot write .*gone"):
        write_table(data, tmp_path / "gone" / "own.csv")


def test_cases_that_are_not_planned_have_no_row():
    shipped = evs.open(RESULT, pilot=True)
    with shipped:
        table = run_table(shipped)
        planned = int((shipped["run_key"] != "").sum())
    assert len(table["error"]) == planned == 600 < shipped["error"].size
    assert not any(math.isnan(value) for value in table["error"])


FORMULAS = """
def method(word, seed):
    if seed:
        raise ValueError("x")
    return {"value": -1.5, "note": {"a": "=1+1", "b": "-2.5e3", "c": "@SUM(A1)", "d": "plain"}[word]}
"""


def test_no_cell_of_csv_is_a_formula_or_acts(own_study, result_of, tmp_path, evogt):
    rest = """
        [axes]
        word = ["a", "b", "c", "d"]
        seed = { count = 2 }
    """
    path = result_of(own_study(FORMULAS, rest), tmp_path / "own.nc")
    with evs.open(path) as opened:
        data = opened.load()
    data["run_message"][0, 1] = "=cmd|' /C calc'!A0"
    data["run_message"][1, 1] = "\x1b[2J\u202egood\r\n=1"
    write_table(data, tmp_path / "own.csv")
    with (tmp_path / "own.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows if row["value"]] == ["-1.5"] * 4  # a number stays one
    assert rows[1]["run_message"] == "'=cmd|' /C calc'!A0"
    assert rows[3]["run_message"] == r"\x1b[2J\u202egood\r\n=1"
    assert [row["note"] for row in rows if row["note"]] == ["'=1+1", "-2.5e3", "'@SUM(A1)", "plain"]


def test_another_file_is_kept_and_the_same_table_may_be_written_again(own_study, result_of, tmp_path, evogt):
    path = result_of(own_study(FORMULAS, "[axes]\nword = ['a']\nseed = [0]\n"), tmp_path / "own.nc")
    for _ in range(2):
        assert evogt("export", path, "-o", tmp_path / "new.csv")[0] == 0
    for other in (tmp_path / "own.csv", tmp_path / "folder.csv"):
        other.mkdir() if "folder" in other.name else other.write_text("mine")
        code, _, err = evogt("export", path, "-o", other)
        assert (code, "`--output` must be a new file, got" in err) == (2, True)
    assert (tmp_path / "own.csv").read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir() if "csv" in each.name) == [
        "folder.csv",
        "new.csv",
        "own.csv",
    ]


@pytest.mark.parametrize("text", ["=x", "+x", "-x", "@x", "-", "=1", "\uff1dx", "\uff0b1+1"])
def test_what_begins_like_a_formula(text):
    assert export._safe(text) == f"'{text}"


@pytest.mark.parametrize("value", ["", "x", "a=b", "-1", "+1e-3", -1.5, None, 3])
def test_what_is_none(value):
    assert export._safe(value) == value


@given(st.text())
def test_no_text_acts_on_a_terminal_or_a_spreadsheet(text):
    made = export._safe(text)
    assert made.isprintable()
    assert made[:1] not in {*"=+-@"} or float(made) is not None
