"""How long a study will take and how much memory, against what it takes."""

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from evogt_study.operations import forecast as forecast_module
from evogt_study.operations.forecast import Prediction, StageTimes, Timings, predicted, timed_cases, worker_memory
from evogt_study.study import plan as case_work_module
from evogt_study.study.plan import OWN, provisional_plans, shared_work, study_plan
from evogt_study.study.study import Study
from evogt_study.workers import stage_cache as shared_module
from evogt_study.workers.batch import Batch, compute_here

ONE_D = """
name = "one_d"
problem = { dimension = 1, exact = "exp(-t)*sin(k*pi*x)", diffusion = "1/50" }
[axes]
dictionary = ["transnet", "gtransnet"]
N = [20, 60]
k = [2, 4]
seed = { start = 0, count = 4 }
[constants]
N1 = 160
gamma = 8
quadrature = 200
validation = { rule = "composite_midpoint", points = 1000 }
final_time = 0.5
dt = 0.0025
"""
TWO_D = """
name = "two_d"
[problem]
dimension = 2
exact = "exp(-t)*sin(6*pi*x)*sin(6*pi*y)"
diffusion = "1 + (1 + sin(2*pi*t/final_time)/2)/4*cos(2*pi*x/epsilon)*cos(2*pi*y/epsilon)"
[axes]
epsilon = [0.2, 0.1]
seed = { start = 0, count = 3 }
[constants]
dictionary = "gtransnet"
gamma = 6
N = 150
N1 = 600
quadrature = 36
validation = 64
assessment = 48
final_time = 0.06
dt = 0.003
"""
ALLEN_CAHN = """
name = "allen_cahn"
[problem]
dimension = 2
initial = "0.42*sin(6*pi*x)*sin(6*pi*y) + 0.24*sin(4*pi*x)*sin(7*pi*y)"
diffusion = "0.025**2"
potential = "(u**2 - 1)**2/4"
[axes]
dictionary = ["transnet", "gtransnet"]
seed = { start = 0, count = 2 }
[constants]
gamma = 6
N = 120
N1 = 400
quadrature = 36
validation = 40
final_time = 0.4
dt = 0.002
time_integrator = "stabilized_semi_implicit"
stabilization = 2
reference = "finite_difference"
reference_points = 120
"""
THREE_D = """
name = "three_d"
axes.seed = { start = 0, count = 2 }
[problem]
dimension = 3
exact = "exp(-t)*sin(pi*x)*sin(2*pi*y)*sin(2*pi*z)"
diffusion = "1 + (1 + sin(2*pi*t/final_time)/2)/8*cos(2*pi*x)*cos(2*pi*y)*cos(2*pi*z)"
[constants]
dictionary = "gtransnet"
gamma = 3.5
N = 240
N1 = 480
quadrature = 18
validation = 20
final_time = 0.12
dt = 0.006
"""
BASELINE = """
name = "fem"
method = "p1_fem"
problem = { dimension = 2, exact = "exp(-t)*sin(pi*x)*sin(pi*y)", diffusion = "1 + x*exp(-t)/2" }
axes = { unknowns = [30, 50] }
constants = { validation = 20, final_time = 0.1, dt = 0.005 }
"""
STUDIES = {"1-D": ONE_D, "2-D": TWO_D, "3-D": THREE_D, "Allen-Cahn": ALLEN_CAHN, "finite elements": BASELINE}


@pytest.fixture
def cpu_seconds(monkeypatch):
    """Time that others take of this machine is no part of a run's seconds."""
    for module in (shared_module, forecast_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=time.process_time))


def measured(plan):
    """Sum of the runs' seconds, the stages shared that can be."""
    return float(compute_here(Batch.of(plan.spec, list(plan.cases()))).wall_seconds.sum())


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_takes_half_to_twice_the_predicted_seconds(name, cpu_seconds):
    plan = study_plan(Study.from_text(STUDIES[name]))
    measured(plan)  # libraries are loaded, caches filled
    found, made = [], []
    for _ in range(4):  # what else the machine does makes both longer, for a while: the least of each tells
        made.append(predicted(plan, shared_work(plan)).seconds)
        found.append(measured(plan))
        if len(made) > 1 and 0.5 < min(made) / min(found) < 2.0:
            return
    raise AssertionError((made, found))


STAGES = {"trial functions": 0.4, "weighted SVD": 0.3, "retained space": 0.2, "reference": 0.01, OWN: 0.1}


def two_sizes(plan):
    """Timings by which a case takes seconds in proportion to its rough work."""
    return Timings({work: {stage: part * work for stage, part in STAGES.items()} for work in (0.01, 1.0)})


def of(text, timings=two_sizes, **options):
    plan = study_plan(Study.from_text(text))
    return plan, predicted(plan, shared_work(plan, **options), timings)


def test_shared_stages_count_once():
    """Twice the epsilon share what depends on the seed alone; twice the seeds share nothing of it."""
    (_, two), (_, four), (_, seeds) = (
        of(text)
        for text in (
            TWO_D,
            TWO_D.replace("[0.2, 0.1]", "[0.2, 0.1, 0.05, 0.4]"),
            TWO_D.replace("count = 3", "count = 6"),
        )
    )
    assert seeds.seconds == pytest.approx(2 * two.seconds, rel=0.02)  # but for the reference
    assert two.seconds < four.seconds < 1.8 * two.seconds
    assert two.longest == pytest.approx(four.longest)


def test_a_large_study_is_predicted_from_its_first_cases():
    large = ONE_D.replace("count = 4", "count = 40")
    (plan, whole), (_, sampled), (_, less) = of(large), of(large, limit=160), of(large, limit=80)
    assert plan.count == 320
    assert sampled.seconds == pytest.approx(whole.seconds, rel=0.2)
    assert less.seconds == pytest.approx(whole.seconds, rel=0.2)
    assert sampled.longest == whole.longest


def test_what_the_later_cases_do_not_need_anew_is_not_multiplied():
    """One reference solves for all seeds, of which only some are looked at."""
    many = ALLEN_CAHN.replace("count = 2", "count = 400")
    (plan, made) = of(many, lambda plan: Timings({1.0: {"reference": 1000.0, OWN: 1.0}}), limit=20)
    own = sum(plan.work.ravel()) * 400
    assert made.seconds == pytest.approx(own + 1000.0 * plan.work.min(), rel=0.01)


def test_the_order_of_the_runs_does_not_bias_a_sample():
    """The long ones come first when they are run, not where they are counted."""
    sizes = ONE_D.replace("[20, 60]", "[5, 200]").replace("count = 4", "count = 100")
    assert of(sizes, limit=200)[1].seconds == pytest.approx(of(sizes)[1].seconds, rel=0.2)


def test_so_many_sizes_that_not_each_is_looked_at(monkeypatch):
    """The first cases are the cheap ones; costs of cases from everywhere say how the rest goes on."""
    sizes = ONE_D.replace("[20, 60]", str(list(range(10, 410, 4))))
    (_, whole) = of(sizes)
    monkeypatch.setattr(case_work_module, "MAX_COMBINATIONS", 99)
    plan, sampled = of(sizes, limit=100)
    assert plan.work is None
    assert sampled.seconds == pytest.approx(whole.seconds, rel=0.2)
    assert sampled.longest == pytest.approx(whole.longest, rel=0.1)


def test_wall_time_is_that_of_the_workers_or_of_the_longest_run():
    made = Prediction(seconds=100.0, longest=8.0)
    assert (made.wall(1), made.wall(4), made.wall(50)) == (100.0, 25.0, 8.0)


def test_each_case_has_a_stage_of_its_own():
    plan = study_plan(Study.from_text(ONE_D))
    *stages, own = shared_work(plan)
    assert (own.stage, own.distinct, own.cases) == (OWN, 32, 32)
    assert OWN not in {entry.stage for entry in stages}


def test_nothing_is_predicted_of_a_function_of_ones_own(own_study):
    plan = study_plan(own_study("def method(seed):\n    return {'error': 1.0}", "[axes]\nseed = [0, 1]"))

    def never(plan):
        raise AssertionError("a function of one's own was called by a plan")

    assert predicted(plan, shared_work(plan), never) is None
    assert worker_memory(plan) == 0.0


def own_problem(folder, data=""):
    """ONE_D with a problem from a factory that may change its `data`."""
    (folder / "own.py").write_text(
        "from dataclasses import replace\nfrom evogt_study.pde.problems import FormulaProblem\n"
        "def problem(k=2.0):\n"
        "    made = FormulaProblem(dimension=1, exact='exp(-t)*sin(k*pi*x)', diffusion='1/50')(k=k)\n"
        f"    return replace(made{data})\n"
    )
    stated = 'name = "one_d"\nproblem = "own.py:problem"\n' + ONE_D[ONE_D.index("[axes]") :]
    (folder / "own.toml").write_text(stated)
    return study_plan(Study.from_file(folder / "own.toml"))


def test_a_problem_of_ones_own_is_predicted(tmp_path):
    """Its dimension and how it depends on time are known from the problem made."""
    plan = own_problem(tmp_path)
    stated_plan, made = of(ONE_D)
    assert predicted(plan, shared_work(plan), two_sizes).seconds == pytest.approx(made.seconds)
    assert worker_memory(plan) == worker_memory(stated_plan)


def test_cases_that_fail_count_with_what_they_took(tmp_path):
    plan = own_problem(tmp_path, ", source=None")
    found = timed_cases(plan)
    assert 1 <= len(found.cases) <= 4
    assert 0.0 < predicted(plan, shared_work(plan), lambda _: found).seconds < 5.0


def test_a_stage_counts_without_those_that_it_asks_for(monkeypatch):
    """Others than those named are parts of the one that asks for them; each is computed once."""
    now = iter(range(100))
    monkeypatch.setattr(forecast_module, "time", SimpleNamespace(perf_counter=lambda: float(next(now))))
    times = StageTimes(frozenset({"inner", "outer"}))

    def part():
        return times("part", 0, lambda: next(now))

    def outer():
        return [times("inner", 0, part), times("inner", 0, part)]

    times("outer", 0, outer)
    assert times.seconds == {"outer": 2.0, "inner": 2.0}  # each look at the clock is a second
    assert times.inside == 4.0


def test_cases_between_those_that_are_timed_are_interpolated():
    """0.1 s for work 1 and 4 s for work 10 are 0.1 and 0.4 a unit."""
    timings = Timings({1.0: {OWN: 0.1}, 10.0: {OWN: 1.0, "stage": 3.0}})
    assert timings.seconds(OWN, 4.0) == pytest.approx(0.4)
    assert timings.alone(5.5) == pytest.approx(5.5 * (0.1 + 0.15))
    assert timings.alone(20.0) == pytest.approx(8.0)
    assert (Timings({}).alone(3.0), Timings({}).seconds("stage", 3.0)) == (3.0, 0.0)


def test_only_what_fits_into_the_budget_is_timed(monkeypatch):
    plan = study_plan(Study.from_text(ONE_D))
    assert len(timed_cases(plan).cases) == 4
    monkeypatch.setattr(forecast_module, "BUDGET", 0.0)
    assert list(timed_cases(plan).cases) == [float(plan.work.min())]
    monkeypatch.setattr(forecast_module, "PATIENCE", 0.0)
    assert timed_cases(plan).cases == {}


def test_a_pilot_is_predicted():
    pilot = '[pilot]\nparameter = "gamma"\nseeds = [7, 8]\nby = ["dictionary"]\ncandidates = [4, 6, 8]\n'
    study = Study.from_text(ONE_D.replace("gamma = 8\n", "") + pilot)
    plan = provisional_plans(study)[0]
    made = predicted(plan, shared_work(plan), two_sizes)
    assert made.seconds == pytest.approx(3 * 2 / 4 * of(ONE_D)[1].seconds, rel=0.1)


# --- memory -----------------------------------------------------------------------------------------------------------


def peak_bytes(process):
    """Largest resident memory of the process that computes runs for a command."""
    found = 0
    while process.poll() is None:
        for child in psutil.Process(process.pid).children():
            with contextlib.suppress(psutil.Error, OSError, ValueError):
                (line,) = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text())
                found = max(found, 1024 * int(line))
        time.sleep(0.05)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["3-D", *(pytest.param(name, marks=pytest.mark.slow) for name in ("2-D", "Allen-Cahn"))]
)
def test_a_worker_takes_about_the_predicted_memory(name, tmp_path):
    (tmp_path / "study.toml").write_text(STUDIES[name])
    command = [sys.executable, "-m", "evogt_study", "run", "-q", "study.toml", "--workers", "1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        found = peak_bytes(process)
    study = Study.from_text(STUDIES[name])
    assert 0.7 * found < worker_memory(study_plan(study)) < 1.7 * found
    assert np.isfinite(found)


def test_what_is_missing_is_predicted():
    """Half of the seeds take half of the time; one case shares nothing, and takes what the longest does."""
    plan, whole = of(ONE_D)
    seeds = np.array([case.values["seed"] for case in sorted(plan.cases(), key=lambda case: case.index)])
    half = np.flatnonzero(seeds < np.median(seeds))
    shared = shared_work(plan, numbers=half)
    assert next(entry.distinct for entry in shared if entry.stage == OWN) == len(half) == plan.count / 2
    assert predicted(plan, shared, two_sizes, half).seconds == pytest.approx(whole.seconds / 2, rel=0.1)
    last = half[-1:]
    alone = predicted(plan, shared_work(plan, numbers=last), two_sizes, last)
    assert alone.seconds == pytest.approx(alone.longest)
