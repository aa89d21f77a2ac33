"""Forecast the time and memory of a study from the times of its smallest, median and largest missing case."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from evogt_study.methods.current_run import SEED
from evogt_study.results.finished import FinishedRuns
from evogt_study.schema.records import Case, RunRecords
from evogt_study.schema.values import is_number
from evogt_study.schema.variables import Status
from evogt_study.study.plan import (
    OWN_STAGE,
    Order,
    Plan,
    SharedWork,
    count_shared_work,
    estimate_peak_memory,
    estimate_work,
)
from evogt_study.workers.batch import MAX_CACHE_BYTES, Batch, BoundedStageCache
from evogt_study.workers.runner import Runner, load

T = TypeVar("T")
StageSeconds = Mapping[str, float]
START_SECONDS = 2.0
"""Time in seconds of a command for imports, reading the study, starting workers and writing the result."""
RUN_OVERHEAD_SECONDS = 0.0004  # overhead of a run in seconds, for storing its record in the shard and in the result
SAMPLED_CASES = 500  # maximum number of cases in the sample that represents a plan
_MAX_TIMING_SECONDS = 10.0  # time limit in seconds for the timed cases of a phase
WORKER_BYTES = 130 * 2**20  # memory in bytes of an idle worker process with NumPy, SciPy, SymPy and Dask


class Prediction(NamedTuple):
    """Predicted seconds of all runs in sequence, and of the longest run without shared stages."""

    seconds: float
    longest: float


SampledCase = tuple[float, int]  # size and number of a case.  The size is a rough time in seconds, or a rank


@dataclass(frozen=True)
class PhaseForecast:
    """Forecast of the time and memory of one phase.  The memory is in bytes for each worker, or 0 if unknown."""

    plan: Plan
    n_finished: int
    places: str
    n_missing: int
    stages: Sequence[SharedWork]
    prediction: Prediction | None
    memory: float

    def wall_seconds(self, workers: int) -> float | None:
        """Return the predicted wall time in seconds on `workers` workers, or None without a prediction."""
        if self.prediction is None:
            return None
        return max((self.prediction.seconds + self.n_missing * RUN_OVERHEAD_SECONDS) / workers, self.prediction.longest)


def forecast_phase(plan: Plan, done: FinishedRuns | None) -> PhaseForecast:
    """Forecast the time and memory of the missing cases of a plan."""
    n_finished, places, missing = 0, "", plan.runs
    if done is not None and plan.phase in done.tables and (n_finished := done.tables[plan.phase].n_finished):
        places, missing = done.describe_reused(plan.phase), done.tables[plan.phase].missing()
    if not len(missing):
        return PhaseForecast(plan, n_finished, places, 0, (), Prediction(0.0, 0.0), 0.0)
    stages = count_shared_work(plan, numbers=missing)
    made = predict_seconds(plan, stages, missing)
    return PhaseForecast(plan, n_finished, places, len(missing), stages, made, estimate_worker_memory(plan))


def predict_seconds(plan: Plan, stages: Sequence[SharedWork], numbers: Order) -> Prediction | None:
    """Predict the time of cases that share `stages`, or return None if timing all cases failed."""
    sample, is_rough = sample_cases(plan, numbers)
    times = time_cases(plan, sample, in_process=is_rough)
    if not times:
        return None
    sizes = [size for size, _ in sample]
    names = {OWN_STAGE}.union(*times.values())
    alone = {size: sum(_interpolate_seconds(times, stage, size) for stage in names) for size in sizes}
    if not is_rough:
        return Prediction(len(numbers) * sum(alone[size] for size in sizes) / len(sizes), max(alone.values()))
    seconds = 0.0
    for entry in stages:
        taken = sum(count * _interpolate_seconds(times, entry.stage, work) for work, count in entry.first.items())
        counted = sum(count * _interpolate_seconds(times, entry.stage, work) for work, count in entry.all.items())
        each = sum(_interpolate_seconds(times, entry.stage, size) for size in sizes) / len(sizes)
        grows = entry.cases < len(numbers) and entry.growing and counted > 0.0
        seconds += taken / counted * each * len(numbers) if grows else taken
    # a single run shares no stages, and would seem to take longer than all runs together
    return Prediction(seconds, min(max(alone.values()), seconds))


def _interpolate_seconds(times: Mapping[float, StageSeconds], stage: str, size: float) -> float:
    """Interpolate the logarithm of the timed rates of a stage, and return the seconds of a case of this size."""
    if size <= 0.0:  # cases with inconsistent parameters fail immediately
        return 0.0
    known = sorted(times)
    rates = [max(times[each].get(stage, 0.0) / each, 1e-12) for each in known]
    return size * float(np.exp(np.interp(np.log(size), np.log(known), np.log(rates))))


def sample_cases(plan: Plan, numbers: Order) -> tuple[list[SampledCase], bool]:
    """Return a sample of cases in order of size, and True if the method estimates the sizes as times."""
    # with a fixed seed, so that equal studies have equal forecasts
    some = numbers if len(numbers) <= SAMPLED_CASES else np.random.default_rng(0).choice(numbers, SAMPLED_CASES)
    cases = [
        (int(i), values) for i, values in zip(some, plan.space.iterate_values(some), strict=True) if values is not None
    ]
    works = [estimate_work(plan.method, values) for _, values in cases]
    rough = [work for work in works if work is not None]
    sizes = rough if len(rough) == len(cases) else [_rank_case(plan, index) for index, _ in cases]
    return sorted(zip(sizes, (index for index, _ in cases), strict=True)), sizes is rough


def _rank_case(plan: Plan, index: int) -> float:
    """Return a rank of a case, from 1 for the smallest axis values to e for the largest axis values."""
    ranks = []
    for axis, i in zip(plan.space.axes, np.unravel_index(index, plan.space.shape), strict=True):
        if axis.name != SEED and len(axis.values) > 1:
            numbers = [float(value) for value in axis.values if is_number(value)]  # type: ignore[arg-type]
            position = sum(other < numbers[i] for other in numbers) if len(numbers) == len(axis.values) else int(i)
            ranks.append(position / (len(axis.values) - 1))
    return float(np.exp(np.mean(ranks))) if ranks else 1.0


def time_cases(plan: Plan, sample: Sequence[SampledCase], *, in_process: bool) -> dict[float, StageSeconds]:
    """Time the smallest, the median and the largest case.  Return the seconds of each stage by case size."""
    sample = [case for case in sample if case[0] > 0.0]
    chosen = dict([sample[0], sample[len(sample) // 2], sample[-1]] if sample else [])
    times: dict[float, StageSeconds] = {}
    end, runner = time.perf_counter() + _MAX_TIMING_SECONDS, Runner()
    try:
        for size, number in chosen.items():
            rate = max((sum(stages.values()) / known for known, stages in times.items()), default=0.0)
            left = end - time.perf_counter()
            if left <= 0.0 or (in_process and times and rate * size > left):
                break
            for _ in range(1 if times else 2):
                (planned,) = plan.cases(np.array([number]))
                if in_process:
                    times[size] = _time_stages(plan, planned)
                    continue
                parts = runner.compute(Batch.from_cases(plan.spec, [planned]), timeout=left)
                records: list[RunRecords] = list(map(load, parts))
                if not records or Status.timed_out in records[0].status:
                    return {}
                times[size] = {OWN_STAGE: float(records[0].wall_seconds[0])}
    finally:
        runner.end()
    return times


def _time_stages(plan: Plan, planned: Case) -> StageSeconds:
    """Time each stage and the unshared part of one case in seconds, with one BLAS thread."""
    case, stages, others = plan.method.bind(planned.values), BoundedStageCache(), BoundedStageCache()

    def share(stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        return (stages if stage in case.stages else others)(stage, key, compute)

    with threadpool_limits(1), np.errstate(all="ignore"):
        stages.start(None)  # only now, because limiting the threads takes as long as a short run
        with suppress(Exception):  # the study itself records any exception
            case.run(share)
        return {**stages.sum_stage_seconds(), OWN_STAGE: stages.measure_own_seconds()}


# a shared stage keeps a quarter of the arrays of a run: the retained space and the matrices
def estimate_worker_memory(plan: Plan) -> float:
    """Estimate the peak memory of a worker process in bytes, or return 0 if the memory of a run is unknown."""
    arrays = estimate_peak_memory(plan)
    if not arrays:
        return 0.0
    first = next(values for values in plan.space.iterate_values(np.arange(plan.space.size)) if values is not None)
    keeping = set(plan.method.bind(first).stages) - {"problem"}  # the stage of the problem has no arrays
    return WORKER_BYTES + arrays + (min(MAX_CACHE_BYTES, plan.space.count * arrays / 4.0) if keeping else 0.0)
