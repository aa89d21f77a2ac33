"""Statistics over labelled dimensions.  Every number carries how many runs it rests on, and how many were planned."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import InputError

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 999
BOOTSTRAP_SEED = 0


class IncompleteWarning(UserWarning):
    """A statistic leaves out runs that were planned: they failed, diverged or were not run."""


def summary(values: xr.DataArray, over: str | Iterable[str] = "seed") -> xr.Dataset:
    """Mean, sample standard deviation, median and a confidence interval of the mean over dimensions `over`.

    Returns a Dataset with, over the other dimensions: mean; std (divisor n - 1, NaN for one run); median; ci, with
    dimension `bound` (lower, upper): the 95 % percentile bootstrap interval of the mean (999 resamples, seed 0); n_ok,
    the runs the numbers rest on; n_planned, the runs there should be.  A run counts as ok where its value is finite.

    Where runs are missing the numbers are over the others, n_ok < n_planned says so, and an IncompleteWarning is given.

    Raises InputError for a dimension that `values` does not have.
    """
    dims = [over] if isinstance(over, str) else list(dict.fromkeys(over))
    unknown = [dim for dim in dims if dim not in values.dims]
    if unknown or not dims:
        raise InputError(
            f"`over` must name dimensions of {values.name or 'the values'} ({', '.join(map(str, values.dims))}), "
            f"got {', '.join(unknown) or 'none'}"
        )
    if values.dtype.kind not in "iufb":
        raise InputError(f"`{values.name}` must hold numbers, got {values.dtype}")
    flat = values.transpose(..., *dims)
    kept = flat.dims[: flat.ndim - len(dims)]
    shape = flat.shape[: len(kept)]
    samples = flat.values.reshape(*shape, math.prod(flat.shape[len(kept) :])).astype(float)
    result = _statistics(samples)
    missing = int((result["n_planned"] - result["n_ok"]).sum())
    if missing:
        warnings.warn(
            f"{missing} of {samples.size} runs have no finite `{values.name}`; they are left out, see n_ok",
            IncompleteWarning,
            stacklevel=2,
        )
    return _labelled(result, values, kept, dims)


def _statistics(samples: Array) -> dict[str, npt.NDArray[Any]]:
    """Statistics over the last axis, (..., n) -> (...); ci is (..., 2)."""
    ok = np.isfinite(samples)
    n = ok.sum(axis=-1)
    known = np.where(ok, samples, 0.0)
    # a power of two brings the values near one without rounding, so that squares of very large ones do not overflow
    scale = np.exp2(np.frexp(np.abs(known).max(axis=-1, initial=0.0))[1] - 1.0)
    scaled = known / scale[..., None]
    mean = np.divide(scaled.sum(axis=-1), n, out=np.full(n.shape, np.nan), where=n > 0)
    squares = (np.where(ok, scaled - mean[..., None], 0.0) ** 2).sum(axis=-1)
    std = np.sqrt(np.divide(squares, n - 1, out=np.full(n.shape, np.nan), where=n > 1))
    return {
        "mean": mean * scale,
        "std": std * scale,
        "median": _median(samples, ok, n),
        "ci": bootstrap_interval(samples),
        "n_ok": n.astype(np.int64),
        "n_planned": np.full(n.shape, samples.shape[-1], dtype=np.int64),
    }


def _median(samples: Array, ok: npt.NDArray[np.bool_], n: npt.NDArray[np.integer]) -> Array:
    """Middle of the finite values; sorting puts the others, as infinities, behind them."""
    if not samples.shape[-1]:
        return np.full(n.shape, np.nan)
    ordered = np.sort(np.where(ok, samples, np.inf), axis=-1)
    low = np.take_along_axis(ordered, np.maximum((n - 1) // 2, 0)[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(ordered, np.minimum(n // 2, samples.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    return np.where(n > 0, 0.5 * low + 0.5 * high, np.nan)


def bootstrap_interval(samples: Array, confidence: float = CONFIDENCE) -> Array:
    """Percentile bootstrap interval of the mean over the last axis, (..., n) -> (..., 2); NaN below two values.

    All complete rows share one set of resamples, so that they cost one matrix product.  A row with missing values is
    resampled from its own finite ones.
    """
    rows = samples.reshape(math.prod(samples.shape[:-1]), samples.shape[-1])
    interval = np.full((len(rows), 2), np.nan)
    complete = np.isfinite(rows).all(axis=-1)
    tails = [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0]
    if rows.shape[1] > 1 and complete.any():
        means = rows[complete] @ _resampling_weights(rows.shape[1]).T
        interval[complete] = np.quantile(means, tails, axis=-1).T
    for number in np.flatnonzero(~complete):
        row = rows[number][np.isfinite(rows[number])]
        if len(row) > 1:
            interval[number] = np.quantile(row @ _resampling_weights(len(row)).T, tails)
    return interval.reshape(*samples.shape[:-1], 2)


@lru_cache(maxsize=32)  # the same for every sample of this size
def _resampling_weights(count: int) -> Array:
    """Weights (RESAMPLES, count) whose product with a sample gives the means of its bootstrap resamples."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    weights = rng.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES) / count
    weights.flags.writeable = False
    return weights


def _labelled(
    result: dict[str, npt.NDArray[Any]], values: xr.DataArray, kept: tuple[object, ...], dims: list[str]
) -> xr.Dataset:
    units, of = str(values.attrs.get("units", "1")), str(values.attrs.get("long_name", values.name))
    over = ", ".join(dims)
    words = {
        "mean": ("mean", units), "median": ("median", units),
        "std": ("sample standard deviation (divisor n - 1)", units),
        "ci": (f"{CONFIDENCE:.0%} bootstrap confidence interval of the mean", units),
        "n_ok": ("number of runs with a finite value", "1"), "n_planned": ("number of runs planned", "1"),
    }  # fmt: skip
    coords = {name: coord for name, coord in values.coords.items() if not set(coord.dims) & set(dims)}
    data = {
        name: ((*kept, "bound") if name == "ci" else kept, result[name],
               {"long_name": f"{text} over {over} of {of}", "units": unit})
        for name, (text, unit) in words.items()
    }  # fmt: skip
    return xr.Dataset(data, {**coords, "bound": ["lower", "upper"]})
