"""Compute runs of different needs side by side, and once more with twice the memory if they fail for it."""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evogt_study.errors import SweepError
from evogt_study.schema.records import Case, RunRecords
from evogt_study.schema.variables import Status
from evogt_study.study.plan import Order, Plan
from evogt_study.study.resources import Needs, double_memory

if TYPE_CHECKING:
    from evogt_study.workers.executor import Executor

MEMORY_SIGNS = (
    "MemoryError",
    "of memory, more than the limit of",
    "signal 9, SIGKILL",
    "bad_alloc",
    "allocate memory",
    "out of memory",
)
"""Text in the message of a run that has failed for memory.  SIGKILL is what the kernel sends if memory is short."""


def with_needs(plan: Plan, needs: Needs) -> Plan:
    """Return the plan for cases with these needs.  It shares the run keys, which take long to compute."""
    made = copy.copy(plan)
    object.__setattr__(made, "needs", needs)
    return made


def compute_classes(executor: Executor, plan: Plan, numbers: Order, trials: Order) -> Iterator[RunRecords]:
    """Yield the records of cases: first of the trials, then of all classes, which are computed at the same time."""
    resources: Any = plan.resources
    classes: dict[Needs, list[int]] = {}
    for case in plan.cases(numbers):
        classes.setdefault(resources.needs_of(case.values), []).append(case.index)
    for needs in classes:
        if not executor.can_offer(needs):
            raise SweepError(
                f"no worker has {needs.describe()} for a run of this study ({plan.phase}); use other workers, which a "
                'cluster starts with --resources "cores=4 memory=16e9"'
            )
    for case in plan.cases(trials):
        yield from compute_with_retry(executor, with_needs(plan, resources.needs_of(case.values)), [case], iter(()), 0)
    flows = []
    for needs in sorted(classes, reverse=True):
        rest = np.array([index for index in classes[needs] if index not in trials], dtype=np.int64)
        own = with_needs(plan, needs)
        flows.append(compute_with_retry(executor, own, [], own.cases(rest), len(rest)))
    if executor.is_parallel:
        yield from _compute_together(flows)
        return
    for flow in flows:
        yield from flow


def _compute_together(flows: list[Iterator[RunRecords]]) -> Iterator[RunRecords]:
    """Yield the records of all flows as they come; each flow goes on when its records have been written."""
    found: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    is_over = threading.Event()

    def drain(flow: Iterator[RunRecords], written: threading.Semaphore) -> None:
        try:
            for records in flow:
                found.put((records, written))
                while not written.acquire(timeout=1.0):
                    if is_over.is_set():
                        return
            found.put((None, None))
        except BaseException as error:  # noqa: BLE001  # raised below
            found.put((None, error))

    for flow in flows:
        threading.Thread(target=drain, args=(flow, threading.Semaphore(0)), daemon=True).start()
    left = len(flows)
    try:
        while left:
            records, other = found.get()
            if records is not None:
                yield records
                other.release()
                continue
            left -= 1
            if other is not None:
                raise other
    finally:
        is_over.set()


def compute_with_retry(
    executor: Executor, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
) -> Iterator[RunRecords]:
    """Yield the records of cases; a run that fails for memory is tried once with twice as much if the study says so."""
    resources, needs = plan.resources, plan.needs
    larger = None if needs is None or not needs.memory else double_memory(needs)
    if resources is None or not resources.table.retry_memory or larger is None or not executor.can_offer(larger):
        yield from executor.compute_cases(plan, trials, cases, n_cases)
        return
    known, again = {case.key: case for case in trials}, dict[str, tuple[Case, int]]()

    def note(cases: Iterator[Case]) -> Iterator[Case]:
        for case in cases:
            known[case.key] = case
            yield case

    for records in executor.compute_cases(plan, trials, note(cases), n_cases):
        failed = np.array(
            [
                status in (Status.failed, Status.lost) and any(sign in message for sign in MEMORY_SIGNS)
                for status, message in zip(records.status, records.messages, strict=True)
            ]
        )
        for index in np.flatnonzero(failed):
            again[records.keys[index]] = known[records.keys[index]], int(records.attempts[index])
        for key in records.keys:
            known.pop(key, None)
        if not failed.all():
            yield records.select_rows(np.flatnonzero(~failed)) if failed.any() else records
    if again:
        retried = iter([case for case, _ in again.values()])
        for records in executor.compute_cases(with_needs(plan, larger), [], retried, len(again)):
            before = np.array([again[key][1] for key in records.keys], dtype=records.attempts.dtype)
            yield replace(records, attempts=records.attempts + before)
