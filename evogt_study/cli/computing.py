"""The commands `evogt run` and `evogt work`, once it is known that something is to be computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evogt_study.cli.chosen_study import read_study, result_of
from evogt_study.cli.messages import print_result, warnings_at_the_end
from evogt_study.cli.progress_display import display
from evogt_study.cli.run_options import RunOptions
from evogt_study.errors import CodeWarning, InputError, JobsWarning, StoreWarning
from evogt_study.operations.run import run_to_file
from evogt_study.storage.paths import jobs_folder
from evogt_study.text import tell
from evogt_study.workers.limits import WORKER_SECONDS, Limits
from evogt_study.workers.signals import interruptible, winding_down

if TYPE_CHECKING:
    from distributed import Client


def run_study(study_file: Path, output: Path | None, options: RunOptions) -> None:
    """Compute what is missing of a study, write its result, and print what became of its runs."""
    # jobs may wait in a queue for days, and their workers with them
    limits = Limits(options.run_limit, options.max_failures, WORKER_SECONDS if options.cluster is None else None)
    study = read_study(study_file)
    path = result_of(study, output)
    warned, clients = warnings_at_the_end(StoreWarning, CodeWarning, JobsWarning), _clients(options, path)
    # left from the right: the bar ends, clients are closed while signals are still handled, warnings are told last
    with warned, interruptible(options.time_limit), clients as client, display(options.quiet) as listener:
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


def _clients(options: RunOptions, result: Path) -> AbstractContextManager[Client | None]:
    """A client of what the options name; None for workers on this machine.  Raises InputError."""
    if options.cluster is None and options.scheduler is None and options.scheduler_file is None:
        return nullcontext()
    # here: a study of quick runs is done before Dask is there, which takes 0.4 s to import
    from evogt_study.workers.batch_systems import on_batch_system
    from evogt_study.workers.clusters import remote

    if options.cluster is None:
        return remote(options.scheduler, options.scheduler_file)
    if options.workers is None:
        raise InputError("`--workers` must be given with --cluster: the number of worker processes to ask for")
    told = (lambda line: None) if options.quiet else partial(tell, err=True)
    return on_batch_system(options.cluster, options.workers, jobs_folder(result), told)


def work_on(
    study_file: Path,
    output: Path | None,
    number: int,
    of: int,
    *,
    workers: int,
    run_limit: float | None,
    time_limit: str | None,
    others: Sequence[Path],
    told: Callable[[str], None],
) -> None:
    """Compute parts of a study as one task of an array, and join the result if all is there."""
    from evogt_study.workers.folder_executor import work  # 0.3 s, with Dask, which `evogt run` may do without

    study = read_study(study_file)
    path = result_of(study, output)
    with warnings_at_the_end(StoreWarning, CodeWarning), winding_down(time_limit) as check_end:
        whole = work(
            study, path, number, of, workers=workers, limits=Limits(run_limit), others=others, told=told,
            check_end=check_end,
        )  # fmt: skip
    if whole:
        told(f"{path}: all runs are there")
