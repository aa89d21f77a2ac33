"""A batch: cases that share stages, computed in one call on a worker.  Nothing here knows Dask or NetCDF.

Only text and scalars come in, so a case's result depends on nothing but the case: not on the batch it is in, the order,
or the worker.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache, partial
from multiprocessing import parent_process
from typing import Any

import numpy as np
import numpy.typing as npt
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
from evogt_study.results.provenance import package_code, software_set
from evogt_study.schema.records import Case, Datum, Record, RunRecords, Stack
from evogt_study.schema.values import Value, Values
from evogt_study.schema.variables import Status
from evogt_study.workers.limits import limited
from evogt_study.workers.stage_cache import StageCache

NEEDED = 8
"""Descriptors that a worker needs at once: connections, some of which are opened while others are."""
EXIT_CODE = 71  # EX_OSERR of sysexits.h


def end_without_handles() -> None:
    """End a worker that has no file descriptors left, so that its nanny starts another one.

    Raises LostBatchError in a process that nobody started as a worker, which is not ours to end.
    """
    if _are_left():
        return
    if parent_process() is not None:
        os._exit(EXIT_CODE)
    raise LostBatchError("no file descriptors are left in the worker's process")


# tried, not counted: limits are of the process, of its user and of the machine, and opening is subject to all of them
def _are_left() -> bool:
    with ExitStack() as stack:
        try:
            for _ in range(NEEDED):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return False
    return True


# some lines of a terminal; a message is held for each of a million runs, and its width is that of a field in the file
MESSAGE_LIMIT = 500

LEAVE_AT = "EVOGT_LEAVE_AT"
"""Environment variable of a worker whose process ends by itself, with the time (in seconds since 1970) at which it is
to have handed over all that it computes."""
LEAVING_SECONDS = 1.0
"""Between the last batch of such a worker and its leave: four of the command's rounds."""


@dataclass(frozen=True)
class Batch:
    """Cases as sent to a worker: what they have in `common`, and of each, `packed`, its key and its other parameters.

    They are packed because a scheduler would unpack and pack every value that it passes on.  Bytes pass as they are.

    strict: that a run returns what cannot be stored is the study's mistake, not that run's.  seconds: what the cases
    are expected to take together; 0 where that is not known.
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
        """The cases' keys, and the parameters that are not common to them."""
        unpacked: list[tuple[str, dict[str, Value]]] = pickle.loads(self.packed)  # noqa: S301  # packed above
        return unpacked


def _same(one: Value | None, other: Value) -> bool:
    """Return True where two values are one, 1 and true being two; most that are equal are the same object."""
    return one is other or repr(one) == repr(other)


def run_batch(batch: Batch) -> RunRecords:
    """Compute the cases in turn, with one BLAS thread; a case that raises is recorded and the rest go on.

    Raises SweepError on a worker that has other code of this package, since its numbers may be others; LeavingError on
    one that has not the time for this batch, though it had for the one before; LostBatchError where what a run did to
    its process keeps all of them from being handed over; StudyError where the batch is strict.
    """
    if batch.code != package_code():  # before anything is unpacked, which may not be possible with other code
        raise SweepError(
            f"a worker has evogt-study {package_code()}, and this is {batch.code}: install the same on both"
        )
    _check_time_left(batch.seconds)
    try:
        return computed(batch, _stages(), _refused if batch.strict else lambda error: None)
    except EvogtError:
        raise
    except Exception as error:
        raise LostBatchError(one_line(error)) from error
    finally:
        end_without_handles()


# what is too long for a whole job is tried all the same, else it would be handed from worker to worker for ever
def _check_time_left(seconds: float) -> None:
    """Raise LeavingError where the process is to leave within `seconds`, unless this is its first batch."""
    global _has_begun
    if _has_begun and time.time() + seconds > float(os.environ.get(LEAVE_AT, "inf")):
        # meanwhile what it has computed is fetched: of two that leave together Dask keeps the second with its results,
        # and one that is asked twice within a millisecond idles until its job is ended
        time.sleep(LEAVING_SECONDS)
        raise LeavingError("")
    _has_begun = True


_has_begun = False


def _refused(error: BaseException) -> None:
    if isinstance(error, ReturnError):
        raise StudyError(f"{error}; nothing was written, `evogt try STUDY.toml` shows what one case returns") from error


# One BLAS thread: two workers of two threads on two cores take 465 ms for an SVD of 8000 x 320, of one thread each
# 163 ms.  Floating-point warnings are off, since what is not finite is judged by its value.
def computed(batch: Batch, share: StageCache, raised: Callable[[BaseException], None]) -> RunRecords:
    """As `run_batch`, with these stages; `raised` is called with what a case raises."""
    method, cases = load_method(batch.spec), batch.cases
    software = software_set()  # before the runs, which may leave no file descriptor to read it with
    outcomes: list[tuple[Status, str, Record | None, float]] = []
    with _libraries(len(sys.modules)).limit(limits=1), np.errstate(all="ignore"):
        for number, (_, own) in enumerate(cases):
            status, message, record = Status.ok, "", None
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
    share.next_batch()  # after `shares`: costs are counted by batch
    return RunRecords(
        keys=tuple(key for key, _ in cases),
        status=np.array([status for status, *_ in outcomes], dtype=np.int8),
        messages=tuple(message for _, message, _, _ in outcomes),
        wall_seconds=np.array([seconds + shares.get(i, 0.0) for i, (*_, seconds) in enumerate(outcomes)]),
        attempts=np.ones(len(outcomes), dtype=np.int32),
        software=(software,) * len(outcomes),
        stacks=stacked([record for _, _, record, _ in outcomes]),
    )


@lru_cache(maxsize=1)  # looking for them takes 2 ms
def _libraries(modules: int) -> ThreadpoolController:
    """The BLAS and OpenMP libraries that are loaded, looked for again where the number of `modules` has changed."""
    return ThreadpoolController()


def _run(method: Method, values: Values, share: StageCache) -> Record:
    """Bind one case and compute it."""
    process = os.getpid()
    try:
        return method.bind(values).run(share)
    finally:
        # a process that the run forked and that comes back from it would hand over numbers in this one's name
        if os.getpid() != process:
            os._exit(0)


# by thread, since a cluster of the user's may have several in a worker, and stages are not made for two at once
_OF_THREAD = threading.local()


def _stages() -> StageCache:
    """The stages that this worker thread keeps from batch to batch: a reference is not solved for each of them."""
    if not hasattr(_OF_THREAD, "stages"):
        _OF_THREAD.stages = StageCache()
    stages: StageCache = _OF_THREAD.stages
    return stages


def _is_ctrl_c(error: BaseException) -> bool:
    """Return True where it may be the user's own: signals reach the main thread, in which workers compute nothing."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _fate(error: BaseException) -> Status:
    if isinstance(error, TimedOutError):
        return Status.timed_out
    return Status.diverged if isinstance(error, DivergedError) else Status.failed


def one_line(error: BaseException) -> str:
    """Type and text of an exception on one line of bounded length."""
    try:
        told = str(error)
    except BaseException:  # noqa: BLE001  # an exception of the user's own may fail even at this, and by any other
        told = "(it cannot be printed)"
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    line = f"{type(error).__name__}: {' '.join(told.split())}".rstrip(": ")
    line += f" ({' '.join('; '.join(notes).split())})" if notes else ""
    return cut(line.encode("utf-8", "replace").decode(), MESSAGE_LIMIT)  # half a character cannot be stored


def stacked(records: Sequence[Record | None]) -> tuple[Stack, ...]:
    """Variables and coordinates of the records, those with equal name, dimensions and kind in one array."""
    groups: dict[tuple[str, tuple[str, ...], bool, bool], list[tuple[int, Datum]]] = {}
    for row, record in enumerate(records):
        if record is None:
            continue
        for coordinate, data in ((False, record.variables), (True, record.coordinates)):
            for name, datum in data.items():
                group = (name, datum.dims, datum.values.dtype.kind == "U", coordinate)
                groups.setdefault(group, []).append((row, datum))
    return tuple(
        Stack(name, dims, np.array([row for row, _ in rows]), padded([datum.values for _, datum in rows]),
              dict(rows[0][1].attributes), coordinate)
        for (name, dims, _, coordinate), rows in groups.items()
    )  # fmt: skip


def padded(arrays: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Arrays of one rank in one array with a leading axis, filled with NaN (or "") where some are shorter."""
    arrays = list(arrays)
    shape = tuple(np.max([array.shape for array in arrays], axis=0)) if arrays[0].ndim else ()
    if all(array.shape == shape for array in arrays):
        return np.stack(arrays)
    dtype = np.result_type(*arrays)
    if dtype.kind != "U":
        dtype = np.result_type(dtype, np.float64)
    whole = np.full((len(arrays), *shape), "" if dtype.kind == "U" else np.nan, dtype=dtype)
    for row, array in enumerate(arrays):
        whole[row][tuple(slice(0, n) for n in array.shape)] = array
    return whole
