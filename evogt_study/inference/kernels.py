"""Compute statistics over the last axis of an array, estimate ratios of means, and resample sampling units.

NaN marks a missing value.  A unit u has c_u values with the sum X_u.  The ratio R = sum_u X_u / sum_u c_u has the
standard error sqrt(n / (n - 1) sum_u e_u^2) / sum_u c_u, with e_u = X_u - R c_u.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.special at the first use, which takes 0.2 s

from evogt_study.errors import ParameterError

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
Kernel = Callable[[Array], Array]
MAX_BATCH_VALUES = 2**21  # largest number of counts or resampled values in memory: 16 MB
_MAX_CACHED_COUNTS = 2**24  # largest number of cached counts for a sample size: 32 MB, or 16,000 seeds
MIN_TAIL_VALUES = 10  # fewer evenly spaced values would have a heavy tail
HEAVY_TAIL_INDEX = 1.5  # a mean with a smaller index is unreliable (not 2, because estimates of the index scatter)


def count(samples: Array) -> Counts:
    """Return the number of values that are not NaN along the last axis."""
    return np.asarray((~np.isnan(samples)).sum(axis=-1, dtype=np.int64))


def divide(above: Array, below: npt.NDArray[np.number]) -> Array:
    """Return quotients, or NaN if the denominator is not positive."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))


def mean(samples: Array) -> Array:
    """Return the mean sum_i x_i / n.  Rounding never moves the mean out of the range of the values."""
    scale, scaled, n = _scale_rows(samples)
    found = np.clip(divide(scaled.sum(axis=-1), n) * scale, minimum(samples), maximum(samples))
    infinite = np.isinf(samples)
    if not infinite.any():
        return found
    with np.errstate(invalid="ignore"):  # infinities of both signs have no sum
        return np.where(infinite.any(axis=-1), np.where(infinite, samples, 0.0).sum(axis=-1), found)


def std(samples: Array) -> Array:
    """Return sqrt(sum_i (x_i - mean)^2 / (n - 1)), or NaN for one value or infinite values."""
    scale, scaled, n = _scale_rows(samples)
    apart = np.where(np.isfinite(samples), scaled - divide(scaled.sum(axis=-1), n)[..., None], 0.0)
    found = np.sqrt(divide((apart**2).sum(axis=-1), n - 1)) * scale
    found = np.where((n > 1) & (minimum(samples) == maximum(samples)), 0.0, found)
    return np.where(np.isinf(samples).any(axis=-1), np.nan, found)


def quantile(samples: Array, probability: float) -> Array:
    """Return the quantile by linear interpolation at position p (n - 1) of the sorted values, like NumPy."""
    size = samples.shape[-1]
    if not size:
        return np.full(samples.shape[:-1], np.nan)
    ordered, place = np.sort(samples, axis=-1), probability * np.maximum(count(samples) - 1, 0)  # NaN comes last
    below = np.floor(place).astype(np.int64)
    low, high = (_pick_entries(ordered, np.minimum(each, size - 1)) for each in (below, below + 1))
    part = place - below
    with np.errstate(invalid="ignore"):  # infinities of both signs
        # equal neighbours are the quantile, because the sum of their parts may be rounded
        return np.where((part == 0.0) | (low == high), low, (1.0 - part) * low + part * high)


median = partial(quantile, probability=0.5)


def geometric_mean(samples: Array) -> Array:
    """Return (x_1 ... x_n)^(1/n), zero if a value is zero, or NaN if a value is negative."""
    ok = ~np.isnan(samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.exp(divide(np.log(np.where(ok, samples, 1.0)).sum(axis=-1), ok.sum(axis=-1)))


def minimum(samples: Array) -> Array:
    """Return the least value over the last axis."""
    return np.asarray(np.fmin.reduce(samples, axis=-1, initial=np.nan))


def maximum(samples: Array) -> Array:
    """Return the greatest value over the last axis."""
    return -minimum(-samples)


def logarithms(samples: Array) -> Array:
    """Return log x_i, or NaN for values that are not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(samples > 0.0, np.log(samples), np.nan)


def drop_infinite(rows: Array) -> Array:
    """Return samples (m, n, k), with NaN for all values of a sample that has an infinite value."""
    return np.where(np.isinf(rows).any(axis=(-2, -1), keepdims=True), np.nan, rows)


def is_two_valued(samples: Array) -> bool:
    """Return True if there are values and all values are 0 or 1."""
    known = samples[~np.isnan(samples)]
    return bool(known.size) and bool(np.isin(known, (0.0, 1.0)).all())


STATISTICS: Mapping[str, tuple[Kernel, str]] = {  # kernels and long names
    "mean": (mean, "mean"), "std": (std, "sample standard deviation (divisor n - 1)"), "median": (median, "median"),
    "geometric_mean": (geometric_mean, "geometric mean"), "min": (minimum, "minimum"), "max": (maximum, "maximum"),
}  # fmt: skip


def find_kernel(name: str) -> tuple[Kernel, str]:
    """Return the kernel and long name of a statistic.  Raises ParameterError for an unknown name."""
    if name in STATISTICS:
        return STATISTICS[name]
    probability = read_probability(name)
    if probability is None:
        raise ParameterError("statistic", f"one of {', '.join(STATISTICS)}, or a quantile in percent like q25", name)
    return partial(quantile, probability=probability), f"{name[1:]} % quantile"


def read_probability(name: str) -> float | None:
    """Return the probability of a quantile such as q25, or None for another statistic."""
    percent = re.fullmatch(r"q(\d{1,3}(?:\.\d+)?)", name.replace("median", "q50"))
    return float(percent[1]) / 100.0 if percent and float(percent[1]) <= 100.0 else None


def _scale_rows(samples: Array) -> tuple[Array, Array, Counts]:
    """Return for each row a scale, the values over the scale (zero if not finite) and the number of finite values."""
    # a power of two does not round, and squares of large values do not overflow
    ok = np.isfinite(samples)
    known = np.where(ok, samples, 0.0)
    scale = np.exp2(np.frexp(np.abs(known).max(axis=-1, initial=0.0))[1] - 1.0)
    return scale, known / scale[..., None], ok.sum(axis=-1)


def _pick_entries(ordered: Array, place: Counts) -> Array:
    """Return the entry of each row at the position `place`."""
    return np.take_along_axis(ordered, place[..., None], axis=-1)[..., 0]


def compute_quantile_interval(values: Array, probability: float, confidence: float) -> Array:
    """Return the confidence interval of a quantile of samples, (m, n, k) -> (m, 2), with infinite ends without bounds.

    The l-th and u-th smallest of n values enclose the quantile p with a probability of at least P(l <= B < u), B ~
    binomial(n, p) (David & Nagaraja, Order Statistics, 7.1).  For k > 1, n is effective (Korn & Graubard 1998).
    """
    ordered = np.sort(values.reshape(len(values), values.shape[1] * values.shape[2]), axis=-1)
    n, tail = count(ordered), (1.0 - confidence) / 2.0
    if not ordered.shape[1]:
        return np.tile([-np.inf, np.inf], (len(values), 1))
    if (count(values) <= 1).all():
        ranks = {
            size: np.searchsorted(scipy.special.bdtr(np.arange(size + 1.0), size, probability), [tail, 1.0 - tail])
            for size in np.unique(n).tolist()
        }
        low, high = np.array([ranks[size] for size in n.tolist()], dtype=np.int64).reshape(-1, 2).T
        high = np.minimum(high, n) + 1
    else:  # the limits of Clopper and Pearson
        # the effective number is p (1 - p) / v with the variance v of the share below the quantile: the number of
        # units for equal values in each unit, and the number of values for independent values
        below = (values <= quantile(ordered, probability)[:, None, None]).sum(axis=-1)
        share = below.sum(axis=-1) / np.maximum(n, 1)
        squares = ((below - share[:, None] * count(values)) ** 2).sum(axis=-1)
        effective = np.where(squares > 0.0, divide(share * (1.0 - share) * n.astype(float) ** 2, squares), n)
        # an estimate from few units may leave the range from 1 to n
        effective = np.clip(effective, 1.0, np.maximum(n, 1))
        hits = effective * probability
        ends = (hits, effective - hits + 1.0, tail), (hits + 1.0, effective - hits, 1.0 - tail)
        low, high = (np.ceil(scipy.special.betaincinv(*each) * n).astype(np.int64) for each in ends)
    limits = [
        np.where((rank < 1) | (rank > n), beyond, _pick_entries(ordered, np.clip(rank - 1, 0, ordered.shape[1] - 1)))
        for rank, beyond in ((low, -np.inf), (high, np.inf))
    ]
    return np.stack(limits, axis=-1)


def compute_quantile_error(values: Array, probability: float) -> Array:
    """Return Maritz and Jarrett's standard error (1978) of a quantile, (m, n) -> (m,), or NaN below two values."""
    found, counts = np.full(len(values), np.nan), count(values)
    for size in np.unique(counts[counts > 1]):
        which = np.flatnonzero(counts == size)
        ordered = np.sort(values[which], axis=-1)[:, :size]
        steps = np.arange(size + 1) / size
        weights = np.diff(scipy.special.betainc((size + 1) * probability, (size + 1) * (1.0 - probability), steps))
        apart = ordered - ordered.mean(axis=-1, keepdims=True)
        found[which] = np.sqrt(np.maximum(apart**2 @ weights - (apart @ weights) ** 2, 0.0))
    return found


def largest_share(samples: Array) -> Array:
    """Return the share max |x| / sum |x| of the largest value in the mean."""
    sizes = np.abs(samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        return maximum(sizes) / mean(sizes) / count(samples)


def tail_index(samples: Array) -> Array:
    """Return Hill's estimate of the tail index from the max(3, sqrt(n)) largest |x|, or NaN below ten values."""
    sizes = np.sort(np.where(np.isnan(samples), -1.0, np.abs(samples)), axis=-1)[..., ::-1]
    n, infinite = count(samples), np.isinf(samples).any(axis=-1)
    if samples.shape[-1] < MIN_TAIL_VALUES:
        return np.where(infinite, 0.0, np.nan)
    k = np.maximum(3, np.sqrt(n).astype(np.int64))
    base = _pick_entries(sizes, np.minimum(k, samples.shape[-1] - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(np.arange(samples.shape[-1]) < k[..., None], np.log(sizes) - np.log(base)[..., None], 0.0)
        index = k / logs.sum(axis=-1)
    return np.where(infinite, 0.0, np.where((n >= MIN_TAIL_VALUES) & (base > 0.0), index, np.nan))


class Fit(NamedTuple):
    """Ratios (m,) with standard errors (m,), residuals e_u / sum c (m, n) and shares c_u / sum c (m, n)."""

    ratio: Array
    error: Array
    residuals: Array
    shares: Array


def sum_units(values: Array) -> tuple[Array, Array]:
    """Return the sum and the number of values of each unit, (..., n, k) -> two (..., n), or NaN without values."""
    counts = count(values)
    return np.where(counts > 0, np.nansum(values, axis=-1), np.nan), np.where(counts > 0, counts, np.nan)


def fit_blocks(values: Array) -> tuple[Array, Array]:
    """Return the setup means (N,) and unit effects (R,) of the least-squares fit value = setup + unit + rest."""
    there = np.isfinite(values)
    y, counts = np.where(there, values, 0.0), np.maximum(there.sum(axis=0), 1)
    setups = np.linalg.lstsq(*_make_setup_equations(y, there / counts, there), rcond=None)[0]
    units = np.where(there.any(axis=0), (y.sum(axis=0) - there.T @ setups) / counts, 0.0)
    return setups + units[there.any(axis=0)].mean(), units


def _make_setup_equations(y: Array, weights: Array, there: Bools) -> tuple[Array, Array]:
    """Return the normal equations of the setup effects after elimination of the unit effects."""
    matrix = np.diag(there.sum(axis=1).astype(float)) - weights @ there.T.astype(float) + 1.0 / len(y)
    return matrix, y.sum(axis=1) - weights @ y.sum(axis=0)


def compute_pseudo_values(values: Array) -> Array:
    """Return jackknife pseudo-values (N, R) of the setup means, with a column for each unit with a value."""
    values = values[:, np.isfinite(values).any(axis=0)]
    n_units = values.shape[1]
    if np.isfinite(values).all() or n_units < 2:
        return values
    there, left = np.isfinite(values), np.empty_like(values)
    y, weights = np.where(there, values, 0.0), there / there.sum(axis=0)
    (matrix, right), means = _make_setup_equations(y, weights, there), y.sum(axis=0) / there.sum(axis=0)
    total, whole = means.sum(), weights.sum(axis=1)
    for unit, own in enumerate(there.T.astype(float)):
        less = matrix - np.diag(own) + np.outer(own, weights[:, unit])
        setups = np.linalg.lstsq(less, right - y[:, unit] + own * means[unit], rcond=None)[0]
        others = total - means[unit] - (whole - weights[:, unit]) @ setups
        left[:, unit] = setups + others / (n_units - 1)
    return np.asarray(fit_blocks(values)[0][:, None] + (n_units - 1.0) * (left.mean(axis=1, keepdims=True) - left))


def iterate_fits(above: Array, below: Array, rows: int) -> Iterator[tuple[npt.NDArray[np.intp], Fit, Array]]:
    """Yield the positions, fits and scales of at most `rows` rows at a time, with equally many units (at least two)."""
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
                ratio = np.where(same, each[:, 0], ratio)  # exact to the last digit
                residuals = np.where(same[:, None], 0.0, (over - ratio[:, None] * under) / total[:, None])
            # n/(n - 1): for equal weights, the error is std/sqrt(n), the standard error of a mean
            error = np.sqrt((residuals**2).sum(axis=-1) * size / (size - 1.0))
            yield which, Fit(ratio, error, residuals, shares), scales[0] / scales[1]


def resample_fits(fit: Fit, resamples: int, seed: int) -> tuple[Array, Array, Array]:
    """Return R* - R, the relative denominator and the sum of squared residuals of each resample."""
    e, c = fit.residuals, fit.shares
    if (c == c[:, :1]).all():  # equally many values in each unit need two sums instead of five
        sums, squares = resample_sums(np.stack([e, e**2]), resamples, seed)
        return sums, np.ones_like(sums), squares - sums**2 / e.shape[-1]
    sums, below, squares, mixed, weights = resample_sums(np.stack([e, c, e**2, e * c, c**2]), resamples, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = sums / below
        return moved, below, squares - 2.0 * moved * mixed + moved**2 * weights


def compute_student_quantile(n: npt.ArrayLike, confidence: float) -> Array:
    """Return the value that |t| of Student's distribution for n units exceeds with probability 1 - confidence."""
    return np.asarray(scipy.special.stdtrit(np.asarray(n, dtype=float) - 1.0, (1.0 + confidence) / 2.0))


def compute_normal_quantile(confidence: float) -> float:
    """Return the value that |z| of the normal distribution exceeds with probability 1 - confidence."""
    return float(scipy.special.ndtri(0.5 + confidence / 2.0))


def resample_sums(columns: Array, resamples: int, seed: int) -> Array:
    """Return the sums of columns (..., n) over the units of each bootstrap resample, (..., resamples)."""
    size = columns.shape[-1]
    draw = _keep_counts if size * resamples <= _MAX_CACHED_COUNTS else _draw_counts
    blocks = [columns.reshape(-1, size) @ counts.astype(float).T for counts in draw(size, resamples, seed)]
    return np.concatenate(blocks, axis=-1).reshape(*columns.shape[:-1], resamples)


def _draw_counts(size: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.uint16]]:
    """Yield counts of each unit in each resample, (b, size), in blocks of resamples."""
    rng, step = np.random.default_rng(seed), max(1, MAX_BATCH_VALUES // size)
    for start in range(0, resamples, step):
        shape = (min(step, resamples - start), size)
        # each resample has its range of bins, so one bincount counts all resamples
        places = rng.integers(0, size, shape) + size * np.arange(shape[0])[:, None]
        yield np.bincount(places.ravel(), minlength=places.size).reshape(shape).astype(np.uint16)


# the samples of a table mostly have one or two sizes
_keep_counts = lru_cache(maxsize=4)(lambda size, resamples, seed: list(_draw_counts(size, resamples, seed)))


def resample_statistic(values: Array, kernel: Kernel, resamples: int, seed: int) -> Array:
    """Return a statistic of bootstrap resamples of whole units, (m, n, k) -> (m, resamples)."""
    rows, units, within = values.shape
    dtype = np.int64 if (count(values) == 1).all() else np.int32  # the same resamples as SciPy draws
    places = np.random.default_rng(seed).integers(0, units, (resamples, units), dtype=dtype)
    parts = np.array_split(places, -(-resamples * max(1, values.size) // MAX_BATCH_VALUES))
    return np.concatenate([kernel(values[:, each].reshape(rows, len(each), units * within)) for each in parts], axis=-1)
