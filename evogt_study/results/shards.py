"""Finished runs on disk: shards with the records of one batch, and the places that hold runs, which are sources.

A shard of 20 runs with 8 variables takes 1 ms; a NetCDF file takes 28 ms.  A source gives its run keys before its runs,
so that files without a wanted run are not opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, ResultError
from evogt_study.results.dataset import records_of
from evogt_study.results.index import NO_INDEX, Index, append, damage, inspect, pack_records, read_index
from evogt_study.results.netcdf import load_result, open_phases
from evogt_study.results.run_metadata import CONCATENATED, RECORDED, RETURNED_ATTRIBUTES, select_metadata
from evogt_study.schema.records import VARIABLE, RunRecords
from evogt_study.schema.variables import Status, status_codes
from evogt_study.storage.arrays import SLAB, File, close_files, slabs
from evogt_study.storage.atomic import RESULT_SUFFIXES, make_folder, write_atomically
from evogt_study.storage.lease import remove_claims
from evogt_study.storage.paths import CLAIMS, FOLDERS_OF_SHARDS, PROGRESS, store_folder
from evogt_study.storage.paths import shard_folder as shard_folder
from evogt_study.study.case_space import Keys

SUFFIX = ".shard"


def shard_files(folder: Path) -> list[Path]:
    """Return the shards in `folder`, in the order of their names."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def write_shard(folder: Path, records: RunRecords, about: str = "") -> Path:
    """Write `records` to a new file in `folder`, named by their keys.  Raises ResultError if the disk refuses.

    Packed arrays of `records` are read from this file afterwards, so their memory is free.  about: description of the
    runs for the user.
    """
    # named by content: a batch that is computed twice writes the same file, so no run counts twice
    path = folder / f"{sha256(','.join(records.keys).encode()).hexdigest()[:20]}{SUFFIX}"
    try:
        make_folder(folder)
        with write_atomically(path) as temporary, temporary.open("w+b") as file:
            append(file, File(path), Index({"": pack_records(records)}, {}, about=about))
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def read_shard(path: Path) -> RunRecords:
    """Read the records of a shard.  Arrays stay in the file.  Raises ResultError."""
    index = read_shard_index(path)
    for found in damage(path, index):
        raise DamagedResultError(f"{path} is damaged: {found}")
    return index.phases[""]


def read_shard_index(path: Path) -> Index:
    """Read the index of a shard: the keys of its runs, and their description."""
    index = read_index(path)
    if index is None or "" not in index.phases:
        raise DamagedResultError(f"{path} is damaged: it has no valid index")
    return index


# the description first: the next run reuses shards without a description, but a description without shards would look
# like a study that is being computed
def remove_shards(folder: Path, foreign: Container[Path], description: Path) -> None:
    """Remove the `description`, the progress file, the claims and all shards except the `foreign` ones."""
    if not folder.exists():
        return
    close_files()  # a file server keeps a file that is open, and then its folder
    description.unlink(missing_ok=True)
    (folder / PROGRESS).unlink(missing_ok=True)
    remove_claims(folder / CLAIMS)
    with os.scandir(folder) as entries:  # one by one: there may be millions
        for entry in entries:
            path = folder / entry.name
            if path.suffix == SUFFIX and path not in foreign:
                path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


# --- sources of finished runs -----------------------------------------------------------------------------------------

PART_BYTES = 2**22
"""Size of the part of a result that is in memory, at least one run.  It is small beside the command itself."""
KeyFilter = Callable[[Sequence[str] | Keys], npt.NDArray[np.bool_]]
"""Returns which of several keys are wanted."""
Read = TypeVar("Read")


@dataclass(frozen=True)
class ResultFile:
    """The runs of a result, read by its index, or by xarray after another program has changed the file."""

    path: Path

    @cached_property
    def index(self) -> Index | None:
        """The index, or None for a file without runs in a valid one.  Raises ResultError if it cannot be read."""
        found = read_index(self.path)
        return found if found is not None and found.phases else None

    def keys(self) -> Keys:
        """Return keys of the runs; empty for a NetCDF file that is not a result.  Raises ResultError if it cannot be
        read."""
        if self.index is not None:
            return self.index.keys
        check_file(self.path)
        with self._data() as groups:
            finished = (data["run_key"].values[status_codes(data["run_status"]) != Status.not_run] for data in groups)
            return np.array([str(key) for keys in finished for key in keys.ravel()], dtype=np.bytes_)

    @contextmanager
    def _data(self) -> Iterator[list[xr.Dataset]]:
        """Open the phases by xarray.  Joined results have no runs that a study could reuse."""
        with open_phases(self.path) as groups:
            yield [data for data in groups.values() if CONCATENATED not in data.attrs]

    def records(self, knows: KeyFilter, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """Yield the runs whose key `knows` accepts, with these variables (None: all).  Raises ResultError."""
        if self.index is not None:
            for records in self.index.phases.values():
                rows = np.flatnonzero(knows(records.keys))
                if len(rows):
                    yield _with_variables(records.select_rows(rows), variables)
            return
        with self._data() as groups:
            for data in groups:
                if variables is not None:
                    # recorded coordinates are of no use without the variables along them
                    data = select_metadata(data, variables).assign_attrs({RECORDED: "", RETURNED_ATTRIBUTES: "{}"})
                status = data["run_status"]
                size = sum(data[name].nbytes for name in data.data_vars) // max(1, status.size)  # of a run, not read
                for slab in slabs(status.shape, max(1, min(SLAB, PART_BYTES // max(1, size)))):
                    part = data.isel(dict(zip(status.dims, slab, strict=True)))
                    # keys first: a part without a wanted run is not loaded
                    keys = load_result(self.path, part[["run_key"]])["run_key"].values
                    if knows(list(map(str, keys.ravel()))).any():
                        yield records_of(load_result(self.path, part))


def _with_variables(records: RunRecords, variables: Sequence[str] | None) -> RunRecords:
    if variables is None:
        return records
    stacks = (stack for stack in records.stacks if stack.role == VARIABLE and stack.name in variables)
    return replace(records, stacks=tuple(stacks))


def check_file(path: Path) -> None:
    """Raise DamagedResultError if a result is damaged, or if another program has changed its runs."""
    found = inspect(path)
    for problem in (*found.broken, *(line for line in found.changed if line != NO_INDEX)):
        raise DamagedResultError(f"in {path} {problem}; `evogt verify` lists all such parts")


@dataclass(frozen=True)
class ShardFolder:
    """The runs of the shards in a folder, or `among` them.  `unread`: shards that cannot be read, with the reason."""

    path: Path
    among: frozenset[Path] | None = None
    unread: dict[Path, ResultError] = field(default_factory=dict, compare=False)

    def keys(self) -> Keys:
        """Return keys of the runs in shards that can be read."""
        return np.array([key for _, index in self.indices() for key in index.keys], dtype=np.bytes_)

    def records(self, knows: KeyFilter, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """See `ResultFile`.  Shards that cannot be read are left out, so their runs count as not run."""
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
    """Find the results in a folder with their stores and shards, without pipes, devices and the files of `result`."""
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
        raise InputError(f"`reuse_from` must be a result, or a folder of results, got {path}, which is neither")
