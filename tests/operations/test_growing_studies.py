"""Designs from the study to the numbers: grown, joined, excluded, checked and read back, with real files."""

import json
import textwrap

import numpy as np
import pytest
import xarray as xr
from helpers import PILOTED

import evogt_study as evs
from evogt_study.errors import InputError, StudyError

SOURCE = """
    def method(gamma, k, seed=0, N=20):
        return {"error": gamma * k + 0.01 * seed}
"""
SAMPLE = """
    [[sample]]
    name = "point"
    rule = "{rule}"
    count = {count}
    {more}
    gamma = {{ from = 2, to = 30, scale = "log" }}
    k = {{ choice = [1, 2] }}
"""


@pytest.fixture
def sampled(own_study):
    """Called with a count: the study of so many points."""

    def make(count, more="", rule="sobol", rest=""):
        return own_study(SOURCE, SAMPLE.format(count=count, more=more, rule=rule) + rest)

    return make


def ran(study, client, path):
    """The number of runs that were computed."""
    done = []
    evs.run(study, client=client, output=path, listener=lambda event: done.append(event.done))
    return max(done)


def test_a_grown_sample_computes_its_new_points_only(sampled, client, tmp_path):
    path = tmp_path / "own.nc"
    assert ran(sampled(512), client, path) == 512
    with xr.open_dataset(path) as data:
        before = data.load()
    assert ran(sampled(1024), client, path) == 512
    with xr.open_dataset(path) as data:
        after = data.load()
    for name in ("gamma", "k", "error", "run_key", "run_seconds"):
        xr.testing.assert_equal(before[name].variable, after[name].isel(point=slice(512)).variable)
    assert (after.run_status == 1).all()
    assert json.loads(after.point.attrs["design"])["count"] == 1024


def test_parts_of_a_sample_are_joined(sampled, result_of, evogt, tmp_path):
    whole = result_of(sampled(16), tmp_path / "whole.nc")
    first = result_of(sampled(8), tmp_path / "first.nc")
    second = result_of(sampled(8, "start = 8"), tmp_path / "second.nc")
    sampled(16)
    code, _, err = evogt("merge", first, second, "-o", tmp_path / "joined.nc")
    assert (code, "no file has a study that includes all runs" in err, "--study" in err) == (2, True, True)
    code, _, err = evogt("merge", first, second, "--study", tmp_path / "own.toml", "-o", tmp_path / "joined.nc")
    assert code == 0, err
    with xr.open_dataset(tmp_path / "joined.nc") as joined, xr.open_dataset(whole) as known:
        xr.testing.assert_equal(joined.error, known.error)
        assert (joined.run_key == known.run_key).all()


FAILING = """
    import numpy as np

    def method(gamma, k, tau, seed):
        if gamma > 20.0 and k > 7.0:
            raise ValueError("singular")
        chance = np.random.default_rng([seed, round(gamma * 1e9), round(k * 1e9)])
        if chance.random() < 0.05:
            raise ValueError("an unlucky draw")
        return {"error": np.log(gamma) ** 2 + k + chance.normal(0.0, 0.1), "unknowns": int(40 * k)}
"""
BOX = """
    axes = {{ seed = {{ start = 0, count = 2 }} }}
    [[sample]]
    name = "point"
    rule = "{rule}"
    count = {count}
    gamma = {{ from = 2, to = 30, scale = "log" }}
    k = {{ from = 4, to = 10 }}
    tau = {{ from = 1e-12, to = 1e-6, scale = "log" }}
"""


@pytest.mark.parametrize(("rule", "count"), [("sobol", 128), ("saltelli", 64), ("morris", 40)])
def test_failed_runs_of_a_sample_are_counted_and_their_parameter_is_named(
    rule, count, own_study, result_of, evogt, tmp_path
):
    path = result_of(own_study(FAILING, BOX.format(rule=rule, count=count)), tmp_path / "own.nc")
    with evs.open(path) as data:
        failed, every = (
            len(np.unique(data.run_key.values[where]))
            for where in (data.run_status == "failed", data.run_status != "not_run")
        )
        known = evs.sensitivity(data.error, missing="drop")
    assert 0 < int(known.n_ok) < int(known.n_planned)
    code, out, err = evogt("summary", path, "--sensitivity", "error")
    rows = [line.split() for line in out.splitlines() if line.startswith(("gamma", "k ", "tau"))]
    assert [row[0] for row in rows] == ["gamma", "k", "tau"]  # the largest first
    assert {row[-1] for row in rows} == {f"{int(known.n_ok)}/{int(known.n_planned)}"}
    assert (code, "nan" in out) == (0, False), out
    assert f"{failed} of {every} runs have no `error`" in err
    code, out, _ = evogt("summary", path, "--sensitivity", "run_status")
    assert (code, out.split("---\n")[-1].split()[0]) == (0, "gamma"), out  # which explains most of the failures


def test_a_file_that_changed_computes_its_new_rows_only(own_study, client, tmp_path):
    rest = '[[table]]\nname = "case"\nfile = "cases.csv"\n[constants]\nk = 1\n'
    (tmp_path / "cases.csv").write_text("gamma,seed\n1,1\n2,2\n")
    assert ran(own_study(SOURCE, rest), client, tmp_path / "own.nc") == 2
    (tmp_path / "cases.csv").write_text("gamma,seed\n1,1\n2,2\n3,3\n")
    assert ran(own_study(SOURCE, rest), client, tmp_path / "own.nc") == 1


def test_a_pilot_chooses_along_a_design(own_study, client, tmp_path):
    source = (
        "def method(gamma, target, weight, seed):\n    return {'error': weight * abs(gamma - target) + seed / 100}\n"
    )
    design = '[[zip]]\nname = "level"\ntarget = [2, 5]\nweight = [1, 3]\n'
    rest = design + textwrap.dedent(PILOTED).replace("target = [2, 5]\n", "", 1).replace('"target"', '"level"')
    data = evs.run(own_study(source, rest), client=client, output=tmp_path / "own.nc")
    assert (data.gamma.dims, data.gamma.values.tolist()) == (("level",), [1, 4])


def test_a_dimension_that_the_method_returns_stops_the_study_at_once(own_study, client, tmp_path):
    source = "def method(gamma, k):\n    return {'error': gamma, 'point': k}\n"
    study = own_study(source, SAMPLE.format(count=4, more="", rule="sobol"))
    with pytest.raises(StudyError, match="the function returned `point`, a name that is also the name of a dimension"):
        evs.run(study, client=client, output=tmp_path / "own.nc")


# --- in Python --------------------------------------------------------------------------------------------------------


def product(gamma, k=1, seed=0, N=20):
    return {"error": gamma * k}


def test_rows_of_a_data_frame_are_points():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"N": [20, 40], "gamma": [0.5, 1.5]})
    study = evs.Study(product, designs=evs.table("case", frame), axes={"seed": [1, 2]})
    assert study.axes == {"case": [0, 1], "seed": [1, 2]}
    with pytest.raises(InputError, match=r"`designs` must be made by evs\.zip_axes, evs\.sample or evs\.table"):
        evs.Study(product, designs=[{"name": "case"}])
