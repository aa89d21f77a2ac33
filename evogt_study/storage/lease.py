"""The right of one process to write a result, to compute a part of a plan, or to use a temporary folder.

A lock or a claim is a file that names its holder.  It is created exclusively, which every file system can do for all of
its machines.

- `only_writer` holds the lock beside a result file.  The kernel's lock (`flock`), if the file system has it, ends with
  its process.  Otherwise (Lustre, some NFS), or on another machine, the time of change of the file shows whether the
  holder is alive: the holder renews it every `HEARTBEAT_SECONDS`.
- `Claims` are the parts of a plan that array tasks take, each a file in a folder.
- `own_folder` is the temporary folder of a command.  A lock in it shows whether the command has ended.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import EACCES, EAGAIN, ENOLCK, ENOSPC, ENOSYS, ENOTSUP, EOPNOTSUPP
from functools import cache
from multiprocessing.util import get_temp_dir
from pathlib import Path

from evogt_study.errors import ResultError
from evogt_study.storage.atomic import followed, has_ended, make_folder, own_mark, unmake
from evogt_study.storage.atomic import this_machine as _machine

HEARTBEAT_SECONDS = 10.0
"""Seconds between two signs of life of a holder.  A sign of life is a new time of change of its file."""
SILENT_SECONDS = 120.0
"""Seconds without a sign of life after which a holder is gone.  A file server may pause for a minute."""
NAMED_SECONDS = 2.0
"""Seconds after which the holder of an unsigned lock is gone.  A holder signs within milliseconds."""
LOOKS_PER_SECOND = 50
"""Reads of a lock that may become free."""
HELD = (EAGAIN, EACCES)
"""Error numbers of `flock` if another process holds the lock.  POSIX leaves the choice to the system."""
UNKNOWN = (ENOLCK, EOPNOTSUPP, ENOTSUP, ENOSYS)
"""Error numbers of `flock` if the file system has no locks."""
LIVES = 5
"""Number of processes that may be lost in one part: a part that ended so many would end all others in turn."""
_CLAIM_NAME = re.compile(r"(\d+)\.(\d+|done)")
RELEASED = b"released"
FOLDER_PREFIX = "pymp-"
"""Prefix of the folder that multiprocessing makes for the processes of one command."""
FOLDER_LOCK = "evogt.lock"
"""Lock in that folder.  It ends with the command; the age of the folder says nothing about a study that takes days."""


def lock_file(result: Path) -> Path:
    """Return the lock file of a result."""
    result = followed(result)  # a link and its target have one lock
    return result.with_name(result.name + ".lock")


@contextmanager
def only_writer(result: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock of `result`.  Yield a function that raises ResultError if the lock is lost.

    Call this function before each write.  A lock is taken over if its process is gone, or if it has had no sign of life
    for `SILENT_SECONDS`.  So a process that is stopped for this time loses its lock.  Raises ResultError, with host and
    process, if another process holds it.
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
                with suppress(OSError):  # a disk error: the next process takes the lock over
                    path.unlink(missing_ok=True)
            os.close(lock.descriptor)
    finally:
        unmake(made)


@dataclass(frozen=True)
class Writer:
    """Holder of a lock, from the lock file.

    lives: False if its process on this machine has ended, or if it has had no sign of life for `SILENT_SECONDS`.
    """

    host: str
    process: str
    since: str
    lives: bool

    def described(self) -> str:
        """Describe the holder: "process 4711 on host since 2026-01-01T12:00:00Z"."""
        return f"process {self.process} on {self.host} since {self.since}" + ("" if self.lives else ", which is gone")


def writer_of(result: Path) -> Writer | None:
    """Return the holder of the lock of `result`; None if there is no lock or it is not signed."""
    try:
        descriptor = os.open(lock_file(result), os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
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
    """A lock file that this process has open, and the token in its signature."""

    path: Path
    descriptor: int
    token: str

    def is_held(self) -> bool:
        return _is_at(self.path, self.descriptor) and holder(self.descriptor).get("token") == self.token

    def check(self) -> None:
        """Raise ResultError if another process has taken the lock over."""
        if self.is_held():
            return
        found = holder(self.descriptor)
        if found.get("token") == self.token:
            raise ResultError(f"{self.path} was removed, which keeps others from writing: run the same command again")
        raise _refusal(self.path, found)


def _make(folder: Path) -> list[Path]:
    """Make the folder; return the folders that were missing, innermost first.  Raises ResultError."""
    try:
        return make_folder(folder)
    except OSError as error:
        raise ResultError(f"cannot write in {folder}: {error.strerror}; choose another place with -o") from None


def _beat(lock: _Lock, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        with suppress(OSError):  # a server may pause; the next sign may reach it
            os.utime(lock.descriptor)


def _acquired(path: Path) -> _Lock:
    """Take the lock and return it.  While it is unclear whether another process holds it, look again."""
    # an unsigned lock is taken over after NAMED_SECONDS; another process may be doing this now
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
            if made:  # a full disk may have room for a file but not for its content
                path.unlink(missing_ok=True)
            raise ResultError(f"cannot write {path}: {error.strerror}; choose another place with -o") from None
        os.close(descriptor)
        time.sleep(1.0 / LOOKS_PER_SECOND)


def _opened(path: Path) -> tuple[int, bool]:
    """Open the lock file; return its descriptor, and True if this process created it."""
    with suppress(FileExistsError):
        # all file systems create a file exclusively, for all of their machines
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), True
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR), False
    return _opened(path)  # its holder removed it between the two calls


def _signed(path: Path, descriptor: int, made: bool) -> str | None:
    """Sign the lock and return the token; None if it is unclear whether another process holds it.

    Raises ResultError if another process holds it.
    """
    alone = flocked(path, descriptor)
    if made and alone is not False:  # False: another process examines it already
        return sign(descriptor)
    found = holder(descriptor)
    if alone is False and found and not ended(found):
        raise _refusal(path, found)
    if alone is False:
        return None  # another process has just created it, or takes it over
    return _taken_over(path, descriptor, alone)


def _taken_over(path: Path, descriptor: int, alone: bool | None) -> str | None:
    """Sign, as `_signed` does, a lock file that existed before.

    alone: True if this process has the kernel's lock, None if the file system has no locks.
    """
    with _judging(path) as now:
        if now is None:
            return None
        found, silent = holder(descriptor), now - os.fstat(descriptor).st_mtime
        if not found and silent < NAMED_SECONDS:
            return None
        if not _gone(found, silent, alone):
            raise _refusal(path, found)
        # its holder may have removed the file since it was opened: then a signature would lock nothing
        return sign(descriptor) if _is_at(path, descriptor) else None


def _gone(found: Mapping[str, str], silent: float, alone: bool | None) -> bool:
    """Return True if the holder of a lock is gone.  silent: seconds since its last sign of life."""
    if not found or ("token" in found and silent > SILENT_SECONDS):
        return True
    here = found.get("host") == this_host()  # the kernel may not see locks of other machines
    return here and (alone is True or ended(found))


@contextmanager
def _judging(path: Path) -> Iterator[float | None]:
    """Be the only process, on all machines, that decides about an existing lock; yield None if another process does.

    Otherwise yield the time of a new file.  It is by the clock of the file system, as the signs of life are: the clocks
    of two machines may differ by minutes.
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


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False


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


def sign(descriptor: int) -> str:
    """Write host and process into a lock; return the token that is unique to this signature."""
    now, token = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), uuid.uuid4().hex
    told = {"host": this_host(), "machine": _machine(), "process": os.getpid(), "since": now, "token": token}
    # in place, not by a rename: the kernel's lock belongs to this file
    os.ftruncate(descriptor, 0)
    signature = json.dumps(told).encode()
    if os.pwrite(descriptor, signature, 0) < len(signature):
        raise OSError(ENOSPC, os.strerror(ENOSPC))
    os.fsync(descriptor)  # to where other machines look
    return token


def holder(descriptor: int) -> dict[str, str]:
    """Read the signature of a lock; return an empty mapping if it is not signed."""
    try:
        # pread does not move the shared position; a signature has about 200 bytes
        found = json.loads(os.pread(descriptor, 4096, 0))
    except (OSError, ValueError, RecursionError):  # OSError: of a pipe
        return {}
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def ended(found: Mapping[str, str]) -> bool:
    """Return True if the holder is a process of this machine that has ended."""
    return found.get("machine", "") == _machine() and has_ended(found)


def flocked(path: Path, descriptor: int) -> bool | None:
    """Take the kernel's lock of an open file; return False if another process has it, None if there are no locks.

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


def this_host() -> str:
    """The name of this machine."""
    return socket.gethostname()


class WorkIsGoneError(Exception):
    """The folder of claims is gone: another process has joined the results."""


@dataclass(frozen=True)
class Seen:
    """Claims in a folder: the latest generation of each part, and the parts that are done."""

    generations: dict[int, int]
    done: frozenset[int]


@dataclass(eq=False)
class Claims:
    """Claims in a folder, which exists until the plan is computed.  held: claims of this process, by part."""

    folder: Path
    held: dict[int, Path] = field(default_factory=dict)

    def seen(self) -> Seen:
        """Read all claims.  Raises WorkIsGoneError."""
        generations, done = dict[int, int](), set[int]()
        for name in self._names():
            if match := _CLAIM_NAME.fullmatch(name):
                part = int(match[1])
                if match[2] == "done":
                    done.add(part)
                else:
                    generations[part] = max(int(match[2]), generations.get(part, 0))
        return Seen(generations, frozenset(done))

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.folder)
        except FileNotFoundError:
            raise WorkIsGoneError from None
        except OSError as error:
            raise ResultError(f"cannot read {self.folder}: {error.strerror}") from None

    def take(self, part: int, generation: int = 0) -> bool:
        """Claim a part; return False if another process has claimed it.  Raises WorkIsGoneError, ResultError."""
        path = self.folder / f"{part}.{generation}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                sign(descriptor)
            finally:
                os.close(descriptor)
        except FileExistsError:
            return False
        except FileNotFoundError:
            raise WorkIsGoneError from None
        except OSError as error:
            raise ResultError(f"cannot write {path}: {error.strerror}") from None
        self.held[part] = path
        return True

    def finish(self, part: int) -> None:
        """Mark a part that this process holds as done: its records are on disk."""
        with suppress(FileNotFoundError):  # taken over while this process was stopped, and joined already
            (self.folder / f"{part}.done").touch()
        self.held.pop(part)

    def release(self) -> None:
        """Release the claims of this process.  Others need not wait until it is silent."""
        for path in self.held.values():
            with suppress(OSError):
                path.write_bytes(RELEASED)
        self.held.clear()

    def lost(self, seen: Seen, among: Collection[int]) -> list[int]:
        """Return the claimed parts that are not done and whose holder is gone."""
        now = self._now()
        parts = [part for part in seen.generations if part in among and part not in seen.done and part not in self.held]
        return [part for part in parts if self._is_lost(part, seen.generations[part], now)]

    def lives(self, part: int, generation: int) -> int:
        """Return the number of claims of a part, up to this generation, that were not released."""
        paths = [self.folder / f"{part}.{number}" for number in range(generation + 1)]
        return sum(path.read_bytes() != RELEASED for path in paths if path.exists())

    def _is_lost(self, part: int, generation: int, now: float) -> bool:
        try:
            descriptor = os.open(self.folder / f"{part}.{generation}", os.O_RDONLY)
        except OSError:  # another process joined the results, or a server pauses
            return False
        try:
            silent = now - os.fstat(descriptor).st_mtime
            if os.pread(descriptor, len(RELEASED), 0) == RELEASED:
                return True
            found = holder(descriptor)
            # a process that is killed before it signs leaves no signature
            return silent > (SILENT_SECONDS if found else NAMED_SECONDS) or ended(found)
        finally:
            os.close(descriptor)

    def _now(self) -> float:
        """Return the time by the clock of the file system, as the signs of life are.  Raises WorkIsGoneError."""
        probe = self.folder / f".{own_mark()}now"
        try:
            probe.touch()
            return probe.stat().st_mtime
        except OSError:
            raise WorkIsGoneError from None
        finally:
            probe.unlink(missing_ok=True)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Give signs of life for the held claims, and release them at the end of the body."""
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(over,), daemon=True)
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()
            self.release()

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            for path in list(self.held.values()):
                with suppress(OSError):  # a server may pause; the next sign may reach it
                    os.utime(path)


def claims_in(folder: Path) -> Claims:
    """Return the claims in a folder, which is made if it is missing.  Raises ResultError."""
    _make(folder)
    return Claims(folder)


def living(root: Path) -> int:
    """Return the number of parts that processes hold, in all folders of claims in `root`."""
    count = 0
    for folder in root.iterdir() if root.is_dir() else []:
        claims = Claims(folder)
        with suppress(WorkIsGoneError):
            seen = claims.seen()
            open_ = seen.generations.keys() - seen.done
            count += len(open_) - len(claims.lost(seen, open_) if open_ else [])
    return count


def remove_claims(root: Path) -> None:
    """Remove all claims after the work is done."""
    shutil.rmtree(root, ignore_errors=True)


@cache
def own_folder() -> Path:
    """Return the temporary folder that multiprocessing makes for this command and removes with it.

    Folders that killed commands left are removed first, if a lock in them shows that they belonged to this user on this
    machine.
    """
    _remove_left(Path(tempfile.gettempdir()))
    folder = Path(get_temp_dir())
    descriptor = os.open(folder / FOLDER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    # the open file holds the lock until the end of the process
    atexit.register(os.close, descriptor)
    if flocked(folder / FOLDER_LOCK, descriptor):
        sign(descriptor)
    return folder


def _remove_left(parent: Path) -> None:
    with os.scandir(parent) as entries:
        for entry in entries:
            is_named = entry.name.startswith(FOLDER_PREFIX)  # of the thousands of entries that /tmp may hold
            if is_named and entry.is_dir(follow_symlinks=False) and _is_left(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return True for the folder of a command of this user on this machine that has ended."""
    with suppress(OSError, ResultError):
        if folder.lstat().st_uid == os.getuid():
            # any user may create names in /tmp: do not follow a link
            lock = folder / FOLDER_LOCK
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                return flocked(lock, descriptor) is True and holder(descriptor).get("host") == this_host()
            finally:
                os.close(descriptor)
    return False
