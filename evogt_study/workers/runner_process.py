"""Receive batches and send records, inside the interpreter that computes runs.

A `evogt_study.workers.runner.Runner` starts this interpreter.  Its main thread computes all runs.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import sys
import time
from contextlib import suppress
from mmap import mmap
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

from evogt_study.errors import EvogtError, SweepError
from evogt_study.results.index import pack_records
from evogt_study.workers.batch import Batch, Surroundings, compute_batch, describe_error, replace_environment
from evogt_study.workers.runner import DONE, FATAL, HEAD, STATE, dump, take_output
from evogt_study.workers.stage_cache import BoundedStageCache

IDLE_SECONDS = 60.0
"""Seconds after which an interpreter ends if it receives no batch."""
MIN_DESCRIPTORS, CHECKED_RUNS = 8, 4
"""Number of file descriptors that a run needs, and number of runs after which the process tries to open them."""
EXIT_CODE = 71
"""Exit code of an interpreter that can no longer open files (EX_OSERR of sysexits.h)."""
OOM_SCORE = 500
"""Value of oom_score_adj for Linux.  If memory is short, Linux ends a run and not the study."""


class _Surroundings(Surroundings):
    """Surroundings of runs whose output goes to a file."""

    def __init__(self, state: mmap, descriptor: int) -> None:
        super().__init__()
        self.state, self.descriptor = state, descriptor
        self.output, self.streams = os.dup(1), [sys.stdout, sys.stderr]
        self.free, self.unchecked = (-1, (0, 0)), 0

    def begin(self, number: int) -> None:
        STATE.pack_into(self.state, 0, number, time.monotonic())

    def end(self) -> str:
        super().end()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        # a run may have closed or replaced them
        self.streams = [_open_stream(n) if each.closed else each for n, each in enumerate(self.streams, 1)]
        sys.stdout, sys.stderr = self.streams
        for number in (1, 2):
            os.dup2(self.output, number)
        return take_output(self.output)

    # all of them are tried if the lowest free number or the limit has changed: trying takes as long as a trivial run
    def is_usable(self) -> bool:
        """Return True if the next run can open files.  An earlier run may have used all file descriptors."""
        found = list[int]()
        try:
            found.append(os.dup(self.descriptor))
            free = found[0], resource.getrlimit(resource.RLIMIT_NOFILE)
            self.unchecked += 1
            if free != self.free or self.unchecked == CHECKED_RUNS:
                found += [os.dup(self.descriptor) for _ in range(MIN_DESCRIPTORS - 1)]
                self.free, self.unchecked = free, 0
        except OSError:
            return False
        finally:
            for number in found:
                os.close(number)
        return True


def _open_stream(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)


def serve(link: int, state: int, lifeline: int) -> None:
    """Compute the batches that the connection `link` receives, until the connection closes.

    All arguments are file descriptors.  `state` is the file of the shared `STATE`.  `lifeline` is a pipe whose other
    end the supervisor holds.
    """
    # the kernel ends this process and programs of its runs, by SIGIO, when the supervisor closes the other end or dies
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    sys.stdout, sys.stderr = map(_open_stream, (1, 2))
    connection, stages, shared = Connection(link), BoundedStageCache(), mmap(state, STATE.size)
    surroundings: _Surroundings | None = None
    with suppress(EOFError, ConnectionError):
        while connection.poll(IDLE_SECONDS):
            message = pickle.loads(connection.recv_bytes())  # noqa: S301  # from the supervisor
            if isinstance(message, Batch) and surroundings is not None:
                _compute(connection, message, surroundings, stages)
            else:
                sys.path[:], folder, environment = message  # of the supervisor
                os.chdir(folder)
                replace_environment(environment)
                surroundings = _Surroundings(shared, state)


def _compute(connection: Connection, batch: Batch, surroundings: _Surroundings, stages: BoundedStageCache) -> None:
    """Compute a batch and send its records."""
    try:
        for records in compute_batch(batch, stages, surroundings):
            _send(connection, len(records.keys), pack_records(records))
    except BaseException as error:  # noqa: BLE001  # it says that no run of the study can be computed
        known = (
            error
            if isinstance(error, EvogtError)
            else SweepError(f"a batch cannot be computed: {describe_error(error)}")
        )
        _send(connection, FATAL, known)
    STATE.pack_into(surroundings.state, 0, -1, 0.0)
    if not surroundings.is_usable():
        os._exit(EXIT_CODE)
    os.write(connection.fileno(), HEAD.pack(DONE, 0))


def _send(connection: Connection, count: int, value: object) -> None:
    parts = dump(value)
    for part in (HEAD.pack(count, sum(map(len, parts))), *parts):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(connection.fileno(), rest) :]
