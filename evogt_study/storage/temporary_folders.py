"""The temporary folder of this process, and those that killed processes left behind."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from multiprocessing.util import get_temp_dir
from pathlib import Path

from evogt_study.errors import ResultError
from evogt_study.storage.writer_lock import flocked, holder, sign, this_host

PREFIX = "pymp-"
"""Prefix of the folder that multiprocessing makes for the processes of one command."""
# its lock ends with the command, however that ends; the folder's age would say nothing of a study that takes days
LOCK = "evogt.lock"


# in Python's own folder, which multiprocessing makes anyway and removes with the command
@cache
def own_folder() -> Path:
    """Python's folder for what processes of this command have in common, which is removed with it.

    Folders that killed commands left are removed first, where a lock in them shows that they were this user's on this
    machine.
    """
    _remove_left(Path(tempfile.gettempdir()))
    folder = Path(get_temp_dir())
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    # open until the end, which is what holds the lock; not closed by the garbage collector
    atexit.register(os.close, descriptor)
    if flocked(folder / LOCK, descriptor):
        sign(descriptor)
    return folder


def _remove_left(parent: Path) -> None:
    # /tmp may hold thousands of entries, of which only those with the prefix are looked at further
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and _is_left(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return True for the folder of a command of this user on this machine that is gone."""
    with suppress(OSError, ResultError):
        if folder.lstat().st_uid == os.getuid():
            # anybody may make names in /tmp: a link there could have us lock, or remove, something else
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                return flocked(folder / LOCK, descriptor) is True and holder(descriptor).get("host") == this_host()
            finally:
                os.close(descriptor)
    return False
