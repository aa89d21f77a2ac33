"""All pairs of labels at once: intervals that hold together, and the chance that each label is best."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evogt_study.inference import kernels, means
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.resampling import resampled_sums


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
    """
    pairs = pairs_of(len(units))
    above, below = (units[[pair[side] for pair in pairs]] for side in (0, 1))
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
    p_value = np.where(np.isnan(t), 1.0, np.maximum(beyond, student))
    return Pairs(fit.ratio, fit.error, means.from_t(fit, ends, logs), p_value)


def holm(p_values: Array) -> Array:
    """p-values of several tests adjusted by Holm's method, over the last axis."""
    count = p_values.shape[-1]
    order = np.argsort(p_values, axis=-1)
    factors = np.arange(count, 0, -1)
    # no p-value is adjusted to less than one that was smaller
    stepped = np.maximum.accumulate(np.take_along_axis(p_values, order, axis=-1) * factors, axis=-1)
    found = np.empty_like(stepped)
    np.put_along_axis(found, order, np.minimum(stepped, 1.0), axis=-1)
    return found


def best_in_a_run(units: Array, better: str) -> Array:
    """Share of common units (L, n) at which each label is best, (L,); equal ones share."""
    best = _is_best(units, better)
    return np.asarray((best / best.sum(axis=0)).mean(axis=-1))


def best_on_average(units: Array, how: Interval, better: str) -> Array:
    """Share of resamples of common units (L, n) in which each label has the best mean, (L,)."""
    best = _is_best(resampled_sums(units, how.resamples, how.seed), better)
    return np.asarray((best / best.sum(axis=0)).mean(axis=-1))


# of equal labels the first has the unit: the numbers add up to all units
def winners_without(units: Array, better: str) -> Array:
    """Numbers of the units (L, n) that, left out, leave each label with the best mean, (L,)."""
    scale = np.exp2(np.frexp(np.abs(units).max(initial=0.0))[1].astype(float))
    left = (units / scale).sum(axis=-1, keepdims=True) - units / scale
    best = _is_best(left, better)
    return np.asarray((best & (np.cumsum(best, axis=0) == 1)).sum(axis=-1), dtype=float)


def winner(numbers: Array, better: str) -> int:
    """Place of the best number, -1 where none is finite."""
    known = np.isfinite(numbers)
    if not known.any():
        return -1
    towards = np.where(known, numbers if better == "lower" else -numbers, np.inf)
    return int(towards.argmin())


def statistics_of(units: Array, better: str) -> Array:
    """Mean, median and worst value of each label, (L, n) -> (L, 3)."""
    worst = kernels.maximum(units) if better == "lower" else kernels.minimum(units)
    return np.stack([kernels.mean(units), kernels.median(units), worst], axis=-1)


def _is_best(numbers: Array, better: str) -> npt.NDArray[np.bool_]:
    towards = numbers if better == "lower" else -numbers
    return np.asarray(towards == towards.min(axis=0))
