"""Studies run on real worker processes, into real files."""

import json
import os
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import PARABOLA, PILOTED, read_study, rewritten, same_numbers

import evogt_study as evs
from evogt_study import pde
from evogt_study.errors import PilotError
from evogt_study.plots.axis_plots import find_pilot_choice
from evogt_study.results.finished import shard_folder
from evogt_study.results.index import write_shard
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import Status, to_status
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here
from evogt_study.workers.dask_executor import start_local_cluster


@pytest.fixture
def small(small_study):
    return evs.Study.from_text(small_study)


def test_result_is_labelled_and_whole(small, client, tmp_path):
    data = evs.run(small, client=client, output=tmp_path / "small.nc")
    assert data.error.dims == ("dictionary", "k", "seed")
    assert data.error_history.dims == ("dictionary", "k", "seed", "time")
    assert data.coefficients.dims == ("dictionary", "k", "seed", "time", "mode")
    assert data.field.dims == data.exact_field.dims == ("dictionary", "k", "seed", "time", "x")
    assert (to_status(data.run_status) == Status.ok).all()
    assert data.error.notnull().all()
    np.testing.assert_allclose(data.time, [0, 0.05, 0.1])
    np.testing.assert_array_equal(data.error_history.isel(time=-1), data.error)
    np.testing.assert_array_equal(data.error_history.isel(time=0), data.initial_error)
    np.testing.assert_allclose(np.sqrt((data.coefficients**2).sum("mode")), data.norm_history)
    exact = np.exp(-data.time) * np.sin(data.k * np.pi * data.x)
    np.testing.assert_allclose(
        data.exact_field.isel(dictionary=0, seed=0), exact.transpose("k", "time", "x"), atol=1e-14
    )
    assert os.listdir(tmp_path) == ["small.nc"]


def test_run_equals_solve(small, client):
    data = evs.run(small, client=client)
    problem = pde.FormulaProblem(1, exact="exp(-t)*sin(k*pi*x)", diffusion="1/10")(k=2)
    dictionary = pde.Dictionary("gtransnet", N=12, N1=24, gamma=2)
    one = pde.solve(problem, dictionary, 1, quadrature=40, validation=60, dt=0.01, final_time=0.1, times=3)
    case = data.sel(dictionary="gtransnet", k=2, seed=1)
    for name in "error initial_error rank retained_condition mass_defect error_history norm_history".split():  # noqa: SIM905
        np.testing.assert_array_equal(case[name], one[name], err_msg=name)


def events_of(study, **options):
    events = []
    data = evs.run(study, listener=events.append, **options)
    return data, {event.phase: event for event in events}


ONE_K = "k = [1, 2]"
EXTENDED = {  # changes of the small study, runs that are reused and computed
    "longer axes": ([("count = 3", "count = 5"), (ONE_K, "k = [1, 2, 3]")], 12, 2 * 3 * 5 - 12),
    "a constant that becomes an axis": ([("gamma = 2\n", ""), (ONE_K, f"{ONE_K}\ngamma = [3, 2]")], 12, 12),
    "an axis that transnet does not use": ([("N1 = 24\n", ""), (ONE_K, f"{ONE_K}\nN1 = [24, 30]")], 18, 6),
}


@pytest.mark.parametrize("name", EXTENDED)
def test_an_extended_study_computes_the_new_cases_only(small, small_study, client, tmp_path, name):
    changes, reused, done = EXTENDED[name]
    evs.run(small, client=client, output=tmp_path / "small.nc")
    for old, new in changes:
        small_study = small_study.replace(old, new)
    longer = evs.Study.from_text(small_study)
    data, events = events_of(longer, client=client, output=tmp_path / "small.nc")
    assert (events["main"].reused, events["main"].done) == (reused, done)
    same_numbers(data, evs.run(longer, client=client))


def test_a_pilot_that_cannot_choose_any_more_leaves_the_result_to_be_read(own_study, client, evogt, tmp_path):
    path = tmp_path / "own.nc"
    method = (
        "def method(seed, gamma, target):\n    assert target != 7, 'too much'\n"
        "    return {'error': abs(gamma - target) + seed}\n"
    )
    evs.run(own_study(method, PILOTED), client=client, output=path)
    with pytest.raises(PilotError):
        evs.run(own_study(method, PILOTED.replace("[2, 5]", "[2, 5, 7]")), client=client, output=path)
    code, out, err = evogt("summary", path, "--over", "seed")
    assert (code, "is not finished. These are its runs so far." in err) == (0, True)
    assert out == evogt("summary", shutil.copy(path, tmp_path / "copy.nc"), "--over", "seed")[1]


def test_what_a_link_leads_to_is_written(small, client, tmp_path):
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "small.nc", tmp_path / "disk" / "s.nc"
    link.symlink_to(Path("disk") / "s.nc")
    evs.run(small, client=client, output=link)
    assert link.is_symlink()
    assert os.listdir(tmp_path / "disk") == ["s.nc"]
    same_numbers(read_study(link), read_study(target))


def test_the_history_grows_with_the_result(small_study, client, tmp_path):
    """A line for each time that runs were computed, and none where they were all there."""
    path = tmp_path / "small.nc"
    first = evs.run(evs.Study.from_text(small_study), client=client, output=path).history
    longer = evs.Study.from_text(small_study.replace("count = 3", "count = 4"))
    second = evs.run(longer, client=client, output=path).history
    assert (first.count("\n"), second.splitlines()[0]) == (0, first)
    assert len(second.splitlines()) == 2
    assert evs.run(longer, client=client, output=path).history == second


FAILING = """
    def method(seed, scale=1.0):
        if seed == 3:
            raise ValueError(f"seed {seed} is unlucky\\nvery")
        error = float("nan") if seed == 5 else scale * seed
        return {"error": error, "steps": 2 * seed, "trace": ("n", [seed] * (seed + 1))}
"""


def test_failed_and_diverged_runs_are_data_and_failed_ones_can_be_tried_again(own_study, client, tmp_path):
    study = own_study(FAILING, "[axes]\nseed = { start = 0, count = 7 }")
    data, events = events_of(study, client=client, output=tmp_path / "own.nc")
    assert to_status(data.run_status).tolist() == [1, 1, 1, 2, 1, 3, 1]
    messages = ["ValueError: seed 3 is unlucky very", "", "DivergedError: `error` is not finite", ""]
    assert data.run_message.values.tolist() == [""] * 3 + messages
    np.testing.assert_array_equal(data.error, [0, 1, 2, np.nan, 4, np.nan, 6])
    np.testing.assert_array_equal(data.steps, [0, 2, 4, np.nan, 8, np.nan, 12])
    np.testing.assert_array_equal(data.trace.sel(seed=2), [2, 2, 2, np.nan, np.nan, np.nan, np.nan])
    assert (events["main"].done, events["main"].failed) == (7, 2)
    same_numbers(data, read_study(tmp_path / "own.nc"))
    again, events = events_of(study, client=client, output=tmp_path / "own.nc")
    assert events["main"].done == 0
    again, events = events_of(study, client=client, output=tmp_path / "own.nc", retry_failed=True)
    assert events["main"].done == 1  # the diverged run would diverge again
    assert again.run_attempts.values.tolist() == [1, 1, 1, 2, 1, 1, 1]


PILOT = """
    [axes]
    target = [2, 5, 7]
    seed = { start = 0, count = 4 }
    [pilot]
    parameter = "gamma"
    seeds = { start = 100, count = 3 }
    by = ["target"]
    candidates = [1, 4, 6, 9]
"""


def test_pilot_takes_the_least_mean_and_the_smaller_of_equals(own_study, client, tmp_path):
    study = own_study(PARABOLA, PILOT)
    data = evs.run(study, client=client, output=tmp_path / "own.nc")
    assert data.gamma.dims == ("target",)
    assert data.gamma.values.tolist() == [1, 4, 6]  # 5 is as far from 4 as from 6
    np.testing.assert_allclose(data.error.sel(target=5, seed=0), 1.0)
    pilot = read_result(tmp_path / "own.nc")["pilot"]
    assert pilot.error.dims == ("target", "candidate", "seed")
    assert pilot.gamma.values.tolist() == [1, 4, 6, 9]
    assert pilot.seed.values.tolist() == [100, 101, 102]


def test_pilot_chooses_several_parameters_by_any_scalar(own_study, client, tmp_path):
    returned = "{'error': gamma + level, 'guess': abs(gamma * level - target)}"
    study = own_study(
        f"def method(seed, gamma, level, target):\n    return {returned}",
        """
        [axes]
        target = [6, 8]
        seed = { start = 0, count = 2 }
        [pilot]
        parameter = ["gamma", "level"]
        seeds = [100, 101]
        minimise = "guess"
        by = ["target"]
        candidates = [[1, 8], [2, 4], [2, 3], [6, 1]]
        """,
    )
    for _ in range(2):  # the second time the choice is read
        data = evs.run(study, client=client, output=tmp_path / "own.nc")
        assert (data.gamma.values.tolist(), data.level.values.tolist()) == ([2, 1], [3, 8])  # the first of equals
        assert data.error.sel(target=6, seed=0) == 5.0
    pilot = read_result(tmp_path / "own.nc")["pilot"]
    assert (pilot.gamma.values.tolist(), pilot.level.values.tolist()) == ([1, 2, 2, 6], [8, 4, 3, 1])
    assert find_pilot_choice(pilot).argmax("candidate").values.tolist() == [2, 0]


def test_provenance_is_in_the_file(small_study, small, client, tmp_path):
    evs.run(small, client=client, output=tmp_path / "small.nc")
    data = read_study(tmp_path / "small.nc")
    assert data.attrs["study"] == small_study
    assert data.attrs["Conventions"] == "CF-1.11, ACDD-1.3"
    versions = json.loads(data.attrs["versions"])
    assert {"numpy", "scipy", "xarray", "dask", "netCDF4", "evogt-study", "python", "blas"} <= set(versions)
    sets = json.loads(data.run_software.attrs["software_sets"])
    assert len(sets) == 1
    assert sets[0]["numpy"] == np.__version__
    assert (data.run_software == 0).all()


@pytest.mark.long
def test_twenty_thousand_runs(own_study, client, tmp_path):
    """Every value in its place, in few shards; and nothing is done again."""
    source = """
        def method(i, j, word):
            if i == 77:
                raise ValueError(f"no {j}")
            return {"error": float(100 * i + j), "said": word}
    """
    study = own_study(source, '[axes]\nj = { count = 50 }\nword = ["a", "b"]\ni = { count = 200 }')
    path, started = tmp_path / "own.nc", time.perf_counter()
    data, events = events_of(study, client=client, output=path)
    expected = data.j + 100.0 * data.i.where(data.i != 77)
    np.testing.assert_array_equal(data.error, expected.broadcast_like(data.error).transpose("j", "word", "i"))
    assert (events["main"].done, events["main"].failed) == (20_000, 100)
    assert (data.run_message.sel(i=77, j=9) == "ValueError: no 9").all()
    assert set(data.said.sel(word="b", i=0).values.tolist()) == {"b"}
    again, events = events_of(study, client=client, output=path)
    assert events["main"].done == 0
    same_numbers(again, data)
    assert path.stat().st_size < 60 * 20_000
    assert time.perf_counter() - started < 30  # a few seconds; 0.3 ms a run are the aim


@pytest.mark.parametrize("retry", [False, True])
def test_attempts_in_shards_that_a_killed_command_did_not_remove_count_once(own_study, client, tmp_path, retry):
    """It was killed after it had put the result in its place."""
    source = "def method(seed):\n    assert seed != 1, 'no luck'\n    return {'error': 1.0}\n"
    study, path = own_study(source, "[axes]\nseed = [0, 1, 2]"), tmp_path / "own.nc"
    evs.run(study, client=client, output=path)
    plan = plan_study(study)[-1]
    write_shard(shard_folder(path), compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))
    evs.run(study, client=client, output=path, retry_failed=retry)
    assert read_study(path).run_attempts.values.tolist() == [1, 2 if retry else 1, 1]
    assert not shard_folder(path).exists()


def test_shards_that_are_damaged_or_missing_are_computed_again(own_study, client, tmp_path):
    study = own_study("def method(i):\n    return {'error': 1.0 / (i % 7), 'n': i}\n", "[axes]\ni = { count = 400 }")
    cases, path = list(plan_study(study)[-1].cases()), tmp_path / "own.nc"
    starts = (0, 100, 200, 300)
    shards = [
        write_shard(shard_folder(path), compute_here(Batch.from_cases(study.spec, cases[start : start + 100])))
        for start in starts
    ]
    content = shards[0].read_bytes()
    shards[0].write_bytes(content[: len(content) // 2])
    flipped = bytearray(shards[1].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    shards[1].write_bytes(flipped)
    shards[2].unlink()
    data, events = events_of(study, client=client, output=path)
    assert (events["main"].reused, events["main"].done) == (100, 300)
    same_numbers(data, evs.run(study, client=client))
    assert not shard_folder(path).exists()


def test_workers_have_one_blas_thread_whatever_is_inherited(own_study, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "8")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    source = """
        import os
        import numpy, scipy.linalg
        from threadpoolctl import threadpool_info
        def method(seed):
            return {"threads": max(info["num_threads"] for info in threadpool_info()),
                    "variable": int(os.environ["OPENBLAS_NUM_THREADS"])}
    """
    study = own_study(source, "[axes]\nseed = [0, 1, 2, 3]")
    assert evs.run(study, workers=2).threads.values.tolist() == [1, 1, 1, 1]  # by one process, before they are there
    with start_local_cluster(2) as client:
        data = evs.run(study, client=client)
    assert data.threads.values.tolist() == data.variable.values.tolist() == [1, 1, 1, 1]


SLOW = """
    import time
    def method(seed):
        time.sleep(0.05)
        return {"error": float(seed)}
"""


def test_runs_of_other_software_are_kept_and_marked_or_computed_again(small, small_study, client, tmp_path):
    path = tmp_path / "small.nc"
    evs.run(small, client=client, output=path)

    def aged(data):  # as if an older NumPy had computed all of it
        sets = data["run_software"].attrs["software_sets"]
        data["run_software"].attrs["software_sets"] = re.sub(r'"numpy": "[^"]*"', '"numpy": "1.0.0"', sets)

    rewritten(path, aged)
    longer = evs.Study.from_text(small_study.replace("count = 3", "count = 4"))
    mixed, events = events_of(longer, client=client, output=path)
    assert (events["main"].reused, events["main"].done) == (12, 4)
    sets = json.loads(mixed.run_software.attrs["software_sets"])
    assert len(sets) == 2
    old = next(number for number, entry in enumerate(sets) if entry["numpy"] == "1.0.0")
    assert int((mixed.run_software == old).sum()) == 12
    again, events = events_of(longer, client=client, output=path, rerun_outdated=True)
    assert (events["main"].reused, events["main"].done) == (4, 12)
    assert len(json.loads(again.run_software.attrs["software_sets"])) == 1
    same_numbers(again, evs.run(longer, client=client))
