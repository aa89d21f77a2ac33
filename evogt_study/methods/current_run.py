"""Manage the folder, checkpoint, progress and random streams of the run that this process computes.

The folder of a run is next to the result file.  Its name is the run key, so the next attempt finds the checkpoint.
"""

import fcntl
import functools
import hashlib
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import mtrand

from evogt_study.errors import InputError, ReturnError, RunError, shorten
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values, dump_canonical, to_string
from evogt_study.storage.files import read_bytes

STEP = "step"
"""Dimension of the numbers that a run reports with `report_progress`."""
CHECKPOINT = "checkpoint"
"""Name of the parameter through which a user function receives its checkpoint folder."""
_RUN_FILES = CHECKPOINT_NAME, PROGRESS_NAME, LOCK_NAME = ".checkpoint", ".progress", ".lock"
"""Names of the package's files in the folder of a run.  Some file servers can lock files, but not folders."""
_MAX_LOCK_SECONDS = 60.0
"""Maximum time in seconds until an earlier attempt on a disconnected worker must release the folder of the run."""


@dataclass
class _Run:
    key: str
    values: Values
    parent: str
    lock: int | None = None
    has_reported: bool = False

    @functools.cached_property
    def folder(self) -> Path:
        """Folder of the run, which this process locks.  A run without a result file has a temporary folder."""
        folder = Path(self.parent) / self.key if self.parent else Path(tempfile.mkdtemp(prefix="evogt-run-"))
        folder.mkdir(parents=True, exist_ok=True)
        self.lock, end = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT), time.monotonic() + _MAX_LOCK_SECONDS
        while not _lock_file(self.lock, fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise RunError(f"another process is computing this run in {folder}. Wait for it.")
            time.sleep(0.1)
        return folder


def _lock_file(descriptor: int, kind: int) -> bool:
    """Try to lock a file.  Return False if another process has locked the file."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # a file system without locks
    return True


_current_runs: list[_Run] = []


def begin_run(key: str, values: Values, parent: str) -> None:
    """Begin a run.  `parent` is the folder with the folders of all runs, or "" without a result file."""
    _current_runs.append(_Run(key, values, parent))


def end_run() -> None:
    """End the current run.  The folder of the run remains until the record is on disk."""
    run = _current_runs.pop()
    if run.lock is not None:
        with suppress(OSError):  # user code may have closed the descriptor
            os.close(run.lock)
        if not run.parent:
            shutil.rmtree(run.folder, ignore_errors=True)


def remove_run_files(parent: Path, is_ok: Mapping[str, bool], *, keeps: bool) -> None:
    """Remove the files that no later attempt of the runs needs.  With `keeps`, leave the other files of ok runs."""
    for key, run_is_ok in is_ok.items():
        folder = parent / key
        if run_is_ok:
            shutil.rmtree(folder / CHECKPOINT_NAME if keeps else folder, ignore_errors=True)
        if not (folder / CHECKPOINT_NAME).exists():
            for name in (PROGRESS_NAME, LOCK_NAME):
                (folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # the folder may contain files of a failed run
            folder.rmdir()


def clear_run_folder() -> Path:
    """Remove the files of earlier attempts from the folder of the run.  Return the folder."""
    folder = _current_runs[-1].folder
    for path in folder.iterdir():
        if path.name not in _RUN_FILES:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return folder


def make_checkpoint_folder() -> Path:
    """Create and return the checkpoint folder, which exists until an attempt of the run is ok."""
    path = _current_runs[-1].folder / CHECKPOINT_NAME
    path.mkdir(exist_ok=True)
    return path


def report_progress(*, step: float, **values: float) -> None:
    """Report numbers of a run while the run is computed.

    `evogt status --watch` shows the latest numbers.  The result stores all reported numbers along the dimension `step`.
    A number with the name of a parameter or a returned variable is stored with the ending ``_trajectory``.  Outside a
    study, the function does nothing.

    Parameters
    ----------
    step : int or float
        Coordinate of the numbers.  A later report with the same step replaces the earlier report.
    **values : int, float or bool
        Numbers to report, as keyword arguments.

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
    line: dict[str, Any] = {STEP: step, **values}
    for name, value in line.items():
        line[name] = value = value.item() if getattr(value, "shape", None) == () else value  # a scalar of NumPy
        if not isinstance(value, (bool, int, float)) or (name == STEP and (isinstance(value, bool) or value != value)):
            raise InputError(f"`{name}` must be a number in report_progress, got {shorten(value)}")
    if not _current_runs:
        return
    run = _current_runs[-1]
    path = run.folder / PROGRESS_NAME
    if not run.has_reported and not ((run.folder / CHECKPOINT_NAME).exists() and path.exists()):
        path.write_text(json.dumps({name: to_string(value) for name, value in run.values.items()}))
    run.has_reported = True
    with path.open("a") as file:
        file.write("\n" + json.dumps(line))  # a killed process may have left half a line


def add_trajectory(record: Record) -> Record:
    """Add the numbers that the run reported to its record.  Raises ReturnError if the record uses the name `step`."""
    run = _current_runs[-1]
    if run.lock is None or not (run.folder / PROGRESS_NAME).exists():
        return record
    reports = {line.pop(STEP): line for line in _read_lines(run.folder / PROGRESS_NAME)[1:]}
    steps, names = sorted(reports), dict.fromkeys(name for step in sorted(reports) for name in reports[step])
    dims = {dim for datum in record.variables.values() for dim in datum.dims}
    if STEP in {*run.values, *record.variables, *record.coordinates, *dims}:
        raise ReturnError(
            f"the function reports progress along `{STEP}`, but a parameter or variable has this name. Rename it."
        )
    found = {name: Datum((STEP,), np.array([reports[step].get(name, np.nan) for step in steps])) for name in names}
    known = {*record.variables, *run.values}
    renamed = {name + "_trajectory" * (name in known): datum for name, datum in found.items()}
    coordinates = {**record.coordinates, STEP: Datum((STEP,), np.array(steps))}
    return replace(record, variables={**record.variables, **renamed}, coordinates=coordinates)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the parameters and the reports of a progress file, without incomplete lines."""
    found = []
    for line in read_bytes(path).decode(errors="replace").splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def describe_running(parent: Path) -> list[str]:
    """Return the last report of each run in progress as a line such as "x=3, seed=1: step 120, loss 0.25"."""
    found = []
    for path in parent.glob(f"*/{PROGRESS_NAME}"):
        with suppress(OSError, ValueError, TypeError):  # the run may have just ended
            with path.with_name(LOCK_NAME).open() as file:
                is_free = _lock_file(file.fileno(), fcntl.LOCK_SH)
            if not is_free:
                values, *_, report = _read_lines(path)
                at = ", ".join(f"{name}={value}" for name, value in values.items())
                text = ", ".join(f"{name} {value:.6g}" for name, value in report.items())
                found.append((-path.stat().st_mtime, f"{at}: {text}"))
    return [line for _, line in sorted(found)]


# --- random streams ---------------------------------------------------------------------------------------------------

RNG, SEED = "rng", "seed"
ALL, NONE = "all", "none"
Common = str | tuple[str, ...]
"""Parameters whose values share one random stream for equal seeds: `ALL`, `NONE` or a tuple of names."""
STREAMS_ATTRIBUTE = "streams"
"""Attribute of the coordinate `seed`: a JSON object with the entry `common` of type `Common`."""
GLOBAL_GENERATORS = (getattr(mtrand, "_rand", None), getattr(random, "_inst", None))
"""Global generators of ``numpy.random`` and `random`.  The package seeds them before each run."""
CACHED_TYPE = type(functools.lru_cache(lambda: None))
"""Type of functions with the decorator `functools.cache` or `functools.lru_cache`."""


def hash_words(values: Values, common: Common) -> list[int]:
    """Return 8 integers that identify the random stream of a case, or [] if the seed alone identifies the stream."""
    shared = {*values} if common == ALL else {SEED, *(common if isinstance(common, tuple) else ())}
    own = {name: value for name, value in values.items() if name not in shared}
    if not own:
        return []
    # a hash of text is equal on all platforms
    digest = hashlib.sha256(dump_canonical(own).encode()).digest()
    return [int(word) for word in np.frombuffer(digest, dtype=">u4")]


class _LazyGenerator(np.random.MT19937):
    """Global generator of ``numpy.random`` that seeds itself from the run key at the first draw of a run.

    Seeding takes 8 us, a fifth of a trivial run.  NumPy enters the `lock` of a generator before each draw.  The
    generator is its own lock until the first draw, and seeds itself when NumPy enters the lock.
    """

    key, is_late = "", False
    """`key` is the run key before the first draw.  `is_late` is true while the generator is its own lock."""

    @property
    def lock(self) -> Any:  # type: ignore[override]
        return self if self.is_late else super().lock

    def install(self, key: str) -> None:
        """Install this generator in ``numpy.random`` for the run with the run key `key`."""
        self.key = ""
        if not self.is_late or mtrand.get_bit_generator() is not self:  # a run has drawn or replaced the generator
            self.is_late = True
            mtrand.set_bit_generator(self)  # this call enters the lock
        self.key = key

    def __enter__(self) -> None:
        super().lock.acquire()
        self.seed_now()

    def __exit__(self, *raised: object) -> None:
        super().lock.release()

    def seed_now(self) -> None:
        """Seed the generator from the run key before the first draw, and restore the lock of NumPy."""
        if self.key:
            key, self.key, self.is_late = self.key, "", False
            super()._legacy_seeding(np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype="<u4"))
            if mtrand.get_bit_generator() is self:  # otherwise user code is replacing the generator
                mtrand.set_bit_generator(self)

    def _legacy_seeding(self, seed: Any) -> None:  # ``np.random.seed`` calls this
        self.seed_now()
        super()._legacy_seeding(seed)

    @property
    def state(self) -> Any:
        self.seed_now()
        return super().state

    @state.setter
    def state(self, value: Any) -> None:
        self.seed_now()
        np.random.MT19937.state.__set__(self, value)  # type: ignore[attr-defined]


_LazyGenerator.__name__ = np.random.MT19937.__name__  # NumPy compares this name before it sets a state


@contextmanager
def isolate_global_draws() -> Iterator[Callable[[str], None]]:
    """Yield a function that seeds `random` and ``numpy.random`` from a run key, and restore both generators on exit."""
    late = _LazyGenerator(0)

    def seed_draws(key: str) -> None:
        random.seed(key)
        late.install(key)

    python, bits, numpy = random.getstate(), mtrand.get_bit_generator(), np.random.get_state(legacy=False)
    try:
        yield seed_draws
    finally:
        random.setstate(python)
        mtrand.set_bit_generator(bits)
        np.random.set_state(numpy)
