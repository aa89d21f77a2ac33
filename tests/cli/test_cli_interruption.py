"""Signals, time limits, a second writer and a full disk: `evogt run` as a process."""

import functools
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from helpers import eventually, read_study

from evogt_study.results.finished import shard_folder
from evogt_study.results.index import list_shards
from evogt_study.schema.variables import Status, to_status
from evogt_study.storage.lease import lock_result
from evogt_study.workers.dask_executor import defer_signals
from evogt_study.workers.signals import handle_signals, parse_seconds

pytestmark = pytest.mark.long

SLOW = """
    import os, time
    def method(seed):
        if not os.path.exists(GO):
            time.sleep(0.05)
        return {"error": float(seed)}
"""


@pytest.fixture
def slow(own_study, tmp_path):
    """Starts `evogt run` on 100 runs of 0.05 s with more options; the process, and its result's path.

    Once there is a file `go` errors the result the runs return at once.
    """
    study = own_study(SLOW.replace("GO", repr(str(tmp_path / "go"))), "[axes]\nseed = { start = 0, count = 100 }")
    path = tmp_path / "own.nc"
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), "--workers", "2"]
    started = []

    def start(*options):
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process, path

    yield start
    for process in started:
        if process.poll() is None:  # the test failed
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.communicate(timeout=60)


def wait_for_end(process):
    """Exit code and standard error, once the process and all that it started are gone."""
    children = psutil.Process(process.pid).children(recursive=True)
    _, errors = process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
    return process.returncode, errors


def check_the_same_command_computes_the_rest(slow):
    """The same command computes the rest; the runs that it found."""
    process, path = slow()
    path.with_name("go").touch()
    code, errors = wait_for_end(process)
    assert (code, errors) == (0, "")
    data = read_study(path)
    assert (to_status(data.run_status) == Status.ok).all()
    np.testing.assert_array_equal(data.error, np.arange(100))


def call_evogt(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "evogt_study", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_keeps_finished_runs_for_status_summary_and_the_same_command(slow, name):
    process, path = slow()
    eventually(lambda: list_shards(shard_folder(path)), process)
    process.send_signal(getattr(signal, name))
    code, errors = wait_for_end(process)
    assert code == 130
    assert not path.with_name("own.nc.lock").exists()
    reason = "interrupted" if name == "SIGINT" else "terminated"
    assert errors == f"evogt: {reason}: finished runs are in {path}.shards. The same command computes the rest.\n"
    printed, errors = call_evogt("status", path)
    state, counts, by_seed = printed.splitlines()
    assert state == f"{path}: not running. Compute the rest with `evogt run`."
    assert re.fullmatch(rf"{path}: 100 runs, \d+ not run, \d+ ok", counts)
    assert by_seed.startswith("  not run by seed: ")
    assert "is not finished. These are its runs so far." in errors
    printed, errors = call_evogt("summary", path, "--over", "seed")
    assert re.search(r"  \d+/100\b", printed)
    assert "is not finished" in errors
    assert "The statistics leave them out" in errors
    check_the_same_command_computes_the_rest(slow)
    assert call_evogt("status", path) == (f"{path}: 100 runs, 100 ok\n", "")


def test_interrupted_code_in_a_string(own_study):
    """Dataclasses execute such code."""
    study = own_study(
        """
        def method(seed):
            exec("import signal; signal.raise_signal(signal.SIGINT)")
        """,
        "[axes]\nseed = [0]",
    )
    done = subprocess.run(
        [sys.executable, "-m", "evogt_study", "try", study.file], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 130
    assert done.stderr.startswith("evogt: interrupted")


def test_a_time_limit_stops_before_others_do(slow):
    process, _ = slow("--time-limit", "1.5s")
    code, errors = wait_for_end(process)
    assert code == 130
    assert errors.startswith("evogt: stopped at the time limit of 1.5s: ")


def catches(process, number):
    """Whether a process has a handler for a signal, as Linux tells in a mask of one bit for each."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16) >> (number - 1) & 1


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("locked", [False, True])
def test_a_signal_before_anything_is_computed(slow, number, locked):
    """While the command is still imported, and while its cluster starts."""
    process, path = slow()
    eventually(lambda: path.with_name("own.nc.lock").exists() if locked else catches(process, signal.SIGTERM), process)
    process.send_signal(number)
    code, errors = wait_for_end(process)
    assert code == 130
    assert errors.count("\n") == 1, errors
    assert errors.startswith("evogt: ")
    assert not path.exists()
    check_the_same_command_computes_the_rest(slow)


def test_a_second_command_on_the_same_result_is_refused(slow):
    first, path = slow()
    eventually(lambda: list_shards(shard_folder(path)), first)
    first.send_signal(signal.SIGSTOP)  # it holds the lock however long the second takes to start
    second, _ = slow()
    code, errors = wait_for_end(second)
    path.with_name("go").touch()
    first.send_signal(signal.SIGCONT)
    assert code == 2
    assert f"own.nc (process {first.pid} on " in errors
    assert errors.count("\n") == 1
    assert wait_for_end(first) == (0, "")
    with lock_result(path):
        pass


def test_status_and_summary_read_the_finished_runs_of_a_running_study(own_study, tmp_path):
    source = """
        import os, time
        def method(seed):
            while seed > 50 and not os.path.exists(GO):
                time.sleep(0.01)
            return {"error": float(seed)}
    """
    go, path = tmp_path / "go", tmp_path / "own.nc"
    study = own_study(source.replace("GO", repr(str(go))), "[axes]\nseed = { start = 0, count = 100 }")
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), "--workers", "1"]
    page = tmp_path / "own.html"
    watch = [sys.executable, "-m", "evogt_study", "status", "--watch", "--html", str(page), str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: list_shards(shard_folder(path)), process)
            printed, errors = call_evogt("status", path, "--html", page)
            state, counts, *_ = printed.splitlines()
            assert re.fullmatch(
                rf"{path}: running: process {process.pid} on \S+ since \S+Z; \d+/100 runs, 0 failed"
                r"(, [\d.]+ runs/s, .* left)? \(.* ago\)",
                state,
            )
            assert re.fullmatch(rf"{path}: 100 runs, \d+ not run, \d+ ok", counts)
            assert "is not finished" in errors
            assert '<meta http-equiv="refresh" content="60">' in page.read_text()
            assert f"Running: process {process.pid} on " in page.read_text()
            assert "Not run by seed: " in page.read_text()
            assert re.search(r"  \d+/100\b", call_evogt("summary", path, "--over", "seed")[0])
            watching = subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            first = watching.stdout.readline()
            assert process.poll() is None
        finally:
            go.touch()
            assert wait_for_end(process) == (0, "")
    assert first.startswith(f"{path}: running: process {process.pid} ")
    assert watching.communicate(timeout=60)[0].splitlines()[-1] == f"{path}: 100 runs, 100 ok"
    assert watching.returncode == 0
    assert "100 runs, 100 ok." in page.read_text()
    assert "refresh" not in page.read_text()
    assert (to_status(read_study(path).run_status) == Status.ok).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("0.5", 0.5), ("30m", 1800), ("1.5h", 5400), ("2d3h", 183600), ("1:30", 90), ("10:00:00", 36000)],
)
def test_forms_of_a_time(text, expected):
    assert parse_seconds(text) == expected


def test_a_closed_terminal_is_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_signals(), defer_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back():
    numbers = signal.SIGTERM, signal.SIGHUP, signal.SIGALRM
    before = [signal.getsignal(number) for number in numbers]
    with handle_signals("1h"):
        assert all(signal.getsignal(number) is not handler for number, handler in zip(numbers, before, strict=True))
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_disk_without_room_for_the_values_ends_in_one_line_and_keeps_the_runs(own_study, tmp_path):
    wide = "def method(seed):\n    return {'values': ('n', [float(seed)] * 40)}\n"
    study = own_study(wide, "[axes]\nseed = { start = 0, count = 60_000 }")
    path = tmp_path / "results" / "own.nc"
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), "--workers", "1"]
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"^evogt: cannot write .*own\.nc.*: File too large$", done.stderr.strip())
    assert len(done.stderr.splitlines()) == 1
    assert not path.exists()
    assert any(path.with_name("own.nc.shards").iterdir())
