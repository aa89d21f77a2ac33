"""Variables of a Dataset whose values are worked out when they are asked for, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from xarray.backends import BackendArray
from xarray.core import indexing

from evogt_study.storage.out_of_core import is_mapped, release

Decode = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


def values_of(cells: npt.NDArray[Any], decode: Decode, dtype: npt.DTypeLike) -> Any:
    """`decode` of the cells, which gives values of `dtype`: at once if they are in memory, else when asked for."""
    return indexing.LazilyIndexedArray(_Decoded(cells, decode, dtype)) if is_mapped(cells) else decode(cells)


class _Decoded(BackendArray):
    """`decode` of any part of a mapped array."""

    def __init__(self, cells: npt.NDArray[Any], decode: Decode, dtype: npt.DTypeLike) -> None:
        self.cells, self.decode = cells, decode
        self.shape, self.dtype = cells.shape, np.dtype(dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._part)

    def _part(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        found = np.array(self.decode(np.asarray(self.cells[key])), dtype=self.dtype)
        release(self.cells)
        return found
