"""Large arrays: part by part, out of core, or computed once for all workers of a machine.

`slabs` splits an array into contiguous parts.  `filled` makes an array that may be larger than memory: it is mapped
from an anonymous temporary file, which ends with the process.  `once` shares a computed array between workers.
"""

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

Array = npt.NDArray[np.float64]
SLAB = 2**15
"""Largest number of values in a slab: 256 KiB of numbers, and some MB of Python strings.  A slab is also a chunk of the
result file, so each chunk is compressed, checksummed and read once."""
IN_MEMORY = 2**24
"""Bytes of the largest array in memory.  A number for each of a million runs has 8 MB, so only variables with
dimensions of their own are mapped."""
WRITTEN_AT_ONCE = 2**20
"""Bytes of a write: few compared with `IN_MEMORY`, and enough to hide the overhead of a call."""
SHARED_FOLDER = "EVOGT_SHARED_FOLDER"
"""Environment variable of workers: a folder that they share and that is removed with their cluster."""
LOOK_SECONDS = 0.02
"""Seconds between two attempts to take a lock.  A run timeout takes effect only between two attempts."""


# the last dimensions are complete if possible, so that chunks of a file are long stretches of memory
def slab_shape(shape: tuple[int, ...], limit: int = SLAB) -> tuple[int, ...]:
    """Return the shape of the largest slabs of at most `limit` values that are contiguous in C order."""
    whole, lengths = 1, []
    for length in reversed(shape):
        lengths.append(max(1, min(length, limit // whole)))
        # once a dimension is cut, the dimensions before it have length 1: otherwise a slab would not be contiguous
        whole = limit if lengths[-1] < length else whole * max(1, length)
    return tuple(reversed(lengths))


def slabs(shape: tuple[int, ...], limit: int = SLAB) -> Iterator[tuple[slice, ...]]:
    """Yield slices that together contain each value of an array of this shape once, in C order."""
    if math.prod(shape) <= limit:
        yield tuple(slice(0, length) for length in shape)
        return
    along = [
        [slice(start, min(start + step, length)) for start in range(0, length, step)]
        for length, step in zip(shape, slab_shape(shape, limit), strict=True)
    ]
    yield from itertools.product(*along)


def stretches(count: int, limit: int = SLAB) -> Iterator[slice]:
    """Yield the `slabs` of a list."""
    return (slice(start, min(start + limit, count)) for start in range(0, count, limit))


# Objects stay in memory because pointers mean nothing in a file.  The file is written completely, not left as a hole: a
# page of a hole that finds the disk full ends the process with SIGBUS.  The mapping keeps the nameless file after it is
# closed; both end with the array.  A block has at least one value, which may be a string longer than `WRITTEN_AT_ONCE`.
def filled(shape: tuple[int, ...], dtype: npt.DTypeLike, fill: Any, beside: Path | None) -> npt.NDArray[Any]:
    """Make an array with `fill` everywhere; a large one is out of core, in the folder of the path `beside`.

    beside: None keeps the array in memory, whatever its size.  Raises ResultError if the disk is full.
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


# without the folder, as in a cluster of the user, every worker computes: slower, with the same numbers
def once(name: str, compute: Callable[[], Array]) -> Array:
    """Return the array of `compute`, which only the first process computes under this name."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None or not os.path.isdir(folder):
        return compute()
    path = Path(folder) / f"{name}.npy"
    with FileLock(path.with_suffix(".lock"), poll_interval=LOOK_SECONDS):  # free again if its process dies
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        values = compute()
        with suppress(OSError), written_whole(path) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)  # if the disk is full, others compute again
        return values
