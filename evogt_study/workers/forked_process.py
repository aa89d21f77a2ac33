"""One process forked from this one, for a study of quick runs, which is done before a cluster would have started.

Its runs are as safe as a worker's: what ends the process, or does not return, is left to the cluster, which isolates
it.  So is what fails, since some libraries cannot be used in a process that was forked after they were.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection

import numpy as np

from evogt_study.planning.execution_order import Order
from evogt_study.planning.plan import Plan
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import Status
from evogt_study.workers.batch import Batch, run_batch
from evogt_study.workers.worker_server import START_METHOD, ctrl_c_blocked

QUICK_SECONDS = 2.0
"""Seconds that the process has: a cluster of two workers takes 1.5 to 3 s to start and to end."""
BATCH_SECONDS = 0.1
"""Seconds of a batch up to which the next is twice as long: finished runs are seen at once, and files are few."""


def quick_records(plan: Plan, numbers: Order, run_seconds: float | None) -> Iterator[RunRecords]:
    """Records of those of the cases `numbers` that end well within `QUICK_SECONDS`, one after the other.

    run_seconds: as of `Batch`.  None are given on systems whose libraries may not live on in a forked process.
    """
    if START_METHOD != "forkserver":
        return
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_compute, args=(plan, numbers, run_seconds, receiver, sender), daemon=True)
    end = time.monotonic() + QUICK_SECONDS
    with ctrl_c_blocked(), warnings.catch_warnings():
        # of locks that other threads hold now: a run that waits for one is left to the cluster
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    try:
        while receiver.poll(max(0.0, end - time.monotonic())):
            records: RunRecords = receiver.recv()
            well = np.flatnonzero(records.status == Status.ok)
            if len(well):
                yield records.selected(well)
    except (EOFError, OSError):  # all are computed, or one has ended the process, perhaps while it sent
        pass
    finally:
        process.kill()
        process.join()
        receiver.close()


def _compute(plan: Plan, numbers: Order, run_seconds: float | None, receiver: Connection, sender: Connection) -> None:
    """Compute the cases in turn, in batches that grow, and send their records."""
    receiver.close()  # so that a parent that is gone ends this process when it sends
    cases, size = plan.cases(numbers), 1
    with suppress(Exception):  # told by the cluster, which computes it again
        while batch := list(itertools.islice(cases, size)):
            begun = time.monotonic()
            sender.send(run_batch(Batch.of(plan.spec, batch, run_seconds)))
            size = 2 * size if time.monotonic() - begun < BATCH_SECONDS else max(1, size // 2)
