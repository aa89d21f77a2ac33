"""Compute statistics over the last axis of an array: (..., n) -> (...).

NaN marks a missing value, which no statistic counts.  A row without values has the statistic NaN.  An infinite value is
a value, for example an upper bound that does not exist: then the mean is infinite and the standard deviation NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Kernel = Callable[[Array], Array]


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
