"""Claims of numbered parts of a piece of work, by several processes that see one folder and do not see each other.

A claim is a file, made exclusively, which every file system does for all of its machines; no lock of the kernel is
needed.  It names its holder, whose sign of life is the file's time of change.  One whose holder is gone is followed by
the next generation of the claim, which is made exclusively too, so that one process takes the part over.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from evogt_study.errors import ResultError
from evogt_study.storage.atomic_files import make_folder
from evogt_study.storage.processes import own_mark
from evogt_study.storage.writer_lock import HEARTBEAT_SECONDS, NAMED_SECONDS, SILENT_SECONDS, ended, holder, sign

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
