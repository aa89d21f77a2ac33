"""Start and supervise runners, the interpreters that compute runs.

A worker starts a runner with `subprocess`, not with a fork.  So the runner has no locks, threads or connections
of the worker, and does not import the user's script.  A runner may start other processes.  If a run ends
its runner, no other process ends.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evogt_study
from evogt_study.errors import SweepError

if TYPE_CHECKING:
    from evogt_study.workers.batch import Batch

STATE = struct.Struct("qd")
"""State that a runner shares with its supervisor: the number of the current case, or -1, and the start time."""
HEAD = struct.Struct("qq")
"""Header of a message to the supervisor: number of records, `DONE` or `FATAL`, and number of bytes that follow."""
DONE, FATAL = 0, -1
_LARGE_BYTES = 2**16
"""Smallest size of an array in bytes to send it outside of the pickle, so that no copy is necessary."""
_OUTPUT_BYTES = 16 * 2**10
"""Bytes of the output of a run that are kept.  The first half is its beginning, the second half its end."""
_LOOK_SECONDS = 0.25
"""Seconds between two checks of the time, the memory and the output of a run by the supervisor."""
_INTERPRETER_BYTES = 150 * 2**20
"""Memory of the interpreter in bytes, in addition to the memory that a run needs."""
MAX_DEATHS = 2
"""Number of times that a run may end its runner before it gets the status lost.  The first end may be an accident."""
OUTPUT_FILE_BYTES = 64 * 2**20
"""Largest output of a run on disk in bytes.  The supervisor then empties the file."""
END_SECONDS = 0.2
"""Seconds in which a runner may end with its own exit code, after its connection is closed."""
BLAS_THREADS = tuple(f"{each}_THREADS" for each in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM", "BLIS_NUM"))
ONE_THREAD = dict.fromkeys(BLAS_THREADS, "1")
"""Environment variables that limit BLAS libraries to one thread."""
_CODE = """\
import sys
sys.path.append(sys.argv[1])
from evogt_study.workers.runner_process import serve
serve(*map(int, sys.argv[2:]))
"""


@dataclass(frozen=True)
class RunnerLimits:
    """Limits of a run in seconds, and in bytes of memory with or without its children.  None means no limit."""

    seconds: float | None = None
    memory: int | None = None
    counts_children: bool = False


class _RunnerEndedError(Exception):
    """The process of a runner has ended, or its supervisor must end it for `reason`."""

    def __init__(self, reason: str = "", *, is_late: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.is_late = reason, is_late


class Runner:
    """Interpreter that computes batches, and that starts again after each run that ends the interpreter."""

    def __init__(self) -> None:
        self.limits, self._has_settings = RunnerLimits(), False
        self.is_stopped = self.is_busy = False
        self._settings: tuple[list[str], str, dict[str, str]] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()  # `stop` comes from another thread

    @property
    def has_ended(self) -> bool:
        """True if the interpreter was started and has ended."""
        return self._process is not None and self._process.poll() is not None

    def prepare(self, limits: RunnerLimits, environment: dict[str, str]) -> None:
        """Set the limits and the environment of later runs.  Variables not in `environment` are as in this process."""
        settings = sys.path.copy(), os.getcwd(), {**os.environ, **ONE_THREAD, **environment}
        self._has_settings = self._has_settings and settings == self._settings
        self.limits, self._settings = limits, settings

    def start(self) -> None:
        """Start the interpreter without a wait for its imports.  Raises SweepError if the interpreter cannot start."""
        with self._starting:
            if self._process is not None or self.is_stopped:
                return
            try:
                ours, theirs = socket.socketpair()
                watched, self._lifeline = os.pipe()
                self._output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # open as long as the process
                # appended to, since the file may be emptied while a run writes
                fcntl.fcntl(self._output, fcntl.F_SETFL, fcntl.fcntl(self._output, fcntl.F_GETFL) | os.O_APPEND)
                with theirs, tempfile.TemporaryFile() as state, open(watched, "rb"):
                    state.write(STATE.pack(-1, 0.0))
                    state.flush()
                    self._state = mmap.mmap(state.fileno(), STATE.size)
                    given = (theirs.fileno(), state.fileno(), watched)
                    package = str(Path(evogt_study.__file__).parents[1])
                    self._process = subprocess.Popen(  # noqa: S603  # our own module
                        [sys.executable, "-P", "-c", _CODE, package, *map(str, given)],
                        stdin=subprocess.DEVNULL,
                        stdout=self._output,
                        stderr=self._output,
                        pass_fds=given,
                        env=os.environ | ONE_THREAD,
                        start_new_session=True,  # Ctrl-C is for the process of the study to answer
                    )
            except OSError as error:
                raise SweepError(f"a process that computes runs did not start: {error}") from None
            self._connection, self._has_settings = Connection(ours.detach()), False

    def compute(self, batch: Batch) -> list[bytes | bytearray]:
        """Compute a batch and return its records in pickled parts, or fewer records if `stop` is called.

        If a run ends the interpreter, a new interpreter computes this run first.  If the run ends this interpreter too,
        the run gets the status lost.  Raises EvogtError if no run of the study can be computed.
        """
        parts, left, deaths, failed_starts = list[bytes | bytearray](), batch.cases, Counter[str](), 0
        while left and not self.is_stopped:
            cases = list(left)
            try:
                self._compute(batch, left, parts)
                break
            except _RunnerEndedError as error:
                index, begun = STATE.unpack_from(self._state, 0)
                ended, output = self.end()
                reason, is_late = error.reason or f"ended its process ({ended})", error.is_late
            if self.is_stopped:
                break
            if index < len(cases) - len(left):  # between two runs
                failed_starts = 0 if len(left) < len(cases) else failed_starts + 1
                if failed_starts > MAX_DEATHS:
                    raise SweepError(f"the runner does not start ({ended}). Its last output: {output[-500:]}")
                batch = batch.with_cases(left)
                continue
            culprit = cases[index]
            left.remove(culprit)
            deaths[culprit[0]] += 1
            if is_late or deaths[culprit[0]] == MAX_DEATHS:
                from evogt_study.errors import Status
                from evogt_study.workers.batch import add_last_lines, make_records

                times = deaths[culprit[0]]
                message = add_last_lines(reason if times == 1 else f"{reason}, {times} times", output)
                status, seconds = (Status.timed_out, time.monotonic() - begun) if is_late else (Status.lost, 0.0)
                known = make_records([culprit[0]], [(status, message, None, output, seconds)], times)
                parts.append(b"".join(dump(known)))
            else:
                left.insert(0, culprit)  # first in a fresh process: no other run can be the reason
            batch = batch.with_cases(left)
        return parts

    def _compute(self, batch: Batch, left: list[Any], parts: list[bytes | bytearray]) -> None:
        """Compute a batch.  Take the finished cases from `left` and add their records to `parts`."""
        self.start()
        self._looked = time.monotonic()
        try:
            if not self._has_settings:
                self._connection.send_bytes(pickle.dumps(self._settings))
                self._has_settings = True
            self.is_busy, error = True, None
            self._connection.send_bytes(pickle.dumps(batch, protocol=5))
            while (head := HEAD.unpack(self._read(HEAD.size)))[0] != DONE:
                content = self._read(head[1])
                if head[0] == FATAL:
                    error = load(content)
                else:
                    parts.append(content)
                    del left[: head[0]]
            self.is_busy = False
        except (EOFError, OSError):
            raise _RunnerEndedError from None
        if error is not None:
            raise error

    def _read(self, size: int) -> bytearray:
        """Read `size` bytes of a message, and check the current run every `_LOOK_SECONDS`."""
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            has_more = self._connection.poll(_LOOK_SECONDS)
            if not has_more or (size == HEAD.size and time.monotonic() > self._looked + _LOOK_SECONDS):
                self._look()
                self._looked = time.monotonic()
            if has_more:
                if not (count := os.readv(self._connection.fileno(), [rest])):
                    raise EOFError
                rest = rest[count:]
        return content

    def _look(self) -> None:
        """Raise _RunnerEndedError if the process has ended, or if its run needs too much time or memory."""
        process = self._process
        if process is None or process.poll() is not None:  # a child of a run may hold its end of the connection open
            raise _RunnerEndedError
        index, begun = STATE.unpack_from(self._state, 0)
        seconds, memory = self.limits.seconds, self.limits.memory
        if seconds is not None and index >= 0 and time.monotonic() > begun + seconds:
            raise _RunnerEndedError(f"over its time limit of {seconds:g} s", is_late=True)
        if memory is not None:
            import psutil  # 15 ms, for those who compute

            used = 0
            with suppress(psutil.Error):  # it may have ended
                whole = [psutil.Process(process.pid)]
                whole += whole[0].children(recursive=True) if self.limits.counts_children else []
                used = sum(each.memory_info().rss for each in whole)
            if used > memory:
                raise _RunnerEndedError(
                    f"used {used / 2**20:.0f} MiB of memory, more than the limit of {memory / 2**20:.0f} MiB"
                )
        if os.fstat(self._output.fileno()).st_size > OUTPUT_FILE_BYTES:  # what the run prints fills the disk
            os.ftruncate(self._output.fileno(), 0)

    def end(self) -> tuple[str, str]:
        """End the interpreter and its children, and return its exit code or signal, and its last output."""
        with self._starting:
            process, self._process = self._process, None
            if process is None:
                return "not started", ""
            self.is_busy = False
            self._connection.close()
            os.close(self._lifeline)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.0 if self.is_stopped else END_SECONDS)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            output = take_output(self._output.fileno())
            self._output.close()
            return (f"signal {-code}, {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"), output

    def stop(self) -> None:
        """End the interpreter from any thread, and also the wait in `compute`."""
        self.is_stopped = True
        with self._starting:
            if self._process is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)


def dump(value: Any) -> list[bytes | memoryview]:
    """Return a pickle, and large arrays outside of the pickle, after the number and sizes of these parts."""
    large: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        content = buffer.raw()
        if content.nbytes >= _LARGE_BYTES:
            large.append(content)
        return content.nbytes < _LARGE_BYTES

    head = pickle.dumps(value, protocol=5, buffer_callback=is_small)
    sizes = [len(head), *(content.nbytes for content in large)]
    return [struct.pack(f"q{len(sizes)}q", len(sizes), *sizes), head, *large]


def load(content: Any) -> Any:
    """Return the value from the parts of `dump`, without copies of large arrays."""
    view = memoryview(content)
    (count,) = struct.unpack_from("q", view)
    ends = itertools.accumulate([8 + 8 * count, *struct.unpack_from(f"{count}q", view, 8)])
    head, *large = [view[begin:end] for begin, end in itertools.pairwise(ends)]
    return pickle.loads(head, buffers=large)  # noqa: S301  # from our own process


def take_output(file: int) -> str:
    """Return the output in a file, without its middle if the output is long, and empty the file."""
    size = os.lseek(file, 0, os.SEEK_END)
    if not size:
        return ""
    half = _OUTPUT_BYTES // 2
    text = os.pread(file, min(size, 2 * half), 0)
    if size > 2 * half:
        text = text[:half] + b"\n[... %d bytes ...]\n" % (size - 2 * half) + os.pread(file, half, size - half)
    os.ftruncate(file, 0)
    return text.decode(errors="replace")


_idle: list[Runner] = []
"""Idle runners of this process, for the next study.  A runner ends by itself after some time."""
_idle_lock = threading.Lock()


def prestart() -> None:
    """Start a runner if no runner is idle, so that it imports at the same time as this process."""
    if not _idle:
        runner = Runner()
        runner.start()
        _idle.append(runner)


@atexit.register
def end_idle_runners() -> None:
    """End all idle runners."""
    with _idle_lock:
        while _idle:
            _idle.pop().end()


class RunnerPool:
    """Runners of one study, shared by the threads of a process.  At most `size` runners compute at the same time."""

    def __init__(self, limits: RunnerLimits, environment: dict[str, str], size: int) -> None:
        self.limits, self.environment, self.is_closed = limits, environment, False
        self._places = threading.Semaphore(size)
        self._used: list[Runner] = []

    def compute(self, batch: Batch) -> list[bytes | bytearray]:
        """Compute a batch in an idle or a new runner, as `Runner.compute` does."""
        limits, environment, needs = self.limits, self.environment, batch.needs
        if needs.cores:
            environment = environment | dict.fromkeys(BLAS_THREADS, str(needs.cores))
        if needs.memory:
            memory = needs.memory * 10**6 + _INTERPRETER_BYTES
            limits = RunnerLimits(limits.seconds, memory, counts_children=True)
        with self._places:
            with _idle_lock:
                while (runner := _idle.pop() if _idle else Runner()).has_ended:
                    runner.end()
                self._used.append(runner)
            if self.is_closed:
                runner.stop()
            runner.prepare(limits, environment)
            try:
                return runner.compute(batch)
            finally:
                with _idle_lock:
                    self._used.remove(runner)
                    # what a busy one still sends would be taken for records of its next batch
                    if not (runner.has_ended or runner.is_stopped or runner.is_busy):
                        _idle.append(runner)
                    else:
                        runner.end()

    def close(self) -> None:
        """End all current runs at once."""
        self.is_closed = True
        with _idle_lock:
            used = list(self._used)
        for runner in used:
            runner.stop()
