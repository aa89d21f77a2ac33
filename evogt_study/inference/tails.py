"""Tails of samples: whether a mean is known at all."""

from __future__ import annotations

import numpy as np

from evogt_study.inference import kernels
from evogt_study.inference.kernels import Array

HEAVY = 1.5
"""Tail index below which a mean is noted not to be known.  Below 2 a distribution has no variance; estimates from few
values scatter: of samples of 20, 85 % of lognormal ones with sigma 2 are below 1.5, and none of normal ones
(docs/statistics.md)."""


def largest_share(samples: Array) -> Array:
    """max |x| / sum |x| over the last axis: the share of the mean that the largest value carries."""
    sizes = np.abs(samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        return kernels.maximum(sizes) / kernels.mean(sizes) / kernels.count(samples)


def tail_index(samples: Array) -> Array:
    """Hill's estimate over the last axis: P(|x| > z) falls like z^-index.

    Infinite for equal values, 0 with infinite ones.

    1 / mean(log(x_(i) / x_(k+1))) of the k = max(3, sqrt(n)) largest |x_(1)| >= |x_(2)| >= ...; NaN below five values,
    and where x_(k+1) = 0.
    """
    sizes = np.sort(np.where(np.isnan(samples), -1.0, np.abs(samples)), axis=-1)[..., ::-1]
    n = kernels.count(samples)
    k = np.maximum(3, np.sqrt(n).astype(np.int64))
    infinite = np.isinf(samples).any(axis=-1)
    if samples.shape[-1] < 5:
        return np.where(infinite, 0.0, np.nan)
    base = np.take_along_axis(sizes, np.minimum(k, samples.shape[-1] - 1)[..., None], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.where(np.arange(samples.shape[-1]) < k[..., None], np.log(sizes / base), 0.0)
        index = k / logarithms.sum(axis=-1)
    return np.where(infinite, 0.0, np.where((n >= 5) & (base[..., 0] > 0.0), index, np.nan))
