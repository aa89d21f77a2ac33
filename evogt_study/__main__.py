"""Entry point of the command `evogt`, which is also ``python -m evogt_study``."""

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
"""Threshold of the garbage collector.  With the default of 700, the collector takes 0.25 s during the imports."""
NO_LOCKS = (ENOLCK, EOPNOTSUPP, ENOTSUP, ENOSYS)
"""Error numbers of `flock` on a file system without locks."""


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("terminated")


def _disable_locks_of_hdf5() -> None:
    """Disable the locks of HDF5 if the file system of this folder has no locks, because HDF5 could not open files."""
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
    signal.signal(signal.SIGTERM, _raise_interrupt)  # before the imports: workers may start during them
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    _disable_locks_of_hdf5()
    atexit.register(gc.freeze)  # no collection of all objects at exit
    try:
        main(prog_name="evogt")
    finally:
        # With `-m`, if code in a string was interrupted (dataclasses execute such code), Python ends the process by
        # SIGINT whatever its exit code.  Other code in a string resets this.
        exec("")  # noqa: S102


if __name__ == "__main__":
    command()
