"""Each executor writes the same result, bit for bit except wall times."""

import itertools
import subprocess
import sys

import pytest
from helpers import PARABOLA, PILOTED
from judge import find_differences

import evogt_study as evs
from evogt_study.operations.run import run_task, run_to_file
from evogt_study.workers.runner import RunOptions

VARIED = """
import numpy as np
import xarray as xr
def method(seed, mode="a"):
    if seed == 5 and mode == "b":
        raise ValueError(f"no luck with {mode}")
    path = xr.DataArray(np.exp(-np.arange(seed + 1.0)), dims="step", attrs={"units": "m"})
    return {"path": path, "total": float(path.sum()), "n": seed, "even": seed % 2 == 0, "word": mode * seed}
"""
AXES = '[axes]\nmode = ["a", "b"]\nseed = { start = 0, count = 8 }\n'


def by_tasks(study, path, client):
    """Two tasks at once, which claim parts of the study in the folder of the result."""
    command = [sys.executable, "-m", "evogt_study", "run", study.file, "-o", path, "--task"]
    tasks = [subprocess.Popen([*command, f"{number}/2"], stderr=subprocess.PIPE, text=True) for number in (1, 2)]
    printed = [task.communicate(timeout=120)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], printed


EXECUTORS = {
    "this machine": lambda study, path, client: run_to_file(study, path, options=RunOptions(workers=2)),
    "a Dask client": lambda study, path, client: run_to_file(study, path, client=client),
    "a task": lambda study, path, client: run_task(study, path, 1, 1),
    "tasks in a folder": by_tasks,
}
DEFAULT = ("a Dask client", "varied")


@pytest.fixture
def studies(own_study, small_study, tmp_path):
    """Failures and arrays of several lengths; a pilot; a method of the package, whose runs share stages."""
    (tmp_path / "small.toml").write_text(small_study)
    small, piloted = evs.Study.from_file(tmp_path / "small.toml"), own_study(PARABOLA, PILOTED, "piloted")
    (tmp_path / "varied.py").write_text(VARIED)
    (tmp_path / "varied.toml").write_text(f'name = "varied"\nmethod = "varied.py:method"\n{AXES}')
    return {"small": small, "piloted": piloted, "varied": evs.Study.from_file(tmp_path / "varied.toml")}


@pytest.mark.parametrize(
    ("executor", "name"),
    [
        pytest.param(*pair, marks=pytest.mark.long if pair != DEFAULT else ())
        for pair in itertools.product(EXECUTORS, ["small", "piloted", "varied"])
    ],
)
def test_each_executor_writes_the_same_result(studies, result_of, client, tmp_path, name, executor):
    expected, path = result_of(studies[name], tmp_path / "expected" / f"{name}.nc"), tmp_path / "found" / f"{name}.nc"
    EXECUTORS[executor](studies[name], path, client)
    assert list(find_differences(expected, path)) == []
