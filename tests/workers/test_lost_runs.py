"""Runs that take their worker with them, run too long, or fail too often: real processes, really killed."""

import contextlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from distributed import Client, LocalCluster

import evogt_study as evs
from evogt_study.errors import InputError, SweepError, TimedOutError
from evogt_study.results.shards import shard_files, shard_folder
from evogt_study.schema.variables import Status, status_codes
from evogt_study.workers import dask_executor as watch
from evogt_study.workers.limits import Limits, limited

pytestmark = pytest.mark.long

KILLER = """
import ctypes, os, signal
def method(seed, way, deadly):
    if seed == deadly:
        if way == "exit":
            os._exit(1)
        elif way == "segfault":
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where memory has run out
    return {"error": float(seed)}
"""


@pytest.mark.parametrize("way", ["exit", pytest.param("segfault", marks=pytest.mark.slow), "memory"])
def test_a_run_that_kills_its_worker_is_lost_and_the_rest_goes_on(own_study, tmp_path, way):
    study = own_study(KILLER, f'[axes]\nseed = {{ start = 0, count = 40 }}\n[constants]\ndeadly = 23\nway = "{way}"')
    data = evs.run(study, workers=2, output=tmp_path / "own.nc")
    expected = np.where(np.arange(40) == 23, Status.lost, Status.ok)
    np.testing.assert_array_equal(status_codes(data.run_status), expected)
    np.testing.assert_array_equal(data.error, np.where(np.arange(40) == 23, np.nan, np.arange(40)))
    assert "worker process died 3 times" in str(data.run_message.sel(seed=23).item())
    assert int(data.run_attempts.sel(seed=23)) == 3


def test_memory_that_is_refused_is_a_failed_run(own_study, client):
    source = "def method(seed):\n    return {'error': float(len(bytes(2**62 if seed == 1 else 8)))}\n"
    data = evs.run(own_study(source, "[axes]\nseed = [0, 1, 2]"), client=client)
    assert status_codes(data.run_status).tolist() == [Status.ok, Status.failed, Status.ok]
    assert str(data.run_message.sel(seed=1).item()).startswith("MemoryError")


ENDLESS = """
def method(seed):
    while seed == 3:
        pass
    return {"error": float(seed)}
"""


def test_a_run_over_its_time_limit_is_timed_out_and_the_rest_goes_on(own_study, client):
    study = own_study(ENDLESS, "[axes]\nseed = { start = 0, count = 8 }")
    data = evs.run(study, client=client, limits=Limits(run_seconds=0.5))
    np.testing.assert_array_equal(
        status_codes(data.run_status), np.where(np.arange(8) == 3, Status.timed_out, Status.ok)
    )
    assert "over its time limit of 0.5 s" in str(data.run_message.sel(seed=3).item())
    assert np.isnan(data.error.sel(seed=3))


INTERRUPTED = """
def method(seed):
    if seed == 3:
        raise KeyboardInterrupt("of its own")
    if seed == 4:
        raise GeneratorExit
    return {"error": float(seed)}
"""


def test_an_interrupt_of_a_runs_own_is_its_failure(own_study, client):
    """Ctrl-C reaches the main thread, which on a worker computes nothing."""
    data = evs.run(own_study(INTERRUPTED, "[axes]\nseed = { start = 0, count = 8 }"), client=client)
    failed = np.isin(np.arange(8), (3, 4))
    np.testing.assert_array_equal(status_codes(data.run_status), np.where(failed, Status.failed, Status.ok))
    assert data.run_message.values[failed].tolist() == ["KeyboardInterrupt: of its own", "GeneratorExit"]
    np.testing.assert_array_equal(data.error, np.where(failed, np.nan, np.arange(8)))


WITHOUT_HANDLES = """
import os, resource
def method(seed):
    if seed == 3:
        resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
    return {"error": float(seed)}
"""


def test_a_run_that_leaves_its_worker_no_file_handles_is_lost_and_the_rest_goes_on(own_study):
    """Its worker computes on, but cannot be connected to any more."""
    data = evs.run(own_study(WITHOUT_HANDLES, "[axes]\nseed = { start = 0, count = 8 }"), workers=1)
    np.testing.assert_array_equal(status_codes(data.run_status), np.where(np.arange(8) == 3, Status.lost, Status.ok))
    assert "file descriptors" in str(data.run_message.sel(seed=3).item())


OUTSIDE_A_WORKER = """
import sys
from evogt_study.errors import LostBatchError
from evogt_study.workers.batch import Batch, computed, run_batch
from evogt_study.study.plan import study_plan
from evogt_study.workers.stage_cache import StageCache
from evogt_study.study.study import Study
plan = study_plan(Study.from_file(sys.argv[1]))
batch = Batch.of(plan.spec, list(plan.cases()))
print(computed(batch, StageCache(), lambda error: None).status.tolist())
try:
    run_batch(batch)
except LostBatchError as error:
    print(error)
"""


def test_a_process_that_is_no_worker_goes_on_without_file_handles(own_study, tmp_path):
    """As `evogt replay` does; only a batch, which is to be handed over, is refused."""
    study = own_study(WITHOUT_HANDLES, "[axes]\nseed = [3]")
    (tmp_path / "outside.py").write_text(OUTSIDE_A_WORKER)
    command = [sys.executable, "outside.py", study.file]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout == f"[{int(Status.ok)}]\nno file descriptors are left in the worker's process\n"


def test_handles_that_runs_leak_one_by_one_cost_a_worker_and_no_run(own_study):
    source = "import os\nkept = []\ndef method(seed):\n    kept.append(os.open(os.devnull, os.O_RDONLY))\n"
    source += "    import resource\n    resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))\n"
    study = own_study(source + "    return {'error': len(kept)}\n", "[axes]\nseed = { start = 0, count = 400 }")
    data = evs.run(study, workers=1)
    assert (status_codes(data.run_status) == Status.ok).all()
    assert int(data.error.max()) < 150


TOO_LARGE = """
import numpy as np
def method(seed):
    return {"v": ("k", np.broadcast_to(0.0, 2**44 if seed == 3 else 1))}  # 128 TiB, as soon as it is copied
"""


def test_a_run_that_its_worker_cannot_return_is_lost_and_the_rest_goes_on(own_study, client):
    data = evs.run(own_study(TOO_LARGE, "[axes]\nseed = { start = 0, count = 8 }"), client=client)
    np.testing.assert_array_equal(status_codes(data.run_status), np.where(np.arange(8) == 3, Status.lost, Status.ok))
    assert "could not return it 3 times (" in str(data.run_message.sel(seed=3).item())
    assert "MemoryError: Unable to allocate 128. TiB" in str(data.run_message.sel(seed=3).item())
    assert int(data.run_attempts.sel(seed=3)) == 3


FAILING = """
def method(seed):
    raise ValueError("never works")
"""


def test_a_study_stops_after_too_many_failures_and_keeps_them(own_study, client, tmp_path):
    study = own_study(FAILING, "[axes]\nseed = { start = 0, count = 200 }")
    path = tmp_path / "own.nc"
    with pytest.raises(SweepError, match=r"stopped after \d+ failed runs \(--max-failures 5\).*never works"):
        evs.run(study, client=client, output=path, limits=Limits(failures=5))
    assert not path.exists()
    data = evs.run(study, client=client, output=path)  # without the limit it goes on with what is kept
    assert (status_codes(data.run_status) == Status.failed).all()
    np.testing.assert_array_equal(data.run_attempts, 1)


def test_within_the_limit_nothing_is_raised_or_left():
    before = threading.active_count()
    assert limited(5.0, lambda: 1) == limited(None, lambda: 1) == 1
    assert threading.active_count() == before


def careless():
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


def test_beyond_the_limit_even_a_handler_of_everything_is_interrupted():
    started = time.perf_counter()
    with pytest.raises(TimedOutError, match=r"limit of 0\.2 s"):
        limited(0.2, careless)
    assert time.perf_counter() - started < 5.0


def swallowing():
    """Ends, but not before it has caught what was to end it."""
    with contextlib.suppress(BaseException):
        while True:
            sum(range(1000))


def exchanging():
    try:
        swallowing()
        raise KeyError
    except KeyError:
        raise ValueError("something else") from None


@pytest.mark.parametrize("call", [swallowing, exchanging])
def test_a_run_that_catches_its_time_limit_is_over_it_all_the_same(call):
    with pytest.raises(TimedOutError, match=r"limit of 0\.2 s"):
        limited(0.2, call)


@pytest.mark.parametrize("seconds", [1e10, 1e308, 10**400])
def test_a_limit_longer_than_a_thread_can_wait_is_none(seconds):
    assert limited(Limits(run_seconds=seconds).run_seconds, lambda: 1) == 1


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0, -1.0, True, "5"])
def test_what_is_no_time_limit_of_a_run_is_refused(seconds):
    with pytest.raises(InputError, match=r"`run_seconds` \(--run-limit\) must be a finite number of seconds > 0, got"):
        Limits(run_seconds=seconds)


@pytest.mark.parametrize("failures", [-1, 1.5, float("nan"), float("inf"), True, "5"])
def test_what_is_no_number_of_failures_is_refused(failures):
    with pytest.raises(InputError, match=r"`failures` \(--max-failures\) must be an integer >= 0, got"):
        Limits(failures=failures)


def test_a_run_that_ends_just_in_time_is_not_interrupted_later():
    for _ in range(200):
        with contextlib.suppress(TimedOutError):
            limited(0.001, lambda: time.sleep(0.001))
        sum(range(1000))  # an exception still on its way would be raised here


def test_a_study_whose_workers_are_all_gone_stops_with_one_line(own_study, tmp_path, monkeypatch):
    """Dask would wait for ever, as it does where a nanny could not start another worker."""
    monkeypatch.setattr(watch, "WORKER_SECONDS", 1.0)
    study = own_study(
        "import time\ndef method(seed):\n    time.sleep(0.05)\n    return {'error': 1.0}\n",
        "[axes]\nseed = { start = 0, count = 400 }",
    )
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):

        def leave(event):
            if event.done > 1:  # the first case is computed before the others
                cluster.scale(0)

        with pytest.raises(SweepError, match=r"has no workers for .* finished runs are kept"):
            evs.run(study, client=client, output=tmp_path / "own.nc", listener=leave)
    assert len(shard_files(shard_folder(tmp_path / "own.nc"))) > 0
