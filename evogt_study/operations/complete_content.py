"""The content of a result held against its digests, and every planned run of it tried."""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from evogt_study.errors import EvogtError
from evogt_study.results.digests import DIGESTS, changed
from evogt_study.results.integrity import UNREADABLE
from evogt_study.results.netcdf import opened
from evogt_study.schema.variables import Status
from evogt_study.storage.hdf5_lock import HDF5_LOCK
from evogt_study.storage.slabs import slabs


def holds_all(path: Path) -> bool:
    """Return True for a result that is as it was written and lacks no run; False for what cannot be read."""
    try:
        with opened(path) as groups, HDF5_LOCK:
            return all(
                DIGESTS in data.attrs and not any(changed(data)) and _all_tried(data) for data in groups.values()
            )
    except (EvogtError, *UNREADABLE):
        return False


def _all_tried(data: xr.Dataset) -> bool:
    """Return True where no planned run of a phase is left; a point without a case has no key."""
    keys, status = data["case_key"].variable, data["status"].variable
    return not any(
        ((keys[slab].values != "") & (status[slab].values == Status.not_run)).any() for slab in slabs(status.shape)
    )
