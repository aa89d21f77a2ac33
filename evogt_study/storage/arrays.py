"""Large arrays: slab by slab, packed in chunks, or computed once for all workers of a machine.

`slabs` splits an array into contiguous parts.  `Packed` holds the arrays of runs as they lie in a batch, a shard or a
result, each in pieces with a checksum.  `once` shares a computed array between workers.
"""

from __future__ import annotations

import itertools
import math
import os
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash
from filelock import FileLock
from isal import isal_zlib

from evogt_study.errors import ResultError
from evogt_study.storage.atomic import written_whole

Array = npt.NDArray[np.float64]
SLAB = 2**15
"""Largest number of values in a slab: 256 KiB of numbers, and some MB of Python strings."""
CHUNK_BYTES = 2**20
"""Bytes of a chunk of the result file: the cache of h5py holds one, and packing is fastest at this size."""
LARGE_BYTES = 2**16
"""Bytes of the array of one run above which the worker packs it, in chunks of its own."""
LEVEL, SAMPLE = 1, 4096
"""Level of compression, and bytes of a byte plane that show whether it can be compressed."""
LARGEST = 2**63 - 1
PIECE = np.dtype([("file", "<i4"), ("row", "<i4"), ("offset", "<i8"), ("size", "<i8"), ("checksum", "V16")])
"""Place of the bytes of a run: the number of the file, the row in a chunk of several runs, and the checksum."""
RAW, WHOLE = -2, -1
"""Rows of pieces that hold one run: its bytes as they are, or a chunk."""
OPEN_FILES = 16
SHARED_FOLDER = "EVOGT_SHARED_FOLDER"
"""Environment variable of workers: a folder that they share and that is removed with their cluster."""
LOOK_SECONDS = 0.02
"""Seconds between two attempts to take a lock.  A run timeout takes effect only between two attempts."""
_OPEN: deque[weakref.ref[File]] = deque()
_OPEN_LOCK = threading.RLock()  # reentrant: garbage may be collected while it is held


# the last dimensions are complete if possible, so that chunks of a file are long stretches of memory
def slab_shape(shape: tuple[int, ...], limit: int = SLAB) -> tuple[int, ...]:
    """Return the shape of the largest slabs of at most `limit` values that are contiguous in C order."""
    whole, lengths = 1, []
    for length in reversed(shape):
        lengths.append(max(1, min(length, limit // whole)))
        # once a dimension is cut, the dimensions before it have length 1: otherwise a slab would not be contiguous
        whole = limit if lengths[-1] < length else whole * max(1, length)
    return tuple(reversed(lengths))


def slabs(shape: tuple[int, ...], limit: int = SLAB) -> Iterator[tuple[slice, ...]]:
    """Yield slices that together contain each value of an array of this shape once, in C order."""
    if math.prod(shape) <= limit:
        yield tuple(slice(0, length) for length in shape)
        return
    along = [
        [slice(start, min(start + step, length)) for start in range(0, length, step)]
        for length, step in zip(shape, slab_shape(shape, limit), strict=True)
    ]
    yield from itertools.product(*along)


# without the folder, as in a cluster of the user, every worker computes: slower, with the same numbers
def once(name: str, compute: Callable[[], Array]) -> Array:
    """Return the array of `compute`, which only the first process computes under this name."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None or not os.path.isdir(folder):
        return compute()
    path = Path(folder) / f"{name}.npy"
    with FileLock(path.with_suffix(".lock"), poll_interval=LOOK_SECONDS):  # free again if its process dies
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        values = compute()
        with suppress(OSError), written_whole(path) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)  # if the disk is full, others compute again
        return values


# --- packed arrays ----------------------------------------------------------------------------------------------------


def checksum(*parts: Any) -> bytes:
    """Return the XXH3-128 hash of bytes."""
    made = xxhash.xxh3_128()
    for part in parts:
        made.update(part)
    return made.digest()


def pack(values: npt.NDArray[Any]) -> bytes:
    """Shuffle and deflate an array, as HDF5 reads it.

    Byte planes that do not deflate are stored, since Huffman codes that save nothing halve the speed of every reader.
    """
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    planes = np.ascontiguousarray(flat.reshape(-1, values.itemsize).T)
    size = planes.shape[1]
    middle = slice((size - SAMPLE) // 2, (size + SAMPLE) // 2)
    is_noise = [
        size >= 4 * SAMPLE and len(isal_zlib.compress(plane[middle], LEVEL)) > 0.95 * SAMPLE for plane in planes
    ]
    if not any(is_noise):
        return bytes(isal_zlib.compress(planes, LEVEL))
    parts: list[Any] = [b"\x78\x01"]
    for noise, group in itertools.groupby(range(len(planes)), is_noise.__getitem__):
        rows = list(group)
        stretch = planes[rows[0] : rows[-1] + 1].data.cast("B")
        if not noise:
            packer = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, -15)
            parts += [packer.compress(stretch), packer.flush(isal_zlib.Z_SYNC_FLUSH)]
        for part in (stretch[at : at + 65535] for at in range(0, len(stretch), 65535) if noise):
            parts += [struct.pack("<BHH", 0, len(part), len(part) ^ 0xFFFF), part]
    return b"".join([*parts, b"\x01\x00\x00\xff\xff", struct.pack(">I", isal_zlib.adler32(planes))])


def unpack(packed: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the array of packed bytes."""
    planes = np.frombuffer(isal_zlib.decompress(packed), np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).reshape(-1).view(dtype).reshape(shape)


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of chunks of at most `CHUNK_BYTES`, with the last dimensions complete if possible."""
    return slab_shape(tuple(max(1, length) for length in shape), max(1, CHUNK_BYTES // itemsize))


def chunk_starts(shape: tuple[int, ...], chunk: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return where the chunks of an array begin, in C order."""
    return list(itertools.product(*(range(0, length, step) for length, step in zip(shape, chunk, strict=True))))


def chunks_of(values: npt.NDArray[Any], chunk: tuple[int, ...], fill: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the chunks of an array; chunks at its end are filled up."""
    for start in chunk_starts(values.shape, chunk):
        part = values[tuple(slice(begin, begin + step) for begin, step in zip(start, chunk, strict=True))]
        if part.shape != chunk:
            whole = np.full(chunk, fill, values.dtype)
            whole[tuple(map(slice, part.shape))] = part
            part = whole
        yield part


class Memory:
    """Pieces in memory, as a worker sends them."""

    def __init__(self, content: npt.NDArray[np.uint8]) -> None:
        self.content = content

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the content."""
        return self.content[offset : offset + size].tobytes()


class File:
    """Pieces in a file.  Few files are open at the same time, so that a study may have any number of shards.

    held: number of runs of each chunk with several runs, by its offset.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.held = path, dict[int, int]()
        self._stream: BinaryIO | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file.  Raises ResultError if it cannot be read."""
        try:
            with _OPEN_LOCK:
                if self._stream is None:
                    self._stream = self.path.open("rb", buffering=0)
                    _OPEN.append(weakref.ref(self))
                while len(_OPEN) > OPEN_FILES:
                    first = _OPEN.popleft()()
                    if first is not None and first is not self:
                        first.close()
                return os.pread(self._stream.fileno(), size, offset)
        except OSError as error:
            raise ResultError(f"cannot read {self.path}: {error.strerror or error}") from None

    def close(self) -> None:
        """Close the file until it is read again."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def __del__(self) -> None:
        self.close()


Source = Memory | File


class Form(NamedTuple):
    """Type of the values and of the stored bytes, and the shape of chunks; None: arrays are stored as they are."""

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    chunk: tuple[int, ...] | None


@dataclass(eq=False)
class Packed:
    """Arrays of several runs as pieces; a row is the array of a run, which is read when it is used.

    form: index into `forms`, -1 for a run without the array.  pieces: one row for each run.  limits: least and largest
    value of integers.
    """

    forms: list[Form]
    form: npt.NDArray[np.int16]
    shapes: npt.NDArray[np.int64]
    pieces: npt.NDArray[Any]
    limits: npt.NDArray[np.int64]
    sources: list[Source]

    @staticmethod
    def empty(count: int, ndim: int) -> Packed:
        """Return `count` rows without arrays."""
        return Packed(
            [], np.full(count, -1, np.int16), np.zeros((count, ndim), np.int64), np.zeros((count, 1), PIECE),
            np.zeros((count, 2), np.int64), [],
        )  # fmt: skip

    @staticmethod
    def of(arrays: Sequence[npt.NDArray[Any]], *, share: bool = False) -> Packed:
        """Return the arrays, of one dtype: a large one packed in chunks.

        share: store equal arrays once.
        """
        if isinstance(arrays, np.ndarray) and arrays[0].nbytes <= LARGE_BYTES and not share:
            return Packed._of_small(arrays)
        made, dtype = Packed.empty(len(arrays), arrays[0].ndim), arrays[0].dtype
        stored, content, sent, end = stored_dtype(dtype), list[Any](), dict[bytes, tuple[Any, ...]](), 0
        found: list[list[tuple[Any, ...]]] = []
        for row, array in enumerate(arrays):
            values = np.ascontiguousarray(array, dtype.newbyteorder("<")).reshape(array.shape).view(stored)
            is_large = values.nbytes > LARGE_BYTES and not share
            chunk = chunk_shape(values.shape, stored.itemsize) if is_large else None
            own, blocks = [], [values.reshape(-1).view(np.uint8)]
            for block in map(pack, chunks_of(values, chunk, pad_of(stored))) if chunk else blocks:
                mark, size = checksum(block), len(block)
                if not share or mark not in sent:
                    content.append(np.frombuffer(block, np.uint8))
                    sent[mark] = (0, WHOLE if chunk else RAW, end, size, mark)
                    end += size
                own.append(sent[mark])
            found.append(own)
            made.form[row] = made.number_of(Form(dtype, stored, chunk))
            made.shapes[row] = values.shape
            if dtype.kind in "iu" and values.size:
                made.limits[row] = [min(int(each), LARGEST) for each in (values.min(), values.max())]
        longest = max(map(len, found))
        made.pieces = np.array([own + [(0, 0, 0, 0, b"")] * (longest - len(own)) for own in found], PIECE)
        made.sources = [Memory(np.concatenate(content) if content else np.zeros(0, np.uint8))]
        return made

    @staticmethod
    def _of_small(stack: npt.NDArray[Any]) -> Packed:
        """Return small arrays of one shape, as they are."""
        made, stored = Packed.empty(len(stack), stack.ndim - 1), stored_dtype(stack.dtype)
        values = np.ascontiguousarray(stack, stack.dtype.newbyteorder("<"))
        content = values.reshape(-1).view(np.uint8)
        size, made.form[:], made.shapes[:] = values[0].nbytes, 0, values.shape[1:]
        made.forms, made.sources = [Form(stack.dtype, stored, None)], [Memory(content)]
        if stack.dtype.kind in "iu" and values.size:
            rows = values.reshape(len(values), -1)
            limits = np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1)
            made.limits[:] = np.minimum(limits, LARGEST) if stack.dtype == np.uint64 else limits
        made.pieces["row"], made.pieces["size"] = RAW, size
        made.pieces["offset"][:, 0] = np.arange(len(stack)) * size
        marks = b"".join(
            xxhash.xxh3_128_digest(content[at : at + size].data) for at in made.pieces["offset"][:, 0].tolist()
        )
        made.pieces["checksum"][:, 0] = np.frombuffer(marks, "V16")
        return made

    def number_of(self, form: Form) -> int:
        """Return the index of a form, which is added if it is new."""
        if form not in self.forms:
            self.forms.append(form)
        return self.forms.index(form)

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """The runs that have an array."""
        return self.form >= 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's common type of the arrays."""
        return np.result_type(*sorted({self.forms[each].dtype for each in set(self.form.tolist()) - {-1}}, key=str))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and the longest array along each dimension."""
        shapes = self.shapes[self.present]
        return (len(self.form), *map(int, shapes.max(axis=0) if len(shapes) else self.shapes[:0].sum(axis=0)))

    @property
    def ndim(self) -> int:
        """Number of dimensions, the rows included."""
        return 1 + int(self.shapes.shape[1])

    @property
    def nbytes(self) -> int:
        """Stored bytes; a piece that runs share counts once."""
        return int(np.unique(self.pieces[self.present][["file", "offset", "size"]])["size"].sum())

    def __len__(self) -> int:
        return len(self.form)

    def __getitem__(self, rows: Any) -> Any:
        """Return some rows, by a slice, a mask or indices, unread, or values, like an array."""
        if not isinstance(rows, (slice, np.ndarray, list)):
            return np.asarray(self)[rows]
        return replace(
            self, form=self.form[rows], shapes=self.shapes[rows], pieces=self.pieces[rows], limits=self.limits[rows],
            forms=list(self.forms), sources=list(self.sources),
        )  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Read all arrays; shorter ones are padded."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        whole = np.full(self.shape, pad_of(kind), kind)
        for rows, values in self.arrays(np.flatnonzero(self.present)):
            place: Any = (rows, *map(slice, values.shape[1:]))
            whole[place] = values
        return whole

    def put(self, rows: npt.NDArray[np.intp], other: Packed) -> None:
        """Set rows to all rows of another object."""
        forms = np.array([*map(self.number_of, other.forms), -1], np.int16)
        numbers = []
        for source in other.sources:
            if source not in self.sources:
                self.sources.append(source)
            numbers.append(self.sources.index(source))
        longer = other.pieces.shape[1] - self.pieces.shape[1]
        if longer > 0:
            self.pieces = np.pad(self.pieces, ((0, 0), (0, longer)))
        pieces = other.pieces.copy()
        pieces["file"] = np.array(numbers, np.int32)[pieces["file"]]
        self.form[rows], self.shapes[rows], self.limits[rows] = forms[other.form], other.shapes, other.limits
        self.pieces[rows, : pieces.shape[1]] = pieces

    def content(self, piece: Any) -> bytes:
        """Return the stored bytes of a piece."""
        source = self.sources[int(piece["file"])]
        return source.read(int(piece["offset"]), int(piece["size"]))

    def count_of(self, row: int) -> int:
        """Return the number of pieces of a row."""
        chunk, shape = self.forms[self.form[row]].chunk, self.shapes[row].tolist()
        if chunk is None or self.pieces[row, 0]["row"] >= 0:
            return 1
        return int(math.prod(-(-length // step) for length, step in zip(shape, chunk, strict=True)))

    @staticmethod
    def joined(several: Sequence[Packed]) -> Packed:
        """Concatenate the rows."""
        starts = np.cumsum([0, *map(len, several)])
        made = Packed.empty(int(starts[-1]), several[0].ndim - 1)
        for start, packed in zip(starts, several, strict=False):
            made.put(np.arange(start, start + len(packed)), packed)
        return made

    def arrays(self, rows: npt.NDArray[np.intp]) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[Any]]]:
        """Yield the arrays of `rows`, which have one: runs of one shape that lie together are read at once."""
        first, shapes, form = self.pieces[rows, 0], self.shapes[rows], self.form[rows]
        begin, is_raw = first["offset"], first["row"] == RAW
        joined = (shapes[1:] == shapes[:-1]).all(axis=1) & (first["file"][1:] == first["file"][:-1])
        joined &= (form[1:] == form[:-1]) & (is_raw[1:] == is_raw[:-1]) & (first["row"][1:] != WHOLE)
        joined &= np.where(is_raw[1:], begin[1:] == (begin + first["size"])[:-1], begin[1:] == begin[:-1])
        for part in np.split(rows, np.flatnonzero(~joined) + 1) if len(rows) else ():
            step = max(1, CHUNK_BYTES // max(1, int(self.pieces["size"][part[0], 0]))) if is_raw.any() else len(part)
            for some in (part[at : at + step] for at in range(0, len(part), step)):
                yield some, self._read(some)

    def _read(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Read the arrays of rows that lie together."""
        first, shape = self.pieces[rows[0], 0], tuple(self.shapes[rows[0]].tolist())
        dtype, stored, chunk = self.forms[self.form[rows[0]]]
        if not math.prod(shape):
            return np.zeros((len(rows), *shape), dtype)
        file, offset, size = self.sources[first["file"]], int(first["offset"]), int(first["size"])
        if chunk is None:
            values = np.frombuffer(file.read(offset, size * len(rows)), stored).reshape(len(rows), *shape)
        elif first["row"] >= 0:
            slab = _slab(file, offset, size, stored, chunk)
            values = slab[(self.pieces["row"][rows, 0], *map(slice, shape))]
        else:
            values = np.empty((1, *shape), stored)
            for start, piece in zip(chunk_starts(shape, chunk), self.pieces[rows[0]], strict=False):
                place: Any = (0, *(slice(begin, begin + step) for begin, step in zip(start, chunk, strict=True)))
                part = values[place]
                part[...] = unpack(self.content(piece), stored, chunk)[tuple(map(slice, part.shape))]
        return values.astype(dtype, copy=False)


@lru_cache(maxsize=4)  # runs of a slab are used in turn
def _slab(file: Source, offset: int, size: int, stored: np.dtype[Any], chunk: tuple[int, ...]) -> npt.NDArray[Any]:
    return unpack(file.read(offset, size), stored, chunk)


def stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the stored bytes: booleans are bytes."""
    return np.dtype(np.int8) if dtype.kind == "b" else dtype.newbyteorder("<")


def pad_of(dtype: np.dtype[Any]) -> Any:
    """Return what fills a chunk up."""
    return {"f": np.nan, "S": b""}.get(dtype.kind, 0)
