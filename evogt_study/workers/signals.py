"""Convert SIGTERM, SIGHUP and the time limit to KeyboardInterrupt with a reason."""

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

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_REPEAT_SECONDS = 0.05  # seconds until a signal is sent again if it could not interrupt the main thread


@contextmanager
def handle_signals(time_limit: str | None = None, *, waits: bool = False) -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt in the body on SIGTERM or SIGHUP, and at the end of `time_limit`.

    With `waits`, the first signal acts only when the body calls the yielded function.  A second signal acts at once.
    Use this context manager in the main thread.  Raises InputError if `time_limit` is not a valid time.
    """
    limit, arrived = 0.0 if time_limit is None else parse_seconds(time_limit), list[int]()
    unit = " s" if re.fullmatch(r"[\d.]+", time_limit or "") else ""  # and not for H:M:S
    reason = f"stopped at the time limit of {time_limit}{unit}"

    def check() -> None:
        if arrived:
            raise KeyboardInterrupt(reason if arrived[0] == signal.SIGALRM else "terminated")

    def handle(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        if not waits or len(arrived) > 1:
            check()

    # Python only prints an exception in finalisers, callbacks of weak references and functions after a fork
    def repeat(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            number = arrived.pop() if arrived else signal.SIGINT
            threading.Timer(_REPEAT_SECONDS, os.kill, (os.getpid(), number)).start()
        else:
            hook(unraisable)

    numbers = [signal.SIGTERM, *([signal.SIGALRM] if limit else [])]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores SIGHUP
        numbers.append(signal.SIGHUP)
    before: dict[signal.Signals, Any] = {number: signal.signal(number, handle) for number in numbers}
    hook, sys.unraisablehook = sys.unraisablehook, repeat
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield check
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # first, because the default handler of an alarm ends the process
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


# at most 1e9 s (30 years), because setitimer has an upper limit
def parse_seconds(text: str, option: str = "--time-limit") -> float:
    """Convert a number of seconds, a time with units, or H:M:S to seconds.

    >>> parse_seconds("90"), parse_seconds("11h30m"), parse_seconds("1:30:00")
    (90.0, 41400.0, 5400.0)
    """
    total = 0.0
    if re.fullmatch(r"\d+(:\d+){1,2}", text):
        total = sum(float(part) * 60.0**power for power, part in enumerate(reversed(text.split(":"))))
    elif re.fullmatch(r"\d+(\.\d+)?|(\d+(\.\d+)?[dhms])+", text):
        total = sum(float(number) * _UNITS[unit or "s"] for number, unit in re.findall(r"([\d.]+)([dhms]?)", text))
    if not 0.0 < total < 1e9:
        raise InputError(f"`{option}` must be a time such as 90, 30m, 11h30m, 2d or 1:30:00, got {text!r}")
    return total
