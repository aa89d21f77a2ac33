"""Compute the cases of a plan in batches, in this process or on Dask."""

from __future__ import annotations

import itertools
import operator
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from evogt_study.errors import SweepError
from evogt_study.results.table import RunTable
from evogt_study.schema.records import Case, Needs, RunRecords, concatenate_records
from evogt_study.study.plan import Order, Plan
from evogt_study.workers.batch import Batch, BoundedStageCache, compute_here
from evogt_study.workers.runner import RunOptions, prestart

if TYPE_CHECKING:
    from distributed import Client

BATCH_SECONDS = 0.5
"""Seconds of work in a batch.  A batch is long compared with the 3 to 6 ms that Dask needs for a task."""
CLIENT_SECONDS = 0.007
"""Processor time of the client for a batch in seconds.  The size of batches keeps half of its time free."""
MIN_BATCH_SECONDS = 0.05
"""Smallest work of a batch in seconds, also near the end.  A task and its shard need about this time."""
MAX_BATCH_BYTES = 16 * 2**20
"""Largest number of bytes that a batch returns.  The worker and the client hold these bytes in memory."""
MAX_BATCH_CASES = 5_000
"""Largest number of cases in a batch.  It limits the run keys, messages and run metadata of very short runs."""
_GROWTH = 8
"""Largest ratio of the runs in a batch to all measured runs, because the first runs may differ."""
RECENT_BATCHES = 8
"""Number of finished batches that determine the size of the next batch.  Runs of later batches are shorter."""


class Executor:
    """Base class of objects that compute the cases of a plan."""

    is_shared = False
    """True if other processes compute cases of the same plan."""
    workers = 1
    """Number of runs that are computed at the same time."""

    def compute(self, plan: Plan, numbers: Order, trials: Order) -> Iterator[RunRecords]:
        """Yield the records of the cases `numbers`.  The first item has the records of all `trials`.

        The caller writes an item before it requests the next one.  Raises StudyError if the return value of a trial
        cannot be stored, and SweepError if the study cannot continue.
        """
        rest = numbers[~np.isin(numbers, trials)]
        if plan.resources is not None:
            rest = spread_classes(plan, rest)
        return self.compute_cases(plan, list(plan.cases(trials)), plan.cases(rest), len(rest))

    def begin(self) -> None:
        """Prepare for a plan, before the study reads its finished runs."""

    def is_to_be_read_again(self, table: RunTable) -> bool:
        """Return True if other processes have computed missing runs of the table since it was read."""
        return False

    def close(self) -> None:
        """End all runs."""

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records of `trials` and `cases`, as `compute` does.  `n_cases` is the largest number of `cases`."""
        raise NotImplementedError


# A class whose runs fit on few workers at a time takes no longer, and the other classes keep the other workers busy.
def spread_classes(plan: Plan, numbers: Order) -> Order:
    """Return the cases in an order that spreads each class of needs evenly, the largest needs first."""
    classes: dict[Needs, list[int]] = defaultdict(list)
    for case in plan.cases(numbers):
        classes[case.needs].append(case.index)
    ranked = [
        (at / len(same), case) for _, same in sorted(classes.items(), reverse=True) for at, case in enumerate(same)
    ]
    return np.array([case for _, case in sorted(ranked, key=operator.itemgetter(0))], dtype=np.int64)


class InProcess(Executor):
    """Executor that computes cases in the calling process, so that breakpoints work and output is visible."""

    def __init__(self) -> None:
        self.stages = BoundedStageCache()

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records of the trials and the cases, as `Executor.compute` does."""
        size = BatchSize(n_cases, 1, plan.group)
        if trials:
            batches = [Batch.of(plan.spec, [case], strict=True, folder=plan.folder) for case in trials]
            yield concatenate_records([compute_here(batch, self.stages) for batch in batches])
        while batch := size.take(cases):
            records = compute_here(Batch.of(plan.spec, batch, folder=plan.folder), self.stages)
            size.add(records)
            yield records


class DaskExecutor(Executor):
    """Executor of one or several studies on a client, or on a cluster in this process, which the first run starts."""

    def __init__(self, client: Client | None, options: RunOptions, print_line: Callable[[str], None]) -> None:
        self.client: Any = client
        self.options, self.print_line, self.name = options, print_line, f"evogt-{uuid.uuid4().hex}"
        self.n_spare = -1  # until it is connected
        self._closing, self._is_closed, self._lock = ExitStack(), False, threading.Lock()

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records of the trials and the cases, as `Executor.compute` does."""
        with self._lock:
            if self._is_closed:
                raise SweepError("stopped because another study could not continue. Finished runs are kept.")
            if self.client is None:
                prestart()  # it imports while this process imports Dask, which takes 0.3 s
            from evogt_study.workers.dask_executor import PlanBatches, prepare_workers

            if self.n_spare < 0:
                made = prepare_workers(self.client, self.options, self.name)
                self.client, self.n_spare = self._closing.enter_context(made)
        return PlanBatches(self, plan, trials, cases, n_cases).records()

    def close(self) -> None:
        """Close the cluster, also while studies compute with this cluster."""
        with self._lock:
            self._is_closed = True
            self._closing.close()


class BatchSize:
    """Size of the next batch of `count` cases, of which `group` consecutive cases share their early stages."""

    def __init__(self, count: int, threads: int, group: int) -> None:
        self.left, self.threads, self.group = count, threads, group
        self.taken = self.runs = 0
        self.recent: deque[tuple[int, float, int]] = deque(maxlen=RECENT_BATCHES)  # runs, their seconds and bytes

    def estimate_seconds(self, cases: int) -> float:
        """Return the seconds of some cases from the times of the latest batches, or 0 before the first batch ends."""
        return cases * sum(seconds for _, seconds, _ in self.recent) / max(1, sum(runs for runs, _, _ in self.recent))

    def take(self, cases: Iterator[Case]) -> list[Case]:
        """Return the cases of the next batch.  The list is empty if no case is left."""
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
        """Return the number of runs that take about `seconds`."""
        return min(round(seconds / max(self.estimate_seconds(1), 1e-9)), _GROWTH * self.runs)

    def add(self, records: RunRecords) -> None:
        """Count the time and the values of finished runs."""
        size = sum(stack.values.nbytes for stack in records.stacks)
        self.recent.append((len(records.keys), float(records.wall_seconds.sum()), size))
        self.runs += len(records.keys)
