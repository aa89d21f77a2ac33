"""Lines of a study changed, and changed back: what is common is taken, what is new computed, and nothing is lost."""

import os
import shutil
from contextlib import nullcontext

import netCDF4
import pytest
from helpers import PARABOLA, PILOTED, read_study, rewritten, same_numbers

import evogt_study as evs
from evogt_study.errors import InputError, StoreWarning
from evogt_study.results.finished import read_finished_runs, read_store
from evogt_study.schema.variables import Status, to_status
from evogt_study.storage.files import shard_folder, store_folder


@pytest.fixture
def executed(client):
    """Called with a study and a result's path: the number of runs that were computed, and what was warned of."""

    def run(study, path, **options):
        done = {}
        with pytest.warns(StoreWarning) if options.pop("warns", False) else nullcontext() as caught:
            evs.run(study, client=client, output=path, listener=lambda e: done.update({e.phase: e.done}), **options)
        return (sum(done.values()), *(str(warning.message) for warning in caught or ()))

    return run


@pytest.fixture(scope="module")
def before(client, tmp_path_factory):
    """The result of the small study, once for all tests."""
    from conftest import SMALL_STUDY

    path = tmp_path_factory.mktemp("before") / "small.nc"
    evs.run(evs.Study.from_text(SMALL_STUDY), client=client, output=path)
    return path


@pytest.fixture
def path(before, tmp_path):
    return shutil.copy(before, tmp_path / "small.nc")


CHANGES = {
    "gamma": ("gamma = 2", "gamma = 3", 12, 12, "constants.gamma: 2 -> 3"),
    "times": ("times = 3", "times = 6", 12, 12, "output.times: 3 -> 6"),
    "a value of k replaced": ("k = [1, 2]", "k = [1, 3]", 6, 6, "axes.k: [1, 2] -> [1, 3]"),
    "N replaced": ("N = 12", "N = 10", 12, 12, "constants.N: 12 -> 10"),
    "fewer seeds": ("count = 3", "count = 1", 0, 8, "axes.seed.count: 3 -> 1"),
    "a title": ('name = "small"', 'name = "small"\ntitle = "new"', 0, 0, ""),
    "a rule": ("[output]", "[[when]]\nmatch = { k = 2 }\nset = { gamma = 5 }\n[output]", 6, 6, "gamma = 5 added"),
}


@pytest.mark.long
@pytest.mark.parametrize(("old", "new", "computed", "n_unplanned", "expected_message"), CHANGES.values(), ids=CHANGES)
def test_a_line_is_changed_and_changed_back(
    executed, small_study, path, old, new, computed, n_unplanned, expected_message
):
    known = read_study(path)
    changed = evs.Study.from_text(small_study.replace(old, new))
    count, *lines = executed(changed, path, warns=n_unplanned > 0)
    assert (count, len(lines), read_store(path).runs) == (computed, int(n_unplanned > 0), n_unplanned)
    for line in lines:
        assert expected_message in line
        assert line.startswith(f"moved {n_unplanned} finished runs to {store_folder(path)} because")
    assert executed(evs.Study.from_text(small_study), path, warns=computed > 0)[0] == 0
    same_numbers(read_study(path).sel(mode=known.mode), known)  # other ranks leave their padding
    assert read_store(path).runs == computed  # the runs of the change, and no planned run
    if computed:
        assert executed(changed, path, warns=n_unplanned > 0)[0] == 0
        assert executed(evs.Study.from_text(small_study), path, warns=True)[0] == 0
        assert read_store(path).runs == computed  # the store does not grow with the number of changes


def test_another_name_of_the_result_takes_what_is_common(executed, small_study, path, tmp_path):
    both = small_study.replace("k = [1, 2]", "k = [2, 3]").replace('"small"', '"other"')
    data = tmp_path / "other.nc"
    assert executed(evs.Study.from_text(both), data) == (6,)
    assert f"with runs that were there: 6 from {path}" in read_study(data).attrs["history"]
    assert executed(evs.Study.from_text(small_study), tmp_path / "third" / "small.nc", reuse_from=str(tmp_path)) == (0,)
    for nothing in (tmp_path / "none", "/dev/null"):
        with pytest.raises(InputError, match=rf"must be an existing result or a folder of results, got {nothing}$"):
            executed(evs.Study.from_text(small_study), tmp_path / "fourth" / "small.nc", reuse_from=[nothing])


def test_what_is_kept_beside_one_result_is_there_for_another(executed, small_study, path, tmp_path):
    executed(evs.Study.from_text(small_study.replace("gamma = 2", "gamma = 3")), path, warns=True)
    assert executed(evs.Study.from_text(small_study), tmp_path / "other.nc") == (0,)
    path.unlink()
    assert executed(evs.Study.from_text(small_study.replace("gamma = 2", "gamma = 3")), path) == (12,)
    assert read_store(path).runs == 12


def test_results_that_are_damaged_or_none_are_left_out_with_one_line(executed, small_study, path, tmp_path):
    (tmp_path / "a.nc").write_bytes(path.read_bytes()[:3000])
    (tmp_path / "b.nc").write_text("no NetCDF")
    with netCDF4.Dataset(tmp_path / "c.nc", "w") as file:  # of somebody else
        file.createDimension("x", 2)
    os.mkfifo(tmp_path / "d.nc")
    changed = rewritten(path, lambda data: None)
    with netCDF4.Dataset(changed, "a") as file:  # runs that another program changed are not vouched for
        file["error"][0] = 7.0
    count, line = executed(
        evs.Study.from_text(small_study), tmp_path / "new" / "s.nc", reuse_from=[tmp_path], warns=True
    )
    assert count == 12
    assert line.startswith(f"cannot reuse runs from {tmp_path / 'a.nc'}, and 3 more: ")


def test_a_pilots_runs_are_kept_and_come_back(executed, own_study, tmp_path):
    path = tmp_path / "own.nc"
    assert executed(own_study(PARABOLA, PILOTED), path) == (12 + 4,)
    constant = PILOTED[: PILOTED.index("[pilot]")] + "[constants]\n    gamma = 1\n"
    count, line = executed(own_study(PARABOLA, constant), path, warns=True)
    assert (count, read_store(path).runs) == (2, 12 + 2)  # two of the four had gamma = 1
    assert "pilot.parameter = 'gamma' removed" in line
    assert executed(own_study(PARABOLA, PILOTED), path, warns=True)[0] == 0


def test_a_bug_in_ones_own_method_is_mended_and_failed_runs_are_in_nobodys_way(executed, own_study, tmp_path):
    path, axes = tmp_path / "own.nc", "[axes]\nseed = { count = 3 }"
    wrong = "def method(seed):\n    return {'error': 1.0 / (seed - 1)}\n"
    assert executed(own_study(wrong, axes), path)[0] == 3
    count, line = executed(own_study(wrong.replace("seed - 1", "seed + 1"), axes), path, warns=True)
    assert (count, "no longer includes them (code of the method)" in line) == (3, True)
    assert (to_status(read_study(path).run_status) == Status.ok).all()
    assert executed(own_study(wrong, axes), path, warns=True)[0] == 0
    assert int(read_study(path).run_status[1]) == Status.failed


def test_shards_of_a_study_that_was_changed_before_it_had_a_result(executed, client, own_study, result_of, tmp_path):
    """As a command leaves them that was stopped."""
    from evogt_study.results.finished import write_description
    from evogt_study.results.index import write_shard
    from evogt_study.study.plan import plan_study
    from evogt_study.workers.batch import Batch, compute_here

    path, source = tmp_path / "own.nc", "def method(seed, level):\n    return {'error': 1.0}\n"
    first = own_study(source, "[axes]\nseed = { count = 4 }\n[constants]\nlevel = 1\n")
    write_description(path, first)
    runs = compute_here(Batch.from_cases(first.spec, list(plan_study(first)[-1].cases())))
    write_shard(shard_folder(path), runs)
    other = own_study(source, "[axes]\nseed = { count = 2 }\n[constants]\nlevel = 1\n")
    assert read_finished_runs(other, path).tables["main"].n_finished == 2
    count, line = executed(other, path, warns=True)
    assert (count, read_store(path).runs) == (0, 2)
    assert "no longer includes them (axes.seed.count: 4 -> 2)" in line
    assert not shard_folder(path).exists()
