"""Run a study: reuse finished runs, compute the missing runs in batches, and write the result file."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from evogt_study import errors
from evogt_study.methods.code import check_no_import
from evogt_study.methods.current_run import remove_run_files
from evogt_study.operations.complete import summarise_runs
from evogt_study.operations.progress import Listener, Progress, ProgressEvent, make_notebook_display, with_progress_file
from evogt_study.results import finished
from evogt_study.results.dataset import make_global_attributes, to_dataset, with_text_keys
from evogt_study.results.index import list_shards, write_shard
from evogt_study.results.netcdf import open_written, with_status_names, write_result
from evogt_study.results.provenance import RunSummary, read_versions
from evogt_study.results.table import FINISHED, RunTable
from evogt_study.schema.records import ATTRIBUTE, RunRecords
from evogt_study.schema.variables import COORDINATES, FINAL_STATUSES, MAIN, Status, warn_of_accuracy
from evogt_study.storage import files
from evogt_study.storage.lease import count_active_claims, find_writer, lock_result, make_temporary_folder
from evogt_study.study.case_space import ParameterTable, join_names
from evogt_study.study.plan import Phase, Plan, choose_parameters, count_needs, fill_until_precise
from evogt_study.study.study import Study, check_study
from evogt_study.text import format_count, print_line
from evogt_study.workers.executor import DaskExecutor, Executor, FolderExecutor, LocalExecutor
from evogt_study.workers.runner import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from distributed import Client

LARGE_BLOCK_BYTES = 2**20
"""Minimum number of bytes of a memory block that the GNU C library returns to the system when the block is free.

By default, the library keeps up to 32 MB of each batch.  For 1 GB of values, this takes 45 to 80 MB more.
"""
MAX_JOIN_SECONDS, RETRY_SECONDS = 10.0, 0.2
"""Maximum time in seconds until another task must have written the result, and seconds between two attempts."""
PrintLine = Callable[[str], None]
_print_line: PrintLine = partial(print_line, err=True)


def run(
    study: Study, *, output: str | Path | None = None, client: Client | None = None, listener: Listener | None = None,
    **options: Any,
) -> xr.Dataset:  # fmt: skip
    """Run the missing cases of a study and return the result as a Dataset.

    Parameters
    ----------
    study : Study
        Study to run.
    output : str or Path, optional
        Result file, in NetCDF.  The study reuses finished runs of this file, its store and other results in its folder.
        By default, the result stays in memory.  If the study is interrupted, a message names a file with its finished
        runs.
    client : distributed.Client, optional
        Client of a Dask cluster that computes the runs.  By default, workers on this machine compute the runs.
    listener : callable, optional
        Function to call with a `ProgressEvent` after each batch.  By default, only notebooks show the progress.
    **options
        Fields of `evogt_study.workers.runner.RunOptions`, such as ``workers``, ``run_timeout`` and ``retry_failed``.

    Returns
    -------
    xarray.Dataset
        The variables that the method returned, along the axes of the study, and run metadata such as ``run_status``.

    Raises
    ------
    InputError
        If an option has an invalid value.
    ResultError
        If `output` cannot be written or holds another study, or another process is writing it.
    PilotError
        If the pilot cannot choose a value.
    SweepError
        If the study cannot continue.

    Warns
    -----
    AccuracyWarning
        If values of runs may be inaccurate.
    StoreWarning
        If runs of `output` were moved to the store.

    Examples
    --------
    >>> study = evs.Study("monte_carlo.py:pi", axes={"points": [10, 100], "seed": range(3)})  # doctest: +SKIP
    >>> ds = evs.run(study, workers=2, run_timeout=60.0)  # doctest: +SKIP
    >>> ds.value.mean("seed")  # doctest: +SKIP
    """
    check_study(study)
    check_no_import("evs.run")
    known = [each.name for each in fields(RunOptions)]
    if unknown := [name for name in options if name not in known]:
        raise errors.InputError(f"evs.run has no option `{unknown[0]}`. {errors.suggest(unknown[0], known)}")
    given = RunOptions(**options)
    if client is not None:
        from evogt_study.workers.dask_executor import check_client

        check_client(client)
    listener = listener or make_notebook_display()
    with open_executor(given, client) as executor, _choose_path(output, study.name) as path:
        data = StudyRun(study, path, executor, given, listener, write=output is not None).compute_result()[MAIN]
        data = with_text_keys(data) if output is None else open_written(path)
    warn_of_accuracy(data)
    return with_status_names(data)


# shows the names of all options in help() and completion
_KEYWORDS = [
    inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
    for each in fields(RunOptions)
]
run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [*[*inspect.signature(run).parameters.values()][:-1], *_KEYWORDS], return_annotation=xr.Dataset
)


def open_executor(
    options: RunOptions, client: Client | None = None, print_line: PrintLine = _print_line
) -> closing[Executor]:
    """Create the executor for the options, and close it at the end of the context."""
    is_here = client is None and options.workers == 0
    return closing(LocalExecutor() if is_here else DaskExecutor(client, options, print_line))


@contextmanager
def _choose_path(output: str | Path | None, name: str) -> Iterator[Path]:
    """Yield `output` or a temporary file.  Remove the temporary file unless an interrupt leaves finished runs."""
    if output is not None:
        yield Path(output).absolute()  # absolute, because a run in this process may change the current folder
        return
    path, kept = Path(tempfile.mkdtemp(prefix="evogt-", dir=make_temporary_folder())) / f"{name}.nc", False
    try:
        yield path
    except KeyboardInterrupt:
        kept = bool(list_shards(finished.shard_folder(path)))
        raise
    finally:
        if not kept:
            shutil.rmtree(path.parent, ignore_errors=True)


def run_to_file(
    study: Study, output: Path, *, client: Client | None = None, options: RunOptions = DEFAULTS,
    listener: Listener | None = None, print_line: PrintLine = _print_line,
) -> RunSummary:  # fmt: skip
    """Run a study, write the result file, and return a summary of its runs."""
    gc.freeze()  # collections then skip the imported objects, which saves 0.1 s
    with suppress(AttributeError, OSError):  # a C library without M_MMAP_THRESHOLD
        ctypes.CDLL(None).mallopt(-3, LARGE_BLOCK_BYTES)
    with open_executor(options, client, print_line) as executor:
        study_run = StudyRun(study, output, executor, options, listener)
        study_run.compute_result()
    return study_run.summary


def run_all(
    studies: Iterable[Study], folder: Path, *, client: Client | None = None, options: RunOptions = DEFAULTS,
    listener: Listener | None = None,
) -> Iterator[Path]:  # fmt: skip
    """Run studies in sequence on the same workers, and yield the path of each complete result in `folder`.

    After an error of a study, later studies do not start.
    """
    paths = dict[Path, Study]()
    for study in studies:
        path = folder / f"{study.name}.nc"
        if path in paths:
            raise errors.InputError(f"`studies` must have different names, got {study.name!r} twice")
        files.check_result_place(path)
        paths[path] = study
    with open_executor(options, client) as executor:
        for path, study in paths.items():

            def listen(event: ProgressEvent, name: str = study.name) -> None:
                phase = name if event.phase == MAIN else f"{name} {event.phase}"
                if listener is not None:
                    listener(replace(event, phase=phase))

            StudyRun(study, path, executor, options, listen).compute_result()
            yield path


def run_task(
    study: Study, output: Path, number: int, of: int, number_of_class: int = 0, *, options: RunOptions = DEFAULTS,
    print_line: PrintLine = _print_line, check_end: Callable[[], None] = lambda: None,
) -> bool:  # fmt: skip
    """Compute parts of a study that no other task has claimed.  Return True if all runs are finished.

    All tasks write shards beside `output`.  The task that finds all runs finished writes the result.  `number_of_class`
    is the position of a class of resources in `count_needs`, or 0 for all.  `check_end` raises KeyboardInterrupt.
    """
    check_study(study)
    with open_executor(options, None, print_line) as inner:
        classes = list(count_needs(study))[max(0, number_of_class - 1) : number_of_class or None]
        task = FolderExecutor(inner, output, number, of, study.phases[-1], print_line, check_end, classes)
        share = StudyRun(study, output, task, options)
        share.fill_tables()
        if number_of_class and task.is_complete:  # tasks of other classes may compute the other runs
            share.fill_tables()
    counts = f", {share.failed:,} failed" * bool(share.failed)
    print_line(f"task {number} of {of}: {format_count(share.n_computed, 'run')} computed{counts}")
    end, was_idle = time.monotonic() + MAX_JOIN_SECONDS, False
    # without shards, another task has written the result, or all runs are in other results
    while task.is_complete and (finished.shard_folder(output).exists() or not output.exists()):
        try:
            run_to_file(study, output, options=options, print_line=print_line)
            break
        except errors.ResultError:
            # check in this order, because a writer removes the shards before its lease
            writer, n_parts = find_writer(output), count_active_claims(files.claims_folder(output))
            is_idle = not n_parts and (writer is None or not writer.lives)
            if is_idle and was_idle and (finished.shard_folder(output).exists() or not output.exists()):
                raise
            was_idle = is_idle
            if time.monotonic() > end:
                print_line("another task is writing the result")
                break
            time.sleep(RETRY_SECONDS)
    return task.is_complete


class StudyRun:
    """Computation of one study.  If `write` is False, the result stays in memory."""

    def __init__(
        self, study: Study, path: Path, executor: Executor, options: RunOptions, listener: Listener | None = None,
        *, write: bool = True,
    ) -> None:  # fmt: skip
        files.check_result_place(path)
        self.study, self.path, self.executor, self.options, self.write = study, path, executor, options, write
        self.listener = listener if executor.is_shared else with_progress_file(path, listener)
        self.reuse_from = tuple(map(Path, options.reuse_from))
        self.shards, self.runs = finished.shard_folder(path), files.runs_folder(path)
        self.n_computed = self.failed = 0
        self.is_filled = False  # True if all runs are finished
        self.summary = RunSummary({}, {})
        if self.shards.is_file():
            raise errors.ResultError(f"cannot write in {self.shards}: it is a file. Choose another output file.")

    def compute_result(self) -> dict[str, xr.Dataset]:
        """Run the phases and write the result file under its lease.  Return a Dataset for each phase."""
        with lock_result(self.path) as self.check_alone:
            if tasks := count_active_claims(files.claims_folder(self.path)):
                raise errors.ResultError(
                    f"tasks of `evogt run --task` are computing {self.path} ({format_count(tasks, 'part')}). Wait for "
                    "the tasks, or choose another output file."
                )
            # remove incomplete files first, because this process is the only writer now
            files.remove_unfinished(self.shards)
            files.remove_unfinished(files.store_folder(self.path))
            if self.options.reuse_old_code:
                self.study = finished.with_recorded_code(self.study, self.path)
            self.known = finished.FinishedRuns(self.study, self.path, self.reuse_from)
            try:
                return self.compute_and_write()
            except KeyboardInterrupt as reason:
                found = f"finished runs are in {self.shards}. The same command computes the rest."
                if self.is_filled and self.write:
                    found = "all runs are finished. The same command writes the result."
                elif not list_shards(self.shards):
                    found = "no new run is finished. The same command computes the rest."
                elif not self.write:
                    found = (
                        f"finished runs are in {self.path} until this process ends. evs.open reads them, and evs.run "
                        "with this `output` computes the rest."
                    )
                raise errors.StudyInterruptedError(f"{str(reason) or 'interrupted'}: {found}") from None

    def compute_and_write(self) -> dict[str, xr.Dataset]:
        """Run the phases and write the result file.  Return a Dataset for each phase."""
        tables, self.is_filled = self.fill_tables(), True
        whole = {phase: to_dataset(tables[phase], self.study, key_bytes=True) for phase in reversed(tables)}
        is_new = bool(self.n_computed) or not self.known.history
        for phase, data in whole.items():
            data.attrs = {**make_global_attributes(self.study, phase), **data.attrs}
            data.attrs["history"] = self.known.extend_history(phase, data.attrs["history"], is_new)
        # if another process acquired the lock while this process was stopped, write nothing
        self.check_alone()
        if not self.write:
            whole[MAIN].load()  # the next lines remove the files of the runs
        # in this order, so that all finished runs are always on disk: store the unplanned runs, replace the result,
        # remove the shards
        kept = self.known.keep_unplanned()
        if self.write:
            self.summary = summarise_runs(whole)
            write_result(self.path, whole, tables, self.summary)
        self.known.discard_shards()
        if self.runs.exists():  # killed processes have left folders of finished or unplanned runs
            failed = {key for each in tables.values() for key in each.plan.keys[each.status != Status.ok].astype(str)}
            is_ok = {key: key not in failed for key in os.listdir(self.runs)}
            remove_run_files(self.runs, is_ok, keeps=self.study.model.keep)
            with suppress(OSError):  # the folder is not empty
                self.runs.rmdir()
        self.known.give_warnings(kept)
        left_out = {part for table in tables.values() for part in table.left_out}
        if left_out:
            names = join_names(sorted(left_out), 6)
            errors.warn(
                f"a result cannot hold {names} of the returned objects, so these parts are left out",
                errors.ReturnWarning,
            )
        variables = sorted({name for table in tables.values() for name in table.columns})
        for name in sorted(self.study.model.attributes.keys() - set(variables)) if variables else ():
            message = f"no run returned `{name}`, a variable that [output.better] or [output.estimand] names"
            errors.warn(f"{message} ({self.study.file}). {errors.suggest(name, variables)}", errors.ReturnWarning)
        return whole

    def fill_tables(self) -> dict[str, RunTable]:
        """Compute the phases in sequence, with the choices of earlier phases.  Return a run table for each phase."""
        tables, chosen = dict[str, RunTable](), list[ParameterTable]()
        for phase in self.study.phases:
            fill = partial(self.fill, phase)
            tables[phase.name] = fill_until_precise(self.study, phase, chosen, fill, computing=True)
            chosen += choose_parameters(phase, tables[phase.name])
        return tables

    def fill(self, phase: Phase, plan: Plan) -> RunTable:
        """Return a table with the reused and the computed runs of a plan."""
        plan = replace(plan, folder=str(self.runs))
        while True:
            self.executor.begin()
            if self.executor.is_shared:
                # read only the variables that determine later runs, or all variables if no run has them
                table = files.retry_if_replaced(self.path, lambda: self.read(plan, phase.deciding_variables))
                if phase.deciding_variables and not table.columns:
                    table = files.retry_if_replaced(self.path, lambda: self.read(plan))
            else:
                table = self.read(plan)
            self.compute(table)
            if not self.executor.has_new_runs(table):
                return table

    def read(self, plan: Plan, variables: Sequence[str] | None = None) -> RunTable:
        """Read the reused runs of a plan into a table.  If `variables` is None, read all variables."""

        def select(records: RunRecords) -> RunRecords:
            if not self.options.rerun_outdated:
                return records
            return records.select_rows(np.flatnonzero([each == read_versions() for each in records.software]))

        if self.executor.is_shared:
            self.known = finished.FinishedRuns(self.study, self.path, self.reuse_from, check=False)
        kept = FINAL_STATUSES if self.options.retry_failed else FINISHED  # diverged runs would diverge again
        return self.known.fill(plan, variables, wanted=kept, usable=select)

    def compute(self, table: RunTable) -> None:
        """Compute the missing cases of a run table, write their shards, and report progress."""
        counts, missing, most = table.counts(), table.missing(), self.options.max_failures
        total = sum(counts.values())
        reused = total - counts[Status.not_run]
        progress = Progress(table.plan.phase, total, reused, self.listener, failed=reused - counts[Status.ok])
        progress.report()
        trials = missing[:0] if counts[Status.ok] else table.plan.trials(missing)
        is_described = False
        for computed in self.executor.compute(table.plan, missing, trials) if len(missing) else ():
            if not is_described:
                if len(trials):
                    self.check_names(computed, table.plan)
                finished.write_description(self.path, self.study)  # the names in the records are valid
                is_described = True
            records = table.check(computed)
            # write before counting, so that a finished run survives a crash
            write_shard(self.shards, records)
            if self.runs.exists():
                is_ok = dict(zip(records.keys, records.status == Status.ok, strict=True))
                remove_run_files(self.runs, is_ok, keeps=self.study.model.keep)
            new = table.add(records, is_checked=True)
            failed = int(np.count_nonzero(table.status[new] != Status.ok))
            self.n_computed, self.failed = self.n_computed + len(new), self.failed + failed
            progress.add(len(new), failed, float(records.wall_seconds.sum()), self.executor.workers)
            if most is not None and progress.failed > most:  # more failed runs would not help to find the mistake
                message = table.commonest_message()
                raise errors.SweepError(
                    f"stopped after {format_count(progress.failed, 'failed run')} (the limit is {most})"
                    f"{f', most often: {message}' if message else ''}. Finished runs are kept. "
                    "The same command continues the study."
                )
        progress.report(final=True)

    def check_names(self, records: RunRecords, plan: Plan) -> None:
        """Raise StudyError if the runs return a variable with the name of a dimension or coordinate of the study."""
        own = {*COORDINATES} if any(phase.precision for phase in self.study.phases) else set()
        returned = {name for each in records.stacks if each.role != ATTRIBUTE for name in (each.name, *each.dims)}
        for name in sorted(returned & {*own, *plan.space.names}):
            owner = "of a variable of a study with [precision]" if name in own else "of a dimension of the study"
            message = f"the function returned `{name}`, a name that is also the name {owner} ({self.study.file})"
            raise errors.StudyError(f"{message}. Rename the variable.")
