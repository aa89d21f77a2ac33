"""Predict the time and the memory of a study.

A few cases are timed.  The time of the others follows from the rough work that their method declares.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from evogt_study.schema.values import Values
from evogt_study.study.plan import OWN, Order, Plan, SharedWork, peak_memory, provisional_plans, work_of
from evogt_study.study.study import Study
from evogt_study.workers.stage_cache import KEPT_BYTES

T = TypeVar("T")
START_SECONDS = 3.0
"""Seconds of a command without its runs: it imports, reads the study, starts workers and writes the result.

With two workers on idle cores it takes 2.3 s for a user function and 3.2 s for a problem in formulas.
"""
SAMPLED_CASES = 500
"""Number of cases that represent all.  They contain each of a hundred sizes, and binding them takes 50 ms."""
TIMED_CASES = 7
"""Largest number of timed cases.  With 4, the predictions for the studies of the paper varied twice as much."""
BUDGET = 1.5
"""Seconds for timing the cases of a phase."""
PATIENCE = 10.0
"""Largest rough work, in seconds, for which the cheapest case is timed.  It is right within a factor of 3."""
WORKER_BYTES = 130 * 2**20
"""Memory of an idle worker process: the interpreter with NumPy, SciPy, SymPy and Dask."""


@dataclass(frozen=True)
class Prediction:
    """seconds: of all runs, one after the other; longest: of the longest run, which shares nothing."""

    seconds: float
    longest: float

    def wall(self, workers: int) -> float:
        """Time on `workers` workers, which are idle only while the longest run still runs."""
        return max(self.seconds / workers, self.longest)


@dataclass(frozen=True)
class Timings:
    """Seconds of each stage in some cases, by the rough work of the case.

    Without timed cases, the rough work counts as the seconds of the unshared stage.
    """

    cases: Mapping[float, Mapping[str, float]]

    # rates are interpolated, not times, so that the rough work extrapolates beyond the timed sizes
    def seconds(self, stage: str, work: float) -> float:
        """Time of a stage in a case of this `work`, by the interpolated rate of the timed cases."""
        if not self.cases:
            return work if stage == OWN else 0.0
        known = sorted(self.cases)
        rates = [self.cases[each].get(stage, 0.0) / each for each in known]
        return work * float(np.interp(work, known, rates))

    def alone(self, work: float) -> float:
        """Time of a case of this `work` that shares nothing."""
        return sum(self.seconds(stage, work) for stage in {OWN}.union(*self.cases.values()))


# a stage with new results in the second half of the counted cases has new results in the others; any other is complete
def predicted(
    plan: Plan,
    shared: Sequence[SharedWork],
    timings: Callable[[Plan], Timings] | None = None,
    numbers: Order | None = None,
) -> Prediction | None:
    """Predict the time of the plan's runs, each stage computed once for the cases that share it.

    None if only running them shows it.

    shared: `shared_work` of some of the cases.  A stage with new results in the other cases has the same part of their
    work.  timings: `timed_cases`, called only if there is something to predict.  numbers: the cases to run; None: all.
    """
    sample, count = sampled_work(plan, numbers), plan.count if numbers is None else len(numbers)
    if not shared or sample is None:
        return None
    known = (timings or timed_cases)(plan)
    works = [work for work, _ in sample]
    seconds = 0.0
    for entry in shared:
        taken = sum(count * known.seconds(entry.stage, work) for work, count in entry.first.items())
        counted = sum(count * known.seconds(entry.stage, work) for work, count in entry.all.items())
        each = sum(known.seconds(entry.stage, work) for work in works) / len(works)
        more = entry.cases < count and entry.growing and counted > 0.0
        seconds += taken / counted * each * count if more else taken
    # alone a run shares nothing, and would seem to take longer than all of them together
    return Prediction(seconds, min(known.alone(max(works)), seconds))


def sampled_work(plan: Plan, numbers: Order | None = None) -> list[tuple[float, Values]] | None:
    """Some cases, the cheapest first, each with its rough work; None if it is unknown or there is no case.

    numbers: the cases to choose from; None: all.
    """
    size = plan.space.size if numbers is None else len(numbers)
    # with a fixed seed, so that a prediction can be repeated
    every = np.arange(size) if size <= SAMPLED_CASES else np.random.default_rng(0).integers(size, size=SAMPLED_CASES)
    every = every if numbers is None else numbers[every]
    found = []
    for values in plan.space.each(every):
        if values is not None:
            work = work_of(plan.method, values)
            if work is None:
                return None
            found.append((work, values))
    return sorted(found, key=lambda entry: entry[0]) or None


# cheapest first, so that their rate shows whether the next one fits into the budget
def timed_cases(plan: Plan) -> Timings:
    """Run a few cases of all sizes in this process with one BLAS thread, the cheapest first, within `BUDGET`.

    The first is run twice, so that what it imports does not count; a case that fails counts with what it took.
    """
    # a case with inconsistent parameters has no work, fails at once and shows no rate
    sample = [entry for entry in sampled_work(plan) or [] if entry[0] > 0.0]
    if not sample or sample[0][0] > PATIENCE:
        return Timings({})
    chosen = np.unique(np.linspace(0, len(sample) - 1, TIMED_CASES).round().astype(int))
    found: dict[float, list[dict[str, float]]] = defaultdict(list)
    started, rate = time.perf_counter(), 0.0
    with threadpool_limits(1), np.errstate(all="ignore"):
        for number, index in enumerate(chosen):
            work, values = sample[index]
            if number == 0:
                _timed(plan, values)
            elif time.perf_counter() - started + rate * work > BUDGET:
                break
            found[work].append(_timed(plan, values))
            rate = sum(found[work][-1].values()) / work
    return Timings({work: _mean(several) for work, several in found.items()})


def _timed(plan: Plan, values: Values) -> dict[str, float]:
    """Seconds of each stage of one case, and of its unshared part."""
    case = plan.method.bind(values)
    stages, started = StageTimes(frozenset(case.stages)), time.perf_counter()
    try:
        case.run(stages)
    except Exception as error:  # noqa: BLE001  # running the study records any exception
        del error
    return {**stages.seconds, OWN: time.perf_counter() - started - stages.inside}


def _mean(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {stage: sum(each.get(stage, 0.0) for each in several) / len(several) for stage in set().union(*several)}


# caches the stages of this case only: `shared_work` counts the stages that cases share
class StageTimes:
    """A stage cache for one case: `seconds` of each stage in `names` without the others, `inside` of all.

    A stage with another name counts for the stage that needs it.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names, self.inside = names, 0.0
        self.seconds: dict[str, float] = defaultdict(float)
        self._known: dict[tuple[str, Hashable], Any] = {}

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of a stage, and time it."""
        if (stage, key) not in self._known:
            self._known[stage, key] = self._timed(stage, compute) if stage in self.names else compute()
        return self._known[stage, key]  # type: ignore[no-any-return]  # the key determines the stage's type

    def _timed(self, stage: str, compute: Callable[[], T]) -> T:
        started, outside = time.perf_counter(), self.inside
        self.inside = 0.0
        result = compute()
        taken = time.perf_counter() - started
        self.seconds[stage] += taken - self.inside
        self.inside = outside + taken
        return result


def longest_studies_first(studies: Sequence[Study]) -> list[Study]:
    """Sort the studies by rough work, the longest first; studies with unknown work come before all others."""
    return sorted(studies, key=lambda study: -sum(map(_rough_seconds, provisional_plans(study))))


def _rough_seconds(plan: Plan) -> float:
    sample = sampled_work(plan)
    return np.inf if sample is None else plan.count * sum(work for work, _ in sample) / len(sample)


# a quarter of the arrays of a run: the retained space and the matrices, without trial functions and their SVD
def worker_memory(plan: Plan) -> float:
    """Peak memory of a worker process in bytes: the process, the arrays of a run, and cached results of stages.

    The cached results of a run count as a quarter of its arrays.  0 if the memory of the runs is unknown.
    """
    arrays = peak_memory(plan)
    if not arrays:
        return 0.0
    first = next(values for values in plan.space.each(np.arange(plan.space.size)) if values is not None)
    keeping = set(plan.method.bind(first).stages) - {"problem"}  # it has no arrays
    return WORKER_BYTES + arrays + (min(KEPT_BYTES, plan.count * arrays / 4.0) if keeping else 0.0)
