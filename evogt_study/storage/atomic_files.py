"""Files that appear whole or not at all."""

from __future__ import annotations

import glob
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from pathlib import Path
from typing import TypeVar

from evogt_study.errors import ResultError
from evogt_study.storage.processes import own_mark, was_left

RESULT_SUFFIXES = (".nc", ".nc4", ".cdf", ".h5", "")
"""Of names that say what a result is, or nothing."""


Found = TypeVar("Found")


@contextmanager
def written_whole(path: Path, *, tidy: bool = False) -> Iterator[Path]:
    """A temporary name beside `path`; on success it is synced to disk and renamed to `path`, else it is removed.

    tidy: remove what processes of this machine that were killed left of it; for where many others do not lie beside it.

    A link stays one: what it leads to is written.  Raises ResultError where that cannot be.
    """
    path = followed(path)
    temporary = _beside(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp") if tidy else ():
        if was_left(left.name):
            left.unlink(missing_ok=True)
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _beside(path: Path) -> Path:
    """A new temporary name for what becomes `path`; what a killed process leaves is told by it."""
    return path.with_name(f".{path.name}.{own_mark()}{uuid.uuid4().hex[:8]}.tmp")


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


def steadily(path: Path, look: Callable[[], Found]) -> Found:
    """Return what `look` finds, looked for again where the file `path` was replaced meanwhile.

    A writer replaces its result before it removes what the result was made of.
    """
    while True:
        before = _identity(path)
        try:
            found = look()
        except ResultError:
            if _identity(path) == before:
                raise
        else:
            if _identity(path) == before:
                return found


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left of files in `folder`, or of the one of that `name`.

    Only for who alone may write them now.
    """
    file = ".+" if name is None else re.escape(name)
    left = re.compile(rf"\.{file}\.([0-9a-f]{{8}}-)?(\d+-)?[0-9a-f]{{8}}\.(tmp|probe)")
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> list[Path]:
    """Make a folder and its parents, on disk with their names; those that were missing, innermost first."""
    made: list[Path] = []
    try:
        for each in reversed([folder, *folder.parents]):
            if not each.exists():
                each.mkdir(exist_ok=True)
                made.insert(0, each)
                sync(each.parent)
    except OSError:
        unmake(made)
        raise
    return made


def unmake(folders: Iterable[Path]) -> None:
    """Remove folders that were made for nothing, innermost first; one that something was put into stays."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_writable(path: Path) -> None:
    """Raise ResultError unless a file can be written at `path`; folders that are missing are made, and unmade."""
    path, made = followed(path), list[Path]()
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder")
        made = make_folder(path.parent)
        probe = _beside(path)
        probe.touch()
        probe.unlink(missing_ok=True)  # who holds the lock may have removed it
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResultError(f"cannot write {path}: {reason}; choose another place with -o") from None
    finally:
        unmake(made)


def is_utf8(text: str) -> bool:
    """Whether a path's name is text to NetCDF, whose own paths and attributes are UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def check_result_place(path: Path) -> None:
    """Raise ResultError unless a result can be written at `path`, under a name that does not belie it."""
    whole = os.path.abspath(followed(path))
    if not is_utf8(whole):
        raise ResultError(f"cannot write {whole!a}: the name must be UTF-8; choose another place with -o")
    if path.suffix.lower() not in RESULT_SUFFIXES:
        raise ResultError(
            f"cannot write {path}: a result is NetCDF, not {path.suffix}; choose another place with -o, such as "
            f"{path.with_suffix('.nc')}"
        )
    check_writable(path)
