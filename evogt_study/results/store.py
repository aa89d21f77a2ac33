"""The store beside a result: finished runs that its study does not ask for now, in shards, until it does again."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evogt_study.errors import InputError, ResultError
from evogt_study.results.run_sources import Knows, ShardFolder
from evogt_study.results.shards import Head, shard_files, write_shard
from evogt_study.schema.records import RunRecords
from evogt_study.storage.atomic import make_folder, remove_unfinished, written_whole
from evogt_study.storage.paths import STORE, store_folder


# into the store before the new result replaces the old one: a crash in between leaves runs twice, never not at all
def store_runs(result: Path, found: Iterable[RunRecords], asked: Knows, about: str) -> int:
    """Put those runs into the store of `result` that are neither `asked` for nor in it, and return their number."""
    folder, count = store_folder(result), 0
    kept = set(ShardFolder(folder).keys().astype(str).tolist())
    for records in found:
        asked_for = asked(records.keys)
        rows = [row for row, key in enumerate(records.keys) if not asked_for[row] and key not in kept]
        kept.update(records.keys)
        if rows:
            write_shard(folder, records.selected(np.array(rows)), about)
            count += len(rows)
    return count


def drop_stored(result: Path, asked: Knows) -> None:
    """Remove what the store of `result` keeps of runs that are all `asked` for: the result holds them."""
    folder = ShardFolder(store_folder(result))
    for path, head in folder.heads():
        if asked(head.keys).all():  # a shard is removed as a whole, or stays as a whole
            path.unlink(missing_ok=True)
    _remove_empty(folder.path)


@dataclass(frozen=True)
class Kept:
    """A store, its shards with what they are, and those that cannot be read."""

    folder: Path
    shards: Sequence[tuple[Path, Head]]
    unread: Sequence[ResultError]

    @property
    def runs(self) -> int:
        """Number of runs that are kept, each of which counts once."""
        return len({key for _, head in self.shards for key in head.keys})

    @property
    def size(self) -> int:
        """Bytes of the shards."""
        return sum(head.size for _, head in self.shards)


def stored_runs(result: Path) -> Kept:
    """Read the heads of what is kept beside a result."""
    folder = ShardFolder(store_folder(result))
    return Kept(folder.path, list(folder.heads()), list(folder.unread.values()))


def stores_in(folder: Path) -> Iterator[Path]:
    """The results, whether they are there or not, that have a store in a folder."""
    for path in sorted(folder.glob(f"*{STORE}")):
        if path.is_dir():
            yield path.with_suffix("")


# unfinished files too: the lock of the result is held, so that nobody is writing them
def prune_store(result: Path, before: float | None = None) -> Kept:
    """Remove what is kept beside a result, and return it; before: only what was put there before this time."""
    found = stored_runs(result)
    gone = [(path, head) for path, head in found.shards if before is None or path.stat().st_mtime < before]
    for path, _ in gone:
        path.unlink(missing_ok=True)
    if before is None:
        for path in shard_files(found.folder):  # damaged ones too
            path.unlink(missing_ok=True)
        remove_unfinished(found.folder)
    _remove_empty(found.folder)
    return Kept(found.folder, gone, ())


# Shards are copied and then removed, since a rename does not reach another disk.
def move_store(result: Path, to: Path) -> Kept:
    """Move what is kept beside one result to another, on whatever disk, and return it.

    Raises ResultError where the disk refuses; each shard is in one of the places then.
    """
    found, folder = stored_runs(result), store_folder(to)
    if folder == found.folder:
        raise InputError(f"`TO` must be another result than FROM, got {to}")
    try:
        make_folder(folder)
        for path in shard_files(found.folder):
            with written_whole(folder / path.name) as temporary:
                shutil.copy2(path, temporary)
            path.unlink()
    except OSError as error:
        raise ResultError(f"cannot write in {folder}: {error.strerror or error}") from None
    _remove_empty(found.folder)
    return Kept(folder, found.shards, found.unread)


# an empty folder would look to its owner as if runs were kept
def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
