"""Find the best value of an axis, its uncertainty, and what the choice depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import xarray as xr

from evogt_study.analysis.comparison import BETTER, check_options, common_values, paired_dimensions
from evogt_study.analysis.reduce import BOUND, COUNTS, RUNS, check_policy, reduced, tell_missing_runs
from evogt_study.analysis.runs import DRAWN, Layout, Numbers, layout, planned_runs, shown
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference import comparisons as simultaneous
from evogt_study.inference.comparisons import win_interval
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array
from evogt_study.study.case_space import listed

PAIR, STATISTIC, METRIC = "pair", "statistic", "metric"
BY = ("mean", "median", "worst")
_LABEL = {
    "value": "statistics over common units",
    "best_run": "probability to be best in a fresh run",
    "best_run_ci": "confidence interval of best_run (Wilson)",
    "best_mean": "probability to have the best mean, by resamples of the units",
    "without": "units without any one of which the label has the best mean",
    "seconds": "mean wall time of its runs",
    "best_from": "time for a run from which on it has the best mean of all labels that are as fast",
    "effect": "ratio of means, first over second; difference where values are not positive",
    "effect_ci": "intervals of effect that hold for all pairs together (max-t)",
    "p_value": "p-value of the pair, adjusted for all pairs (max-t)",
    "winner": "label with the best number",
    "settled": "whether the winner by the mean differs from every other label, all pairs together",
    "verdict": "in a sentence",
    "n_common": "number of common units",
}


def verdict(
    values: xr.DataArray,
    dim: str,
    over: str | Iterable[str] = "seed",
    *,
    better: str = "lower",
    metrics: Mapping[str, xr.DataArray] | None = None,
    seconds: xr.DataArray | None = None,
    interval: Interval = Interval(),
    units: str | Iterable[str] | None = None,
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Judge the labels of dimension `dim` over common units, as seeds: a Dataset over the other dimensions.

    value (dim, statistic): mean, median and worst value; winner (metric, statistic): the best label by each, of the
    values and of further `metrics` (other norms of the same runs);
    best_run (dim): probability that a label is best in a fresh run, the share of common units where it is, with
    best_run_ci; best_mean (dim): probability that it has the best mean, the share of resamples where it has;
    without (dim): on how many of the common units, left out one by one, each label has the best mean;
    seconds, best_from (dim), where the runs' `seconds` are given: mean time of a label's runs, and the time for a run
    from which on it has the best mean of all labels that are as fast, NaN where a faster one is better;
    effect (pair): ratio of means of all pairs, first over second (difference where a value is not positive); effect_ci
    (bound): intervals that hold together at the confidence of `interval`; p_value, adjusted for all pairs too (max-t);
    settled: whether the best mean differs from all others by these intervals; verdict: a sentence;
    n_common: common units; n_ok, n_planned (dim).

    Below `interval.fewest` common units there is no effect_ci, p_value and best_mean, and nothing is settled.  Raises
    InputError for an unknown dimension or a single label, ParameterError for an unknown option.  `units`, `missing`,
    `planned`: as for `summary`.
    """
    over_dims = paired_dimensions(values, dim, over)
    check_options(better=(better, BETTER))
    check_policy(missing)
    names = shown(values, dim)
    if len(names) < 2:
        raise InputError(f"`dim` must have at least two labels, {dim} has {len(names)}")
    runs = planned_runs(values, planned)
    laid_out = layout(values, over_dims, units, runs, along=[dim])
    ratios = bool((values > 0.0).where(values.notnull(), True).all())
    found = _judged(values, dim, laid_out, runs, interval, better, ratios)
    found = tell_missing_runs(values, found.assign({n: found[n].astype(np.int64) for n in RUNS}), runs, missing)
    found = found.assign({name: found[name].astype(np.int64) for name in (*COUNTS, "n_common")})
    found[PAIR] = [f"{names[i]}/{names[j]}" for i, j in simultaneous.pairs_of(len(names))]
    found = found.assign_coords(kept_coordinates(values, over_dims) | {BOUND: ["lower", "upper"], STATISTIC: list(BY)})
    found = _with_winners(found, values, dim, laid_out, runs, metrics or {}, better)
    if seconds is not None:
        found = _with_times(found, seconds, dim, over_dims, better)
    found = _with_settled(found, dim, better, ratios, "seeds" if laid_out.dims[0] == DRAWN else "units")
    for name in map(str, found.data_vars):
        found[name].attrs = {"long_name": _LABEL[name]} if name in _LABEL else found[name].attrs
    effect = "ratio" if ratios else "difference"
    found.attrs = {"better": better, "over": " ".join(over_dims), "dim": dim, "effect": effect}
    return found.assign_attrs(confidence=interval.confidence, of=str(values.name))


def _judged(
    values: xr.DataArray, dim: str, laid_out: Layout, runs: xr.DataArray | None, how: Interval, better: str,
    ratios: bool,
) -> xr.Dataset:  # fmt: skip
    """The numbers of a verdict, from the values alone."""
    labels = values.sizes[dim]
    pairs = len(simultaneous.pairs_of(labels))

    def on_labels(samples: Array, cells: Numbers) -> list[Array]:
        shared = laid_out.means(common_values(samples, cells))
        lead = shared.shape[:-2]
        columns = [np.full((*lead, *shape), np.nan) for shape in _shapes(labels, pairs)]
        for place in np.ndindex(*lead):
            for column, numbers in zip(columns, _of_cell(shared[place], how, better, ratios), strict=True):
                column[place] = numbers
        return [*columns, *laid_out.counts(samples, cells)]

    outputs: dict[str, tuple[str, ...]] = {
        "value": (dim, STATISTIC), "best_run": (dim,), "best_run_ci": (dim, BOUND), "best_mean": (dim,),
        "without": (dim,), "effect": (PAIR,), "effect_ci": (PAIR, BOUND), "p_value": (PAIR,), "n_common": (),
        **dict.fromkeys((*COUNTS, *RUNS), (dim,)),
    }  # fmt: skip
    sizes = {PAIR: pairs, STATISTIC: len(BY)}
    return reduced(values, laid_out.dims, on_labels, outputs, along=[dim], runs=runs, sizes=sizes)


def _shapes(labels: int, pairs: int) -> list[tuple[int, ...]]:
    """Shapes of the numbers of a cell, in the order of `_of_cell`."""
    by_label = [(labels, len(BY)), (labels,), (labels, 2), (labels,), (labels,)]
    return [*by_label, (pairs,), (pairs, 2), (pairs,), ()]


def _of_cell(units: Array, how: Interval, better: str, ratios: bool) -> list[Array]:
    """Numbers of one cell (labels, n), NaN where there are none; labels without any value take no part."""
    labels = len(units)
    found = [np.full(shape, np.nan) for shape in _shapes(labels, len(simultaneous.pairs_of(labels)))]
    part = np.flatnonzero((~np.isnan(units)).any(axis=-1))
    there = units[:, ~np.isnan(units[part]).any(axis=0)][part] if len(part) else units[:0]
    count = there.shape[1] if len(part) else 0
    found[-1] = np.asarray(float(count))
    if not count:
        return found
    found[0][part] = simultaneous.statistics_of(there, better)
    found[1][part] = simultaneous.best_in_a_run(there, better)
    hits = np.round(found[1][part] * count).astype(int)  # ties share a unit, which makes fractions
    found[2][part] = [win_interval(int(hit), count - int(hit), how.confidence, "wilson") for hit in hits]
    found[4][part] = simultaneous.winners_without(there, better) if count > 1 else np.nan
    if count >= how.fewest and len(part) > 1:
        found[3][part] = simultaneous.best_on_average(there, how, better)
        made = simultaneous.max_t(there, how, ratios)
        places = [p for p, pair in enumerate(simultaneous.pairs_of(labels)) if set(pair) <= set(part.tolist())]
        found[5][places], found[6][places], found[7][places] = made.effect, made.limits, made.p_value
    return found


def _with_winners(
    found: xr.Dataset, values: xr.DataArray, dim: str, laid_out: Layout, runs: xr.DataArray | None,
    metrics: Mapping[str, xr.DataArray], better: str,
) -> xr.Dataset:  # fmt: skip
    """The best label by each statistic of the values and of each further metric; "" where no label has a number."""

    def on_labels(samples: Array, cells: Numbers) -> list[Array]:
        shared = laid_out.means(common_values(samples, cells))
        numbers = [simultaneous.statistics_of(shared[place], better) for place in np.ndindex(*shared.shape[:-2])]
        return [np.array(numbers).reshape(*shared.shape[:-1], len(BY))]

    each = {str(values.name): found["value"]}
    for name, metric in metrics.items():
        if metric.dims != values.dims:
            raise ParameterError("metrics", f"over {', '.join(map(str, values.dims))}", f"{name} over {metric.dims}")
        outputs = {"value": (dim, STATISTIC)}
        each[name] = reduced(
            metric, laid_out.dims, on_labels, outputs, along=[dim], runs=runs, sizes={STATISTIC: len(BY)}
        )["value"].assign_coords({STATISTIC: list(BY)})
    numbers = xr.concat(list(each.values()), dim=xr.Variable(METRIC, list(each)), coords="minimal", compat="override")
    # -1, no winner, picks the last one
    labels = np.array([*shown(values, dim), ""], dtype=object)
    places = xr.apply_ufunc(
        lambda rows: simultaneous.winner(rows, better), numbers, input_core_dims=[[dim]], vectorize=True
    )
    return found.assign(winner=(places.dims, labels[places.values.astype(int)])).assign_coords({METRIC: list(each)})


def _with_times(found: xr.Dataset, seconds: xr.DataArray, dim: str, over: Sequence[str], better: str) -> xr.Dataset:
    """The mean time of each label's runs, and from which time for a run on it has the best mean."""
    times = seconds.astype(float).mean([each for each in over if each in seconds.dims])
    means = found["value"].sel({STATISTIC: "mean"}, drop=True)

    def front(times: Array, means: Array) -> Array:
        towards = means if better == "lower" else -means
        # those that are as fast, the label itself among them
        faster = times[:, None] >= times[None, :]
        best = np.array([towards[i] <= np.nanmin(towards[row]) if row.any() else False for i, row in enumerate(faster)])
        return np.where(best & np.isfinite(towards), times, np.nan)

    best_from = xr.apply_ufunc(
        front, times, means, input_core_dims=[[dim], [dim]], output_core_dims=[[dim]], vectorize=True
    )
    return found.assign(seconds=times.drop_vars(set(times.coords) - set(found.coords)), best_from=best_from)


def _with_settled(found: xr.Dataset, dim: str, better: str, ratios: bool, units: str) -> xr.Dataset:
    """Add whether the best mean differs from every other, and the verdict in words."""
    names = shown(found, dim)
    rest = found["n_common"].dims
    settled = np.zeros(found["n_common"].shape, dtype=bool)
    sentences = np.full(found["n_common"].shape, "", dtype=object)
    for place in np.ndindex(*settled.shape):
        cell = found.isel(dict(zip(rest, place, strict=True)))
        means = cell["value"].sel({STATISTIC: "mean"}).values
        first = simultaneous.winner(means, better)
        neutral = 1.0 if ratios else 0.0
        clear = [
            names[j if i == first else i]
            for (i, j), (low, high) in zip(
                simultaneous.pairs_of(len(names)), cell["effect_ci"].transpose(PAIR, BOUND).values, strict=True
            )
            if first in (i, j) and (low > neutral or high < neutral)
        ]
        others = [name for i, name in enumerate(names) if i != first and not np.isnan(means[i])]
        settled[place] = first >= 0 and bool(others) and set(clear) == set(others)
        sentences[place] = sentence(cell, dim, first, [name for name in others if name not in clear], units)
    return found.assign(settled=(rest, settled), verdict=(rest, sentences))


def sentence(cell: xr.Dataset, dim: str, first: int, open_pairs: Sequence[str], units: str = "units") -> str:
    """The verdict of one cell: label `first` has the best mean and differs from all labels except `open_pairs`.

    units: the plural of what was drawn.
    """
    if first < 0:
        return "no label has a finite mean" if int(cell["n_common"]) else "no label has a value"
    name, count = shown(cell, dim)[first], int(cell["n_common"])
    runs = float(cell["best_run"].isel({dim: first}))
    parts = [f"best in {runs:.0%} of {count} common {units}"]
    chance = float(cell["best_mean"].isel({dim: first}))
    if np.isnan(chance):
        return f"{name} has the best mean, but {count} common {units} are too few to say more"
    # 999 resamples tell no probability nearer to zero or one
    parts.append(f"on average best with probability {min(max(chance, 0.001), 0.999):.3f}")
    depends = [*_other_winners(cell, name), *_left_out(cell, dim, name, units), *_faster(cell, dim, first)]
    opening = (
        f"{name} is best"
        if not open_pairs
        else f"{name} has the best mean, not told apart from " + listed(list(open_pairs), 12)
    )
    return "; ".join([opening, *parts, *(depends or ["the same by every measure"])])


def _other_winners(cell: xr.Dataset, name: str) -> list[str]:
    """Measures by which another label wins."""
    table = cell["winner"].transpose("metric", "statistic")
    return [
        f"{other} by the {statistic} of {metric}"
        for metric, row in zip(table["metric"].values, table.values, strict=True)
        for statistic, other in zip(table["statistic"].values, row, strict=True)
        if other not in ("", name)
    ]


def _left_out(cell: xr.Dataset, dim: str, name: str, units: str) -> list[str]:
    labels = shown(cell, dim)
    return [
        f"{label} without {int(number)} of the {units}, one at a time"
        for label, number in zip(labels, cell["without"].values, strict=True)
        if label != name and number > 0
    ]


def _faster(cell: xr.Dataset, dim: str, first: int) -> list[str]:
    if "best_from" not in cell:
        return []
    times, labels = cell["best_from"].values, shown(cell, dim)
    own = float(cell["seconds"].isel({dim: first}))
    return [
        f"{labels[i]} where a run may take less than {own:.2g} s"
        for i in np.argsort(times)
        if i != first and times[i] < own
    ][-1:]  # the slowest of them, which is the best: each is better than all that are faster
