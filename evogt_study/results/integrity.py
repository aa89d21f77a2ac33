"""Whether every part of a result can be read: tried in a process of its own, which HDF5 may take with it.

In a file whose tables are damaged the library can go on for ever, as it does where a size in its heap of words is
zero.  A process that runs this module reads one file and tells what it found.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netCDF4

from evogt_study.errors import ResultError
from evogt_study.results.declared_sizes import oversized
from evogt_study.storage.hdf5_lock import HDF5_LOCK
from evogt_study.storage.slabs import slabs

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
UNREADABLE = (OSError, ValueError, RuntimeError, KeyError, IndexError, AttributeError, TypeError, MemoryError)
"""What netCDF4 and xarray raise for a file that is none, or is damaged."""
SECONDS = 60
BLOCK = 2**20
"""Values that are read at once: with the 8 MB of numbers that they are, several of the chunks that a result has."""
BYTES_PER_SECOND = 5_000_000
"""What reading may take: so many seconds, and one more for each so many bytes; a hundred times of what it does take."""


def damaged_parts(path: Path) -> list[str]:
    """Every variable and attribute read in full: one line for each that cannot be, or whose checksum does not hold.

    Raises ResultError where the file is not HDF5 at all.
    """
    seconds = SECONDS + (path.stat().st_size // BYTES_PER_SECOND if path.is_file() else 0)
    command = [sys.executable, "-P", "-m", __name__, str(path), str(seconds)]
    places = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    done = subprocess.run(command, capture_output=True, text=True, env=places, check=False)  # noqa: S603  # this module
    if done.returncode == -signal.SIGALRM:
        return [f"the file is damaged: reading it did not end within {seconds} s"]
    if done.returncode < 0:
        return [f"the file is damaged: reading it crashed ({signal.Signals(-done.returncode).name})"]
    if done.returncode:
        raise ResultError(f"cannot check {path}: {(done.stderr.splitlines() or ['no reason told'])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if "unreadable" in found:
        raise ResultError(found["unreadable"])
    return list(found["damaged"])


def read_in_full(path: Path) -> list[str]:
    """As `damaged_parts`, in this process."""
    try:
        with HDF5_LOCK, netCDF4.Dataset(path) as file:
            too_large = [f"the file is damaged: {line}" for line in oversized(file, path.stat().st_size)]
            if too_large:
                return too_large
            groups = {"study": file, **file.groups}
            return [f"{phase}: {line}" for phase, group in groups.items() for line in (*_damage(group), *_each(group))]
    except UNREADABLE as error:
        if path.is_file() and path.read_bytes().startswith(HDF5_SIGNATURE):
            return [f"the file is damaged: it cannot be opened ({getattr(error, 'strerror', None) or error})"]
        raise ResultError(f"cannot read {path} as NetCDF: {error}") from None


def _each(group: netCDF4.Dataset) -> Iterator[str]:
    for name, variable in group.variables.items():
        variable.set_auto_maskandscale(False)
        yield from (f"`{name}` is damaged: {line}" for line in _damage(variable))


def _damage(part: netCDF4.Dataset | netCDF4.Variable[Any]) -> list[str]:
    """What is wrong with the bytes of a group's attributes, or of a variable with its attributes."""
    try:
        for name in part.ncattrs():
            part.getncattr(name)
    except UNREADABLE as error:
        return [f"its attributes cannot be read ({error})"]
    if isinstance(part, netCDF4.Dataset):
        return []
    try:
        for slab in slabs(part.shape, BLOCK):
            part[slab or ...]
    except UNREADABLE as error:
        checked = (part.filters() or {}).get("fletcher32")
        return [f"its checksum does not hold ({error})" if checked else f"it cannot be read ({error})"]
    return []


def _tell(path: Path, seconds: int) -> None:
    """Write what is found to standard output; the kernel ends this process where that takes too long."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    found: dict[str, Any]
    try:
        found = {"damaged": read_in_full(path)}
    except ResultError as error:
        found = {"unreadable": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    _tell(Path(sys.argv[1]), int(sys.argv[2]))
