"""Shards and result files on disk: whole or absent, and damage is noticed."""

import os
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from evogt_study.errors import DamagedShardError, ResultError
from evogt_study.results.index import pack_records
from evogt_study.results.netcdf import write_result
from evogt_study.results.shards import ShardFolder, read_shard, remove_shards, write_shard
from evogt_study.schema.records import RunRecords, Stack
from evogt_study.storage.atomic import check_writable
from evogt_study.study.plan import study_plan
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here


@pytest.fixture
def records(small_study):
    plan = study_plan(Study.from_text(small_study))
    records = pack_records(compute_here(Batch.of(plan.spec, list(plan.cases()))))
    return replace(records, outputs=("", "printed\n", *[""] * (len(records.keys) - 2)))


def assert_equal(one, other):
    for name in ("keys", "messages", "outputs", "software"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("status", "wall_seconds", "attempts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert len(one.stacks) == len(other.stacks)
    for a, b in zip(*(sorted(each.stacks, key=lambda stack: stack.name) for each in (one, other)), strict=True):
        assert (a.name, a.dims, a.role, a.attributes) == (b.name, b.dims, b.role, b.attributes)
        np.testing.assert_array_equal(a.rows, b.rows)
        np.testing.assert_array_equal(a.values, b.values)


def test_text_truth_and_odd_characters_round_trip(tmp_path):
    stacks = (
        Stack("tag", (), np.array([0, 1]), np.array(["", "größe\n'\""])),
        Stack("flag", ("n",), np.array([1]), np.array([[True, False]])),
        Stack("none", ("n",), np.array([0, 1]), np.zeros((2, 0))),
        Stack("day", (), np.array([0]), np.array(["2020-01-01"], "M8[ns]"), {"n": 3, "x": [0.1, 2.0]}, "coordinate"),
    )
    ones = np.ones(2)
    records = RunRecords(
        ("a", "b"), ones.astype(np.int8), ("", "ε failed"), ones, ones.astype(np.int32), ("{}", "{}"), stacks
    )
    assert_equal(read_shard(write_shard(tmp_path, records)), records)


def truncated(content, at):
    return content[: len(content) // 2]


def unread(folder):
    """What is wrong with the shards of a folder, none of which can be read."""
    shards = ShardFolder(folder)
    assert list(shards.records(lambda keys: np.ones(len(keys), dtype=bool))) == []
    return [type(error) for error in shards.unread.values()]


def zeroed(content, at):
    return content[:at] + bytes(64) + content[at + 64 :]


@pytest.mark.parametrize("damage", [truncated, zeroed])
def test_damaged_values_are_noticed_and_the_shard_counts_as_not_there(records, tmp_path, damage):
    path = write_shard(tmp_path, records)
    content = path.read_bytes()
    values = next(stack.values for stack in records.stacks if stack.name == "norm_history")
    at = content.index(np.asarray(values).tobytes()) + 40
    path.write_bytes(damage(content, at))
    with pytest.raises(ResultError, match="damaged"):
        read_shard(path)
    assert unread(tmp_path) == [DamagedShardError]


@pytest.mark.parametrize("content", [b"", b"evogt", b"evogt shard 5\n", b"PK\x03\x04" + bytes(100)], ids=repr)
def test_what_is_no_shard_is_damaged(tmp_path, content):
    (tmp_path / "a.shard").write_bytes(content)
    with pytest.raises(ResultError, match="damaged"):
        read_shard(tmp_path / "a.shard")
    assert unread(tmp_path) == [DamagedShardError]


def test_a_shard_of_a_later_format_is_left_alone(records, tmp_path):
    path = write_shard(tmp_path, records)
    path.write_bytes(path.read_bytes().replace(b"evogt index 1", b"evogt index 2", 1))
    with pytest.raises(ResultError, match="another format"):
        read_shard(path)
    assert unread(tmp_path) == [ResultError]
    remove_shards(tmp_path, [path], tmp_path / "none")
    assert path.exists()


def test_unwritable_place_is_told_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="hoose another f"):
        check_writable(tmp_path / "file" / "folder" / "a.nc")
    with pytest.raises(ResultError, match="it is a folder"):
        check_writable(tmp_path)
    check_writable(tmp_path / "new" / "folder" / "a.nc")
    assert os.listdir(tmp_path) == ["file"]


def test_words_in_fields_of_one_width_are_compressed(tmp_path):
    words = np.full(100_000, "", dtype=object)
    words[7] = "x" * 200
    write_result(tmp_path / "a.nc", {"main": xr.Dataset({"v": ("seed", words)})})
    assert (tmp_path / "a.nc").stat().st_size < 200_000
