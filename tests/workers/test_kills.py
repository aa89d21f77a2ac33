"""Random SIGKILLs over the command and its workers, until the study is done: nothing lost, nothing mislabelled."""

import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import psutil
import pytest
from helpers import read_study

from evogt_study.results.shards import shard_files, shard_folder
from evogt_study.schema.variables import Status, status_codes

pytestmark = pytest.mark.long

WORK = """
import time
def method(i, j):
    time.sleep(0.01)
    return {"error": float(i) + 1000.0 * j, "values": ("n", [float(i), float(j)])}
"""


def started(study, path, temporary):
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), "--workers", "2"]
    environment = os.environ | {"TMPDIR": temporary}
    return subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, env=environment)


def workers_of(process):
    """Worker processes, those that Python's own bookkeeping started left out."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if "resource_tracker" not in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def killed_at_random(study, path, kills, seed, temporary):
    """Kill the command, then it or a worker after each bit of progress, and run it until it ends; the kills made."""
    rng, made, process, seen, children = random.Random(seed), 0, started(study, path, temporary), 0, []
    while True:
        code = None
        try:
            code = process.wait(0.05)
        except subprocess.TimeoutExpired:
            progress = len(shard_files(shard_folder(path)))
            if made < kills and progress > seen:
                seen = progress + rng.randrange(2)
                children = workers_of(process)
                command = psutil.Process(process.pid)
                (rng.choice([command, *children]) if made else command).kill()
                made += 1
            continue
        told, _ = process.communicate()
        _, orphans = psutil.wait_procs(children, timeout=30)
        assert not orphans
        if code == 0:
            return made
        assert code == -9, told
        process = started(study, path, temporary)


@pytest.mark.parametrize(
    ("kills", "runs"), [(3, 400), pytest.param(20, 4000, marks=pytest.mark.slow)], ids=["a few", "twenty"]
)
def test_random_kills_lose_nothing_and_leave_nothing(own_study, tmp_path, kills, runs):
    study = own_study(WORK, f"[axes]\ni = {list(range(runs // 2))}\nj = [0, 1]")
    path = tmp_path / "own.nc"
    with tempfile.TemporaryDirectory() as temporary:  # of a path that is short enough for sockets
        assert killed_at_random(study, path, kills, 20261121, temporary) == kills
        assert os.listdir(temporary) == []
    data = read_study(path)
    assert (status_codes(data.run_status) == Status.ok).all()
    i, j = np.arange(runs // 2)[:, None], np.arange(2)[None, :]
    np.testing.assert_array_equal(data.error, i + 1000.0 * j)
    np.testing.assert_array_equal(data["values"], np.stack(np.broadcast_arrays(i, j), axis=-1).astype(float))
    assert sorted(os.listdir(tmp_path)) == ["method.py", "own.nc", "own.toml"]
