"""Points of a study that are one run: it counts once, and enters each statistic once."""

import dask
import numpy as np
import pytest
import xarray as xr
from conftest import SMALL_NUMBERS, write_computed_result

import evogt_study as evs
from evogt_study.analysis.runs import count_status
from evogt_study.analysis.statistics import IncompleteWarning
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import Status

STUDY = f"""
name = "equal"
problem = {{ dimension = 1, exact = "exp(-t)*sin(pi*x)", diffusion = "1/10" }}
output = {{ times = 3, record = ["error_history"] }}
# to transnet N1 does not matter: 2 runs at 4 points
axes = {{ dictionary = ["transnet", "gtransnet"], N1 = [24, 48], seed = {{ count = 2 }} }}
[constants]
N = 12
{SMALL_NUMBERS}"""
BOTH = ("N1", "seed")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_computed_result(evs.Study.from_text(STUDY), tmp_path_factory.mktemp("equal") / "equal.nc")


@pytest.fixture
def data(path):
    with evs.open(path) as data:
        yield data


def counts(found, **at):
    return found["n_ok"].sel(at).values.tolist(), found["n_planned"].sel(at).values.tolist()


def test_a_sample_has_each_run_once(data, path):
    both, one = (evs.summary(data["error"], over, statistics=["mean", "std", "q25", "ci"]) for over in (BOTH, "seed"))
    assert counts(both) == ([2, 2], [2, 2])  # seeds
    assert counts(evs.summary(data["error"], BOTH, units=BOTH)) == ([2, 4], [2, 4])
    assert counts(one) == ([[2, 2], [2, 2]], [[2, 2], [2, 2]])
    for name in ("mean", "std", "q25", "ci"):  # to the last bit equal to one of the equal columns
        np.testing.assert_array_equal(
            both[name].sel(dictionary="transnet"), one[name].sel(dictionary="transnet", N1=24)
        )
    assert data.evogt.share("error > 0", BOTH).n_ok.values.tolist() == [2, 4]
    plain = evs.summary(data["error"].drop_vars("run_key").sel(dictionary="gtransnet"), BOTH)
    xr.testing.assert_equal(plain["ci"], evs.summary(data["error"], BOTH)["ci"].sel(dictionary="gtransnet"))
    with xr.open_dataset(path) as alone:
        assert counts(evs.summary(alone["error"], BOTH, planned=alone["run_key"])) == ([2, 2], [2, 2])
        every = evs.summary(alone["error"], BOTH, units=BOTH, planned=alone["run_key"] != "")
        assert counts(every) == ([4, 4], [4, 4])


@pytest.mark.parametrize("form", ["loaded", "chunked", "saved"])
def test_runs_count_once_for_loaded_chunked_and_saved_results(path, form, tmp_path):
    with evs.open(path, chunks={} if form == "chunked" else None) as data, dask.config.set(scheduler="sync"):
        opened = data.load() if form == "loaded" else data
        if form == "saved":
            data.to_netcdf(tmp_path / "again.nc")
            opened = evs.open(tmp_path / "again.nc")
            assert list(opened.evogt.to_dataframe()) == list(data.evogt.to_dataframe())
        assert counts(opened.evogt.summary(over=BOTH)) == ([2, 2], [2, 2])
        history = evs.summary(opened["error_history"], (*BOTH, "time"), statistics=["mean"])
        assert counts(history) == ([2, 2], [2, 2])  # runs, not times
        transnet = opened["error_history"].sel(dictionary="transnet")
        np.testing.assert_allclose(history["mean"].sel(dictionary="transnet"), transnet.mean(), rtol=1e-12)
        assert counts(evs.summary(opened["error_history"], BOTH), time=0.1) == ([2, 2], [2, 2])
        opened.close()


def test_a_run_that_failed_is_missing_once_and_a_run_meets_each_run_of_the_other(data):
    apart = evs.compare(data["error"], "dictionary", BOTH)
    assert (counts(apart), int(apart["n_common"])) == (
        ([2, 2], [2, 2]),
        2,
    )  # seeds: at each a run meets two of the other
    assert int(evs.compare(data["error"], "dictionary", BOTH, units=BOTH)["n_common"]) == 4
    data = data.load()
    data["error"].loc[{"dictionary": "transnet", "seed": 1}] = np.nan  # at both N1, as a result has it
    with pytest.warns(IncompleteWarning, match="1 of 6 runs have no `error`"):
        assert counts(evs.summary(data["error"])) == ([[1, 1], [2, 2]], [[2, 2], [2, 2]])
    found = evs.compare(data["error"], "dictionary", BOTH)
    assert (counts(found), found["failed"].values.tolist()) == (([1, 2], [2, 2]), [0.5, 0.0])


def test_the_status_of_runs_counts_them_once(tmp_path, result_of):
    data = read_result(result_of(evs.Study.from_text(STUDY), tmp_path / "own.nc"))["main"]
    data["run_status"].loc[{"dictionary": "transnet", "seed": 1}] = Status.failed
    data["run_message"].loc[{"dictionary": "transnet", "seed": 1}] = "no luck"
    made = count_status(data)
    assert made.describe() == "8 points, 6 runs, 5 ok, 1 failed"
    assert [(each.text, each.count) for each in made.messages] == [("no luck", 1)]
    assert {each.axis: list(each.values) for each in made.lacking} == {
        "dictionary": [("transnet", 1, 2)], "seed": [("1", 1, 3)],
    }  # fmt: skip
