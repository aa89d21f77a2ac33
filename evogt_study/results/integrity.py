"""Check that every part of a result can be read, in a process of its own, which HDF5 may take with it.

In a file whose tables are damaged the library can go on for ever, as it does where a size in its heap of strings is
zero.  A process that runs this module reads files and reports what it found.  A file whose seal holds needs none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import netCDF4
import numpy as np
import numpy.typing as npt

from evogt_study.errors import DamagedResultError, ResultError
from evogt_study.results.declared_sizes import oversized
from evogt_study.results.provenance import PLAN
from evogt_study.schema.variables import EARLIER_PHASES, Status
from evogt_study.storage.arrays import slabs
from evogt_study.storage.hdf5 import HDF5_LOCK
from evogt_study.storage.seal import is_whole, sealed_keys

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
UNREADABLE = (OSError, ValueError, RuntimeError, KeyError, IndexError, AttributeError, TypeError, MemoryError)
"""Errors of netCDF4 and xarray for a file that is not NetCDF, or is damaged."""
Keys = npt.NDArray[np.bytes_]
Read = TypeVar("Read")
Found = TypeVar("Found")
SECONDS = 60
SECONDS_OF_KEYS = 20
"""Seconds that reading the keys of one file may take: a million keys take 0.3 s."""
BLOCK = 2**20
"""Values that are read at once: 8 MB of numbers, which are several chunks of a result."""
BYTES_PER_SECOND = 5_000_000
"""Reading may take `SECONDS`, and one more for each so many bytes: a hundred times what it does take."""


def no_netcdf(path: Path, error: Exception) -> ResultError:
    """The failure of a file that cannot be read as a result, with what takes it where its ending tells."""
    unknown = "Unknown file format" in str(error)  # NetCDF's own text, which has a number before it
    reason = ("it is a folder" if path.is_dir() else "it is no such file") if unknown else error
    remedies = {
        ".toml": "`evogt run` takes a study file, and writes the result that is read here",
        ".py": "a script is run by `python`",
    }
    remedy = remedies.get(path.suffix.lower(), "") if unknown else ""
    return ResultError(f"cannot read {path} as NetCDF: {reason}" + (f"; {remedy}" if remedy else ""))


def damaged_parts(path: Path) -> list[str]:
    """Read every variable and attribute in full: one line for each that cannot be, or whose checksum does not hold.

    Raises ResultError where the file is not HDF5 at all.
    """
    # every byte is as it was written: HDF5 need not be asked, and cannot hang
    if is_whole(path):
        return []
    seconds = SECONDS + (path.stat().st_size // BYTES_PER_SECOND if path.is_file() else 0)
    done = _process("damage", seconds, [path])
    if done.returncode == -signal.SIGALRM:
        return [f"the file is damaged: reading it did not end within {seconds} s"]
    if done.returncode < 0:
        return [f"the file is damaged: reading it crashed ({signal.Signals(-done.returncode).name})"]
    if done.returncode:
        raise ResultError(f"cannot check {path}: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
    return _found(done.stdout)


def holds_all(path: Path, plan: str) -> bool:
    """Tell whether a result is as it was sealed, has this digest of its plan, and lacks none of its runs.

    Raises ResultError where it cannot be read.
    """
    if not is_whole(path):
        return False
    with HDF5_LOCK, netCDF4.Dataset(path) as file:
        if getattr(file, PLAN, None) != plan:
            return False
        return not any(_left(group["case_key"], group["status"]) for group in _phases(file))


def _left(keys: netCDF4.Variable[Any], status: netCDF4.Variable[Any]) -> bool:
    """True where a planned run was not tried; a point without a case has no key."""
    return any(
        (np.asarray(keys[slab])[np.asarray(status[slab]) == Status.not_run] != "").any() for slab in slabs(status.shape)
    )


# by the seal where there is one: keys of 10,000 runs take 1 ms then, and no process
def keys_of(paths: Sequence[Path]) -> dict[Path, Keys | ResultError]:
    """Keys of the runs of each file, none of one that is not a result; the error where they cannot be read.

    Files without a seal are read in one process for all, and another after one that it does not come back from.
    """
    found: dict[Path, Keys | ResultError] = {}
    left: list[Path] = []
    for path in paths:
        keys = _caught(sealed_keys, path)
        if keys is None:
            left.append(path)
        else:
            found[path] = keys
    while left:
        told = _process("keys", SECONDS_OF_KEYS, left).stdout.splitlines()
        found |= {path: _caught(_found_keys, line) for path, line in zip(left, told, strict=False)}
        # one line for each file that was finished: the one after them is the file that did not end
        for path in left[len(told) :][:1]:
            found[path] = ResultError(f"{path} is damaged: reading it did not end")
        left = left[len(told) + 1 :]
    return found


def _caught(read: Callable[[Read], Found], what: Read) -> Found | ResultError:
    try:
        return read(what)
    except ResultError as error:
        return error


def _process(task: str, seconds: int, paths: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Run this module in a process: a line of JSON for each path, as far as it comes."""
    command = [sys.executable, "-P", "-m", __name__, task, str(seconds), *map(str, paths)]
    # -P keeps the working folder out of the path: a `json.py` there must not be imported; what this process imports
    # from is handed over instead
    places = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    return subprocess.run(command, capture_output=True, text=True, env=places, check=False)  # noqa: S603  # this module


def _found(line: str) -> list[str]:
    told: dict[str, Any] = json.loads(line)
    if "unreadable" in told:
        raise ResultError(told["unreadable"])
    return list(told["found"])


def read_in_full(path: Path) -> list[str]:
    """Read as `damaged_parts`, in this process."""
    try:
        with HDF5_LOCK, netCDF4.Dataset(path) as file:
            # before any value: a damaged size would ask for all of memory
            too_large = [f"the file is damaged: {line}" for line in oversized(file, path.stat().st_size)]
            if too_large:
                return too_large
            groups = {"study": file, **file.groups}
            return [f"{phase}: {line}" for phase, group in groups.items() for line in (*_damage(group), *_each(group))]
    except UNREADABLE as error:
        # a file that begins as HDF5 does was once one; anything else was never a result
        if path.is_file() and path.read_bytes().startswith(HDF5_SIGNATURE):
            return [f"the file is damaged: it cannot be opened ({getattr(error, 'strerror', None) or error})"]
        raise no_netcdf(path, error) from None


def _each(group: netCDF4.Dataset) -> Iterator[str]:
    for name, variable in group.variables.items():
        variable.set_auto_maskandscale(False)
        yield from (f"`{name}` is damaged: {line}" for line in _damage(variable))


def _damage(part: netCDF4.Dataset | netCDF4.Variable[Any]) -> list[str]:
    """Describe damage to the bytes of a group's attributes, or of a variable with its attributes."""
    try:
        for name in part.ncattrs():
            part.getncattr(name)
    except UNREADABLE as error:
        return [f"its attributes cannot be read ({error})"]
    if isinstance(part, netCDF4.Dataset):
        return []
    try:
        for slab in slabs(part.shape, BLOCK):
            part[slab or ...]  # () is the slab of a scalar, for which netCDF4 wants an ellipsis
    except UNREADABLE as error:
        checked = (part.filters() or {}).get("fletcher32")
        return [f"its checksum does not hold ({error})" if checked else f"it cannot be read ({error})"]
    return []


def _found_keys(line: str) -> Keys:
    return np.array(_found(line), dtype=np.bytes_)


def read_keys(path: Path) -> list[str]:
    """Read the keys of a result's runs, and of its pilot's, in this process; none where a file is not a result.

    A key is 20 bytes, and no attribute is read: 5 ms, where xarray takes 25 to open a file.
    """
    try:
        with HDF5_LOCK, netCDF4.Dataset(path) as file:
            too_large = next(oversized(file, path.stat().st_size), None)
            if too_large is not None:
                raise DamagedResultError(f"{path} is damaged: {too_large}")
            return [key for group in _phases(file) if "case_key" in group.variables for key in _finished_keys(group)]
    except UNREADABLE as error:
        if isinstance(error, ResultError):
            raise
        raise no_netcdf(path, error) from None


def _phases(file: netCDF4.Dataset) -> list[netCDF4.Dataset]:
    return [file, *(file.groups[name] for name in EARLIER_PHASES if name in file.groups)]


def _finished_keys(group: netCDF4.Dataset) -> Iterator[str]:
    keys, status = (_raw(group.variables[name]) for name in ("case_key", "status"))
    # fields of one width come as an array of characters with one dimension more, which a view joins without a loop
    if keys.dtype == np.dtype("S1"):
        keys = np.ascontiguousarray(keys).view(f"S{keys.shape[-1]}").astype(str)
    return map(str, keys.ravel()[status.ravel() != Status.not_run])


def _raw(variable: netCDF4.Variable[Any]) -> npt.NDArray[Any]:
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    return np.asarray(variable[...])


TASKS = {"damage": read_in_full, "keys": read_keys}


def _tell(task: str, seconds: int, paths: Sequence[Path]) -> None:
    """Report what is found on standard output; the kernel ends this process where a file takes too long."""
    # no handler of Python's: the interpreter would run one only after HDF5 returns
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for path in paths:
        signal.alarm(seconds)  # for each file anew
        found = _caught(TASKS[task], path)
        told = {"unreadable": str(found)} if isinstance(found, ResultError) else {"found": found}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    _tell(sys.argv[1], int(sys.argv[2]), [Path(each) for each in sys.argv[3:]])
