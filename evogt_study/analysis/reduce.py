"""Apply kernels over named dimensions, block by block, so that a result may be larger than memory.

The module also has the parts that all statistics share: checks of dimensions and options, and the policy for missing
runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis.runs import Numbers, count_runs, each_once
from evogt_study.errors import IncompleteError, InputError, ParameterError, warn
from evogt_study.inference import kernels
from evogt_study.inference.kernels import Array

NOTE = "note"
BLOCK_BYTES = 2**25  # of values in memory at a time: 32 MiB, little for a Python process
BOUND = "bound"  # dimension of the two ends of an interval
COUNTS = ("n_ok", "n_planned")  # units without a missing run, and planned units
RUNS = ("runs_ok", "runs_planned")  # runs with a value, and planned runs
MISSING = ("warn", "raise", "drop")  # runs without a value: leave them out with a warning, or silently, or raise


class IncompleteWarning(UserWarning):
    """A statistic leaves out runs that were planned: they failed, diverged or were not run."""


def reduce_blocks(
    values: xr.DataArray,
    over: Sequence[str],
    kernel: Callable[[Array, Numbers], Sequence[Array]],
    outputs: Mapping[str, tuple[str, ...]],
    *,
    along: Sequence[str] = (),
    runs: xr.DataArray | None = None,
    sizes: Mapping[str, int] | None = None,
) -> xr.Dataset:
    """Apply `kernel` over the dimensions `over`, joined as the last axis, and return its `outputs` in memory.

    kernel: takes values and the numbers of their runs, each (..., sizes of `along`, n), and returns one array for each
    output, with the shape (...) and the output's own dimensions; counts become integers.  runs: `planned_runs` of the
    values, or None if each value has its own run.  Values without a run are NaN.  A dimension that `runs` does not
    have, such as time, belongs to the values only: the number at place i of the m places of such dimensions in run k is
    k m + i.  sizes: of dimensions of `outputs` that the values do not have.  Dask arrays are reduced by their chunks,
    others in blocks of `BLOCK_BYTES`.
    """
    core = [*along, *over]
    rest = [str(dim) for dim in values.dims if dim not in core]
    twice = next((dim for dim in rest if dim in {*outputs, NOTE}), None)
    if twice is not None:
        message = f"`{twice}` must be another name, since a table along it has a column of this one"
        raise InputError(f'{message}; choose other statistics, or rename it: data.rename({twice}="{twice}_value")')
    there = [] if runs is None else [dim for dim in core if dim in runs.dims]
    own = tuple(place - len(core) for place, dim in enumerate(core) if dim not in there)

    def on_block(block: Any, *numbers: Any) -> Any:
        values = np.asarray(block, dtype=float)
        kept = values.ndim - len(over)
        shape = (*values.shape[:kept], math.prod(values.shape[kept:]))
        cells: Numbers = np.broadcast_to(np.arange(shape[-1]), shape)
        if numbers:
            lengths = [size if axis - values.ndim in own else 1 for axis, size in enumerate(values.shape)]
            places, of_runs = np.arange(math.prod(lengths)).reshape(lengths), np.expand_dims(numbers[0], own)
            cells = np.where(of_runs < 0, -1, of_runs * places.size + places)
            cells = np.broadcast_to(cells, values.shape).reshape(shape)
            values = np.where(cells < 0, np.nan, values.reshape(shape))
        found = kernel(values.reshape(shape), cells)
        return tuple(found) if len(outputs) > 1 else found[0]

    # without coordinates, so that nothing is aligned, and none is read
    bare = values.reset_coords(drop=True).drop_vars(list(values.indexes))
    lengths = {} if values.chunks is not None else _block_sizes(values, core)
    if values.chunks is not None or lengths:
        bare = bare.chunk({**lengths, **dict.fromkeys(core, -1)})  # -1: whole, since a kernel takes all of its sample
        if runs is not None:
            known = {dim: lengths[dim] for dim in runs.dims if dim in lengths}
            runs = runs.chunk({**known, **dict.fromkeys(there, -1)})
    used, new = {dim for dims in outputs.values() for dim in dims}, {BOUND: 2, **(sizes or {})}
    found = xr.apply_ufunc(
        on_block, *([bare] if runs is None else [bare, runs]),
        input_core_dims=[core] if runs is None else [core, there],
        output_core_dims=[list(dims) for dims in outputs.values()], output_dtypes=[np.float64] * len(outputs),
        dask="parallelized", dask_gufunc_kwargs={"output_sizes": {d: n for d, n in new.items() if d in used}},
    )  # fmt: skip
    data = xr.Dataset(dict(zip(outputs, found if len(outputs) > 1 else (found,), strict=True)))
    data = data.compute() if values.chunks is not None else data.compute(scheduler="synchronous")  # one block in memory
    return data.assign({name: data[name].astype(np.int64) for name in (*COUNTS, *RUNS) if name in data})


def _block_sizes(values: xr.DataArray, core: Sequence[str]) -> dict[Hashable, int]:
    """Lengths along the kept dimensions of blocks of `BLOCK_BYTES`, the last ones kept whole; none if all is less."""
    room = max(1, BLOCK_BYTES // max(1, 8 * math.prod(values.sizes[dim] for dim in core)))
    sizes: dict[Hashable, int] = {}
    # the last dimensions are contiguous, in memory and in a file
    for dim in reversed([dim for dim in values.dims if dim not in core]) if values.size * 8 > BLOCK_BYTES else ():
        sizes[dim] = min(room, values.sizes[dim])
        room = max(1, room // values.sizes[dim])
    return sizes


def check_array(values: xr.DataArray) -> None:
    """Raise InputError for a Dataset or another object that is no DataArray."""
    if not isinstance(values, xr.DataArray):
        raise InputError(f"`values` must be a DataArray, got a {type(values).__name__}; use e.g. ds.error")


def dimensions(values: xr.DataArray, over: str | Iterable[str]) -> list[str]:
    """The dimensions named by `over`, each once.  Raises InputError if `values` does not have one, or no numbers."""
    check_array(values)
    dims = each_once(over)
    unknown = [str(dim) for dim in dims if dim not in values.dims]
    if unknown or not dims:
        known = f"{values.name or 'the values'} ({', '.join(map(str, values.dims))})"
        raise InputError(f"`over` must name dimensions of {known}, got {', '.join(unknown) or 'no name'}")
    if values.dtype.kind not in "iufb":
        raise InputError(f"`{values.name}` must hold numbers, got {values.dtype}")
    return dims


def check_options(**given: tuple[str, Collection[str]]) -> None:
    """Raise ParameterError for a value that is none of its options."""
    for name, (value, options) in given.items():
        if value not in options:
            raise ParameterError(name, f"one of {', '.join(filter(None, options))}", value)


def check_confidence(confidence: float) -> None:
    """Raise ParameterError for a confidence outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        raise ParameterError("confidence", "in (0, 1)", confidence, remedy="use e.g. 0.95")


def report_missing_runs(values: xr.DataArray, found: xr.Dataset, runs: xr.DataArray | None, missing: str) -> xr.Dataset:
    """Follow the policy `missing` for runs without a value, counted in `RUNS`; return `found` without these counts."""
    n_ok, n_planned = (int(found[name].sum()) for name in RUNS)
    if runs is not None and n_ok < n_planned and missing != "drop":  # a run at several points counts once
        own = [str(dim) for dim in values.dims if dim not in runs.dims]
        present = reduce_blocks(values, own, lambda each, _: [kernels.count(each).astype(float)], {"present": ()})
        n_planned = count_runs(runs.values)
        n_ok = count_runs(runs.where(present["present"] > 0, -1).values)
    if n_ok < n_planned and missing != "drop":
        name = "value" if values.name is None else f"`{values.name}`"
        message = f"{n_planned - n_ok} of {n_planned} runs have no {name}"
        if missing == "raise":
            raise IncompleteError(f'{message}; `evogt status` says why, missing="warn" leaves them out')
        warn(f"{message}; they are left out, see n_ok", IncompleteWarning)
    return found.drop_vars(RUNS)
