"""Status of a run, and the numbers of runs by status.

The module does not import NumPy, so that `evogt run` recognises a complete result quickly.
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
    """Group of run messages that differ only in their numbers, with the number of runs and one example."""

    text: str
    count: int
    where: str
    at: Mapping[str, str]


@dataclass(frozen=True)
class Lacking:
    """Numbers of runs that are "not run" or "not ok", by the values of one axis.

    `values` holds the first axis values with such runs, each with the number of such runs and the number of planned
    runs.  `more` is the number of further axis values with such runs.
    """

    state: str
    axis: str
    values: Sequence[tuple[str, int, int]]
    more: int


@dataclass(frozen=True)
class Completeness:
    """Numbers of planned, finished and missing runs of a study, and the most frequent messages.

    A run that several cases share counts once.  `points` is the number of cases.
    """

    points: int
    planned: int
    counts: Mapping[str, int]
    lacking: Sequence[Lacking]
    messages: Sequence[Message]

    @property
    def ok(self) -> int:
        """Number of runs with status ok."""
        return self.counts.get(Status.ok.name, 0)

    def describe(self) -> str:
        """Return the numbers of runs by status, such as "238 of 240 runs are ok; 1 failed, 1 diverged"."""
        rest = [f"{count:,} {name.replace('_', ' ')}" for name, count in self.counts.items() if name != Status.ok.name]
        if not rest:
            return f"All {self.planned:,} runs are ok" if self.planned > 1 else "The one run is ok"
        return f"{self.ok:,} of {self.planned:,} runs are ok; {', '.join(rest)}"
