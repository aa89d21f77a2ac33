"""What a run may do, and what becomes of it: the same on own workers, on a Dask client and in an array task."""

import contextlib
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.errors import StudyError, SweepError
from evogt_study.operations.run import run_task
from evogt_study.results.finished import shard_folder
from evogt_study.results.index import list_shards
from evogt_study.schema.variables import to_status
from evogt_study.workers.runner import RunOptions

BEHAVIOUR = '''
import contextlib, ctypes, multiprocessing, os, random, resource, signal, subprocess, sys, threading, time
import numpy as np

kept = []

def child(x):
    """A process of the run's own, and what a run before this one may have left."""
    left = "LEFT" in os.environ, os.getcwd() == "/"
    signal.signal(signal.SIGALRM, signal.SIG_IGN)  # a ValueError outside the main thread
    with multiprocessing.get_context("spawn" if x % 2 else "fork").Pool(1) as pool:
        twice = pool.apply(abs, (-x,))
    os.chdir("/")
    os.environ["LEFT"] = "yes"
    return {"thread": threading.current_thread().name, "environment": left[0], "folder": left[1], "twice": twice}

def forked(x):
    if os.fork() == 0:
        return {"pid": 0}
    return {"pid": os.getpid()}

def fails(x):
    print("one", x)
    subprocess.run(["printf", "two\\nthree"])
    sys.stderr.close()
    raise ValueError("no luck")

def printing(x):
    print(f"begin of {x}" + "." * (200_000 * x))
    sys.stderr.write(f"end of {x}\\n")
    subprocess.run(["echo", "a child"], check=True)
    return x

def ends(x, way="exit"):
    if x == 5:
        print("my last words")
        {"exit": lambda: os._exit(3), "segfault": lambda: ctypes.string_at(0), "abort": os.abort,
         "kill": lambda: os.kill(os.getpid(), signal.SIGKILL)}[way]()
    return x

def raises(x):
    errors = ValueError("no luck"), KeyboardInterrupt("own"), SystemExit(3), GeneratorExit(), MemoryError()
    raise errors[x]

def unstoppable(x):
    if x == 1:
        time.sleep(600)
    while x == 2:
        try:
            time.sleep(600)
        except BaseException:
            pass
    if x == 3:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ctypes.CDLL(None).pause()
    return x

def hungry(x):
    if x == 2:
        kept.append(np.ones(100_000_000))
        time.sleep(2)
    return x

def huge(x):
    return np.broadcast_to(0.0, 2**44 if x == 2 else 1)  # 128 TiB, as soon as it is copied

def without_files(x):
    if x == 2:
        resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
    return x

def leaking(x):
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))
    kept.append(os.open(os.devnull, os.O_RDONLY))
    return len(kept)

def leaves_a_hole(x):
    with open(os.devnull), open(os.devnull):  # what every run needs
        if x == 0:
            resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))
            with contextlib.suppress(OSError):
                while True:
                    kept.append(os.open(os.devnull, os.O_RDONLY))
            os.close(kept.pop())
        return x

def draws(x, seed, rng):
    return {"given": rng.normal(), "python": random.random(), "numpy": np.random.normal()}
'''


@pytest.fixture(scope="module")
def cluster_client():
    """A client as a user makes it: two worker processes."""
    cluster, client = open_client(2)
    with cluster, client:
        yield client


def by_task(study, path, **options):
    run_task(study, path, 1, 1, options=RunOptions(workers=2, **options))
    return evs.open(path).load()


@pytest.fixture(
    params=["workers", pytest.param("client", marks=pytest.mark.long), pytest.param("task", marks=pytest.mark.long)]
)
def compute(request, tmp_path):
    """Runs a function of `BEHAVIOUR` for each x: called with its name, the number of x, and options."""
    (tmp_path / "behaviour.py").write_text(BEHAVIOUR)

    def run(name, count, constants=None, axes=None, **options):
        axes = "".join(f"{each} = {values}\n" for each, values in {"x": list(range(count)), **(axes or {})}.items())
        given = "".join(f"{each} = {value!r}\n" for each, value in (constants or {}).items())
        text = f'name = "{name}"\nmethod = "behaviour.py:{name}"\n[axes]\n{axes}[constants]\n{given}'
        (tmp_path / f"{name}.toml").write_text(text)
        study = evs.Study.from_file(tmp_path / f"{name}.toml")
        if request.param == "task":
            return by_task(study, tmp_path / "task.nc", **options)
        if request.param == "client":
            return evs.run(study, client=request.getfixturevalue("cluster_client"), **options)
        return evs.run(study, workers=2, **options)

    return run


def counts(ds):
    return dict(Counter(ds.run_status.values.ravel().tolist()))


def test_a_run_has_the_main_thread_processes_of_its_own_and_fresh_surroundings(compute):
    ds = compute("child", 4)
    assert counts(ds) == {"ok": 4}
    assert set(ds.thread.values) == {"MainThread"}
    assert not ds.environment.any()
    assert not ds.folder.any()
    assert ds.twice.values.tolist() == [0, 1, 2, 3]


def test_a_process_that_a_run_forks_has_no_part_in_its_result(compute):
    assert (compute("forked", 6).pid > 0).all()


def test_what_a_run_prints_is_kept_with_it_and_bounded(compute, capfd):
    ds = compute("printing", 4)
    for x, text in enumerate(ds.run_output.values):
        assert text.startswith(f"begin of {x}")
        assert text.endswith(f"end of {x}\na child\n")
        assert len(text) < 17_000
    assert "begin of" not in "".join(capfd.readouterr())


def test_the_message_of_a_failed_run_has_the_last_lines_that_it_printed(compute):
    ds = compute("fails", 3)
    assert ds.run_message.values.tolist() == [f"ValueError: no luck (output: one {x} | two | three)" for x in range(3)]


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("exit", "exit code 3"),
        pytest.param("segfault", "signal 11, SIGSEGV", marks=pytest.mark.long),
        pytest.param("abort", "signal 6, SIGABRT", marks=pytest.mark.long),
        pytest.param("kill", "signal 9, SIGKILL", marks=pytest.mark.long),
    ],
)
def test_a_run_that_ends_its_process_is_lost_and_the_others_go_on(compute, way, reason):
    ds = compute("ends", 30, {"way": way})
    assert counts(ds) == {"ok": 29, "lost": 1}
    assert ds.run_status.values[5] == "lost"
    assert ds.run_message.values[5] == f"ended its process ({reason}), 2 times (output: my last words)"
    assert ds.run_attempts.values.tolist() == [2 if x == 5 else 1 for x in range(30)]
    np.testing.assert_array_equal(ds.value, [np.nan if x == 5 else x for x in range(30)])


def test_whatever_a_run_raises_is_its_failure(compute):
    ds = compute("raises", 5)
    assert ds.run_status.values.tolist() == ["failed"] * 5
    expected = ["ValueError: no luck", "KeyboardInterrupt: own", "SystemExit: 3", "GeneratorExit", "MemoryError"]
    assert ds.run_message.values.tolist() == expected


def test_a_run_ends_soon_after_its_timeout_whatever_it_does(compute):
    begun = time.monotonic()
    ds = compute("unstoppable", 6, run_timeout=1.0)
    assert ds.run_status.values.tolist() == ["ok", *["timed_out"] * 3, "ok", "ok"]
    assert set(ds.run_message.values[1:4]) == {"over its time limit of 1 s"}
    assert (ds.run_seconds.values[1:4] < 3.0).all()
    assert time.monotonic() < begun + 20.0  # two workers; machines may be busy


def test_a_run_that_needs_more_memory_than_its_worker_has_is_lost(compute):
    ds = compute("hungry", 6, memory_limit="500MB")
    assert counts(ds) == {"ok": 5, "lost": 1}
    assert "MiB of memory, more than the limit of 477 MiB" in ds.run_message.values[2]


def test_a_result_that_cannot_be_returned_is_a_failed_run(compute):
    ds = compute("huge", 6)
    assert counts(ds) == {"ok": 5, "failed": 1}
    assert "Unable to allocate 128. TiB" in ds.run_message.values[2]


@pytest.mark.parametrize(("name", "count"), [("without_files", 8), ("leaking", 400), ("leaves_a_hole", 40)])
def test_runs_that_use_up_the_file_descriptors_cost_a_process_and_no_run(compute, name, count):
    ds = compute(name, count)
    assert counts(ds) == {"ok": count}, set(ds.run_message.values.tolist())
    if name == "leaking":
        assert int(ds.value.max()) < 150


def test_draws_depend_on_the_case_alone(compute, tmp_path):
    found = compute("draws", 3, axes={"seed": list(range(20))})
    here = evs.run(evs.Study.from_file(tmp_path / "draws.toml"), workers=0)
    for name in ("given", "python", "numpy"):
        np.testing.assert_array_equal(found[name], here[name])
        assert len(np.unique(found[name])) == (20 if name == "given" else 60)  # a seed is one stream for every x


def test_a_study_stops_after_too_many_failures_and_keeps_them(own_study, client, tmp_path):
    study = own_study("def method(seed):\n    raise ValueError('never')\n", "[axes]\nseed = { count = 5000 }")
    with pytest.raises(SweepError, match=r"stopped after \d+ failed runs \(the limit is 5\), most often: ValueError"):
        evs.run(study, client=client, output=tmp_path / "own.nc", max_failures=5)
    assert list_shards(shard_folder(tmp_path / "own.nc"))


# --- starting and sharing ---------------------------------------------------------------------------------------------


def square(seed):
    return {"square": float(seed) ** 2, "pid": os.getpid()}


def nap(x, seconds=1.0):
    time.sleep(seconds)
    return os.getpid()


def test_a_study_that_cannot_be_computed_leaves_nothing_for_the_next_one(tmp_path):
    """Both use the same idle processes."""
    (tmp_path / "a.py").write_text(
        "import os\nif 'HERE' not in os.environ:\n    raise ValueError('not there')\ndef f(x): return x\n"
    )
    os.environ["HERE"] = "yes"
    try:
        (tmp_path / "a.toml").write_text('name = "a"\nmethod = "a.py:f"\naxes = { x = [1, 2, 3] }\n')
        study = evs.Study.from_file(tmp_path / "a.toml")
    finally:
        del os.environ["HERE"]
    for _ in range(3):
        with pytest.raises(StudyError, match=r"a\.py cannot be imported: ValueError: not there"):
            evs.run(study, workers=2)
        assert evs.run(evs.Study(square, axes={"seed": range(40)}), workers=2).square.values[3] == 9.0


def test_a_script_needs_no_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(
        "import evogt_study as evs\n"
        "def f(x): return x\n"
        "print(evs.run(evs.Study(f, axes={'x': [1, 2, 3]}), workers=2).value.sum().item())\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("6\n", "")


SPINNING = """
import itertools, os, threading, time
import numpy as np
import evogt_study as evs

def plain(x):
    return x

square = np.ones((400, 400))
for _ in range(2):
    threading.Thread(target=lambda: [square @ square for _ in itertools.repeat(0)], daemon=True).start()
time.sleep(0.2)
ds = evs.run(evs.Study(plain, axes={"x": range(20)}), workers=2)
print(int((ds.run_status == "ok").sum()), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("starts", [pytest.param(1, marks=pytest.mark.long), pytest.param(10, marks=pytest.mark.slow)])
def test_a_study_starts_beside_threads_that_multiply_matrices(tmp_path, starts):
    (tmp_path / "spinning.py").write_text(SPINNING)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    for _ in range(starts):
        done = subprocess.run(
            [sys.executable, "spinning.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.stdout == "20\n"


COUNTED = """
import os
import evogt_study as evs
from evogt_study.workers import dask_executor
dask_executor.ALONE_SECONDS = 60.0  # so that runs are quick on a busy machine too
ds = evs.run(evs.Study(lambda x: os.getpid(), axes={"x": range(50)}), workers=8)
print(len(set(ds.value.values.tolist()) - {os.getpid()}))
"""


def test_few_quick_runs_start_one_process():
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, timeout=120)
    assert done.stdout == "1\n", done.stderr


def open_client(workers):
    """A client of worker processes, as a user makes it."""
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    return contextlib.closing(cluster), Client(cluster, set_as_default=False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("runs", "seconds", "workers", "has_client"),
    [(12, 3.0, 4, False), (8, 2.0, 4, False), (16, 2.0, 16, False), (8, 2.0, 4, True)],
)
def test_slow_runs_are_shared_evenly(runs, seconds, workers, has_client):
    study = evs.Study(nap, axes={"x": range(runs)}, constants={"seconds": seconds})
    with contextlib.ExitStack() as stack:
        client = [stack.enter_context(each) for each in open_client(workers)][1] if has_client else None
        ds = evs.run(study, client=client, workers=None if has_client else workers)
    assert sorted(Counter(ds.value.values.tolist()).values()) == [runs // workers] * workers


@pytest.mark.long
def test_an_adaptive_cluster_that_starts_at_no_worker():
    cluster, client = open_client(0)
    with cluster, client:
        client.cluster.adapt(minimum=0, maximum=2)
        begun = time.monotonic()
        assert counts(evs.run(evs.Study(square, axes={"seed": range(20)}), client=client)) == {"ok": 20}
        assert time.monotonic() < begun + 20.0


@pytest.mark.long
def test_a_cluster_without_workers_is_said_and_waited_for(capfd):
    cluster, client = open_client(0)
    with cluster, client:
        client.cluster.loop.call_later(7.0, client.cluster.scale, 1)
        assert counts(evs.run(evs.Study(square, axes={"seed": range(3)}), client=client)) == {"ok": 3}
    said = r"no run has finished for [56][\d.]* s: the Dask cluster has no worker\n"
    assert re.fullmatch(said, capfd.readouterr().err)


@pytest.mark.long
def test_no_worker_of_a_client_dies_and_nothing_is_left_there(cluster_client, tmp_path):
    before = set(cluster_client.nthreads())
    (tmp_path / "behaviour.py").write_text(BEHAVIOUR)
    (tmp_path / "a.toml").write_text('name = "a"\nmethod = "behaviour.py:ends"\naxes = { x = [3, 4, 5, 6] }\n')
    ds = evs.run(evs.Study.from_file(tmp_path / "a.toml"), client=cluster_client)
    assert counts(ds) == {"ok": 3, "lost": 1}
    assert set(cluster_client.nthreads()) == before
    assert not any(name.startswith("evogt") for names in cluster_client.run(plugins).values() for name in names)


def plugins(dask_worker):
    return list(dask_worker.plugins)


def test_in_the_calling_process(capsys):
    def shows(x):
        print("shown", x)
        return os.getpid()

    ds = evs.run(evs.Study(shows, axes={"x": [1, 2]}), workers=0)
    assert set(ds.value.values.tolist()) == {os.getpid()}
    assert capsys.readouterr().out == "shown 1\nshown 2\n"
    assert "run_output" not in ds


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def running(own_study, tmp_path):
    """A started `evogt run` with four workers, after its first runs."""
    study = own_study("import time\ndef method(seed):\n    time.sleep(0.3)\n    return float(seed)\n",
                      "[axes]\nseed = { count = 400 }")  # fmt: skip
    command = [sys.executable, "-m", "evogt_study", "run", "-q", study.file, "-o", "own.nc", "--workers", "4"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not list_shards(shard_folder(tmp_path / "own.nc")) and time.monotonic() < end:
        time.sleep(0.05)
    yield process, psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()


LONG_SIGNALS = [pytest.param(name, marks=pytest.mark.long) for name in ("SIGTERM", "SIGKILL")]


@pytest.mark.parametrize("number", ["SIGINT", *LONG_SIGNALS])
def test_no_process_outlives_the_command(running, number):
    process, children = running
    assert children
    process.send_signal(getattr(__import__("signal"), number))
    process.wait(10)
    end = time.monotonic() + 3.0
    while alive := [child for child in children if is_alive(child)]:
        assert time.monotonic() < end, alive


def is_alive(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE  # whoever adopts it may not wait for it
    return False


def test_an_interrupted_study_without_a_file_keeps_what_is_finished():
    def interrupts(event):
        if event.done:
            raise KeyboardInterrupt

    study = evs.Study(square, axes={"seed": range(50)}, name="square")
    with pytest.raises(KeyboardInterrupt, match=r"finished runs are in .*square.nc") as caught:
        evs.run(study, listener=interrupts, workers=2)
    path = str(caught.value).split("runs are in ")[1].split(" until")[0]
    with evs.open(path) as kept:
        done = int((kept.run_status == "ok").sum())
        former = kept.run_seconds.load()
    assert 0 < done < 50
    ds = evs.run(study, output=path, workers=2)
    assert to_status(ds.run_status).tolist() == [1] * 50
    assert int((ds.run_seconds == former).sum()) == done  # none of them again


def test_an_interrupt_of_the_writing_says_that_all_runs_are_finished(monkeypatch, tmp_path):
    def interrupt(*result):
        raise KeyboardInterrupt("terminated")

    monkeypatch.setattr("evogt_study.operations.run.write_result", interrupt)
    message = "^terminated: all runs are finished. The same command writes the result.$"
    with pytest.raises(KeyboardInterrupt, match=message):
        evs.run(evs.Study(square, axes={"seed": [0, 1]}), output=tmp_path / "s.nc", workers=0)


def mixed(x, deadly=(), failing=(), late=()):
    if x in deadly:
        os._exit(1)
    if x in failing:
        raise ValueError(x)
    if x in late:
        time.sleep(600)
    return x


@pytest.mark.long
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(st.sampled_from(["ok"] * 6 + ["lost", "failed", "timed_out"]), min_size=1, max_size=40),
    workers=st.integers(1, 3),
)
def test_every_run_has_its_own_status_whatever_its_neighbours_do(kinds, workers):
    where = {kind: [x for x, each in enumerate(kinds) if each == kind] for kind in ("lost", "failed", "timed_out")}
    constants = {"deadly": where["lost"], "failing": where["failed"], "late": where["timed_out"][:2]}
    expected = ["ok" if kind == "timed_out" and x not in constants["late"] else kind for x, kind in enumerate(kinds)]
    study = evs.Study(mixed, axes={"x": range(len(kinds))}, constants=constants)
    assert evs.run(study, workers=workers, run_timeout=0.7).run_status.values.tolist() == expected
    random.seed(0)
