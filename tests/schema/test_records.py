"""Records of several batches as one."""

import numpy as np

from evogt_study.results.table import RunTable
from evogt_study.schema.records import concatenate_records
from evogt_study.schema.variables import Status
from evogt_study.study.plan import study_plan
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

METHOD = """
import numpy as np

def method(n):
    if n == 3:
        raise ValueError("three")
    return {"error": float(n), "wide": (("k",), np.arange(float(n))), "tag": "x" * n}
"""
STUDY = 'name = "s"\nmethod = "method.py:method"\n[axes]\nn = [1, 2, 3, 4, 5, 6]\n'


def test_batches_fill_a_table_together_as_one_by_one(tmp_path):
    """Of other lengths, other kinds, and with a run that failed."""
    (tmp_path / "method.py").write_text(METHOD)
    (tmp_path / "s.toml").write_text(STUDY)
    plan = study_plan(Study.from_file(tmp_path / "s.toml"))
    cases = list(plan.cases())
    several = [compute_here(Batch.of(plan.spec, part)) for part in (cases[:1], cases[1:4], cases[4:])]
    assert [int(np.sum(records.status == Status.ok)) for records in several] == [1, 2, 2]
    apart, together = RunTable(plan), RunTable(plan)
    for records in several:
        apart.add(records)
    together.add(concatenate_records(several))
    for name in ("status", "messages", "wall_seconds", "attempts", "software"):
        np.testing.assert_array_equal(getattr(together, name), getattr(apart, name))
    assert together.columns.keys() == apart.columns.keys()
    for name, column in apart.columns.items():
        one, other = together.columns[name].loaded(), column.loaded()
        np.testing.assert_array_equal(one.missing, other.missing)
        np.testing.assert_array_equal(one.values, other.values)
    assert sum(stack.name == "error" for stack in concatenate_records(several).stacks) == 1
