"""Bootstrap resamples of units: counts of each unit, the same for all samples of one size.

The draws come from an explicit seed and the number of units alone, so that an interval is the same each time, whatever
stands beside its sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from evogt_study.inference.kernels import Array

BATCH = 2**21
"""Counts or resampled values at a time: 16 MB of numbers, little beside what a Python process takes."""
KEPT = 2**24
"""Counts up to which those of a sample size are kept: 32 MB, 16,000 seeds; drawing them takes longer than summing."""

Counts = npt.NDArray[np.uint16]


def resampled_sums(columns: Array, resamples: int, seed: int) -> Array:
    """Sums (..., resamples) over the units of each bootstrap resample, of columns (..., n)."""
    flat = columns.reshape(-1, columns.shape[-1])
    blocks = [flat @ counts.astype(float).T for counts in _counts(columns.shape[-1], resamples, seed)]
    return np.concatenate(blocks, axis=-1).reshape(*columns.shape[:-1], resamples)


def resampled_statistic(values: Array, kernel: Callable[[Array], Array], resamples: int, seed: int) -> Array:
    """A statistic of the resamples, (m, n, k) -> (m, resamples): each of n units is drawn with all of its k values."""
    rows, units, within = values.shape
    rng = np.random.default_rng(seed)
    places = rng.integers(0, units, (resamples, units), dtype=np.int32)
    step = max(1, BATCH // max(1, values.size))
    found = [
        kernel(values[:, part].reshape(rows, len(part), units * within))
        for part in (places[start : start + step] for start in range(0, resamples, step))
    ]
    return np.concatenate(found, axis=-1)


def _counts(size: int, resamples: int, seed: int) -> Iterator[Counts]:
    """Counts of each unit in each resample, (b, size), in blocks of resamples."""
    if size * resamples > KEPT:
        yield from _drawn(size, resamples, seed)
        return
    kept, step = _kept_counts(size, resamples, seed), max(1, BATCH // size)
    for start in range(0, resamples, step):
        yield kept[start : start + step]


@lru_cache(maxsize=4)  # samples of one table have mostly one or two sizes, and pictures of them the same
def _kept_counts(size: int, resamples: int, seed: int) -> Counts:
    counts = np.concatenate(list(_drawn(size, resamples, seed)))
    counts.flags.writeable = False
    return counts


def _drawn(size: int, resamples: int, seed: int) -> Iterator[Counts]:
    rng = np.random.default_rng(seed)
    step = max(1, BATCH // size)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        # each resample counts into a stretch of its own, so that one bincount does for all
        places = rng.integers(0, size, (count, size)) + size * np.arange(count)[:, None]
        found = np.bincount(places.ravel(), minlength=count * size).reshape(count, size)
        yield found.astype(np.uint16)  # a unit is in no resample 65,536 times
