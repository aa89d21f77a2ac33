"""Test each pair of samples on common units, and invert the tests to confidence intervals.

Wins use the sign test, Clopper and Pearson's interval and the order-statistics interval of the median.  Means use
Student's t of paired differences.  A significant leader wins each of its tests at the level alpha, so alpha bounds the
error of all tests together (Berger, Technometrics 24, 1982).
"""

import math
from itertools import permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.special at the first use, which takes 0.2 s

from evogt_study.inference.kernels import Array, Bools, divide

ESTIMANDS = WIN, GEOMETRIC_MEAN, MEAN = "win", "geometric_mean", "mean"
RATIO, DIFFERENCE, SHARE, MARGIN = "ratio", "difference", "share", "margin"  # margin: wins less losses per run
MIN_UNITS = {WIN: 6, GEOMETRIC_MEAN: 3, MEAN: 8}  # 6 signs can reject at 5 %, and 8 differences show skewness
Ends = tuple[float, float]


class Pairs(NamedTuple):
    """Tests of sample i against sample j, each (L, L).  `ahead` is wins less losses, or the difference of means."""

    p: Array
    ahead: Array
    wins: npt.NDArray[np.int64]
    losses: npt.NDArray[np.int64]
    n: npt.NDArray[np.int64]
    reason: dict[tuple[int, int], str]


def compute_sign_p(wins: npt.ArrayLike, losses: npt.ArrayLike) -> Array:
    """Return the two-sided p-value of the exact sign test, or 1 without wins and losses."""
    few, total = np.minimum(wins, losses).astype(float), np.add(wins, losses).astype(np.int64)
    tail = scipy.special.bdtr(few, np.maximum(total, 1), 0.5)
    return np.asarray(np.where(total > 0, np.minimum(1.0, 2.0 * tail), 1.0))


def compute_win_interval(wins: int, n: int, alpha: float) -> Ends:
    """Return Clopper and Pearson's interval of the probability of a win, from `wins` wins in `n` units."""
    low = float(scipy.special.betaincinv(wins, n - wins + 1, alpha / 2)) if wins else 0.0
    return low, float(scipy.special.betaincinv(wins + 1, n - wins, 1 - alpha / 2)) if wins < n else 1.0


def compute_median_interval(differences: Array, alpha: float) -> Ends:
    """Return the order-statistics interval of the median of `differences`, or NaN for too few values."""
    n, ordered = len(differences), np.sort(differences)
    k = int((2.0 * scipy.special.bdtr(np.arange(n // 2 + 1.0), n, 0.5) <= alpha).sum()) - 1
    return (np.nan, np.nan) if k < 0 else (float(ordered[k]), float(ordered[n - k - 1]))


def compute_fieller_interval(above: Array, below: Array, alpha: float) -> Ends | None:
    """Return Fieller's interval of mean(above) / mean(below), or None if the interval has no bounds."""
    t = scipy.special.stdtrit(len(above) - 1.0, 1 - alpha / 2)
    (over, both), (_, under) = np.cov(above, below) * t**2 / len(above)
    a, half, rest = below.mean() ** 2 - under, above.mean() * below.mean() - both, above.mean() ** 2 - over
    if a <= 0.0:
        return None
    root = math.sqrt(max(half**2 - a * rest, 0.0))
    return float((half - root) / a), float((half + root) / a)


def adjust_p_values(p: Array) -> Array:
    """Return p-values with Holm's adjustment for multiple tests (1979).  NaN stays NaN."""
    found, known = np.full(p.shape, np.nan), np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    found[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1.0)
    return found


def find_holm_levels(p: Array, alpha: float) -> Array:
    """Return the level of each test at which the tests reject like Holm's procedure at the level `alpha`."""
    found, order = np.full(p.shape, alpha), np.argsort(p, kind="stable")  # NaN come last
    count, rejected = int((~np.isnan(p)).sum()), int((adjust_p_values(p) <= alpha).sum())
    found[order[:count]] = alpha / (count - np.minimum(np.arange(count), rejected))
    return found


def compute_unit_margins(losses: Array, planned: Bools) -> Array:
    """Return wins less losses per run of each pair and unit, (L, U, k) -> (L, L, U).  A failed run loses."""
    found = np.empty((len(losses), *losses.shape[:2]))
    for i, own in enumerate(losses):
        both = planned[i] & planned
        signs = np.where(both, (own < losses) * 1.0 - (own > losses), 0.0)
        found[i] = divide(signs.sum(axis=-1), both.sum(axis=-1))
    return found


def compare_wins(margins: Array) -> Pairs:
    """Return the sign tests of all pairs from their unit margins."""
    wins, losses = (margins > 0).sum(axis=-1), (margins < 0).sum(axis=-1)
    p = np.where(wins > losses, compute_sign_p(wins, losses), 1.0)
    return Pairs(p, (wins - losses).astype(float), wins, losses, (~np.isnan(margins)).sum(axis=-1), {})


def compare_means(units: Array, sign: int, of: str, failed: Bools, names: tuple[str, ...], unit: str) -> Pairs:
    """Return Student's tests of all pairs of samples (L, U).  The `sign` is 1 if lower values are better."""
    count = len(units)
    p, ahead, n = np.ones((count, count)), np.full((count, count), -np.inf), np.zeros((count, count), dtype=np.int64)
    wins, losses, reason = n.copy(), n.copy(), dict[tuple[int, int], str]()
    for i, j in permutations(range(count), 2):
        with np.errstate(invalid="ignore"):
            d = sign * (units[i] - units[j])
        d = d[np.isfinite(d)]
        n[i, j], wins[i, j], losses[i, j] = len(d), (d < 0).sum(), (d > 0).sum()
        ahead[i, j] = -d.mean() if len(d) else -np.inf
        tail = 0.0  # skewness towards i, needs n > 25 tail^2 (Cochran, Sampling Techniques, 2.15)
        if of == MEAN and ahead[i, j] > 0 and d.std() > 0.0:
            tail = max(float(((d - d.mean()) ** 3).mean() / d.std() ** 3), 0.0)
        if len(d) < MIN_UNITS[of]:
            reason[i, j] = f"a test of means needs {MIN_UNITS[of]} {unit}s with both values, got {len(d)}"
        elif ahead[i, j] > 0 and failed[i]:
            reason[i, j] = f"{names[i]} has failed runs, which a mean leaves out"
        elif np.ptp(d) <= 1e-12 * np.abs(d).max():
            reason[i, j] = "the differences have no spread"
        elif 25.0 * tail**2 > len(d) - MIN_UNITS[of]:
            need = math.ceil(25.0 * tail**2 + MIN_UNITS[of])
            reason[i, j] = f"{len(d)} {unit}s are too few for a skewness of {tail:.1f}, which needs {need}"
        elif ahead[i, j] > 0:
            t = d.mean() / (d.std(ddof=1) / math.sqrt(len(d)))
            p[i, j] = 2.0 * scipy.special.stdtr(len(d) - 1.0, -abs(t))
    return Pairs(p, ahead, wins, losses, n, reason)


def find_leader(pairs: Pairs, alpha: float, part: npt.NDArray[np.intp], units: Array) -> tuple[int, list[int]]:
    """Return the leader of the samples `part` and its rivals, closest first.  Medians of `units` (L, U) break ties."""
    p, ahead = pairs.p[np.ix_(part, part)].copy(), pairs.ahead[np.ix_(part, part)].copy()
    np.fill_diagonal(p, 0.0)
    np.fill_diagonal(ahead, np.inf)
    lead = int(p.max(axis=-1).argmin() if p.max(axis=-1).min() <= alpha else ahead.min(axis=-1).argmax())
    with np.errstate(invalid="ignore"):
        gaps = np.median(np.abs(np.nan_to_num(units[part] - units[part[lead]])), axis=1)
    rivals = sorted({*range(len(part))} - {lead}, key=lambda each: (-p[lead, each], ahead[lead, each], gaps[each]))
    return int(part[lead]), [int(part[each]) for each in rivals]


def estimate_effect_of_wins(
    first: Array, second: Array, margins: Array, scale: str, alpha: float, worst: float
) -> tuple[float, Ends]:
    """Return the effect of the first sample over the second and its interval.  Both agree with the sign test."""
    decided = ~np.isnan(margins) & (margins != 0)
    if scale == SHARE:  # McNemar uses only the units that differ
        n, wins, count = int((~np.isnan(margins)).sum()), int((margins > 0).sum()), int(decided.sum())
        part = (-1.0 if worst > 0 else 1.0) * count / max(n, 1)
        low, high = sorted(part * (2.0 * end - 1.0) for end in compute_win_interval(wins, count, alpha))
        return part * (2.0 * wins / max(count, 1) - 1.0), (low, high) if count else (-1.0, 1.0)
    d = margins[decided]
    if scale != MARGIN:
        a, b = (np.where(np.isnan(each[decided]), worst, each[decided]) for each in (first, second))
        with np.errstate(divide="ignore", invalid="ignore"):
            d = np.log(np.maximum(a, 0.0)) - np.log(np.maximum(b, 0.0)) if scale == RATIO else a - b
    return _to_scale(float(np.median(d)) if len(d) else 0.0, compute_median_interval(d, alpha), scale)


def estimate_effect_of_means(
    first: Array, second: Array, of: str, scale: str, alpha: float
) -> tuple[float, Ends] | None:
    """Return the effect of the means of paired units and its interval, or None if a ratio has no bounded interval."""
    both = np.isfinite(first) & np.isfinite(second)
    x, y = first[both], second[both]
    if of == MEAN and scale == RATIO:
        ends = compute_fieller_interval(x, y, alpha)
        return None if ends is None else (float(x.mean() / y.mean()), ends)
    d = x - y
    half = scipy.special.stdtrit(len(d) - 1.0, 1 - alpha / 2) * d.std(ddof=1) / math.sqrt(len(d))
    return _to_scale(float(d.mean()), (float(d.mean() - half), float(d.mean() + half)), scale)


def _to_scale(value: float, ends: Ends, scale: str) -> tuple[float, Ends]:
    """Convert an effect and its interval from logarithms if the scale is a ratio."""
    if scale != RATIO:
        return value, ends
    with np.errstate(over="ignore"):
        found, low, high = np.exp([value, *ends]).tolist()
    return found, (low, high)
