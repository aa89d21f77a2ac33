"""The flat table: every run once, with its parameters, its status and its numbers."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evogt_study as evs
from evogt_study.analysis import export
from evogt_study.analysis.export import run_table, write_table
from evogt_study.errors import InputError

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
    assert [row["seed"] for row in rows] == ["0", "1"] * 4
    first, failed = rows[0], rows[5]
    assert [first[name] for name in COLUMNS[:7]] == ["a", "20", "0", "1.5", "1e-12", "ok", ""]
    assert (float(first["error"]), first["rank"], first["word"]) == (20 / 3, "20", "a")  # to the last bit
    assert (failed["run_status"], failed["run_message"]) == ("failed", 'AssertionError: bad, "luck"')
    assert (failed["error"], failed["rank"], failed["word"], failed["gamma"]) == ("", "", "", "3.0")
    table = run_table(data)
    np.testing.assert_array_equal(table["error"], data["error"].values.ravel())
    assert table["rank"].fillna(-1).tolist() == [20, 20, 40, 40, 20, -1, 40, -1]
    assert table["run_key"].tolist() == data["run_key"].values.ravel().tolist()
    read = pd.read_csv(tmp_path / "own.csv")
    np.testing.assert_allclose(read["error"], data["error"].values.ravel(), rtol=1e-15)  # older ones round otherwise


@pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is not installed (extra parquet)")
def test_parquet_keeps_types_and_values(data, tmp_path):
    write_table(data, tmp_path / "own.parquet")
    read = pd.read_parquet(tmp_path / "own.parquet")
    assert list(read.columns) == COLUMNS
    np.testing.assert_array_equal(read["error"], data["error"].values.ravel())
    assert read["rank"].dropna().tolist() == [20, 20, 40, 40, 20, 40]


def test_mistakes_are_reported(data, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "pyarrow" else object())
    with pytest.raises(
        InputError, match=r"^a Parquet file needs pyarrow\. Install it with `pip install pyarrow`, or write CSV$"
    ):
        write_table(data, tmp_path / "own.parquet")
    assert not (tmp_path / "own.parquet").exists()


def test_cases_that_are_not_planned_have_no_row():
    with evs.open(RESULT, pilot=True) as shipped:
        table, planned, size = run_table(shipped), int((shipped["run_key"] != "").sum()), shipped["error"].size
    assert len(table["error"]) == planned == 600 < size
    assert not np.isnan(table["error"]).any()


FORMULAS = """
def method(word, seed):
    if seed:
        raise ValueError("x")
    return {"value": -1.5, "note": {"a": "=1+1", "b": "-2.5e3", "c": "@SUM(A1)", "d": "plain"}[word]}
"""


def test_no_cell_of_csv_is_a_formula_or_acts(own_study, result_of, tmp_path):
    path = result_of(own_study(FORMULAS, "[axes]\nword = ['a', 'b', 'c', 'd']\nseed = [0, 1]\n"), tmp_path / "own.nc")
    with evs.open(path) as opened:
        data = opened.load()
    data["run_message"][0, 1] = "=cmd|' /C calc'!A0"
    data["run_message"][1, 1] = "\x1b[2J\u202egood\r\n=1"
    write_table(data, tmp_path / "own.csv")
    with (tmp_path / "own.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows if row["value"]] == ["-1.5"] * 4  # a number stays one
    assert (rows[1]["run_message"], rows[3]["run_message"]) == (
        "'=cmd|' /C calc'!A0", r"\x1b[2J\u202egood\r\n=1",
    )  # fmt: skip
    assert [row["note"] for row in rows if row["note"]] == ["'=1+1", "-2.5e3", "'@SUM(A1)", "plain"]
