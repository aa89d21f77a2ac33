"""Compute the batches of a plan on a Dask client, or on a new Dask cluster inside this process.

Each thread of a Dask worker has a runner, so a run may end its runner but not the worker.  If a worker is lost, Dask
computes its batches on other workers.  The client splits a batch that loses workers until the responsible run is alone.
"""

import asyncio
import itertools
import json
import logging
import math
import pickle
import queue
import re
import signal
import socket
import tempfile
import threading
import time
import uuid
from asyncio import CancelledError
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import dask
import numpy as np
from dask.system import CPU_COUNT
from distributed import Client, Future, KilledWorker, LocalCluster, WorkerPlugin, get_worker
from distributed.comm.core import connect
from distributed.security import Security
from distributed.system import MEMORY_LIMIT
from distributed.worker import Worker

from evogt_study.errors import EvogtError, InputError, SweepError, shorten
from evogt_study.results.provenance import hash_package
from evogt_study.schema.records import NO_NEEDS, Case, Needs, RunRecords, concatenate_records
from evogt_study.schema.variables import Status
from evogt_study.storage.arrays import SHARED_FOLDER
from evogt_study.storage.files import read_bytes
from evogt_study.storage.lease import make_temporary_folder
from evogt_study.study.plan import Plan
from evogt_study.text import format_duration
from evogt_study.workers.batch import Batch, describe_error, make_records
from evogt_study.workers.executor import BatchSize, DaskExecutor
from evogt_study.workers.runner import Runner, RunOptions, borrow_runner, load

CONNECT_SECONDS = 5  # seconds in which a scheduler must answer.  Dask itself would wait for 30 s
THREADS_PER_SPARE = 4
"""Number of workers for each spare thread.  A spare thread holds the next batch, which Dask would need 5 ms to send."""
SETTINGS: dict[str, Any] = {
    # with Dask's default of 1.1, batches wait for a worker while another worker may be idle
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.admin.low-level-log-length": 10,  # messages, which keep batches in memory
    "distributed.admin.tick.limit": "1h",  # no warning if the client is busy
    "distributed.admin.tick.interval": "1m",
    "distributed.admin.tick.cycle": "1m",
    "distributed.admin.system-monitor.interval": "1m",
    "distributed.admin.system-monitor.disk": False,
    "distributed.worker.profile.enabled": False,
    "distributed.client.scheduler-info-interval": "1m",  # nothing reads the list of workers
    "distributed.scheduler.work-stealing": False,  # a worker has no waiting batches
    # without web pages, because every user of the machine could open these pages
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Dask's settings for a cluster that this process starts."""
BATCHES_AHEAD, MIN_BATCHES_AHEAD = 3, 8
"""Batches in flight for each worker, and in total at least.  Waiting batches make an adaptive cluster grow."""
MAX_HELD_BYTES = 512 * 2**20  # largest number of bytes in flight, if there are more batches than workers
ALONE_SECONDS = 0.5  # work in seconds for which one more runner starts.  A runner needs a third of a second for imports
COUNT_SECONDS = 1.0  # seconds between two counts of the workers.  Each count needs a round trip to the scheduler
ROUND_SECONDS = 0.25
"""Longest time in seconds in which the client collects finished batches to store and replace them together."""
MEMORY_ERROR = re.compile("MemoryError|of memory, more than|signal 9, SIGKILL|bad_alloc|allocate memory|out of memory")
"""Pattern for the message of a run that lacked memory.  The kernel sends SIGKILL if memory is short."""
MAX_WORKER_LOSSES = 2
"""Number of times that a batch with one run may lose its workers before the run gets the status lost."""
_SILENT_SECONDS, LONG_SECONDS = 5.0, 60.0
"""Seconds without a finished run until a message, without workers and with workers.  They double each time."""
REACH_SECONDS, LITTLE_BYTES = 2.0, 2**20
"""Longest time to connect to a worker or to fetch this many bytes.  After that, the scheduler sends the results."""
CONNECTION_LOST = (
    "the connection to the Dask scheduler was lost. Finished runs are kept. The same command computes the rest."
)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)  # Ctrl-C, batch system, terminal, time limit
get_needs = attrgetter("needs")


# --- clusters ---------------------------------------------------------------------------------------------------------


def check_client(client: Any) -> None:
    """Raise InputError unless a study can use the client."""
    mistake = ""
    if not isinstance(client, Client):
        mistake = f"must be a distributed.Client, got {shorten(client)}. Leave out `client` to use this machine."
    elif client.asynchronous:
        mistake = "is asynchronous, but a study waits for its runs. Create a client without `asynchronous`."
    elif client.status in ("closed", "closing", "newly-created"):
        mistake = f"has no connection to a scheduler (its status is {client.status!r}). Create a new client."
    if mistake:
        raise InputError(f"`client` {mistake}")


# Worker threads only wait for runners, so one worker with many threads is enough.  It gives the next batch to any idle
# thread.
@contextmanager
def start_local_cluster(workers: int, n_spare: int = 0) -> Iterator[Client]:
    """Yield the client of a cluster inside this process, with a thread for each worker and `n_spare` more threads."""
    settings = SETTINGS | {"temporary-directory": str(make_temporary_folder())}
    with quiet_dask_logging(), dask.config.set(settings):
        with defer_signals():  # Dask cannot close a cluster that has not started completely
            cluster = LocalCluster(
                n_workers=1,
                threads_per_worker=workers + n_spare,
                processes=False,
                memory_limit=0,
                resources={"cores": workers, "memory": MEMORY_LIMIT},  # for runs of a study with [resources]
                dashboard_address="127.0.0.1:0",  # None means Dask's default port
                scheduler_kwargs={"dashboard": False},
                worker_dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            )
        with cluster, Client(cluster, set_as_default=False) as client:
            yield client


# A default client would compute Dask arrays of the user, and xarray would lock files across the cluster.  A write would
# take 28 to 78 ms instead of 2 ms.
@contextmanager
def connect_to_scheduler(address: str | None, scheduler_file: Path | None) -> Iterator[Client | None]:
    """Yield a client of a running scheduler, or None without arguments.  Raises InputError if no scheduler answers."""
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
    if not match or int(match[3]) > 65535:  # Dask would retry a wrong port until the timeout
        raise InputError(f"{mistake}. Use the form tcp://host:8786.")
    if address.startswith("tls:") and not dask.config.get("distributed.comm.tls.client.cert", None):
        raise InputError(f"{mistake}, for which Dask's configuration has no certificate. Set distributed.comm.tls.")
    try:
        asyncio.run(_wait_for_greeting(address))
        client = Client(address, set_as_default=False, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        # Dask reads the greeting of another service as the length of a message
        raise InputError(
            f"{mistake}: {'another service answers there' if isinstance(error, MemoryError) else error}"
        ) from None
    with quiet_dask_logging(), client:
        yield client


# a stopped scheduler accepts connections but sends nothing, and a client would wait for ever
async def _wait_for_greeting(address: str) -> None:
    """Raise OSError unless `address` sends a greeting within `CONNECT_SECONDS`."""
    try:
        greeted = connect(address, timeout=CONNECT_SECONDS, **Security().get_connection_args("client"))
        comm = await asyncio.wait_for(greeted, CONNECT_SECONDS)
    except TimeoutError:
        raise OSError(f"the service there does not answer within {CONNECT_SECONDS} s") from None
    await comm.close()


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals in the main thread until the end of the body, which they must not interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.signal(number, lambda arrival, frame: arrived.append(arrival)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrival in arrived[:1]:  # a second signal would interrupt the exit after the first signal
            signal.raise_signal(arrival)


@contextmanager
def quiet_dask_logging() -> Iterator[None]:
    """Limit Dask's log to critical messages, because the study itself reports a lost connection."""
    # permanent, because the thread of a cluster may report a closed connection after an interrupt
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


# --- on a worker ------------------------------------------------------------------------------------------------------


class RunnerPool(WorkerPlugin):
    """Runners of a Dask worker for one study.  Each of `n_spare` threads holds a batch for the next free runner."""

    def __init__(self, timeout: float | None, memory: int | None, environment: dict[str, str], n_spare: int) -> None:
        self.timeout, self.memory, self.environment, self.n_spare = timeout, memory, environment, n_spare

    def setup(self, worker: Worker) -> None:
        """Prepare the runners.  A runner starts with its first batch."""
        n_threads, limit = worker.state.nthreads, worker.memory_manager.memory_limit
        self.memory = self.memory or (limit // n_threads if limit else None)
        self.places = threading.Semaphore(n_threads - self.n_spare)
        self.used, self.is_closed = set[Runner](), False

    def compute(self, batch: Batch) -> list[bytes | bytearray]:
        """Compute a batch in an idle or a new runner, as `Runner.compute` does."""
        with self.places, borrow_runner() as runner:
            self.used.add(runner)
            if self.is_closed:
                runner.stop()
            try:
                return runner.compute(batch, timeout=self.timeout, memory=self.memory, environment=self.environment)
            finally:
                self.used.remove(runner)

    def teardown(self, worker: Worker) -> None:
        """End all current runs at once."""
        self.is_closed = True
        for runner in self.used.copy():
            runner.stop()


# return errors, because a worker logs a raised error with its traceback
def compute_on_worker(name: str, code: str, packed: bytes) -> list[Any] | EvogtError:
    """Compute a batch with the `RunnerPool` called `name`.  Return pickled records, or the error."""
    try:
        if code != hash_package():  # before unpickling, which may fail with other code
            raise SweepError(
                f"a worker has evogt-study {hash_package()}, but this process has {code}. Install one version on both."
            )
        worker, batch = get_worker(), pickle.loads(packed)  # noqa: S301  # from our client
        pool: Any = worker.plugins.get(name)
        if pool is None:
            raise SweepError(f"the Dask worker {worker.address} has no runners of this study. Restart the worker.")
        # Dask sends arrays without a copy, but pickles bytes
        return [np.frombuffer(part, dtype=np.uint8) for part in pool.compute(batch)]
    except EvogtError as error:
        return error


# --- on the client ----------------------------------------------------------------------------------------------------


@contextmanager
def prepare_workers(client: Client | None, options: RunOptions, name: str) -> Iterator[tuple[Client, int]]:
    """Yield a client, by default of a new cluster, and its number of spare threads.  After the body, end all runs."""
    environment, memory, n_spare = dict[str, str](), options.memory_bytes, 0
    with ExitStack() as stack:
        if client is None:
            workers = options.workers or CPU_COUNT
            memory, n_spare = memory or MEMORY_LIMIT // workers, workers // THREADS_PER_SPARE
            place = make_temporary_folder()
            folder = tempfile.TemporaryDirectory(prefix="shared-", dir=place, ignore_cleanup_errors=True)
            environment[SHARED_FOLDER] = stack.enter_context(folder)  # for references
            client = stack.enter_context(start_local_cluster(workers, n_spare))
        try:  # for present and later workers, without a wait for them
            client.register_plugin(RunnerPool(options.run_timeout, memory, environment, n_spare), name=name)
        except Exception as error:  # noqa: BLE001  # any error of unpickling on a worker
            check_connection(client)
            raise SweepError(
                f"the Dask workers cannot compute runs ({describe_error(error)}). Install evogt-study "
                f"{hash_package()} on the workers."
            ) from None
        try:
            yield client, n_spare
        finally:

            def unregister() -> None:
                with suppress(Exception):  # the connection may be lost
                    client.unregister_worker_plugin(name)

            # do not wait for a worker that does not answer, because its idle runners end without this message
            ending = threading.Thread(target=unregister, daemon=True)
            ending.start()
            ending.join(REACH_SECONDS)


@dataclass(frozen=True)
class BatchAttempt:
    """Attempt to compute a batch.  `losses` counts lost workers, and `earlier` counts attempts that lacked memory."""

    cases: Sequence[Case]
    losses: int = 0
    is_trial: bool = False
    earlier: int = 0


class PlanBatches:
    """Batches of one plan.  Each of the `trials` is a separate batch.  `n_cases` is the largest number of `cases`."""

    def __init__(
        self, executor: DaskExecutor, plan: Plan, trials: Sequence[Case], cases: Iterator[Case], n_cases: int
    ) -> None:
        self.executor, self.plan, self.cases = executor, plan, cases
        self.client: Client = executor.client
        self.n_threads, self.counted_at, self.most_in_flight = 0, -math.inf, 0
        self.size = BatchSize(n_cases, self.count_threads(), plan.group)
        self.to_repeat = deque(BatchAttempt([case], is_trial=True) for case in trials)
        self.n_trials = len(trials)  # trials without a record
        self.in_flight: dict[Future[Any], BatchAttempt] = {}
        self.available_needs = {NO_NEEDS}  # needs that a worker meets
        # for Dask keys, because studies share a client and a repeated batch is a new task
        self.name, self.numbers = f"evogt-{uuid.uuid4().hex}", itertools.count()
        self.finished_futures: queue.SimpleQueue[Future[Any] | None] = queue.SimpleQueue()
        self.fetched_batches: queue.SimpleQueue[tuple[Future[Any], Any]] = queue.SimpleQueue()
        self.is_direct: bool | None = None
        self.started_at = self.finished_at = time.monotonic()
        self.silent_seconds = 0.0

    def compute(self) -> Iterator[RunRecords]:
        """Yield the records of all trials, and then of the batches that finish.  Raises SweepError, StudyError."""
        threading.Thread(target=self._fetch_finished, daemon=True).start()
        first: list[RunRecords] = []
        held: list[RunRecords] = []  # until the trials are done, which determine the shapes of variables
        try:
            while self.submit():
                for future, parts in self.take_completed():
                    attempt = self.in_flight.pop(future, None)
                    if attempt is None:
                        continue
                    (first if attempt.is_trial else held).extend(self.read_attempt(future, attempt, parts))
                    future.release()
                    del parts
                if held or first:
                    if self.n_trials == 0:
                        held, first = [concatenate_records(first + held)], []
                        yield held.pop()  # no variable keeps the records, so the caller can free their memory
                    # if workers have more batches than they compute, wait for more finished batches
                    if len(self.in_flight) > self.size.threads:
                        time.sleep(min([ROUND_SECONDS, *(seconds for _, seconds, _ in self.size.recent)]))
        finally:
            self.finished_futures.put(None)
            with suppress(Exception):  # the client of a user stays open
                self.client.cancel(list(self.in_flight), force=True)

    def count_threads(self) -> int:
        """Return the number of threads of all workers, at least one.  The count is at most `COUNT_SECONDS` old."""
        if time.monotonic() > self.counted_at + COUNT_SECONDS:
            with suppress(Exception, CancelledError):  # `check_connection` reports a lost connection
                self.n_threads = int(sum(self.client.nthreads().values())) - self.executor.n_spare
            self.counted_at = time.monotonic()
        return max(1, self.n_threads)

    def submit(self) -> bool:
        """Submit batches for all workers, also for new workers, and return True if a batch is in flight."""
        self.size.threads = self.executor.workers = self.count_threads()
        n_wanted = self.count_wanted()
        attempts = [self.to_repeat.popleft() for _ in range(min(n_wanted, len(self.to_repeat)))]
        while len(attempts) < n_wanted and (cases := self.size.take(self.cases)):
            classes = itertools.groupby(sorted(cases, key=get_needs), get_needs)
            attempts += [BatchAttempt(list(alike)) for _, alike in classes]
        # one message for each class of needs: 20 batches take the client 0.9 ms each, but 2.4 ms in single messages
        for needs in {get_needs(each.cases[0]): None for each in attempts}:
            self.submit_class(needs, [each for each in attempts if get_needs(each.cases[0]) == needs])
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        return bool(self.in_flight)

    def submit_class(self, needs: Needs, attempts: Sequence[BatchAttempt]) -> None:
        """Submit batches of cases with these needs.  Raises SweepError if no worker has the resources."""
        plan, resources = self.plan, needs.worker_resources
        if needs not in self.available_needs and not self.can_offer(needs):
            text = " ".join(f"{name}={amount:g}" for name, amount in resources.items())
            raise SweepError(
                f'no worker has --resources "{text}" for a run of this study ({plan.phase}). Start such a worker.'
            )
        self.available_needs.add(needs)
        batches = (
            Batch.from_cases(plan.spec, each.cases, strict=each.is_trial, folder=plan.folder) for each in attempts
        )
        packed = [pickle.dumps(each, protocol=5) for each in batches]  # a scheduler passes on bytes unchanged
        name, code = [self.executor.name] * len(packed), [hash_package()] * len(packed)
        keys = [f"{self.name}-{plan.phase}-{next(self.numbers)}" for _ in packed]
        futures = self.client.map(compute_on_worker, name, code, packed, key=keys, pure=False, resources=resources)
        for future, attempt in zip(futures, attempts, strict=True):
            self.in_flight[future] = attempt
            future.add_done_callback(self.finished_futures.put)

    def can_offer(self, needs: Needs) -> bool:
        """Return False if there are workers, but no worker has the resources that a run needs."""
        workers: list[Any] = []
        with suppress(Exception):  # `check_connection` reports a lost connection
            workers = [each["resources"] for each in self.client.scheduler_info(n_workers=-1)["workers"].values()]
        wanted = needs.worker_resources.items()
        return not workers or any(all(each.get(name, 0) >= amount for name, amount in wanted) for each in workers)

    def count_wanted(self) -> int:
        """Return the number of batches to submit now."""
        threads = self.size.threads
        wanted = max(BATCHES_AHEAD * threads, MIN_BATCHES_AHEAD)
        if self.size.runs:
            left = self.size.estimate_seconds(self.size.left + sum(len(each.cases) for each in self.in_flight.values()))
            few = max(self.most_in_flight, 1 + int(left / ALONE_SECONDS))  # started runners cost no time
            n_held = MAX_HELD_BYTES // max([1, *(size for _, _, size in self.size.recent)])
            wanted = min(wanted, max(threads + 1, n_held), few)
        elif time.monotonic() < self.started_at + ALONE_SECONDS and self.n_threads:
            wanted = 1
        return wanted - len(self.in_flight)

    def take_completed(self) -> list[tuple[Future[Any], Any]]:
        """Return the finished batches with their pickled records.  Wait at most `COUNT_SECONDS` for a batch."""
        alone = self.started_at + ALONE_SECONDS - time.monotonic() if not self.size.runs else 0.0
        found = _drain(self.fetched_batches, alone if alone > 0.0 else COUNT_SECONDS)
        now = time.monotonic()
        if found:
            self.finished_at, self.silent_seconds = now, 0.0
        elif now > self.finished_at + max(self.silent_seconds, LONG_SECONDS if self.n_threads else _SILENT_SECONDS):
            missing = "runs are being computed" if self.n_threads else "the Dask cluster has no worker"
            self.silent_seconds = 2.0 * (now - self.finished_at)
            self.executor.print_line(f"no run has finished for {format_duration(now - self.finished_at)}: {missing}")
        check_connection(self.client)
        return found

    def _fetch_finished(self) -> None:
        """Fetch finished batches in a thread.  If a worker dies with results, a fetch waits for new results."""
        while None not in (futures := _drain(self.finished_futures, None)):
            self._fetch(futures)  # a separate function, so that no variable keeps values during the wait

    def _fetch(self, futures: Sequence[Future[Any]]) -> None:
        ready = [future for future in futures if future.status == "finished"]
        values: dict[Future[Any], Any] = {}
        with suppress(Exception, CancelledError):  # one by one below
            if self.is_direct is None and ready:
                self.is_direct = can_reach(next(iter(self.client.nthreads())))
            begun = time.monotonic()
            values = dict(zip(ready, self.client.gather(ready, direct=bool(self.is_direct)), strict=True))
            size = sum(part.nbytes for parts in values.values() if isinstance(parts, list) for part in parts)
            if time.monotonic() > begun + REACH_SECONDS and size < LITTLE_BYTES:
                self.is_direct = False  # behind a firewall, each fetch would wait for a timeout
        for future in futures:
            if future not in values and future.status == "finished":
                with suppress(Exception, CancelledError):
                    values[future] = self.client.gather(future, direct=False)
            self.fetched_batches.put((future, values.get(future)))

    def read_attempt(
        self, future: Future[Any], attempt: BatchAttempt, parts: list[Any] | EvogtError | None
    ) -> list[RunRecords]:
        """Return the records of the finished and the lost runs of a batch, and submit all other runs again."""
        if isinstance(parts, list):
            found: list[RunRecords] = list(map(load, parts))
            for records in found:
                self.size.add(records)
            known = {key for records in found for key in records.keys}
            rest = [case for case in attempt.cases if case.key not in known]  # a closing worker returns some records
            if rest:
                self.to_repeat.append(replace(attempt, cases=rest))
            n_again = len(self.to_repeat)
            found = [self.repeat_for_memory(attempt, records) for records in found]
            self.n_trials -= attempt.is_trial and not rest and len(self.to_repeat) == n_again
            return [records for records in found if len(records.keys)]
        error = future.exception() if future.status == "error" else parts
        if isinstance(error, EvogtError):
            raise error
        if isinstance(error, KilledWorker):
            cases, losses = attempt.cases, attempt.losses + 1
            if len(cases) == 1 and losses >= MAX_WORKER_LOSSES:
                self.n_trials -= attempt.is_trial
                message = f"the Dask workers that computed the run were lost {MAX_WORKER_LOSSES} times"
                return [make_records([cases[0].key], [(Status.lost, message, None, "", 0.0)], MAX_WORKER_LOSSES)]
            # repeat the whole batch once, because most losses have other reasons and halves would lose shared stages
            middle = len(cases) // 2 if attempt.losses else 0
            halves = [(cases[:middle], 1), (cases[middle:], 1)] if middle else [(cases, losses)]
            self.to_repeat.extend(replace(attempt, cases=part, losses=count) for part, count in halves)
            return []
        if error is not None:
            raise SweepError(f"a batch could not be computed on the Dask cluster: {describe_error(error)}")
        check_connection(self.client)
        self.to_repeat.append(attempt)
        return []

    def repeat_for_memory(self, attempt: BatchAttempt, records: RunRecords) -> RunRecords:
        """Submit runs that lacked memory again, with twice the memory, and return the records of all other runs."""
        if attempt.earlier:
            return replace(records, attempts=records.attempts + np.int32(attempt.earlier))
        resources, needs = self.plan.resources, attempt.cases[0].needs
        larger = needs._replace(memory=2 * needs.memory)
        lacks = np.array([bool(MEMORY_ERROR.search(message)) for message in records.messages])
        is_retried = resources is not None and resources.retry_memory and needs.memory and lacks.any()
        if not is_retried or not self.can_offer(larger):
            return records
        cases = {case.key: replace(case, needs=larger) for case in attempt.cases}
        for row in np.flatnonzero(lacks):
            earlier = int(records.attempts[row])
            self.to_repeat.append(replace(attempt, cases=[cases[records.keys[row]]], earlier=earlier))
        return records.select_rows(np.flatnonzero(~lacks))


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
