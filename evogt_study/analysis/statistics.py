"""Compute statistics over named dimensions with the numbers of units, and observed orders of convergence."""

import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis.runs import check_array, count_runs, lay_out_units, list_unique, number_planned_runs
from evogt_study.errors import IncompleteError, InputError, ParameterError, suggest, warn
from evogt_study.inference import intervals, kernels
from evogt_study.inference.intervals import Interval, compute_share_interval, compute_standard_error
from evogt_study.inference.kernels import STATISTICS, Array, Bools, Counts, Kernel, find_kernel, read_probability
from evogt_study.schema.variables import TRUTH_MEANINGS
from evogt_study.storage.arrays import iterate_slabs

NOTE = "note"
BLOCK_BYTES = 2**25  # largest size of the values in memory at a time: 32 MiB
BOUND = "bound"  # dimension of the two ends of an interval
BOUNDS = {BOUND: ["lower", "upper"]}
UNIT_COUNTS = ("n_ok", "n_planned")  # units without a missing run, and planned units
RUN_COUNTS = ("runs_ok", "runs_planned")  # runs with a value, and planned runs
MISSING_POLICIES = ("warn", "raise", "drop")  # warn of runs without a value, raise an error, or leave them out silently
CI, _CI_SUFFIX, _SE_SUFFIX = "ci", "_ci", "_se"
DEFAULT = ("mean", "std", CI, "median", "median_ci")
BLOCKS, SETUPS, OMIT = INCOMPLETE = ("blocks", "setups", "omit")
MIN_UNITS_WITHOUT_NOTE = 10  # fewer units have a note: 95 % intervals of 10 lognormal values (sigma 1.2) cover 89 %
_TAIL_STATISTICS: Mapping[str, Callable[[Array], Array | Counts]] = {
    "largest_share": kernels.largest_share, "tail_index": kernels.tail_index, "units with a value": kernels.count,
}  # fmt: skip
_LONG_NAMES = {
    "n_ok": "number of units without a missing run", "n_planned": "number of planned units",
    "tail_index": "Hill's estimate of the tail index", "largest_share": "share of the largest value in the mean",
    NOTE: "warnings about the interval of the mean or of the standard deviation",
}  # fmt: skip
_METHODS = {"student": "Student", "order": "order statistics", "bonett": "Bonett", "percentile": "percentile bootstrap"}


class IncompleteWarning(UserWarning):
    """Warning that a statistic leaves out planned runs without a value."""


def reduce_blocks(
    values: xr.DataArray, over: Sequence[str], kernel: Callable[[Array, Bools], Sequence[Array]],
    outputs: Mapping[str, tuple[str, ...]], *, along: Sequence[str] = (), runs: xr.DataArray | None = None,
    sizes: Mapping[str, int] | None = None,
) -> xr.Dataset:  # fmt: skip
    """Apply `kernel` block by block to samples over the dimensions `over`, and return its `outputs`.

    `kernel` takes values and a mask of runs, both (..., sizes of `along`, n), and returns an array for each output.
    `sizes` gives the sizes of new dimensions.
    """
    core = [*along, *over]
    rest = [str(dim) for dim in values.dims if dim not in core]
    check_dimension_names(rest, {*outputs, NOTE})
    there = [] if runs is None else [dim for dim in core if dim in runs.dims]
    own = tuple(place - len(core) for place, dim in enumerate(core) if dim not in there)

    def on_block(block: Any, *marks: Any) -> Any:
        values = np.asarray(block, dtype=float)
        kept = values.ndim - len(over)
        shape = (*values.shape[:kept], math.prod(values.shape[kept:]))
        once = np.broadcast_to(np.expand_dims(marks[0], own) if marks else True, values.shape).reshape(shape)
        values = values.reshape(shape)
        found = kernel(np.where(once, values, np.nan) if marks else values, once)
        return tuple(found) if len(outputs) > 1 else found[0]

    # without coordinates, so that xarray neither aligns nor reads them
    bare = values.reset_coords(drop=True).drop_vars(list(values.indexes))
    lengths, room = dict[str, int](), max(1, BLOCK_BYTES // max(1, 8 * math.prod(values.sizes[dim] for dim in core)))
    # the last dimensions are contiguous, in memory and in a file
    for dim in reversed(rest) if values.chunks is None and values.size * 8 > BLOCK_BYTES else ():
        lengths[dim] = min(room, values.sizes[dim])
        room = max(1, room // values.sizes[dim])
    if values.chunks is not None or lengths:
        bare = bare.chunk({**lengths, **dict.fromkeys(core, -1)})  # -1: a kernel needs the whole sample
        if runs is not None:
            known = {dim: length for dim, length in lengths.items() if dim in runs.dims}
            runs = runs.chunk({**known, **dict.fromkeys(there, -1)})
    used, new = {dim for dims in outputs.values() for dim in dims}, {BOUND: 2, **(sizes or {})}
    found = xr.apply_ufunc(
        on_block, *([bare] if runs is None else [bare, runs]),
        input_core_dims=[core] if runs is None else [core, there],
        output_core_dims=[list(dims) for dims in outputs.values()], output_dtypes=[np.float64] * len(outputs),
        dask="parallelized", dask_gufunc_kwargs={"output_sizes": {d: n for d, n in new.items() if d in used}},
    )  # fmt: skip
    data = xr.Dataset(dict(zip(outputs, found if len(outputs) > 1 else (found,), strict=True)))
    data = data.compute() if values.chunks is not None else data.compute(scheduler="synchronous")  # one block in memory
    return data.assign({name: data[name].astype(np.int64) for name in (*UNIT_COUNTS, *RUN_COUNTS) if name in data})


def check_dimension_names(dims: Iterable[Hashable], columns: Collection[str]) -> None:
    """Raise InputError for a dimension with the name of a statistic."""
    for dim in dims:
        if dim in columns:
            message = f"a dimension of a table must not have the name of a column, got `{dim}`"
            raise InputError(f'{message}. Choose other statistics, or use data.rename({dim}="{dim}_value")')


def check_dimensions(values: xr.DataArray, over: str | Iterable[str]) -> list[str]:
    """Return the dimensions `over` without duplicates.  Raises InputError for unknown dimensions or text."""
    check_array(values)
    dims = list_unique(over)
    unknown = [f"`{dim}`" for dim in dims if dim not in values.dims]
    known = ", ".join(map(str, values.dims)) or "it has none"
    if unknown:
        owner = "the array" if values.name is None else f"`{values.name}`"
        raise InputError(f"{owner} has no axis {', '.join(unknown)}. Name axes with `over`: {known}")
    if not dims:
        raise InputError(f"`over` must name axes ({known}), got no name")
    if values.dtype.kind not in "iufb":
        raise InputError(f"`{values.name}` must hold numbers, got {values.dtype}")
    return dims


def check_options(**given: tuple[str, Collection[str]]) -> None:
    """Raise ParameterError if a value is not one of its options."""
    for name, (value, options) in given.items():
        if value not in options:
            raise ParameterError(name, f"one of {', '.join(filter(None, options))}", value)


def check_confidence(confidence: float) -> None:
    """Raise ParameterError for a confidence outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        raise ParameterError("confidence", "in (0, 1)", confidence, remedy="use e.g. 0.95")


def report_missing_runs(
    values: xr.DataArray, found: xr.Dataset, planned: xr.DataArray | None, missing: str
) -> xr.Dataset:
    """Warn or raise IncompleteError for runs without a value, by `missing`, and return `found` without `RUN_COUNTS`."""
    n_ok, n_planned = (int(found[name].sum()) for name in RUN_COUNTS)
    if n_ok < n_planned and missing != "drop":
        runs = number_planned_runs(values, planned)
        if runs is not None:  # a run at several points counts once
            own = [str(dim) for dim in values.dims if dim not in runs.dims]
            present = reduce_blocks(values, own, lambda each, _: [kernels.count(each).astype(float)], {"present": ()})
            n_ok, n_planned = (count_runs(each.values) for each in (runs.where(present["present"] > 0, -1), runs))
        name = "value" if values.name is None else f"`{values.name}`"
        message = f"{n_planned - n_ok} of {n_planned} runs have no {name}"
        if missing == "raise":
            raise IncompleteError(f'{message}. See `evogt status`, or leave them out with missing="warn"')
        warn(f"{message}. The statistics leave them out, see n_ok", IncompleteWarning)
    return found.drop_vars(RUN_COUNTS)


def summary(
    values: xr.DataArray, over: str | Iterable[str] = "seed", *, statistics: str | Iterable[str] = DEFAULT,
    interval: Interval = Interval(), units: str | Iterable[str] | None = None, incomplete: str = BLOCKS,
    missing: str = "warn", planned: xr.DataArray | None = None,
) -> xr.Dataset:  # fmt: skip
    """Compute statistics over dimensions, each with its number of units.

    Parameters
    ----------
    values : DataArray
        Values of one variable, such as ``ds.error``.  The function reads values in a file or in Dask by blocks.
    over : str or list of str, default "seed"
        Dimensions to pool.
    statistics : str or list of str
        Names of statistics: mean, std (divisor n - 1, NaN for one value), median, geometric_mean (NaN if a value is
        negative), min, max, and quantiles in percent such as q25.  The suffix _se gives the standard error of a
        statistic, and the suffix _ci its confidence interval.  The name "ci" gives the interval that `interval`
        describes, by default of the mean.
    interval : Interval
        Confidence, resamples and seed of all intervals, and statistic and method of ci.
    units : str or list of str, optional
        Dimensions in `over` with independent points.  The bootstrap resamples all values at such a point together.
        Default: seed if it is in `over`, else each run is a unit.
    incomplete : {"blocks", "setups", "omit"}, default "blocks"
        Mean over units with failed runs.  "blocks" is the mean of the least-squares means of all setups, with the model
        value = setup + unit + rest.  "setups" is the mean of the means of all setups.  "omit" is the mean over complete
        units.  All other statistics use complete units.
    missing : {"warn", "drop", "raise"}, default "warn"
        Policy for runs without a value: give an IncompleteWarning, leave them out silently, or raise an error.
    planned : DataArray, optional
        Run keys ("" for an unplanned case), or a boolean mask.  Default: the coordinate `run_key`.  Values with equal
        keys share a run, which counts once.

    Returns
    -------
    xarray.Dataset
        The statistics over the other dimensions, with intervals along `bound` (lower, upper).  n_ok is the number of
        units without a missing run, and n_planned is the number of planned units.  With an interval of the mean or std,
        `note` warns of few units, a heavy tail or infinite values.

    Raises
    ------
    InputError, ParameterError
        If a dimension, a statistic or an option is unknown.
    IncompleteError
        If runs have no value and `missing` is "raise".

    Warns
    -----
    IncompleteWarning
        If runs have no value.

    Examples
    --------
    >>> x = xr.DataArray([[1.0, 2.0, 6.0], [2.0, 2.0, 2.0]], dims=("n", "seed"))
    >>> summary(x, statistics="mean")["mean"].values
    array([3., 2.])
    """
    dims, names = check_dimensions(values, over), list_unique(statistics)
    check_options(missing=(missing, MISSING_POLICIES), incomplete=(incomplete, INCOMPLETE))
    parsed = {name: _parse_statistic(name, interval) for name in names}
    computed = {name: _make_kernel(of, kind, interval) for name, (of, kind) in parsed.items()}
    of_intervals = {of for of, kind in parsed.values() if kind == _CI_SUFFIX} & {"mean", "std"}
    for name, kernel in _TAIL_STATISTICS.items() if of_intervals else ():
        computed[name] = lambda units, kernel=kernel: kernel(kernels.mean(units)).astype(float)  # type: ignore[misc]
    laid_out = lay_out_units(values, dims, units, planned)
    means = [name for name, (of, _) in parsed.items() if of == "mean"] + list(_TAIL_STATISTICS)
    shares = [name for name, each in parsed.items() if each == ("mean", _CI_SUFFIX) and not interval.method]
    shares = shares if shares and _are_two_valued(values) else []

    def on_samples(samples: Array, once: Bools) -> list[Array]:
        unlike = laid_out.get_complete_units(samples, once)
        pooled = dict.fromkeys(means, unlike)
        if laid_out.within > 1 and incomplete != OMIT:
            every, setups = laid_out.split_units(samples), np.asarray(laid_out.split_units(once).any(axis=-2))
            of_means = compute_unit_means(unlike, every, setups, incomplete)
            pooled = dict.fromkeys(means, of_means) | dict.fromkeys(shares, every)
        found = [
            compute_share_interval(pooled[name], interval.confidence)
            if name in shares
            else each(pooled.get(name, unlike))
            for name, each in computed.items()
        ]
        return [*found, *laid_out.count_units(samples, once)]

    outputs = {name: (BOUND,) if parsed.get(name, ("", ""))[1] == _CI_SUFFIX else () for name in computed}
    outputs |= dict.fromkeys((*UNIT_COUNTS, *RUN_COUNTS), ())
    found = reduce_blocks(values, laid_out.dims, on_samples, outputs, runs=laid_out.runs)
    if of_intervals:
        least = next(n for n in itertools.count(interval.min_units) if 2.0 ** (1 - n) <= 1.0 - interval.confidence)
        least = least if ("median", _CI_SUFFIX) in parsed.values() else 0
        found = _add_notes(found, 0 if shares else interval.min_units, least, std="std" in of_intervals)
    found = report_missing_runs(values, found, planned, missing)
    unit, of_variable = str(values.attrs.get("units", "1")), str(values.attrs.get("long_name", values.name))
    for name in map(str, found.data_vars):
        text = _LONG_NAMES.get(name) or _describe(*parsed[name], interval, laid_out.within > 1, name in shares)
        found[name].attrs = {"long_name": f"{text} over {', '.join(dims)} of {of_variable}"}
        found[name].attrs["units"] = "1" if name in _LONG_NAMES else unit
        if name.endswith((CI, _SE_SUFFIX)) or name == "std":
            found[name].attrs["comment"] = "NaN below two units"
    return found.assign_coords(keep_coordinates(values, dims) | (BOUNDS if BOUND in found.dims else {}))


def compute_unit_means(whole: Array, every: Array, planned: Bools, incomplete: str) -> Array:
    """Return values of units (..., count, k) whose mean is the mean over all setups, in spite of failed runs.

    `whole` has NaN for a unit that lacks a run, `every` has all values, and `planned` marks the setups (..., k).
    Samples without gaps, and samples with a setup without values, do not change.
    """
    found = whole.copy()
    for place in np.ndindex(*whole.shape[:-2]):
        lost, empty = (np.isnan(each[place]).all(axis=-1).sum() for each in (whole, every))
        known = ~np.isnan(every[place]).all(axis=0)
        if lost == empty or (planned[place] & ~known).any():
            continue
        setups = every[place][:, known].T
        if incomplete == BLOCKS:
            units = kernels.compute_pseudo_values(setups).mean(axis=0)
        else:
            there, mean = ~np.isnan(setups), kernels.mean(setups)[:, None]
            scores = np.where(there, (setups - mean) / there.mean(axis=1, keepdims=True), 0.0) + mean
            units = scores[:, there.any(axis=0)].mean(axis=0)
        found[place] = np.nan
        found[place][: len(units), 0] = units
    return found


def _parse_statistic(name: str, how: Interval) -> tuple[str, str]:
    """Return the statistic and the suffix ("", "_ci", "_se") of a name.  Raises ParameterError for unknown names."""
    kind = _CI_SUFFIX if name == CI else next((end for end in (_CI_SUFFIX, _SE_SUFFIX) if name.endswith(end)), "")
    of = how.of if name == CI else name.removesuffix(kind)
    if of not in STATISTICS and read_probability(of) is None:
        known = f"{', '.join(STATISTICS)}, a quantile in percent like q25, one of these with _ci or _se, or {CI}"
        raise ParameterError("statistics", f"one of {known}", name)
    return of, kind


def _make_kernel(of: str, kind: str, how: Interval) -> Kernel:
    """Return the function from samples of units, (..., n, k), to a statistic, its interval or its error."""
    if kind == _CI_SUFFIX:  # a statistic that `how` does not name has its default method
        return partial(intervals.interval, how=how if of == how.of else replace(how, of=of, method=""))
    if kind == _SE_SUFFIX:
        return partial(compute_standard_error, of=of)
    kernel = find_kernel(of)[0]
    return lambda units: kernel(units.reshape(*units.shape[:-2], units.shape[-2] * units.shape[-1]))


def _add_notes(found: xr.Dataset, least: int, least_for_median: int, *, std: bool) -> xr.Dataset:
    """Add a note at each point about missing runs, few units (Student's interval below `least`) and heavy tails."""

    def describe(share: float, index: float, count: float, n_ok: float, n_planned: float) -> str:
        lost = f"{n_planned - n_ok:.0f} of {n_planned:.0f} runs have no value"
        remarks = ["Student's interval"] * (count < least)
        remarks += [f"the interval of a median needs {least_for_median}"] * (count < least_for_median)
        remark = f" ({', '.join(remarks)})" if remarks else ""
        notes = [lost] if 0 < n_ok < n_planned else []
        notes += [f"few seeds: {count:.0f}{remark}"] if 0 < count < MIN_UNITS_WITHOUT_NOTE else []
        heavy = f"heavy tail (index {index:.1f}): one run has {share:.0%} of the mean"
        notes += [heavy if index > 0.0 else "infinite values"] if index < kernels.HEAVY_TAIL_INDEX else []
        return "; ".join([*notes, "the interval of std is too short for skewed values"] if std and count else notes)

    with np.errstate(invalid="ignore"):  # NaN in comparisons
        numbers = (found[each] for each in (*_TAIL_STATISTICS, *RUN_COUNTS))
        note = xr.apply_ufunc(describe, *numbers, vectorize=True, output_dtypes=[object])
    return found.drop_vars("units with a value").assign({NOTE: note})


def _are_two_valued(values: xr.DataArray) -> bool:
    """Return True if all values are 0 or 1, or booleans, and read only the slabs that decide."""
    if values.dtype.kind == "b" or values.attrs.get("flag_meanings") == TRUTH_MEANINGS:
        return True
    parts = (np.asarray(values.variable[slab].values, dtype=float) for slab in iterate_slabs(values.shape))
    decisions = (kernels.is_two_valued(part) for part in parts if not np.isnan(part).all())
    return next(decisions, False) and all(decisions)


def _describe(of: str, kind: str, how: Interval, pooled: bool, share: bool) -> str:
    """Return the long name of a statistic, interval or standard error."""
    text = find_kernel(of)[1]
    if kind == _CI_SUFFIX:
        method = how.chosen if of == how.of else Interval(of).chosen
        method = "percentile" if pooled and method == "bonett" else method  # units of several values
        label = "Wilson" if share else _METHODS.get(method, method)
        return f"{100.0 * how.confidence:g}% confidence interval ({label}) of the {text}"
    return f"standard error of the {text}" if kind == _SE_SUFFIX else text


def keep_coordinates(values: xr.DataArray, dims: Iterable[str]) -> dict[Hashable, xr.DataArray]:
    """Return the coordinates of `values` that do not depend on the dimensions `dims`, in memory."""
    return {name: coord.compute() for name, coord in values.coords.items() if not set(coord.dims) & set(dims)}


def observed_orders(
    values: xr.DataArray, along: str, over: str | Iterable[str] = (), *, of: str = "mean",
    interval: Interval = Interval(), units: str | Iterable[str] | None = None, missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:  # fmt: skip
    """Return the exponents p of values ~ h^p along an axis or a dependent parameter.

    Parameters
    ----------
    values : DataArray
        Values of one variable, such as ``ds.error``.
    along : str
        Axis, or parameter that depends on one axis, with different positive numbers h_i.
    over : str or list of str, optional
        Dimensions to pool.  Default: none.
    of : str, default "mean"
        Statistic e_i over `over`, or the value itself if `over` is empty.  A value that is zero, negative, infinite or
        missing has no order (NaN).
    interval : Interval
        Confidence, resamples, seed and smallest number of units of the intervals.
    units, missing, planned
        `units`, `missing` and `planned` are as in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        The statistic, order, n_ok and n_planned along `along`, and slope and n_points.  A non-empty `over` adds
        order_se, slope_se, order_ci and slope_ci.

    Raises
    ------
    InputError
        If `along` does not have different positive numbers.

    Notes
    -----
    order = log(e_i / e_{i-1}) / log(h_i / h_{i-1}) at h_i, and slope is the least-squares slope of log e against log h
    over n_points values.  An error of second order in dt has order 2, and an error that falls like N^-2 has order -2.
    Bootstrap resamples, which draw a unit at all axis values together, give the standard error s.  The interval is p -+
    t s with Student's quantile t.

    Examples
    --------
    >>> observed_orders(xr.DataArray([4.0, 1.0], {"dt": [0.2, 0.1]}, ["dt"]), "dt")["order"].values
    array([nan,  2.])
    """
    check_array(values)
    values = _along_parameter(values, along)
    planned = planned if planned is None else _along_parameter(planned, along)
    numeric = [str(name) for name, coord in values.coords.items() if coord.ndim == 1 and coord.dtype.kind in "iuf"]
    if along not in numeric or along not in values.dims:
        raise InputError(f"`along` must be a numeric axis, got {along!r}. {suggest(along, numeric)}")
    steps, dims, kernel = values[along].values.astype(float), list_unique(over), find_kernel(of)[0]
    if not (steps > 0.0).all() or len(np.unique(steps)) < len(steps):
        raise InputError(f"`along` must be an axis of different positive numbers, got {along} = {steps.tolist()}")
    if dims:
        data = summary(values, dims, statistics=(of,), units=units, missing=missing, planned=planned)
    else:
        alone = values.expand_dims("none")
        data = summary(alone, "none", statistics="mean", missing="drop", planned=planned).rename(mean=of)
        data[of].attrs = values.attrs
    errors = data[of].transpose(..., along)
    names = {
        "order": f"observed order in {along}, positive if values fall with it",
        "slope": f"least-squares slope of log {of} against log {along}",
        "n_points": "number of values in the fit of the slope",
    }
    for name, found in zip(names, compute_orders(errors.values, steps), strict=True):
        data[name] = (errors.dims[: found.ndim], found, {"long_name": names[name]})
    if not dims:
        return data
    laid_out = lay_out_units(values, check_dimensions(values, dims), units, planned)

    def on_points(samples: Array, once: Bools) -> list[Array]:
        pooled = laid_out.get_complete_units(samples, once)
        shape = pooled.shape[:-3]
        of_order, of_slope, counts = np.full((*shape, len(steps)), np.nan), np.full(shape, np.nan), np.zeros(shape)
        for place in np.ndindex(*shape):
            there = (~np.isnan(pooled[place])).any(axis=(0, 2))
            counts[place] = there.sum()
            if counts[place] < interval.min_units or np.isinf(pooled[place]).any():
                continue
            resampled = kernels.resample_statistic(pooled[place][:, there], kernel, interval.resamples, interval.seed)
            order, slope, _ = compute_orders(resampled.T, steps)
            known = np.isfinite(order).any(axis=0)
            of_order[(*place, known)] = np.nanstd(order[:, known], axis=0)
            of_slope[place] = np.nanstd(slope) if np.isfinite(slope).any() else np.nan
        return [of_order, of_slope, counts]

    outputs = {"order_se": (along,), "slope_se": (), "units": ()}
    errors_of = reduce_blocks(values, laid_out.dims, on_points, outputs, along=[along], runs=laid_out.runs)
    # for n - 1 = 0 there is no quantile, and the standard error is NaN
    t = kernels.compute_student_quantile(np.maximum(errors_of["units"], 2.0), interval.confidence)
    for name in ("order", "slope"):
        error = errors_of[f"{name}_se"].transpose(*data[name].dims)
        data[f"{name}_se"] = error.assign_attrs(long_name=f"standard error of the {names[name]}")
        half = error * xr.DataArray(t, dims=errors_of["units"].dims)
        ends = xr.concat([data[name] - half, data[name] + half], dim=BOUND).transpose(..., BOUND)
        text = f"{100.0 * interval.confidence:g}% confidence interval of the {names[name]}"
        data[f"{name}_ci"] = ends.drop_attrs(deep=False).assign_attrs(long_name=text)
    return data.assign_coords(BOUNDS)


def _along_parameter(values: xr.DataArray, along: str) -> xr.DataArray:
    """Replace the axis of the dependent parameter `along` by a dimension with the name of the parameter."""
    if along in values.dims or along not in values.coords or values.coords[along].ndim != 1:
        return values
    return values.swap_dims({next(iter(values.coords[along].dims)): along})


def compute_orders(errors: Array, steps: Array) -> tuple[Array, Array, Counts]:
    """Return the order (..., n), slope (...) and the number of points (...) of errors (..., n) at steps (n,)."""
    ok = np.isfinite(errors) & (errors > 0.0)
    logs, log_steps = np.log(np.where(ok, errors, 1.0)), np.log(steps)  # `ok` masks the ones below
    order = np.full(errors.shape, np.nan)
    np.divide(np.diff(logs), np.diff(log_steps), out=order[..., 1:], where=ok[..., 1:] & ok[..., :-1])
    n = ok.sum(axis=-1, dtype=np.int64)
    apart, aside = (
        np.where(ok, each - (np.where(ok, each, 0.0).sum(axis=-1) / np.maximum(n, 1))[..., None], 0.0)
        for each in (np.broadcast_to(log_steps, ok.shape), logs)
    )
    slope = np.divide((apart * aside).sum(axis=-1), (apart**2).sum(axis=-1), out=np.full(n.shape, np.nan), where=n > 1)
    return order, slope, n
