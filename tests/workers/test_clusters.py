"""Workers and schedulers that are processes of their own."""

import functools
import os
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest
from distributed import Client
from helpers import eventually, read_study

import evogt_study as evs
from evogt_study.errors import InputError, SweepError
from evogt_study.results.finished import shard_folder
from evogt_study.results.index import list_shards, read_shard
from evogt_study.schema.variables import Status, to_status
from evogt_study.workers import dask_executor
from evogt_study.workers.dask_executor import CONNECTION_LOST

pytestmark = pytest.mark.long
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


@pytest.fixture
def scheduler(start_scheduler):
    """The address of a scheduler on a free port."""
    return start_scheduler()[1]


RECORDED = """
    import os, time
    import numpy as np
    def method(seed):
        with open(FILE, "a") as file:  # short lines of several processes do not mix
            file.write(f"{seed}\\n")
        time.sleep(0.01)
        return {"error": float(seed), "draws": ("n", np.random.default_rng(seed).normal(size=3))}
"""


@pytest.fixture
def recorded(own_study, tmp_path):
    """A study of 200 runs, which leave a line when they are computed, and the lines."""
    file = tmp_path / "computed"
    study = own_study(RECORDED.replace("FILE", repr(str(file))), "[axes]\nseed = { start = 0, count = 200 }")
    return study, lambda: [int(line) for line in file.read_text().split()]


def test_a_scheduler_that_is_killed_loses_nothing_finished(recorded, start_scheduler, start_worker, client, tmp_path):
    study, computed = recorded
    path = tmp_path / "own.nc"

    def start():
        scheduler, address = start_scheduler()
        workers = [start_worker(address, name) for name in ("one", "two")]
        command = [sys.executable, "-m", "evogt_study", "run", study.file, "-o", str(path), "--scheduler", address]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return run, [scheduler, *workers]

    first, beside = start()
    eventually(lambda: len(list_shards(shard_folder(path))) > 2, first)
    killed = time.monotonic()
    beside[0].kill()
    output, errors = first.communicate(timeout=60)
    assert time.monotonic() - killed < 10
    assert (first.returncode, output) == (1, "")
    assert errors.splitlines()[-1] == f"evogt: {CONNECTION_LOST}"
    assert all(re.match(r"\d+/200 runs, ", line) for line in errors.splitlines()[:-1])
    for process in beside:
        process.kill()
        process.wait(30)
    assert not path.exists()
    kept = [key for shard in list_shards(shard_folder(path)) for key in read_shard(shard).phases[""].keys]
    before = computed()
    assert 0 < len(kept) < 200
    assert len(set(kept)) == len(kept) <= len(before)

    second, _ = start()
    output, errors = second.communicate(timeout=60)
    assert (second.returncode, output) == (0, f"{path}: 200 runs, 200 ok\n")
    assert re.match(rf"{len(kept)}/200 runs, {len(kept)} reused, 0 failed\n", errors)
    again = computed()[len(before) :]
    data = read_study(path)
    missing = data.seed.values[~np.isin(data.run_key, kept)]
    assert sorted(again) == missing.tolist()
    expected = evs.run(study, client=client)
    np.testing.assert_array_equal(to_status(data.run_status), to_status(expected.run_status))
    for name in ("error", "draws"):
        np.testing.assert_array_equal(data[name], expected[name])


def test_a_worker_that_is_killed_costs_no_run_that_is_finished(
    recorded, start_scheduler, start_worker, client, tmp_path
):
    """Nothing is shared but the network: of two workers in folders of their own one leaves while a third one joins."""
    study, computed = recorded
    _, address = start_scheduler()
    first, _ = (start_worker(address, name) for name in ("one", "two"))
    kept, path = [], tmp_path / "own.nc"

    def kill(event):
        if event.done and not kept:
            kept.extend(key for shard in list_shards(shard_folder(path)) for key in read_shard(shard).phases[""].keys)
            first.kill()
            start_worker(address, "three")

    with Client(address, set_as_default=False) as joined:
        data = evs.run(study, client=joined, output=path, listener=kill)
    assert (to_status(data.run_status) == Status.ok).all()
    finished = data.seed.values[np.isin(data.run_key, kept)].tolist()
    times = Counter(computed())
    assert set(times) == set(range(200))
    assert 0 < len(finished) < 200
    assert all(times[seed] == 1 for seed in finished)
    np.testing.assert_array_equal(data.draws, evs.run(study, client=client).draws)


def test_a_connection_that_is_lost_anywhere_gives_one_message(recorded, start_scheduler, start_worker, tmp_path):
    """Between two batches, before the first one, and when the client has given up."""
    study, _ = recorded
    scheduler, address = start_scheduler()
    start_worker(address, "one")
    path, events = tmp_path / "own.nc", []

    def kill(event):
        events.append(event)
        if len(events) == 3:
            scheduler.kill()
            scheduler.wait(30)

    with Client(address, set_as_default=False, timeout=1) as client:
        with pytest.raises(SweepError, match=CONNECTION_LOST):
            evs.run(study, client=client, output=path, listener=kill)
        done = events[-1].done
        assert sum(len(read_shard(shard).phases[""].keys) for shard in list_shards(shard_folder(path))) == done > 0
        # the client tries to connect again, and may have given up already
        with pytest.raises((SweepError, InputError), match="connection to (the Dask|a) scheduler"):
            evs.run(study, client=client, output=path)
        eventually(lambda: client.status == "closed")
        with pytest.raises(InputError, match="`client` has no connection to a scheduler"):
            evs.run(study, client=client, output=path)


def test_a_worker_of_another_version_is_refused_with_both(start_worker, scheduler, small_study, tmp_path):
    (tmp_path / "old" / "evogt_study-0.0.1.dist-info").mkdir(parents=True)
    (tmp_path / "old" / "evogt_study-0.0.1.dist-info" / "METADATA").write_text("Name: evogt-study\nVersion: 0.0.1\n")
    path = os.pathsep.join([str(tmp_path / "old"), os.environ.get("PYTHONPATH", "")])
    start_worker(scheduler, "worker", PYTHONPATH=path)
    study = evs.Study.from_text(small_study)
    with (
        Client(scheduler, set_as_default=False) as client,
        pytest.raises(SweepError, match=r"a worker has evogt-study 0\.0\.1 \(code \w+\), but this process has \d"),
    ):
        evs.run(study, client=client)


def test_a_cluster_of_ours_has_no_server_but_two_without_pages(client):
    """Other users of this machine can reach neither scheduler nor worker."""
    assert client.scheduler.address.startswith("inproc://")
    mine = [each.laddr for each in psutil.Process().net_connections() if each.status == "LISTEN"]
    assert {address.ip for address in mine} == {"127.0.0.1"}
    assert len(mine) == 2
    for address in mine:
        for page in ("info/main/workers.html", "json/counts.json", "health", "metrics", "status"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{address.port}/{page}", timeout=10)


@pytest.fixture
def certificate(tmp_path):
    """The environment of a host after the commands for certificates in the documentation."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate")
    commands = PAGE.read_text().split("```sh\nopenssl")[1].split("\ndask scheduler")[0]
    done = subprocess.run(
        ["sh", "-ec", f"openssl{commands}\nenv"], cwd=tmp_path, env={"PATH": os.environ["PATH"]},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("DASK_"))


def test_a_scheduler_with_tls(start_scheduler, start_worker, certificate, small_study, tmp_path):
    _, address = start_scheduler("--protocol", "tls", **certificate)
    assert address.startswith("tls://")
    start_worker(address, "worker", **certificate)
    (tmp_path / "small.toml").write_text(small_study)
    command = [sys.executable, "-m", "evogt_study", "run", "small.toml", "-o", "a.nc", "-q", "--scheduler", address]
    run = functools.partial(subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    refused = run()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Dask's configuration has no certificate" in refused.stderr
    done = run(env=os.environ | certificate)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a.nc: 12 runs, 12 ok\n", "")


def test_another_service_at_the_address_of_a_scheduler():
    """Dask takes its greeting for the length of what follows, for which there is no memory."""
    with socketserver.TCPServer(("127.0.0.1", 0), Greeting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_address[1]}"
        with (
            pytest.raises(InputError, match=f"got {address}: another service answers there"),
            dask_executor.connect_to_scheduler(address, None),
        ):
            raise AssertionError("there is no cluster")
        server.shutdown()


def test_a_service_that_never_answers_is_not_waited_for(monkeypatch):
    """So does a scheduler that was stopped, for which Dask's client has no time limit."""
    monkeypatch.setattr(dask_executor, "CONNECT_SECONDS", 0.5)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(InputError, match=r"does not answer within 0\.5 s"),
        dask_executor.connect_to_scheduler(f"tcp://127.0.0.1:{server.getsockname()[1]}", None),
    ):
        raise AssertionError("there is no cluster")


class Greeting(socketserver.BaseRequestHandler):
    """Of a secure shell."""

    def handle(self):
        self.request.sendall(b"SSH-2.0-x\r\n")
        time.sleep(0.2)
