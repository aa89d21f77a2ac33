"""Options of a run of a study: the arguments of `evs.run`, and options of `evogt run`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from evogt_study.errors import InputError, shorten
from evogt_study.storage.paths import paths_of


def _option(default: Any, help: str, metavar: str = "") -> Any:  # click's name
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True)
class RunOptions:
    """How a study runs: where, with which limits, and which finished runs it reuses.

    The help of `evogt run` explains each option.  Raises InputError for a value that an option cannot have.

    Examples
    --------
    >>> import evogt_study as evs
    >>> evs.RunOptions(workers=2, memory_limit="1GiB").memory_bytes
    1073741824
    """

    workers: int | None = _option(
        None, "Number of workers on this machine; 0 computes in the calling process.  [default: its cores]", "N"
    )
    memory_limit: str | int | None = _option(
        None,
        "Memory of one worker, such as 4GiB.  A run that uses more is lost.  [default: an equal share of the machine]",
        "SIZE",
    )
    run_timeout: float | None = _option(None, "Stop a run after this time; its status is timed_out.", "SECONDS")
    max_failures: int | None = _option(None, "Stop the study after more than N failed runs.", "N")
    retry_failed: bool = _option(False, "Run cases again that failed, timed out or were lost.")
    rerun_outdated: bool = _option(False, "Run cases again that other software versions computed.")
    reuse_from: Sequence[str | Path] = _option(
        (), "Also reuse runs from this result file or folder.  Repeat the option for several places.", "PATH"
    )
    reuse_old_code: bool = _option(
        False, "Reuse runs of earlier versions of your function.  Use it only if the versions are equivalent."
    )

    def __post_init__(self) -> None:
        if self.workers is not None and not (_is_number(self.workers, Integral) and self.workers >= 0):
            raise _mistake("workers", "an integer >= 0", self.workers, "the cores of this machine")
        if self.run_timeout is not None and not (
            _is_number(self.run_timeout, Real) and 0.0 < self.run_timeout < math.inf
        ):
            raise _mistake("run_timeout", "a finite number of seconds > 0", self.run_timeout, "no limit")
        if self.max_failures is not None and not (_is_number(self.max_failures, Integral) and self.max_failures >= 0):
            raise _mistake("max_failures", "an integer >= 0", self.max_failures, "no limit")
        if self.workers == 0:
            for name in ("run_timeout", "memory_limit"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"`{name}` ({as_option(name)}) needs a process that can be stopped, but workers=0 computes in "
                        "the calling process. Use workers=1."
                    )
        _ = self.memory_bytes
        object.__setattr__(self, "reuse_from", tuple(paths_of(self.reuse_from)))

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes."""
        if self.memory_limit is None:
            return None
        from dask.utils import parse_bytes  # 0.1 s, for the few who need it

        try:
            size = parse_bytes(self.memory_limit)
        except (ValueError, TypeError, AttributeError):
            size = 0
        if isinstance(self.memory_limit, bool) or size <= 0:
            raise _mistake("memory_limit", "a size such as 4GiB", self.memory_limit, "an equal share of the machine")
        return int(size)


DEFAULT = RunOptions()


def as_option(name: str) -> str:
    """Return the name of an option on the command line.

    >>> as_option("run_timeout")
    '--run-timeout'
    """
    return "--" + name.replace("_", "-")


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _mistake(name: str, wanted: str, value: object, default: str) -> InputError:
    return InputError(
        f"`{name}` ({as_option(name)}) must be {wanted}, got {shorten(value)}. Leave it out for {default}."
    )
