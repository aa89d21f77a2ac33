"""File descriptors that runs leave to their worker: without any it cannot hand over what it has computed.

Dask would try to connect to such a worker for ever.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from multiprocessing import parent_process

from evogt_study.errors import LostBatchError

NEEDED = 8
"""Descriptors that a worker needs at once: connections, some of which are opened while others are."""
EXIT_CODE = 71  # EX_OSERR of sysexits.h


def end_without_handles() -> None:
    """End a worker that has no file descriptors left, so that its nanny starts another one.

    Raises LostBatchError in a process that nobody started as a worker, which is not ours to end.
    """
    if _are_left():
        return
    if parent_process() is not None:
        os._exit(EXIT_CODE)
    raise LostBatchError("no file descriptors are left in the worker's process")


# tried, not counted: limits are of the process, of its user and of the machine, and opening is subject to all of them
def _are_left() -> bool:
    with ExitStack() as stack:
        try:
            for _ in range(NEEDED):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return False
    return True
