"""Arrays over all cases of a study, kept out of memory where they are large.

They are mapped from files without a name, which end with the process however that ends.  The kernel holds in memory
what is in use of them, and `release` gives that up: what a process has resident does not grow with its study.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ResultError
from evogt_study.storage.slabs import stretches

IN_MEMORY = 2**20
"""Bytes up to which an array is held in memory all the same."""
ROWS_AT_ONCE = 512
"""Rows that are set before memory is released."""
LENGTH_BYTES = 4
REMEMBERED = 4096
"""Words that are looked for among those that are kept already."""


def filled(shape: tuple[int, ...], dtype: npt.DTypeLike, fill: Any, beside: Path | None) -> npt.NDArray[Any]:
    """A new array with `fill` everywhere, if it is large in a file in the folder of the path `beside`, None: in memory.

    Raises ResultError where the disk has no room for it.
    """
    kind = np.dtype(dtype)
    if beside is None or math.prod(shape) * kind.itemsize <= IN_MEMORY:
        return np.full(shape, fill, dtype=kind)
    count, part = math.prod(shape), max(1, IN_MEMORY // kind.itemsize)
    with _room(beside), _nameless(beside) as file:
        block = np.full(part, fill, dtype=kind).tobytes()
        for stretch in stretches(count, part):  # written, not left out: a hole that finds the disk full ends a process
            file.write(block[: (stretch.stop - stretch.start) * kind.itemsize])
        file.flush()
        memory = mmap.mmap(file.fileno(), count * kind.itemsize)
    return np.frombuffer(memory, dtype=kind).reshape(shape)


def is_mapped(values: npt.NDArray[Any]) -> bool:
    """Whether the array, or that of which it is a view, is mapped from a file."""
    return _mapping(values) is not None


def release(*arrays: npt.NDArray[Any]) -> None:
    """Give up the memory that mapped arrays are held in; their values stay, and those in memory are left alone."""
    for values in arrays:
        mapping = _mapping(values)
        if mapping is not None:
            mapping.madvise(mmap.MADV_DONTNEED)


def put(array: npt.NDArray[Any], rows: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> None:
    """Set rows of an array; each may bring some of the file into memory, which is given up again and again."""
    for part in stretches(len(rows), ROWS_AT_ONCE):
        array[rows[part]] = values[part]
        release(array)


def _mapping(values: npt.NDArray[Any]) -> mmap.mmap | None:
    base: Any = values
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    return base if isinstance(base, mmap.mmap) else None


def _nameless(beside: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(prefix=f".{beside.name}.", dir=beside.parent)


@contextmanager
def _room(beside: Path) -> Iterator[None]:
    """Raise ResultError where the disk refuses."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ResultError(f"cannot write beside {beside} what is held of its runs meanwhile: {reason}") from None


class Words:
    """Words of any length, each told by a number; 0 is the empty word.

    They are in memory while they are few, then in a file without a name beside the path `beside`; None: never.
    """

    def __init__(self, beside: Path | None) -> None:
        self._beside = beside
        self._descriptor = -1
        self._text, self._start = bytearray(1), 0  # what is not in the file yet, and where that begins; no word is at 0
        self._numbers: dict[str, int] = {}

    def numbers(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """The words' numbers; those that are new are kept.  Raises ResultError where the disk has no room for them."""
        found = np.array([self._number(word) if word else 0 for word in words], dtype=np.int64)
        if self._beside is not None and len(self._text) > IN_MEMORY:
            self._move(self._beside)
        return found

    def _number(self, word: str) -> int:
        number = self._numbers.get(word)
        if number is None:
            if len(self._numbers) >= REMEMBERED:
                self._numbers.clear()
            number = self._numbers[word] = self._start + len(self._text)
            text = word.encode("utf-8", "surrogatepass")
            self._text += len(text).to_bytes(LENGTH_BYTES) + text
        return number

    def _move(self, beside: Path) -> None:
        """Move what is in memory to the file."""
        with _room(beside):
            if self._descriptor < 0:
                with _nameless(beside) as file:
                    self._descriptor = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._descriptor)
            with open(self._descriptor, "ab", closefd=False) as file:
                file.write(self._text)
        self._start += len(self._text)
        self._text.clear()

    def words(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
        """The words of an array of numbers, in its shape."""
        if not numbers.any():
            return np.full(numbers.shape, "", dtype=object)
        different, which = np.unique(numbers, return_inverse=True)
        found = np.array([self._word(number) for number in different.tolist()], dtype=object)
        return found[which.ravel()].reshape(numbers.shape)

    def _word(self, number: int) -> str:
        if number == 0:
            return ""
        start = number + LENGTH_BYTES
        length = int.from_bytes(self._read(number, LENGTH_BYTES))
        return self._read(start, length).decode("utf-8", "surrogatepass")

    def _read(self, start: int, count: int) -> bytes:
        if start < self._start:
            return os.pread(self._descriptor, count, start)
        return bytes(self._text[start - self._start : start - self._start + count])
