"""Runs are computed in one process forked from this one until a cluster is there, which quick ones do not need."""

import os
import pathlib
import subprocess
import sys
import time
from functools import partial

import helpers
import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.schema.variables import status_codes
from evogt_study.study.plan import study_plan
from evogt_study.workers import executor as forked_process


def whose(seed):
    return {"process": os.getpid(), "square": seed**2}


def slow_once(seed, folder):
    """Takes longer than a forked process has, the first time."""
    try:
        os.mkdir(f"{folder}/{seed}")
    except FileExistsError:
        return {"again": True}
    time.sleep(600)
    return {"again": False}


def touches(seed, folder):
    pathlib.Path(folder, str(seed)).touch()
    time.sleep(0.02)
    return 1.0


def fails_when_forked(seed, parent):
    if os.getppid() == parent and seed == 1:
        raise RuntimeError("cannot be used in a forked process")
    return float(seed)


def forks(seed):
    return {"parent": os.fork() > 0, "process": os.getpid()}


def interrupts_itself(seed):
    if seed == 1:
        raise KeyboardInterrupt
    return 1.0


@pytest.fixture
def in_time(monkeypatch):
    """A busy machine must not decide."""
    monkeypatch.setattr(forked_process, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(forked_process, "QUICK_SECONDS", 60.0)


@pytest.mark.usefixtures("in_time")
def test_quick_runs_are_computed_in_one_other_process():
    ds = evs.run(evs.Study(whose, axes={"seed": range(9)}))
    assert len(set(ds.process.values)) == 1
    assert ds.process.values[0] != os.getpid()
    np.testing.assert_array_equal(ds.square, np.arange(9) ** 2)


@pytest.mark.usefixtures("in_time")
def test_a_process_that_a_run_forks_has_no_part_in_its_result():
    ds = evs.run(evs.Study(forks, axes={"seed": range(9)}))
    assert ds.parent.values.all()
    assert len(set(ds.process.values)) == 1


@pytest.mark.usefixtures("in_time")
def test_a_run_that_interrupts_itself_prints_nothing(capfd):
    ds = evs.run(evs.Study(interrupts_itself, axes={"seed": range(3)}), workers=1)
    assert status_codes(ds.run_status).tolist() == [1, 2, 1]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.usefixtures("in_time", "no_workers")
def test_so_are_those_of_a_problem(small_study, result_of, tmp_path):
    study = evs.Study.from_text(small_study)
    ds = evs.run(study)
    with evs.open(result_of(study, tmp_path / "here.nc")) as here:  # by this process
        for name in ("error", "initial_error", "rank", "run_key", "run_software"):
            xr.testing.assert_equal(ds[name].reset_coords(drop=True), here[name].reset_coords(drop=True))


def test_it_goes_on_while_workers_start(monkeypatch, tmp_path):
    monkeypatch.setattr(forked_process, "LOOK_SECONDS", 0.05)
    plan = study_plan(evs.Study(touches, axes={"seed": range(400)}, constants={"folder": str(tmp_path)}))
    missing = np.arange(400)
    start_workers = partial(helpers.eventually, (tmp_path / "25").exists)
    found = list(forked_process.quick_records(plan, missing, None, start_workers))
    keys = [key for records in found for key in records.keys]
    assert keys == [case.key for case in plan.cases(missing[: len(keys)])]
    assert 10 < len(keys) < 400  # in batches of at most 8 as long as one takes over a tenth of a second


@pytest.mark.usefixtures("in_time")
def test_workers_that_are_given_are_used(monkeypatch, client):
    began = []
    monkeypatch.setattr("evogt_study.operations.run.quick_records", lambda *_: began.append(1) or iter(()))
    assert evs.run(evs.Study(whose, axes={"seed": [1]}), client=client).square == 1
    assert began == []
    assert evs.run(evs.Study(whose, axes={"seed": [1]}), workers=1).square == 1
    assert began == [1]


@pytest.mark.long
def test_what_is_not_done_in_time_or_fails_there_is_left_to_the_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(forked_process, "QUICK_SECONDS", 1.0)
    ds = evs.run(evs.Study(slow_once, axes={"seed": [0]}, constants={"folder": str(tmp_path)}))
    assert ds.again.values.tolist() == [True]
    monkeypatch.setattr(forked_process, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(forked_process, "QUICK_SECONDS", 60.0)
    ds = evs.run(evs.Study(fails_when_forked, axes={"seed": [0, 1, 2]}, constants={"parent": os.getpid()}))
    assert ds.value.values.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.usefixtures("in_time")
def test_an_interrupted_study_without_a_file_keeps_what_is_finished():
    def interrupts(event):
        if event.done:
            raise KeyboardInterrupt

    study = evs.Study(whose, axes={"seed": range(50)}, name="whose")
    with pytest.warns(evs.errors.StoreWarning, match=r"kept in .*whose.nc") as caught, pytest.raises(KeyboardInterrupt):
        evs.run(study, listener=interrupts)
    path = str(caught[0].message).split("kept in ")[1].split(" until")[0]
    with evs.open(path) as kept:
        done = int((kept.run_status == "ok").sum())
        assert 0 < done < 50
        former = set(kept.process.values[kept.run_status.values == "ok"])
    ds = evs.run(study, output=path)
    assert status_codes(ds.run_status).tolist() == [1] * 50
    assert int(np.isin(ds.process, list(former)).sum()) == done  # none of them again


TERMINATED_AS_IT_FORKS = """
import os, signal, time
import evogt_study as evs
from evogt_study.workers.signals import interruptible

def sleeps(seed):
    time.sleep(600)

os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
try:
    with interruptible():
        evs.run(evs.Study(sleeps, axes={"seed": [1, 2]}))
except KeyboardInterrupt as reason:
    print(reason)
"""


def test_a_signal_that_comes_as_it_is_forked_is_not_lost(tmp_path):
    """Python ignores what handlers raise in a function that a module has for after a fork."""
    (tmp_path / "script.py").write_text(TERMINATED_AS_IT_FORKS)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, timeout=60, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "terminated\n"


def test_a_function_of_ones_own_needs_neither_formulas_nor_a_cluster_to_start():
    """Half a second each to import, of two for a script of a few quick runs; a run of it imports what it wants."""
    code = (
        "import sys, evogt_study as evs; evs.Study(lambda seed: 1.0, axes={'seed': [1]}); evs.run;"
        "print([name for name in ('sympy', 'distributed', 'evogt_study.pde.pipeline') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
