"""Compute the cases of a plan: in this process, on Dask, or in array tasks that claim parts of the plan in a folder."""

from __future__ import annotations

import itertools
import math
import operator
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ResultError
from evogt_study.results.finished import ShardFolder
from evogt_study.results.table import RunTable
from evogt_study.schema.records import Case, Needs, RunRecords, concatenate_records
from evogt_study.storage.files import claims_folder, read_file_identity, shard_folder
from evogt_study.storage.lease import MAX_LOST_HOLDERS, SILENT_SECONDS, WorkIsGoneError, find_writer, open_claims
from evogt_study.study.plan import Order, Phase, Plan
from evogt_study.text import format_count, format_duration
from evogt_study.workers.batch import Batch, BoundedStageCache, compute_here
from evogt_study.workers.runner import RunOptions, prestart_runner

if TYPE_CHECKING:
    from distributed import Client

BATCH_SECONDS = 0.5
"""Seconds of work in a batch.  A batch is long compared with the 3 to 6 ms that Dask needs for a task."""
CLIENT_SECONDS = 0.007
"""Processor time of the client for a batch, in seconds.  Batches are large enough to keep the client half idle."""
MIN_BATCH_SECONDS = 0.05
"""Smallest work of a batch in seconds, also near the end.  A task and its shard need about this time."""
MAX_BATCH_BYTES = 16 * 2**20
"""Largest number of bytes that a batch returns.  The worker and the client hold these bytes in memory."""
MAX_BATCH_CASES = 5_000
"""Largest number of cases in a batch.  It limits the run keys, messages and run metadata of very short runs."""
_MAX_GROWTH = 8  # largest ratio of the runs in a batch to all measured runs, because the first runs may differ
N_RECENT_BATCHES = 8
"""Number of latest batches that determine the size of the next batch.  Early runs may take longer than later runs."""

_MAX_PARTS = 4_000
"""Largest number of parts of a plan.  A part has two files, and file servers list some thousand files quickly."""
_LOOK_SECONDS, _MESSAGE_SECONDS = 2.0, 60.0
"""Seconds between two checks of the parts of other tasks, and between two messages of a task that waits."""


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

    def has_new_runs(self, table: RunTable) -> bool:
        """Return True if other processes have computed missing runs since this process read the table."""
        return False

    def close(self) -> None:
        """End all runs."""

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records of `trials` and `cases`, as `compute` does.  `n_cases` is the largest number of `cases`."""
        raise NotImplementedError


# A class that fits on few workers at a time then takes no longer, and other classes use the other workers.
def spread_classes(plan: Plan, numbers: Order) -> Order:
    """Return the cases in an order that spreads each class of needs evenly, the largest needs first."""
    classes: dict[Needs, list[int]] = defaultdict(list)
    for case in plan.cases(numbers):
        classes[case.needs].append(case.index)
    ranked = [
        (at / len(same), case) for _, same in sorted(classes.items(), reverse=True) for at, case in enumerate(same)
    ]
    return np.array([case for _, case in sorted(ranked, key=operator.itemgetter(0))], dtype=np.int64)


class LocalExecutor(Executor):
    """Executor that computes cases in the calling process, so that breakpoints work and output is visible."""

    def __init__(self) -> None:
        self.stages = BoundedStageCache()

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records of the trials and the cases, as `Executor.compute` does."""
        size = BatchSize(n_cases, 1, plan.group)
        if trials:
            batches = [Batch.from_cases(plan.spec, [case], strict=True, folder=plan.folder) for case in trials]
            yield concatenate_records([compute_here(batch, self.stages) for batch in batches])
        while batch := size.take(cases):
            records = compute_here(Batch.from_cases(plan.spec, batch, folder=plan.folder), self.stages)
            size.add(records)
            yield records


class DaskExecutor(Executor):
    """Executor of one or several studies on a client, or on a cluster in this process, which the first run starts."""

    def __init__(self, client: Client | None, options: RunOptions, print_line: Callable[[str], None]) -> None:
        self.client: Any = client
        self.options, self.print_line, self.name = options, print_line, f"evogt-{uuid.uuid4().hex}"
        self.n_spare = -1  # before the connection
        self._closing = ExitStack()

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records of the trials and the cases, as `Executor.compute` does."""
        if self.client is None:
            prestart_runner()  # the runner imports while this process imports Dask (0.3 s)
        from evogt_study.workers.dask_executor import PlanBatches, prepare_workers

        if self.n_spare < 0:
            made = prepare_workers(self.client, self.options, self.name)
            self.client, self.n_spare = self._closing.enter_context(made)
        return PlanBatches(self, plan, trials, cases, n_cases).compute()

    def close(self) -> None:
        """Close the cluster."""
        self._closing.close()


class BatchSize:
    """Size of the next batch of `count` cases.  Each `group` consecutive cases share their early stages."""

    def __init__(self, count: int, threads: int, group: int) -> None:
        self.left, self.threads, self.group = count, threads, group
        self.taken = self.runs = 0
        self.recent: deque[tuple[int, float, int]] = deque(maxlen=N_RECENT_BATCHES)  # runs, their seconds and bytes

    def estimate_seconds(self, cases: int) -> float:
        """Estimate the seconds of `cases` cases from the latest batches.  Before the first batch ends, return 0."""
        return cases * sum(seconds for _, seconds, _ in self.recent) / max(1, sum(runs for runs, _, _ in self.recent))

    def take(self, cases: Iterator[Case]) -> list[Case]:
        """Return the cases of the next batch.  The list is empty if no case is left."""
        taken = list(itertools.islice(cases, self.choose_count()))
        self.left -= len(taken)
        self.taken += len(taken)
        return taken

    def choose_count(self) -> int:
        """Return the number of cases of the next batch."""
        if not self.runs:
            return 1
        # half a worker's share of the rest, so that batches shrink towards the end and workers finish together
        # `least` prevents that many workers wait for the client
        least = max(MIN_BATCH_SECONDS, CLIENT_SECONDS * self.threads)
        share = max(-(-self.left // (2 * self.threads)), self._count_runs(least))
        runs, size = sum(runs for runs, _, _ in self.recent), sum(size for _, _, size in self.recent)
        largest = min(MAX_BATCH_CASES, max(1, runs * MAX_BATCH_BYTES // size)) if size else MAX_BATCH_CASES
        count = max(1, min(self._count_runs(max(BATCH_SECONDS, 2.0 * CLIENT_SECONDS * self.threads)), share, largest))
        if self.group <= 2 * count:  # keep a group together, because its cases share costly stages
            count = min(-(-(self.taken + count) // self.group) * self.group - self.taken, largest)
        return count

    def _count_runs(self, seconds: float) -> int:
        """Return the number of runs that take about `seconds`."""
        return min(round(seconds / max(self.estimate_seconds(1), 1e-9)), _MAX_GROWTH * self.runs)

    def add(self, records: RunRecords) -> None:
        """Count the time and the values of finished runs."""
        size = sum(stack.values.nbytes for stack in records.stacks)
        self.recent.append((len(records.keys), float(records.wall_seconds.sum()), size))
        self.runs += len(records.keys)


# --- array tasks ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class FolderExecutor(Executor):
    """Executor of array task `number` of `n_tasks`, for the parts of a plan that no other task has claimed."""

    inner: Executor  # computes the runs
    path: Path
    number: int
    n_tasks: int
    last_phase: Phase  # the task does not wait for other parts of this phase
    print_line: Callable[[str], None]
    check_end: Callable[[], None]  # raises KeyboardInterrupt to end the task after its current runs
    classes: Sequence[Needs] = ()  # needs of the runs that the task computes
    file_before: object = None
    is_complete: bool = True
    is_outdated: bool = False
    reloaded_digest: str = ""
    is_shared = True

    def begin(self) -> None:
        """Note the state of the result file.  A later change shows that another task has written the file."""
        self.file_before = read_file_identity(self.path)

    def compute(self, plan: Plan, numbers: Order, trials: Order) -> Iterator[RunRecords]:
        """Yield the records of the cases that this task claims, until no part is left."""
        waits = not (plan.phase == self.last_phase.name and self.last_phase.precision is None)
        order = plan.order
        if plan.resources is not None:
            own = [case.index for case in plan.cases(order) if case.needs in self.classes]
            order, numbers = order[np.isin(order, own)], numbers[np.isin(numbers, own)]
            if not len(numbers):  # tasks of other classes compute the rest
                self.is_complete, self.is_outdated = False, waits
                time.sleep(_LOOK_SECONDS if waits else 0.0)
                return
        parts, writer = _PlanParts(self, plan, numbers, order), find_writer(self.path)
        is_written, was_done = writer is not None and writer.lives, parts.is_done()
        if (is_written or was_done) and self.reloaded_digest != parts.digest:
            # tasks may have finished since this task read the runs
            self.reloaded_digest, self.is_outdated = parts.digest, True
            return
        if writer is not None and is_written:
            raise writer.make_refusal()
        if was_done:
            raise ResultError(
                f"{len(numbers):,} finished runs of the phase {plan.phase} are missing in {parts.shards}. Compute them "
                "with `evogt run`."
            )
        try:
            yield from parts.compute(waits=waits, has_trial=bool(len(trials)))
        except WorkIsGoneError:  # another task has written the result in the meantime
            self.is_outdated = True
            return
        self.is_complete, self.is_outdated = parts.is_done(), waits

    def has_new_runs(self, table: RunTable) -> bool:
        """Return True if other tasks have computed missing runs since this task read the table."""
        return self.is_outdated and len(table.missing()) > 0


class _PlanParts:
    """Parts of a plan, which are equal in all tasks.  A part has consecutive cases in the order of the plan."""

    def __init__(self, task: FolderExecutor, plan: Plan, missing: Order, order: Order) -> None:
        self.task, self.plan, self.n_missing, self.order = task, plan, len(missing), order
        self.is_missing = np.zeros(plan.space.size, dtype=bool)
        self.is_missing[missing] = True
        # as large as a batch if the time of runs is known, with whole groups that share stages
        least = math.ceil(plan.space.size / _MAX_PARTS)
        size = max(least, round(BATCH_SECONDS / plan.longest) if plan.longest else 1)
        self.size = -(-size // plan.group) * plan.group if plan.group <= 2 * size else size
        # equal in tasks that number the parts equally
        keys: npt.NDArray[np.bytes_] = plan.keys[self.order]
        self.digest = blake2b(f"{plan.phase} {self.size} ".encode() + keys.tobytes(), digest_size=8).hexdigest()
        self.shards, self.claims = shard_folder(task.path), open_claims(claims_folder(task.path) / self.digest)
        # tasks begin at different parts, because tasks that begin together would all claim the same part
        count = math.ceil(len(self.order) / self.size)
        begin = (task.number - 1) * count // task.n_tasks
        self.parts = [part for part in (*range(begin, count), *range(begin)) if len(self.select_missing(part))]
        self.unwritten: dict[int, set[str]] = {}  # run keys of claimed parts that are not on disk yet
        self.lost_parts: list[int] = []  # parts that have ended too many tasks

    def select_missing(self, part: int) -> npt.NDArray[np.int64]:
        """Return the cases of a part that were missing when the task began."""
        cases = self.order[part * self.size : (part + 1) * self.size]
        return np.asarray(cases[self.is_missing[cases]])

    def is_done(self) -> bool:
        """Return True if all parts are finished, or if the result file already has their runs."""
        try:
            return self.claims.read()[1].issuperset(self.parts)
        except WorkIsGoneError:
            return True

    def compute(self, *, waits: bool, has_trial: bool) -> Iterator[RunRecords]:
        """Compute parts until none is left to claim.  With `waits`, wait until all tasks have finished their parts."""
        begun = printed = time.monotonic()
        with self.claims.keep_alive():
            while True:
                self.task.check_end()
                claimed = self.claim_cases()
                first = next(claimed, None)
                if first is not None:
                    trials = [first] if has_trial and len(self.plan.trials(np.array([first.index]))) else []
                    cases = claimed if trials else itertools.chain([first], claimed)
                    for records in self.task.inner.compute_cases(self.plan, trials, cases, self.n_missing):
                        yield records
                        self.finish_parts(records.keys)  # the caller has written the records
                    has_trial, begun = False, time.monotonic()
                    continue
                if self.lost_parts:
                    raise ResultError(
                        f"{MAX_LOST_HOLDERS} tasks have ended while they computed part {self.lost_parts[0]} of the "
                        f"phase {self.plan.phase}, for lack of memory or wall time. Compute this part with `evogt run`."
                    )
                if not waits or self.is_done():
                    return
                if time.monotonic() >= printed + _MESSAGE_SECONDS:
                    printed = time.monotonic()
                    n_open = len(set(self.parts) - self.claims.read()[1])
                    self.task.print_line(
                        f"waiting for {format_count(n_open, 'part')} of the phase {self.plan.phase} that other tasks "
                        f"compute, for {format_duration(printed - begun)}. If a task has died, this task "
                        f"claims its parts after {SILENT_SECONDS:.0f} s."
                    )
                time.sleep(_LOOK_SECONDS)

    def claim_cases(self) -> Iterator[Case]:
        """Yield the cases of parts that no other task has claimed.  Claim each part before its first case."""
        taken, done = self.claims.read()
        lost = self.claims.find_lost((taken - done).intersection(self.parts))
        self.lost_parts = [part for part, n_lost in lost.items() if n_lost >= MAX_LOST_HOLDERS]
        again = [part for part in lost if part not in self.lost_parts]
        for part in [part for part in self.parts if part not in taken] + again:
            if self.is_ending() or not self.claims.take(part):
                continue
            if read_file_identity(self.task.path) != self.task.file_before:
                raise WorkIsGoneError
            cases = list(self.plan.cases(self.select_missing(part)))
            if part in taken:  # another task has begun the part, so some runs may be on disk
                known = set(ShardFolder(self.shards).keys().astype(str).tolist())
                cases = [case for case in cases if case.key not in known]
            self.unwritten[part] = {case.key for case in cases}
            self.finish_parts()  # a part without cases is finished
            yield from itertools.takewhile(lambda case: not self.is_ending(), cases)

    def is_ending(self) -> bool:
        """Return True if the task must end and start no more runs."""
        try:
            self.task.check_end()
        except KeyboardInterrupt:
            return True
        return False

    def finish_parts(self, keys: Sequence[str] = ()) -> None:
        """Mark a part as finished if all its records are on disk, including the records of `keys`."""
        for part, unwritten in list(self.unwritten.items()):
            unwritten.difference_update(keys)
            if not unwritten:
                self.claims.finish(part)
                del self.unwritten[part]
