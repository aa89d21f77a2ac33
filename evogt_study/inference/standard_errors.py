"""Monte Carlo standard errors of statistics of samples: how far they would move with other seeds."""

from __future__ import annotations

import math

import numpy as np

from evogt_study.inference import kernels, means
from evogt_study.inference.intervals import BOOTSTRAP_SEED, RESAMPLES
from evogt_study.inference.kernels import Array, kernel_of, probability_of
from evogt_study.inference.order_statistics import quantile_error
from evogt_study.inference.resampling import resampled_statistic


def standard_error(samples: Array, of: str) -> Array:
    """Standard error of a statistic of n units of k values, (..., n, k) -> (...); NaN below two units.

    mean: std / sqrt(n); geometric mean G: G times that of the mean logarithm; quantiles: Maritz and Jarrett's; std s:
    sqrt((m4 - s^4 (n - 3) / (n - 1)) / n) / (2 s) with the fourth central moment m4.  Of the mean over units of several
    values it is that of a ratio of sums; of the others it is then the standard deviation over resampled units.  NaN for
    minimum and maximum, which have none of this kind, and where a value is infinite.
    """
    *lead, units, within = samples.shape
    rows = kernels.without_infinite(samples.reshape(math.prod(lead), units, within))
    return _errors(rows, of).reshape(lead)


def _errors(rows: Array, of: str) -> Array:
    probability, kernel = probability_of(of), kernel_of(of)[0]
    if of == "mean":
        return ratio_error(*means.unit_sums(rows))
    if of in ("min", "max"):
        return np.full(len(rows), np.nan)
    if of == "geometric_mean":
        logarithms = kernels.logarithms(rows)
        return kernel(rows.reshape(len(rows), rows.shape[1] * rows.shape[2])) * ratio_error(
            *means.unit_sums(logarithms)
        )
    if (np.isfinite(rows).sum(axis=-1) > 1).any():
        found = np.full(len(rows), np.nan)
        for row in np.flatnonzero(np.isfinite(rows).any(axis=-1).sum(axis=-1) > 1):
            units = rows[row][np.isfinite(rows[row]).any(axis=-1)]
            found[row] = resampled_statistic(units[None], kernel, RESAMPLES, BOOTSTRAP_SEED).std()
        return found
    flat = rows.reshape(len(rows), rows.shape[1] * rows.shape[2])
    return _std_error(flat) if probability is None else quantile_error(flat, probability)


def ratio_error(above: Array, below: Array) -> Array:
    """Standard error of sum(above) / sum(below) over units that have both, (m, n) -> (m,)."""
    found = np.full(len(above), np.nan)
    for which, fit, scale in means.fits(above, below):
        found[which] = fit.error * scale
    return found


def _std_error(samples: Array) -> Array:
    n = kernels.count(samples).astype(float)
    s = kernels.std(samples)
    # in units of s: the fourth power of large values may overflow
    apart = (samples - kernels.mean(samples)[:, None]) / np.where(s > 0.0, s, 1.0)[:, None]
    fourth = kernels.mean(apart**4)
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Array = s * np.sqrt(np.maximum(fourth - (n - 3.0) / (n - 1.0), 0.0) / n) / 2.0
    return error
