"""Names by which a process of this machine is known, so that what a killed one left is recognised."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path

MARK = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-")


@cache
def this_machine() -> str:
    """Identify the machine, or the container in it, within which a process number has one meaning.

    Host names do not do that: machines may share one, and containers have process numbers of their own.
    """
    try:
        # the boot's identity too: after a reboot the same number is another process
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return uuid.uuid4().hex  # not known: no other is the same


def own_mark() -> str:
    """Return what names of temporary files and folders of this process have in them."""
    return f"{_digest(this_machine())}-{os.getpid()}-"


def was_left(name: str) -> bool:
    """Return True for a name with the mark of a process of this machine that has ended."""
    found = MARK.search(name)
    return found is not None and found["machine"] == _digest(this_machine()) and has_ended(found)


def has_ended(process: Mapping[str, str] | re.Match[str]) -> bool:
    """Return True where the number under "process" is of no process here."""
    try:
        # signal 0 is never delivered: the kernel only checks that the process is there
        os.kill(int(process["process"]), 0)
    except (ProcessLookupError, LookupError, ValueError, OverflowError):
        return True
    # it is there, and another user's
    except PermissionError:
        return False
    return False


def _digest(text: str) -> str:
    # 8 digits keep names short; a mark of another machine that agrees by chance is 1 in 4e9
    return blake2b(text.encode(), digest_size=4).hexdigest()
