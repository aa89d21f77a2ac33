"""Progress of a sweep for a person, on standard error: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evogt_study.operations.progress import Event, Listener, in_words
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
            self.tasks[event.phase] = self.bar.add_task(event.phase, total=event.total, words="", failed=0)
        self.bar.update(
            self.tasks[event.phase],
            completed=event.reused + event.done,
            words=shown(in_words(event)),
            failed=event.failed,
        )


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.progress import Task as Row
    from rich.progress_bar import ProgressBar

    class Bar(BarColumn):
        """Red where runs failed, green where none did: Rich's own is red until it is full."""

        def render(self, task: Row) -> ProgressBar:
            self.complete_style = self.finished_style = "red" if task.fields["failed"] else "green"
            return super().render(task)

    words = TextColumn("{task.fields[words]}", markup=False)
    return Progress(Bar(bar_width=30), words, console=Console(stderr=True))
