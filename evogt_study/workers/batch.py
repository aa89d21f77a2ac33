"""Compute the cases of a batch in one process.

Cases of a batch may share stages.  The result of a case depends only on its method and its parameters, not on the
batch, the order or the process.  This module uses neither Dask nor NetCDF.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from bdb import BdbQuit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from evogt_study.errors import DivergedError, ReturnError, StudyError, cut
from evogt_study.methods.code import MethodSpec, UserCode
from evogt_study.methods.current_run import add_trajectory, begin_run, end_run, isolate_global_draws
from evogt_study.methods.loading import load_method
from evogt_study.methods.protocol import Method
from evogt_study.results.provenance import read_versions
from evogt_study.schema.records import Case, Needs, Record, RunRecords, Stack, concatenate_records, stack_records
from evogt_study.schema.values import Value
from evogt_study.schema.variables import Status
from evogt_study.workers.stage_cache import BoundedStageCache

SEND_SECONDS = 0.25
"""Seconds of work after which a process sends its finished runs.  A crash loses at most this work."""
SEND_BYTES = 8 * 2**20
"""Bytes of values after which a process sends its finished runs."""
MESSAGE_LIMIT = 500
"""Largest number of characters in a message.  The longest message determines the width of a field in the file."""
LINES, CHARACTERS = 4, 240
"""Number of last output lines, and of their characters, in the message of a failed run, which often show the reason."""


_Row = tuple[Status, str, Record | None, str, float]
"""Status, message, record, output and seconds of a run."""
_ABSENT = object()


@dataclass(frozen=True)
class Batch:
    """Cases for a worker, with their common parameters, and in `packed` the run key and other parameters of each case.

    A scheduler passes on bytes unchanged, but would unpack and pack other values.

    With `strict`, a return value that cannot be stored is an error of the study, not of the run.  `folder` is the place
    of the folders and checkpoints of the runs, or "".  `needs` has the resources of each run.
    """

    spec: MethodSpec
    common: Mapping[str, Value]
    packed: bytes
    needs: Needs
    strict: bool = False
    folder: str = ""

    @staticmethod
    def of(spec: MethodSpec, cases: Sequence[Case], *, strict: bool = False, folder: str = "") -> Batch:
        """Return a batch of cases with equal needs."""
        # most equal values are one object; 1 and true are equal, and differ
        common = {}
        for name, value in cases[0].values.items():
            others = (case.values.get(name, _ABSENT) for case in cases)
            if all(other is value or repr(other) == repr(value) for other in others):
                common[name] = value
        packed = [
            (case.key, {name: value for name, value in case.values.items() if name not in common}) for case in cases
        ]
        return Batch(spec, common, pickle.dumps(packed), cases[0].needs, strict, folder)

    @property
    def cases(self) -> list[tuple[str, dict[str, Value]]]:
        """Run key and parameters of each case, without the common parameters."""
        unpacked: list[tuple[str, dict[str, Value]]] = pickle.loads(self.packed)  # noqa: S301  # packed above
        return unpacked

    def with_cases(self, cases: Sequence[tuple[str, dict[str, Value]]]) -> Batch:
        """Return a copy of the batch with only these cases."""
        return replace(self, packed=pickle.dumps(list(cases)))


def replace_environment(environment: Mapping[str, str]) -> None:
    """Replace all environment variables of this process."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


class Surroundings:
    """Working folder and environment of this process, to restore after each run."""

    through: tuple[type[BaseException], ...] = ()
    """Exceptions that end the batch, such as Ctrl-C or the end of a debugger session."""

    def __init__(self, raised: Callable[[BaseException], None] = lambda error: None) -> None:
        self.folder, self.environment, self.raised = os.getcwd(), dict(os.environ), raised
        # compared in 1 us; a comparison with the mapping itself takes 40, as long as a trivial run
        self.environment_data: dict[Any, Any] = vars(os.environ)["_data"]
        self.environment_before = dict(self.environment_data)

    def begin(self, number: int) -> None:
        """Begin the run of case `number` of the batch."""

    def end(self) -> str:
        """End a run, and return its output."""
        try:
            has_moved = os.getcwd() != self.folder
        except FileNotFoundError:  # the run has removed it
            has_moved = True
        if has_moved:
            os.chdir(self.folder)
        if self.environment_data != self.environment_before:
            replace_environment(self.environment)
        return ""

    def is_usable(self) -> bool:
        """Return True if the next run can be computed in this process."""
        return True


def compute_batch(batch: Batch, stages: BoundedStageCache, surroundings: Surroundings) -> Iterator[RunRecords]:
    """Compute the cases in turn, with one BLAS thread, and yield their records in parts.

    If a case raises an exception, its record contains the exception, and the next case follows.  The iterator ends
    early if this process cannot compute the next run.  Raises StudyError if the batch is strict and a return value
    cannot be stored.
    """
    method, cases, start = load_method(batch.spec), batch.cases, 0
    while start < len(cases):
        records = _compute_part(batch, method, cases, start, stages, surroundings)
        yield records
        start += len(records.keys)
        if not surroundings.is_usable():
            return


# Floating-point warnings are off, since a value that is not finite shows itself.  One BLAS thread: on two cores, an SVD
# of 8000 x 320 takes two workers 163 ms with one thread each, 465 ms with two.
def _compute_part(
    batch: Batch,
    method: Method,
    cases: Sequence[tuple[str, dict[str, Value]]],
    start: int,
    stages: BoundedStageCache,
    surroundings: Surroundings,
) -> RunRecords:
    """Compute the cases from number `start` on, until `SEND_SECONDS` or `SEND_BYTES` are reached."""
    read_versions()  # before the runs, which may leave no file descriptor to read them with
    rows, process = list[_Row](), os.getpid()
    end, size = time.monotonic() + SEND_SECONDS, 0
    threads = _libraries(len(sys.modules)).limit(limits=max(1, batch.needs.cores))
    code = batch.spec.method
    imports = code.enable_imports() if isinstance(code, UserCode) else nullcontext()  # once: each run would do it
    with threads, np.errstate(all="ignore"), isolate_global_draws() as seed_draws, imports:
        for number, (key, own) in enumerate(cases[start:]):
            status, message, record = Status.ok, "", None
            seed_draws(key)
            surroundings.begin(start + number)
            stages.start(number)
            values = {**batch.common, **own}
            begin_run(key, values, batch.folder)
            try:
                try:
                    record = add_trajectory(method.bind(values).run(stages))
                finally:
                    # a process that the run forked must not return records in place of this one
                    if os.getpid() != process:
                        os._exit(0)
            except BaseException as error:  # any failure of a run is that run's data
                if isinstance(error, surroundings.through):
                    surroundings.end()
                    raise
                if batch.strict and isinstance(error, ReturnError):
                    raise StudyError(
                        f"{str(error).removesuffix('.')}. No result was written. To see the output of one case, run "
                        "`evogt try STUDY.toml`."
                    ) from error
                status = Status.diverged if isinstance(error, DivergedError) else Status.failed
                message = describe_error(error)
                surroundings.raised(error)
            finally:
                end_run()
            seconds = stages.own_seconds()
            output = surroundings.end()
            if message:
                message = add_last_lines(message, output)
            rows.append((status, message, record, output, seconds))
            size += record.size if record else 0
            if time.monotonic() > end or size > SEND_BYTES or not surroundings.is_usable():
                break
    shares = stages.shares()
    stages.next_batch()  # after `shares`: costs are counted by part
    rows = [(*row[:4], row[4] + shares.get(number, 0.0)) for number, row in enumerate(rows)]
    return make_records([key for key, _ in cases[start : start + len(rows)]], rows)


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
    except Exception as error:  # noqa: BLE001  # whatever NumPy raises
        if len(rows) > 1:
            parts = [_stack([row])[0][0] for row in rows]
            return parts, stack_records([record for _, _, record, *_ in parts])
        message = f"the return value of the function cannot be stored: {describe_error(error)}"
        return [(Status.failed, message, None, *rows[0][3:])], ()


def compute_here(
    batch: Batch, stages: BoundedStageCache | None = None, raised: Callable[[BaseException], None] = lambda error: None
) -> RunRecords:
    """Compute a batch in this process, as `compute_batch` does, and show the output of the runs."""
    surroundings = Surroundings(raised)
    surroundings.through = (KeyboardInterrupt, BdbQuit)
    return concatenate_records(list(compute_batch(batch, stages or BoundedStageCache(), surroundings)))


@lru_cache(maxsize=1)  # looking for them takes 2 ms
def _libraries(modules: int) -> ThreadpoolController:
    """Return the loaded BLAS and OpenMP libraries.  Search again if the number of `modules` has changed."""
    return ThreadpoolController()


def describe_error(error: BaseException) -> str:
    """Return type and text of an exception on one line of bounded length."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  # printing an exception of the user may raise any other
        text = "(it cannot be printed)"
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    line = f"{type(error).__name__}: {' '.join(text.split())}".rstrip(": ")
    line += f" ({' '.join('; '.join(notes).split())})" if notes else ""
    return cut(line.encode("utf-8", "replace").decode(), MESSAGE_LIMIT)  # half a character cannot be stored


def add_last_lines(message: str, output: str) -> str:
    """Return the message of a run with the last lines of its output."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    last = " | ".join([line for line in lines if line][-LINES:])[-CHARACTERS:]
    return cut(f"{message} (output: {last})", MESSAGE_LIMIT) if last else message
