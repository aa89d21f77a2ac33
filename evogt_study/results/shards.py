"""Write and read shards: the records of one batch in one file, pieces of arrays and then their index.

A shard of 20 runs with 8 variables takes 1 ms; a NetCDF file takes 28 ms.
"""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from evogt_study.errors import DamagedResultError, DamagedShardError, ResultError
from evogt_study.results.index import Index, append, damage, other_format, pack_records, read_index
from evogt_study.schema.records import RunRecords
from evogt_study.schema.values import content_hash
from evogt_study.storage.arrays import File
from evogt_study.storage.atomic import make_folder, written_whole
from evogt_study.storage.lease import remove_claims
from evogt_study.storage.paths import CLAIMS, PROGRESS
from evogt_study.storage.paths import shard_folder as shard_folder
from evogt_study.storage.untrusted import open_file

FAMILY = b"evogt shard "
FORMAT = FAMILY + b"5\n"
# 256 bits: no damage agrees by chance, and BLAKE2 takes 1 ms for a megabyte
DIGEST_SIZE = 32
SUFFIX = ".shard"


def shard_files(folder: Path) -> list[Path]:
    """The shards in `folder`, in the order of their names."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def write_shard(folder: Path, records: RunRecords, about: str = "") -> Path:
    """Write `records` to a new file in `folder`, named by their keys.  Raises ResultError if the disk refuses.

    Packed arrays of `records` are read from this file afterwards, so their memory is free.  about: description of the
    runs for the user.
    """
    # named by content: a batch that is computed twice writes the same file, so no run counts twice
    path = folder / f"{content_hash(records.keys)}{SUFFIX}"
    try:
        make_folder(folder)
        with written_whole(path) as temporary, temporary.open("w+b") as file:
            append(file, File(path), Index({"": pack_records(records)}, {}, about=about))
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def read_shard(path: Path) -> RunRecords:
    """Read the records of a shard; packed arrays stay in the file.

    Raises DamagedShardError if its content is damaged, ResultError for any other failure.
    """
    index = _index(path)
    found = next(damage(path, index), None)
    if found is not None:
        raise DamagedShardError(f"{path} is damaged: {found}")
    return index.phases[""]


def _index(path: Path) -> Index:
    try:
        with open_file(path) as file:
            whole = file.read()
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror or error}") from None
    if index is None or "" not in index.phases:
        raise DamagedShardError(f"{path} is damaged: it has no valid index")
    return index


@dataclass(frozen=True)
class Head:
    """Head of a shard, read without its arrays: keys of its runs, their description, and its size in bytes."""

    keys: tuple[str, ...]
    about: str
    size: int


def read_head(path: Path) -> Head:
    """Read only the keys and strings of a shard; the archive has a separate checksum for them."""
    try:
        with open_file(path) as file:
            _check_format(path, file.read(len(FORMAT)))
            with zipfile.ZipFile(file) as archive:  # it finds its start behind the checksum
                texts = json.loads(np.load(io.BytesIO(archive.read("texts.npy")), allow_pickle=False).tobytes())
        return Head(tuple(map(str, texts["keys"])), str(texts["about"]), path.stat().st_size)
    except ResultError:
        raise
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror or error}") from None
    except UNPACKABLE as error:
        raise DamagedShardError(f"{path} is damaged: {error}") from None


def _check_format(path: Path, start: bytes) -> None:
    if start.startswith(FAMILY) and not start.startswith(FORMAT):
        raise ResultError(f"{path} is a shard of another format")


# the description first: the next run reuses shards without a description, but a description without shards would look
# like a study that is being computed
def remove_shards(folder: Path, foreign: Container[Path], description: Path) -> None:
    """Remove the `description`, the progress file, the claims and all shards except the `foreign` ones.

    The result or its store holds their runs.  An empty folder is removed too.
    """
    if not folder.exists():
        return
    description.unlink(missing_ok=True)
    (folder / PROGRESS).unlink(missing_ok=True)
    remove_claims(folder / CLAIMS)
    with os.scandir(folder) as entries:  # one by one: there may be millions
        for entry in entries:
            path = folder / entry.name
            if path.suffix == SUFFIX and path not in foreign:
                path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()


# strings as one JSON text: an array of strings would be as wide as the longest message, and objects would need pickle
def _packed(records: RunRecords, about: str) -> bytes:
    sets = {text: number for number, text in enumerate(dict.fromkeys(records.software))}
    texts = {
        "keys": records.keys,
        "about": about,
        "messages": records.messages,
        "software_sets": list(sets),
        "stacks": [_description(stack) for stack in records.stacks],
        "left_out": records.left_out,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "texts": np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8),
        "status": records.status,
        "wall_seconds": records.wall_seconds,
        "attempts": records.attempts,
        "software": np.array([sets[text] for text in records.software], dtype=np.int32),
    }
    for number, stack in enumerate(records.stacks):
        arrays[f"values_{number}"], arrays[f"rows_{number}"] = stack.values, stack.rows
        if stack.absent is not None:
            arrays[f"absent_{number}"] = stack.absent
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)  # reading a pickle could run code
    return stream.getvalue()


def _description(stack: Stack) -> dict[str, Any]:
    attributes = {key: _plain(value) for key, value in stack.attributes.items()}
    own = {"name": stack.name, "dims": stack.dims, "role": stack.role, "types": stack.types}
    return {**own, "attributes": attributes}


def _plain(value: Any) -> Any:
    """Return an attribute as JSON."""
    if isinstance(value, (np.ndarray, np.generic)):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value


def _attribute(plain: Any) -> Any:
    """Return the attribute that `_plain` has converted."""
    return np.array(plain["values"], plain["dtype"])[()] if isinstance(plain, dict) else plain


def _unpacked(content: bytes) -> RunRecords:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        texts = json.loads(arrays["texts"].tobytes())
        return RunRecords(
            keys=tuple(texts["keys"]),
            status=arrays["status"],
            messages=tuple(texts["messages"]),
            wall_seconds=arrays["wall_seconds"],
            attempts=arrays["attempts"],
            software=tuple(texts["software_sets"][number] for number in arrays["software"].tolist()),
            stacks=tuple(_stack(described, arrays, number) for number, described in enumerate(texts["stacks"])),
            left_out=tuple(texts["left_out"]),
        )


def _stack(described: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], number: int) -> Stack:
    return Stack(
        described["name"],
        tuple(described["dims"]),
        arrays[f"rows_{number}"],
        arrays[f"values_{number}"],
        {key: _attribute(plain) for key, plain in described["attributes"].items()},
        described["role"],
        arrays.get(f"absent_{number}"),
        tuple(described["types"]),
    )
