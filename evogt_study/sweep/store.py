"""The result file: written whole, in one place, by one process; and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from evogt_study.errors import ResultError
from evogt_study.sweep.files import written_whole
from evogt_study.sweep.locks import HDF5_LOCK

PILOT = "pilot"


def write_result(path: Path, study: xr.Dataset, pilot: xr.Dataset | None) -> None:
    """Write the study's runs, and the pilot's into the group /pilot.  Raises ResultError where the disk refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with written_whole(path) as temporary, HDF5_LOCK:
            study.to_netcdf(temporary, engine="netcdf4", format="NETCDF4", encoding=encodings(study))
            if pilot is not None:
                pilot.to_netcdf(temporary, mode="a", group=PILOT, engine="netcdf4", encoding=encodings(pilot))
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None


def encodings(data: xr.Dataset) -> dict[str, dict[str, Any]]:
    """How each variable is stored: checksummed and compressed numbers, no fill value on coordinates (CF forbids it)."""
    result: dict[str, dict[str, Any]] = {}
    for name, variable in data.variables.items():
        encoding: dict[str, Any] = {}
        if variable.dtype.kind in "iufb" and variable.ndim:
            encoding |= {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True}
        if name in data.coords or variable.dtype.kind == "O" or name in ("status", "attempts", "software"):
            encoding["_FillValue"] = None
        elif variable.dtype.kind == "f":
            encoding["_FillValue"] = float("nan")
        result[str(name)] = encoding
    return result


def read_result(path: Path) -> dict[str, xr.Dataset]:
    """The study's runs under "study" and the pilot's, where there are any, under "pilot", loaded into memory.

    Raises ResultError where the file is not a result of this package.
    """
    try:
        with HDF5_LOCK:
            groups = {"study": xr.load_dataset(path, engine="netcdf4")}
            if groups["study"].attrs.get("pilot_group") == PILOT:
                groups[PILOT] = xr.load_dataset(path, engine="netcdf4", group=PILOT)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ResultError(f"cannot read {path} as NetCDF: {error}") from None
    if "case_key" not in groups["study"] or "study" not in groups["study"].attrs:
        raise ResultError(f"{path} is not a result of this package")
    return groups


def read_study(path: Path) -> xr.Dataset:
    """The study's runs of a result file.  Raises ResultError."""
    return read_result(path)["study"]
