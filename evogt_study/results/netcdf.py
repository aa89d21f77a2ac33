"""Write and read the result file and its run metadata.  HDF5 is not thread-safe, so every access holds `HDF5_LOCK`."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray
from xarray.coding.variables import lazy_elemwise_func  # type: ignore[attr-defined]
from xarray.core import indexing

from evogt_study.errors import DamagedResultError, ResultError, shorten
from evogt_study.results import index
from evogt_study.results.index import DIGESTS, UNREADABLE
from evogt_study.results.provenance import RunSummary
from evogt_study.schema import variables as schema
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import EARLIER_PHASES, MAIN, RETURNED_DTYPE, Status, find_group_name, to_status
from evogt_study.storage import arrays
from evogt_study.storage.arrays import Form, PieceFile, pack
from evogt_study.storage.files import checksum, description_path, make_folder, resolve_link, write_atomically
from evogt_study.storage.hdf5 import HDF5_LOCK, Group, NetCDFFile

if TYPE_CHECKING:
    from evogt_study.results.table import RunColumn, RunTable

CHUNK_CACHE_BYTES = 2**22  # bytes of the cache of HDF5 for each variable: at least one slab; by default 64 MiB
MAX_LOADED_BYTES = 10**9  # bytes of a result up to which it is returned in memory
PLAIN_BYTES = 2**14  # bytes of a variable up to which it is neither chunked nor compressed
RECORDED_COORDINATES = "recorded_coordinates"  # global attribute: names of the coordinates that runs returned
RETURNED_ATTRIBUTES = "returned_attributes"  # global attribute: names of attributes of returned Datasets, as JSON
CONCATENATED = "concatenated_from"  # global attribute of a joined result: the global attributes of its parts, as JSON
OWN_ATTRIBUTES = (
    DIGESTS, RECORDED_COORDINATES, RETURNED_ATTRIBUTES, CONCATENATED, "merged_from",
    *(f"{phase}_group" for phase in EARLIER_PHASES),
)  # fmt: skip
"""Names of global attributes that a result has in addition to `dataset.make_global_attributes`."""
RESULT_SCHEMA = "result_schema"  # global attribute: version of the result schema, MAJOR.MINOR
SCHEMA_VERSION = "2.0"  # of new results; later minor versions, which only add parts, are read too
SOFTWARE_SETS = "software_sets"  # attribute of `run_software`, which is an index into these version sets, as JSON


def write_result(
    path: Path, phases: Mapping[str, xr.Dataset], tables: Mapping[str, RunTable] | None = None,
    summary: RunSummary | None = None,
) -> None:  # fmt: skip
    """Write a result file with the records of `tables` in its index.  Raises ResultError if the disk is full."""
    earlier = {name: data for name, data in phases.items() if name != MAIN}
    phases[MAIN].attrs |= {f"{name}_group": find_group_name(name) for name in earlier}
    try:
        make_folder(path.parent)
        with HDF5_LOCK, write_atomically(path) as temporary:
            try:
                target, file = PieceFile(path), NetCDFFile(temporary)
                made = {name: _GroupWriter(file, target, name) for name in (MAIN, *earlier)}
                try:
                    for name, writer in made.items():
                        writer.write(phases[name])
                finally:
                    file.close()
                records, axes = dict[str, RunRecords](), dict[str, Any]()
                for phase, table in (tables or {}).items():
                    records[phase], cases = table.records({**table.columns, **made[phase].columns})
                    labels = {str(dim): phases[phase][dim].values for dim in phases[phase]["run_status"].dims}
                    is_shared = len(cases) < np.count_nonzero(table.is_run)
                    axes[phase] = {"cases": cases, "labels": labels, "shared": is_shared}
                places = [place for writer in made.values() for place in writer.places]
                with temporary.open("r+b") as stream:
                    index.append_index(stream, target, index.Index(records, axes, places, summary=summary))
            except OSError as error:  # before the file that the disk refused is removed
                free = shutil.disk_usage(path.parent).free
                raise OSError(error.errno, f"{error.strerror or error}, {free:,} bytes are free there") from None
    except OSError as error:
        reason = error.strerror or error
        raise ResultError(f"cannot write {path}: {reason}. Free disk space, or choose another output file.") from None


Chunk = tuple[tuple[int, ...], bytes, bytes, Any]
"""Start, content and checksum (or b"") of a chunk.  Chunks of runs also have their cases, piece number and rows."""


class _GroupWriter(Group):
    """Writer of the runs of one phase.  `target` is the file under its final name."""

    def __init__(self, file: NetCDFFile, target: PieceFile, phase: str) -> None:
        super().__init__(file, find_group_name(phase))
        self.target, self.phase = target, phase
        self.columns: dict[str, RunColumn] = {}  # those whose arrays are in the file
        self.places: list[tuple[str, int, int, bytes]] = []  # other variables, as in `Index`
        self.digests = dict[str, str]()  # see `hash_variable`

    def write(self, data: xr.Dataset) -> None:
        """Write all variables and attributes, first the coordinates of dimensions."""
        dims, coords = set(data.dims), set(data.coords)
        beside = {name: set(data.variables[name].dims) for name in sorted(map(str, coords - dims))}
        for name in sorted(map(str, data.variables), key=lambda name: (name not in dims, name not in coords)):
            variable = data.variables[name]
            lazy = variable._data if variable.size else None
            runs = lazy.array if isinstance(lazy, indexing.LazilyIndexedArray) else None
            if not isinstance(runs, RunArray) or any(key != slice(None) for key in lazy.key.tuple):
                runs = None  # or the variable was changed since it was made
            if variable.dtype.kind in "Mm":  # integers in the largest unit that holds them exactly
                values, kind = variable.values.view(np.int64), variable.dtype.name
                known = values[values != NOT_A_TIME]
                units = next(unit for unit, length in _TIME_UNITS.items() if not (known % length).any())
                cf = {"units": units + SINCE_EPOCH, "calendar": "proleptic_gregorian"}
                cf = cf if variable.dtype.kind == "M" else {"units": units, "dtype": kind}
                numbers = np.where(values == NOT_A_TIME, NOT_A_TIME, values // _TIME_UNITS[units])
                encoding = {"_FillValue": np.int64(NOT_A_TIME)} if known.size < values.size else {}
                variable = xr.Variable(variable.dims, numbers, {**variable.attrs, RETURNED_DTYPE: kind, **cf}, encoding)
            dtype, attributes = np.dtype(variable.encoding.get("dtype", variable.dtype)), dict(variable.attrs)
            # the type that a run returned if NetCDF lacks it
            if variable.dtype == np.float16 or (variable.dtype.kind == "O" and dtype.kind in "iu"):
                attributes[RETURNED_DTYPE] = variable.dtype.name
            if dtype.kind == "b":
                dtype, attributes["dtype"] = np.dtype(np.int8), "bool"
            elif dtype == np.float16:
                dtype = np.dtype(np.float32)
            fill = variable.encoding.get("_FillValue", np.nan if dtype.kind == "f" and name not in dims else None)
            if fill is not None:
                attributes["_FillValue"] = dtype.type(fill)
            named = [other for other, own in beside.items() if name not in coords and own <= set(variable.dims)]
            if named:
                attributes["coordinates"] = " ".join(named)
            if runs is not None:
                self.write_runs(name, variable, dtype, attributes, runs)
            else:
                self.write_values(name, variable, dtype, attributes)
        self.file.set_attributes(self.group, {**data.attrs, DIGESTS: json.dumps(self.digests)})
        self.close()

    def write_values(self, name: str, variable: xr.Variable, dtype: np.dtype[Any], attributes: dict[str, Any]) -> None:
        """Write a variable from memory, another file or Dask.  Small strings are padded to one width."""
        fill, sizes, stored, width = (
            attributes.get("_FillValue"),
            dict[Any, int](variable.sizes),
            dtype,
            tuple[int, ...](),
        )
        if dtype.kind in "OUS":
            parts = (np.asarray(variable[slab].values) for slab in arrays.iterate_slabs(variable.shape))
            width = (max((_encode_strings(part).dtype.itemsize for part in parts), default=1),)
            if variable.size * width[0] > index.MAX_WHOLE_BYTES:  # xarray would read too much in one piece
                # strings of any length, which HDF5 does not compress. A null would end a string
                texts = _encode_strings(np.asarray(variable.values)).ravel().tolist()
                content = np.array([*(text.replace(b"\0", b"") for text in texts), None], object)[:-1]
                kind = self.file.h5py.string_dtype()
                self.add_variable(name, sizes, kind, attributes, content=content.reshape(variable.shape))
                return
            dtype, stored, sizes[f"string{width[0]}"] = np.dtype(f"S{width[0]}"), np.dtype("S1"), width[0]
            attributes["_Encoding"] = "utf-8"
        if variable.size * dtype.itemsize <= PLAIN_BYTES or not variable.ndim:
            content = _to_stored(dtype, fill, np.asarray(variable.values))
            found = self.add_variable(name, sizes, stored, attributes, content=content)
        else:
            chunk = arrays.choose_chunk_shape(variable.shape, dtype.itemsize)
            blank = arrays.choose_padding(dtype) if fill is None else fill

            def chunks() -> Iterator[Chunk]:
                for start in arrays.list_chunk_starts(variable.shape, chunk):
                    part = variable[tuple(slice(at, at + step) for at, step in zip(start, chunk, strict=True))]
                    stored_part = _to_stored(dtype, fill, np.asarray(part.values))
                    (block,) = arrays.iterate_chunks(stored_part, (*chunk, *width), blank)
                    yield (*start, *(0 for _ in width)), pack(block), b"", None

            found = self.add_variable(name, sizes, stored, attributes, chunk=(*chunk, *width), chunks=chunks())
        self.places += [(f"{self.phase}: `{name}`", offset, size, mark) for _, mark, offset, size in found]

    def add_variable(
        self, name: str, sizes: dict[Any, int], dtype: np.dtype[Any], attributes: dict[str, Any], *,
        content: npt.NDArray[Any] | None = None, chunk: tuple[int, ...] | None = None, chunks: Iterable[Chunk] = (),
    ) -> list[tuple[Any, bytes, int, int]]:  # fmt: skip
        """Add a variable.  Return the cases, the checksum, the offset and the size of each piece."""
        made = self.create_variable(name, sizes, dtype, attributes, chunk=chunk, content=content)
        found: dict[tuple[int, ...], tuple[Any, bytes]] = {}
        places: list[tuple[Any, bytes, int, int]] = []
        if content is not None and content.size:
            is_text = dtype.hasobject
            found[()] = None, checksum(*(content.ravel() if is_text else [np.ascontiguousarray(content).data]))
            places = [] if is_text else [(*found[()], made.get_offset(), made.get_storage_size())]
        for start, packed, mark, cases in chunks:
            made.write_direct_chunk(start, packed)
            self.file.check()
            found[start] = cases, mark or checksum(packed)
        if chunk is not None:
            made.chunk_iter(lambda info: places.append((*found[info.chunk_offset], info.byte_offset, info.size)))
        marks = [(start, mark) for start, (_, mark) in found.items()]
        self.digests[name] = index.hash_variable(tuple(sizes.values()), dtype, attributes, marks)
        return places

    def write_runs(
        self, name: str, variable: xr.Variable, dtype: np.dtype[Any], attributes: dict[str, Any], runs: RunArray
    ) -> None:
        """Write the arrays of runs.  A large array has its own chunks, and several small arrays share a chunk."""
        data, axes, own = runs.column.data, len(runs.space), None
        full, size = arrays.choose_chunk_shape(runs.shape, dtype.itemsize), math.prod(runs.lengths) * dtype.itemsize
        largest = data.shapes.prod(axis=1)[data.present].max(initial=0) * dtype.itemsize
        if largest > arrays.LARGE_BYTES or size > arrays.CHUNK_BYTES:  # most runs keep the chunks that they have
            numbers = data.form[data.pieces["row"][:, 0] == arrays.WHOLE].tolist()
            forms = [data.forms[number] for number, _ in Counter(numbers).most_common()]
            chunks_of_runs = [form.chunk for form in forms if form.chunk and form.stored == dtype]
            fitting = (chunk for chunk in chunks_of_runs if (np.array(chunk) <= runs.lengths).all())
            own = next(fitting, arrays.choose_chunk_shape(runs.lengths, dtype.itemsize))
        chunk = (*(1,) * axes, *own) if own else full
        form = Form(dtype, dtype, own or (math.prod(full[:axes]), *full[axes:]))
        blank = attributes.get("_FillValue", arrays.choose_padding(dtype))
        chunks = _chunks_of_runs(runs, dtype, chunk, form, blank)
        found = self.add_variable(name, dict(variable.sizes), dtype, attributes, chunk=chunk, chunks=chunks)
        pieces = np.zeros((len(data), 1 + max((number for (_, number, _), *_ in found), default=0)), arrays.PIECE)
        for (cases, number, rows), mark, offset, size in found:
            for key, value in {"row": rows, "offset": offset, "size": size, "checksum": np.void(mark)}.items():
                pieces[key][cases, number] = value
        forms = [form._replace(dtype=each.dtype) for each in data.forms]
        written = replace(data[:], forms=forms, pieces=pieces, sources=[self.target])
        self.columns[name] = runs.column = replace(runs.column, data=written)


class RunArray(BackendArray):
    """Arrays of all runs over the axes of the study, padded to `lengths` and read on access."""

    def __init__(
        self, column: RunColumn, space: tuple[int, ...], lengths: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.column, self.space, self.lengths, self.dtype = column, space, lengths, dtype
        self.shape = (*space, *lengths)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        axes = len(self.space)
        cases = np.arange(math.prod(self.space)).reshape(self.space)[key[:axes]]
        made = np.empty((cases.size, *np.broadcast_to(0, self.lengths)[key[axes:]].shape), self.dtype)
        step = max(1, arrays.CHUNK_BYTES // max(1, math.prod(self.lengths) * self.dtype.itemsize))
        for some in (slice(start, start + step) for start in range(0, cases.size, step)):
            blank = np.nan if self.dtype.kind in "fO" else 0
            whole = self.column.data.read_padded(cases.ravel()[some], self.lengths, self.dtype, blank)
            made[some] = whole[(slice(None), *key[axes:])]
        return made.reshape(*cases.shape, *made.shape[1:])


def _chunks_of_runs(
    runs: RunArray, dtype: np.dtype[Any], chunk: tuple[int, ...], form: Form, blank: Any
) -> Iterator[Chunk]:
    """Yield chunks with a part of one large array or with several small arrays.  Packed chunks are copied."""
    data, axes = runs.column.data, len(runs.space)
    lead, tail, is_large = chunk[:axes], chunk[axes:], len(form.chunk or ()) == len(runs.lengths)
    numbers, zeros = np.arange(math.prod(runs.space)).reshape(runs.space), [(0,) * len(runs.lengths)]
    slab = np.empty(form.chunk or (), dtype)  # used for all chunks: the system clears new memory each time
    for start in arrays.list_chunk_starts(runs.space, lead):
        block = numbers[tuple(slice(at, at + step) for at, step in zip(start, lead, strict=True))]
        rows = np.ravel_multi_index(np.indices(block.shape), lead).ravel() if axes else np.zeros(1, np.intp)
        there = data.present[block.ravel()]
        cases, rows = block.ravel()[there], rows[there]
        if not len(cases):
            continue
        first, pieces = cases[0], data.pieces[cases, 0]
        is_full = len(cases) == math.prod(lead) and (data.shapes[cases] == runs.lengths).all()
        places = arrays.list_chunk_starts(tuple(data.shapes[first].tolist()), tail) if is_large else zeros
        is_same = (pieces[["file", "offset"]] == pieces[["file", "offset"]][0]).all()
        is_same &= (pieces["row"] == (arrays.WHOLE if is_large else rows)).all()
        # missing integers have the fill value of this file, which the old one may not have
        is_same &= data.forms[data.form[first]][1:] == form[1:] and (is_full or dtype.kind == "f")
        source = data.sources[pieces["file"][0]]
        n_runs = source.chunk_runs.get(int(pieces["offset"][0])) if isinstance(source, PieceFile) else None
        if is_same and (is_large or n_runs == len(cases)):
            known = data.pieces[first, : len(places)]
            contents = [(data.read_piece(each), each["checksum"].tobytes()) for each in known]
        elif is_large:
            parts = arrays.iterate_chunks(data.read_row(first).astype(dtype), tail, blank)
            contents = [(pack(part), b"") for part in parts]
        else:
            if not is_full:
                slab[...] = blank
            data.read_into(slab, rows, cases)
            contents = [(pack(slab), b"")]
        for number, (place, (content, mark)) in enumerate(zip(places, contents, strict=True)):
            yield (*start, *place), content, mark, (cases, number, arrays.WHOLE if is_large else rows)


def _encode_strings(words: npt.NDArray[Any]) -> npt.NDArray[np.bytes_]:
    """Return strings as bytes in UTF-8."""
    if words.dtype.kind == "S":
        return words
    return np.array([*(word.encode() for word in words.ravel().tolist()), b""], np.bytes_)[:-1].reshape(words.shape)


def _to_stored(dtype: np.dtype[Any], fill: Any, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in the dtype of the file.  Strings become arrays of characters."""
    if dtype.kind == "S":
        words = np.ascontiguousarray(_encode_strings(values).astype(dtype))
        return words[..., None].view("S1").reshape(*values.shape, dtype.itemsize)
    if values.dtype.kind in "fO" and dtype.kind in "iu":
        return np.where(values != values, fill, values).astype(dtype)
    return values.astype(dtype)


_TIME_UNITS = {"days": 86_400 * 10**9, "seconds": 10**9, "milliseconds": 10**6, "microseconds": 1000, "nanoseconds": 1}
"""Units of dates and durations in a file, in nanoseconds."""
SINCE_EPOCH = " since 1970-01-01"
NOT_A_TIME = np.iinfo(np.int64).min  # fill value of dates and durations, and the integer in NumPy's NaT


def _decode_variable(variable: xr.Variable) -> xr.Variable:
    attributes, encoding = dict(variable.attrs), dict(variable.encoding)
    fill, name = attributes.pop("_FillValue", None), attributes.pop(RETURNED_DTYPE, None)
    dtype, length = variable.dtype, 1
    if fill is not None:
        encoding["_FillValue"] = fill
    if name in ("datetime64[ns]", "timedelta64[ns]"):
        length = _TIME_UNITS.get(str(attributes.pop("units", "")).removesuffix(SINCE_EPOCH), 1)
        attributes = {key: value for key, value in attributes.items() if key not in ("calendar", "dtype")}
        dtype, encoding = np.dtype(name), {}
    elif name == "float16":
        dtype, fill = np.dtype(name), None
    elif fill is not None and variable.dtype.kind in "iu":
        encoding["dtype"] = variable.dtype
        dtype = np.dtype(object if name == "object" else float)
    else:
        return xr.Variable(variable.dims, variable._data, attributes, encoding, fastpath=True)
    data = lazy_elemwise_func(variable._data, partial(_restore_values, dtype, fill, length), dtype)
    return xr.Variable(variable.dims, data, attributes, encoding, fastpath=True)


def _restore_values(dtype: np.dtype[Any], fill: Any, length: int, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return stored numbers as `dtype`.  Dates have units of `length` nanoseconds.  NaN replaces the fill value."""
    if dtype.kind in "Mm":
        return np.where(stored == NOT_A_TIME, NOT_A_TIME, stored.astype(np.int64) * length).view(dtype)
    made = np.asarray(stored).astype(dtype)
    return made if fill is None else np.where(stored == fill, np.array(np.nan, dtype), made)


def read_result(path: Path) -> dict[str, xr.Dataset]:
    """Return the runs of each phase in memory.  Raises ResultError if the file is no result."""
    with open_phases(path) as groups:
        return {phase: load_result(path, data) for phase, data in groups.items()}


@contextmanager
def open_phases(path: Path) -> Iterator[dict[str, xr.Dataset]]:
    """Open the runs of each phase.  Values are read on access.  Raises ResultError for a damaged value."""
    # locked until it is closed: if a file is open twice, the first close frees memory that HDF5 needs for strings of
    # variable length (netcdf4-python issue 1444)
    with HDF5_LOCK, ExitStack() as open_:
        groups = {MAIN: open_.enter_context(_open(path, None, cache=False))}  # without a cache, memory does not grow
        for name in EARLIER_PHASES:
            if groups[MAIN].attrs.get(f"{name}_group") == find_group_name(name):
                groups[name] = open_.enter_context(_open(path, find_group_name(name), cache=False))
        try:
            yield groups
        except (RuntimeError, UnicodeDecodeError, MemoryError) as error:
            # only its text marks a RuntimeError of the library
            if isinstance(error, RuntimeError) and not str(error).startswith("NetCDF:"):
                raise
            raise index.explain_unreadable(path, error) from None


@contextmanager
def _lock_for_reading(path: Path) -> Iterator[None]:
    """Hold the lock of HDF5.  Raise ResultError if the file at `path` cannot be read."""
    try:
        with HDF5_LOCK:
            yield
    except UNREADABLE as error:
        raise index.explain_unreadable(path, error) from None


def _open(path: Path, group: str | None, chunks: Any = None, *, cache: bool = True) -> xr.Dataset:
    """Open a group of a file.  Values are read on access.  `cache` keeps the values and reads strings at once."""
    # as stored: xarray would read a number with units of time as a date
    options: dict[str, Any] = {"engine": "netcdf4", "group": group, "mask_and_scale": False, "decode_times": False}
    with _lock_for_reading(path), ExitStack() as failed:
        resolve_link(path)  # it refuses pipes, which opening would wait for
        index.check_sizes(path)
        before = netCDF4.get_chunk_cache()  # of the whole process, so it is restored for other files of the user
        netCDF4.set_chunk_cache(CHUNK_CACHE_BYTES)
        try:
            stored = xr.open_dataset(path.absolute(), cache=cache, **options)
            variables, coords, attributes = dict(stored.variables), list(stored.coords), stored.attrs
            if chunks is not None:  # Dask cannot divide strings
                texts = [name for name, each in variables.items() if each.dtype.kind in "OSU"]
                known = {name: variables[name].load() for name in texts}
                stored.close()
                stored = xr.open_dataset(path.absolute(), chunks=chunks, drop_variables=map(str, texts), **options)
                variables |= {**stored.variables, **known}
        finally:
            netCDF4.set_chunk_cache(*before)
        failed.callback(stored.close)
        made = {name: _decode_variable(variable) for name, variable in variables.items()}
        data = xr.Dataset(made, attrs=attributes).set_coords(coords)
        data.set_close(stored.close)
        if chunks is None and cache:
            _load(data)
        check_result(path, data)
        failed.pop_all()
    return data


def load_result(path: Path, data: xr.Dataset) -> xr.Dataset:
    """Read `data` of the open file `path` into memory.  Raises ResultError for damage."""
    with _lock_for_reading(path):
        return data.load()


def load_numbers(data: xr.Dataset) -> xr.Dataset:
    """Return the runs with all variables in memory except arrays, which each access reads from the file again."""
    data = data.copy(deep=False)
    _load(data, frozenset(data["run_status"].dims))
    return data


def _load(data: xr.Dataset, axes: frozenset[Hashable] | None = None) -> None:
    """Load variables without dimensions outside of `axes`, and strings, which xarray cannot transpose in a file."""
    with HDF5_LOCK:
        for variable in data.variables.values():
            if variable.dtype.kind in "USO" or (axes is not None and set(variable.dims) <= axes):
                variable.load()


def open_result(path: Path, phase: str = MAIN, chunks: Any = None) -> xr.Dataset:
    """Open the runs of one phase.  Values are read on access.  `chunks` is as in `xarray.open_dataset`."""
    try:
        return _open(path, find_group_name(phase), chunks)
    except ResultError:
        if phase == MAIN or not path.exists() or phase in read_result(path):
            raise
        raise ResultError(f"{path} must have {phase} runs, got a result without them") from None


def open_written(path: Path) -> xr.Dataset:
    """Return a result in memory, or open it if its size exceeds `MAX_LOADED_BYTES`."""
    data = open_result(path)
    if data.nbytes > MAX_LOADED_BYTES:
        return data
    with data:
        return load_result(path, data)


def read_finished_so_far(path: Path, variables: Sequence[str] | None = None) -> Mapping[str, xr.Dataset] | None:
    """Return the finished runs of an unfinished result by phase, or None if the result has no shards."""
    if not description_path(path).exists():
        return None
    # imported here: it reads the study, which takes 0.3 s and which a finished result does not need
    from evogt_study.results.finished import read_partial_result

    return read_partial_result(path, variables)


def open_partial_result(
    path: Path, variables: Sequence[str] | None = None
) -> AbstractContextManager[Mapping[str, xr.Dataset]]:
    """Open a result as `open_phases` does, or the runs of `read_finished_so_far` if the result is not finished."""
    found = read_finished_so_far(path, variables)
    return open_phases(path) if found is None else nullcontext(found)


# --- run metadata -----------------------------------------------------------------------------------------------------


def list_returned_coordinates(data: xr.Dataset) -> list[str]:
    """Return the names of the coordinates that the runs of a result returned."""
    return str(data.attrs.get(RECORDED_COORDINATES, "")).split()


def read_returned_attributes(data: xr.Dataset) -> dict[str, str]:
    """Return a mapping from attributes of returned Datasets to their names in the result."""
    return {str(name): str(place) for name, place in json.loads(data.attrs.get(RETURNED_ATTRIBUTES, "{}")).items()}


def select_metadata(data: xr.Dataset, variables: Sequence[str] = ()) -> xr.Dataset:
    """Return the run metadata of a result and the given variables that the result has."""
    return data[[name for name in (*schema.RUN_METADATA, *variables) if name in data]]


def with_status_names(data: xr.Dataset) -> xr.Dataset:
    """Return a result as users see it, with statuses as strings and run keys as coordinates.

    Statistics recognise equal runs by their run keys.  The checksums are removed, because they hold for one file only.
    """
    status = data["run_status"].variable
    codes = to_status(status)
    attributes = {key: value for key, value in status.attrs.items() if key not in schema.STATUS_FLAGS}
    found = data.assign(run_status=xr.Variable(status.dims, schema.STATUS_NAMES[codes], attributes))
    found.attrs = {key: value for key, value in data.attrs.items() if key != DIGESTS}
    found = found.set_coords("run_key")
    found.set_close(data.close)  # xarray loses it; a file closed by the garbage collector can end the process
    return found


def with_status_codes(data: xr.Dataset) -> xr.Dataset:
    """Return a result as a file stores it, with the status of each run as an integer."""
    status = data["run_status"].variable
    if status.dtype.kind not in "OUS":
        return data
    return data.assign(run_status=(status.dims, to_status(status), {**status.attrs, **schema.STATUS_FLAGS}))


def read_software_sets(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return the sets of software versions that computed the runs of a result."""
    return list(json.loads(data["run_software"].attrs[SOFTWARE_SETS]))


def lacks_parts(data: xr.Dataset) -> bool:
    """Return True if a part of a result is missing in a group of a file."""
    lacks = {*schema.RUN_METADATA} - {schema.OUTPUT} - {*data.variables} or {"study", RESULT_SCHEMA} - {*data.attrs}
    return bool(lacks) or SOFTWARE_SETS not in data["run_software"].attrs


def check_result(path: Path, data: xr.Dataset) -> None:
    """Raise ResultError if an open group is not part of a result, or has invalid run metadata."""
    version = str(data.attrs.get(RESULT_SCHEMA, SCHEMA_VERSION))
    if not re.fullmatch(r"2\.\d+", version):
        raise ResultError(
            f"{path} is a result of schema {shorten(version)}, but this evogt-study reads {SCHEMA_VERSION} and later "
            "2.x. Read the result with the version that wrote it"
        )
    if lacks_parts(data):
        raise ResultError(f"{path} is not a result of this package")
    for damage in find_invalid_metadata(data):
        raise DamagedResultError(f"{path} is damaged: {damage}")


# readers use these values as indices: a value out of range would raise an error there, or point to another run
def find_invalid_metadata(data: xr.Dataset) -> Iterator[str]:
    """Yield one line for each invalid value in the run metadata of a complete group."""
    status, software = to_status(data["run_status"]), data["run_software"].values
    known = np.isin(status, [int(each) for each in Status])
    if not known.all():
        yield f"`run_status` must be one of {', '.join(map(str, map(int, Status)))}, got {status[~known].flat[0]}"
    try:
        count = len([dict(each) for each in read_software_sets(data)])
    except (TypeError, ValueError, RecursionError):  # RecursionError: JSON that is nested too deeply
        yield f"`run_software` must have its version sets as JSON in the attribute {SOFTWARE_SETS}, got other text"
        return
    used = software[known & (status != Status.not_run)]
    outside = used[(used < 0) | (used >= count)]
    if outside.size:
        yield f"`run_software` must be an index into its {count} {SOFTWARE_SETS}, got {outside.flat[0]}"
    for axis in map(str, data["run_status"].dims):
        labels = data[axis].values
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            yield f"`{axis}` must have finite values, got {labels[~np.isfinite(labels)][0]}"
    missing = [name for name in list_returned_coordinates(data) if name not in data.coords]
    if missing:
        yield f"`{RECORDED_COORDINATES}` must name coordinates, got {missing[0]}"
    try:
        missing = [name for name in read_returned_attributes(data).values() if name not in {*data.attrs, *data.coords}]
    except (TypeError, ValueError, AttributeError, RecursionError):
        missing = ["other text"]
    if missing:
        yield f"`{RETURNED_ATTRIBUTES}` must name attributes, got {missing[0]}"
