"""Random SIGKILLs over the command and its workers, until the study is done: nothing lost, nothing mislabelled."""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
import psutil
import pytest
from helpers import read_study

from evogt_study.results.finished import shard_folder
from evogt_study.results.index import list_shards
from evogt_study.schema.variables import Status, to_status

pytestmark = pytest.mark.long

WORK = """
import time
def method(i, j):
    time.sleep(0.02)
    return {"error": float(i) + 1000.0 * j, "values": ("n", [float(i), float(j)])}
"""
RUNS_OF_A_KILL = 80
"""Runs for each kill: about a second of two workers."""
YOUNG_SECONDS = 1.0
"""Age below which a runner is not killed: it may retry a run, which is lost by design if its process ends twice."""
PLACES = {"workers": ("--workers", "2"), "task": ("--workers", "2", "--task", "1/2")}


def start(study, path, temporary, place):
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), *place]
    environment = os.environ | {"TMPDIR": temporary}
    return subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, env=environment)


def find_runners(*processes):
    """The interpreters that compute runs and have lived for a while."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(process.pid).children()
            found += [each for each in children if time.time() > each.create_time() + YOUNG_SECONDS]
    return found


def kill_at_random(study, path, kills, temporary, place, workers):
    """Kill the command, then it or a runner after each bit of progress, and run it until it ends; the kills made."""
    rng, made, process, seen, children = random.Random(20261121), 0, start(study, path, temporary, place), 0, []
    while True:
        try:
            code = process.wait(0.05)
        except subprocess.TimeoutExpired:
            progress = len(list_shards(shard_folder(path)))
            if made < kills and progress > seen:
                children = find_runners(*(workers or [process]))
                if made == 0 or rng.random() < 0.15:  # the command takes seconds to start again
                    process.kill()
                elif children:
                    rng.choice(children).kill()
                else:
                    continue
                made, seen = made + 1, progress + rng.randrange(2)
            continue
        printed, _ = process.communicate()
        if not workers:
            _, orphans = psutil.wait_procs(children, timeout=30)
            assert not [each for each in orphans if each.status() != psutil.STATUS_ZOMBIE]
        if code == 0:
            return made
        assert code == -9, printed
        process = start(study, path, temporary, place)


@pytest.mark.parametrize("kills", [3, pytest.param(34, marks=pytest.mark.slow)])
@pytest.mark.parametrize("executor", ["workers", "client", "task"])
def test_random_kills_lose_nothing_and_leave_nothing(
    own_study, tmp_path, start_scheduler, start_worker, executor, kills
):
    """Of the command and of processes that compute runs: here, on the workers of a Dask cluster, and in an array."""
    count = kills * RUNS_OF_A_KILL // 2
    study = own_study(WORK, f"[axes]\ni = {{ count = {count} }}\nj = [0, 1]")
    path, workers = tmp_path / "own.nc", []
    if executor == "client":
        _, address = start_scheduler()
        workers = [start_worker(address, name) for name in ("one", "two")]
    place = ("--scheduler", address) if workers else PLACES[executor]
    with tempfile.TemporaryDirectory() as temporary:  # of a path that is short enough for sockets
        assert kill_at_random(study, path, kills, temporary, place, workers) == kills
        assert os.listdir(temporary) == []
    data = read_study(path)
    assert (to_status(data.run_status) == Status.ok).all()
    i, j = np.arange(count)[:, None], np.arange(2)[None, :]
    np.testing.assert_array_equal(data.error, i + 1000.0 * j)
    np.testing.assert_array_equal(data["values"], np.stack(np.broadcast_arrays(i, j), axis=-1).astype(float))
    assert {"method.py", "own.nc", "own.toml"} == {
        name for name in os.listdir(tmp_path) if not name.startswith("scheduler-") and name not in ("one", "two")
    }
