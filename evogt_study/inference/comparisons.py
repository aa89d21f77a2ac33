"""Compare samples: tests of two samples, and simultaneous inference on all pairs of samples.

`wilcoxon` to `welch_tests` test two samples, paired or not.  `win_interval` and `share_intervals` give confidence
intervals of a probability.  `max_t` compares the means of several samples on common units, all pairs at once.
`best_in_a_run` to `statistics_of` describe how sure the best of them is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.stats at the first use, which takes most of a second

from evogt_study.inference import kernels, means
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.means import resampled_sums

EXACT_WITH_TIES = 13
"""Largest number of pairs with tied differences for which all 2^n signs are counted: 8,192 of them in 1 to 2 ms.  For
more pairs SciPy's normal approximation applies."""
EXACT_WITHOUT_TIES = 50
"""Largest number of pairs without ties for which the distribution is exact: SciPy's own limit."""


def wilcoxon(differences: Array) -> tuple[float, float]:
    """Signed-rank statistic and two-sided p of differences, zeros dropped: exact up to 50, with ties up to 13."""
    if not differences.size:
        return np.nan, np.nan
    nonzero = differences[differences != 0.0]
    if not nonzero.size:
        return 0.0, 1.0
    tied = len(np.unique(np.abs(nonzero))) < len(nonzero)
    method: Literal["exact", "approx"] | scipy.stats.PermutationMethod = "approx"
    if tied and len(nonzero) <= EXACT_WITH_TIES:
        method = scipy.stats.PermutationMethod(n_resamples=2**EXACT_WITH_TIES)  # which is all of them
    elif not tied and len(nonzero) <= EXACT_WITHOUT_TIES:
        method = "exact"
    found = scipy.stats.wilcoxon(nonzero, method=method)
    return float(found.statistic), float(found.pvalue)


def signed_rank_tests(samples: Array) -> Array:
    """`wilcoxon` over the last axis, (..., n) -> (..., 2): rows without ties and zeros by their number, all at once."""
    largest = np.finfo(float).max  # in the place of infinity: it is ranks that count
    rows = np.clip(samples, -largest, largest).reshape(math.prod(samples.shape[:-1]), samples.shape[-1])
    found = np.full((len(rows), 2), np.nan)
    there = np.isfinite(rows)
    sizes = there.sum(axis=-1)
    ordered = np.sort(np.where(there, np.abs(rows), np.inf), axis=-1)
    equal = (ordered[:, 1:] == ordered[:, :-1]) & np.isfinite(ordered[:, 1:])
    plain = ~equal.any(axis=-1) & ~(rows == 0.0).any(axis=-1) & (sizes > 0)
    for size in np.unique(sizes[plain]):
        which = np.flatnonzero(plain & (sizes == size))
        values = rows[which][there[which]].reshape(len(which), int(size))
        test = scipy.stats.wilcoxon(values, axis=-1, method="exact" if size <= EXACT_WITHOUT_TIES else "approx")
        found[which] = np.stack([test.statistic, test.pvalue], axis=-1)
    for number in np.flatnonzero(~plain):
        found[number] = wilcoxon(rows[number][there[number]])
    return found.reshape(*samples.shape[:-1], 2)


def t_tests(samples: Array) -> Array:
    """Two-sided p of Student's t-test that the mean is zero, over the last axis, (..., n) -> (...)."""
    return _p_values(lambda row: scipy.stats.ttest_1samp(row, 0.0), samples)


def mann_whitney_tests(first: Array, second: Array) -> Array:
    """Two-sided p of the test of Mann and Whitney of two independent samples, (..., n) and (..., m) -> (...)."""
    return _p_values(scipy.stats.mannwhitneyu, first, second)


def welch_tests(first: Array, second: Array) -> Array:
    """Two-sided p of Welch's t-test of two independent samples, (..., n) and (..., m) -> (...)."""
    return _p_values(lambda one, other: scipy.stats.ttest_ind(one, other, equal_var=False), first, second)


def _p_values(test: Callable[..., Any], *samples: Array) -> Array:
    """p of a test of each row's values; NaN below two of any, 1 where all are equal."""
    lead = samples[0].shape[:-1]
    found = np.full(lead, np.nan)
    for place in np.ndindex(*lead):
        rows = [each[place][~np.isnan(each[place])] for each in samples]
        if min(map(len, rows)) > 1:
            same = len(np.unique(np.concatenate(rows))) == 1 and np.isfinite(rows[0][0])
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of values that are nearly equal
                found[place] = (1.0 if len(samples) > 1 or rows[0][0] == 0.0 else 0.0) if same else test(*rows).pvalue
    return found


def win_interval(wins: int, losses: int, confidence: float, method: str) -> tuple[float, float]:
    """Confidence interval of the probability to win, of wins among wins + losses; (0, 1) where there is neither."""
    if not wins + losses:
        return 0.0, 1.0
    limits = scipy.stats.binomtest(wins, wins + losses).proportion_ci(confidence, method)  # type: ignore[arg-type]
    return float(limits.low), float(limits.high)


def share_intervals(samples: Array, confidence: float, fewest: int) -> Array:
    """Wilson's intervals of the share of ones among zeros and ones, (..., n) -> (..., 2); NaN below `fewest` values."""
    found = np.full((*samples.shape[:-1], 2), np.nan)
    for place in np.ndindex(*samples.shape[:-1]):
        known = samples[place][~np.isnan(samples[place])]
        if len(known) >= fewest:
            ones = int(known.sum())
            found[place] = win_interval(ones, len(known) - ones, confidence, "wilson")
    return found


class Pairs(NamedTuple):
    """Effects of pairs of labels (p,), their standard errors, simultaneous intervals (p, 2) and adjusted p-values."""

    effect: Array
    error: Array
    limits: Array
    p_value: Array


def pairs_of(count: int) -> list[tuple[int, int]]:
    """The pairs of `count` labels, in order."""
    return list(combinations(range(count), 2))


def max_t(units: Array, how: Interval, ratios: bool) -> Pairs:
    """Ratios of means, or differences, of all pairs of labels (L, n) that hold together (Westfall & Young 1993).

    With t_p = log(R_p) R_p / s_p, or difference over its standard error, all intervals hold with the confidence of
    `how` where each is as wide as the quantile c of max_p |t_p*| over resamples of the common units; the adjusted
    p-value is the share of resamples in which that maximum is at least |t_p|.  c is nowhere below Student's quantile.
    Pairs with an infinite value have their effect alone.
    """
    pairs = pairs_of(len(units))
    infinite = np.isinf(units[np.array(pairs)]).any(axis=(-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):  # inf/inf and inf - inf
        means_of = kernels.mean(units)[np.array(pairs)].T
        apart = means_of[0] / means_of[1] if ratios else means_of[0] - means_of[1]
    above, below = (units[[pair[side] for pair in pairs]] for side in (0, 1))
    above, below = (np.where(infinite[:, None], np.nan, each) for each in (above, below))
    fit = means.fitted(above, below) if ratios else means.fitted(above - below, np.ones_like(above))
    logs: npt.NDArray[np.bool_] = np.full(len(pairs), ratios)
    resampled = np.abs(means.studentised(fit, logs, how.resamples, how.seed))
    largest = np.where(np.isfinite(resampled), resampled, 0.0).max(axis=0, initial=0.0)
    cut = max(float(np.quantile(largest, how.confidence)), means.student_quantile(units.shape[1], how.confidence))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(np.log(fit.ratio) * fit.ratio / fit.error if ratios else fit.ratio / fit.error)
    # the sample itself counts as a draw, so that no p-value is zero
    beyond = (1.0 + (largest >= t[:, None]).sum(axis=-1)) / (1.0 + how.resamples)
    student = means.student_p_value(t, units.shape[1])
    ends = np.broadcast_to([-cut, cut], (len(pairs), 2))
    # t of labels that are equal in all units is 0/0
    p_value = np.where(infinite, np.nan, np.where(np.isnan(t), 1.0, np.maximum(beyond, student)))
    return Pairs(np.where(infinite, apart, fit.ratio), fit.error, means.from_t(fit, ends, logs), p_value)


def best_in_a_run(units: Array, better: str) -> Array:
    """Share of common units (L, n) at which each label is best, (L,); equal ones share."""
    best = _is_best(units, better)
    return np.asarray((best / best.sum(axis=0)).mean(axis=-1))


def best_on_average(units: Array, how: Interval, better: str) -> Array:
    """Share of resamples of common units (L, n) in which each label has the best mean, (L,)."""
    sums = resampled_sums(np.where(np.isinf(units), 0.0, units), how.resamples, how.seed)
    for sign in (np.inf, -np.inf):
        infinite = units == sign
        if infinite.any():
            sums = np.where(resampled_sums(infinite.astype(float), how.resamples, how.seed) > 0.0, sign, sums)
    best = _is_best(sums, better)
    return np.asarray((best / best.sum(axis=0)).mean(axis=-1))


# of equal labels the first has the unit, of infinite means none: else the numbers add up to all units
def winners_without(units: Array, better: str) -> Array:
    """Numbers of the units (L, n) that, left out, leave each label with the best mean, (L,)."""
    finite = np.where(np.isinf(units), 0.0, units)
    finite = finite / np.exp2(np.frexp(np.abs(finite).max(initial=0.0))[1].astype(float))
    left = finite.sum(axis=-1, keepdims=True) - finite
    for sign in (np.inf, -np.inf):
        infinite = units == sign
        left = np.where(infinite.sum(axis=-1, keepdims=True) > infinite, sign, left)
    best = _is_best(left, better) & np.isfinite(left)
    return np.asarray((best & (np.cumsum(best, axis=0) == 1)).sum(axis=-1), dtype=float)


def winner(numbers: Array, better: str) -> int:
    """Return the index of the best number, or -1 if all are infinitely bad or missing."""
    towards = numbers if better == "lower" else -numbers
    known = towards < np.inf
    return int(np.where(known, towards, np.inf).argmin()) if known.any() else -1


def _is_best(numbers: Array, better: str) -> npt.NDArray[np.bool_]:
    towards = numbers if better == "lower" else -numbers
    return np.asarray(towards == towards.min(axis=0))


def statistics_of(units: Array, better: str) -> Array:
    """Mean, median and worst value of each label, (L, n) -> (L, 3)."""
    worst = kernels.maximum(units) if better == "lower" else kernels.minimum(units)
    return np.stack([kernels.mean(units), kernels.median(units), worst], axis=-1)
