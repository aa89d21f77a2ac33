"""The result file: errors of the disk have a message, and results of another schema are refused."""

import json
import os
import resource
import subprocess
import sys

import netCDF4
import numpy as np
import pytest
import xarray as xr
from helpers import read_study, rewritten

import evogt_study as evs
from evogt_study.errors import ResultError
from evogt_study.results.netcdf import RESULT_SCHEMA, SCHEMA_VERSION, write_result
from evogt_study.study.study import Study

# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["a limit", "a full disk"])
def small_disk(request, tmp_path):
    """A folder for which a process may not write five megabytes, and the reason."""
    folder, (soft, hard) = tmp_path / "disk", resource.getrlimit(resource.RLIMIT_FSIZE)
    folder.mkdir()
    if request.param == "a limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, hard))
        yield folder, "File too large, [0-9,]+ bytes"
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a disk")
    yield folder, "No space left on device, 0 bytes"
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_refuses_what_is_written_is_told(small_disk):
    folder, reason = small_disk
    values = np.random.default_rng(1).normal(size=(600, 1000))
    message = rf"^cannot write {folder}/r.nc: {reason} are free there. Free disk space, or choose another output file.$"
    with pytest.raises(ResultError, match=message):
        write_result(folder / "r.nc", {"main": xr.Dataset({"values": (("i", "j"), values)})})
    assert os.listdir(folder) == []


# --- the schema of results -------------------------------------------------------------------------------------------


@pytest.fixture
def of_schema(small_study, result_of, tmp_path):
    """Called with a version: a result as one of that form, with more in it than this package knows."""

    def make(version):
        def change(data):
            data.attrs |= {RESULT_SCHEMA: version, "of_tomorrow": json.dumps({"a": 1})}
            data["of_tomorrow"] = ("seed", np.array([0.5, 1.5, 2.5]), {"long_name": "more", "units": "1"})

        (tmp_path / "small.toml").write_text(small_study)
        return rewritten(result_of(Study.from_text(small_study), tmp_path / "r.nc"), change)

    return make


def test_a_result_of_a_later_minor_version_is_read(of_schema, evogt):
    path = of_schema("2.7")
    assert read_study(path).error.notnull().all()
    assert evogt("status", path)[0] == 0
    assert "3/3" in evogt("summary", path, "--over", "seed,dictionary")[1]  # seeds
    assert "6/6" in evogt("summary", path, "--over", "seed,dictionary", "--units", "seed,dictionary")[1]


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.1", "3.0", "next"])
def test_a_result_of_another_schema_is_refused_in_one_line(of_schema, evogt, version):
    path = of_schema(SCHEMA_VERSION)
    with netCDF4.Dataset(path, "a") as file:
        file.setncattr(RESULT_SCHEMA, version)
        file.renameVariable("run_status", "fate")  # in another form
    study = path.with_name("small.toml")
    for command in (["status", path], ["summary", path], ["verify", path], ["run", study, "-o", path]):
        code, _, err = evogt(*command)
        assert code == 2
        assert f"evogt: {path} is a result of schema '{version}', but this evogt-study reads 2.0 and later 2.x. " in err
        assert err.count("\n") == 1
    with pytest.raises(ResultError, match="Read the result with the version that wrote it"):
        evs.open(path)


def test_a_file_without_a_schema_is_no_result(of_schema):
    path = of_schema(SCHEMA_VERSION)
    with netCDF4.Dataset(path, "a") as file:
        file.delncattr(RESULT_SCHEMA)
    with pytest.raises(ResultError, match="r.nc is not a result of this package"):
        read_study(path)


OPENED = """
import random, sys
import evogt_study as evs
held, chance = [], random.Random(0)
for _ in range(200):
    what = chance.random()
    if what < 0.4 or not held:
        held.append(evs.open(sys.argv[1]))
    elif what < 0.7:
        held.pop(chance.randrange(len(held))).close()
    else:
        chance.choice(held).error.values
"""


@pytest.mark.long
def test_a_result_is_opened_several_times(small_study, result_of, tmp_path):
    """With a string of any length in it, which an attribute in Greek was too, HDF5 2 crashes."""
    path = result_of(Study.from_text(small_study), tmp_path / "small.nc")
    done = subprocess.run([sys.executable, "-c", OPENED, path], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


MIXED = """
    import numpy as np, xarray as xr
    def method(kind, seed):
        assert (kind, seed) != ("b", 2), "no luck"
        chance = np.random.default_rng(seed)
        count = int(chance.integers(1, 30))
        days = np.array(["2020-01-01", "2021-01-01T01", "NaT"], "M8[ns]")
        data = {"I": ("t", chance.integers(0, 9, count)), "u": (("y", "z"), chance.normal(size=(100, 200)))}
        data |= {"tag": ("w", ["a", "b", "c" * seed]), "days": ("w", days), "day": days[0], "n": seed, "s": "x" * seed}
        return xr.Dataset(data, {"t": np.cumsum(chance.exponential(size=count)), "w": ["p", "q", "r"]})
"""


@pytest.mark.parametrize("chunks", ["auto", {}], ids=str)
def test_a_result_of_any_type_is_opened_with_dask(own_study, tmp_path, chunks):
    path = tmp_path / "own.nc"
    data = evs.run(own_study(MIXED, '[axes]\nkind = ["a", "b"]\nseed = { count = 4 }\n'), output=path, workers=0)
    with evs.open(path, chunks=chunks) as opened:
        assert opened["u"].chunks is not None
        xr.testing.assert_identical(opened.load(), data)
    for engine in ("netcdf4", "h5netcdf") if chunks != "auto" else ():  # Dask cannot divide strings by itself
        with xr.open_dataset(path, engine=engine, chunks=chunks) as opened:
            assert opened.load()["tag"].values.tolist() == data["tag"].values.tolist()
