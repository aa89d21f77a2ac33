"""Compute confidence intervals and standard errors of a statistic.

Samples have n units of k values each: (..., n, k) -> (..., 2) for `interval`, (..., n, k) -> (...) for
`standard_error`.  A unit, such as a seed, is an independent observation: all of its values are resampled together.  NaN
marks a missing value.  The interval of equal values is the value itself.  If a value is infinite, only order statistics
give an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.inference import kernels, means
from evogt_study.inference.kernels import Array, Kernel, kernel_of, logarithms, probability_of, without_infinite
from evogt_study.inference.means import BATCH, normal_quantile, resampled_statistic

CONFIDENCE = 0.95
RESAMPLES = 999
"""As many that both 2.5 % quantiles of them are resamples: 25 beyond each.  1999 covered no better in simulations."""
BOOTSTRAP_SEED = 0
OF_MEANS_ONLY = ("bootstrap-t", "student")
_METHODS = (*OF_MEANS_ONLY, "order", "percentile", "bonett")
MIN_UNITS = 6
"""Fewest units of the default intervals: the order statistics of 5 hold the median at 94 % only."""
_OF_MEANS = ("mean", "geometric_mean")


@dataclass(frozen=True)
class Interval:
    """Choice of a confidence interval: statistic, method, confidence and number of units.

    Parameters
    ----------
    of : str
        Statistic: mean, median, std, geometric_mean, min, max, or a quantile in percent such as "q25".
    method : str
        Method, see Notes.  "" is bootstrap-t for means and geometric means (in `summary`, Wilson's interval for zeros
        and ones), order for medians and other quantiles, bonett for std (percentile if units have several values), and
        percentile for other statistics.  docs/statistics.md gives the coverage of these methods.
    confidence : float
        Confidence level, in (0, 1).
    resamples : int
        Number of bootstrap resamples.
    seed : int
        Seed of the resamples.
    min_units : int
        Fewest units of the method, at least 2.  With fewer units a mean has Student's interval, and other statistics
        have none (NaN).

    Raises
    ------
    ParameterError
        If a value is not valid, or the method does not suit the statistic.

    Notes
    -----
    - bootstrap-t: quantiles of the studentised resamples.  The interval is nowhere narrower than Student's, except for
      a lower end below zero if all values are positive: then the lower end is the least value, or zero if there are
      fewer than 6 units (at 95 %).
    - student: Student's interval.
    - order: from order statistics; exact for independent values.
    - percentile: the (1 -+ confidence) / 2 quantiles of the resampled statistics.
    - bonett: of the logarithm of std, with its kurtosis (Bonett, Comput. Stat. Data Anal. 50, 2006).

    Examples
    --------
    >>> Interval("median").chosen
    'order'
    """

    of: str = "mean"
    method: str = ""
    confidence: float = CONFIDENCE
    resamples: int = RESAMPLES
    seed: int = BOOTSTRAP_SEED
    min_units: int = MIN_UNITS

    def __post_init__(self) -> None:
        kernel_of(self.of)
        if self.method not in ("", *_METHODS):
            raise ParameterError("method", f"one of {', '.join(_METHODS)}", self.method)
        if not 0.0 < self.confidence < 1.0:
            raise ParameterError("confidence", "in (0, 1)", self.confidence, remedy="use e.g. 0.95")
        if self.resamples < 1:
            raise ParameterError("resamples", "at least 1", self.resamples, remedy="use e.g. 999")
        if self.seed < 0:
            raise ParameterError("seed", "an integer >= 0", self.seed)
        if self.min_units < 2:
            raise ParameterError("min_units", "at least 2", self.min_units, remedy="use e.g. 6")
        if self.method == "bonett" and self.of != "std":
            raise ParameterError("of", "std for bonett", self.of)
        if self.method in OF_MEANS_ONLY and self.of not in _OF_MEANS:
            raise ParameterError("of", f"one of {', '.join(_OF_MEANS)} for {self.method}", self.of)
        if self.method == "order" and probability_of(self.of) is None:
            raise ParameterError("of", "median, or a quantile in percent like q25, for order statistics", self.of)

    @property
    def chosen(self) -> str:
        """Method, or the default method of the statistic if `method` is ""."""
        if self.method:
            return self.method
        if self.of in _OF_MEANS:
            return "bootstrap-t"
        return "order" if probability_of(self.of) is not None else "bonett" if self.of == "std" else "percentile"


def interval(samples: Array, how: Interval) -> Array:
    """Return the interval that `how` describes, (..., n, k) -> (..., 2).

    If fewer than `how.min_units` units have a value, it is Student's interval for a mean, and NaN otherwise.  It is NaN
    if a value is infinite and the method is not order.
    """
    *lead, units, within = samples.shape
    rows = samples.reshape(math.prod(lead), units, within)
    few = (~np.isnan(rows)).any(axis=-1).sum(axis=-1) < how.min_units
    with np.errstate(over="ignore"):
        known = rows if how.chosen == "order" else without_infinite(rows)
        found = _limits(known, how)
        found[few] = _limits(known[few], replace(how, method="student")) if how.of in _OF_MEANS else np.nan
    return found.reshape(*lead, 2)


def _limits(rows: Array, how: Interval) -> Array:
    probability = probability_of(how.of)
    if how.chosen == "order" and probability is not None:
        return kernels.quantile_interval(rows, probability, how.confidence)
    if how.of == "mean":
        return ratio_interval(*means.unit_sums(rows), how)
    if how.of == "geometric_mean" and how.chosen in OF_MEANS_ONLY:
        found = np.exp(ratio_interval(*means.unit_sums(logarithms(rows)), how))
        # `logarithms` has left those values out, as if they were missing
        found[np.asarray((rows <= 0.0).any(axis=(-2, -1)))] = np.nan
        return found
    return _resampled_interval(rows, kernel_of(how.of)[0], how)


def ratio_interval(above: Array, below: Array, how: Interval, logarithmic: bool = False) -> Array:
    """Return the interval of sum(above) / sum(below) over units that have both, (m, n) -> (m, 2).

    It is NaN below two such units.  logarithmic: use logarithms if all values are positive.  Then the interval of the
    inverse ratio has the inverse ends.
    """
    found = np.full((len(above), 2), np.nan)
    for which, fit, scale in means.fits(above, below, max(1, BATCH // how.resamples)):
        if how.chosen == "student":
            limits = means.student_interval(fit, how.confidence, logarithmic)
        elif how.chosen == "percentile":
            limits = means.percentile_interval(fit, how.confidence, how.resamples, how.seed)
        else:
            limits = means.bootstrap_t_interval(fit, how.confidence, logarithmic, how.resamples, how.seed)
        found[which] = limits * scale[:, None]
    return found


def share_interval(units: Array, confidence: float) -> tuple[float, float]:
    """Wilson's interval of a share, from units (n, k) of zeros and ones; (0, 1) without values.

    Values of one unit are dependent.  The effective number of values is N / (1 + (k - 1) rho), with Student's quantile.
    rho is the correlation within units.  It is estimated from the spread of the unit means, and drawn towards 1 if few
    zeros (or ones) show it: the effective number is the number of units if all values are equal.
    """
    units = units[~np.isnan(units).all(axis=-1)]
    n, total = len(units), float((~np.isnan(units)).sum())
    if not n:
        return 0.0, 1.0
    share, k, z = float(np.nansum(units)) / total, total / n, normal_quantile(confidence)
    if k > 1.0 and n > 1:
        rare = total * min(share, 1.0 - share)
        spread = float(np.nanmean(units, axis=-1).var(ddof=1))
        rho = (spread * k / (share * (1.0 - share)) - 1.0) / (k - 1.0) if rare else 1.0
        rho = (rare * min(1.0, max(0.0, rho)) + 1.0) / (rare + 1.0)
        total, z = total / (1.0 + (k - 1.0) * rho), means.student_quantile(n, confidence)
    elif k > 1.0:
        total = 1.0  # one unit
    middle, scale = share + z**2 / (2.0 * total), 1.0 + z**2 / total
    half = z * math.sqrt(share * (1.0 - share) / total + z**2 / (4.0 * total**2))
    # at the ends exactly, because rounding would leave 1e-17
    low = 0.0 if share == 0.0 else max(0.0, (middle - half) / scale)
    return low, 1.0 if share == 1.0 else min(1.0, (middle + half) / scale)


def share_intervals(samples: Array, confidence: float) -> Array:
    """`share_interval` of samples (..., n, k) -> (..., 2); NaN without values."""
    found = np.full((*samples.shape[:-2], 2), np.nan)
    for place in np.ndindex(*samples.shape[:-2]):
        if not np.isnan(samples[place]).all():
            found[place] = share_interval(samples[place], confidence)
    return found


def _resampled_interval(rows: Array, kernel: Kernel, how: Interval) -> Array:
    """Return the percentile or Bonett's interval of any statistic, (m, n, k) -> (m, 2)."""
    found = np.full((len(rows), 2), np.nan)
    units = np.asarray(~np.isnan(rows).all(axis=-1), dtype=bool)
    counts = units.sum(axis=-1)
    # rows with equally many units are resampled in one call
    for size in np.unique(counts[counts > 1]).tolist():
        which = np.flatnonzero(counts == size)
        values = rows[which][units[which]].reshape(len(which), size, rows.shape[-1])
        flat = values.reshape(len(which), -1)
        same = kernels.minimum(flat) == kernels.maximum(flat)  # every resample is the same value
        found[which[same]] = kernel(flat[same])[:, None]
        values, which = values[~same], which[~same]
        if how.chosen == "bonett" and (kernels.count(values) == 1).all():
            found[which] = _bonett(np.nansum(values, axis=-1), how.confidence)
        elif len(which):
            resampled = resampled_statistic(values, kernel, how.resamples, how.seed)
            tails = (1.0 - how.confidence) / 2.0, (1.0 + how.confidence) / 2.0
            found[which] = np.quantile(resampled, tails, axis=-1).T
    return found


def _bonett(rows: Array, confidence: float) -> Array:
    """Bonett's interval of the standard deviation of complete rows (m, n); NaN for fewer than 5 values."""
    n, z = rows.shape[1], normal_quantile(confidence)
    if n < 5:
        return np.full((len(rows), 2), np.nan)
    cut = min(int(n / (2.0 * math.sqrt(n - 4.0))), (n - 1) // 2)  # values that the trimmed mean leaves out at each end
    middle = np.sort(rows, axis=-1)[:, cut : n - cut].mean(axis=-1)
    s, factor = kernels.std(rows), n / (n - z)
    fourth = (((rows - middle[:, None]) / s[:, None]) ** 4).sum(axis=-1) * n / (n - 1.0) ** 2
    half = z * factor * np.sqrt(np.maximum(fourth - (n - 3.0) / n, 0.0) / (n - 1.0))
    return np.exp(np.stack([-half, half], axis=-1) / 2.0) * (math.sqrt(factor) * s)[:, None]


def standard_error(samples: Array, of: str) -> Array:
    """Return the standard error of a statistic of n units of k values, (..., n, k) -> (...).

    - mean: std / sqrt(n), or the error of a ratio of sums if units have several values
    - geometric mean G: G times the error of the mean logarithm
    - quantiles: Maritz and Jarrett's
    - std s: sqrt((m4 - s^4 (n - 3) / (n - 1)) / n) / (2 s) with the fourth central moment m4

    If units have several values, the error of a quantile or of std is the standard deviation over resampled units.  The
    error is NaN below two units, for minimum and maximum, and if a value is infinite.
    """
    *lead, units, within = samples.shape
    rows = without_infinite(samples.reshape(math.prod(lead), units, within))
    return _errors(rows, of).reshape(lead)


def _errors(rows: Array, of: str) -> Array:
    probability, kernel = probability_of(of), kernel_of(of)[0]
    flat = rows.reshape(len(rows), rows.shape[1] * rows.shape[2])
    if of == "mean":
        return ratio_error(*means.unit_sums(rows))
    if of in ("min", "max"):
        return np.full(len(rows), np.nan)
    if of == "geometric_mean":
        return kernel(flat) * ratio_error(*means.unit_sums(logarithms(rows)))
    if (kernels.count(rows) > 1).any():
        found = np.full(len(rows), np.nan)
        for row, values in enumerate(rows):
            units = values[~np.isnan(values).all(axis=-1)]
            if len(units) > 1:
                found[row] = resampled_statistic(units[None], kernel, RESAMPLES, BOOTSTRAP_SEED).std()
        return found
    return _std_error(flat) if probability is None else kernels.quantile_error(flat, probability)


def ratio_error(above: Array, below: Array) -> Array:
    """Return the standard error of sum(above) / sum(below) over units that have both, (m, n) -> (m,)."""
    found = np.full(len(above), np.nan)
    for which, fit, scale in means.fits(above, below, max(1, len(above))):
        found[which] = fit.error * scale
    return found


def _std_error(samples: Array) -> Array:
    n, s = kernels.count(samples).astype(float), kernels.std(samples)
    # in units of s: the fourth power of large values may overflow
    apart = (samples - kernels.mean(samples)[:, None]) / np.where(s > 0.0, s, 1.0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Array = s * np.sqrt(np.maximum(kernels.mean(apart**4) - (n - 3.0) / (n - 1.0), 0.0) / n) / 2.0
    return error
