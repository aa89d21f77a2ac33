"""Arrays that the workers of one machine compute once among them: one does, the others wait for it and read its file.

For what takes longer than reading it and is the same in every run, such as the finite-difference reference.  A file's
name is the hash of all that its content depends on.  Without a folder to share each process computes its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from evogt_study.storage.atomic_files import written_whole

Array = npt.NDArray[np.float64]
SHARED_FOLDER = "EVOGT_SHARED_FOLDER"
"""Environment variable of workers: a folder that they have in common and that is removed with their cluster."""
LOOK_SECONDS = 0.02
"""Between looks at a lock that another worker holds: a time limit reaches a run only between two of them."""


# without the folder, as in a cluster of the user's, every worker computes: slower, and the same numbers
def once(name: str, compute: Callable[[], Array]) -> Array:
    """Return the array of `compute`, from this process or from another that computed it under this name."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None or not os.path.isdir(folder):
        return compute()
    path = Path(folder) / f"{name}.npy"
    with FileLock(path.with_suffix(".lock"), poll_interval=LOOK_SECONDS):  # that of a process that dies is free again
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        values = compute()
        with suppress(OSError), written_whole(path) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)  # a full disk costs the others time, nothing else
        return values
