"""One case of a study computed here, before all of them are: what it returns, and how long it takes."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evogt_study.errors import InputError
from evogt_study.operations.replay import index_at
from evogt_study.results.reopened import point
from evogt_study.schema.records import RunRecords, Stack
from evogt_study.schema.values import Value, text_label
from evogt_study.schema.variables import Status
from evogt_study.study.plan import provisional_plans
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, computed
from evogt_study.workers.stage_cache import StageCache

MOST_VALUES = 6
"""Values of an array that are printed; with their name and dimensions they fit on a line."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A case that was computed: `point` in words, its parameters `values`, its `record`, and the traceback `raised`."""

    point: str
    values: Mapping[str, Value]
    record: RunRecords
    raised: str

    def told(self) -> Iterator[str]:
        """Describe the outcome, line by line."""
        yield f"{self.point}: {Status(self.record.status[0]).name} in {self.record.wall_seconds[0]:.3g} s"
        yield "  with " + ", ".join(f"{name} = {text_label(value)}" for name, value in self.values.items())
        for stack in self.record.stacks:
            yield f"  {_described(stack)}"
        if self.record.messages[0]:
            yield f"  {self.record.messages[0]}"


def tried(study: Study, at: Mapping[str, object]) -> Trial:
    """Compute the case at this point, in this process.  Raises InputError for a point that the study does not have."""
    plan = provisional_plans(study)[-1]
    first = {axis.name: text_label(axis.values[0]) for axis in plan.space.axes}
    index = index_at(plan.space, {**first, **at}, Path(study.file))
    case = plan.case(index)
    if case is None:
        raise InputError(f"no run is planned at {point(plan.space, index)} ({study.file}); say another with --at")
    raised: list[BaseException] = []
    record = computed(Batch.of(plan.spec, [case]), StageCache(), raised.append)
    told = "".join(traceback.format_exception(raised[0])) if raised else ""
    return Trial(point(plan.space, index), case.values, record, told)


def _described(stack: Stack) -> str:
    """A variable's dimensions, type and first values on one line."""
    values, kind = stack.values[0], "coordinate " if stack.coordinate else ""
    sizes = ", ".join(f"{dim}: {size}" for dim, size in zip(stack.dims, values.shape, strict=True))
    flat = np.ravel(values)
    shown = ", ".join(f"{each:.6g}" if flat.dtype.kind == "f" else str(each) for each in flat[:MOST_VALUES])
    return f"{kind}{stack.name} ({sizes}) {values.dtype}: {shown}{' ...' if flat.size > MOST_VALUES else ''}"
