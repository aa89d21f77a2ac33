"""Name, write and read files of studies and results.

A written file or folder appears completely or not at all.  Readers refuse pipes, devices, files that are too large, and
links that lead out of a folder.
"""

import glob
import hashlib
import io
import json
import math
import os
import re
import shutil
import stat
import tomllib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EISDIR
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import xxhash

from evogt_study.errors import EvogtError, InputError, ResultError, shorten

Found = TypeVar("Found")
PROGRESS, CLAIMS = "progress.json", "claims"
SHARDS, STORE = FOLDERS_OF_SHARDS = (".shards", ".store")
"""Suffixes of the folder of shards, which an unfinished study has, and of the store."""
RESULT_SUFFIXES = (".nc", ".nc4", ".cdf", ".h5", "")
"""Valid suffixes of a result file: the suffixes of NetCDF, or no suffix."""
MAX_BYTES = 32 * 2**20
"""Largest size of a file that is read as a whole.  A table of a million numbers of 17 digits has 20 MB."""
MAX_STUDY_BYTES = 4 * 2**20  # largest size of a study file.  Reading TOML takes 0.5 s for each MB
_LONG_KEY = re.compile(r"""(?<![\w."'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""Pattern of a key with more than 100 parts.  Its reading time grows with the square of the number of parts."""
_MARK = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>\d+)\.(?P<start>\d+)-")
"""Pattern of the mark of a process in temporary names, by which a later process finds files of a killed process."""
_NAMESPACES = ("/proc/self/ns/pid", "/proc/self/ns/time")
"""Namespaces that give a container its own process numbers and start times."""
_UNKNOWN = "0"  # start time of a process that the kernel does not show


# --- paths of a result ------------------------------------------------------------------------------------------------


def default_result(name: str) -> Path:
    """Return the default path of the result of a study of this name."""
    return Path("results") / f"{name}.nc"


def add_suffix(result: Path, suffix: str) -> Path:
    """Return the path of a result with a suffix added.  For a link, the path is beside its target."""
    result = resolve_link(result)
    return result.parent / f"{result.name}{suffix}"


# paths beside a result.  The folder of shards exists while a study runs, and is removed with the claims in it
shard_folder = partial(add_suffix, suffix=SHARDS)
store_folder = partial(add_suffix, suffix=STORE)  # finished runs that are no longer part of the study
runs_folder = partial(add_suffix, suffix=".runs")  # folders and checkpoints of runs
description_path = partial(add_suffix, suffix=f"{SHARDS}/study.json")  # the study of an unfinished result
progress_file = partial(add_suffix, suffix=f"{SHARDS}/{PROGRESS}")  # the latest progress event of a running study
claims_folder = partial(add_suffix, suffix=f"{SHARDS}/{CLAIMS}")  # claims of array tasks
lock_file = partial(add_suffix, suffix=".lock")  # the lease.  A link and its target have one lease
jobs_folder = partial(add_suffix, suffix=".jobs")  # output of the jobs of a batch system


def to_paths(given: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return one path or several paths as a list."""
    return [Path(given)] if isinstance(given, (str, Path)) else [Path(each) for each in given]


def resolve_link(path: Path) -> Path:
    """Return `path`, or its target if `path` is a link.  Raises ResultError if the target is a pipe or device."""
    target = path
    if os.path.islink(path):
        with suppress(OSError, RuntimeError):  # some versions of Python raise for a circle of links
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


# called before the runs, so that a wrong name does not fail after hours
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
        # make no folder here, because another process may write in the folder before its removal
        nearest = next(folder for folder in path.absolute().parents if folder.exists())
        probe = nearest / _temporary_path(path).name
        probe.touch()
        probe.unlink(missing_ok=True)  # the holder of the lease may have removed the file
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}. Choose another output file.") from None


def is_utf8(text: str) -> bool:
    """Return True for text in UTF-8.  NetCDF needs UTF-8 in paths and attributes."""
    # Python replaces bytes of a name that are not UTF-8 by surrogates
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


# --- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def write_atomically(path: Path, *, tidy: bool = False, folder: bool = False) -> Iterator[Path]:
    """Write a file or a new folder under a temporary name, sync it to disk, and rename it to `path` or its target.

    If the body raises, `path` is unchanged.  Raises ResultError if `path` cannot be written, and OSError if the new
    folder exists.  With `tidy`, first remove temporary files of killed processes, which takes long in a large folder.
    """
    path = resolve_link(path).absolute()  # absolute: a writer may read a leading ~ as a home folder
    missing = make_folder(path.parent) if folder else []
    # in the same folder, since a rename is atomic within one file system only
    temporary = _temporary_path(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp") if tidy else ():
        if is_left_over(left.name):
            _remove(left)
    try:
        if folder:
            temporary.mkdir()
        yield temporary
        for each in (*temporary.rglob("*"), temporary):
            _sync(each)
        # sync the content before the rename, and the name before the removal of old content: in this order, a result
        # survived 21 of 21 power cuts on ext4, with and without its journal
        (os.rename if folder else os.replace)(temporary, path)
        _sync(path.parent)
    # Ctrl-C must not leave an incomplete file
    except BaseException:
        _remove(temporary)
        remove_created_folders(missing)
        raise


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{make_process_mark()}{uuid.uuid4().hex[:8]}.tmp")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)  # fsync needs no more, and a folder opens only for reading
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    left = re.compile(rf"\.{file}\.{_MARK.pattern}[0-9a-f]{{8}}\.tmp")
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> list[Path]:
    """Make a folder and its parents, sync all of them to disk, and return the new folders, innermost first."""
    made: list[Path] = []
    try:
        # outermost first, each synced into its parent: a power cut must not lose a folder with its files
        for each in reversed([folder, *folder.parents]):
            if not each.exists():
                each.mkdir(parents=True, exist_ok=True)  # another process may have removed its parent
                made.insert(0, each)
                _sync(each.parent)
    except OSError:
        remove_created_folders(made)
        raise
    return made


def remove_created_folders(folders: Iterable[Path]) -> None:
    """Remove the folders that are empty, innermost first."""
    for folder in folders:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


# --- reading ----------------------------------------------------------------------------------------------------------


# a writer replaces the result before it removes the shards, so a reader that finds neither tries again
def retry_if_replaced(path: Path, look: Callable[[], Found]) -> Found:
    """Call `look` until the file `path` is not replaced during the call, and return the value of the last call."""
    while True:
        before = read_file_identity(path)
        try:
            found = look()
            if read_file_identity(path) == before:
                return found
        except ResultError:
            if read_file_identity(path) == before:
                raise


def read_file_identity(path: Path) -> tuple[int, int] | None:
    """Return numbers that differ between a file and its replacement, or None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    # a replacement has another inode, or another time on file systems that reuse inodes
    return status.st_ino, status.st_mtime_ns


def open_file(path: Path, inside: Path | None = None, max_bytes: float = math.inf) -> io.BufferedReader:
    """Open a regular file without waiting.  Raises OSError if its target is outside of the folder `inside`."""
    try:
        if inside is not None and not path.resolve().is_relative_to(inside.resolve()):
            raise OSError(0, f"it is not inside of {inside}", str(path))
        # O_NONBLOCK: opening a pipe without a writer would wait. It does not affect regular files
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (ValueError, RuntimeError) as error:  # a null character in the name, or a circle of links
        raise OSError(0, str(error), str(path)) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
        os.close(descriptor)
        is_large = f"it has more than {max_bytes:,} bytes" if stat.S_ISREG(found.st_mode) else ""
        raise OSError(0, is_large or "it is a folder, a pipe or a device", str(path))
    return open(descriptor, "rb")


def read_bytes(path: Path, inside: Path | None = None, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file.  Raises OSError, also for a file of more than `max_bytes`."""
    with open_file(path, inside, max_bytes) as file:
        return file.read(max_bytes)


def read_text(
    path: Path, what: str, kind: type[EvogtError] = InputError, inside: Path | None = None, max_bytes: int = MAX_BYTES
) -> str:
    """Return the text of a file in UTF-8.  `what` names the file in messages.  Raises an error of type `kind`."""
    try:
        return read_bytes(path, inside, max_bytes).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        reason = "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror or error
        raise kind(f"cannot read {what} {shorten(str(path), 200)[1:-1]}: {reason}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text.  Raises ValueError if the text is not valid."""
    if _LONG_KEY.search(text):
        raise ValueError("a key has more than 100 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_json(text: str | bytes) -> Any:
    """Return the content of a JSON text.  Raises ValueError, also for numbers outside of JSON, such as NaN."""

    def refuse_number(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def hash_file(path: Path, inside: Path | None = None) -> str:
    """Return the SHA-256 of the bytes of a regular file of any size.  Raises OSError."""
    with open_file(path, inside) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum(*parts: Any) -> bytes:
    """Return the XXH3-128 checksum of the bytes of all parts."""
    made = xxhash.xxh3_128()
    for part in parts:
        made.update(part)
    return made.digest()


# --- processes --------------------------------------------------------------------------------------------------------


def make_process_mark() -> str:
    """Return the mark in the names of temporary files and folders of this process."""
    return "{machine}-{process}.{start}-".format(**read_process_identity())


def is_left_over(name: str) -> bool:
    """Return True for a name with the mark of a process of this machine that has ended."""
    found = _MARK.search(name)
    return found is not None and has_ended(found)


def read_process_identity() -> dict[str, str]:
    """Return the machine, the number and the start time of this process."""
    return {"machine": _identify_machine(), "process": str(os.getpid()), "start": _read_state_and_start(os.getpid())[1]}


def has_ended(process: Mapping[str, str] | re.Match[str]) -> bool:
    """Return True if a process of this machine has ended, even if a later process has its number."""
    if process["machine"] != _identify_machine():
        return False
    try:
        number = int(process["process"])
        with suppress(PermissionError):  # a process of another user
            os.kill(number, 0)  # signal 0 only checks that the process exists
    except (ProcessLookupError, ValueError, OverflowError):
        return True
    state, start = _read_state_and_start(number)
    # a killed process is a zombie (Z) until its parent reads its exit code
    return state in ("Z", "X") or (start != process["start"] and _UNKNOWN not in (start, process["start"]))


def _read_state_and_start(process: int) -> tuple[str, str]:
    """Return the state of a process and its start time in ticks, or `_UNKNOWN` for both."""
    try:
        # the name, in parentheses, may contain any byte
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return fields[0], fields[19]


# a host name is not enough: machines may share a name, and containers have separate process numbers.  8 digits keep
# names short, and two machines have equal digits with a probability of 1 in 4e9
@cache
def _identify_machine() -> str:
    """Return the identity of the machine or container in which process numbers and start times are unique."""
    text = uuid.uuid4().hex  # an unknown machine has a random identity
    with suppress(OSError):
        spaces = [os.stat(path).st_ino for path in _NAMESPACES if os.path.exists(path)]  # old kernels lack one
        # if it differs, /proc shows the processes outside of the container
        if os.readlink("/proc/self") == str(os.getpid()):
            # a process number belongs to another process after a reboot
            text = f"{Path('/proc/sys/kernel/random/boot_id').read_text()}{spaces}"
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
