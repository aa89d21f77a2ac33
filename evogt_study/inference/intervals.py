"""Bootstrap confidence intervals on arrays: over the last axis, (..., n) -> (..., 2), of the values that are finite.

Resamples are drawn from an explicit seed, and rows of equally many values share them: an interval does not depend on
what stands beside its row.  Below two values there is no interval, and NaN; of equal values it is the value itself.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError
from evogt_study.inference.kernels import Array, Kernel

CONFIDENCE = 0.95
RESAMPLES = 999
BOOTSTRAP_SEED = 0
METHODS = ("percentile", "bca")

WEIGHTED_UP_TO = 1024
"""Sizes of samples whose resamples are drawn as weights and kept; larger ones are drawn as positions, one by one."""
BATCH = 2**21
"""Values of resamples at a time."""


@dataclass(frozen=True)
class Bootstrap:
    """How an interval is found: of which statistic, by which method, at which confidence, from which resamples.

    method: percentile, the (1 -+ confidence) / 2 quantiles of the resamples' statistics; or bca, bias-corrected and
    accelerated (Efron, J. Am. Stat. Assoc. 82, 1987), by scipy.stats.bootstrap, of which the cost grows as n^2.

    Raises ParameterError for values that are none of these.
    """

    of: str = "mean"
    method: str = "percentile"
    confidence: float = CONFIDENCE
    resamples: int = RESAMPLES
    seed: int = BOOTSTRAP_SEED

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ParameterError("method", f"one of {', '.join(METHODS)}", self.method)
        if not 0.0 < self.confidence < 1.0:
            raise ParameterError("confidence", "in (0, 1)", self.confidence, remedy="use e.g. 0.95")
        if self.resamples < 1:
            raise ParameterError("resamples", "at least 1", self.resamples, remedy="use e.g. 999")
        if self.seed < 0:
            raise ParameterError("seed", "an integer >= 0", self.seed)

    @property
    def tails(self) -> tuple[float, float]:
        """Probabilities of the interval's ends."""
        return (1.0 - self.confidence) / 2.0, (1.0 + self.confidence) / 2.0


def interval(samples: Array, kernel: Kernel, how: Bootstrap) -> Array:
    """Interval of the statistic that `kernel` computes; the percentile one of the mean by its own fast route.

    NaN below two values, and where bca is not defined (all resamples, or all but one value, on one side).
    """
    if how.of == "mean" and how.method == "percentile":
        return bootstrap_interval(samples, how.confidence, how.resamples, how.seed)
    rows = samples.reshape(math.prod(samples.shape[:-1]), samples.shape[-1])
    found = np.full((len(rows), 2), np.nan)
    for which, values in complete_groups(rows):
        found[which] = _by_scipy(values, kernel, how)
    return found.reshape(*samples.shape[:-1], 2)


def bootstrap_interval(
    samples: Array, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = BOOTSTRAP_SEED
) -> Array:
    """Percentile bootstrap interval of the mean; NaN below two values.

    Rows of equally many values share one set of resamples, so that they cost one matrix product.
    """
    rows = samples.reshape(math.prod(samples.shape[:-1]), samples.shape[-1])
    found = np.full((len(rows), 2), np.nan)
    tails = Bootstrap(confidence=confidence, resamples=resamples, seed=seed).tails
    for which, values in complete_groups(rows):
        step = max(1, BATCH // resamples)
        for start in range(0, len(values), step):
            means = resampled_means(values[start : start + step], resamples, seed)
            found[which[start : start + step]] = np.quantile(means, tails, axis=-1).T
        same = (values == values[:, :1]).all(axis=-1)
        found[which[same]] = values[same, :1]  # to the last digit
    return found.reshape(*samples.shape[:-1], 2)


def complete_groups(rows: Array) -> Iterator[tuple[npt.NDArray[np.intp], Array]]:
    """The rows (m, n) by their number of finite values, if two or more: their positions, and these values alone."""
    ok = np.isfinite(rows)
    counts = ok.sum(axis=-1)
    if len(rows) and counts.min() == rows.shape[1] > 1:
        yield np.arange(len(rows)), rows
        return
    for size in np.unique(counts[counts > 1]):
        which = np.flatnonzero(counts == size)
        yield which, rows[which][ok[which]].reshape(len(which), int(size))


def resampled_means(rows: Array, resamples: int, seed: int) -> Array:
    """Means (m, resamples) of the bootstrap resamples of each row (m, n), the same resamples for all rows."""
    size = rows.shape[1]
    if size <= WEIGHTED_UP_TO:
        product: Array = rows @ _resampling_weights(size, resamples, seed).T
        return product
    rng = np.random.default_rng(seed)
    means = np.empty((len(rows), resamples))
    for number in range(resamples):
        means[:, number] = rows[:, rng.integers(0, size, size, dtype=np.int32)].mean(axis=-1)
    return means


@lru_cache(maxsize=4)  # the same for every sample of this size; of a thousand they take 8 MB
def _resampling_weights(size: int, resamples: int, seed: int) -> Array:
    """Weights (resamples, size) whose product with a sample gives the means of its bootstrap resamples."""
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(size, np.full(size, 1.0 / size), size=resamples) / size
    weights.flags.writeable = False
    return weights


def _by_scipy(rows: Array, kernel: Kernel, how: Bootstrap) -> Array:
    """scipy.stats.bootstrap of complete rows (m, n), equal values apart, of which bca is 0/0."""
    import scipy.stats  # takes most of a second, which the percentile interval of the mean does not need

    same = (rows == rows[:, :1]).all(axis=-1)
    found = np.empty((len(rows), 2))
    found[same] = kernel(rows[same])[:, None]
    step = max(1, BATCH // (how.resamples * rows.shape[1]))
    other = np.flatnonzero(~same)
    for which in (other[start : start + step] for start in range(0, len(other), step)):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)  # NaN, which callers tell
            limits = scipy.stats.bootstrap(
                (rows[which],),
                lambda values, axis: kernel(np.moveaxis(values, axis, -1)),
                axis=-1,
                vectorized=True,
                confidence_level=how.confidence,
                n_resamples=how.resamples,
                method="BCa" if how.method == "bca" else "percentile",
                batch=max(1, BATCH // rows[which].size),
                rng=np.random.default_rng(how.seed),
            ).confidence_interval
        found[which] = np.stack([limits.low, limits.high], axis=-1)
    return found
