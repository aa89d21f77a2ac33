"""Measure how parameters and seeds decide a number.

- Saltelli's blocks and Morris' trajectories, in the order of SALib, are recognised by their points: `saltelli_block`
  and `is_morris`.
- Saltelli's blocks give Sobol indices (`indices`), and trajectories give elementary effects (`effects`).
- `corners` finds the parameters on which it depends whether a run fails.
- `components` and `shares` split the variance on a grid, an axis nested in the axes before it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.special at the first use, which takes 0.2 s

from evogt_study.inference.intervals import Interval, ratio_interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.means import resampled_sums, student_quantile

FEWEST_BLOCKS = 2
"""Fewest blocks that have a spread."""
CORNER_LEVEL = 0.01
"""Level of all tests of a sample together: below it a corner is reported."""
CORNER_PERMUTATIONS = 1999
"""Permutations: enough that ten parameters can each be seen at a tenth of `CORNER_LEVEL`."""
CORNER_SEED = 0
CORNER_BINS = 4
"""Ranges of a parameter, of equally many points each: a corner of a tenth of the sample lies in one or two of them."""
CORNER_QUANTILES = (0.1, 0.9)
"""Quantiles of the failed points that bound a corner: beside it others may fail at random."""
MAX_ROUNDING = 8 * np.finfo(float).eps
"""Spread of numbers, relative to the largest, up to which they are one that was rounded: means of equal numbers are."""


def saltelli_block(points: Array) -> int:
    """Members of a block of a Saltelli design, 2 D + 2 or D + 2; zero for points (n, D) that are none.

    A block is A, AB_1 ... AB_D, then BA_1 ... BA_D where the design has second order, and B: AB_j is A with the j-th
    coordinate of B, and BA_j is B with that of A (Saltelli, Comput. Phys. Commun. 145, 2002).
    """
    count, dimension = points.shape
    for members in (2 * dimension + 2, dimension + 2):
        if dimension and count and count % members == 0 and _is_saltelli(points.reshape(-1, members, dimension)):
            return int(members)
    return 0


def _is_saltelli(blocks: Array) -> bool:
    dimension = blocks.shape[-1]
    first, last = blocks[:, 0], blocks[:, -1]
    if not (first != last).any():
        return False  # one point again and again
    for place in range(dimension):
        own = np.arange(dimension) == place
        if (blocks[:, 1 + place] != np.where(own, last, first)).any():
            return False
        if blocks.shape[1] > dimension + 2 and (blocks[:, 1 + dimension + place] != np.where(own, first, last)).any():
            return False
    return True


def is_morris(points: Array) -> bool:
    """Test for trajectories of D + 1 points (n, D): every coordinate changes once, one at each step."""
    count, dimension = points.shape
    if not dimension or not count or count % (dimension + 1):
        return False
    changed = np.diff(points.reshape(-1, dimension + 1, dimension), axis=1) != 0.0
    return bool((changed.sum(axis=1) == 1).all() and (changed.sum(axis=2) == 1).all())


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of D parameters and of the seed in the variance of a number; NaN where the number does not vary.

    first, total (D,): of E[Y | parameters], which is what is left when the seed is averaged out.  second (D, D): above
    the diagonal, NaN elsewhere.  seed (): E[Var(Y | parameters)], all that involves the seed.  Each with its interval,
    (..., 2).  unexplained: the share that the estimator does not see.  n_ok: blocks or points that all rests on.
    """

    first: Array
    first_ci: Array
    total: Array
    total_ci: Array
    second: Array
    second_ci: Array
    seed: Array
    seed_ci: Array
    unexplained: float
    n_ok: int


def unknown(parameters: int, n_ok: int) -> Shares:
    """NaN for everything, of a number that does not vary or has too few values."""
    shapes = {"first": (parameters,), "total": (parameters,), "second": (parameters, parameters), "seed": ()}
    found = {
        field.name: np.full((*shapes[name], 2) if field.name.endswith("_ci") else shapes[name], np.nan)
        for field in fields(Shares)
        if (name := field.name.removesuffix("_ci")) in shapes
    }
    return Shares(**found, unexplained=np.nan, n_ok=n_ok)


def indices(values: Array, parameters: int, how: Interval) -> Shares:
    """First-order, second-order and total indices of values (N, members, R) of N blocks with R seeds.

    Of the values less their mean, with V = mean of y^2 over A and B less the square of their mean, and means over
    blocks, S_j = mean B (AB_j - A) / V, T_j = mean (A - AB_j)^2 / (2 V) (Saltelli et al., Comput. Phys. Commun. 181,
    2010) and S_jk = mean (BA_j AB_k - A B) / V - S_j - S_k (Saltelli, Comput. Phys. Commun. 145, 2002), as SALib's
    ``sobol.analyze`` has them.  With several seeds products are of two different seeds, so that they are without bias
    of E[Y | parameters], and V is the variance over blocks and seeds.  What the seed has is the mean variance over the
    seeds of a point.

    An index rests on the blocks in which the members that it needs are finite, V of its denominator too: A, B and AB_j
    of S_j and T_j, these, AB_k and BA_j of S_jk, all members of the seed's share; with several seeds, on the seeds of a
    block that have them, two at least.  Every index is a ratio of sums over blocks, and has the interval `how` of one,
    bootstrap-t as a default.  n_ok is the least number of blocks that one rests on.
    """
    scaled = _scaled(values)
    if scaled is None:
        return unknown(parameters, int(np.isfinite(values).any(axis=(1, 2)).sum()))
    above, below = _columns(scaled, parameters)
    complete = np.isfinite(above) & np.isfinite(below)
    counts = complete.sum(axis=-1)
    found = np.full(len(above), np.nan)
    for row in np.flatnonzero(counts >= FEWEST_BLOCKS):
        found[row] = above[row, complete[row]].mean() / below[complete[row]].mean()
    limits = ratio_interval(above, np.broadcast_to(below, above.shape), how)
    if values.shape[-1] < 2:
        found[-1] = limits[-1] = np.nan  # nothing is known of the seed
    second = np.full((parameters, parameters), np.nan)
    second_ci = np.full((parameters, parameters, 2), np.nan)
    if values.shape[1] == 2 * parameters + 2:
        upper = np.triu_indices(parameters, 1)
        second[upper], second_ci[upper] = found[2 * parameters : -1], limits[2 * parameters : -1]
    first, total = slice(0, parameters), slice(parameters, 2 * parameters)
    # the last count belongs to the share of the seed, which does not exist for one seed
    least = int(counts[: len(counts) - (values.shape[-1] < 2)].min())
    return Shares(
        found[first], limits[first], found[total], limits[total], second, second_ci, found[-1], limits[-1], 0.0, least
    )


def _scaled(values: Array) -> Array | None:
    """The values less their mean over their standard deviation, NaN where one is not finite; None if they are equal."""
    known = np.isfinite(values)
    numbers = values[known]
    if not numbers.size or numbers.max() == numbers.min():
        return None
    # scaling does not change the indices, and less cancels in the products
    return np.asarray((np.where(known, values, np.nan) - numbers.mean()) / numbers.std())


def _columns(y: Array, parameters: int) -> tuple[Array, Array]:
    """Of each block the numerators (K, N) of first, total, second order and seed, and the denominator (N,).

    NaN in a block that lacks what one needs.
    """
    finite, y = np.isfinite(y), np.nan_to_num(y)
    first, last, forth = y[:, 0], y[:, -1], y[:, 1 : 1 + parameters]
    ends, steps = finite[:, 0] & finite[:, -1], finite[:, 1 : 1 + parameters]
    columns = [_product(last, forth[:, j] - first, ends & steps[:, j]) for j in range(parameters)]
    columns += [0.5 * _product(first - forth[:, j], first - forth[:, j], ends & steps[:, j]) for j in range(parameters)]
    if y.shape[1] == 2 * parameters + 2:
        back, returns = y[:, 1 + parameters : -1], finite[:, 1 + parameters : -1]
        for j, k in combinations(range(parameters), 2):
            there = ends & returns[:, j] & steps[:, k]
            both = _product(back[:, j], forth[:, k], there) - _product(first, last, there)
            columns.append(both - columns[j] - columns[k])
    columns.append(_within(y, np.asarray(finite.all(axis=1))))
    return np.array(columns), _spread(y[:, [0, -1]], ends)


def _product(one: Array, other: Array, there: npt.NDArray[np.bool_]) -> Array:
    """Mean product over seeds (N, R) that are `there`, of different ones where there are several; NaN of too few."""
    one, other, seeds = np.where(there, one, 0.0), np.where(there, other, 0.0), there.sum(axis=1)
    if there.shape[1] == 1:
        return np.where(there[:, 0], (one * other)[:, 0], np.nan)
    both = one.sum(axis=1) * other.sum(axis=1) - (one * other).sum(axis=1)
    return np.where(seeds > 1, both / np.maximum(seeds * (seeds - 1.0), 1.0), np.nan)


def _within(y: Array, there: npt.NDArray[np.bool_]) -> Array:
    """Mean variance over the seeds that are `there` of the members of each block, (N,)."""
    seeds, known = there.sum(axis=1), np.broadcast_to(there[:, None, :], y.shape)
    mean = np.where(known, y, 0.0).sum(axis=2) / np.maximum(seeds, 1)[:, None]
    squares = np.where(known, y - mean[..., None], 0.0) ** 2
    return np.where(seeds > 1, squares.sum(axis=(1, 2)) / (y.shape[1] * np.maximum(seeds - 1.0, 1.0)), np.nan)


def _spread(ends: Array, there: npt.NDArray[np.bool_]) -> Array:
    """Squares of A and B (N, 2, R) less the mean of both over all blocks, where they are `there`, mean over seeds."""
    seeds, known = there.sum(axis=1), np.where(there[:, None, :], ends, 0.0)
    means, squares = (each.sum(axis=(1, 2)) / (2.0 * np.maximum(seeds, 1)) for each in (known, known**2))
    some = seeds >= min(2, there.shape[1])
    middle = means[some].mean() if some.any() else np.nan
    return np.where(some, squares - 2.0 * middle * means + middle**2, np.nan)


@dataclass(frozen=True, eq=False)
class Effects:
    """Statistics of the elementary effects of each parameter, (D,).

    mu: mean; mu_star: mean magnitude, with its interval mu_star_ci (D, 2); sigma: standard deviation (divisor n - 1).
    n_ok: trajectories that all rests on.
    """

    mu: Array
    mu_star: Array
    mu_star_ci: Array
    sigma: Array
    n_ok: int


def effects(values: Array, points: Array, levels: int, how: Interval) -> Effects:
    """Effects (y(u + delta e_j) - y(u)) / delta of values (n,) at points (n, D) of trajectories, u in the unit cube.

    Of p levels a step is delta = p / (2 (p - 1)) (Morris, Technometrics 33, 1991); mu_star is of Campolongo et al.,
    Environ. Model. Softw. 22, 2007; all as SALib's ``morris.analyze``.  A trajectory with a value that is not finite is
    left out.  The interval of mu_star is -+ z s with the standard deviation s over bootstrap resamples of trajectories.
    NaN below two trajectories.
    """
    dimension = points.shape[1]
    paths, trajectories = values.reshape(-1, dimension + 1), points.reshape(-1, dimension + 1, dimension)
    kept = np.isfinite(paths).all(axis=1)
    count = int(kept.sum())
    if count < 2:
        empty = np.full(dimension, np.nan)
        return Effects(empty, empty, np.full((dimension, 2), np.nan), empty, count)
    steps = np.diff(trajectories[kept], axis=1)  # (r, D, D): of each step one entry is not zero
    which = (steps != 0.0).argmax(axis=2)
    # a step down has the effect of the step up between the same points
    signs = np.sign(np.take_along_axis(steps, which[..., None], axis=2)[..., 0])
    found = np.empty((count, dimension))
    delta = levels / (2.0 * (levels - 1.0))
    np.put_along_axis(found, which, np.diff(paths[kept], axis=1) * signs / delta, axis=1)
    magnitudes = np.abs(found).T
    middle = magnitudes.mean(axis=1)
    spread = (resampled_sums(magnitudes, how.resamples, how.seed) / count).std(axis=1, ddof=1)
    half = float(scipy.special.ndtri(0.5 + how.confidence / 2.0)) * spread
    limits = np.stack([middle - half, middle + half], axis=-1)
    return Effects(found.mean(axis=0), middle, limits, found.std(axis=0, ddof=1), count)


class Corner(NamedTuple):
    """A parameter on which failures depend: its place, values between which 80 % of these lie, and p."""

    parameter: int
    lower: float
    upper: float
    p: float


def corners(failed: npt.NDArray[np.bool_], points: Array) -> list[Corner]:
    """Parameters on which it depends whether a point (n, D) failed (n,), the smallest p first.

    For each parameter chi^2 = sum over `CORNER_BINS` ranges of (failed - expected)^2 / expected.  With chi^2 of
    `CORNER_PERMUTATIONS` permutations of the failed points, p = (1 + number of those as large) / (1 + all).  A
    parameter is reported if Bonferroni's p D is below `CORNER_LEVEL`.
    """
    count = int(failed.sum())
    if count < 2 or count > len(failed) - 2:
        return []
    found = []
    for place, column in enumerate(points.T):
        bins = _bins(column)
        sizes, own = np.bincount(bins), np.bincount(bins[failed], minlength=int(bins.max()) + 1)
        # as many points drawn from the ranges as failed: the permutations, without permuting
        drawn = np.random.default_rng(CORNER_SEED).multivariate_hypergeometric(sizes, count, CORNER_PERMUTATIONS)
        expected = np.maximum(sizes * count / len(failed), 1e-300)  # a range may be empty where values are tied
        chi = ((np.concatenate([own[None], drawn]) - expected) ** 2 / expected).sum(axis=1)
        p = float((chi >= chi[0] * (1.0 - 1e-12)).mean())
        if p * points.shape[1] < CORNER_LEVEL:
            lower, upper = np.quantile(column[failed], CORNER_QUANTILES, method="nearest")
            found.append(Corner(place, float(lower), float(upper), p))
    return sorted(found, key=lambda corner: corner.p)


def _bins(column: Array) -> npt.NDArray[np.int64]:
    """Range of each value: its own where there are few different ones, else by rank."""
    values, order = np.unique(column, return_inverse=True)
    if len(values) <= CORNER_BINS:
        return np.asarray(order, dtype=np.int64)
    ranks = np.searchsorted(np.sort(column), column)
    return np.asarray(CORNER_BINS * ranks // len(column), dtype=np.int64)


def components(table: Array) -> Array:
    """Variance components of a table (n_1, ..., n_l, n), each axis nested in those before it; the last is of the units.

    With m_k the means over all axes behind the k-th and N_k values in each of them,
    MS_k = N_k sum (m_k - m_(k-1))^2 / (n_1 ... n_(k-1) (n_k - 1)) has the expectation N_k sigma_k^2 + E MS_(k+1), and
    sigma_k^2 is estimated by (MS_k - MS_(k+1)) / N_k, or zero where that is negative (Searle, Casella & McCulloch,
    Variance Components, 3.6).  An axis of one value has no component, and zero.
    """
    means = [np.asarray(table.mean(axis=tuple(range(k, table.ndim)), keepdims=True)) for k in range(table.ndim + 1)]
    squares, sizes = [], []
    for k in range(table.ndim):
        size = int(np.prod(table.shape[k + 1 :]))
        freedom = int(np.prod(table.shape[:k])) * (table.shape[k] - 1)
        squares.append(size * float(((means[k + 1] - means[k]) ** 2).sum()) / freedom if freedom else np.nan)
        sizes.append(size)
    found = np.zeros(table.ndim)
    below = 0.0
    for k in reversed(range(table.ndim)):
        if np.isfinite(squares[k]):
            found[k] = max(0.0, squares[k] - below) / sizes[k]
            below = squares[k]
    return found


def shares(table: Array) -> Array:
    """`components` in their sum; NaN where there is none, or none but rounding."""
    found = components(table)
    spread = float(np.ptp(table)) if table.size else 0.0
    varies = spread > MAX_ROUNDING * float(np.abs(table).max(initial=0.0))
    return found / found.sum() if varies and found.sum() > 0.0 else np.full(len(found), np.nan)


def share_intervals(table: Array, confidence: float) -> Array:
    """Intervals of `shares`, (l + 1, 2), with the parameters' values as they are and the units as a sample.

    The logarithm of share / (1 - share) is jackknifed over the units, all values of a unit left out together:
    p -+ t sqrt((n - 1) / n sum (p_u - mean)^2) with Student's quantile t for n units.  A share of 0 or 1 has its own
    value at both ends.
    """
    units = table.shape[-1]
    whole = shares(table)
    without = np.array([shares(np.delete(table, unit, axis=-1)) for unit in range(units)])
    least = 1e-12  # keeps the logarithm of a share that is zero without one unit finite
    logits = [np.log(np.clip(each, least, 1.0) / np.clip(1.0 - each, least, 1.0)) for each in (whole, without)]
    apart = logits[1] - logits[1].mean(axis=0)
    half = student_quantile(units, confidence) * np.sqrt((units - 1.0) / units * (apart**2).sum(axis=0))
    ends = np.stack([logits[0] - half, logits[0] + half], axis=-1)
    with np.errstate(over="ignore"):
        inside = 1.0 / (1.0 + np.exp(-ends))
    return np.where(((whole > 0.0) & (whole < 1.0))[:, None], inside, whole[:, None])
