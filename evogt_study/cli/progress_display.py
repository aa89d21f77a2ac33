"""Progress of a sweep for a person, on standard error: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evogt_study.operations.progress import Event, Listener
from evogt_study.printable import shown, tell

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_SECONDS = 5.0


@contextmanager
def display(quiet: bool) -> Iterator[Listener | None]:
    """The listener for this process's standard error; None where `quiet`."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as bar:
            yield _Bar(bar)
    else:
        yield _Lines()


def in_words(event: Event) -> str:
    """ "pilot: 120/600 runs, 2 failed, 55.1 runs/s, 9 s left"."""
    words = [f"{event.phase}: {event.reused + event.done}/{event.total} runs"]
    if event.reused:
        words.append("all from before" if event.reused == event.total else f"{event.reused} of them from before")
    words.append(f"{event.failed} failed")
    if event.final and event.done:
        words.append(f"done in {duration(event.seconds)}")
    elif event.done and event.seconds_left is not None:
        words.append(f"{event.rate:.1f} runs/s, {duration(event.seconds_left)} left")
    return ", ".join(words)


def duration(seconds: float) -> str:
    """ "8 s", "3 min 20 s", "5 h 12 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class _Lines:
    """A plain line at each phase's start and end, and every few seconds between."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        news = event.phase not in self.last or (event.final and event.done > 0)
        if news or now - self.last[event.phase] >= LINE_SECONDS:
            self.last[event.phase] = now
            tell(in_words(event), err=True)


class _Bar:
    """A bar for each phase."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        if event.phase not in self.tasks:
            self.tasks[event.phase] = self.bar.add_task(event.phase, total=event.total, words="")
        self.bar.update(self.tasks[event.phase], completed=event.reused + event.done, words=shown(in_words(event)))


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=30), TextColumn("{task.fields[words]}", markup=False), console=Console(stderr=True)
    )
