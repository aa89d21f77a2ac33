"""Find the distinct runs of a result, their status, the sampling units and the names of coordinate values.

Cases with equal run keys share a run.  Each shared run counts once in every statistic.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from evogt_study.errors import Completeness, InputError, Lacking, Message, ParameterError, Status, shorten
from evogt_study.inference.kernels import Array, Bools
from evogt_study.schema.values import find_value, text_label, to_canonical
from evogt_study.schema.variables import status_codes
from evogt_study.storage.arrays import slabs
from evogt_study.study.case_space import join_names

KEYS = "run_key"
Numbers = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
DRAWN = "seed"  # the dimension whose points are sampling units by default, if it is pooled


def number_runs(planned: xr.DataArray) -> Numbers:
    """Return the run number of each case, which is equal for equal run keys and -1 without a planned run."""
    if planned.dtype.kind == "b":
        return np.where(planned.values, np.arange(planned.size).reshape(planned.shape), -1)
    # 64 bits of the hash of a key: two of a million runs have equal bits with probability 3e-8
    hashes, there = np.zeros(planned.shape, dtype=np.uint64), np.zeros(planned.shape, dtype=bool)
    for slab in slabs(planned.shape):
        keys = np.asarray(planned.variable[slab].values, dtype=object)
        hashes[slab] = pd.util.hash_array(keys.ravel(), categorize=False).reshape(keys.shape)
        there[slab] = keys.astype(bool)
    return np.where(there, pd.factorize(hashes.ravel())[0].reshape(planned.shape), -1)


def number_planned_runs(values: xr.DataArray, planned: xr.DataArray | None) -> xr.DataArray | None:
    """Return run numbers from `planned` or from the run keys of the values, or None without run keys."""
    keys = values.coords.get(KEYS) if planned is None else planned
    return None if keys is None else xr.DataArray(number_runs(keys), dims=keys.dims)


def find_finished_keys(data: xr.Dataset) -> xr.DataArray | None:
    """Return the run keys of finished planned runs, "" for other cases, or None for a Dataset without run keys."""
    keys = data.get(KEYS)
    if keys is None or "run_status" not in data:
        return keys
    return keys.copy(data=np.where(status_codes(data["run_status"]) == Status.not_run, "", keys.values))


def count_runs(numbers: Numbers) -> int:
    """Return the number of distinct runs."""
    return int(np.unique(numbers[numbers >= 0]).size)


def mark_first(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Mark the first case of each planned run along the last axis, (..., n) -> (..., n)."""
    if (numbers[..., 1:] > numbers[..., :-1]).all():  # all runs differ: no sort
        return numbers >= 0
    order = np.argsort(numbers, axis=-1, kind="stable")  # stable: the first of equal ones stays the first
    ordered = np.take_along_axis(numbers, order, axis=-1)
    new = ordered >= 0
    new[..., 1:] &= ordered[..., 1:] != ordered[..., :-1]
    found = np.empty_like(new)
    np.put_along_axis(found, order, new, axis=-1)
    return found


def mark_runs(
    values: xr.DataArray, over: Sequence[str], planned: xr.DataArray | None, *, paired: str = ""
) -> xr.DataArray | None:
    """Mark each planned run once in a sample over `over`, or return None if each value has its own run.

    Runs along the axis `paired` belong together, and count once if several points of `over` have equal runs.
    """
    numbers = number_planned_runs(values, planned)
    if numbers is None:
        return None
    dims = [dim for dim in over if dim in numbers.dims]
    rest = [dim for dim in map(str, numbers.dims) if dim not in (paired, *dims)]
    ordered = numbers.transpose(*rest, *([paired] if paired in numbers.dims else []), *dims)
    table = ordered.values.reshape(*ordered.shape[: ordered.ndim - len(dims)], -1)
    if paired not in numbers.dims:
        return ordered.copy(data=mark_first(table).reshape(ordered.shape))
    there = table >= 0
    pairs = np.moveaxis(np.where(there, table, -1), -2, -1)
    joint = np.unique(pairs.reshape(-1, pairs.shape[-1]), axis=0, return_inverse=True)[1].reshape(pairs.shape[:-1])
    return ordered.copy(data=(mark_first(joint)[..., None, :] & there).reshape(ordered.shape))


@dataclass(frozen=True)
class Layout:
    """The pooled dimensions, with `count` units of `within` values, `places` values of a run and the name of a unit."""

    dims: tuple[str, ...]
    count: int
    within: int
    places: int
    unit: str

    def blocks(self, samples: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Return samples (..., n) by units, (..., count, within)."""
        return samples.reshape(*samples.shape[:-1], self.count, self.within)

    def units(self, samples: Array, once: Bools) -> Array:
        """Return values by units, (..., n) -> (..., count, within), or NaN for a unit that lacks a run."""
        if self.within == 1:
            return self.blocks(samples)
        planned, there = self._count_runs(samples, once)
        return np.where((there == planned)[..., None], self.blocks(samples), np.nan)

    def counts(self, samples: Array, once: Bools) -> list[Array]:
        """Return complete units, planned units, runs with a value and planned runs, four (...)."""
        planned, there = self._count_runs(samples, once)
        both = [(planned > 0) & (there == planned), planned > 0, there, planned]
        return [each.sum(axis=-1).astype(float) for each in both]

    def _count_runs(self, samples: Array, once: Bools) -> list[Numbers]:
        """Return the planned runs and the runs with a value of each unit, two (..., count)."""
        shape = (*samples.shape[:-1], self.count, self.within // max(self.places, 1), self.places)
        return [each.reshape(shape).any(axis=-1).sum(axis=-1) for each in (once, ~np.isnan(samples))]


def lay_out_units(
    values: xr.DataArray, over: Sequence[str], units: str | Iterable[str] | None, planned: xr.DataArray | None = None
) -> Layout:
    """Arrange the pooled dimensions `over` as units and values of a unit, with dimensions such as time last."""
    keys = values.coords.get(KEYS) if planned is None else planned
    own = [] if keys is None else [dim for dim in over if dim not in keys.dims]
    if units is None:
        named = [DRAWN] if DRAWN in over else [dim for dim in over if dim not in own]
    else:
        named = each_once(units)
        unknown = [str(dim) for dim in named if dim not in over]
        if unknown or not named:
            raise InputError(f"`units` must be among {', '.join(over)}, got {', '.join(unknown) or 'no name'}")
    inner = [dim for dim in own if dim not in named]
    rest = [*(dim for dim in over if dim not in (*named, *own)), *inner]
    count, within, places = (math.prod(values.sizes[dim] for dim in dims) for dims in (named, rest, inner))
    return Layout((*named, *rest), count, within, places, named[0] if len(named) == 1 else "unit")


def each_once(names: str | Iterable[str]) -> list[str]:
    """Return one or several names as a list without duplicates."""
    return list(dict.fromkeys(names)) if isinstance(names, Iterable) and not isinstance(names, str) else [names]


def numeric_variables(data: xr.Dataset) -> list[str]:
    """Return the names of the numeric variables."""
    return [str(name) for name, array in data.data_vars.items() if array.dtype.kind in "iufb"]


def labels_as_typed(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """Return the coordinate values along a dimension as a user types them, or positions without a coordinate."""
    return [text_label(to_canonical(label)) for label in values[dim].values]


def list_headings(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """Return the coordinate values along a dimension as headings, with the name of the dimension before numbers."""
    found = labels_as_typed(values, dim)
    return found if values[dim].dtype.kind in "OU" else [f"{dim}={label}" for label in found]


def select_point(data: xr.Dataset, point: Mapping[str, object], axes: Sequence[str] | None = None) -> xr.Dataset:
    """Return the runs at one value of some axes.  Raises InputError for an unknown axis or value."""
    known = list(map(str, data["run_status"].dims)) if axes is None else axes
    if unknown := [name for name in point if name not in known]:
        raise InputError(f"`--at` must name axes ({', '.join(known)}), got {shorten(unknown[0])}")
    return data.isel({name: find_position(data[name], name, value) for name, value in point.items()})


def find_position(values: xr.DataArray | xr.Dataset, dim: str, label: object) -> int:
    """Return the position of a coordinate value or its string.  Raises InputError for an unknown value."""
    found = find_value([to_canonical(each) for each in values[dim].values], str(label))
    if found is None:
        raise ParameterError(dim, f"one of {join_names(labels_as_typed(values, dim))}", label)
    return found


# --- runs by status ---------------------------------------------------------------------------------------------------

MAX_MESSAGE_PATTERNS, _MAX_VALUES = 20, 12  # message patterns, and values of one axis
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")


def count_status(data: xr.Dataset) -> Completeness:
    """Count the planned runs of one phase by status and message, with one slab of messages in memory."""
    runs, status, dims = number_runs(data[KEYS]), status_codes(data["run_status"]), list(map(str, data[KEYS].dims))
    once = mark_first(runs.ravel()).reshape(runs.shape)
    states = np.bincount(status[once].astype(np.int64), minlength=len(Status))
    patterns, first = Counter[str](), dict[str, tuple[list[int], str]]()
    for slab in slabs(status.shape):
        texts = data["run_message"].isel(dict(zip(dims, slab, strict=True))).values.astype(object)
        for place in np.argwhere((texts != "") & once[slab]):
            text = str(texts[tuple(place)])
            pattern = _NUMBER.sub("#", text)
            patterns[pattern] += 1
            first.setdefault(pattern, ([int(i) + own.start for i, own in zip(place, slab, strict=True)], text))
    messages = []
    for pattern, count in patterns.most_common(MAX_MESSAGE_PATTERNS):
        places, text = first[pattern]
        at = {name: text_label(to_canonical(data[name].values[i])) for name, i in zip(dims, places, strict=True)}
        messages.append(Message(text, count, ", ".join(f"{name} = {value}" for name, value in at.items()), at))
    counts, left = {state.name: int(states[state]) for state in Status if states[state]}, status == Status.not_run
    lacking = _count_missing(data, runs, (status != Status.ok) & ~left, "not ok")
    lacking += _count_missing(data, runs, left, "not run")
    return Completeness(int(np.count_nonzero(runs >= 0)), int(states.sum()), counts, lacking, messages)


def _count_missing(data: xr.Dataset, runs: Numbers, wrong: npt.NDArray[np.bool_], state: str) -> list[Lacking]:
    """Count the missing runs at each value of each axis with several values.  `runs` holds run numbers by axis."""
    lacking = []
    for axis, name in enumerate(map(str, data["run_status"].dims)) if (wrong & (runs >= 0)).any() else ():
        labels = data[name].values
        once = mark_first(np.moveaxis(runs, axis, 0).reshape(len(labels), -1))
        bad, total = (once & np.moveaxis(wrong, axis, 0).reshape(once.shape)).sum(axis=1), once.sum(axis=1)
        places = np.flatnonzero(bad)
        values = [(text_label(to_canonical(labels[i])), int(bad[i]), int(total[i])) for i in places[:_MAX_VALUES]]
        if values and len(bad) > 1:  # an axis of one value does not show where
            lacking.append(Lacking(state, name, values, len(places) - len(values)))
    return lacking
