"""Results opened by other programs, and judged by the IOOS compliance checker.

Programs that are not installed are skipped with the name of what to install.  The checker comes
with the extra `test`.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import netCDF4
import pytest
import xarray as xr

from evogt_study.study.study import Study

OWN = """
def method(family, gamma, epsilon, seed):
    assert seed != 1 or family != 'beta', 'no luck'
    return {'error': gamma * epsilon + seed, 'rank': 7, 'word': family}
"""
RAGGED = """
import numpy as np, xarray as xr
def method(seed):
    data = {'I': ('event', np.arange(5 + seed), {'units': '1'})}
    return xr.Dataset(data, {'t': ('event', np.arange(5 + seed) / 2, {'units': 'd'})})
"""
REST = """
[axes]
family = ["alpha", "beta"]
epsilon = [0.2, 0.1]
seed = { count = 2 }
[[when]]
match = { family = "alpha" }
set = { gamma = 1 }
[[when]]
match = { family = "beta" }
set = { gamma = 2.5 }
"""

"""The checker takes every dimension called time for that of a calendar, whose units CF wants with a date ("since ...").
Ours is a number from 0 to final_time; CF itself does not go by names (section 4.4: by units, or what claims to be)."""
NO_STANDARD_NAME = "standard_name"
"""ACDD recommends a standard_name, and CF's table has none for an error or a rank; one of our own would be an error."""


@pytest.fixture
def scalar_result(own_study, result_of, tmp_path):
    """Words, gaps, a follower, failed runs."""
    return result_of(own_study(OWN, REST), tmp_path / "own.nc")


@pytest.fixture
def full_result(small_study, result_of, tmp_path):
    """Histories, coefficients and fields."""
    return result_of(Study.from_text(small_study, "small.toml"), tmp_path / "small.nc")


def program(name, package):
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed ({package})")
    return found


def judged(path, standard):
    """What the checker finds wrong: messages by priority, and whether it could not check something."""
    checker = program("compliance-checker", "pip install compliance-checker")
    report = path.with_suffix(f".{standard.split(':')[0]}.json")
    ran = subprocess.run(
        [checker, "-t", standard, "-f", "json", "-o", str(report), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), ran.stderr
    (found,) = json.loads(report.read_text()).values()
    report_text = {
        level: [message for result in found[f"{level}_priorities"] for message in result["msgs"]]
        for level in ("high", "medium", "low")
    }
    return report_text, ran.stdout + ran.stderr


@pytest.fixture
def renamed_result(full_result, tmp_path):
    """A copy with another name of time, as data/README.md makes it."""
    with xr.open_dataset(full_result) as opened:
        data = opened.rename(time="t")
        for coordinate in data.coords.values():
            coordinate.encoding["_FillValue"] = None
        data.to_netcdf(tmp_path / "copy.nc")
    return tmp_path / "copy.nc"


@pytest.fixture
def ragged_result(own_study, result_of, tmp_path):
    """Trajectories of different lengths."""
    return result_of(own_study(RAGGED, "[axes]\nseed = { count = 3 }\n"), tmp_path / "ragged.nc")


@pytest.mark.slow
@pytest.mark.parametrize("result", ["scalar_result", "renamed_result", "ragged_result"])
def test_the_cf_checker_finds_no_error(result, request):
    report_text, printed = judged(request.getfixturevalue(result), "cf:1.11")
    assert report_text["high"] == report_text["medium"] == []
    assert "exceptions occurred" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("result", ["scalar_result", "full_result"])
def test_the_acdd_checker_misses_standard_names_only(result, request):
    report_text, _ = judged(request.getfixturevalue(result), "acdd:1.3")
    assert set(report_text["high"]) <= {NO_STANDARD_NAME}


# --- what the checker looks at, without it ----------------------------------------------------------------------------


def test_coordinates_are_named_by_the_variables_that_they_belong_to(scalar_result):
    with netCDF4.Dataset(scalar_result) as file:
        assert file["error"].coordinates.split() == ["gamma"]
        assert "coordinates" not in file.ncattrs()


def test_words_along_a_dimension_are_characters(scalar_result):
    """CF: a coordinate variable, of one dimension and its name, is numeric; xarray reads the words back as words."""
    with netCDF4.Dataset(scalar_result) as file:
        assert file["family"].dimensions == ("family", "string5")
        for variable in file.variables.values():
            if variable.dimensions == (variable.name,):
                assert variable.dtype.kind in "if"
    for engine in ("netcdf4", "h5netcdf"):
        with xr.open_dataset(scalar_result, engine=engine) as data:
            assert data["family"].dims == ("family",)
            assert data["error"].sel(family="beta", epsilon=0.1).values[0] == 0.25


# --- other programs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "package", "arguments", "fragments"),
    [
        ("ncdump", "apt install netcdf-bin", ["-h"], ["double error(dictionary, k, seed)", ':units = "1"']),
        ("ncks", "apt install nco", ["-m"], ["error"]),
        ("cdo", "apt install cdo", ["-s", "showname"], ["error"]),
    ],
)
def test_command_line_tools_read_it(full_result, name, package, arguments, fragments):
    ran = subprocess.run(
        [program(name, package), *arguments, str(full_result)], capture_output=True, text=True, check=True
    )
    for fragment in fragments:
        assert fragment in ran.stdout
