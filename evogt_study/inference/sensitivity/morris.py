"""Morris screening: elementary effects along trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts when they are first used, a fifth of a second for scipy.special

from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.resampling import resampled_sums


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
