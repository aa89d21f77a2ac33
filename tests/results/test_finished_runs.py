"""What a study's result and shards have of the runs that it asks for now, as `status` and `plan` tell it."""

import numpy as np
import pytest
from conftest import compute_table
from helpers import PARABOLA, PILOTED

import evogt_study as evs
from evogt_study.errors import PilotError, ResultError
from evogt_study.results.decisions import choose
from evogt_study.results.finished import describe, read_finished_runs
from evogt_study.results.shards import remove_shards, shard_folder, write_shard
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

OWN = """
    def method(level, seed):
        assert seed != 1 or level != 2, "no luck"
        return {"error": level + seed}
"""
AXES = "[axes]\nlevel = [1, 2]\nseed = { count = 2 }"
GROWN = AXES.replace("count = 2", "count = 5")


UNASKED = (
    "results/own.nc holds 2 finished runs that own.toml no longer includes (axes.seed.count: 2 -> 1). "
    "`evogt run` moves them to results/own.nc.store."
)


def count(reader, phase):
    """The number of finished runs of a phase; None if its cases are not known."""
    return reader.tables[phase].n_finished if phase in reader.tables else None


def counts(table):
    return {status.name: count for status, count in table.counts().items() if count}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    return tmp_path


@pytest.fixture
def result(own_study, result_of, folder):
    return result_of(own_study(OWN, AXES), folder / "results" / "own.nc")


def write_runs(path, plan, which):
    """A shard with the runs of some cases."""
    write_shard(shard_folder(path), compute_here(Batch.of(plan.spec, [plan.case(index) for index in which])))


def test_numbers_are_not_read(own_study, result):
    """Of a result of fields they are most of the file."""
    study = own_study(OWN, GROWN)
    write_runs(result, plan_study(study)[-1], [3, 4])
    assert not read_finished_runs(study, result).tables["main"].columns


def test_the_studys_runs_are_known_once_the_pilot_has_chosen(own_study, result_of, folder):
    path = folder / "results" / "own.nc"
    study = own_study(PARABOLA, PILOTED)
    pilot = plan_study(study)[0]
    write_runs(path, pilot, range(3))
    waiting = read_finished_runs(study, path)
    assert (count(waiting, "pilot"), count(waiting, "main")) == (3, None)
    write_runs(path, pilot, range(3, pilot.space.size))
    chosen = read_finished_runs(study, path)
    assert (count(chosen, "pilot"), count(chosen, "main")) == (pilot.space.size, 0)
    remove_shards(shard_folder(path), (), shard_folder(path) / "none")
    result_of(study, path)
    assert count(read_finished_runs(study, path), "main") == 4


# --- on the command line ----------------------------------------------------------------------------------------------


def test_status_of_a_study_that_grew(evogt, own_study, result):
    own_study(OWN, GROWN)
    code, out, err = evogt("status", "own.toml")
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "results/own.nc (main): 10 runs, 6 not_run, 3 ok, 1 failed",
        "  not ok by level: 2: 1/5",
        "  not ok by seed: 1: 1/2",
    ]
    assert out.splitlines()[3:5] == ["  not run by level: 1: 3/5, 2: 3/5", "  not run by seed: 2: 2/2, 3: 2/2, 4: 2/2"]
    assert evogt("status", "results/own.nc")[1].startswith("results/own.nc (main): 4 runs, 3 ok, 1 failed\n")


def test_status_tells_what_the_study_does_not_ask_for_any_more(evogt, own_study, result):
    own_study(OWN, AXES.replace("count = 2", "count = 1"))
    _, out, _ = evogt("status", "own.toml")
    assert out.splitlines()[0] == "results/own.nc (main): 2 runs, 2 ok"
    assert out.splitlines()[-1].startswith(UNASKED)


def test_status_of_a_study_that_is_not_finished(evogt, own_study, folder):
    study, path = own_study(PARABOLA, PILOTED), folder / "results" / "own.nc"
    describe(path, study)
    write_runs(path, plan_study(study)[0], range(3))
    code, out, err = evogt("status", "own.toml")
    assert (code, err) == (0, "evogt: results/own.nc is not finished. These are its runs so far.\n")
    assert out.splitlines()[:2] == [
        "results/own.nc: not running; `evogt run` computes the rest",
        "results/own.nc (pilot): 12 runs, 9 not_run, 3 ok",
    ]
    assert out.splitlines()[-1] == "results/own.nc (main): not run, since its pilot has not chosen yet"


def test_what_is_finished_can_be_opened(own_study, folder):
    study, path = own_study(PARABOLA, PILOTED), folder / "results" / "own.nc"
    describe(path, study)
    write_runs(path, plan_study(study)[0], range(3))
    with evs.open(path, pilot=True) as pilot:
        assert (pilot["run_status"].values == "ok").sum() == np.isfinite(pilot["error"].values).sum() == 3
    with pytest.raises(ResultError, match="has no runs of the main: its pilot has not chosen yet; open it with pilot"):
        evs.open(path)
    with pytest.raises(ResultError, match=r"cannot read .*none\.nc"):
        evs.open(folder / "none.nc")


def test_a_result_elsewhere_is_named(evogt, own_study, result, folder):
    result.rename(folder / "other.nc")
    own_study(OWN, GROWN)
    assert evogt("status", "own.toml", "-o", "other.nc")[1].startswith("other.nc (main): 10 runs, 6 not_run")
    assert "    4 of 10 are finished: 4 from other.nc\n" in evogt("run", "-n", "own.toml", "-o", "other.nc")[1]
    code, _, err = evogt("status", "other.nc", "-o", "other.nc")
    assert (code, err) == (2, "evogt: `--output` has no effect with a result. Leave it out.\n")


def test_a_plan_tells_what_is_there_already(evogt, own_study, result):
    own_study(OWN, GROWN)
    code, out, err = evogt("run", "-n", "own.toml")
    assert (code, err) == (0, "")
    assert "    4 of 10 are finished: 4 from results/own.nc\n" in out
    assert "does not ask for" not in out
    own_study(OWN, AXES)
    assert evogt("run", "-n", "own.toml")[1].splitlines()[2:] == [
        "    4 of 4 are finished: 4 from results/own.nc",
        "no case is missing",
    ]
    own_study(OWN, AXES.replace("count = 2", "count = 1"))
    assert UNASKED in evogt("run", "-n", "own.toml")[1].splitlines()


# --- a pilot ----------------------------------------------------------------------------------------------------------

UNLUCKY = PARABOLA.replace(":\n", ':\n    assert gamma != 6 or seed != 100, f"no luck with {target}"\n', 1)


def test_failed_runs_of_a_pilot_are_printed(evogt, own_study, result_of, folder, no_workers):
    result_of(own_study(UNLUCKY, PILOTED), folder / "results" / "own.nc")
    assert evogt("run", "-q", "own.toml", "--strict")[0] == 1
    code, out, _ = evogt("run", "-q", "own.toml")
    assert code == 0
    assert out.splitlines() == [
        "results/own.nc: 4 runs, 4 ok",
        "results/own.nc (pilot): 12 runs, 10 ok, 2 failed",
        "  2 x AssertionError: no luck with 2 (e.g. target=2, candidate=2, seed=100)",
        "  traceback: evogt try results/own.nc target=2 candidate=2 seed=100 --pilot",
    ]


@pytest.mark.parametrize(
    ("returned", "said"),
    [("('k', [1.0])", r"a variable of numbers over \(k\), not a number"), ("'word'", "a variable of strings over")],
)
def test_what_a_pilot_cannot_minimise(own_study, returned, said):
    study = own_study(f"def method(seed, gamma, target):\n    return {{'error': {returned}}}\n", PILOTED)
    with pytest.raises(PilotError, match=f"cannot minimise `error`: it is {said}"):
        choose(study.pilot, compute_table(plan_study(study)[0]))
