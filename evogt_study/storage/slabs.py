"""Large arrays part by part, in C order: what is read, hashed or written of them is in memory for its turn only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

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
