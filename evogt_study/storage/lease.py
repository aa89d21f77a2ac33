"""One writer for each result: a lock file beside it that names its holder.

The file is made exclusively, which every file system can do for all its machines.  Where the kernel's lock (`flock`)
is known, it ends with its process, however that ends.  Where it is not (Lustre, some NFS), or does not reach another
machine, the holder's sign of life, the file's time of change, tells whether it is still there.
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


LIVES = 5
"""Claims of a part whose processes were lost: what has ended so many would end the next, and all of them in turn."""
NAME = re.compile(r"(\d+)\.(\d+|done)")
RELEASED = b"released"


class WorkIsGoneError(Exception):
    """The folder is not there any more: somebody has joined what was computed."""


@dataclass(frozen=True)
class Seen:
    """Claims as a folder shows them: the latest generation by part, and the parts that are done."""

    generations: dict[int, int]
    done: frozenset[int]


@dataclass(eq=False)
class Claims:
    """Claims in a folder, which is there as long as the work is; `held` are this process's, by part."""

    folder: Path
    held: dict[int, Path] = field(default_factory=dict)

    def seen(self) -> Seen:
        """Look at all claims.  Raises WorkIsGoneError."""
        generations, done = dict[int, int](), set[int]()
        for name in self._names():
            if match := NAME.fullmatch(name):
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
        """Claim a part; False where another process has done so.  Raises WorkIsGoneError, ResultError."""
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
        """Leave what this process holds to others, which need not wait for its silence."""
        for path in self.held.values():
            with suppress(OSError):
                path.write_bytes(RELEASED)
        self.held.clear()

    def lost(self, seen: Seen, among: Collection[int]) -> list[int]:
        """Parts that are claimed, are not done, and whose holder is gone."""
        now = self._now()
        parts = [part for part in seen.generations if part in among and part not in seen.done and part not in self.held]
        return [part for part in parts if self._is_lost(part, seen.generations[part], now)]

    def lives(self, part: int, generation: int) -> int:
        """Number of a part's claims up to this generation whose processes did not leave it by themselves."""
        paths = [self.folder / f"{part}.{number}" for number in range(generation + 1)]
        return sum(path.read_bytes() != RELEASED for path in paths if path.exists())

    def _is_lost(self, part: int, generation: int, now: float) -> bool:
        try:
            descriptor = os.open(self.folder / f"{part}.{generation}", os.O_RDONLY)
        except OSError:  # removed by who joined, or a server that pauses
            return False
        try:
            silent = now - os.fstat(descriptor).st_mtime
            if os.pread(descriptor, len(RELEASED), 0) == RELEASED:
                return True
            found = holder(descriptor)
            # one that is killed before it signs leaves no name to look for
            return silent > (SILENT_SECONDS if found else NAMED_SECONDS) or ended(found)
        finally:
            os.close(descriptor)

    def _now(self) -> float:
        """The time by the clock of the file system, which is that of the signs of life.  Raises WorkIsGoneError."""
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
        """Give signs of life of what is held, and release what is still held at the end of the body."""
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
                with suppress(OSError):  # of a server that pauses; the next one may reach it
                    os.utime(path)


def claims_in(folder: Path) -> Claims:
    """Claims in a folder that is made if it is not there.  Raises ResultError."""
    try:
        make_folder(folder)
    except OSError as error:
        raise ResultError(f"cannot write in {folder}: {error.strerror}; choose another place with -o") from None
    return Claims(folder)


def living(root: Path) -> int:
    """Number of parts that processes hold, of all work whose claims are in folders of `root`."""
    count = 0
    for folder in root.iterdir() if root.is_dir() else []:
        claims = Claims(folder)
        with suppress(WorkIsGoneError):
            seen = claims.seen()
            open_ = seen.generations.keys() - seen.done
            count += len(open_) - len(claims.lost(seen, open_) if open_ else [])
    return count


def remove_claims(root: Path) -> None:
    """Remove all claims, once what they were for is done."""
    shutil.rmtree(root, ignore_errors=True)


PREFIX = "pymp-"
"""Prefix of the folder that multiprocessing makes for the processes of one command."""
# its lock ends with the command, however that ends; the folder's age would say nothing of a study that takes days
LOCK = "evogt.lock"


# in Python's own folder, which multiprocessing makes anyway and removes with the command
@cache
def own_folder() -> Path:
    """Python's folder for what processes of this command have in common, which is removed with it.

    Folders that killed commands left are removed first, where a lock in them shows that they were this user's on this
    machine.
    """
    _remove_left(Path(tempfile.gettempdir()))
    folder = Path(get_temp_dir())
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    # open until the end, which is what holds the lock; not closed by the garbage collector
    atexit.register(os.close, descriptor)
    if flocked(folder / LOCK, descriptor):
        sign(descriptor)
    return folder


def _remove_left(parent: Path) -> None:
    # /tmp may hold thousands of entries, of which only those with the prefix are looked at further
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and _is_left(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return True for the folder of a command of this user on this machine that is gone."""
    with suppress(OSError, ResultError):
        if folder.lstat().st_uid == os.getuid():
            # anybody may make names in /tmp: a link there could have us lock, or remove, something else
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                return flocked(folder / LOCK, descriptor) is True and holder(descriptor).get("host") == this_host()
            finally:
                os.close(descriptor)
    return False
