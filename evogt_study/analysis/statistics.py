"""Statistics over labelled dimensions.  Every number carries how many runs it rests on, and how many were planned."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import xarray as xr

from evogt_study.analysis import distinct
from evogt_study.analysis.blocks import (
    BOUND,
    IncompleteWarning,
    check_policy,
    dimensions,
    places_in,
    reduced,
    tell_missing_runs,
)
from evogt_study.analysis.distinct import Numbers, planned_runs
from evogt_study.errors import ParameterError
from evogt_study.inference import intervals, kernels
from evogt_study.inference.intervals import CONFIDENCE, RESAMPLES, Bootstrap, bootstrap_interval
from evogt_study.inference.kernels import Array, Kernel

__all__ = [
    "CONFIDENCE",
    "RESAMPLES",
    "STATISTICS",
    "Bootstrap",
    "IncompleteWarning",
    "UndefinedIntervalWarning",
    "bootstrap_interval",
    "kernel_of",
    "summary",
]

STATISTICS: Mapping[str, tuple[Kernel, str]] = {
    "mean": (kernels.mean, "mean"),
    "std": (kernels.std, "sample standard deviation (divisor n - 1)"),
    "median": (kernels.median, "median"),
    "geometric_mean": (kernels.geometric_mean, "geometric mean"),
    "min": (kernels.minimum, "minimum"),
    "max": (kernels.maximum, "maximum"),
}
"""Statistics by name: what computes them, and their words.  Beside them: ci, and quantiles as q25, q97.5."""
CI = "ci"
DEFAULT = ("mean", "std", "median", CI)
TWO_NEEDED = "NaN below two runs"
_QUANTILE = re.compile(r"q(\d{1,3}(?:\.\d+)?)")


class UndefinedIntervalWarning(UserWarning):
    """A bca interval is not defined for some samples, and NaN."""


def summary(
    values: xr.DataArray,
    over: str | Iterable[str] = "seed",
    *,
    statistics: Iterable[str] = DEFAULT,
    interval: Bootstrap = Bootstrap(),
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Statistics over dimensions `over`: mean, sample standard deviation, median, interval of the mean, as a default.

    statistics: of mean; std (divisor n - 1, NaN for one run); median; geometric_mean (NaN where a value is negative);
    min; max; quantiles in percent, as q25 (linear between sorted values); and ci, with dimension `bound` (lower,
    upper): the bootstrap confidence interval that `interval` describes, without arguments the 95 % percentile interval
    of the mean from 999 resamples of seed 0.  It is the value itself where all are equal, and NaN for one run.

    Returns a Dataset of these over the other dimensions, with n_ok, the runs the numbers rest on, and n_planned, the
    runs there should be.  A run counts as ok where it has a finite value.

    planned: case keys of the runs, which are "" where there should be none (those that the values carry, as those of
    `evs.open` and `evs.run` do).  Values of equal keys are of one run, which enters once and counts once.  Truth values
    say where a run should be.  Without either all values are of different runs.

    missing: where runs are, the numbers are over the others and n_ok < n_planned says so; "warn" gives an
    IncompleteWarning, "drop" does not, "raise" raises IncompleteError.

    Values in a file, or held by dask, are read block by block of the other dimensions and never as a whole.

    Raises InputError for a dimension that `values` does not have, ParameterError for an unknown statistic or policy.
    """
    dims, names = dimensions(values, over), list(dict.fromkeys(statistics))
    check_policy(missing)
    computed = {name: _ci(interval) if name == CI else kernel_of(name)[0] for name in names}
    outputs: dict[str, tuple[str, ...]] = {name: (BOUND,) if name == CI else () for name in names}

    runs = planned_runs(values, planned)
    places = places_in(values, dims, runs)

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        unlike = distinct.once(samples, cells)
        counts = [kernels.count(distinct.once(samples, cells // places)), distinct.firsts(cells // places).sum(axis=-1)]
        return [*(each(unlike) for each in computed.values()), *(each.astype(float) for each in counts)]

    found = reduced(values, dims, on_samples, {**outputs, "n_ok": (), "n_planned": ()}, runs=runs)
    found = found.assign({name: found[name].astype(np.int64) for name in ("n_ok", "n_planned")})
    tell_missing_runs(values, found, runs, missing)
    _tell_undefined(found, interval)
    return _labelled(found, values, dims, interval)


def kernel_of(name: str) -> tuple[Kernel, str]:
    """What computes a statistic, and its words.  Raises ParameterError for a name that is none."""
    if name in STATISTICS:
        return STATISTICS[name]
    percent = _QUANTILE.fullmatch(name)
    if percent is None or float(percent[1]) > 100.0:
        wanted = ", ".join(STATISTICS)
        raise ParameterError("statistic", f"one of {wanted}, {CI}, or a quantile in percent like q25", name)
    return partial(kernels.quantile, probability=float(percent[1]) / 100.0), f"{percent[1]} % quantile"


def _ci(how: Bootstrap) -> Kernel:
    of = kernel_of(how.of)[0]

    def limits(samples: Array) -> Array:
        return intervals.interval(samples, of, how)

    return limits


def _tell_undefined(found: xr.Dataset, how: Bootstrap) -> None:
    if CI not in found or how.method != "bca":
        return
    undefined = int((found[CI].isnull().any(BOUND) & (found["n_ok"] > 1)).sum())
    if undefined:
        warnings.warn(
            f"{undefined} of {found['n_ok'].size} samples have no bca interval of the {how.of}, which is NaN there; "
            'method="percentile" has one',
            UndefinedIntervalWarning,
            stacklevel=3,
        )


def _labelled(found: xr.Dataset, values: xr.DataArray, dims: Sequence[str], how: Bootstrap) -> xr.Dataset:
    """The numbers with the coordinates of what is left, units, and names that say what they are."""
    units, of = str(values.attrs.get("units", "1")), str(values.attrs.get("long_name", values.name))
    over = ", ".join(dims)
    special = {
        CI: f"{100.0 * how.confidence:g}% {_method(how)} confidence interval of the {kernel_of(how.of)[1]}",
        "n_ok": "number of runs with a finite value",
        "n_planned": "number of runs planned",
    }
    for name in map(str, found.data_vars):
        words = special[name] if name in special else kernel_of(name)[1]
        counted = name in ("n_ok", "n_planned")
        found[name].attrs = {"long_name": f"{words} over {over} of {of}", "units": "1" if counted else units}
        if name in (CI, "std"):
            found[name].attrs["comment"] = TWO_NEEDED
    return found.assign_coords(kept_coordinates(values, dims) | ({BOUND: ["lower", "upper"]} if CI in found else {}))


def _method(how: Bootstrap) -> str:
    return "bootstrap" if how.method == "percentile" else f"bootstrap ({how.method})"


def kept_coordinates(values: xr.DataArray, dims: Iterable[str]) -> dict[Hashable, xr.DataArray]:
    """The coordinates of `values` that are not over the dimensions `dims`, read from the file where they are in one."""
    return {name: coord.compute() for name, coord in values.coords.items() if not set(coord.dims) & set(dims)}
