"""Shards and result files on disk: whole or absent, and damage is noticed."""

import numpy as np
import pytest
import xarray as xr

from evogt_study.errors import DamagedResultError, ResultError
from evogt_study.results.finished import ShardFolder, remove_shards
from evogt_study.results.index import pack_records, read_shard, write_shard
from evogt_study.results.netcdf import write_result
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here


@pytest.fixture
def records(small_study):
    plan = plan_study(Study.from_text(small_study))[-1]
    return pack_records(compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))


def unread(folder):
    """What is wrong with the shards of a folder, none of which can be read."""
    shards = ShardFolder(folder)
    assert list(shards.records(lambda keys: np.ones(len(keys), dtype=bool))) == []
    return [type(error) for error in shards.unread.values()]


def zeroed(content):
    return content[:500] + bytes(64) + content[564:]


OTHER = [b"", b"evogt", b"evogt shard 5\n", b"PK\x03\x04" + bytes(100), lambda whole: whole[: len(whole) // 2], zeroed]


@pytest.mark.parametrize("content", OTHER, ids=["empty", "a word", "old", "a zip file", "half", "zeroed"])
def test_what_is_no_whole_shard_is_damaged_and_counts_as_not_there(records, tmp_path, content):
    path = write_shard(tmp_path, records)
    path.write_bytes(content(path.read_bytes()) if callable(content) else content)
    with pytest.raises(ResultError, match="damaged"):
        read_shard(path)
    assert unread(tmp_path) == [DamagedResultError]


def test_a_shard_of_a_later_format_is_left_alone(records, tmp_path):
    path = write_shard(tmp_path, records)
    path.write_bytes(path.read_bytes().replace(b"evogt index 1", b"evogt index 2", 1))
    with pytest.raises(ResultError, match="another version of evogt-study"):
        read_shard(path)
    assert unread(tmp_path) == [ResultError]
    remove_shards(tmp_path, [path], tmp_path / "none")
    assert path.exists()


def test_words_in_fields_of_one_width_are_compressed(tmp_path):
    words = np.full(100_000, "", dtype=object)
    words[7] = "x" * 200
    write_result(tmp_path / "a.nc", {"main": xr.Dataset({"v": ("seed", words)})})
    assert (tmp_path / "a.nc").stat().st_size < 200_000
