"""Where finished runs lie: result files, and folders of shards.  Each tells its keys before its runs are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import netCDF4
import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, ResultError
from evogt_study.results.bookkeeping import RECORDED, recorded
from evogt_study.results.dataset import records_of
from evogt_study.results.declared_sizes import oversized
from evogt_study.results.digests import changed_runs
from evogt_study.results.integrity import UNREADABLE
from evogt_study.results.netcdf import PILOT, loaded, opened
from evogt_study.results.shards import Head, read_head, read_shard, shard_files, shard_folder
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import BOOKKEEPING, Status
from evogt_study.storage.atomic_files import RESULT_SUFFIXES
from evogt_study.storage.hdf5_lock import HDF5_LOCK
from evogt_study.storage.paths import FOLDERS_OF_SHARDS, store_folder
from evogt_study.storage.slabs import SLAB, slabs

Knows = Callable[[Sequence[str]], npt.NDArray[np.bool_]]
"""Which of several keys are asked for."""
Read = TypeVar("Read")

PART_BYTES = 2**22
"""What the part that is in memory takes at most, if it is more than a run."""


class RunSource(Protocol):
    """A place that holds finished runs of whatever study."""

    @property
    def path(self) -> Path:
        """The file or folder."""
        ...

    def keys(self) -> list[str]:
        """Keys of the runs.  Raises ResultError where they cannot be read."""
        ...

    def check(self) -> None:
        """Raise ResultError where runs are not what was written."""
        ...

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """The runs in parts of bounded size, those parts left out of which `knows` none.

        variables: those that are read beside the bookkeeping; None: all.  Raises ResultError where they cannot be read.
        """
        ...


@dataclass(frozen=True)
class ResultFile:
    """The runs of a result, and of its pilot."""

    path: Path

    def keys(self) -> list[str]:
        """As of `RunSource`; none where a NetCDF file is not a result."""
        try:
            with HDF5_LOCK, netCDF4.Dataset(self.path) as file:
                too_large = next(oversized(file, self.path.stat().st_size), None)
                if too_large is not None:
                    raise DamagedResultError(f"{self.path} is damaged: {too_large}")
                groups = [group for group in (file, file.groups.get(PILOT)) if group is not None]
                return [key for group in groups if "case_key" in group.variables for key in _finished_keys(group)]
        except UNREADABLE as error:
            raise ResultError(f"cannot read {self.path} as NetCDF: {error}") from None

    def check(self) -> None:
        """As of `RunSource`."""
        with opened(self.path) as groups:
            for data in groups.values():
                check_runs(self.path, data)

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """As of `RunSource`."""
        with opened(self.path) as groups:
            for data in groups.values():
                if variables is not None:
                    names = [*BOOKKEEPING, *(name for name in variables if name in data)]
                    data = data[names].assign_attrs({RECORDED: ""})
                for part in parts(data):
                    if knows(_case_keys(self.path, part)).any():
                        yield records_of(loaded(self.path, part))


def _finished_keys(group: netCDF4.Dataset) -> list[str]:
    """Keys of an open group's runs, which are read at once: 20 bytes a run, where xarray takes 25 ms to open a file."""
    keys, status = (np.ma.getdata(group.variables[name][...]).ravel() for name in ("case_key", "status"))
    return list(map(str, keys[status != Status.not_run]))


def _case_keys(path: Path, part: xr.Dataset) -> list[str]:
    return list(map(str, loaded(path, part[["case_key"]])["case_key"].values.ravel()))


@dataclass(frozen=True)
class ShardFolder:
    """The runs of shards in a folder; `unread` collects those that cannot be read, with what is wrong with them."""

    path: Path
    unread: dict[Path, ResultError] = field(default_factory=dict, compare=False)

    def keys(self) -> list[str]:
        """As of `RunSource`."""
        return [key for _, head in self.heads() for key in head.keys]

    def check(self) -> None:
        """Nothing: a shard is held against its digest when it is read."""

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """As of `RunSource`, but what cannot be read is left out: it counts as not run."""
        for path, head in self.heads():
            records = self._tried(read_shard, path) if knows(head.keys).any() else None
            if records is not None:
                stacks = [stack for stack in records.stacks if variables is None or stack.name in variables]
                yield replace(records, stacks=tuple(stacks))

    def heads(self) -> Iterator[tuple[Path, Head]]:
        """What the shards are, as far as that can be read."""
        for path in shard_files(self.path):
            head = self._tried(read_head, path)
            if head is not None:
                yield path, head

    def _tried(self, read: Callable[[Path], Read], path: Path) -> Read | None:
        try:
            return read(path)
        except ResultError as error:
            self.unread[path] = error
            return None


def sources_in(folder: Path, result: Path | None = None) -> Iterator[RunSource]:
    """The results in a folder, and what is kept beside them, but what belongs to `result`.

    Pipes and devices, which may never end, are no results.
    """
    own = () if result is None else {path.resolve() for path in (result, shard_folder(result), store_folder(result))}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith(".") or path.resolve() in own:
            continue
        if path.suffix in RESULT_SUFFIXES and path.suffix and path.is_file():
            yield ResultFile(path)
        elif path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
            yield ShardFolder(path)


def source_at(path: Path) -> Iterator[RunSource]:
    """The places that a person names by `path`: a result, a store, or all that are in a folder.  Raises InputError."""
    if path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
        yield ShardFolder(path)
    elif path.is_dir():
        yield from sources_in(path)
    elif path.is_file():
        yield ResultFile(path)
    else:
        raise InputError(f"`--from` must be a result, or a folder of results, got {path}, which is neither")


def check_runs(path: Path, data: xr.Dataset) -> None:
    """Raises ResultError where runs are not what was written: a new result would vouch for them."""
    try:
        with HDF5_LOCK:
            damage = next(changed_runs(data, recorded(data).values()), None)
    except UNREADABLE as error:
        raise ResultError(f"cannot read {path} as NetCDF: {error}") from None
    if damage:
        raise DamagedResultError(f"in {path} {damage}; `evogt verify` lists what is")


def parts(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The runs of an open result in parts of bounded size."""
    status = data["status"]
    bytes_each = sum(data[name].nbytes for name in data.data_vars) // max(1, status.size)
    for slab in slabs(status.shape, max(1, min(SLAB, PART_BYTES // max(1, bytes_each)))):
        yield data.isel(dict(zip(status.dims, slab, strict=True)))
