"""A result opened by `evs.open`: values are read on access, and `ds.evogt` calls the functions of the package."""

import re
import subprocess
import sys

import dask
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from xarray.backends.file_manager import FILE_CACHE

import evogt_study as evs
from evogt_study.analysis.statistics import IncompleteWarning
from evogt_study.errors import ResultError

SOURCE = """
def method(family, dt, seed, tau):
    assert seed != 2 or family != 'b', 'no luck'
    return {'error': dt**2 * (1 + seed) * (1 + (family == 'b')) if seed != 3 else float('nan'), 'rank': 7 + seed}
"""
REST = """
[constants]
tau = 1e-12
[axes]
family = ["a", "b"]
dt = [0.2, 0.1]
seed = { count = 4 }
"""
PILOT = """
[pilot]
parameter = "dt"
seeds = { start = 100, count = 2 }
minimise = "error"
by = ["family"]
candidates = { a = [0.1, 0.2, 0.3], b = [0.1, 0.2] }
"""


@pytest.fixture(autouse=True)
def no_threads():
    """Dask's own pool would outlive these tests, and others look for threads that are left over."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def path(own_study, result_of, tmp_path):
    return result_of(own_study(SOURCE, REST), tmp_path / "own.nc")


@pytest.fixture
def data(path):
    with evs.open(path) as data:
        yield data


def test_the_status_is_a_string(data):
    assert data["run_status"].sel(family="b", dt=0.1).values.tolist() == ["ok", "ok", "failed", "diverged"]
    assert "flag_meanings" not in data["run_status"].attrs


def test_values_are_read_on_access(data, path):
    assert not data["error"].variable._in_memory
    with evs.open(path, chunks={}) as chunked:
        assert chunked["error"].chunks == ((2,), (2,), (4,))
        xr.testing.assert_equal(chunked["error"].compute(), data["error"])


@pytest.mark.parametrize("chunks", [None, {}])
def test_a_result_is_closed_at_the_end_of_its_block(path, chunks):
    """Else it is when the object is collected, in whatever thread, and HDF5 is not thread-safe."""
    before = set(FILE_CACHE)
    with evs.open(path, chunks=chunks) as data:
        data["error"].compute()
        assert len(set(FILE_CACHE) - before) == 1
    assert set(FILE_CACHE) <= before


def test_the_pilot_is_opened_by_an_argument(own_study, result_of, tmp_path):
    rest = REST.replace("dt = [0.2, 0.1]\n", "") + PILOT
    path = result_of(own_study(SOURCE, rest, "piloted"), tmp_path / "piloted.nc")
    with evs.open(path, pilot=True) as pilot, evs.open(path) as study:
        assert pilot["error"].dims == ("family", "candidate", "seed")
        assert pilot.attrs["phase"] == "pilot"
        assert study["error"].dims == ("family", "seed")
        found = pilot.evogt.summary()
        assert found["n_planned"].values.tolist() == [[2, 2, 2], [2, 2, 0]]  # b has two candidates
        assert len(pilot.evogt.to_dataframe()) == 10


def test_another_netcdf_file_is_not_opened(tmp_path):
    xr.Dataset({"error": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(ResultError, match=r"other\.nc is not a result of this package"):
        evs.open(tmp_path / "other.nc")


def test_each_method_is_the_function_with_the_variables_of_the_result(data):
    planned = data["run_key"] != ""
    with pytest.warns(IncompleteWarning, match="6 of 16 runs"):
        found = data.evogt.summary(statistics=["mean", "q25"])
    xr.testing.assert_identical(
        found, evs.summary(data["error"], statistics=["mean", "q25"], planned=planned, missing="drop")
    )
    quiet = {"missing": "drop"}
    xr.testing.assert_identical(
        data.evogt.compare("family", better="lower"),
        evs.compare(data["error"], "family", better="lower", planned=planned),
    )
    assert data.evogt.design.axes == ("family", "dt")
    assert data.evogt.design.note(streams=False) == "6 of 16 runs have no value"
    shares = data.evogt.share("error < 0.03")
    assert shares["failed"].values.tolist() == [[1, 1], [2, 2]]
    orders = data.evogt.orders("dt", **quiet)
    xr.testing.assert_identical(orders, evs.observed_orders(data["error"], "dt", "seed", **quiet))
    np.testing.assert_allclose(orders["slope"], 2.0)
    assert float(data.evogt.summary("rank", **quiet)["mean"].max()) == 8.0


def test_statistics_outlive_the_file(path):
    with evs.open(path) as data, evs.open(path, chunks={}) as chunked:
        found = [each.evogt.summary(missing="drop") for each in (data, chunked)]
        found += [each.evogt.orders("dt", missing="drop") for each in (data, chunked)]
    for answer in found:
        assert all(variable.chunks is None for variable in answer.variables.values())
        assert "n_planned" in answer.to_dataframe()


def test_failures_are_a_row_each(data):
    failures = data.evogt.failures()
    columns = ["family", "dt", "seed", "run_status", "run_message", "run_attempts", "run_seconds"]
    assert list(failures.columns) == columns
    assert failures["run_status"].value_counts().to_dict() == {"diverged": 4, "failed": 2}
    assert failures.query("run_status == 'failed'")["run_message"].unique().tolist() == ["AssertionError: no luck"]
    assert (failures["family"] == "b").sum() == 4


def test_runs_are_a_data_frame(data):
    runs = data.evogt.to_dataframe()
    assert len(runs) == 16
    assert runs["rank"].dtype == pd.Int64Dtype()  # whole numbers with gaps
    assert runs.query("run_status == 'ok'")["error"].notna().all()
    assert runs.query("family == 'b' and seed == 1 and dt == 0.1")["error"].item() == pytest.approx(0.04)


def test_the_display_in_jupyter_is_short_and_folds_attributes(data):
    html = data._repr_html_()
    assert len(html) < 80_000
    assert "run_status" in html
    assert "content_digests" not in data.attrs  # of the file, not of what is made of it
    checked = re.findall(r"<input id='section-[^']*' class='xr-section-summary-in' type='checkbox' +(checked)? *", html)
    assert checked[-1] == ""  # attributes are folded
    assert len(repr(data).splitlines()) < 60
    assert "summary, compare, performance, share, orders, sensitivity, variance_shares, plot" in repr(data.evogt)


@pytest.mark.long
@pytest.mark.parametrize("name", ["open", "run", "pde.solve", "summary", "merge"])
def test_the_accessor_comes_with_every_name_that_gives_a_dataset(name):
    code = f"import evogt_study as evs\nevs.{name}\nimport xarray as xr\nprint(xr.Dataset().evogt)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("ds.evogt: ")


def test_all_of_a_lazy_result_can_be_transposed(path):
    with evs.open(path) as data:
        turned = data.transpose(*reversed(list(data.error.dims)), ...)
        np.testing.assert_array_equal(turned.run_message.values, data.run_message.values.T)
        np.testing.assert_array_equal(turned.error.values, data.error.values.T)


def test_a_picture_of_an_opened_result(data):
    axes = data.evogt.plot("dependence", x="dt", hue="family").axes[0]
    assert axes.get_xlabel()
    assert len(axes.get_lines()) >= 2
