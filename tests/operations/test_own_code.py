"""A method of one's own changed and run again: what counts as another computation, and what is said of the rest."""

import json
import warnings

import pytest
from helpers import read_study

import evogt_study as evs
from evogt_study.errors import ResultError, StoreWarning, StudyError
from evogt_study.operations.verify import try_case, verify

METHOD = """
import numpy as np
import helper
from helper import shift

def method(seed, power=1):
    table = np.loadtxt("{folder}/table.csv")
    return {{"error": table.sum() + helper.scale * seed**power + shift(0)}}  # a comment

def another(seed):
    return 0
"""
HELPER = "scale = 2.0\ndef shift(x):\n    return x\n"
STUDY = 'name = "own"\nmethod = "method.py:method"\ndepends = {depends}\n[axes]\nseed = [0, 1, 2]\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "method.py").write_text(METHOD.format(folder=tmp_path))
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "table.csv").write_text("1 2\n")
    return tmp_path


@pytest.fixture
def executed(client):
    """Called with a folder, what its study depends on, and options: the runs that were computed, and warnings."""

    def run(folder, depends=(), **options):
        (folder / "own.toml").write_text(STUDY.format(depends=json.dumps(list(depends))))
        done = {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            evs.run(
                evs.Study.from_file(folder / "own.toml"), client=client, output=folder / "own.nc",
                listener=lambda event: done.update({event.phase: event.done}), **options,
            )  # fmt: skip
        return sum(done.values()), {each.category: str(each.message) for each in caught}

    return run


def edit(path, old, new):
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


CHANGES = {
    "a comment": ("method.py", "# a comment", "# said otherwise", 0),
    "another function of the file": ("method.py", "return 0", "return 1", 0),
    "a new function": ("method.py", "def another", "def third():\n    return 1\n\ndef another", 0),
    "the function": ("method.py", "* seed", "* (seed + 1)", 3),
    "a default": ("method.py", "power=1", "power=2", 3),
    "a helper's comment": ("helper.py", "scale = 2.0", "scale = 2.0  # new", 0),
    "a helper": ("helper.py", "scale = 2.0", "scale = 3.0", 3),
    "a data file": ("table.csv", "1 2", "1 3", 3),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_computed_again(executed, folder, name):
    file, old, new, count = CHANGES[name]
    assert executed(folder, ["table.csv"]) == (3, {})
    edit(folder / file, old, new)
    computed, expected_message = executed(folder, ["table.csv"])
    assert computed == count
    assert set(expected_message) == ({StoreWarning} if count else set())
    if count:
        assert "code of the method" in expected_message[StoreWarning]
        fresh = read_study(folder / "own.nc").error.values
        edit(folder / file, new, old)
        assert executed(folder, ["table.csv"])[0] == 0  # the store has them
        assert (read_study(folder / "own.nc").error.values != fresh).any()
    assert verify(folder / "own.nc", rerun=3).findings == ()


def _make_power(k):
    return lambda x, seed: float(x**k + seed)


@pytest.mark.filterwarnings("ignore::evogt_study.errors.StoreWarning")
def test_older_code_of_functions_with_one_name_is_never_mixed_up(tmp_path):
    def study(**powers):
        methods = {name: _make_power(k) for name, k in powers.items()}
        return evs.Study(axes={"method": methods, "x": [2, 3], "seed": [0]}, name="powers")

    options = {"output": tmp_path / "powers.nc", "reuse_old_code": True, "workers": 0}
    evs.run(study(a=1, b=3), output=tmp_path / "powers.nc", workers=0)
    for powers in ({"b": 3, "a": 1}, {"b": 3}):  # the number behind a name depends on the order
        found = evs.run(study(**powers), **options)
        assert found["value"].squeeze("seed").values.tolist() == [[2.0**k, 3.0**k] for k in powers.values()]
    with pytest.raises(ResultError, match="several functions have the name .* Give them different names"):
        evs.run(study(a=1, b=3), **options)  # the result has only b
    evs.run(study(a=1, b=3), output=tmp_path / "powers.nc", workers=0)
    with pytest.raises(ResultError, match="several functions have the name"):
        evs.run(study(a=2), **options)


def test_runs_of_older_code_are_reused_if_the_user_says_so(executed, folder):
    executed(folder)
    before = read_study(folder / "own.nc").error.values
    edit(folder / "method.py", "* seed", "* 1 * seed")
    computed, expected_message = executed(folder, reuse_old_code=True)
    assert (computed, expected_message) == (0, {})
    data = read_study(folder / "own.nc")
    assert data.error.values.tobytes() == before.tobytes()
    edit(folder / "own.toml", "[0, 1, 2]", "[0, 1, 2, 3]")
    study = evs.Study.from_file(folder / "own.toml")
    assert evs.run(study, output=folder / "own.nc", reuse_old_code=True).error.values[:3].tobytes() == before.tobytes()
    with pytest.raises(ResultError, match=r"code that .*method.py uses changed since .*, so nothing was executed"):
        try_case(folder / "own.nc", {"seed": 1})
    assert executed(folder)[0] == 3  # with the code of today
    assert try_case(folder / "own.nc", {"seed": 1}, code=folder).equal


def test_the_first_case_is_run_before_the_others(client, folder):
    edit(folder / "method.py", 'return {"error"', 'return {"when": b"now", "error"')
    (folder / "own.toml").write_text(STUDY.format(depends="[]"))
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(StudyError, match="the function returned `when` of dtype .S3.*No result was written"):
        evs.run(evs.Study.from_file(folder / "own.toml"), client=client, output=folder / "own.nc")
    assert sorted(path.name for path in folder.iterdir()) == before
