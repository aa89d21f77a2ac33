"""One variable of a study over all of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.storage.out_of_core import Words, filled, put, release
from evogt_study.storage.slabs import rows_in_slab, stretches


@dataclass(eq=False)
class Column:
    """A variable's values: `cells` has a row for each case, of numbers, or of the numbers that `words` gives to words.

    `present` says which cases have it, `first` is the lowest of them.
    """

    dims: tuple[str, ...]
    cells: npt.NDArray[Any]
    attributes: Mapping[str, Any]
    first: int
    present: npt.NDArray[np.bool_]
    words: Words | None
    beside: Path | None

    @staticmethod
    def empty(
        count: int,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        words: Words | None,
        beside: Path | None,
    ) -> Column:
        """A column that none of `count` cases has."""
        cells = filled((count, *shape), dtype, missing_cell(dtype, words), beside)
        return Column(dims, cells, {}, count, filled((count,), np.bool_, False, beside), words, beside)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The values of all cases."""
        return self.read(self.cells)

    def read(self, cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The values of these cells."""
        return cells if self.words is None else self.words.words(cells)

    def put(self, cases: npt.NDArray[np.intp], values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> None:
        """Set the rows of `cases`, which are in order; a column that is too small for them grows."""
        shape = values.shape[1:]
        cells = values if self.words is None else self.words.numbers(values.ravel().tolist()).reshape(values.shape)
        if any(own < other for own, other in zip(self.cells.shape[1:], shape, strict=True)) or (
            self.cells.dtype != cells.dtype
        ):
            self.grow(tuple(map(max, self.cells.shape[1:], shape)), np.result_type(self.cells.dtype, cells.dtype))
        if cases[0] < self.first:
            self.first, self.attributes = int(cases[0]), attributes
        put(self.cells[(slice(None), *(slice(0, n) for n in shape))], cases, cells)
        put(self.present, cases, np.ones(len(cases), dtype=bool))

    def grow(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Make room for rows of this shape and type."""
        old, missing = self.cells, missing_cell(self.cells.dtype, self.words)
        self.cells = filled((len(old), *shape), dtype, missing_cell(dtype, self.words), self.beside)
        room = self.cells[(slice(None), *(slice(0, n) for n in old.shape[1:]))]
        for part in stretches(len(old), rows_in_slab(old)):
            rows = old[part]
            room[part] = np.where(rows == missing, np.nan, rows) if dtype != old.dtype else rows
            release(old, self.cells)

    def clear(self, cases: npt.NDArray[np.intp]) -> None:
        """Leave these cases without a value."""
        self.cells[cases] = missing_cell(self.cells.dtype, self.words)
        self.present[cases] = False

    def common(self) -> npt.NDArray[Any] | None:
        """The row of every case that has one, if it is the same in all; NaN is equal to NaN."""
        row: npt.NDArray[Any] | None = None
        for part in stretches(len(self.cells), rows_in_slab(self.cells)):
            rows = self.read(self.cells[part][self.present[part]])
            release(self.cells, self.present)
            if len(rows):
                row = rows[0] if row is None else row
                if not _all_equal(rows, row):
                    return None
        return row


def missing_cell(dtype: np.dtype[Any], words: Words | None) -> Any:
    """What stands where a run has no value; of words it is the number of the empty one."""
    return missing_value(dtype) if words is None else 0


def missing_value(dtype: np.dtype[Any]) -> Any:
    """What stands where a run has no number: NaN, or the least integer."""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).min


def _all_equal(rows: npt.NDArray[Any], row: npt.NDArray[Any]) -> bool:
    same = rows == row
    if rows.dtype.kind == "f":
        same |= np.isnan(rows) & np.isnan(row)
    return bool(np.all(same))
