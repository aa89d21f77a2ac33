"""Sizes that a result declares, held against what its file can hold, before anything of it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from evogt_study.errors import DamagedResultError
from evogt_study.storage.hdf5 import HDF5_LOCK
from evogt_study.study.case_space import MAX_CASES

# a file of a few kilobytes may declare terabytes of zeros, which reading would ask memory for
DEFLATED = 1032
"""Bytes for which one byte of DEFLATE, which compresses our variables, stands at most: 258 in two bits."""
REFERENCE_BYTES = 16
"""Bytes of the file for a string that is stored by itself: a reference, which HDF5 does not compress."""
FIXED_WIDTH_BYTES = 256 * 2**20
"""Size up to which a variable's strings are stored in fields of one width, checksummed and compressed like numbers.

A million case keys take 20 MB, a million messages of 256 bytes all of it.  Beyond, strings are stored one by one: HDF5
neither checksums nor compresses them then, and xarray reads them all to open the file.
"""


def check_sizes(path: Path) -> None:
    """Raise DamagedResultError where the file declares more than it can hold, or more than any result has.

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
    least = sum(_count(variable) * _least(variable) for _, variable in variables)
    if least > size:
        yield f"its variables take at least {math.ceil(least):,} bytes, got a file of {size:,}"
    for name, variable in variables:
        if name == "status" and _count(variable) > MAX_CASES:
            yield f"a result must have at most {MAX_CASES:,} runs, got {_count(variable):,}"
        # characters, and a dimension's own coordinate, are read in one piece when the file is opened
        whole = variable.dtype == np.dtype("S1") or variable.dimensions == (name,)
        if whole and _count(variable) * variable.dtype.itemsize > FIXED_WIDTH_BYTES:
            yield f"`{name}` must have at most {FIXED_WIDTH_BYTES:,} bytes, got {_count(variable):,} values"


def _count(variable: netCDF4.Variable[Any]) -> int:
    return math.prod(map(int, variable.shape))


def _least(variable: netCDF4.Variable[Any]) -> float:
    """Bytes of the file that a value takes at least."""
    fixed = isinstance(variable.dtype, np.dtype)
    return variable.dtype.itemsize / DEFLATED if fixed else REFERENCE_BYTES
