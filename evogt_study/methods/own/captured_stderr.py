"""Standard error of a run and of whatever it calls: its last lines are kept with the message of one that fails."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

LINES, CHARACTERS = 4, 240
"""Kept of it: the message has room for half a thousand characters, and what went wrong stands at the end."""
# bytes at the end in which these lines are looked for, far more than are kept
READ = 4096

_alone = threading.Lock()
_held: list[tuple[int, TextIO]] = []


@contextmanager
def last_lines_noted() -> Iterator[None]:
    """Add the last lines that the body wrote to standard error to what it raises, as a note; all goes on to be shown.

    Nothing is added where another thread of this process is at it, or no file can be opened.
    """
    # descriptor 2 is one for all threads of a process
    if not _alone.acquire(blocking=False):
        yield
        return
    try:
        (file, text), shown = _file(), os.dup(2)
    except OSError:
        _alone.release()
        yield
        return
    before = sys.stderr  # which may write elsewhere than to descriptor 2, as in a notebook
    try:
        _flush()
        # the descriptor too, since compiled libraries write there and not to sys.stderr
        os.dup2(file, 2)
        sys.stderr = text
        yield
    except BaseException as error:
        note = _tail(file)
        if note:
            error.add_note(f"stderr: {note}")
        raise
    finally:
        _flush()  # while the descriptor is the file's: what is in buffers is the run's
        sys.stderr = before
        os.dup2(shown, 2)
        os.close(shown)
        _pass_on(file)
        _alone.release()


def _file() -> tuple[int, TextIO]:
    """The descriptor of the one file for all runs of this process, and what writes text to it."""
    if not _held:
        with tempfile.TemporaryFile() as file:
            kept = os.dup(file.fileno())
        _held.append((kept, _writer(kept)))
    descriptor, text = _held[0]
    if text.closed:  # by a function that closes standard error: the next run has it again
        _held[0] = descriptor, _writer(descriptor)
    return _held[0]


def _writer(file: int) -> TextIO:
    return open(file, "w", buffering=1, closefd=False)  # as long as the process


def _flush() -> None:
    if _open():
        sys.stderr.flush()


def _open() -> bool:
    return sys.stderr is not None and not sys.stderr.closed


def _tail(file: int) -> str:
    """The last lines on one line."""
    _flush()  # what is still in a buffer is the run's
    end = os.lseek(file, 0, os.SEEK_END)
    lines = [line.strip() for line in _read(file, max(0, end - READ)).splitlines()]
    return " | ".join([line for line in lines if line][-LINES:])[-CHARACTERS:]


def _read(file: int, start: int) -> str:
    """Read the file from `start` on."""
    end = os.lseek(file, 0, os.SEEK_END)
    return os.pread(file, end - start, start).decode("utf-8", "replace")


def _pass_on(file: int) -> None:
    """Show what was written, and leave the file empty."""
    if os.lseek(file, 0, os.SEEK_END):
        if _open():
            sys.stderr.write(_read(file, 0))
        # both: the position stays behind the new end, and the next run would begin with a hole of zeros
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
