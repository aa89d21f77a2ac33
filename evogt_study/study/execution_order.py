"""The order in which cases are computed, worked out block by block and not held."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evogt_study.storage.slabs import stretches


@dataclass(frozen=True, eq=False)
class Walk:
    """All points of a space of this `shape`, the axes being nested as in `order`, outermost first.

    groups: the order in which to meet the groups of points that differ only in the innermost axes, where it is not that
    of their positions.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    groups: npt.NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __getitem__(self, part: slice) -> npt.NDArray[np.int64]:
        """Numbers of the points in this part of the walk."""
        start, stop, _ = part.indices(len(self))
        return self._points(np.arange(start, max(start, stop), dtype=np.int64))

    def _points(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self.groups is not None:
            size = len(self) // len(self.groups)
            places = self.groups[places // size] * size + places % size
        if self.order == tuple(range(len(self.shape))):
            return places
        nested = np.unravel_index(places, [self.shape[axis] for axis in self.order])
        along = dict(zip(self.order, nested, strict=True))
        points = np.ravel_multi_index([along[axis] for axis in range(len(self.shape))], self.shape)
        return points.astype(np.int64)

    def blocks(self) -> Iterator[npt.NDArray[np.int64]]:
        """The whole walk in turn."""
        return (self[part] for part in stretches(len(self)))

    def __iter__(self) -> Iterator[int]:
        return (point for block in self.blocks() for point in block.tolist())

    def tolist(self) -> list[int]:
        """The whole walk."""
        return list(self)

    def ranked(self, ranks: npt.NDArray[np.intp]) -> Walk:
        """The same walk with groups of lower rank first; `ranks` has a length of one along the innermost axes."""
        along = ranks.transpose(self.order).ravel()
        return replace(self, groups=np.argsort(along, kind="stable"))
