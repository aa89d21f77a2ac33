"""Running a study: its phases in turn, their cases in batches on Dask workers, and the result file."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed as finished_in_turn
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from evogt_study.errors import (
    InputError,
    ParameterError,
    ResultError,
    StoreWarning,
    StudyError,
    SweepError,
    shortened,
    warn,
)
from evogt_study.operations.forecast import longest_studies_first
from evogt_study.operations.progress import Listener, Progress, notebook_display, written_down
from evogt_study.results.dataset import dataset, global_attributes, with_text_keys
from evogt_study.results.decisions import chosen_by, filled_as_needed
from evogt_study.results.finished import FinishedRuns, describe
from evogt_study.results.netcdf import write_result
from evogt_study.results.provenance import software_set
from evogt_study.results.shards import shard_files, shard_folder, write_shard
from evogt_study.results.table import Table
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import FINAL, Status, warn_of_doubts
from evogt_study.storage.atomic import check_result_place, followed, make_folder, remove_unfinished
from evogt_study.storage.lease import living, only_writer, own_folder
from evogt_study.storage.paths import claims_folder, paths_of, store_folder
from evogt_study.study.case_space import Chosen
from evogt_study.study.phases import STUDY
from evogt_study.study.plan import Order, Plan
from evogt_study.study.study import Study, check_study
from evogt_study.workers.executor import quick_records
from evogt_study.workers.limits import NO_LIMITS, Limits, is_number
from evogt_study.workers.worker_server import end_if_being_started

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Reuse:
    """Rule for finished runs: by default all that were tried are taken up.  others: more places to look for them.

    keep_old_code: those are taken, too, that the study's own code computed before it was changed.
    """

    retry_failed: bool = False
    rerun_outdated: bool = False
    others: tuple[Path, ...] = ()
    keep_old_code: bool = False

    def keeps(self, status: Status) -> bool:
        """True where a run of this status needs no other try: one that diverged would do so again."""
        return status in FINAL if self.retry_failed else status != Status.not_run

    def usable(self, records: RunRecords) -> RunRecords:
        """Select the runs of the software that is here now, where others are to be computed again."""
        if not self.rerun_outdated:
            return records
        return records.selected(np.flatnonzero([software == software_set() for software in records.software]))


# one ends with few runs, which leave workers idle; a second fills them, and a third the end of the second.  More would
# only take memory: each has a table of its runs
STUDIES_AT_ONCE = 3


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
    keep_old_code: bool = False,
) -> xr.Dataset:
    """Compute what is missing of a study and return its labelled result.

    client: any `distributed.Client`; None starts `workers` processes on this machine (default: its cores), unless all
    is done before those would be there: until then one process, forked from this one, computes.  output: the
    NetCDF file to write; runs that it, its store or other results in its folder hold are reused by content.  None keeps
    nothing on disk, but where the study is interrupted: a `StoreWarning` then says where the finished runs are.
    listener is called with an `Event` whenever a batch is finished; None shows progress in a notebook, and nowhere
    else.  limits stop a run, or the study, early.  rerun_outdated takes up no run that other versions of the software
    computed; else they are kept, and `software` marks them.  others: more results, or folders of them, from which runs
    are taken.  keep_old_code: take the runs of `output` that the study's own code computed before it was
    changed; `software` marks them.

    Gives a `evogt_study.errors.DoubtWarning` where runs show that their numbers are to be doubted, and a `StoreWarning`
    where runs of `output` that the study does not ask for now were put into the store beside it.

    A run that fails, takes too long or takes its worker process with it is recorded in `status` and `message`; the
    study goes on.  Raises ResultError where `output` cannot be written, is being written by another process, or holds
    another study; PilotError where the pilot cannot choose; SweepError where the study cannot go on.
    """
    check_study(study)
    if client is not None and not _is_client(client):
        raise InputError(f"`client` must be a distributed.Client, or None for this machine, got {shortened(client)}")
    if client is not None and client.asynchronous:
        raise InputError("`client` must be one that waits, got an asynchronous one; leave out `asynchronous`")
    if not isinstance(limits, Limits):
        raise ParameterError("limits", "an evs.Limits", limits, remedy="use e.g. evs.Limits(run_seconds=60)")
    reuse = Reuse(retry_failed, rerun_outdated, tuple(paths_of(others)), keep_old_code)
    listener = listener or notebook_display()
    with Workers(client, workers) as cluster, _place(output, study.name) as path:
        sweep = _Sweep(study, path, cluster, reuse, listener, limits=limits, write=output is not None)
        data = with_text_keys(sweep.result().load())
    warn_of_doubts(data)
    return data.set_coords("case_key")  # values that are taken from it know which runs they are of


@contextmanager
def _place(output: str | Path | None, name: str) -> Iterator[Path]:
    """The file that is given, or one in a folder of this process, which is removed unless the body is interrupted."""
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
    """True of a Dask client, of which there is none where Dask has not been imported."""
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
    keep_old_code: bool = False,
) -> None:
    """As `run`, but the result is in the file alone: memory does not grow with the size of the study."""
    reuse = Reuse(retry_failed, rerun_outdated, tuple(others), keep_old_code)
    with Workers(client, workers) as cluster:
        _Sweep(study, output, cluster, reuse, listener, limits=limits).result()


# by rough work, not timed: the order has to be known before the first run, and a wrong one only costs idle workers
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

    A few run at a time, those that take longest first, so that one's last runs do not leave workers idle.  The
    arguments, and what is raised, are those of `run`; events name the study in their phase.
    """
    studies, stop = longest_studies_first(list(studies)), threading.Event()
    for study in studies:
        check_result_place(folder / f"{study.name}.nc")
    make_folder(folder)  # at once, for studies that would make and unmake it beside each other
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
    return lambda event: listener(replace(event, phase=name if event.phase == STUDY else f"{name} {event.phase}"))


class _Sweep:
    """One call of `run`; write: whether the result is wanted in its file too."""

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
        """Run the phases, write the file, remove the shards; nobody else writes here meanwhile.

        What is large of the result is read from files without a name, as long as it is used.
        """
        with only_writer(self.path) as self.check_alone:
            if tasks := living(claims_folder(self.path)):
                raise ResultError(
                    f"{self.path} is being computed by tasks of `evogt work`, which hold {tasks:,} parts of it: wait "
                    "for them, or choose another place with -o"
                )
            remove_unfinished(followed(self.path).parent, followed(self.path).name)
            # before anything is read: a half-written file is nobody's result, and this process is the only writer now
            remove_unfinished(self.shards)
            remove_unfinished(store_folder(self.path))
            self.known = FinishedRuns(self.study, self.path, self.reuse.others, keep_old_code=self.reuse.keep_old_code)
            self.computed = not self.known.history
            return self.written()

    def written(self) -> xr.Dataset:
        """The result, written."""
        tables = self.tables()
        whole = {phase: dataset(tables[phase], self.study, key_bytes=True) for phase in reversed(tables)}
        for phase, data in whole.items():
            data.attrs = {**global_attributes(self.study, phase), **data.attrs}
            data.attrs["history"] = self.known.history_of(phase, data.attrs["history"], self.computed)
        # the lock may have been taken over while this process was stopped: then nothing is written
        self.check_alone()
        # this order: runs that the study does not ask for are in the store before the result that holds them is
        # replaced, and shards go only after the result that holds their runs is on disk
        kept = self.known.keep_unasked()
        if self.write:
            write_result(self.path, whole)
        self.known.clear()
        self.known.warn(kept)
        return whole[STUDY]

    def tables(self) -> dict[str, Table]:
        """The finished runs of each phase in turn; what one chooses holds for the next."""
        tables, chosen = dict[str, Table](), list[Chosen]()
        for phase in self.study.phases:
            tables[phase.name] = filled_as_needed(self.study, phase, chosen, self.filled, computing=True)
            chosen += chosen_by(phase, tables[phase.name])
        return tables

    def filled(self, plan: Plan) -> Table:
        """The plan's table with every case's record, reusing what is on disk and computing the rest."""
        table = self.known.fill(Table(plan, self.path), wanted=self.reuse.keeps, usable=self.reuse.usable)
        missing = table.missing()
        counts = table.counts()
        total = sum(counts.values())
        reused = total - counts[Status.not_run]
        progress = Progress(plan.phase, total, reused, self.listener, failed=reused - counts[Status.ok])
        progress.tell()
        if len(missing):
            self.computed = True
            for computed in self.records(table, first=not counts[Status.ok]):
                records = table.counted_on(computed)
                # on disk before it counts: what is reported as finished survives a crash
                write_shard(self.shards, records)
                new = table.add(records)
                if self.stop.is_set():
                    raise SweepError("stopped because another study could not go on; what is finished is kept")
                progress.add(len(new), int(np.count_nonzero(table.status[new] != Status.ok)))
                self.check_failures(progress.failed, table)
        progress.tell(final=True)
        return table

    def records(self, table: Table, first: bool) -> Iterator[RunRecords]:
        """Compute the cases that `table`, into which records go as they are given, does not have.

        first: of each method of one's own one case is computed before the others, and before anything is written:
        what it returns may be nothing that can be stored.  Raises StudyError then.
        """
        plan, missing = table.plan, table.missing()
        if self.workers.may_wait:
            for records in quick_records(plan, missing, self.limits.run_seconds, lambda: self.workers.client):
                if first:
                    self.check_names([records], plan)
                describe(self.path, self.study)
                first = False  # what can be stored is known
                yield records
            missing = table.missing()
            if not len(missing):
                return
        yield from self.by_cluster(plan, missing, first)

    def by_cluster(self, plan: Plan, missing: Order, first: bool) -> Iterator[RunRecords]:
        """As `records`, on Dask workers."""
        # here: a study that is done before this needs none of it, and with Dask it takes 0.3 s to import
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
        """Raise StudyError where runs return something under the name of a dimension of the study."""
        for stack in (stack for each in records for stack in each.stacks):
            for name in sorted({*plan.space.names} & {stack.name, *stack.dims}):
                told = f"`{name}` must be another name, since the method returns something of this one"
                raise StudyError(f"{told} ({self.study.file}); rename the dimension")

    def check_failures(self, failed: int, table: Table) -> None:
        """Stop a study whose runs fail again and again: more of them would not show what is wrong."""
        most = self.limits.failures
        if most is not None and failed > most:
            told = table.commonest_message()
            raise SweepError(
                f"stopped after {failed} failed runs (--max-failures {most})"
                + (f", most often: {told}" if told else "")
                + "; finished runs are kept, the same command goes on"
            )


class Workers:
    """A client that is connected when it is first needed: a result that is complete starts no cluster.

    alone: whether one study has them, whose first runs this machine may compute before they are there.
    """

    def __init__(self, client: Client | None, workers: int | None, *, alone: bool = True) -> None:
        # a worker that imports a script without a main guard comes here too, and would start workers of its own
        if client is None:
            end_if_being_started()
        # Dask takes -1 for none, which a study would wait for
        if workers is not None and not (is_number(workers, Integral) and workers > 0):
            raise ParameterError("workers", "an integer > 0", workers, remedy="leave it out for this machine's cores")
        self.given, self.workers, self.alone = client, workers, alone
        self._context: AbstractContextManager[Client] | None = None
        self._client: Client | None = None
        self._closed = False
        self._connecting = threading.Lock()  # studies that run at once share the client

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        with self._connecting:
            self._closed = True
            if self._client is not None and self._context is not None:
                # closed as after success, whatever was raised: what is finished is on disk already
                self._context.__exit__(None, None, None)

    @property
    def may_wait(self) -> bool:
        """True until some are there, unless the user has said which there are to be."""
        return self.alone and self.given is None and self._client is None

    @property
    def client(self) -> Client:
        """The client, connected now if it was not before."""
        with self._connecting:
            if self._closed:
                raise SweepError("stopped because another study could not go on; what is finished is kept")
            if self._client is None:
                from evogt_study.workers.clusters import connected  # 0.3 s, as in `by_cluster`

                self._context = connected(self.given, self.workers)
                self._client = self._context.__enter__()
            return self._client
