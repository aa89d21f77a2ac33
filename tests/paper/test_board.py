"""The board of published problems: its table from results, its references, and its methods on small sizes."""

import importlib
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from evogt_study.errors import InputError
from evogt_study.paper.board import OWN, check_board, format_board, list_levels, read_board, summarise_board

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "studies/board"
PUBLISHED = ROOT / "data/published"


@pytest.fixture(scope="module")
def solvers():
    """The module of the board's methods, which imports its neighbour `problems`."""
    sys.path.insert(0, str(BOARD))
    try:
        yield importlib.import_module("solvers")
    finally:
        sys.path.remove(str(BOARD))
        for name in ("solvers", "problems"):
            sys.modules.pop(name, None)


def make_result(errors, seconds):
    """A result of the board with two levels and one seed, by method."""
    names = list(errors)
    dims = ("method", "level", "seed")
    data = {
        "error": (dims, np.array([errors[name] for name in names])[..., None]),
        "seconds": (dims, np.array([seconds[name] for name in names])[..., None]),
    }
    data["error_joint"] = data["error"]
    data["unknowns"] = (dims, np.full((len(names), 2, 1), 10.0))
    data["reference_error"] = (dims, np.full((len(names), 2, 1), 1e-9))
    return xr.Dataset(data, {"method": names, "level": [0, 1], "seed": [0]})


def test_the_table_compares_at_equal_seconds_and_at_equal_error():
    errors = {OWN: [1e-2, 1e-4], "fast": [1e-3, 1e-5], "slow": [1e-2, 1e-9], "coarse": [1.0, 0.5]}
    seconds = {OWN: [1.0, 4.0], "fast": [0.5, 2.0], "slow": [1.0, 8.0], "coarse": [0.1, 0.2]}
    (row,) = read_board(check_board(PUBLISHED), {"burgers": make_result(errors, seconds)})
    table = row.compare_methods()
    assert table.index.tolist() == list(errors)
    assert table["least_error"].tolist() == [1e-4, 1e-5, 1e-2, 0.5]  # the error of 1e-9 takes more seconds
    np.testing.assert_equal(table["least_seconds"].tolist(), [4.0, 2.0, 8.0, np.nan])
    ((problem, value, error, _, spent, best, factor, fastest, reference),) = summarise_board([row])
    assert (problem, value) == ("Burgers, nu = 0.01/pi", "1.45e-2 (PINN)")
    assert (error, spent, reference) == ("1.0e-4", "4", "1.0e-9")
    assert (best, factor, fastest) == ("fast: 1.0e-5", "10", "fast: 2")


def test_a_row_without_a_published_number_says_so():
    rows = read_board(
        check_board(PUBLISHED),
        {"brusselator": make_result({OWN: [1.0, 0.1], "p2": [2.0, 1.0]}, {OWN: [1.0, 2.0], "p2": [3.0, 4.0]})},
    )
    text = format_board(rows)
    assert "no number published" in text
    assert "Hairer and Wanner" in text
    assert list_levels(rows).count("\n") == 5


def test_a_level_without_ok_runs_is_left_out():
    data = make_result({OWN: [1e-2, np.nan]}, {OWN: [1.0, np.nan]})
    (row,) = read_board(check_board(PUBLISHED), {"burgers": data})
    assert row.levels["error"].tolist() == [1e-2]


def test_a_result_of_another_study_is_refused():
    data = make_result({"p1_fem": [1.0, 0.1]}, {"p1_fem": [1.0, 2.0]})
    with pytest.raises(InputError, match="burgers must have the method gtransnet"):
        read_board(check_board(PUBLISHED), {"burgers": data})
    with pytest.raises(InputError, match="burgers must have error"):
        read_board(check_board(PUBLISHED), {"burgers": data.drop_vars("error")})


def test_each_study_has_a_published_row_and_three_methods():
    rows = {row["study"]: row for row in check_board(PUBLISHED)}
    studies = {path.stem: tomllib.loads(path.read_text()) for path in BOARD.glob("*.toml")}
    assert sorted(rows) == sorted(studies)
    assert all(len(study["axes"]["method"]) >= 4 for study in studies.values())
    for row in rows.values():
        assert row["source"]
        assert not row["published"] or float(row["published"]) > 0


@pytest.mark.parametrize(
    ("name", "largest", "given"),
    [
        ("random_features", 5e-2, {"dictionary": "gtransnet", "sizes": [100], "steps": [60], "seed": 0, "gamma": [60]}),
        ("fixed_features", 1e-1, {"dictionary": "sine", "sizes": [100], "steps": [60]}),
        ("elements", 1e-2, {"sizes": [120], "steps": [40]}),
        ("fourier_code", 1e-2, {"sizes": [256], "steps": [250]}),
    ],
)
def test_methods_solve_burgers_equation(solvers, name, largest, given):
    found = getattr(solvers, name)(row="burgers", level=0, **given)
    assert found["error"] < largest
    assert found["seconds"] > 0
    assert found["reference_error"] < 1e-12


@pytest.mark.long
def test_the_collocation_code_and_the_elements_solve_the_brusselator(solvers):
    exact = solvers.chebyshev_code(row="brusselator", sizes=[24], steps=[8], level=0)
    assert exact["error"] < 1e-7
    assert exact["unknowns"] == 46
    assert solvers.elements(row="brusselator", sizes=[20], steps=[50], level=0)["error"] < 1e-3


@pytest.mark.slow
def test_the_whole_board_runs(evogt, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, _ = evogt("reproduce", "--board", "-o", tmp_path, "--quiet")
    assert code == 0
    assert "not ok" in out
    assert "Kuramoto" in (tmp_path / "board.md").read_text()
