"""Studies on a real SLURM, whose jobs end in every way they can: `tests/slurm/slurm.sh test` runs them."""

import collections
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import eventually, read_study, same_numbers

from evogt_study.schema.variables import Status, status_codes
from evogt_study.storage.paths import shard_folder

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
    """A study of `runs` runs of a quarter of a second, in a folder of its own, computed by a command with options."""

    def __init__(self, folder, runs=RUNS):
        self.folder, self.log, self.result, self.runs = folder, folder / "log", folder / "a.nc", runs
        (folder / "method.py").write_text(WORK)
        axes = f"[axes]\ni = {{ start = 0, count = {runs // 2} }}\nj = [0, 1]\n"
        (folder / "own.toml").write_text(f'name = "own"\nmethod = "method.py:method"\n{axes}')
        self.process = None

    def start(self, *options, cluster=("--cluster", "slurm", "--workers", "2"), **settings):
        configured = {"cores": 1, "memory": "500MiB", "interface": "lo", "walltime": "00:10:00", **settings}
        variables = {"LOG": str(self.log)} | {
            f"DASK_JOBQUEUE__SLURM__{name.upper()}": str(value) for name, value in configured.items()
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evogt_study", "run", "own.toml", "-o", "a.nc", *cluster, *options],
            cwd=self.folder, env=os.environ | variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

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
        assert "distributed" not in errors  # no lines of Dask's own
        return errors

    def check(self, undisturbed):
        data = read_study(self.result)
        same_numbers(data, undisturbed)
        assert not shard_folder(self.result).exists()
        assert sorted(path.name for path in self.folder.iterdir()) == sorted(
            {"a.nc", "log", "method.py", "own.toml", "a.nc.jobs"}
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
    made.start(cluster=("--workers", "2"))
    made.process.communicate(timeout=SECONDS)
    return read_study(made.result)


def test_a_study_on_jobs(study, undisturbed):
    study.start()
    study.end()
    study.check(undisturbed)
    assert set(collections.Counter(study.computed()).values()) == {1}


def test_a_job_that_is_cancelled_is_replaced(study, undisturbed):
    study.start()
    study.after(20)
    slurm("scancel", jobs()[0])
    eventually(lambda: len(jobs()) == 2, study.process)
    assert "1 jobs of slurm have ended; as many are submitted again" in study.end()
    study.check(undisturbed)


def test_all_jobs_are_cancelled(study, undisturbed):
    study.start()
    study.after(20)
    slurm("scancel", *jobs())
    assert "2 jobs of slurm have ended; as many are submitted again" in study.end()
    study.check(undisturbed)


def test_jobs_leave_before_their_wall_time_with_all_that_they_have_computed(tmp_path, study):
    (tmp_path / "long").mkdir()
    long = Study(tmp_path / "long", runs=800)
    long.start(walltime="00:01:00")
    errors = long.end()
    assert errors.count("jobs of slurm have ended") >= 2
    data = read_study(long.result)
    assert data.run_status.size == 800
    assert (status_codes(data.run_status) == Status.ok).all()
    assert set(collections.Counter(long.computed()).values()) == {1}  # no batch was lost
    output = "".join(path.read_text() for path in (tmp_path / "long" / "a.nc.jobs").iterdir())
    assert "DUE TO TIME LIMIT" not in output


def test_nodes_are_drained_and_come_back(study, undisturbed):
    study.start()
    study.after(20)
    slurm("scontrol", "update", "nodename=node[1-2]", "state=drain", "reason=repaired")
    slurm("scancel", *jobs())
    lines = []
    for line in study.process.stderr:
        lines.append(line)
        if "no worker of slurm for" in line:
            break
    assert "PENDING" in lines[-1]
    slurm("scontrol", "update", "nodename=node[1-2]", "state=resume")
    study.end()
    study.check(undisturbed)


def test_the_controller_is_restarted(study, undisturbed):
    study.start()
    study.after(20)
    os.kill(int((CONFIGURATION.parent / "slurmctld.pid").read_text()), signal.SIGTERM)
    before = len(study.computed())
    study.after(before + 40)  # it goes on without
    subprocess.run(["slurmctld"], check=True, timeout=60)
    eventually(lambda: len(jobs()) == 2, study.process)
    slurm("scancel", *jobs())
    study.end()
    study.check(undisturbed)


def test_another_partition(study, undisturbed):
    study.start(queue="second")
    study.after(1)
    assert set(slurm("squeue", "-h", "-o", "%P %N").splitlines()) == {"second node2"}
    study.end()
    study.check(undisturbed)


def test_a_job_that_is_refused_and_one_that_cannot_start(study, undisturbed):
    study.start(memory="900GiB")
    assert "the batch system slurm did not take the jobs: sbatch: error:" in study.end(code=1)
    study.start(python="/bin/false")
    assert "jobs of the batch system slurm have ended 4 times before a worker came of them" in study.end(code=1)
    assert not study.result.exists()
    study.start()
    study.end()
    study.check(undisturbed)


def test_the_time_limit_counts_while_no_worker_comes(study):
    slurm("scontrol", "update", "nodename=node[1-2]", "state=drain", "reason=repaired")
    study.start("--time-limit", "20")
    assert "stopped at the time limit of 20" in study.end(code=130)


def test_an_array_without_a_scheduler_of_ours(study, undisturbed):
    submit = [sys.executable, "-m", "evogt_study", "submit", "own.toml", "-o", "a.nc", "--tasks", "4"]
    submit += ["--directive", "--mem=500M"]
    variables = os.environ | {"LOG": str(study.log)}
    subprocess.run(submit, cwd=study.folder, env=variables, check=True, capture_output=True, timeout=SECONDS)
    study.after(10)
    slurm("scancel", "--signal=KILL", "--full", slurm("squeue", "-h", "-r", "-t", "R", "-o", "%i").split()[0])
    eventually(lambda: not jobs(), seconds=SECONDS)
    study.start(cluster=("--workers", "2"))  # joins what the last task has not
    study.process.communicate(timeout=SECONDS)
    study.check(undisturbed)
