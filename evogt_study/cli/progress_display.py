"""Progress of a sweep for a person, on standard error: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from evogt_study.operations.progress import Event, Listener, in_words
from evogt_study.text import shown, tell

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

LINE_SECONDS = 5.0


@contextmanager
def display(quiet: bool) -> Iterator[Listener | None]:
    """The listener for this process's standard error; None where `quiet`."""
    if quiet or sys.stderr is None:  # that of a process which was started without one
        yield None
    elif sys.stderr.isatty():
        from evogt_study.cli.progress_bar import progress_bar  # 0.06 s, with Rich, for terminals only

        with progress_bar() as bar:
            yield _Bar(bar)
    else:
        yield _Lines()


class _Lines:
    """A plain line at each phase's start and end, and every few seconds between."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        news = event.phase not in self.last or (event.final and event.done > 0)  # all from before: told already
        if news or now - self.last[event.phase] >= LINE_SECONDS:
            self.last[event.phase] = now
            with suppress(OSError):  # of a log on a full disk: progress that cannot be told shall cost no runs
                tell(in_words(event), err=True)


class _Bar:
    """A bar for each phase."""

    def __init__(self, bar: RichProgress) -> None:
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
