"""Array kernels over labelled dimensions, block by block: a result may be larger than memory, its statistics are not.

What is the same for every statistic is here too: which dimensions there are, and what becomes of missing runs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis.kernels import Array
from evogt_study.errors import IncompleteError, InputError, ParameterError

BLOCK_BYTES = 2**25
"""Bytes of values at a time, where all of them would be more."""
BOUND = "bound"
"""Dimension of the two ends of an interval."""
MISSING = ("warn", "raise", "drop")
"""What becomes of runs without a value: left out with a warning, an error, or left out with n_ok to say so."""


class IncompleteWarning(UserWarning):
    """A statistic leaves out runs that were planned: they failed, diverged or were not run."""


def dimensions(values: xr.DataArray, over: str | Iterable[str]) -> list[str]:
    """The dimensions named by `over`, each once.  Raises InputError where `values` has no such one, or no numbers."""
    if not isinstance(values, xr.DataArray):
        raise InputError(f"`values` must be a DataArray, got a {type(values).__name__}; use e.g. ds.error")
    dims = [over] if isinstance(over, str) else list(dict.fromkeys(over))
    unknown = [dim for dim in dims if dim not in values.dims]
    if unknown or not dims:
        raise InputError(
            f"`over` must name dimensions of {values.name or 'the values'} ({', '.join(map(str, values.dims))}), "
            f"got {', '.join(unknown) or 'no name'}"
        )
    if values.dtype.kind not in "iufb":
        raise InputError(f"`{values.name}` must hold numbers, got {values.dtype}")
    return dims


def reduced(
    values: xr.DataArray,
    over: Sequence[str],
    kernel: Callable[[Array], Sequence[Array]],
    outputs: Mapping[str, tuple[str, ...]],
    *,
    along: Sequence[str] = (),
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """`kernel` over the dimensions `over`, taken together as the last one: a Dataset, in memory, of its `outputs`.

    kernel: (..., sizes of `along`, n) -> one array for each output, of shape (...) and its own dimensions.  Values
    where no run is `planned` are not finite to it.  What dask holds is reduced chunk by chunk of the other dimensions;
    what is larger than `BLOCK_BYTES`, be it in memory or in a file, in blocks of that size.
    """
    core = [*along, *over]

    def on_block(block: Any) -> Any:
        values = np.asarray(block, dtype=float)
        kept = values.ndim - len(over)
        found = kernel(values.reshape(*values.shape[:kept], math.prod(values.shape[kept:])))
        return tuple(found) if len(outputs) > 1 else found[0]

    held_by_dask = values.chunks is not None
    bare = _bare(values)
    sizes = _block_sizes(values, core)
    if held_by_dask or sizes:
        bare = bare.chunk({**sizes, **dict.fromkeys(core, -1)})
    if planned is not None:
        bare = bare.where(_bare(planned.compute())).transpose(*values.dims)
    found = xr.apply_ufunc(
        on_block,
        bare,
        input_core_dims=[core],
        output_core_dims=[list(dims) for dims in outputs.values()],
        dask="parallelized",
        output_dtypes=[np.float64] * len(outputs),
        dask_gufunc_kwargs={"output_sizes": {BOUND: 2} if any(BOUND in dims for dims in outputs.values()) else {}},
    )
    data = xr.Dataset(dict(zip(outputs, found if len(outputs) > 1 else (found,), strict=True)))
    return data.compute() if held_by_dask else data.compute(scheduler="synchronous")  # then one block is in memory


def _bare(values: xr.DataArray) -> xr.DataArray:
    """The values without coordinates, so that nothing is aligned, and none is read."""
    return values.reset_coords(drop=True).drop_vars(list(values.indexes))


def _block_sizes(values: xr.DataArray, core: Sequence[str]) -> dict[Hashable, int]:
    """Lengths along the kept dimensions of blocks of `BLOCK_BYTES`, the last ones kept whole; none if all is less."""
    if values.size * 8 <= BLOCK_BYTES or values.chunks is not None:
        return {}
    room = max(1, BLOCK_BYTES // (8 * math.prod(values.sizes[dim] for dim in core)))
    sizes: dict[Hashable, int] = {}
    for dim in reversed([dim for dim in values.dims if dim not in core]):
        sizes[dim] = min(room, values.sizes[dim])
        room = max(1, room // values.sizes[dim])
    return sizes


def planned_counts(
    values: xr.DataArray, over: Sequence[str], planned: xr.DataArray | None, kept: Sequence[Hashable]
) -> xr.DataArray:
    """Number of planned runs over `over`, for each point of the `kept` dimensions."""
    if planned is None:
        there = xr.DataArray(math.prod(values.sizes[dim] for dim in over))
    else:
        inside = [dim for dim in over if dim in planned.dims]
        factor = math.prod(values.sizes[dim] for dim in over if dim not in inside)
        there = _bare(planned).sum(inside).compute() * factor
    shape = {dim: values.sizes[dim] for dim in kept}
    there.attrs = {}
    return there.astype(np.int64).expand_dims({d: n for d, n in shape.items() if d not in there.dims}).transpose(*kept)


def check_policy(missing: str) -> None:
    """Raise ParameterError for a policy that is none."""
    if missing not in MISSING:
        raise ParameterError("missing", f"one of {', '.join(MISSING)}", missing)


def tell_missing(lacking: int, of: int, name: object, missing: str, what: str = "runs") -> None:
    """By the policy `missing`: an IncompleteWarning, an IncompleteError, or nothing, where numbers rest on fewer."""
    check_policy(missing)
    if not lacking or missing == "drop":
        return
    told = f"{lacking} of {of} {what} have no finite " + ("value" if name is None else f"`{name}`")
    if missing == "raise":
        raise IncompleteError(f'{told}; `evogt status` says why, missing="warn" leaves them out')
    warnings.warn(f"{told}; they are left out, see n_ok", IncompleteWarning, stacklevel=3)
