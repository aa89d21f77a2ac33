"""The process of the command `evogt`, which is also ``python -m evogt_study``."""

import atexit
import gc
import signal
from types import FrameType

from evogt_study.cli.main import main
from evogt_study.storage.hdf5 import unlock_where_no_locks_are

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Instead of 700: imports make half a million objects that stay, and looking through them takes a quarter second."""


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("terminated")


def command() -> None:
    """Run the command line and end the process, in which everything imported lives until then."""
    signal.signal(signal.SIGTERM, _terminated)  # workers begin to start before what runs them is imported
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    unlock_where_no_locks_are()
    atexit.register(gc.freeze)  # else Python would look through all of it once more
    try:
        main(prog_name="evogt")
    finally:
        # with `-m` Python ends a process by SIGINT, whatever its exit code, where code in a string was interrupted, as
        # imports have it in dataclasses; running other such code has it forget that
        exec("")  # noqa: S102


if __name__ == "__main__":
    command()
