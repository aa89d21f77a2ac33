"""Runs with different needs: classes, worker resources, memory and array tasks."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

import evogt_study as evs
from evogt_study.cli.main import main
from evogt_study.errors import SweepError
from evogt_study.schema.records import Needs
from evogt_study.study.plan import count_needs, plan_study
from evogt_study.workers.executor import spread_classes

WORK = """
import os, time
def work(n, seed, seconds=0.0):
    begun = time.time()
    time.sleep(seconds)
    return {"begun": begun, "ended": time.time(), "threads": os.environ["OMP_NUM_THREADS"]}

def fill(mb, seed):
    import numpy as np
    numbers = np.ones(mb * 125_000)
    import time; time.sleep(0.6)
    return {"sum": float(numbers.sum())}
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text(WORK)

    def study(function="work", axes=None, **resources):
        axes = axes or {"n": [1, 2], "seed": range(4)}
        return evs.Study(f"work.py:{function}", axes=axes, resources=resources, name="work")

    return study


def classes(study):
    return list(count_needs(study))


def test_formulas_of_parameters_give_classes(work):
    study = work(memory="1.5*n GB", cores="n", minutes="10*n**2 + 0.5", queue="long")
    assert classes(study) == [Needs(1500, 1, 11, "long"), Needs(3000, 2, 41, "long")]
    assert classes(work(memory="300 MB")) == [Needs(300, 1)]
    plain = work()
    assert plan_study(study)[-1].keys.tolist() == plan_study(plain)[-1].keys.tolist(), "needs are no part of a run key"
    study.to_file("work.toml")
    assert classes(evs.Study.from_file("work.toml")) == classes(study)


def test_a_run_that_needs_two_cores_takes_two_slots(work):
    study = work(axes={"n": [1, 2], "seed": range(4)}, cores="n").replace(constants={"seconds": 0.3})
    ds = evs.run(study, workers=2)
    assert ds.run_status.values.tolist() == [["ok"] * 4] * 2
    assert ds.threads.values.tolist() == [["1"] * 4, ["2"] * 4]
    spans = [(float(ds.begun[n, s]), float(ds.ended[n, s]), n + 1) for n in range(2) for s in range(4)]
    for begun, ended, cores in spans:
        others = sum(c for b, e, c in spans if b < ended - 0.02 and e > begun + 0.02) - cores
        assert cores == 1 or others == 0


def test_classes_are_spread_evenly_so_that_none_keeps_the_workers_from_another(work):
    plan = plan_study(work(axes={"n": [1, 2], "seed": range(4)}, memory="n GB"))[-1]
    needs = [case.values["n"] for case in plan.cases(spread_classes(plan, np.arange(2, 8)))]
    assert needs == [2, 1, 2, 2, 1, 2]


def test_workers_of_a_cluster_declare_resources(work):
    study = work(axes={"n": [1, 2], "seed": range(3)}, cores="n", memory="100*n MB")
    small = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with LocalCluster(**small, resources={"cores": 2, "memory": 4e8}) as cluster, Client(cluster) as client:
        assert evs.run(study, client=client).run_status.values.tolist() == [["ok"] * 3] * 2
    refusal = pytest.raises(SweepError, match='no worker has --resources "cores=1 memory=1e.08"')
    with LocalCluster(**small) as cluster, Client(cluster) as client, refusal:
        evs.run(study, client=client)


@pytest.mark.parametrize("retry", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_run_that_fails_for_memory_is_retried_once_with_twice_as_much(work, retry):
    axes = {"mb": [1, 500, 1500], "seed": [0]}
    ds = evs.run(work("fill", axes=axes, memory="300 MB", retry_memory=retry), workers=2)
    assert ds.run_status.values.ravel().tolist() == ["ok", "ok" if retry else "lost", "lost"]
    assert ds.run_attempts.values.ravel().tolist() == ([1, 3, 4] if retry else [1, 2, 2])
    assert "more than the limit of 722 MiB" in str(ds.run_message.values[2, 0]) or not retry


def test_memory_of_a_program_and_its_children_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "fill"
    program.write_text(f"#!/bin/sh\n{sys.executable} -c 'import time; x = bytearray(4 * 10**8); time.sleep(20)'\n")
    program.chmod(0o755)
    study = evs.Study(command="./fill {i}", axes={"i": [1]}, resources={"memory": "200 MB"})
    begun = time.monotonic()
    ds = evs.run(study, workers=1)
    assert ds.run_status.values.tolist() == ["lost"]
    assert time.monotonic() < begun + 15.0


DIRECTIVES = {
    "slurm": ["--array=1-3", "--cpus-per-task=4", "--mem=900M", "--time=12", "--partition=long", "--qos=low",
              "$SLURM_ARRAY_TASK_ID/3"],
    "pbs": ["-J 1-3", "select=1:ncpus=4", "-l mem=900mb", "-l walltime=0:12:00", "-q long", "$PBS_ARRAY_INDEX/3"],
    "sge": ["-t 1-3", "-l h_vmem=900M", "-l h_rt=0:12:00", "-q long", "$SGE_TASK_ID/3"],
    "lsf": ["[1-3]", "-n 4", "-M 900MB", "-W 12", "-q long", "$LSB_JOBINDEX/3"],
}  # fmt: skip


@pytest.mark.parametrize("system", DIRECTIVES)
def test_each_class_is_an_array_with_its_directives(work, system):
    work(memory="100*n MB", cores="n", minutes="5*n", queue="long").to_file("work.toml")
    options = ["--tasks", "3", "--workers", "2", "--cluster", system, "--directive", "--qos=low", "--print"]
    made = CliRunner().invoke(main, ["submit", "work.toml", *options])
    scripts = made.output.split("#!/bin/sh")[1:]
    assert [script.count(':1"') + 2 * script.count(':2"') for script in scripts] == [1, 2]
    assert all(line in scripts[1] for line in DIRECTIVES[system]), scripts[1]


@pytest.mark.long
def test_arrays_of_all_classes_give_one_result(work, tmp_path):
    """As a batch system runs them, in any order; the last task writes the result."""
    study = work(cores="n", memory="150*n MB")
    study.to_file("work.toml")
    made = CliRunner().invoke(main, ["submit", "work.toml", "-o", "a.nc", "--tasks", "2", "--print"])
    jobs = []
    for number, script in enumerate(made.output.split("#!/bin/sh")[1:]):
        (tmp_path / f"{number}.sh").write_text(script)
        for task in ("1", "2"):
            environment = os.environ | {"SLURM_ARRAY_TASK_ID": task, "EVOGT_TEST": "1"}
            jobs.append(subprocess.Popen(["/bin/sh", f"{number}.sh"], env=environment))
    assert [job.wait(120) for job in jobs] == [0] * 4
    ds = evs.open("a.nc")
    assert ds.run_status.values.tolist() == [["ok"] * 4] * 2
    assert ds.threads.values.tolist() == [["1"] * 4, ["2"] * 4]
    assert not (tmp_path / "a.nc.shards").exists()
