"""The result file: written whole, in one place, by one process; and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.errors import ResultError
from evogt_study.sweep.digest import with_digests
from evogt_study.sweep.files import written_whole
from evogt_study.sweep.integrity import UNREADABLE
from evogt_study.sweep.locks import HDF5_LOCK
from evogt_study.sweep.schema import BOOKKEEPING

PILOT = "pilot"
UNFILLED = ("status", "attempts", "software")
"""Whole numbers that have a value for every case, run or not."""


def write_result(path: Path, study: xr.Dataset, pilot: xr.Dataset | None) -> None:
    """Write the study's runs, and the pilot's into the group /pilot.  Raises ResultError where the disk refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with written_whole(path) as temporary, HDF5_LOCK:
            encoded(with_digests(study)).to_netcdf(temporary, engine="netcdf4", format="NETCDF4")
            if pilot is not None:
                encoded(with_digests(pilot)).to_netcdf(temporary, mode="a", group=PILOT, engine="netcdf4")
    except (OSError, RuntimeError) as error:  # HDF5's own errors are RuntimeErrors
        raise ResultError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


FIXED_WIDTH_BYTES = 256 * 2**20
"""Size up to which a variable's words are stored in fields of one width, checksummed and compressed like numbers.

Beyond, they are stored one by one, of which HDF5 can do neither, and xarray reads them all to open the file.
"""
COMPRESSED = {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True}


def encoded(data: xr.Dataset) -> xr.Dataset:
    """The same data, told how to be stored: checksummed and compressed numbers, no fill value on coordinates (CF).

    Coordinates other than the dimensions' own are named by each variable that they belong to.  Words along a dimension
    are stored as characters: to CF a coordinate variable of one dimension is numeric.
    """
    beside = {str(name): coord for name, coord in data.coords.items() if name not in data.dims}
    data = data.copy(deep=False)
    for name in data.data_vars:
        if data[name].dtype.kind in "OU":
            data[name] = fixed_width(data[name].variable)
    for name, variable in data.variables.items():
        encoding = {key: value for key, value in variable.encoding.items() if key in ("dtype", "_FillValue")}
        numbers = np.dtype(encoding.get("dtype", variable.dtype)).kind in "iufb"
        if (numbers or variable.dtype.kind == "S") and variable.ndim:
            encoding |= COMPRESSED
        if name not in data.coords:
            named = sorted(other for other, coord in beside.items() if set(coord.dims) <= set(variable.dims))
            encoding["coordinates"] = " ".join(named) or None
        if name in data.dims and variable.dtype.kind in "OU":
            encoding["dtype"] = "S1"
        if name in data.coords or not numbers or name in UNFILLED:
            encoding["_FillValue"] = None
        else:
            encoding.setdefault("_FillValue", np.nan)
        data[name].encoding = encoding
    return data


def fixed_width(words: xr.Variable) -> xr.Variable:
    """The same words in fields of one width, in UTF-8, unless one is so long that this would be large."""
    fields = [word.encode() for word in words.values.ravel().tolist()]
    if len(fields) * max(map(len, fields), default=0) > FIXED_WIDTH_BYTES:
        return words
    array = np.array(fields, dtype=np.bytes_).reshape(words.shape)
    return xr.Variable(words.dims, array, {**words.attrs, "_Encoding": "utf-8"})


def read_result(path: Path) -> dict[str, xr.Dataset]:
    """The study's runs under "study" and the pilot's, where there are any, under "pilot", loaded into memory.

    Raises ResultError where the file is not a result of this package.
    """
    try:
        with HDF5_LOCK:
            groups = {"study": xr.load_dataset(path, engine="netcdf4", decode_times=False)}
            if groups["study"].attrs.get("pilot_group") == PILOT:
                groups[PILOT] = xr.load_dataset(path, engine="netcdf4", decode_times=False, group=PILOT)
    except UNREADABLE as error:
        raise ResultError(f"cannot read {path} as NetCDF: {error}") from None
    if not all(map(_whole, groups.values())):
        raise ResultError(f"{path} is not a result of this package")
    return groups


def open_result(path: Path, phase: str = "study", chunks: Any = None) -> xr.Dataset:
    """The runs of one phase, "study" or "pilot", of which values are read from the file when they are asked for.

    chunks: as of xarray.open_dataset, for values that dask holds.  Raises ResultError where the file is not a result
    of this package, or has no pilot.
    """
    group = PILOT if phase == PILOT else None
    try:
        with HDF5_LOCK:
            data = xr.open_dataset(path, engine="netcdf4", decode_times=False, group=group, chunks=chunks)
            if chunks is None:
                for variable in data.variables.values():
                    if variable.dtype.kind in "USO":  # which xarray, as long as they are in the file, cannot transpose
                        variable.load()
    except UNREADABLE as error:
        if group is not None and path.exists() and PILOT not in read_result(path):
            raise ResultError(f"{path} must have pilot runs, got a result without them") from None
        raise ResultError(f"cannot read {path} as NetCDF: {error}") from None
    if not _whole(data):
        data.close()
        raise ResultError(f"{path} is not a result of this package")
    return data


def _whole(data: xr.Dataset) -> bool:
    """Whether a group has what every result has."""
    told = set(BOOKKEEPING) <= set(data.data_vars) and "software_sets" in data["software"].attrs
    return told and "study" in data.attrs


def read_study(path: Path) -> xr.Dataset:
    """The study's runs of a result file.  Raises ResultError."""
    return read_result(path)["study"]
