"""Compute confidence intervals and standard errors of samples of n units of k values, with NaN for missing values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.inference import kernels, means
from evogt_study.inference.kernels import Array, divide, kernel_of, logarithms, probability_of, without_infinite
from evogt_study.inference.means import normal_quantile, student_quantile, unit_sums

CONFIDENCE = 0.95
RESAMPLES, BOOTSTRAP_SEED = 999, 0  # 25 resamples beyond each 2.5 % quantile; 1999 resamples had the same coverage
MIN_UNITS = 6  # for the default intervals: the range of 5 values contains the median with only 94 %
NO_SPREAD = 1e-12  # variance of a resample, relative to its sample, of equal values: rounding leaves 1e-16 n
_OF_MEANS, _OF_MEANS_ONLY = ("mean", "geometric_mean"), ("bootstrap-t", "student")
_METHODS = (*_OF_MEANS_ONLY, "order", "percentile", "bonett")


@dataclass(frozen=True)
class Interval:
    """Choice of a confidence interval: statistic, method, confidence and units.

    Parameters
    ----------
    of : str
        Statistic: mean, median, std, geometric_mean, min, max, or a quantile in percent such as "q25".
    method : str
        Method, see Notes.  The default "" is bootstrap-t for means and geometric means, and order for quantiles.  For
        std, it is bonett, or percentile if units have several values.  For other statistics, it is percentile.
        `summary` uses Wilson's interval for zeros and ones.  docs/background/coverage.md gives the coverage of these
        methods.
    confidence : float
        Confidence level, in (0, 1).
    resamples : int
        Number of bootstrap resamples.
    seed : int
        Seed of the resamples.
    min_units : int
        Smallest number of units for the method, at least 2.  With fewer units, a mean has Student's interval and other
        statistics have NaN.

    Raises
    ------
    ParameterError
        If a value is not valid, or the method does not suit the statistic.

    Notes
    -----
    - bootstrap-t (Efron 1981): never narrower than Student's interval, and never negative for positive values.
    - order: from order statistics, and exact for independent values.
    - percentile: the (1 -+ confidence) / 2 quantiles of the resampled statistics.
    - bonett: interval of the logarithm of std, with the kurtosis (Bonett, Comput. Stat. Data Anal. 50, 2006).

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
        if self.method in _OF_MEANS_ONLY and self.of not in _OF_MEANS:
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
    """Return the confidence intervals of samples (..., n, k) as (..., 2).  See `Interval.min_units` for few units."""
    *lead, units, within = samples.shape
    rows = samples.reshape(math.prod(lead), units, within)
    few = (~np.isnan(rows)).any(axis=-1).sum(axis=-1) < how.min_units
    with np.errstate(over="ignore"):
        known = rows if how.chosen == "order" else without_infinite(rows)
        found = _compute_limits(known, how)
        found[few] = _compute_limits(known[few], replace(how, method="student")) if how.of in _OF_MEANS else np.nan
    return found.reshape(*lead, 2)


def _compute_limits(rows: Array, how: Interval) -> Array:
    probability = probability_of(how.of)
    if how.chosen == "order" and probability is not None:
        return kernels.quantile_interval(rows, probability, how.confidence)
    if how.of == "mean":
        return ratio_interval(*unit_sums(rows), how)
    if how.of == "geometric_mean" and how.chosen in _OF_MEANS_ONLY:
        found = np.exp(ratio_interval(*unit_sums(logarithms(rows)), how))
        # `logarithms` has left those values out, as if they were missing
        found[np.asarray((rows <= 0.0).any(axis=(-2, -1)))] = np.nan
        return found
    return _compute_bootstrap_interval(rows, how)


def ratio_interval(above: Array, below: Array, how: Interval, logarithmic: bool = False) -> Array:
    """Return the interval of sum(above) / sum(below) over common units, (m, n) -> (m, 2)."""
    found = np.full((len(above), 2), np.nan)
    for which, fit, scale in means.iterate_fits(above, below, max(1, means.BATCH // how.resamples)):
        found[which] = _compute_fit_interval(fit, how, logarithmic) * scale[:, None]
    return found


def _compute_fit_interval(fit: means.Fit, how: Interval, logarithmic: bool) -> Array:
    """Return Student's interval, the percentile interval or the bootstrap-t interval (Efron 1981), (m, 2).

    Resamples of t* = (R* - R) / s*, or of log(R*/R) R* / s* on logarithms, widen Student's interval.  A mean of
    positive values has a lower end of zero, or of the smallest value of a unit if 2^-n <= (1 - confidence) / 2.
    """
    n, ratio = fit.residuals.shape[-1], fit.ratio[:, None]
    tails = [(1.0 - how.confidence) / 2, (1.0 + how.confidence) / 2]
    if how.chosen == "percentile":
        return np.quantile(ratio + means.resample_fits(fit, how.resamples, how.seed)[0], tails, axis=-1).T
    positive = (fit.residuals + ratio * fit.shares > 0.0) & (fit.shares > 0.0)
    logs = np.asarray(positive.all(axis=-1) & logarithmic)[:, None]
    low = np.full(len(ratio), -student_quantile(n, how.confidence))
    high = -low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if how.chosen != "student":
            moved, below, squares = means.resample_fits(fit, how.resamples, how.seed)
            error, now = np.sqrt(np.maximum(squares, 0.0) * (n / (n - 1.0))) / below, ratio + moved
            t = np.where(logs, np.log(now / ratio) * now / error, moved / error)
            t = np.where((squares > NO_SPREAD * (fit.error**2)[:, None]) & np.isfinite(t), t, np.nan)
            low, high = np.fmin(kernels.quantile(t, tails[0]), low), np.fmax(kernels.quantile(t, tails[1]), high)
        steps = -np.stack([high, low], axis=-1) * fit.error[:, None]  # the upper quantile of t makes the lower end
        limits = np.where(logs, ratio * np.exp(steps / ratio), ratio + steps)
        least = (fit.residuals / fit.shares).min(axis=-1) + fit.ratio
    if how.chosen != "student":
        beyond = (least > 0.0) & (limits[:, 0] <= 0.0)
        limits[beyond, 0] = least[beyond] if 2.0**-n <= tails[0] else 0.0
    return limits


def share_interval(samples: Array, confidence: float) -> Array:
    """Return Wilson's interval of the share of ones in samples (..., n, k), as (..., 2).

    N values with the correlation rho within units count as N / (1 + (k - 1) rho).  Rare zeros or ones move rho to 1.
    """
    sums, counts = unit_sums(samples)
    n, total = kernels.count(counts), np.nansum(counts, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share, k = divide(np.nansum(sums, axis=-1), total), total / n
        rare = total * np.minimum(share, 1.0 - share)
        rho = (kernels.std(sums / counts) ** 2 * k / (share * (1.0 - share)) - 1.0) / (k - 1.0)
        rho = (rare * np.clip(np.where(rare > 0.0, rho, 1.0), 0.0, 1.0) + 1.0) / (rare + 1.0)
        pooled = k > 1.0
        size = np.where(pooled, np.where(n > 1, total / (1.0 + (k - 1.0) * rho), 1.0), total)
        z = np.where(pooled & (n > 1), student_quantile(n, confidence), normal_quantile(confidence))
        half = z * np.sqrt(share * (1.0 - share) / size + z**2 / (4.0 * size**2))
        middle, scale = share + z**2 / (2.0 * size), 1.0 + z**2 / size
        # at the ends exactly, because rounding would leave 1e-17
        low = np.where(share == 0.0, 0.0, np.maximum(0.0, (middle - half) / scale))
        high = np.where(share == 1.0, 1.0, np.minimum(1.0, (middle + half) / scale))
    return np.where(np.isnan(share)[..., None], np.nan, np.stack([low, high], axis=-1))


def _compute_bootstrap_interval(rows: Array, how: Interval) -> Array:
    """Return the percentile interval or Bonett's interval of a statistic, (m, n, k) -> (m, 2)."""
    found, kernel = np.full((len(rows), 2), np.nan), kernel_of(how.of)[0]
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
            found[which] = _compute_bonett_interval(np.nansum(values, axis=-1), how.confidence)
        elif len(which):
            resampled = means.resample_statistic(values, kernel, how.resamples, how.seed)
            tails = (1.0 - how.confidence) / 2.0, (1.0 + how.confidence) / 2.0
            found[which] = np.quantile(resampled, tails, axis=-1).T
    return found


def _compute_bonett_interval(rows: Array, confidence: float) -> Array:
    """Return Bonett's interval of the standard deviation of complete rows (m, n), or NaN for fewer than 5 values."""
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
    """Return the standard error of a statistic, (..., n, k) -> (...), or NaN if it is unknown."""
    *lead, units, within = samples.shape
    rows = without_infinite(samples.reshape(math.prod(lead), units, within))
    flat, kernel, probability = rows.reshape(len(rows), units * within), kernel_of(of)[0], probability_of(of)
    found = np.full(len(rows), np.nan)
    if of == "mean":
        found = ratio_error(*unit_sums(rows))
    elif of == "geometric_mean":
        found = kernel(flat) * ratio_error(*unit_sums(logarithms(rows)))
    elif (kernels.count(rows) > 1).any() and of not in ("min", "max"):
        for row, there in enumerate(values[~np.isnan(values).all(axis=-1)] for values in rows):
            if len(there) > 1:
                found[row] = means.resample_statistic(there[None], kernel, RESAMPLES, BOOTSTRAP_SEED).std()
    elif probability is not None:
        found = kernels.quantile_error(flat, probability)
    elif of == "std":  # sqrt((m4 - s^4 (n - 3) / (n - 1)) / n) / (2 s), with the fourth central moment m4
        n, s = kernels.count(flat).astype(float), kernels.std(flat)
        # in units of s: the fourth power of large values may overflow
        apart = (flat - kernels.mean(flat)[:, None]) / np.where(s > 0.0, s, 1.0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = s * np.sqrt(np.maximum(kernels.mean(apart**4) - (n - 3.0) / (n - 1.0), 0.0) / n) / 2.0
    return found.reshape(lead)


def ratio_error(above: Array, below: Array) -> Array:
    """Return the standard error of sum(above) / sum(below) over common units, (m, n) -> (m,)."""
    found = np.full(len(above), np.nan)
    for which, fit, scale in means.iterate_fits(above, below, max(1, len(above))):
        found[which] = fit.error * scale
    return found
