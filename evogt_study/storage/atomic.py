"""Files, and folders of files, that appear whole or not at all."""

from __future__ import annotations

import glob
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EISDIR
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from evogt_study.errors import ResultError

MARK = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-")


@cache
def this_machine() -> str:
    """Identify the machine, or the container in it, within which a process number has one meaning.

    Host names do not do that: machines may share one, and containers have process numbers of their own.
    """
    try:
        # the boot's identity too: after a reboot the same number is another process
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return uuid.uuid4().hex  # not known: no other is the same


def own_mark() -> str:
    """Return what names of temporary files and folders of this process have in them."""
    return f"{_digest(this_machine())}-{os.getpid()}-"


def was_left(name: str) -> bool:
    """Return True for a name with the mark of a process of this machine that has ended."""
    found = MARK.search(name)
    return found is not None and found["machine"] == _digest(this_machine()) and has_ended(found)


def has_ended(process: Mapping[str, str] | re.Match[str]) -> bool:
    """Return True where the number under "process" is of no process here."""
    try:
        # signal 0 is never delivered: the kernel only checks that the process is there
        os.kill(int(process["process"]), 0)
    except (ProcessLookupError, LookupError, ValueError, OverflowError):
        return True
    # it is there, and another user's
    except PermissionError:
        return False
    return False


def _digest(text: str) -> str:
    # 8 digits keep names short; a mark of another machine that agrees by chance is 1 in 4e9
    return blake2b(text.encode(), digest_size=4).hexdigest()


RESULT_SUFFIXES = (".nc", ".nc4", ".cdf", ".h5", "")
"""Suffixes under which a result may be written: those of NetCDF, and none."""


Found = TypeVar("Found")


@contextmanager
def written_whole(path: Path, *, tidy: bool = False) -> Iterator[Path]:
    """Write a file atomically: under a temporary name beside `path`, synced to disk, then renamed to `path`.

    Where the body raises, the temporary file is removed and `path` is as it was.

    tidy: first remove what killed processes of this machine left of it.  Left out for folders of many files, since it
    lists the folder.

    A link stays one: what it leads to is written.  Raises ResultError where that cannot be.
    """
    path = followed(path).absolute()  # else what writes may take ~ for a home
    # in the same folder, since a rename is atomic within one file system only
    temporary = _beside(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp") if tidy else ():
        if was_left(left.name):
            left.unlink(missing_ok=True)
    try:
        yield temporary
        sync(temporary)
        # all of 21 power cuts on ext4, with and without its journal, were survived in this order: content is on disk
        # before its name, and its name before what it replaces is removed
        os.replace(temporary, path)
        sync(path.parent)
    # Ctrl-C too must not leave half a file behind
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_file(path: Path, content: bytes, *, tidy: bool = False) -> None:
    """Write a file as `written_whole` does, in a folder that is made where it is missing.

    Raises ResultError where the disk refuses.
    """
    try:
        make_folder(path.parent)
        with written_whole(path, tidy=tidy) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """Write a new folder atomically: under a temporary name beside `path`, synced to disk, then renamed to `path`.

    Where the body raises, the temporary folder is removed.  What killed processes of this machine left of it is removed
    first.  Raises OSError where something is at `path` by then.
    """
    missing = make_folder(path.parent)
    temporary = _beside(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if was_left(left.name):
            shutil.rmtree(left, ignore_errors=True)
    try:
        temporary.mkdir()
        yield temporary
        for each in (*temporary.rglob("*"), temporary):
            sync(each)
        os.rename(temporary, path)
        sync(path.parent)
    # Ctrl-C too must not leave half a folder behind
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        unmake(missing)
        raise


def _beside(path: Path) -> Path:
    """Return a new temporary name for what becomes `path`, with the mark by which a killed process's is recognised."""
    return path.with_name(f".{path.name}.{own_mark()}{uuid.uuid4().hex[:8]}.tmp")


def followed(path: Path) -> Path:
    """Return the path at which a file really lies: `path`, or what it is a link to.

    Raises ResultError for a link in a circle or into a folder that is not there: its disk may not be mounted; and for
    a pipe or a device, which would be waited for, or replaced.
    """
    target = path
    if os.path.islink(path):
        with suppress(OSError, RuntimeError):  # of a circle, by the version of Python
            target = path.resolve()
        if os.path.islink(target) or not target.parent.is_dir():
            raise ResultError(f"cannot write {path}: it is a link to {os.readlink(path)}, where nothing can be written")
    if not target.name:
        raise ResultError(f"{path} must be a file, got a folder; name another")
    if is_special(target):
        raise ResultError(f"{path} must be a file, got a pipe or a device; name another")
    return target


def is_special(path: Path) -> bool:
    """Return True for what is there and is neither a file nor a folder: a pipe, which is waited for, or a device."""
    # those of `os.path`, to which a name that is too long is one of nothing
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


# bounded by writers: each replaces the file once, so that a reader looks again at most once for each of them
def steadily(path: Path, look: Callable[[], Found]) -> Found:
    """Return what `look` finds, looked for again where the file `path` was replaced meanwhile.

    A writer replaces its result before it removes the shards that it was made of.  A reader that meets neither has been
    overtaken, and finds the new result when it looks again.
    """
    while True:
        before = identity(path)
        try:
            found = look()
        except ResultError:
            if identity(path) == before:
                raise
        else:
            if identity(path) == before:
                return found


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from the one that replaces it; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    # a rename brings another inode; the time is for file systems that hand the same number out again
    return status.st_ino, status.st_mtime_ns


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left of files in `folder`, or of the one of that `name`.

    For the holder of the result's lock only: others may be writing theirs.
    """
    file = ".+" if name is None else re.escape(name)
    left = re.compile(rf"\.{file}\.{MARK.pattern}[0-9a-f]{{8}}\.tmp")
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> list[Path]:
    """Make a folder and its parents, on disk with their names; those that were missing, innermost first."""
    made: list[Path] = []
    try:
        # outermost first, each synced into its parent: else a power cut could lose a folder with the files in it
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
        # rmdir refuses a folder that is not empty, so nothing is lost here
        with suppress(OSError):
            folder.rmdir()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    # fsync is of the file, whatever descriptor asks for it: reading is enough, and the only way for a folder
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
    """Return True for a path that is text to NetCDF, whose own paths and attributes are UTF-8."""
    # Python stands surrogates in for the bytes of a name that are not UTF-8
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


# before anything is computed: a name that fails after hours of runs is found out at once
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
