"""Find the finished runs of a study: in its result file, its shards, its store, and other results.

`FinishedRuns` fills the table of a plan with them.  The store keeps finished runs that are no longer part of the study.
Nothing here computes a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, ResultError, StoreWarning, StudyError, warn
from evogt_study.methods.code import find_declared_code
from evogt_study.results import shards
from evogt_study.results.dataset import DECLARATION, dataset, global_attributes
from evogt_study.results.decisions import choose_so_far, fill_until_precise
from evogt_study.results.index import Inspection, inspect
from evogt_study.results.netcdf import load_result, open_phases
from evogt_study.results.provenance import package_version
from evogt_study.results.run_metadata import select_metadata
from evogt_study.results.shards import KeyFilter, ResultFile, RunSource, ShardFolder
from evogt_study.results.table import RunTable, is_finished
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import EARLIER_PHASES, FINAL, MAIN, Status
from evogt_study.storage.atomic import remove_unfinished, retry_if_replaced, write_file
from evogt_study.storage.paths import STORE, description_path, store_folder
from evogt_study.storage.untrusted import parse_json, read_bytes
from evogt_study.study.case_space import Keys, ParameterTable
from evogt_study.study.plan import Plan
from evogt_study.study.study import Study, describe_changes

UNUSABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors of a description that this package did not write."""


class FinishedRuns:
    """Reader of the finished runs of a study with the result `path`.

    It looks for the run keys in the result, its shards, its store, the other results of the folder with their stores,
    and the places in `others`, in this order, and stops when nothing is missing.

    tables: the tables that were filled, by phase, the last phase first.  reused: number of runs from each place, by
    phase.  left_out: places that could not be read, with the reason.  check: compare the content of results with its
    checksums.  Raises ResultError if the file at `path` is not a result, or is the result of another study.
    """

    def __init__(self, study: Study, path: Path, others: Sequence[Path] = (), *, check: bool = True) -> None:
        self.study, self.path, self.check = study, path, check
        # first: the result of another study is an error
        self.history, self._before = _read_earlier(study, path, check)
        self.shards = ShardFolder(shards.shard_folder(path))
        self.earlier_shards = frozenset(shards.shard_files(self.shards.path))
        self.others = [source for place in others for source in shards.source_at(place)]
        self.left_out: dict[Path, ResultError] = {}
        self.reused: dict[str, dict[Path, int]] = {}
        self.tables: dict[str, RunTable] = {}
        self._planned: list[RunTable] = []

    def own(self, among: frozenset[Path] | None = None) -> list[RunSource]:
        """Return the result, if it exists, and its shards, or only the shards `among` them."""
        return [*([ResultFile(self.path)] if self.history else []), replace(self.shards, among=among)]

    @cached_property
    def elsewhere(self) -> list[RunSource]:
        """The store, other results of the folder with their stores, and the places that the user names."""
        return [ShardFolder(store_folder(self.path)), *shards.sources_in(self.path.parent, self.path), *self.others]

    def fill(
        self,
        table: RunTable,
        variables: Sequence[str] | None = None,
        wanted: Callable[[Status], bool] = is_finished,
        usable: Callable[[RunRecords], RunRecords] = lambda records: records,
    ) -> RunTable:
        """Fill a table with the finished runs that are `wanted` and `usable`, and these variables (None: all)."""
        self._planned.append(table)
        reused = self.reused[table.plan.phase] = {}  # a later plan of a phase has all runs of an earlier one

        def take(source: RunSource, knows: KeyFilter) -> None:
            before = table.n_finished
            table.add_all(map(usable, source.records(knows, variables)), wanted)
            reused[source.path] = reused.get(source.path, 0) + table.n_finished - before

        # the study's own files must be readable; other places are left out with a warning
        first, lacked = table.plan.keys[table.plan.order[:1]], partial(table.contains, unless=FINAL)
        with _explain_conflict():
            if not self.history:  # the first case fixes the shapes of variables, but shards have no order
                take(self.shards, lambda keys: np.isin(np.asarray(keys, dtype=np.bytes_), first))
            for source in self.own():
                take(source, table.contains)
        # keys first: most files of a folder have none of the runs and are not opened
        for source in self.elsewhere if table.has_missing(FINAL) else ():
            try:
                if table.has_missing(FINAL) and lacked(source.keys()).any():
                    if self.check and isinstance(source, ResultFile):  # reading a shard checks its checksum
                        shards.check_file(source.path)
                    take(source, lacked)
            except ResultError as error:
                self.left_out[source.path] = error
        return table

    def fill_phases(self, variables: Sequence[str] | None) -> bool:
        """Fill the tables of the phases whose cases are known.  Return False if there are no runs and no files."""
        chosen = list[ParameterTable]()

        def fill(names: Sequence[str] | None, plan: Plan) -> RunTable:
            return self.fill(RunTable(plan), names)

        for phase in self.study.phases:
            wanted = None if variables is None else (*variables, *phase.deciding_variables)
            table = fill_until_precise(self.study, phase, chosen, partial(fill, wanted))
            self.tables = {phase.name: table, **self.tables}
            found = choose_so_far(phase, table)
            if found is None:  # the cases of later phases are not known yet
                break
            chosen += found
        exists = self.path.exists() or self.shards.path.exists()
        return exists or any(table.n_finished for table in self.tables.values())

    def runs(self) -> dict[str, xr.Dataset]:
        """Return the labelled runs by phase, with their run metadata and the variables that were read."""
        return {phase: dataset(table, self.study) for phase, table in self.tables.items()}

    # a second command that computes nothing must not change the history
    def history_of(self, phase: str, now: str, computed: bool) -> str:
        """Return the history of a phase of the result, with the line `now` if it has new runs."""
        before = self.history.get(phase, "").splitlines()
        elsewhere = self.places(phase, but={source.path for source in self.own()})
        reused = f", with runs that were there: {elsewhere}" if elsewhere else ""
        return "\n".join([*before, now + reused] if computed or reused else before)

    def places(self, phase: str, but: Container[Path] = ()) -> str:
        """Describe the sources of the reused runs of a phase: "4 from a.nc, 2 from b.nc.store", or "" for none."""
        reused = self.reused.get(phase, {}).items()
        return ", ".join(f"{count:,} from {path}" for path, count in reused if count and path not in but)

    def is_planned(self, keys: Sequence[str] | Keys) -> npt.NDArray[np.bool_]:
        """Return which of `keys` are in a table that was filled."""
        return np.asarray(np.any([table.contains(keys) for table in self._planned], axis=0))

    def count_unplanned(self) -> int:
        """Return the number of runs of the result that are not planned, or 0 if this is not known yet."""
        if not self.history or (self.tables and MAIN not in self.tables):
            return 0
        keys = ResultFile(self.path).keys()
        return len(np.unique(keys[~self.is_planned(keys)]))

    @property
    def changed(self) -> str:
        """Describe on one line how the study has changed since its result was written."""
        now = {"study": self.study.text, "code": self.study.spec.declaration, "version": package_version()}
        return describe_changes(self._before, now) if self._before else "another study's runs"

    def keep_unplanned(self) -> int:
        """Add runs of the result and its shards that are not planned to the store; return the number of new runs."""
        # before the new result replaces the old one: after a crash in between, runs exist twice and none is lost
        folder, about, count = store_folder(self.path), self.changed, 0
        kept = set(ShardFolder(folder).keys().astype(str).tolist())
        # only one part of the result is in memory; runs computed since then are planned
        for source in self.own(among=self.earlier_shards):
            for records in source.records(lambda keys: ~self.is_planned(keys)):
                planned = self.is_planned(records.keys)
                rows = [row for row, key in enumerate(records.keys) if not planned[row] and key not in kept]
                kept.update(records.keys)
                if rows:
                    shards.write_shard(folder, records.select_rows(np.array(rows)), about)
                    count += len(rows)
        return count

    # called once the result is on disk: until then its shards are the only copy of new runs
    def discard_shards(self) -> None:
        """Remove the shards, and the shards of the store whose runs are in the result now."""
        # shards of another format stay; damaged ones have nothing that can be read
        foreign = {path for path, error in self.shards.unread.items() if not isinstance(error, DamagedResultError)}
        shards.remove_shards(self.shards.path, foreign, description_path(self.path))
        store = ShardFolder(store_folder(self.path))
        for path, index in store.indices():
            if self.is_planned(index.keys).all():  # a shard is removed as a whole, or stays as a whole
                path.unlink(missing_ok=True)
        _remove_empty(store.path)

    def warn(self, kept: int) -> None:
        """Warn of runs moved to the store, and of files that were not read, in one line each."""
        if kept:
            warn(
                f"moved {kept:,} finished runs to {store_folder(self.path)} because the study no longer includes them "
                f"({self.changed}). See `evogt store list`.",
                StoreWarning,
            )
        if self.left_out:
            path, error = next(iter(self.left_out.items()))
            more = f", and {len(self.left_out) - 1} more" if len(self.left_out) > 1 else ""
            warn(f"no runs are reused from {path}{more}: {error}", StoreWarning)


def _read_earlier(study: Study, path: Path, check: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the history of the result at `path` by phase, and the state of its study, empty if there is no result."""
    if not path.exists():
        with suppress(*UNUSABLE):  # the study that wrote the shards
            known = parse_json(read_bytes(description_path(path)))
            return {}, {"study": str(known["text"]), "code": str(known[DECLARATION])}
        return {}, {}
    with _explain_conflict(), open_phases(path) as groups:
        attributes = groups[MAIN].attrs
        inspected = inspect(path) if check else Inspection([], [])
        if inspected.broken:
            raise DamagedResultError(f"in {path} {inspected.broken[0]}; `evogt verify` lists all damage")
        history = {phase: str(data.attrs.get("history", "")) for phase, data in groups.items()}
    if attributes.get("id", "") != study.name:
        raise ResultError(
            f"{path} is the result of the study {attributes.get('id', '')!r}, not of {study.name!r}. Choose another "
            "output file."
        )
    if inspected.changed:
        warn(f"{path}: {'; '.join(inspected.changed)}. Its runs are used as they are now", StoreWarning)
    names = {"study": "study", "code": DECLARATION, "version": "product_version"}
    return history, {name: str(attributes.get(attribute, "")) for name, attribute in names.items()}


def with_recorded_code(study: Study, path: Path) -> Study:
    """Return the study with the fingerprints, and so the run keys, of its result at `path`.  Raises ResultError."""
    declaration = _read_earlier(study, path, check=False)[1].get("code", "")
    if not declaration:
        return study
    try:
        return study.with_codes(
            lambda code: replace(code, recorded=find_declared_code(code.reference, Path(), declaration).fingerprint)
        )
    except StudyError as error:
        raise ResultError(f"no runs of older code can be reused: {error}") from None


@contextmanager
def _explain_conflict() -> Iterator[None]:
    try:
        yield
    except ResultError as error:
        raise ResultError(f"{error}. Choose another output file.") from None


# `retry_if_replaced`: the command may replace the result while `status` reads it
def read_finished_runs(
    study: Study, path: Path, variables: Sequence[str] | None = (), others: Sequence[Path] = ()
) -> FinishedRuns | None:
    """Read the finished runs of `study`, or None if there are none.  variables: as in `FinishedRuns.fill`."""

    def read() -> FinishedRuns | None:
        reader = FinishedRuns(study, path, others, check=variables is None)
        return reader if reader.fill_phases(variables) else None

    return retry_if_replaced(path, read)


def describe(result: Path, study: Study) -> None:
    """Write the text of the study beside its shards, so that they can be read without its file.  Raises ResultError."""
    described = {"file": study.file, "text": study.text, DECLARATION: study.spec.declaration}
    write_file(description_path(result), json.dumps(described).encode())


def read_unfinished(result: Path, variables: Sequence[str] | None = None) -> FinishedRuns | None:
    """Read the finished runs of a result without its study file, or None if there are none.  Raises ResultError."""
    path = description_path(result)
    try:
        known = parse_json(read_bytes(path))
        folder, written = Path(known["file"]).parent, known[DECLARATION]
        study = Study.from_text(
            known["text"], known["file"], named=lambda reference, _: find_declared_code(reference, folder, written),
            recorded=True,
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except UNUSABLE as error:
        raise ResultError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return read_finished_runs(study, result, variables)


def read_partial_result(result: Path, variables: Sequence[str] | None = None) -> dict[str, xr.Dataset] | None:
    """Read the runs as `read_unfinished`, by phase, into memory: the process that writes the result removes the shards.

    Until earlier phases have chosen, the main phase has the runs of the earlier result.
    """

    def read() -> dict[str, xr.Dataset] | None:
        reader = read_unfinished(result, variables)
        if reader is None:
            return None
        found = {phase: data.load() for phase, data in reader.runs().items()}
        for phase, data in found.items():
            data.attrs = {**global_attributes(reader.study, phase), **data.attrs}
        if result.exists() and not {MAIN, *EARLIER_PHASES} <= found.keys():
            with open_phases(result) as groups:  # without its study
                for phase in groups.keys() - found.keys():
                    old = groups[phase] if variables is None else select_metadata(groups[phase], variables)
                    found[phase] = load_result(result, old)
        return found

    return retry_if_replaced(result, read)


@dataclass(frozen=True)
class Kept:
    """A store: its shards with their run keys, descriptions and sizes, and the shards that cannot be read."""

    folder: Path
    shards: Sequence[tuple[Path, Keys, str, int]]
    unread: Sequence[ResultError] = ()

    @property
    def runs(self) -> int:
        """Number of different runs in the store."""
        return len({key for _, keys, *_ in self.shards for key in keys.tolist()})

    @property
    def size(self) -> int:
        """Bytes of the shards."""
        return sum(size for *_, size in self.shards)


def read_store(result: Path) -> Kept:
    """Read the indices of the shards in the store of a result."""
    folder = ShardFolder(store_folder(result))
    shards = [(path, index.keys, index.about, path.stat().st_size) for path, index in folder.indices()]
    return Kept(folder.path, shards, list(folder.unread.values()))


def stores_in(folder: Path) -> Iterator[Path]:
    """Find the results in a folder that have a store.  The result itself may be missing."""
    for path in sorted(folder.glob(f"*{STORE}")):
        if path.is_dir():
            yield path.with_suffix("")


def prune_store(result: Path, before: float | None = None) -> Kept:
    """Empty the store of a result, and return its former content.  before: only shards older than this time.

    The caller holds the lease of the result, so no process is writing unfinished files, which go too.
    """
    found = read_store(result)
    gone = [each for each in found.shards if before is None or each[0].stat().st_mtime < before]
    # damaged ones too
    for path in shards.shard_files(found.folder) if before is None else [path for path, *_ in gone]:
        path.unlink(missing_ok=True)
    if before is None:
        remove_unfinished(found.folder)
    _remove_empty(found.folder)
    return Kept(found.folder, gone)


# an empty folder would look like a store with runs
def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
