"""How long a study will take, from its parameters alone (app:scaling)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evogt_study.numerics.cost import NOTHING, Work
from evogt_study.planning.case_costs import sampled_costs
from evogt_study.planning.machine import NOMINAL, Machine
from evogt_study.planning.plan import (
    Plan,
    SharedWork,
    pilot_plan,
    provisional_choice,
    shared_work,
    study_plan,
)
from evogt_study.study.study import Study

START_SECONDS = 2.0
"""What a run takes before its first batch and after its last: workers start and import, a result is written."""
FEW_CASES = 500
"""Cases of a study that are looked at to say which of several is the longest."""


@dataclass(frozen=True)
class Prediction:
    """seconds: of all runs, one after the other; longest: of the longest run, which shares nothing."""

    seconds: float
    longest: float

    def wall(self, workers: int) -> float:
        """Time on that many workers: none is idle but while the longest run is still going."""
        return max(self.seconds / workers, self.longest)


def predicted(plan: Plan, of_machine: Callable[[], Machine], shared: Sequence[SharedWork]) -> Prediction | None:
    """Time of the plan's runs, each stage computed once for the cases that share it; None where only running tells.

    of_machine: asked only where there is something to predict.  shared: what `shared_work` counted over some of the
    cases.  A stage that the others need anew has the same part of their work as of those; one that they do not is done.
    """
    if not shared or any(entry.work is None for entry in shared):
        return None
    machine = of_machine()
    costs = plan.costs or sampled_costs(plan.method, plan.space)
    if costs is None:
        return None
    each = costs.mean()
    seconds = sum(_seconds(entry, plan.count, each.get(entry.stage, NOTHING), machine) for entry in shared)
    return Prediction(seconds, min(float(np.nanmax(costs.seconds(machine))), seconds))


def _seconds(entry: SharedWork, count: int, each: Work, machine: Machine) -> float:
    """Time of one stage in all `count` cases, each of which would take `each` alone."""
    assert entry.work is not None  # noqa: S101  # looked at by the caller
    assert entry.alone is not None  # noqa: S101
    taken, alone = machine.seconds(entry.work), machine.seconds(entry.alone)
    if entry.cases == count or not entry.growing or not alone:
        return taken
    return taken / alone * machine.seconds(each) * count


def longest_studies_first(studies: Sequence[Study]) -> list[Study]:
    """The studies by their predicted time on a nominal machine; those of which nothing is known before all others."""
    return sorted(studies, key=lambda study: -_nominal_seconds(study))


def _nominal_seconds(study: Study) -> float:
    pilot = pilot_plan(study)
    plans = [study_plan(study, provisional_choice(study)), *([] if pilot is None else [pilot])]
    made = [predicted(plan, lambda: NOMINAL, shared_work(plan, FEW_CASES)) for plan in plans]
    return sum(np.inf if entry is None else entry.seconds for entry in made)
