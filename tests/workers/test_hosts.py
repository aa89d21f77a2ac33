"""A study over several hosts: Linux network namespaces, joined by a bridge, which share no address and no folder."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from helpers import eventually, read_study

import evogt_study as evs
from evogt_study.results.finished import shard_folder
from evogt_study.results.index import list_shards
from evogt_study.schema.variables import Status, to_status

pytestmark = pytest.mark.long

TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"}
SOON = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s"}
"""The scheduler gives a worker up that has been silent for so long; else TCP does, after half a minute."""
WHERE = """
import os, time
import numpy as np
def method(seed):
    host = os.environ.get("TEST_HOST", "")
    if host:
        open("computed", "a").close()  # in the worker's own folder
        time.sleep(0.02)
    while host and seed == 150 and not os.path.exists("../host3/computed"):
        time.sleep(0.01)  # so that the last host joins in time
    draws = np.random.default_rng(seed).normal(size=5)
    return {"error": float(seed), "draws": ("n", draws), "host": host, "sees": os.path.exists("HOME/own.toml")}
"""


def namespaced(*command):
    """A `cat` in new namespaces, that they last as long as; it ends with this process, however that ends."""
    process = subprocess.Popen(
        [*command, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        process.stdin.write("there\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass
    if process.stdout.readline() != "there\n":
        reason = process.communicate()[1].strip()
        pytest.skip(f"no network namespaces here: {reason}")
    return process


@pytest.fixture
def hosts(tmp_path):
    """Arguments before a command that runs on host 0, 1, 2 or 3; host N has the address 10.77.0.(N + 1).

    The folder `home` has its files on host 0 alone.
    """
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here ({package})")
    running = []
    (tmp_path / "home").mkdir()

    def inside(process):
        return ["nsenter", "-t", str(process.pid), "-U", "-n", "-m", "--wd=.", "--preserve-credentials"]

    def ip(process, *arguments):
        done = subprocess.run([*inside(process), "ip", *arguments], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"`ip {' '.join(arguments)}` is not permitted here: {done.stderr.strip()}")

    try:
        running.append(namespaced("unshare", "-Urnm"))
        switch = running[0]
        ip(switch, "link", "add", "switch", "type", "bridge")
        ip(switch, "link", "set", "switch", "up")
        for number in range(4):
            mount = ["sh", "-c", f'mount -t tmpfs tmpfs {tmp_path / "home"} && exec "$0"'] if number else []
            running.append(namespaced(*inside(switch), "unshare", "-nm", *mount))
            host, port = running[-1], f"port{number}"
            ip(switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
            ip(switch, "link", "set", port, "master", "switch", "up")
            ip(host, "address", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
            ip(host, "link", "set", "eth0", "up")
            ip(host, "link", "set", "lo", "up")
        yield [inside(host) for host in running[1:]]
    finally:
        for process in running:
            process.communicate()


@pytest.mark.parametrize("lost", [pytest.param("link", marks=pytest.mark.slow), "worker"])
def test_a_host_that_is_lost_and_one_that_joins(hosts, start_scheduler, start_worker, client, tmp_path, lost):
    home, path = tmp_path / "home", tmp_path / "own.nc"
    (home / "method.py").write_text(WHERE.replace("HOME", str(home)))
    (home / "own.toml").write_text('name = "own"\nmethod = "method.py:method"\n[axes]\nseed = { count = 200 }\n')
    study = evs.Study.from_file(home / "own.toml")
    _, address = start_scheduler(host="10.77.0.1", prefix=hosts[0], **SOON)

    def join(number):
        name = f"host{number}"
        return start_worker(address, name, f"10.77.0.{number + 1}", prefix=hosts[number], TEST_HOST=name)

    first, _ = join(1), join(2)
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), "--scheduler", address]
    run = subprocess.Popen([*hosts[0], *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with run:
        eventually(lambda: all((tmp_path / f"host{number}" / "computed").exists() for number in (1, 2)), run)
        eventually(lambda: len(list_shards(shard_folder(path))) > 2, run)
        if lost == "link":
            subprocess.run([*hosts[1], "ip", "link", "set", "eth0", "down"], check=True)
        else:
            first.kill()
        join(3)
        output, errors = run.communicate(timeout=60)
    assert (run.returncode, output, errors) == (0, f"{path}: 200 runs, 200 ok\n", "")
    data = read_study(path)
    assert (to_status(data.run_status) == Status.ok).all()
    assert {"host2", "host3"} <= set(data.host.values.tolist()) <= {"host1", "host2", "host3"}
    assert not data.sees.any()  # no worker sees the folder of the study
    expected = evs.run(study, client=client)
    for name in ("error", "draws", "run_key"):
        np.testing.assert_array_equal(data[name], expected[name])
