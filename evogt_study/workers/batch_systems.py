"""Get workers or array tasks from a batch system: SLURM, PBS, SGE or LSF.

Workers are jobs of dask-jobqueue (extra `hpc`), configured by its YAML files.  Array tasks need a job script only.
"""

from __future__ import annotations

import getpass
import logging
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
from distributed import Client
from distributed.core import Status
from distributed.security import Security

from evogt_study.errors import InputError, JobsWarning, ResultError, SweepError, warn
from evogt_study.storage.atomic import check_result_place, make_folder, own_mark, was_left
from evogt_study.storage.lease import own_folder
from evogt_study.storage.paths import jobs_folder
from evogt_study.workers.clusters import NO_PAGES, SETTINGS, silent
from evogt_study.workers.dask_executor import LEAVE_AT
from evogt_study.workers.runner import BLAS_THREADS
from evogt_study.workers.signals import deferred

SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}
"""Batch systems, with the names of their clusters in dask-jobqueue."""
LISTS: Mapping[str, tuple[str, ...]] = {
    "slurm": ("squeue", "-h", "-o", "%i %T %r", "-u"),
    "pbs": ("qstat", "-u"),
    "sge": ("qstat", "-u"),
    "lsf": ("bjobs", "-noheader", "-o", "jobid stat pend_reason", "-u"),
}
"""Commands that list the jobs of a user, whose name follows.  Each line begins with the number of a job."""
LOOK_SECONDS = 5.0
"""Seconds between two looks at the queue.  Each look is a command that asks the server."""
TOLD_SECONDS = 60.0
"""Seconds between two messages about a queue that gives no worker."""
ANSWER_SECONDS = 30
"""Seconds for an answer of a queue, which may be busy."""
SUBMIT_SECONDS = 120
"""Seconds for submitting a job.  The commands of SLURM ask a busy server again for up to a minute."""
CLOSE_SECONDS = 60.0
"""Seconds for cancelling the jobs at the end.  The commands ask a busy server several times."""
BARREN = 4
"""Consecutive looks that find jobs which ended without a worker, before the command gives up.  A job that cannot start
would otherwise be submitted without end.  A job that was cancelled while it waited counts too."""
OUTPUT_BYTES = 4096
"""Bytes at the end of the output of a job that are searched for its last line."""
CERTIFICATES = ".evogt-"
"""Prefix of the folders with certificates, hidden since they may be in the working folder."""
MARGIN, LEAST_MARGIN, MOST_MARGIN = 1.0 / 20.0, 10.0, 300.0
"""Workers leave a job before its end: by this part of the wall time, with a smallest and a largest number of seconds.

The jobs of a study leave at random times within as many seconds, so that not all workers leave at once.
"""
PrintLine = Callable[[str], None]


@contextmanager
def on_batch_system(
    system: str, workers: int, output: Path, print_line: PrintLine = lambda line: None
) -> Iterator[Client]:
    """A client whose `workers` processes are jobs, which are replaced when they end, and cancelled at the end.

    output: folder for the jobs' output.  print_line: gets a line if jobs are replaced, and each minute without a
    worker.  Raises InputError; SweepError where jobs are refused, or end again and again before a worker comes of them.
    """
    settings = SETTINGS | {"temporary-directory": str(own_folder())}  # of the scheduler, which is in this process
    with (
        dask.config.set(settings),
        silent(),
        cluster_of(system, output) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        keeper = JobKeeper(cluster, workers, Queue(system), output, print_line)
        try:
            with keeper.keeping(client):
                yield client
        except SweepError:
            if keeper.error is not None:
                raise SweepError(f"{keeper.error}; finished runs are kept, the same command goes on") from None
            raise


# BLAS's variables are exported in the script of the job: the environment of this process does not reach it.
# Dask's own --lifetime is not used: it ends a worker in the middle of its batch, with those that were not fetched yet.
@contextmanager
def cluster_of(system: str, output: Path | None = None) -> Iterator[Any]:
    """The batch system's cluster, without workers yet; its jobs hold BLAS to one thread, and leave before their end.

    output: folder for the jobs' output, unless Dask's configuration has one.

    Its scheduler listens to the whole network, and takes nobody without a certificate that is made here.  Raises
    InputError where dask-jobqueue is not installed, its configuration lacks what it needs, or the certificate cannot be
    written for the jobs.
    """
    made, configured = _class_and_configuration(system)
    _check_paths(output, Path.cwd(), sys.executable)
    prologue = [*(configured.get("job-script-prologue") or []), *(f"export {name}=1" for name in BLAS_THREADS)]
    prologue += _leaving(wall_seconds(system, configured.get("walltime")))
    folder = configured.get("log-directory") or output
    scheduler = configured.get("scheduler-options") or {}
    shown = "dashboard_address" in scheduler  # Dask's own port may be another study's, and is open to all
    scheduler = {"dashboard_address": "127.0.0.1:0", "dashboard": shown, **scheduler}
    with (
        _certificate(system, configured) as security,
        dask.config.set({} if shown else NO_PAGES),
        _closed_in_time(
            made(
                job_script_prologue=prologue, scheduler_options=scheduler, security=security,
                log_directory=None if folder is None else str(folder), silence_logs=logging.CRITICAL,
            )
        ) as cluster,
    ):  # fmt: skip
        yield cluster


@contextmanager
def _closed_in_time(cluster: Any) -> Iterator[Any]:
    """Close the cluster, which cancels its jobs; warn where the batch system does not answer."""
    try:
        yield cluster
    finally:
        try:
            cluster.close(timeout=CLOSE_SECONDS)
        except TimeoutError:
            cluster.status = Status.closed  # else Dask would wait again when this process ends
            warn(
                f"the batch system did not cancel the jobs within {CLOSE_SECONDS:.0f} s; they end by themselves, once "
                "they have looked for this command for a minute",
                JobsWarning,
            )


@contextmanager
def _certificate(system: str, configured: Mapping[str, Any]) -> Iterator[Security]:
    """A certificate that jobs read from files in a folder that is this user's alone and ends with the body.

    The folder is in `shared-temp-directory`, or else in the working folder.  Raises InputError where it cannot be.
    """
    security = Security.temporary()
    place = os.path.expanduser(os.path.expandvars(configured.get("shared-temp-directory") or os.getcwd()))
    with ExitStack() as stack:
        try:
            _remove_left(Path(place))
            prefix = f"{CERTIFICATES}{own_mark()}"
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=place)))
            for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):
                # with its permissions before its content: a key must not be readable to others even for a moment
                (folder / name).touch(0o600)
                (folder / name).write_text(getattr(security, name))
                setattr(security, name, str(folder / name))
        except OSError as error:
            raise InputError(
                f"`--cluster {system}` must be able to write its certificate where jobs find it, got {error}; set "
                f"jobqueue.{system}.shared-temp-directory in ~/.config/dask/jobqueue.yaml"
            ) from None
        yield security


def _remove_left(place: Path) -> None:
    """Remove folders of certificates that killed commands of this machine left."""
    for folder in place.glob(f"{CERTIFICATES}*"):
        if was_left(folder.name) and folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)


def _class_and_configuration(system: str) -> tuple[Any, Mapping[str, Any]]:
    """Find dask-jobqueue's class and configuration for this system.  Raises InputError."""
    try:
        with deferred():  # importing it has Ctrl-C end this process with code 0; this puts the handler back
            import dask_jobqueue  # of an extra, which only this needs
    except ImportError:
        raise InputError("`--cluster` must have dask-jobqueue installed; use pip install 'evogt-study[hpc]'") from None
    if system not in SYSTEMS:
        raise InputError(f"`--cluster` must be one of {', '.join(SYSTEMS)}, got {system!r}")
    configured = dask.config.get(f"jobqueue.{system}")
    for key in ("cores", "memory"):
        if configured.get(key) is None:
            raise InputError(
                f"`--cluster {system}` must know the {key} of a job, got none; set jobqueue.{system}.{key} in "
                "~/.config/dask/jobqueue.yaml"
            )
    return getattr(dask_jobqueue, SYSTEMS[system]), configured


# by the clock of the job's own machine, when it begins: it may have waited for days
def _leaving(wall: float | None) -> list[str]:
    """Lines of a job's script by which its workers know when to leave; none where the wall time is not known."""
    if wall is None:
        return []
    margin = round(min(MOST_MARGIN, max(LEAST_MARGIN, wall * MARGIN)))
    return [f"export {LEAVE_AT}=$(( $(date +%s) + {max(1, round(wall) - 2 * margin)} + ${{RANDOM:-0}} % {margin} ))"]


def wall_seconds(system: str, text: object) -> float | None:
    """Seconds of a wall time as the batch system reads it; None where that is not known.

    >>> wall_seconds("slurm", "1-12:00"), wall_seconds("slurm", "90"), wall_seconds("lsf", "1:30")
    (129600.0, 5400.0, 5400.0)
    >>> wall_seconds("pbs", "01:30:00"), wall_seconds("pbs", None)
    (5400.0, None)
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", str(text))
    if not match:
        return None
    days, numbers = float(match[1] or 0), [float(number) for number in match.groups()[1:] if number is not None]
    if match[1] is not None:  # SLURM's days-hours:minutes:seconds
        numbers += [0.0] * (3 - len(numbers))
    elif len(numbers) == 1:
        numbers = [numbers[0], 0.0] if system in ("slurm", "lsf") else numbers  # which count in minutes
    elif system == "lsf":
        numbers = [*numbers[:2], 0.0]
    return days * 86_400.0 + sum(number * 60.0**power for power, number in enumerate(reversed(numbers)))


class JobKeeper:
    """Keeps as many jobs of `cluster` (dask-jobqueue's) as give `workers` processes, as long as `keeping` runs.

    print_line: gets a line if jobs are replaced, and each minute without a worker, with the states in the queue.
    error: why it gave up, and closed the client.
    """

    def __init__(self, cluster: Any, workers: int, queue: Queue, output: Path, print_line: PrintLine) -> None:
        self.cluster, self.queue, self.output, self.print_line = cluster, queue, output, print_line
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
            self.print_line(f"{len(ended)} jobs of {self.queue.system} have ended; as many are submitted again")
        while self.error is None and len(self.cluster.worker_spec) < self.wanted and not self.over.is_set():
            try:
                self.submit()
            except (OSError, RuntimeError, ValueError) as error:  # a server that restarts, or a limit of jobs
                if time.monotonic() >= self.last_told + TOLD_SECONDS:
                    self.last_told = time.monotonic()
                    self.print_line(f"{self.queue.system} takes no jobs now: {_reason(error)}; tried again")
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
            queue = "its queue does not answer" if answer is None else f"its queue has {_count_states(said)}"
            silent = now - self.waiting
            self.print_line(f"no worker of {self.queue.system} for {silent:.0f} s: {queue}; waiting for one")

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


@dataclass(frozen=True)
class Queue:
    """The queue of the batch system `system`."""

    system: str

    def jobs(self) -> dict[str, str] | None:
        """State of each of this user's jobs in the queue, by its number; None where it does not answer."""
        try:
            done = subprocess.run(  # noqa: S603  # fixed words
                [*LISTS[self.system], getpass.getuser()],
                capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return None
        # LSF calls an empty queue an error
        if done.returncode and "No unfinished job" not in done.stderr:
            return None
        return {
            match[1]: " ".join(match[2].split())
            for line in done.stdout.splitlines()
            if (match := re.match(r"\s*(\d+)\S*\s*(.*)", line))
        }


def _count_states(states: Iterable[str]) -> str:
    """Count the states of several jobs: "2 PENDING Resources, 1 RUNNING None"."""
    counts = Counter(states)
    return ", ".join(f"{count} {state}" for state, count in counts.most_common()) or "no jobs"


@dataclass(frozen=True)
class BatchSystem:
    """Words of a batch system.

    submit: command that reads a script; mark: beginning of its lines in the script; lines: those of an array of
    `{tasks}` tasks called `{name}` with `{workers}` processors each, whose output goes into `{folder}`; number:
    variable of a task's number.
    """

    submit: str
    mark: str
    lines: tuple[str, ...]
    number: str


ARRAY_SYSTEMS: Mapping[str, BatchSystem] = {
    "slurm": BatchSystem(
        "sbatch",
        "#SBATCH",
        ("--job-name={name}", "--array=1-{tasks}", "--cpus-per-task={workers}", "--output={folder}/%A_%a.out"),
        "SLURM_ARRAY_TASK_ID",
    ),
    "pbs": BatchSystem(
        "qsub",
        "#PBS",
        ("-N {name}", "-J 1-{tasks}", "-l select=1:ncpus={workers}", "-j oe", "-o {folder}/"),
        "PBS_ARRAY_INDEX",
    ),
    # parallel environments of SGE have names of the site's own: more processors are asked for by --directive
    "sge": BatchSystem("qsub", "#$", ("-N {name}", "-t 1-{tasks}", "-j y", "-o {folder}/"), "SGE_TASK_ID"),
    "lsf": BatchSystem(
        "bsub", "#BSUB", ('-J "{name}[1-{tasks}]"', "-n {workers}", "-o {folder}/%J_%I.out"), "LSB_JOBINDEX"
    ),
}


def job_script(
    system: str, study_file: Path, result: Path, tasks: int, *, workers: int = 1, directives: Sequence[str] = ()
) -> str:
    """Write the script of an array of `tasks` tasks that compute the study for `result`, in this working folder.

    directives: further lines for the batch system, such as "--time=4:00:00".  Raises InputError for an unknown system,
    or a directive of more than one line.
    """
    if system not in ARRAY_SYSTEMS:
        raise InputError(f"`--cluster` must be one of {', '.join(ARRAY_SYSTEMS)}, got {system!r}")
    known = ARRAY_SYSTEMS[system]
    for directive in directives:
        if not directive.strip() or not directive.isprintable():
            raise InputError(f"`--directive` must be one line for {system}, such as --time=4:00:00, got {directive!r}")
    folder = jobs_folder(result).resolve()
    _check_paths(study_file, result, folder, Path.cwd(), sys.executable)
    name = "".join(letter if letter.isalnum() else "_" for letter in result.stem)
    words = {
        "name": name,
        "tasks": tasks,
        "workers": workers,
        "folder": shlex.quote(str(folder)),
    }
    command = [sys.executable, "-m", "evogt_study", "run", str(study_file), "-o", str(result)]
    command += ["--workers", str(workers)] if workers > 1 else []
    return "\n".join(
        [
            "#!/bin/sh",
            *(f"{known.mark} {line.format(**words)}" for line in known.lines),
            *(f"{known.mark} {directive}" for directive in directives),
            f"cd {shlex.quote(str(Path.cwd()))} || exit",
            f'exec {shlex.join(command)} --task "${known.number}/{tasks}"',  # exec: signals of the system reach it
            "",
        ]
    )


def _check_paths(*paths: object) -> None:
    """Raise InputError for a path with a control character: a line end in it would end a line of a job script."""
    for path in map(str, paths):
        if re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029]", path):
            raise InputError(f"paths in a job script must have no control characters, got {path!r}; rename it")


def make_jobs_folder(result: Path) -> None:
    """Make the folder of the jobs' output, without which batch systems do not start them.  Raises ResultError."""
    check_result_place(result)
    try:
        make_folder(jobs_folder(result))
    except OSError as error:
        raise ResultError(f"cannot write in {jobs_folder(result)}: {error.strerror}") from None


def submitted(system: str, script: str) -> str:
    """Submit a script, and return what the batch system says.  Raises InputError where it refuses."""
    command = ARRAY_SYSTEMS[system].submit
    try:
        done = subprocess.run(  # noqa: S603  # a fixed name
            [command], input=script, capture_output=True, text=True, check=False, timeout=SUBMIT_SECONDS
        )
    except OSError as error:
        raise InputError(
            f"`--cluster {system}` must have {command} on this machine, got: {error.strerror}; --print shows the script"
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"`--cluster {system}`: {command} gave no answer in {SUBMIT_SECONDS} s; try again") from None
    if done.returncode:
        raise InputError(f"`--cluster {system}`: {command} refused the job: {done.stderr or done.stdout}")
    return done.stdout.strip()
