"""Connect to a Dask client: a given one, or a local cluster of processes with one thread each."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.comm.core import connect
from distributed.security import Security
from tornado.ioloop import PeriodicCallback

from evogt_study.errors import InputError, SweepError
from evogt_study.storage.arrays import SHARED_FOLDER
from evogt_study.storage.lease import own_folder
from evogt_study.workers.signals import deferred
from evogt_study.workers.worker_server import ONE_THREAD, START_METHOD, runs_the_script, start_ahead

# a scheduler that is there answers within milliseconds, and Dask alone would try for 30 s
CONNECT_SECONDS = 5
SETTINGS = {
    # with Dask's 1.1 a worker has batches queued, which die with it: innocent runs were condemned in 2 of 6 searches
    # for the guilty one
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 0,  # the sweep itself finds out which run takes its worker with it
    # Dask's 0.95 leaves less of the machine to a run that needs nearly all of a worker's share
    "distributed.worker.memory.terminate": 0.98,
    # at 80 % Dask would pause a worker: one whose runs leak frees nothing, and a study waits for it without end
    "distributed.worker.memory.pause": False,
    "distributed.admin.low-level-log-length": 10,  # of messages, in which all batches would be kept
    "distributed.admin.tick.limit": "1h",  # a client that waits for numbers is no news
    "distributed.admin.tick.interval": "1m",
    "distributed.admin.tick.cycle": "1m",
    "distributed.admin.system-monitor.interval": "1m",  # every 2 s it took half of the event loop's time with 64
    # workers, for each of which this process has a nanny that looks at it
    "distributed.admin.system-monitor.disk": False,
    "distributed.worker.profile.enabled": False,
    "distributed.client.scheduler-info-interval": "1m",  # of all workers, which nobody looks at
    "distributed.scheduler.work-stealing": False,  # no worker has a batch beyond the one that it computes
}
"""Dask's settings for a cluster that this process starts."""
ON_THIS_MACHINE = {
    "distributed.worker.multiprocessing-method": START_METHOD,
    "distributed.nanny.pre-spawn-environ": ONE_THREAD,
}
"""Further settings for workers on this machine."""
REOPEN_SECONDS = 5
"""Seconds between two looks for lost workers, which Dask counts as such 15 s after it last heard of them."""
LOOKS_A_SECOND = 40
"""Looks at workers' memory a second, of all together: those of four workers at Dask's own pace."""
NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
"""Further settings for a cluster that shows no pages on its ports, which are open to every user of the machine."""


@contextmanager
def connected(client: Client | None, workers: int | None = None) -> Iterator[Client]:
    """`client` itself, or one of an embedded cluster with `workers` processes that is closed at the end.

    The embedded cluster listens on loopback only, where other users of this machine are too, and takes nobody without
    its certificate, which is made here and kept in memory.  It holds BLAS to one thread in its workers, whatever this
    process inherited.
    """
    if client is not None:
        yield client
        return
    start_ahead()
    workers = workers or CPU_COUNT
    made = tempfile.TemporaryDirectory(prefix="evogt-", dir=own_folder(), ignore_cleanup_errors=True)
    # the cluster is silent of its own until it closes, and what then fails to be sent is told after that
    with silent(), made as folder, ExitStack() as stack:
        scratch = {"temporary-directory": folder}  # else Dask leaves a folder beside it
        stack.enter_context(dask.config.set(SETTINGS | ON_THIS_MACHINE | NO_PAGES | scratch | _looks(workers)))
        with deferred():  # Dask cannot close a cluster that is half started
            cluster = stack.enter_context(_local_cluster(workers, folder))
            stack.enter_context(kept_up(cluster, workers))
            client = stack.enter_context(Client(cluster, set_as_default=False))
        yield client


def _local_cluster(workers: int, folder: str) -> LocalCluster:
    """Worker processes on this machine.

    Raises SweepError where one of them dies, or is refused, as it starts; InputError where the user's script would be
    why, which is found out first: Dask takes ten seconds and more to give up.
    """
    if runs_the_script():
        raise InputError(
            'a script that runs a study must do so under `if __name__ == "__main__":`, since each worker imports it, '
            f"got {sys.modules['__main__'].__file__} without; write that line and indent the rest"
        )
    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,  # SciPy's factorisations hold the GIL: threads would wait for each other
            processes=True,
            host="127.0.0.1",
            security=Security.temporary(),
            dashboard_address="127.0.0.1:0",  # None would take Dask's own port
            scheduler_kwargs={"dashboard": False},
            env=ONE_THREAD | {SHARED_FOLDER: folder},
            silence_logs=logging.CRITICAL,
        )
    except (OSError, RuntimeError) as error:  # Dask has closed what it had started
        raise SweepError(
            f"the {workers} worker processes did not start: {error or type(error).__name__}; run again, with fewer "
            "--workers where memory is short"
        ) from None


@contextmanager
def kept_up(cluster: Any, workers: int) -> Iterator[None]:
    """Have Dask start again whichever of the `workers` it has given up, every `REOPEN_SECONDS`.

    A nanny whose worker dies while it is being started gives up, and Dask counts that worker as lost, but starts none
    in its place by itself.
    """
    reopening = PeriodicCallback(partial(cluster.scale, n=workers), 1000 * REOPEN_SECONDS)
    cluster.loop.add_callback(reopening.start)
    try:
        yield
    finally:
        cluster.loop.add_callback(reopening.stop)


def _looks(workers: int) -> dict[str, str]:
    """Dask's own tenth of a second between two looks at a worker's memory, longer where there are many."""
    return {"distributed.worker.memory.monitor-interval": f"{max(100, 1000 * workers // LOOKS_A_SECOND)}ms"}


# The client is never Dask's default: that would compute users' dask-backed arrays, and xarray would lock files across
# the cluster, which takes 28 to 78 ms a write instead of 2 ms.
@contextmanager
def remote(address: str | None, scheduler_file: Path | None) -> Iterator[Client | None]:
    """A client of a running scheduler, closed at the end; None where neither address nor file is given.

    Raises InputError where no scheduler answers.
    """
    if address is None and scheduler_file is None:
        yield None
        return
    if scheduler_file is not None:
        address = _address_in(scheduler_file)
    _check_address(str(address))
    try:
        asyncio.run(_answer(str(address)))
        client = Client(address, set_as_default=False, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        # Dask takes the greeting of another service for the length of what follows
        told = "what answers there is another service" if isinstance(error, MemoryError) else error
        raise InputError(f"`--scheduler` must be the address of a running scheduler, got {address}: {told}") from None
    with silent(), client:
        yield client


# what accepts a connection and says nothing, as a scheduler that was stopped, a client would wait for without end
async def _answer(address: str) -> None:
    """Wait for a greeting from `address`.  Raises OSError where there is none within `CONNECT_SECONDS`."""
    try:
        greeted = connect(address, timeout=CONNECT_SECONDS, **Security().get_connection_args("client"))
        comm = await asyncio.wait_for(greeted, CONNECT_SECONDS)
    except TimeoutError:
        raise OSError(f"what accepts connections there does not answer within {CONNECT_SECONDS} s") from None
    await comm.close()


def _address_in(scheduler_file: Path) -> str:
    """The address that a scheduler has left in a file."""
    try:
        return str(json.loads(scheduler_file.read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"`--scheduler-file` must be the file of a running scheduler, got {scheduler_file}: {error}"
        ) from None


# a port beyond 65535 raises an OverflowError deep in Dask
def _check_address(address: str) -> None:
    """Refuse at once what cannot be an address: Dask would try to reach it until its time is up."""
    match = re.fullmatch(r"((tcp|tls|wss?|ucxx?)://)?[^\s/]+:(\d{1,5})", address)
    if not match or int(match[3]) > 65535:
        raise InputError(
            f"`--scheduler` must be the address of a running scheduler, got {address!r}; e.g. tcp://host:8786"
        )
    if address.startswith("tls:") and not dask.config.get("distributed.comm.tls.client.cert", None):
        raise InputError(
            f"`--scheduler` must be the address of a running scheduler, got {address}, for which Dask's configuration "
            "has no certificate; set distributed.comm.tls"
        )


@contextmanager
def silent() -> Iterator[None]:
    """Hold Dask's loggers to what is critical: a connection that is lost is reported in one line, by the sweep."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
