"""Choose the size of batches, connect to workers when they are needed, and compute quick runs until they are there.

One forked process computes the quick runs.  It is as safe as a worker: the cluster computes again whatever failed in
it, since some libraries cannot be used in a process that was forked after they were loaded.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from evogt_study.errors import ParameterError, SweepError
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import Status
from evogt_study.study.plan import Order, Plan
from evogt_study.workers.batch import Batch, run_batch
from evogt_study.workers.limits import is_number
from evogt_study.workers.signals import deferred
from evogt_study.workers.worker_server import START_METHOD, ctrl_c_blocked, end_if_being_started

if TYPE_CHECKING:
    from distributed import Client

QUICK_SECONDS = 2.0
"""Seconds that the process has alone: a cluster of two workers takes 1.5 to 3 s to start and to end."""
LOOK_SECONDS = 0.5
"""Seconds after which it is judged by its pace whether it will do: the first run of a process takes up to a quarter."""
EARLY_SECONDS, FASTER = 0.1, 10.0
"""Seconds after which it is found that it will not do at `FASTER` times the pace of its first runs: workers that are
needed all the same are there so much sooner."""
FORKED_SECONDS = 0.1
"""Seconds of a batch up to which the next is twice as long: finished runs are seen at once, and files are few."""
# xarray imports them when it makes its first variable and when it writes, and a cluster needs them: 0.6 s
IMPORTED_MEANWHILE = ("dask.array", "distributed")
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


class Workers:
    """A client that is connected when it is first needed: a result that is complete starts no cluster.

    alone: whether one study has them, whose first runs this machine may compute before they are there.
    """

    def __init__(self, client: Client | None, workers: int | None, *, alone: bool = True) -> None:
        # a worker that imports a script without a main guard comes here too, and would start workers of its own
        if client is None:
            end_if_being_started()
        # Dask takes -1 for none, which a study would wait for
        if workers is not None and not (is_number(workers, Integral) and workers > 0):
            raise ParameterError("workers", "an integer > 0", workers, remedy="leave it out for this machine's cores")
        self.given, self.workers, self.alone = client, workers, alone
        self._context: AbstractContextManager[Client] | None = None
        self._client: Client | None = None
        self._closed = False
        self._connecting = threading.Lock()  # studies that run at once share the client

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        with self._connecting:
            self._closed = True
            if self._client is not None and self._context is not None:
                # closed as after success, whatever was raised: what is finished is on disk already
                self._context.__exit__(None, None, None)

    @property
    def may_wait(self) -> bool:
        """True until some are there, unless the user has said which there are to be."""
        return self.alone and self.given is None and self._client is None

    @property
    def client(self) -> Client:
        """The client, connected now if it was not before."""
        with self._connecting:
            if self._closed:
                raise SweepError("stopped because another study could not go on; what is finished is kept")
            if self._client is None:
                from evogt_study.workers.clusters import connected  # 0.3 s, with Dask

                self._context = connected(self.given, self.workers)
                self._client = self._context.__enter__()
            return self._client


def quick_records(
    plan: Plan, numbers: Order, run_seconds: float | None, start_workers: Callable[[], object]
) -> Iterator[RunRecords]:
    """Records of those of the cases `numbers` that are computed well by one process before workers are there.

    Where that is not to end within `QUICK_SECONDS`, `start_workers` is called, during which the process goes on.
    run_seconds: as of `Batch`.  None are given on systems whose libraries may not live on in a forked process.
    """
    if START_METHOD != "forkserver":
        return
    begun, done = time.monotonic(), 0
    with _forked(plan, numbers, run_seconds) as receiver:
        for look, faster in ((EARLY_SECONDS, FASTER), (LOOK_SECONDS, 1.0), (QUICK_SECONDS, 1.0)):
            for records in _received(receiver, begun + look):
                done += len(records.keys)
                yield records
            if done == len(numbers):
                return
            if (done or look >= LOOK_SECONDS) and faster * done / look < len(numbers) / QUICK_SECONDS:
                break
        start_workers()
        yield from _received(receiver, begun)


@contextmanager
def _forked(plan: Plan, numbers: Order, run_seconds: float | None) -> Iterator[Connection]:
    """Fork a process that computes the cases, and give what its records come by; the end of the body kills it."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_compute, args=(plan, numbers, run_seconds, receiver, sender), daemon=True)
    with ExitStack() as ends:
        # what modules do after a fork has its exceptions ignored: a signal that came then was lost
        with deferred(), ctrl_c_blocked(), warnings.catch_warnings():
            # of locks that other threads hold now: a run that waits for one is left to the cluster
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
            for end in (receiver.close, process.join, process.kill):
                ends.callback(end)
        sender.close()
        # after the fork, which would copy a lock of what is half imported
        threading.Thread(target=lambda: [import_module(name) for name in IMPORTED_MEANWHILE], daemon=True).start()
        yield receiver


def _received(receiver: Connection, end: float) -> Iterator[RunRecords]:
    """Records of runs that went well, of all that is there and of what comes until `end`."""
    with suppress(EOFError, OSError):  # all are computed, or one has ended the process, perhaps while it sent
        while receiver.poll(max(0.0, end - time.monotonic())):
            records: RunRecords = receiver.recv()
            well = np.flatnonzero(records.status == Status.ok)
            if len(well):
                yield records.selected(well)


def _compute(plan: Plan, numbers: Order, run_seconds: float | None, receiver: Connection, sender: Connection) -> None:
    """Compute the cases in turn, in batches that grow, and send their records."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what defers it was forked too
    receiver.close()  # so that a parent that is gone ends this process when it sends
    cases, size = plan.cases(numbers), 1
    # told by the cluster, which computes it again; the interrupt may be a run's own
    with suppress(Exception, KeyboardInterrupt):
        while batch := list(itertools.islice(cases, size)):
            begun = time.monotonic()
            sender.send(run_batch(Batch.of(plan.spec, batch, run_seconds)))
            size = 2 * size if time.monotonic() - begun < FORKED_SECONDS else max(1, size // 2)
