"""The runs of an earlier result of a study, taken up again part by part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xarray as xr

from evogt_study.errors import DamagedResultError, ResultError
from evogt_study.results.bookkeeping import recorded
from evogt_study.results.dataset import records_of
from evogt_study.results.digests import changed_runs
from evogt_study.results.integrity import UNREADABLE
from evogt_study.results.netcdf import loaded, opened
from evogt_study.schema.records import RunRecords
from evogt_study.storage.hdf5_lock import HDF5_LOCK
from evogt_study.storage.slabs import SLAB, slabs
from evogt_study.study.study import Study

PART_BYTES = 2**22
"""What the part that is in memory takes at most, if it is more than a run."""


class Earlier:
    """The result that is at `path` before a study is run, if any; history: its attribute of that name, by phase.

    Raises ResultError where the file there is not a result, or is that of another study.
    """

    def __init__(self, study: Study, path: Path) -> None:
        self.path, self.history = path, dict[str, str]()
        if not path.exists():
            return
        with _in_the_way(), opened(path) as groups:
            found = groups["study"].attrs.get("id", "")
            self.history = {phase: str(data.attrs.get("history", "")) for phase, data in groups.items()}
        if found != study.name:
            raise ResultError(
                f"{path} is the result of the study {found!r}, not of {study.name!r}; choose another place with -o"
            )

    def records(self, phase: str) -> Iterator[RunRecords]:
        """The runs of a phase.  Raises ResultError where they cannot be read, or are not what was written."""
        if phase in self.history:
            with _in_the_way(), opened(self.path) as groups:
                check_runs(self.path, groups[phase])
                for part in parts(groups[phase]):
                    yield records_of(loaded(self.path, part))


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


@contextmanager
def _in_the_way() -> Iterator[None]:
    try:
        yield
    except ResultError as error:
        raise ResultError(f"{error}; it is in the way of this study's result: choose another place with -o") from None
