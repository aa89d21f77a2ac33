"""Write files and folders that appear completely or not at all.

A temporary name contains the `process_mark` of its process: machine, process number and start time.  With this mark, a
later process recognises and removes the files of a killed process.
"""

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

Found = TypeVar("Found")
MARK = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>\d+)\.(?P<start>\d+)-")
SPACES = ("/proc/self/ns/pid", "/proc/self/ns/time")
"""Namespaces that give a container its own process numbers and start times."""
_UNKNOWN = "0"
"""Start time of a process that the kernel does not show."""
RESULT_SUFFIXES = (".nc", ".nc4", ".cdf", ".h5", "")
"""Valid suffixes of a result file: the suffixes of NetCDF, or no suffix."""


@contextmanager
def write_atomically(path: Path, *, tidy: bool = False, folder: bool = False) -> Iterator[Path]:
    """Write a file or a new folder under a temporary name, sync it to disk, and rename it to `path`.

    If the body raises, the temporary file is removed and `path` is unchanged.  If `path` is a link, its target is
    replaced.  Raises ResultError if the target cannot be written, and OSError if the new folder already exists.

    With `tidy`, first remove temporary files of killed processes of this machine, which takes long in a large folder.
    """
    path = resolve_link(path).absolute()  # absolute: a writer may read a leading ~ as a home folder
    missing = make_folder(path.parent) if folder else []
    # in the same folder, since a rename is atomic within one file system only
    temporary = _beside(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp") if tidy else ():
        if is_left_over(left.name):
            _remove(left)
    try:
        if folder:
            temporary.mkdir()
        yield temporary
        for each in (*temporary.rglob("*"), temporary):
            sync(each)
        # content is on disk before its name, and its name before the old content is removed: in this order a result
        # survived all of 21 power cuts on ext4, with and without its journal
        (os.rename if folder else os.replace)(temporary, path)
        sync(path.parent)
    # Ctrl-C too must not leave half a file behind
    except BaseException:
        _remove(temporary)
        remove_created_folders(missing)
        raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_file(path: Path, content: bytes, *, tidy: bool = False) -> None:
    """Write a file as `write_atomically` does, and make the folder if it is missing.  Raises ResultError."""
    try:
        make_folder(path.parent)
        with write_atomically(path, tidy=tidy) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove temporary files of `name`, or of all files, in `folder`.  The caller must hold the lease."""
    file = ".+" if name is None else re.escape(name)
    left = re.compile(rf"\.{file}\.{MARK.pattern}[0-9a-f]{{8}}\.tmp")
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Return a new temporary name for `path`, with the mark of this process."""
    return path.with_name(f".{path.name}.{process_mark()}{uuid.uuid4().hex[:8]}.tmp")


def resolve_link(path: Path) -> Path:
    """Return `path`, or its target if `path` is a link.  Raises ResultError if the target is a pipe or device."""
    target = path
    if os.path.islink(path):
        with suppress(OSError, RuntimeError):  # of a circle, by the version of Python
            target = path.resolve()
        if os.path.islink(target) or not target.parent.is_dir():
            raise ResultError(
                f"cannot write {path}: it links to {os.readlink(path)}, which cannot be written. Choose another file."
            )
    if not target.name:
        raise ResultError(f"{path} must be a file, got a folder. Choose another file.")
    # functions of `os.path` do not raise for a name that is too long
    if os.path.exists(target) and not (os.path.isfile(target) or os.path.isdir(target)):
        raise ResultError(f"{path} must be a file, got a pipe or a device. Choose another file.")
    return target


# each writer replaces the file once, so a reader looks again at most once for each writer
def retry_if_replaced(path: Path, look: Callable[[], Found]) -> Found:
    """Call `look` until the file `path` is not replaced during the call, and return the value of the last call.

    A writer replaces its result before it removes the shards.  If a reader finds neither the shards nor the new
    result, the next call finds the new result.
    """
    while True:
        before = identity(path)
        try:
            found = look()
            if identity(path) == before:
                return found
        except ResultError:
            if identity(path) == before:
                raise


def identity(path: Path) -> tuple[int, int] | None:
    """Return numbers that differ between a file and its replacement, or None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    # a rename brings another inode; the time is for file systems that hand the same number out again
    return status.st_ino, status.st_mtime_ns


def make_folder(folder: Path) -> list[Path]:
    """Make a folder and its parents, sync all of them to disk, and return the new folders, innermost first."""
    made: list[Path] = []
    try:
        # outermost first, each synced into its parent: a power cut must not lose a folder with its files
        for each in reversed([folder, *folder.parents]):
            if not each.exists():
                each.mkdir(parents=True, exist_ok=True)  # another process may have removed its parent
                made.insert(0, each)
                sync(each.parent)
    except OSError:
        remove_created_folders(made)
        raise
    return made


def remove_created_folders(folders: Iterable[Path]) -> None:
    """Remove the folders that are empty, innermost first."""
    for folder in folders:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)  # enough for fsync, and a folder has no other
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# called before anything is computed, so that a wrong name does not fail after hours of runs
def check_result_place(path: Path) -> None:
    """Raise ResultError if a result cannot be written at `path`, or if its suffix is not in `RESULT_SUFFIXES`."""
    whole = os.path.abspath(resolve_link(path))
    if not is_utf8(whole):
        raise ResultError(f"cannot write {whole!a}: the name must be UTF-8. Choose another output file.")
    if path.suffix.lower() not in RESULT_SUFFIXES:
        raise ResultError(
            f"cannot write {path}: a result is NetCDF, not {path.suffix}. Choose another output file, such as "
            f"{path.with_suffix('.nc')}"
        )
    check_writable(path)


def check_writable(path: Path) -> None:
    """Raise ResultError unless a file can be written at `path`.  The folder of the file may be missing."""
    path = resolve_link(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder")
        # no folder is made and removed here: another process, which writes there now, would lose it
        nearest = next(folder for folder in path.absolute().parents if folder.exists())
        probe = nearest / _beside(path).name
        probe.touch()
        probe.unlink(missing_ok=True)  # who holds the lock may have removed it
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}. Choose another output file.") from None


def is_utf8(text: str) -> bool:
    """Return True for text in UTF-8.  NetCDF needs UTF-8 in paths and attributes."""
    # Python replaces bytes of a name that are not UTF-8 by surrogates
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def process_mark() -> str:
    """Return the mark in the names of temporary files and folders of this process."""
    return "{machine}-{process}.{start}-".format(**process_identity())


def is_left_over(name: str) -> bool:
    """Return True for a name with the mark of a process of this machine that has ended."""
    found = MARK.search(name)
    return found is not None and has_ended(found)


def process_identity() -> dict[str, str]:
    """Return the machine, the number and the start time of this process."""
    return {"machine": this_machine(), "process": str(os.getpid()), "start": _state_and_start(os.getpid())[1]}


def has_ended(process: Mapping[str, str] | re.Match[str]) -> bool:
    """Return True if a process of this machine has ended, even if a later process has its number."""
    if process["machine"] != this_machine():
        return False
    try:
        number = int(process["process"])
        with suppress(PermissionError):  # a process of another user
            os.kill(number, 0)  # never delivered: the kernel only checks that the process exists
    except (ProcessLookupError, ValueError, OverflowError):
        return True
    state, start = _state_and_start(number)
    # a killed process is a zombie (Z) until its parent, which may never do so, asks for its exit code
    return state in ("Z", "X") or (start != process["start"] and _UNKNOWN not in (start, process["start"]))


def _state_and_start(process: int) -> tuple[str, str]:
    """Return the state of a process and its start time in ticks, or `_UNKNOWN` for both."""
    try:
        # the name, in parentheses, may contain any byte
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return fields[0], fields[19]


@cache
def this_machine() -> str:
    """Return the identity of the machine or the container in which process numbers and start times are unique.

    A host name is not enough, because several machines may share a name and containers have separate process numbers.
    8 digits keep names short.  The identities of two machines agree with a probability of 1 in 4e9.
    """
    text = uuid.uuid4().hex  # unknown: equal to no other
    with suppress(OSError):
        spaces = [os.stat(path).st_ino for path in SPACES if os.path.exists(path)]  # old kernels lack the second
        # if it differs, /proc shows the processes outside of the container
        if os.readlink("/proc/self") == str(os.getpid()):
            # with the identity of the boot: after a reboot the same number is another process
            text = f"{Path('/proc/sys/kernel/random/boot_id').read_text()}{spaces}"
    return blake2b(text.encode(), digest_size=4).hexdigest()
