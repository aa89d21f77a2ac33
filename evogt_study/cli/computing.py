"""The command `evogt run`, once it is known that something is to be computed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from distributed import Client

from evogt_study.cli.chosen_study import read_study, result_of
from evogt_study.cli.messages import print_result, warnings_at_the_end
from evogt_study.cli.progress_display import display
from evogt_study.cli.run_options import RunOptions
from evogt_study.errors import CodeWarning, InputError, StoreWarning
from evogt_study.operations.run import run_to_file
from evogt_study.workers.batch_systems import on_batch_system
from evogt_study.workers.dispatch import Limits
from evogt_study.workers.interruption import interruptible
from evogt_study.workers.local_cluster import remote


def run_study(study_file: Path, output: Path | None, options: RunOptions) -> None:
    """Compute what is missing of a study, write its result, and print what became of its runs."""
    limits = Limits(options.run_limit, options.max_failures)
    study = read_study(study_file)
    path = result_of(study, output)
    told = warnings_at_the_end(StoreWarning, CodeWarning)
    with told, interruptible(options.time_limit), _clients(options) as client, display(options.quiet) as listener:
        run_to_file(
            study,
            path,
            client=client,
            workers=options.workers,
            retry_failed=options.retry_failed,
            listener=listener,
            limits=limits,
            rerun_outdated=options.rerun_outdated,
            others=options.others,
            keep_old_code=options.keep_old_code,
        )
    print_result(path)


def _clients(options: RunOptions) -> AbstractContextManager[Client | None]:
    """A client of what the options name; None for workers on this machine.  Raises InputError."""
    if options.cluster is None:
        return remote(options.scheduler, options.scheduler_file)
    if options.workers is None:
        raise InputError("`--workers` must be given with --cluster: the number of worker processes to ask for")
    return on_batch_system(options.cluster, options.workers)
