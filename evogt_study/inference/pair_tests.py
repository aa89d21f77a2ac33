"""Tests of two samples, paired and unpaired, and intervals of a probability to win."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy  # which imports its parts when they are first used, most of a second for scipy.stats

from evogt_study.inference.kernels import Array

EXACT_WITH_TIES = 13
"""Pairs up to which all 2^n signs are counted where differences tie, 8,192 of them in a millisecond or two; beyond, the
normal approximation, as SciPy has it."""
EXACT_WITHOUT_TIES = 50
"""Pairs without ties up to which the distribution is counted: SciPy's own limit."""


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
