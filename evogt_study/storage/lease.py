"""Give one process the right to write a result or to compute a part of a plan.

A `Lease` is a file that names its holder.  The holder renews its lease by a new modification time.  A holder is gone if
its process was on this machine and has ended, or if it has not renewed its lease for `SILENT_SECONDS`.
"""

import atexit
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from errno import EINVAL
from functools import cache
from hashlib import blake2b
from pathlib import Path

from evogt_study.errors import ResultError
from evogt_study.storage import files

HEARTBEAT_SECONDS = 10.0
SILENT_SECONDS = 120.0
"""Seconds without a renewal after which the holder of a lease is gone.  A file server may pause for a minute."""
UNSIGNED_SECONDS = 2.0
"""Seconds after which the holder of an unsigned lease is gone.  A holder signs within milliseconds."""
MAX_LOST_HOLDERS = 5
"""Number of processes that may end while they hold one part.  After that, no process claims the part again."""
FOLDER_PREFIX = "evogt-"
_SIGNATURE = ("host", "machine", "process", "start", "since", "token")
_CLAIM_NAME = re.compile(r"(\d+)(\.done)?")


@dataclass(frozen=True)
class Lease:
    """State of a lease file.  `n_lost` is the number of earlier holders that ended without a release of the lease."""

    path: Path
    signature: dict[str, str]  # empty until the holder signs
    changed: float
    identity: str  # unique for each lease
    n_lost: int = 0
    is_released: bool = False
    lives: bool = True

    def describe(self) -> str:
        """Return the holder, such as "process 4711 on host since 2026-01-01T12:00:00Z"."""
        text = "process {process} on {host} since {since}".format(**self.signature)
        return text if self.lives else f"{text}, which is gone"

    def is_gone(self, now: float) -> bool:
        """Return True if the holder is gone.  `now` is the time on the clock of the file system."""
        if self.is_released or not self.signature:
            return self.is_released or now - self.changed > UNSIGNED_SECONDS
        return files.has_ended(self.signature) or now - self.changed > SILENT_SECONDS

    def is_current(self) -> bool:
        """Return False if another process holds the lease, or if the file is missing.  Raises OSError."""
        latest = _read_lease(self.path)
        return latest is not None and latest.identity == self.identity

    def check(self) -> None:
        """Raise ResultError unless the lease is current."""
        latest = _read_lease(self.path)
        if latest is None or not latest.signature:
            raise ResultError(f"the lock file {self.path} was removed. Run the same command again.")
        if latest.identity != self.identity:
            raise latest.make_refusal()

    def make_refusal(self) -> ResultError:
        """Return the error for a process that cannot write because another process holds this lease."""
        here = self.signature["machine"] == files.read_process_identity()["machine"]
        gone = f" If that process has ended, remove {self.path}, or run again {SILENT_SECONDS:.0f} s after its end."
        return ResultError(
            f"another process is writing {self.path.with_suffix('')} ({self.describe()}). Wait for it, or choose "
            f"another output file.{'' if here else gone}"
        )

    def remove(self) -> None:
        """Remove the file, unless another process holds the lease."""
        with suppress(OSError):  # a disk error: the next process takes the lease over
            if self.is_current():
                self.path.unlink()


def _read_lease(path: Path) -> Lease | None:
    """Read a lease file.  Return None if there is no file.  Raises OSError."""
    try:
        # without a wait for the writer of a pipe
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(EINVAL, "it is not a regular file")
            content = file.read(4096)
    except (FileNotFoundError, NotADirectoryError):
        return None
    signature, n_lost, is_released = dict[str, str](), 0, False
    try:
        found = json.loads(content)
        signature = {key: str(found[key]) for key in _SIGNATURE}
        n_lost, is_released = int(found["lost"]), bool(found.get("released"))
    except (ValueError, TypeError, LookupError, RecursionError):
        content += f" {status.st_ino} {status.st_mtime_ns}".encode()
    identity = blake2b(content, digest_size=8).hexdigest()
    return Lease(path, signature, status.st_mtime, identity, n_lost, is_released)


def _take_lease(path: Path, n_lost: int = 0) -> Lease | None:
    """Create and sign a lease file, or replace the file of a holder that is gone.  Return None if it has a holder."""
    since, token = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), uuid.uuid4().hex
    holder = {"host": socket.gethostname(), **files.read_process_identity(), "since": since, "token": token}
    try:
        file = path.open("xb")
    except FileExistsError:
        return _replace_lease(path)
    try:
        with file:
            file.write(json.dumps(holder | {"lost": n_lost}).encode())
            file.flush()
            os.fsync(file.fileno())  # so that other machines see the file
    except BaseException:  # a full disk may have room for a file but not for its content
        path.unlink(missing_ok=True)
        raise
    lease = _read_lease(path)  # another process takes the lease over if this process is stopped before it signs
    return lease if lease is not None and lease.signature.get("token") == token else None


def _replace_lease(path: Path) -> Lease | None:
    """Replace the lease file of a holder that is gone.  Return None if the lease has a holder."""
    found = _read_lease(path)
    if found is None or not found.is_gone(_read_clock(path.parent)):
        return None
    # Several processes may see that the holder is gone.  One of them takes a second lease, the right to replace this
    # file, and renames it to `path`.  If this process ends before, another process replaces the second lease.
    right = _take_lease(path.with_name(f".{path.name}.{found.identity}"), found.n_lost + (not found.is_released))
    if right is None:
        return None
    if not found.is_current():  # another process has replaced the file before
        right.remove()
        return None
    with suppress(FileNotFoundError):  # another process has replaced `right` while this process was stopped
        right.path.replace(path)
    lease = replace(right, path=path)
    return lease if lease.is_current() else None


def _read_clock(folder: Path) -> float:
    """Return the time on the clock of the file system, because the clocks of machines may differ."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            return os.fstat(probe.fileno()).st_mtime
    except FileNotFoundError:
        raise
    except OSError:
        return time.time()  # the folder is only readable, or the disk is full


@contextmanager
def _renew(leases: Collection[Lease]) -> Iterator[None]:
    """Renew the leases every `HEARTBEAT_SECONDS` until the end of the body, which may change the collection."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            for lease in list(leases):
                with suppress(OSError):  # a server may pause until the next renewal
                    if lease.is_current():
                        os.utime(lease.path)

    # a daemon, so that a command that ends by an exception does not wait for the next beat
    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


@contextmanager
def lock_result(result: Path) -> Iterator[Callable[[], None]]:
    """Hold the lease of `result`.  Raises ResultError if another process holds it.

    Call the yielded function before each write.  It raises ResultError if this process has lost the lease, because the
    process was stopped for `SILENT_SECONDS`.
    """
    path, end = files.lock_file(result), time.monotonic() + 2 * UNSIGNED_SECONDS
    with ExitStack() as stack:
        try:
            stack.callback(files.remove_created_folders, files.make_folder(path.parent))
            while (lease := _take_lease(path)) is None:  # another process may be signing it or taking it over
                if (found := find_writer(result)) and found.lives:
                    raise found.make_refusal()
                if time.monotonic() > end:
                    raise ResultError(f"cannot lock {path}: another process is claiming it. Run the command again.")
                time.sleep(0.02)
        except OSError as error:
            raise ResultError(f"cannot write {path}: {error.strerror}. Choose another output file.") from None
        stack.callback(lease.remove)
        files.remove_unfinished(path.parent, path.stem)
        with _renew([lease]):
            yield lease.check


def find_writer(result: Path) -> Lease | None:
    """Return the signed lease of `result` and set its field `lives`.  Return None if there is no signed lease."""
    path = files.lock_file(result)
    with suppress(OSError):
        if (found := _read_lease(path)) and found.signature:
            return replace(found, lives=not found.is_gone(_read_clock(path.parent)))
    return None


class WorkIsGoneError(Exception):
    """The folder of claims is missing because another process has written the result."""


@contextmanager
def _explain_refusal(action: str, path: Path) -> Iterator[None]:
    """Raise WorkIsGoneError if the folder of claims is missing, and ResultError for any other error of the disk."""
    try:
        yield
    except FileNotFoundError:
        raise WorkIsGoneError from None
    except OSError as error:
        raise ResultError(f"cannot {action} {path}: {error.strerror}") from None


@dataclass(eq=False)
class Claims:
    """Claims in a folder, which has a lease for each claimed part and a file for each finished part."""

    folder: Path
    held: dict[int, Lease] = field(default_factory=dict)  # leases of this process

    def read(self) -> tuple[set[int], set[int]]:
        """Return the claimed parts and the finished parts."""
        with _explain_refusal("read", self.folder):
            found = [match for name in os.listdir(self.folder) if (match := _CLAIM_NAME.fullmatch(name))]
        return {int(each[1]) for each in found if not each[2]}, {int(each[1]) for each in found if each[2]}

    def take(self, part: int) -> bool:
        """Claim a part.  Return False if the part is finished or has a holder."""
        path = self.folder / f"{part}"
        with _explain_refusal("write", path):
            lease = _take_lease(path)
        # the holder may have finished the part and ended since this process read the claims
        if lease is None or path.with_suffix(".done").exists():
            return False
        self.held[part] = lease
        return True

    def finish(self, part: int) -> None:
        """Mark a part of this process as finished, after its records are on disk."""
        with suppress(FileNotFoundError):  # another process has written the result while this process was stopped
            (self.folder / f"{part}.done").touch()
        self.held.pop(part)

    def find_lost(self, taken: set[int]) -> dict[int, int]:
        """Return the parts whose holder is gone, with the number of lost holders of each part."""
        with _explain_refusal("read", self.folder):
            now, lost = _read_clock(self.folder), dict[int, int]()
        for part in taken - self.held.keys():
            with suppress(OSError):  # a server pauses
                if (found := _read_lease(self.folder / f"{part}")) and found.is_gone(now):
                    lost[part] = found.n_lost + (not found.is_released)
        return lost

    @contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Renew the held claims until the end of the body, and then release these claims."""
        try:
            with _renew(self.held.values()):
                yield
        finally:
            for lease in self.held.values():
                with suppress(OSError):
                    if lease.is_current():
                        lease.path.write_text(json.dumps(lease.signature | {"lost": lease.n_lost, "released": True}))
            self.held.clear()


def open_claims(folder: Path) -> Claims:
    """Return the claims in a folder, and make the folder if it is missing.  Raises ResultError."""
    try:
        files.make_folder(folder)
    except OSError as error:
        raise ResultError(f"cannot write in {folder}: {error.strerror}. Choose another output file.") from None
    return Claims(folder)


def count_active_claims(root: Path) -> int:
    """Return the number of parts that processes hold, in all folders of claims in `root`."""
    count = 0
    for claims in map(Claims, root.iterdir() if root.is_dir() else []):
        with suppress(WorkIsGoneError):
            taken, done = claims.read()
            count += len(taken - done) - len(claims.find_lost(taken - done))
    return count


@cache
def make_temporary_folder() -> Path:
    """Return the temporary folder of this command, and remove the folders of killed commands of this machine."""
    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        if files.is_left_over(left.name):
            shutil.rmtree(left, ignore_errors=True)
    folder, process = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX + files.make_process_mark())), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not a process that this process has forked
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
