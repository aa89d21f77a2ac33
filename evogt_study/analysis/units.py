"""Units of a sample: what was drawn independently, as seeds.  Its values at several pooled points belong together.

The same seed means the same features at every epsilon: errors of one seed at three epsilon are one draw, not three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.blocks import each_once
from evogt_study.analysis.distinct import Numbers, keep_first, mark_first
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array

Scalar = TypeVar("Scalar", bound=np.generic)
DRAWN = "seed"
"""The dimension whose points are units, where nothing else is said and it is pooled."""


@dataclass(frozen=True)
class Layout:
    """The pooled dimensions, those of units first; count units of `within` values; places: values of one run."""

    dims: tuple[str, ...]
    count: int
    within: int
    places: int

    def blocks(self, samples: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Samples (..., n) by units, (..., count, within)."""
        return samples.reshape(*samples.shape[:-1], self.count, self.within)

    def units(self, samples: Array, cells: Numbers) -> Array:
        """Values of distinct runs by units, (..., n) -> (..., count, within); NaN for a unit that lacks a run.

        Values of what is left of it would weigh some pooled points more than others.
        """
        values = self.blocks(keep_first(samples, cells))
        if self.within == 1:
            return values
        planned, there = self._runs(samples, cells)
        return np.where((there == planned)[..., None], values, np.nan)

    def means(self, samples: Array) -> Array:
        """Mean over the values of each unit, (..., n) -> (..., count); a single value as it is."""
        blocks = self.blocks(samples)
        there = ~np.isnan(blocks)
        counts = there.sum(axis=-1)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(counts > 0, np.where(there, blocks, 0.0).sum(axis=-1) / np.maximum(counts, 1), np.nan)

    def counts(self, samples: Array, cells: Numbers) -> list[Array]:
        """Units with a value of each of their runs, units planned, runs with a value, runs planned: four of (...)."""
        planned, there = self._runs(samples, cells)
        both = [(planned > 0) & (there == planned), planned > 0, there, planned]
        return [each.sum(axis=-1).astype(float) for each in both]

    def _runs(self, samples: Array, cells: Numbers) -> tuple[Numbers, Numbers]:
        """Runs planned of each unit, and runs with a value, two of (..., count)."""
        runs = cells // self.places  # of numbers k m + i (`blocks.reduced`), and of -1 again -1
        planned = self.blocks(mark_first(runs)).sum(axis=-1)
        return planned, (~np.isnan(self.blocks(keep_first(samples, runs)))).sum(axis=-1)


def layout(
    values: xr.DataArray, over: Sequence[str], units: str | Iterable[str] | None, runs: xr.DataArray | None,
    along: Sequence[str] = (),
) -> Layout:  # fmt: skip
    """Lay out the pooled dimensions `over` of values that are compared `along` others.

    units: dimensions among `over` whose points are units; None: seed where it is pooled, else each run is a unit.
    Raises InputError where `units` names others.
    """
    own = [] if runs is None else [dim for dim in (*along, *over) if dim not in runs.dims]  # like time
    if units is None:
        named = [DRAWN] if DRAWN in over else [dim for dim in over if dim not in own]
    else:
        named = each_once(units)
        unknown = [str(dim) for dim in named if dim not in over]
        if unknown or not named:
            raise InputError(f"`units` must be among {', '.join(over)}, got {', '.join(unknown) or 'no name'}")
    rest = [dim for dim in over if dim not in named]
    count, within, places = (math.prod(values.sizes[dim] for dim in dims) for dims in (named, rest, own))
    return Layout((*named, *rest), count, within, places)
