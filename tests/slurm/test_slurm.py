"""Studies on a real SLURM, whose jobs end in every way they can: `tests/slurm/slurm.sh test` runs them."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers import eventually, read_study, same_numbers

from evogt_study.storage.files import shard_folder

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
PIPES = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
CONFIGURATION = Path(os.environ.get("SLURM_CONF", "/nowhere"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CONFIGURATION.exists(), reason="needs the SLURM of tests/slurm/slurm.sh"),
]
WORK = """
import os
import time
def method(i, j):
    time.sleep(0.25)
    log = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{i} {j}\\n".encode())
    os.close(log)
    return {"error": float(i) + 1000.0 * j, "values": ("n", [float(i), float(j)])}
"""
"""A method that writes down each case that it computes."""
RUNS = 160
SECONDS = 300
"""Within which every study here ends."""


def slurm(*words):
    """What a command of SLURM prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


def jobs():
    """Numbers of the jobs in the queue."""
    return slurm("squeue", "-h", "-o", "%i").split()


class Study:
    """A study of `runs` runs of a quarter of a second, in a folder of its own."""

    def __init__(self, folder, runs=RUNS):
        self.folder, self.log, self.result, self.runs = folder, folder / "log", folder / "a.nc", runs
        (folder / "method.py").write_text(WORK)
        axes = f"[axes]\ni = {{ start = 0, count = {runs // 2} }}\nj = [0, 1]\n"
        (folder / "own.toml").write_text(f'name = "own"\nmethod = "method.py:method"\n{axes}')
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "evogt_study", "run", "own.toml", "-o", "a.nc", "--workers", "2"]
        self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment(), **PIPES)

    def start_recipe(self):
        """Run the study on jobs, by the recipe of the documentation."""
        text = next(each for each in PAGE.read_text().split("```python\n") if "SLURMCluster(" in each).split("```")[0]
        text = text.replace("STUDY.toml", "own.toml").replace("FILE.nc", "a.nc").replace("maximum=40", "maximum=2")
        (self.folder / "recipe.py").write_text(text)
        settings = {"CORES": "1", "MEMORY": "500MiB", "INTERFACE": "lo", "WALLTIME": "00:10:00"}
        settings = {**settings, "SHARED_TEMP_DIRECTORY": tempfile.gettempdir(), "LOG_DIRECTORY": tempfile.gettempdir()}
        environment = self.environment() | {f"DASK_JOBQUEUE__SLURM__{name}": value for name, value in settings.items()}
        command = [sys.executable, "recipe.py"]
        self.process = subprocess.Popen(command, cwd=self.folder, env=environment, **PIPES)

    def environment(self):
        return os.environ | {"LOG": str(self.log)}

    def computed(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def after(self, runs):
        """Wait until so many runs are computed."""
        eventually(lambda: len(self.computed()) >= runs, self.process, SECONDS)

    def end(self, code=0):
        """Wait for the command, and return its lines on standard error; no job is left."""
        _, errors = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == code, errors
        eventually(lambda: not jobs())
        return errors

    def check(self, undisturbed, *others):
        data = read_study(self.result)
        same_numbers(data, undisturbed)
        assert not shard_folder(self.result).exists()
        assert sorted(path.name for path in self.folder.iterdir()) == sorted(
            {"a.nc", "log", "method.py", "own.toml", *others}
            | {name for name in ("__pycache__",) if (self.folder / name).exists()}
        )


@pytest.fixture
def study(tmp_path):
    """A study; the nodes are there, and nothing is in the queue, before and after."""
    made = Study(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.send_signal(signal.SIGINT)
        made.process.communicate(timeout=60)
    for job in jobs():
        slurm("scancel", job)
    for node in ("node1", "node2"):
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], check=False, capture_output=True)
    eventually(lambda: not jobs() and set(slurm("sinfo", "-h", "-o", "%t").split()) == {"idle"})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of the same study, computed on this machine."""
    made = Study(tmp_path_factory.mktemp("undisturbed"))
    made.start()
    made.process.communicate(timeout=SECONDS)
    return read_study(made.result)


def test_the_recipe_for_jobs_when_they_are_cancelled(study, undisturbed):
    study.start_recipe()
    study.after(20)
    slurm("scancel", *jobs())
    study.end()
    study.check(undisturbed, "recipe.py")


def test_an_array_without_a_scheduler_of_ours(study, undisturbed):
    submit = [sys.executable, "-m", "evogt_study", "submit", "own.toml", "-o", "a.nc", "--tasks", "4"]
    submit += ["--directive", "--mem=500M"]
    variables = os.environ | {"LOG": str(study.log)}
    subprocess.run(submit, cwd=study.folder, env=variables, check=True, capture_output=True, timeout=SECONDS)
    study.after(10)
    slurm("scancel", "--signal=KILL", "--full", slurm("squeue", "-h", "-r", "-t", "R", "-o", "%i").split()[0])
    eventually(lambda: not jobs(), seconds=SECONDS)
    study.start()  # joins what the last task has not
    study.process.communicate(timeout=SECONDS)
    study.check(undisturbed, "a.nc.jobs")


LONG_WORK = """
import time
import evogt_study as evs
def method(cores, steps, pause, checkpoint):
    state, step, x = checkpoint / "state", 0, 0.137 * cores
    if state.exists():
        step, x = eval(state.read_text())
    while step < steps:
        step, x = step + 1, 3.9 * x * (1.0 - x)
        evs.report_progress(step=step, x=x)
        (checkpoint / "new").write_text(repr((step, x)))
        (checkpoint / "new").replace(state)
        time.sleep(pause)
    return {"error": x}
"""


def test_runs_of_two_classes_that_need_three_times_the_time_limit_of_a_job(study):
    (study.folder / "method.py").write_text(LONG_WORK)
    text = 'name = "own"\nmethod = "method.py:method"\n[axes]\ncores = [1, 2]\n'
    text += "[constants]\nsteps = 190\npause = {pause}\n"
    needs = '[resources]\ncores = "cores"\nmemory = "200*cores MB"\n'
    (study.folder / "own.toml").write_text(text.format(pause=0.0))
    run = [sys.executable, "-m", "evogt_study", "run", "own.toml", "-o", "whole.nc", "--workers", "2"]
    subprocess.run(run, cwd=study.folder, check=True, capture_output=True, timeout=SECONDS)
    (study.folder / "own.toml").write_text(text.format(pause=1.0) + needs)
    submit = [sys.executable, "-m", "evogt_study", "submit", "own.toml", "-o", "a.nc", "--tasks", "1"]
    submitted = 0
    while not study.result.exists():
        assert submitted < 6
        # one minute is the least that SLURM limits
        answer = subprocess.run([*submit, "--directive", "--time=1"], cwd=study.folder, check=True, capture_output=True)
        assert answer.stdout.count(b"Submitted batch job") == 2  # one array for each class
        submitted += 1
        eventually(lambda: not jobs(), seconds=SECONDS)
    assert submitted >= 2  # SLURM lets a job of one minute run for up to two
    data, whole = read_study(study.result), read_study(study.folder / "whole.nc")
    for name in ("error", "x"):
        assert data[name].values.tolist() == whole[name].values.tolist()
    assert not (study.folder / "a.nc.runs").exists()
