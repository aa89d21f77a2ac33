"""Shares of a variance: a nested analysis of variance of a balanced table, parameters down to seeds."""

from __future__ import annotations

import numpy as np

from evogt_study.inference.kernels import Array
from evogt_study.inference.means import student_quantile

ROUNDED = 8 * np.finfo(float).eps
"""Spread of numbers, relative to the largest, up to which they are one that was rounded: means of equal numbers are."""


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
    varies = spread > ROUNDED * float(np.abs(table).max(initial=0.0))
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
