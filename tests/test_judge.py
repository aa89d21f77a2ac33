"""The judge of the shipped results accepts equal values and finds one bit that differs."""

import shutil
import subprocess
import sys

import netCDF4
import numpy as np
import pytest
from judge import ROOT, find_differences

STORED = ROOT / "data" / "results" / "p1_fem_target.nc"  # three runs, which take a second


def copy_with_change(file, folder, change):
    """A copy of a result in a new folder, with one change."""
    folder.mkdir()
    copy = folder / file.name
    shutil.copy(file, copy)
    with netCDF4.Dataset(copy, "r+") as opened:
        change(opened)
    return copy


def flip(file):
    """Change the last bit of one value."""
    values = np.asarray(file["error"][:])
    values.view(np.int64)[1] ^= 1
    file["error"][:] = values


def put(name, values):
    return lambda file: file[name].__setitem__(slice(None), np.array(values))


CHANGES = {
    "nothing": (lambda file: None, 0),
    "one bit": (flip, 1),
    "wall times": (put("run_seconds", [7.0, 7.0, 7.0]), 0),
    "a date": (lambda file: file.setncattr("date_created", "1999-12-31"), 0),
    "a title": (lambda file: file.setncattr("title", "other"), 1),
    "units": (lambda file: file["error"].setncattr("units", "m"), 1),
    "a label": (lambda file: file["error"].setncattr("label", "e"), 1),
    "the type of an attribute": (lambda file: file["run_status"].setncattr("flag_values", np.arange(6)), 1),
    "a name": (lambda file: file.renameVariable("error", "run_error"), 2),
    "a status": (put("run_status", np.array([1, 2, 1], np.int8)), 1),
    "a message": (put("run_message", ["", "x", ""]), 1),
    "a coordinate": (put("epsilon", [1.0, 2.0, 3.0]), 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_which_changes_are_differences(tmp_path, name):
    change, count = CHANGES[name]
    found = list(find_differences(STORED, copy_with_change(STORED, tmp_path / "other", change)))
    assert len(found) == count, found


def test_the_sign_of_zero_differs_and_any_two_nan_are_equal(tmp_path):
    one, other = (
        copy_with_change(STORED, tmp_path / name, put("error", values))
        for name, values in (("a", [0.0, np.nan, 2.0]), ("b", [-0.0, -np.nan, 2.0]))
    )
    assert list(find_differences(one, other)) == [
        "main: error: 1 of 3 values differ, by at most 0.0e+00 of the largest"
    ]


@pytest.mark.long
def test_the_program_computes_and_compares(tmp_path):
    def judge(*options):
        command = [sys.executable, ROOT / "tests" / "judge.py", "--workers", "1", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    alone = copy_with_change(STORED, tmp_path / "alone", lambda file: None).parent
    first = judge("--baseline", alone, "--keep", tmp_path / "kept")
    assert first.returncode in (0, 1), first.stderr  # other versions of NumPy may give other last digits
    same = judge("--baseline", tmp_path / "kept")
    assert (same.returncode, same.stderr) == (0, "")
    assert same.stdout.splitlines()[-2:] == ["p1_fem_target: no differences", "all studies: no differences"]
    other = judge("--baseline", copy_with_change(tmp_path / "kept" / STORED.name, tmp_path / "flipped", flip).parent)
    assert other.returncode == 1
    assert "    main: error: 1 of 3 values differ, by at most " in other.stdout
    assert judge("--baseline", tmp_path / "none").returncode == 2
    assert judge("--keep", tmp_path / "kept").returncode == 2
