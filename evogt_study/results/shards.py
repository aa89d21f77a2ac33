"""Write and read shards: the records of one batch in one file, pieces of arrays and then their index.

A shard of 20 runs with 8 variables takes 1 ms; a NetCDF file takes 28 ms.
"""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from evogt_study.errors import DamagedResultError, DamagedShardError, ResultError
from evogt_study.results.index import Index, append, damage, other_format, pack_records, read_index
from evogt_study.schema.records import RunRecords
from evogt_study.schema.values import content_hash
from evogt_study.storage.arrays import File, close_files
from evogt_study.storage.atomic import make_folder, written_whole
from evogt_study.storage.lease import remove_claims
from evogt_study.storage.paths import CLAIMS, PROGRESS
from evogt_study.storage.paths import shard_folder as shard_folder

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
    """Read the records of a shard; arrays stay in the file.

    Raises DamagedShardError if its content is damaged, ResultError for any other failure.
    """
    index = read_shard_index(path)
    found = next(damage(path, index), None)
    if found is not None:
        raise DamagedShardError(f"{path} is damaged: {found}")
    return index.phases[""]


def read_shard_index(path: Path) -> Index:
    """Read the index of a shard: the keys of its runs, and their description."""
    try:
        index = read_index(path)
        if index is None and path.is_file() and other_format(path):
            raise ResultError(f"{path} is a shard of another format")
    except DamagedResultError as error:
        raise DamagedShardError(str(error)) from None
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror or error}") from None
    if index is None or "" not in index.phases:
        raise DamagedShardError(f"{path} is damaged: it has no valid index")
    return index


# the description first: the next run reuses shards without a description, but a description without shards would look
# like a study that is being computed
def remove_shards(folder: Path, foreign: Container[Path], description: Path) -> None:
    """Remove the `description`, the progress file, the claims and all shards except the `foreign` ones.

    The result or its store holds their runs.  An empty folder is removed too.
    """
    if not folder.exists():
        return
    close_files()  # a file server keeps a file that is open, and then its folder
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
