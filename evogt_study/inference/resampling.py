"""Bootstrap resamples of units: how often each unit is drawn, the same for all samples of one size.

The draws come from an explicit seed and the number of units alone, so that an interval is the same each time, whatever
stands beside its sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from evogt_study.inference.kernels import Array

BATCH = 2**21
"""Entries of weights or of resampled values at a time: 16 MB, which fits the caches of no processor but any memory."""


def resampled_sums(columns: Array, resamples: int, seed: int) -> Array:
    """Sums (..., resamples) over the units of each bootstrap resample, of columns (..., n)."""
    flat = columns.reshape(-1, columns.shape[-1])
    blocks = [flat @ weights.T for weights in _weights(columns.shape[-1], resamples, seed)]
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


def _weights(size: int, resamples: int, seed: int) -> Iterator[Array]:
    """How often each unit is in each resample, (b, size), in blocks of resamples."""
    if size * resamples <= BATCH:
        yield _kept_weights(size, resamples, seed)
        return
    rng = np.random.default_rng(seed)
    step = max(1, BATCH // size)
    for start in range(0, resamples, step):
        yield _drawn(rng, min(step, resamples - start), size)


@lru_cache(maxsize=4)  # of one table all samples have mostly one or two sizes; each takes at most 16 MB
def _kept_weights(size: int, resamples: int, seed: int) -> Array:
    weights = _drawn(np.random.default_rng(seed), resamples, size)
    weights.flags.writeable = False
    return weights


def _drawn(rng: np.random.Generator, resamples: int, size: int) -> Array:
    places = rng.integers(0, size, (resamples, size)) + size * np.arange(resamples)[:, None]
    return np.bincount(places.ravel(), minlength=resamples * size).reshape(resamples, size).astype(float)
