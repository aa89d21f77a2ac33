"""Shares of parameters and seeds in the variance of a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from evogt_study.analysis.blocks import BOUND, dimensions
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.errors import InputError
from evogt_study.inference import sensitivity as variance_shares
from evogt_study.inference.intervals import Interval

SOURCE = "source"


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
