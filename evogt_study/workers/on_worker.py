"""What a Dask worker does with a batch; all that it imports is here before workers are forked."""

from __future__ import annotations

from distributed import get_worker

from evogt_study.errors import LeavingError
from evogt_study.schema.records import RunRecords
from evogt_study.workers.batch import Batch, run_batch


def run_on_worker(batch: Batch) -> RunRecords:
    """As `run_batch`; a worker that leaves says who it is."""
    try:
        return run_batch(batch)
    except LeavingError:
        raise LeavingError(str(get_worker().address)) from None
