"""Entry point of the command `evogt`, which is also ``python -m evogt_study``."""

import atexit
import gc
import signal
from types import FrameType

from evogt_study.cli.main import main
from evogt_study.storage.hdf5 import unlock_where_no_locks_are

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Threshold of the garbage collector.  Imports create half a million objects that stay; with the default of 700 the
collector would need 0.25 s for them."""


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("terminated")


def command() -> None:
    """Run the command line and end the process."""
    signal.signal(signal.SIGTERM, _terminated)  # before the imports: workers may start during them
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    unlock_where_no_locks_are()
    atexit.register(gc.freeze)  # no collection of all objects at exit
    try:
        main(prog_name="evogt")
    finally:
        # With `-m`, if code in a string was interrupted (dataclasses execute such code), Python ends the process by
        # SIGINT whatever its exit code.  Other code in a string resets this.
        exec("")  # noqa: S102


if __name__ == "__main__":
    command()
