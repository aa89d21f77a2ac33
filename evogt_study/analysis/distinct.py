"""Distinct runs: cells of a result with equal case keys are one run, which counts once and enters a statistic once.

Cells are equal where a parameter that varies does not matter to the run, as N1 to the dictionary transnet.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from evogt_study.storage.arrays import slabs

KEYS = "case_key"
Numbers = npt.NDArray[np.int64]


def run_numbers(planned: xr.DataArray) -> Numbers:
    """Number of the run in each cell, -1 where none is planned; equal numbers where case keys are equal.

    planned: case keys, "" where no run is planned; or truth values, by which each planned cell is a run of its own.
    Keys are read slab by slab, of which 64 bits of a hash are kept: two of a million runs collide in 3e-8 of all cases.
    """
    if planned.dtype.kind == "b":
        return np.where(planned.values, np.arange(planned.size).reshape(planned.shape), -1)
    hashes, there = np.zeros(planned.shape, dtype=np.uint64), np.zeros(planned.shape, dtype=bool)
    for slab in slabs(planned.shape):
        keys = np.asarray(planned.variable[slab].values, dtype=object)
        hashes[slab] = pd.util.hash_array(keys.ravel(), categorize=False).reshape(keys.shape)
        there[slab] = keys != ""
    # a mask copies: the sort in place leaves `hashes` in the order of the cells
    numbers = np.arange(planned.size) if _all_differ(hashes[there]) else pd.factorize(hashes.ravel())[0]
    numbers = numbers.reshape(planned.shape)
    numbers[~there] = -1
    return numbers


def _all_differ(hashes: npt.NDArray[np.uint64]) -> bool:
    """Test that no two are equal, as in most studies: a sort needs a third of the memory of a table of all of them."""
    hashes.sort()
    return bool((hashes[1:] != hashes[:-1]).all())


def planned_runs(values: xr.DataArray, planned: xr.DataArray | None) -> xr.DataArray | None:
    """`run_numbers` of `planned`, or else of the case keys that the values carry; None without either."""
    if planned is None:
        planned = values.coords.get(KEYS)
    return None if planned is None else xr.DataArray(run_numbers(planned), dims=planned.dims)


def count_runs(numbers: Numbers) -> int:
    """Number of distinct runs."""
    return int(np.unique(numbers[numbers >= 0]).size)


def mark_first(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """The first cell of each run along the last axis, (..., n) -> (..., n); no cell without a run."""
    if (numbers[..., 1:] > numbers[..., :-1]).all():  # as of runs that all differ: no sort
        return numbers >= 0
    order = np.argsort(numbers, axis=-1, kind="stable")  # stable: the first of equal ones stays the first
    ordered = np.take_along_axis(numbers, order, axis=-1)
    new = ordered >= 0
    new[..., 1:] &= ordered[..., 1:] != ordered[..., :-1]
    found = np.empty_like(new)
    np.put_along_axis(found, order, new, axis=-1)
    return found


def keep_first(samples: npt.NDArray[np.float64], numbers: Numbers) -> npt.NDArray[np.float64]:
    """The samples (..., n) with each run's first value, and NaN for its others and where there is no run."""
    return np.where(mark_first(np.where(np.isnan(samples), -1, numbers)), samples, np.nan)


def join_numbers(numbers: Numbers) -> Numbers:
    """Numbers (..., n) of the distinct columns of (..., k, n); -1 where a cell of the column has no run."""
    found = numbers[..., 0, :]
    for each in range(1, numbers.shape[-2]):
        other = numbers[..., each, :]
        joined = found * (other.max(initial=0) + 1) + other  # may be another column's by a -1, which is masked below
        found = np.unique(joined, return_inverse=True)[1].reshape(joined.shape)  # small again, in the same order
    return np.where((numbers < 0).any(axis=-2), -1, found)


def mark_first_cells(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """The first cell of each run along all axes."""
    return mark_first(numbers.reshape(1, -1)).reshape(numbers.shape)
