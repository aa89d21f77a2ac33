"""What one worker computes for all of a machine: real processes, real locks."""

import multiprocessing
import time

import numpy as np
import pytest
from helpers import computed, eventually

import evogt_study as evs
from evogt_study.storage.arrays import SHARED_FOLDER, load_or_compute
from evogt_study.workers import dask_executor

VALUES = np.array([[0.1, np.nan], [-0.0, 1e-300]])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in common; the processes that a test starts have it too."""
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))
    return tmp_path


def asked(log, seconds, answers):
    """In a process: what `once` gives, where computing is written down and takes a while."""

    def compute():
        with open(log, "a") as file:
            file.write("computed\n")
        time.sleep(seconds)
        return VALUES

    answers.put(load_or_compute("a", compute).tobytes())


def started(folder, seconds, count):
    """Processes that ask for the same, and the queue of their answers."""
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    processes = [spawn.Process(target=asked, args=(folder / "log", seconds, answers)) for _ in range(count)]
    for process in processes:
        process.start()
    return processes, answers


@pytest.mark.long
def test_several_processes_compute_it_once_and_all_have_it(folder):
    processes, answers = started(folder, 0.5, 3)
    assert [answers.get(timeout=60) for _ in processes] == [VALUES.tobytes()] * 3
    for process in processes:
        process.join(60)
    assert (folder / "log").read_text() == "computed\n"


@pytest.mark.long
def test_another_goes_on_where_one_is_killed(folder):
    (process,), _ = started(folder, 600, 1)
    eventually((folder / "log").exists)
    process.kill()
    process.join(60)
    assert load_or_compute("a", lambda: VALUES) is VALUES


def test_another_goes_on_where_one_fails(folder):
    with pytest.raises(ZeroDivisionError):
        load_or_compute("a", lambda: 1 / 0)
    assert load_or_compute("a", lambda: VALUES) is VALUES
    np.testing.assert_array_equal(load_or_compute("a", lambda: 1 / 0), VALUES)


@pytest.mark.parametrize("place", [None, "missing", "file"])
def test_without_a_folder_each_computes(tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("")
    if place is not None:
        monkeypatch.setenv(SHARED_FOLDER, str(tmp_path / place))
    assert load_or_compute("a", lambda: VALUES) is VALUES


FLOW = """
name = "flow"
[problem]
dimension = 1
initial = "sin(pi*x)/2"
diffusion = "1/100"
potential = "(u**2 - 1)**2/4"
[axes]
seed = { start = 0, count = 30 }
[constants]
dictionary = "transnet"
N = 12
gamma = 2
quadrature = 40
validation = 30
final_time = 0.1
dt = 0.01
time_integrator = "stabilized_semi_implicit"
stabilization = 2
reference = "finite_difference"
reference_points = 40
reference_dt = 0.01
"""


def test_a_study_on_two_workers_solves_its_reference_once(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_executor, "make_temporary_folder", lambda: tmp_path)
    found = []
    study = evs.Study.from_text(FLOW)
    data = evs.run(study, workers=2, listener=lambda event: found.append(list(tmp_path.glob("*/*.npy"))))
    assert [len(files) for files in found][-1] == 1
    assert not list(tmp_path.glob("shared-*"))
    np.testing.assert_array_equal(data.error, computed(FLOW)[2]["error"])
