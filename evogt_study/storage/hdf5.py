"""Write NetCDF-4 files with HDF5 alone, and lock every use of HDF5 in this process."""

import threading
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HDF5_LOCK = threading.RLock()
"""Lock around HDF5, which crashes if two threads use it.  A reader with the lock may open other groups of the file."""
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable.%10d"
"""Name from which NetCDF recognises a dimension without a variable."""


class _Stream(FileIO):
    """File that HDF5 writes to.  It keeps the error of the disk, because HDF5 reports no reason."""

    refusal: OSError | None = None

    def write(self, content: Any) -> int:
        """Write all bytes of `content`."""
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.refusal = self.refusal or error
        return len(content)

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file to `size` bytes."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.refusal = self.refusal or error
            return 0


class NetCDFFile:
    """Writer of a new NetCDF-4 file with packed chunks.  For 2,000 variables, netCDF-C and h5netcdf need 150 s."""

    def __init__(self, path: Path) -> None:
        import h5py  # this import takes 0.1 s

        self.h5py = h5py
        # the version of the format that netCDF-C writes
        self.stream = _Stream(path, "w+")
        self.file = h5py.File(self.stream, "w", libver=("v108", "v108"), track_order=True)
        self.n_dims, self.scalar = 0, h5py.h5s.create(h5py.h5s.SCALAR)
        versions = f"version=2,h5py={h5py.__version__},hdf5={h5py.version.hdf5_version}"
        self.set_attributes(self.file.id, {"_NCProperties": versions})

    def close(self) -> None:
        """Close the file.  Raises OSError if a part of the file could not be written."""
        self.file.close()
        self.stream.close()
        self.check()

    def check(self) -> None:
        """Raise OSError if a part of the file could not be written."""
        if self.stream.refusal is not None:
            raise self.stream.refusal

    def to_hdf5_type(self, dtype: np.dtype[Any]) -> Any:
        """Return the HDF5 type of a NumPy dtype."""
        return self.h5py.h5t.py_create(dtype, logical=True)

    def set_attributes(self, target: Any, attributes: Mapping[str, Any]) -> None:
        """Write attributes, text as characters and numbers as arrays, like netCDF-C."""
        h5a, h5s, h5t = self.h5py.h5a, self.h5py.h5s, self.h5py.h5t
        for name, value in attributes.items():
            if isinstance(value, str):
                text, is_ascii = value.encode(), value.isascii()
                kind = h5t.C_S1.copy()
                kind.set_size(max(1, len(text)))
                kind.set_strpad(h5t.STR_NULLPAD)
                kind.set_cset(h5t.CSET_ASCII if is_ascii else h5t.CSET_UTF8)
                space = self.scalar if text else h5s.create(h5s.NULL)
                made = h5a.create(target, str(name).encode(), kind, space)
                if text:
                    made.write(np.array(text), mtype=kind)
                continue
            content = np.ascontiguousarray(value)  # a number becomes an array with one dimension
            if content.dtype.kind in "OU" and not content.dtype.metadata:
                content = content.astype(self.h5py.string_dtype())
            kind = self.to_hdf5_type(content.dtype)
            made = h5a.create(target, str(name).encode(), kind, h5s.create_simple(content.shape))
            made.write(content, mtype=None if content.dtype.hasobject else kind)


class Group:
    """The root group of a file, or a new group.  `scales` has the scale, number and variables of each dimension."""

    def __init__(self, file: NetCDFFile, name: str | None) -> None:
        self.file, self.h5py = file, file.h5py
        self.group = (file.file if name is None else file.file.create_group(name, track_order=True)).id
        self.scales: dict[str, tuple[Any, int, list[tuple[Any, int]]]] = {}

    def create_variable(
        self, name: str, sizes: Mapping[str, int], dtype: np.dtype[Any], attributes: Mapping[str, Any], *,
        chunk: tuple[int, ...] | None = None, content: npt.NDArray[Any] | None = None,
    ) -> Any:  # fmt: skip
        """Add a variable with the array `content`, or with chunks that the caller writes.  Return its HDF5 dataset."""
        h5a, h5s = self.h5py.h5a, self.h5py.h5s
        made = self._create(name, tuple(sizes.values()), dtype, attributes.get("_FillValue"), chunk)
        if content is not None:
            kind = None if dtype.hasobject else self.file.to_hdf5_type(dtype)
            made.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(content, dtype), mtype=kind)
        self.file.set_attributes(made, attributes)
        for dim, size in (item for item in sizes.items() if item[0] not in self.scales):
            is_own = dim == name == next(iter(sizes))
            scale = made if is_own else self._create(dim, (size,), np.dtype(">f4"))
            self.h5py.h5ds.set_scale(scale, (name if is_own else NO_VARIABLE % size).encode())
            number, kind = np.array(self.file.n_dims, np.int32), self.file.to_hdf5_type(np.dtype(np.int32))
            h5a.create(scale, b"_Netcdf4Dimid", kind, self.file.scalar).write(number)
            self.file.n_dims, self.scales[dim] = self.file.n_dims + 1, (scale, self.file.n_dims, [])
        if name not in sizes and sizes:
            own, references = self._refer_to(made), np.empty(len(sizes), self.h5py.vlen_dtype(self.h5py.ref_dtype))
            for axis, (scale, _, uses) in enumerate(self.scales[dim] for dim in sizes):
                references[axis] = np.array([self._refer_to(scale)], self.h5py.ref_dtype)
                uses.append((own, axis))
            self.file.set_attributes(made, {"DIMENSION_LIST": references})
        elif len(sizes) > 1:  # a coordinate of strings
            numbers = np.array([self.scales[dim][1] for dim in sizes], np.int32)
            self.file.set_attributes(made, {"_Netcdf4Coordinates": numbers})
        return made

    def _create(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any = None, chunk: Any = None
    ) -> Any:
        packing = self.h5py.h5p.create(self.h5py.h5p.DATASET_CREATE)
        packing.set_obj_track_times(False)
        if fill is not None:
            packing.set_fill_value(np.array(fill))
        if chunk is not None:
            packing.set_chunk(chunk)
            packing.set_shuffle()
            packing.set_deflate(1)
        space = self.h5py.h5s.create_simple(shape)
        return self.h5py.h5d.create(self.group, name.encode(), self.file.to_hdf5_type(dtype), space, packing)

    def _refer_to(self, made: Any) -> Any:
        return self.h5py.h5r.create(made, b".", self.h5py.h5r.OBJECT)

    def close(self) -> None:
        """Write the list of variables of each dimension."""
        kind = np.dtype([("dataset", self.h5py.ref_dtype), ("dimension", "i4")])
        for scale, _, uses in self.scales.values():
            if uses:
                self.file.set_attributes(scale, {"REFERENCE_LIST": np.array(uses, kind)})
