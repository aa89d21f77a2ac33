"""Arrays of tasks that see one folder: real processes, killed at random."""

import collections
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from helpers import PARABOLA, PILOTED, read_study, same_numbers

import evogt_study as evs
from evogt_study.errors import ResultError
from evogt_study.operations.progress import read_running_study
from evogt_study.operations.run import run_task, run_to_file
from evogt_study.storage.files import claims_folder, shard_folder
from evogt_study.storage.lease import lock_result, open_claims

pytestmark = pytest.mark.long

WORK = """
import os
import time
def method(i, j):
    time.sleep(0.1)
    log = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{i} {j} {os.environ['TASK']}\\n".encode())
    os.close(log)
    return {"error": float(i) + 1000.0 * j, "values": ("n", [float(i), float(j)])}
"""
"""A method that writes down which task computed which case."""


class Array:
    """An array of tasks of a study: started one after the other, at most `at_once` of them alive.

    share: cases after which a task is at its wall time, so that others have their turn; None: it has none.
    """

    def __init__(self, study, folder, of, at_once, share=None):
        self.study, self.folder, self.of, self.at_once, self.share = study, folder, of, at_once, share
        self.result, self.log = folder / "a.nc", folder / "log"
        self.alive, self.killed, self.ended = {}, set(), {}

    def start(self, number):
        words = ["run", self.study.file, "-o", self.result, "--task", f"{number}/{self.of}"]
        environment = os.environ | {"LOG": str(self.log), "TASK": str(number)}
        self.alive[number] = subprocess.Popen(
            [sys.executable, "-m", "evogt_study", *map(str, words)], env=environment, text=True,
            start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def computed(self):
        """How often each case was computed by each task."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return collections.Counter(tuple(line.split()) for line in lines)

    def run(self, kills, rng):
        """Run all tasks, and end some of those that have computed something, as a batch system that takes a node."""
        waiting, seen, over = list(range(1, self.of + 1)), 0, set()
        while waiting or self.alive:
            if waiting and len(self.alive) < self.at_once:
                self.start(waiting.pop(0))
            done = collections.Counter(int(task) for *_, task in self.computed())
            progress, at_work = done.total(), sorted(done.keys() & self.alive.keys())
            for number in [number for number in at_work if self.share and done[number] >= self.share]:
                if number not in over:
                    over.add(number)
                    self.alive[number].terminate()
            if kills and at_work and progress > seen:
                seen, kills = progress + rng.randrange(self.share or 12), kills - 1
                self.killed.add(number := rng.choice(at_work))
                os.killpg(self.alive[number].pid, signal.SIGKILL)
            for number, process in list(self.alive.items()):
                if process.poll() is not None:
                    self.ended[number] = (process.returncode, *process.communicate())
                    del self.alive[number]
            time.sleep(0.02)
        return kills


@pytest.mark.parametrize(
    ("tasks", "at_once", "share", "kills", "runs"),
    [(3, 3, None, 1, 40), pytest.param(200, 6, 12, 20, 2600, marks=pytest.mark.slow)],
    ids=["a few", "two hundred"],
)
def test_killed_tasks_lose_nothing_and_no_living_one_computes_a_case_twice(
    own_study, tmp_path, monkeypatch, tasks, at_once, share, kills, runs
):
    study = own_study(WORK, f"[axes]\ni = {{ start = 0, count = {runs // 2} }}\nj = [0, 1]")
    array = Array(study, tmp_path, tasks, at_once, share)
    assert array.run(kills, random.Random(20261122)) == 0
    ended = {number: how for number, how in array.ended.items() if number not in array.killed}
    assert [how for how in ended.values() if how[0] not in ((0, 130) if share else (0,))] == []
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("TASK", str(tasks + 1))
    run_to_file(study, array.result)  # joins what tasks have left, if they have left anything
    computed = array.computed()
    assert set(computed.values()) == {1}
    by_case = collections.defaultdict(set)
    for i, j, task in computed:
        by_case[i, j].add(int(task))
    assert len(by_case) == runs
    assert all(len(tasks_ - array.killed) <= 1 for tasks_ in by_case.values())
    assert len({task for each in by_case.values() for task in each}) > tasks // 2
    run_to_file(study, tmp_path / "undisturbed.nc")
    same_numbers(read_study(array.result), read_study(tmp_path / "undisturbed.nc"))
    assert not shard_folder(array.result).exists()


def test_a_pilot_is_waited_for_and_a_part_that_was_left_is_taken_over(own_study, tmp_path):
    study = own_study(PARABOLA, PILOTED)
    assert run_task(study, tmp_path / "a.nc", 1, 1)
    same_numbers(read_study(tmp_path / "a.nc"), evs.run(study, workers=1))
    assert run_task(study, tmp_path / "a.nc", 1, 1)  # nothing is left to do


def test_tasks_and_a_command_do_not_compute_at_once(own_study, tmp_path):
    study = own_study(PARABOLA, "[axes]\ngamma = [1, 2]\ntarget = [2]\nseed = [0]")
    claims = open_claims(claims_folder(tmp_path / "a.nc") / "x")
    with claims.keep_alive():
        assert claims.take(0)
        with pytest.raises(ResultError, match=r"tasks of `evogt run --task` are computing .* \(1 part\)"):
            run_to_file(study, tmp_path / "a.nc")
        found = read_running_study(tmp_path / "a.nc").describe()
        assert found == "running: tasks of `evogt run --task`, which hold 1 part"
    assert not read_running_study(tmp_path / "a.nc").runs
    with lock_result(tmp_path / "a.nc"), pytest.raises(ResultError, match="another process is writing"):
        run_task(study, tmp_path / "a.nc", 1, 2)
    assert not (tmp_path / "a.nc").exists()


def test_a_script_that_the_batch_system_refuses(evogt, own_study, tmp_path, monkeypatch):
    study = own_study(PARABOLA, PILOTED)
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    (programs / "sbatch").write_text("#!/bin/sh\necho Invalid partition >&2; exit 1\n")
    (programs / "sbatch").chmod(0o700)
    submit = ("submit", study.file, "-o", tmp_path / "a.nc", "--tasks", 2)
    code, _, errors = evogt(*submit)
    assert (code, errors) == (2, "evogt: `--cluster slurm`: sbatch refused the job: Invalid partition\n")
    (programs / "sbatch").write_text("#!/bin/sh\ncat > $0.script; echo Submitted batch job 7\n")
    assert evogt(*submit)[:2] == (0, "Submitted batch job 7\n")
    script = (programs / "sbatch.script").read_text()
    assert '--task "$SLURM_ARRAY_TASK_ID/2"' in script
    assert not (tmp_path / "a.nc").exists()
    assert evogt("submit", study.file, "--tasks", 2, "--directive", "a\nb")[0] == 2


def test_a_task_writes_a_result_whose_runs_are_all_in_another(evogt, own_study, tmp_path):
    study = own_study("def method(seed):\n    return {'error': float(seed)}\n", "[axes]\nseed = [0, 1]")
    run_to_file(study, tmp_path / "b.nc")
    code, out, _ = evogt("run", study.file, "-o", tmp_path / "a.nc", "--task", "1/2")
    assert (code, out) == (0, f"{tmp_path / 'a.nc'}: 2 runs, 2 ok\n")
