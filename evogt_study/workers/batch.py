"""Compute a batch: cases that share stages, in one call on a worker.

A batch contains only text and scalars.  The result of a case depends on nothing else: not on its batch, the order or
the worker.  This module knows neither Dask nor NetCDF.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache, partial
from multiprocessing import parent_process

import numpy as np
from threadpoolctl import ThreadpoolController

from evogt_study.errors import (
    DivergedError,
    EvogtError,
    LeavingError,
    LostBatchError,
    ReturnError,
    StudyError,
    SweepError,
    TimedOutError,
    cut,
)
from evogt_study.methods.loading import load_method
from evogt_study.methods.protocol import Method, MethodSpec
from evogt_study.methods.streams import isolate_global_draws
from evogt_study.results.index import pack_records
from evogt_study.results.provenance import package_code, software_set
from evogt_study.schema.records import Case, Record, RunRecords, stacked
from evogt_study.schema.values import Value, Values
from evogt_study.schema.variables import Status
from evogt_study.workers.limits import limited
from evogt_study.workers.stage_cache import StageCache

NEEDED = 8
"""File descriptors that a worker needs at the same time, for its connections."""
EXIT_CODE = 71  # EX_OSERR of sysexits.h
# a few lines of a terminal; the longest message decides the width of a field in the file
MESSAGE_LIMIT = 500
LEAVE_AT = "EVOGT_LEAVE_AT"
"""Environment variable with the time (seconds since 1970) at which a worker must have returned all of its results."""
LEAVING_SECONDS = 1.0
"""Seconds between the last batch of such a worker and its end: four rounds of the command."""
_has_begun = False
# by thread, since a worker of the user's cluster may have several threads, and stages are not thread-safe
_OF_THREAD = threading.local()


@dataclass(frozen=True)
class Batch:
    """Cases as sent to a worker: the parameters in `common`, and `packed`, the key and other parameters of each case.

    They are packed, since a scheduler would unpack and pack every value that it passes on, but not bytes.

    strict: a run that returns what cannot be stored is an error of the study, not of the run.  seconds: expected time
    of all cases; 0 if unknown.
    """

    spec: MethodSpec
    common: Mapping[str, Value]
    packed: bytes
    run_seconds: float | None = None
    strict: bool = False
    seconds: float = 0.0
    code: str = field(default_factory=package_code)

    @staticmethod
    def of(
        spec: MethodSpec,
        cases: Sequence[Case],
        run_seconds: float | None = None,
        *,
        strict: bool = False,
        seconds: float = 0.0,
    ) -> Batch:
        """A batch of these cases, each with a time limit of `run_seconds`."""
        first = cases[0].values
        common = {
            name: value for name, value in first.items() if all(_same(case.values.get(name), value) for case in cases)
        }
        own = [(case.key, {name: value for name, value in case.values.items() if name not in common}) for case in cases]
        return Batch(spec, common, pickle.dumps(own), run_seconds, strict, seconds)

    @property
    def cases(self) -> list[tuple[str, dict[str, Value]]]:
        """The keys of the cases, and their parameters that are not common."""
        unpacked: list[tuple[str, dict[str, Value]]] = pickle.loads(self.packed)  # noqa: S301  # packed above
        return unpacked


def _same(one: Value | None, other: Value) -> bool:
    """Return True for equal values of one type, since 1 and true differ; most equal values are one object."""
    return one is other or repr(one) == repr(other)


def run_batch(batch: Batch) -> RunRecords:
    """Compute the cases in turn, with one BLAS thread.  An exception of a case is recorded, and the others go on.

    Raises SweepError if the worker has another version of this package; LeavingError if the worker has no time left
    for this batch, unless it is its first; LostBatchError if a run has left its process unable to return the records;
    StudyError if the batch is strict and a run returns what cannot be stored.
    """
    if batch.code != package_code():  # before anything is unpacked, which may not be possible with other code
        raise SweepError(
            f"a worker has evogt-study {package_code()}, and this is {batch.code}: install the same on both"
        )
    _check_time_left(batch.seconds)
    try:
        return pack_records(computed(batch, _stages(), _refused if batch.strict else lambda error: None))
    except EvogtError:
        raise
    except Exception as error:
        raise LostBatchError(one_line(error)) from error
    finally:
        end_without_handles()


def run_on_worker(batch: Batch) -> RunRecords:
    """As `run_batch`; a worker that leaves says who it is."""
    try:
        return run_batch(batch)
    except LeavingError:
        from distributed import get_worker  # which a Dask worker has imported

        raise LeavingError(str(get_worker().address)) from None


# a first batch is always tried, since a batch too long for a whole job would pass from worker to worker without end
def _check_time_left(seconds: float) -> None:
    """Raise LeavingError if the process is to end within `seconds`, unless this is its first batch."""
    global _has_begun
    if _has_begun and time.time() + seconds > float(os.environ.get(LEAVE_AT, "inf")):
        # meanwhile what it has computed is fetched: of two that leave together Dask keeps the second with its results,
        # and one that is asked twice within a millisecond idles until its job is ended
        time.sleep(LEAVING_SECONDS)
        raise LeavingError("")
    _has_begun = True


def _refused(error: BaseException) -> None:
    if isinstance(error, ReturnError):
        raise StudyError(f"{error}; nothing was written, `evogt try STUDY.toml` shows what one case returns") from error


# One BLAS thread: on two cores, an SVD of 8000 x 320 takes two workers 163 ms with one thread each, 465 ms with two.
# Floating-point warnings are off, since a value that is not finite shows itself.
def computed(batch: Batch, share: StageCache, raised: Callable[[BaseException], None]) -> RunRecords:
    """Compute as `run_batch`, with these stages; `raised` is called with each exception of a case."""
    method, cases = load_method(batch.spec), batch.cases
    software = software_set()  # before the runs, which may leave no file descriptor to read it with
    outcomes: list[tuple[Status, str, Record | None, float]] = []
    with _libraries(len(sys.modules)).limit(limits=1), np.errstate(all="ignore"), isolate_global_draws() as seed_draws:
        for number, (key, own) in enumerate(cases):
            status, message, record = Status.ok, "", None
            seed_draws(key)
            share.start(number)
            try:
                values = {**batch.common, **own}
                record = limited(batch.run_seconds, partial(_run, method, values, share))
            except BaseException as error:  # any failure of a run is that run's data
                if _is_ctrl_c(error):
                    raise
                status, message = _fate(error), one_line(error)
                raised(error)
            outcomes.append((status, message, record, share.own_seconds()))
    shares = share.shares()
    records = [record for _, _, record, _ in outcomes]
    share.next_batch()  # after `shares`: costs are counted by batch
    return RunRecords(
        keys=tuple(key for key, _ in cases),
        status=np.array([status for status, *_ in outcomes], dtype=np.int8),
        messages=tuple(message for _, message, _, _ in outcomes),
        wall_seconds=np.array([seconds + shares.get(i, 0.0) for i, (*_, seconds) in enumerate(outcomes)]),
        attempts=np.ones(len(outcomes), dtype=np.int32),
        software=(software,) * len(outcomes),
        stacks=stacked(records),
        left_out=tuple(sorted({part for record in records if record for part in record.left_out})),
    )


@lru_cache(maxsize=1)  # looking for them takes 2 ms
def _libraries(modules: int) -> ThreadpoolController:
    """The loaded BLAS and OpenMP libraries; they are searched again if the number of `modules` has changed."""
    return ThreadpoolController()


def _run(method: Method, values: Values, share: StageCache) -> Record:
    """Bind one case and compute it."""
    process = os.getpid()
    try:
        return method.bind(values).run(share)
    finally:
        # a process that the run forked must not return records in place of this one
        if os.getpid() != process:
            os._exit(0)


def _stages() -> StageCache:
    """The stages that this worker thread keeps between batches, so that a reference is solved once."""
    if not hasattr(_OF_THREAD, "stages"):
        _OF_THREAD.stages = StageCache()
    stages: StageCache = _OF_THREAD.stages
    return stages


def _is_ctrl_c(error: BaseException) -> bool:
    """Return True if the user may have pressed Ctrl-C: signals reach the main thread, where workers compute nothing."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _fate(error: BaseException) -> Status:
    if isinstance(error, TimedOutError):
        return Status.timed_out
    return Status.diverged if isinstance(error, DivergedError) else Status.failed


def one_line(error: BaseException) -> str:
    """Type and text of an exception on one line of bounded length."""
    try:
        told = str(error)
    except BaseException:  # noqa: BLE001  # printing an exception of the user may raise any other
        told = "(it cannot be printed)"
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    line = f"{type(error).__name__}: {' '.join(told.split())}".rstrip(": ")
    line += f" ({' '.join('; '.join(notes).split())})" if notes else ""
    return cut(line.encode("utf-8", "replace").decode(), MESSAGE_LIMIT)  # half a character cannot be stored


def end_without_handles() -> None:
    """End a worker that has no file descriptors left, so that its nanny starts another one.

    Raises LostBatchError in a process that was not started as a worker.
    """
    if _are_left():
        return
    if parent_process() is not None:
        os._exit(EXIT_CODE)
    raise LostBatchError("no file descriptors are left in the worker's process")


# tried, not counted, since the process, the user and the machine have limits
def _are_left() -> bool:
    with ExitStack() as stack:
        try:
            for _ in range(NEEDED):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return False
    return True
