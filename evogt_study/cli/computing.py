"""The command `evogt run`, once it is known that something is to be computed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from distributed import Client

from evogt_study.cli.chosen_study import read_study, result_of
from evogt_study.cli.messages import print_result, warnings_at_the_end
from evogt_study.cli.progress_display import display
from evogt_study.errors import CodeWarning, InputError, StoreWarning
from evogt_study.operations.run import run_to_file
from evogt_study.workers.batch_systems import on_batch_system
from evogt_study.workers.dispatch import Limits
from evogt_study.workers.interruption import interruptible
from evogt_study.workers.local_cluster import remote


def run_study(
    study_file: Path,
    output: Path | None,
    *,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    cluster: str | None,
    retry_failed: bool,
    rerun_outdated: bool,
    run_limit: float | None,
    max_failures: int | None,
    time_limit: str | None,
    others: Sequence[Path],
    keep_old_code: bool,
    quiet: bool,
) -> None:
    """Compute what is missing of a study, write its result, and print what became of its runs."""
    limits = Limits(run_limit, max_failures)
    study = read_study(study_file)
    path = result_of(study, output)
    clients = remote(scheduler, scheduler_file) if cluster is None else _jobs(cluster, workers)
    told = warnings_at_the_end(StoreWarning, CodeWarning)
    with told, interruptible(time_limit), clients as client, display(quiet) as listener:
        run_to_file(
            study, path, client=client, workers=workers, retry_failed=retry_failed, listener=listener,
            limits=limits, rerun_outdated=rerun_outdated, others=others, keep_old_code=keep_old_code,
        )  # fmt: skip
    print_result(path)


def _jobs(system: str, workers: int | None) -> AbstractContextManager[Client]:
    if workers is None:
        raise InputError("`--workers` must be given with --cluster: the number of worker processes to ask for")
    return on_batch_system(system, workers)
