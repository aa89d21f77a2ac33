"""Tails of samples: whether a mean is known at all, and what one run in a thousand is worse than."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # which imports its parts when they are first used, most of a second for scipy.stats

from evogt_study.inference import kernels
from evogt_study.inference.kernels import Array
from evogt_study.inference.order_statistics import quantile_interval

HEAVY = 1.5
"""Tail index below which a mean is noted not to be known.  Below 2 a distribution has no variance; estimates from few
values scatter: of samples of 20, 85 % of lognormal ones with sigma 2 are below 1.5, and none of normal ones
(docs/statistics.md)."""
EXCEEDANCES = 0.1
"""Share of the values that a generalised Pareto distribution is fitted to, at least 20 of them: the usual tenth."""
LEAST_EXCEEDANCES = 20
_SHAPES = np.linspace(-0.9, 3.0, 196)
"""Shapes of the fit, in steps of 0.02, a tenth of what 100 values tell; with a shape beyond 1 there is no mean."""
_LEVELS = np.linspace(-6.0, 12.0, 361)
"""Logarithms of levels at which the likelihood is first looked at, in steps of 5 %."""


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


class ReturnLevel(NamedTuple):
    """A level, the ends of its interval, and whether it is extrapolated beyond what order statistics bound."""

    level: float
    low: float
    high: float
    extrapolated: bool


def return_level(sample: Array, period: float, confidence: float) -> ReturnLevel:
    """The level that one value in `period` is above: the quantile 1 - 1/period of the sample's distribution.

    Where order statistics bound it on both sides it is the sample's quantile, and the interval exact.  Else a
    generalised Pareto distribution is fitted to the values above the 90 % quantile by maximum likelihood, and the
    interval is that of the profile likelihood (Coles, An Introduction to Statistical Modeling of Extreme Values, 4.3).
    NaN below 2 LEAST_EXCEEDANCES values.  With infinite ones nothing is fitted: it is the sample's quantile.
    """
    values = np.sort(sample[~np.isnan(sample)])
    if len(values) < 2 * LEAST_EXCEEDANCES:
        return ReturnLevel(np.nan, np.nan, np.nan, True)
    probability = 1.0 - 1.0 / period
    low, high = quantile_interval(values[None, :, None], probability, confidence)[0]
    if np.isfinite(low) and np.isfinite(high):
        return ReturnLevel(float(kernels.quantile(values, probability)), float(low), float(high), False)
    if not np.isfinite(values).all():
        return ReturnLevel(float(kernels.quantile(values, probability)), float(low), float(high), True)
    return _extrapolated(values, period, confidence)


def _extrapolated(values: Array, period: float, confidence: float) -> ReturnLevel:
    count = max(LEAST_EXCEEDANCES, int(EXCEEDANCES * len(values)))
    threshold = values[-count - 1]
    scale = float(values[-1] - threshold)
    if scale == 0.0:
        return ReturnLevel(float(threshold), float(threshold), float(threshold), True)
    # in units of the largest, so that `_LEVELS` is wide enough for any sample
    beyond = (values[-count:] - threshold) / scale
    # values above the threshold in one period
    rate = period * count / len(values)

    def likelihood(logarithm: float) -> float:
        return float(_log_likelihoods(beyond, float(np.exp(logarithm)), rate).max())

    heights = np.array([likelihood(each) for each in _LEVELS])
    best = int(heights.argmax())
    shape, _, width = scipy.stats.genpareto.fit(beyond, floc=0.0)
    level = width * np.expm1(shape * np.log(rate)) / shape
    # the fit may be above all levels of the grid
    cut = float(max(likelihood(np.log(level)), heights[best]) - 0.5 * scipy.stats.chi2.ppf(confidence, 1))
    ends = []
    for place, step in ((best, -1), (best, 1)):
        while 0 < place < len(_LEVELS) - 1 and heights[place] > cut:
            place += step
        inside, outside = _LEVELS[place - step], _LEVELS[place]
        crosses = heights[place] <= cut
        ends.append(
            scipy.optimize.brentq(lambda at: likelihood(at) - cut, inside, outside) if crosses else step * np.inf
        )
    low, high = (float(threshold + scale * np.exp(each)) for each in ends)
    return ReturnLevel(float(threshold + scale * level), low, high, True)


def _log_likelihoods(beyond: Array, level: float, rate: float) -> Array:
    """Of generalised Pareto distributions of all shapes whose level beyond the threshold is `level`."""
    # shape zero has a formula of its own, the exponential distribution's; those beside it are as good
    shapes = _SHAPES[np.abs(_SHAPES) > 1e-9]
    scales = level * shapes / np.expm1(shapes * np.log(rate))
    inner = 1.0 + np.outer(shapes / scales, beyond)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.log(inner).sum(axis=-1)
        found: Array = -len(beyond) * np.log(scales) - (1.0 + 1.0 / shapes) * sums
    # a distribution that ends before a value of the sample cannot have given it
    return np.where((inner > 0.0).all(axis=-1) & (scales > 0.0) & np.isfinite(found), found, -np.inf)
