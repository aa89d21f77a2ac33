"""Compute confidence intervals and standard errors, and the number of seeds that a target precision needs.

A sample has n units of k values, with NaN for missing values.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # it imports scipy.special and scipy.optimize at the first use

from evogt_study.errors import ParameterError
from evogt_study.inference import kernels
from evogt_study.inference.kernels import Array, Counts, divide, find_kernel, logarithms, read_probability, sum_units

CONFIDENCE = 0.95
N_RESAMPLES, BOOTSTRAP_SEED = 999, 0  # 25 resamples lie beyond each 2.5 % quantile (1999 had equal coverage)
MIN_UNITS = 6  # the range of 5 values contains the median with only 94 %
MAX_ZERO_VARIANCE = 1e-12  # smaller relative variances of a resample count as zero: rounding leaves 1e-16 n
_GOAL_STATISTICS = ("mean", "median", "ratio")
FIRST_SEEDS = 20  # seeds before the first look: fewer show no reliable spread, and the paper has 20
MAX_GROWTH = 2.0  # largest factor between two looks, which limits the cost of an early spread that is too large
SIZE_RATIO = 1.05  # ratio of possible sample sizes: a sample is too large by 2.5 % on average
MIN_EQUAL_VALUES = 59  # after 59 equal values, other values have a probability below 5 %: 0.95^59 < 0.05
N_LOOKS = 10  # the confidence holds over all looks, and 20 looks widen intervals by 2 %
_OF_MEANS, _OF_MEANS_ONLY = ("mean", "geometric_mean"), ("bootstrap-t", "student")
_METHODS = (*_OF_MEANS_ONLY, "order", "percentile", "bonett")


@dataclass(frozen=True)
class Interval:
    """Choice of a confidence interval by statistic, method and confidence.

    Parameters
    ----------
    of : str
        Statistic: mean, median, std, geometric_mean, min, max, or a quantile in percent such as "q25".
    method : str
        The default "" is bootstrap-t for means and geometric means, and order for quantiles.  For
        std, it is bonett, or percentile if units have several values.  For other statistics, it is percentile.
        `summary` uses Wilson's interval for zeros and ones.  docs/background/coverage.md gives the coverage of these
        methods.
    confidence : float
        Confidence level, in (0, 1).
    resamples, seed : int
        Number of bootstrap resamples, and their seed.
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
    resamples: int = N_RESAMPLES
    seed: int = BOOTSTRAP_SEED
    min_units: int = MIN_UNITS

    def __post_init__(self) -> None:
        find_kernel(self.of)
        for_mean = self.method in _OF_MEANS_ONLY
        is_fit = self.method != "order" or read_probability(self.of) is not None
        checks = (
            ("method", f"one of {', '.join(_METHODS)}", self.method in ("", *_METHODS), ""),
            ("confidence", "in (0, 1)", 0.0 < self.confidence < 1.0, "use e.g. 0.95"),
            ("resamples", "at least 1", self.resamples >= 1, "use e.g. 999"),
            ("seed", "an integer >= 0", self.seed >= 0, ""),
            ("min_units", "at least 2", self.min_units >= 2, "use e.g. 6"),
            ("of", "std for bonett", self.method != "bonett" or self.of == "std", ""),
            ("of", f"one of {', '.join(_OF_MEANS)} for {self.method}", not for_mean or self.of in _OF_MEANS, ""),
            ("of", "median, or a quantile in percent like q25, for order statistics", is_fit, ""),
        )
        for name, wanted, holds, remedy in checks:
            if not holds:
                raise ParameterError(name, wanted, getattr(self, name), remedy=remedy)

    @property
    def chosen(self) -> str:
        """Method, or the default method of the statistic if `method` is ""."""
        if self.method:
            return self.method
        if self.of in _OF_MEANS:
            return "bootstrap-t"
        return "order" if read_probability(self.of) is not None else "bonett" if self.of == "std" else "percentile"


def interval(samples: Array, how: Interval) -> Array:
    """Return the confidence intervals (..., 2) of samples (..., n, k)."""
    *lead, units, within = samples.shape
    rows = samples.reshape(math.prod(lead), units, within)
    few = (~np.isnan(rows)).any(axis=-1).sum(axis=-1) < how.min_units
    with np.errstate(over="ignore"):
        known = rows if how.chosen == "order" else kernels.drop_infinite(rows)
        found = _compute_limits(known, how)
        found[few] = _compute_limits(known[few], replace(how, method="student")) if how.of in _OF_MEANS else np.nan
    return found.reshape(*lead, 2)


def _compute_limits(rows: Array, how: Interval) -> Array:
    probability = read_probability(how.of)
    if how.chosen == "order" and probability is not None:
        return kernels.compute_quantile_interval(rows, probability, how.confidence)
    if how.of == "mean":
        return compute_ratio_interval(*sum_units(rows), how)
    if how.of == "geometric_mean" and how.chosen in _OF_MEANS_ONLY:
        found = np.exp(compute_ratio_interval(*sum_units(logarithms(rows)), how))
        # `logarithms` replaces these values by NaN
        found[np.asarray((rows <= 0.0).any(axis=(-2, -1)))] = np.nan
        return found
    return _compute_bootstrap_interval(rows, how)


def compute_ratio_interval(above: Array, below: Array, how: Interval, logarithmic: bool = False) -> Array:
    """Return the confidence interval of sum(above) / sum(below) over common units, (m, n) -> (m, 2)."""
    found = np.full((len(above), 2), np.nan)
    for which, fit, scale in kernels.iterate_fits(above, below, max(1, kernels.MAX_BATCH_VALUES // how.resamples)):
        found[which] = _compute_fit_interval(fit, how, logarithmic) * scale[:, None]
    return found


def _compute_fit_interval(fit: kernels.Fit, how: Interval, logarithmic: bool) -> Array:
    """Return Student's interval, the percentile interval or the bootstrap-t interval (Efron 1981), (m, 2).

    Resamples of t* = (R* - R) / s*, or of log(R*/R) R* / s* on logarithms, widen Student's interval.  If the lower end
    of positive values is negative, it becomes the smallest unit for 2^-n <= (1 - confidence) / 2, else zero.
    """
    n, ratio = fit.residuals.shape[-1], fit.ratio[:, None]
    tails = [(1.0 - how.confidence) / 2, (1.0 + how.confidence) / 2]
    if how.chosen == "percentile":
        return np.quantile(ratio + kernels.resample_fits(fit, how.resamples, how.seed)[0], tails, axis=-1).T
    positive = (fit.residuals + ratio * fit.shares > 0.0) & (fit.shares > 0.0)
    logs = np.asarray(positive.all(axis=-1) & logarithmic)[:, None]
    low = np.full(len(ratio), -kernels.compute_student_quantile(n, how.confidence))
    high = -low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if how.chosen != "student":
            moved, below, squares = kernels.resample_fits(fit, how.resamples, how.seed)
            error, now = np.sqrt(np.maximum(squares, 0.0) * (n / (n - 1.0))) / below, ratio + moved
            t = np.where(logs, np.log(now / ratio) * now / error, moved / error)
            t = np.where((squares > MAX_ZERO_VARIANCE * (fit.error**2)[:, None]) & np.isfinite(t), t, np.nan)
            low, high = np.fmin(kernels.quantile(t, tails[0]), low), np.fmax(kernels.quantile(t, tails[1]), high)
        steps = -np.stack([high, low], axis=-1) * fit.error[:, None]  # the upper quantile of t makes the lower end
        limits = np.where(logs, ratio * np.exp(steps / ratio), ratio + steps)
        least = (fit.residuals / fit.shares).min(axis=-1) + fit.ratio
    if how.chosen != "student":
        beyond = (least > 0.0) & (limits[:, 0] <= 0.0)
        limits[beyond, 0] = least[beyond] if 2.0**-n <= tails[0] else 0.0
    return limits


def compute_share_interval(samples: Array, confidence: float) -> Array:
    """Return Wilson's interval of the share of ones in samples (..., n, k), as (..., 2)."""
    sums, counts = sum_units(samples)
    n, total = kernels.count(counts), np.nansum(counts, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share, k = divide(np.nansum(sums, axis=-1), total), total / n
        # N values with the correlation rho within units count as N / (1 + (k - 1) rho)
        rare = total * np.minimum(share, 1.0 - share)
        rho = (kernels.std(sums / counts) ** 2 * k / (share * (1.0 - share)) - 1.0) / (k - 1.0)
        rho = (rare * np.clip(np.where(rare > 0.0, rho, 1.0), 0.0, 1.0) + 1.0) / (rare + 1.0)
        pooled = k > 1.0
        size = np.where(pooled, np.where(n > 1, total / (1.0 + (k - 1.0) * rho), 1.0), total)
        both = kernels.compute_student_quantile(n, confidence), kernels.compute_normal_quantile(confidence)
        z = np.where(pooled & (n > 1), *both)
        half = z * np.sqrt(share * (1.0 - share) / size + z**2 / (4.0 * size**2))
        middle, scale = share + z**2 / (2.0 * size), 1.0 + z**2 / size
        # exact ends, because rounding would leave 1e-17
        low = np.where(share == 0.0, 0.0, np.maximum(0.0, (middle - half) / scale))
        high = np.where(share == 1.0, 1.0, np.minimum(1.0, (middle + half) / scale))
    return np.where(np.isnan(share)[..., None], np.nan, np.stack([low, high], axis=-1))


def _compute_bootstrap_interval(rows: Array, how: Interval) -> Array:
    """Return the percentile interval or Bonett's interval of a statistic, (m, n, k) -> (m, 2)."""
    found, kernel = np.full((len(rows), 2), np.nan), find_kernel(how.of)[0]
    units = np.asarray(~np.isnan(rows).all(axis=-1), dtype=bool)
    counts = units.sum(axis=-1)
    # rows with equally many units are resampled in one call
    for size in np.unique(counts[counts > 1]).tolist():
        which = np.flatnonzero(counts == size)
        values = rows[which][units[which]].reshape(len(which), size, rows.shape[-1])
        flat = values.reshape(len(which), -1)
        same = kernels.minimum(flat) == kernels.maximum(flat)  # all resamples are equal
        found[which[same]] = kernel(flat[same])[:, None]
        values, which = values[~same], which[~same]
        if how.chosen == "bonett" and (kernels.count(values) == 1).all():
            found[which] = _compute_bonett_interval(np.nansum(values, axis=-1), how.confidence)
        elif len(which):
            resampled = kernels.resample_statistic(values, kernel, how.resamples, how.seed)
            tails = (1.0 - how.confidence) / 2.0, (1.0 + how.confidence) / 2.0
            found[which] = np.quantile(resampled, tails, axis=-1).T
    return found


def _compute_bonett_interval(rows: Array, confidence: float) -> Array:
    """Return Bonett's interval of the standard deviation of complete rows (m, n), or NaN for fewer than 5 values."""
    n, z = rows.shape[1], kernels.compute_normal_quantile(confidence)
    if n < 5:
        return np.full((len(rows), 2), np.nan)
    cut = min(int(n / (2.0 * math.sqrt(n - 4.0))), (n - 1) // 2)  # values that the trimmed mean leaves out at each end
    middle = np.sort(rows, axis=-1)[:, cut : n - cut].mean(axis=-1)
    s, factor = kernels.std(rows), n / (n - z)
    fourth = (((rows - middle[:, None]) / s[:, None]) ** 4).sum(axis=-1) * n / (n - 1.0) ** 2
    half = z * factor * np.sqrt(np.maximum(fourth - (n - 3.0) / n, 0.0) / (n - 1.0))
    return np.exp(np.stack([-half, half], axis=-1) / 2.0) * (math.sqrt(factor) * s)[:, None]


def compute_standard_error(samples: Array, of: str) -> Array:
    """Return the standard error of a statistic of samples, (..., n, k) -> (...), or NaN if it is unknown."""
    *lead, units, within = samples.shape
    rows = kernels.drop_infinite(samples.reshape(math.prod(lead), units, within))
    flat, kernel, probability = rows.reshape(len(rows), units * within), find_kernel(of)[0], read_probability(of)
    found = np.full(len(rows), np.nan)
    if of == "mean":
        found = compute_ratio_error(*sum_units(rows))
    elif of == "geometric_mean":
        found = kernel(flat) * compute_ratio_error(*sum_units(logarithms(rows)))
    elif (kernels.count(rows) > 1).any() and of not in ("min", "max"):
        for row, there in enumerate(values[~np.isnan(values).all(axis=-1)] for values in rows):
            if len(there) > 1:
                found[row] = kernels.resample_statistic(there[None], kernel, N_RESAMPLES, BOOTSTRAP_SEED).std()
    elif probability is not None:
        found = kernels.compute_quantile_error(flat, probability)
    elif of == "std":  # sqrt((m4 - s^4 (n - 3) / (n - 1)) / n) / (2 s), with the fourth central moment m4
        n, s = kernels.count(flat).astype(float), kernels.std(flat)
        # in units of s, because the fourth power of large values may overflow
        apart = (flat - kernels.mean(flat)[:, None]) / np.where(s > 0.0, s, 1.0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = s * np.sqrt(np.maximum(kernels.mean(apart**4) - (n - 3.0) / (n - 1.0), 0.0) / n) / 2.0
    return found.reshape(lead)


def compute_ratio_error(above: Array, below: Array) -> Array:
    """Return the standard error of sum(above) / sum(below) over common units, (m, n) -> (m,)."""
    found = np.full(len(above), np.nan)
    for which, fit, scale in kernels.iterate_fits(above, below, max(1, len(above))):
        found[which] = fit.error * scale
    return found


@dataclass(frozen=True)
class Goal:
    """Target precision of each setup: the largest half width of the confidence interval of a statistic."""

    statistic: str = "mean"
    half_width: float = 0.1
    relative: bool = True
    confidence: float = CONFIDENCE
    max_seeds: int = 2000
    first: int = FIRST_SEEDS

    def __post_init__(self) -> None:
        if self.statistic not in _GOAL_STATISTICS:
            raise ParameterError("statistic", f"one of {', '.join(_GOAL_STATISTICS)}", self.statistic)
        if not 0.0 < self.half_width < np.inf:
            raise ParameterError("half_width", "a positive number", self.half_width, remedy='use e.g. "10 %"')
        if not 0.5 <= self.confidence < 1.0:
            raise ParameterError("confidence", "in [0.5, 1)", self.confidence, remedy="use e.g. 0.95")
        if self.max_seeds < self.first:
            raise ParameterError("max_seeds", f"at least {self.first}, the first batch", self.max_seeds)


class Look(NamedTuple):
    """Value, confidence interval and half width of a statistic after n seeds."""

    n: int
    value: float
    low: float
    high: float
    half_width: float


@dataclass(frozen=True)
class Decision:
    """Decision whether a setup needs more seeds, after a number of looks at its values."""

    looks: tuple[Look, ...]
    wanted: int  # number of seeds at the next look or, at the end, of used seeds
    expected: int
    reason: str  # "" for more seeds, else known, constant, at most, or failed (no run of the first look has a value)


def decide(values: Array, goal: Goal) -> Decision:
    """Decide whether a setup needs more seeds from values (n,), or (2, n) for a ratio, in the order of the seeds."""
    columns = np.atleast_2d(values)
    size, looks = goal.first, []
    # a resumed study must decide like a study without a stop, so repeat all looks
    while size <= columns.shape[1]:
        seen = Look(size, *(float(each[0]) for each in compute_look(columns[None, :, :size], goal)))
        looks.append(seen)
        common = columns[:, :size][:, ~np.isnan(columns[:, :size]).any(axis=0)]
        equal, many = bool((common == common[:, :1]).all()), common.shape[1] >= MIN_EQUAL_VALUES
        narrow, share = seen.half_width <= goal.half_width, goal.statistic == "mean" and kernels.is_two_valued(common)
        reasons = {
            "failed": not common.shape[1], "constant": equal and many and not share,
            "known": narrow and (many or not equal), "at most": size >= goal.max_seeds,
        }  # fmt: skip
        if any(reasons.values()):
            return Decision(tuple(looks), size, size, next(each for each, holds in reasons.items() if holds))
        size = int(choose_next_sizes(np.array([np.inf if narrow else seen.half_width]), size, goal)[0])
    expected = predict_sizes(np.array([looks[-1].half_width]), looks[-1].n, goal)[0] if looks else size
    return Decision(tuple(looks), size, int(max(expected, size)), "")


def compute_look(samples: Array, goal: Goal) -> tuple[Array, Array, Array, Array]:
    """Return value, lower end, upper end and half width (m,) of m setups with equally many seeds, (m, 1 or 2, n)."""
    how = Interval("median" if goal.statistic == "median" else "mean", "", compute_look_confidence(goal.confidence))
    if goal.statistic == "ratio":
        there = ~np.isnan(samples).any(axis=1, keepdims=True)
        above, below = np.moveaxis(np.where(there, samples, np.nan), 1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = kernels.mean(above) / kernels.mean(below)
        limits = compute_ratio_interval(above, below, how, logarithmic=True)
    else:
        values = samples[:, 0]
        value, limits = find_kernel(how.of)[0](values), interval(values[:, :, None], how)
        few = kernels.count(values) < how.min_units
        limits[few] = np.nan  # few values may have a narrow interval by chance
        for row in np.flatnonzero(~few) if goal.statistic == "mean" else ():
            known = np.unique(values[row][~np.isnan(values[row])])
            low, high = (0.0, 1.0) if kernels.is_two_valued(known) else known[[0, -1]]
            if len(known) == 2 or kernels.is_two_valued(known):
                ones = np.where(np.isnan(values[row]), np.nan, values[row] == high)
                limits[row] = low + (high - low) * compute_share_interval(ones[:, None], how.confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = 0.5 * (limits[:, 1] - limits[:, 0]) / (np.abs(value) if goal.relative else 1.0)
    # a setup without an interval has infinite half width
    return value, limits[:, 0], limits[:, 1], np.where(np.isnan(half), np.inf, half)


def predict_sizes(half_widths: Array, size: int, goal: Goal) -> Array:
    """Predict the number of seeds that setups need, because `half_widths` after `size` seeds fall like 1 / sqrt(n)."""
    with np.errstate(over="ignore"):
        return np.minimum(np.ceil(size * (half_widths / goal.half_width) ** 2), goal.max_seeds)


def choose_next_sizes(half_widths: Array, size: int, goal: Goal) -> Counts:
    """Return the numbers of seeds at the next look: the prediction, but at most `MAX_GROWTH` times `size`."""
    wanted = np.clip(predict_sizes(half_widths, size, goal), size + 1, MAX_GROWTH * size)
    steps = np.ceil(np.log(wanted / goal.first) / np.log(SIZE_RATIO) - 1e-9)
    return np.asarray(np.minimum(np.ceil(goal.first * SIZE_RATIO**steps), goal.max_seeds), dtype=np.int64)


@lru_cache
def compute_look_confidence(confidence: float) -> float:
    """Return the confidence of each look that gives `confidence` over all looks (O'Brien & Fleming 1979)."""
    return float(2.0 * scipy.special.ndtr(compute_boundary(confidence, N_LOOKS)) - 1.0)


def compute_boundary(confidence: float, looks: int) -> float:
    """Return c with P(|W_k| <= c sqrt(K) for all k <= K) = confidence, for sums W_k of k standard normal numbers."""
    points, weights = np.polynomial.legendre.leggauss(200)  # more points change the boundary by less than 1e-9

    def outside(constant: float) -> float:  # by recursive integration (Armitage et al. 1969)
        edge = constant * np.sqrt(looks)
        nodes = edge * points
        density = np.exp(-0.5 * nodes**2) / np.sqrt(2.0 * np.pi)
        steps = np.exp(-0.5 * (nodes[:, None] - nodes) ** 2) / np.sqrt(2.0 * np.pi)
        for _ in range(looks - 1):
            density = steps @ (edge * weights * density)
        return float(edge * weights @ density) - confidence

    return float(scipy.optimize.brentq(outside, 0.1, 10.0, xtol=1e-8))
