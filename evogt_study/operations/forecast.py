"""Prediction of a study's time: a few of its cases are timed, and others compared with them by their rough work."""

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
"""Seconds of a command without its runs: it imports and reads the study, workers start, a result is written.

With two workers on idle cores 2.3 s of a function of one's own, 3.2 s of a problem stated by formulas.
"""
SAMPLED_CASES = 500
"""Cases that stand for all: drawn evenly, they meet each of a hundred sizes; a look at them takes 50 ms."""
TIMED_CASES = 7
"""Cases that are timed at most: with 4 of them the predictions of the paper's studies scattered twice as much."""
BUDGET = 1.5
"""Seconds for timing the cases of a phase; the cheapest case is timed if it takes no more than `PATIENCE` by its rough
work, a guess that is right to within a factor of three."""
PATIENCE = 10.0


@dataclass(frozen=True)
class Prediction:
    """seconds: of all runs, one after the other; longest: of the longest run, which shares nothing."""

    seconds: float
    longest: float

    def wall(self, workers: int) -> float:
        """Time on that many workers: none is idle but while the longest run is still going."""
        return max(self.seconds / workers, self.longest)


@dataclass(frozen=True)
class Timings:
    """Seconds of each stage in some cases, by the case's rough work; a stage takes its part of other work likewise.

    Without any, the rough work is taken for seconds of the case itself, which share nothing.
    """

    cases: Mapping[float, Mapping[str, float]]

    # rates are interpolated, not times: beyond the timed sizes the rough work extrapolates, which times would not
    def seconds(self, stage: str, work: float) -> float:
        """Time of a stage in a case of this `work`: seconds for each of work between those of the timed cases."""
        if not self.cases:
            return work if stage == OWN else 0.0
        known = sorted(self.cases)
        rates = [self.cases[each].get(stage, 0.0) / each for each in known]
        return work * float(np.interp(work, known, rates))

    def alone(self, work: float) -> float:
        """Time of a case of this `work` that shares nothing."""
        return sum(self.seconds(stage, work) for stage in {OWN}.union(*self.cases.values()))


# a stage that is new in the second half of the counted cases goes on being new; one that is not has been seen in full
def predicted(
    plan: Plan,
    shared: Sequence[SharedWork],
    timings: Callable[[Plan], Timings] | None = None,
    numbers: Order | None = None,
) -> Prediction | None:
    """Predict the time of the plan's runs, each stage computed once for the cases that share it.

    None where only running them shows it.

    shared: what `shared_work` counted over some of the cases.  A stage that the others need anew has the same part of
    their work as of those; one that they do not is done.  timings: `timed_cases`, asked where there is something to
    predict.  numbers: of the cases to be run; None: all.
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
    """Some cases, the cheapest first, each with its rough work; None where that is not known, or there is no case.

    numbers: of the cases among which they are; None: all.
    """
    size = plan.space.size if numbers is None else len(numbers)
    # with one seed, so that a prediction is the same when it is asked for again
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


# cheapest first, so that the rate that they show says whether the next one still fits into the budget
def timed_cases(plan: Plan) -> Timings:
    """Run a few cases of all sizes in this process with one BLAS thread, the cheapest first, within `BUDGET`.

    The first is run twice, so that what it imports does not count; a case that fails counts with what it took.
    """
    # of no work is a case whose parameters do not fit together, which fails at once and shows no rate
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
    """Seconds of each stage of one case, and of what is its own."""
    case = plan.method.bind(values)
    stages, started = StageTimes(frozenset(case.stages)), time.perf_counter()
    try:
        case.run(stages)
    except Exception as error:  # noqa: BLE001  # whatever it is, running the study records it
        del error
    return {**stages.seconds, OWN: time.perf_counter() - started - stages.inside}


def _mean(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {stage: sum(each.get(stage, 0.0) for each in several) / len(several) for stage in set().union(*several)}


# caches stages of this case only: what is shared by cases is counted by `shared_work`, not timed here
class StageTimes:
    """A `Share` for one case: `seconds` of the stages of these names, each without the others, `inside` of all.

    A stage of another name counts as a part of the one that asks for it.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names, self.inside = names, 0.0
        self.seconds: dict[str, float] = defaultdict(float)
        self._known: dict[tuple[str, Hashable], Any] = {}

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """As `evogt_study.methods.protocol.Share`."""
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
    """The studies by their rough work; those of which nothing is known before all others."""
    return sorted(studies, key=lambda study: -sum(map(_rough_seconds, provisional_plans(study))))


def _rough_seconds(plan: Plan) -> float:
    sample = sampled_work(plan)
    return np.inf if sample is None else plan.count * sum(work for work, _ in sample) / len(sample)


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
