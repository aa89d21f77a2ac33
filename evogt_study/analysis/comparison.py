"""Compare two values of an axis pair by pair on common seeds, and rank all values of an axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import scipy  # which imports its parts when they are first used, most of a second for scipy.stats
import xarray as xr

from evogt_study.analysis.reduce import (
    BOUND,
    COUNTS,
    RUNS,
    check_policy,
    dimensions,
    reduced,
    tell_missing,
    tell_missing_runs,
)
from evogt_study.analysis.runs import (
    Layout,
    Numbers,
    join_numbers,
    keep_first,
    layout,
    mark_first,
    planned_runs,
    position,
)
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference import comparisons as pair_tests
from evogt_study.inference import kernels
from evogt_study.inference.intervals import Interval, ratio_error, ratio_interval
from evogt_study.inference.kernels import Array, kernel_of
from evogt_study.inference.order_statistics import quantile_interval

Mask = npt.NDArray[np.bool_]
BETTER = ("lower", "higher")
PROPORTION_METHODS = ("wilson", "exact")
_OUTPUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "ratio_of_means": ((), "mean of first over mean of second, over pairs"),
    "ratio_ci": ((BOUND,), "confidence interval of ratio_of_means, pairs resampled together"),
    "ratio_se": ((), "standard error of ratio_of_means"),
    "ratio_of_medians": ((), "median of first over median of second, over pairs"),
    "median_ratio": ((), "median of first / second, pair by pair"),
    "median_ratio_ci": ((BOUND,), "confidence interval of median_ratio, from order statistics"),
    "log_ratio": ((), "mean of log(first / second), pair by pair"),
    "log_ratio_ci": ((BOUND,), "confidence interval of log_ratio"),
    "log_ratio_p": ((), "two-sided p-value of Student's test that log_ratio is zero"),
    "wins": ((), "number of pairs in which first is better"),
    "losses": ((), "number of pairs in which second is better"),
    "ties": ((), "number of pairs of equal values"),
    "win_rate": ((), "wins / (wins + losses)"),
    "win_ci": ((BOUND,), "confidence interval of win_rate"),
    "wilcoxon": ((), "signed-rank statistic min(W+, W-)"),
    "p_value": ((), "two-sided p-value of the signed-rank test"),
    "mann_whitney_p": ((), "two-sided p-value of the test of Mann and Whitney, all values unpaired"),
    "welch_p": ((), "two-sided p-value of Welch's test of the means, all values unpaired"),
    "n_ok": ((), "number of pairs without a missing run"),
    "n_planned": ((), "number of pairs planned"),
}
_COUNTS = ("wins", "losses", "ties", *COUNTS)


def compare(
    values: xr.DataArray,
    dim: str,
    first: object,
    second: object,
    over: str | Iterable[str] = "seed",
    *,
    better: str = "lower",
    interval: Interval = Interval(),
    proportion: str = "wilson",
    units: str | Iterable[str] | None = None,
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Label `first` of dimension `dim` against label `second`, paired over the dimensions `over` (common seeds).

    A pair is a unit, as a seed: its values are the means of `first` and of `second` over the pooled points at which
    both have one, each of two distinct runs.  Returns a Dataset over the other dimensions:

    ratio_of_means: mean(first) / mean(second), both over the pairs (the paper's gain T/G for errors); ratio_ci (bound):
    bootstrap-t on logarithms where all values are positive, pairs resampled together; ratio_se;
    ratio_of_medians; median_ratio: median of first / second, pair by pair, NaN where a pair has no ratio (two zeros or
    two infinities); median_ratio_ci: from order statistics;
    log_ratio: mean of log(first / second), NaN where a value is not positive; log_ratio_ci; log_ratio_p (Student);
    wins, losses, ties: pairs in which first is better, worse, equal; `better` says whether lower or higher is;
    win_rate: wins / (wins + losses), NaN where all pairs tie; win_ci (bound): its interval, `proportion` being
    wilson or exact (Clopper and Pearson), at the confidence of `interval`;
    wilcoxon: signed-rank statistic min(W+, W-); p_value: of the two-sided test, 1 where all pairs tie; with fewer than
    6 pairs it cannot be below 0.05;
    mann_whitney_p, welch_p: of tests that take all units with a value, paired or not, as independent samples;
    n_ok: pairs whose runs all have a value, out of n_planned.

    Intervals are NaN below `interval.fewest` pairs.  Raises InputError for an unknown dimension, ParameterError for an
    unknown label or option, an interval that is not of the mean among them.  `units`, `missing`, `planned`: as for
    `summary`.
    """
    over_dims = paired_dimensions(values, dim, over)
    check_options(better=(better, BETTER), proportion=(proportion, PROPORTION_METHODS))
    check_policy(missing)
    if interval.of != "mean" or interval.chosen == "bca":  # none of these is known to `ratio_interval`
        raise ParameterError("interval", "of the mean, and not by bca", f"of the {interval.of} by {interval.chosen}")
    places = [position(values, dim, label) for label in (first, second)]
    pair = values.isel({dim: places})
    runs = planned_runs(values, planned)
    runs = runs.isel({dim: places}) if runs is not None and dim in runs.dims else runs
    laid_out = layout(values, over_dims, units, runs, along=[dim])

    def on_pairs(samples: Array, cells: Numbers) -> list[Array]:
        pairs = mark_first(join_numbers(cells))
        there = pairs & ~np.isnan(samples).any(axis=-2)
        first, second = (laid_out.means(np.where(there, samples[..., each, :], np.nan)) for each in (0, 1))
        alone = [laid_out.means(keep_first(samples[..., each, :], cells[..., each, :])) for each in (0, 1)]
        return [*_compared(first, second, alone, better, interval, proportion), *_pair_counts(laid_out, pairs, there)]

    outputs = {**{name: new for name, (new, _) in _OUTPUTS.items()}, **dict.fromkeys(RUNS, ())}
    found = reduced(pair, laid_out.dims, on_pairs, outputs, along=[dim], runs=runs)
    found = _counted(found, values.name, missing)
    sides = {"first": f"{dim}={first}", "second": f"{dim}={second}"}
    found.attrs = sides | {"better": better, "over": " ".join(over_dims)}
    return found.assign_coords(kept_coordinates(values, [dim, *over_dims]) | {BOUND: ["lower", "upper"]})


def _compared(
    first: Array, second: Array, alone: Sequence[Array], better: str, how: Interval, proportion: str
) -> list[Array]:
    """Return the numbers of `_OUTPUTS` except the counts of pairs.

    `first` and `second`, (..., n), have common units; `alone` has the values of all units.
    """
    lower, higher = (first < second).sum(axis=-1), (first > second).sum(axis=-1)
    wins, losses = (lower, higher) if better == "lower" else (higher, lower)
    pairs = kernels.count(first)
    decided = wins + losses
    with np.errstate(invalid="ignore"):  # inf - inf of a tie
        tests = pair_tests.signed_rank_tests(np.where(first == second, 0.0, first - second))
    limits = [
        pair_tests.win_interval(int(won), int(lost), how.confidence, proportion) if n else (np.nan, np.nan)
        for won, lost, n in zip(wins.ravel(), losses.ravel(), pairs.ravel(), strict=True)
    ]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = first / second
    # of all pairs or of none, as logarithms
    ratios[(np.isnan(ratios) & ~np.isnan(first)).any(axis=-1)] = np.nan
    return [
        *_ratio_numbers(first, second, ratios, how),
        wins.astype(float),
        losses.astype(float),
        (pairs - decided).astype(float),
        np.divide(wins, decided, out=np.full(pairs.shape, np.nan), where=decided > 0),
        np.array(limits).reshape(*pairs.shape, 2),
        tests[..., 0],
        tests[..., 1],
        pair_tests.mann_whitney_tests(*alone),
        pair_tests.welch_tests(*alone),
    ]


def _ratio_numbers(first: Array, second: Array, ratios: Array, how: Interval) -> list[Array]:
    """The numbers of `_OUTPUTS` from ratio_of_means to log_ratio_p."""
    rows, others, each = (array.reshape(-1, array.shape[-1]) for array in (first, second, ratios))
    shape = first.shape[:-1]
    # a missing pair has no say in whether all are positive
    positive = ((rows > 0.0) & (others > 0.0) & (np.minimum(rows, others) < np.inf)) | np.isnan(rows)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # of all pairs or of none: the mean over those that have logarithms would be one of other pairs
        logarithms = np.where(positive.all(axis=-1, keepdims=True), np.log(rows) - np.log(others), np.nan)
        of_means = kernels.mean(first) / kernels.mean(second)
        of_medians = kernels.median(first) / kernels.median(second)
    # the mean as a ratio to ones, so that both intervals are of one routine
    log_limits = ratio_interval(logarithms, np.where(np.isnan(logarithms), np.nan, 1.0), how)
    median_limits = quantile_interval(each[..., None], 0.5, how.confidence)
    limits = [ratio_interval(rows, others, how, logarithmic=True), median_limits, log_limits]
    few = kernels.count(rows) < how.fewest
    ratio_limits, median_limits, log_limits = (
        np.where(few[:, None], np.nan, array).reshape(*shape, 2) for array in limits
    )
    return [
        of_means,
        ratio_limits,
        ratio_error(rows, others).reshape(shape),
        of_medians,
        kernels.median(ratios),
        median_limits,
        kernels.mean(logarithms).reshape(shape),
        log_limits,
        pair_tests.t_tests(logarithms).reshape(shape),
    ]


def _pair_counts(laid_out: Layout, pairs: Mask, there: Mask) -> list[Array]:
    """Units without a missing pair, units planned, pairs of runs with values, pairs of runs planned."""
    planned, found = (laid_out.blocks(each).sum(axis=-1) for each in (pairs, there))
    both = [(planned > 0) & (found == planned), planned > 0, found, planned]
    return [each.sum(axis=-1).astype(float) for each in both]


def _counted(found: xr.Dataset, name: object, missing: str) -> xr.Dataset:
    """The numbers with whole counts and their words; missing pairs of runs by the policy."""
    n_ok, n_planned = (int(found[each].sum()) for each in RUNS)
    tell_missing(n_planned - n_ok, n_planned, name, missing, "pairs of runs")
    found = found.drop_vars(RUNS).assign({each: found[each].astype(np.int64) for each in _COUNTS})
    for each, (_, long_name) in _OUTPUTS.items():
        found[each].attrs = {"long_name": long_name, "units": "1"}
    return found


def ranking(
    values: xr.DataArray,
    dim: str,
    over: str | Iterable[str] = "seed",
    *,
    by: str = "mean",
    better: str = "lower",
    units: str | Iterable[str] | None = None,
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """The labels of dimension `dim` in order, by a statistic over the dimensions `over` on common seeds.

    A point is common where every label that takes part has a value; a label without any takes no part, and one
    where all labels have the same runs as at another counts once.  Returns, over the other dimensions and `dim`: the
    statistic `by` (of `summary`) over common points; place, 1 for the best, equal ones sharing the better place, NaN
    without part; best, on how many units, as seeds, the mean of the label over their common points is best, or shares
    that; n_ok, its units whose runs all have a value; n_planned.  And without `dim`: n_common, units with any.

    Raises InputError for an unknown dimension, ParameterError for an unknown statistic or option.
    """
    over_dims = paired_dimensions(values, dim, over)
    check_options(better=(better, BETTER))
    check_policy(missing)
    kernel, words = kernel_of(by)
    runs = planned_runs(values, planned)
    laid_out = layout(values, over_dims, units, runs, along=[dim])

    def on_labels(samples: Array, cells: Numbers) -> list[Array]:
        shared = common_values(samples, cells)
        best, n_common = _bests(laid_out.means(shared), better)
        numbers = kernel(keep_first(shared, cells))
        return [numbers, _places(numbers, better), best, *laid_out.counts(samples, cells), n_common]

    outputs = dict.fromkeys((by, "place", "best", *COUNTS, *RUNS), (dim,)) | {"n_common": ()}
    found = reduced(values, laid_out.dims, on_labels, outputs, along=[dim], runs=runs)
    found = found.assign({name: found[name].astype(np.int64) for name in ("best", *COUNTS, *RUNS, "n_common")})
    found = tell_missing_runs(values, found, runs, missing)
    found[by].attrs = {"long_name": f"{words} of {values.name} over common {', '.join(over_dims)}"}
    return found.assign_coords(kept_coordinates(values, over_dims))


def common_values(samples: Array, cells: Numbers) -> Array:
    """Of (..., labels, n): the values at points that are common to all labels that have any, each combination once."""
    there = ~np.isnan(samples)
    part = np.asarray(there.any(axis=-1))
    common = np.asarray((there | ~part[..., None]).all(axis=-2) & part.any(axis=-1, keepdims=True))
    # 0 for a label that takes no part: -1 would take the whole point away from the others
    common = mark_first(np.where(common, join_numbers(np.where(part[..., None], cells, 0)), -1))
    return np.where(common[..., None, :] & part[..., None], samples, np.nan)


def _bests(units: Array, better: str) -> tuple[Array, Array]:
    """Of the values of units, (..., labels, n): units on which each label is best, or shares that, and all."""
    known = ~np.isnan(units)
    towards = np.where(known, units if better == "lower" else -units, np.inf)
    best = (towards == towards.min(axis=-2, keepdims=True)) & known
    return best.sum(axis=-1).astype(float), known.any(axis=-2).sum(axis=-1).astype(float)


def _places(numbers: Array, better: str) -> Array:
    """Places from 1, by `better`; equal numbers share the better one, NaN has none."""
    towards = numbers if better == "lower" else -numbers
    return scipy.stats.rankdata(towards, method="min", axis=-1, nan_policy="omit").astype(float)


def paired_dimensions(values: xr.DataArray, dim: str, over: str | Iterable[str]) -> list[str]:
    """The dimensions `over`, beside which there is `dim`.  Raises InputError where there is not."""
    over_dims = dimensions(values, over)
    others = [str(name) for name in values.dims if name not in over_dims]
    if dim not in others:
        raise InputError(f"`dim` must be one of {', '.join(others) or 'none, since `over` names all'}, got {dim!r}")
    return over_dims


def check_options(**given: tuple[str, tuple[str, ...]]) -> None:
    """Raise ParameterError for a value that is none of its options."""
    for name, (value, options) in given.items():
        if value not in options:
            raise ParameterError(name, f"one of {', '.join(options)}", value)
