"""Sensitivity of a number to the parameters of a sample: Sobol indices and elementary effects, labelled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.blocks import (
    BOUND,
    COUNTS,
    RUNS,
    IncompleteWarning,
    check_policy,
    dimensions,
    reduced,
    tell_missing_runs,
)
from evogt_study.analysis.distinct import Numbers, planned_runs
from evogt_study.analysis.notes import NOTE
from evogt_study.analysis.sensitivity.estimators import OTHER, OUTPUTS, PARAMETER, choose_estimator
from evogt_study.analysis.sensitivity.sampled import Sampled, design_of, sample_dimensions, sampled
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.analysis.units import DRAWN
from evogt_study.errors import InputError, warn
from evogt_study.inference import sensitivity as failures
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, logarithms, without_infinite
from evogt_study.inference.polynomial_chaos import FEWEST_POINTS
from evogt_study.schema.variables import Status

CORNER = ("failure_p", "failure_range")
INFINITE = "infinite"
FAILURE = "failure"
"""Name of what is taken of the status of runs: 1 where a run is not ok, 0 where it is."""


class CornerWarning(IncompleteWarning):
    """Failures depend on the parameters: indices are of the part of the sample in which runs succeed."""


def sensitivity(
    values: xr.DataArray,
    over: str | Iterable[str] | None = None,
    *,
    method: str = "",
    parameters: Sequence[str] | None = None,
    log: bool = False,
    interval: Interval = Interval(),
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Sobol indices of values over a sample's dimension, or elementary effects of Morris' trajectories.

    over: dimensions of the sample, and `seed` where it is to be pooled (None: the dimension along which several
    parameters vary, and seed).  Several dimensions are taken as their product; an axis is its own parameter.
    parameters: some of those along `over`.  log: of log(values).  The `status` of runs is taken as 1 where a run is not
    ok, else 0: the parameters that explain failure.

    method: saltelli, morris or polynomial_chaos; "" is what the points are: Saltelli's blocks, Morris' trajectories, or
    any others.  Formulas and sources: `evogt_study.inference.sensitivity`, docs/statistics.md.

    Returns a Dataset over `parameter` and the dimensions that are left, such as time: first_order and total_order of
    E[values | parameters], second_order (parameter, other) of blocks that have it, seed_share, all in parts of the
    whole variance and with intervals _ci (bound), and `unexplained`; or mu, mu_star, mu_star_ci, sigma.  With them
    n_ok of n_planned blocks, trajectories or points: those with a missing run are left out.  `note` says on which
    parameters failures depend, by failure_p and failure_range; then there is a CornerWarning too.  Of infinite
    values there are no indices: NaN, with a note.

    interval: its confidence, and number and seed of resamples.  missing, planned: as of `summary`.

    Raises InputError for unknown dimensions or parameters, and for points that are not of the method; ParameterError
    for an unknown method or policy.
    """
    values = _as_numbers(values, log)
    over = dimensions(values, _default_over(values) if over is None else over)
    check_policy(missing)
    sample = sampled(values, over, parameters)
    name, estimator = choose_estimator(method, sample)
    runs = planned_runs(values, planned)
    shape = (-1, len(sample.points), values.sizes[DRAWN] if sample.seeds else 1)
    members = estimator.members(sample)

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        rows, there = samples.reshape(shape), (cells >= 0).reshape(shape)
        found, n_ok = estimator.compute(without_infinite(rows), sample, interval)
        units = there.any(axis=2).reshape(len(rows), -1, members).any(axis=2).sum(axis=1)
        known, infinite = ((each(rows) & there).sum(axis=(1, 2)) for each in (lambda a: ~np.isnan(a), np.isinf))
        counts = [each.astype(float) for each in (n_ok, units, known, there.sum(axis=(1, 2)), infinite)]
        lead = samples.shape[:-1]
        every = (*found, *_corners(rows, there, sample), *counts)
        return [each.reshape((*lead, *each.shape[1:])) for each in every]

    outputs = {each: OUTPUTS[each][0] for each in estimator.outputs(sample)}
    outputs |= {CORNER[0]: (PARAMETER,), CORNER[1]: (PARAMETER, BOUND), **dict.fromkeys((*COUNTS, *RUNS, INFINITE), ())}
    sizes = {PARAMETER: len(sample.names), OTHER: len(sample.names)}
    pooled = [*sample.dims, *([DRAWN] if sample.seeds else [])]
    found = reduced(values, pooled, on_samples, outputs, runs=runs, sizes=sizes)
    found = found.assign({each: found[each].astype(np.int64) for each in (*COUNTS, *RUNS)})
    found = _noted(tell_missing_runs(values, found, runs, missing), sample, missing)
    return _labelled(found, values, sample, pooled, name)


# a report draws what is not known too: whoever asks for the numbers is told why there are none
def known(found: xr.Dataset, values: xr.DataArray) -> xr.Dataset:
    """The `sensitivity` of values.  Raises InputError where it has no index, of axes or values that do not vary."""
    if found["first_order" if "first_order" in found else "mu"].notnull().any():
        return found
    dims = [dim for dim in found.attrs["over"].split(", ") if dim != DRAWN]
    points = math.prod(values.sizes[dim] for dim in dims)
    if points < FEWEST_POINTS and not any(design_of(values, dim) for dim in dims):
        raise InputError(
            f"`over` must name a sample of at least {FEWEST_POINTS} points, {', '.join(dims)} has {points}; axes of a "
            "few values have no sampled parameters"
        )
    numbers = _as_numbers(values, log=False)
    low, high = float(numbers.min()), float(numbers.max())
    if low == high and np.isfinite(low):
        raise InputError(f"`{numbers.name}` must vary to depend on parameters, all its values are {low:g}")
    return found


def _as_numbers(values: xr.DataArray, log: bool) -> xr.DataArray:
    """The values, of which the status is 1 where a run is not ok, NaN where it was not run; or their logarithms."""
    if isinstance(values, xr.DataArray) and values.name == "status" and "flag_values" in values.attrs:
        failed = (values != Status.ok).where(values != Status.not_run)
        values = failed.rename(FAILURE).assign_attrs(long_name="failure of the run", units="1")
    if log and isinstance(values, xr.DataArray):
        named = values.attrs | {"long_name": f"log of {values.attrs.get('long_name', values.name)}", "units": "1"}
        values = xr.apply_ufunc(lambda each: logarithms(each.astype(float)), values, dask="allowed").assign_attrs(named)
    return values


def _default_over(values: xr.DataArray) -> list[str]:
    """The sample's dimension, and seed.  Raises InputError where there is none, or no DataArray."""
    if not isinstance(values, xr.DataArray):
        raise InputError(f"`values` must be a DataArray, got a {type(values).__name__}; use e.g. ds.error")
    found = sample_dimensions(values)[:1]
    if not found:
        dims = ", ".join(map(str, values.dims)) or "none"
        raise InputError(f"`over` must be given where no dimension is of a sample ({dims}); use e.g. over={dims!r}")
    return [*found, *([DRAWN] if DRAWN in values.dims else [])]


def _corners(rows: Array, there: npt.NDArray[np.bool_], sample: Sampled) -> list[Array]:
    """p (L, D) and range (L, D, 2) of parameters on which it depends whether runs have a value; NaN of the others."""
    p = np.full((len(rows), len(sample.names)), np.nan)
    ends = np.full((*p.shape, 2), np.nan)
    lost = (there & np.isnan(rows)).sum(axis=2)
    masks = np.stack([2 * lost > there.sum(axis=2), there.any(axis=2)], axis=1)  # points that most seeds fail at
    kinds, kind = np.unique(masks, axis=0, return_inverse=True)  # mostly one: a run fails at all times, or at none
    for number, (lacking, planned) in enumerate(kinds):
        same = np.ravel(kind) == number
        for corner in failures.corners(lacking[planned], sample.points[planned]):
            p[same, corner.parameter], ends[same, corner.parameter] = corner.p, (corner.lower, corner.upper)
    return [p, ends]


def _noted(found: xr.Dataset, sample: Sampled, missing: str) -> xr.Dataset:
    """The numbers with notes on failures in a corner, and a warning of the first of these."""
    p = found[CORNER[0]].transpose(..., PARAMETER)
    ends = found[CORNER[1]].transpose(..., PARAMETER, BOUND).values
    notes = np.full(p.shape[:-1], "", dtype=object)
    for place in np.ndindex(*notes.shape):
        notes[place] = _note(p.values[place], ends[place], sample)
    told = [note for note in notes.ravel().tolist() if note]
    endless = found[INFINITE].transpose(*p.dims[:-1]).values > 0
    notes[endless] = [f"infinite values; {note}".removesuffix("; ") for note in notes[endless]]
    if told and missing != "drop":
        text = f"{told[0]}; indices are of the part of the sample where runs have a value"
        warn(text, CornerWarning)
    return found.drop_vars(INFINITE).assign({NOTE: (p.dims[:-1], notes)})


def _note(p: Array, ends: Array, sample: Sampled) -> str:
    """Description of the corner in which runs fail, by p (D,) and ranges (D, 2); empty where there is none."""
    which = [int(i) for i in np.argsort(p, kind="stable") if np.isfinite(p[i])]
    words = [[sample.told(i, end) for end in ends[i]] for i in which]
    ranges = [
        f"{sample.names[i]} {low}" if low == high else f"{sample.names[i]} mostly from {low} to {high}"
        for i, (low, high) in zip(which, words, strict=True)
    ]
    return f"failures in a corner: {', '.join(ranges)} (p = {np.nanmin(p):.1g})" if ranges else ""


def _labelled(
    found: xr.Dataset, values: xr.DataArray, sample: Sampled, pooled: Sequence[str], method: str
) -> xr.Dataset:
    """The numbers with coordinates, and names that say what they are."""
    of, units = str(values.attrs.get("long_name", values.name)), str(values.attrs.get("units", "1"))
    words = {name: text for name, (_, text) in OUTPUTS.items()} | {
        CORNER[0]: "p of failures that do not depend on the parameter, where they do",
        CORNER[1]: "values of the parameter where runs fail, where failures depend on it",
        COUNTS[0]: "number of units that have all runs they need", COUNTS[1]: "number of units planned",
        NOTE: "doubts about the indices",
    }  # fmt: skip
    for name in map(str, found.data_vars):
        own = units if name in ("mu", "mu_star", "mu_star_ci", "sigma") else "1"
        found[name].attrs = {"long_name": f"{words[name]} of {of}", "units": own}
    names = list(sample.names)
    labels = {PARAMETER: names, BOUND: ["lower", "upper"]} | ({OTHER: names} if OTHER in found.dims else {})
    known = kept_coordinates(values, pooled)
    found = found.assign_coords({name: coord for name, coord in known.items() if name not in labels} | labels)
    return found.assign_attrs(method=method, over=", ".join(pooled))
