"""Connect to Dask with a given client, to a running scheduler, or to a new cluster inside this process."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.comm.core import connect
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from evogt_study.errors import InputError, shorten
from evogt_study.storage.arrays import SHARED_FOLDER
from evogt_study.storage.files import read_bytes
from evogt_study.storage.lease import make_temporary_folder
from evogt_study.workers.dask_executor import DaskExecutor
from evogt_study.workers.options import RunOptions
from evogt_study.workers.runner import RunnerLimits
from evogt_study.workers.signals import defer_signals

# a scheduler that is there answers within milliseconds, and Dask alone would try for 30 s
CONNECT_SECONDS = 5
RUNNERS_PER_SPARE = 4
"""Number of workers for each spare thread.  A spare thread holds the next batch, which Dask would need 5 ms to send."""
SETTINGS = {
    # with Dask's 1.1 a worker has batches queued, while another one may be idle
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.admin.low-level-log-length": 10,  # of messages, in which all batches would be kept
    "distributed.admin.tick.limit": "1h",  # a client that waits for numbers is no news
    "distributed.admin.tick.interval": "1m",
    "distributed.admin.tick.cycle": "1m",
    "distributed.admin.system-monitor.interval": "1m",
    "distributed.admin.system-monitor.disk": False,
    "distributed.worker.profile.enabled": False,
    "distributed.client.scheduler-info-interval": "1m",  # of all workers, which have no reader
    "distributed.scheduler.work-stealing": False,  # no worker has a batch beyond the one that it computes
}
"""Dask's settings for a cluster that this process starts."""
NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
"""Dask's settings for a cluster without web pages, because every user of the machine could open these pages."""


@contextmanager
def dask_executor(
    client: Client | None, options: RunOptions, print_line: Callable[[str], None]
) -> Iterator[DaskExecutor]:
    """Yield an executor on a client, or on a new cluster inside this process, which is closed at the end."""
    limits = RunnerLimits(options.run_timeout, options.memory_bytes)
    with ExitStack() as stack:
        environment, n_spare = dict[str, str](), 0
        if client is None:
            workers = options.workers or CPU_COUNT
            limits = replace(limits, memory=limits.memory or MEMORY_LIMIT // workers)
            # runs on this machine share a folder of references
            folder = tempfile.TemporaryDirectory(
                prefix="shared-", dir=make_temporary_folder(), ignore_cleanup_errors=True
            )
            environment[SHARED_FOLDER] = stack.enter_context(folder)
            n_spare = workers // RUNNERS_PER_SPARE
            client = stack.enter_context(start_local_cluster(workers, n_spare))
        executor = DaskExecutor(client, limits, print_line, environment, n_spare)
        stack.callback(executor.close)
        yield executor


def check_client(client: Any) -> None:
    """Raise InputError unless a study can use the client."""
    if not isinstance(client, Client):
        raise InputError(
            f"`client` must be a distributed.Client, got {shorten(client)}. Leave out `client` to use this machine."
        )
    if client.asynchronous:
        raise InputError(
            "`client` is asynchronous, but a study waits for its runs. Create a client without `asynchronous`."
        )
    if client.status in ("closed", "closing", "newly-created"):
        raise InputError(
            f"`client` has no connection to a scheduler (its status is {client.status!r}). Create a new client."
        )


# Worker threads wait for the interpreters that compute, so one worker with many threads has no disadvantage, and it
# gives each thread that is free the next batch.
@contextmanager
def start_local_cluster(workers: int, n_spare: int = 0) -> Iterator[Client]:
    """Yield the client of a cluster inside this process.  No other process can reach the cluster.

    `n_spare` is the number of threads in addition to one thread for each worker.
    """
    settings = SETTINGS | NO_PAGES | {"temporary-directory": str(make_temporary_folder())}
    with quiet_dask_logging(), dask.config.set(settings):
        with defer_signals():  # Dask cannot close a cluster that is half started
            cluster = LocalCluster(
                n_workers=1,
                threads_per_worker=workers + n_spare,
                processes=False,
                memory_limit=0,
                resources={"cores": workers, "memory": MEMORY_LIMIT},  # for runs of a study with [resources]
                dashboard_address="127.0.0.1:0",  # None would take Dask's own port
                scheduler_kwargs={"dashboard": False},
                worker_dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            )
        with cluster, Client(cluster, set_as_default=False) as client:
            yield client


# The client is never Dask's default: that would compute users' dask-backed arrays, and xarray would lock files across
# the cluster, which takes 28 to 78 ms a write instead of 2 ms.
@contextmanager
def connect_to_scheduler(address: str | None, scheduler_file: Path | None) -> Iterator[Client | None]:
    """Yield a client of a running scheduler, and close it at the end.  Yield None if both arguments are None.

    Raises InputError if no scheduler answers.
    """
    if scheduler_file is not None:
        try:
            address = str(json.loads(read_bytes(scheduler_file))["address"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"`--scheduler-file` must be the file of a running scheduler, got {scheduler_file}: {reason}"
            ) from None
    if address is None:
        yield None
        return
    mistake = f"`--scheduler` must be the address of a running scheduler, got {address}"
    match = re.fullmatch(r"((tcp|tls|wss?|ucxx?)://)?[^\s/]+:(\d{1,5})", address)
    if not match or int(match[3]) > 65535:  # Dask would try to reach it until its time is up
        raise InputError(f"{mistake}. Use the form tcp://host:8786.")
    if address.startswith("tls:") and not dask.config.get("distributed.comm.tls.client.cert", None):
        raise InputError(f"{mistake}, for which Dask's configuration has no certificate. Set distributed.comm.tls.")
    try:
        asyncio.run(_wait_for_greeting(address))
        client = Client(address, set_as_default=False, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        # Dask takes the greeting of another service for the length of what follows
        raise InputError(
            f"{mistake}: {'another service answers there' if isinstance(error, MemoryError) else error}"
        ) from None
    with quiet_dask_logging(), client:
        yield client


# what accepts a connection and says nothing, as a scheduler that was stopped, a client would wait for without end
async def _wait_for_greeting(address: str) -> None:
    """Raise OSError if `address` sends no greeting within `CONNECT_SECONDS`."""
    try:
        greeted = connect(address, timeout=CONNECT_SECONDS, **Security().get_connection_args("client"))
        comm = await asyncio.wait_for(greeted, CONNECT_SECONDS)
    except TimeoutError:
        raise OSError(f"the service there does not answer within {CONNECT_SECONDS} s") from None
    await comm.close()


@contextmanager
def quiet_dask_logging() -> Iterator[None]:
    """Limit Dask's log to critical messages, because the study itself reports a lost connection."""
    # for good: after an interrupt the thread of a cluster may still close a connection, which it would report
    logging.getLogger("distributed.batched").setLevel(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
