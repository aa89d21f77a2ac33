"""Compute the batches of a plan on a Dask client, a limited number at a time.

Each thread of a Dask worker has a runner, so a run that ends its runner ends no worker.  If a worker is lost, Dask
computes its batches on other workers.  A batch that loses several workers is split until the responsible run is alone.
"""

from __future__ import annotations

import itertools
import math
import pickle
import queue
import re
import socket
import threading
import time
import uuid
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, WorkerPlugin, get_worker
from distributed.worker import Worker

from evogt_study.errors import EvogtError, SweepError
from evogt_study.results.provenance import package_code
from evogt_study.schema.records import NO_NEEDS, Case, Needs, RunRecords, concatenate_records
from evogt_study.schema.variables import Status
from evogt_study.study.plan import Plan
from evogt_study.text import format_duration
from evogt_study.workers.batch import Batch, describe_error, make_records
from evogt_study.workers.executor import BatchSize, Executor
from evogt_study.workers.runner import RunnerLimits, RunnerPool, load

BATCHES_AHEAD, MIN_BATCHES_AHEAD = 3, 8
"""Number of batches in flight for each worker, and smallest number of batches in flight.

The batches that wait at the scheduler keep all workers busy, and make an adaptive cluster start workers.  For 20,000
batches, the client needed 11 MB with this limit, and 166 MB without it, in equal times.
"""
HELD_BYTES = 512 * 2**20
"""Largest number of bytes in flight, if there are more batches than workers."""
ALONE_SECONDS = 0.5
"""Seconds in which one runner computes alone, until the time of a run is known.

One more runner starts for each further period of work of this length.  A runner needs a third of a second for imports.
"""
COUNTED_SECONDS = 1.0
"""Seconds between two counts of the workers.  Each count needs a round trip to the scheduler."""
ROUND_SECONDS = 0.25
"""Length of a period in seconds.  The client fetches, stores and replaces all batches of a period together."""
LACKS_MEMORY = re.compile("MemoryError|of memory, more than|signal 9, SIGKILL|bad_alloc|allocate memory|out of memory")
"""Pattern for the message of a run that lacked memory.  The kernel sends SIGKILL if memory is short."""
MAX_WORKER_LOSSES = 2
"""Number of times that a batch with one run may lose its workers before the run gets the status lost."""
_SILENT_SECONDS, LONG_SECONDS = 5.0, 60.0
"""Seconds until a message says that no run has finished: without workers, and with workers.

The time until the next message doubles.
"""
REACH_SECONDS, LITTLE_BYTES = 2.0, 2**20
"""Time limit in seconds for a direct connection to a worker, and for a transfer of fewer bytes.

If a worker is slower, the client gets the results from the scheduler.
"""
CONNECTION_LOST = (
    "the connection to the Dask scheduler was lost. Finished runs are kept. The same command computes the rest."
)


get_needs = attrgetter("needs")


class Runners(WorkerPlugin):
    """Runners of a Dask worker for one study, one runner for each thread.

    `n_spare` threads have no runner.  Each of these threads holds a batch, which the next free runner computes at once.
    """

    pool: RunnerPool

    def __init__(self, limits: RunnerLimits, environment: dict[str, str], n_spare: int) -> None:
        self.limits, self.environment, self.n_spare = limits, environment, n_spare

    def setup(self, worker: Worker) -> None:
        """Prepare the runners.  A runner starts with its first batch."""
        limits, memory = self.limits, worker.memory_manager.memory_limit
        if limits.memory is None and memory:
            limits = RunnerLimits(limits.seconds, memory // worker.state.nthreads)
        self.pool = RunnerPool(limits, self.environment, worker.state.nthreads - self.n_spare)

    def teardown(self, worker: Worker) -> None:
        """End the runners."""
        self.pool.close()


# errors are returned, since a worker logs a raised error with its traceback
def compute_on_worker(name: str, code: str, packed: bytes) -> list[Any] | EvogtError:
    """Compute a batch with the `Runners` called `name`.  Return pickled records, or the error."""
    try:
        if code != package_code():  # before anything is unpacked, which may not be possible with other code
            raise SweepError(
                f"a worker has evogt-study {package_code()}, but this process has {code}. Install one version on both."
            )
        worker, batch = get_worker(), pickle.loads(packed)  # noqa: S301  # from our client
        plugin: Any = worker.plugins.get(name)
        if plugin is None:
            raise SweepError(f"the Dask worker {worker.address} has no runners of this study. Restart the worker.")
        # as arrays Dask sends them as they are; bytes it would pickle and copy
        return [np.frombuffer(part, dtype=np.uint8) for part in plugin.pool.compute(batch)]
    except EvogtError as error:
        return error


class DaskExecutor(Executor):
    """Executor that computes cases on a Dask client.

    `print_line` receives messages while no run finishes.  `environment` has environment variables for the runs.
    `n_spare` is the number of threads of the only worker that have no runner.
    """

    def __init__(
        self,
        client: Client,
        limits: RunnerLimits,
        print_line: Callable[[str], None],
        environment: dict[str, str],
        n_spare: int,
    ) -> None:
        self.client, self.print_line, self.name = client, print_line, f"evogt-{uuid.uuid4().hex}"
        self.n_spare = n_spare
        try:  # once to each worker, later ones too, without a wait for any
            client.register_plugin(Runners(limits, environment, n_spare), name=self.name)
        except Exception as error:  # noqa: BLE001  # whatever unpickling raises on a worker
            check_connection(client)
            raise SweepError(
                f"the Dask workers cannot compute runs ({describe_error(error)}). Install evogt-study "
                f"{package_code()} on the workers."
            ) from None

    def compute_cases(
        self, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> Iterator[RunRecords]:
        """Yield the records of the trials and the cases, as `Executor.compute` does."""
        return _PlanBatches(self, plan, trials, cases, n_cases).records()

    def can_offer(self, needs: Needs) -> bool:
        """Return False if there are workers, but no worker has the resources that a run needs."""
        workers: list[Any] = []
        with suppress(Exception):  # `check_connection` says that it is lost
            workers = [each["resources"] for each in self.client.scheduler_info(n_workers=-1)["workers"].values()]
        wanted = needs.worker_resources.items()
        return not workers or any(all(each.get(name, 0) >= amount for name, amount in wanted) for each in workers)

    def close(self) -> None:
        """End the runners at once."""

        # a worker that does not answer must not hold up this process; its runners end when they are idle
        def unregister() -> None:
            with suppress(Exception):  # the connection may be lost
                self.client.unregister_worker_plugin(self.name)

        ending = threading.Thread(target=unregister, daemon=True)
        ending.start()
        ending.join(REACH_SECONDS)


@dataclass(frozen=True)
class BatchAttempt:
    """Attempt to compute a batch, with its cases, lost workers, trial flag, and earlier attempts that lacked memory."""

    cases: Sequence[Case]
    losses: int = 0
    is_trial: bool = False
    earlier: int = 0


class _PlanBatches:
    """Batches of one plan.  Each of the `trials` is a separate batch.  `n_cases` is the largest number of `cases`."""

    def __init__(
        self, executor: DaskExecutor, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> None:
        self.executor, self.plan, self.cases = executor, plan, cases
        self.client = executor.client
        self.n_threads, self.counted, self.n_most = 0, -math.inf, 0
        self.size = BatchSize(n_cases, self.count_threads(), plan.group)
        self.again = deque(BatchAttempt([case], is_trial=True) for case in trials)
        self.n_trials = len(trials)  # that have no record yet
        self.in_flight: dict[Future[Any], BatchAttempt] = {}
        self.offered = {NO_NEEDS}  # needs that a worker meets
        # in keys: studies share a client, and a batch that is tried again is a new task to Dask
        self.name, self.numbers = f"evogt-{uuid.uuid4().hex}", itertools.count()
        self.ended: queue.SimpleQueue[Future[Any] | None] = queue.SimpleQueue()
        self.fetched: queue.SimpleQueue[tuple[Future[Any], Any]] = queue.SimpleQueue()
        self.direct: bool | None = None
        self.begun = self.heard = time.monotonic()
        self.silence = 0.0

    def records(self) -> Iterator[RunRecords]:
        """Yield the records of all trials, and then the records of each batch that finishes.

        Raises SweepError if the scheduler is lost, and StudyError if the return value of a trial cannot be stored.
        """
        threading.Thread(target=self._fetch_ended, daemon=True).start()
        held: list[RunRecords] = []  # until the trials are done: they fix the shapes of variables
        first: list[RunRecords] = []
        try:
            while self.submit():
                for future, parts in self.take_completed():
                    attempt = self.in_flight.pop(future, None)
                    if attempt is None:
                        continue
                    (first if attempt.is_trial else held).extend(self.read_outcome(future, attempt, parts))
                    future.release()
                    del parts
                if held or first:
                    if self.n_trials == 0:
                        held[:0], first = first, []
                        yield _take_joined(held)
                    # more batches may finish, unless workers would run out of them: each has more than two in turn
                    if len(self.in_flight) > self.size.threads:
                        time.sleep(min([ROUND_SECONDS, *(seconds for _, seconds, _ in self.size.recent)]))
        finally:
            self.ended.put(None)
            with suppress(Exception):  # a client of the user goes on living
                self.client.cancel(list(self.in_flight), force=True)

    def count_threads(self) -> int:
        """Return the number of threads of all workers, at least one.  The count is at most `COUNTED_SECONDS` old."""
        if time.monotonic() > self.counted + COUNTED_SECONDS:
            with suppress(Exception, CancelledError):  # `check_connection` says that it is lost
                self.n_threads = int(sum(self.client.nthreads().values())) - self.executor.n_spare
            self.counted = time.monotonic()
        return max(1, self.n_threads)

    def submit(self) -> bool:
        """Submit batches for all workers, also for new workers, and return True if a batch is in flight."""
        self.size.threads = self.executor.workers = self.count_threads()
        n_wanted = self.n_wanted()
        attempts = [self.again.popleft() for _ in range(min(n_wanted, len(self.again)))]
        while len(attempts) < n_wanted and (cases := self.size.take(self.cases)):
            classes = itertools.groupby(sorted(cases, key=get_needs), get_needs)
            attempts += [BatchAttempt(list(alike)) for _, alike in classes]
        # in one message for each class of needs: 20 at once take the client 0.9 ms each, one by one 2.4
        for needs in {get_needs(each.cases[0]): None for each in attempts}:
            self.submit_class(needs, [each for each in attempts if get_needs(each.cases[0]) == needs])
        self.n_most = max(self.n_most, len(self.in_flight))
        return bool(self.in_flight)

    def submit_class(self, needs: Needs, attempts: Sequence[BatchAttempt]) -> None:
        """Submit batches of cases with these needs.  Raises SweepError if no worker has the resources."""
        plan, resources = self.plan, needs.worker_resources
        if needs not in self.offered and not self.executor.can_offer(needs):
            text = " ".join(f"{name}={amount:g}" for name, amount in resources.items())
            raise SweepError(
                f'no worker has --resources "{text}" for a run of this study ({plan.phase}). Start such a worker.'
            )
        self.offered.add(needs)
        batches = (Batch.of(plan.spec, each.cases, strict=each.is_trial, folder=plan.folder) for each in attempts)
        packed = [pickle.dumps(each, protocol=5) for each in batches]
        name, code = [self.executor.name] * len(packed), [package_code()] * len(packed)
        keys = [f"{self.name}-{plan.phase}-{next(self.numbers)}" for _ in packed]
        futures = self.client.map(compute_on_worker, name, code, packed, key=keys, pure=False, resources=resources)
        for future, attempt in zip(futures, attempts, strict=True):
            self.in_flight[future] = attempt
            future.add_done_callback(self.ended.put)

    def n_wanted(self) -> int:
        """Return the number of batches to submit now."""
        threads = self.size.threads
        wanted = max(BATCHES_AHEAD * threads, MIN_BATCHES_AHEAD)
        if self.size.runs:
            left = self.size.estimate_seconds(self.size.left + sum(len(each.cases) for each in self.in_flight.values()))
            few = max(self.n_most, 1 + int(left / ALONE_SECONDS))  # runners that have started cost no start any more
            n_held = HELD_BYTES // max([1, *(size for _, _, size in self.size.recent)])
            wanted = min(wanted, max(threads + 1, n_held), few)
        elif time.monotonic() < self.begun + ALONE_SECONDS and self.n_threads:
            wanted = 1
        return wanted - len(self.in_flight)

    def take_completed(self) -> list[tuple[Future[Any], Any]]:
        """Return the finished batches with their pickled records.  Wait at most `COUNTED_SECONDS` for a batch."""
        alone = self.begun + ALONE_SECONDS - time.monotonic() if not self.size.runs else 0.0
        found = _drain(self.fetched, alone if alone > 0.0 else COUNTED_SECONDS)
        now = time.monotonic()
        if found:
            self.heard, self.silence = now, 0.0
        elif now > self.heard + max(self.silence, LONG_SECONDS if self.n_threads else _SILENT_SECONDS):
            missing = "runs are being computed" if self.n_threads else "the Dask cluster has no worker"
            silent = now - self.heard
            self.executor.print_line(f"no run has finished for {format_duration(silent)}: {missing}")
            self.silence = 2.0 * silent
        check_connection(self.client)
        return found

    def _fetch_ended(self) -> None:
        """Fetch finished batches in a thread.  If a worker dies with results, a fetch waits for new results."""
        while None not in (futures := _drain(self.ended, None)):
            self._fetch(futures)  # a function of its own: no value stays in a variable during the wait

    def _fetch(self, futures: Sequence[Future[Any]]) -> None:
        ready = [future for future in futures if future.status == "finished"]
        values: dict[Future[Any], Any] = {}
        with suppress(Exception, CancelledError):  # one by one below
            if self.direct is None and ready:
                self.direct = can_reach(next(iter(self.client.nthreads())))
            begun = time.monotonic()
            values = dict(zip(ready, self.client.gather(ready, direct=bool(self.direct)), strict=True))
            size = sum(part.nbytes for parts in values.values() if isinstance(parts, list) for part in parts)
            if time.monotonic() > begun + REACH_SECONDS and size < LITTLE_BYTES:
                self.direct = False  # a firewall: Dask asks the scheduler after a timeout, each time again
        for future in futures:
            if future not in values and future.status == "finished":
                with suppress(Exception, CancelledError):
                    values[future] = self.client.gather(future, direct=False)
            self.fetched.put((future, values.get(future)))

    def read_outcome(
        self, future: Future[Any], attempt: BatchAttempt, parts: list[Any] | EvogtError | None
    ) -> list[RunRecords]:
        """Return the records of the finished and the lost runs of a batch, and submit all other runs again."""
        if isinstance(parts, list):
            found: list[RunRecords] = list(map(load, parts))
            for records in found:
                self.size.add(records)
            known = {key for records in found for key in records.keys}
            rest = [case for case in attempt.cases if case.key not in known]  # of a worker that is closing
            if rest:
                self.again.append(replace(attempt, cases=rest))
            n_again = len(self.again)
            found = [self.retry_memory(attempt, records) for records in found]
            self.n_trials -= attempt.is_trial and not rest and len(self.again) == n_again
            return [records for records in found if len(records.keys)]
        error = future.exception() if future.status == "error" else parts
        if isinstance(error, EvogtError):
            raise error
        if isinstance(error, KilledWorker):
            if len(attempt.cases) == 1 and attempt.losses + 1 >= MAX_WORKER_LOSSES:
                self.n_trials -= attempt.is_trial
                message = f"the Dask workers that computed the run were lost {MAX_WORKER_LOSSES} times"
                return [
                    make_records([attempt.cases[0].key], [(Status.lost, message, None, "", 0.0)], MAX_WORKER_LOSSES)
                ]
            # as it is once more: most losses are not the fault of the batch, and halves would lose shared stages
            middle = len(attempt.cases) // 2 if attempt.losses else 0
            parts = [attempt.cases[:middle], attempt.cases[middle:]] if middle else [attempt.cases]
            losses = 1 if middle else attempt.losses + 1
            self.again.extend(replace(attempt, cases=part, losses=losses) for part in parts)
            return []
        if error is not None:
            raise SweepError(f"a batch could not be computed on the Dask cluster: {describe_error(error)}")
        check_connection(self.client)
        self.again.append(attempt)
        return []

    def retry_memory(self, attempt: BatchAttempt, records: RunRecords) -> RunRecords:
        """Submit runs that lacked memory again, with twice the memory, and return the records of all other runs."""
        if attempt.earlier:
            return replace(records, attempts=records.attempts + np.int32(attempt.earlier))
        resources, needs = self.plan.resources, attempt.cases[0].needs
        larger = needs._replace(memory=2 * needs.memory)
        lacks = np.array([bool(LACKS_MEMORY.search(message)) for message in records.messages])
        is_retried = resources is not None and resources.retry_memory and needs.memory and lacks.any()
        if not is_retried or not self.executor.can_offer(larger):
            return records
        cases = {case.key: replace(case, needs=larger) for case in attempt.cases}
        for row in np.flatnonzero(lacks):
            earlier = int(records.attempts[row])
            self.again.append(replace(attempt, cases=[cases[records.keys[row]]], earlier=earlier))
        return records.select_rows(np.flatnonzero(~lacks))


def _take_joined(several: list[RunRecords]) -> RunRecords:
    """Join the records and empty the list, so that their memory is free after the caller has stored them."""
    made = concatenate_records(several)
    several.clear()
    return made


def check_connection(client: Client) -> None:
    """Raise SweepError if the client has lost its scheduler."""
    if client.status != "running":
        raise SweepError(CONNECTION_LOST)


def can_reach(address: str) -> bool:
    """Return True if a worker accepts connections.  Behind a firewall, Dask would wait 30 s at each fetch."""
    scheme, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    if scheme in ("tcp", "tls"):
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
        except OSError:
            return False
    return True


def _drain(items: queue.SimpleQueue[Any], seconds: float | None) -> list[Any]:
    """Wait for the first item of a queue, and return all items that the queue then has."""
    found = []
    with suppress(queue.Empty):
        found.append(items.get(timeout=seconds))
        while True:
            found.append(items.get_nowait())
    return found
