"""Run a study: reuse finished runs, compute the missing ones in batches, and write the result file."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed as finished_in_turn
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from evogt_study.errors import (
    InputError,
    ParameterError,
    ResultError,
    ReturnWarning,
    StoreWarning,
    StudyError,
    SweepError,
    shortened,
    warn,
)
from evogt_study.operations.forecast import longest_studies_first
from evogt_study.operations.progress import Listener, Progress, notebook_display, written_down
from evogt_study.results.dataset import dataset, global_attributes, with_text_keys
from evogt_study.results.finished import FinishedRuns, describe, with_recorded_code
from evogt_study.results.netcdf import open_written, write_result
from evogt_study.results.pilot_choice import chosen_by
from evogt_study.results.provenance import software_set
from evogt_study.results.run_metadata import with_status_names
from evogt_study.results.shards import shard_files, shard_folder, write_shard
from evogt_study.results.table import Table
from evogt_study.results.target_precision import filled_as_needed
from evogt_study.schema.records import ATTRIBUTE, RunRecords
from evogt_study.schema.variables import COORDINATES, FINAL, MAIN, Status, warn_of_doubts
from evogt_study.storage.atomic import check_result_place, followed, make_folder, remove_unfinished
from evogt_study.storage.lease import living, only_writer, own_folder, writer_of
from evogt_study.storage.paths import claims_folder, paths_of, store_folder
from evogt_study.study.case_space import Chosen, listed
from evogt_study.study.plan import Order, Plan
from evogt_study.study.study import Study, check_study
from evogt_study.workers.executor import Workers, quick_records
from evogt_study.workers.limits import NO_LIMITS, Limits

if TYPE_CHECKING:
    from distributed import Client

# The last runs of a study leave workers idle.  A second study fills them, and a third one at the end of the second.
# More studies would only need memory for their tables.
STUDIES_AT_ONCE = 3


@dataclass(frozen=True)
class Reuse:
    """Rule for finished runs: by default all of them are reused.

    others: more places to search for runs.  reuse_old_code: also reuse runs of an older version of the user's code.
    """

    retry_failed: bool = False
    rerun_outdated: bool = False
    others: tuple[Path, ...] = ()
    reuse_old_code: bool = False

    def keeps(self, status: Status) -> bool:
        """Return True if a run with this status is not tried again; a diverged run would diverge again."""
        return status in FINAL if self.retry_failed else status != Status.not_run

    def usable(self, records: RunRecords) -> RunRecords:
        """Select the runs to reuse: all, or only the runs of the software that is here now."""
        if not self.rerun_outdated:
            return records
        return records.selected(np.flatnonzero([software == software_set() for software in records.software]))


def run(
    study: Study,
    *,
    client: Client | None = None,
    output: str | Path | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    listener: Listener | None = None,
    limits: Limits = NO_LIMITS,
    rerun_outdated: bool = False,
    others: str | Path | Sequence[str | Path] = (),
    reuse_old_code: bool = False,
) -> xr.Dataset:
    """Compute the missing runs of a study and return its labelled result.

    client: any `distributed.Client`; None starts `workers` processes on this machine (default: its cores).  Until they
    have started, one forked process computes, which may be enough.  output: the NetCDF file to write.  Runs in this
    file, its store or other results of its folder are reused by their keys.  None keeps nothing on disk, except if the
    study is interrupted: a `StoreWarning` then names the place of the finished runs.  listener: called with an `Event`
    after each batch; None shows progress in a notebook only.  limits: stop a run, or the study, early.  rerun_outdated:
    do not reuse runs of other software versions; otherwise `software` marks them.  others: more results, or folders of
    results, with runs to reuse.  reuse_old_code: also reuse runs of `output` that an older version of the user's code
    computed.  Their keys, and the keys of new runs, then contain the fingerprint that `output` recorded.

    Warns with `evogt_study.errors.DoubtWarning` if values of runs may be inaccurate, and with `StoreWarning` if runs of
    `output` were moved to the store because the study no longer includes them.

    If a run fails, times out or ends its worker process, `status` and `message` record it and the study goes on.
    Raises ResultError if `output` cannot be written, is being written by another process, or holds another study;
    PilotError if the pilot cannot choose; SweepError if the study cannot go on.
    """
    check_study(study)
    if client is not None and not _is_client(client):
        raise InputError(f"`client` must be a distributed.Client, or None for this machine, got {shortened(client)}")
    if client is not None and client.asynchronous:
        raise InputError("`client` must be one that waits, got an asynchronous one; leave out `asynchronous`")
    if not isinstance(limits, Limits):
        raise ParameterError("limits", "an evs.Limits", limits, remedy="use e.g. evs.Limits(run_seconds=60)")
    reuse = Reuse(retry_failed, rerun_outdated, tuple(paths_of(others)), reuse_old_code)
    listener = listener or notebook_display()
    with Workers(client, workers) as cluster, _place(output, study.name) as path:
        sweep = _Sweep(study, path, cluster, reuse, listener, limits=limits, write=output is not None)
        data = with_text_keys(sweep.result())
        if output is not None:
            data = open_written(path)
    warn_of_doubts(data)
    found = with_status_names(data)
    found.set_close(data.close)  # xarray loses it
    return found


@contextmanager
def _place(output: str | Path | None, name: str) -> Iterator[Path]:
    """The given file, or a file in a temporary folder, which is removed unless the body is interrupted."""
    if output is not None:
        yield Path(output).absolute()  # a run in this process may change its folder
        return
    path, kept = Path(tempfile.mkdtemp(prefix="evogt-", dir=own_folder())) / f"{name}.nc", False
    try:
        yield path
    except KeyboardInterrupt:
        kept = bool(shard_files(shard_folder(path)))
        if kept:
            warn(
                f"finished runs are kept in {path} until this process ends: evs.open reads them, evs.run with it as "
                "`output` computes the rest",
                StoreWarning,
            )
        raise
    finally:
        if not kept:
            shutil.rmtree(path.parent, ignore_errors=True)


def _is_client(value: object) -> bool:
    """Return True for a Dask client.  Without an import of Dask there is none."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(value, distributed.Client)


def run_to_file(
    study: Study,
    output: Path,
    *,
    client: Client | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    listener: Listener | None = None,
    limits: Limits = NO_LIMITS,
    rerun_outdated: bool = False,
    others: Sequence[Path] = (),
    reuse_old_code: bool = False,
) -> None:
    """Run a study as `run`, but keep the result in its file only: memory does not grow with the study."""
    reuse = Reuse(retry_failed, rerun_outdated, tuple(others), reuse_old_code)
    with Workers(client, workers) as cluster:
        _Sweep(study, output, cluster, reuse, listener, limits=limits).result()


# by rough work, not timed: the order is needed before the first run, and a wrong order only costs idle workers
def run_all(
    studies: Iterable[Study],
    folder: Path,
    *,
    client: Client | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    listener: Listener | None = None,
) -> Iterator[Path]:
    """Run several studies on the same workers and yield their result files, NAME.nc in `folder`, as they are written.

    A few studies run at a time, the longest first, so that the last runs of a study do not leave workers idle.  The
    arguments and the errors are as in `run`; events name the study in their phase.
    """
    studies, stop = longest_studies_first(list(studies)), threading.Event()
    for study in studies:
        check_result_place(folder / f"{study.name}.nc")
    make_folder(folder)  # first: studies that run at once would create and remove it
    cluster = Workers(client, workers, alone=False)
    with ThreadPoolExecutor(STUDIES_AT_ONCE) as threads, cluster:

        def run_one(study: Study) -> Path:
            path = folder / f"{study.name}.nc"
            _Sweep(study, path, cluster, Reuse(retry_failed), _named(study.name, listener), stop).result()
            return path

        running = [threads.submit(run_one, study) for study in studies]
        try:
            for done in finished_in_turn(running):
                yield done.result()
        finally:
            stop.set()
            for future in running:
                future.cancel()


def _named(name: str, listener: Listener | None) -> Listener | None:
    """Return a listener that puts the study's name before its phases."""
    if listener is None:
        return None
    return lambda event: listener(replace(event, phase=name if event.phase == MAIN else f"{name} {event.phase}"))


class _Sweep:
    """One call of `run`; write: write the result file too."""

    def __init__(
        self,
        study: Study,
        path: Path,
        workers: Workers,
        reuse: Reuse,
        listener: Listener | None,
        stop: threading.Event | None = None,
        limits: Limits = NO_LIMITS,
        write: bool = True,
    ) -> None:
        check_result_place(path)
        self.write = write
        self.limits, self.reuse = limits, reuse
        self.stop = stop or threading.Event()
        self.study, self.path, self.listener = study, path, written_down(path, listener)
        self.workers = workers
        self.shards = shard_folder(path)
        if self.shards.is_file():
            raise ResultError(f"cannot write in {self.shards}: it is a file; choose another place with -o")

    def result(self) -> xr.Dataset:
        """Run the phases, write the file and remove the shards, as the only writer of the result.

        Of a result that was written, arrays cannot be read from the Dataset that this returns: they were in the shards.
        """
        with only_writer(self.path) as self.check_alone:
            if tasks := living(claims_folder(self.path)):
                raise ResultError(
                    f"{self.path} is being computed by tasks of `evogt work`, which hold {tasks:,} parts of it: wait "
                    "for them, or choose another place with -o"
                )
            remove_unfinished(followed(self.path).parent, followed(self.path).name)
            # first: a file that is half written is not a result, and this process is the only writer now
            remove_unfinished(self.shards)
            remove_unfinished(store_folder(self.path))
            if self.reuse.reuse_old_code:
                self.study = with_recorded_code(self.study, self.path)
            self.known = FinishedRuns(self.study, self.path, self.reuse.others)
            self.computed = not self.known.history
            return self.written()

    def written(self) -> xr.Dataset:
        """Compute the phases and write the result."""
        tables = self.tables()
        whole = {phase: dataset(tables[phase], self.study, key_bytes=True) for phase in reversed(tables)}
        for phase, data in whole.items():
            data.attrs = {**global_attributes(self.study, phase), **data.attrs}
            data.attrs["history"] = self.known.history_of(phase, data.attrs["history"], self.computed)
        # while this process was stopped, another one may have acquired the lock: then nothing is written
        self.check_alone()
        if not self.write:
            whole[MAIN].load()  # the files of the runs are removed
        # in this order: unplanned runs are in the store before their result is replaced, and shards are removed after
        # the result with their runs is on disk
        kept = self.known.keep_unasked()
        if self.write:
            write_result(self.path, whole, tables)
        self.known.clear()
        self.known.warn(kept)
        left_out = {part for table in tables.values() for part in table.left_out}
        if left_out:
            told = f"a result cannot hold {listed(sorted(left_out), 6)} of the returned objects; these are left out"
            warn(told, ReturnWarning)
        return whole[MAIN]

    def tables(self) -> dict[str, Table]:
        """The finished runs of each phase in turn; the next phase uses the choice of the one before."""
        tables, chosen = dict[str, Table](), list[Chosen]()
        for phase in self.study.phases:
            tables[phase.name] = filled_as_needed(self.study, phase, chosen, self.filled, computing=True)
            chosen += chosen_by(phase, tables[phase.name])
        return tables

    def filled(self, plan: Plan) -> Table:
        """The table of a plan with the record of every case, reused from disk or computed."""
        table = self.known.fill(Table(plan), wanted=self.reuse.keeps, usable=self.reuse.usable)
        missing = table.missing()
        counts = table.counts()
        total = sum(counts.values())
        reused = total - counts[Status.not_run]
        progress = Progress(plan.phase, total, reused, self.listener, failed=reused - counts[Status.ok])
        progress.tell()
        if len(missing):
            self.computed = True
            for computed in self.records(table, first=not counts[Status.ok]):
                records = table.checked(computed)
                # on disk before it counts: a run that is reported as finished survives a crash
                write_shard(self.shards, records)
                new = table.add(records)
                if self.stop.is_set():
                    raise SweepError("stopped because another study could not go on; what is finished is kept")
                progress.add(len(new), int(np.count_nonzero(table.status[new] != Status.ok)))
                self.check_failures(progress.failed, table)
        progress.tell(final=True)
        return table

    def records(self, table: Table, first: bool) -> Iterator[RunRecords]:
        """Compute the missing cases of `table`, which gets the records as they are yielded.

        first: compute one case of each user function before the others, and before anything is written.  Raises
        StudyError if its result cannot be stored.
        """
        plan, missing = table.plan, table.missing()
        if self.workers.may_wait:
            for records in quick_records(plan, missing, self.limits.run_seconds, lambda: self.workers.client):
                if first:
                    self.check_names([records], plan)
                describe(self.path, self.study)
                first = False  # the results can be stored
                yield records
            missing = table.missing()
            if not len(missing):
                return
        yield from self.by_cluster(plan, missing, first)

    def by_cluster(self, plan: Plan, missing: Order, first: bool) -> Iterator[RunRecords]:
        """Compute as `records`, on Dask workers."""
        # imported here, since it takes 0.3 s with Dask, and a quick study does not need it
        from evogt_study.workers.dask_executor import Flow

        client, begun = self.workers.client, list[RunRecords]()
        trials = plan.trials(missing) if first else missing[:0]
        if len(trials):
            begun = list(Flow(plan, plan.cases(trials), len(trials), client, self.limits, strict=True).records())
            self.check_names(begun, plan)
            missing = missing[~np.isin(missing, trials)]
        describe(self.path, self.study)
        yield from begun
        if len(missing):
            yield from Flow(plan, plan.cases(missing), len(missing), client, self.limits).records()

    def check_names(self, records: Sequence[RunRecords], plan: Plan) -> None:
        """Raise StudyError if runs return a variable with the name of a dimension or coordinate of the study."""
        own = {*COORDINATES} if any(phase.precision for phase in self.study.phases) else set()
        for stack in (stack for each in records for stack in each.stacks if stack.role != ATTRIBUTE):
            for name in sorted(own & {stack.name, *stack.dims}):
                problem = f"the function returned `{name}`, a name that the result of a study with [precision] uses"
                raise StudyError(f"{problem} ({self.study.file}). Rename it.")
            for name in sorted({*plan.space.names} & {stack.name, *stack.dims}):
                problem = f"`{name}` must be another name, since the method returns something of this one"
                raise StudyError(f"{problem} ({self.study.file}); rename the dimension")

    def check_failures(self, failed: int, table: Table) -> None:
        """Stop a study with too many failed runs, since more of them would not help to find the mistake."""
        most = self.limits.failures
        if most is not None and failed > most:
            message = table.commonest_message()
            raise SweepError(
                f"stopped after {failed} failed runs (--max-failures {most})"
                + (f", most often: {message}" if message else "")
                + "; finished runs are kept, the same command goes on"
            )


def work(
    study: Study,
    output: Path,
    number: int,
    of: int,
    *,
    workers: int = 1,
    limits: Limits = NO_LIMITS,
    others: Sequence[Path] = (),
    print_line: Callable[[str], None] = lambda line: None,
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
    from evogt_study.workers.folder_executor import ArrayTask  # with Dask, which `run` may do without

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


def _join(
    study: Study, output: Path, workers: int, limits: Limits, others: Sequence[Path], print_line: Callable[[str], None]
) -> None:
    """Write the result from its complete runs, unless another task is writing it."""
    try:
        run_to_file(study, output, workers=workers, limits=limits, others=others)
    except ResultError:
        writer = writer_of(output)
        if shard_folder(output).exists() and (writer is None or not writer.lives):
            raise
        print_line("another task joins the result")
