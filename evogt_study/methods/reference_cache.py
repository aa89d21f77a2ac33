"""Arrays that the workers of one machine compute once among them: one does, the others wait for it and read its file.

For what takes longer than reading it and is the same in every run, such as the finite-difference reference.  A file's
name tells all that its content depends on.  Without a folder to share each process computes its own.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.pipeline import Reference
from evogt_study.storage.atomic_files import written_whole

SHARED_FOLDER = "EVOGT_SHARED_FOLDER"
"""Environment variable of workers: a folder that they have in common and that is removed with their cluster."""
LOOKS_PER_SECOND = 50


@dataclass(frozen=True, eq=False)
class ReferenceAmongWorkers:
    """A `Reference` whose values another worker may have computed; `content` tells the problem in words."""

    reference: Reference
    content: str

    @property
    def key(self) -> Hashable:
        """That of the reference."""
        return self.reference.key

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Values of the reference, (Q, d) and (T,) -> (T, Q)."""
        told = repr((self.content, self.key, nodes.shape, times.shape)).encode()
        name = blake2b(told + nodes.tobytes() + times.tobytes(), digest_size=20).hexdigest()
        return once(name, lambda: self.reference(nodes, times))


def once(name: str, compute: Callable[[], Array]) -> Array:
    """What `compute` returns, from this process or from another that did it under this name."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None:
        return compute()
    path = Path(folder) / f"{name}.npy"
    with _alone(path.with_suffix(".lock")):
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        values = compute()
        with suppress(OSError), written_whole(path) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)  # a full disk costs the others time, nothing else
        return values


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; that of one that dies is free again.  It looks often, so that time limits reach it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:  # then there is no file to share either
        yield
        return
    try:
        while not _locked(descriptor):
            time.sleep(1.0 / LOOKS_PER_SECOND)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: computing twice is no harm
        return True
    return True
