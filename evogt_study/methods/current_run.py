"""The run that this process computes: its own folder, its checkpoint, and the progress that it reports.

They are in a folder beside the result, under the run key: KEY, KEY.checkpoint and KEY.progress.  So the next attempt of
a run finds the checkpoint of the last one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import InputError, ReturnError, RunError, shorten
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values, text_label
from evogt_study.storage.untrusted import read_bytes

STEP = "step"
"""Dimension of the values that a run reports."""
CHECKPOINT = "checkpoint"
"""Parameter of a function that receives the folder of its checkpoint."""
CHECKPOINT_SUFFIX, PROGRESS_SUFFIX = ".checkpoint", ".progress"
_TRAJECTORY = "_trajectory"
"""Ending of the name of a reported value, if the run returns a variable of this name too."""
_WAIT_SECONDS = 60.0
"""Seconds for which a run waits until an earlier attempt leaves its folder.  A worker that lost its connection may
still compute the run."""


@dataclass
class _Run:
    key: str
    values: Values
    folder: Path | None
    keeps: bool = False
    temporary: str = ""
    locks: list[int] = field(default_factory=list)
    progress: int | None = None

    def find_path(self, suffix: str = "") -> Path:
        """Return the path of a file or folder of this run.  Its parent is made."""
        if self.folder is None:  # a run without a result, as in `evogt try`
            self.temporary = self.temporary or tempfile.mkdtemp(prefix="evogt-run-")
            return Path(self.temporary) / f"{self.key}{suffix}"
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{self.key}{suffix}"

    def make_folder(self, suffix: str = "") -> Path:
        """Make a folder of this run, and hold it as long as this process computes the run."""
        path, end = self.find_path(suffix), time.monotonic() + _WAIT_SECONDS
        path.mkdir(exist_ok=True)
        self.locks.append(os.open(path, os.O_RDONLY))
        while True:
            try:
                fcntl.flock(self.locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise RunError(f"another process computes this run in {path}") from None
                time.sleep(0.1)
            except OSError:  # a file system without locks
                return path
            else:
                return path


_current: list[_Run] = []


def begin_run(key: str, values: Values, folder: str) -> None:
    """Begin a run.  folder: the folder of the runs of its study, or "" for a run without a result."""
    _current.append(_Run(key, values, Path(folder) if folder else None))


def end_run(*, is_ok: bool) -> None:
    """End the run, and remove its own folder if it is ok.  Its checkpoint is removed when its record is on disk."""
    run = _current.pop()
    if run.temporary:
        shutil.rmtree(run.temporary, ignore_errors=True)
    elif run.folder is not None and run.locks and is_ok and not run.keeps:
        shutil.rmtree(run.folder / run.key, ignore_errors=True)
    for descriptor in (*run.locks, *([] if run.progress is None else [run.progress])):
        with suppress(OSError):  # a run may have closed it
            os.close(descriptor)


def remove_run_files(folder: Path, key: str, *, is_ok: bool, keeps: bool = True) -> None:
    """Remove what no later attempt of a run and no user needs.  Reports of progress belong to a checkpoint."""
    if not keeps:
        shutil.rmtree(folder / key, ignore_errors=True)
    if is_ok:
        shutil.rmtree(folder / f"{key}{CHECKPOINT_SUFFIX}", ignore_errors=True)
    if not (folder / f"{key}{CHECKPOINT_SUFFIX}").exists():
        (folder / f"{key}{PROGRESS_SUFFIX}").unlink(missing_ok=True)


def clean_runs_folder(folder: Path, is_ok: Mapping[str, bool], *, keeps: bool) -> None:
    """Remove what killed processes have left of runs that are ok, or not in `is_ok`; keeps: the folders of ok runs."""
    with suppress(OSError):
        for key in {name.partition(".")[0] for name in os.listdir(folder)}:
            if is_ok.get(key, True):
                remove_run_files(folder, key, is_ok=True, keeps=keeps and key in is_ok)
        folder.rmdir()  # unless it is not empty


def make_own_folder(*, keeps: bool) -> Path:
    """Return the folder of the run, empty: an earlier attempt may have left files."""
    run = _current[-1]
    run.keeps = keeps
    path = run.make_folder()
    for each in path.iterdir():
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    return path


def make_checkpoint_folder() -> Path:
    """Return the folder that survives the attempts of the run until it is ok."""
    return _current[-1].make_folder(CHECKPOINT_SUFFIX)


def report_progress(*, step: float, **values: float) -> None:
    """Report numbers of a run while it is computed.

    `evogt status --watch` shows the latest numbers.  The result keeps all of them along the dimension `step`.  A name
    that the run returns too gets the ending ``_trajectory``.  Outside of a study, the function does nothing.

    Parameters
    ----------
    step : int or float
        Coordinate of the numbers.  A second report of a step replaces the first.
    **values : int, float or bool
        Numbers by their names.

    Raises
    ------
    InputError
        If a value is not a number.

    Examples
    --------
    >>> import evogt_study as evs
    >>> for step in range(100):
    ...     evs.report_progress(step=step, loss=1.0 / (1 + step))
    """
    line = {name: _to_number(name, value) for name, value in {STEP: step, **values}.items()}
    if not _current:
        return
    run = _current[-1]
    text = json.dumps(line) + "\n"
    if run.progress is None:
        continues = run.find_path(CHECKPOINT_SUFFIX).exists()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (0 if continues else os.O_TRUNC)
        run.progress = os.open(run.find_path(PROGRESS_SUFFIX), flags, 0o666)
        with suppress(OSError):  # it shows that the run is being computed
            fcntl.flock(run.progress, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.lseek(run.progress, 0, os.SEEK_END):
            text = json.dumps({name: text_label(value) for name, value in run.values.items()}) + "\n" + text
    os.write(run.progress, text.encode())  # at once: a kill loses nothing that a checkpoint relies on


def _to_number(name: str, value: Any) -> int | float | bool:
    value = value.item() if isinstance(value, np.generic) or getattr(value, "shape", None) == () else value
    if not isinstance(value, (bool, int, float)) or (name == STEP and (isinstance(value, bool) or value != value)):
        raise InputError(f"`{name}` must be a number in report_progress, got {shorten(value)}")
    return value


def add_trajectory(record: Record) -> Record:
    """Return the record with the numbers that the run reported.  Raises ReturnError if `step` has another meaning."""
    run = _current[-1]
    if run.progress is None and not (run.locks and run.find_path(PROGRESS_SUFFIX).exists()):
        return record
    reports = {line.pop(STEP): line for line in _read_lines(run.find_path(PROGRESS_SUFFIX))[1:]}
    steps = sorted(reports)
    dims = {dim for datum in record.variables.values() for dim in datum.dims}
    if STEP in {*run.values, *record.variables, *record.coordinates, *dims}:
        raise ReturnError(f"the function reports progress along `{STEP}`, and a parameter or variable has this name")
    variables, names = dict(record.variables), dict.fromkeys(name for step in steps for name in reports[step])
    for name in names:
        array = np.array([reports[step].get(name, np.nan) for step in steps])
        variables[f"{name}{_TRAJECTORY}" if name in {*variables, *run.values} else name] = Datum((STEP,), array)
    return replace(
        record, variables=variables, coordinates={**record.coordinates, STEP: Datum((STEP,), np.array(steps))}
    )


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the parameters of a run, and then its reports.  A killed process may have left half a line."""
    found = []
    for line in read_bytes(path).decode(errors="replace").splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def describe_running(folder: Path) -> list[str]:
    """Describe the runs that are being computed, the latest report first: "x=3, seed=1: step 120, loss 0.25"."""
    found = []
    for path in folder.glob(f"*{PROGRESS_SUFFIX}"):
        with suppress(OSError, ValueError, TypeError), path.open() as file:  # it has just ended
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                values, *_, report = _read_lines(path)
                at = ", ".join(f"{name}={value}" for name, value in values.items())
                text = ", ".join(f"{name} {value:.6g}" for name, value in report.items())
                found.append((-path.stat().st_mtime, f"{at}: {text}"))
    return [line for _, line in sorted(found)]
