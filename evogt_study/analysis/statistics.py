"""Compute statistics over named dimensions.  Each number comes with the planned units and the units without a gap."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.reduce import (
    BOUND,
    COUNTS,
    FEW,
    NOTE,
    NOTED,
    RUNS,
    IncompleteWarning,
    check_options,
    check_policy,
    dimensions,
    noted,
    reduced,
    tail_kernels,
    tell_missing_runs,
)
from evogt_study.analysis.runs import Numbers, each_once, keep_first, layout, mark_first, planned_runs
from evogt_study.errors import ParameterError, warn
from evogt_study.inference import intervals, kernels
from evogt_study.inference.intervals import Interval, share_intervals, standard_error
from evogt_study.inference.kernels import STATISTICS, Array, kernel_of, probability_of
from evogt_study.inference.means import pseudo_values
from evogt_study.schema.variables import TRUTH_MEANINGS
from evogt_study.storage.arrays import slabs

__all__ = ["DEFAULT", "IncompleteWarning", "Interval", "UndefinedIntervalWarning", "summary"]
CI, INTERVAL, ERROR = "ci", "_ci", "_se"
DEFAULT = ("mean", "std", CI, "median", "median_ci")
BLOCKS, SETUPS, OMIT = "blocks", "setups", "omit"
INCOMPLETE = (BLOCKS, SETUPS, OMIT)
TWO_NEEDED = "NaN below two units"
Kernel = Callable[[Array], Array]
"""From samples of units, (..., n, k), to a number each, (...), or an interval, (..., 2)."""
_METHODS = {
    "bootstrap-t": "bootstrap-t",
    "student": "Student",
    "order": "order statistics",
    "percentile": "percentile bootstrap",
    "bca": "bca bootstrap",
    "bonett": "Bonett",
}


class UndefinedIntervalWarning(UserWarning):
    """A bca interval is not defined for some samples, and NaN."""


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
    """Statistics over dimensions `over`: mean, sample standard deviation, median and their intervals, as a default.

    statistics: of mean; std (divisor n - 1, NaN for one value); median; geometric_mean (NaN where a value is negative);
    min; max; quantiles in percent, as q25 (linear between sorted values); each of these with _se, its standard error,
    or _ci, its 95 % interval with dimension `bound` (lower, upper), as median_ci; and ci, the interval that `interval`
    describes, of the mean as a default.  `interval` gives confidence, resamples and seed of all intervals.

    Returns a Dataset of these over the other dimensions, with n_ok, the units without a missing run, and n_planned, the
    planned units.  With an interval of the mean, or of std, comes `note`, which says where it is
    not to be relied on: few units, a heavy tail, or infinite values.

    units: dimensions among `over` whose points were drawn independently; their values at the other pooled points belong
    together, and are resampled together.  None: seed where it is pooled, else each run.

    planned: case keys of the runs, or "" if no run is planned (default: the keys that the values carry, as in Datasets
    of `evs.open` and `evs.run`).  Values with equal keys share a run, which enters once and counts once.  Booleans mask
    the planned runs.  Without keys or booleans, all values have different runs.

    incomplete: pooled units of which runs failed.  "blocks": the mean is the mean of the least-squares means of all
    setups, value = setup + unit + rest, so a failed run costs one value; "setups": the mean of the setups' own means;
    "omit": the mean over whole units.  Other statistics are over whole units.

    missing: "warn" gives an IncompleteWarning if runs have no value, "drop" does not, "raise" raises IncompleteError.
    n_ok < n_planned shows it too.

    Values in a file, or held by dask, are read block by block of the other dimensions and never as a whole.

    Raises InputError for a dimension that `values` does not have, ParameterError for an unknown statistic or policy.
    """
    dims, names = dimensions(values, over), each_once(statistics)
    check_policy(missing)
    check_options(incomplete=(incomplete, INCOMPLETE))
    return _summary(values, dims, names, interval, units, incomplete, missing, planned_runs(values, planned))


def _summary(
    values: xr.DataArray, dims: Sequence[str], names: Sequence[str], interval: Interval,
    units: str | Iterable[str] | None, incomplete: str, missing: str, runs: xr.DataArray | None,
) -> xr.Dataset:  # fmt: skip
    """`summary` with checked names."""
    computed = {name: _kernel(name, interval) for name in names}
    intervals_of = {_interval_of(name, interval) for name in names} & {"mean", "std"}
    computed |= tail_kernels() if intervals_of else {}
    laid_out = layout(values, dims, units, runs)
    shares = _shares(values, names, interval)
    means = [name for name in names if "mean" in (name.removesuffix(ERROR), _interval_of(name, interval))]
    means += tail_kernels()

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        unlike = laid_out.units(samples, cells)
        pooled = dict.fromkeys(means, unlike)
        if laid_out.within > 1 and incomplete != OMIT:
            every: Array = laid_out.blocks(keep_first(samples, cells))
            planned = np.asarray(laid_out.blocks(mark_first(cells)).any(axis=-2))
            pooled = dict.fromkeys(means, unit_means(unlike, every, planned, incomplete))
            pooled |= dict.fromkeys(shares, every)
        found = [(shares.get(name) or each)(pooled.get(name, unlike)) for name, each in computed.items()]
        return [*found, *laid_out.counts(samples, cells)]

    outputs: dict[str, tuple[str, ...]] = {name: (BOUND,) if _interval_of(name, interval) else () for name in computed}
    outputs |= dict.fromkeys((*COUNTS, *RUNS), ())
    found = reduced(values, laid_out.dims, on_samples, outputs, runs=runs)
    found = found.assign({name: found[name].astype(np.int64) for name in (*COUNTS, *RUNS)})
    found = tell_missing_runs(values, found, runs, missing)
    _tell_undefined(found, interval)
    if intervals_of:
        least = interval.min_units if not shares else 0
        found = noted(found, FEW, least, std="std" in intervals_of)
    found = _labelled(found, values, dims, interval, pooled=laid_out.within > 1)
    for name in shares:
        found[name].attrs["long_name"] = re.sub(r"\(.*?\)", "(Wilson)", found[name].attrs["long_name"], count=1)
    return found


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


def _kernel(name: str, how: Interval) -> Kernel:
    """Kernel of a statistic, interval or standard error by name.  Raises ParameterError for one that is none."""
    of = _interval_of(name, how)
    if of:
        _check(of, name)
        # by the default method of that statistic: `how` may name one that is not of it, as order of a mean
        own = how if of == how.of else Interval(of, "", how.confidence, how.resamples, how.seed, how.min_units)
        return lambda units: intervals.interval(units, own)
    if name.endswith(ERROR):
        of = name.removesuffix(ERROR)
        _check(of, name)
        return lambda units: standard_error(units, of)
    _check(name, name)
    kernel = kernel_of(name)[0]
    # a number is one of all values; which of them belong together matters to intervals and errors alone
    return lambda units: kernel(units.reshape(*units.shape[:-2], units.shape[-2] * units.shape[-1]))


def _interval_of(name: str, how: Interval) -> str:
    """Return the statistic whose interval a name means, or "" if it means no interval."""
    return how.of if name == CI else name.removesuffix(INTERVAL) if name.endswith(INTERVAL) else ""


def _check(of: str, name: str) -> None:
    if of not in STATISTICS and probability_of(of) is None:
        wanted = ", ".join(STATISTICS)
        raise ParameterError(
            "statistic", f"one of {wanted}, a quantile in percent like q25, one of these with _ci or _se, or {CI}", name
        )


def _shares(values: xr.DataArray, names: Iterable[str], how: Interval) -> dict[str, Kernel]:
    """Return kernels for intervals of the mean of zeros and ones, a share; none for other values."""
    asked = [name for name in names if _interval_of(name, how) == "mean" and not how.method]
    if not asked or not _are_two_valued(values):
        return {}
    return dict.fromkeys(asked, lambda units: share_intervals(units, how.confidence))


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


def _tell_undefined(found: xr.Dataset, how: Interval) -> None:
    if CI not in found or how.method != "bca":
        return
    undefined = int((found[CI].isnull().any(BOUND) & (found["n_ok"] >= how.min_units)).sum())
    if undefined:
        warn(
            f"{undefined} of {found['n_ok'].size} samples have no bca interval of the {how.of}, which is NaN there; "
            'method="percentile" has one',
            UndefinedIntervalWarning,
        )


def _labelled(
    found: xr.Dataset, values: xr.DataArray, dims: Sequence[str], how: Interval, *, pooled: bool
) -> xr.Dataset:
    """Return the numbers with the remaining coordinates, units and long names."""
    units, of = str(values.attrs.get("units", "1")), str(values.attrs.get("long_name", values.name))
    over = ", ".join(dims)
    for name in map(str, found.data_vars):
        plain = name in (*COUNTS, *NOTED, NOTE)
        found[name].attrs = {
            "long_name": f"{_words(name, how, pooled)} over {over} of {of}",
            "units": "1" if plain else units,
        }
        if name.endswith((CI, ERROR)) or name == "std":
            found[name].attrs["comment"] = TWO_NEEDED
    bounds = {BOUND: ["lower", "upper"]} if BOUND in found.dims else {}
    return found.assign_coords(kept_coordinates(values, dims) | bounds)


def _words(name: str, how: Interval, pooled: bool) -> str:
    special = {
        "n_ok": "number of units without a missing run",
        "n_planned": "number of units planned",
        NOTE: "doubts about the interval of the mean, or of the standard deviation",
        **NOTED,
    }
    of = _interval_of(name, how)
    if of:
        method = how.chosen if of == how.of else Interval(of).chosen
        method = "percentile" if pooled and method == "bonett" else method  # units of several values
        return f"{100.0 * how.confidence:g}% confidence interval ({_METHODS[method]}) of the {kernel_of(of)[1]}"
    if name.endswith(ERROR):
        return f"standard error of the {kernel_of(name.removesuffix(ERROR))[1]}"
    return special[name] if name in special else kernel_of(name)[1]


def kept_coordinates(values: xr.DataArray, dims: Iterable[str]) -> dict[Hashable, xr.DataArray]:
    """The coordinates of `values` that are not over the dimensions `dims`, read from the file where they are in one."""
    return {name: coord.compute() for name, coord in values.coords.items() if not set(coord.dims) & set(dims)}
