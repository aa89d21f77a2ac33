"""A study that another process computes: who writes its result, whether it lives, and how far it has come.

The process that computes writes its latest event beside its shards, at most once a second; its lock says who it is.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evogt_study.errors import ResultError
from evogt_study.operations.progress import Event, Listener, duration, in_words
from evogt_study.storage.atomic import written_whole
from evogt_study.storage.lease import Writer, living, writer_of
from evogt_study.storage.paths import claims_folder, progress_file

WATCH_SECONDS = 1.0
"""Between two events that are written down: a person looks no oftener, and writing one takes 0.2 ms."""


def written_down(result: Path, listener: Listener | None) -> Listener:
    """Make a listener that writes events down beside the shards of `result`, and gives them to `listener`.

    Before the first run is finished nothing is written: a result that is complete needs no folder.
    """
    path, last = progress_file(result), float("-inf")

    def listen(event: Event) -> None:
        nonlocal last
        now = time.monotonic()
        if event.done and not event.final and now - last >= WATCH_SECONDS:
            last = now
            with suppress(OSError, ResultError), written_whole(path) as temporary:  # a full disk is found by others
                temporary.write_text(json.dumps({"process": os.getpid(), "at": time.time(), "event": asdict(event)}))
        if listener is not None:
            listener(event)

    return listen


@dataclass(frozen=True)
class Computation:
    """Computation of a result that is not finished: its writer, if any is left to see, and its latest event.

    age: seconds since that event.  parts: those that tasks of `evogt work` hold.
    """

    writer: Writer | None
    event: Event | None
    age: float
    parts: int = 0

    @property
    def runs(self) -> bool:
        """True while a process computes it."""
        return self.parts > 0 or (self.writer is not None and self.writer.lives)

    def described(self) -> str:
        """Describe it: "running: process 4711 on host since 2026-01-01T12:00:00Z; study: 12/60 runs, 0 failed"."""
        if self.parts:
            return f"running: tasks of `evogt work`, which hold {self.parts:,} parts"
        who = "" if self.writer is None else self.writer.described()
        if not self.runs:
            return f"not running{': ' + who if who else ''}; `evogt run` computes the rest"
        if self.event is None:
            return f"running: {who}; no run is finished yet"
        return f"running: {who}; {in_words(self.event)} ({duration(self.age)} ago)"


def computation_of(result: Path) -> Computation:
    """Look at the lock and the latest event of a result."""
    writer = writer_of(result)
    try:
        told = json.loads(progress_file(result).read_text())
        # an event of a process that was killed tells nothing of the one that goes on
        if writer is not None and str(told["process"]) == writer.process:
            return Computation(writer, _event(told["event"]), max(0.0, time.time() - told["at"]))
    except (OSError, ValueError, LookupError, TypeError, OverflowError):  # none yet, or that of another version
        pass
    return Computation(writer, None, 0.0, living(claims_folder(result)))


def _event(told: Mapping[str, Any]) -> Event:
    """Make the event that a file tells of.  Raises ValueError, LookupError or TypeError where it tells of none."""
    reused, done, failed, total = (int(told[name]) for name in ("reused", "done", "failed", "total"))
    seconds = float(told["seconds"])
    if not 0.0 < seconds < math.inf:
        raise ValueError(seconds)
    return Event(str(told["phase"]), reused, done, failed, total, seconds)
