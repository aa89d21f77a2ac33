"""Divide large arrays into slabs, pack the arrays of runs in pieces with checksums, and share arrays of a machine."""

from __future__ import annotations

import itertools
import math
import os
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash
from filelock import FileLock
from isal import isal_zlib

from evogt_study.errors import ResultError
from evogt_study.storage.files import checksum, write_atomically

Array = npt.NDArray[np.float64]
MAX_SLAB_VALUES = 2**15  # largest number of values in a slab: 256 KiB of numbers, or some MB of Python strings
CHUNK_BYTES = 2**20  # bytes of a chunk of a result: the cache of h5py holds one, and packing is fastest at this size
LARGE_BYTES = 2**16  # a worker packs a larger array of a run in separate chunks
DEFLATE_LEVEL, SAMPLE_BYTES, BLOCK_BYTES = 1, 4096, 64
"""Level of compression, size of the sample that detects noise in a byte plane, and size of a block, both in bytes."""
_MAX_INT64 = 2**63 - 1
PIECE = np.dtype([("file", "<i4"), ("row", "<i4"), ("offset", "<i8"), ("size", "<i8"), ("checksum", "V16")])
"""Dtype of a piece, with its file number, row in a chunk of several runs, offset, size and checksum."""
_DEFLATED, RAW, WHOLE = -3, -2, -1
"""Values of `row` for a piece of one run, which holds deflated bytes, unchanged bytes or a chunk."""
SHARED_FOLDER = "EVOGT_SHARED_FOLDER"
"""Environment variable with the folder that all workers of a cluster share.  It ends with the cluster."""


def choose_slab_shape(shape: tuple[int, ...], limit: int = MAX_SLAB_VALUES) -> tuple[int, ...]:
    """Return the shape of the largest slabs of at most `limit` values that are contiguous in C order."""
    whole, lengths = 1, []
    for length in reversed(shape):
        lengths.append(max(1, min(length, limit // whole)))
        # a contiguous slab has length 1 along all dimensions before a dimension that it divides
        whole = limit if lengths[-1] < length else whole * max(1, length)
    return tuple(reversed(lengths))


def iterate_slabs(shape: tuple[int, ...], limit: int = MAX_SLAB_VALUES) -> Iterator[tuple[slice, ...]]:
    """Yield slices that together contain each value of an array of this shape once, in C order."""
    steps = choose_slab_shape(shape, limit)
    for start in list_chunk_starts(shape, steps):
        yield tuple(slice(at, min(at + step, size)) for at, step, size in zip(start, steps, shape, strict=True))


# without the folder, as on a cluster of the user, each worker computes the same array
def load_or_compute(name: str, compute: Callable[[], Array]) -> Array:
    """Return the array of `compute`.  Only the first process that needs the array `name` computes it."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None or not os.path.isdir(folder):
        return compute()
    path = Path(folder) / f"{name}.npy"
    # the lock is free again if its process dies. A run timeout takes effect only between two attempts
    with FileLock(path.with_suffix(".lock"), poll_interval=0.02):
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        values = compute()
        with suppress(OSError), write_atomically(path) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)  # if the disk is full, other processes compute again
        return values


# --- packed arrays ----------------------------------------------------------------------------------------------------


def pack(values: npt.NDArray[Any]) -> bytes:
    """Shuffle and deflate an array for HDF5.  Noise in a byte plane is not deflated, so that readers are fast."""
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    planes = np.ascontiguousarray(flat.reshape(-1, values.itemsize).T).reshape(-1)
    size, whole = len(planes) // values.itemsize, len(planes) // BLOCK_BYTES * BLOCK_BYTES
    words = planes[:whole].view(np.uint64).reshape(-1, 8)
    varies, is_stored = words[:, 0] != words[:, 1], np.zeros(len(words), dtype=bool)
    for begin in range(0, len(planes), size) if size >= 4 * SAMPLE_BYTES else ():
        plane = slice(begin // BLOCK_BYTES, (begin + size) // BLOCK_BYTES)
        some = plane.start + np.flatnonzero(varies[plane])
        sample = words[some[max(0, len(some) - SAMPLE_BYTES // BLOCK_BYTES) // 2 :][: SAMPLE_BYTES // BLOCK_BYTES]]
        if sample.nbytes == SAMPLE_BYTES and len(isal_zlib.compress(sample, DEFLATE_LEVEL)) > 0.95 * SAMPLE_BYTES:
            is_stored[plane] = varies[plane]
    if not is_stored.any():
        return bytes(isal_zlib.compress(planes, DEFLATE_LEVEL))
    parts: list[Any] = [b"\x78\x01"]
    edges = [0, *((np.flatnonzero(np.diff(is_stored)) + 1) * BLOCK_BYTES).tolist(), len(planes)]
    for begin, end in itertools.pairwise(edges):
        content = planes[begin:end].data
        if not is_stored[begin // BLOCK_BYTES]:
            parts.append(_deflate_short(bytes(content)) if len(content) <= SAMPLE_BYTES else _deflate(content))
            continue
        for part in (content[at : at + 65535] for at in range(0, len(content), 65535)):
            parts += (struct.pack("<BHH", 0, len(part), len(part) ^ 0xFFFF), part)
    return b"".join([*parts, b"\x01\x00\x00\xff\xff", struct.pack(">I", isal_zlib.adler32(planes))])


def _deflate(content: Any) -> bytes:
    """Return `content` as part of a DEFLATE stream."""
    packer = isal_zlib.compressobj(DEFLATE_LEVEL, isal_zlib.DEFLATED, -15)
    return bytes(packer.compress(content) + packer.flush(isal_zlib.Z_SYNC_FLUSH))


_deflate_short = lru_cache(maxsize=1024)(_deflate)  # padded runs often end in equal bytes


def unpack(packed: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the array that `pack` has packed."""
    content = unpack_bytes(packed, math.prod(shape) * dtype.itemsize)
    planes = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).reshape(-1).view(dtype).reshape(shape)


def unpack_bytes(packed: bytes, max_size: int) -> bytes:
    """Return the content of deflated bytes.  Raises ValueError for damage, and for more than `max_size` bytes."""
    stream = isal_zlib.decompressobj()
    try:
        content = bytes(stream.decompress(packed, max_size + 1))
    except isal_zlib.error as error:  # type: ignore[misc]  # its stub declares an object
        raise ValueError(f"it cannot be unpacked ({error})") from None
    if len(content) > max_size or not stream.eof:
        raise ValueError(f"it must unpack to at most {max_size:,} bytes")
    return content


def choose_chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the shape of chunks of at most `CHUNK_BYTES`, with the last dimensions complete if possible."""
    return choose_slab_shape(tuple(max(1, length) for length in shape), max(1, CHUNK_BYTES // itemsize))


def list_chunk_starts(shape: tuple[int, ...], chunk: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the starts of the chunks of an array, in C order."""
    return list(itertools.product(*(range(0, length, step) for length, step in zip(shape, chunk, strict=True))))


def iterate_chunks(values: npt.NDArray[Any], chunk: tuple[int, ...], fill: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the chunks of an array.  Chunks at its end are padded with `fill`."""
    for start in list_chunk_starts(values.shape, chunk):
        part = values[tuple(slice(begin, begin + step) for begin, step in zip(start, chunk, strict=True))]
        if part.shape != chunk:
            whole = np.full(chunk, fill, values.dtype)
            whole[tuple(map(slice, part.shape))] = part
            part = whole
        yield part


class PieceBuffer:
    """Pieces in memory, as a worker sends them."""

    def __init__(self, content: npt.NDArray[np.uint8]) -> None:
        self.content = content

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes of the pieces, from the position `offset`."""
        return self.content[offset : offset + size].tobytes()


class PieceFile:
    """Pieces in a file.  `chunk_runs` maps the offset of each chunk of several runs to its number of runs."""

    def __init__(self, path: Path) -> None:
        self.path, self.chunk_runs = path, dict[int, int]()

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes of the file, from `offset`.  Raises ResultError if the file cannot be read."""
        try:
            return os.pread(_open(self).number, size, offset)
        except OSError as error:
            raise ResultError(f"cannot read {self.path}: {error.strerror or error}") from None


class _Descriptor:
    """Descriptor of an open file, which is closed when Python deletes this object."""

    def __init__(self, file: PieceFile) -> None:
        self.number = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self.number)


_open = lru_cache(maxsize=16)(_Descriptor)  # limit the open files for any number of shards


def close_files() -> None:
    """Close all files of pieces.  The next read of a piece opens its file again."""
    _open.cache_clear()
    _slab.cache_clear()


Source = PieceBuffer | PieceFile


class Form(NamedTuple):
    """Dtype of the values, dtype in the file, and shape of chunks, or None for arrays without chunks."""

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    chunk: tuple[int, ...] | None


@dataclass(eq=False)
class Packed:
    """Arrays of runs as pieces, with a run in each row.  `limits` has the range of integers."""

    forms: list[Form]
    form: npt.NDArray[np.int16]  # index into `forms`, or -1 for a run without the array
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
    def pack(arrays: Sequence[npt.NDArray[Any]], *, share: bool = False) -> Packed:
        """Return packed arrays of one dtype.  Large arrays are packed in chunks.  `share` stores equal arrays once."""
        dtype, made = arrays[0].dtype, Packed.empty(len(arrays), arrays[0].ndim)
        stored, is_text = to_file_dtype(dtype), dtype.kind == "U"
        if isinstance(arrays, np.ndarray) and arrays[0].nbytes <= LARGE_BYTES and not share and not is_text:
            stack = np.ascontiguousarray(arrays, dtype.newbyteorder("<"))
            content, size = stack.reshape(-1).view(np.uint8), stack[0].nbytes
            made.form[:], made.shapes[:] = made.add_form(Form(dtype, stored, None)), stack.shape[1:]
            if dtype.kind in "iu" and stack.size:
                each_run = stack.reshape(len(stack), -1)
                limits = np.stack([each_run.min(axis=1), each_run.max(axis=1)], axis=1)
                made.limits[:] = np.minimum(limits, _MAX_INT64) if dtype == np.uint64 else limits
            starts = np.arange(len(stack)) * size
            marks = b"".join(xxhash.xxh3_128_digest(content[at : at + size].data) for at in starts.tolist())
            made.pieces["row"], made.pieces["size"], made.pieces["offset"][:, 0] = RAW, size, starts
            made.pieces["checksum"][:, 0], made.sources = np.frombuffer(marks, "V16"), [PieceBuffer(content)]
            return made
        contents, sent, end = list[bytes](), dict[bytes, tuple[Any, ...]](), 0
        found: list[list[tuple[Any, ...]]] = []
        for row, array in enumerate(arrays):
            values = np.ascontiguousarray(array, dtype.newbyteorder("<")).reshape(array.shape).view(stored)
            is_large = values.nbytes > LARGE_BYTES and not share and not is_text
            chunk = choose_chunk_shape(values.shape, stored.itemsize) if is_large else None
            if chunk:
                blocks = [pack(block) for block in iterate_chunks(values, chunk, choose_padding(stored))]
            else:
                blocks = [bytes(isal_zlib.compress(values.tobytes(), DEFLATE_LEVEL)) if is_text else values.tobytes()]
            pieces = []
            for block in blocks:
                mark = checksum(block)
                if not share or mark not in sent:
                    sent[mark] = (0, WHOLE if chunk else _DEFLATED if is_text else RAW, end, len(block), mark)
                    contents.append(block)
                    end += len(block)
                pieces.append(sent[mark])
            found.append(pieces)
            made.form[row] = made.add_form(Form(dtype, stored, chunk))
            made.shapes[row] = values.shape
            if dtype.kind in "iu" and values.size:
                made.limits[row] = [min(int(each), _MAX_INT64) for each in (values.min(), values.max())]
        longest = max(map(len, found))
        made.pieces = np.array([own + [(0, 0, 0, 0, b"")] * (longest - len(own)) for own in found], PIECE)
        made.sources = [PieceBuffer(np.frombuffer(b"".join(contents), np.uint8))]
        return made

    def add_form(self, form: Form) -> int:
        """Return the index of a form in `forms`, and first add a form that is missing there."""
        if form not in self.forms:
            self.forms.append(form)
        return self.forms.index(form)

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Mask of the runs that have an array."""
        return self.form >= 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Common NumPy dtype of the arrays."""
        return np.result_type(*sorted({self.forms[each].dtype for each in set(self.form.tolist()) - {-1}}, key=str))

    def dtypes_of(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return the dtypes of the arrays of `rows`.  Strings have the dtype object."""
        return np.array([to_memory_dtype(form.dtype) for form in self.forms], object)[self.form[rows]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and the largest length along each dimension."""
        shapes = self.shapes[self.present]
        return (len(self.form), *map(int, shapes.max(axis=0) if len(shapes) else self.shapes[:0].sum(axis=0)))

    @property
    def nbytes(self) -> int:
        """Number of stored bytes.  A piece that runs share counts once."""
        return int(np.unique(self.pieces[self.present][["file", "offset", "size"]])["size"].sum())

    def __len__(self) -> int:
        return len(self.form)

    def __getitem__(self, rows: Any) -> Any:
        """Return unread rows for a slice, a mask or indices, and values for other keys."""
        if not isinstance(rows, (slice, np.ndarray, list)):
            return np.asarray(self)[rows]
        return replace(
            self, form=self.form[rows], shapes=self.shapes[rows], pieces=self.pieces[rows], limits=self.limits[rows],
            forms=list(self.forms), sources=list(self.sources),
        )  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return all arrays, padded to the largest lengths."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        return self.read_padded(np.arange(len(self)), self.shape[1:], kind, choose_padding(kind))

    def read_padded(
        self, rows: npt.NDArray[np.intp], lengths: tuple[int, ...], dtype: np.dtype[Any], blank: Any
    ) -> npt.NDArray[Any]:
        """Return the arrays of `rows`, padded with `blank` to `lengths`."""
        made, there = np.full((len(rows), *lengths), blank, dtype), np.flatnonzero(self.present[rows])
        self.read_into(made, there, rows[there])
        return made

    def read_into(self, made: npt.NDArray[Any], places: npt.NDArray[np.intp], rows: npt.NDArray[np.intp]) -> None:
        """Read the arrays of `rows` into `made` at increasing `places`.  Each row must have an array."""
        first, shapes, form = self.pieces[rows, 0], self.shapes[rows], self.form[rows]
        begin, is_raw = first["offset"], first["row"] == RAW
        joined = (shapes[1:] == shapes[:-1]).all(axis=1) & (first["file"][1:] == first["file"][:-1])
        joined &= (form[1:] == form[:-1]) & (is_raw[1:] == is_raw[:-1]) & ~np.isin(first["row"][1:], (WHOLE, _DEFLATED))
        joined &= np.where(is_raw[1:], begin[1:] == (begin + first["size"])[:-1], begin[1:] == begin[:-1])
        for part in np.split(np.arange(len(rows)), np.flatnonzero(~joined) + 1) if len(rows) else ():
            step = max(1, CHUNK_BYTES // max(1, int(first["size"][part[0]]))) if is_raw[part[0]] else len(part)
            for some in (part[at : at + step] for at in range(0, len(part), step)):
                values, own = self._read(rows[some]), places[some]
                # a slice is copied faster than indices
                into: Any = slice(own[0], own[-1] + 1) if own[-1] - own[0] == len(own) - 1 else own
                made[(into, *map(slice, values.shape[1:]))] = values

    def read_row(self, row: int) -> npt.NDArray[Any]:
        """Return the array of a row.  The row must have an array."""
        return np.asarray(self._read(np.array([row]))[0])

    def has_missing(self, lengths: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Return a mask of the values that the arrays lack after padding to `lengths`."""
        there = self.present.reshape(-1, *[1] * len(lengths))
        for axis, places in enumerate(np.indices(lengths, sparse=True)):
            there = there & (places < self.shapes[:, axis].reshape(-1, *[1] * len(lengths)))
        return ~np.broadcast_to(there, (len(self), *lengths))

    def replace_rows(self, rows: npt.NDArray[np.intp], other: Packed) -> None:
        """Replace `rows` by all rows of `other`."""
        forms = np.array([*map(self.add_form, other.forms), -1], np.int16)
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

    def read_piece(self, piece: Any) -> bytes:
        """Return the stored bytes of a piece."""
        source = self.sources[int(piece["file"])]
        return source.read(int(piece["offset"]), int(piece["size"]))

    def count_pieces(self, row: int) -> int:
        """Return the number of pieces of a row."""
        chunk, shape = self.forms[self.form[row]].chunk, self.shapes[row].tolist()
        if chunk is None or self.pieces[row, 0]["row"] >= 0:
            return 1
        return int(math.prod(-(-length // step) for length, step in zip(shape, chunk, strict=True)))

    def check(self, end: int) -> None:
        """Raise ValueError if pieces are outside of a file of `end` bytes, or if a form is not valid."""
        ndim, pieces, shapes = self.shapes.shape[1], self.pieces, self.shapes
        is_right: Any = len(shapes) == len(pieces) == len(self.limits) == len(self) and pieces.dtype == PIECE
        if is_right and pieces.ndim == 2 and pieces.shape[1] and len(self):
            inside = (pieces["file"] == 0) & (pieces["offset"] >= 0) & (pieces["size"] >= 0)
            inside &= (pieces["size"] <= end - pieces["offset"]) & (pieces["row"] >= _DEFLATED)
            is_right = inside.all() and shapes.min(initial=0) >= 0
            is_right &= -1 <= self.form.min() <= self.form.max() < len(self.forms)
        for number, (dtype, stored, chunk) in enumerate(self.forms if is_right else ()):
            own, lengths = pieces[self.form == number], shapes[self.form == number]
            rows, size = own["row"][:, 0], lengths.astype(float).prod(axis=1) * stored.itemsize
            is_right &= dtype.kind in "biufMmU" and stored.kind in "iufMmU"
            if chunk is None:
                is_right &= np.isin(rows, (RAW, _DEFLATED)).all() and (size == own["size"][:, 0])[rows == RAW].all()
                continue
            is_slab, step = len(chunk) > ndim, np.array(chunk[-ndim:])
            is_right &= len(chunk) == ndim + is_slab and min(chunk) > 0
            is_right &= math.prod(chunk) * stored.itemsize <= 2 * CHUNK_BYTES
            if is_right and is_slab:
                is_right = ((rows >= 0) & (rows < chunk[0])).all() and (lengths <= step).all()
            elif is_right:
                counts = np.ceil(lengths / step).prod(axis=1)
                is_right = (rows == WHOLE).all() and counts.max(initial=0) <= pieces.shape[1]
        if not is_right:
            raise ValueError("pieces are outside of the file, or have an unknown form")

    @staticmethod
    def join(several: Sequence[Packed]) -> Packed:
        """Return the rows of several objects as one object."""
        starts = np.cumsum([0, *map(len, several)])
        made = Packed.empty(int(starts[-1]), several[0].shapes.shape[1])
        for start, packed in zip(starts, several, strict=False):
            made.replace_rows(np.arange(start, start + len(packed)), packed)
        return made

    def _read(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return the arrays of rows that are contiguous in the file or share a piece."""
        first, shape = self.pieces[rows[0], 0], tuple(self.shapes[rows[0]].tolist())
        dtype, stored, chunk = self.forms[self.form[rows[0]]]
        if not math.prod(shape):
            return np.zeros((len(rows), *shape), dtype)
        file, offset, size = self.sources[first["file"]], int(first["offset"]), int(first["size"])
        if first["row"] == _DEFLATED:
            content = unpack_bytes(file.read(offset, size), math.prod(shape) * stored.itemsize)
            values = np.frombuffer(content, stored).reshape(1, *shape)
        elif chunk is None:
            values = np.frombuffer(file.read(offset, size * len(rows)), stored).reshape(len(rows), *shape)
        elif first["row"] >= 0:
            slab = _slab(file, offset, size, stored, chunk)
            values = slab[(self.pieces["row"][rows, 0], *map(slice, shape))]
        else:
            values = np.empty((1, *shape), stored)
            for start, piece in zip(list_chunk_starts(shape, chunk), self.pieces[rows[0]], strict=False):
                place: Any = (0, *(slice(begin, begin + step) for begin, step in zip(start, chunk, strict=True)))
                part = values[place]
                part[...] = unpack(self.read_piece(piece), stored, chunk)[tuple(map(slice, part.shape))]
        return values.astype(dtype, copy=False)


@lru_cache(maxsize=4)  # runs of a slab are used in turn
def _slab(file: Source, offset: int, size: int, stored: np.dtype[Any], chunk: tuple[int, ...]) -> npt.NDArray[Any]:
    return unpack(file.read(offset, size), stored, chunk)


def to_file_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of values in a file, where booleans have the dtype int8."""
    return np.dtype(np.int8) if dtype.kind == "b" else dtype.newbyteorder("<")


def to_memory_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of values in memory, where strings have the dtype object."""
    return np.dtype(object) if dtype.kind == "U" else dtype


def choose_padding(dtype: np.dtype[Any]) -> Any:
    """Return the value that pads arrays of this dtype, such as NaN, NaT, an empty string or 0."""
    if dtype.kind in "Mm":
        return np.array("NaT", dtype)[()]
    return {"f": np.nan, "S": b"", "U": "", "O": ""}.get(dtype.kind, 0)
