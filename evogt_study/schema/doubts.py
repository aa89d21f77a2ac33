"""Reasons to doubt a run's numbers: what it recorded of itself, held against the schema's limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evogt_study.errors import DoubtWarning, warn
from evogt_study.schema.variables import LIMIT, WARNING, Status

if TYPE_CHECKING:
    import xarray as xr


def doubts(data: xr.Dataset) -> Iterator[str]:
    """One line for each variable that is above its limit in some runs: in how many, how far, why, and the remedy.

    The limits are attributes of the variables.
    """
    for name, variable in data.data_vars.items():
        if LIMIT not in variable.attrs or variable.dtype.kind not in "iuf":
            continue
        values, limit = variable.values, float(variable.attrs[LIMIT])
        count = _runs(data, values > limit)  # NaN, where a run recorded none, is above nothing
        if count:
            ok = _runs(data, data["status"].values == Status.ok) if "status" in data else 1
            told = f"in {count:,} of {ok:,} runs, the largest {np.nanmax(values):.3g}"
            yield f"{name} is above {limit:g} ({told}): {variable.attrs.get(WARNING, '')}"


def _runs(data: xr.Dataset, where: npt.NDArray[np.bool_]) -> int:
    """Number of different runs there."""
    return len(np.unique(data["case_key"].values[where])) if "case_key" in data else int(np.count_nonzero(where))


def warn_of_doubts(data: xr.Dataset) -> None:
    """Give a `DoubtWarning` for each of `doubts`."""
    for line in doubts(data):
        warn(line, DoubtWarning)
