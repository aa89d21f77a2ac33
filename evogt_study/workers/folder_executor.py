"""Compute a plan in several array tasks, which claim its parts in a folder, without a scheduler."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ResultError
from evogt_study.results.finished import ShardFolder
from evogt_study.results.table import RunTable
from evogt_study.schema.records import Case, Needs, RunRecords
from evogt_study.storage.files import claims_folder, read_file_identity, shard_folder
from evogt_study.storage.lease import LIVES, SILENT_SECONDS, WorkIsGoneError, find_writer, open_claims
from evogt_study.study.plan import Order, Phase, Plan
from evogt_study.text import format_duration
from evogt_study.workers.executor import BATCH_SECONDS, Executor

_MAX_PARTS = 4_000
"""Largest number of parts of a plan.  A part has two files, and file servers list some thousand files quickly."""
_LOOK_SECONDS, _MESSAGE_SECONDS = 2.0, 60.0
"""Seconds between two checks of the parts of other tasks, and between two messages of a task that waits."""


@dataclass(eq=False)
class FolderExecutor(Executor):
    """Executor for the parts of a plan that no other task has claimed, as task `number` of `of`, counted from 1."""

    inner: Executor  # which computes the runs
    path: Path
    number: int
    of: int
    last: Phase  # for whose other parts the task does not wait
    print_line: Callable[[str], None]
    check_end: Callable[[], None]  # raises KeyboardInterrupt to end the task after its current runs
    classes: Sequence[Needs] = ()  # needs of the runs that the task computes
    file_before: object = None
    is_complete: bool = True
    is_outdated: bool = False
    digest_read_again: str = ""
    is_shared = True

    def begin(self) -> None:
        """Note the state of the result file.  A later change shows that another task has written the file."""
        self.file_before = read_file_identity(self.path)

    def compute(self, plan: Plan, numbers: Order, trials: Order) -> Iterator[RunRecords]:
        """Yield the records of the cases that this task claims, until no part is left."""
        waits = not (plan.phase == self.last.name and self.last.precision is None)
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
        if (is_written or was_done) and self.digest_read_again != parts.digest:
            # tasks may have finished since the runs were read
            self.digest_read_again, self.is_outdated = parts.digest, True
            return
        if writer is not None and is_written:
            raise writer.refusal()
        if was_done:
            raise ResultError(
                f"{len(numbers):,} finished runs of the phase {plan.phase} are missing in {parts.shards}. Compute them "
                "with `evogt run`."
            )
        try:
            yield from parts.records(waits=waits, has_trial=bool(len(trials)))
        except WorkIsGoneError:  # another task has joined the result since it was read
            self.is_outdated = True
            return
        self.is_complete, self.is_outdated = parts.is_done(), waits

    def is_to_be_read_again(self, table: RunTable) -> bool:
        """Return True if other tasks have computed missing runs of the table since it was read."""
        return self.is_outdated and len(table.missing()) > 0


class _PlanParts:
    """Parts of a plan for one task.  A part has consecutive cases in the order of the plan, as in all other tasks."""

    def __init__(self, task: FolderExecutor, plan: Plan, missing: Order, order: Order) -> None:
        self.task, self.plan, self.n_missing, self.order = task, plan, len(missing), order
        self.is_missing = np.zeros(plan.space.size, dtype=bool)
        self.is_missing[missing] = True
        # as large as a batch, if its time is known, and whole groups that share stages
        least = math.ceil(plan.space.size / _MAX_PARTS)
        size = max(least, round(BATCH_SECONDS / plan.longest) if plan.longest else 1)
        self.size = -(-size // plan.group) * plan.group if plan.group <= 2 * size else size
        # equal for tasks that give a part the same number
        keys: npt.NDArray[np.bytes_] = plan.keys[self.order]
        self.digest = blake2b(f"{plan.phase} {self.size} ".encode() + keys.tobytes(), digest_size=8).hexdigest()
        self.shards, self.claims = shard_folder(task.path), open_claims(claims_folder(task.path) / self.digest)
        # each task begins elsewhere, since tasks that begin together would all try to claim the same part
        count = math.ceil(len(self.order) / self.size)
        begin = (task.number - 1) * count // task.of
        self.parts = [part for part in (*range(begin, count), *range(begin)) if len(self.cases_of(part))]
        self.n_unwritten: dict[int, int] = {}  # cases that are not on disk yet, of the parts that this task holds
        self.part_of: dict[str, int] = {}
        self.lost_parts: list[int] = []  # parts that have ended too many tasks

    def cases_of(self, part: int) -> npt.NDArray[np.int64]:
        """Return the cases of a part that were missing when the task began."""
        cases = self.order[part * self.size : (part + 1) * self.size]
        return np.asarray(cases[self.is_missing[cases]])

    def is_done(self) -> bool:
        """Return True if all parts are finished, or if the result file already has their runs."""
        try:
            return self.claims.read()[1].issuperset(self.parts)
        except WorkIsGoneError:
            return True

    def records(self, *, waits: bool, has_trial: bool) -> Iterator[RunRecords]:
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
                        for key in records.keys:  # the caller has written them
                            self.count_finished_case(self.part_of.pop(key))
                    has_trial, begun = False, time.monotonic()
                    continue
                if self.lost_parts:
                    raise ResultError(
                        f"{LIVES} tasks have ended while they computed part {self.lost_parts[0]} of the phase "
                        f"{self.plan.phase}, for lack of memory or wall time. Compute this part with `evogt run`."
                    )
                if not waits or self.is_done():
                    return
                if time.monotonic() >= printed + _MESSAGE_SECONDS:
                    printed = time.monotonic()
                    n_open = len(set(self.parts) - self.claims.read()[1])
                    self.task.print_line(
                        f"waiting for {n_open:,} parts of the phase {self.plan.phase} that other tasks compute, for "
                        f"{format_duration(printed - begun)}. If a task has died, this task claims its parts after "
                        f"{SILENT_SECONDS:.0f} s."
                    )
                time.sleep(_LOOK_SECONDS)

    def claim_cases(self) -> Iterator[Case]:
        """Yield the cases of parts that no other task has claimed.  Claim each part before its first case."""
        taken, done = self.claims.read()
        lost = self.claims.find_lost((taken - done).intersection(self.parts))
        self.lost_parts = [part for part, n_lost in lost.items() if n_lost >= LIVES]
        again = [part for part in lost if part not in self.lost_parts]
        for part in [part for part in self.parts if part not in taken] + again:
            if self.is_ending() or not self.claims.take(part):
                continue
            if read_file_identity(self.task.path) != self.task.file_before:
                raise WorkIsGoneError
            cases = list(self.plan.cases(self.cases_of(part)))
            if part in taken:  # another task has begun the part, so some runs may be on disk
                known = set(ShardFolder(self.shards).keys().astype(str).tolist())
                cases = [case for case in cases if case.key not in known]
            self.n_unwritten[part] = len(cases) + 1
            self.part_of.update((case.key, part) for case in cases)
            self.count_finished_case(part)  # one without any case is done
            yield from itertools.takewhile(lambda case: not self.is_ending(), cases)

    def is_ending(self) -> bool:
        """Return True if the task must end and start no more runs."""
        try:
            self.task.check_end()
        except KeyboardInterrupt:
            return True
        return False

    def count_finished_case(self, part: int) -> None:
        """Count a case of a part whose record is on disk.  After the last case, mark the part as finished."""
        self.n_unwritten[part] -= 1
        if not self.n_unwritten[part]:
            self.claims.finish(part)
