"""Checkpoints and reported progress of runs, through whole studies."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import evogt_study as evs
from evogt_study.errors import InputError
from evogt_study.study.plan import plan_study

WALK = """
import os, time
from pathlib import Path
import evogt_study as evs

def walk(seed, steps, pause, kills, checkpoint):
    state = Path(checkpoint) / "state"
    step, x = eval(state.read_text()) if state.exists() else (0, 0.137 * seed)
    while step < steps:
        step, x = step + 1, 3.9 * (x % 1.0) * (1 - x % 1.0)
        evs.report_progress(step=step, x=x)
        (Path(checkpoint) / "new").write_text(repr((step, x)))
        os.replace(Path(checkpoint) / "new", state)
        if step == kills and not Path(f"killed_{seed}").exists():
            Path(f"killed_{seed}").touch()
            os.kill(os.getpid(), 9)
        time.sleep(pause)
    return {"x": x, "at": step}
"""


@pytest.fixture
def walk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.py").write_text(WALK)

    def study(**constants):
        axes = {"seed": [1, 2]}
        return evs.Study("walk.py:walk", axes=axes, constants={"steps": 8, "pause": 0.0, "kills": 0} | constants)

    return study


def equal(one, other):
    for name in ("x", "x_trajectory", "at", "step"):
        np.testing.assert_array_equal(one[name].values, other[name].values)


def test_a_run_that_needs_three_times_its_time_limit_finishes(walk, tmp_path):
    study, whole = walk(pause=0.25), evs.run(walk(), workers=0)
    evs.run(study, output="a.nc", workers=2, run_timeout=0.7)
    states = []
    while (ds := evs.open("a.nc").load()).run_status.values.tolist() != ["ok", "ok"]:
        states.append(len(list((tmp_path / "a.nc.runs").glob("*/.checkpoint"))))
        assert len(states) < 10
        evs.run(study, output="a.nc", workers=2, run_timeout=0.7, retry_failed=True)
    assert len(states) >= 2
    equal(ds, whole)
    assert not (tmp_path / "a.nc.runs").exists()


def test_a_checkpoint_survives_a_kill(walk, tmp_path):
    ds = evs.run(walk(kills=5), output="a.nc", workers=2)
    assert ds.run_status.values.tolist() == ["ok", "ok"]
    equal(ds, evs.run(walk(), workers=0))
    assert not (tmp_path / "a.nc.runs").exists()


def test_a_checkpoint_is_no_part_of_the_run_key(walk):
    study = walk()
    assert "checkpoint" not in study.space.constants
    given = study.replace(constants={"checkpoint": "somewhere"})
    assert plan_study(given)[-1].keys.tolist() != plan_study(study)[-1].keys.tolist()


def test_a_checkpoint_with_a_default_is_a_folder_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("def f(i, checkpoint=None):\n    return {'is_dir': checkpoint.is_dir()}\n")
    assert evs.run(evs.Study("a.py:f", axes={"i": [1]}), workers=0).is_dir.values.tolist() == [True]


def test_a_command_has_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "count"
    program.write_text('#!/bin/sh\necho x >> "$1/n"\n[ $(wc -l < "$1/n") = 3 ] && cat "$1/n" | wc -l\n')
    program.chmod(0o755)
    study = evs.Study(command="./count {checkpoint} {i}", axes={"i": [1]})
    for _ in range(3):
        ds = evs.run(study, output="a.nc", workers=0, retry_failed=True)
    assert ds.value.values.tolist() == [3]
    assert not (tmp_path / "a.nc.runs").exists()


def report(n, scale):
    for step in range(0, 10 * n, 10):
        evs.report_progress(step=step, loss=scale * step, count=step, even=step % 20 == 0)
    evs.report_progress(step=0, late=7)  # replaces the first report of this step
    return {"loss": -1.0, "end": 1.5}


def test_progress_is_a_trajectory_along_step():
    ds = evs.run(evs.Study(report, axes={"n": [2, 3], "scale": [0.5, 1.0]}), workers=2)
    assert ds.step.values.tolist() == [0, 10, 20]
    assert ds.loss_trajectory.dims == ("n", "scale", "step")
    np.testing.assert_array_equal(ds.loss_trajectory.sel(n=3, scale=1.0), [np.nan, 10.0, 20.0])
    np.testing.assert_array_equal(ds.loss_trajectory.sel(n=2, scale=0.5), [np.nan, 5.0, np.nan])
    assert ds.loss.values.tolist() == [[-1.0, -1.0]] * 2
    assert ds.late.sel(step=0).values.tolist() == [[7.0, 7.0]] * 2


def test_progress_outside_of_a_study_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert evs.report_progress(step=1, x=np.float64(2.0)) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("values", [{"step": "a"}, {"step": np.nan}, {"step": 1, "x": [1, 2]}, {"step": True}])
def test_progress_that_is_no_number_is_refused(values):
    with pytest.raises(InputError, match="must be a number in report_progress"):
        evs.report_progress(**values)


def steps(step):
    evs.report_progress(step=1, x=1.0)
    return step


def test_a_parameter_named_step_is_refused():
    with pytest.raises(InputError, match="reports progress along `step`"):
        evs.run(evs.Study(steps, axes={"step": [1]}), workers=0)


@pytest.mark.long
def test_status_shows_the_progress_of_runs_that_are_being_computed(walk, tmp_path):
    walk(pause=0.3, steps=1000).to_file("walk.toml")
    command = [sys.executable, "-m", "evogt_study"]
    with subprocess.Popen([*command, "run", "-q", "walk.toml", "-o", "a.nc", "--workers", "2"]) as process:
        end = time.monotonic() + 60.0
        while len(list(Path("a.nc.runs").glob("*/.progress"))) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        shown = subprocess.run([*command, "status", "a.nc"], capture_output=True, text=True, check=False).stdout
        process.kill()
    assert "  running steps=1000, pause=0.3, kills=0, seed=1: step " in shown
    assert ", x 0." in shown
