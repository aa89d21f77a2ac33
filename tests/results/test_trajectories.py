"""Runs with trajectories of different lengths: the coordinate of the user, counts, common grids and the ragged form."""

import numpy as np
import pytest

import evogt_study as evs
from evogt_study.errors import InputError

SOURCE = """
    import numpy as np, xarray as xr
    def method(rate, seed):
        chance = np.random.default_rng(seed)
        count = int(chance.integers(1, 60))
        infected = np.cumsum(chance.choice([-1, 1], count)).astype(np.int32)
        times = np.cumsum(chance.exponential(1 / rate, count))
        assert seed != 3, "no luck"
        return xr.Dataset({"I": (DIM, infected, {"units": "1"})}, {"t": (DIM, times, {"units": "d"})})
"""
AXES = "[axes]\nrate = [1.0, 2.0]\nseed = { count = 8 }\n"
TIMES = np.linspace(0.0, 40.0, 81)


def run_of(rate, seed):
    chance = np.random.default_rng(seed)
    count = int(chance.integers(1, 60))
    infected = np.cumsum(chance.choice([-1, 1], count)).astype(np.int32)
    return infected, np.cumsum(chance.exponential(1 / rate, count))


@pytest.fixture(params=["event", "t"])
def result(request, own_study, result_of, tmp_path):
    """The dimension of the trajectories in a result, and its path."""
    study = own_study(SOURCE.replace("DIM", repr(request.param)), AXES)
    return {"t": "t_index"}.get(request.param, request.param), result_of(study, tmp_path / "own.nc")


def test_the_coordinate_keeps_its_name_and_each_run_is_counted(result):
    dim, path = result
    with evs.open(path) as data:
        assert data.I.dims == data.t.dims == ("rate", "seed", dim)
        counts = data[f"{dim.removesuffix('_index')}_count"]
        for rate, seed in np.ndindex(counts.shape):
            infected, times = run_of(data.rate.values[rate], seed)
            count = int(counts[rate, seed])
            assert count == (0 if seed == 3 else len(times))
            np.testing.assert_array_equal(data.I[rate, seed, :count], infected[:count])
            np.testing.assert_array_equal(data.t[rate, seed, :count], times[:count])
            assert np.isnan(data.t[rate, seed, count:]).all()


@pytest.mark.parametrize("how", ["previous", "linear"])
def test_means_on_a_grid_are_those_of_a_loop(result, how):
    with evs.open(result[1]) as data:
        found = evs.on_grid(data.I, "t", TIMES, how).transpose("rate", "seed", "t")
        assert found.t.attrs["units"] == "d"
    for rate, seed in np.ndindex(2, 8):
        infected, times = run_of([1.0, 2.0][rate], seed)
        inside = (times[0] <= TIMES) & (times[-1] >= TIMES) & (seed != 3)
        before = infected[np.searchsorted(times, TIMES, "right") - 1]
        wanted = np.where(inside, before if how == "previous" else np.interp(TIMES, times, infected), np.nan)
        np.testing.assert_array_equal(found[rate, seed], wanted)


def test_the_contiguous_ragged_form_has_no_gap(result, tmp_path):
    dim, path = result
    with evs.open(path) as data:
        made = evs.to_ragged(data, dim)
        with pytest.raises(InputError, match="must have different lengths along `seed`"):
            evs.to_ragged(data, "seed")
    own = [run_of(rate, seed) for rate in (1.0, 2.0) for seed in range(8) if seed != 3]
    np.testing.assert_array_equal(made.I, np.concatenate([infected for infected, _ in own]))
    np.testing.assert_array_equal(made.t, np.concatenate([times for _, times in own]))
    assert made.I.dtype == np.int32
    assert made.row_size.attrs["sample_dimension"] == "sample"
    assert made.row_size.values.tolist() == [len(times) for _, times in own]
    assert made.seed.values.tolist() == [seed for seed in range(8) if seed != 3] * 2
    made.drop_vars("t").to_netcdf(tmp_path / "ragged.nc")


def test_on_grid_refuses_what_it_has_not(result):
    with evs.open(result[1]) as data:
        with pytest.raises(InputError, match="must name a coordinate .* got 'time'"):
            evs.on_grid(data.I, "time", TIMES)
        with pytest.raises(InputError, match='must be "previous" or "linear"'):
            evs.on_grid(data.I, "t", TIMES, "next")


def test_a_history_is_drawn_against_the_coordinate_of_the_runs(result):
    with evs.open(result[1]) as data:
        axes = data.evogt.plot("time_series", "I").axes[0]
        assert axes.get_xlabel().startswith("t")
        (line, *_) = [line for line in axes.lines if line.get_gid() == "median"]
        assert line.get_xdata().max() > 20
