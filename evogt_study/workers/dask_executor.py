"""Compute the batches of a plan on a Dask client, a limited number at a time.

If a worker dies, its batch is tried once more.  If another worker dies, the batch is split until the run that does it
is alone.  After `KILLS` deaths this run is recorded as lost, and the others go on.  The result of a case does not
depend on its batch.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from asyncio import CancelledError as AsyncCancelled
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, as_completed

from evogt_study.errors import EvogtError, LeavingError, LostBatchError, StudyError, SweepError
from evogt_study.results.provenance import software_set
from evogt_study.schema.records import Case, RunRecords, joined
from evogt_study.schema.variables import Status
from evogt_study.study.plan import Plan
from evogt_study.workers.batch import Batch, run_on_worker
from evogt_study.workers.executor import BatchSize
from evogt_study.workers.limits import NO_LIMITS, WORKER_SECONDS, Limits

LOOK_SECONDS = 5.0
"""Seconds between two looks, each of which is a round trip to the scheduler."""
NO_WORKERS = f"the Dask cluster has no workers for {WORKER_SECONDS} s; finished runs are kept, the same command goes on"
BATCHES_AHEAD = 3
"""Batches in flight for each worker: one is computed, the others wait at the scheduler, so that no worker waits for us.

Of 20,000 batches such a window took 11 MB of the client, all at once 166 MB, in the same time.
"""
COUNTED_SECONDS = 1.0
"""Seconds between two counts of the workers, each of which is a round trip to the scheduler."""
ROUND_SECONDS = 0.25
"""Batches that end within it are fetched, kept and replaced together: a round trip, a shard and a sync for all."""
MESSAGE_BYTES = 2**20
"""Batches that are sent in one message, by the bytes of their cases: 20 at once take the command 0.9 ms each, one by
one 2.4."""
KILLS = 3
"""Times that a run may take its worker with it, alone in its batch, before it is lost: once may be an accident."""
GONE = "the connection to the Dask scheduler was lost; finished runs are kept, the same command computes the rest"


class Flow:
    """The batches of one plan's `cases`, `count` in number, on the workers of `client`; strict as of `Batch`."""

    def __init__(
        self,
        plan: Plan,
        cases: Iterator[Case],
        count: int,
        client: Client,
        limits: Limits = NO_LIMITS,
        *,
        strict: bool = False,
    ) -> None:
        self.plan, self.cases, self.client, self.limits, self.strict = plan, cases, client, limits, strict
        self.workers = _Counted(client)
        with _connection(client):
            self.size = BatchSize(count, self.workers.threads, plan.group, plan.longest)
        self.again: deque[Trip] = deque()
        self.in_flight: dict[Future[RunRecords], Trip] = {}
        self.numbers = itertools.count()  # in keys, so that a batch that is tried again is a new task to Dask
        self.finished = as_completed([], loop=client.loop)

    def records(self) -> Iterator[RunRecords]:
        """Records of the batches in the order in which they finish, those that finish within a round together.

        Raises SweepError where there are no workers, or none for long, or the cluster goes away;
        StudyError as `run_batch`.
        """
        wait_for_workers(self.client, self.limits.worker_seconds)
        if self.limits.worker_seconds is None:
            yield from self._records()
            return
        with Watch(self.client, self.in_flight) as watch:
            try:
                yield from self._records()
            except SweepError:
                if watch.deserted:
                    raise SweepError(NO_WORKERS) from None
                raise

    def _records(self) -> Iterator[RunRecords]:
        try:
            with _connection(self.client):
                self.submit()
            for futures in self.finished.batches():
                started, bound = time.monotonic(), self.size.held_at_once()
                for few in (futures[i : i + bound] for i in range(0, len(futures), bound)):
                    with _connection(self.client):
                        found = self.outcomes(few)
                    if found:
                        yield joined(found)  # before the scheduler is asked for anything: this is kept first
                    with _connection(self.client):
                        for future in few:
                            future.release()
                with _connection(self.client):
                    self.submit()
                self.wait(started)
        finally:
            with suppress(SweepError), _connection(self.client):
                self.client.cancel(list(self.in_flight))  # a client that is not ours goes on living

    # rounds cost little: a batch is 0.7 s of work, and each worker has two more in turn
    def wait(self, started: float) -> None:
        """Let more batches finish, unless workers would run out of them: each has more than two in turn."""
        if len(self.in_flight) > self.size.threads:
            time.sleep(max(0.0, started + min(ROUND_SECONDS, self.size.batch_seconds()) - time.monotonic()))

    def submit(self) -> None:
        """Keep every worker supplied; workers may have joined since the last time."""
        self.size.threads = self.workers.threads
        wanted = BATCHES_AHEAD * self.size.threads - len(self.in_flight)
        trips = list(itertools.takewhile(lambda trip: trip.cases, (self.next() for _ in range(wanted))))
        limit, strict = self.limits.run_seconds, self.strict
        tasks = [
            Batch.of(self.plan.spec, trip.cases, limit, strict=strict, seconds=self.size.expected(len(trip.cases)))
            for trip in trips
        ]
        at_once = max(1, MESSAGE_BYTES // max((len(task.packed) for task in tasks), default=1))
        for start in range(0, len(trips), at_once):
            some = slice(start, start + at_once)
            keys = [f"evogt-{self.plan.phase}-{trip.cases[0].key}-{next(self.numbers)}" for trip in trips[some]]
            futures = self.client.map(run_on_worker, tasks[some], key=keys, pure=False)
            self.in_flight.update(zip(futures, trips[some], strict=True))
            self.finished.update(futures)

    def next(self) -> Trip:
        """Take a batch that is to be tried again, else new cases; without cases where nothing is left."""
        return self.again.popleft() if self.again else Trip(list(itertools.islice(self.cases, self.size.next())))

    def outcomes(self, futures: Sequence[Future[RunRecords]]) -> list[RunRecords]:
        """Records of batches that have ended, those that are there fetched in one round trip."""
        there = [future for future in futures if future.status == "finished"]
        fetched: dict[Future[RunRecords], RunRecords] = {}
        with suppress(KilledWorker, LostBatchError):  # a worker died with its results; one by one shows which
            fetched = dict(zip(there, self.client.gather(there), strict=True))
        found = [self.outcome(future, self.in_flight.pop(future), fetched.get(future)) for future in futures]
        return [records for records in found if records is not None]

    def outcome(self, future: Future[RunRecords], trip: Trip, records: RunRecords | None) -> RunRecords | None:
        """The batch's records, of runs that are lost too; None where it has to be tried again."""
        if records is None and future.status == "finished":
            with suppress(KilledWorker, LostBatchError):  # its worker died with them, and then that of another try
                records = future.result()
        if records is not None:
            self.size.measured(records)
            return records
        # its worker died after computing and before handing over; those fetched together with it are pending again
        if future.status in ("lost", "pending"):
            self.again.append(trip)
            return None
        error = future.exception() if future.status == "error" else None
        if isinstance(error, LeavingError):
            self.client.retire_workers([str(error)], close_workers=True)
            self.again.append(trip)
            return None
        if isinstance(error, (SweepError, StudyError)):
            raise error
        # also when the scheduler ended: `as_completed` then ends as if all were done, so that runs would be missing
        # silently
        if future.status == "cancelled":  # by the client, when its connection is closed
            raise SweepError(GONE)
        if not isinstance(error, (KilledWorker, LostBatchError)):
            raise SweepError(
                f"a batch of runs was lost ({future.status}): {error}; finished runs are kept, the same command "
                "computes the rest"
            )
        if len(trip.cases) == 1 and trip.deaths + 1 >= KILLS:
            return without_values([trip.cases[0].key], Status.lost, self.cause(error), KILLS)
        self.again.extend(trip.again())
        return None

    def cause(self, error: KilledWorker | LostBatchError) -> str:
        """Explain the loss of a run, for its message."""
        if isinstance(error, LostBatchError):
            return f"its worker process could not return it {KILLS} times ({error})"
        beyond = " or a time limit far exceeded" if self.limits.run_seconds else ""
        return f"its worker process died {KILLS} times (memory, file descriptors, a crash{beyond})"


@dataclass(frozen=True)
class Trip:
    """A batch on its way: its cases, and how often it took its worker with it or was not handed over."""

    cases: Sequence[Case]
    deaths: int = 0

    def again(self) -> list[Trip]:
        """Return the batches to try after one more of these."""
        # as it is once more: most deaths are not the batch's fault, and halves would lose the stages that it shares
        if self.deaths == 0 or len(self.cases) == 1:
            return [Trip(self.cases, self.deaths + 1)]
        middle = len(self.cases) // 2
        return [Trip(self.cases[:middle], 1), Trip(self.cases[middle:], 1)]


def without_values(keys: Sequence[str], status: Status, message: str, attempts: int) -> RunRecords:
    """Records of runs that returned nothing."""
    count = len(keys)
    return RunRecords(
        keys=tuple(keys),
        status=np.full(count, status, dtype=np.int8),
        messages=(message,) * count,
        wall_seconds=np.zeros(count),
        attempts=np.full(count, attempts, dtype=np.int32),
        software=(software_set(),) * count,
        stacks=(),
    )


class _Counted:
    """Number of threads of a client's workers, looked up once in a while."""

    def __init__(self, client: Client) -> None:
        self.client, self.looked, self.known = client, -math.inf, 1

    @property
    def threads(self) -> int:
        """Threads of all workers, at least one."""
        if time.monotonic() > self.looked + COUNTED_SECONDS:
            self.known = max(1, int(sum(self.client.nthreads().values())))
            self.looked = time.monotonic()
        return self.known


def wait_for_workers(client: Client, seconds: int | None = WORKER_SECONDS) -> None:
    """Raise SweepError where no worker is there within `seconds`; None: where the client is closed meanwhile."""
    with _connection(client):
        while not client.nthreads():
            try:
                client.wait_for_workers(1, timeout=WORKER_SECONDS if seconds is None else seconds)
            except TimeoutError:
                if seconds is None and client.status == "running":
                    continue
                raise SweepError(
                    f"the Dask cluster has no workers after {seconds} s; start some and run again"
                ) from None


class Watch:
    """Cancels the `futures` of `client` once no worker has been there for `WORKER_SECONDS`; `deserted` says so then.

    Whoever waits for one of them goes on with an error.  As a context it watches as long as its body runs.
    """

    def __init__(self, client: Client, futures: Collection[Future[Any]]) -> None:
        self.client, self.futures, self.deserted = client, futures, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="evogt-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(LOOK_SECONDS)

    def _look(self) -> None:
        seen = time.monotonic()
        while not self._over.wait(min(LOOK_SECONDS, WORKER_SECONDS / 4)):
            try:
                if self.client.nthreads():
                    seen = time.monotonic()
                elif time.monotonic() > seen + WORKER_SECONDS:
                    self.deserted = True
                    self.client.cancel(list(self.futures))
                    return
            except (OSError, RuntimeError, CancelledError):  # the connection is lost, which the sweep notices by itself
                return


@contextmanager
def _connection(client: Client) -> Iterator[None]:
    """Raise SweepError where the body fails because the client has lost its scheduler, whatever Dask raises for it."""
    try:
        yield
    except EvogtError:
        raise
    except (Exception, AsyncCancelled) as error:
        # a client whose status is not "running" has lost its scheduler, whatever is raised meanwhile
        if not isinstance(error, (OSError, CancelledError, AsyncCancelled)) and client.status == "running":
            raise
        raise SweepError(GONE) from None
