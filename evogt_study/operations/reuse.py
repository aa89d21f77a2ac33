"""Resuming a study: the choice of finished runs that are taken up again, and of those that are tried once more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evogt_study.results.provenance import software_set
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import FINAL, Status


@dataclass(frozen=True)
class Reuse:
    """Rule for finished runs: by default all that were tried are taken up.  others: more places to look for them.

    keep_old_code: those are taken, too, that the study's own code computed before it was changed.
    """

    retry_failed: bool = False
    rerun_outdated: bool = False
    others: tuple[Path, ...] = ()
    keep_old_code: bool = False

    def keeps(self, status: Status) -> bool:
        """True where a run of this status needs no other try: one that diverged would do so again."""
        return status in FINAL if self.retry_failed else status != Status.not_run

    def usable(self, records: RunRecords) -> RunRecords:
        """Select the runs of the software that is here now, where others are to be computed again."""
        if not self.rerun_outdated:
            return records
        return records.selected(np.flatnonzero([software == software_set() for software in records.software]))
