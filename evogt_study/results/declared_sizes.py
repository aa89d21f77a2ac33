"""Sizes that a result declares, held against what its file can hold, before anything of it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from evogt_study.errors import DamagedResultError
from evogt_study.storage.hdf5_lock import HDF5_LOCK
from evogt_study.study.case_space import MAX_CASES

DEFLATED = 1032
"""Bytes that one byte of DEFLATE, which compresses our variables, stands for at most: 258 in two bits."""
SMALL = 2**24
"""Bytes that any file may declare: they are read in no time."""
FIXED_WIDTH_BYTES = 256 * 2**20
"""Size up to which a variable's words are stored in fields of one width, checksummed and compressed like numbers.

Beyond, they are stored one by one, of which HDF5 can do neither, and xarray reads them all to open the file.
"""
REFERENCE_BYTES = 16
"""What stands in the file for a word that is stored by itself."""


def check_sizes(path: Path) -> None:
    """Raise DamagedResultError where the file declares more than it can hold, or more than any study has.

    A file that is not NetCDF raises what netCDF4 does.
    """
    with HDF5_LOCK, netCDF4.Dataset(path) as file:
        damage = next(oversized(file, path.stat().st_size), None)
    if damage is not None:
        raise DamagedResultError(f"{path} is damaged: {damage}")


def oversized(file: netCDF4.Dataset, size: int) -> Iterator[str]:
    """One line for each size that an open file of `size` bytes declares and cannot have."""
    groups = [file, *file.groups.values()]
    variables = [(name, variable) for group in groups for name, variable in group.variables.items()]
    declared = sum(_bytes(variable) for _, variable in variables)
    if declared > SMALL + DEFLATED * size:
        yield f"it declares {declared:,} bytes of values, which a file of {size:,} bytes cannot hold"
    for name, variable in variables:
        if variable.dtype == np.dtype("S1") and _bytes(variable) > FIXED_WIDTH_BYTES:
            yield f"`{name}` must have at most {FIXED_WIDTH_BYTES:,} bytes of text, got {_bytes(variable):,}"
        if name == "status" and math.prod(variable.shape) > MAX_CASES:
            yield f"a result must have at most {MAX_CASES:,} runs, got {math.prod(variable.shape):,}"


def _bytes(variable: netCDF4.Variable[Any]) -> int:
    """Size of a variable's values, as far as they stand in its array."""
    item = variable.dtype.itemsize if isinstance(variable.dtype, np.dtype) else REFERENCE_BYTES
    return math.prod(map(int, variable.shape)) * item
