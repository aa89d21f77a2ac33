"""Progress of a study while it runs: one event whenever something is finished, and its description for a person."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Listener = Callable[["Event"], None]


@dataclass(frozen=True)
class Event:
    """State of one phase: runs reused, done in this session, failed, and in all; `seconds` since its start."""

    phase: str
    reused: int
    done: int
    failed: int
    total: int
    seconds: float
    final: bool = False

    @property
    def rate(self) -> float:
        """Runs a second in this session."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time left, None before the first run is done."""
        left = self.total - self.reused - self.done  # reused runs took no time of this session
        return left / self.rate if self.rate > 0 else (0.0 if left == 0 else None)


@dataclass(eq=False)
class Progress:
    """Counts of a phase, reported to `listener` after each change."""

    phase: str
    total: int
    reused: int
    listener: Listener | None
    done: int = 0
    failed: int = 0
    started: float = field(default_factory=time.perf_counter)

    def add(self, done: int, failed: int) -> None:
        """Count finished runs, and report them."""
        self.done += done
        self.failed += failed
        self.tell()

    def tell(self, *, final: bool = False) -> None:
        """Give the listener the present state."""
        if self.listener is not None:
            seconds = time.perf_counter() - self.started
            self.listener(Event(self.phase, self.reused, self.done, self.failed, self.total, seconds, final))


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
    # rounded first, else 119.6 s would be 1 min 60 s
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
