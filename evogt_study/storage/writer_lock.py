"""One writer for each result: a lock file beside it that names its holder.

The file is made exclusively, which every file system can do for all its machines.  Where the kernel's lock (`flock`)
is known, it ends with its process, however that ends.  Where it is not (Lustre, some NFS), or does not reach another
machine, the holder's sign of life, the file's time of change, tells whether it is still there.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EACCES, EAGAIN, ENOLCK, ENOSPC, ENOSYS, ENOTSUP, EOPNOTSUPP
from pathlib import Path

from evogt_study.errors import ResultError
from evogt_study.storage.atomic_files import followed, make_folder, unmake
from evogt_study.storage.processes import has_ended
from evogt_study.storage.processes import this_machine as _machine

HEARTBEAT_SECONDS = 10.0
"""Seconds between two signs of life of a holder.  Each is a change of one file's time, which costs a server little."""
SILENT_SECONDS = 120.0
"""Seconds of silence after which a holder is gone: twelve signs missed, since a file server may pause for a minute."""
NAMED_SECONDS = 2.0
"""Seconds after which a lock without a name was cut short: its maker names it within milliseconds."""
# who waits is 20 ms late at most, and looks are one small read each
LOOKS_PER_SECOND = 50
# which of the two is left to the system by POSIX
HELD = (EAGAIN, EACCES)
UNKNOWN = (ENOLCK, EOPNOTSUPP, ENOTSUP, ENOSYS)
"""Error numbers of `flock` where the file system has none."""


def lock_file(result: Path) -> Path:
    """Return the lock file of a result."""
    result = followed(result)  # two names of one file have one lock
    return result.with_name(result.name + ".lock")


@contextmanager
def only_writer(result: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock of `result`, and give a function that raises ResultError where it was lost, to call before writing.

    A lock whose process is gone is taken over.  So is one without a sign of life for `SILENT_SECONDS`: one of a process
    that was stopped so long is lost.  Raises ResultError, with the holder's host and process, where another holds it.
    """
    path = lock_file(result)
    made = _make(path.parent)
    try:
        lock = _acquired(path)
        ended = threading.Event()
        # a daemon, so that a command that ends by an exception does not wait for the next beat
        beating = threading.Thread(target=_beat, args=(lock, ended), daemon=True)
        beating.start()
        try:
            yield lock.check
        finally:
            ended.set()
            beating.join()
            # another may have taken it over while this process was stopped: then the file is the other's
            if lock.is_held():
                with suppress(OSError):  # of a disk that takes nothing any more: whoever comes next takes the lock over
                    path.unlink(missing_ok=True)
            os.close(lock.descriptor)
    finally:
        unmake(made)


@dataclass(frozen=True)
class Writer:
    """Holder of a lock as its file says.

    lives: whether it is there still, as far as can be seen from here: by its process, where that is on this machine,
    and by its signs of life.
    """

    host: str
    process: str
    since: str
    lives: bool

    def described(self) -> str:
        """Describe it: "process 4711 on host since 2026-01-01T12:00:00Z"."""
        return f"process {self.process} on {self.host} since {self.since}" + ("" if self.lives else ", which is gone")


def writer_of(result: Path) -> Writer | None:
    """Look who holds the lock of `result`, without touching it; None where nobody does, or it is not signed yet."""
    try:
        descriptor = os.open(lock_file(result), os.O_RDONLY)
    except OSError:
        return None
    try:
        found, silent = holder(descriptor), max(0.0, time.time() - os.fstat(descriptor).st_mtime)
    finally:
        os.close(descriptor)
    if not found:
        return None
    lives = not ended(found) and silent <= SILENT_SECONDS
    host, process, since = (found.get(key, "unknown") for key in ("host", "process", "since"))
    return Writer(host, process, since, lives)


@dataclass(frozen=True)
class _Lock:
    """A lock file that this process has open, and the token with which it signed it."""

    path: Path
    descriptor: int
    token: str

    def is_held(self) -> bool:
        return _is_at(self.path, self.descriptor) and holder(self.descriptor).get("token") == self.token

    def check(self) -> None:
        """Raise ResultError where another process has taken the lock over."""
        if self.is_held():
            return
        found = holder(self.descriptor)
        if found.get("token") == self.token:
            raise ResultError(f"{self.path} was removed, which keeps others from writing: run the same command again")
        raise _refusal(self.path, found)


def _make(folder: Path) -> list[Path]:
    """Make the folder; those that were missing, innermost first."""
    try:
        return make_folder(folder)
    except OSError as error:
        raise ResultError(f"cannot write in {folder}: {error.strerror}; choose another place with -o") from None


def _beat(lock: _Lock, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        with suppress(OSError):  # of a server that pauses; the next one may reach it
            os.utime(lock.descriptor)


def _acquired(path: Path) -> _Lock:
    """Take the lock and return it.  Where it is not clear yet whether another holds it, look again."""
    # a lock without a name is taken over after NAMED_SECONDS; twice that leaves time for whoever is doing it now
    end = time.monotonic() + 2 * NAMED_SECONDS
    while True:
        try:
            descriptor, made = _opened(path)
        except OSError as error:
            raise ResultError(f"cannot write {path}: {error.strerror}; choose another place with -o") from None
        try:
            token = _signed(path, descriptor, made)
            if token is not None:
                return _Lock(path, descriptor, token)
            if time.monotonic() > end:
                raise _unclear(path, holder(descriptor))
        except BaseException as error:
            os.close(descriptor)
            if not isinstance(error, OSError):
                raise
            if made:  # on a full disk, which has room for a file but not for what is in it
                path.unlink(missing_ok=True)
            raise ResultError(f"cannot write {path}: {error.strerror}; choose another place with -o") from None
        os.close(descriptor)
        time.sleep(1.0 / LOOKS_PER_SECOND)


def _opened(path: Path) -> tuple[int, bool]:
    """Open the lock file: its descriptor, and whether this process made it."""
    with suppress(FileExistsError):
        # exclusive creation is the one thing that all file systems do atomically, for all of their machines
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), True
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR), False
    return _opened(path)  # its holder removed it between the two calls


def _signed(path: Path, descriptor: int, made: bool) -> str | None:
    """Sign the lock and return the token under which this process holds it; None where that is not clear yet.

    Raises ResultError where another holds it.
    """
    alone = flocked(path, descriptor)
    if made and alone is not False:  # False: another looks already whether it may take it over
        return sign(descriptor)
    found = holder(descriptor)
    if alone is False and found and not ended(found):
        raise _refusal(path, found)
    if alone is False:
        return None  # another has just made it, or takes it over
    return _taken_over(path, descriptor, alone)


def _taken_over(path: Path, descriptor: int, alone: bool | None) -> str | None:
    """As `_signed`, of a file that was there.

    alone: whether this process has the kernel's lock, None where the file system has none.
    """
    with _judging(path) as now:
        if now is None:
            return None
        found, silent = holder(descriptor), now - os.fstat(descriptor).st_mtime
        if not found and silent < NAMED_SECONDS:
            return None
        if not _gone(found, silent, alone):
            raise _refusal(path, found)
        # its holder may have removed the file since it was opened: a signature in that one would lock nothing
        return sign(descriptor) if _is_at(path, descriptor) else None


def _gone(found: Mapping[str, str], silent: float, alone: bool | None) -> bool:
    """Tell whether the holder is gone of a lock that nobody has touched for `silent` seconds."""
    if not found or ("token" in found and silent > SILENT_SECONDS):
        return True
    here = found.get("host") == this_host()  # of other machines the kernel may not see the locks
    return here and (alone is True or ended(found))


def ended(found: Mapping[str, str]) -> bool:
    """Tell whether the holder is known to be a process of this machine that has ended."""
    return found.get("machine", "") == _machine() and has_ended(found)


# The time is of a file that was made just now, by the same clock as the signs of life of the holder.
@contextmanager
def _judging(path: Path) -> Iterator[float | None]:
    """Be the only one, on all machines, who decides about a lock that is there; None where another does.

    Gives the time by the clock of the file system: those of two machines may differ by minutes.
    """
    mark = _mark(path)
    try:
        descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        yield None
        return
    except OSError as error:
        raise ResultError(f"cannot write {mark}: {error.strerror}; choose another place with -o") from None
    try:
        yield os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        mark.unlink(missing_ok=True)


def _mark(path: Path) -> Path:
    return path.with_name(f".{path.name}.judged")


def flocked(path: Path, descriptor: int) -> bool | None:
    """Take the kernel's lock of an open file: False where another has it, None where the file system has no locks.

    Raises ResultError for any other failure.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in UNKNOWN:
            return None
        if error.errno in HELD:
            return False
        raise ResultError(f"cannot lock {path}: {error.strerror}; choose another place with -o") from None
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False


def sign(descriptor: int) -> str:
    """Write this process into a lock, and return the token that distinguishes this signature from all others."""
    now, token = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), uuid.uuid4().hex
    told = {"host": this_host(), "machine": _machine(), "process": os.getpid(), "since": now, "token": token}
    # in place, not by a rename: the kernel's lock is of this very file
    os.ftruncate(descriptor, 0)
    signature = json.dumps(told).encode()
    if os.pwrite(descriptor, signature, 0) < len(signature):
        raise OSError(ENOSPC, os.strerror(ENOSPC))
    os.fsync(descriptor)  # to where other machines look
    return token


def holder(descriptor: int) -> dict[str, str]:
    """Read what a lock says of its holder; nothing where it is not signed."""
    try:
        # pread, since the position belongs to all who share the descriptor; a signature is some 200 bytes
        found = json.loads(os.pread(descriptor, 4096, 0))
    except (ValueError, RecursionError):
        return {}
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _refusal(path: Path, found: Mapping[str, str]) -> ResultError:
    host, process = found.get("host", "an unknown host"), found.get("process", "unknown")
    since = f" since {found['since']}" if "since" in found else ""
    silent = f", or run again {SILENT_SECONDS:.0f} s after its end" if "token" in found else ""
    gone = "" if host == this_host() else f"; if that process is gone, remove {path}{silent}"
    return ResultError(
        f"{path.with_suffix('')} is being written by process {process} on {host}{since}: wait for it, or choose "
        f"another place with -o{gone}"
    )


def _unclear(path: Path, found: Mapping[str, str]) -> ResultError:
    if not _mark(path).exists():
        return _refusal(path, found)
    return ResultError(
        f"cannot lock {path}: another process has begun to take it over, and does not end; if there is none, remove "
        f"{_mark(path)}"
    )


def this_host() -> str:
    """The name of this machine."""
    return socket.gethostname()
