"""Doubts about an interval of the mean, in the line of the number itself: few units, or a heavy tail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from evogt_study.inference import kernels
from evogt_study.inference import order_statistics as tails
from evogt_study.inference.kernels import Array
from evogt_study.inference.order_statistics import HEAVY

NOTE = "note"
FEW = 10
"""Units below which a note stands: 95 % intervals of a skewed sample of 10 hold its mean at 89 % (lognormal, 1.2)."""
FEW_OF_STD = 20
"""The same where an interval of the standard deviation is asked for: of 20 normal values it holds 89 %, of 10 82 %."""
NOTED = {
    "largest_share": "share of the mean that the largest value carries",
    "tail_index": "Hill's estimate of the tail index",
}
_UNITS = "units with a value"


def tail_kernels() -> dict[str, Callable[[Array], Array]]:
    """Of samples of units, (..., n, k): the numbers that `noted` makes notes of, over the means of the units."""

    def of_means(kernel: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda units: kernel(units[..., 0] if units.shape[-1] == 1 else kernels.mean(units))

    return {
        "largest_share": of_means(tails.largest_share),
        "tail_index": of_means(tails.tail_index),
        _UNITS: of_means(lambda samples: kernels.count(samples).astype(float)),
    }


def noted(found: xr.Dataset, few: int = FEW) -> xr.Dataset:
    """The numbers with a note for each point, empty where nothing is to be doubted; `few` units are."""
    share, index, count = (found[name] for name in ("largest_share", "tail_index", _UNITS))
    cells = zip(*(each.values.ravel().tolist() for each in (share, index, count)), strict=True)
    notes = np.array([_note(*cell, few=few) for cell in cells])
    note = xr.DataArray(notes.astype(object).reshape(share.shape), dims=share.dims)
    return found.drop_vars(_UNITS).assign({NOTE: note})


def heavy(found: xr.Dataset) -> xr.DataArray:
    """Mask of points whose tail is so heavy that the mean is not known."""
    return found["tail_index"] < HEAVY


def _note(share: float, index: float, count: float, *, few: int) -> str:
    notes = [f"few: {count:.0f}"] if 0 < count < few else []  # of none n_ok = 0 tells
    told = f"heavy tail (index {index:.1f}): one run has {share:.0%} of the mean" if index > 0.0 else "infinite values"
    return "; ".join([*notes, told] if index < HEAVY else notes)
