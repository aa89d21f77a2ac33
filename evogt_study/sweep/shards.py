"""Shards: the records of one batch on disk, written once and whole, with checksums on every value.

A shard is a small NetCDF file of its own shape.  Text is stored as checksummed bytes, since HDF5 has no checksum for
variable-length strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import numpy.typing as npt

from evogt_study.errors import DamagedShardError, ResultError
from evogt_study.sweep.batch import RunRecords, Stack
from evogt_study.sweep.files import written_whole
from evogt_study.sweep.locks import HDF5_LOCK
from evogt_study.sweep.values import content_hash

FORMAT = 1


def shard_folder(result: Path) -> Path:
    """The folder beside a result file that holds its shards while a study runs."""
    return result.with_name(result.name + ".shards")


def write_shard(folder: Path, records: RunRecords) -> Path:
    """Write `records` to a new file in `folder`, named by their keys."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content_hash(records.keys)}.nc"
    try:
        _write(path, records)
    except (OSError, RuntimeError) as error:  # HDF5's own errors are RuntimeErrors
        raise ResultError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    return path


def _write(path: Path, records: RunRecords) -> None:
    with written_whole(path) as temporary, HDF5_LOCK, netCDF4.Dataset(temporary, "w", format="NETCDF4") as file:
        file.setncattr("shard_format", FORMAT)
        texts = {"keys": records.keys, "messages": records.messages, "software": records.software}
        _put(file, "texts", np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8))
        _put(file, "status", records.status)
        _put(file, "wall_seconds", records.wall_seconds)
        _put(file, "attempts", records.attempts)
        for number, stack in enumerate(records.stacks):
            variable = _put(file, f"values_{number}", _as_numbers(stack.values))
            variable.setncattr("stack", json.dumps(_description(stack)))
            _put(file, f"rows_{number}", stack.rows)


def read_shard(path: Path) -> RunRecords:
    """Raises DamagedShardError where the file's content is damaged, ResultError where it cannot be read otherwise."""
    try:
        with HDF5_LOCK, netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            if file.getncattr("shard_format") != FORMAT:
                raise ResultError(f"{path} is a shard of another format")
            texts = json.loads(bytes(file["texts"][:]))
            count = sum(name.startswith("rows_") for name in file.variables)
            return RunRecords(
                keys=tuple(texts["keys"]),
                status=np.asarray(file["status"][:]),
                messages=tuple(texts["messages"]),
                wall_seconds=np.asarray(file["wall_seconds"][:]),
                attempts=np.asarray(file["attempts"][:]),
                software=tuple(texts["software"]),
                stacks=tuple(_stack(file, number) for number in range(count)),
            )
    except (OSError, RuntimeError, AttributeError, KeyError, IndexError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None and error.errno > 0:  # HDF5's own are negative
            raise ResultError(f"cannot read {path}: {error.strerror}") from None
        raise DamagedShardError(f"{path} is damaged: {error}") from None


def intact_shards(folder: Path) -> Iterator[tuple[Path, RunRecords]]:
    """Every readable shard with its records.

    A damaged one is removed and counts as not run; one that cannot be read for another reason is left where it is.
    """
    for path in sorted(folder.glob("*.nc")):
        try:
            yield path, read_shard(path)
        except DamagedShardError:
            path.unlink(missing_ok=True)
        except ResultError:
            continue


def remove_shards(folder: Path, used: Iterable[Path]) -> None:
    """Remove the shards that a result file holds now, and their folder if nothing else is in it."""
    for path in used:
        path.unlink(missing_ok=True)
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def _put(file: Any, name: str, values: npt.NDArray[Any]) -> Any:
    dims = tuple(f"{name}_{axis}" for axis in range(values.ndim))
    for dim, size in zip(dims, values.shape, strict=True):
        file.createDimension(dim, size)
    variable = file.createVariable(name, values.dtype, dims, fletcher32=True)
    variable[...] = values
    return variable


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Strings as their code points, which have checksums; everything else as it is, truth values as bytes."""
    if values.dtype.kind == "U":
        width = max(values.dtype.itemsize // 4, 1)
        return np.ascontiguousarray(values.astype(f"U{width}")).view(np.uint32).reshape(*values.shape, width)
    return values.astype(np.int8) if values.dtype.kind == "b" else values


def _description(stack: Stack) -> dict[str, Any]:
    return {
        "name": stack.name,
        "dims": stack.dims,
        "coordinate": stack.coordinate,
        "text": stack.values.dtype.kind == "U",
        "attributes": {key: value for key, value in stack.attributes.items() if _storable(value)},
    }


def _storable(value: Any) -> bool:
    """Attributes that mean the same after a round trip through the file; others are left out."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _stack(file: Any, number: int) -> Stack:
    variable = file[f"values_{number}"]
    described = json.loads(variable.getncattr("stack"))
    values = np.asarray(variable[...])
    if described["text"]:
        values = np.ascontiguousarray(values).view(f"U{values.shape[-1]}")[..., 0]
    return Stack(
        described["name"],
        tuple(described["dims"]),
        np.asarray(file[f"rows_{number}"][:]),
        values,
        described["attributes"],
        described["coordinate"],
    )
