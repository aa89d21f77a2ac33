"""What ends `evogt run` early, and who else may write: the command as a process, really signalled."""

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

from evogt_study.errors import InputError
from evogt_study.results.shards import shard_files, shard_folder
from evogt_study.schema.variables import Status, status_codes
from evogt_study.storage.lease import only_writer
from evogt_study.workers.signals import defer_signals, handle_signals, parse_seconds

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

    Once there is a file `go` beside the result the runs return at once.
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


def ended(process):
    """Exit code and standard error, once the process and all that it started are gone."""
    children = psutil.Process(process.pid).children(recursive=True)
    _, errors = process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
    return process.returncode, errors


def finishes(slow):
    """The same command computes the rest; the runs that it found."""
    process, path = slow()
    path.with_name("go").touch()
    code, errors = ended(process)
    assert (code, errors) == (0, "")
    data = read_study(path)
    assert (status_codes(data.run_status) == Status.ok).all()
    np.testing.assert_array_equal(data.error, np.arange(100))


def asked(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "evogt_study", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_what_is_finished_for_status_summary_and_the_same_command(slow, which):
    process, path = slow()
    eventually(lambda: shard_files(shard_folder(path)), process)
    process.send_signal(which)
    code, errors = ended(process)
    assert code == 130
    assert not path.with_name("own.nc.lock").exists()
    assert errors == f"evogt: terminated: finished runs are in {path}.shards. The same command computes the rest.\n"
    told, beside = asked("status", path)
    state, counts, by_seed = told.splitlines()
    assert state == f"{path}: not running; `evogt run` computes the rest"
    assert re.fullmatch(rf"{path} \(main\): 100 runs, \d+ not_run, \d+ ok", counts)
    assert by_seed.startswith("  not run by seed: ")
    assert "is not finished. These are its runs so far." in beside
    told, beside = asked("summary", path, "--over", "seed")
    assert re.search(r"  \d+/100\b", told)
    assert "is not finished" in beside
    assert "they are left out" in beside
    finishes(slow)
    assert asked("status", path) == (f"{path} (main): 100 runs, 100 ok\n", "")


def test_code_in_a_string_that_is_interrupted(own_study):
    """As dataclasses are made of, and much else that an import does."""
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
    code, errors = ended(process)
    assert code == 130
    assert errors.startswith("evogt: stopped at the time limit of 1.5s: ")


def catches(process, number):
    """Whether a process has a handler for a signal, as Linux tells in a mask of one bit for each."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16) >> (number - 1) & 1


@pytest.mark.parametrize("which", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("locked", [False, True])
def test_a_signal_before_anything_is_computed(slow, which, locked):
    """While the command is still imported, and while its cluster starts."""
    process, path = slow()
    eventually(lambda: path.with_name("own.nc.lock").exists() if locked else catches(process, signal.SIGTERM), process)
    process.send_signal(which)
    code, errors = ended(process)
    assert code == 130
    assert errors.count("\n") == 1, errors
    assert errors.startswith("evogt: ")
    assert not path.exists()
    finishes(slow)


def test_what_is_deferred_acts_at_the_end():
    reached, before = [], signal.getsignal(signal.SIGINT)

    def body():
        with handle_signals(), defer_signals():
            signal.raise_signal(signal.SIGTERM)
            reached.append("end")

    with pytest.raises(KeyboardInterrupt, match="terminated"):
        body()
    assert reached == ["end"]
    with defer_signals():
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_is_deferred_too():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with pytest.raises(KeyboardInterrupt), defer_signals():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_command_on_the_same_result_is_refused(slow):
    first, path = slow()
    eventually(lambda: shard_files(shard_folder(path)), first)
    first.send_signal(signal.SIGSTOP)  # it holds the lock however long the second takes to start
    second, _ = slow()
    code, errors = ended(second)
    path.with_name("go").touch()
    first.send_signal(signal.SIGCONT)
    assert code == 2
    assert f"own.nc is being written by process {first.pid} on " in errors
    assert errors.count("\n") == 1
    assert ended(first) == (0, "")
    with only_writer(path):
        pass


def test_status_and_summary_read_what_is_finished_of_a_running_study(own_study, tmp_path):
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
            eventually(lambda: shard_files(shard_folder(path)), process)
            told, beside = asked("status", path, "--html", page)
            state, counts, *_ = told.splitlines()
            assert re.fullmatch(
                rf"{path}: running: process {process.pid} on \S+ since \S+Z; main: \d+/100 runs, 0 failed"
                r"(, [\d.]+ runs/s, .* left)? \(.* ago\)",
                state,
            )
            assert re.fullmatch(rf"{path} \(main\): 100 runs, \d+ not_run, \d+ ok", counts)
            assert "is not finished" in beside
            assert '<meta http-equiv="refresh" content="60">' in page.read_text()
            assert f"Running: process {process.pid} on " in page.read_text()
            assert "Not run by seed: " in page.read_text()
            assert re.search(r"  \d+/100\b", asked("summary", path, "--over", "seed")[0])
            watching = subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            first = watching.stdout.readline()
            assert process.poll() is None
        finally:
            go.touch()
            assert ended(process) == (0, "")
    assert first.startswith(f"{path}: running: process {process.pid} ")
    assert watching.communicate(timeout=60)[0].splitlines()[-1] == f"{path} (main): 100 runs, 100 ok"
    assert watching.returncode == 0
    assert "All 100 runs are ok." in page.read_text()
    assert "refresh" not in page.read_text()
    assert (status_codes(read_study(path).run_status) == Status.ok).all()


@pytest.mark.parametrize("text", ["", "soon", "-5", "5x", "0", "1:2:3:4", "1e3", "30m5", "nan"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InputError, match="`--time-limit` must be a time such as"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("0.5", 0.5), ("30m", 1800), ("1.5h", 5400), ("2d3h", 183600), ("1:30", 90), ("10:00:00", 36000)],
)
def test_times(text, expected):
    assert parse_seconds(text) == expected


def test_a_terminal_that_closes_is_ignored_where_nohup_says_so():
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


LARGE = """
    def method(seed):
        return {"error": float(seed), "values": ("n", [float(seed)] * 1000)}
"""


def test_a_full_disk_is_told_and_loses_nothing_finished(own_study, tmp_path):
    """As full as can be without a disk of one's own: no file may be larger than a few runs."""
    study = own_study(LARGE, "[axes]\nseed = { start = 0, count = 300 }")
    path = tmp_path / "own.nc"
    command = [sys.executable, "-m", "evogt_study", "run", study.file, "-o", str(path), "--workers", "1"]
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert done.returncode == 2
    assert re.search(r"^evogt: cannot write .*own\.nc.*: File too large$", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr
    assert shard_files(shard_folder(path))
    assert not list(tmp_path.rglob("*.tmp"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{path}: 300 runs, 300 ok\n")
    assert "of them from before" in done.stderr
    np.testing.assert_array_equal(read_study(path)["values"][:, 0], np.arange(300))


def test_a_disk_without_room_for_what_is_held_of_each_run_is_told(own_study, tmp_path):
    """A variable with a dimension of its own that does not fit ends in one line, not by a signal; its runs are kept."""
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
