"""Tails of large sweeps, and shares of parameters and seeds in the variance of a number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from evogt_study.analysis.blocks import BOUND, COUNTS, RUNS, check_policy, dimensions, reduced, tell_missing_runs
from evogt_study.analysis.distinct import Numbers, planned_runs
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.analysis.units import layout
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference import tails, variance_shares
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array

SOURCE = "source"


def return_level(
    values: xr.DataArray,
    period: float = 1000.0,
    over: str | Iterable[str] = "seed",
    *,
    interval: Interval = Interval(),
    units: str | Iterable[str] | None = None,
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """The level that one unit in `period` is above: "one seed in a thousand is worse than this".

    A unit's value is its largest over the other pooled points.  Returns a Dataset over the other dimensions:
    return_level; return_level_ci (bound); extrapolated, whether order statistics do not bound it, and a generalised
    Pareto distribution of the largest tenth of the values was fitted; n_ok, n_planned.  NaN below 40 units.

    Raises InputError for an unknown dimension, ParameterError for a period of one or less.  Options: as for `summary`.
    """
    dims = dimensions(values, over)
    check_policy(missing)
    if not period > 1.0:
        raise ParameterError("period", "above 1", period, remedy="use e.g. 1000: one run in a thousand")
    runs = planned_runs(values, planned)
    laid_out = layout(values, dims, units, runs)

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        each = laid_out.units(samples, cells)
        largest = np.fmax.reduce(each, axis=-1, initial=np.nan)  # a maximum would take NaN along
        rows = largest.reshape(math.prod(largest.shape[:-1]), laid_out.count)
        levels = [tails.return_level(row, period, interval.confidence) for row in rows]
        lead = largest.shape[:-1]
        level, low, high, beyond = (np.array(each, dtype=float) for each in zip(*levels, strict=True))
        limits = np.stack([low, high], axis=-1).reshape(*lead, 2)
        return [level.reshape(lead), limits, beyond.reshape(lead), *laid_out.counts(samples, cells)]

    outputs = {
        "return_level": (),
        "return_level_ci": (BOUND,),
        "extrapolated": (),
        **dict.fromkeys((*COUNTS, *RUNS), ()),
    }
    found = reduced(values, laid_out.dims, on_samples, outputs, runs=runs)
    found = found.assign({name: found[name].astype(np.int64) for name in (*COUNTS, *RUNS)})
    found = tell_missing_runs(values, found, runs, missing)
    found["extrapolated"] = found["extrapolated"].astype(bool)
    found["return_level"].attrs = {"long_name": f"level that one in {period:g} is above, of {values.name}"}
    return found.assign_coords(kept_coordinates(values, dims) | {BOUND: ["lower", "upper"]})


def shares_of_variance(
    values: xr.DataArray,
    parameters: Sequence[str] | None = None,
    over: str = "seed",
    *,
    logarithms: bool = True,
    interval: Interval = Interval(),
) -> xr.Dataset:
    """Shares of parameters and seeds in the variance of the values: a nested analysis of variance.

    parameters: dimensions from the outermost in, each nested in those before it (all but `over`, in their order).  A
    share is that of the variance component of a dimension in the sum of all; the last source is `over`.  With
    `logarithms` the components are of log(values): of factors, not of differences.

    Returns a Dataset over the dimensions that are left: share, share_ci (source, bound), components (source), and
    n_ok, the units that have a value at every point, on which all rests, of n_planned.  Intervals take the parameters'
    values as they are and the units as a sample.  With infinite values there are no shares: NaN.

    Raises InputError for unknown dimensions, fewer than three such units, or values that have no logarithm.
    """
    dims = dimensions(values, [*(parameters or [d for d in map(str, values.dims) if d != over]), over])
    rest = [str(dim) for dim in values.dims if dim not in dims]
    table = values.transpose(*rest, *dims).astype(float)
    numbers = table.values
    if logarithms and (numbers <= 0.0).any():
        raise InputError(f"`{values.name}` must be positive to have logarithms, it is not; use logarithms=False")
    numbers = np.log(numbers) if logarithms else numbers
    shape = numbers.shape[: len(rest)]
    found = [
        np.full((*shape, len(dims)), np.nan),
        np.full((*shape, len(dims), 2), np.nan),
        np.full((*shape, len(dims)), np.nan),
    ]
    counts = np.zeros(shape, dtype=np.int64)
    for place in np.ndindex(*shape):
        there = ~np.isnan(numbers[place]).reshape(-1, numbers.shape[-1]).any(axis=0)
        counts[place] = there.sum()
        if counts[place] < 3:
            raise InputError(f"`over` must have at least three points with a value everywhere, got {counts[place]}")
        complete = numbers[place][..., there]
        if np.isinf(complete).any():
            continue
        found[0][place] = variance_shares.shares(complete)
        found[1][place] = variance_shares.share_intervals(complete, interval.confidence)
        found[2][place] = variance_shares.components(complete)
    data = xr.Dataset(
        {
            "share": ((*rest, SOURCE), found[0]), "share_ci": ((*rest, SOURCE, BOUND), found[1]),
            "component": ((*rest, SOURCE), found[2]), "n_ok": (rest, counts),
            "n_planned": (rest, np.full(shape, numbers.shape[-1])),
        },
        {SOURCE: dims, BOUND: ["lower", "upper"]},
    )  # fmt: skip
    return data.assign_coords(kept_coordinates(values, dims))
