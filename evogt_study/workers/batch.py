"""Compute the cases of a batch in one process, either in the process of the caller or in a runner.

The result of a case depends only on its method and its parameters, not on the batch, the order or the process.  Cases
of a batch may share stages.  This module uses neither Dask nor NetCDF.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import sys
import time
from bdb import BdbQuit
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, lru_cache
from mmap import mmap
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from evogt_study.errors import DivergedError, EvogtError, ReturnError, StudyError, SweepError, cut
from evogt_study.methods.code import MethodSpec, UserCode
from evogt_study.methods.current_run import add_trajectory, begin_run, end_run, isolate_global_draws
from evogt_study.methods.loading import load_method
from evogt_study.results.index import pack_records
from evogt_study.results.provenance import read_versions
from evogt_study.schema.records import Case, Needs, Record, RunRecords, Stack, concatenate_records, stack_records
from evogt_study.schema.values import Value
from evogt_study.schema.variables import Status
from evogt_study.workers.runner import DONE, FATAL, HEAD, STATE, dump, take_output

T = TypeVar("T")
MAX_CACHE_BYTES = 48 * 2**20  # largest size in bytes of the stage results that a process keeps between batches
_MIN_RESULT_BYTES = 32 * 2**10  # smallest size in bytes that the cache assumes for a result
SEND_SECONDS = 0.25  # seconds of work after which a process sends its finished runs.  A crash loses at most this work
SEND_BYTES = 8 * 2**20  # bytes of values after which a process sends its finished runs
MAX_MESSAGE_CHARACTERS = 500
"""Largest number of characters in a message.  The longest message determines the width of a field in the file."""
MAX_OUTPUT_LINES, MAX_OUTPUT_CHARACTERS = 4, 240
"""Largest number of output lines, and of output characters, in the message of a failed run."""
IDLE_SECONDS = 60.0  # seconds after which a runner ends if it receives no batch
MIN_DESCRIPTORS = 8  # number of file descriptors that a run needs
MAX_UNCHECKED_RUNS = 4  # maximum number of runs between two checks of all these descriptors
OOM_SCORE = 500  # value of oom_score_adj for Linux.  If memory is short, Linux ends a run and not the study
_Row = tuple[Status, str, Record | None, str, float]  # status, message, record, output and seconds of a run


# --- stages that cases share ------------------------------------------------------------------------------------------


# compare by identity, because hashing a key takes as long as a small stage
@dataclass(eq=False, slots=True)
class _StageResult:
    """Result of a stage.  `parts` are the results of other stages that it needed, which took `part_seconds`."""

    stage: str
    key: Hashable
    is_ingredient: bool
    """True if only other stages have used the result."""
    result: Any = None
    size: int = 0
    seconds: float = 0.0
    part_seconds: float = 0.0
    rank: float = 0.0
    parts: set[_StageResult] = field(default_factory=set)
    users: set[Hashable] = field(default_factory=set)


class BoundedStageCache:
    """Cache for the results of stages.  It divides the time of a stage among the cases that use the result."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Hashable], _StageResult] = {}
        self._latest: dict[str, _StageResult] = {}
        self._computed: list[_StageResult] = []
        self._running: list[_StageResult] = []
        self._bytes, self._dropped_rank = 0, 0.0
        self.start(None)

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of a stage from the cache, or compute the result."""
        known = self._kept.get((stage, key))
        found = known or self._compute(stage, key, compute)
        self._kept[stage, key] = self._latest[stage] = found
        found.is_ingredient = found.is_ingredient and bool(self._running)
        # GreedyDual-Size (Cao & Irani 1997).  The last use alone would let a large result drop results that each run
        # needs.  The cost alone would keep results that no run needs.
        found.rank = self._dropped_rank + found.seconds / found.size
        for each in (found, *found.parts):
            each.users.add(self._user)
        if self._running:
            self._running[-1].parts |= {found, *found.parts}
        result = found.result
        if known is None:
            self._drop_results({each for each in self._latest.values() if not each.is_ingredient})
        return result  # type: ignore[no-any-return]  # the key determines the stage's type

    def _compute(self, stage: str, key: Hashable, compute: Callable[[], Any]) -> _StageResult:
        made = _StageResult(stage, key, is_ingredient=bool(self._running))
        self._running.append(made)
        started = time.perf_counter()
        try:
            made.result = compute()
            made.seconds = time.perf_counter() - started
        finally:
            self._running.pop()
            seconds = made.seconds or made.part_seconds  # a failed stage counts for the run
            if self._running:
                self._running[-1].part_seconds += seconds
            else:
                self._stage_seconds += seconds
        self._computed.append(made)
        made.size = max(_count_bytes(made.result), _MIN_RESULT_BYTES)
        self._bytes += made.size
        return made

    # the next case often needs the latest results, which `spared` contains
    def _drop_results(self, spared: set[_StageResult]) -> None:
        """Drop results with the lowest rank, except `spared`, until their size is at most `MAX_CACHE_BYTES`."""
        excess = self._bytes - MAX_CACHE_BYTES - sum(each.size for each in spared)
        for each in sorted(set(self._kept.values()) - spared, key=attrgetter("rank")) if excess > 0 else ():
            if excess <= 0:
                return
            self._dropped_rank = max(self._dropped_rank, each.rank)
            del self._kept[each.stage, each.key]
            self._bytes -= each.size
            excess -= each.size
            each.result = None  # `users` still counts its cases
            if self._latest.get(each.stage) is each:
                del self._latest[each.stage]

    # results of an earlier batch cost a later batch no time, so the times of a batch add up to its duration
    def begin_batch(self) -> None:
        """Restart the times for the next batch, and drop results beyond the limit of the cache."""
        for each in self._computed:
            each.parts, each.users = set(), set()
        self._computed = []
        self._drop_results(set())

    def start(self, user: Hashable) -> None:
        """Begin to measure the time of the case `user`."""
        self._user, self._stage_seconds, self._started = user, 0.0, time.perf_counter()

    def measure_own_seconds(self) -> float:
        """Return the seconds since `start`, without the time of stages."""
        return time.perf_counter() - self._started - self._stage_seconds

    def sum_stage_seconds(self) -> dict[str, float]:
        """Return the seconds of each stage, without the time of the stages that it needed."""
        seconds: dict[str, float] = defaultdict(float)
        for each in self._computed:
            seconds[each.stage] += each.seconds - each.part_seconds
        return seconds

    def divide_seconds(self) -> dict[Hashable, float]:
        """Return the seconds of stages for each user.  The users of a stage share its time equally."""
        seconds: dict[Hashable, float] = defaultdict(float)
        for each in self._computed:
            for user in each.users:
                seconds[user] += (each.seconds - each.part_seconds) / len(each.users)
        return seconds


def _count_bytes(result: Any) -> int:
    """Return the size in bytes of the arrays in a result, including arrays in dataclasses and tuples."""
    if isinstance(result, np.ndarray):
        return int(result.nbytes)
    if isinstance(result, tuple):
        return sum(map(_count_bytes, result))
    return sum(_count_bytes(getattr(result, name)) for name in _field_names(result.__class__))


@cache  # `fields` takes longer than the sizes of the arrays
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()


# --- batches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Cases for a worker, by run key and parameters.  `folder` contains the folders of the runs."""

    spec: MethodSpec
    cases: Sequence[tuple[str, Mapping[str, Value]]]
    needs: Needs
    strict: bool = False  # a return value that cannot be stored ends the study, not only the run
    folder: str = ""

    @staticmethod
    def from_cases(spec: MethodSpec, cases: Sequence[Case], *, strict: bool = False, folder: str = "") -> Batch:
        """Return a batch of cases with equal needs."""
        return Batch(spec, [(case.key, case.values) for case in cases], cases[0].needs, strict, folder)


class RunSurroundings:
    """Working folder, environment and output of this process, which `end` restores after each run."""

    def __init__(self, state: mmap | None = None, descriptor: int = -1) -> None:
        self.state, self.descriptor = state, descriptor
        self.folder, self.environment = os.getcwd(), dict(os.environ)
        # comparing this dict takes 1 us, and comparing `os.environ` takes 40 us, as long as a trivial run
        self.environment_data: dict[Any, Any] = vars(os.environ)["_data"]
        self.environment_before = dict(self.environment_data)
        self.output, self.streams = -1 if state is None else os.dup(1), [sys.stdout, sys.stderr]
        self.free, self.unchecked = (-1, (0, 0)), 0

    def end(self) -> str:
        """Restore the surroundings after a run.  In a runner, return the output of the run."""
        try:
            has_moved = os.getcwd() != self.folder
        except FileNotFoundError:  # the run has removed the folder
            has_moved = True
        if has_moved:
            os.chdir(self.folder)
        if self.environment_data != self.environment_before:
            _replace_environment(self.environment)
        if self.state is None:
            return ""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        # a run may have closed or replaced the streams
        self.streams = [_open_stream(n) if each.closed else each for n, each in enumerate(self.streams, 1)]
        sys.stdout, sys.stderr = self.streams
        for number in (1, 2):
            os.dup2(self.output, number)
        return take_output(self.output)

    def is_usable(self) -> bool:
        """Return True if the next run can open files.  In a runner, an earlier run may have used all descriptors."""
        if self.state is None:
            return True
        found = list[int]()
        try:  # all descriptors only if the lowest one or the limit has changed, because this takes 10 us
            found.append(os.dup(self.descriptor))
            free = found[0], resource.getrlimit(resource.RLIMIT_NOFILE)
            self.unchecked += 1
            if free != self.free or self.unchecked == MAX_UNCHECKED_RUNS:
                for _ in range(MIN_DESCRIPTORS - 1):
                    found.append(os.dup(self.descriptor))  # an error must leave the open ones in the list
                self.free, self.unchecked = free, 0
        except OSError:
            return False
        finally:
            for number in found:
                os.close(number)
        return True


def _open_stream(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)


def _replace_environment(environment: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


# Floating-point warnings are off, because values that are not finite are visible.  On two cores, an SVD of 8000 x 320
# takes two workers 163 ms with one BLAS thread each, and 465 ms with two threads each.
def compute_batch(
    batch: Batch,
    stages: BoundedStageCache,
    surroundings: RunSurroundings,
    through: tuple[type[BaseException], ...] = (),
    raised: Callable[[BaseException], None] = lambda error: None,
) -> Iterator[RunRecords]:
    """Compute the cases in turn, and yield their records in parts of `SEND_SECONDS` or `SEND_BYTES`.

    If a run raises an exception, call `raised` and store the exception in its record.  Exceptions in `through` end the
    batch.  The iterator ends early if this process cannot compute the next run.
    """
    method, process, code = load_method(batch.spec), os.getpid(), batch.spec.method
    read_versions()  # before the runs, which may use all file descriptors
    threads = _find_libraries(len(sys.modules)).limit(limits=max(1, batch.needs.cores))
    imports = code.enable_imports() if isinstance(code, UserCode) else nullcontext()  # once for all runs
    rows, size, end = list[_Row](), 0, time.monotonic() + SEND_SECONDS
    with threads, np.errstate(all="ignore"), isolate_global_draws() as seed_draws, imports:
        for number, (key, values) in enumerate(batch.cases):
            status, message, record = Status.ok, "", None
            seed_draws(key)
            if surroundings.state is not None:
                STATE.pack_into(surroundings.state, 0, number, time.monotonic())
            stages.start(number)
            begin_run(key, values, batch.folder)
            try:
                try:
                    record = add_trajectory(method.bind(values).run(stages))
                finally:
                    # a process that the run has forked must not return records
                    if os.getpid() != process:
                        os._exit(0)
            except BaseException as error:  # the record of a run has its failure
                if isinstance(error, through):
                    surroundings.end()
                    raise
                if batch.strict and isinstance(error, ReturnError):
                    raise StudyError(
                        f"{str(error).removesuffix('.')}. No result was written. To see the output of one case, run "
                        "`evogt try STUDY.toml`."
                    ) from error
                status = Status.diverged if isinstance(error, DivergedError) else Status.failed
                message = describe_error(error)
                raised(error)
            finally:
                end_run()
            seconds = stages.measure_own_seconds()
            output = surroundings.end()
            rows.append((status, message and add_last_lines(message, output), record, output, seconds))
            size += record.size if record else 0
            is_last = number + 1 == len(batch.cases) or not surroundings.is_usable()
            if is_last or time.monotonic() > end or size > SEND_BYTES:
                shares, first = stages.divide_seconds(), number + 1 - len(rows)
                stages.begin_batch()  # after `divide_seconds`, because each part has its own times
                rows = [(*row[:4], row[4] + shares.get(at, 0.0)) for at, row in enumerate(rows, first)]
                yield make_records([key for key, _ in batch.cases[first : number + 1]], rows)
                if is_last:
                    return
                rows, size, end = [], 0, time.monotonic() + SEND_SECONDS


@lru_cache(maxsize=1)  # a search takes 2 ms
def _find_libraries(modules: int) -> ThreadpoolController:
    """Return the loaded BLAS and OpenMP libraries.  Search again if the number of `modules` has changed."""
    return ThreadpoolController()


def make_records(keys: Sequence[str], rows: list[_Row], attempts: int = 1) -> RunRecords:
    """Return the records of runs, which include the software versions of this process."""
    rows, stacks = _stack(rows)
    columns: Any = zip(*rows, strict=True)
    status, messages, records, outputs, seconds = columns
    return RunRecords(
        keys=tuple(keys),
        status=np.array(status, dtype=np.int8),
        messages=messages,
        outputs=outputs if any(outputs) else (),
        wall_seconds=np.array(seconds),
        attempts=np.full(len(rows), attempts, dtype=np.int32),
        software=(read_versions(),) * len(rows),
        stacks=stacks,
        left_out=tuple(sorted({part for record in records if record for part in record.left_out})),
    )


def _stack(rows: list[_Row]) -> tuple[list[_Row], tuple[Stack, ...]]:
    """Return the rows and their stacked values.  A run whose values cannot be stacked gets the status failed."""
    try:
        return rows, stack_records([record for _, _, record, *_ in rows])
    except Exception as error:  # noqa: BLE001  # any error of NumPy
        if len(rows) > 1:
            parts = [_stack([row])[0][0] for row in rows]
            return parts, stack_records([record for _, _, record, *_ in parts])
        message = f"the return value of the function cannot be stored: {describe_error(error)}"
        return [(Status.failed, message, None, *rows[0][3:])], ()


def describe_error(error: BaseException) -> str:
    """Return type and text of an exception on one line of bounded length."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  # printing a user's exception may raise any exception
        text = "(it cannot be printed)"
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    line = f"{type(error).__name__}: {' '.join(text.split())}".rstrip(": ")
    line += f" ({' '.join('; '.join(notes).split())})" if notes else ""
    return cut(line.encode("utf-8", "replace").decode(), MAX_MESSAGE_CHARACTERS)  # a lone surrogate cannot be stored


def add_last_lines(message: str, output: str) -> str:
    """Return the message of a run with the last lines of its output."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    last = " | ".join([line for line in lines if line][-MAX_OUTPUT_LINES:])[-MAX_OUTPUT_CHARACTERS:]
    return cut(f"{message} (output: {last})", MAX_MESSAGE_CHARACTERS) if last else message


def compute_here(
    batch: Batch, stages: BoundedStageCache | None = None, raised: Callable[[BaseException], None] = lambda error: None
) -> RunRecords:
    """Compute a batch in this process, with visible output of the runs."""
    through = (KeyboardInterrupt, BdbQuit)  # Ctrl-C, or the end of a debugger session
    records = compute_batch(batch, stages or BoundedStageCache(), RunSurroundings(), through, raised)
    return concatenate_records(list(records))


# --- runners ----------------------------------------------------------------------------------------------------------


def serve_batches(link: int, state: int, lifeline: int) -> None:
    """Compute the batches that a runner receives, until `link` closes.  All arguments are file descriptors."""
    # if the supervisor closes the other end or dies, the kernel sends SIGIO, which ends this process and its programs
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    sys.stdout, sys.stderr = map(_open_stream, (1, 2))
    connection, stages, shared = Connection(link), BoundedStageCache(), mmap(state, STATE.size)
    surroundings = RunSurroundings()
    with suppress(EOFError, ConnectionError):
        while connection.poll(IDLE_SECONDS):
            message = pickle.loads(connection.recv_bytes())  # noqa: S301  # from the supervisor
            if not isinstance(message, Batch):
                sys.path[:], folder, environment = message  # of the supervisor
                os.chdir(folder)
                _replace_environment(environment)
                surroundings = RunSurroundings(shared, state)
                continue
            try:
                for records in compute_batch(message, stages, surroundings):
                    _send(link, len(records.keys), pack_records(records))
            except BaseException as error:  # noqa: BLE001  # no run of the study can be computed
                is_known, text = isinstance(error, EvogtError), f"a batch cannot be computed: {describe_error(error)}"
                _send(link, FATAL, error if is_known else SweepError(text))
            STATE.pack_into(shared, 0, -1, 0.0)
            if not surroundings.is_usable():
                os._exit(os.EX_OSERR)  # this process can no longer open files
            os.write(link, HEAD.pack(DONE, 0))


def _send(link: int, count: int, value: object) -> None:
    parts = dump(value)
    for part in (HEAD.pack(count, sum(map(len, parts))), *parts):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(link, rest) :]
