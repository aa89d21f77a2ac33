"""How many cases the next batch takes, from what the latest runs took."""

from __future__ import annotations

from collections import deque

from evogt_study.schema.records import RunRecords

BATCH_SECONDS = 0.7
"""Work worth one task: enough to hide Dask's milliseconds, little enough to lose and to balance."""
COMMAND_SECONDS = 0.004
"""Processor time that a batch takes of the command, which is to be half busy at most: with many workers batches are
longer for it."""
LEAST_SECONDS = 0.05
"""Work that is not divided further, even at the end: a task and its shard cost as much."""
BATCH_BYTES = 32 * 2**20
"""Values that a batch returns at most: they are held by worker and client, and written at once."""
LARGEST_BATCH = 5_000
"""Cases in a batch at most: of runs that take no time, what is around them does."""
FIRST_BATCH = 4
"""Cases in a batch at most before any time has been measured: a run may take a millisecond or a minute."""
GROWTH = 8
"""Times by which a batch may be larger than all that has been measured: the first runs may not be like the others."""
RECENT_BATCHES = 8
"""Finished batches from which the next is sized: long runs come first, and tell little about the later ones."""


class BatchSize:
    """About `worth_sending` of work and no more than `BATCH_BYTES` of values, less near the end to finish together.

    `count` cases are to be computed by `threads` workers; of those, `group` neighbours share their early stages.
    longest: what the longest run takes by prediction, in seconds; it sizes the batches before any has come back.
    """

    def __init__(self, count: int, threads: int, group: int, longest: float = 0.0) -> None:
        self.left, self.threads, self.group = count, threads, group
        self.first = max(1, min(FIRST_BATCH, round(BATCH_SECONDS / longest))) if longest else FIRST_BATCH
        self.runs = 0
        self.recent: deque[tuple[int, float, int]] = deque(maxlen=RECENT_BATCHES)  # runs, their seconds and bytes

    @property
    def worth_sending(self) -> float:
        """Seconds of work of a batch: `BATCH_SECONDS`, more where the command would be more than half busy."""
        return max(BATCH_SECONDS, 2.0 * COMMAND_SECONDS * self.threads)

    def batch_seconds(self) -> float:
        """Seconds of work of the shortest of the latest batches, 0 before any has come back."""
        return min((taken for _, taken, _ in self.recent), default=0.0)

    def held_at_once(self) -> int:
        """How many batches' values are `BATCH_BYTES` together, by the largest of the latest; at least one."""
        largest = max((size for _, _, size in self.recent), default=BATCH_BYTES)
        return max(1, BATCH_BYTES // max(1, largest))

    def next(self) -> int:
        """Cases of the next batch."""
        fair = max(-(-self.left // (2 * self.threads)), self.worth(LEAST_SECONDS))
        runs, bytes_ = sum(runs for runs, _, _ in self.recent), sum(size for _, _, size in self.recent)
        largest = min(LARGEST_BATCH, max(1, runs * BATCH_BYTES // bytes_)) if bytes_ else LARGEST_BATCH
        size = max(1, min(self.worth(self.worth_sending), fair, largest))
        if self.group <= 2 * size:  # cases of one group share their costly stages: keep them together
            size = min(-(-size // self.group) * self.group, largest)
        self.left -= size
        return size

    def worth(self, seconds: float) -> int:
        """Runs that take `seconds`."""
        if not self.runs:
            return self.first
        runs, taken = sum(runs for runs, _, _ in self.recent), sum(taken for _, taken, _ in self.recent)
        return min(round(seconds * runs / max(taken, 1e-9)), GROWTH * self.runs)

    def measured(self, records: RunRecords) -> None:
        """Count the time and the values of a finished batch."""
        size = sum(stack.values.nbytes for stack in records.stacks)
        self.recent.append((len(records.keys), float(records.wall_seconds.sum()), size))
        self.runs += len(records.keys)
