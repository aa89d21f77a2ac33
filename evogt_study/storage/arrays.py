"""Arrays out of core: mapped from an anonymous temporary file, which ends with the process."""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from evogt_study.errors import ResultError
from evogt_study.storage.atomic import written_whole

SLAB = 2**15
"""Values in a slab at most: 256 KiB of numbers, and some MB as Python's strings.

A slab is a chunk of the result file too, so that each chunk is compressed, checksummed and read once.
"""


# the last directions whole, as far as they go: chunks of a file are then long stretches of memory
def slab_shape(shape: tuple[int, ...], limit: int = SLAB) -> tuple[int, ...]:
    """Shape of the largest slabs of at most `limit` values, each of which is a stretch of the array in C order."""
    whole, lengths = 1, []
    for length in reversed(shape):
        lengths.append(max(1, min(length, limit // whole)))
        # once a direction is cut, those before it have length one: else a slab would not be contiguous in C order
        whole = limit if lengths[-1] < length else whole * max(1, length)
    return tuple(reversed(lengths))


def slabs(shape: tuple[int, ...], limit: int = SLAB) -> Iterator[tuple[slice, ...]]:
    """Slices that between them meet each value of an array of this shape once, in C order."""
    if math.prod(shape) <= limit:
        yield tuple(slice(0, length) for length in shape)
        return
    along = [
        [slice(start, min(start + step, length)) for start in range(0, length, step)]
        for length, step in zip(shape, slab_shape(shape, limit), strict=True)
    ]
    yield from itertools.product(*along)


def stretches(count: int, limit: int = SLAB) -> Iterator[slice]:
    """`slabs` of a list."""
    return (slice(start, min(start + limit, count)) for start in range(0, count, limit))


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


Array = npt.NDArray[np.float64]
SHARED_FOLDER = "EVOGT_SHARED_FOLDER"
"""Environment variable of workers: a folder that they have in common and that is removed with their cluster."""
LOOK_SECONDS = 0.02
"""Between looks at a lock that another worker holds: a time limit reaches a run only between two of them."""


# without the folder, as in a cluster of the user's, every worker computes: slower, and the same numbers
def once(name: str, compute: Callable[[], Array]) -> Array:
    """Return the array of `compute`, from this process or from another that computed it under this name."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None or not os.path.isdir(folder):
        return compute()
    path = Path(folder) / f"{name}.npy"
    with FileLock(path.with_suffix(".lock"), poll_interval=LOOK_SECONDS):  # that of a process that dies is free again
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        values = compute()
        with suppress(OSError), written_whole(path) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)  # a full disk costs the others time, nothing else
        return values
