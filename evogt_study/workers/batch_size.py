"""Size of the next batch, from the time and the bytes of the latest runs."""

from __future__ import annotations

from collections import deque

from evogt_study.schema.records import RunRecords

BATCH_SECONDS = 0.7
"""Seconds of work worth one task: enough to hide Dask's 3 to 6 ms a task, little enough to lose and to balance."""
COMMAND_SECONDS = 0.007
"""Processor time that a batch takes of the command, which is to be half busy at most: with many workers batches are
longer for it.  Measured with 16 workers; three quarters of it are Dask's event loop."""
LEAST_SECONDS = 0.05
"""Seconds of work that are not divided further, even at the end: a task and its shard cost as much."""
BATCH_BYTES = 32 * 2**20
"""Bytes of values that a batch returns at most: worker and client hold them, and they are written at once."""
LARGEST_BATCH = 5_000
"""Cases in a batch at most: of runs that take no time, keys, messages and bookkeeping do."""
FIRST_BATCH = 4
"""Cases in a batch at most before any time has been measured: a run may take a millisecond or a minute."""
GROWTH = 8
"""Times by which a batch may be larger than all that has been measured: the first runs may not be like the others."""
RECENT_BATCHES = 8
"""Finished batches from which the next is sized: long runs come first, and say little about the later ones."""


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

    def expected(self, cases: int) -> float:
        """Seconds that so many cases take by the latest batches; 0 before any has come back."""
        runs, taken = sum(runs for runs, _, _ in self.recent), sum(taken for _, taken, _ in self.recent)
        return cases * taken / runs if runs else 0.0

    def held_at_once(self) -> int:
        """Number of batches whose values are `BATCH_BYTES` together, by the largest of the latest; at least one."""
        largest = max((size for _, _, size in self.recent), default=BATCH_BYTES)
        return max(1, BATCH_BYTES // max(1, largest))

    def next(self) -> int:
        """Cases of the next batch."""
        # half a worker's share of what is left, so that batches shrink towards the end and workers finish together
        fair = max(-(-self.left // (2 * self.threads)), self.worth(LEAST_SECONDS))
        runs, bytes_ = sum(runs for runs, _, _ in self.recent), sum(size for _, _, size in self.recent)
        # by the bytes that runs have returned; unknown until one has come back
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
