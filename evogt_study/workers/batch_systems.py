"""Workers from a batch system, through dask-jobqueue (the extra `hpc`), configured by its own YAML files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client

from evogt_study.errors import InputError, SweepError
from evogt_study.workers.local_cluster import SETTINGS
from evogt_study.workers.worker_server import BLAS_THREADS

SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}


def cluster_of(system: str, **options: Any) -> Any:
    """The batch system's cluster, without workers yet; its jobs hold BLAS to one thread.

    Raises InputError where dask-jobqueue is not installed, or its configuration lacks what it needs.
    """
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
    prologue = [*(configured.get("job-script-prologue") or []), *(f"export {name}=1" for name in BLAS_THREADS)]
    own = {"dashboard_address": "127.0.0.1:0"}  # Dask's own port may be another study's, and is open to all
    scheduler = {**own, **(configured.get("scheduler-options") or {}), **options.pop("scheduler_options", {})}
    return getattr(dask_jobqueue, SYSTEMS[system])(job_script_prologue=prologue, scheduler_options=scheduler, **options)


@contextmanager
def on_batch_system(system: str, workers: int) -> Iterator[Client]:
    """A client whose `workers` processes are jobs, cancelled at the end.  Raises InputError, SweepError."""
    with dask.config.set(SETTINGS), cluster_of(system) as cluster, Client(cluster, set_as_default=False) as client:
        try:
            cluster.scale(n=workers)
            cluster.sync(cluster._correct_state)  # submits now, so that a refusal is told now
        except (OSError, RuntimeError) as error:
            raise SweepError(f"the batch system {system} did not take the jobs: {error}") from None
        yield client
