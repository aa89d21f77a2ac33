"""Compute statistics over named dimensions.  Each number comes with the planned units and the units without a gap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis import reduce
from evogt_study.analysis.reduce import BOUND, COUNTS, MISSING, NOTE, RUNS, IncompleteWarning
from evogt_study.analysis.runs import Numbers, each_once, keep_first, layout, mark_first, planned_runs
from evogt_study.errors import ParameterError
from evogt_study.inference import intervals, kernels
from evogt_study.inference.intervals import Interval, share_interval, standard_error
from evogt_study.inference.kernels import HEAVY, STATISTICS, Array, Counts, Kernel, kernel_of, probability_of
from evogt_study.inference.means import pseudo_values
from evogt_study.schema.variables import TRUTH_MEANINGS
from evogt_study.storage.arrays import slabs

__all__ = ["DEFAULT", "IncompleteWarning", "Interval", "summary"]
CI, _INTERVAL, _ERROR = "ci", "_ci", "_se"
DEFAULT = ("mean", "std", CI, "median", "median_ci")
BLOCKS, SETUPS, OMIT = INCOMPLETE = ("blocks", "setups", "omit")
FEW = 10  # units below which there is a note: with 10 lognormal values (sigma 1.2), 95 % intervals cover 89 %
_TAILS: Mapping[str, Callable[[Array], Array | Counts]] = {
    "largest_share": kernels.largest_share, "tail_index": kernels.tail_index, "units with a value": kernels.count,
}  # fmt: skip
_PLAIN = {
    "n_ok": "number of units without a missing run", "n_planned": "number of units planned",
    NOTE: "doubts about the interval of the mean, or of the standard deviation",
    "tail_index": "Hill's estimate of the tail index",
    "largest_share": "share of the mean that the largest value carries",
}  # fmt: skip
"""Long names of the numbers beside the statistics."""
_METHODS = {
    "bootstrap-t": "bootstrap-t", "student": "Student", "order": "order statistics", "bonett": "Bonett",
    "percentile": "percentile bootstrap",
}  # fmt: skip


def summary(
    values: xr.DataArray,
    over: str | Iterable[str] = "seed",
    *,
    statistics: str | Iterable[str] = DEFAULT,
    interval: Interval = Interval(),
    units: str | Iterable[str] | None = None,
    incomplete: str = BLOCKS,
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Compute statistics over dimensions, each with its number of units.

    Parameters
    ----------
    values : DataArray
        Values of one variable, such as ``ds.error``.  Values in a file, or held by Dask, are read block by block.
    over : str or list of str, default "seed"
        Dimensions that are pooled.
    statistics : str or list of str
        mean; std (divisor n - 1, NaN for one value); median; geometric_mean (NaN if a value is negative); min; max;
        quantiles in percent, as q25 (linear between sorted values); each of these with _se, its standard error, or _ci,
        its confidence interval; and ci, the interval that `interval` describes, of the mean by default.
    interval : Interval
        Confidence, resamples and seed of all intervals, and statistic and method of ci.
    units : str or list of str, optional
        Dimensions in `over` whose points are independent: their values at the other pooled points belong together, and
        are resampled together.  Default: seed if it is pooled, else each run is a unit.
    incomplete : {"blocks", "setups", "omit"}, default "blocks"
        Pooled units with failed runs.  blocks: the mean is the mean of the least-squares means of all setups, value
        = setup + unit + rest, so a failed run costs one value; setups: the mean of the setups' own means; omit: the
        mean over whole units.  Other statistics are over whole units.
    missing : {"warn", "drop", "raise"}, default "warn"
        Policy for runs without a value: an IncompleteWarning, silence, or an error.
    planned : DataArray, optional
        Run keys, "" if no run is planned, or booleans.  Default: the keys that the values carry.  Values with equal
        keys share a run, which enters once and counts once.

    Returns
    -------
    xarray.Dataset
        The statistics over the other dimensions, intervals along `bound` (lower, upper), n_ok, the units without a
        missing run, and n_planned.  With an interval of the mean or of std, `note` says why it is not reliable: few
        units, a heavy tail, or infinite values.

    Raises
    ------
    InputError, ParameterError
        For an unknown dimension, statistic or option.
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
    dims, names = reduce.dimensions(values, over), each_once(statistics)
    reduce.check_options(missing=(missing, MISSING), incomplete=(incomplete, INCOMPLETE))
    return _summary(values, dims, names, interval, units, incomplete, missing, planned_runs(values, planned))


def _summary(
    values: xr.DataArray, dims: Sequence[str], names: Sequence[str], interval: Interval,
    units: str | Iterable[str] | None, incomplete: str, missing: str, runs: xr.DataArray | None,
) -> xr.Dataset:  # fmt: skip
    """`summary` with checked names."""
    parsed = {name: _parse(name, interval) for name in names}
    computed = {name: _kernel(of, kind, interval) for name, (of, kind) in parsed.items()}
    of_intervals = {of for of, kind in parsed.values() if kind == _INTERVAL} & {"mean", "std"}
    computed |= {name: partial(_apply_to_means, kernel) for name, kernel in _TAILS.items()} if of_intervals else {}
    laid_out = layout(values, dims, units, runs)
    means = [name for name, (of, _) in parsed.items() if of == "mean"] + list(_TAILS)
    shares = [name for name, each in parsed.items() if each == ("mean", _INTERVAL) and not interval.method]
    shares = shares if shares and _are_two_valued(values) else []

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        unlike = laid_out.units(samples, cells)
        pooled = dict.fromkeys(means, unlike)
        if laid_out.within > 1 and incomplete != OMIT:
            every: Array = laid_out.blocks(keep_first(samples, cells))
            planned = np.asarray(laid_out.blocks(mark_first(cells)).any(axis=-2))
            pooled = dict.fromkeys(means, unit_means(unlike, every, planned, incomplete)) | dict.fromkeys(shares, every)
        found = [
            share_interval(pooled[name], interval.confidence) if name in shares else each(pooled.get(name, unlike))
            for name, each in computed.items()
        ]
        return [*found, *laid_out.counts(samples, cells)]

    outputs = {name: (BOUND,) if parsed.get(name, ("", ""))[1] == _INTERVAL else () for name in computed}
    outputs |= dict.fromkeys((*COUNTS, *RUNS), ())
    found = reduce.reduce_blocks(values, laid_out.dims, on_samples, outputs, runs=runs)
    found = reduce.report_missing_runs(values, found, runs, missing)
    if of_intervals:
        found = _add_notes(found, 0 if shares else interval.min_units, std="std" in of_intervals)
    unit, of_variable = str(values.attrs.get("units", "1")), str(values.attrs.get("long_name", values.name))
    for name in map(str, found.data_vars):
        text = _PLAIN.get(name) or _describe(*parsed[name], interval, laid_out.within > 1, name in shares)
        found[name].attrs = {"long_name": f"{text} over {', '.join(dims)} of {of_variable}"}
        found[name].attrs["units"] = "1" if name in _PLAIN else unit
        if name.endswith((CI, _ERROR)) or name == "std":
            found[name].attrs["comment"] = "NaN below two units"
    bounds = {BOUND: ["lower", "upper"]} if BOUND in found.dims else {}
    return found.assign_coords(kept_coordinates(values, dims) | bounds)


def unit_means(whole: Array, every: Array, planned: npt.NDArray[np.bool_], incomplete: str) -> Array:
    """Values of units (..., count, k) whose mean is the mean over all setups, whatever failed.

    whole: NaN for a unit that lacks a run.  every: all values.  planned: setups (..., k) with a run.  Samples without
    gaps are returned as they are, and samples with a setup without any value, whose mean is not known.
    """
    found = whole.copy()
    for place in np.ndindex(*whole.shape[:-2]):
        lost, empty = (np.isnan(each[place]).all(axis=-1).sum() for each in (whole, every))
        known = ~np.isnan(every[place]).all(axis=0)
        if lost == empty or (planned[place] & ~known).any():
            continue
        setups = every[place][:, known].T
        if incomplete == BLOCKS:
            units = pseudo_values(setups).mean(axis=0)
        else:
            there, mean = ~np.isnan(setups), kernels.mean(setups)[:, None]
            scores = np.where(there, (setups - mean) / there.mean(axis=1, keepdims=True), 0.0) + mean
            units = scores[:, there.any(axis=0)].mean(axis=0)
        found[place] = np.nan
        found[place][: len(units), 0] = units
    return found


def _parse(name: str, how: Interval) -> tuple[str, str]:
    """Statistic and kind of a name, "", "_ci" or "_se".  Raises ParameterError for an unknown statistic."""
    kind = next((end for end in (_INTERVAL, _ERROR) if name.endswith(end)), "")
    of, kind = (how.of, _INTERVAL) if name == CI else (name.removesuffix(kind), kind)
    if of not in STATISTICS and probability_of(of) is None:
        known = f"{', '.join(STATISTICS)}, a quantile in percent like q25, one of these with _ci or _se, or {CI}"
        raise ParameterError("statistic", f"one of {known}", name)
    return of, kind


def _kernel(of: str, kind: str, how: Interval) -> Kernel:
    """Function of a statistic, from samples of units, (..., n, k), to a number each, or to its interval or error."""
    if kind == _INTERVAL:
        # by the default method of that statistic: `how` may name one that is not of it, as order of a mean
        return partial(intervals.interval, how=how if of == how.of else replace(how, of=of, method=""))
    if kind == _ERROR:
        return partial(standard_error, of=of)
    kernel = kernel_of(of)[0]
    # a number is one of all values; which of them belong together matters to intervals and errors alone
    return lambda units: kernel(units.reshape(*units.shape[:-2], units.shape[-2] * units.shape[-1]))


def _apply_to_means(kernel: Callable[[Array], Array | Counts], units: Array) -> Array:
    """The number of a kernel, from the means of the units (..., n, k)."""
    return kernel(units[..., 0] if units.shape[-1] == 1 else kernels.mean(units)).astype(float)


def _add_notes(found: xr.Dataset, least: int, *, std: bool) -> xr.Dataset:
    """The numbers with a note for each point: few units (below `least` with Student's interval), or a heavy tail."""

    def describe(share: float, index: float, count: float) -> str:
        student = " (Student's interval)" if count < least else ""
        notes = [f"few seeds: {count:.0f}{student}"] if 0 < count < FEW else []
        heavy = f"heavy tail (index {index:.1f}): one run has {share:.0%} of the mean"
        notes += [heavy if index > 0.0 else "infinite values"] if index < HEAVY else []
        return "; ".join([*notes, "interval of std too short for skewed values"] if std and count else notes)

    with np.errstate(invalid="ignore"):  # comparisons with NaN
        note = xr.apply_ufunc(describe, *(found[each] for each in _TAILS), vectorize=True, output_dtypes=[object])
    return found.drop_vars("units with a value").assign({NOTE: note})


def _are_two_valued(values: xr.DataArray) -> bool:
    """Test whether all values are 0 or 1, or booleans; read slab by slab, and the first one usually decides."""
    if values.dtype.kind == "b" or values.attrs.get("flag_meanings") == TRUTH_MEANINGS:
        return True
    known = False
    for slab in slabs(values.shape):
        part = np.asarray(values.variable[slab].values, dtype=float)
        if not np.isnan(part).all():
            known = kernels.is_two_valued(part)
            if not known:
                return False
    return known


def _describe(of: str, kind: str, how: Interval, pooled: bool, share: bool) -> str:
    """Long name of a statistic, interval or standard error."""
    text = kernel_of(of)[1]
    if kind == _INTERVAL:
        method = how.chosen if of == how.of else Interval(of).chosen
        method = "percentile" if pooled and method == "bonett" else method  # units of several values
        label = "Wilson" if share else _METHODS[method]
        return f"{100.0 * how.confidence:g}% confidence interval ({label}) of the {text}"
    return f"standard error of the {text}" if kind == _ERROR else text


def kept_coordinates(values: xr.DataArray, dims: Iterable[str]) -> dict[Hashable, xr.DataArray]:
    """The coordinates of `values` that are not over the dimensions `dims`, read from the file where they are in one."""
    return {name: coord.compute() for name, coord in values.coords.items() if not set(coord.dims) & set(dims)}
