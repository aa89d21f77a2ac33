"""Report the progress of a study to listeners, notebooks and other processes."""

import json
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from evogt_study.errors import ResultError
from evogt_study.storage.files import claims_folder, parse_json, progress_file, read_bytes, write_atomically
from evogt_study.storage.lease import Lease, count_active_claims, find_writer
from evogt_study.text import escape_text, format_count, format_duration

Listener = Callable[["ProgressEvent"], None]
"""Function that receives all progress events of a study."""
BAR_WIDTH = 30  # characters of a progress bar
DISPLAY_SECONDS = 0.2  # minimum time in seconds between two messages to the notebook
MIN_BATCHES, MIN_SECONDS = 3, 1.0
"""Minimum number of finished batches, and of seconds after the first batch, for an estimate of the remaining time.

The first runs of a process are slower than later runs.
"""
RATE_SECONDS = 5.0  # length in seconds of the most recent period, which determines the current rate of runs
_WATCH_SECONDS = 1.0  # minimum time in seconds between two events in the progress file


@dataclass(frozen=True)
class ProgressEvent:
    """Progress of one phase of a running study.

    Attributes
    ----------
    phase : str
        "pilot" or "main".
    reused, done, failed, total : int
        Numbers of reused runs, runs computed in this session, failed runs, and all runs.
    seconds : float
        Seconds since the start of the phase.
    final : bool
        True for the last event of the phase.
    seconds_left : float or None
        Estimate of the remaining time in seconds, or None before three batches have finished.

    Examples
    --------
    >>> import evogt_study as evs
    >>> events = []
    >>> ds = evs.run(evs.Study(lambda x: {"y": x}, axes={"x": [1, 2]}), workers=0, listener=events.append)
    >>> (events[-1].done, events[-1].total, events[-1].final)
    (2, 2, True)
    """

    phase: str
    reused: int
    done: int
    failed: int
    total: int
    seconds: float
    final: bool = False
    seconds_left: float | None = None

    @property
    def rate(self) -> float:
        """Number of runs per second in this session."""
        return self.done / self.seconds if self.seconds > 0 else 0.0


class Progress:
    """Counter of the runs of a phase.  After each change, `listener` receives a progress event."""

    def __init__(self, phase: str, total: int, reused: int, listener: Listener | None, *, failed: int = 0) -> None:
        self.phase, self.total, self.reused, self.listener, self.failed = phase, total, reused, listener, failed
        self.done, self.batches, self.workers, self.run_seconds = 0, 0, 1, 0.0
        self.started, self.first = time.perf_counter(), math.inf
        # time, number of finished runs and their total seconds after each of the latest batches
        self.marks: deque[tuple[float, int, float]] = deque()

    def add(self, done: int, failed: int, run_seconds: float = 0.0, workers: int = 1) -> None:
        """Add finished runs to the counts and report a progress event.  `run_seconds` is the total time of the runs."""
        now = time.perf_counter()
        self.done, self.failed, self.batches = self.done + done, self.failed + failed, self.batches + 1
        self.first, self.workers, self.run_seconds = min(self.first, now), workers, self.run_seconds + run_seconds
        self.marks.append((now, self.done, self.run_seconds))
        while len(self.marks) > 2 and self.marks[1][0] < now - RATE_SECONDS:
            self.marks.popleft()
        self.report()

    # the larger of two estimates, from the times of runs and from the rate of finished runs: the rate is too high if
    # several slow runs have just finished together, and the times of quick runs exclude the overhead of a batch
    def report(self, *, final: bool = False) -> None:
        """Send an event with the counts and an estimate of the remaining time to the listener."""
        now, left = time.perf_counter(), self.total - self.reused - self.done
        seconds_left = None
        if left and self.batches >= MIN_BATCHES and now >= self.first + MIN_SECONDS:
            (begun, before, spent), (end, done, seconds) = self.marks[0], self.marks[-1]
            seconds_left = left * max((seconds - spent) / self.workers, end - begun) / max(done - before, 1)
        if self.listener is not None:
            counts = self.reused, self.done, self.failed, self.total
            self.listener(ProgressEvent(self.phase, *counts, now - self.started, final, seconds_left))


def format_progress(event: ProgressEvent) -> str:
    """Format an event as a line such as "pilot: 120/600 runs, 2 failed, 55.1 runs/s, 9 s left"."""
    phase = "" if event.phase == "main" else f"{event.phase}: "
    words = [f"{phase}{event.reused + event.done}/{event.total} runs"]
    if event.reused:
        words.append("all reused" if event.reused == event.total else f"{event.reused} reused")
    words.append(f"{event.failed} failed")
    if event.final and event.done:
        words.append(f"done in {format_duration(event.seconds)}")
    elif event.seconds_left is not None:
        words.append(f"{event.rate:.1f} runs/s, {format_duration(event.seconds_left)} left")
    return ", ".join(words)


def format_bar(event: ProgressEvent) -> str:
    """Return a bar of the share of finished runs, such as "###-------"."""
    n_full = BAR_WIDTH * (event.reused + event.done) // max(event.total, 1)
    return "#" * n_full + "-" * (BAR_WIDTH - n_full)


def make_notebook_display() -> Listener | None:
    """Return a listener that shows the latest event of each phase in a notebook, or None in any other process."""
    ipython = sys.modules.get("IPython")
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    from IPython.display import Pretty, display  # IPython is no dependency: a notebook has it

    lines, shown_at, handle = dict[str, str](), -math.inf, display(Pretty(""), display_id=True)

    def show(event: ProgressEvent) -> None:
        nonlocal shown_at
        is_due = event.phase not in lines or event.final or time.monotonic() > shown_at + DISPLAY_SECONDS
        lines[event.phase] = f"{format_bar(event)} {escape_text(format_progress(event))}"
        if is_due:
            shown_at = time.monotonic()
            handle.update(Pretty("\n".join(lines.values())))

    return show


def with_progress_file(result: Path, listener: Listener | None) -> Listener:
    """Return a listener that writes events to a file beside the shards of a result, and then calls `listener`."""
    path, last = progress_file(result), float("-inf")

    def listen(event: ProgressEvent) -> None:
        nonlocal last
        now = time.monotonic()
        if event.done and not event.final and now - last >= _WATCH_SECONDS:
            last = now
            with suppress(OSError, ResultError), write_atomically(path) as temporary:  # a shard reports a full disk
                temporary.write_text(json.dumps({"process": os.getpid(), "at": time.time(), "event": asdict(event)}))
        if listener is not None:
            listener(event)

    return listen


@dataclass(frozen=True)
class RunningStudy:
    """Process that writes an unfinished result, its latest event, and the number of parts that array tasks claim."""

    writer: Lease | None
    event: ProgressEvent | None
    age: float
    parts: int = 0

    @property
    def runs(self) -> bool:
        """True if a process or an array task is computing the result."""
        return self.parts > 0 or (self.writer is not None and self.writer.lives)

    def describe(self) -> str:
        """Return a line about the process and the latest event, or about the tasks that compute the result."""
        if self.parts:
            return f"running: tasks of `evogt run --task`, which hold {format_count(self.parts, 'part')}"
        who = "" if self.writer is None else f": {self.writer.describe()}"
        if not self.runs:
            return f"not running{who}. Compute the rest with `evogt run`."
        age = f" ({format_duration(self.age)} ago)"
        return f"running{who}; {format_progress(self.event) + age if self.event else 'no run is finished yet'}"


def read_running_study(result: Path) -> RunningStudy:
    """Read from the lock and the progress file which process computes a result."""
    writer = find_writer(result)
    with suppress(OSError, ValueError, LookupError, TypeError):  # the file does not exist, or is from another version
        content = parse_json(read_bytes(progress_file(result)))
        # the event may be from an earlier, killed process
        if writer is not None and str(content["process"]) == writer.signature["process"]:
            event = TypeAdapter(ProgressEvent).validate_python(content["event"])
            return RunningStudy(writer, event, max(0.0, time.time() - content["at"]))
    return RunningStudy(writer, None, 0.0, count_active_claims(claims_folder(result)))
