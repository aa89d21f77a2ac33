"""Several studies on the same workers: numbers as one by one, and one that fails takes nothing from another."""

import os
import threading
import time

import numpy as np
import pytest
import xarray as xr
from helpers import read_study, same_numbers

import evogt_study as evs
from evogt_study.errors import InputError, PilotError, ResultError
from evogt_study.operations.run import run_all
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import Status, to_status
from evogt_study.study.study import Study
from evogt_study.workers.runner import RunOptions

BASELINE = """
name = "fem"
method = "p1_fem"
problem = { dimension = 1, exact = "exp(-t)*sin(k*pi*x)", diffusion = "1/10" }
axes = { k = [1, 2, 3] }
constants = { unknowns = 9, validation = 8, final_time = 1, dt = 0.25 }
"""
SLEEPY = """
    import time
    def method(seed, nap=0.0):
        time.sleep(nap)
        return {"error": float(seed), "square": seed**2}
"""
WITH_PILOT = """
[axes]
seed = [0, 1]
[pilot]
parameter = "nap"
seeds = [7, 8]
by = []
candidates = [0.001, 0.002]
"""


@pytest.fixture
def studies(small_study, own_study):
    """Five studies of several methods, one with a pilot."""
    return [
        Study.from_text(small_study),
        Study.from_text(BASELINE),
        own_study(SLEEPY, "[axes]\nseed = { count = 30 }", name="sleepy"),
        own_study(SLEEPY, WITH_PILOT, name="piloted"),
        Study.from_text(small_study.replace('"small"', '"other"').replace("gamma = 2", "gamma = 3")),
    ]


def test_studies_of_one_name_are_refused(small_study, tmp_path):
    with pytest.raises(InputError, match="`studies` must have different names, got 'small' twice"):
        next(run_all([Study.from_text(small_study)] * 2, tmp_path))


@pytest.mark.long
def test_results_are_those_of_one_study_at_a_time(studies, client, tmp_path):
    together = tmp_path / "together"
    paths = list(run_all(studies, together, client=client))
    assert sorted(paths) == sorted(together / f"{study.name}.nc" for study in studies)
    assert sorted(os.listdir(together)) == sorted(f"{study.name}.nc" for study in studies)  # no shards are left
    for study in studies:
        alone = tmp_path / "alone" / f"{study.name}.nc"
        evs.run(study, client=client, output=alone)
        one, other = read_result(together / f"{study.name}.nc"), read_result(alone)
        assert one.keys() == other.keys()
        for group, data in one.items():
            same_numbers(data, other[group])
            assert (to_status(data.run_status) == Status.ok).all()
    assert set(read_result(together / "piloted.nc")) == {"main", "pilot"}


def test_events_name_their_study_and_a_second_call_computes_nothing(studies, client, tmp_path):
    def run():
        events = {}

        def listener(event):
            events.setdefault(event.phase, []).append(event)

        list(run_all(studies, tmp_path, client=client, listener=listener))
        return events

    first = run()
    assert set(first) == {"small", "fem", "sleepy", "piloted", "piloted pilot", "other"}
    assert {phase: events[-1].done for phase, events in first.items()} == {
        "small": 12, "fem": 3, "sleepy": 30, "piloted": 2, "piloted pilot": 4, "other": 12,
    }  # fmt: skip
    for events in first.values():
        assert events[0].done == 0
        assert events[-1].final
    second = run()
    assert set(second) == set(first)
    for events in second.values():
        assert (events[-1].done, events[-1].reused) == (0, events[-1].total)


# --- a study that cannot go on ----------------------------------------------------------------------------------------

UNLUCKY = """
def method(seed, gamma):
    if seed == 8:
        raise ValueError("no luck")
    return {"error": gamma}
"""
HOPELESS = 'name = "hopeless"\nmethod = "unlucky.py:method"\n' + WITH_PILOT.replace('"nap"', '"gamma"')


def test_a_pilot_that_cannot_choose_loses_nothing(own_study, client, tmp_path):
    long = own_study(SLEEPY, "[axes]\nseed = { count = 16 }\n[constants]\nnap = 0.02", name="long")
    done = own_study(SLEEPY, "[axes]\nseed = [0, 1]", name="done")
    (tmp_path / "unlucky.py").write_text(UNLUCKY)
    hopeless = Study.from_text(HOPELESS, str(tmp_path / "hopeless.toml"))
    out = tmp_path / "out"
    with pytest.raises(PilotError, match="the pilot cannot choose `gamma`: each of the 2 candidates .* no luck"):
        list(run_all([done, hopeless, long], out, client=client))
    assert [path.name for path in out.glob("*.nc")] == ["done.nc"]
    # without the study that failed, the same call reuses the finished study and computes the study that had not begun
    events = {}
    paths = list(run_all([long, done], out, client=client, listener=lambda event: events.update({event.phase: event})))
    assert [path.stem for path in paths] == ["long", "done"]
    assert (events["long"].reused, events["long"].done) == (0, 16)
    assert (events["done"].reused, events["done"].done) == (2, 0)
    np.testing.assert_array_equal(read_study(out / "long.nc").error, np.arange(16))


# --- nothing is left behind -------------------------------------------------------------------------------------------


def test_a_call_that_is_given_up_stops_the_rest(own_study, client, tmp_path):
    """As when the one who reads the results fails: what is finished is kept, and the client lives on."""
    long = own_study(SLEEPY, "[axes]\nseed = { count = 160 }\n[constants]\nnap = 0.02", name="long")
    short = own_study(SLEEPY, "[axes]\nseed = [0]", name="short")
    before = set(threading.enumerate())
    results = run_all([short, long], tmp_path / "out", client=client)
    assert next(results).name == "short.nc"
    begun = time.monotonic()
    results.close()
    assert time.monotonic() - begun < 6.0
    assert not (tmp_path / "out" / "long.nc").exists()
    new = set(threading.enumerate()) - before
    assert not [thread for thread in new if thread.name.startswith("ThreadPool")]
    assert client.submit(lambda: 7, pure=False).result(timeout=10) == 7


def test_a_failure_while_the_cluster_is_starting_leaves_no_cluster(own_study, small_study, tmp_path):
    before = set(threading.enumerate())
    in_the_way = tmp_path / "small.nc"
    xr.Dataset({"a": 1.0}).to_netcdf(in_the_way)
    others = [own_study(SLEEPY, "[axes]\nseed = { count = 30 }", name=f"sleepy{i}") for i in range(2)]
    with pytest.raises(ResultError, match="Choose another output file"):
        list(run_all([*others, Study.from_text(small_study)], tmp_path, options=RunOptions(workers=1)))
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()]
    assert not [name for name in left if name.startswith(("ThreadPool", "Dask-Default", "IO loop"))]
