"""A study over several hosts: Linux network namespaces, joined by a bridge, which share no address and no folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import eventually, read_study

import evogt_study as evs
from evogt_study.results.shards import shard_files, shard_folder
from evogt_study.schema.variables import Status, status_codes

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
        return {"error": float(seed), "draws": ("n", np.random.default_rng(seed).normal(size=5)), "host": host}
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

    The folder `home` is another one on each of them.
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
            mount = ["sh", "-c", f'mount -t tmpfs tmpfs {tmp_path / "home"} && exec "$0"']
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
def test_a_host_that_is_lost_and_one_that_joins(
    hosts, own_study, start_scheduler, start_worker, client, tmp_path, lost
):
    study = own_study(WHERE, "[axes]\nseed = { start = 0, count = 200 }")
    path = tmp_path / "own.nc"
    _, address = start_scheduler(host="10.77.0.1", prefix=hosts[0], **SOON)

    def join(number):
        name = f"host{number}"
        return start_worker(address, name, f"10.77.0.{number + 1}", prefix=hosts[number], TEST_HOST=name)

    first, _ = join(1), join(2)
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), "--scheduler", address]
    run = subprocess.Popen([*hosts[0], *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with run:
        eventually(lambda: all((tmp_path / f"host{number}" / "computed").exists() for number in (1, 2)), run)
        eventually(lambda: len(shard_files(shard_folder(path))) > 2, run)
        if lost == "link":
            subprocess.run([*hosts[1], "ip", "link", "set", "eth0", "down"], check=True)
        else:
            first.kill()
        join(3)
        output, errors = run.communicate(timeout=60)
    assert (run.returncode, output, errors) == (0, f"{path}: 200 runs, 200 ok\n", "")
    data = read_study(path)
    assert (status_codes(data.run_status) == Status.ok).all()
    assert {"host2", "host3"} <= set(data.host.values.tolist()) <= {"host1", "host2", "host3"}
    expected = evs.run(study, client=client)
    for name in ("error", "draws", "run_key"):
        np.testing.assert_array_equal(data[name], expected[name])


FAR = """
    import os, time
    import numpy as np
    def method(seed):
        time.sleep(0.03)
        sees = os.path.exists("{home}/own.toml")
        return {{"draws": ("n", np.random.default_rng(seed).normal(size=5)), "sees": sees}}
"""
SECONDS = 180
"""Within which everything here happens, on a busy machine too."""
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def certified(folder):
    """The environment of a host after the commands for certificates in the documentation."""
    commands = PAGE.read_text().split("```sh\nopenssl")[1].split("\ndask scheduler")[0]
    done = subprocess.run(
        ["sh", "-ec", f"openssl{commands}\nenv"], cwd=folder, env={"PATH": os.environ["PATH"]},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    lines = [line.partition("=") for line in done.stdout.splitlines() if line.startswith("DASK_")]
    return {name: value for name, _, value in lines}


class Far:
    """A study in the folder of host 0, which no other host sees, computed by workers that ask for certificates."""

    def __init__(self, hosts, home, secrets, study):
        self.secrets = secrets
        self.inside = [*hosts[0], "sh", "-c", f'cd {home} && exec "$@"', "sh"]
        for path in (Path(study.file), Path(study.file).with_name("method.py")):
            subprocess.run([*self.inside, "cp", path, "."], check=True)

    def start(self, address):
        command = [sys.executable, "-m", "evogt_study", "run", "-q", "own.toml", "-o", "own.nc", "--scheduler", address]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*self.inside, *command], env=os.environ | self.secrets, **pipes)

    def shards(self):
        listed = subprocess.run([*self.inside, "ls", "own.nc.shards"], capture_output=True, text=True)
        return sum(name.endswith(".shard") for name in listed.stdout.split())

    def result(self, path):
        path.write_bytes(subprocess.run([*self.inside, "cat", "own.nc"], check=True, capture_output=True).stdout)
        return read_study(path)


@pytest.mark.slow
def test_hosts_that_share_no_folder_with_certificates_a_partition_other_code_and_a_new_scheduler(
    hosts, own_study, start_scheduler, start_worker, client, tmp_path
):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    home = tmp_path / "home"
    study = own_study(FAR.format(home=home), "[axes]\nseed = { start = 0, count = 600 }")
    (tmp_path / "secrets").mkdir()
    secrets = certified(tmp_path / "secrets")
    far = Far(hosts, home, secrets, study)
    (home / "own.toml").unlink(missing_ok=True)

    def scheduled():
        return start_scheduler("--protocol", "tls", host="10.77.0.1", prefix=hosts[0], **SOON, **secrets)

    def join(address, number, **more):
        return start_worker(
            address, f"host{number}", f"10.77.0.{number + 1}", prefix=hosts[number], **secrets, **more
        )  # fmt: skip

    scheduler, address = scheduled()
    join(address, 1), join(address, 2)
    run = far.start(address)
    eventually(lambda: far.shards() > 2, run, SECONDS)
    subprocess.run([*hosts[1], "ip", "link", "set", "eth0", "down"], check=True)
    seen = far.shards()
    eventually(lambda: far.shards() > seen + 4, run, SECONDS)  # the other host goes on
    subprocess.run([*hosts[1], "ip", "link", "set", "eth0", "up"], check=True)
    scheduler.kill()
    _, errors = run.communicate(timeout=SECONDS)
    assert (run.returncode, errors.count("\n")) == (1, 1), errors
    assert "the connection to the Dask scheduler was lost; finished runs are kept" in errors

    shutil.copytree(Path(evs.__file__).parent, tmp_path / "other" / "evogt_study")
    with (tmp_path / "other" / "evogt_study" / "errors.py").open("a") as file:
        file.write("\nOTHER = 1\n")
    _, address = scheduled()
    other = join(address, 3, PYTHONPATH=str(tmp_path / "other"))
    run = far.start(address)
    _, errors = run.communicate(timeout=SECONDS)
    assert run.returncode == 1
    assert "install the same on both" in errors
    other.kill()

    join(address, 1), join(address, 2)
    run = far.start(address)
    output, errors = run.communicate(timeout=SECONDS)
    assert (run.returncode, output, errors) == (0, "own.nc: 600 runs, 600 ok\n", "")
    data, expected = far.result(tmp_path / "copy.nc"), evs.run(study, client=client)
    assert not data.sees.any()
    np.testing.assert_array_equal(status_codes(data.run_status), status_codes(expected.run_status))
    for name in ("draws", "run_key"):
        np.testing.assert_array_equal(data[name], expected[name])
