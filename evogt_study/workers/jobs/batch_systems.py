"""Workers from a batch system, through dask-jobqueue (the extra `hpc`), configured by its own YAML files."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
from distributed import Client
from distributed.core import Status
from distributed.security import Security

from evogt_study.errors import InputError, JobsWarning, SweepError, warn
from evogt_study.storage.atomic import own_mark, was_left
from evogt_study.storage.lease import own_folder
from evogt_study.workers.batch import LEAVE_AT
from evogt_study.workers.interruption import deferred
from evogt_study.workers.jobs.job_keeper import JobKeeper, Told
from evogt_study.workers.jobs.job_queue import SYSTEMS, Queue, wall_seconds
from evogt_study.workers.local_cluster import NO_PAGES, SETTINGS, silent
from evogt_study.workers.worker_server import BLAS_THREADS

CERTIFICATES = ".evogt-"
"""Prefix of folders of certificates; hidden, since the folder may be the user's working folder."""

CLOSE_SECONDS = 60.0
"""In which the batch system has to cancel the jobs at the end: its commands ask a busy server again and again."""
MARGIN, LEAST_MARGIN, MOST_MARGIN = 1.0 / 20.0, 10.0, 300.0
"""Part of a job's wall time, and seconds at least and at most, that its workers leave before its end.

They leave within as many seconds, each job at its own time, so that not all of a study's workers are gone at once.
"""


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


@contextmanager
def on_batch_system(system: str, workers: int, output: Path, told: Told = lambda line: None) -> Iterator[Client]:
    """A client whose `workers` processes are jobs, which are replaced when they end, and cancelled at the end.

    output: folder for the jobs' output.  `told` gets a line where jobs are replaced, and each minute without a worker.
    Raises InputError; SweepError where jobs are refused, or end again and again before a worker comes of them.
    """
    settings = SETTINGS | {"temporary-directory": str(own_folder())}  # of the scheduler, which is in this process
    with (
        dask.config.set(settings),
        silent(),
        cluster_of(system, output) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        keeper = JobKeeper(cluster, workers, Queue(system), output, told)
        try:
            with keeper.keeping(client):
                yield client
        except SweepError:
            if keeper.error is not None:
                raise SweepError(f"{keeper.error}; finished runs are kept, the same command goes on") from None
            raise
