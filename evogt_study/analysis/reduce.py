"""Apply kernels over named dimensions, block by block, so that a result may be larger than memory.

The module also has the parts that all statistics share: the check of dimensions, the policy for missing runs, and the
notes on intervals that are not reliable.
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
from evogt_study.inference import kernels as tails
from evogt_study.inference.kernels import HEAVY, Array

NOTE = "note"
FEW = 10
"""Number of units below which there is a note.  With 10 lognormal values (sigma 1.2), 95 % intervals cover 89 %."""
NOTED = {
    "largest_share": "share of the mean that the largest value carries",
    "tail_index": "Hill's estimate of the tail index",
}
_UNITS = "units with a value"
BLOCK_BYTES = 2**25
"""Largest number of bytes of values in memory at a time: 32 MiB, little for a Python process."""
BOUND = "bound"
"""Dimension of the two ends of an interval."""
COUNTS = ("n_ok", "n_planned")
"""Units without a missing run, and planned units."""
RUNS = ("runs_ok", "runs_planned")
"""Runs with a value, and planned runs."""
MISSING = ("warn", "raise", "drop")
"""Policies for runs without a value: leave them out with a warning, raise an error, or leave them out silently."""


class IncompleteWarning(UserWarning):
    """A statistic leaves out runs that were planned: they failed, diverged or were not run."""


def reduced(
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
    output, with the shape (...) and the output's own dimensions.  runs: `planned_runs` of the values, or None if each
    value has its own run.  Values without a run are NaN.  A dimension that `runs` does not have, such as time, belongs
    to the values only: the number at place i of the m places of such dimensions in run k is k m + i.  sizes: sizes of
    the dimensions of `outputs` that the values do not have, except `BOUND`.

    Dask arrays are reduced chunk by chunk of the other dimensions.  Other values of more than `BLOCK_BYTES`, in memory
    or in a file, are reduced in blocks of that size.
    """
    core = [*along, *over]
    _check_names({*outputs, NOTE}, [dim for dim in map(str, values.dims) if dim not in core])
    there = [] if runs is None else [dim for dim in core if dim in runs.dims]

    def on_block(block: Any, *numbers: Any) -> Any:
        values = np.asarray(block, dtype=float)
        kept = values.ndim - len(over)
        shape = (*values.shape[:kept], math.prod(values.shape[kept:]))
        if not numbers:
            cells: Numbers = np.broadcast_to(np.arange(shape[-1]), shape)
            found = kernel(values.reshape(shape), cells)
        else:
            own = tuple(place - len(core) for place, dim in enumerate(core) if dim not in there)
            cells = _cells(np.expand_dims(numbers[0], own), values.shape, own).reshape(shape)
            found = kernel(np.where(cells < 0, np.nan, values.reshape(shape)), cells)
        return tuple(found) if len(outputs) > 1 else found[0]

    held_by_dask, bare, lengths = values.chunks is not None, _bare(values), _block_sizes(values, core)
    if held_by_dask or lengths:
        bare = bare.chunk({**lengths, **dict.fromkeys(core, -1)})  # -1: whole, since a kernel takes all of its sample
        if runs is not None:
            runs = runs.chunk(
                {**{dim: lengths[dim] for dim in runs.dims if dim in lengths}, **dict.fromkeys(there, -1)}
            )
    new = {BOUND: 2, **(sizes or {})}
    found = xr.apply_ufunc(
        on_block,
        *([bare] if runs is None else [bare, runs]),
        input_core_dims=[core] if runs is None else [core, there],
        output_core_dims=[list(dims) for dims in outputs.values()],
        dask="parallelized",
        output_dtypes=[np.float64] * len(outputs),
        dask_gufunc_kwargs={
            "output_sizes": {dim: n for dim, n in new.items() if any(dim in d for d in outputs.values())}
        },
    )
    data = xr.Dataset(dict(zip(outputs, found if len(outputs) > 1 else (found,), strict=True)))
    return data.compute() if held_by_dask else data.compute(scheduler="synchronous")  # then one block is in memory


def _check_names(numbers: Collection[str], dims: Iterable[str]) -> None:
    """Raise InputError where a number of a table has the name of a dimension: one of the two would be lost."""
    for dim in dims:
        if dim in numbers:
            raise InputError(
                f"`{dim}` must be another name, since a table along it has a column of this one; choose other "
                f'statistics, or rename it: data.rename({dim}="{dim}_value")'
            )


def _bare(values: xr.DataArray) -> xr.DataArray:
    """The values without coordinates, so that nothing is aligned, and none is read."""
    return values.reset_coords(drop=True).drop_vars(list(values.indexes))


def _block_sizes(values: xr.DataArray, core: Sequence[str]) -> dict[Hashable, int]:
    """Lengths along the kept dimensions of blocks of `BLOCK_BYTES`, the last ones kept whole; none if all is less."""
    if values.size * 8 <= BLOCK_BYTES or values.chunks is not None:
        return {}
    room = max(1, BLOCK_BYTES // (8 * math.prod(values.sizes[dim] for dim in core)))
    sizes: dict[Hashable, int] = {}
    # the last dimensions are contiguous, in memory and in a file
    for dim in reversed([dim for dim in values.dims if dim not in core]):
        sizes[dim] = min(room, values.sizes[dim])
        room = max(1, room // values.sizes[dim])
    return sizes


def _cells(numbers: Numbers, shape: tuple[int, ...], own: tuple[int, ...]) -> Numbers:
    """Numbers of cells of that shape, of the runs' numbers (one long along the axes `own`); -1 without a run."""
    lengths = [shape[axis] if axis - len(shape) in own else 1 for axis in range(len(shape))]
    places = np.arange(math.prod(lengths)).reshape(lengths)
    return np.broadcast_to(np.where(numbers < 0, -1, numbers * places.size + places), shape)


def check_array(values: xr.DataArray) -> None:
    """Raise InputError for a Dataset, or what else is no DataArray."""
    if not isinstance(values, xr.DataArray):
        raise InputError(f"`values` must be a DataArray, got a {type(values).__name__}; use e.g. ds.error")


def dimensions(values: xr.DataArray, over: str | Iterable[str]) -> list[str]:
    """The dimensions named by `over`, each once.  Raises InputError where `values` has no such one, or no numbers."""
    check_array(values)
    dims = each_once(over)
    unknown = [str(dim) for dim in dims if dim not in values.dims]
    if unknown or not dims:
        raise InputError(
            f"`over` must name dimensions of {values.name or 'the values'} ({', '.join(map(str, values.dims))}), "
            f"got {', '.join(unknown) or 'no name'}"
        )
    if values.dtype.kind not in "iufb":
        raise InputError(f"`{values.name}` must hold numbers, got {values.dtype}")
    return dims


def check_options(**given: tuple[str, Collection[str]]) -> None:
    """Raise ParameterError for a value that is none of its options."""
    for name, (value, options) in given.items():
        if value not in options:
            raise ParameterError(name, f"one of {', '.join(filter(None, options))}", value)


def check_policy(missing: str) -> None:
    """Raise ParameterError for a policy that is none."""
    if missing not in MISSING:
        raise ParameterError("missing", f"one of {', '.join(MISSING)}", missing)


def tell_missing_runs(values: xr.DataArray, found: xr.Dataset, runs: xr.DataArray | None, missing: str) -> xr.Dataset:
    """`tell_missing` for the counts `RUNS` of `found`, of runs that several points have once; `found` without."""
    n_ok, n_planned = (int(found[name].sum()) for name in RUNS)
    if runs is not None and n_ok < n_planned and missing != "drop":
        own = [str(dim) for dim in values.dims if dim not in runs.dims]
        present = reduced(values, own, lambda samples, _: [kernels.count(samples).astype(float)], {"present": ()})[
            "present"
        ]
        n_planned = count_runs(runs.values)
        n_ok = count_runs(runs.where(present > 0, -1).values)
    tell_missing(n_planned - n_ok, n_planned, values.name, missing)
    return found.drop_vars(RUNS)


def tell_missing(lacking: int, of: int, name: object, missing: str, what: str = "runs") -> None:
    """By the policy `missing`: an IncompleteWarning, an IncompleteError, or nothing, where numbers rest on fewer."""
    check_policy(missing)
    if not lacking or missing == "drop":
        return
    message = f"{lacking} of {of} {what} have no " + ("value" if name is None else f"`{name}`")
    if missing == "raise":
        raise IncompleteError(f'{message}; `evogt status` says why, missing="warn" leaves them out')
    warn(f"{message}; they are left out, see n_ok", IncompleteWarning)


def tail_kernels() -> dict[str, Callable[[Array], Array]]:
    """Return the kernels whose numbers `noted` needs, from units (..., n, k), by the means of the units."""

    def of_means(kernel: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda units: kernel(units[..., 0] if units.shape[-1] == 1 else kernels.mean(units))

    return {
        "largest_share": of_means(tails.largest_share),
        "tail_index": of_means(tails.tail_index),
        _UNITS: of_means(lambda samples: kernels.count(samples).astype(float)),
    }


def noted(found: xr.Dataset, few: int, least: int, *, std: bool) -> xr.Dataset:
    """Return the numbers with a note for each point: few units, a heavy tail, or an empty string.

    Below `least` units the interval is Student's.  std: there is an interval of the standard deviation.
    """
    share, index, count = (found[name] for name in ("largest_share", "tail_index", _UNITS))
    cells = zip(*(each.values.ravel().tolist() for each in (share, index, count)), strict=True)
    notes = np.array([_note(*cell, few=few, least=least, std=std) for cell in cells])
    note = xr.DataArray(notes.astype(object).reshape(share.shape), dims=share.dims)
    return found.drop_vars(_UNITS).assign({NOTE: note})


def _note(share: float, index: float, count: float, *, few: int, least: int, std: bool) -> str:
    notes = [f"few seeds: {count:.0f}" + (" (Student's interval)" if count < least else "")] if 0 < count < few else []
    tail = f"heavy tail (index {index:.1f}): one run has {share:.0%} of the mean" if index > 0.0 else "infinite values"
    notes += [tail] if index < HEAVY else []
    return "; ".join([*notes, "interval of std too short for skewed values"] if std and count else notes)


def heavy(found: xr.Dataset) -> xr.DataArray:
    """Mask of points whose tail is so heavy that the mean is unknown."""
    return found["tail_index"] < HEAVY
