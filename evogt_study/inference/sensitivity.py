"""Measure how parameters and seeds decide a number.

- Saltelli's blocks and Morris' trajectories, in the order of SALib, are recognised by their points: `saltelli_block`
  and `is_morris`.
- Saltelli's blocks give `moments_of_blocks`, and trajectories give elementary effects (`effects`).
- `find_corners` finds the parameters on which it depends whether a run fails.
- `dependence` tests whether parameters depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.special at the first use, which takes 0.2 s

from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, Bools
from evogt_study.inference.means import normal_quantile, resampled_sums
from evogt_study.inference.variance_components import Moments, noise_grams

MIN_BLOCKS = 2  # fewer have no spread
CORNER_LEVEL = 0.01  # level of all tests of a sample together
CORNER_PERMUTATIONS, CORNER_SEED = 1999, 0  # enough that ten parameters can each be seen at a tenth of the level
CORNER_BINS = 4  # ranges of equally many points: a corner of a tenth of the sample lies in one or two of them
CORNER_QUANTILES = (0.1, 0.9)  # of the failed points; beside the corner others may fail at random
DEPENDENCE_LEVEL = 0.01  # level of all tests of independence of a sample together


def saltelli_block(points: Array) -> int:
    """Members of a block of a Saltelli design, 2 D + 2 or D + 2; zero for points (n, D) that are none.

    A block is A, AB_1 ... AB_D, then BA_1 ... BA_D for second order, and B: AB_j is A with coordinate j of B, and
    BA_j is B with the coordinate of A (Saltelli, Comput. Phys. Commun. 145, 2002).
    """
    count, d = points.shape
    for members in (2 * d + 2, d + 2) if d and count else ():
        if count % members:
            continue
        blocks, own = points.reshape(-1, members, d), np.eye(d, dtype=bool)
        first, last = blocks[:, :1], blocks[:, -1:]
        steps = [np.where(own, last, first), *([np.where(own, first, last)] if members == 2 * d + 2 else [])]
        # one point repeated is no block
        if (first != last).any() and (blocks[:, 1:-1] == np.concatenate(steps, axis=1)).all():
            return int(members)
    return 0


def is_morris(points: Array) -> bool:
    """Test for trajectories of D + 1 points (n, D): every coordinate changes once, one at each step."""
    count, dimension = points.shape
    if not dimension or not count or count % (dimension + 1):
        return False
    changed = np.diff(points.reshape(-1, dimension + 1, dimension), axis=1) != 0.0
    return bool((changed.sum(axis=1) == 1).all() and (changed.sum(axis=2) == 1).all())


def moments_of_blocks(y: Array, parameters: int) -> Moments | None:
    """Moments of Saltelli's blocks (N, members, R), from products of two different seeds in each block.

    Of the values less their mean, S_j V = mean B (AB_j - A), T_j V = mean (A - AB_j)^2 / 2 (Saltelli et al., Comput.
    Phys. Commun. 181, 2010) and S_jk V = mean (BA_j AB_k - A B) - S_j V - S_k V (Saltelli, Comput. Phys. Commun. 145,
    2002): SALib's numbers for one seed.  An index rests on the blocks that have its members, NaN is a missing value.
    None for fewer than `MIN_BLOCKS` of them.  Order of the indices: first, total, second by pairs.
    """
    n, d, r = len(y), parameters, y.shape[2]
    known = np.isfinite(y)
    y = np.where(known, y - y[known].mean(), np.nan) if known.any() else y
    first, last, steps = y[:, :1], y[:, -1:], y[:, 1 : 1 + d]
    columns = [_pairs(last, steps - first), 0.5 * _pairs(first - steps, first - steps)]
    if y.shape[1] == 2 * d + 2:
        back = y[:, 1 + d : -1]
        both = _pairs(first, last)
        for j, k in combinations(range(d), 2):
            pair = _pairs(back[:, j : j + 1], steps[:, k : k + 1]) - both
            columns.append(pair - columns[0][:, j : j + 1] - columns[0][:, k : k + 1])
    ends = y[:, [0, -1]]
    there = np.asarray(np.isfinite(ends).all(axis=(1, 2)))
    mean = np.nan if not there.any() else ends[there].mean(axis=(0, 1))
    whole = 0.5 * (_pairs(first, first) + _pairs(last, last)) - np.multiply.outer(mean, mean)
    grams = np.concatenate([*columns, whole], axis=1)  # (N, K + 1, R, R)
    counts = np.isfinite(grams).all(axis=(-2, -1)).sum(axis=0)
    if counts.min() < MIN_BLOCKS:
        return None
    across = (grams.sum(axis=(-2, -1)) - (r > 1) * np.trace(grams, axis1=-2, axis2=-1)) / max(r * (r - 1), 1)
    complete = np.isfinite(y).all(axis=(1, 2))
    seeds = np.where(complete, y.var(axis=2, ddof=1).mean(axis=1), np.nan) if r > 1 else np.zeros(n)
    variance, seed, m = float(np.nanmean(across[:, -1])), float(np.nanmean(seeds)), float(np.isfinite(seeds).sum())
    size = np.isfinite(across[:, -1]).sum()
    variance_left = np.where(there, (size * variance - across[:, -1]) / (size - 1.0), variance)
    seeds_left = np.where(np.isfinite(seeds), (m * seed - seeds) / max(m - 1.0, 1.0), seed)
    # each index and its variance over the same blocks, since their errors are correlated
    both = np.isfinite(across[:, :-1]) & there[:, None]
    above, below = np.where(both, across[:, :-1], 0.0), np.where(both, across[:, -1:], 0.0)
    ratio, ratio_left = above.sum(axis=0) / below.sum(axis=0), (above.sum(axis=0) - above) / (below.sum(axis=0) - below)
    left = ratio_left * variance_left[:, None]
    averages = np.nanmean(grams, axis=0)
    return Moments(
        ratio * variance, variance, seed, (left, variance_left, seeds_left), list(averages[:-1]), averages[-1],
        noise_grams(y[complete].reshape(-1, r)), int(counts.min()),
    )  # fmt: skip


def _pairs(one: Array, other: Array) -> Array:
    """Symmetric products of the seeds of two members, (N, K, R) -> (N, K, R, R)."""
    both = one[..., :, None] * other[..., None, :]
    found: Array = 0.5 * (both + both.swapaxes(-1, -2))
    return found


def effects(values: Array, points: Array, levels: int, how: Interval) -> dict[str, Array]:
    """Statistics of (y(u + delta e_j) - y(u)) / delta of values (n,) at points (n, D) of trajectories in the unit cube.

    mu: mean; mu_star: mean magnitude, with mu_star_ci (D, 2), -+ z s with the standard deviation s over bootstrap
    resamples of trajectories; sigma: standard deviation; n_ok: trajectories.  Of p levels a step is delta = p / (2 (p -
    1)) (Morris, Technometrics 33, 1991); mu_star is of Campolongo et al., Environ. Model. Softw. 22, 2007; all as
    SALib's ``morris.analyze``.  A trajectory with a value that is not finite is left out.  NaN below two trajectories.
    """
    dimension = points.shape[1]
    paths, trajectories = values.reshape(-1, dimension + 1), points.reshape(-1, dimension + 1, dimension)
    kept = np.isfinite(paths).all(axis=1)
    count = int(kept.sum())
    if count < 2:
        return {"n_ok": np.array(count)}
    steps = np.diff(trajectories[kept], axis=1)  # (r, D, D): of each step one entry is not zero
    which = (steps != 0.0).argmax(axis=2)
    # a step down has the effect of the step up between the same points
    signs = np.sign(np.take_along_axis(steps, which[..., None], axis=2)[..., 0])
    found = np.empty((count, dimension))
    delta = levels / (2.0 * (levels - 1.0))
    np.put_along_axis(found, which, np.diff(paths[kept], axis=1) * signs / delta, axis=1)
    mu_star = np.abs(found).mean(axis=0)
    spread = (resampled_sums(np.abs(found).T, how.resamples, how.seed) / count).std(axis=1, ddof=1)
    ends = mu_star[:, None] + normal_quantile(how.confidence) * spread[:, None] * [-1.0, 1.0]
    sigma = found.std(axis=0, ddof=1)
    return {"mu": found.mean(axis=0), "mu_star": mu_star, "mu_star_ci": ends, "sigma": sigma, "n_ok": np.array(count)}


def find_corners(failed: Bools, points: Array) -> tuple[Array, Array]:
    """p (D,) of parameters on which it depends whether a point (n, D) failed (n,), and ranges of failures (D, 2).

    For each parameter chi^2 = sum over `CORNER_BINS` ranges of (failed - expected)^2 / expected.  With chi^2 of
    `CORNER_PERMUTATIONS` permutations of the failed points, p = (1 + number of those as large) / (1 + all).  80 % of
    the failed points are in the range.  NaN unless Bonferroni's p D is below `CORNER_LEVEL`.
    """
    count = int(failed.sum())
    found, ends = np.full(points.shape[1], np.nan), np.full((points.shape[1], 2), np.nan)
    for place, column in enumerate(points.T) if 2 <= count <= len(failed) - 2 else ():
        bins = _bins(column)
        sizes, own = np.bincount(bins), np.bincount(bins[failed], minlength=int(bins.max()) + 1)
        # as many points drawn from the ranges as failed: the permutations, without permuting
        drawn = np.random.default_rng(CORNER_SEED).multivariate_hypergeometric(sizes, count, CORNER_PERMUTATIONS)
        expected = np.maximum(sizes * count / len(failed), 1e-300)  # a range may be empty if values are tied
        chi = ((np.concatenate([own[None], drawn]) - expected) ** 2 / expected).sum(axis=1)
        p = float((chi >= chi[0] * (1.0 - 1e-12)).mean())
        if p * points.shape[1] < CORNER_LEVEL:
            found[place], ends[place] = p, np.quantile(column[failed], CORNER_QUANTILES, method="nearest")
    return found, ends


def _bins(column: Array) -> npt.NDArray[np.int64]:
    """Range of each value: its own where there are few different ones, else by rank."""
    values, order = np.unique(column, return_inverse=True)
    if len(values) <= CORNER_BINS:
        return np.asarray(order, dtype=np.int64)
    ranks = np.searchsorted(np.sort(column), column)
    return np.asarray(CORNER_BINS * ranks // len(column), dtype=np.int64)


def dependence(points: Array, names: Sequence[str], level: float = DEPENDENCE_LEVEL) -> str:
    """Say which two parameters of points (n, D) depend on each other, "" if none do.

    Each pair has two tests, rank correlation and chi^2 over `CORNER_BINS` ranges each, at level / (number of tests).
    """
    (n, d), least, text = points.shape, 1.0, ""
    ranks, bins = scipy.stats.rankdata(points, axis=0), [_bins(column) for column in points.T]
    for j, k in combinations(range(d), 2):
        table = scipy.stats.contingency.crosstab(bins[j], bins[k]).count
        if min(table.shape) < 2:
            continue  # a constant
        rho = float(np.corrcoef(ranks[:, j], ranks[:, k])[0, 1])
        chi = float(scipy.stats.chi2_contingency(table, correction=False).pvalue)
        by_rank = 2.0 * float(scipy.special.ndtr(-abs(rho) * np.sqrt(n - 1)))
        for p, what in ((by_rank, f"rank correlation {rho:.2f}"), (chi, "chi^2")):
            if p < least:
                least, text = p, f"{names[j]} and {names[k]} depend on each other ({what}, p = {p:.1g})"
    return text if least * d * (d - 1) < level else ""


def detectable_correlation(n: int, d: int, level: float = DEPENDENCE_LEVEL, power: float = 0.9) -> float:
    """The correlation that `dependence` finds with this power."""
    tails = scipy.special.ndtri(1.0 - level / (2.0 * d * max(d - 1, 1))) + scipy.special.ndtri(power)
    return float(np.tanh(tails / np.sqrt(max(n - 3, 1))))
