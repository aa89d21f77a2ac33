"""Estimate means and ratios of means, with standard errors and intervals.

Both are one estimator, a ratio of sums over units.  A mean is sum_u X_u / sum_u c_u with the sum X_u and the number c_u
of a unit's values.  For a ratio of means over pairs, the values of the second mean take the place of c_u.  With the
ratio R and e_u = X_u - R c_u, the standard error is sqrt(n / (n - 1) sum_u e_u^2) / sum_u c_u.  For a mean of single
values this is std / sqrt(n).  Bootstrap resamples draw whole units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.special at the first use, which takes 0.2 s

from evogt_study.inference import kernels
from evogt_study.inference.kernels import Array, Bools

BATCH = 2**21
"""Counts or resampled values at a time: 16 MB, which is little for a Python process."""
_KEPT = 2**24
"""Largest number of counts that is kept for a sample size: 32 MB, 16,000 seeds.  Drawing takes longer than summing."""
NO_SPREAD = 1e-12
"""Variance of a resample, relative to its sample, up to which its values are equal: rounding leaves 1e-16 n."""
_Counts = npt.NDArray[np.uint16]


class Fit(NamedTuple):
    """The ratio (m,), its standard error (m,), and residuals e_u / sum c and weights c_u / sum c, (m, n)."""

    ratio: Array
    error: Array
    residuals: Array
    shares: Array


def unit_sums(values: Array) -> tuple[Array, Array]:
    """Sums and numbers of the values of each unit, (..., n, k) -> two (..., n); NaN for a unit without any."""
    counts = kernels.count(values)
    return np.where(counts > 0, np.nansum(values, axis=-1), np.nan), np.where(counts > 0, counts, np.nan)


def setup_means(values: Array) -> Array:
    """Least-squares means (N,) of setups over all units, from values (N, R) with gaps: value = setup + unit + rest.

    A failed run costs one value, not its unit.  Without gaps these are the plain means; NaN for a setup without values.
    """
    return block_fit(values)[0]


def block_fit(values: Array) -> tuple[Array, Array]:
    """Setup means (N,) and unit effects (R,) of the least-squares fit value = setup + unit + rest, (N, R) with gaps."""
    there = np.isfinite(values)
    y, columns = np.where(there, values, 0.0), np.maximum(there.sum(axis=0), 1)
    matrix, right = _normal_equations(y, there)
    a = np.linalg.lstsq(matrix, right, rcond=None)[0]
    units = np.where(there.any(axis=0), (y.sum(axis=0) - there.T @ a) / columns, 0.0)
    return np.where(there.any(axis=1), a + units[there.any(axis=0)].mean(), np.nan), units


def _normal_equations(y: Array, there: Bools) -> tuple[Array, Array]:
    """Equations (N, N), (N,) of the setup effects, which add up to zero, without the unit effects."""
    weights = there / np.maximum(there.sum(axis=0), 1)
    matrix = np.diag(there.sum(axis=1).astype(float)) - weights @ there.T.astype(float)
    return matrix + 1.0 / len(y), y.sum(axis=1) - weights @ y.sum(axis=0)


def pseudo_values(values: Array) -> Array:
    """Jackknife pseudo-values (N, R) of `setup_means` over the units; the values themselves without gaps.

    Units without any value are left out.  Their mean over the units is the setup mean.
    """
    values = values[:, np.isfinite(values).any(axis=0)]
    there, count = np.isfinite(values), values.shape[1]
    if there.all() or count < 2:
        return values
    y, columns = np.where(there, values, 0.0), there.sum(axis=0)
    matrix, right = _normal_equations(y, there)
    whole, left = setup_means(values), np.empty_like(values)
    for unit in range(count):
        own = there[:, unit].astype(float)
        less = matrix - np.diag(own) + np.outer(own, own) / columns[unit]
        side = right - y[:, unit] + own * y[:, unit].sum() / columns[unit]
        a = np.linalg.lstsq(less, side, rcond=None)[0]
        left[:, unit] = a + np.delete((y.sum(axis=0) - there.T @ a) / columns, unit).mean()
    found: Array = whole[:, None] + (count - 1.0) * (left.mean(axis=1, keepdims=True) - left)
    return found


def fits(above: Array, below: Array, rows: int) -> Iterator[tuple[npt.NDArray[np.intp], Fit, Array]]:
    """Ratios of sums over the units that both columns (m, n) have, at most `rows` rows of equally many units together.

    Yields positions of rows, their fit, and a power of two by which its numbers are to be multiplied: squares of very
    large and very small values are not.  Rows of fewer than two units or with an infinite value are left out.
    """
    ok = ~(np.isnan(above) | np.isnan(below))
    counts = np.where(((np.isinf(above) | np.isinf(below)) & ok).any(axis=-1), 0, ok.sum(axis=-1))
    for size in np.unique(counts[counts > 1]).tolist():
        every = np.flatnonzero(counts == size)
        for start in range(0, len(every), rows):
            which = every[start : start + rows]
            over, under = (each[which][ok[which]].reshape(-1, size) for each in (above, below))
            scales = [np.exp2(np.frexp(np.abs(each).max(axis=-1))[1] - 1.0) for each in (over, under)]
            yield which, fit_ratio(over / scales[0][:, None], under / scales[1][:, None]), scales[0] / scales[1]


def fit_ratio(above: Array, below: Array) -> Fit:
    """The ratio of sums over n > 1 units, (m, n), with its standard error; exact if all units have one ratio."""
    n = above.shape[-1]
    total = below.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, shares, each = above.sum(axis=-1) / total, below / total[:, None], above / below
        same = (each == each[:, :1]).all(axis=-1)
        ratio = np.where(same, each[:, 0], ratio)  # to the last digit
        residuals = (above - ratio[:, None] * below) / total[:, None]
        residuals[same] = 0.0
    # n/(n - 1): if all weights are equal this is the standard error of a mean, std/sqrt(n)
    return Fit(ratio, np.sqrt((residuals**2).sum(axis=-1) * n / (n - 1.0)), residuals, shares)


def student_interval(fit: Fit, confidence: float, logarithmic: bool) -> Array:
    """Student's interval, (m, 2)."""
    quantile = student_quantile(fit.residuals.shape[-1], confidence)
    return _from_t(fit, np.array([[-quantile, quantile]]), _on_logarithms(fit, logarithmic))


def bootstrap_t_interval(fit: Fit, confidence: float, logarithmic: bool, resamples: int, seed: int) -> Array:
    """Bootstrap-t interval (Efron 1981), nowhere narrower than Student's, (m, 2).

    The studentised resamples t* = (R* - R) / s* replace Student's distribution, on the logarithmic scale
    log(R*/R) R* / s*; each end is the wider one of both methods.  Resamples of equal values have no t* and are left
    out.  If the lower end is not positive and all values are, it is the least value of a unit.

    All n values are above the mean of a distribution that is symmetric, or skewed to the right, with 2^-n at the most:
    of so few that this is beyond the tail (1 - confidence) / 2, below 6 at 95 %, the lower end is zero.
    """
    n, logs = fit.residuals.shape[-1], _on_logarithms(fit, logarithmic)
    student, t = student_quantile(n, confidence), _studentise(fit, logs, resamples, seed)
    low, high = (kernels.quantile(t, 0.5 + side * confidence / 2.0) for side in (-1.0, 1.0))
    limits = _from_t(fit, np.stack([np.fmin(low, -student), np.fmax(high, student)], axis=-1), logs)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = (fit.residuals / fit.shares).min(axis=-1) + fit.ratio
    beyond = (least > 0.0) & (limits[:, 0] <= 0.0)
    limits[beyond, 0] = least[beyond] if 2.0**-n <= (1.0 - confidence) / 2.0 else 0.0
    return limits


def percentile_interval(fit: Fit, confidence: float, resamples: int, seed: int) -> Array:
    """Quantiles of the resampled ratios, (m, 2)."""
    ratios = fit.ratio[:, None] + _resample(fit, resamples, seed)[0]
    return np.quantile(ratios, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0], axis=-1).T


def _studentise(fit: Fit, logs: Bools, resamples: int, seed: int) -> Array:
    """t* of each resample, (m, resamples), on logarithms where `logs`; NaN for resamples without spread."""
    n = fit.residuals.shape[-1]
    moved, below, squares = _resample(fit, resamples, seed)
    largest = np.maximum(squares, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(largest * (n / (n - 1.0))) / below
        now = fit.ratio[:, None] + moved
        t = np.where(logs[:, None], np.log(now / fit.ratio[:, None]) * now / error, moved / error)
    return np.where((largest > NO_SPREAD * (fit.error**2)[:, None]) & np.isfinite(t), t, np.nan)


def _resample(fit: Fit, resamples: int, seed: int) -> tuple[Array, Array, Array]:
    """Return, for each resample, R* - R, its share of the denominators, and its sum of squared residuals."""
    e, c = fit.residuals, fit.shares
    if (c == c[:, :1]).all():  # as many values in each unit: two sums instead of five
        sums, squares = resampled_sums(np.stack([e, e**2]), resamples, seed)
        return sums, np.ones_like(sums), squares - sums**2 / e.shape[-1]
    sums, below, squares, mixed, weights = resampled_sums(np.stack([e, c, e**2, e * c, c**2]), resamples, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = sums / below
        return moved, below, squares - 2.0 * moved * mixed + moved**2 * weights


def _on_logarithms(fit: Fit, logarithmic: bool) -> Bools:
    """Return the mask of rows whose interval uses logarithms: every part of the ratio is positive."""
    whole = fit.residuals + fit.ratio[:, None] * fit.shares
    return np.asarray(logarithmic & (whole > 0.0).all(axis=-1) & (fit.shares > 0.0).all(axis=-1))


def _from_t(fit: Fit, ends: Array, logs: Bools) -> Array:
    """Interval R - t s, or R exp(-t s / R), at the upper and the lower t of `ends` (m, 2)."""
    steps = -ends[:, ::-1] * fit.error[:, None]  # R - t s: the upper quantile of t makes the lower end
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = fit.ratio[:, None]
        return np.where(logs[:, None], ratio * np.exp(steps / ratio), ratio + steps)


def student_quantile(n: float, confidence: float) -> float:
    """Quantile of Student's distribution for n units that |t| exceeds with 1 - confidence."""
    return float(scipy.special.stdtrit(n - 1.0, (1.0 + confidence) / 2.0))


def normal_quantile(confidence: float) -> float:
    """Quantile of the normal distribution that |z| exceeds with 1 - confidence."""
    return float(scipy.special.ndtri(0.5 + confidence / 2.0))


def resampled_sums(columns: Array, resamples: int, seed: int) -> Array:
    """Sums (..., resamples) over the units of each bootstrap resample, of columns (..., n)."""
    size = columns.shape[-1]
    draw = _keep_counts if size * resamples <= _KEPT else _draw_counts
    blocks = [columns.reshape(-1, size) @ counts.astype(float).T for counts in draw(size, resamples, seed)]
    return np.concatenate(blocks, axis=-1).reshape(*columns.shape[:-1], resamples)


def _draw_counts(size: int, resamples: int, seed: int) -> Iterator[_Counts]:
    """Counts of each unit in each resample, (b, size), in blocks of resamples."""
    rng, step = np.random.default_rng(seed), max(1, BATCH // size)
    for start in range(0, resamples, step):
        shape = (min(step, resamples - start), size)
        # each resample counts into a stretch of its own, so that one bincount does for all
        places = rng.integers(0, size, shape) + size * np.arange(shape[0])[:, None]
        yield np.bincount(places.ravel(), minlength=places.size).reshape(shape).astype(np.uint16)


@lru_cache(maxsize=4)  # samples of one table have mostly one or two sizes, and figures of them the same
def _keep_counts(size: int, resamples: int, seed: int) -> list[_Counts]:
    return list(_draw_counts(size, resamples, seed))


def resampled_statistic(values: Array, kernel: Callable[[Array], Array], resamples: int, seed: int) -> Array:
    """A statistic of the resamples, (m, n, k) -> (m, resamples): each of n units is drawn with all of its k values."""
    rows, units, within = values.shape
    dtype = np.int64 if (kernels.count(values) == 1).all() else np.int32  # SciPy's resamples of single values
    places = np.random.default_rng(seed).integers(0, units, (resamples, units), dtype=dtype)
    parts = np.array_split(places, -(-resamples * max(1, values.size) // BATCH))
    return np.concatenate([kernel(values[:, each].reshape(rows, len(each), units * within)) for each in parts], axis=-1)
