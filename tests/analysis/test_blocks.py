"""Statistics of results that are larger than memory: in blocks, whoever holds the values."""

import tracemalloc

import dask
import dask.array
import numpy as np
import pytest
import xarray as xr

from evogt_study.analysis import statistics as blocks
from evogt_study.analysis.comparison import compare
from evogt_study.analysis.statistics import IncompleteWarning, observed_orders, summary

MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def no_threads():
    """Dask's own pool would outlive these tests, and others look for threads that are left over."""
    with dask.config.set(scheduler="synchronous"):
        yield


def values(*shape, seed=0):
    array = np.random.default_rng(seed).lognormal(-7.0, 2.0, shape)
    coords = {"family": ["a", "b"], "dt": [0.1, 0.05, 0.025], "seed": range(shape[-1])}
    return xr.DataArray(array, coords, ["family", "dt", "seed"], name="error")


QUESTIONS = {
    "summary": lambda e: summary(e, statistics=["mean", "std", "median", "ci", "q25", "min"]),
    "over two": lambda e: summary(e, ["family", "seed"]),
    "compare": lambda e: compare(e, "family"),
    "orders": lambda e: observed_orders(e, "dt", "seed"),
    "orders of single values": lambda e: observed_orders(e, "dt"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_blocks_and_dask_change_nothing(question, monkeypatch):
    array = values(2, 3, 8)
    whole = QUESTIONS[question](array)
    for chunks in ({}, {"dt": 1}, {"family": 1, "dt": 2, "seed": 3}):
        found = QUESTIONS[question](array.chunk(chunks))
        xr.testing.assert_allclose(found, whole, rtol=1e-13)  # a product of other shape rounds so
        assert found.attrs == whole.attrs
        assert all(found[name].chunks is None for name in found.data_vars)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 100)
    xr.testing.assert_allclose(QUESTIONS[question](array), whole, rtol=1e-14)


def peak(call):
    """Bytes of the most that `call` holds at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_values_that_dask_holds_are_never_there_as_a_whole():
    """400 MB in chunks of 4 MB."""
    array = xr.DataArray(dask.array.ones((1000, 50_000), chunks=(10, 50_000)), dims=["point", "seed"], name="error")
    assert peak(lambda: summary(array, statistics=["mean", "std", "max"])) < 60 * MEGABYTE


@pytest.mark.long
def test_a_file_is_never_there_as_a_whole(tmp_path, monkeypatch):
    """96 MB of values, opened as a file is, without dask; in blocks of 2 MB."""
    path = tmp_path / "large.nc"
    array = xr.DataArray(np.ones((3000, 4000)), dims=["point", "seed"], name="error")
    array.to_netcdf(path, encoding={"error": {"zlib": True, "complevel": 1, "chunksizes": (50, 4000)}})
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2 * MEGABYTE)
    with xr.open_dataset(path) as data:
        assert peak(lambda: summary(data["error"], statistics=["mean", "std", "max"])) < 40 * MEGABYTE
        assert data["error"].variable._in_memory is False  # nor is it kept


@pytest.mark.parametrize("chunks", [None, {"dt": 1}])
def test_runs_that_are_not_planned_are_not_missed(chunks):
    array = values(2, 3, 4)
    planned = xr.ones_like(array, dtype=bool)
    planned[0, 0, 1:] = False
    array = array.where(planned, -1.0).chunk(chunks or {}) if chunks else array.where(planned, -1.0)
    found = summary(array, planned=planned)
    assert found["n_ok"].values.tolist() == found["n_planned"].values.tolist() == [[1, 4, 4], [4, 4, 4]]
    assert float(found["mean"][0, 0]) == float(array[0, 0, 0])
    array = array.copy(data=np.where(np.arange(24).reshape(2, 3, 4) == 23, np.nan, np.asarray(array)))
    with pytest.warns(IncompleteWarning, match="^1 of 21 runs have no `error`"):
        assert summary(array, planned=planned)["n_ok"].values.tolist() == [[1, 4, 4], [4, 4, 3]]
    history = xr.DataArray(np.ones((2, 3, 5)), dims=["p", "seed", "time"], name="h")  # a plan over fewer dimensions
    planned = xr.DataArray([[True, True, False], [True, True, True]], dims=["p", "seed"])
    assert summary(history, planned=planned)["n_planned"].values.tolist() == [[2] * 5, [3] * 5]
    both = summary(history, ["seed", "time"], planned=planned)
    assert both["n_planned"].values.tolist() == both["n_ok"].values.tolist() == [2, 3]  # runs, not values
