"""Places of finished runs: result files, and folders of shards.  Each gives its keys before its runs are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, ResultError
from evogt_study.results.dataset import RECORDED, recorded, records_of
from evogt_study.results.netcdf import loaded, opened
from evogt_study.results.seal import UNREADABLE, changed_runs, damaged_parts, keys_of, no_netcdf, read_keys, sealed_keys
from evogt_study.results.shards import Head, read_head, read_shard, shard_files, shard_folder
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import BOOKKEEPING
from evogt_study.storage.arrays import SLAB, slabs
from evogt_study.storage.atomic import RESULT_SUFFIXES
from evogt_study.storage.hdf5 import HDF5_LOCK
from evogt_study.storage.paths import FOLDERS_OF_SHARDS, store_folder
from evogt_study.study.plan import Keys

Knows = Callable[[Sequence[str] | Keys], npt.NDArray[np.bool_]]
"""Which of several keys are asked for."""
Read = TypeVar("Read")

PART_BYTES = 2**22
"""Bytes of the part of a result that is in memory, if it is more than a run: few beside the command itself."""


class RunSource(Protocol):
    """A place that holds finished runs of whatever study."""

    @property
    def path(self) -> Path:
        """The file or folder."""
        ...

    def keys(self) -> Keys:
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
    """The runs of a result, and of its pilot.

    known: its keys, or the reason why they cannot be read, once that is known.
    """

    path: Path
    known: Keys | ResultError | None = field(default=None, compare=False)

    def keys(self) -> Keys:
        """As of `RunSource`; none where a NetCDF file is not a result."""
        known = self.known
        if known is None:
            known = sealed_keys(self.path)
        if isinstance(known, ResultError):
            raise known
        return np.array(read_keys(self.path), dtype=np.bytes_) if known is None else known

    def check(self) -> None:
        """As of `RunSource`; first in a process of its own, which a damaged file may take with it."""
        damage = damaged_parts(self.path)
        if damage:
            raise DamagedResultError(f"{self.path} is damaged: {damage[0]}")
        with opened(self.path) as groups:
            for data in groups.values():
                check_runs(self.path, data)

    def records(self, knows: Knows, variables: Sequence[str] | None = None) -> Iterator[RunRecords]:
        """As of `RunSource`."""
        with opened(self.path) as groups:
            for data in groups.values():
                if variables is not None:
                    names = [*BOOKKEEPING, *(name for name in variables if name in data)]
                    # coordinates that runs brought are of no use without the variables along them
                    data = data[names].assign_attrs({RECORDED: ""})
                for part in parts(data):
                    # the keys alone are read first: a part without a run that is asked for is not loaded
                    if knows(_case_keys(self.path, part)).any():
                        yield records_of(loaded(self.path, part))


def _case_keys(path: Path, part: xr.Dataset) -> list[str]:
    return list(map(str, loaded(path, part[["case_key"]])["case_key"].values.ravel()))


@dataclass(frozen=True)
class ShardFolder:
    """The runs of shards in a folder; `unread` collects those that cannot be read, with the reason.

    among: the files that count; None: all.
    """

    path: Path
    among: frozenset[Path] | None = None
    unread: dict[Path, ResultError] = field(default_factory=dict, compare=False)

    def keys(self) -> Keys:
        """As of `RunSource`."""
        return np.array([key for _, head in self.heads() for key in head.keys], dtype=np.bytes_)

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
        """Read the heads of the shards, as far as that can be done."""
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


def sources_in(folder: Path, result: Path | None = None) -> Iterator[RunSource]:
    """Find the results in a folder, and the stores and shards beside them, but for those of `result`.

    Pipes and devices, which may never end, are no results.
    """
    own = () if result is None else {path.resolve() for path in (result, shard_folder(result), store_folder(result))}
    paths = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")] if folder.is_dir() else []
    paths = [path for path in paths if path.resolve() not in own]  # a link to the result is the result
    # of all files at once: those without a seal are read in one process, whose start takes longer than their keys
    keys = keys_of([path for path in paths if path.suffix in RESULT_SUFFIXES[:-1] and path.is_file()])
    for path in paths:
        if path in keys:
            yield ResultFile(path, keys[path])
        elif path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
            yield ShardFolder(path)


def source_at(path: Path) -> Iterator[RunSource]:
    """Find the places that a user names by `path`: a result, a store, or all in a folder.  Raises InputError."""
    if path.suffix in FOLDERS_OF_SHARDS and path.is_dir():
        yield ShardFolder(path)
    elif path.is_dir():
        yield from sources_in(path)
    elif path.is_file():
        yield ResultFile(path, keys_of([path])[path])
    else:
        raise InputError(f"`--from` must be a result, or a folder of results, got {path}, which is neither")


def check_runs(path: Path, data: xr.Dataset) -> None:
    """Raise ResultError where runs are not what was written: a new result would vouch for them."""
    try:
        with HDF5_LOCK:
            damage = next(changed_runs(data, recorded(data).values()), None)
    except UNREADABLE as error:
        raise no_netcdf(path, error) from None
    if damage:
        raise DamagedResultError(f"in {path} {damage}; `evogt verify` lists what is")


# bytes by the declared type and shape, which cost no reading; at least one run is a part
def parts(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The runs of an open result in parts of bounded size."""
    status = data["status"]
    bytes_each = sum(data[name].nbytes for name in data.data_vars) // max(1, status.size)
    for slab in slabs(status.shape, max(1, min(SLAB, PART_BYTES // max(1, bytes_each)))):
        yield data.isel(dict(zip(status.dims, slab, strict=True)))
