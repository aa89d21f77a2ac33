"""One writer for each result: a second is refused by name, and a lock whose process is gone is no obstacle."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from errno import EIO, ENOLCK

import pytest
from helpers import eventually

from evogt_study.errors import ResultError
from evogt_study.storage import lease as lock_module
from evogt_study.storage.lease import SILENT_SECONDS, lock_file, only_writer

ELSEWHERE = """
import errno, fcntl, socket, sys, time
from contextlib import ExitStack
from pathlib import Path
from evogt_study.errors import ResultError
from evogt_study.storage import lease as lock
path, locks, host, number = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
def flock(descriptor, operation):
    if locks != "local":
        raise OSError(getattr(errno, locks), "of this file system")
if locks != "kernel":
    fcntl.flock = flock
if host != "here":
    socket.gethostname, lock._machine = lambda: host, lambda: host
"""
"""A process on a file system without locks (an error's name), with those of each machine for itself ("local") or of the
kernel, on this machine or another."""
HOLD = """
with lock.only_writer(path):
    print("held", flush=True)
    sys.stdin.read()
"""
RACE = """
print("ready", flush=True)
start, won = float(sys.stdin.readline()), []
with ExitStack() as held:
    for each in range(number):
        time.sleep(max(0.0, start + 0.03 * each - time.time()))
        try:
            held.enter_context(lock.only_writer(path / f"{each}.nc"))
            won.append(each)
        except ResultError as error:
            assert "is being written by process" in str(error), error
    print(won, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def started():
    """Starts a process with a path, the file system's locks and the name of its machine; all end with the test."""
    running = []

    def start(code, path, locks="kernel", host="here", number=0):
        command = [sys.executable, "-c", ELSEWHERE + code, str(path), locks, host, str(number)]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        with process:
            process.kill()


@pytest.fixture
def holder(started, tmp_path):
    """A process that holds the lock of a.nc, until it is told to end."""
    process = started(HOLD, tmp_path / "a.nc")
    assert process.stdout.readline() == "held\n"
    return process


def aged(path):
    """The file as if nobody had touched it for so long."""
    os.utime(path, (time.time() - SILENT_SECONDS - 1,) * 2)


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
    """Also after a long time: versions that give no sign of life write no token."""
    lock_file(tmp_path / "a.nc").write_text(json.dumps({"host": "elsewhere", "process": 7, "since": "2026"}))
    aged(lock_file(tmp_path / "a.nc"))
    with pytest.raises(ResultError, match=r"process 7 on elsewhere.*if that process is gone, remove "):
        only_writer(tmp_path / "a.nc").__enter__()


@pytest.mark.parametrize("text", ["", "{", "[]", "not json", "[" * 4000])
def test_an_unreadable_lock_without_a_holder_is_taken_over(tmp_path, text):
    lock_file(tmp_path / "a.nc").write_text(text)
    aged(lock_file(tmp_path / "a.nc"))
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


# --- where the kernel has no locks, or each machine its own -----------------------------------------------------------


@pytest.fixture
def no_locks(monkeypatch):
    """This process on a file system that knows no locks."""

    def flock(descriptor, operation):
        raise OSError(ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("locks", ["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def test_without_locks_a_second_writer_is_refused_with_the_holders_name(started, no_locks, tmp_path, locks):
    process = started(HOLD, tmp_path / "a.nc", locks)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(ResultError, match=rf"a\.nc is being written by process {process.pid} on .* since "):
        only_writer(tmp_path / "a.nc").__enter__()
    process.communicate()
    assert os.listdir(tmp_path) == []
    with only_writer(tmp_path / "a.nc"):
        assert os.listdir(tmp_path) == ["a.nc.lock"]


def test_without_locks_that_of_a_process_which_was_killed_on_this_machine_is_taken_over(started, no_locks, tmp_path):
    process = started(HOLD, tmp_path / "a.nc", "ENOLCK")
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.wait()
    with only_writer(tmp_path / "a.nc"):
        assert json.loads(lock_file(tmp_path / "a.nc").read_text())["process"] == os.getpid()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("locks", ["ENOLCK", "local", "kernel"])
def test_the_lock_of_another_machine_is_taken_over_once_it_is_silent(started, tmp_path, locks):
    process = started(HOLD, tmp_path / "a.nc", locks, "elsewhere")
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.wait()
    refusal = rf"process {process.pid} on elsewhere since .*; if that process is gone, remove .*a\.nc\.lock, or run"
    with pytest.raises(ResultError, match=refusal):
        only_writer(tmp_path / "a.nc").__enter__()
    aged(lock_file(tmp_path / "a.nc"))
    with only_writer(tmp_path / "a.nc"):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("locks", ["ENOLCK", "local", "kernel"])
def test_of_many_that_start_together_one_gets_in(started, tmp_path, locks):
    """On this machine, twice where it has locks for that, and others; of 20 locks the last holders of half are gone."""
    gone = {"host": "gone", "machine": "gone", "process": 7, "since": "2026", "token": "gone"}
    for number in range(0, 20, 2):
        lock_file(tmp_path / f"{number}.nc").write_text(json.dumps(gone))
        aged(lock_file(tmp_path / f"{number}.nc"))
    hosts = ("three" if locks == "local" else "here", "here", "one", "two")
    racing = [started(RACE, tmp_path, locks, host, 20) for host in hosts]
    assert {process.stdout.readline() for process in racing} == {"ready\n"}
    for process in racing:
        process.stdin.write(f"{time.time() + 0.1}\n")
        process.stdin.flush()
    won = [json.loads(process.stdout.readline()) for process in racing]
    assert sorted(number for each in won for number in each) == list(range(20))
    for process in racing:
        process.communicate("\n")
    assert os.listdir(tmp_path) == []


def test_a_holder_gives_signs_of_life(no_locks, tmp_path, monkeypatch):
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.01)
    with only_writer(tmp_path / "a.nc"):
        aged(lock_file(tmp_path / "a.nc"))
        eventually(lambda: time.time() - lock_file(tmp_path / "a.nc").stat().st_mtime < 5)


def test_a_holder_that_was_stopped_so_long_that_another_took_its_place_does_not_write(started, tmp_path):
    with only_writer(tmp_path / "a.nc") as check_alone:
        check_alone()
        aged(lock_file(tmp_path / "a.nc"))
        process = started(HOLD, tmp_path / "a.nc", "local", "elsewhere")
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ResultError, match=f"a.nc is being written by process {process.pid} on elsewhere"):
            check_alone()
    assert os.listdir(tmp_path) == ["a.nc.lock"]  # which is the other's


def test_a_lock_that_cannot_be_judged_is_told(no_locks, tmp_path, monkeypatch):
    """Its last contender was killed within the millisecond in which it decided."""
    monkeypatch.setattr(lock_module, "NAMED_SECONDS", 0.1)
    lock_file(tmp_path / "a.nc").touch()
    (tmp_path / ".a.nc.lock.judged").touch()
    with pytest.raises(ResultError, match=r"cannot lock .*; if there is none, remove .*/\.a\.nc\.lock\.judged"):
        only_writer(tmp_path / "a.nc").__enter__()


def test_a_lock_that_another_takes_as_it_is_made_and_never_signs_is_told(tmp_path, monkeypatch):
    """The wait for whoever is doing it now has an end."""
    flocked, taken = lock_module.flocked, []

    def forestalled(path, descriptor):
        if not taken:
            taken.append(os.open(path, os.O_RDWR))
            fcntl.flock(taken[0], fcntl.LOCK_EX)
        return flocked(path, descriptor)

    monkeypatch.setattr(lock_module, "flocked", forestalled)
    monkeypatch.setattr(lock_module, "NAMED_SECONDS", 0.1)
    try:
        with pytest.raises(ResultError, match="a.nc is being written by process unknown on an unknown host"):
            only_writer(tmp_path / "a.nc").__enter__()
    finally:
        os.close(taken[0])


def test_another_failure_of_the_lock_is_told_as_it_is(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ResultError, match=r"cannot lock .*a\.nc\.lock: Input/output error; choose another place"):
        only_writer(tmp_path / "a.nc").__enter__()


def test_an_unwritable_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="choose another place with -o"):
        only_writer(tmp_path / "file" / "a.nc").__enter__()


def test_a_lock_for_which_the_disk_has_no_room_is_none(tmp_path, monkeypatch):
    """A full disk still has room for files without content."""
    written = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, content, place: written(descriptor, content[:100], place))
    with (
        pytest.raises(ResultError, match=r"cannot write .*r.nc.lock: No space left on device"),
        only_writer(tmp_path / "r.nc"),
    ):
        raise AssertionError("it is not held")
    assert os.listdir(tmp_path) == []


def test_a_lock_that_cannot_be_removed_hides_nothing(tmp_path):
    """Where the disk takes nothing any more, what the command says of it is what counts."""
    folder = tmp_path / "results"

    def fails():
        with only_writer(folder / "r.nc"):
            folder.rename(tmp_path / "away")
            folder.touch()
            raise ResultError("the disk takes nothing")

    with pytest.raises(ResultError, match="the disk takes nothing"):
        fails()


def test_a_lock_that_somebody_removed_is_told(tmp_path):
    with only_writer(tmp_path / "r.nc") as check:
        lock_file(tmp_path / "r.nc").unlink()
        with pytest.raises(ResultError, match=r"r\.nc\.lock was removed"):
            check()
