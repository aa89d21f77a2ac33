"""Turn Ctrl-C, SIGTERM, a closed terminal and the time limit of a command into KeyboardInterrupt in the main thread.

Its text is the reason.  One path then closes the cluster and keeps the finished runs.  While a cluster starts, signals
wait.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from evogt_study.errors import InputError

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
AGAIN_SECONDS = 0.05
"""Seconds after which a signal is sent again that came at a moment at which it cannot act."""
# SIGINT as Ctrl-C sends it, SIGTERM as batch systems do, SIGHUP as a terminal that closes, SIGALRM of the command's own
# time limit
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@contextmanager
def interruptible(time_limit: str | None = None) -> Iterator[None]:
    """Raise KeyboardInterrupt in the body on SIGTERM or SIGHUP, and `time_limit` after its beginning.

    For the main thread.

    Raises InputError for what is no time.
    """
    limit = None if time_limit is None else seconds(time_limit)

    def raised(number: int, frame: FrameType | None) -> None:
        raise _Ended(number, time_limit)

    with _handled(raised, limit):
        yield


@contextmanager
def winding_down(time_limit: str | None = None) -> Iterator[Callable[[], None]]:
    """Note SIGTERM or SIGHUP, and `time_limit` after the beginning, in the body; a second raises KeyboardInterrupt.

    Gives a function that raises KeyboardInterrupt once either has come, for the body to call where it can end.
    """
    limit = None if time_limit is None else seconds(time_limit)
    come: list[int] = []

    def noted(number: int, frame: FrameType | None) -> None:
        if come:
            raise _Ended(number, time_limit)
        come.append(number)

    def check() -> None:
        if come:
            raise _Ended(come[0], time_limit)

    with _handled(noted, limit):
        yield check


class _Ended(KeyboardInterrupt):
    """What the signal `number` raises, with the reason as its text."""

    def __init__(self, number: int, time_limit: str | None) -> None:
        super().__init__(f"stopped at the time limit of {time_limit}" if number == signal.SIGALRM else "terminated")
        self.number = number


# of finalisers, callbacks of weak references, functions that run after a fork: Python prints it and goes on
@contextmanager
def _sent_again() -> Iterator[None]:
    """Send a signal again, in the body, whose KeyboardInterrupt came where Python ignores what is raised."""
    before = sys.unraisablehook

    def ignored(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            number = getattr(unraisable.exc_value, "number", signal.SIGINT)
            threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()
        else:
            before(unraisable)

    sys.unraisablehook = ignored
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None], limit: float | None) -> Iterator[None]:
    """Handle SIGTERM and SIGHUP, and SIGALRM `limit` seconds after the beginning, in the body."""
    before: dict[signal.Signals, Any] = {signal.SIGTERM: signal.signal(signal.SIGTERM, handler)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, handler)
    if limit is not None:
        before[signal.SIGALRM] = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        with _sent_again():
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # first, so that no alarm meets the default handler, which kills
        for number, handler in before.items():
            signal.signal(number, handler)


# Only the first of several is handed on: a second would interrupt the closing that the first one begins.
# in other threads Python runs no handlers, so that there is nothing to hold back
@contextmanager
def deferred() -> Iterator[None]:
    """Hold back what would end the body half done, and let it act at the body's end; in other threads nothing does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    before = {number: signal.signal(number, lambda *signalled: arrived.append(signalled)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrival, frame in arrived[:1]:
            handler = before[signal.Signals(arrival)]
            if callable(handler):
                handler(arrival, frame)
            else:
                signal.raise_signal(arrival)


# At most 1e9 s, which are 30 years: setitimer takes no more than the time of the system can hold.
def seconds(text: str, option: str = "--time-limit") -> float:
    """A time, which was given to `option`, as a number of seconds, with units, or as H:M:S.

    >>> seconds("90"), seconds("11h30m"), seconds("1:30:00")
    (90.0, 41400.0, 5400.0)
    """
    if re.fullmatch(r"\d+(:\d+){1,2}", text):
        parts = [float(part) for part in text.split(":")]
        total = sum(part * 60.0**power for power, part in enumerate(reversed(parts)))
    elif re.fullmatch(r"\d+(\.\d+)?", text):
        total = float(text)
    elif re.fullmatch(r"(\d+(\.\d+)?[dhms])+", text):
        total = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([dhms])", text))
    else:
        total = 0.0
    if not 0.0 < total < 1e9:
        raise InputError(f"`{option}` must be a time such as 90, 30m, 11h30m, 2d or 1:30:00, got {text!r}")
    return total
