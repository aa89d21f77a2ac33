"""Stages that cases share: each is computed once, its time is divided among its users, and no number depends on it."""

import random
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import pde_study

from evogt_study.methods.code import MethodSpec
from evogt_study.results.table import RunTable
from evogt_study.schema.records import NO_NEEDS, Case
from evogt_study.schema.variables import Status
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study
from evogt_study.workers import batch as batch_module
from evogt_study.workers.batch import Batch, BoundedStageCache, compute_here

# --- studies ----------------------------------------------------------------------------------------------------------

CONSTANTS = {
    "dictionary": '"gtransnet"', "seed": "0", "N": "5", "N1": "7", "gamma": "3", "quadrature": "9", "validation": "11",
    "epsilon": "2", "final_time": "1", "dt": "0.125", "tau": "1e-12",
}  # fmt: skip
VALUES = {
    "seed": "[0, 1, 2]", "dictionary": '["transnet", "gtransnet", "uniform_elm"]', "epsilon": "[2, 3, 4]",
    "tau": "[1e-12, 1e-6, 0.1]", "dt": "[0.125, 0.25, 0.5]", "quadrature": "[9, 10, 11]", "validation": "[11, 12, 13]",
    "gamma": "[3, 4, 5]", "N": "[4, 5, 6]", "hidden": "[[7], [7, 6]]",
}  # fmt: skip


def plan_of(*axes, diffusion="1 + x/epsilon", record="[]"):
    """The plan of a small study over these axes, in this order."""
    constants = CONSTANTS | ({"N1": None} if "hidden" in axes else {})
    study = pde_study({name: VALUES[name] for name in axes}, constants, diffusion=diffusion, times=3, record=record)
    return plan_study(study)[-1]


class Bindable:
    """A method whose cases are run by `run(values, share)`."""

    def __init__(self, run):
        self.run = run

    def bind(self, values):
        return SimpleNamespace(run=partial(self.run, values))


WORKER = SimpleNamespace(stages=BoundedStageCache())


@pytest.fixture(autouse=True)
def new_worker(monkeypatch):
    """No earlier batch has left anything, and a batch is one part however long it takes."""
    monkeypatch.setattr(WORKER, "stages", BoundedStageCache())
    monkeypatch.setattr(batch_module, "SEND_SECONDS", 1000.0)


def run_batch(batch):
    return compute_here(batch, WORKER.stages)


@pytest.fixture
def stages(monkeypatch):
    """What was computed, by stage, in each batch that is made while the test runs."""
    counts = []

    class Remembered(BoundedStageCache):
        def begin_batch(self):
            counts.append(Counter(each.stage for each in self._computed))
            super().begin_batch()

    monkeypatch.setattr(WORKER, "stages", Remembered())
    return counts


# --- each stage once --------------------------------------------------------------------------------------------------

STUDIES = [
    ("dictionary", "epsilon", "seed"), ("seed", "tau", "epsilon"), ("seed", "dt", "epsilon"),
    ("quadrature", "seed", "epsilon"), ("validation", "seed", "tau"), ("gamma", "seed", "tau"),
    ("N", "seed", "epsilon"), ("hidden", "epsilon", "seed"),
]  # fmt: skip


@pytest.mark.parametrize("axes", STUDIES, ids="-".join)
def test_each_distinct_stage_is_computed_once_in_a_batch(stages, axes):
    plan = plan_of(*axes)
    cases = list(plan.cases())
    records = run_batch(Batch.from_cases(plan.spec, cases))
    assert (records.status == Status.ok).all()
    (calls,) = stages
    distinct = {}
    for case in cases:
        for stage, key in plan.method.bind(case.values).stages.items():
            distinct.setdefault(stage, set()).add(key)
    assert {stage: calls[stage] for stage in distinct} == {stage: len(keys) for stage, keys in distinct.items()}


@pytest.mark.parametrize("kept_bytes", [batch_module.MAX_CACHE_BYTES, 0])
def test_the_next_batch_of_a_worker_goes_on_with_what_it_may_keep(stages, monkeypatch, kept_bytes):
    monkeypatch.setattr(batch_module, "MAX_CACHE_BYTES", kept_bytes)
    plan = plan_of("seed", "epsilon")
    cases = list(plan.cases())
    for half in (cases[:2], cases[2:3]):  # the three epsilon of one seed
        run_batch(Batch.from_cases(plan.spec, half))
    assert [calls.get("trial functions", 0) for calls in stages] == [1, 0 if kept_bytes else 1]
    assert stages[1]["Galerkin system"] == 1


# --- numbers ----------------------------------------------------------------------------------------------------------

RECORD = '["error_history", "energy_history", "norm_history", "coefficients", "field"]'


def compute(plan, batches):
    """A table of the runs of these batches."""
    table = RunTable(plan)
    for cases in batches:
        table.add(run_batch(Batch.from_cases(plan.spec, cases)))
    return table


def read_bytes(table):
    assert (table.status == Status.ok).all()
    return {name: column.load().values.tobytes() for name, column in table.columns.items()}


# steady, separable, and neither
@pytest.mark.long
@pytest.mark.parametrize("diffusion", ["1 + x/epsilon", "1 + x*exp(-t)/epsilon", "1 + sin(x*t)/(2*epsilon)"])
def test_numbers_are_bitwise_those_of_cases_computed_alone(diffusion):
    plan = plan_of("seed", "dictionary", "epsilon", diffusion=diffusion, record=RECORD)
    cases = list(plan.cases())
    alone = read_bytes(compute(plan, [[case] for case in cases]))
    for size in (27, 12, 5, 2):
        ordered = cases if size == 27 else random.Random(size).sample(cases, 27)
        batches = [ordered[start : start + size] for start in range(0, 27, size)]
        assert read_bytes(compute(plan, batches)) == alone


def test_a_failing_neighbour_changes_nothing(monkeypatch):
    """Cases after one that raises in the middle of a stage use what was shared before, and nothing half done."""
    plan = plan_of("seed", "epsilon")
    cases, original = list(plan.cases()), plan.method
    doomed, alone = cases[3].values, compute(plan, [[case] for case in cases]).columns["error"].load().values

    def stumble(values, share):
        if values == doomed:
            share("trial functions", "none", lambda: 1 / 0)
        return original.bind(values).run(share)

    monkeypatch.setattr(batch_module, "load_method", lambda spec: Bindable(stumble))
    table = compute(plan, [cases])
    assert np.flatnonzero(table.status == Status.failed).tolist() == [cases[3].index]
    found = table.columns["error"].load().values
    assert np.array_equal(found[table.status == Status.ok], alone[table.status == Status.ok])


# --- time -------------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that only the test moves."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    monotonic = perf_counter

    def pass_by(self, seconds):
        self.now += seconds
        return seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(batch_module, "time", clock)
    return clock


def test_the_cost_of_a_stage_is_divided_among_its_users(clock):
    share = BoundedStageCache()
    own = []
    for user in range(3):
        share.start(user)
        for _ in range(2):  # using a stage twice counts once
            assert share("a", user % 2, lambda: clock.pass_by(8.0)) == 8.0
            assert share("b", "all", lambda: clock.pass_by(3.0)) == 3.0
            assert share("none", "all", lambda: None) is None
        clock.pass_by(float(user))
        own.append(share.measure_own_seconds())
    assert own == [0.0, 1.0, 2.0]
    assert Counter(each.stage for each in share._computed) == {"a": 2, "b": 1, "none": 1}
    assert dict(share.divide_seconds()) == {0: 8.0 / 2 + 1.0, 1: 8.0 + 1.0, 2: 8.0 / 2 + 1.0}
    assert sum(own) + sum(share.divide_seconds().values()) == clock.now == 22.0


class Timed:
    """A method whose runs take known times: two shared stages, work of their own, and failures on purpose."""

    def __init__(self, clock, failing):
        self.clock, self.failing = clock, failing

    def run(self, values, share):
        number = values["number"]
        share("first", number // 3, lambda: self.clock.pass_by(12.0))
        if (number, "early") in self.failing:
            raise ValueError("early")
        share("second", number // 2, lambda: self.stage(number))
        self.clock.pass_by(1.0 + number)
        if (number, "late") in self.failing:
            raise ValueError("late")
        return batch_module.Record({}, {})

    def stage(self, number):
        self.clock.pass_by(4.0)
        if (number, "within") in self.failing:
            raise ValueError("within")


FAILURES = [
    [],
    [(1, "early")],
    [(0, "within")],  # stages are begun by even numbers
    [(5, "late")],
    [(0, "late"), (1, "late"), (2, "within"), (3, "early")],
]


@pytest.mark.parametrize("failing", FAILURES, ids=str)
def test_wall_seconds_add_up_to_the_time_of_the_batch(clock, monkeypatch, failing):
    """No second is lost and none is counted twice, whatever fails: throughput and ETA rest on the sum."""
    monkeypatch.setattr(batch_module, "load_method", lambda spec: Bindable(Timed(clock, set(failing)).run))
    cases = [(f"key{number}", {"number": number}) for number in range(6)]
    batch = Batch(MethodSpec("method", None, None), cases, NO_NEEDS)
    records = run_batch(batch)
    assert [int(status) for status in records.status] == [
        Status.failed if number in dict(failing) else Status.ok for number in range(6)
    ]
    assert records.wall_seconds.sum() == pytest.approx(clock.now, abs=1e-12)
    assert (records.wall_seconds > 0).all()


def test_the_diffusion_is_checked_at_each_cases_own_times():
    """A case that shares the operator with one of a shorter final time has later times to look at."""
    text = """
        name = "later"
        problem = { dimension = 1, initial = "sin(pi*x)", diffusion = "1 - 2*t*x" }
        axes = { final_time = [0.2] }
        constants = { dictionary = "transnet", seed = 0, N = 8, gamma = 2, quadrature = 20, validation = 20, dt = 0.1 }
    """
    early = plan_study(Study.from_text(text))[-1]
    case = early.case(0)
    late = Case(1, {**case.values, "final_time": 0.6}, "late")
    records = run_batch(Batch.from_cases(early.spec, [case, late]))
    assert records.status.tolist() == [Status.ok, Status.failed]
    assert records.messages[1].startswith("ProblemError: `diffusion` must be positive")
