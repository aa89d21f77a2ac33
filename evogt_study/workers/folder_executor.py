"""Compute a plan by array tasks, which claim parts of it in a folder, without a scheduler.

The parts follow from the plan alone, so every task has the same parts.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ResultError
from evogt_study.results.finished import FinishedRuns, describe
from evogt_study.results.pilot_choice import chosen_by
from evogt_study.results.shards import shard_folder, write_shard
from evogt_study.results.sources import ShardFolder
from evogt_study.results.table import Table
from evogt_study.results.target_precision import filled_as_needed
from evogt_study.schema.records import Case, RunRecords
from evogt_study.schema.variables import Status
from evogt_study.storage.atomic import identity, steadily
from evogt_study.storage.lease import LIVES, SILENT_SECONDS, WorkIsGoneError, claims_in, writer_of
from evogt_study.storage.paths import claims_folder
from evogt_study.study.case_space import Chosen
from evogt_study.study.phases import Phase
from evogt_study.study.plan import Order, Plan
from evogt_study.study.study import Study
from evogt_study.text import duration
from evogt_study.workers.dask_executor import Flow
from evogt_study.workers.executor import BATCH_SECONDS, Workers
from evogt_study.workers.limits import Limits

MOST_PARTS = 4_000
"""Largest number of parts of a plan.  Each part is two files, and every file server lists some thousand files quickly.

Some hundred tasks have at least ten parts each, so that they end together.
"""
LOOK_SECONDS = 2.0
"""Seconds between two looks at the parts of other tasks, which list a folder."""
TOLD_SECONDS = 60.0
"""Seconds between two messages of a task that waits."""
Told = Callable[[str], None]


class ArrayTask:
    """One task of an array, which computes parts of a study.  See `evogt_study.operations.run.work`."""

    def __init__(
        self,
        study: Study,
        path: Path,
        number: int,
        of: int,
        workers: Workers,
        limits: Limits,
        others: Sequence[Path],
        told: Told,
        check_end: Callable[[], None],
    ) -> None:
        self.study, self.path, self.number, self.of, self.check_end = study, path, number, of, check_end
        self.workers, self.limits, self.others, self.told = workers, limits, others, told
        self.computed = self.failed = 0
        self.complete = True

    def work(self) -> bool:
        """Compute what no other task has; return whether all runs of the study are there."""
        chosen: list[Chosen] = []
        for phase in self.study.phases:
            last = phase is self.study.phases[-1] and phase.precision is None
            fill = partial(self.filled, phase, wait=not last)
            table = filled_as_needed(self.study, phase, chosen, fill, computing=True)
            chosen += chosen_by(phase, table)
        return self.complete

    def ending(self) -> bool:
        """Return True if the task is to end and begin nothing more."""
        try:
            self.check_end()
        except KeyboardInterrupt:
            return True
        return False

    def filled(self, phase: Phase, plan: Plan, *, wait: bool) -> Table:
        """The table of the runs of a plan; wait: with the runs of other tasks, which later phases need."""
        while True:
            before = identity(self.path)
            table = self.looked(phase, plan)
            if not len(table.missing()):
                return table
            writer = writer_of(self.path)
            if writer is not None and writer.lives:
                # a task that joins the result has all runs, but this task may not have seen the last one yet
                if not len(self.looked(phase, plan).missing()):
                    continue
                raise ResultError(
                    f"{self.path} is being written by process {writer.process} on {writer.host} since {writer.since}: "
                    "wait for it, or choose another place with -o"
                )
            try:
                share = _Share(self, plan, table, before)
                share.compute(wait=wait)
            except WorkIsGoneError:  # another task has joined the result since it was looked at
                continue
            self.complete = share.is_done()
            if not wait:
                return table
            table = self.looked(phase, plan)
            if len(table.missing()):
                raise ResultError(
                    f"{len(table.missing()):,} runs of the {plan.phase} are missing in {shard_folder(self.path)}, "
                    "though their tasks had finished them; `evogt run` computes them"
                )
            return table

    def looked(self, phase: Phase, plan: Plan) -> Table:
        """The finished runs of a plan, with the variable that decides about later runs; if none has it, with all."""

        def look(variables: Sequence[str] | None) -> Table:
            return FinishedRuns(self.study, self.path, self.others, check=False).fill(Table(plan), variables)

        table = steadily(self.path, lambda: look(phase.deciding))
        known = not phase.deciding or table.columns
        return table if known else steadily(self.path, lambda: look(None))


class _Share:
    """The missing cases of a plan that one task computes.

    before: identity of the result when the `table` was filled.  A later change shows that a task has joined the result.
    """

    def __init__(self, task: ArrayTask, plan: Plan, table: Table, before: object) -> None:
        self.task, self.plan, self.table, self.before = task, plan, table, before
        self.parts = Parts(plan)
        self.is_missing = np.zeros(plan.space.size, dtype=bool)
        self.is_missing[table.missing()] = True
        self.shards = shard_folder(task.path)
        describe(task.path, task.study)
        self.claims = claims_in(claims_folder(task.path) / self.parts.digest)
        self.turn = [part for part in self.parts.turn(task.number, task.of) if len(self.missing(part))]
        self.left: dict[int, int] = {}  # cases that are not on disk yet, of the parts that this task holds
        self.part_of: dict[str, int] = {}
        self.given_up: list[int] = []  # parts that have ended too many tasks

    def missing(self, part: int) -> npt.NDArray[np.int64]:
        """Cases of a part that were not finished when the table was filled."""
        cases = self.parts.cases(part)
        return np.asarray(cases[self.is_missing[cases]])

    def is_done(self) -> bool:
        """Return True if all parts are done, or if the result has them already."""
        try:
            return self.claims.seen().done.issuperset(self.turn)
        except WorkIsGoneError:
            return True

    def compute(self, *, wait: bool) -> None:
        """Compute parts until none is left to claim; wait: until all are done, by this task or others.

        The wait ends even if other tasks die: their parts are claimed again, at most `LIVES` times.
        """
        # before the first run it is unknown whether the result of the method can be stored
        first = not np.any(self.table.status == Status.ok)
        waiting = told = time.monotonic()
        with self.claims.kept_alive():
            while True:
                self.task.check_end()
                claimed = self.claimed()
                begun = next(claimed, None)
                if begun is not None:
                    self.computed(begun, claimed, first)
                    first, waiting = False, time.monotonic()
                    continue
                if self.given_up:
                    raise ResultError(
                        f"{LIVES} tasks have ended while they computed part {self.given_up[0]} of the "
                        f"{self.plan.phase} (memory, or a wall time that is too short); `evogt run` computes it"
                    )
                if not wait or self.is_done():
                    return
                if time.monotonic() >= told + TOLD_SECONDS:
                    told = time.monotonic()
                    open_ = len(set(self.turn) - self.claims.seen().done)
                    self.task.told(
                        f"waiting for {open_:,} parts of the {self.plan.phase} that other tasks compute, for "
                        f"{duration(told - waiting)}; those of a task that is gone are taken over after "
                        f"{SILENT_SECONDS:.0f} s"
                    )
                time.sleep(LOOK_SECONDS)

    def claimed(self) -> Iterator[Case]:
        """Cases of parts that no other task has; a part is claimed when its first case is needed."""
        seen = self.claims.seen()
        lost = self.claims.lost(seen, self.turn)
        self.given_up = [part for part in lost if self.claims.lives(part, seen.generations[part]) >= LIVES]
        lost = [part for part in lost if part not in self.given_up]
        for part in [part for part in self.turn if part not in seen.generations] + lost:
            generation = seen.generations.get(part, -1) + 1
            if self.task.ending() or not self.claims.take(part, generation):
                continue
            if identity(self.task.path) != self.before:
                raise WorkIsGoneError
            cases = list(self.plan.cases(self.missing(part)))
            if generation:  # another task has begun the part, so some runs may be on disk
                known = set(ShardFolder(self.shards).keys().astype(str).tolist())
                cases = [case for case in cases if case.key not in known]
            self.hold(part, cases)
            yield from itertools.takewhile(lambda case: not self.task.ending(), cases)

    def hold(self, part: int, cases: Sequence[Case]) -> None:
        """Count the cases of a claimed part; one without any is done."""
        self.left[part] = len(cases)
        self.part_of.update((case.key, part) for case in cases)
        if not cases:
            self.claims.finish(part)

    def computed(self, begun: Case, claimed: Iterator[Case], first: bool) -> None:
        """Compute the case `begun`, alone if it is the `first` of the study, and the other claimed cases."""
        client, count = self.task.workers.client, int(np.count_nonzero(self.is_missing))
        if first and len(self.plan.trials(np.array([begun.index]))):
            self.keep(Flow(self.plan, iter([begun]), 1, client, self.task.limits, strict=True).records())
        else:
            claimed = _with_first(begun, claimed)
        self.keep(Flow(self.plan, claimed, count, client, self.task.limits).records())

    def keep(self, found: Iterator[RunRecords]) -> None:
        """Write records to disk, and mark the completed parts as done."""
        for records in found:
            records = self.table.checked(records)
            write_shard(self.shards, records)
            self.task.computed += len(records.keys)
            self.task.failed += int(np.count_nonzero(records.status != Status.ok))
            for key in records.keys:
                part = self.part_of.pop(key)
                self.left[part] -= 1
                if not self.left[part]:
                    self.claims.finish(part)


def _with_first(first: Case, rest: Iterator[Case]) -> Iterator[Case]:
    yield first
    yield from rest


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a plan, in the order in which its cases are computed."""

    plan: Plan

    @cached_property
    def order(self) -> Order:
        """All points of the plan, in order."""
        return self.plan.order

    @cached_property
    def size(self) -> int:
        """Points of a part: as large as a batch, if its time is known, and whole groups that share stages."""
        least = math.ceil(self.plan.space.size / MOST_PARTS)
        size = max(least, round(BATCH_SECONDS / self.plan.longest) if self.plan.longest else 1)
        group = self.plan.group
        return -(-size // group) * group if group <= 2 * size else size

    @property
    def count(self) -> int:
        """Number of parts."""
        return math.ceil(len(self.order) / self.size)

    def cases(self, part: int) -> Order:
        """Numbers of a part's cases."""
        return self.order[part * self.size : (part + 1) * self.size]

    @property
    def digest(self) -> str:
        """Hash of this division, equal for tasks that give a part the same number."""
        text = f"{self.plan.phase} {self.size} ".encode()
        keys: npt.NDArray[np.bytes_] = self.plan.keys[self.order]
        return blake2b(text + keys.tobytes(), digest_size=8).hexdigest()

    # each task begins elsewhere, since tasks that begin together would all try to claim the same part
    def turn(self, number: int, of: int) -> list[int]:
        """Parts in the order in which task `number` of `of`, counted from 1, tries them, from its own share on."""
        begin = (number - 1) * self.count // of
        return [(begin + part) % self.count for part in range(self.count)]
