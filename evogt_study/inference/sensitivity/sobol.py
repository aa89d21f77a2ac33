"""Sobol indices by Saltelli's blocks, with the estimators of SALib; an index rests on blocks that have its members."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from evogt_study.inference.intervals import Interval, ratio_interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.sensitivity.shares import Shares, unknown

FEWEST_BLOCKS = 2
"""Blocks below which nothing has a spread."""


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
    # the last count is that of the seed's share, which one seed alone does not have
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
    # the indices are those of the values, but less cancels in the products that they are made of
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
