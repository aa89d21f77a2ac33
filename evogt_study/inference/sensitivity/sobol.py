"""Sobol indices by Saltelli's blocks, with the estimators of SALib, blocks with a missing member left out."""

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

    A block with a value that is not finite is left out, all of its members together; with several seeds, of this seed,
    and wholly where fewer than two seeds are left.  Every index is a ratio of sums over blocks, and has the interval
    `how` of one, bootstrap-t as a default.
    """
    there = np.asarray(np.isfinite(values).all(axis=1))
    kept = np.asarray(there.sum(axis=1) >= min(2, values.shape[-1]))
    count = int(kept.sum())
    if count < FEWEST_BLOCKS:
        return unknown(parameters, count)
    scaled = _scaled(values[kept], there[kept])
    if scaled is None:
        return unknown(parameters, count)
    above, below = _columns(scaled, there[kept], parameters)
    found = above.mean(axis=-1) / below.mean()
    limits = ratio_interval(above, np.broadcast_to(below, above.shape), how)
    if values.shape[-1] < 2:
        found[-1] = limits[-1] = np.nan  # nothing is known of the seed
    second = np.full((parameters, parameters), np.nan)
    second_ci = np.full((parameters, parameters, 2), np.nan)
    if values.shape[1] == 2 * parameters + 2:
        upper = np.triu_indices(parameters, 1)
        second[upper], second_ci[upper] = found[2 * parameters : -1], limits[2 * parameters : -1]
    first, total = slice(0, parameters), slice(parameters, 2 * parameters)
    return Shares(
        found[first], limits[first], found[total], limits[total], second, second_ci, found[-1], limits[-1], 0.0, count
    )


def _scaled(values: Array, there: npt.NDArray[np.bool_]) -> Array | None:
    """The values less their mean over their standard deviation, zero where a seed's block is left out."""
    known = np.broadcast_to(there[:, None, :], values.shape)
    numbers = values[known]
    if numbers.max() == numbers.min():
        return None
    return np.where(known, (np.where(known, values, 0.0) - numbers.mean()) / numbers.std(), 0.0)


def _columns(y: Array, there: npt.NDArray[np.bool_], parameters: int) -> tuple[Array, Array]:
    """Of each block the numerators (K, N) of first, total, second order and seed, and the denominator (N,)."""
    seeds = there.sum(axis=1)
    first, last, forth = y[:, 0], y[:, -1], y[:, 1 : 1 + parameters]

    def product(one: Array, other: Array) -> Array:
        """Mean product over the seeds (N, R), of different seeds where there are several."""
        if there.shape[1] == 1:
            return np.asarray((one * other)[:, 0])
        both = one.sum(axis=1) * other.sum(axis=1) - (one * other).sum(axis=1)
        return np.asarray(both / (seeds * (seeds - 1.0)))

    columns = [product(last, forth[:, j] - first) for j in range(parameters)]
    columns += [0.5 * product(first - forth[:, j], first - forth[:, j]) for j in range(parameters)]
    if y.shape[1] == 2 * parameters + 2:
        back, both = y[:, 1 + parameters : -1], product(first, last)
        columns += [
            product(back[:, j], forth[:, k]) - both - columns[j] - columns[k]
            for j, k in combinations(range(parameters), 2)
        ]
    mean = y.sum(axis=2) / seeds[:, None]
    within = np.where(there[:, None, :], y - mean[..., None], 0.0) ** 2
    columns.append(within.sum(axis=(1, 2)) / (y.shape[1] * np.maximum(seeds - 1.0, 1.0)))
    ends = y[:, [0, -1]]
    means, squares = (each.sum(axis=(1, 2)) / (2.0 * seeds) for each in (ends, ends**2))
    middle = means.mean()
    return np.array(columns), squares - 2.0 * middle * means + middle**2
