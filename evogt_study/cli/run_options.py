"""The options of `evogt run`, as one value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """Options of `evogt run` by their names on the command line; `others` are what `--from` names."""

    workers: int | None = None
    scheduler: str | None = None
    scheduler_file: Path | None = None
    cluster: str | None = None
    retry_failed: bool = False
    rerun_outdated: bool = False
    run_limit: float | None = None
    max_failures: int | None = None
    time_limit: str | None = None
    others: tuple[Path, ...] = ()
    keep_old_code: bool = False
    quiet: bool = False

    @property
    def leave_a_complete_result(self) -> bool:
        """False where one of them may ask for something of a result that is complete."""
        return replace(self, workers=None, others=(), keep_old_code=False, quiet=False) == RunOptions()
