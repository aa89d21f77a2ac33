"""One writer for each result: a second is refused by name, and a lock whose process is gone is no obstacle."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from evogt_study.errors import ResultError
from evogt_study.storage.writer_lock import lock_file, only_writer

HOLD = """
import sys, time
from pathlib import Path
from evogt_study.storage.writer_lock import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of a.nc, until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "a.nc")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


def test_a_second_writer_is_refused_with_the_holders_name(holder, tmp_path):
    with (
        pytest.raises(ResultError, match=rf"a\.nc is being written by process {holder.pid} on .* since "),
        only_writer(tmp_path / "a.nc"),
    ):
        pass
    assert lock_file(tmp_path / "a.nc").exists()


def test_a_lock_ends_with_its_process_however_that_ends(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lock_file(tmp_path / "a.nc").exists()
    with only_writer(tmp_path / "a.nc"):
        assert json.loads(lock_file(tmp_path / "a.nc").read_text())["process"] == os.getpid()
    assert os.listdir(tmp_path) == []


def test_a_lock_of_another_machine_is_respected(tmp_path):
    lock_file(tmp_path / "a.nc").write_text(json.dumps({"host": "elsewhere", "process": 7, "since": "2026"}))
    with pytest.raises(ResultError, match=r"process 7 on elsewhere.*if that process is gone, remove "):
        only_writer(tmp_path / "a.nc").__enter__()


@pytest.mark.parametrize("text", ["", "{", "[]", "not json"])
def test_an_unreadable_lock_without_a_holder_is_taken_over(tmp_path, text):
    lock_file(tmp_path / "a.nc").write_text(text)
    with only_writer(tmp_path / "a.nc"):
        pass
    assert os.listdir(tmp_path) == []


def test_another_thread_of_this_process_is_a_second_writer_too(tmp_path):
    refused = []

    def second():
        try:
            only_writer(tmp_path / "a.nc").__enter__()
        except ResultError as error:
            refused.append(str(error))

    with only_writer(tmp_path / "a.nc"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_two_names_of_a_file_have_one_lock(holder, tmp_path):
    (tmp_path / "link.nc").symlink_to(tmp_path / "a.nc")
    with pytest.raises(ResultError, match=f"being written by process {holder.pid} "):
        only_writer(tmp_path / "link.nc").__enter__()


def test_folders_that_were_missing_are_unmade_where_nothing_was_written(tmp_path):
    with only_writer(tmp_path / "b" / "c" / "a.nc"):
        pass
    assert os.listdir(tmp_path) == []
    with only_writer(tmp_path / "b" / "c" / "a.nc"):
        (tmp_path / "b" / "c" / "a.nc").write_text("")
    assert os.listdir(tmp_path / "b" / "c") == ["a.nc"]


def test_an_unwritable_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="choose another place with -o"):
        only_writer(tmp_path / "file" / "a.nc").__enter__()
