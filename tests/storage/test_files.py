"""Files and folders: on disk with the names that lead to them, in places that can be written, under fitting names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import PARABOLA, PILOTED

import evogt_study as evs
from evogt_study.errors import ResultError
from evogt_study.operations.merge import merge
from evogt_study.results import finished as finished_runs
from evogt_study.results.finished import (
    description_path,
    read_partial_result,
    remove_shards,
    shard_folder,
    write_description,
)
from evogt_study.results.index import write_shard
from evogt_study.schema.variables import Status
from evogt_study.storage.files import make_process_mark, remove_unfinished, write_atomically
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here


@pytest.fixture
def synced(monkeypatch):
    """The files and folders that this process has waited for."""
    found, wait = [], os.fsync

    def record_sync(descriptor):
        found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        wait(descriptor)

    monkeypatch.setattr(os, "fsync", record_sync)
    return found


def test_folders_of_results_and_shards_are_on_disk(own_study, result_of, tmp_path, synced):
    study = own_study("def method(seed):\n    return {'error': 1.0}\n", "[axes]\nseed = [0]\n")
    path = tmp_path / "new" / "own.nc"
    write_description(path, study)
    assert {tmp_path, tmp_path / "new"} <= set(synced)
    synced.clear()
    result_of(study, tmp_path / "newer" / "own.nc")
    assert tmp_path in synced


def test_a_pipe_or_device_is_neither_waited_for_nor_replaced(tmp_path, evogt):
    pipe, link = tmp_path / "pipe.nc", tmp_path / "link.png"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    expected_message = "must be a file, got a pipe or a device"
    for path in (pipe, link):
        with pytest.raises(ResultError, match=expected_message), write_atomically(path):
            raise AssertionError("nothing is to be written")
    assert pipe.is_fifo()
    for command in ("status", "summary", "verify"):
        assert evogt(command, pipe) == (2, "", f"evogt: {pipe} {expected_message}. Choose another file.\n")


def test_what_killed_commands_left_is_removed_and_nothing_of_other_files(tmp_path):
    left = ".r.nc.0a1b2c3d-12.34-0a1b2c3d.tmp"
    kept = [".r.nc.b.nc.0a1b2c3d-12.34-0a1b2c3d.tmp", ".r.nc.tmp", "r.nc.tmp", ".s.nc.0a1b2c3d-12.34-0a1b2c3d.tmp"]
    for name in [left, *kept]:
        (tmp_path / name).touch()
    remove_unfinished(tmp_path, "r.nc")
    assert sorted(os.listdir(tmp_path)) == sorted(kept)


@pytest.mark.parametrize("suffix", [".zarr", ".csv", ".png", ".NC~"])
def test_a_result_has_no_name_that_belies_it(own_study, tmp_path, suffix):
    study = own_study(PARABOLA, PILOTED)
    with pytest.raises(
        ResultError, match=rf"r\{suffix}: a result is NetCDF, not \{suffix}\. .* output file, such as .*/r\.nc$"
    ):
        evs.run(study, output=tmp_path / f"r{suffix}")
    with pytest.raises(ResultError, match="a result is NetCDF"):
        merge([tmp_path / "a.nc", tmp_path / "b.nc"], tmp_path / f"r{suffix}")
    assert sorted(os.listdir(tmp_path)) == ["method.py", "own.toml"]


def test_a_name_that_is_not_utf_8_is_refused_before_anything_runs(own_study, evogt, tmp_path, monkeypatch, no_workers):
    own_study(PARABOLA, PILOTED)
    (tmp_path / os.fsdecode(b"\xfe")).mkdir()
    monkeypatch.chdir(tmp_path / os.fsdecode(b"\xfe"))
    for options in (["-o", tmp_path / os.fsdecode(b"\xff.nc")], ["-o", tmp_path / os.fsdecode(b"\xff") / "r.nc"], []):
        code, out, err = evogt("run", tmp_path / "own.toml", *options)
        assert (code, out) == (2, "")
        assert err.endswith(": the name must be UTF-8. Choose another output file.\n")
        assert err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["method.py", "own.toml", os.fsdecode(b"\xfe")]
    assert os.listdir() == []


# --- read while another process writes --------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["a result", "a study"])
def test_a_status_that_the_writer_overtakes_looks_again(own_study, result_of, tmp_path, monkeypatch, of):
    """The result appears and the shards go between the two looks."""
    study = own_study("def method(seed):\n    return {'error': 1.0}\n", "[axes]\nseed = [0, 1]\n")
    plan, path = plan_study(study)[-1], tmp_path / "r.nc"
    write_description(path, study)
    write_shard(shard_folder(path), compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))
    look = finished_runs.list_shards

    def overtaken(folder):
        if not path.exists():
            result_of(study, path)
            remove_shards(folder, (), description_path(path))
        return look(folder)

    monkeypatch.setattr(finished_runs, "list_shards", overtaken)
    if of == "a result":
        assert read_partial_result(path) is None  # but the result is whole now
    else:
        assert finished_runs.read_finished_runs(study, path).tables["main"].counts()[Status.ok] == 2


def test_what_a_killed_process_left_of_a_file_is_removed_by_the_next_that_writes_it(tmp_path):
    """But not what one that is there is writing, or one of another machine."""
    code = """
import os, sys
from pathlib import Path
from evogt_study.storage.files import write_atomically
with write_atomically(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os._exit(9)
"""
    path = tmp_path / "p[1].html"
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    (left,) = os.listdir(tmp_path)
    _, process, rest = left.removeprefix(".p[1].html.").split("-")
    others = [f".p[1].html.{make_process_mark()}{rest}", f".p[1].html.{'0' * 8}-{process}-{rest}"]
    for name in others:
        (tmp_path / name).touch()
    with write_atomically(path, tidy=True) as temporary:
        temporary.write_text("whole")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, path.name])


# --- folders ----------------------------------------------------------------------------------------------------------


def test_a_file_or_a_folder_appears_whole_or_not_at_all(tmp_path):
    whole = tmp_path / "new/whole"
    for path, part in ((whole, "part"), (tmp_path / "a", "")):
        interrupted = write_atomically(path, tidy=True, folder=bool(part))
        (interrupted.__enter__() / part).write_text("half")
        assert not interrupted.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert list(tmp_path.iterdir()) == []
    with write_atomically(whole, tidy=True, folder=True) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner/part").write_text("all")
        assert not whole.exists()
    assert [path.name for path in whole.parent.iterdir()] == ["whole"]
    with pytest.raises(OSError, match="not empty"), write_atomically(whole, tidy=True, folder=True) as temporary:
        (temporary / "other").touch()
    assert [path.name for path in whole.parent.iterdir()] == ["whole"]
    assert (whole / "inner/part").read_text() == "all"


def test_what_a_killed_process_left_of_a_folder_is_removed(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    mark = make_process_mark().replace(f"-{os.getpid()}.", f"-{process.pid}.")
    for name in ("whole", "other"):
        (tmp_path / f".{name}.{mark}00000000.tmp/inner").mkdir(parents=True)
    with write_atomically(tmp_path / "whole", tidy=True, folder=True):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"whole", f".other.{mark}00000000.tmp"}
