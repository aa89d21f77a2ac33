"""Compute a study by the tasks of an array: each task computes parts of it, and the last one writes the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evogt_study.errors import ResultError
from evogt_study.operations.run import run_to_file
from evogt_study.results.shards import shard_folder
from evogt_study.storage.atomic import check_result_place
from evogt_study.storage.lease import writer_of
from evogt_study.study.study import Study, check_study
from evogt_study.workers.executor import Workers
from evogt_study.workers.folder_executor import ArrayTask, Told
from evogt_study.workers.limits import NO_LIMITS, Limits


def work(
    study: Study,
    output: Path,
    number: int,
    of: int,
    *,
    workers: int = 1,
    limits: Limits = NO_LIMITS,
    others: Sequence[Path] = (),
    print_line: Told = lambda line: None,
    check_end: Callable[[], None] = lambda: None,
) -> bool:
    """Compute parts of a study that no other task has claimed, as task `number` of `of`, counted from 1.

    A part whose task has died is claimed again.  Runs are kept in shards beside `output`; the task that finds all of
    them writes the result.  Returns True if all runs are there.  print_line: gets a line while the task waits.
    check_end: raises KeyboardInterrupt if the task is to end.  It then finishes and keeps the runs that are being
    computed.

    Raises ResultError if `evogt run` is computing the result, or if it cannot be written; PilotError, StudyError and
    SweepError as `run`.
    """
    check_study(study)
    check_result_place(output)
    with Workers(None, workers) as cluster:
        task = ArrayTask(study, output, number, of, cluster, limits, others, print_line, check_end)
        whole = task.work()
    print_line(
        f"task {number} of {of}: {task.computed:,} runs computed" + (f", {task.failed:,} failed" * bool(task.failed))
    )
    if whole and shard_folder(output).exists():  # else another task has joined it
        _join(study, output, workers, limits, others, print_line)
    return whole


def _join(study: Study, output: Path, workers: int, limits: Limits, others: Sequence[Path], print_line: Told) -> None:
    """Write the result from its complete runs, unless another task is writing it."""
    try:
        run_to_file(study, output, workers=workers, limits=limits, others=others)
    except ResultError:
        writer = writer_of(output)
        if shard_folder(output).exists() and (writer is None or not writer.lives):
            raise
        print_line("another task joins the result")
