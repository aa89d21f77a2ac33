"""The index of shards and results: damage is named, and adding runs copies what is there, whatever the types."""

import warnings
from dataclasses import replace

import netCDF4
import numpy as np
import pytest
import xarray as xr
from helpers import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.errors import DamagedResultError, StoreWarning
from evogt_study.results import index, netcdf
from evogt_study.results.finished import ResultFile, shard_folder
from evogt_study.results.index import NO_INDEX, inspect, pack_records, read_index, read_shard, write_shard
from evogt_study.storage.arrays import LARGE_BYTES, Packed, iterate_slabs, pack, unpack
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

ARRAYS = """
import numpy as np
def method(seed):
    chance = np.random.default_rng(seed)
    large, small = chance.normal(size=(20, 500)), chance.normal(size=30).astype("f4")
    return {"large": (("y", "z"), large), "small": ("k", small), "n": seed, "word": "a" * seed}
"""
SEEDS = "[axes]\nseed = { count = %d }\n"


@pytest.fixture
def arrays(own_study, result_of, tmp_path):
    """A result with a large and a small array for each of six runs."""
    return result_of(own_study(ARRAYS, SEEDS % 6), tmp_path / "own.nc")


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


# --- damage -----------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_of_a_result_is_found_and_named(arrays):
    content = arrays.read_bytes()
    assert inspect(arrays) == ([], [])
    for at in np.random.default_rng(0).integers(0, len(content), 150).tolist():
        arrays.write_bytes(flipped(content, at))
        found = inspect(arrays)
        assert found.broken or found.changed, at
    index = ResultFile(arrays).index
    pieces = {stack.name: stack.values.pieces[3] for stack in index.phases["main"].stacks if stack.dims}
    arrays.write_bytes(flipped(content, int(pieces["large"]["offset"][0]) + 100))
    assert inspect(arrays).broken == ["main: `large` of the run seed=3 is damaged: its checksum does not match"]
    arrays.write_bytes(flipped(content, int(pieces["small"]["offset"][0]) + 100))
    message = "main: `small` of 6 runs, for example seed=0, is damaged: its checksum does not match"
    assert inspect(arrays).broken == [message]


def test_every_flipped_bit_of_a_shard_is_found(own_study, tmp_path):
    plan = plan_study(own_study(ARRAYS, SEEDS % 3))[-1]
    path = write_shard(tmp_path, compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))
    content = path.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(content), 150).tolist():
        path.write_bytes(flipped(content, at))
        with pytest.raises(DamagedResultError, match="damaged"):
            read_shard(path)


# --- adding runs ------------------------------------------------------------------------------------------------------


def test_adding_a_run_packs_only_its_own_arrays(own_study, arrays, monkeypatch):
    before, packed = arrays.read_bytes(), []
    monkeypatch.setattr(netcdf, "pack", lambda values: packed.append(values.shape) or pack(values))
    study = own_study(ARRAYS, SEEDS % 7)
    plan = plan_study(study)[-1]
    write_shard(shard_folder(arrays), compute_here(Batch.from_cases(plan.spec, [plan.case(6)])))
    data = evs.run(study, output=arrays, workers=1)
    assert packed == [(7, 30)]  # of the small arrays, which share a chunk
    for seed in range(7):
        np.testing.assert_array_equal(data["large"][seed], np.random.default_rng(seed).normal(size=(20, 500)))
    index = read_index(arrays).phases["main"]
    large = next(stack.values for stack in index.stacks if stack.name == "large")
    assert all(large.read_piece(piece) in before for piece in large.pieces[:6, 0])


def test_runs_that_another_program_changed_are_read_and_packed_again(own_study, arrays):
    with netCDF4.Dataset(arrays, "a") as file:
        file["large"][2, 0, 0] = 7.0
    with pytest.warns(StoreWarning, match="`large` has changed since it was written"):
        data = evs.run(own_study(ARRAYS, SEEDS % 7), output=arrays, workers=1)
    assert data["large"].values[2, 0, 0] == 7.0
    assert inspect(arrays) == ([], [])
    assert len(read_index(arrays).keys) == 7


@pytest.mark.parametrize("limit", [index.MAX_WHOLE_BYTES, 1000])
def test_what_runs_print_is_in_a_result_that_grows(own_study, tmp_path, monkeypatch, limit):
    """Also if fields of one width would be longer than what a reader takes in one piece."""
    monkeypatch.setattr(index, "MAX_WHOLE_BYTES", limit)
    path, printed = tmp_path / "own.nc", ["é" * 100 * number + "\n" for number in range(4)]
    for count in (3, 4):
        study = own_study("def method(seed):\n    return seed\n", SEEDS % count)
        records = compute_here(Batch.from_cases(study.spec, list(plan_study(study)[-1].cases())[3 * (count - 3) :]))
        new = printed[3 * (count - 3) : count]
        shard = write_shard(shard_folder(path), replace(records, outputs=tuple(new)))
        assert read_shard(shard).phases[""].outputs == tuple(new)
        data = evs.run(study, output=path, workers=0)
        assert data["run_output"].values.tolist() == printed[:count]
        assert read_index(path).phases["main"].outputs == tuple(printed[:count])
        assert inspect(path) == ([], [])
    with xr.open_dataset(path) as read:
        assert read["run_output"].values.tolist() == printed
    content = path.read_bytes()
    with netCDF4.Dataset(path, "a") as file:
        assert file["run_output"].dtype == (str if limit == 1000 else "S1")
        file["run_seconds"][0] = 7.0
    assert inspect(path).changed == [NO_INDEX, "main: `run_seconds` has changed since it was written"]
    path.write_bytes(flipped(content, content.index("é".encode() * 50)) if limit == 1000 else content)
    assert bool(inspect(path).broken) == (limit == 1000)


def test_an_index_that_deflates_well_is_read():
    """A reader accepts 32 times the size of the index, so the writer stores what would be more."""
    content = {"outputs": ["=" * 10**7]}
    assert index.decode(index.encode(content)) == content


# --- slabs and packing ------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 7), max_size=4).map(tuple), st.integers(1, 40))
def test_slabs_meet_every_value_once_in_c_order(shape, limit):
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    parts = [numbers[slab] for slab in iterate_slabs(shape, limit)]
    assert [value for part in parts for value in part.ravel().tolist()] == numbers.ravel().tolist()
    assert all(part.size <= limit for part in parts)


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
KINDS = ["float16", "float32", "float64", "bool", *INTEGERS]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (70, 2000), (300_000,)], ids=str)
def test_any_array_comes_back_from_its_pieces(dtype, shape):
    chance = np.random.default_rng(1)
    values = [chance.integers(0, 100, shape).astype(dtype), chance.normal(size=shape).astype(dtype)]
    stored = np.dtype("i1" if dtype == "bool" else dtype)
    assert unpack(pack(values[1].view(stored)), stored, shape).tobytes() == values[1].tobytes()
    packed = Packed.pack(values)
    assert packed.shape == (2, *shape)
    for row in range(2):
        found = packed.read_row(row)
        assert (found.dtype, found.shape) == (values[row].dtype, shape)
        np.testing.assert_array_equal(found, values[row])


def test_noise_is_stored_and_what_repeats_is_deflated():
    """Also the ends of padded runs between noise, which readers would decode slowly."""
    noise, zeros = np.random.default_rng(0).normal(size=2**17), np.zeros(2**17)
    padded = np.where(np.arange(2**17) % 2000 < 1234, noise, np.nan)
    assert 0.85 < len(pack(noise)) / noise.nbytes < 0.9
    assert len(pack(zeros)) < 0.01 * zeros.nbytes
    assert len(pack(padded)) < 0.6 * noise.nbytes
    assert unpack(pack(padded), padded.dtype, padded.shape).tobytes() == padded.tobytes()
    assert noise[:64].view("u1")[::8].tobytes() in pack(padded)


def test_small_arrays_of_unlike_shapes_lie_in_one_large_box(own_study, result_of, tmp_path):
    source = """
        import numpy as np
        def method(seed):
            return {"v": (("y", "z"), np.full((1, 1_100) if seed % 2 else (1_100, 1), seed, "i1"))}
    """
    with evs.open(result_of(own_study(source, SEEDS % 3), tmp_path / "own.nc")) as data:
        assert data.v.sum(("y", "z")).values.tolist() == [0, 1_100, 2_200]


def test_a_coordinate_that_runs_share_is_sent_and_stored_once(own_study, result_of, tmp_path):
    source = """
        import numpy as np, xarray as xr
        def method(seed):
            x = np.random.default_rng(0).normal(size=50_000)
            return xr.Dataset({"v": ("x", x.astype("i1"))}, {"x": x})
    """
    plan = plan_study(own_study(source, SEEDS % 8))[-1]
    records = pack_records(compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))
    assert sum(stack.values.nbytes for stack in records.stacks if stack.name == "x") == 400_000
    path = result_of(own_study(source, SEEDS % 8), tmp_path / "own.nc")
    assert path.stat().st_size < 2.1 * 400_000 + 8 * LARGE_BYTES


GROWN = """
import numpy as np
def method(seed):
    assert seed not in {failing}, "no luck"
    values = np.arange(1, 4 + seed % 2).astype("{dtype}") * (seed + 1)
    return {{"a": ("k", values - {offset}), "b": ("l", values[:3])}}
"""


@settings(derandomize=True, deadline=None, max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(
    dtype=st.sampled_from(["int8", "uint8", "int64", "float32", "bool"]),
    steps=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), min_size=2, max_size=3),
    failing=st.sets(st.integers(0, 9), max_size=3),
    offset=st.sampled_from([0, 100]),
)
def test_any_sequence_of_seeds_leaves_the_values_of_its_last(
    own_study, result_of, tmp_path_factory, dtype, steps, failing, offset
):
    """Chunks with several runs are copied only if they hold the same runs, and integers fill values that are free."""
    folder, source = tmp_path_factory.mktemp("grown"), GROWN.format(dtype=dtype, failing=failing, offset=offset)
    for seeds in steps:
        study = own_study(source, f"[axes]\nseed = {seeds}\n")
        plan = plan_study(study)[-1]
        write_shard(shard_folder(folder / "own.nc"), compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            evs.run(study, output=folder / "own.nc", workers=1)
    result_of(study, folder / "fresh.nc")
    with xr.open_dataset(folder / "own.nc") as grown, xr.open_dataset(folder / "fresh.nc") as fresh:
        for name in ("a", "b"):
            assert (name in grown) == (name in fresh)
            if name in fresh:
                np.testing.assert_array_equal(grown[name], fresh[name])
