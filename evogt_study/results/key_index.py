"""Cases found by their keys.

Cases are held in the order of the first sixteen digits of their keys, as numbers of eight bytes; keys that agree in
those are told apart by the rest.  Like the keys themselves the index is out of memory where it is large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evogt_study.planning.case_keys import Keys
from evogt_study.storage.out_of_core import filled, release
from evogt_study.storage.slabs import SLAB, stretches

_HEAD = 16
_PIECE = 2048
"""Keys that are looked up before memory is released: each may be on a page of its own."""
_DIGIT = np.zeros(256, dtype=np.uint8)
_DIGIT[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)


class KeyIndex:
    """The cases of `keys`, by number, that have one; a large index is in a file beside the path `beside`."""

    def __init__(self, keys: Keys, beside: Path | None) -> None:
        self._keys, self._beside = keys, beside
        count = sum(int(np.count_nonzero(keys[part])) for part in stretches(len(keys)))
        self._heads = filled((count,), np.uint64, 0, beside)
        self._cases = filled((count,), np.uint32, 0, beside)
        self._lowest: npt.NDArray[np.uint32] | None = None  # of the cases with equal keys, where there are some
        self._fill()

    def _fill(self) -> None:
        """Sort the cases, those whose keys begin alike at a time."""
        heads = filled((len(self._keys),), np.uint64, 0, self._beside)
        for part in stretches(len(self._keys)):
            heads[part] = _heads(self._keys[part])
        release(self._keys, heads)
        bits, start = max(0, math.ceil(math.log2(max(1, len(heads)) / SLAB))), 0
        for beginning in range(2**bits):
            cases = np.concatenate([*self._beginning(heads, beginning, bits), np.array([], dtype=np.uint32)])
            own = heads[cases]
            order = np.argsort(own)
            where = slice(start, start + len(cases))
            self._heads[where], self._cases[where] = own[order], cases[order]
            self._note_equals(own[order], cases[order])
            start = where.stop
            release(heads, self._keys, self._heads, self._cases)

    def _beginning(self, heads: npt.NDArray[np.uint64], beginning: int, bits: int) -> Iterator[npt.NDArray[np.uint32]]:
        """Cases whose heads have these first `bits`."""
        for part in stretches(len(heads)):
            numbers = (np.flatnonzero(heads[part] >> np.uint64(64 - bits) == beginning) + part.start).astype(np.uint32)
            yield numbers[self._keys[numbers] != b""]

    def _note_equals(self, heads: npt.NDArray[np.uint64], cases: npt.NDArray[np.uint32]) -> None:
        """Of the cases, sorted by their heads, note of those with equal keys which one is the lowest."""
        follows = np.flatnonzero(heads[1:] == heads[:-1])
        if not len(follows):
            return
        if self._lowest is None:
            self._lowest = filled((len(self._keys),), np.uint32, 0, self._beside)
            for part in stretches(len(self._keys)):
                self._lowest[part] = np.arange(part.start, part.stop)
        alike = cases[np.union1d(follows, follows + 1)]
        _, which = np.unique(self._keys[alike], return_inverse=True)
        lowest = np.full(len(alike), np.iinfo(np.uint32).max, dtype=np.uint32)
        np.minimum.at(lowest, which, alike)
        self._lowest[alike] = lowest[which]
        release(self._lowest)

    def found(self, wanted: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Numbers of the keys that cases have, and of the cases in order, one pair for each case.

        Of equal keys the first counts.
        """
        heads = _heads(wanted)
        order = np.argsort(heads, kind="stable")  # in order they are found several times faster
        pairs = [self._pairs(heads, order[part]) for part in stretches(len(order), _PIECE)]
        if not pairs:
            return np.array([], dtype=np.intp), np.array([], dtype=np.intp)
        number, case = (np.concatenate(each) for each in zip(*pairs, strict=True))
        by_case = np.argsort(case, kind="stable")
        number, case = number[by_case], case[by_case]
        equal = np.zeros(len(case), dtype=bool)
        for part in stretches(len(case), _PIECE):
            equal[part] = self._keys[case[part]] == wanted[number[part]]
            release(self._keys)
        number, case = number[equal], case[equal]
        first = np.ones(len(case), dtype=bool)
        first[1:] = case[1:] != case[:-1]
        return number[first], case[first]

    def _pairs(
        self, heads: npt.NDArray[np.uint64], numbers: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Pairs of one of `numbers`, whose heads are in order, and a case with that head."""
        sought = heads[numbers]
        begin = np.searchsorted(self._heads, sought, "left")
        count = np.searchsorted(self._heads, sought, "right") - begin
        ahead = np.repeat(np.cumsum(count) - count, count)
        cases = self._cases[np.repeat(begin, count) + np.arange(count.sum()) - ahead]
        release(self._heads, self._cases)
        return np.repeat(numbers, count), cases.astype(np.intp)

    def firsts(self, blocks: Iterator[npt.NDArray[np.int64]]) -> Iterator[npt.NDArray[np.int64]]:
        """Of blocks of cases those whose key no case before them has."""
        lowest = self._lowest
        if lowest is None:
            yield from blocks
            return
        met = filled((len(self._keys),), np.bool_, False, self._beside)
        for block in blocks:
            own, first = np.unique(lowest[block], return_index=True)
            yield block[np.sort(first[~met[own]])]
            met[own] = True
            release(lowest, met)


def _heads(keys: Keys) -> npt.NDArray[np.uint64]:
    """The first digits of the keys as numbers; what is no digit counts as 0."""
    characters = np.ascontiguousarray(keys, dtype=f"S{_HEAD}").view(np.uint8).reshape(len(keys), _HEAD)
    digits = _DIGIT[characters]
    return (digits[:, ::2] << 4 | digits[:, 1::2]).view(">u8").ravel().astype(np.uint64)
