"""Jobs of a batch system: the script that is submitted, and a whole study with an sbatch that runs it here at once."""

import collections
import logging
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
import time

import dask
import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster
from helpers import eventually, forced, read_study

import evogt_study as evs
from evogt_study.errors import InputError, LeavingError
from evogt_study.storage.atomic import own_mark
from evogt_study.study.plan import study_plan
from evogt_study.workers import dask_executor
from evogt_study.workers.batch_systems import CERTIFICATES, list_jobs, open_cluster
from evogt_study.workers.runner import BLAS_THREADS, RunnerLimits
from evogt_study.workers.signals import defer_signals

with defer_signals():  # or it has Ctrl-C end all other tests with code 0
    import dask_jobqueue  # noqa: F401  # its defaults have to be there before settings are put over them

pytestmark = pytest.mark.long

CONFIGURED = {"jobqueue.slurm.cores": 1, "jobqueue.slurm.memory": "1GiB", "jobqueue.slurm.interface": "lo"}


def test_the_job_script_asks_for_what_the_yaml_says_and_holds_blas_to_one_thread():
    more = {
        "jobqueue.slurm.walltime": "11:00:00",
        "jobqueue.slurm.account": "numerics",
        "jobqueue.slurm.job-script-prologue": ["module load python"],
    }
    with dask.config.set({**CONFIGURED, **more}), open_cluster("slurm") as cluster:
        lines = cluster.job_script().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert {"#SBATCH -t 11:00:00", "#SBATCH -A numerics", "#SBATCH --mem=1G", "module load python"} <= set(lines)
    worker = next(i for i, line in enumerate(lines) if "distributed.cli.dask_worker" in line)
    for name in BLAS_THREADS:
        assert f"export {name}=1" in lines[:worker]
    assert "--nthreads 1" in lines[worker]


def test_nobody_without_its_certificate_has_the_scheduler_run_anything(tmp_path):
    with dask.config.set(CONFIGURED), open_cluster("slurm") as cluster:
        assert not forced(tmp_path, cluster.scheduler_address)


def test_certificates_that_a_killed_command_left_are_removed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"{CERTIFICATES}{own_mark().replace(str(os.getpid()), str(ended.pid))}abc"
    left.mkdir()
    (left / "tls_worker_key").touch()
    with dask.config.set(CONFIGURED), open_cluster("slurm"):
        assert len(os.listdir(tmp_path)) == 1
        assert not left.exists()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("system", "settings", "message"),
    [
        ("slurm", {}, r"`--cluster slurm` must know the cores of a job, got none; set jobqueue\.slurm\.cores in "),
        ("slurm", {"jobqueue.slurm.cores": 1}, "must know the memory of a job"),
        ("cray", CONFIGURED, "must be one of slurm, pbs, sge, lsf, got 'cray'"),
    ],
)
def test_a_missing_setting_is_named(system, settings, message):
    with dask.config.set(settings), pytest.raises(InputError, match=message), open_cluster(system):
        pass


@pytest.fixture
def batch_system(tmp_path):
    """An environment with an sbatch that runs the script at once in a folder of its own, and a scancel that ends it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {
        "sbatch": """
            #!/usr/bin/env bash
            mkdir -p "$JOBS" && cd "$JOBS" && cp "$1" job.sh
            setsid bash job.sh > out 2>&1 < /dev/null &
            echo $! >> pids
            echo "Submitted batch job $!"
        """,
        "scancel": """
            #!/usr/bin/env bash
            kill -- "-$1"
        """,
    }
    for name, text in scripts.items():
        (programs / name).write_text(textwrap.dedent(text).lstrip())
        (programs / name).chmod(stat.S_IRWXU)
    settings = {f"DASK_{key.upper().replace('.', '__')}": str(value) for key, value in CONFIGURED.items()}
    yield {
        **os.environ,
        **settings,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "JOBS": str(tmp_path / "jobs"),
    }
    pids = tmp_path / "jobs" / "pids"
    jobs = [int(pid) for pid in pids.read_text().split()] if pids.exists() else []
    eventually(lambda: not any(map(psutil.pid_exists, jobs)))


def test_a_folder_for_the_certificate_that_cannot_be_written(tmp_path):
    settings = {**CONFIGURED, "jobqueue.slurm.shared-temp-directory": str(tmp_path / "gone")}
    wanted = "`--cluster slurm` must be able to write its certificate .*set jobqueue.slurm.shared-temp-directory"
    with dask.config.set(settings), pytest.raises(InputError, match=wanted), open_cluster("slurm"):
        pass


CTRL_C = """
import signal
from evogt_study.errors import InputError
from evogt_study.workers.batch_systems import open_cluster
try:
    with open_cluster("none"):
        pass
except InputError:
    signal.raise_signal(signal.SIGINT)
"""


def test_ctrl_c_stays_what_it_is_with_jobs():
    """The library that submits them takes it for an end without error."""
    done = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.endswith("KeyboardInterrupt\n")


ASKED = """
import dask, dask_jobqueue, pathlib, sys, warnings
from distributed import Client
from evogt_study.errors import SweepError
from evogt_study.workers import batch_systems
batch_systems.SUBMIT_SECONDS = 1.0
if "sbatch" in sys.argv:
    batch_systems.CLOSE_SECONDS = 1.0
warnings.showwarning = lambda message, *_: print(message)
with dask.config.set({settings}), batch_systems.open_cluster("slurm") as cluster, Client(cluster) as client:
    keeper = batch_systems.JobKeeper(cluster, 1, "slurm", pathlib.Path(), print)
    try:
        with keeper.keep_jobs(client):
            pass
    except SweepError as error:
        print(error)
"""
"""Submits a job and ends, in a process of its own, where unfinished work may go on."""


@pytest.mark.parametrize(
    ("answering", "message"),
    [
        ("scancel", "the batch system slurm did not take the jobs: no answer within 1 s"),
        ("sbatch", "the batch system did not cancel the jobs within 1 s; they end by themselves, once "),
    ],
)
def test_a_batch_system_that_does_not_answer_is_not_waited_for(answering, message, tmp_path):
    answers = {"sbatch": "echo Submitted batch job 7", "scancel": "true", "squeue": "echo 7 PENDING Resources"}
    for name, answer in answers.items():
        text = answer if name in (answering, "squeue") else "exec sleep 8"
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)
    done = subprocess.run(
        [sys.executable, "-c", ASKED.format(settings=CONFIGURED), answering], cwd=tmp_path, capture_output=True,
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith(message), done.stderr


def test_a_study_runs_on_jobs_and_cancels_them(batch_system, small_study, tmp_path):
    (tmp_path / "small.toml").write_text(small_study)
    command = [sys.executable, "-m", "evogt_study", "run", "small.toml", "-o", "a.nc", "-q"]
    options = ["--cluster", "slurm", "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*command, *options], cwd=tmp_path, env=batch_system, **pipes)
    script = eventually((tmp_path / "jobs" / "job.sh").read_text, process)
    files = re.findall(r"--tls-(?:ca-file|cert|key) (\S+)", script)
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (os.path.dirname(files[0]), *files)] == [
        0o700,
        *[0o600] * 3,
    ]
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (0, "a.nc: 12 runs, 12 ok\n", "")
    assert not list(tmp_path.glob(".evogt-*"))
    expected = evs.run(evs.Study.from_text(small_study), workers=1)
    np.testing.assert_array_equal(read_study(tmp_path / "a.nc").error, expected.error)


PBS = {
    "qsub": """
        #!/usr/bin/env bash
        mkdir -p "$JOBS" && cd "$JOBS" && cp "$1" job.sh
        setsid bash job.sh > out 2>&1 < /dev/null &
        echo $! >> pids
        echo "$!.server"
    """,
    "qstat": """
        #!/usr/bin/env bash
        echo "Job id  Name  User  Time Use S Queue"
        for job in $(cat "$JOBS/pids"); do kill -0 "$job" 2>/dev/null && echo "$job.server  dask-worker  R  main"; done
        true
    """,
    "qdel": """
        #!/usr/bin/env bash
        kill -- "-${1%.server}"
    """,
}


@pytest.mark.slow
def test_a_job_of_pbs_that_ends_is_replaced(batch_system, small_study, tmp_path):
    for name, text in PBS.items():
        (tmp_path / "bin" / name).write_text(textwrap.dedent(text).lstrip())
        (tmp_path / "bin" / name).chmod(stat.S_IRWXU)
    (tmp_path / "small.toml").write_text(small_study)
    environment = {name.replace("SLURM", "PBS"): value for name, value in batch_system.items()}
    command = [sys.executable, "-m", "evogt_study", "run", "small.toml", "-o", "a.nc"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    options = ["--cluster", "pbs", "--workers", "1"]
    process = subprocess.Popen([*command, *options], cwd=tmp_path, env=environment, **pipes)
    first = eventually(lambda: (tmp_path / "jobs" / "pids").read_text().split(), process)[0]
    subprocess.run([tmp_path / "bin" / "qdel", f"{first}.server"], check=True, env=environment)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output) == (0, "a.nc: 12 runs, 12 ok\n"), errors
    assert "1 jobs of pbs have ended; as many are submitted again" in errors
    expected = evs.run(evs.Study.from_text(small_study), workers=1)
    np.testing.assert_array_equal(read_study(tmp_path / "a.nc").error, expected.error)


@pytest.mark.parametrize(
    ("system", "printed", "jobs"),
    [
        ("squeue", "12 RUNNING None\n13 PENDING (Resources)\n", {"12": "RUNNING None", "13": "PENDING (Resources)"}),
        ("qstat", "Job id  Name\n------  ----\n 12.server  dask R\n", {"12": "dask R"}),
        ("bjobs", "12 RUN -\n", {"12": "RUN -"}),
    ],
)
def test_states_of_jobs_in_queues(tmp_path, monkeypatch, system, printed, jobs):
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    name = {"squeue": "slurm", "qstat": "pbs", "bjobs": "lsf"}[system]
    program = tmp_path / system
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(stat.S_IRWXU)
    assert list_jobs(name) is None  # a server that does not answer has not ended any job
    program.write_text(f"#!/bin/sh\ncat <<END\n{printed}END\n")
    assert list_jobs(name) == jobs


def test_a_worker_takes_no_batch_that_would_not_be_done_before_it_leaves(monkeypatch):
    monkeypatch.setattr(dask_executor, "_has_begun", False)
    monkeypatch.setenv(dask_executor.LEAVE_AT, str(time.time() + 60))
    monkeypatch.setattr(dask_executor, "LEAVING_SECONDS", 0.0)
    dask_executor.check_time_left(90.0, "worker")  # it would fit into no job: it is tried
    dask_executor.check_time_left(30.0, "worker")
    with pytest.raises(LeavingError, match="worker"):
        dask_executor.check_time_left(90.0, "worker")


def asleep(seed):
    time.sleep(0.01)
    return float(seed)


class BothLeftError(Exception):
    """Of two workers, which is when the test has seen what it wants to see."""


def test_workers_that_leave_together_are_asked_once_each(monkeypatch):
    """By then what they computed has been fetched: else Dask keeps the second one, which would idle."""
    plan = study_plan(evs.Study(asleep, axes={"seed": range(100_000)}))
    environment, asked, left = {dask_executor.LEAVE_AT: str(time.time() + 6)}, [], []

    def retire_workers(addresses, **options):
        asked.extend(addresses)
        left.extend(retire(addresses, **options))
        if len(asked) == 2:
            raise BothLeftError

    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        env=environment,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        retire = client.retire_workers
        monkeypatch.setattr(client, "retire_workers", retire_workers)
        executor = dask_executor.DaskExecutor(client, RunnerLimits(), print)
        records = executor.compute(plan, np.arange(100_000), np.arange(0))
        with pytest.raises(BothLeftError):
            collections.deque(records, maxlen=0)
    assert left == asked
    assert len(set(asked)) == 2
