"""Run the command `evogt`, also as ``python -m evogt_study``."""

import atexit
import fcntl
import gc
import os
import signal
from contextlib import suppress
from errno import ENOLCK, ENOSYS, ENOTSUP, EOPNOTSUPP
from types import FrameType

from evogt_study.cli.main import main

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Number of new objects between two garbage collections.  With the default of 700, the imports take 0.25 s longer."""
NO_LOCKS = (ENOLCK, EOPNOTSUPP, ENOTSUP, ENOSYS)
"""Error numbers that `flock` raises on a file system without locks."""


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("terminated")


def _disable_locks_of_hdf5() -> None:
    """Disable the file locks of HDF5 if the file system of the current folder has no locks."""
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in NO_LOCKS:
                os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
        finally:
            os.close(descriptor)


def command() -> None:
    """Run the command line and end the process."""
    signal.signal(signal.SIGTERM, _raise_interrupt)  # before the imports, because workers may start during the imports
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    _disable_locks_of_hdf5()
    atexit.register(gc.freeze)  # no collection of all objects at exit
    try:
        main(prog_name="evogt")
    finally:
        # After an interrupt inside `exec` (for example by dataclasses), ``python -m`` ends with SIGINT instead of the
        # exit code.  Another `exec` resets this.
        exec("")  # noqa: S102


if __name__ == "__main__":
    command()
