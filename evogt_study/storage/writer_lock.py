"""One writer for each result: a lock file beside it that names its holder.

The lock is the kernel's (`flock`), so it ends with its process however that ends.  The file's text is for people, and
for other machines on a shared file system, where the kernel's lock may not reach.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from evogt_study.errors import ResultError
from evogt_study.storage.atomic_files import followed


def lock_file(result: Path) -> Path:
    """Where the lock of a result is."""
    result = followed(result)  # two names of one file have one lock
    return result.with_name(result.name + ".lock")


@contextmanager
def only_writer(result: Path) -> Iterator[None]:
    """Hold the lock of `result`.

    A lock whose process is gone is taken over.  Raises ResultError, with the holder's host and process, where another
    holds it, on this machine or, for all that can be known, on another.
    """
    path = lock_file(result)
    made = _make(path.parent)
    try:
        descriptor = _acquired(path)
        try:
            yield
        finally:
            with suppress(FileNotFoundError):
                path.unlink()
            os.close(descriptor)
    finally:
        for folder in made:
            with suppress(OSError):  # a result has been put there
                folder.rmdir()


def _make(folder: Path) -> list[Path]:
    """Make the folder; those that were missing, innermost first."""
    missing = [each for each in [folder, *folder.parents] if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultError(f"cannot write in {folder}: {error.strerror}; choose another place with -o") from None
    return missing


def _acquired(path: Path) -> int:
    """A descriptor that holds the lock."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ResultError(f"cannot write {path}: {error.strerror}; choose another place with -o") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise _refusal(path, holder) from None
        if _is_at(path, descriptor):
            break
        os.close(descriptor)  # its holder removed it between the two calls above: begin again
    holder = _holder(descriptor)
    if holder.get("host", _host()) != _host():  # a kernel that does not see other machines' locks
        os.close(descriptor)
        raise _refusal(path, holder)
    _name(descriptor)
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _name(descriptor: int) -> None:
    """Write this process into the lock."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"host": _host(), "process": os.getpid(), "since": now}).encode(), 0)


def _holder(descriptor: int) -> dict[str, str]:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _refusal(path: Path, holder: dict[str, str]) -> ResultError:
    host, process = holder.get("host", "an unknown host"), holder.get("process", "unknown")
    since = f" since {holder['since']}" if "since" in holder else ""
    gone = f"; if that process is gone, remove {path}" if host != _host() else ""
    return ResultError(
        f"{path.with_suffix('')} is being written by process {process} on {host}{since}: wait for it, or choose "
        f"another place with -o{gone}"
    )


def _host() -> str:
    return socket.gethostname()
