"""What a study's result and shards have of the runs that it asks for now, as `status` and `plan` tell it."""

import numpy as np
import pytest
from conftest import compute_table
from helpers import PARABOLA, PILOTED

import evogt_study as evs
from evogt_study.errors import PilotError, ResultError
from evogt_study.results.finished import read_finished_runs, remove_shards, shard_folder, write_description
from evogt_study.results.index import write_shard
from evogt_study.study.plan import choose_parameters, plan_study
from evogt_study.workers.batch import Batch, compute_here

OWN = """
    def method(level, seed):
        assert seed != 1 or level != 2, "no luck"
        return {"error": level + seed}
"""
AXES = "[axes]\nlevel = [1, 2]\nseed = { count = 2 }"


def count(reader, phase):
    """The number of finished runs of a phase; None if its cases are not known."""
    return reader.tables[phase].n_finished if phase in reader.tables else None


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    return tmp_path


def write_runs(path, plan, which):
    """A shard with the runs of some cases."""
    write_shard(shard_folder(path), compute_here(Batch.from_cases(plan.spec, [plan.case(index) for index in which])))


def test_numbers_are_not_read(own_study, result_of, folder):
    """Of a result of fields they are most of the file."""
    path = result_of(own_study(OWN, AXES), folder / "results" / "own.nc")
    study = own_study(OWN, AXES.replace("count = 2", "count = 5"))
    write_runs(path, plan_study(study)[-1], [3, 4])
    assert not read_finished_runs(study, path).tables["main"].columns


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


def test_status_of_a_study_that_is_not_finished(evogt, own_study, folder):
    study, path = own_study(PARABOLA, PILOTED), folder / "results" / "own.nc"
    write_description(path, study)
    write_runs(path, plan_study(study)[0], range(3))
    code, out, err = evogt("status", "own.toml")
    assert (code, err) == (0, "evogt: results/own.nc is not finished. These are its runs so far.\n")
    assert out.splitlines()[:2] == [
        "results/own.nc: not running. Compute the rest with `evogt run`.",
        "results/own.nc (pilot): 12 runs, 9 not run, 3 ok",
    ]
    assert out.splitlines()[-1] == "results/own.nc (main): not run because its pilot is not finished"


def test_what_is_finished_can_be_opened(own_study, folder):
    study, path = own_study(PARABOLA, PILOTED), folder / "results" / "own.nc"
    write_description(path, study)
    write_runs(path, plan_study(study)[0], range(3))
    with evs.open(path, pilot=True) as pilot:
        assert (pilot["run_status"].values == "ok").sum() == np.isfinite(pilot["error"].values).sum() == 3
    with pytest.raises(
        ResultError, match="has no runs of the main: its pilot is not finished. Open the pilot with pilot"
    ):
        evs.open(path)
    with pytest.raises(ResultError, match=r"cannot read .*none\.nc"):
        evs.open(folder / "none.nc")


# --- a pilot ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "said"),
    [("('k', [1.0])", r"a variable of numbers over \(k\), not a number"), ("'word'", "a variable of strings over")],
)
def test_what_a_pilot_cannot_minimise(own_study, returned, said):
    study = own_study(f"def method(seed, gamma, target):\n    return {{'error': {returned}}}\n", PILOTED)
    with pytest.raises(PilotError, match=f"cannot minimise `error`: it is {said}"):
        choose_parameters(study.phases[0], compute_table(plan_study(study)[0]))
