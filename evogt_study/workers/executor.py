"""Executors, which compute the cases of a plan, and the size of their batches."""

from __future__ import annotations

import itertools
import operator
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from evogt_study.errors import SweepError
from evogt_study.results.table import RunTable
from evogt_study.schema.records import Case, Needs, RunRecords, concatenate_records
from evogt_study.study.plan import Order, Plan
from evogt_study.workers.batch import Batch, compute_here
from evogt_study.workers.options import RunOptions
from evogt_study.workers.runner import prestart
from evogt_study.workers.stage_cache import BoundedStageCache

if TYPE_CHECKING:
    from distributed import Client

BATCH_SECONDS = 0.5
"""Seconds of work in a batch: enough to hide Dask's 3 to 6 ms a task, little enough to lose and to balance."""
CLIENT_SECONDS = 0.007
"""Processor time that a batch takes of the client, which is to be half busy at most: with many workers batches are
longer for it.  Measured with 16 workers; three quarters of it are Dask's event loop."""
MIN_BATCH_SECONDS = 0.05
"""Seconds of work that are not divided further, even at the end: a task and its shard cost as much."""
MAX_BATCH_BYTES = 16 * 2**20
"""Bytes of values that a batch returns at most: worker and client hold them, and they are written at once."""
MAX_BATCH_CASES = 5_000
"""Cases in a batch at most: for runs that take no time, keys, messages and run metadata decide."""
_GROWTH = 8
"""Factor by which a batch may be larger than all that has been measured: the first runs may not be like the others."""
RECENT_BATCHES = 8
"""Finished batches from which the next is sized: long runs come first, and say little about the later ones."""


class Executor:
    """Computes cases of plans: in this process, on Dask, or with other array tasks in a folder."""

    is_shared = False
    """True if other processes compute cases of the same plan."""
    workers = 1
    """Number of runs that are computed at the same time."""

    def compute(self, plan: Plan, numbers: Order, trials: Order) -> Iterator[RunRecords]:
        """Yield the records of the cases `numbers`; the first item has the records of all `trials`.

        The caller writes the records before it asks for more.  A trial is one case of each user function, whose
        result shows whether results can be stored.  Raises StudyError if a trial returns what cannot be stored, and
        SweepError if the study cannot go on.
        """
        rest = numbers[~np.isin(numbers, trials)]
        if plan.resources is not None:
            rest = spread_classes(plan, rest)
        return self.compute_cases(plan, list(plan.cases(trials)), plan.cases(rest), len(rest))

    def begin(self) -> None:
        """Prepare for a plan whose finished runs are read now."""

    def is_to_be_read_again(self, table: RunTable) -> bool:
        """Return True if the table lacks runs that other processes have computed since it was read."""
        return False

    def close(self) -> None:
        """End all runs."""

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records as `compute` does, of `trials` and of `cases`, which are at most `n_cases`."""
        raise NotImplementedError


# A class whose runs fit on few workers at a time takes no longer, and the other classes keep the other workers busy.
def spread_classes(plan: Plan, numbers: Order) -> Order:
    """Return the cases in an order that spreads each class of needs evenly, the largest needs first."""
    classes: dict[Needs, list[int]] = {}
    for case in plan.cases(numbers):
        classes.setdefault(case.needs, []).append(case.index)
    ranked = list[tuple[float, int]]()
    for _, same in sorted(classes.items(), reverse=True):
        ranked += [(rank / len(same), case) for rank, case in enumerate(same)]
    return np.array([case for _, case in sorted(ranked, key=operator.itemgetter(0))], dtype=np.int64)


class InProcess(Executor):
    """Computes one case after the other in the calling process: breakpoints work, and output is shown."""

    def __init__(self) -> None:
        self.stages = BoundedStageCache()

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records; see `Executor.compute`."""
        size = BatchSize(n_cases, 1, plan.group)
        if trials:
            batches = [Batch.of(plan.spec, [case], strict=True, folder=plan.folder) for case in trials]
            yield concatenate_records([compute_here(batch, self.stages) for batch in batches])
        while batch := size.take(cases):
            records = compute_here(Batch.of(plan.spec, batch, folder=plan.folder), self.stages)
            size.add(records)
            yield records


class ParallelExecutor(Executor):
    """Computes on Dask, which is imported and connected when it is first needed.  Several studies may share it."""

    def __init__(self, client: Client | None, options: RunOptions, print_line: Callable[[str], None]) -> None:
        self.client, self.options, self.print_line = client, options, print_line
        self._executor: Executor | None = None
        self._closing, self._is_closed, self._lock = ExitStack(), False, threading.Lock()

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records; see `Executor.compute`."""
        with self._lock:
            if self._is_closed:
                raise SweepError("stopped because another study could not go on; finished runs are kept")
            if self._executor is None:
                if self.client is None:
                    prestart()  # it imports while this process imports Dask, which takes 0.3 s
                from evogt_study.workers.clusters import dask_executor

                opened = dask_executor(self.client, self.options, self.print_line)
                self._executor = self._closing.enter_context(opened)
        return self._executor.compute_cases(plan, trials, cases, n_cases)

    @property
    def workers(self) -> int:  # type: ignore[override]
        """Number of runs that are computed at the same time."""
        return 1 if self._executor is None else self._executor.workers

    def close(self) -> None:
        """Close the cluster, also while others compute with it."""
        with self._lock:
            self._is_closed = True
            self._closing.close()


class BatchSize:
    """Cases of the next batch: about `BATCH_SECONDS` of work, and less near the end so that workers finish together.

    `count` cases are computed by `threads` workers; `group` neighbours share their early stages.  A batch has one case
    until the time of a run is known, and returns at most `MAX_BATCH_BYTES`.
    """

    def __init__(self, count: int, threads: int, group: int) -> None:
        self.left, self.threads, self.group = count, threads, group
        self.taken = self.runs = 0
        self.recent: deque[tuple[int, float, int]] = deque(maxlen=RECENT_BATCHES)  # runs, their seconds and bytes

    def estimate_seconds(self, cases: int) -> float:
        """Return the seconds of some cases by the latest batches, or 0 before any batch has ended."""
        return cases * sum(seconds for _, seconds, _ in self.recent) / max(1, sum(runs for runs, _, _ in self.recent))

    def take(self, cases: Iterator[Case]) -> list[Case]:
        """Take the next batch from the cases.  It is empty if none is left."""
        taken = list(itertools.islice(cases, self.next_count()))
        self.left -= len(taken)
        self.taken += len(taken)
        return taken

    def next_count(self) -> int:
        """Return the number of cases of the next batch."""
        if not self.runs:
            return 1
        # half a worker's share of the rest, so that batches shrink towards the end and workers finish together; but
        # not so far that many workers would wait for the client, which is otherwise half busy at most
        least = max(MIN_BATCH_SECONDS, CLIENT_SECONDS * self.threads)
        share = max(-(-self.left // (2 * self.threads)), self._count_runs(least))
        runs, size = sum(runs for runs, _, _ in self.recent), sum(size for _, _, size in self.recent)
        largest = min(MAX_BATCH_CASES, max(1, runs * MAX_BATCH_BYTES // size)) if size else MAX_BATCH_CASES
        count = max(1, min(self._count_runs(max(BATCH_SECONDS, 2.0 * CLIENT_SECONDS * self.threads)), share, largest))
        if self.group <= 2 * count:  # cases of one group share their costly stages: keep them together
            count = min(-(-(self.taken + count) // self.group) * self.group - self.taken, largest)
        return count

    def _count_runs(self, seconds: float) -> int:
        """Return runs that take `seconds`."""
        return min(round(seconds / max(self.estimate_seconds(1), 1e-9)), _GROWTH * self.runs)

    def add(self, records: RunRecords) -> None:
        """Count the time and the values of finished runs."""
        size = sum(stack.values.nbytes for stack in records.stacks)
        self.recent.append((len(records.keys), float(records.wall_seconds.sum()), size))
        self.runs += len(records.keys)
