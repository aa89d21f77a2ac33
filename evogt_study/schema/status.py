"""Status of a run, and the numbers of runs by status.

It imports no NumPy, so that `evogt run` knows a complete result at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum


# files hold these numbers: add a new status at the end
class Status(IntEnum):
    """Status of a run."""

    not_run = 0
    ok = 1
    failed = 2
    diverged = 3
    timed_out = 4
    lost = 5


@dataclass(frozen=True)
class Message:
    """Messages that differ only in their numbers: the number of runs, an example, and its place in the study."""

    text: str
    count: int
    where: str
    at: Mapping[str, str]


@dataclass(frozen=True)
class Lacking:
    """Runs in one state, "not run" or "not ok", by the values of one axis.

    values: (value, runs in the state, planned runs) for the first values with such runs.  more: number of the others.
    """

    state: str
    axis: str
    values: Sequence[tuple[str, int, int]]
    more: int


@dataclass(frozen=True)
class Completeness:
    """Planned runs, counts by status without zeros, missing runs by axis, and messages, the most frequent first.

    A run that is at several of the study's `points` counts once.
    """

    points: int
    planned: int
    counts: Mapping[str, int]
    lacking: Sequence[Lacking]
    messages: Sequence[Message]

    @property
    def ok(self) -> int:
        """Runs with status ok."""
        return self.counts.get(Status.ok.name, 0)

    def describe(self) -> str:
        """Return one sentence: "238 of 240 runs are ok; 1 failed, 1 diverged"."""
        rest = [f"{count:,} {name.replace('_', ' ')}" for name, count in self.counts.items() if name != Status.ok.name]
        if not rest:
            return f"All {self.planned:,} runs are ok" if self.planned > 1 else "The one run is ok"
        return f"{self.ok:,} of {self.planned:,} runs are ok; {', '.join(rest)}"
