"""Workers and schedulers that are processes of their own."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from distributed import Client

import evogt_study as evs
from evogt_study.errors import SweepError
from evogt_study.sweep.schema import Status


@pytest.fixture
def cluster(tmp_path):
    """Starts a scheduler, and workers in folders of their own; all end with the test."""
    running = []

    def start(program, *arguments, folder=".", **environment):
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [sys.executable, "-m", "distributed.cli." + program, *arguments]
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
def scheduler(cluster, tmp_path):
    """The address of a scheduler on a free port."""
    file = tmp_path / "scheduler.json"
    process = cluster(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
    )
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.05)
    return json.loads(file.read_text())["address"]


def worker_of(cluster, scheduler, folder, **environment):
    options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1")
    return cluster("dask_worker", scheduler, *options, folder=folder, **environment)


def test_workers_in_separate_folders_that_join_and_leave(cluster, scheduler, small_study):
    """Nothing is shared but the network: three workers, one of which leaves while another joins."""
    study = evs.Study.from_text(small_study.replace("count = 3", "count = 60"))
    first = worker_of(cluster, scheduler, "one")
    worker_of(cluster, scheduler, "two")
    events = []

    def listen(event):
        events.append(event)
        if len(events) == 3:
            first.kill()
            worker_of(cluster, scheduler, "three")

    with Client(scheduler, set_as_default=False) as client:
        data = evs.run(study, client=client, listener=listen)
    assert (data.status == Status.ok).all()
    expected = evs.run(study, workers=2)
    np.testing.assert_array_equal(data.error, expected.error)


def test_a_worker_of_another_version_is_refused_with_both(cluster, scheduler, small_study, tmp_path):
    (tmp_path / "old" / "evogt_study-0.0.1.dist-info").mkdir(parents=True)
    (tmp_path / "old" / "evogt_study-0.0.1.dist-info" / "METADATA").write_text("Name: evogt-study\nVersion: 0.0.1\n")
    path = os.pathsep.join([str(tmp_path / "old"), os.environ.get("PYTHONPATH", "")])
    worker_of(cluster, scheduler, "worker", PYTHONPATH=path)
    study = evs.Study.from_text(small_study)
    with (
        Client(scheduler, set_as_default=False) as client,
        pytest.raises(SweepError, match=r"a worker has evogt-study 0\.0\.1 \(code \w+\), and this is \d"),
    ):
        evs.run(study, client=client)
