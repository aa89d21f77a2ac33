"""Estimate means and ratios of means R = sum_u X_u / sum_u c_u over sampling units u, and resample units.

X_u is the sum and c_u the number of a unit's values, or the values of the second mean.  With e_u = X_u - R c_u, the
standard error is sqrt(n / (n - 1) sum_u e_u^2) / sum_u c_u.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.special at the first use, which takes 0.2 s

from evogt_study.inference import kernels
from evogt_study.inference.kernels import Array, Bools, Kernel

BATCH = 2**21  # counts or resampled values in memory at a time, which take 16 MB
_KEPT = 2**24  # counts in the cache for one sample size: 32 MB, for 16,000 seeds
_Counts = npt.NDArray[np.uint16]


class Fit(NamedTuple):
    """The ratio (m,), its standard error (m,), and residuals e_u / sum c and weights c_u / sum c, (m, n)."""

    ratio: Array
    error: Array
    residuals: Array
    shares: Array


def unit_sums(values: Array) -> tuple[Array, Array]:
    """Return the sum and the number of values of each unit, (..., n, k) -> two (..., n), or NaN without values."""
    counts = kernels.count(values)
    return np.where(counts > 0, np.nansum(values, axis=-1), np.nan), np.where(counts > 0, counts, np.nan)


def fit_blocks(values: Array) -> tuple[Array, Array]:
    """Return setup means (N,) and unit effects (R,) of the least-squares fit value = setup + unit + rest."""
    there = np.isfinite(values)
    y, counts = np.where(there, values, 0.0), np.maximum(there.sum(axis=0), 1)
    setups = np.linalg.lstsq(*_setup_equations(y, there / counts, there), rcond=None)[0]
    units = np.where(there.any(axis=0), (y.sum(axis=0) - there.T @ setups) / counts, 0.0)
    return setups + units[there.any(axis=0)].mean(), units


def _setup_equations(y: Array, weights: Array, there: Bools) -> tuple[Array, Array]:
    """Return the normal equations of the setup effects, whose sum is zero, without the unit effects."""
    matrix = np.diag(there.sum(axis=1).astype(float)) - weights @ there.T.astype(float) + 1.0 / len(y)
    return matrix, y.sum(axis=1) - weights @ y.sum(axis=0)


def pseudo_values(values: Array) -> Array:
    """Return jackknife pseudo-values (N, R) of the setup means over the units with values."""
    values = values[:, np.isfinite(values).any(axis=0)]
    count = values.shape[1]
    if np.isfinite(values).all() or count < 2:
        return values
    there, left = np.isfinite(values), np.empty_like(values)
    y, weights = np.where(there, values, 0.0), there / there.sum(axis=0)
    (matrix, right), means = _setup_equations(y, weights, there), y.sum(axis=0) / there.sum(axis=0)
    total, whole = means.sum(), weights.sum(axis=1)
    for unit, own in enumerate(there.T.astype(float)):
        less = matrix - np.diag(own) + np.outer(own, weights[:, unit])
        setups = np.linalg.lstsq(less, right - y[:, unit] + own * means[unit], rcond=None)[0]
        others = total - means[unit] - (whole - weights[:, unit]) @ setups
        left[:, unit] = setups + others / (count - 1)
    return np.asarray(fit_blocks(values)[0][:, None] + (count - 1.0) * (left.mean(axis=1, keepdims=True) - left))


def iterate_fits(above: Array, below: Array, rows: int) -> Iterator[tuple[npt.NDArray[np.intp], Fit, Array]]:
    """Yield positions of at most `rows` rows with equally many finite units (at least two), their fit and its scale."""
    ok = ~(np.isnan(above) | np.isnan(below))
    counts = np.where(((np.isinf(above) | np.isinf(below)) & ok).any(axis=-1), 0, ok.sum(axis=-1))
    for size in np.unique(counts[counts > 1]).tolist():
        every = np.flatnonzero(counts == size)
        for start in range(0, len(every), rows):
            which = every[start : start + rows]
            over, under = (each[which][ok[which]].reshape(-1, size) for each in (above, below))
            scales = [np.exp2(np.frexp(np.abs(each).max(axis=-1))[1] - 1.0) for each in (over, under)]
            over, under = over / scales[0][:, None], under / scales[1][:, None]
            total = under.sum(axis=-1)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio, shares, each = over.sum(axis=-1) / total, under / total[:, None], over / under
                same = (each == each[:, :1]).all(axis=-1)
                ratio = np.where(same, each[:, 0], ratio)  # to the last digit
                residuals = np.where(same[:, None], 0.0, (over - ratio[:, None] * under) / total[:, None])
            # n/(n - 1): if all weights are equal this is the standard error of a mean, std/sqrt(n)
            error = np.sqrt((residuals**2).sum(axis=-1) * size / (size - 1.0))
            yield which, Fit(ratio, error, residuals, shares), scales[0] / scales[1]


def resample_fits(fit: Fit, resamples: int, seed: int) -> tuple[Array, Array, Array]:
    """Return R* - R, the relative denominator and the sum of squared residuals of each resample."""
    e, c = fit.residuals, fit.shares
    if (c == c[:, :1]).all():  # as many values in each unit: two sums instead of five
        sums, squares = resample_sums(np.stack([e, e**2]), resamples, seed)
        return sums, np.ones_like(sums), squares - sums**2 / e.shape[-1]
    sums, below, squares, mixed, weights = resample_sums(np.stack([e, c, e**2, e * c, c**2]), resamples, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = sums / below
        return moved, below, squares - 2.0 * moved * mixed + moved**2 * weights


def student_quantile(n: npt.ArrayLike, confidence: float) -> Array:
    """Return the value that Student's |t| for n units exceeds with the probability 1 - confidence."""
    return np.asarray(scipy.special.stdtrit(np.asarray(n, dtype=float) - 1.0, (1.0 + confidence) / 2.0))


def normal_quantile(confidence: float) -> float:
    """Return the value that a normal |z| exceeds with the probability 1 - confidence."""
    return float(scipy.special.ndtri(0.5 + confidence / 2.0))


def resample_sums(columns: Array, resamples: int, seed: int) -> Array:
    """Return the sums of columns (..., n) over the units of each bootstrap resample, (..., resamples)."""
    size = columns.shape[-1]
    draw = _keep_counts if size * resamples <= _KEPT else _draw_counts
    blocks = [columns.reshape(-1, size) @ counts.astype(float).T for counts in draw(size, resamples, seed)]
    return np.concatenate(blocks, axis=-1).reshape(*columns.shape[:-1], resamples)


def _draw_counts(size: int, resamples: int, seed: int) -> Iterator[_Counts]:
    """Yield counts of each unit in each resample, (b, size), in blocks of resamples."""
    rng, step = np.random.default_rng(seed), max(1, BATCH // size)
    for start in range(0, resamples, step):
        shape = (min(step, resamples - start), size)
        # each resample counts into a stretch of its own, so that one bincount does for all
        places = rng.integers(0, size, shape) + size * np.arange(shape[0])[:, None]
        yield np.bincount(places.ravel(), minlength=places.size).reshape(shape).astype(np.uint16)


@lru_cache(maxsize=4)  # samples of one table have mostly one or two sizes, and figures of them the same
def _keep_counts(size: int, resamples: int, seed: int) -> list[_Counts]:
    return list(_draw_counts(size, resamples, seed))


def resample_statistic(values: Array, kernel: Kernel, resamples: int, seed: int) -> Array:
    """Return a statistic of bootstrap resamples of whole units, (m, n, k) -> (m, resamples)."""
    rows, units, within = values.shape
    dtype = np.int64 if (kernels.count(values) == 1).all() else np.int32  # SciPy's resamples of single values
    places = np.random.default_rng(seed).integers(0, units, (resamples, units), dtype=dtype)
    parts = np.array_split(places, -(-resamples * max(1, values.size) // BATCH))
    return np.concatenate([kernel(values[:, each].reshape(rows, len(each), units * within)) for each in parts], axis=-1)
