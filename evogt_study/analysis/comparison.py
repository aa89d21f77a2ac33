"""Two labels of an axis compared pair by pair on common seeds, and all labels of an axis in order.

scipy.stats takes most of a second to import, and is imported where a test is made: this module comes with `evs.run`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import xarray as xr

from evogt_study.analysis import distinct
from evogt_study.analysis.blocks import BOUND, check_policy, dimensions, reduced, tell_missing, tell_missing_runs
from evogt_study.analysis.distinct import Numbers, planned_runs
from evogt_study.analysis.labels import position
from evogt_study.analysis.statistics import kept_coordinates, kernel_of
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference import kernels
from evogt_study.inference.intervals import Bootstrap, complete_groups, resampled_means
from evogt_study.inference.kernels import Array

BETTER = ("lower", "higher")
PROPORTION_METHODS = ("wilson", "exact")
EXACT_WITH_TIES = 13
"""Pairs up to which all 2^n signs are counted where differences tie; beyond, the normal approximation."""
EXACT_WITHOUT_TIES = 50

_OUTPUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "ratio_of_means": ((), "mean of first over mean of second, over pairs"),
    "ratio_ci": ((BOUND,), "bootstrap confidence interval of ratio_of_means, pairs resampled together"),
    "ratio_of_medians": ((), "median of first over median of second, over pairs"),
    "median_ratio": ((), "median of first / second, pair by pair"),
    "wins": ((), "number of pairs in which first is better"),
    "losses": ((), "number of pairs in which second is better"),
    "ties": ((), "number of pairs of equal values"),
    "win_rate": ((), "wins / (wins + losses)"),
    "win_ci": ((BOUND,), "confidence interval of win_rate"),
    "wilcoxon": ((), "signed-rank statistic min(W+, W-)"),
    "p_value": ((), "two-sided p-value of the signed-rank test"),
    "n_ok": ((), "number of pairs of finite values"),
    "n_planned": ((), "number of pairs planned"),
}
_COUNTS = ("wins", "losses", "ties", "n_ok", "n_planned")


def compare(
    values: xr.DataArray,
    dim: str,
    first: object,
    second: object,
    over: str | Iterable[str] = "seed",
    *,
    better: str = "lower",
    interval: Bootstrap = Bootstrap(),
    proportion: str = "wilson",
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Label `first` of dimension `dim` against label `second`, paired over the dimensions `over` (common seeds).

    A pair counts where both values are finite, and once where the same two runs meet several times.  Returns a Dataset
    over the other dimensions:

    ratio_of_means: mean(first) / mean(second), both over the pairs (the paper's gain T/G for errors);
    ratio_ci (bound): its percentile bootstrap interval, pairs resampled together, NaN below two pairs;
    ratio_of_medians: median(first) / median(second); median_ratio: median of first / second, pair by pair;
    wins, losses, ties: pairs in which first is better, worse, equal; `better` says whether lower or higher is;
    win_rate: wins / (wins + losses), NaN where all pairs tie; win_ci (bound): its interval, `proportion` being
    wilson or exact (Clopper and Pearson), by scipy.stats.binomtest, at the confidence of `interval`;
    wilcoxon: signed-rank statistic min(W+, W-) of the differences that are not zero; p_value: of the two-sided test,
    exact for up to 50 differences without ties and 13 with ties, else from the normal approximation, 1 where all pairs
    tie; with fewer than 6 pairs it cannot be below 0.05;
    n_ok: pairs that the numbers rest on, of n_planned.

    Raises InputError for an unknown dimension, ParameterError for an unknown label or option, an interval that is not
    of the mean by percentiles among them.  `missing`, `planned`: as for `summary`.
    """
    over_dims = _paired_dimensions(values, dim, over)
    _check_options(better=(better, BETTER), proportion=(proportion, PROPORTION_METHODS))
    check_policy(missing)
    if (interval.of, interval.method) != ("mean", "percentile"):
        raise ParameterError("interval", "of the mean by percentiles", f"of the {interval.of} by {interval.method}")
    places = [position(values, dim, label) for label in (first, second)]
    pair = values.isel({dim: places})
    runs = planned_runs(values, planned)
    if runs is not None and dim in runs.dims:
        runs = runs.isel({dim: places})

    def on_pairs(samples: Array, cells: Numbers) -> list[Array]:
        pairs = distinct.firsts(distinct.together(cells))
        first, second = (np.where(pairs, samples[..., each, :], np.nan) for each in (0, 1))
        return [*_compared(first, second, better, interval, proportion), pairs.sum(axis=-1).astype(float)]

    found = reduced(
        pair, over_dims, on_pairs, {name: new for name, (new, _) in _OUTPUTS.items()}, along=[dim], runs=runs
    )
    found = found.assign({name: found[name].astype(np.int64) for name in _COUNTS})
    n_ok, n_planned = int(found["n_ok"].sum()), int(found["n_planned"].sum())
    tell_missing(n_planned - n_ok, n_planned, values.name, missing, "pairs of runs")
    for name, (_, words) in _OUTPUTS.items():
        found[name].attrs = {"long_name": words, "units": "1"}
    sides = {"first": f"{dim}={first}", "second": f"{dim}={second}"}
    found.attrs = sides | {"better": better, "over": " ".join(over_dims)}
    return found.assign_coords(kept_coordinates(values, [dim, *over_dims]) | {BOUND: ["lower", "upper"]})


def ranking(
    values: xr.DataArray,
    dim: str,
    over: str | Iterable[str] = "seed",
    *,
    by: str = "mean",
    better: str = "lower",
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """The labels of dimension `dim` in order, by a statistic over the dimensions `over` on common seeds.

    A seed is common where every label that takes part has a finite value; a label without any takes no part, and one
    where all labels have the same runs as at another counts once.  Returns, over the other dimensions and `dim`: the
    statistic `by` (of `summary`) over common seeds; place, 1 for the best, equal ones sharing the better place, NaN
    without part; best, on how many common seeds the label is best, or shares that; n_ok, its runs with a finite value;
    n_planned.  And without `dim`: n_common.

    Raises InputError for an unknown dimension, ParameterError for an unknown statistic or option.
    """
    over_dims = _paired_dimensions(values, dim, over)
    _check_options(better=(better, BETTER))
    check_policy(missing)
    kernel, words = kernel_of(by)

    def on_labels(samples: Array, cells: Numbers) -> list[Array]:
        shared, best, n_common = _on_common(samples, cells, better)
        numbers = kernel(distinct.once(shared, cells))
        counts = [kernels.count(distinct.once(samples, cells)), distinct.firsts(cells).sum(axis=-1)]
        return [numbers, _places(numbers, better), best, *(each.astype(float) for each in counts), n_common]

    outputs = {by: (dim,), "place": (dim,), "best": (dim,), "n_ok": (dim,), "n_planned": (dim,), "n_common": ()}
    runs = planned_runs(values, planned)
    found = reduced(values, over_dims, on_labels, outputs, along=[dim], runs=runs)
    found = found.assign({name: found[name].astype(np.int64) for name in ("best", "n_ok", "n_planned", "n_common")})
    tell_missing_runs(values, found, runs, missing)
    found[by].attrs = {"long_name": f"{words} of {values.name} over common {', '.join(over_dims)}"}
    return found.assign_coords(kept_coordinates(values, over_dims))


def wilcoxon(differences: Array) -> tuple[float, float]:
    """Signed-rank statistic and two-sided p of one sample of differences, zeros dropped; see `compare`."""
    import scipy.stats

    if not differences.size:
        return np.nan, np.nan
    nonzero = differences[differences != 0.0]
    if not nonzero.size:
        return 0.0, 1.0
    tied = len(np.unique(np.abs(nonzero))) < len(nonzero)
    method: Literal["exact", "approx"] | scipy.stats.PermutationMethod = "approx"
    if tied and len(nonzero) <= EXACT_WITH_TIES:
        method = scipy.stats.PermutationMethod(n_resamples=2**EXACT_WITH_TIES)  # which is all of them
    elif not tied and len(nonzero) <= EXACT_WITHOUT_TIES:
        method = "exact"
    found = scipy.stats.wilcoxon(nonzero, method=method)
    return float(found.statistic), float(found.pvalue)


def signed_rank_tests(samples: Array) -> Array:
    """`wilcoxon` over the last axis, (..., n) -> (..., 2): rows without ties and zeros by their number, all at once."""
    import scipy.stats

    rows = _rows(samples)
    found = np.full((len(rows), 2), np.nan)
    there = np.isfinite(rows)
    sizes = there.sum(axis=-1)
    ordered = np.sort(np.where(there, np.abs(rows), np.inf), axis=-1)
    equal = (ordered[:, 1:] == ordered[:, :-1]) & np.isfinite(ordered[:, 1:])
    plain = ~equal.any(axis=-1) & ~(rows == 0.0).any(axis=-1) & (sizes > 0)
    for size in np.unique(sizes[plain]):
        which = np.flatnonzero(plain & (sizes == size))
        values = rows[which][there[which]].reshape(len(which), int(size))
        test = scipy.stats.wilcoxon(values, axis=-1, method="exact" if size <= EXACT_WITHOUT_TIES else "approx")
        found[which] = np.stack([test.statistic, test.pvalue], axis=-1)
    for number in np.flatnonzero(~plain):
        found[number] = wilcoxon(rows[number][there[number]])
    return found.reshape(*samples.shape[:-1], 2)


def win_interval(wins: int, losses: int, confidence: float, method: str) -> tuple[float, float]:
    """Confidence interval of the probability to win, of wins among wins + losses; (0, 1) where there is neither."""
    import scipy.stats

    if not wins + losses:
        return 0.0, 1.0
    limits = scipy.stats.binomtest(wins, wins + losses).proportion_ci(confidence, method)  # type: ignore[arg-type]
    return float(limits.low), float(limits.high)


def _compared(first: Array, second: Array, better: str, how: Bootstrap, proportion: str) -> list[Array]:
    """The numbers of `_OUTPUTS`, of two arrays (..., n)."""
    both = np.isfinite(first) & np.isfinite(second)
    first, second = np.where(both, first, np.nan), np.where(both, second, np.nan)
    lower, higher = (first < second).sum(axis=-1), (first > second).sum(axis=-1)
    wins, losses = (lower, higher) if better == "lower" else (higher, lower)
    pairs = both.sum(axis=-1)
    decided = wins + losses
    tests = signed_rank_tests(first - second)
    limits = [
        win_interval(int(won), int(lost), how.confidence, proportion) if n else (np.nan, np.nan)
        for won, lost, n in zip(wins.ravel(), losses.ravel(), pairs.ravel(), strict=True)
    ]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return [
            kernels.mean(first) / kernels.mean(second),
            _ratio_interval(first, second, how),
            kernels.median(first) / kernels.median(second),
            kernels.median(first / second),
            wins.astype(float),
            losses.astype(float),
            (pairs - decided).astype(float),
            np.divide(wins, decided, out=np.full(pairs.shape, np.nan), where=decided > 0),
            np.array(limits).reshape(*pairs.shape, 2),
            tests[..., 0],
            tests[..., 1],
            pairs.astype(float),
        ]


def _rows(samples: Array) -> Array:
    return samples.reshape(int(np.prod(samples.shape[:-1])), samples.shape[-1])


def _ratio_interval(first: Array, second: Array, how: Bootstrap) -> Array:
    """Percentile bootstrap interval of mean(first) / mean(second), (..., n) -> (..., 2), pairs resampled together."""
    rows, others = _rows(first), _rows(second)
    found = np.full((len(rows), 2), np.nan)
    for (which, values), (_, against) in zip(complete_groups(rows), complete_groups(others), strict=True):
        means = [resampled_means(each, how.resamples, how.seed) for each in (values, against)]
        found[which] = np.quantile(means[0] / means[1], how.tails, axis=-1).T
    return found.reshape(*first.shape[:-1], 2)


def _on_common(samples: Array, cells: Numbers, better: str) -> tuple[Array, Array, Array]:
    """Of (..., labels, n): the values on common seeds, how often each label is best there, common seeds."""
    there = np.isfinite(samples)
    part = np.asarray(there.any(axis=-1))
    common = np.asarray((there | ~part[..., None]).all(axis=-2) & part.any(axis=-1, keepdims=True))
    common = distinct.firsts(np.where(common, distinct.together(np.where(part[..., None], cells, 0)), -1))
    shared = np.where(common[..., None, :] & part[..., None], samples, np.nan)
    towards = np.where(np.isfinite(shared), shared if better == "lower" else -shared, np.inf)
    best = (towards == towards.min(axis=-2, keepdims=True)) & np.isfinite(towards)
    return shared, best.sum(axis=-1).astype(float), common.sum(axis=-1).astype(float)


def _places(numbers: Array, better: str) -> Array:
    """Places from 1, by `better`; equal numbers share the better one, NaN has none."""
    import scipy.stats

    towards = numbers if better == "lower" else -numbers
    return scipy.stats.rankdata(towards, method="min", axis=-1, nan_policy="omit").astype(float)


def _paired_dimensions(values: xr.DataArray, dim: str, over: str | Iterable[str]) -> list[str]:
    over_dims = dimensions(values, over)
    others = [str(name) for name in values.dims if name not in over_dims]
    if dim not in others:
        raise InputError(f"`dim` must be one of {', '.join(others) or 'none, since `over` names all'}, got {dim!r}")
    return over_dims


def _check_options(**given: tuple[str, tuple[str, ...]]) -> None:
    for name, (value, options) in given.items():
        if value not in options:
            raise ParameterError(name, f"one of {', '.join(options)}", value)
