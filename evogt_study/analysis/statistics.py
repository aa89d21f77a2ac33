"""Compute statistics over named dimensions.  Each number comes with the planned units and the units without a gap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
import xarray as xr

from evogt_study.analysis.reduce import (
    BOUND,
    COUNTS,
    FEW,
    FEW_OF_STD,
    NOTE,
    NOTED,
    RUNS,
    IncompleteWarning,
    check_policy,
    dimensions,
    noted,
    reduced,
    tail_kernels,
    tell_missing_runs,
)
from evogt_study.analysis.runs import Numbers, each_once, layout, planned_runs
from evogt_study.errors import ParameterError, warn
from evogt_study.inference import intervals
from evogt_study.inference.comparisons import share_intervals
from evogt_study.inference.intervals import Interval, standard_error
from evogt_study.inference.kernels import STATISTICS, Array, kernel_of, probability_of
from evogt_study.schema.variables import TRUTH_MEANINGS

__all__ = ["DEFAULT", "IncompleteWarning", "Interval", "UndefinedIntervalWarning", "summary"]
CI, INTERVAL, ERROR = "ci", "_ci", "_se"
DEFAULT = ("mean", "std", CI, "median", "median_ci")
TWO_NEEDED = "NaN below two units"
Kernel = Callable[[Array], Array]
"""From samples of units, (..., n, k), to a number each, (...), or an interval, (..., 2)."""
_METHODS = {
    "bootstrap-t": "bootstrap-t",
    "student": "Student",
    "order": "order statistics",
    "percentile": "percentile bootstrap",
    "bca": "bca bootstrap",
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

    missing: where runs are, the numbers are over the units without any and n_ok < n_planned says so; "warn" gives an
    IncompleteWarning, "drop" does not, "raise" raises IncompleteError.

    Values in a file, or held by dask, are read block by block of the other dimensions and never as a whole.

    Raises InputError for a dimension that `values` does not have, ParameterError for an unknown statistic or policy.
    """
    dims, names = dimensions(values, over), each_once(statistics)
    check_policy(missing)
    computed = {name: _kernel(name, interval) for name in names}
    intervals_of = {_interval_of(name, interval) for name in names} & {"mean", "std"}
    computed |= tail_kernels() if intervals_of else {}
    runs = planned_runs(values, planned)
    laid_out = layout(values, dims, units, runs)
    shares = _shares(values, names, interval) if laid_out.within == 1 else {}
    computed |= shares

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        unlike = laid_out.units(samples, cells)
        return [*(each(unlike) for each in computed.values()), *laid_out.counts(samples, cells)]

    outputs: dict[str, tuple[str, ...]] = {name: (BOUND,) if _interval_of(name, interval) else () for name in computed}
    outputs |= dict.fromkeys((*COUNTS, *RUNS), ())
    found = reduced(values, laid_out.dims, on_samples, outputs, runs=runs)
    found = found.assign({name: found[name].astype(np.int64) for name in (*COUNTS, *RUNS)})
    found = tell_missing_runs(values, found, runs, missing)
    _tell_undefined(found, interval)
    found = noted(found, FEW_OF_STD if "std" in intervals_of else FEW) if intervals_of else found
    found = _labelled(found, values, dims, interval)
    for name in shares:
        found[name].attrs["long_name"] = found[name].attrs["long_name"].replace("bootstrap-t", "Wilson")
    return found


def _kernel(name: str, how: Interval) -> Kernel:
    """Kernel of a statistic, interval or standard error by name.  Raises ParameterError for one that is none."""
    of = _interval_of(name, how)
    if of:
        _check(of, name)
        # by the default method of that statistic: `how` may name one that is not of it, as order of a mean
        own = how if of == how.of else Interval(of, "", how.confidence, how.resamples, how.seed, how.fewest)
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
    """Return kernels for intervals of the mean of booleans, a share between 0 and 1; none for other values."""
    if values.dtype.kind != "b" and values.attrs.get("flag_meanings") != TRUTH_MEANINGS:
        return {}
    asked = [name for name in names if _interval_of(name, how) == "mean" and not how.method]
    return dict.fromkeys(asked, lambda units: share_intervals(units[..., 0], how.confidence, how.fewest))


def _tell_undefined(found: xr.Dataset, how: Interval) -> None:
    if CI not in found or how.method != "bca":
        return
    undefined = int((found[CI].isnull().any(BOUND) & (found["n_ok"] >= how.fewest)).sum())
    if undefined:
        warn(
            f"{undefined} of {found['n_ok'].size} samples have no bca interval of the {how.of}, which is NaN there; "
            'method="percentile" has one',
            UndefinedIntervalWarning,
        )


def _labelled(found: xr.Dataset, values: xr.DataArray, dims: Sequence[str], how: Interval) -> xr.Dataset:
    """Return the numbers with the remaining coordinates, units and long names."""
    units, of = str(values.attrs.get("units", "1")), str(values.attrs.get("long_name", values.name))
    over = ", ".join(dims)
    for name in map(str, found.data_vars):
        plain = name in (*COUNTS, *NOTED, NOTE)
        found[name].attrs = {"long_name": f"{_words(name, how)} over {over} of {of}", "units": "1" if plain else units}
        if name.endswith((CI, ERROR)) or name == "std":
            found[name].attrs["comment"] = TWO_NEEDED
    bounds = {BOUND: ["lower", "upper"]} if BOUND in found.dims else {}
    return found.assign_coords(kept_coordinates(values, dims) | bounds)


def _words(name: str, how: Interval) -> str:
    special = {
        "n_ok": "number of units without a missing run",
        "n_planned": "number of units planned",
        NOTE: "doubts about the interval of the mean, or of the standard deviation",
        **NOTED,
    }
    of = _interval_of(name, how)
    if of:
        method = how.chosen if of == how.of else Interval(of).chosen
        return f"{100.0 * how.confidence:g}% confidence interval ({_METHODS[method]}) of the {kernel_of(of)[1]}"
    if name.endswith(ERROR):
        return f"standard error of the {kernel_of(name.removesuffix(ERROR))[1]}"
    return special[name] if name in special else kernel_of(name)[1]


def kept_coordinates(values: xr.DataArray, dims: Iterable[str]) -> dict[Hashable, xr.DataArray]:
    """The coordinates of `values` that are not over the dimensions `dims`, read from the file where they are in one."""
    return {name: coord.compute() for name, coord in values.coords.items() if not set(coord.dims) & set(dims)}
