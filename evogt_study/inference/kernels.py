"""Compute statistics over the last axis of an array: (..., n) -> (...).

NaN marks a missing value, which no statistic counts.  A row without values has the statistic NaN.  An infinite value is
a value, for example an upper bound that does not exist: then the mean is infinite and the standard deviation NaN.

Order statistics bound medians and other quantiles: the interval from the l-th to the u-th smallest of n independent
values contains the quantile p of their distribution with a probability of at least P(l <= B < u), B ~ binomial(n, p).
This holds for every distribution (David & Nagaraja, Order Statistics, 7.1).  `largest_share` and `tail_index` show
whether a few values decide the mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.special at the first use, which takes 0.2 s

from evogt_study.errors import ParameterError

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Kernel = Callable[[Array], Array]
HEAVY = 1.5
"""Tail index below which a summary notes that the mean is unreliable.  Below 2 a distribution has no variance, but
estimates from few values scatter.  In samples of 20, the index is below 1.5 for 85 % of lognormal samples with sigma 2
and for no normal sample (docs/statistics.md)."""


def count(samples: Array) -> Counts:
    """Number of values."""
    counts: Counts = (~np.isnan(samples)).sum(axis=-1, dtype=np.int64)
    return counts


def mean(samples: Array) -> Array:
    """sum_i x_i / n, never beyond the least and the greatest value, which rounding may pass."""
    ok, scale, scaled = _scaled(samples)
    found = np.clip(_mean(ok, scaled) * scale, minimum(samples), maximum(samples))
    infinite = np.isinf(samples)
    if not infinite.any():
        return found
    with np.errstate(invalid="ignore"):  # of both signs there is no sum
        return np.where(infinite.any(axis=-1), np.where(infinite, samples, 0.0).sum(axis=-1), found)


def std(samples: Array) -> Array:
    """sqrt(sum_i (x_i - mean)^2 / (n - 1)); NaN below two values and where one is infinite.

    Zero to the last digit where all are equal.
    """
    ok, scale, scaled = _scaled(samples)
    n = ok.sum(axis=-1)
    squares = (np.where(ok, scaled - _mean(ok, scaled)[..., None], 0.0) ** 2).sum(axis=-1)
    variance: Array = np.divide(squares, n - 1, out=np.full(n.shape, np.nan), where=n > 1)
    found = np.where((n > 1) & (minimum(samples) == maximum(samples)), 0.0, np.sqrt(variance) * scale)
    return np.where(np.isinf(samples).any(axis=-1), np.nan, found)


def median(samples: Array) -> Array:
    """Middle of the sorted values, or half the sum of the two in the middle."""
    ordered, n = _ordered(samples)
    low, high = _entry(ordered, (n - 1) // 2), _entry(ordered, n // 2)
    with np.errstate(invalid="ignore"):  # between infinities of both signs
        # halves first: the sum of two large numbers may overflow
        return np.where(n > 0, 0.5 * low + 0.5 * high, np.nan)


def quantile(samples: Array, probability: float) -> Array:
    """Sorted value at place p (n - 1), counted from zero, linear in between: NumPy's default."""
    ordered, n = _ordered(samples)
    place = probability * np.maximum(n - 1, 0)
    below = np.floor(place).astype(np.int64)
    low, high, part = _entry(ordered, below), _entry(ordered, below + 1), place - below
    with np.errstate(invalid="ignore"):  # an infinity from behind the values, times zero
        # equal neighbours as they are: the sum of their parts may be rounded
        between = np.where((part == 0.0) | (low == high), low, (1.0 - part) * low + part * high)
    return np.where(n > 0, between, np.nan)


def geometric_mean(samples: Array) -> Array:
    """(x_1 ... x_n)^(1/n); zero where a value is zero, NaN where one is negative."""
    ok = ~np.isnan(samples)
    n = ok.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.log(np.where(ok, samples, 1.0)).sum(axis=-1)
    mean_logarithm: Array = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
    return np.exp(mean_logarithm)


def minimum(samples: Array) -> Array:
    """Least value."""
    ok = ~np.isnan(samples)
    least: Array = np.where(ok, samples, np.inf).min(axis=-1, initial=np.inf)
    return np.where(ok.any(axis=-1), least, np.nan)


def maximum(samples: Array) -> Array:
    """Greatest value."""
    return -minimum(-samples)


def logarithms(samples: Array) -> Array:
    """log x_i, NaN where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(samples > 0.0, np.log(samples), np.nan)


def without_infinite(rows: Array) -> Array:
    """Samples (m, n, k), all NaN where a value is infinite: what takes squares and resamples has no number of these."""
    infinite = np.isinf(rows).any(axis=(-2, -1), keepdims=True)
    return np.where(infinite, np.nan, rows) if infinite.any() else rows


def is_two_valued(samples: Array) -> bool:
    """Test whether all values are 0 or 1, so that their mean is a share; False without values."""
    known = samples[~np.isnan(samples)]
    return bool(known.size) and bool(np.isin(known, (0.0, 1.0)).all())


STATISTICS: Mapping[str, tuple[Kernel, str]] = {
    "mean": (mean, "mean"),
    "std": (std, "sample standard deviation (divisor n - 1)"),
    "median": (median, "median"),
    "geometric_mean": (geometric_mean, "geometric mean"),
    "min": (minimum, "minimum"),
    "max": (maximum, "maximum"),
}
"""Statistics by name: what computes them, and their words.  Beside them: quantiles as q25, q97.5."""
_QUANTILE = re.compile(r"q(\d{1,3}(?:\.\d+)?)")


def kernel_of(name: str) -> tuple[Kernel, str]:
    """Kernel of a statistic, and its words.  Raises ParameterError for a name that is none."""
    if name in STATISTICS:
        return STATISTICS[name]
    probability = probability_of(name)
    if probability is None:
        raise ParameterError("statistic", f"one of {', '.join(STATISTICS)}, or a quantile in percent like q25", name)
    return partial(quantile, probability=probability), f"{name[1:]} % quantile"


def probability_of(name: str) -> float | None:
    """The probability of the quantile that a statistic is, None where it is none."""
    percent = _QUANTILE.fullmatch(name)
    if name == "median":
        return 0.5
    return float(percent[1]) / 100.0 if percent and float(percent[1]) <= 100.0 else None


def _scaled(samples: Array) -> tuple[npt.NDArray[np.bool_], Array, Array]:
    """Mask of finite values, a scale for each row, and the values divided by it, with zero for the others.

    A power of two brings them near one without rounding, so that squares of very large ones do not overflow.
    """
    ok = np.isfinite(samples)
    known = np.where(ok, samples, 0.0)
    scale = np.exp2(np.frexp(np.abs(known).max(axis=-1, initial=0.0))[1] - 1.0)
    return ok, scale, known / scale[..., None]


def _mean(ok: npt.NDArray[np.bool_], scaled: Array) -> Array:
    n = ok.sum(axis=-1)
    divided: Array = np.divide(scaled.sum(axis=-1), n, out=np.full(n.shape, np.nan), where=n > 0)
    return divided


def _ordered(samples: Array) -> tuple[Array, Counts]:
    """The values in order, infinities behind them for those that are missing, and how many are there."""
    return np.sort(np.where(np.isnan(samples), np.inf, samples), axis=-1), count(samples)


def _entry(ordered: Array, place: Counts) -> Array:
    """The entry of each row at its place, moved to the ends where it is beyond; infinite where a row has none."""
    size = ordered.shape[-1]
    if not size:
        return np.full(place.shape, np.inf)
    return np.take_along_axis(ordered, np.clip(place, 0, size - 1)[..., None], axis=-1)[..., 0]


def quantile_interval(values: Array, probability: float, confidence: float) -> Array:
    """Interval of a quantile of samples of n units of k values, (m, n, k) -> (m, 2).

    An end beyond the least or the greatest value is infinite: the sample does not bound the quantile there.  Values of
    one unit are dependent.  If units have several values, the binomial distribution has the effective number of values
    (Korn & Graubard, Survey Methodology 24, 1998).
    """
    flat = values.reshape(len(values), values.shape[1] * values.shape[2])
    ordered = np.sort(np.where(np.isnan(flat), np.inf, flat), axis=-1)
    n = count(flat)
    if ((~np.isnan(values)).sum(axis=-1) <= 1).all():
        low, high = _ranks(n, probability, confidence)
    else:
        low, high = _effective_ranks(values, n, probability, confidence)
    return np.stack([_ranked(ordered, low, n), _ranked(ordered, high, n)], axis=-1)


def quantile_error(values: Array, probability: float) -> Array:
    """Standard error of a quantile, (m, n) -> (m,): the spread of the resampled order statistic, without resampling.

    Maritz & Jarrett (J. Am. Stat. Assoc. 73, 1978), with the weights of Harrell and Davis: increments of a beta
    distribution with parameters (n + 1) p and (n + 1) (1 - p).  NaN below two values.
    """
    found = np.full(len(values), np.nan)
    counts = count(values)
    for size in np.unique(counts[counts > 1]):
        which = np.flatnonzero(counts == size)
        ordered = np.sort(np.where(np.isfinite(values[which]), values[which], np.inf), axis=-1)[:, :size]
        steps = np.arange(size + 1) / size
        weights = np.diff(scipy.special.betainc((size + 1) * probability, (size + 1) * (1.0 - probability), steps))
        apart = ordered - ordered.mean(axis=-1, keepdims=True)
        found[which] = np.sqrt(np.maximum(apart**2 @ weights - (apart @ weights) ** 2, 0.0))
    return found


def _ranks(n: Counts, probability: float, confidence: float) -> tuple[Counts, Counts]:
    """Ranks l and u from 1, each tail below (1 - confidence) / 2; 0 and n + 1 are beyond the sample."""
    tail = (1.0 - confidence) / 2.0
    sizes, back = np.unique(n, return_inverse=True)
    ranks = np.zeros((len(sizes), 2), dtype=np.int64)
    for row, size in enumerate(sizes):
        distribution = scipy.special.bdtr(np.arange(size + 1.0), int(size), probability)
        ranks[row] = np.minimum(np.searchsorted(distribution, [tail, 1.0 - tail]), size)
    low, high = ranks.T
    return low[back], high[back] + 1


def _effective_ranks(values: Array, n: Counts, probability: float, confidence: float) -> tuple[Counts, Counts]:
    """Ranks of the n values by the limits of Clopper and Pearson for the effective number of values.

    This is p (1 - p) / v, with the variance v between units of the share of values below the quantile.  It is
    the number of units if the values of each unit are equal, and the number of values if they are independent.
    """
    there = ~np.isnan(values)
    counts = there.sum(axis=-1)
    middle = quantile(values.reshape(len(values), values.shape[1] * values.shape[2]), probability)
    below = (there & (values <= middle[:, None, None])).sum(axis=-1)
    share = below.sum(axis=-1) / np.maximum(n, 1)
    squares = ((below - share[:, None] * counts) ** 2).sum(axis=-1)
    tail = (1.0 - confidence) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = share * (1.0 - share) * n.astype(float) ** 2 / squares
    # an estimate from few units may leave the range of one value to all of them
    effective = np.clip(np.where(squares > 0.0, effective, n), 1.0, np.maximum(n, 1))
    hits = effective * probability
    low = scipy.special.betaincinv(hits, effective - hits + 1.0, tail)
    high = scipy.special.betaincinv(hits + 1.0, effective - hits, 1.0 - tail)
    return np.ceil(low * n).astype(np.int64), np.ceil(high * n).astype(np.int64)


def _ranked(ordered: Array, rank: Counts, n: Counts) -> Array:
    """The value of each row at its rank from 1; infinite where that is not among the n values."""
    inside = (rank >= 1) & (rank <= n)
    column = np.clip(rank - 1, 0, max(0, ordered.shape[-1] - 1))
    found = np.take_along_axis(ordered, column[:, None], axis=-1)[:, 0] if ordered.shape[-1] else np.zeros(len(n))
    return np.where(inside, found, np.where(rank < 1, -np.inf, np.inf))


def largest_share(samples: Array) -> Array:
    """max |x| / sum |x| over the last axis: the share of the mean that the largest value carries."""
    sizes = np.abs(samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        return maximum(sizes) / mean(sizes) / count(samples)


def tail_index(samples: Array) -> Array:
    """Return Hill's estimate over the last axis: P(|x| > z) falls like z^-index.

    It is 1 / mean(log(x_(i) / x_(k+1))) of the k = max(3, sqrt(n)) largest |x_(1)| >= |x_(2)| >= ...  It is NaN below
    five values and if x_(k+1) = 0, infinite for equal values, and 0 if a value is infinite.
    """
    sizes = np.sort(np.where(np.isnan(samples), -1.0, np.abs(samples)), axis=-1)[..., ::-1]
    n = count(samples)
    k = np.maximum(3, np.sqrt(n).astype(np.int64))
    infinite = np.isinf(samples).any(axis=-1)
    if samples.shape[-1] < 5:
        return np.where(infinite, 0.0, np.nan)
    base = np.take_along_axis(sizes, np.minimum(k, samples.shape[-1] - 1)[..., None], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.where(np.arange(samples.shape[-1]) < k[..., None], np.log(sizes / base), 0.0)
        index = k / logarithms.sum(axis=-1)
    return np.where(infinite, 0.0, np.where((n >= 5) & (base[..., 0] > 0.0), index, np.nan))
