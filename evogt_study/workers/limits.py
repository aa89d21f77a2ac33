"""Limit the number of failed runs and the time of a run.

A run over its time limit gets an exception at its next step in Python.  Compiled code may not return for long.  Then
the whole process ends, and the sweep isolates the run that did it.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TypeVar

from evogt_study.errors import InputError, TimedOutError, shortened

T = TypeVar("T")
WORKER_SECONDS = 60
"""Seconds without a worker after which a study stops.  A nanny starts a new worker within 30 s on a busy machine."""
GRACE_SECONDS = 30.0
"""Seconds between the exception and the end of the process.  A factorisation of some thousand unknowns takes less."""
EXIT_CODE = 124  # as timeout(1)


@dataclass(frozen=True)
class Limits:
    """Limits of a study; None means no limit.

    run_seconds: time limit of each run.  failures: number of failed runs before the study stops.  worker_seconds:
    longest time without a worker; None if another part of the program limits it.  Raises InputError for other values.
    """

    run_seconds: float | None = None
    failures: int | None = None
    worker_seconds: int | None = WORKER_SECONDS

    def __post_init__(self) -> None:
        seconds, failures = self.run_seconds, self.failures
        if seconds is not None and not (is_number(seconds, Real) and 0.0 < seconds < math.inf):
            raise InputError(
                f"`run_seconds` (--run-limit) must be a finite number of seconds > 0, got {shortened(seconds)}; "
                "leave it out for no limit"
            )
        if failures is not None and not (is_number(failures, Integral) and failures >= 0):
            raise InputError(
                f"`failures` (--max-failures) must be an integer >= 0, got {shortened(failures)}; "
                "leave it out for no limit"
            )


NO_LIMITS = Limits()


def is_number(value: object, kind: type) -> bool:
    """Return True for a number of this kind, but not for a boolean."""
    return isinstance(value, kind) and not isinstance(value, bool)


def limited(seconds: float | None, call: Callable[[], T]) -> T:
    """Return the value of `call`.  Raises TimedOutError if it takes longer than `seconds`; None is no limit.

    The exception may arrive between any two steps of this thread, so the outer `try` contains all steps until it is
    withdrawn.  A call that catches the exception has timed out too, whatever it returns or raises.
    """
    if seconds is None:
        return call()
    watch = _Watch(threading.get_ident(), min(seconds, threading.TIMEOUT_MAX))
    try:
        try:
            watch.start()
            return call()
        finally:
            watch.finish()
            watch.check()
    except _TimeUp:
        watch.finish()  # the exception may have arrived during the first call
        raise TimedOutError(f"over its time limit of {seconds:g} s") from None


class _TimeUp(BaseException):  # not an Exception, so that the handlers of a run do not catch it
    pass


# a thread for each run, since a run computes in a worker's thread, which receives no signals
class _Watch(threading.Thread):
    """Interrupts the thread `ident` after `seconds`, and ends the process `GRACE_SECONDS` later."""

    def __init__(self, ident: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self.target, self.seconds, self.done = ident, seconds, threading.Event()
        self.fired = False

    def run(self) -> None:
        """Wait for the end of the body, or of the time."""
        if self.done.wait(self.seconds):
            return
        self.fired = True
        _raise_in(self.target, _TimeUp)
        if not self.done.wait(GRACE_SECONDS):
            os._exit(EXIT_CODE)  # no clean-up, since the thread that would do it does not return

    def finish(self) -> None:
        """Stop watching, and withdraw an exception that has not been raised yet."""
        self.done.set()
        if self.ident is not None:
            self.join()
        _raise_in(self.target, None)

    def check(self) -> None:
        """Raise the exception here if the time was up and the body has caught it."""
        if self.fired:
            raise _TimeUp


# ctypes: CPython can interrupt another thread, but has no Python function for it
def _raise_in(ident: int, exception: type[BaseException] | None) -> None:
    """Have the interpreter raise `exception` in a thread of this process; None withdraws one not raised yet."""
    wanted = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), wanted)
