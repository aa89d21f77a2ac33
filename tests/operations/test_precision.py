"""Studies that ask for a precision: seeds where they are needed, nothing twice, the same whoever computes."""

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.errors import StudyError
from evogt_study.inference.intervals import Goal, decide
from evogt_study.operations.run import run_task
from evogt_study.schema.variables import COORDINATES
from evogt_study.workers.dask_executor import start_local_cluster

SOURCE = """
import numpy as np

def method(seed, kind, k):
    rng = np.random.default_rng([seed, k])
    if kind == "wild" and seed == 3:
        raise ValueError("no luck")
    return {"error": k * float(rng.lognormal(0.0, {"calm": 0.2, "wild": 0.8}[kind]))}
"""
REST = """
[axes]
kind = ["calm", "wild"]
k = [1, 2]
seed = { start = 0, count = 10 }
[precision]
half_width = "30 %"
max_seeds = 200
"""
WORDS = {"calm": 0.2, "wild": 0.8}


def value(kind, k, seed):
    if kind == "wild" and seed == 3:
        return np.nan
    return k * np.random.default_rng([seed, k]).lognormal(0.0, WORDS[kind])


def expected(goal):
    """Seeds of each cell, decided from values that were drawn here."""
    return [
        [decide(np.array([value(kind, k, seed) for seed in range(200)]), goal).wanted for k in (1, 2)] for kind in WORDS
    ]


def planned(data):
    return (data["run_key"] != "").transpose("kind", "k", "seed").values


@pytest.mark.long
def test_each_cell_has_the_seeds_that_it_needs_and_says_so(own_study, client, tmp_path):
    study = own_study(SOURCE, REST)
    output = tmp_path / "own.nc"
    data = evs.run(study, client=client, output=output)
    wanted = expected(Goal(half_width=0.3, max_seeds=200, first=10))
    assert data["precision_seeds"].values.tolist() == planned(data).sum(axis=-1).tolist() == wanted
    assert wanted[0] == [10, 10]
    assert min(wanted[1]) > 10
    assert (planned(data)[..., 1:] <= planned(data)[..., :-1]).all()  # the first seeds, one after the other
    assert set(data["precision_reason"].values.ravel().tolist()) == {"known"}
    assert (data["precision_half_width"] <= 0.3).all()
    assert evs.summary(data["error"], missing="drop")["n_planned"].values.tolist() == wanted

    with evs.open(output) as read:
        assert read["precision_reason"].values.tolist() == data["precision_reason"].values.tolist()


LOGGED = SOURCE.replace("import numpy as np\n", "import numpy as np\nfrom pathlib import Path\n").replace(
    "    rng =", '    with Path(__file__).with_name("runs.txt").open("a") as log:\n'
    '        log.write(f"{kind},{k},{seed}\\n")\n    rng =',
)  # fmt: skip
"""The same, and each execution leaves a line."""


@pytest.mark.long
def test_a_goal_made_stricter_computes_nothing_twice_whatever_the_workers_and_the_order(own_study, tmp_path):
    backwards = REST.replace('["calm", "wild"]', '["wild", "calm"]').replace("[1, 2]", "[2, 1]")
    found, log = [], tmp_path / "runs.txt"
    for workers, rest in ((1, REST), (3, REST), (3, backwards)):
        output = tmp_path / f"{len(found)}" / "own.nc"  # what lies beside it would be taken
        log.write_text("")
        output.parent.mkdir()
        with start_local_cluster(workers) as client:
            counts = []
            for goal in ("30 %", "20 %", "20 %"):
                data = evs.run(own_study(LOGGED, rest.replace("30 %", goal)), client=client, output=output)
                ran = log.read_text().splitlines()
                assert len(set(ran)) == len(ran) == planned(data).sum()
                counts.append(len(ran))
        assert counts[0] < counts[1] == counts[2]  # a goal that is reached asks for no run, nor does one that failed
        found.append(data.sortby(["kind", "k"]))
    for other in found[1:]:
        for name in ("error", "run_status", "run_key", "precision_seeds", "precision_half_width", "precision_reason"):
            xr.testing.assert_equal(found[0][name].reset_coords(drop=True), other[name].reset_coords(drop=True))


def test_a_cell_stops_at_most(own_study, client):
    data = evs.run(own_study(SOURCE, REST.replace("30 %", "1 %").replace("200", "25")), client=client)
    assert (data["precision_seeds"] == 25).all()
    assert (data["precision_reason"] == "at most").all()


COMPUTING = {"run": lambda study, path: evs.run(study, output=path), "work": lambda *given: run_task(*given, 1, 1)}


@pytest.mark.parametrize("way", COMPUTING)
def test_a_variable_that_no_run_has_ends_after_the_first_batch_and_loses_nothing(own_study, tmp_path, way):
    path, source = tmp_path / "own.nc", LOGGED.replace("seed == 3", "seed < 0")
    misspelt = REST.replace("[precision]", '[precision]\nvariable = "eror"')
    with pytest.raises(StudyError, match=r"`variable` must be one of error, got 'eror' \(.*own.toml, precision.vari"):
        COMPUTING[way](own_study(source, misspelt), path)
    COMPUTING[way](own_study(source, REST.replace("30 %", "1000 %")), path)
    assert len((tmp_path / "runs.txt").read_text().splitlines()) == 40
    assert path.exists()


def test_where_all_runs_fail_no_variable_is_missed(own_study):
    source = SOURCE.replace('kind == "wild" and seed == 3', "True")
    assert (evs.run(own_study(source, REST.replace("200", "10")))["precision_reason"] == "failed").all()


def test_a_ratio_has_the_same_seeds_on_both_sides(own_study, client):
    text = REST.replace("[precision]", '[precision]\nstatistic = "ratio wild/calm"')
    data = evs.run(own_study(SOURCE, text), client=client)
    assert (data["precision_seeds"].sel(kind="calm") == data["precision_seeds"].sel(kind="wild")).all()
    goal = Goal("ratio", 0.3, max_seeds=200, first=10)
    for k in (1, 2):
        pairs = np.array([[value(kind, k, seed) for seed in range(200)] for kind in ("wild", "calm")])
        assert int(data["precision_seeds"].sel(kind="wild", k=k)) == decide(pairs, goal).wanted


def test_a_ratio_may_be_of_labels_of_a_parameter_along_a_design(own_study, client):
    text = REST.replace("[precision]", '[precision]\nstatistic = "ratio wild/calm"')
    source = SOURCE.replace("kind, k", "kind, k, scale=1")
    wanted = evs.run(own_study(source, text), client=client)["precision_seeds"]
    design = '[[zip]]\nname = "case"\nkind = ["calm", "wild"]\nscale = [1, 1]\n[precision]'
    stated = text.replace('kind = ["calm", "wild"]\n', "").replace("[precision]", design)
    found = evs.run(own_study(source, stated), client=client)["precision_seeds"]
    assert found.sel(case=1).values.tolist() == wanted.sel(kind="wild").values.tolist()
    assert found.sel(case=0).values.tolist() == wanted.sel(kind="calm").values.tolist()
    twice = stated.replace('["calm", "wild"]', '["calm", "wild", "wild"]').replace(
        "scale = [1, 1]", "scale = [1, 1, 2]"
    )
    with pytest.raises(
        StudyError, match=r"values that occur once along case, got kind = wild at 2 points .*precision\.statistic\)"
    ):
        own_study(source, twice)


def test_commands_know_such_a_result(own_study, client, evogt, tmp_path):
    study = own_study(SOURCE, REST)
    code, out, _ = evogt("run", "-n", study.file, "-o", tmp_path / "own.nc")
    assert code == 0
    assert "40 cases of 800 points" in out
    assert "until each setup has the mean of error to a half width of 30 %, at most 200" in out
    evs.run(study, client=client, output=tmp_path / "own.nc")
    count = sum(map(sum, expected(Goal(half_width=0.3, max_seeds=200, first=10))))
    out = evogt("run", "-n", study.file, "-o", tmp_path / "own.nc")[1]
    assert f"about {count} runs expected for the mean of error to a half width of 30 %; 4 of 4 setups have all" in out
    assert f"{count} of {count} are finished" in out
    code, out, _ = evogt("verify", tmp_path / "own.nc", "--rerun", "2", "--code", tmp_path / "method.py")
    assert (code, out.splitlines()[-1]) == (0, f"{tmp_path / 'own.nc'}: all well")
    assert evogt("try", tmp_path / "own.nc", "kind=calm", "k=1", "seed=3", "--code", tmp_path / "method.py")[0] == 0
    assert f"{count} runs, {count - 2} ok, 2 failed" in evogt("status", tmp_path / "own.nc")[1]


@pytest.mark.long
def test_results_of_two_goals_are_joined_to_that_of_the_stricter_one(own_study, client, evogt, tmp_path):
    evs.run(own_study(SOURCE, REST), client=client, output=tmp_path / "wide.nc")
    tighter = own_study(SOURCE, REST.replace("30 %", "20 %"))
    narrow = evs.run(tighter, client=client, output=tmp_path / "narrow.nc")
    files = (tmp_path / "wide.nc", tmp_path / "narrow.nc")
    code, _, message = evogt("merge", *files, "-o", tmp_path / "joined.nc", "--study", tighter.file)
    assert code == 0, message  # failed runs are data
    with evs.open(tmp_path / "joined.nc") as joined:
        xr.testing.assert_equal(joined["precision_seeds"], narrow["precision_seeds"])
        xr.testing.assert_equal(joined["error"].reset_coords(drop=True), narrow["error"].reset_coords(drop=True))


@pytest.mark.parametrize("name", sorted({*COORDINATES} - {"candidate"}))
@pytest.mark.parametrize("value", ["1.0", "('k', [1.0])"], ids=["a number", "an array"])
def test_an_output_with_the_name_of_a_coordinate_is_refused_by_the_first_run(own_study, client, name, value):
    source = f"def method(seed):\n    return {{'error': 1.0, '{name}': {value}}}\n"
    study = own_study(source, '[axes]\nseed = { start = 0, count = 10 }\n[precision]\nhalf_width = "10 %"\n')
    with pytest.raises(StudyError, match=f"the function returned `{name}`, a name that"):
        evs.run(study, client=client)
