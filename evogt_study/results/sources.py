"""Read finished runs from result files and from folders of shards.

A source gives its run keys before its runs, so that files without a wanted run are not opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, ResultError
from evogt_study.results.dataset import records_of
from evogt_study.results.netcdf import loaded, opened
from evogt_study.results.run_metadata import RECORDED, RETURNED_ATTRIBUTES, recorded
from evogt_study.results.seal import UNREADABLE, changed_runs, damaged_parts, keys_of, no_netcdf, read_keys, sealed_keys
from evogt_study.results.shards import Head, read_head, read_shard, shard_files, shard_folder
from evogt_study.schema.records import VARIABLE, RunRecords
from evogt_study.schema.variables import BOOKKEEPING
from evogt_study.storage.arrays import SLAB, slabs
from evogt_study.storage.atomic import RESULT_SUFFIXES
from evogt_study.storage.hdf5 import HDF5_LOCK
from evogt_study.storage.paths import FOLDERS_OF_SHARDS, store_folder
from evogt_study.study.run_keys import Keys

PART_BYTES = 2**22
"""Size of the part of a result that is in memory, at least one run.  It is small beside the command itself."""
Knows = Callable[[Sequence[str] | Keys], npt.NDArray[np.bool_]]
"""Returns which of several keys are wanted."""
Read = TypeVar("Read")


@dataclass(frozen=True)
class ResultFile:
    """The runs of a result, and of its pilot.

    known: its keys, or the error of reading them; None: not read yet.
    """

    path: Path
    known: Keys | ResultError | None = field(default=None, compare=False)

    def keys(self) -> Keys:
        """Keys of the runs; empty for a NetCDF file that is not a result.  Raises ResultError if it cannot be read."""
        known = self.known
        if known is None:
            known = sealed_keys(self.path)
        if isinstance(known, ResultError):
            raise known
        return np.array(read_keys(self.path), dtype=np.bytes_) if known is None else known

    def check(self) -> None:
        """Raise ResultError if runs have changed.  A file without seal is read in a separate process first."""
        damage = damaged_parts(self.path)
        if damage:
            raise DamagedResultError(f"{self.path} is damaged: {damage[0]}")
        with opened(self.path) as groups:
            for data in groups.values():
                check_runs(self.path, data)

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """The runs in parts of bounded size, without parts in which `knows` accepts no key.

        variables: the variables to read beside the run metadata; None: all.  Raises ResultError if they cannot be read.
        """
        with opened(self.path) as groups:
            for data in groups.values():
                if variables is not None:
                    names = [*BOOKKEEPING, *(name for name in variables if name in data)]
                    # recorded coordinates are of no use without the variables along them
                    data = data[names].assign_attrs({RECORDED: "", RETURNED_ATTRIBUTES: "{}"})
                for part in parts(data):
                    # keys first: a part without a wanted run is not loaded
                    keys = loaded(self.path, part[["run_key"]])["run_key"].values
                    if knows(list(map(str, keys.ravel()))).any():
                        yield records_of(loaded(self.path, part))


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
        return np.array([key for _, head in self.heads() for key in head.keys], dtype=np.bytes_)

    def check(self) -> None:
        """Do nothing: reading a shard checks its checksum."""

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """See `ResultFile`; shards that cannot be read are left out, so their runs count as not run."""
        for path, head in self.heads():
            records = self._tried(read_shard, path) if knows(head.keys).any() else None
            if records is not None:
                stacks = records.stacks
                if variables is not None:
                    stacks = tuple(stack for stack in stacks if stack.role == VARIABLE and stack.name in variables)
                yield replace(records, stacks=stacks)

    def heads(self) -> Iterator[tuple[Path, Head]]:
        """Read the heads of the shards that can be read."""
        for path in shard_files(self.path):
            if self.among is not None and path not in self.among:
                continue
            head = self._tried(read_head, path)
            if head is not None:
                yield path, head

    def _tried(self, read: Callable[[Path], Read], path: Path) -> Read | None:
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
    # all files together: files without a seal are read in one process, which takes longer to start than to read
    keys = keys_of([path for path in paths if path.suffix in RESULT_SUFFIXES[:-1] and path.is_file()])
    for path in paths:
        if path in keys:
            yield ResultFile(path, keys[path])
        elif path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
            yield ShardFolder(path)


def source_at(path: Path) -> Iterator[RunSource]:
    """Find the sources that a user names by `path`: a result, a store, or a folder of them.  Raises InputError."""
    if path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
        yield ShardFolder(path)
    elif path.is_dir():
        yield from sources_in(path)
    elif path.is_file():
        yield ResultFile(path, keys_of([path])[path])
    else:
        raise InputError(f"`--from` must be a result, or a folder of results, got {path}, which is neither")


def check_runs(path: Path, data: xr.Dataset) -> None:
    """Raise ResultError if runs have changed since they were written: a new result would confirm them."""
    try:
        with HDF5_LOCK:
            damage = next(changed_runs(data, recorded(data)), None)
    except UNREADABLE as error:
        raise no_netcdf(path, error) from None
    if damage:
        raise DamagedResultError(f"in {path} {damage}; `evogt verify` lists what is")


# size by the declared type and shape, without reading; a part has at least one run
def parts(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The runs of an open result in parts of bounded size."""
    status = data["run_status"]
    bytes_each = sum(data[name].nbytes for name in data.data_vars) // max(1, status.size)
    for slab in slabs(status.shape, max(1, min(SLAB, PART_BYTES // max(1, bytes_each)))):
        yield data.isel(dict(zip(status.dims, slab, strict=True)))
