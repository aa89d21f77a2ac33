"""One variable of a study over all of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.storage.arrays import filled


@dataclass(eq=False)
class Column:
    """A variable's values: `cells` has a row for each case, of numbers or of strings.

    `present` says which cases have it, `first` is the lowest of them, `kinds` are those of the types that runs gave.  A
    large one is out of core, beside the path `beside`.
    """

    dims: tuple[str, ...]
    cells: npt.NDArray[Any]
    attributes: Mapping[str, Any]
    first: int
    present: npt.NDArray[np.bool_]
    beside: Path | None
    kinds: set[str] = field(default_factory=set)

    @staticmethod
    def empty(
        count: int, dims: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any], beside: Path | None
    ) -> Column:
        """A column that none of `count` cases has."""
        cells = filled((count, *shape), dtype, missing_value(dtype), beside)
        return Column(dims, cells, {}, count, np.zeros(count, dtype=bool), beside)

    @property
    def text(self) -> bool:
        """Return True for strings."""
        return self.cells.dtype.kind == "O"

    # room for the longest row so far: runs of one variable may have different lengths, such as ranks
    def put(self, cases: npt.NDArray[np.intp], values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> None:
        """Set the rows of `cases`, which are in order; a column that is too small for them grows."""
        own, shape = self.cells.shape[1:], values.shape[1:]
        dtype = self.cells.dtype if self.text else np.result_type(self.cells.dtype, values.dtype)
        if dtype != self.cells.dtype or any(there < here for there, here in zip(own, shape, strict=True)):
            self.grow(tuple(map(max, own, shape)), dtype)
        # the lowest case, not the first to come back, so that a result does not depend on the order of execution
        if cases[0] < self.first:
            self.first, self.attributes = int(cases[0]), attributes
        room = self.cells[(slice(None), *(slice(0, n) for n in shape))]  # a view, which the next line fills
        room[cases] = values
        self.present[cases] = True

    # a new file instead of a longer one: rows change their length, so that every value would move anyway
    def grow(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Make room for rows of this shape and type."""
        old, missing = self.cells, missing_value(self.cells.dtype)
        self.cells = filled((len(old), *shape), dtype, missing_value(dtype), self.beside)
        room = (slice(None), *(slice(0, n) for n in old.shape[1:]))
        self.cells[room] = np.where(old == missing, np.nan, old) if dtype != old.dtype else old

    def clear(self, cases: npt.NDArray[np.intp]) -> None:
        """Leave these cases without a value."""
        self.cells[cases] = missing_value(self.cells.dtype)
        self.present[cases] = False

    # compared with the first row only, which reads each value once: columns may be larger than memory
    def common(self) -> npt.NDArray[Any] | None:
        """The row of every case that has one, if it is the same in all; NaN is equal to NaN."""
        rows = self.cells[self.present]
        if not len(rows):
            return None
        same = rows == rows[0]
        if rows.dtype.kind == "f":
            same |= np.isnan(rows) & np.isnan(rows[0])
        return np.asarray(rows[0]) if np.all(same) else None


def missing_value(dtype: np.dtype[Any]) -> Any:
    """Return the value that stands for none: an empty string, NaN, or the least integer."""
    if dtype.kind == "O":
        return ""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).min
