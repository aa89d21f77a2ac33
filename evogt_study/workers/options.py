"""Define the options of `evs.run` and `evogt run`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from evogt_study.errors import InputError, shorten
from evogt_study.storage.files import paths_of


def _option(default: Any, help: str, metavar: str = "") -> Any:  # click's name
    return field(default=default, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True)
class RunOptions:
    """Options of the computation of a study: workers, limits and reuse of finished runs.

    The help of `evogt run` explains each option.  Raises InputError if an option has an invalid value.

    Examples
    --------
    >>> import evogt_study as evs
    >>> evs.RunOptions(workers=2, memory_limit="1GiB").memory_bytes
    1073741824
    """

    workers: int | None = _option(
        None, "Number of workers on this machine.  0 computes in the calling process.  [default: number of cores]", "N"
    )
    memory_limit: str | int | None = _option(
        None,
        "Memory of one worker, such as 4GiB.  A run that uses more memory is lost.  "
        "[default: an equal share of the machine]",
        "SIZE",
    )
    run_timeout: float | None = _option(None, "Stop a run after this time and set its status to timed_out.", "SECONDS")
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
        for name, (kind, least, wanted, default) in _NUMBERS.items():
            value = getattr(self, name)
            is_number = isinstance(value, kind) and not isinstance(value, bool)
            if value is not None and not (is_number and least <= value < math.inf):
                raise InputError(f"`{name}` must be {wanted}, got {shorten(value)}. Leave out `{name}` for {default}.")
        if self.workers == 0:
            for name in ("run_timeout", "memory_limit"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"`{name}` needs a process that can be stopped, but workers=0 computes in the calling process. "
                        "Use workers=1."
                    )
        _ = self.memory_bytes
        object.__setattr__(self, "reuse_from", tuple(paths_of(self.reuse_from)))

    @property
    def memory_bytes(self) -> int | None:
        """Memory limit in bytes."""
        if self.memory_limit is None:
            return None
        from dask.utils import parse_bytes  # 0.1 s, for the few who need it

        size = 0
        with suppress(ValueError, TypeError, AttributeError):
            size = int(parse_bytes(self.memory_limit))
        if isinstance(self.memory_limit, bool) or size <= 0:
            raise InputError(
                f"`memory_limit` must be a size such as 4GiB, got {shorten(self.memory_limit)}. Leave out "
                "`memory_limit` for an equal share of the machine."
            )
        return size


_NUMBERS: Mapping[str, tuple[type, float, str, str]] = {
    "workers": (Integral, 0, "an integer >= 0", "the cores of this machine"),
    "run_timeout": (Real, math.ulp(0.0), "a finite number of seconds > 0", "no limit"),
    "max_failures": (Integral, 0, "an integer >= 0", "no limit"),
}
"""Type, smallest value, valid values and default of each option that is a number."""
DEFAULT = RunOptions()
