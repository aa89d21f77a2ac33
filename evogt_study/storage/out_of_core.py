"""Arrays out of core: mapped from an anonymous temporary file, which ends with the process."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ResultError
from evogt_study.storage.slabs import stretches

IN_MEMORY = 2**24
"""Bytes up to which an array is held in memory: a number for each of a million runs is 8 MB, so that only variables
with dimensions of their own are mapped."""

WRITTEN_AT_ONCE = 2**20
"""Bytes of a write: few beside `IN_MEMORY`, and so many that calls take no time beside bytes."""


# Objects stay in memory, since pointers mean nothing in a file.  A file is written out and not left as a hole: a page
# of a hole that finds the disk full ends the process with SIGBUS.  The mapping keeps the file, which has no name, after
# it is closed: both end with the array.  A block has one value at least, which may be a string that is longer than
# `WRITTEN_AT_ONCE`.
def filled(shape: tuple[int, ...], dtype: npt.DTypeLike, fill: Any, beside: Path | None) -> npt.NDArray[Any]:
    """Make an array with `fill` everywhere, a large one out of core in the folder of the path `beside`.

    beside: None holds it in memory, whatever its size.

    Raises ResultError where the disk has no room for it.
    """
    kind, count = np.dtype(dtype), math.prod(shape)
    if beside is None or kind.hasobject or count * kind.itemsize <= IN_MEMORY:
        return np.full(shape, fill, dtype=kind)
    block = np.full(max(1, min(count, WRITTEN_AT_ONCE // kind.itemsize)), fill, dtype=kind)
    try:
        with tempfile.TemporaryFile(prefix=f".{beside.name}.", dir=beside.parent) as file:
            for part in stretches(count, len(block)):
                file.write(block[: part.stop - part.start].tobytes())
            file.flush()
            return np.asarray(np.memmap(file, kind, "r+", shape=shape))
    except OSError as error:
        reason = error.strerror or error
        raise ResultError(f"cannot write beside {beside} what is held of its runs meanwhile: {reason}") from None
