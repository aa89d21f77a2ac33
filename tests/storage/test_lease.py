"""Leases of results, of parts of a plan and of temporary folders: one holder each, whatever happens to processes."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from helpers import eventually

from evogt_study.errors import ResultError
from evogt_study.storage import lease
from evogt_study.storage.files import make_process_mark
from evogt_study.storage.lease import (
    SILENT_SECONDS,
    UNSIGNED_SECONDS,
    WorkIsGoneError,
    count_active_claims,
    lock_result,
    open_claims,
)

NO_FLOCK = """
import os, sys, time
from contextlib import ExitStack
from pathlib import Path
def refuse(event, arguments):
    if event == "fcntl.flock":
        raise OSError(37, "No locks available")
sys.addaudithook(refuse)
from evogt_study.errors import ResultError
from evogt_study.storage import lease
folder = Path(sys.argv[1])
"""
"""Start of each process: it is on a file system without flock."""
HOLD = """
claims = lease.open_claims(folder / "claims/plan")
assert claims.take(0)
with claims.keep_alive(), lease.lock_result(folder / "a.nc") as check:
    print(os.getpid(), flush=True)
    for line in sys.stdin:
        try:
            check()
            print("held", flush=True)
        except ResultError as error:
            print(error, flush=True)
"""
BEATING = "lease.HEARTBEAT_SECONDS = 0.01" + HOLD
RACE = """
claims, start, won, parts = lease.open_claims(folder / "claims/plan"), float(sys.stdin.readline()), [], []
with ExitStack() as held:
    for number in range(200):
        time.sleep(max(0.0, start + 0.02 * number - time.time()))
        parts += [number] if claims.take(number) else []
        try:
            held.enter_context(lease.lock_result(folder / f"{number}.nc"))
            won.append(number)
        except ResultError as error:
            assert "another process is writing" in str(error), error
    print(won, flush=True)
    print(parts, flush=True)
    sys.stdin.readline()
"""
MAX_LOST_HOLDERS = 'print(lease.find_writer(folder / "a.nc").lives)'
CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


@pytest.fixture
def started():
    """Starts a process of this folder; all end with the test."""
    running = []

    def start(code, folder, inside=(), **environment):
        command = [*inside, sys.executable, "-c", NO_FLOCK + code, str(folder)]
        options = {"env": os.environ | environment, "text": True}
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options))
        return running[-1]

    yield start
    for process in running:
        with process:
            process.kill()


@pytest.fixture
def held(started, tmp_path):
    """A process that holds a.nc and part 0, and its number."""
    process = started(HOLD, tmp_path)
    return process, int(process.stdout.readline())


def leases(folder):
    return [folder / "a.nc.lock", folder / "claims/plan/0"]


def age(path, seconds=SILENT_SECONDS):
    os.utime(path, (time.time() - seconds - 1,) * 2)


def change(path, **signature):
    path.write_text(json.dumps(json.loads(path.read_text()) | signature))


def is_free(folder):
    """Whether this process may take part 0 and the result, and whether others see it so."""
    claims = open_claims(folder / "claims/plan")
    is_lost, alive = claims.find_lost({0}) == {0: 1}, count_active_claims(folder / "claims")
    writer, refusal = lease.find_writer(folder / "a.nc"), None
    try:
        with lock_result(folder / "a.nc") as check:
            check()
    except ResultError as error:
        refusal = str(error)
    are_claimed = claims.take(0), open_claims(folder / "claims/plan").take(0)
    if refusal is None:
        assert (is_lost, alive, writer is not None and writer.lives, are_claimed) == (True, 0, False, (True, False))
        return True
    assert f"a.nc ({writer.describe()}). Wait" in refusal
    assert (is_lost, alive, writer.lives, are_claimed) == (False, 1, True, (False, False))
    return False


# --- which holders are gone -------------------------------------------------------------------------------------------


def kill(process):
    if process.returncode is None:
        os.kill(process.pid, signal.SIGKILL)  # `process.kill` would wait for a zombie
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie until the test ends


STATES = {
    "lives": (lambda process, path: None, False),
    "is stopped": (lambda process, path: process.send_signal(signal.SIGSTOP), False),
    "is stopped for long": (lambda process, path: (process.send_signal(signal.SIGSTOP), age(path)), True),
    "was killed": (lambda process, path: kill(process), True),
    "was killed and its parent knows": (lambda process, path: (process.kill(), process.wait()), True),
    "is on another machine": (lambda process, path: change(path, machine="elsewhere"), False),
    "has an unknown number on another machine": (lambda process, path: change(path, machine="else", process=-1), False),
    "was on a machine that is off": (lambda process, path: (change(path, machine="elsewhere"), age(path)), True),
    "has a number that is another process's now": (lambda process, path: change(path, process=os.getpid()), True),
    "has a number that is the kernel's now": (lambda process, path: change(path, process=2), True),
    "was killed before it signed": (lambda process, path: (path.write_text(""), age(path, UNSIGNED_SECONDS)), True),
    "was killed while it signed": (lambda process, path: (os.truncate(path, 70), age(path, UNSIGNED_SECONDS)), True),
    "signed as no version does": (lambda process, path: (path.write_text("[]"), age(path, UNSIGNED_SECONDS)), True),
    "signed too deep": (lambda process, path: (path.write_text("[" * 4000), age(path, UNSIGNED_SECONDS)), True),
}


@pytest.mark.parametrize("state", STATES)
def test_a_lease_is_free_if_its_holder(held, tmp_path, state):
    bring, expected = STATES[state]
    for path in leases(tmp_path):
        bring(held[0], path)
    assert is_free(tmp_path) == expected


@pytest.mark.parametrize("inside", [(*CONTAINER, "--mount-proc"), CONTAINER], ids=["own proc", "proc of the host"])
def test_a_process_in_another_container_is_alive_until_it_is_silent(started, tmp_path, inside):
    if subprocess.run(
        [*inside, "sh", "-c", "echo 9 > /proc/sys/kernel/ns_last_pid"], capture_output=True, check=False
    ).returncode:
        pytest.skip("this user may not make a container")
    process = started(HOLD, tmp_path, inside)
    assert process.stdout.readline() == "1\n"  # which is another process here
    assert not is_free(tmp_path)
    kill(process)
    assert not is_free(tmp_path)
    for path in leases(tmp_path):
        age(path)
    assert is_free(tmp_path)
    with lock_result(tmp_path / "a.nc"):  # from there, this process has a number that does not exist
        assert started(MAX_LOST_HOLDERS, tmp_path, inside).communicate()[0] == "True\n"


def test_a_lease_without_a_signature_is_waited_for_and_then_taken(tmp_path):
    path = tmp_path / "a.nc.lock"
    path.touch()
    claims = open_claims(tmp_path / "claims/plan")
    (tmp_path / "claims/plan/0").touch()
    assert claims.find_lost({0}) == {}
    begun = time.monotonic()
    with lock_result(tmp_path / "a.nc"):
        assert time.monotonic() - begun > UNSIGNED_SECONDS - 0.1
        assert json.loads(path.read_text())["process"] == str(os.getpid())


def test_a_holder_gives_signs_of_life(started, tmp_path):
    started(BEATING, tmp_path).stdout.readline()
    for path in leases(tmp_path):
        age(path)
        eventually(lambda path=path: time.time() - path.stat().st_mtime < 5)


# --- taking over ------------------------------------------------------------------------------------------------------


def test_a_stopped_writer_that_has_lost_its_lease_does_not_write_when_it_goes_on(started, tmp_path):
    process = started(BEATING, tmp_path)
    number = int(process.stdout.readline())

    def ask():
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline()

    assert ask() == "held\n"
    os.kill(number, signal.SIGSTOP)
    os.waitid(os.P_PID, number, os.WSTOPPED)
    age(tmp_path / "a.nc.lock")
    with lock_result(tmp_path / "a.nc") as check:
        os.kill(number, signal.SIGCONT)
        assert f"a.nc (process {os.getpid()} on " in ask()
        age(tmp_path / "a.nc.lock")
        time.sleep(0.2)  # twenty beats
        assert time.time() - (tmp_path / "a.nc.lock").stat().st_mtime > SILENT_SECONDS  # the sign is not this one's
        process.communicate()
        check()
    assert os.listdir(tmp_path) == ["claims"]


@pytest.mark.long
def test_of_eight_processes_that_race_for_a_dead_lease_one_wins_each_time(held, started, tmp_path):
    process, _ = held
    signature = (tmp_path / "a.nc.lock").read_text()
    kill(process)
    dead = [signature, signature.replace('"machine": "', '"machine": "not'), signature[:50], ""]
    for number in range(200):
        for path in (tmp_path / f"{number}.nc.lock", tmp_path / f"claims/plan/{number}"):
            path.write_text(dead[number % 4])
            age(path)
    (tmp_path / "a.nc.lock").unlink()
    racing = [started(RACE, tmp_path) for _ in range(8)]
    start = time.time() + 5.0  # when all have been imported
    for each in racing:
        each.stdin.write(f"{start}\n")
        each.stdin.flush()
    for _ in ("results", "parts"):
        won = [json.loads(each.stdout.readline()) for each in racing]
        assert sorted(number for each in won for number in each) == list(range(200))
        assert sum(map(bool, won)) > 1  # it was a race
    assert len(os.listdir(tmp_path)) == 201
    for each in racing:
        each.communicate("\n")
    assert os.listdir(tmp_path) == ["claims"]


@pytest.mark.parametrize("times", [1, 3])
def test_a_process_that_is_killed_while_it_takes_over_is_no_obstacle(held, started, tmp_path, times):
    kill(held[0])
    killed = 'sys.addaudithook(lambda event, _: event == "os.rename" and os._exit(9))' + HOLD.replace("take(0)", "read")
    for number in range(times):
        process = started(killed, tmp_path)
        assert (process.communicate()[0], process.returncode) == ("", 9)
        assert len(os.listdir(tmp_path)) == number + 3  # the claims, the dead lease, and what each left
    with lock_result(tmp_path / "a.nc"):
        pass
    assert os.listdir(tmp_path) == ["claims"]


def test_the_refusal_says_how_to_go_on_if_the_other_machine_is_off(tmp_path):
    with lock_result(tmp_path / "a.nc"):
        change(tmp_path / "a.nc.lock", machine="elsewhere", host="node7", process="7")
        refusal = (
            r"process 7 on node7 since .* If that process has ended, remove .*a\.nc\.lock, or run again 120 s after"
        )
        with pytest.raises(ResultError, match=refusal):
            lock_result(tmp_path / "a.nc").__enter__()


# --- files and folders ------------------------------------------------------------------------------------------------


def test_two_names_of_a_file_have_one_lease(held, tmp_path):
    (tmp_path / "link.nc").symlink_to(tmp_path / "a.nc")
    with pytest.raises(ResultError, match=f"process {held[1]} "):
        lock_result(tmp_path / "link.nc").__enter__()


def test_folders_that_were_missing_are_unmade_where_nothing_was_written(tmp_path):
    with lock_result(tmp_path / "b" / "c" / "a.nc"):
        pass
    assert os.listdir(tmp_path) == []
    with lock_result(tmp_path / "b" / "c" / "a.nc"):
        (tmp_path / "b" / "c" / "a.nc").write_text("")
    assert os.listdir(tmp_path / "b" / "c") == ["a.nc"]


@pytest.mark.parametrize("bytes_", [0, 20, 100])
def test_a_lease_for_which_the_disk_has_no_room_is_none(tmp_path, bytes_):
    """A full disk still has room for files without content."""
    claims, (_, hard) = open_claims(tmp_path / "claims/plan"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
    try:
        with pytest.raises(
            ResultError, match=r"cannot write .*a\.nc\.lock: File too large. Choose another output file"
        ):
            lock_result(tmp_path / "a.nc").__enter__()
        with pytest.raises(ResultError, match=r"cannot write .*plan/0: File too large"):
            claims.take(0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert os.listdir(tmp_path) == ["claims"]
    assert os.listdir(tmp_path / "claims/plan") == []


def test_a_lease_that_somebody_removed_is_told(tmp_path):
    with lock_result(tmp_path / "r.nc") as check:
        (tmp_path / "r.nc.lock").unlink()
        with pytest.raises(ResultError, match=r"r\.nc\.lock was removed"):
            check()


# --- parts ------------------------------------------------------------------------------------------------------------


def test_a_part_that_was_released_is_lost_at_once_and_one_that_is_done_never(tmp_path):
    claims = open_claims(tmp_path / "claims/plan")
    with claims.keep_alive():
        assert claims.take(0)
        assert claims.take(1)
        claims.finish(0)
    other = open_claims(tmp_path / "claims/plan")
    assert other.read() == ({0, 1}, {0})
    assert other.find_lost({1}) == {1: 0}
    assert not other.take(0)
    assert other.take(1)
    change(tmp_path / "claims/plan/1", process=2)
    assert open_claims(tmp_path / "claims/plan").find_lost({1}) == {1: 1}
    shutil.rmtree(tmp_path / "claims/plan")
    for look in (other.read, lambda: other.take(5), lambda: other.find_lost({0})):
        with pytest.raises(WorkIsGoneError):
            look()


# --- temporary folders ------------------------------------------------------------------------------------------------

OWN = """
print(lease.make_temporary_folder(), flush=True)
if not os.fork():
    sys.exit()
os.wait()
sys.stdin.read()
"""


@pytest.fixture
def temporary():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_folder_of_a_killed_command_is_removed_by_the_next_and_that_of_a_live_one_is_not(started, temporary):
    def start():
        process = started(OWN, temporary, TMPDIR=str(temporary))
        return process, Path(process.stdout.readline().strip())

    (killed, left), (stopped, kept) = start(), start()
    (left / "evogt-12345678").mkdir()
    kill(killed)
    stopped.send_signal(signal.SIGSTOP)
    age(kept)
    mark, dead = make_process_mark(), left.name.removeprefix(lease.FOLDER_PREFIX)
    others = [
        temporary / name for name in ("pymp-abc", "evogt-results", f"evogt-{'0' * 8}{dead[8:]}", f"evogt-{mark}b")
    ]
    for path in others:
        path.mkdir()
    (temporary / f"evogt-{dead}file").touch()
    (temporary / f"evogt-{dead}link").symlink_to(temporary / "evogt-results")
    reused = temporary / f"evogt-{mark.replace('.', '.9')}c"  # of a process that had our number
    reused.mkdir()
    ended, own = start()
    others += [temporary / f"evogt-{dead}file", temporary / f"evogt-{dead}link"]
    assert {*temporary.iterdir()} == {kept, own, *others}
    stopped.send_signal(signal.SIGCONT)
    for process in (stopped, ended):
        assert process.communicate() == ("", None)
    assert {*temporary.iterdir()} == {*others}
