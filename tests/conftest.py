"""Fixtures shared by the tests of the sweep: real processes, real files."""

import gc
import itertools
import json
import os
import subprocess
import sys
import textwrap

import pytest
from helpers import eventually

from evogt_study.cli.main import main
from evogt_study.operations.complete import summarise_runs
from evogt_study.results.dataset import make_global_attributes, to_dataset
from evogt_study.results.netcdf import write_result
from evogt_study.results.table import RunTable
from evogt_study.study.plan import choose_parameters, plan_phase
from evogt_study.study.study import Study
from evogt_study.workers import dask_executor
from evogt_study.workers.batch import Batch, compute_here
from evogt_study.workers.dask_executor import start_local_cluster

SMALL_NUMBERS = """gamma = 2
quadrature = 40
validation = 60
final_time = 0.1
dt = 0.01
"""
"""Constants of runs that take milliseconds."""
SMALL_STUDY = f"""
name = "small"

[problem]
dimension = 1
exact = "exp(-t)*sin(k*pi*x)"
diffusion = "1/10"

[axes]
dictionary = ["transnet", "gtransnet"]
k = [1, 2]
seed = {{ start = 0, count = 3 }}

[constants]
N = 12
N1 = 24
{SMALL_NUMBERS}
[output]
times = 3
record = ["error_history", "energy_history", "norm_history", "coefficients", "field"]
grid = 9
"""


def pytest_collection_finish():
    """Leave the objects of imports and of the collection out of later garbage collections, which saves a tenth."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def client():
    """A client with two workers, as a run without one starts."""
    with start_local_cluster(2) as client:
        yield client


@pytest.fixture
def cluster(tmp_path):
    """Starts Dask schedulers and workers, each in a folder of its own, and ends them with the test.

    Called with the name and the arguments of a program; `prefix` comes before it, other keywords are its environment.
    """
    running = []

    def start(program, *arguments, folder=".", prefix=(), **environment):
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [*prefix, sys.executable, "-m", "distributed.cli." + program, *arguments]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=tmp_path / folder, env=os.environ | environment, **silent)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
    for process in running:
        process.wait(30)


@pytest.fixture
def start_scheduler(cluster, tmp_path):
    """Starts a scheduler on a free port, with more options and keywords of `cluster`: its process and its address."""
    numbers = itertools.count()

    def start(*options, host="127.0.0.1", **keywords):
        file = tmp_path / f"scheduler-{next(numbers)}.json"
        place = ("--host", host, "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        process = cluster("dask_scheduler", *place, *options, **keywords)
        return process, eventually(lambda: json.loads(file.read_text())["address"], process)

    return start


@pytest.fixture
def start_worker(cluster):
    """Starts a worker of one thread: called with the scheduler's address, a folder and keywords of `cluster`."""

    def start(address, folder, host="127.0.0.1", **keywords):
        options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", host)
        return cluster("dask_worker", address, *options, folder=folder, **keywords)

    return start


@pytest.fixture
def evogt(capsys):
    """Calls the command line: exit code, standard output, standard error.  Any other exception is a failure."""

    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments], prog_name="evogt")
        return (stopped.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def no_workers(monkeypatch):
    """No cluster can be started, so nothing is computed."""

    def none(**_):
        raise AssertionError("a cluster was started")

    monkeypatch.setattr(dask_executor, "LocalCluster", none)


@pytest.fixture
def small_study():
    """The text of a study of twelve runs that takes milliseconds."""
    return SMALL_STUDY


@pytest.fixture
def own_study(tmp_path):
    """Makes a study of a user function from the source of the function and the rest of the study file."""

    def make(source, rest, name="own"):
        (tmp_path / "method.py").write_text(textwrap.dedent(source))
        text = f'name = "{name}"\nmethod = "method.py:method"\n{textwrap.dedent(rest)}'
        (tmp_path / f"{name}.toml").write_text(text)
        return Study.from_file(tmp_path / f"{name}.toml")

    return make


@pytest.fixture(scope="session")
def result_of():
    """Writes the result of a study to a path as `evogt run` does, but computes it in this process."""
    return write_computed_result


def write_computed_result(study, path):
    tables, chosen = {}, []
    for phase in study.phases:
        tables[phase.name] = compute_table(plan_phase(study, phase, chosen))
        chosen += choose_parameters(phase, tables[phase.name])
    whole = {phase: to_dataset(table, study) for phase, table in tables.items()}
    for phase, data in whole.items():
        data.attrs = {**make_global_attributes(study, phase), **data.attrs}
    write_result(path, whole, tables, summarise_runs(whole))
    return path


def compute_table(plan):
    table = RunTable(plan)
    table.add(compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))
    return table
