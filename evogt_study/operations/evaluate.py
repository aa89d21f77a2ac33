"""The solution of one run at any points, from what `solve` returned or from a file of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.baselines.stored_solution import StoredSolution
from evogt_study.errors import InputError, ResultError, shortened
from evogt_study.formulas import SPACE
from evogt_study.pde.domains import Domain
from evogt_study.pde.numerics.arrays import Array
from evogt_study.storage.hdf5 import HDF5_LOCK

COEFFICIENTS = "feature_coefficients"


def evaluate(data: xr.Dataset | str | Path, points: Any) -> xr.DataArray:
    """The solution at `points`, (P, d), or (P,) in 1-D, at the saved times: dimensions time and point.

    data: what `evogt_study.solve` returned, or a NetCDF file of it.  Raises ResultError for another Dataset, and
    InputError for points that are not in the domain.
    """
    solution = stored_solution(data)
    nodes = _nodes(points, solution.domain)
    coordinates = {name: ("point", nodes[:, axis]) for axis, name in enumerate(SPACE[: solution.domain.dimension])}
    return xr.DataArray(
        solution.evaluate(nodes), {"time": ("time", solution.times), **coordinates}, ("time", "point"), "u"
    )


def stored_solution(data: xr.Dataset | str | Path) -> StoredSolution:
    """The solution that a Dataset of `solve`, or a file of it, holds.  Raises ResultError where it holds none."""
    if not isinstance(data, xr.Dataset):
        try:
            with HDF5_LOCK, xr.open_dataset(data, engine="netcdf4") as opened:
                return stored_solution(opened.load())
        except (OSError, ValueError) as error:
            raise ResultError(f"cannot read {str(data)!a}: {shortened(str(error))}") from None
    if COEFFICIENTS not in data or "domain" not in data.attrs:
        raise ResultError(f"`data` must be what `solve` returns, with {COEFFICIENTS}, got a Dataset without it")
    return StoredSolution(
        np.asarray(data["time"].values, dtype=float), np.asarray(data[COEFFICIENTS].values), dict(data.attrs)
    )


def _nodes(points: Any, domain: Domain) -> Array:
    try:
        nodes = np.asarray(points, dtype=float)
        if nodes.ndim < 2:
            nodes = nodes.reshape((-1, 1) if domain.dimension == 1 else (1, -1))
    except (TypeError, ValueError):
        nodes = np.empty((0, 0))
    if nodes.ndim != 2 or nodes.shape[1] != domain.dimension or not np.isfinite(nodes).all():
        raise InputError(f"`points` must be numbers of shape (points, {domain.dimension}), got {shortened(points)}")
    lower, upper = (np.array([along[end] for along in domain.axes(2)]) for end in (0, -1))
    within = np.all((nodes >= lower) & (nodes <= upper), axis=1) & domain.contains(nodes)
    if not within.all():
        raise InputError(f"`points` must lie in the domain, got {nodes[~within][0].tolist()}")
    return nodes
