"""Directions and estimands: declared in TOML and in Python, kept as attributes, followed by the pilot."""

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.study.study import Study


def accuracy(seed, model, rate=0.1):
    return {"accuracy": 0.5 + 0.1 * rate + 0.001 * seed + (0.2 if model == "net" else 0.0), "loss": 1.0 + rate}


AXES = {"model": ["tree", "net"], "seed": range(8)}
DECLARED = {"better": {"accuracy": "higher"}, "estimand": {"loss": "geometric_mean"}}
TOML = """
name = "declared"
method = "own.py:accuracy"
[axes]
model = ["tree", "net"]
seed = { count = 2 }
[output.better]
accuracy = "nearest 0.95"
[output.estimand]
accuracy = "mean"
"""


def test_a_study_in_python_keeps_them_as_attributes(tmp_path):
    ds = evs.run(Study(accuracy, axes=AXES, output=DECLARED), output=tmp_path / "a.nc")
    assert ds.accuracy.attrs["better"] == "higher"
    assert ds.loss.attrs["estimand"] == "geometric_mean"
    with evs.open(tmp_path / "a.nc") as opened:
        assert opened.accuracy.attrs["better"] == "higher"
        found = opened.evogt.compare("model", "accuracy")
    assert (found.leader.item(), found.attrs["better"]) == ("net", "higher")


def test_a_study_file_states_them_and_they_are_no_part_of_a_run(tmp_path):
    (tmp_path / "own.py").write_text("def accuracy(seed, model):\n    return {'accuracy': 0.5}\n")
    stated = Study.from_text(TOML, str(tmp_path / "a.toml"))
    assert stated.model.attributes == {"accuracy": {"better": "nearest 0.95", "estimand": "mean"}}
    bare = Study.from_text(TOML.partition("[output")[0], str(tmp_path / "a.toml"))
    ds = evs.run(stated)
    assert ds.accuracy.attrs["better"] == "nearest 0.95"
    xr.testing.assert_equal(evs.run(bare).run_key, ds.run_key)


@pytest.mark.parametrize(
    ("better", "rate"), [({}, 0.1), ({"accuracy": "higher"}, 0.9), ({"accuracy": "nearest 0.64"}, 0.5)]
)
def test_the_pilot_follows_the_direction(tmp_path, better, rate):
    pilot = {"parameter": "rate", "seeds": [90, 91], "minimise": "accuracy", "by": [], "candidates": [0.1, 0.5, 0.9]}
    axes = {"model": ["tree"], "seed": range(2)}
    ds = evs.run(Study(accuracy, axes=axes, pilot=pilot, output={"better": better}), output=tmp_path / "p.nc")
    assert float(np.ravel(ds.rate)[0]) == rate


def test_the_pde_methods_declare_the_geometric_mean_of_their_error():
    from evogt_study.pde.methods.declarations import RECORDED

    declared = {each.name: (each.better, each.estimand) for each in RECORDED}
    assert declared["error"] == ("lower", "geometric_mean")
    assert declared["rank"] == ("", "")
