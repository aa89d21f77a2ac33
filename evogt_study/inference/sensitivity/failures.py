"""Parameters on which missing values depend: failures that lie in a corner of the sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evogt_study.inference.kernels import Array

LEVEL = 0.01
"""Level of all tests of a sample together: below it a corner is reported."""
RESAMPLES = 1999
"""Permutations: enough that ten parameters can each be seen at a tenth of `LEVEL`."""
SEED = 0
BINS = 4
"""Ranges of a parameter, of equally many points each: a corner of a tenth of the sample lies in one or two of them."""


INNER = (0.1, 0.9)
"""Quantiles of the failed points that bound a corner: beside it others may fail at random."""


class Corner(NamedTuple):
    """A parameter on which failures depend: its place, values between which 80 % of these lie, and p."""

    parameter: int
    lower: float
    upper: float
    p: float


def corners(failed: npt.NDArray[np.bool_], points: Array) -> list[Corner]:
    """Parameters on which it depends whether a point (n, D) failed (n,), the smallest p first.

    Of each parameter chi^2 = sum over `BINS` ranges of (failed - expected)^2 / expected is compared with that of
    `RESAMPLES` permutations of the failed points, p = (1 + those as large) / (1 + all); Bonferroni's p D is held
    against `LEVEL`.
    """
    count = int(failed.sum())
    if count < 2 or count > len(failed) - 2:
        return []
    found = []
    for place, column in enumerate(points.T):
        bins = _bins(column)
        sizes, own = np.bincount(bins), np.bincount(bins[failed], minlength=int(bins.max()) + 1)
        # as many points drawn from the ranges as failed: the permutations, without permuting
        drawn = np.random.default_rng(SEED).multivariate_hypergeometric(sizes, count, RESAMPLES)
        expected = np.maximum(sizes * count / len(failed), 1e-300)  # a range may be empty where values are tied
        chi = ((np.concatenate([own[None], drawn]) - expected) ** 2 / expected).sum(axis=1)
        p = float((chi >= chi[0] * (1.0 - 1e-12)).mean())
        if p * points.shape[1] < LEVEL:
            lower, upper = np.quantile(column[failed], INNER, method="nearest")
            found.append(Corner(place, float(lower), float(upper), p))
    return sorted(found, key=lambda corner: corner.p)


def _bins(column: Array) -> npt.NDArray[np.int64]:
    """Range of each value: its own where there are few different ones, else by rank."""
    values, order = np.unique(column, return_inverse=True)
    if len(values) <= BINS:
        return np.asarray(order, dtype=np.int64)
    ranks = np.searchsorted(np.sort(column), column)
    return np.asarray(BINS * ranks // len(column), dtype=np.int64)
