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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from evogt_study.workers.clusters import NO_PAGES, SETTINGS, quiet_dask_logging
from evogt_study.workers.dask_executor import LEAVE_AT
from evogt_study.workers.runner import BLAS_THREADS
from evogt_study.workers.signals import defer_signals

_LOOK_SECONDS = 5.0
"""Seconds between two looks at the queue.  Each look is a command that asks the server."""
_MESSAGE_SECONDS = 60.0
"""Seconds between two messages about a queue that gives no worker."""
ANSWER_SECONDS, SUBMIT_SECONDS, CLOSE_SECONDS = 30, 120, 60.0
"""Seconds for an answer of a queue, for submitting a job, and for cancelling the jobs at the end.

The commands of SLURM ask a busy server again for up to a minute.
"""
MAX_BARREN_LOOKS = 4
"""Consecutive looks that find jobs which ended without a worker, before the command gives up.  A job that cannot start
would otherwise be submitted without end.  A job that was cancelled while it waited counts too."""
_OUTPUT_BYTES = 4096
"""Bytes at the end of the output of a job that are searched for its last line."""
CERTIFICATES = ".evogt-"
"""Prefix of the folders with certificates, hidden since they may be in the working folder."""
_MARGIN, MIN_MARGIN, MAX_MARGIN = 1.0 / 20.0, 10.0, 300.0
"""Workers leave a job before its end: by this part of the wall time, with a smallest and a largest number of seconds.

The jobs of a study leave at random times within as many seconds, so that not all workers leave at once.
"""
PrintLine = Callable[[str], None]


@dataclass(frozen=True)
class BatchSystem:
    """Names and commands of a batch system.

    cluster: class of dask-jobqueue.  queue: command that lists the jobs of a user, whose name follows; a line begins
    with the number of a job.  submit: command that reads a script.  mark: beginning of its lines in the script.  lines:
    those for an array.  number: variable with the number of a task.
    """

    cluster: str
    queue: tuple[str, ...]
    submit: str
    mark: str
    lines: tuple[str, ...]
    number: str


SYSTEMS: Mapping[str, BatchSystem] = {
    "slurm": BatchSystem(
        "SLURMCluster",
        ("squeue", "-h", "-o", "%i %T %r", "-u"),
        "sbatch",
        "#SBATCH",
        ("--job-name={name}", "--array=1-{tasks}", "--cpus-per-task={workers}", "--output={folder}/%A_%a.out"),
        "SLURM_ARRAY_TASK_ID",
    ),
    "pbs": BatchSystem(
        "PBSCluster",
        ("qstat", "-u"),
        "qsub",
        "#PBS",
        ("-N {name}", "-J 1-{tasks}", "-l select=1:ncpus={workers}", "-j oe", "-o {folder}/"),
        "PBS_ARRAY_INDEX",
    ),
    # parallel environments of SGE have names of the site's own: --directive requests more processors
    "sge": BatchSystem(
        "SGECluster",
        ("qstat", "-u"),
        "qsub",
        "#$",
        ("-N {name}", "-t 1-{tasks}", "-j y", "-o {folder}/"),
        "SGE_TASK_ID",
    ),
    "lsf": BatchSystem(
        "LSFCluster",
        ("bjobs", "-noheader", "-o", "jobid stat pend_reason", "-u"),
        "bsub",
        "#BSUB",
        ('-J "{name}[1-{tasks}]"', "-n {workers}", "-o {folder}/%J_%I.out"),
        "LSB_JOBINDEX",
    ),
}


def _find_system(name: str) -> BatchSystem:
    if name not in SYSTEMS:
        raise InputError(f"`--cluster` must be one of {', '.join(SYSTEMS)}, got {name!r}")
    return SYSTEMS[name]


@contextmanager
def connect_to_batch_system(
    system: str, workers: int, output: Path, print_line: PrintLine = lambda line: None
) -> Iterator[Client]:
    """Yield a client whose `workers` processes are jobs, which are replaced when they end, and cancelled at the end.

    output: folder for the jobs' output.  print_line: gets a line if jobs are replaced, and each minute without a
    worker.  Raises InputError; SweepError if jobs are refused, or end again and again before they give a worker.
    """
    settings = SETTINGS | {"temporary-directory": str(own_folder())}  # of the scheduler, which is in this process
    with (
        dask.config.set(settings),
        quiet_dask_logging(),
        open_cluster(system, output) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        keeper = JobKeeper(cluster, workers, system, output, print_line)
        try:
            with keeper.keep_jobs(client):
                yield client
        except SweepError:
            if keeper.error is not None:
                raise SweepError(f"{keeper.error}; finished runs are kept, the same command goes on") from None
            raise


# BLAS's variables are exported in the script of the job: the environment of this process does not reach it.
# Dask's own --lifetime is not used: it ends a worker in the middle of its batch, with those that were not fetched yet.
@contextmanager
def open_cluster(system: str, output: Path | None = None) -> Iterator[Any]:
    """Yield the batch system's cluster, without workers yet.  BLAS has one thread in its jobs.

    output: folder for the jobs' output, unless Dask's configuration has one.  The scheduler listens to the whole
    network, and accepts only the certificate that is made here.  Raises InputError.
    """
    try:
        with defer_signals():  # importing it has Ctrl-C end this process with code 0; this puts the handler back
            import dask_jobqueue  # of an extra, which only this needs
    except ImportError:
        raise InputError("`--cluster` must have dask-jobqueue installed; use pip install 'evogt-study[hpc]'") from None
    known, configured = _find_system(system), dask.config.get(f"jobqueue.{system}", {})
    for key in ("cores", "memory"):
        if configured.get(key) is None:
            raise InputError(
                f"`--cluster {system}` must know the {key} of a job, got none; set jobqueue.{system}.{key} in "
                "~/.config/dask/jobqueue.yaml"
            )
    _check_texts(output, Path.cwd(), sys.executable)
    prologue = [*(configured.get("job-script-prologue") or []), *(f"export {name}=1" for name in BLAS_THREADS)]
    wall = wall_seconds(system, configured.get("walltime"))
    if wall is not None:  # by the clock of the job's own machine, when it begins: it may have waited for days
        margin = round(min(MAX_MARGIN, max(MIN_MARGIN, wall * _MARGIN)))
        seconds = f"{max(1, round(wall) - 2 * margin)} + ${{RANDOM:-0}} % {margin}"
        prologue.append(f"export {LEAVE_AT}=$(( $(date +%s) + {seconds} ))")
    folder, scheduler = configured.get("log-directory") or output, configured.get("scheduler-options") or {}
    has_pages = "dashboard_address" in scheduler  # Dask's own port may be another study's, and is open to all
    scheduler = {"dashboard_address": "127.0.0.1:0", "dashboard": has_pages, **scheduler}
    with _make_certificate(system, configured) as security, dask.config.set({} if has_pages else NO_PAGES):
        cluster = getattr(dask_jobqueue, known.cluster)(
            job_script_prologue=prologue,
            scheduler_options=scheduler,
            security=security,
            log_directory=None if folder is None else str(folder),
            silence_logs=logging.CRITICAL,
        )
        try:
            yield cluster
        finally:
            try:
                cluster.close(timeout=CLOSE_SECONDS)
            except TimeoutError:
                cluster.status = Status.closed  # else Dask would wait again when this process ends
                warn(
                    f"the batch system did not cancel the jobs within {CLOSE_SECONDS:.0f} s; they end by themselves, "
                    "once they have looked for this command for a minute",
                    JobsWarning,
                )


@contextmanager
def _make_certificate(system: str, configured: Mapping[str, Any]) -> Iterator[Security]:
    """Yield a certificate that jobs read from files in a folder that only this user can read; it is removed at the end.

    The folder is in `shared-temp-directory`, or else in the working folder.  Raises InputError if it cannot be.
    """
    security = Security.temporary()
    place = Path(os.path.expanduser(os.path.expandvars(configured.get("shared-temp-directory") or os.getcwd())))
    try:
        for left in place.glob(f"{CERTIFICATES}*"):  # by killed commands of this machine
            if was_left(left.name) and left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
        folder = tempfile.TemporaryDirectory(prefix=f"{CERTIFICATES}{own_mark()}", dir=place)
        for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):
            # with its permissions before its content: others must not read a key even for a moment
            path = Path(folder.name) / name
            path.touch(0o600)
            path.write_text(getattr(security, name))
            setattr(security, name, str(path))
    except OSError as error:
        raise InputError(
            f"`--cluster {system}` must be able to write its certificate where jobs find it, got {error}; set "
            f"jobqueue.{system}.shared-temp-directory in ~/.config/dask/jobqueue.yaml"
        ) from None
    with folder:
        yield security


def wall_seconds(system: str, text: object) -> float | None:
    """Seconds of a wall time as the batch system reads it; None if it is unknown.

    >>> wall_seconds("slurm", "1-12:00"), wall_seconds("slurm", "90"), wall_seconds("lsf", "1:30")
    (129600.0, 5400.0, 5400.0)
    >>> wall_seconds("pbs", "01:30:00"), wall_seconds("pbs", None)
    (5400.0, None)
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+(?::\d+){0,2})", str(text))
    if not match:
        return None
    numbers = [float(number) for number in match[2].split(":")]
    units = [3600.0, 60.0, 1.0]
    if match[1] is None:  # else SLURM's days-hours:minutes:seconds
        first = 3 - len(numbers)
        units = units[first - ((system == "lsf" and first == 1) or (system in ("slurm", "lsf") and first == 2)) :]
    return 86_400.0 * float(match[1] or 0) + sum(n * unit for n, unit in zip(numbers, units, strict=False))


class JobKeeper:
    """Keeps as many jobs of `cluster` (dask-jobqueue's) as give `workers` processes.

    error: why it gave up, and closed the client.
    """

    def __init__(self, cluster: Any, workers: int, system: str, output: Path, print_line: PrintLine) -> None:
        self.cluster, self.system, self.output, self.print_line = cluster, system, output, print_line
        self.n_jobs = math.ceil(workers / cluster._dummy_job.worker_processes)
        self.error: str | None = None
        self.fruitful: set[str] = set()  # jobs that have given a worker
        self.barren_looks = 0
        self.waiting = self.message_time = time.monotonic()
        self.is_over = threading.Event()

    @contextmanager
    def keep_jobs(self, client: Client) -> Iterator[None]:
        """Submit the jobs, the first of them now, and keep their number up.  Raises SweepError if it is refused."""
        try:
            self.submit()
        except (OSError, RuntimeError, ValueError) as error:
            raise SweepError(f"the batch system {self.system} did not take the jobs: {_reason(error)}") from None
        thread = threading.Thread(target=self._keep_jobs, args=(client,), name="evogt-jobs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.is_over.set()
            thread.join(ANSWER_SECONDS)  # one that waits for the batch system ends with this process

    def _keep_jobs(self, client: Client) -> None:
        wait = 0.0
        while not self.is_over.wait(wait):
            self.look()
            if self.error is not None:
                client.close()  # whoever waits for a batch goes on with an error
                return
            wait = _LOOK_SECONDS * 2**self.barren_looks  # a queue is not to be flooded with jobs that end at once

    def look(self) -> None:
        """Replace the jobs that the queue does not have any more, and say each minute that there is no worker."""
        jobs, queue = dict(self.cluster.workers), list_jobs(self.system)
        workers = [str(each.name) for each in list(self.cluster.scheduler.workers.values())]
        self.fruitful |= {name for name in jobs if any(each == name or each.startswith(f"{name}-") for each in workers)}
        ended = [name for name in self.cluster.worker_spec if name not in jobs]  # Dask cancels those that lose a worker
        ended += [] if queue is None else [name for name, job in jobs.items() if str(job.job_id) not in queue]
        if workers:
            self.barren_looks = 0
        elif any(name not in self.fruitful for name in ended):
            self.barren_looks += 1
        if self.barren_looks >= MAX_BARREN_LOOKS:
            self.error = (
                f"jobs of the batch system {self.system} have ended {MAX_BARREN_LOOKS} times before a worker came of "
                f"them; their output is in {self.output}{_last_line(self.output)}"
            )
            return
        self._replace(ended)
        now = time.monotonic()
        if workers:
            self.waiting = self.message_time = now
        else:
            states = Counter((queue or {}).get(str(job.job_id)) for name, job in jobs.items() if name not in ended)
            counts = ", ".join(f"{count} {state}" for state, count in states.most_common()) or "no jobs"
            self._print_rarely(
                f"no worker of {self.system} for {now - self.waiting:.0f} s: "
                + ("its queue does not answer" if queue is None else f"its queue has {counts}")
                + "; waiting for one"
            )

    def _replace(self, ended: list[str]) -> None:
        """Forget jobs that have ended, and submit as many as are missing."""
        for name in ended:
            self._forget(name)
        if ended:
            self.print_line(f"{len(ended)} jobs of {self.system} have ended; as many are submitted again")
        while len(self.cluster.worker_spec) < self.n_jobs and not self.is_over.is_set():
            try:
                self.submit()
            except (OSError, RuntimeError, ValueError) as error:  # a server that restarts, or a limit of jobs
                self._print_rarely(f"{self.system} takes no jobs now: {_reason(error)}; tried again")
                return

    def _print_rarely(self, line: str) -> None:
        if time.monotonic() >= self.message_time + _MESSAGE_SECONDS:
            self.message_time = time.monotonic()
            self.print_line(line)

    def _forget(self, name: str) -> None:
        self.cluster.worker_spec.pop(name, None)
        self.cluster.workers.pop(name, None)

    # one by one: if one of several that are submitted together is refused, Dask forgets all
    def submit(self) -> None:
        """Submit one job, under a new name.  Raises the error of the batch system's command."""
        self.cluster._i += 1
        spec = self.cluster.new_worker_spec()
        self.cluster.worker_spec.update(spec)
        try:
            self.cluster.sync(self.cluster._correct_state, callback_timeout=SUBMIT_SECONDS)
        except BaseException as error:
            for name in spec:
                self._forget(name)
            for job in [job for job in self.cluster._created if job.name in spec]:
                self.cluster._created.discard(job)  # else closing waits for its start
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer within {SUBMIT_SECONDS:.0f} s") from None
            raise


def _last_line(folder: Path) -> str:
    """The last line of the latest output of a job, if there is any."""
    with suppress(OSError, ValueError, IndexError):
        latest = max((path for path in folder.iterdir() if path.stat().st_size), key=lambda path: path.stat().st_mtime)
        with latest.open("rb") as file:
            file.seek(max(0, latest.stat().st_size - _OUTPUT_BYTES))
            return ": " + file.read().decode(errors="replace").strip().splitlines()[-1]
    return ""


def _reason(error: Exception) -> str:
    """The message of a batch system's command: dask-jobqueue puts it after the command and `stderr:`."""
    _, _, message = str(error).partition("stderr:")
    return " ".join((message if message.strip() else str(error)).split())


def list_jobs(system: str) -> dict[str, str] | None:
    """State of each of this user's jobs in the queue, by its number; None if the queue does not answer."""
    command = [*SYSTEMS[system].queue, getpass.getuser()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode and "No unfinished job" not in done.stderr:  # LSF calls an empty queue an error
        return None
    matches = (re.match(r"\s*(\d+)\S*\s*(.*)", line) for line in done.stdout.splitlines())
    return {match[1]: " ".join(match[2].split()) for match in matches if match}


def job_script(
    system: str, study: Sequence[str], result: Path, tasks: int, *, workers: int = 1, directives: Sequence[str] = ()
) -> str:
    """Return the script of an array of `tasks` tasks that compute the study for `result`, in this working folder.

    study: the study file and its assignments.  directives: further lines for the batch system, such as
    "--time=4:00:00".  Raises InputError for an unknown system, or a directive of more than one line.
    """
    known = _find_system(system)
    for directive in directives:
        if not directive.strip() or not directive.isprintable():
            raise InputError(f"`--directive` must be one line for {system}, such as --time=4:00:00, got {directive!r}")
    folder = jobs_folder(result).resolve()
    _check_texts(*study, result, folder, Path.cwd(), sys.executable)
    name = "".join(letter if letter.isalnum() else "_" for letter in result.stem)
    values = {"name": name, "tasks": tasks, "workers": workers, "folder": shlex.quote(str(folder))}
    command = [sys.executable, "-m", "evogt_study", "run", *study, "-o", str(result)]
    command += ["--workers", str(workers)] if workers > 1 else []
    return "\n".join(
        [
            "#!/bin/sh",
            *(f"{known.mark} {line.format(**values)}" for line in known.lines),
            *(f"{known.mark} {directive}" for directive in directives),
            f"cd {shlex.quote(str(Path.cwd()))} || exit",
            f'exec {shlex.join(command)} --task "${known.number}/{tasks}"',  # exec: signals of the system reach it
            "",
        ]
    )


def _check_texts(*texts: object) -> None:
    """Raise InputError for a control character in a path or an assignment: it could end a line of a job script."""
    for text in map(str, texts):
        if re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029]", text):
            raise InputError(f"paths and assignments in a job script must have no control characters, got {text!r}")


def make_jobs_folder(result: Path) -> None:
    """Make the folder of the jobs' output, without which batch systems do not start them.  Raises ResultError."""
    check_result_place(result)
    try:
        make_folder(jobs_folder(result))
    except OSError as error:
        raise ResultError(f"cannot write in {jobs_folder(result)}: {error.strerror}") from None


def submit_script(system: str, script: str) -> str:
    """Submit a script, and return the answer of the batch system.  Raises InputError if it refuses."""
    command = SYSTEMS[system].submit
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
