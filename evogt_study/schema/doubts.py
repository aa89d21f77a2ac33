"""Reasons to doubt a run's numbers: what it recorded of itself, held against the schema's limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evogt_study.errors import DoubtWarning, warn
from evogt_study.schema.variables import MEASURED, Status

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.numerics.dictionaries.base import Dictionary

REACH = MEASURED["domain_reach"]


def doubts(data: xr.Dataset) -> Iterator[str]:
    """One line for each variable that is above its limit in some runs: in how many, how far, why, and the remedy.

    A variable that a user's own method returns under the same name means something else.
    """
    for name, declared in MEASURED.items():
        if declared.limit == math.inf or name not in data or data[name].attrs.get("long_name") != declared.long_name:
            continue
        values = data[name].values
        count = _runs(data, values > declared.limit)  # NaN, where a run recorded none, is above nothing
        if count:
            ok = _runs(data, data["status"].values == Status.ok) if "status" in data else 1
            told = f"in {count:,} of {ok:,} runs, the largest {np.nanmax(values):.3g}"
            yield f"{name} is above {declared.limit:g} ({told}): {declared.doubt}"


def _runs(data: xr.Dataset, where: npt.NDArray[np.bool_]) -> int:
    """Number of different runs there."""
    return len(np.unique(data["case_key"].values[where])) if "case_key" in data else int(np.count_nonzero(where))


def warn_of_doubts(data: xr.Dataset) -> None:
    """Give a `DoubtWarning` for each of `doubts`."""
    for line in doubts(data):
        warn(line, DoubtWarning)


@lru_cache(maxsize=64)  # which the runs of all seeds have in common
def outside_ball(dictionary: Dictionary, dimension: int) -> Mapping[str, float]:
    """Report how far the domain reaches out of the dictionary's ball, where it does."""
    reach = dictionary.domain_reach(dimension)
    return {REACH.name: reach} if reach > REACH.limit else {}


def warn_outside_ball(dictionary: Dictionary, dimension: int) -> None:
    """Give a `DoubtWarning` where the dictionary's ball does not hold the domain."""
    for name, reach in outside_ball(dictionary, dimension).items():
        warn(f"{name} is {reach:.3g}, above {REACH.limit:g}: {REACH.doubt}", DoubtWarning)
