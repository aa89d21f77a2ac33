"""The result file: written whole, in one place, by one process; and read back."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from errno import ENOMEM
from functools import partial
from pathlib import Path
from typing import Any, cast

import netCDF4
import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, ResultError, shortened
from evogt_study.results.dataset import CONCATENATED, SCHEMA_VERSION, lacking, other_schema, unsound
from evogt_study.results.seal import FIXED_WIDTH_BYTES, UNREADABLE, check_sizes, no_netcdf, seal, with_digests
from evogt_study.schema.variables import EARLIER_PHASES, Status
from evogt_study.storage.arrays import SLAB, slab_shape, slabs
from evogt_study.storage.atomic import make_folder, written_whole
from evogt_study.storage.hdf5 import HDF5_LOCK
from evogt_study.storage.paths import description
from evogt_study.study.phases import STUDY

UNFILLED = ("status", "attempts", "software")
"""Whole numbers that have a value for every case, run or not."""

CHUNK_CACHE = 2**22
"""Bytes of each variable that HDF5 holds: one slab and more, since slabs are written and read in turn.

netCDF4 would allow each 64 MiB, which is 6 GB for a hundred variables.
"""


# Digests are made of the data in memory, so that an error on the way to the disk shows too.  The attributes PHASE_group
# list the groups for readers, so that none is opened in vain.
def write_result(path: Path, phases: Mapping[str, xr.Dataset]) -> None:
    """Write the study's runs, and those of earlier phases into groups.  Raises ResultError where the disk refuses.

    What is large is written slab by slab.
    """
    earlier = {name: data for name, data in phases.items() if name != STUDY}
    phases[STUDY].attrs |= {f"{name}_group": name for name in earlier}
    try:
        make_folder(path.parent)
        # this lock first, as where a result that is written from was opened: else two threads may wait for each other
        with HDF5_LOCK, _by_this_thread(), written_whole(path) as temporary, _refusals(temporary), _small_cache():
            encoded(with_digests(phases[STUDY])).to_netcdf(temporary, engine="netcdf4", format="NETCDF4")
            for name, data in earlier.items():
                encoded(with_digests(data)).to_netcdf(temporary, mode="a", group=name, engine="netcdf4")
            seal(temporary, [finished_keys(data) for data in (phases[STUDY], *earlier.values())])
    except OSError as error:
        told = error.strerror or error
        raise ResultError(f"cannot write {path}: {told}; make room, or choose another place") from None


# as bytes: a quarter of the memory of text, and what the seal holds
def finished_keys(data: xr.Dataset) -> npt.NDArray[np.bytes_]:
    """Keys of the runs of one phase that are finished; none where data are not those of runs, or were joined.

    A study takes no runs from joined results, where each has the dimensions of all.
    """
    if CONCATENATED in data.attrs or not {"case_key", "status"} <= set(data.variables):
        return np.array([], dtype=np.bytes_)
    finished = data["status"].values != Status.not_run
    keys = np.asarray(data["case_key"].values, dtype=np.bytes_)
    return keys.ravel() if finished.all() else keys[finished]  # a copy of ten million keys is 200 MB


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Raise OSError where the disk refuses what HDF5 writes to `path`, which only tells that it failed."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # HDF5's own errors are RuntimeErrors
        free = shutil.disk_usage(path.parent).free
        try:
            with path.open("ab") as file:  # writes more, while all that was written is there: the disk names its reason
                file.write(bytes(CHUNK_CACHE))
                os.fsync(file.fileno())
        except OSError as refusal:
            raise OSError(refusal.errno, f"{refusal.strerror}, {free:,} bytes are free there") from None
        raise OSError(getattr(error, "strerror", None) or str(error)) from None


# dask.config.set is of the whole process: two threads that set and restore it in turn could leave "synchronous" behind
_DASK_SETTINGS = threading.Lock()


@contextmanager
def _by_this_thread() -> Iterator[None]:
    """Have dask-backed arrays computed by this thread, one part after the other; one thread at a time may ask for that.

    Else a default client would compute them, and xarray would ask it for a cluster-wide lock; and Dask's settings are
    those of all threads.
    """
    import dask  # 0.1 s, which readers of a result save

    with _DASK_SETTINGS, dask.config.set(scheduler="synchronous"):
        yield


# netCDF4's default is of the whole process: it is put back, since users' files are opened in this process too
@contextmanager
def _small_cache() -> Iterator[None]:
    """Give each variable of files that are opened in the body a small cache; the HDF5 lock is held."""
    before = netCDF4.get_chunk_cache()
    netCDF4.set_chunk_cache(CHUNK_CACHE)
    try:
        yield
    finally:
        netCDF4.set_chunk_cache(*before)


# numbers of the paper's results take 1 % less at level 9 than at level 1; shuffle puts equal bytes of neighbouring
# numbers together; fletcher32 found 20 of 20 flipped bytes, which HDF5 reads as numbers without it
COMPRESSED = {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True}


def encoded(data: xr.Dataset) -> xr.Dataset:
    """Return the same data with their encoding: checksummed and compressed numbers, no fill value on coordinates (CF).

    Coordinates other than the dimensions' own are named by each variable that they belong to.  Their strings
    are stored as characters: to CF a coordinate variable of one dimension is numeric, and see `_of_characters`.
    """
    beside = {str(name): coord for name, coord in data.coords.items() if name not in data.dims}
    data = in_slabs(data)
    for name, variable in data.variables.items():
        if variable.dtype.kind in "OUS" and name in data.data_vars:
            data[name] = fixed_width(variable)
        elif variable.dtype.kind in "OU" and variable.chunks:
            data[name] = _by_parts(variable, np.asarray, TEXT)
    for name, variable in data.variables.items():
        encoding = {key: value for key, value in variable.encoding.items() if key in ("dtype", "_FillValue")}
        numbers = np.dtype(encoding.get("dtype", variable.dtype)).kind in "iufb"
        if (numbers or variable.dtype.kind == "S") and variable.ndim:
            encoding |= COMPRESSED
        # a slab is a chunk, so that Dask's parts are written to chunks of their own, each compressed once
        if variable.chunks:
            width = (variable.dtype.itemsize,) if variable.dtype.kind == "S" else ()
            encoding["chunksizes"] = (*slab_shape(variable.shape), *width)
        if name not in data.coords:
            named = sorted(other for other, coord in beside.items() if set(coord.dims) <= set(variable.dims))
            encoding["coordinates"] = " ".join(named) or None
        if name in data.coords and variable.dtype.kind in "OU":
            encoding["dtype"] = "S1"
        whole = variable.dtype.kind in "iub"  # in memory too: none of them is missing
        if name in data.coords or not numbers or name in UNFILLED or whole:
            encoding["_FillValue"] = None
        else:
            encoding.setdefault("_FillValue", np.nan)
        data[name].encoding = encoding
        data[name].attrs = _of_characters(variable.attrs)
    return data.assign_attrs(_of_characters(data.attrs))


# else netCDF4 makes a string of any length of what is not ASCII, which HDF5 may crash on (`opened`)
def _of_characters(attributes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Attributes whose texts are stored as characters, in UTF-8."""
    return {
        name: value.encode() if isinstance(value, str) and not value.isascii() else value
        for name, value in attributes.items()
    }


def in_slabs(data: xr.Dataset) -> xr.Dataset:
    """Return the same data with arrays larger than a slab dask-backed, so that one slab is asked for at a time."""
    data = data.copy(deep=False)
    for name, variable in data.variables.items():
        if variable.size > SLAB and name not in data.dims:
            data[name] = _in_slabs(variable)
    return data


def _in_slabs(variable: xr.Variable) -> xr.Variable:
    """Return the same values dask-backed, one slab a chunk.

    Dask's own way from an array copies the whole of it first, and so reads it all where it is mapped from a file.
    """
    slab = slab_shape(variable.shape)
    if variable.chunks:
        return variable.chunk(dict(zip(variable.dims, slab, strict=True)))
    from dask.array import Array  # 0.25 s, which results of less than a slab a variable save

    chunks = tuple(
        tuple(min(step, length - start) for start in range(0, length, step))
        for length, step in zip(variable.shape, slab, strict=True)
    )
    name, array = uuid.uuid4().hex, cast(Callable[..., Any], Array)  # a new name: equal names are equal values to Dask
    keys = itertools.product([name], *(range(len(lengths)) for lengths in chunks))
    parts = (variable.data[part] for part in slabs(variable.shape))
    return variable.copy(data=array(dict(zip(keys, parts, strict=True)), name, chunks, variable.dtype))


TEXT = np.dtype(object, metadata={"element_type": str})
"""Type that says to xarray that objects are strings: it would read them all to find out."""


def fixed_width(words: xr.Variable) -> xr.Variable:
    """Return the same strings in fields of one width, in UTF-8, unless one is so long that this would be large."""
    if words.dtype.kind == "S":
        fields = words.copy(deep=False)
    else:
        width = max(_longest(words[slab].values) for slab in slabs(words.shape))
        if words.size * width > FIXED_WIDTH_BYTES:
            return _by_parts(words, np.asarray, TEXT) if words.chunks else words
        dtype = np.dtype(f"S{max(1, width)}")
        fields = _by_parts(words, partial(_fields, dtype), dtype)
    fields.attrs = {**words.attrs, "_Encoding": "utf-8"}
    return fields


def _by_parts(
    words: xr.Variable, made: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], dtype: np.dtype[Any]
) -> xr.Variable:
    """Apply `made` to the strings, one slab at a time where they are dask-backed."""
    if not words.chunks:
        return words.copy(data=made(words.values))
    # with `meta` Dask need not call the function on an empty array to find the type out
    return words.copy(data=words.data.map_blocks(made, dtype=dtype, meta=np.empty((0,) * words.ndim, dtype=dtype)))


def _longest(words: npt.NDArray[Any]) -> int:
    """Bytes of the longest of the strings in UTF-8."""
    return max((len(word.encode()) for word in words.ravel().tolist()), default=0)


def _fields(dtype: np.dtype[np.bytes_], words: npt.NDArray[Any]) -> npt.NDArray[np.bytes_]:
    fields = [word.encode() for word in words.ravel().tolist()]
    return np.array(fields, dtype=dtype).reshape(words.shape)


def read_result(path: Path) -> dict[str, xr.Dataset]:
    """Read the runs by phase, the study's under "study", into memory.

    Raises ResultError where the file is not a result of this package.
    """
    with opened(path) as groups:
        return {phase: loaded(path, data) for phase, data in groups.items()}


@contextmanager
def opened(path: Path) -> Iterator[dict[str, xr.Dataset]]:
    """Open as `read_result`, with values in the file until they are asked for; then too ResultError is raised."""
    # until it is closed: of a file that is open twice, HDF5 reads strings of any length by what the first to close has
    # freed (netcdf4-python issue 1444), which ended three of nine reproductions
    with HDF5_LOCK, _reading(path), ExitStack() as open_:
        groups = {STUDY: open_.enter_context(_open(path, None))}
        for name in EARLIER_PHASES:
            if groups[STUDY].attrs.get(f"{name}_group") == name:
                groups[name] = open_.enter_context(_open(path, name))
        for data in groups.values():
            _check(path, data)
        yield groups


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise ResultError where values of the open file `path`, asked for in the body, cannot be read or do not fit."""
    try:
        yield
    except (RuntimeError, UnicodeDecodeError, MemoryError) as error:
        # HDF5 and the rest of Python share RuntimeError: only the library's own text marks its errors
        if isinstance(error, RuntimeError) and not str(error).startswith("NetCDF:"):
            raise
        raise _unreadable(path, error) from None


@contextmanager
def _open(path: Path, group: str | None) -> Iterator[xr.Dataset]:
    try:
        with HDF5_LOCK, _small_cache():
            check_sizes(path)
            # times are numbers in the problem's own unit, not dates; what is read is not kept, so that memory does not
            # grow
            data = xr.open_dataset(path.absolute(), engine="netcdf4", decode_times=False, group=group, cache=False)
    except UNREADABLE as error:
        raise _unreadable(path, error) from None
    try:
        yield data
    finally:
        with HDF5_LOCK:
            data.close()


def loaded(path: Path, data: xr.Dataset) -> xr.Dataset:
    """Read `data`, which is of the open file `path`, into memory.  Raises ResultError where it cannot be."""
    try:
        with HDF5_LOCK:
            return data.load()
    except UNREADABLE as error:
        raise _unreadable(path, error) from None


# `cache=False` at opening makes a variable read anew each time, so that its memory is free after use
def with_numbers(data: xr.Dataset) -> xr.Dataset:
    """Load of an open result what has one value for each run, or fewer; arrays stay in the file.

    Each time that an array is asked for, it is read, and it is kept no longer than it is used.
    """
    data, axes = data.copy(deep=False), set(data["status"].dims)
    with HDF5_LOCK:
        for variable in data.variables.values():
            if set(variable.dims) <= axes or variable.dtype.kind in "USO":  # xarray cannot transpose strings in a file
                variable.load()
    return data


def _unreadable(path: Path, error: Exception) -> ResultError:
    if isinstance(error, ResultError):
        return error
    lacks_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == ENOMEM
    if lacks_memory or "Memory allocation" in str(error):  # NetCDF's own text
        return ResultError(f"there is not enough memory to read {path}")
    return no_netcdf(path, error)


def finished_so_far(path: Path, variables: Sequence[str] | None = None) -> Mapping[str, xr.Dataset] | None:
    """The finished runs of a result that is being written, by phase; None where it is not, or nothing is finished.

    variables: those that are needed beside the runs' bookkeeping; None: all.
    """
    if not description(path).exists():
        return None
    from evogt_study.results.finished import unfinished  # 0.3 s: it reads the study, as no finished result needs

    return unfinished(path, variables)


@contextmanager
def opened_so_far(path: Path, variables: Sequence[str] | None = None) -> Iterator[Mapping[str, xr.Dataset]]:
    """As `opened`; of a result that is being written, or whose writing was interrupted, what is finished.

    variables: as of `finished_so_far`.
    """
    found = finished_so_far(path, variables)
    if found is not None:
        yield found
        return
    with opened(path) as groups:
        yield groups


def open_result(path: Path, phase: str = STUDY, chunks: Any = None) -> xr.Dataset:
    """Open the runs of one phase, of which values are read from the file when they are asked for.

    chunks: as of xarray.open_dataset, for dask-backed values.  Raises ResultError where the file is not a result
    of this package, or lacks the phase.
    """
    group = phase if phase in EARLIER_PHASES else None
    try:
        with HDF5_LOCK:
            check_sizes(path)
            data = xr.open_dataset(path.absolute(), engine="netcdf4", decode_times=False, group=group, chunks=chunks)
            if chunks is None:
                for variable in data.variables.values():
                    if variable.dtype.kind in "USO":  # xarray cannot transpose strings in a file
                        variable.load()
    except UNREADABLE as error:
        if group is not None and path.exists() and phase not in read_result(path):
            raise ResultError(f"{path} must have {phase} runs, got a result without them") from None
        raise _unreadable(path, error) from None
    try:
        _check(path, data)
    except ResultError:
        data.close()
        raise
    return data


def _check(path: Path, data: xr.Dataset) -> None:
    """Raise ResultError where an open group is none of a result, or its bookkeeping has no meaning."""
    version = other_schema(data)
    if version:
        raise ResultError(
            f"{path} is a result of schema {shortened(version)}, and this evogt-study reads {SCHEMA_VERSION} and later "
            "1.x; read it with the version that wrote it"
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
