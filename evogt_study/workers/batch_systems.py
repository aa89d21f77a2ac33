"""Workers from a batch system, through dask-jobqueue (the extra `hpc`), configured by its own YAML files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
from distributed import Client
from distributed.security import Security

from evogt_study.errors import InputError, SweepError
from evogt_study.storage.processes import own_mark, was_left
from evogt_study.storage.temporary_folders import own_folder
from evogt_study.workers.local_cluster import NO_PAGES, SETTINGS
from evogt_study.workers.worker_server import BLAS_THREADS

SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}

CERTIFICATES = ".evogt-"
"""Prefix of folders of certificates; hidden, since the folder may be the user's working folder."""


# BLAS's variables are exported in the script of the job: the environment of this process does not reach it.
@contextmanager
def cluster_of(system: str) -> Iterator[Any]:
    """The batch system's cluster, without workers yet; its jobs hold BLAS to one thread.

    Its scheduler listens to the whole network, and takes nobody without a certificate that is made here.  Raises
    InputError where dask-jobqueue is not installed, its configuration lacks what it needs, or the certificate cannot be
    written for the jobs.
    """
    made, configured = _class_and_configuration(system)
    prologue = [*(configured.get("job-script-prologue") or []), *(f"export {name}=1" for name in BLAS_THREADS)]
    scheduler = configured.get("scheduler-options") or {}
    shown = "dashboard_address" in scheduler  # Dask's own port may be another study's, and is open to all
    scheduler = {"dashboard_address": "127.0.0.1:0", "dashboard": shown, **scheduler}
    with (
        _certificate(system, configured) as security,
        dask.config.set({} if shown else NO_PAGES),
        made(job_script_prologue=prologue, scheduler_options=scheduler, security=security) as cluster,
    ):
        yield cluster


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
        import dask_jobqueue
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


@contextmanager
def on_batch_system(system: str, workers: int) -> Iterator[Client]:
    """A client whose `workers` processes are jobs, cancelled at the end.  Raises InputError, SweepError."""
    settings = SETTINGS | {"temporary-directory": str(own_folder())}  # of the scheduler, which is in this process
    with dask.config.set(settings), cluster_of(system) as cluster, Client(cluster, set_as_default=False) as client:
        try:
            # `n` counts worker processes, of which a job may have several
            cluster.scale(n=workers)
            cluster.sync(cluster._correct_state)  # submits now; else a refusal would only be logged later
        except (OSError, RuntimeError) as error:
            raise SweepError(f"the batch system {system} did not take the jobs: {error}") from None
        yield client
