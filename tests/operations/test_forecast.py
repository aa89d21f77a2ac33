"""How long a study will take and how much memory, against what it takes."""

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from helpers import read_table

from evogt_study.operations import forecast
from evogt_study.operations.forecast import estimate_worker_memory, forecast_phase, predict_seconds, sample_cases
from evogt_study.study.plan import OWN_STAGE, count_shared_work, plan_study
from evogt_study.study.study import Study
from evogt_study.workers import batch
from evogt_study.workers.batch import Batch, compute_here

STUDIES = read_table(__file__)
ONE_D, TWO_D = STUDIES["1-D"], STUDIES["2-D"]
STAGES = {"trial functions": 0.4, "weighted SVD": 0.3, "retained space": 0.2, "reference": 0.01, OWN_STAGE: 0.1}


@pytest.fixture
def cpu_seconds(monkeypatch):
    """Time that others take of this machine is no part of a run's seconds."""
    for module in (batch, forecast):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=time.process_time, monotonic=time.monotonic))


def measure(plan):
    """Sum of the runs' seconds, the stages shared that can be."""
    return float(compute_here(Batch.from_cases(plan.spec, list(plan.cases()))).wall_seconds.sum())


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_takes_half_to_twice_the_predicted_seconds(name, cpu_seconds):
    plan = plan_study(Study.from_text(STUDIES[name]))[-1]
    measure(plan)  # libraries are loaded, caches filled
    found, made = [], []
    for _ in range(4):  # other load on the machine makes both longer for a while: the least of each counts
        made.append(forecast_phase(plan, None).prediction.seconds)
        found.append(measure(plan))
        if len(made) > 1 and 0.5 < min(made) / min(found) < 2.0:
            return
    raise AssertionError((made, found))


@pytest.fixture
def predict_of(monkeypatch):
    """Predict a study whose cases take seconds in proportion to their rough work."""
    times = {work: {stage: part * work for stage, part in STAGES.items()} for work in (0.01, 1.0)}
    monkeypatch.setattr(forecast, "time_cases", lambda *_, **__: times)

    def call(text, numbers=None, **options):
        plan = plan_study(Study.from_text(text))[-1]
        numbers = plan.runs if numbers is None else numbers
        return predict_seconds(plan, count_shared_work(plan, numbers=numbers, **options), numbers)

    return call


def test_shared_stages_count_once(predict_of):
    """Twice the epsilon share what depends on the seed alone; twice the seeds share nothing of it."""
    two, four, seeds = map(
        predict_of,
        (TWO_D, TWO_D.replace("[0.2, 0.1]", "[0.2, 0.1, 0.05, 0.4]"), TWO_D.replace("count = 3", "count = 6")),
    )
    assert seeds.seconds == pytest.approx(2 * two.seconds, rel=0.02)  # except for the reference
    assert two.seconds < four.seconds < 1.8 * two.seconds
    assert two.longest == pytest.approx(four.longest)


def test_missing_cases_are_predicted(predict_of):
    """Half of the seeds take half of the time; one case shares nothing, and takes as long as the longest."""
    plan, whole = plan_study(Study.from_text(ONE_D))[-1], predict_of(ONE_D)
    seeds = np.array([case.values["seed"] for case in sorted(plan.cases(), key=lambda case: case.index)])
    half = np.flatnonzero(seeds < np.median(seeds))
    assert predict_of(ONE_D, half).seconds == pytest.approx(whole.seconds / 2, rel=0.1)
    alone = predict_of(ONE_D, half[-1:])
    assert alone.seconds == pytest.approx(alone.longest)


# --- user functions ---------------------------------------------------------------------------------------------------

SLOW = """
    import os, time
    def method(n, kind, seed):
        print("shown nowhere")
        with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as file:
            file.write(f"[{n}, {seed}]\\n")
        time.sleep(0.002 * n)
        return {"error": 1.0}
"""
AXES = '[axes]\nn = [1, 40, 10]\nkind = ["a"]\nseed = { count = 40 }\n'


def test_a_user_function_is_timed_at_its_smallest_median_and_largest_case(own_study, tmp_path, capfd):
    plan = plan_study(own_study(SLOW, AXES))[-1]
    made = forecast_phase(plan, None)
    calls = [json.loads(line)[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == [1, 1, 10, 40]  # the first call imports
    assert capfd.readouterr() == ("", "")
    assert 0.5 < made.prediction.seconds / (40 * 0.002 * 51) < 2.0
    assert made.prediction.longest == pytest.approx(0.08, rel=0.5)
    assert made.memory == 0.0


@pytest.mark.parametrize(
    "body", ["while True: pass", pytest.param("import time; time.sleep(1e6)", marks=pytest.mark.long)]
)
def test_a_user_function_that_does_not_end_has_no_forecast(own_study, evogt, monkeypatch, body):
    study = own_study(f"def method(seed):\n        {body}", "[axes]\nseed = [0, 1]")
    monkeypatch.setattr(forecast, "_MAX_TIMING_SECONDS", 1.0)
    code, out, _ = evogt("run", "-n", study.file)
    assert (code, out.splitlines()[-1].startswith("the time is unknown")) == (0, True)


@pytest.mark.parametrize("body", ["raise ValueError(seed)", "import os; os._exit(3)"])
def test_failed_cases_count_with_their_time(own_study, body):
    plan = plan_study(own_study(f"def method(seed):\n        {body}", "[axes]\nseed = [0, 1]"))[-1]
    assert 0.0 <= forecast_phase(plan, None).prediction.seconds < 5.0


def test_cases_are_ordered_by_the_values_of_all_axes(own_study):
    plan = plan_study(own_study(SLOW, AXES.replace('["a"]', '["a", "b", "c"]')))[-1]
    sample, is_rough = sample_cases(plan, plan.runs)
    values = [plan.case(number).values for _, number in (sample[0], sample[-1])]
    assert not is_rough
    assert [(each["n"], each["kind"]) for each in values] == [(1, "a"), (40, "c")]


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
    assert 0.7 * found < estimate_worker_memory(plan_study(study)[-1]) < 1.7 * found
    assert np.isfinite(found)
