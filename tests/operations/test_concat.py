import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.errors import InputError
from evogt_study.results import netcdf
from evogt_study.results.finished import read_finished_runs

HEAT = """
    def method(seed, kappa, N=4, kind="smooth", offset=0):
        if seed == 1 and N == 8:
            raise ValueError("no luck")
        return {"error": kappa / N + seed, "rank": N, "history": ("step", [1.0 / N, 1.0 / N**2])}
"""
WAVES = """
    def method(seed, kappa, speed, N=4, offset=0):
        return {"error": speed * kappa / N + seed, "rank": 2 * N, "history": ("step", [1.0, 2.0, 3.0])}
"""
HEAT_STUDY = "[axes]\nN = [4, 8]\nseed = [0, 1]\n[constants]\nkappa = 2"
WAVES_STUDY = "[axes]\nseed = [0, 1, 2]\n[constants]\nkappa = 3\nspeed = 10\nN = 8"

METADATA = ("status", "message", "key", "attempts", "seconds")


@pytest.fixture
def files(own_study, result_of, tmp_path):
    heat = result_of(own_study(HEAT, HEAT_STUDY, "heat"), tmp_path / "heat.nc")
    return {"heat": heat, "waves": result_of(own_study(WAVES, WAVES_STUDY, "waves"), tmp_path / "waves.nc")}


def test_each_run_is_where_its_labels_say_and_what_differs_is_a_coordinate(files):
    joined = evs.concat(files, dim="problem")
    assert joined.error.dims == ("problem", "N", "seed")
    assert joined["seed"].values.tolist() == [0, 1, 2]
    assert joined["kappa"].dims == ("problem",)
    assert joined["kappa"].values.tolist() == [2.0, 3.0]
    np.testing.assert_array_equal(joined["speed"].values, [np.nan, 10.0])
    assert joined["kind"].values.tolist() == ["smooth", ""]
    assert (joined["offset"].dims, joined["offset"].item()) == ((), 0)
    planned = joined["run_key"].values != ""
    assert planned.sum(axis=(1, 2)).tolist() == [4, 3]
    assert (joined["run_status"].values[~planned] == "not_run").all()
    for label, path in files.items():
        with evs.open(path) as own:
            levels = own["N"].values.tolist()  # one, where it is a constant
            part = joined.sel(problem=label, seed=own["seed"].values, step=own["step"].values, N=levels)
            for name in ("error", "rank", "history", *(f"run_{each}" for each in METADATA)):
                np.testing.assert_array_equal(part[name].values, own[name].values)
    assert joined.evogt.failures()["run_message"].tolist() == ["ValueError: no luck"]
    mean = evs.summary(joined.error, over="seed", missing="drop")
    np.testing.assert_allclose(mean["mean"].values, [[1.0, 0.25], [np.nan, 30 / 8 + 1]])


def test_no_study_takes_its_runs_from_joined_results(files, own_study, tmp_path):
    evs.concat(files, output=tmp_path / "joined.nc")
    study = own_study(HEAT, HEAT_STUDY, "heat")
    tables = read_finished_runs(study, tmp_path / "other.nc").tables
    assert tables["main"].n_finished == 4  # of heat.nc, in the same folder
    files["heat"].unlink()
    assert read_finished_runs(study, tmp_path / "other.nc") is None


def test_large_results_are_joined_chunk_by_chunk(files, tmp_path, monkeypatch):
    wanted = evs.concat(files)
    monkeypatch.setattr(netcdf, "MAX_LOADED_BYTES", 0)
    xr.testing.assert_equal(evs.concat(files), wanted)
    xr.testing.assert_equal(evs.concat(files, output=tmp_path / "joined.nc"), wanted)


def test_open_results_are_joined_as_their_files_are(files, tmp_path):
    with evs.open(files["heat"]) as heat, evs.open(files["waves"]) as waves:
        joined = evs.concat({"heat": heat, "waves": waves}, output=tmp_path / "joined.nc")
        one = evs.concat({0.5: heat.sel(N=[4]), 1.5: heat.sel(N=[8])}, dim="level")
        both = evs.concat({"all": heat, "one": heat.sel(N=8, seed=0)})
        np.testing.assert_array_equal(both.error.sel(problem="all").values, heat.error.values)
        assert both.error.sel(problem="one", N=8, seed=0).item() == heat.error.sel(N=8, seed=0).item()
        assert (both["run_key"].sel(problem="one").values != "").sum() == 1
    with evs.open(tmp_path / "joined.nc") as written:
        np.testing.assert_array_equal(written.error.values, joined.error.values)
        np.testing.assert_array_equal(joined.error.values, evs.concat(files).error.values)
        assert written["rank"].encoding["dtype"] == np.int64
    assert one["level"].values.tolist() == [0.5, 1.5]
    assert np.isfinite(one.error.values).sum() == 3


@pytest.mark.parametrize(
    ("source", "axes", "message"),
    [
        ("def method(seed, gamma):\n    return {'error': gamma}", "[axes]\nseed = [0]\n[constants]\ngamma = 1",
         "`N` is an axis of 'heat', but is no parameter of 'other'. Select one value of `N` in 'heat'."),
        (HEAT.replace('"rank": N', '"rank": ("part", [N, N])'), "[axes]\nN = [4]\nseed = [0]\n[constants]\nkappa = 1",
         "`rank` cannot be joined: over (N, seed) in 'heat', over (N, seed, part) in 'other'"),
        (HEAT.replace('"rank": N', '"rank": str(N)'), "[axes]\nN = [4]\nseed = [0]\n[constants]\nkappa = 1",
         "`rank` cannot be joined: numbers in 'heat', strings in 'other'. Rename or drop"),
        (HEAT.replace("N=4", 'N="a"').replace("/ N", "").replace("**2", ""),
         '[axes]\nN = ["a", "b"]\nseed = [0]\n[constants]\nkappa = 1',
         "`N` cannot be joined: numbers in 'heat', strings in 'other'"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_is_named(files, own_study, result_of, tmp_path, source, axes, message):
    other = result_of(own_study(source, axes, "other"), tmp_path / "other.nc")
    with pytest.raises(InputError) as refused:
        evs.concat({"heat": files["heat"], "other": other})
    assert str(refused.value).startswith(message)
