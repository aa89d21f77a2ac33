"""Define the options of a computation, and start and supervise runners, the interpreters that compute runs.

A worker starts a runner with `subprocess`, not with a fork.  So the runner has no locks, threads or connections of the
worker, and does not import the user's script.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import math
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evogt_study
from evogt_study.errors import InputError, Status, SweepError, shorten
from evogt_study.storage.files import to_paths

if TYPE_CHECKING:
    from evogt_study.workers.batch import Batch

STATE = struct.Struct("qd")
"""State that a runner shares with its supervisor: the number of the current case, or -1, and the start time."""
HEAD = struct.Struct("qq")
"""Header of a message to the supervisor: number of records, `DONE` or `FATAL`, and number of bytes that follow."""
DONE, FATAL = 0, -1
_LARGE_BYTES = 2**16
"""Smallest size of an array in bytes to send it outside of the pickle, so that no copy is necessary."""
_MAX_OUTPUT_BYTES = 16 * 2**10  # largest output of a run in its record, in bytes.  Longer output loses its middle part
_CHECK_SECONDS = 0.25  # seconds between two checks of the time, the memory and the output of a run by the supervisor
_INTERPRETER_BYTES = 150 * 2**20  # memory of the interpreter in bytes, in addition to the memory that a run needs
MAX_DEATHS = 2
"""Number of times that a run may end its runner before it gets the status lost.  The first end may be an accident."""
MAX_OUTPUT_FILE_BYTES = 64 * 2**20
"""Largest size in bytes of the output file of a run.  The supervisor empties a larger file."""
END_SECONDS = 0.2  # seconds in which a runner may end with its own exit code, after its connection is closed
BLAS_THREADS = tuple(f"{each}_THREADS" for each in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM", "BLIS_NUM"))
ONE_THREAD = dict.fromkeys(BLAS_THREADS, "1")  # environment variables that limit BLAS libraries to one thread
_CODE = """\
import sys
sys.path.append(sys.argv[1])
from evogt_study.workers.batch import serve_batches
serve_batches(*map(int, sys.argv[2:]))
"""


def _option(default: Any, help: str, metavar: str = "") -> Any:  # click's name
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True)
class RunOptions:
    """Options of the computation of a study: workers, limits and reuse of finished runs.

    The help of `evogt run` explains each option.  Raises InputError if an option has an invalid value.

    Examples
    --------
    >>> import evogt_study as evs
    >>> evs.RunOptions(workers=2, memory_limit="1GiB").memory_bytes
    1073741824
    """

    workers: int | None = _option(
        None, "Number of workers on this machine.  0 computes in the calling process.  [default: number of cores]", "N"
    )
    memory_limit: str | int | None = _option(
        None,
        "Memory of one worker, such as 4GiB.  A run that uses more memory is lost.  "
        "[default: an equal share of the machine]",
        "SIZE",
    )
    run_timeout: float | None = _option(None, "Stop a run after this time and set its status to timed_out.", "SECONDS")
    max_failures: int | None = _option(None, "Stop the study after more than N failed runs.", "N")
    retry_failed: bool = _option(False, "Run cases again that failed, timed out or were lost.")
    rerun_outdated: bool = _option(False, "Run cases again that other software versions computed.")
    reuse_from: Sequence[str | Path] = _option(
        (), "Also reuse runs from this result file or folder.  Repeat the option for several places.", "PATH"
    )
    reuse_old_code: bool = _option(
        False, "Reuse runs of earlier versions of your function.  Use it only if the versions are equivalent."
    )

    def __post_init__(self) -> None:
        for name, kind, least, wanted, default in (
            ("workers", Integral, 0, "an integer >= 0", "the cores of this machine"),
            ("run_timeout", Real, math.ulp(0.0), "a finite number of seconds > 0", "no limit"),
            ("max_failures", Integral, 0, "an integer >= 0", "no limit"),
        ):
            value = getattr(self, name)
            is_number = isinstance(value, kind) and not isinstance(value, bool)
            if value is not None and not (is_number and least <= value < math.inf):
                raise InputError(f"`{name}` must be {wanted}, got {shorten(value)}. Leave out `{name}` for {default}.")
        for name in ("run_timeout", "memory_limit") if self.workers == 0 else ():
            if getattr(self, name) is not None:
                raise InputError(
                    f"`{name}` needs a process that can be stopped, but workers=0 computes in the calling process. "
                    "Use workers=1."
                )
        _ = self.memory_bytes
        object.__setattr__(self, "reuse_from", tuple(to_paths(self.reuse_from)))

    @property
    def memory_bytes(self) -> int | None:
        """Memory limit in bytes."""
        if self.memory_limit is None:
            return None
        from dask.utils import parse_bytes  # this import takes 0.1 s

        size = 0
        with suppress(ValueError, TypeError, AttributeError):
            size = int(parse_bytes(self.memory_limit))
        if isinstance(self.memory_limit, bool) or size <= 0:
            raise InputError(
                f"`memory_limit` must be a size such as 4GiB, got {shorten(self.memory_limit)}. Leave out "
                "`memory_limit` for an equal share of the machine."
            )
        return size


DEFAULTS = RunOptions()


class _RunnerEndedError(Exception):
    """The process of a runner has ended, or its supervisor must end it for `reason`."""

    def __init__(self, reason: str = "", *, is_late: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.is_late = reason, is_late


class Runner:
    """Interpreter that computes batches.  If a run ends the interpreter, the interpreter starts again."""

    def __init__(self) -> None:
        self.is_stopped = self.is_busy = False
        self._settings: tuple[list[str], str, dict[str, str]] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()  # `stop` comes from another thread

    @property
    def has_ended(self) -> bool:
        """True if the interpreter was started and has ended."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start the interpreter without a wait for its imports.  Raises SweepError if the interpreter cannot start."""
        with self._starting:
            if self._process is not None or self.is_stopped:
                return
            try:
                ours, theirs = socket.socketpair()
                watched, self._lifeline = os.pipe()
                self._output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # open as long as the process
                # in append mode, because the supervisor may empty the file while a run writes
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
                        start_new_session=True,  # only the process of the study handles Ctrl-C
                    )
            except OSError as error:
                raise SweepError(f"a process that computes runs did not start: {error}") from None
            self._connection, self._settings = Connection(ours.detach()), None

    def compute(
        self,
        batch: Batch,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> list[bytes | bytearray]:
        """Compute a batch and return its records in pickled parts, or fewer records if `stop` is called.

        A run may take `timeout` seconds and `memory` bytes.  A run that ends `MAX_DEATHS` interpreters gets the status
        lost.  `environment` adds environment variables.  Raises EvogtError if no run can be computed.
        """
        needs = batch.needs
        self.timeout, self.memory, self.counts_children = timeout, memory, bool(needs.memory)
        if needs.memory:
            self.memory = needs.memory * 10**6 + _INTERPRETER_BYTES
        threads = dict.fromkeys(BLAS_THREADS, str(max(1, needs.cores)))
        settings = sys.path.copy(), os.getcwd(), {**os.environ, **threads, **(environment or {})}
        parts, left, deaths, failed_starts = list[bytes | bytearray](), list(batch.cases), Counter[str](), 0
        while left and not self.is_stopped:
            cases = left.copy()
            try:
                self._compute(replace(batch, cases=cases), settings, left, parts)
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
                continue
            culprit = cases[index]
            left.remove(culprit)
            deaths[culprit[0]] += 1
            times = deaths[culprit[0]]
            if is_late or times == MAX_DEATHS:
                from evogt_study.workers.batch import add_last_lines, make_records

                message = add_last_lines(reason if times == 1 else f"{reason}, {times} times", output)
                status, seconds = (Status.timed_out, time.monotonic() - begun) if is_late else (Status.lost, 0.0)
                known = make_records([culprit[0]], [(status, message, None, output, seconds)], times)
                parts.append(b"".join(dump(known)))
            else:
                left.insert(0, culprit)  # first in a fresh process: no other run can be the reason
        return parts

    def _compute(self, batch: Batch, settings: Any, left: list[Any], parts: list[bytes | bytearray]) -> None:
        """Compute a batch.  Take the finished cases from `left` and add their records to `parts`."""
        self.start()
        self._checked_at = time.monotonic()
        try:
            if settings != self._settings:
                self._connection.send_bytes(pickle.dumps(settings))
                self._settings = settings
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
        """Read `size` bytes of a message, and check the current run every `_CHECK_SECONDS`."""
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            has_more = self._connection.poll(_CHECK_SECONDS)
            if not has_more or (size == HEAD.size and time.monotonic() > self._checked_at + _CHECK_SECONDS):
                self._check_run()
                self._checked_at = time.monotonic()
            if has_more:
                if not (count := os.readv(self._connection.fileno(), [rest])):
                    raise EOFError
                rest = rest[count:]
        return content

    def _check_run(self) -> None:
        """Raise _RunnerEndedError if the process has ended, or if its run needs too much time or memory."""
        process = self._process
        if process is None or process.poll() is not None:  # a child of a run may hold its end of the connection open
            raise _RunnerEndedError
        index, begun = STATE.unpack_from(self._state, 0)
        if self.timeout is not None and index >= 0 and time.monotonic() > begun + self.timeout:
            raise _RunnerEndedError(f"over its time limit of {self.timeout:g} s", is_late=True)
        if self.memory is not None:
            import psutil  # this import takes 15 ms

            used = 0
            with suppress(psutil.Error):  # the process may have ended
                whole = [psutil.Process(process.pid)]
                whole += whole[0].children(recursive=True) if self.counts_children else []
                used = sum(each.memory_info().rss for each in whole)
            if used > self.memory:
                raise _RunnerEndedError(
                    f"used {used / 2**20:.0f} MiB of memory, more than the limit of {self.memory / 2**20:.0f} MiB"
                )
        if os.fstat(self._output.fileno()).st_size > MAX_OUTPUT_FILE_BYTES:  # output must not fill the disk
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
            _kill_group(process)
            code = process.wait()
            output = take_output(self._output.fileno())
            self._output.close()
            return (f"signal {-code}, {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"), output

    def stop(self) -> None:
        """End the interpreter from any thread.  This also ends `compute`."""
        self.is_stopped = True
        with self._starting:
            if self._process is not None:
                _kill_group(self._process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


_idle: list[Runner] = []  # idle runners of this process, for the next study.  A runner ends by itself after some time
_idle_lock = threading.Lock()


def prestart_runner() -> None:
    """Start a runner if no runner is idle, so that it imports at the same time as this process."""
    if not _idle:
        runner = Runner()
        runner.start()
        _idle.append(runner)


@contextmanager
def borrow_runner() -> Iterator[Runner]:
    """Yield an idle or a new runner.  Return it at the end, unless it has ended or is still busy."""
    with _idle_lock:
        while (runner := _idle.pop() if _idle else Runner()).has_ended:
            runner.end()
    try:
        yield runner
    finally:
        # late records of a busy runner would look like records of its next batch
        if runner.has_ended or runner.is_stopped or runner.is_busy:
            runner.end()
        else:
            _idle.append(runner)


@atexit.register
def end_idle_runners() -> None:
    """End all idle runners."""
    with _idle_lock:
        while _idle:
            _idle.pop().end()


# --- messages between a runner and its supervisor ---------------------------------------------------------------------


def dump(value: Any) -> list[bytes | memoryview]:
    """Return the parts of a message: the number and sizes of parts, a pickle, and large arrays after the pickle."""
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
    half = _MAX_OUTPUT_BYTES // 2
    text = os.pread(file, min(size, 2 * half), 0)
    if size > 2 * half:
        text = text[:half] + b"\n[... %d bytes ...]\n" % (size - 2 * half) + os.pread(file, half, size - half)
    os.ftruncate(file, 0)
    return text.decode(errors="replace")
