"""Jobs of a batch system kept up in number: those that end are replaced until the study is done."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Client

from evogt_study.errors import SweepError
from evogt_study.workers.jobs.job_queue import ANSWER_SECONDS, Queue, in_words

LOOK_SECONDS = 5.0
"""Between two looks at the queue, each of which is a command that asks its server: fewer than people ask by hand."""
TOLD_SECONDS = 60.0
"""Between two lines on a queue that gives no worker."""
SUBMIT_SECONDS = 120.0
"""In which a job has to be submitted: SLURM's own commands ask a busy server again for up to a minute."""
BARREN = 4
"""Looks in turn that find jobs ended before any worker came of them: a job that cannot start would be submitted for
ever.  One that was cancelled while it waited is one of them."""
OUTPUT_BYTES = 4096
"""Bytes at the end of a job's output in which its last line is looked for."""

Told = Callable[[str], None]


class JobKeeper:
    """Keeps as many jobs of `cluster` (dask-jobqueue's) as give `workers` processes, as long as `keeping` runs.

    told: gets a line where jobs are replaced, and each minute without a worker, with what the queue says.  error: why
    it gave up, and closed the client.
    """

    def __init__(self, cluster: Any, workers: int, queue: Queue, output: Path, told: Told) -> None:
        self.cluster, self.queue, self.output, self.told = cluster, queue, output, told
        processes = cluster._dummy_job.worker_processes
        self.wanted = math.ceil(workers / processes)
        self.error: str | None = None
        self.came: set[str] = set()  # jobs that a worker came of
        self.barren = 0
        self.waiting = self.last_told = time.monotonic()
        self.over = threading.Event()

    @contextmanager
    def keeping(self, client: Client) -> Iterator[None]:
        """Submit the jobs, the first of them now, and keep them up.  Raises SweepError where the first is refused."""
        try:
            self.submit()
        except (OSError, RuntimeError, ValueError) as error:
            raise SweepError(f"the batch system {self.queue.system} did not take the jobs: {_reason(error)}") from None
        thread = threading.Thread(target=self.keep, args=(client,), name="evogt-jobs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.over.set()
            thread.join(ANSWER_SECONDS)  # one that waits for the batch system ends with this process

    def keep(self, client: Client) -> None:
        """Look at the jobs again and again; close `client` where that is of no use any more."""
        wait = 0.0
        while not self.over.wait(wait):
            self.look()
            if self.error is not None:
                client.close()  # whoever waits for a batch goes on with an error
                return
            # longer after jobs that ended at once: a queue is not to be flooded
            wait = LOOK_SECONDS * 2**self.barren

    def look(self) -> None:
        """Drop jobs that the queue does not have any more, submit others for them, and tell of what there is."""
        jobs = dict(self.cluster.workers)
        said = self.queue.jobs()
        names = [str(each.name) for each in list(self.cluster.scheduler.workers.values())]
        self.came |= {name for name in jobs if any(each == name or each.startswith(f"{name}-") for each in names)}
        ended = [name for name in self.cluster.worker_spec if name not in jobs]  # Dask cancels those that lose a worker
        ended += [] if said is None else [name for name, job in jobs.items() if str(job.job_id) not in said]
        self.count(ended, there=bool(names))
        self.replace(ended)
        self.tell(names, [] if said is None else [said[str(j.job_id)] for n, j in jobs.items() if n not in ended], said)

    def count(self, ended: list[str], *, there: bool) -> None:
        """Count looks that find jobs which ended without a worker; give up after `BARREN` of them in turn."""
        if there:
            self.barren = 0
        elif any(name not in self.came for name in ended):
            self.barren += 1
        if self.barren >= BARREN:
            self.error = (
                f"jobs of the batch system {self.queue.system} have ended {BARREN} times before a worker came of them; "
                f"their output is in {self.output}" + self.last_line()
            )

    def replace(self, ended: list[str]) -> None:
        """Take jobs that have ended out, and submit others up to the number that is wanted."""
        for name in ended:
            self.cluster.worker_spec.pop(name, None)
            self.cluster.workers.pop(name, None)
        if ended:
            self.told(f"{len(ended)} jobs of {self.queue.system} have ended; as many are submitted again")
        while self.error is None and len(self.cluster.worker_spec) < self.wanted and not self.over.is_set():
            try:
                self.submit()
            except (OSError, RuntimeError, ValueError) as error:  # a server that restarts, or a limit of jobs
                if time.monotonic() >= self.last_told + TOLD_SECONDS:
                    self.last_told = time.monotonic()
                    self.told(f"{self.queue.system} takes no jobs now: {_reason(error)}; tried again")
                return

    # one by one: of several that are submitted together Dask forgets all where one is refused
    def submit(self) -> None:
        """Submit one job, under a name that none had before.  Raises what the batch system's command ends with."""
        self.cluster._i += 1
        spec = self.cluster.new_worker_spec()
        self.cluster.worker_spec.update(spec)
        try:
            self.cluster.sync(self.cluster._correct_state, callback_timeout=SUBMIT_SECONDS)
        except BaseException as error:
            for name in spec:
                self.cluster.worker_spec.pop(name, None)
                self.cluster.workers.pop(name, None)
            for job in [job for job in self.cluster._created if job.name in spec]:
                self.cluster._created.discard(job)  # else closing waits for its start
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer within {SUBMIT_SECONDS:.0f} s") from None
            raise

    def tell(self, names: list[str], said: list[str], answer: object) -> None:
        """Tell each minute that there is no worker, for how long, and what the queue says."""
        now = time.monotonic()
        if names:
            self.waiting = self.last_told = now
        elif now >= self.last_told + TOLD_SECONDS:
            self.last_told = now
            queue = "its queue does not answer" if answer is None else f"its queue has {in_words(said)}"
            self.told(f"no worker of {self.queue.system} for {now - self.waiting:.0f} s: {queue}; waiting for one")

    def last_line(self) -> str:
        """The last line of the latest output of a job, where there is any."""
        with suppress(OSError, ValueError):
            latest = max(
                (path for path in self.output.iterdir() if path.stat().st_size), key=lambda p: p.stat().st_mtime
            )
            with latest.open("rb") as file:
                file.seek(max(0, latest.stat().st_size - OUTPUT_BYTES))
                return ": " + file.read().decode(errors="replace").strip().splitlines()[-1]
        return ""


def _reason(error: Exception) -> str:
    """The message of a batch system's command: dask-jobqueue puts it behind the word stderr, after the command."""
    _, found, said = str(error).partition("stderr:")
    return " ".join((said if found and said.strip() else str(error)).split())
