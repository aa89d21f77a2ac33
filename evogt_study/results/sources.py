"""Read finished runs from result files and from folders of shards.

A source gives its run keys before its runs, so that files without a wanted run are not opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, ResultError
from evogt_study.results.dataset import records_of
from evogt_study.results.index import NO_INDEX, Index, inspect, read_index
from evogt_study.results.netcdf import loaded, opened
from evogt_study.results.run_metadata import CONCATENATED, RECORDED, RETURNED_ATTRIBUTES, metadata
from evogt_study.results.shards import read_shard, read_shard_index, shard_files, shard_folder
from evogt_study.schema.records import VARIABLE, RunRecords
from evogt_study.schema.variables import Status, status_codes
from evogt_study.storage.arrays import SLAB, slabs
from evogt_study.storage.atomic import RESULT_SUFFIXES
from evogt_study.storage.paths import FOLDERS_OF_SHARDS, store_folder
from evogt_study.study.case_space import Keys

PART_BYTES = 2**22
"""Size of the part of a result that is in memory, at least one run.  It is small beside the command itself."""
Knows = Callable[[Sequence[str] | Keys], npt.NDArray[np.bool_]]
"""Returns which of several keys are wanted."""
Read = TypeVar("Read")


@dataclass(frozen=True)
class ResultFile:
    """The runs of a result, and of its pilot.

    A result with an index is read by it.  A file that another program has changed is read by xarray, and a warning
    says so.
    """

    path: Path

    @cached_property
    def index(self) -> Index | None:
        """The index; None for a file without runs in a valid one.  Raises ResultError if it cannot be read."""
        found = read_index(self.path)
        return found if found is not None and found.phases else None

    def keys(self) -> Keys:
        """Keys of the runs; empty for a NetCDF file that is not a result.  Raises ResultError if it cannot be read."""
        if self.index is not None:
            return self.index.keys
        check_file(self.path)
        found: list[str] = []
        with opened(self.path) as groups:
            # joined results have none that a study could reuse
            for data in (each for each in groups.values() if CONCATENATED not in each.attrs):
                finished = status_codes(data["run_status"]).ravel() != Status.not_run
                found += map(str, data["run_key"].values.ravel()[finished])
        return np.array(found, dtype=np.bytes_)

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """The runs, without those whose key `knows` does not accept.

        variables: the variables to read beside the run metadata; None: all.  Raises ResultError if they cannot be read.
        """
        if self.index is not None:
            for records in self.index.phases.values():
                rows = np.flatnonzero(knows(records.keys))
                if len(rows):
                    selected = records if len(rows) == len(records.keys) else records.selected(rows)
                    yield _with_variables(selected, variables)
            return
        with opened(self.path) as groups:
            for data in (each for each in groups.values() if CONCATENATED not in each.attrs):
                if variables is not None:
                    # recorded coordinates are of no use without the variables along them
                    data = metadata(data, variables).assign_attrs({RECORDED: "", RETURNED_ATTRIBUTES: "{}"})
                for part in read_in_parts(data):
                    # keys first: a part without a wanted run is not loaded
                    keys = loaded(self.path, part[["run_key"]])["run_key"].values
                    if knows(list(map(str, keys.ravel()))).any():
                        yield records_of(loaded(self.path, part))


def _with_variables(records: RunRecords, variables: Sequence[str] | None) -> RunRecords:
    if variables is None:
        return records
    stacks = (stack for stack in records.stacks if stack.role == VARIABLE and stack.name in variables)
    return replace(records, stacks=tuple(stacks))


def check_file(path: Path) -> None:
    """Raise DamagedResultError if a result is damaged, or if another program has changed its runs."""
    found = inspect(path)
    problem = next(iter([*found.broken, *(line for line in found.changed if line != NO_INDEX)]), None)
    if problem is not None:
        raise DamagedResultError(f"in {path} {problem}; `evogt verify` lists all such parts")


@dataclass(frozen=True)
class ShardFolder:
    """The runs of the shards in a folder; `unread` has the shards that cannot be read, with the reason.

    among: the shards that count; None: all.
    """

    path: Path
    among: frozenset[Path] | None = None
    unread: dict[Path, ResultError] = field(default_factory=dict, compare=False)

    def keys(self) -> Keys:
        """Keys of the runs in shards that can be read."""
        return np.array([key for _, index in self.indices() for key in index.keys], dtype=np.bytes_)

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """See `ResultFile`; shards that cannot be read are left out, so their runs count as not run."""
        for path, index in self.indices():
            records = self._read(read_shard, path) if knows(index.keys).any() else None
            if records is not None:
                yield _with_variables(records, variables)

    def indices(self) -> Iterator[tuple[Path, Index]]:
        """Read the indices of the shards that can be read."""
        for path in shard_files(self.path):
            index = self._read(read_shard_index, path) if self.among is None or path in self.among else None
            if index is not None:
                yield path, index

    def _read(self, read: Callable[[Path], Read], path: Path) -> Read | None:
        try:
            return read(path)
        except ResultError as error:
            self.unread[path] = error
            return None


RunSource = ResultFile | ShardFolder
"""A place with finished runs of any study."""


def sources_in(folder: Path, result: Path | None = None) -> Iterator[RunSource]:
    """Find the results in a folder with their stores and shards, except the files of `result`.

    Pipes and devices are left out, since reading them may not end.
    """
    own = () if result is None else {path.resolve() for path in (result, shard_folder(result), store_folder(result))}
    paths = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")] if folder.is_dir() else []
    paths = [path for path in paths if path.resolve() not in own]  # a link to the result is the result
    for path in paths:
        if path.suffix in RESULT_SUFFIXES[:-1] and path.is_file():
            source = ResultFile(path)
            if result is None:
                yield source
                continue
            with suppress(ResultError):  # a file without a valid index is used only if the user names it
                if source.index is not None:
                    yield source
        elif path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
            yield ShardFolder(path)


def source_at(path: Path) -> Iterator[RunSource]:
    """Find the sources that a user names by `path`: a result, a store, or a folder of them.  Raises InputError."""
    if path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
        yield ShardFolder(path)
    elif path.is_dir():
        yield from sources_in(path)
    elif path.is_file():
        yield ResultFile(path)
    else:
        raise InputError(
            f"`reuse_from` (--reuse-from) must be a result, or a folder of results, got {path}, which is neither"
        )


# size by the declared type and shape, without reading; a part has at least one run
def read_in_parts(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The runs of an open result in parts of bounded size."""
    status = data["run_status"]
    bytes_each = sum(data[name].nbytes for name in data.data_vars) // max(1, status.size)
    for slab in slabs(status.shape, max(1, min(SLAB, PART_BYTES // max(1, bytes_each)))):
        yield data.isel(dict(zip(status.dims, slab, strict=True)))
