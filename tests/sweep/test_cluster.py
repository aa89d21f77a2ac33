"""Workers and schedulers that are processes of their own."""

import functools
import json
import os
import shutil
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


@pytest.fixture
def certificate(tmp_path):
    """Dask's TLS settings, as its environment variables, with one key for scheduler, worker and client."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    settings = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(cert), "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true"}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings |= {
            f"DASK_DISTRIBUTED__COMM__TLS__{role}__{name}": str(path) for name, path in (("KEY", key), ("CERT", cert))
        }
    return settings


def test_a_scheduler_with_tls(cluster, certificate, small_study, tmp_path):
    file = tmp_path / "scheduler.json"
    options = (
        "--protocol",
        "tls",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(file),
    )
    process = cluster("dask_scheduler", *options, **certificate)
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.05)
    address = json.loads(file.read_text())["address"]
    assert address.startswith("tls://")
    worker_of(cluster, address, "worker", **certificate)
    (tmp_path / "small.toml").write_text(small_study)
    command = [sys.executable, "-m", "evogt_study", "run", "small.toml", "-o", "a.nc", "-q", "--scheduler", address]
    run = functools.partial(subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    refused = run()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Dask's configuration has no certificate" in refused.stderr
    done = run(env=os.environ | certificate)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a.nc: 12 runs, 12 ok\n", "")
