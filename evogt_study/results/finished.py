"""Keep finished runs on disk, and find them in a result file, its shards, its store, and other results.

A shard has the records of one batch.  The store keeps runs that are no longer part of the study.
"""

import json
import shutil
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, PilotError, ResultError, StoreWarning, StudyError, warn
from evogt_study.methods.code import UserCode, find_declared_code
from evogt_study.results import netcdf
from evogt_study.results.dataset import DECLARATION, make_global_attributes, to_dataset, to_records
from evogt_study.results.index import Index, check_file, list_shards, read_index, read_shard, write_shard
from evogt_study.results.provenance import read_package_version
from evogt_study.results.table import FINISHED, NOT_OK, RunTable
from evogt_study.schema.records import VARIABLE, RunRecords
from evogt_study.schema.variables import EARLIER_PHASES, FINAL_STATUSES, MAIN, Status
from evogt_study.storage import files
from evogt_study.storage.arrays import MAX_SLAB_VALUES, close_files, iterate_slabs
from evogt_study.storage.files import description_path, parse_json, read_bytes, store_folder
from evogt_study.storage.files import shard_folder as shard_folder
from evogt_study.study.case_space import Keys, ParameterTable
from evogt_study.study.plan import Plan, choose_parameters, fill_until_precise
from evogt_study.study.study import Study, describe_changes
from evogt_study.text import format_count

# errors in reading a description that this package did not write
UNUSABLE_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
PART_BYTES = 2**22  # bytes of a result that are in memory at the same time, at least one run
KeyFilter = Callable[[Sequence[str] | Keys], npt.NDArray[np.bool_]]  # returns which of several keys are wanted


# the description first: the next run reuses shards without a description, but a description without shards would look
# like a study that is being computed
def remove_shards(folder: Path, foreign: Container[Path], description: Path) -> None:
    """Remove the `description`, the progress file, the claims and all shards that are not `foreign`."""
    if not folder.exists():
        return
    close_files()  # a file server keeps a file that is open, and then its folder
    shards = (path for path in list_shards(folder) if path not in foreign)
    for path in (description, folder / files.PROGRESS, *shards):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / files.CLAIMS, ignore_errors=True)
    remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove a folder if it is empty, since it would look like a folder with runs."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@dataclass(frozen=True)
class ResultFile:
    """Source of the runs of a result.  xarray reads the runs if another program has changed the file."""

    path: Path

    @cached_property
    def index(self) -> Index | None:
        """Index of the file, or None if no valid index has runs.  Raises ResultError if the file cannot be read."""
        found = read_index(self.path)
        return found if found is not None and found.phases else None

    def keys(self) -> Keys:
        """Return the run keys of the file.  Raises ResultError if the file cannot be read."""
        if self.index is not None:
            return self.index.keys
        check_file(self.path)
        every = self.records(lambda keys: np.ones(len(keys), dtype=bool), variables=())
        return np.array([key for records in every for key in records.keys], dtype=np.bytes_)

    def records(self, knows: KeyFilter, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """Yield records of the runs whose run key `knows` accepts, with all variables or only `variables`."""
        if self.index is not None:
            for records in self.index.phases.values():
                rows = np.flatnonzero(knows(records.keys))
                if len(rows):
                    yield _with_variables(records.select_rows(rows), variables)
            return
        with netcdf.open_phases(self.path) as groups:  # joined results have no runs that a study could reuse
            for data in (each for each in groups.values() if netcdf.CONCATENATED not in each.attrs):
                if variables is not None:
                    # recorded coordinates are of no use without the variables along them
                    none = {netcdf.RECORDED_COORDINATES: "", netcdf.RETURNED_ATTRIBUTES: "{}"}
                    data = netcdf.select_metadata(data, variables).assign_attrs(none)
                status = data["run_status"]
                size = sum(data[name].nbytes for name in data.data_vars) // max(1, status.size)  # of a run, not read
                for slab in iterate_slabs(status.shape, max(1, min(MAX_SLAB_VALUES, PART_BYTES // max(1, size)))):
                    part = data.isel(dict(zip(status.dims, slab, strict=True)))
                    # keys first: a part without a wanted run is not loaded
                    keys = netcdf.load_result(self.path, part[["run_key"]])["run_key"].values
                    if knows(list(map(str, keys.ravel()))).any():
                        yield to_records(netcdf.load_result(self.path, part))


def _with_variables(records: RunRecords, variables: Sequence[str] | None) -> RunRecords:
    if variables is None:
        return records
    stacks = (stack for stack in records.stacks if stack.role == VARIABLE and stack.name in variables)
    return replace(records, stacks=tuple(stacks))


@dataclass(frozen=True)
class ShardFolder:
    """Source of the runs in the shards of a folder, or only in the shards `among`.  `unread` has the damaged shards."""

    path: Path
    among: frozenset[Path] | None = None
    unread: dict[Path, ResultError] = field(default_factory=dict, compare=False)

    def keys(self) -> Keys:
        """Return the run keys of all readable shards."""
        return np.array([key for _, index in self.indices() for key in index.keys], dtype=np.bytes_)

    def records(self, knows: KeyFilter, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """Yield records as `ResultFile.records` does.  The runs of unreadable shards count as not run."""
        for _, index in self.indices(lambda keys: bool(knows(keys).any())):
            if knows(index.keys).any():
                yield _with_variables(index.phases[""], variables)

    def indices(self, is_checked: Callable[[Keys], bool] = lambda keys: False) -> Iterator[tuple[Path, Index]]:
        """Yield the path and the index of each readable shard.  `is_checked` is as in `read_shard`."""
        for path in list_shards(self.path):
            if self.among is None or path in self.among:
                try:
                    index = read_shard(path, is_checked)
                except ResultError as error:
                    self.unread[path] = error
                else:
                    yield path, index


RunSource = ResultFile | ShardFolder  # a place with finished runs of any study


def find_sources(place: Path, result: Path | None = None) -> Iterator[RunSource]:
    """Yield the sources at a result, a store or a folder, except the files of `result`.  Raises InputError."""
    if result is None and not (place.is_file() or place.is_dir()):
        raise InputError(f"`reuse_from` must be an existing result or a folder of results, got {place}")
    own = () if result is None else {path.resolve() for path in (result, shard_folder(result), store_folder(result))}
    is_folder = place.is_dir() and place.suffix not in files.FOLDERS_OF_SHARDS
    paths = sorted(path for path in place.iterdir() if not path.name.startswith(".")) if is_folder else [place]
    for path in (path for path in paths if path.resolve() not in own):  # a link to the result is the result
        if path.suffix in files.FOLDERS_OF_SHARDS and path.is_dir():
            yield ShardFolder(path)
        elif path.is_file() and (not is_folder or path.suffix in files.RESULT_SUFFIXES[:-1]):
            source = ResultFile(path)
            with suppress(ResultError):  # a file without a valid index is used only if the user names it
                if result is None or source.index is not None:
                    yield source


class FinishedRuns:
    """Reader of the finished runs of a study in its result `path`, shards and store, in the folder, and in `others`.

    `tables` has the table of each phase, the last phase first.  `reused` has the number of runs from each place, by
    phase.  `left_out` has the errors of unreadable places.  `check` compares results with their checksums.  Raises
    ResultError if the file at `path` is not a result of this study.
    """

    def __init__(self, study: Study, path: Path, others: Sequence[Path] = (), *, check: bool = True) -> None:
        self.study, self.path, self.check = study, path, check
        self.history, self._before = _read_earlier(study, path, check)  # first: it refuses another study's result
        self.shards = ShardFolder(shard_folder(path))
        self.earlier_shards = frozenset(list_shards(self.shards.path))
        self.others = [source for place in others for source in find_sources(place)]
        self.left_out: dict[Path, ResultError] = {}
        self.reused: dict[str, dict[Path, int]] = {}
        self.tables: dict[str, RunTable] = {}
        self._planned: list[RunTable] = []

    def list_own_sources(self, among: frozenset[Path] | None = None) -> list[RunSource]:
        """Return the result, if it exists, and its shards.  `among` selects some of the shards."""
        return [*([ResultFile(self.path)] if self.history else []), replace(self.shards, among=among)]

    @cached_property
    def elsewhere(self) -> list[RunSource]:
        """Other sources, such as the store, other results in the folder, and the places that the user names."""
        return [ShardFolder(store_folder(self.path)), *find_sources(self.path.parent, self.path), *self.others]

    def fill(
        self, plan: Plan, variables: Sequence[str] | None = None, wanted: Sequence[Status] = FINISHED,
        usable: Callable[[RunRecords], RunRecords] = lambda records: records,
    ) -> RunTable:  # fmt: skip
        """Return a table of the `usable` finished runs with a `wanted` status.  `variables` limits the variables."""
        table = RunTable(plan)
        self._planned.append(table)
        reused = self.reused[plan.phase] = {}  # a later plan of a phase has all runs of an earlier one

        def take(source: RunSource, knows: KeyFilter) -> None:
            before = table.n_finished
            for records in source.records(knows, variables):
                table.add(usable(records), wanted, NOT_OK)
            reused[source.path] = reused.get(source.path, 0) + table.n_finished - before

        # the study's own files must be readable. A warning names other places that are not
        first, lacked = plan.keys[plan.order[:1]], partial(table.contains, unless=FINAL_STATUSES)
        with _explain_conflict():
            if not self.history:  # the first case fixes the shapes of variables, but shards have no order
                take(self.shards, lambda keys: np.isin(np.asarray(keys, dtype=np.bytes_), first))
            for source in self.list_own_sources():
                take(source, table.contains)
        # keys first: most files of a folder have none of the runs and are not opened
        for source in self.elsewhere if table.has_missing(FINAL_STATUSES) else ():
            try:
                if table.has_missing(FINAL_STATUSES) and lacked(source.keys()).any():
                    if self.check and isinstance(source, ResultFile):  # reading a shard checks its checksum
                        check_file(source.path)
                    take(source, lacked)
            except ResultError as error:
                self.left_out[source.path] = error
        return table

    def fill_phases(self, variables: Sequence[str] | None) -> bool:
        """Fill the tables of phases whose cases are known.  Return False if the study has neither runs nor files."""
        chosen = list[ParameterTable]()
        for phase in self.study.phases:
            names = None if variables is None else (*variables, *phase.deciding_variables)
            table = fill_until_precise(self.study, phase, chosen, partial(self.fill, variables=names))
            self.tables = {phase.name: table, **self.tables}
            if phase.choice is not None and len(table.missing()):  # the cases of later phases are not known yet
                break
            try:
                chosen += choose_parameters(phase, table)
            except PilotError:  # no candidate is left
                break
        exists = self.path.exists() or self.shards.path.exists()
        return exists or any(table.n_finished for table in self.tables.values())

    def to_datasets(self) -> dict[str, xr.Dataset]:
        """Return a Dataset of each phase, with its run metadata and the variables that were read."""
        return {phase: to_dataset(table, self.study) for phase, table in self.tables.items()}

    # a second command that computes nothing must not change the history
    def extend_history(self, phase: str, now: str, computed: bool) -> str:
        """Return the history of a phase.  The history ends with the line `now` if the phase has new runs."""
        before, elsewhere = self.history.get(phase, "").splitlines(), self.describe_reused(phase, with_own=False)
        line = now + f", with runs that were there: {elsewhere}" * bool(elsewhere)
        return "\n".join([*before, *([line] if computed or elsewhere else [])])

    def describe_reused(self, phase: str, *, with_own: bool = True) -> str:
        """Return the sources of the reused runs of a phase, such as "4 from a.nc, 2 from b.nc.store"."""
        reused, own = self.reused.get(phase, {}).items(), {source.path for source in self.list_own_sources()}
        others = (f"{count:,} from {path}" for path, count in reused if count and (with_own or path not in own))
        return ", ".join(others)

    def is_planned(self, keys: Sequence[str] | Keys) -> npt.NDArray[np.bool_]:
        """Return which of `keys` are in a plan that `fill` has received."""
        return np.asarray(np.any([table.contains(keys) for table in self._planned], axis=0))

    def count_unplanned(self) -> int:
        """Return the number of unplanned runs in the result, or 0 while the main phase has no plan."""
        if not self.history or (self.tables and MAIN not in self.tables):
            return 0
        keys = ResultFile(self.path).keys()
        return len(np.unique(keys[~self.is_planned(keys)]))

    @property
    def changed(self) -> str:
        """One-line description of the changes of the study since its result was written."""
        now = {"study": self.study.text, "code": self.study.spec.declaration, "version": read_package_version()}
        return describe_changes(self._before, now) if self._before else "another study's runs"

    def keep_unplanned(self) -> int:
        """Copy unplanned runs of the result and its shards to the store.  Return the number of copied runs."""
        # before the new result replaces the old one: after a crash in between, runs exist twice and none is lost
        folder, count = store_folder(self.path), 0
        kept = set(ShardFolder(folder).keys().astype(str).tolist())
        # only one part of the result is in memory. Runs computed since then are planned
        for source in self.list_own_sources(among=self.earlier_shards):
            for records in source.records(lambda keys: ~self.is_planned(keys)):
                is_new = ~self.is_planned(records.keys) & [key not in kept for key in records.keys]
                kept.update(records.keys)
                if is_new.any():
                    write_shard(folder, records.select_rows(np.flatnonzero(is_new)), self.changed)
                    count += int(np.count_nonzero(is_new))
        return count

    def discard_shards(self) -> None:
        """Remove the shards of the written result, and the shards of the store whose runs the result now has."""
        # shards of another format stay. Damaged shards have nothing that can be read
        foreign = {path for path, error in self.shards.unread.items() if not isinstance(error, DamagedResultError)}
        remove_shards(self.shards.path, foreign, description_path(self.path))
        store = ShardFolder(store_folder(self.path))
        for path, index in store.indices():
            if self.is_planned(index.keys).all():  # a shard is removed as a whole, or stays as a whole
                path.unlink(missing_ok=True)
        remove_empty(store.path)

    def give_warnings(self, kept: int) -> None:
        """Warn about runs that moved to the store, and about files that could not be read."""
        if kept:
            reason = f"because the study no longer includes them ({self.changed}). See `evogt store list`."
            warn(f"moved {format_count(kept, 'finished run')} to {store_folder(self.path)} {reason}", StoreWarning)
        for path, error in [*self.left_out.items()][:1]:
            more = f", and {len(self.left_out) - 1} more" if len(self.left_out) > 1 else ""
            warn(f"cannot reuse runs from {path}{more}: {error}", StoreWarning)


def _read_earlier(study: Study, path: Path, check: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the history of each phase of a result, and the text, code and version of its study."""
    if not path.exists():
        with suppress(*UNUSABLE_ERRORS):  # the study that wrote the shards
            known = parse_json(read_bytes(description_path(path)))
            return {}, {"study": str(known["text"]), "code": str(known[DECLARATION])}
        return {}, {}
    with _explain_conflict(), netcdf.open_phases(path) as groups:
        attributes = groups[MAIN].attrs
        changed = check_file(path, accepts_changes=True) if check else []
        history = {phase: str(data.attrs.get("history", "")) for phase, data in groups.items()}
    if (name := attributes.get("id", "")) != study.name:
        raise ResultError(f"{path} holds the study {name!r}, not {study.name!r}. Choose another output file.")
    if changed:
        warn(f"{path}: {'; '.join(changed)}. The study reuses the runs in this state", StoreWarning)
    names = {"study": "study", "code": DECLARATION, "version": "product_version"}
    return history, {name: str(attributes.get(attribute, "")) for name, attribute in names.items()}


def with_recorded_code(study: Study, path: Path) -> Study:
    """Return the study with the fingerprints of its result, so that both have equal run keys.  Raises ResultError."""
    declaration = _read_earlier(study, path, check=False)[1].get("code", "")
    if not declaration:
        return study

    def use_recorded_fingerprint(code: UserCode) -> UserCode:
        known = parse_json(declaration)["codes"]
        if any(each["fingerprint"] == code.fingerprint for each in known.values()):
            return code  # unchanged, perhaps with another number
        found = find_declared_code(code.reference, Path(), declaration)
        name, names = code.reference.partition(" (")[0], ([*known], [each.reference for each in study.spec.codes])
        if code.is_pickled and any(sum(each.partition(" (")[0] == name for each in some) > 1 for some in names):
            raise StudyError(f"several functions have the name `{name}`. Give them different names")
        return replace(code, recorded=found.fingerprint)

    try:
        return study.replace_codes(use_recorded_fingerprint)
    except (StudyError, ValueError, LookupError, TypeError, AttributeError) as error:  # also for a changed result
        raise ResultError(f"cannot reuse runs of older code: {error}") from None


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
    """Return a reader of the finished runs of `study`, or None if the study has neither runs nor files."""

    def read() -> FinishedRuns | None:
        reader = FinishedRuns(study, path, others, check=variables is None)
        return reader if reader.fill_phases(variables) else None

    return files.retry_if_replaced(path, read)


def write_description(result: Path, study: Study) -> None:
    """Write the study text beside its shards, so that readers need no study file.  Raises ResultError."""
    described = {"file": study.file, "text": study.text, DECLARATION: study.spec.declaration}
    files.write_file(description_path(result), json.dumps(described).encode())


def read_unfinished(result: Path, variables: Sequence[str] | None = None) -> FinishedRuns | None:
    """Return a reader of the runs of an unfinished result, or None if there are no runs.  Raises ResultError."""
    path = description_path(result)
    try:
        known = parse_json(read_bytes(path))
        text, file, written = (known[key] for key in ("text", "file", DECLARATION))
        study = Study.from_text(
            text, file, find_user_code=lambda name, _: find_declared_code(name, Path(file).parent, written),
            recorded=True,
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except UNUSABLE_ERRORS as error:
        raise ResultError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return read_finished_runs(study, result, variables)


def read_partial_result(result: Path, variables: Sequence[str] | None = None) -> dict[str, xr.Dataset] | None:
    """Return the runs of an unfinished result by phase, in memory, since another process removes its shards."""

    def read() -> dict[str, xr.Dataset] | None:
        if (reader := read_unfinished(result, variables)) is None:
            return None
        found = reader.to_datasets()
        for phase, data in found.items():
            found[phase] = data.load().assign_attrs(make_global_attributes(reader.study, phase) | data.attrs)
        # until earlier phases have chosen, the main phase has the runs of the earlier result
        if result.exists() and not {MAIN, *EARLIER_PHASES} <= found.keys():
            with netcdf.open_phases(result) as groups:  # without its study
                for phase in groups.keys() - found.keys():
                    old = groups[phase] if variables is None else netcdf.select_metadata(groups[phase], variables)
                    found[phase] = netcdf.load_result(result, old)
        return found

    return files.retry_if_replaced(result, read)


@dataclass(frozen=True)
class StoreContent:
    """Content of a store: shards with their run keys, descriptions and sizes, and the errors of unreadable shards."""

    folder: Path
    shards: Sequence[tuple[Path, Keys, str, int]]
    unread: Sequence[ResultError] = ()

    @property
    def runs(self) -> int:
        """Number of different runs in the store."""
        return len({key for _, keys, *_ in self.shards for key in keys.tolist()})


def read_store(result: Path) -> StoreContent:
    """Return the content of the store of a result."""
    folder = ShardFolder(store_folder(result))
    shards = [(path, index.keys, index.about, path.stat().st_size) for path, index in folder.indices()]
    return StoreContent(folder.path, shards, list(folder.unread.values()))


def prune_store(result: Path, before: float | None = None) -> StoreContent:
    """Remove the shards of a store, or only the shards older than the time `before`.  Return the removed shards."""
    found = read_store(result)
    gone = [each for each in found.shards if before is None or each[0].stat().st_mtime < before]
    for path in list_shards(found.folder) if before is None else [path for path, *_ in gone]:
        path.unlink(missing_ok=True)  # damaged shards too
    if before is None:
        files.remove_unfinished(found.folder)  # the caller has the lease, so no process is writing them
    remove_empty(found.folder)
    return StoreContent(found.folder, gone)
