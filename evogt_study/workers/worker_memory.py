"""Memory of a worker process at its peak, from the plan of its cases."""

from __future__ import annotations

import numpy as np

from evogt_study.study.plan import Plan, peak_memory
from evogt_study.workers.stage_cache import KEPT_BYTES

WORKER_BYTES = 130 * 2**20
"""Bytes of a worker process that has computed nothing: the interpreter with NumPy, SciPy, sympy and Dask."""


# a quarter of a run's arrays: the retained space and the matrices; trial functions and their SVD are gone by then
def worker_memory(plan: Plan) -> float:
    """Bytes of a worker process at its peak: itself, the arrays of a run, and results of stages that are kept.

    What is kept of a run for later ones is taken to be a quarter of its arrays.  0 where nothing is known of the runs.
    """
    arrays = peak_memory(plan)
    if not arrays:
        return 0.0
    first = next(values for values in plan.space.each(np.arange(plan.space.size)) if values is not None)
    keeping = set(plan.method.bind(first).stages) - {"problem"}  # which has no arrays
    return WORKER_BYTES + arrays + (min(KEPT_BYTES, plan.count * arrays / 4.0) if keeping else 0.0)
