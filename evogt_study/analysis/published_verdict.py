"""A verdict on a table of others: from published means and standard deviations alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from scipy.special import stdtr, stdtrit

from evogt_study.analysis.blocks import BOUND
from evogt_study.analysis.comparison import BETTER, check_options
from evogt_study.analysis.verdict import PAIR
from evogt_study.errors import InputError
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.simultaneous import holm, pairs_of, winner

DRAWS = 20_000
"""Draws of a fresh run and of the means: a probability of one half is then known to 0.0035."""


def published_verdict(
    moments: Mapping[str, tuple[float, float]], runs: int, *, better: str = "lower", interval: Interval = Interval()
) -> xr.Dataset:
    """Judge methods of which a table prints mean and standard deviation over `runs` runs each: a Dataset.

    moments: (mean, standard deviation) by label.  Where all means are positive a run is log-normal with these moments,
    sigma^2 = log(1 + (std / mean)^2), else normal; runs of different labels are independent, since a table does not say
    which seeds they had.  Over `label`: mean, std, best_run and best_mean as of `verdict`.  Over `pair`: effect, the
    ratio of means (difference where a mean is not positive); effect_ci, from Welch's t with the standard error
    (std / mean) / sqrt(runs) of the logarithm of a mean, at a confidence divided among the pairs (Bonferroni); p_value,
    adjusted by Holm's method.  settled and verdict as there.

    Raises InputError for fewer than two labels or runs, a negative deviation, or a number that is not finite.
    """
    names = list(moments)
    numbers = np.array([moments[name] for name in names], dtype=float).reshape(len(names), -1)
    check_options(better=(better, BETTER))
    if len(names) < 2 or numbers.shape[1] != 2 or not np.isfinite(numbers).all() or (numbers[:, 1] < 0.0).any():
        raise InputError(f"`moments` must be finite (mean, std >= 0) of at least two labels, got {dict(moments)}")
    if runs < 2:
        raise InputError(f"`runs` must be at least 2, got {runs}; it is the number of runs of each label")
    mean, std = numbers.T
    ratios = bool((mean > 0.0).all())
    effect, limits, p_values = _pairs(mean, std, runs, interval, ratios)
    best_run, best_mean = _chances(mean, std, runs, better, ratios, interval.seed)
    first = winner(mean, better)
    neutral = 1.0 if ratios else 0.0
    clear = [bool(low > neutral or high < neutral) for low, high in limits]
    pairs = pairs_of(len(names))
    open_pairs = [
        names[j if i == first else i] for (i, j), ok in zip(pairs, clear, strict=True) if first in (i, j) and not ok
    ]
    told = _told(names[first], open_pairs, best_run[first], best_mean[first], runs)
    found = xr.Dataset(
        {
            "mean": ("label", mean), "std": ("label", std), "best_run": ("label", best_run),
            "best_mean": ("label", best_mean), "effect": (PAIR, effect), "effect_ci": ((PAIR, BOUND), limits),
            "p_value": (PAIR, p_values), "settled": ((), not open_pairs), "verdict": ((), told),
        },
        {"label": names, PAIR: [f"{names[i]}/{names[j]}" for i, j in pairs], BOUND: ["lower", "upper"]},
    )  # fmt: skip
    effect_kind = "ratio" if ratios else "difference"
    return found.assign_attrs(better=better, effect=effect_kind, confidence=interval.confidence)


def _told(name: str, open_pairs: Sequence[str], best_run: float, best_mean: float, runs: int) -> str:
    """The verdict in a sentence."""
    opening = "is best" if not open_pairs else f"has the best mean, not told apart from {', '.join(open_pairs)}"
    chance = min(max(best_mean, 0.001), 0.999)  # as in the sentence of `verdict`
    return (
        f"{name} {opening}; best in {best_run:.0%} of fresh runs; on average best with probability {chance:.3f}; "
        f"from mean and std of {runs} independent runs each"
    )


def _pairs(mean: Array, std: Array, runs: int, how: Interval, ratios: bool) -> tuple[Array, Array, Array]:
    """Effects of all pairs, their simultaneous intervals and adjusted p-values, by Welch's t."""
    first, second = np.array(pairs_of(len(mean))).T
    squares = (std / mean) ** 2 / runs if ratios else std**2 / runs
    error = np.sqrt(squares[first] + squares[second])
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (runs - 1.0) * error**4 / (squares[first] ** 2 + squares[second] ** 2)
        apart = np.log(mean[first] / mean[second]) if ratios else mean[first] - mean[second]
        t = np.abs(apart) / error
    # 0/0 where both deviations are zero: the freedom of equal variances
    freedom = np.where(np.isfinite(freedom), freedom, 2.0 * (runs - 1.0))
    half = stdtrit(freedom, 1.0 - (1.0 - how.confidence) / (2.0 * len(first))) * error
    limits = np.stack([apart - half, apart + half], axis=-1)
    p_values = np.where(np.isnan(t), 1.0, 2.0 * stdtr(freedom, -t))  # equal means without deviation are 0/0
    return (np.exp(apart), np.exp(limits), holm(p_values)) if ratios else (apart, limits, holm(p_values))


def _chances(mean: Array, std: Array, runs: int, better: str, ratios: bool, seed: int) -> tuple[Array, Array]:
    """Shares of `DRAWS` draws in which each label is best in a fresh run, and in which it has the best mean."""
    rng = np.random.default_rng(seed)
    normal, t = rng.standard_normal((DRAWS, len(mean))), rng.standard_t(runs - 1, (DRAWS, len(mean)))
    if ratios:
        sigma = np.sqrt(np.log1p((std / mean) ** 2))
        fresh = np.log(mean) - sigma**2 / 2.0 + sigma * normal
        means = np.log(mean) + std / mean / np.sqrt(runs) * t
    else:
        fresh, means = mean + std * normal, mean + std / np.sqrt(runs) * t
    found = []
    for draws in (fresh, means):
        towards = draws if better == "lower" else -draws
        best = towards == towards.min(axis=-1, keepdims=True)
        found.append((best / best.sum(axis=-1, keepdims=True)).mean(axis=0))
    return found[0], found[1]
