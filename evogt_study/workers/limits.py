"""Limits at which a run, or a study, ends early; that of time is held inside the process that computes the run.

A run that is over its limit gets an exception at its next step in Python.  Compiled code that does not return for long
after that cannot be stopped from inside: then the whole process ends, and the sweep isolates the run that did it.
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

WORKER_SECONDS = 60
"""Seconds without a worker after which a study stops: a nanny starts another in seconds, on busy machines in 30."""
GRACE_SECONDS = 30.0
"""Seconds after the exception, before the process ends: a factorisation of some thousand unknowns takes less."""
EXIT_CODE = 124  # that of timeout(1)


T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """run_seconds: time limit of each run; failures: how many runs may fail before the study stops.  None: no limit.

    worker_seconds: how long a study may be without a worker; None where whoever keeps the workers sees to that.  Raises
    InputError for what is no limit.
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


def is_number(value: object, kind: type) -> bool:
    """True of a number of this kind; a truth value is none."""
    return isinstance(value, kind) and not isinstance(value, bool)


NO_LIMITS = Limits()


class _TimeUp(BaseException):  # no Exception: a run's own handlers are not meant for it
    pass


def limited(seconds: float | None, call: Callable[[], T]) -> T:
    """Return what `call` returns.  Raises TimedOutError where it takes longer than `seconds`; None is no limit.

    The exception arrives between any two steps of this thread; all of them, to the one that calls it back, are inside
    the outer `try`.  A call that catches it is late all the same, whatever it returns or raises.
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
        watch.finish()  # it may have come while this was being done
        raise TimedOutError(f"over its time limit of {seconds:g} s") from None


# a thread of its own for each run, since a run computes in a worker's thread, where signals and alarms do not arrive
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
            os._exit(EXIT_CODE)  # no clean-up: the thread that would do it is the one that does not come back

    def finish(self) -> None:
        """The body is done; an exception that is still on its way is called back."""
        self.done.set()
        if self.ident is not None:
            self.join()
        _raise_in(self.target, None)

    def check(self) -> None:
        """Raise the exception here where the time was up, and the body has caught it."""
        if self.fired:
            raise _TimeUp


# ctypes: CPython has this for one thread to interrupt another, and no Python function for it
def _raise_in(ident: int, exception: type[BaseException] | None) -> None:
    """Have the interpreter raise `exception` in a thread of this process; None withdraws one not raised yet."""
    wanted = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), wanted)
