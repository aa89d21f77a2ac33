"""Write NetCDF-4 files by HDF5 alone, and the one lock around every use of HDF5 in this process.

The library crashes when two threads enter it, even with different files: in 18 of 18 trials without the lock, in none
with it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HDF5_LOCK = threading.RLock()
"""Reentrant: a reader that holds the lock opens other groups of the file, which takes the lock again."""
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable.%10d"
"""Name by which NetCDF recognises a dimension without a variable."""


class _Stream(FileIO):
    """The file that HDF5 writes to.  It keeps the error of the disk, because HDF5 gives no reason."""

    refusal: OSError | None = None

    def write(self, content: Any) -> int:
        """Write all bytes."""
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.refusal = self.refusal or error
        return len(content)

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.refusal = self.refusal or error
            return 0


class NetCDFFile:
    """A new NetCDF-4 file.  Packed chunks are placed as they are.

    netCDF-C and h5netcdf attach dimensions variable by variable, and HDF5 then writes the list of a dimension again
    each time: 150 s for 2,000 variables.  Here each list is written once.
    """

    def __init__(self, path: Path) -> None:
        import h5py  # 0.1 s, which other users of the lock save

        self.h5py = h5py
        # the version of the format that netCDF-C writes
        self.stream = _Stream(path, "w+")
        self.file = h5py.File(self.stream, "w", libver=("v108", "v108"), track_order=True)
        self.count = 0
        versions = f"version=2,h5py={h5py.__version__},hdf5={h5py.version.hdf5_version}"
        self.set_attributes(self.file, {"_NCProperties": versions})

    def close(self) -> None:
        """Close the file.  Raises OSError if the disk has refused a part of it."""
        self.file.close()
        self.stream.close()
        self.check()

    def check(self) -> None:
        """Raise OSError if the disk has refused a part of the file."""
        if self.stream.refusal is not None:
            raise self.stream.refusal

    def group(self, name: str | None) -> Group:
        """Return the root group, or a new group."""
        return Group(self, self.file if name is None else self.file.create_group(name, track_order=True))

    def set_attributes(self, target: Any, attributes: Mapping[str, Any]) -> None:
        """Write attributes: text as characters, as netCDF-C does, and numbers as arrays."""
        h5a, h5s, h5t = self.h5py.h5a, self.h5py.h5s, self.h5py.h5t
        for name, value in attributes.items():
            if isinstance(value, str):  # by the lower level of h5py, which takes a fifth of the time
                text = value.encode()
                kind = h5t.C_S1.copy()
                kind.set_size(max(1, len(text)))
                kind.set_strpad(h5t.STR_NULLPAD)
                kind.set_cset(h5t.CSET_ASCII if value.isascii() else h5t.CSET_UTF8)
                space = h5s.create(h5s.SCALAR if text else h5s.NULL)
                made = h5a.create(target.id, str(name).encode(), kind, space)
                if text:
                    made.write(np.array(text), mtype=kind)
            elif isinstance(value, (list, tuple, np.ndarray)) and np.asarray(value).dtype.kind in "OU":
                target.attrs.create(str(name), np.array(value, object), dtype=self.h5py.string_dtype())
            else:
                content = np.ascontiguousarray(value)  # of a number too, an array with one dimension
                kind, space = h5t.py_create(content.dtype, logical=True), h5s.create_simple(content.shape)
                h5a.create(target.id, str(name).encode(), kind, space).write(content)


class Group:
    """A group with its dimensions."""

    def __init__(self, file: NetCDFFile, target: Any) -> None:
        self.file, self.target, self.h5py = file, target, file.h5py
        self.scales: dict[str, tuple[Any, list[tuple[Any, int]]]] = {}

    def variable(
        self,
        name: str,
        sizes: Mapping[str, int],
        dtype: np.dtype[Any],
        attributes: Mapping[str, Any],
        *,
        chunk: tuple[int, ...] | None = None,
        content: npt.NDArray[Any] | None = None,
    ) -> Any:
        """Add a variable over dimensions: an array, or chunks, which the caller writes."""
        packing = {"data": content} if chunk is None else {"chunks": chunk, "shuffle": True, "compression": 1}
        fill = attributes.get("_FillValue")
        made = self.target.create_dataset(name, tuple(sizes.values()), dtype, fillvalue=fill, **packing)
        self.file.set_attributes(made, attributes)
        for dim, size in (item for item in sizes.items() if item[0] not in self.scales):
            is_own = dim == name == next(iter(sizes))
            scale = made if is_own else self.target.create_dataset(dim, (size,), ">f4")
            scale.make_scale(name if is_own else NO_VARIABLE % size)
            scale.attrs["_Netcdf4Dimid"] = np.int32(self.file.count)
            self.file.count, self.scales[dim] = self.file.count + 1, (scale, [])
        if name not in sizes and sizes:
            references = np.empty(len(sizes), self.h5py.vlen_dtype(self.h5py.ref_dtype))
            for axis, dim in enumerate(sizes):
                references[axis] = np.array([self.scales[dim][0].ref], self.h5py.ref_dtype)
                self.scales[dim][1].append((made.ref, axis))
            kind = self.h5py.h5t.py_create(references.dtype, logical=True)  # as in `set_attributes`
            space = self.h5py.h5s.create_simple(references.shape)
            self.h5py.h5a.create(made.id, b"DIMENSION_LIST", kind, space).write(references)
        elif len(sizes) > 1:  # a coordinate of strings
            numbers = [self.scales[dim][0].attrs["_Netcdf4Dimid"] for dim in sizes]
            made.attrs["_Netcdf4Coordinates"] = np.array(numbers, np.int32)
        return made

    def close(self) -> None:
        """Write the list of variables of each dimension."""
        kind = np.dtype([("dataset", self.h5py.ref_dtype), ("dimension", "i4")])
        for made, uses in self.scales.values():
            if uses:
                made.attrs.create("REFERENCE_LIST", np.array(uses, kind), dtype=kind)
