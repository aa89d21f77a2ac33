"""Write and read the result file.

One process writes a file completely, or not at all.  HDF5 is not thread-safe, so every access holds `HDF5_LOCK`.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from errno import ENOMEM
from functools import partial
from pathlib import Path
from typing import Any, cast

import netCDF4
import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from evogt_study.errors import DamagedResultError, ResultError, shortened
from evogt_study.results.run_metadata import CONCATENATED, SCHEMA_VERSION, lacking, other_schema, unsound
from evogt_study.results.seal import FIXED_WIDTH_BYTES, UNREADABLE, check_sizes, no_netcdf, seal, with_digests
from evogt_study.schema.variables import EARLIER_PHASES, MAIN, RETURNED_DTYPE, Status, group_of, status_codes
from evogt_study.storage.arrays import SLAB, slab_shape, slabs
from evogt_study.storage.atomic import followed, make_folder, written_whole
from evogt_study.storage.hdf5 import HDF5_LOCK
from evogt_study.storage.paths import description

CHUNK_CACHE = 2**22
"""Cache of HDF5 for each variable, in bytes: at least one slab, since slabs are written and read in turn.

The default of netCDF4 is 64 MiB, which is 6 GB for a hundred variables.
"""
# Level 9 saves 1 % over level 1 on the results of the paper.  shuffle groups equal bytes of neighbouring numbers.
# fletcher32 found 20 of 20 flipped bytes, which HDF5 otherwise reads as numbers.
COMPRESSED = {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True}
TEXT = np.dtype(object, metadata={"element_type": str})
"""Type that declares objects as strings to xarray, which would otherwise read all of them."""
# dask.config.set changes the whole process: two threads that set and restore it could leave "synchronous" behind
_DASK_SETTINGS = threading.Lock()


# The checksums are computed from the data in memory, so that they detect an error of the disk too.  The attributes
# PHASE_group list the groups that a reader can open.
def write_result(path: Path, phases: Mapping[str, xr.Dataset]) -> None:
    """Write the main phase into the root group and earlier phases into groups.  Raises ResultError if the disk refuses.

    Large variables are written slab by slab.
    """
    earlier = {name: data for name, data in phases.items() if name != MAIN}
    phases[MAIN].attrs |= {f"{name}_group": group_of(name) for name in earlier}
    try:
        make_folder(path.parent)
        # HDF5_LOCK first, as when a result is opened: otherwise two threads may wait for each other
        with HDF5_LOCK, _by_this_thread(), written_whole(path) as temporary, _refusals(temporary), _small_cache():
            encoded(with_digests(phases[MAIN])).to_netcdf(temporary, engine="netcdf4", format="NETCDF4")
            for name, data in earlier.items():
                encoded(with_digests(data)).to_netcdf(temporary, mode="a", group=group_of(name), engine="netcdf4")
            seal(temporary, [finished_keys(data) for data in (phases[MAIN], *earlier.values())])
    except OSError as error:
        told = error.strerror or error
        raise ResultError(f"cannot write {path}: {told}; make room, or choose another place") from None


# as bytes, which the seal contains and which need a quarter of the memory of text
def finished_keys(data: xr.Dataset) -> npt.NDArray[np.bytes_]:
    """Keys of the finished runs of one phase; empty for data without runs and for joined results.

    A study does not reuse runs of joined results, since each run has the dimensions of all results there.
    """
    if CONCATENATED in data.attrs or not {"run_key", "run_status"} <= set(data.variables):
        return np.array([], dtype=np.bytes_)
    finished = status_codes(data["run_status"]) != Status.not_run
    keys = np.asarray(data["run_key"].values, dtype=np.bytes_)
    return keys.ravel() if finished.all() else keys[finished]  # a copy of ten million keys is 200 MB


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Raise OSError with the reason if HDF5, which reports no reason, cannot write to `path`."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # HDF5's own errors are RuntimeErrors
        free = shutil.disk_usage(path.parent).free
        try:
            with path.open("ab") as file:  # write more before the file is removed: the disk gives its reason
                file.write(bytes(CHUNK_CACHE))
                os.fsync(file.fileno())
        except OSError as refusal:
            raise OSError(refusal.errno, f"{refusal.strerror}, {free:,} bytes are free there") from None
        raise OSError(getattr(error, "strerror", None) or str(error)) from None


@contextmanager
def _by_this_thread() -> Iterator[None]:
    """Compute dask-backed arrays in this thread, not by a default client; one thread at a time can do this."""
    import dask  # 0.1 s, which readers of a result save

    with _DASK_SETTINGS, dask.config.set(scheduler="synchronous"):
        yield


# the default of netCDF4 holds for the whole process, so it is restored for other files of the user
@contextmanager
def _small_cache() -> Iterator[None]:
    """Use a small cache for each variable of files opened in the body.  The caller holds `HDF5_LOCK`."""
    before = netCDF4.get_chunk_cache()
    netCDF4.set_chunk_cache(CHUNK_CACHE)
    try:
        yield
    finally:
        netCDF4.set_chunk_cache(*before)


def encoded(data: xr.Dataset) -> xr.Dataset:
    """Return the same data with their encoding: checksummed and compressed numbers, no fill value on coordinates (CF).

    Strings of coordinates are characters, since a coordinate variable with one dimension is numeric in CF.
    """
    beside = {str(name): coord for name, coord in data.coords.items() if name not in data.dims}
    data = in_slabs(data)
    for name, given in data.variables.items():
        data[name] = variable = _in_types_of_netcdf(given)
        if variable.dtype.kind in "OUS" and name in data.data_vars:
            data[name] = fixed_width(variable)
        elif variable.dtype.kind in "OU" and variable.chunks:
            data[name] = _by_parts(variable, np.asarray, TEXT)
    for name, variable in data.variables.items():
        encoding = {key: value for key, value in variable.encoding.items() if key in ("dtype", "_FillValue")}
        numbers = np.dtype(encoding.get("dtype", variable.dtype)).kind in "iufb"
        if (numbers or variable.dtype.kind == "S") and variable.ndim:
            encoding |= COMPRESSED
        # a slab is a chunk, so that each part of Dask is compressed once
        if variable.chunks:
            width = (variable.dtype.itemsize,) if variable.dtype.kind == "S" else ()
            encoding["chunksizes"] = (*slab_shape(variable.shape), *width)
        if name not in data.coords:
            named = sorted(other for other, coord in beside.items() if set(coord.dims) <= set(variable.dims))
            encoding["coordinates"] = " ".join(named) or None
        if name in data.coords and variable.dtype.kind in "OU":
            encoding["dtype"] = "S1"
        # a coordinate of a dimension has every value
        encoding.setdefault("_FillValue", np.nan if variable.dtype.kind == "f" and name not in data.dims else None)
        data[name].encoding = encoding
        data[name].attrs = _of_characters(variable.attrs)
    return data.assign_attrs(_of_characters(data.attrs))


UNITS = {
    "days": 86_400_000_000_000,
    "seconds": 1_000_000_000,
    "milliseconds": 1_000_000,
    "microseconds": 1_000,
    "nanoseconds": 1,
}
"""Units of dates and durations in a file, in nanoseconds."""
SINCE = " since 1970-01-01"
NAT = np.iinfo(np.int64).min
"""Fill value of dates and durations, and the integer in NumPy's NaT."""


def _in_types_of_netcdf(variable: xr.Variable) -> xr.Variable:
    """Return values that NetCDF has no type for in another one; `RETURNED_DTYPE` has the type that they have."""
    kind, stored = variable.dtype.kind, np.dtype(variable.encoding.get("dtype", variable.dtype))
    if kind in "Mm":
        return _in_units(variable)
    made = variable.astype(np.float32) if variable.dtype == np.float16 else variable
    if kind == "O" and stored.kind in "iu":  # integers that no float holds, of which some are missing
        fill = variable.encoding["_FillValue"]
        made = _by_parts(variable, lambda values: np.where(values != values, fill, values).astype(stored), stored)
        made.encoding = {"_FillValue": fill}
    if made is not variable:
        made.attrs = {**variable.attrs, RETURNED_DTYPE: variable.dtype.name}
    return made


def _in_units(variable: xr.Variable) -> xr.Variable:
    """Return dates or durations as integers in the largest unit that holds them exactly."""
    values, name = variable.values.view(np.int64), variable.dtype.name
    there = values[values != NAT]
    units = next(unit for unit, length in UNITS.items() if not (there % length).any())
    numbers = np.where(values == NAT, NAT, values // UNITS[units])
    is_date = variable.dtype.kind == "M"
    cf = {"units": units + SINCE, "calendar": "proleptic_gregorian"} if is_date else {"units": units, "dtype": name}
    fill = {"_FillValue": np.int64(NAT)} if there.size < values.size else {}
    return xr.Variable(variable.dims, numbers, {**variable.attrs, RETURNED_DTYPE: name, **cf}, fill)


def decoded(data: xr.Dataset) -> xr.Dataset:
    """Return the Dataset of a file, opened without decoding, with the types that it was written from."""
    made = {name: _decoded(variable) for name, variable in data.variables.items()}
    return xr.Dataset(made, attrs=data.attrs).set_coords(list(data.coords))


def _decoded(variable: xr.Variable) -> xr.Variable:
    attributes, encoding = dict(variable.attrs), dict(variable.encoding)
    fill, name = attributes.pop("_FillValue", None), attributes.pop(RETURNED_DTYPE, None)
    if fill is not None:
        encoding["_FillValue"] = fill
    dtype, convert = variable.dtype, None
    if name in ("datetime64[ns]", "timedelta64[ns]"):
        length = UNITS.get(str(attributes.pop("units", "")).removesuffix(SINCE), 1)
        attributes = {key: value for key, value in attributes.items() if key not in ("calendar", "dtype")}
        dtype, convert, encoding = np.dtype(name), partial(_to_times, np.dtype(name), length), {}
    elif name == "float16":
        dtype, convert, encoding = np.dtype(np.float16), partial(np.asarray, dtype=np.float16), {}
    elif fill is not None and variable.dtype.kind in "iu":
        encoding["dtype"] = variable.dtype
        dtype = np.dtype(object if name == "object" else float)
        convert = partial(_without_fill, dtype, fill)
    data: Any = variable._data
    if convert is not None and variable.chunks:
        data = variable.data.map_blocks(convert, dtype=dtype, meta=np.empty((0,) * variable.ndim, dtype=dtype))
    elif convert is not None:
        data = indexing.LazilyIndexedArray(_Converted(variable, convert, dtype))
    return xr.Variable(variable.dims, data, attributes, encoding, fastpath=True)


class _Converted(BackendArray):
    """Values of a variable of a file, which are converted when they are read."""

    def __init__(
        self, variable: xr.Variable, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> None:
        self.variable, self.convert, self.shape, self.dtype = variable, convert, variable.shape, dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        return self.convert(np.asarray(self.variable[key].values))


def _to_times(dtype: np.dtype[Any], length: int, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.where(numbers == NAT, NAT, numbers.astype(np.int64) * length).view(dtype)


def _without_fill(dtype: np.dtype[Any], fill: Any, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers as another type, with NaN for a fill value."""
    made = np.asarray(values).astype(dtype)
    return np.where(values == fill, np.array(np.nan, dtype), made)


# otherwise netCDF4 stores text with other characters than ASCII as variable-length strings; see `opened`
def _of_characters(attributes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return attributes with text encoded in UTF-8, which is stored as characters."""
    return {
        name: value.encode() if isinstance(value, str) and not value.isascii() else value
        for name, value in attributes.items()
    }


def in_slabs(data: xr.Dataset) -> xr.Dataset:
    """Return the same data with arrays larger than a slab dask-backed, so that one slab is computed at a time."""
    data = data.copy(deep=False)
    for name, variable in data.variables.items():
        if variable.size > SLAB and name not in data.dims:
            data[name] = _in_slabs(variable)
    return data


def _in_slabs(variable: xr.Variable) -> xr.Variable:
    """Return the same values dask-backed by slabs; `dask.array.from_array` would read the whole array first."""
    slab = slab_shape(variable.shape)
    if variable.chunks:
        return variable.chunk(dict(zip(variable.dims, slab, strict=True)))
    from dask.array import Array  # 0.25 s, only for a variable larger than a slab

    chunks = tuple(
        tuple(min(step, length - start) for start in range(0, length, step))
        for length, step in zip(variable.shape, slab, strict=True)
    )
    name, array = uuid.uuid4().hex, cast(Callable[..., Any], Array)  # a new name: equal names mean equal values in Dask
    keys = itertools.product([name], *(range(len(lengths)) for lengths in chunks))
    parts = (variable.data[part] for part in slabs(variable.shape))
    return variable.copy(data=array(dict(zip(keys, parts, strict=True)), name, chunks, variable.dtype))


def fixed_width(words: xr.Variable) -> xr.Variable:
    """Return the same strings in fields of one width, in UTF-8, unless the fields would be too large."""
    if words.dtype.kind == "S":
        fields = words.copy(deep=False)
    else:
        every = (text for slab in slabs(words.shape) for text in words[slab].values.ravel().tolist())
        width = max((len(text.encode()) for text in every), default=0)
        if words.size * width > FIXED_WIDTH_BYTES:
            return _by_parts(words, np.asarray, TEXT) if words.chunks else words
        dtype = np.dtype(f"S{max(1, width)}")
        fields = _by_parts(words, partial(_fields, dtype), dtype)
    fields.attrs = {**words.attrs, "_Encoding": "utf-8"}
    return fields


def _by_parts(
    words: xr.Variable, made: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], dtype: np.dtype[Any]
) -> xr.Variable:
    """Apply `made` to the strings, one slab at a time if they are dask-backed."""
    if not words.chunks:
        return words.copy(data=made(words.values))
    # with `meta`, Dask does not call the function on an empty array to find the type
    return words.copy(data=words.data.map_blocks(made, dtype=dtype, meta=np.empty((0,) * words.ndim, dtype=dtype)))


def _fields(dtype: np.dtype[np.bytes_], words: npt.NDArray[Any]) -> npt.NDArray[np.bytes_]:
    fields = [word.encode() for word in words.ravel().tolist()]
    return np.array(fields, dtype=dtype).reshape(words.shape)


def read_result(path: Path) -> dict[str, xr.Dataset]:
    """Read the runs by phase into memory; `MAIN` is the last.

    Raises ResultError if the file is not a result of this package.
    """
    with opened(path) as groups:
        return {phase: loaded(path, data) for phase, data in groups.items()}


@contextmanager
def opened(path: Path) -> Iterator[dict[str, xr.Dataset]]:
    """Open as `read_result`, but read values on access, which may raise ResultError too."""
    # locked until it is closed: if a file is open twice, the first close frees memory that HDF5 needs for strings of
    # variable length (netcdf4-python issue 1444)
    with HDF5_LOCK, _reading(path), ExitStack() as open_:
        # without a cache, memory does not grow
        groups = {MAIN: open_.enter_context(_open(path, None, cache=False))}
        for name in EARLIER_PHASES:
            if groups[MAIN].attrs.get(f"{name}_group") == group_of(name):
                groups[name] = open_.enter_context(_open(path, group_of(name), cache=False))
        for data in groups.values():
            _check(path, data)
        yield groups


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise ResultError if the body cannot read values of the open file `path`."""
    try:
        yield
    except (RuntimeError, UnicodeDecodeError, MemoryError) as error:
        # only its text marks a RuntimeError of the library
        if isinstance(error, RuntimeError) and not str(error).startswith("NetCDF:"):
            raise
        raise _unreadable(path, error) from None


def _open(path: Path, group: str | None, **options: Any) -> xr.Dataset:
    """Open a group of a file; values are read on access."""
    try:
        with HDF5_LOCK, _small_cache():
            followed(path)  # it refuses pipes, which opening would wait for
            check_sizes(path)
            # as stored: xarray would read a number with units of time as a date
            options |= {"mask_and_scale": False, "decode_times": False}
            stored = xr.open_dataset(path.absolute(), engine="netcdf4", group=group, **options)
    except UNREADABLE as error:
        raise _unreadable(path, error) from None
    data = decoded(stored)
    data.set_close(stored.close)
    return data


def loaded(path: Path, data: xr.Dataset) -> xr.Dataset:
    """Read `data` of the open file `path` into memory.  Raises ResultError if this fails."""
    try:
        with HDF5_LOCK:
            return data.load()
    except UNREADABLE as error:
        raise _unreadable(path, error) from None


def with_numbers(data: xr.Dataset) -> xr.Dataset:
    """Load the variables of an open result with at most one value for each run; arrays stay in the file.

    Each access reads an array again, since the file was opened without a cache, and its memory is free after use.
    """
    data, axes = data.copy(deep=False), set(data["run_status"].dims)
    _load(data, lambda variable: set(variable.dims) <= axes)
    return data


def _load(data: xr.Dataset, wanted: Callable[[xr.Variable], bool]) -> None:
    """Load the variables that are `wanted`, and strings, which xarray cannot transpose in a file."""
    with HDF5_LOCK:
        for variable in data.variables.values():
            if wanted(variable) or variable.dtype.kind in "USO":
                variable.load()


def open_result(path: Path, phase: str = MAIN, chunks: Any = None) -> xr.Dataset:
    """Open the runs of one phase.  Values are read on access.

    chunks: as in `xarray.open_dataset`, for dask-backed values.  Raises ResultError if the file is not a result of this
    package, or has no runs of the phase.
    """
    try:
        data = _open(path, group_of(phase), chunks=chunks)
    except ResultError:
        if phase != MAIN and path.exists() and phase not in read_result(path):
            raise ResultError(f"{path} must have {phase} runs, got a result without them") from None
        raise
    try:
        if chunks is None:
            _load(data, lambda _: False)
        _check(path, data)
    except UNREADABLE as error:
        data.close()
        raise _unreadable(path, error) from None
    return data


def _check(path: Path, data: xr.Dataset) -> None:
    """Raise ResultError if an open group is not part of a result, or has invalid run metadata."""
    version = other_schema(data)
    if version:
        raise ResultError(
            f"{path} is a result of schema {shortened(version)}, and this evogt-study reads {SCHEMA_VERSION} and later "
            "2.x; read it with the version that wrote it"
        )
    if lacking(data):
        raise ResultError(f"{path} is not a result of this package")
    try:
        with HDF5_LOCK:
            damage = next(unsound(data), None)
    except UNREADABLE as error:
        raise _unreadable(path, error) from None
    if damage is not None:
        raise DamagedResultError(f"{path} is damaged: {damage}")


def _unreadable(path: Path, error: Exception) -> ResultError:
    if isinstance(error, ResultError):
        return error
    lacks_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == ENOMEM
    if lacks_memory or "Memory allocation" in str(error):  # NetCDF's own text
        return ResultError(f"there is not enough memory to read {path}")
    return no_netcdf(path, error)


def finished_so_far(path: Path, variables: Sequence[str] | None = None) -> Mapping[str, xr.Dataset] | None:
    """Read the finished runs of a result that is being written, by phase; None if there are none.

    variables: the variables to read beside the run metadata; None: all.
    """
    if not description(path).exists():
        return None
    # imported here: it reads the study, which takes 0.3 s and which a finished result does not need
    from evogt_study.results.finished import unfinished

    return unfinished(path, variables)


@contextmanager
def opened_so_far(path: Path, variables: Sequence[str] | None = None) -> Iterator[Mapping[str, xr.Dataset]]:
    """Open a result as `opened`, or read the finished runs of a result that is being written or was interrupted.

    variables: as in `finished_so_far`.
    """
    found = finished_so_far(path, variables)
    with opened(path) if found is None else nullcontext(found) as groups:
        yield groups
