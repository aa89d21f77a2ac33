"""Limits at which a run, or a study, ends early."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

from evogt_study.errors import InputError, shortened

WORKER_SECONDS = 60
"""Seconds without a worker after which a study stops: a nanny starts another in seconds, on busy machines in 30."""


@dataclass(frozen=True)
class Limits:
    """run_seconds: time limit of each run; failures: how many runs may fail before the study stops.  None: no limit.

    worker_seconds: how long a study may be without a worker; None where whoever keeps the workers sees to that.  Raises
    InputError for what is no limit.
    """

    run_seconds: float | None = None
    failures: int | None = None
    worker_seconds: int | None = WORKER_SECONDS

    def __post_init__(self) -> None:
        seconds, failures = self.run_seconds, self.failures
        if seconds is not None and not (_is_number(seconds, Real) and 0.0 < seconds < math.inf):
            raise InputError(
                f"`run_seconds` (--run-limit) must be a finite number of seconds > 0, got {shortened(seconds)}; "
                "leave it out for no limit"
            )
        if failures is not None and not (_is_number(failures, Integral) and failures >= 0):
            raise InputError(
                f"`failures` (--max-failures) must be an integer >= 0, got {shortened(failures)}; "
                "leave it out for no limit"
            )


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


NO_LIMITS = Limits()
