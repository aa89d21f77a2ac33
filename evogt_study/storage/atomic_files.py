"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from pathlib import Path

from evogt_study.errors import ResultError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; on success it is synced to disk and renamed to `path`, else it is removed.

    A link stays one: what it leads to is written.  Raises ResultError where that cannot be.
    """
    path = followed(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def followed(path: Path) -> Path:
    """Where a file really lies: `path`, or what it is a link to.

    Raises ResultError for a link in a circle or into a folder that is not there: its disk may not be mounted.
    """
    if not os.path.islink(path):
        return path
    try:
        target = path.resolve()
    except (OSError, RuntimeError):  # of a circle, by the version of Python
        target = path
    if os.path.islink(target) or not target.parent.is_dir():
        raise ResultError(f"cannot write {path}: it is a link to {os.readlink(path)}, where nothing can be written")
    return target


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left of files in `folder`, or of the one of that `name`.

    Only for who alone may write them now.
    """
    left = re.compile(rf"\.{'.+' if name is None else re.escape(name)}\.\d+-[0-9a-f]{{8}}\.tmp")
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_writable(path: Path) -> None:
    """Raise ResultError unless a file can be written at `path`; folders that are missing are made, and unmade."""
    path, made = followed(path), []
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder")
        for folder in reversed([path.parent, *path.parent.parents]):
            if not folder.exists():
                folder.mkdir(exist_ok=True)
                made.append(folder)
        probe = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResultError(f"cannot write {path}: {reason}; choose another place with -o") from None
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # another run may have put something there meanwhile
                folder.rmdir()
