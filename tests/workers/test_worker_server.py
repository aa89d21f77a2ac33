"""The process from which workers are forked."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from helpers import eventually, read_study

import evogt_study as evs
from evogt_study.results.shards import shard_files, shard_folder
from evogt_study.schema.variables import Status, status_codes
from evogt_study.workers.clusters import connected
from evogt_study.workers.worker_server import BLAS_THREADS, START_METHOD, start_ahead

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(START_METHOD != "forkserver", reason="workers are not forked on this system"),
]

LOOK = """
import json, multiprocessing, signal, sys
def look(there):
    from threadpoolctl import threadpool_info
    threads = sorted({library["num_threads"] for library in threadpool_info()})
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    there.send(["evogt_study.workers.batch" in sys.modules, threads, blocked])
if __name__ == "__main__":
    from evogt_study.workers.worker_server import start_ahead
    start_ahead()
    forked = multiprocessing.get_context("forkserver")
    here, there = forked.Pipe()
    process = forked.Process(target=look, args=(there,))
    process.start()
    print(json.dumps(here.recv()))
    process.join()
"""


def test_a_worker_has_what_it_needs_one_blas_thread_and_no_ctrl_c(tmp_path):
    (tmp_path / "look.py").write_text(LOOK)
    threads = os.environ | dict.fromkeys(BLAS_THREADS, "7")
    done = subprocess.run(
        [sys.executable, tmp_path / "look.py"], env=threads, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [True, [1], True]


def test_the_process_that_starts_it_stays_as_it_was(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    start_ahead()
    assert (dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, [])) == before


def test_a_study_whose_workers_lose_it_loses_nothing(own_study, tmp_path):
    source = "import time\ndef method(seed):\n    time.sleep(0.01)\n    return {'error': float(seed)}\n"
    study, path = own_study(source, "[axes]\nseed = { start = 0, count = 300 }"), tmp_path / "own.nc"
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", str(path), "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: shard_files(shard_folder(path)), process)
    children = psutil.Process(process.pid).children(recursive=True)
    next(child for child in children if "forkserver" in " ".join(child.cmdline())).kill()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    data = read_study(path)
    assert (status_codes(data.run_status) == Status.ok).all()
    assert data.error.values.tolist() == list(range(300))
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def test_a_worker_imports_nothing_that_only_the_command_needs(own_study):
    """Each would do so anew, at its first batch: a quarter of a second of 64 workers each."""
    names = ("pydantic", "xarray", "netCDF4", "pandas", "evogt_study.study.study", "evogt_study.study.plan")
    source = (
        f"import sys\ndef method(seed):\n    return {{'there': ' '.join(n for n in {names} if n in sys.modules)}}\n"
    )
    with connected(None, 1) as client:
        data = evs.run(own_study(source, "[axes]\nseed = [0, 1]"), client=client)
    assert data.there.values.tolist() == ["", ""]


SLOW = "import time\ndef method(seed):\n    time.sleep(30)\n    return {'error': 1.0}\n"
"""Runs that one process would not have done before workers are there."""
WITHOUT_GUARD = """
import logging, evogt_study as evs
logging.getLogger(__name__)
evs.run(evs.Study.from_file("own.toml"), workers=2, output="own.nc")
"""


def test_a_script_that_its_workers_would_run_is_told_so_in_one_line(own_study, tmp_path):
    own_study(SLOW, "[axes]\nseed = [0, 1]")
    (tmp_path / "script.py").write_text(WITHOUT_GUARD)
    before = sorted(path.name for path in tmp_path.iterdir())
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    first, *_, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert last.startswith(
        "evogt_study.errors.InputError: a script that runs a study must do so under `if __name__ == "
        f'"__main__":`, since each worker imports it, got {tmp_path / "script.py"} without'
    )
    assert done.stderr.count("Traceback") == 1
    assert first.startswith("Traceback")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


KILLED_ONCE = """
import os, signal
def dask_setup(worker):
    try:
        os.close(os.open(FILE, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""What Dask has workers call as they start: one of them is killed there."""


def test_a_worker_that_is_killed_as_it_starts_is_told_in_one_line(own_study, tmp_path):
    study = own_study(SLOW, "[axes]\nseed = [0, 1]")
    (tmp_path / "killed.py").write_text(KILLED_ONCE.replace("FILE", repr(str(tmp_path / "killed"))))
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", "own.nc", "--workers", "2"]
    settings = os.environ | {"DASK_DISTRIBUTED__WORKER__PRELOAD": json.dumps([str(tmp_path / "killed.py")])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=settings, **pipes)
    eventually((tmp_path / "killed").exists, process)
    others = psutil.Process(process.pid).children(recursive=True)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert errors.startswith("evogt: the 2 worker processes did not start: Nanny failed to start")
    assert len(errors.splitlines()) == 1
    _, alive = psutil.wait_procs(others, timeout=20)
    assert not alive


@pytest.mark.parametrize("arguments", [["run", "missing.toml"], ["run", "a.toml", "--scheduler", "tcp://127.0.0.1:1"]])
def test_it_is_not_started_in_vain(evogt, tmp_path, monkeypatch, arguments):
    def none():
        raise AssertionError("it was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evogt_study.cli.run.start_ahead", none)
    (tmp_path / "a.toml").write_text("name = 'a'")
    assert evogt(*arguments)[0] == 2
