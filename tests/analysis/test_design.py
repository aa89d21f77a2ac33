"""The design of a study from its coordinates: axes, samples, common streams, planned runs and assumptions."""

import json

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.errors import InputError


def values(streams=None, **coords):
    array = xr.DataArray(np.ones((2, 3, 4)), dims=("n", "point", "seed"), name="error")
    array = array.assign_coords(n=[1, 2], seed=range(4), x=("point", [1, 2, 3]), y=("point", [3, 1, 2]), **coords)
    if streams is not None:
        array["seed"].attrs["streams"] = json.dumps({"common": streams})
    return array


def test_axes_samples_and_runs():
    design = evs.Design.of(values())
    (sample,) = design.samples
    assert (design.axes, sample.dim, sample.parameters, sample.rule) == (("n",), "point", ("x", "y"), "unstated")
    stated = values()
    text = json.dumps({"kind": "sample", "rule": "sobol", "parameters": {"x": {}}})
    stated["point"] = ("point", range(3), {"design": text})
    (sample,) = evs.Design.of(stated).samples
    assert (sample.rule, sample.parameters) == ("sobol", ("x",))


@pytest.mark.parametrize(
    ("stated", "common"),
    [("all", ("n", "point")), ("none", ()), (["n"], ("n",)), (["x", "y"], ("point",)), (["x"], ()),
     (None, ("n", "point"))],
)  # fmt: skip
def test_streams_are_common_along_dimensions_all_of_whose_parameters_are(stated, common):
    design = evs.Design.of(values(stated))
    assert (design.common, bool(design.stream_assumptions)) == (common, stated is None)


def test_common_may_be_given_instead():
    assert evs.Design.of(values("all"), common="none").is_fresh(["n", "point"])
    assert evs.Design.of(values(), common=["n"]).common == ("n",)
    with pytest.raises(InputError, match="seeds are common only along n"):
        evs.Design.of(values(), common="n").is_fresh(["n", "point"])


def test_planned_runs_and_runs_with_a_value():
    array = values()
    array[0, 0, 0] = np.nan
    assert "missing values count as failed runs" in evs.Design.of(array).note()
    for key, planned, note in (("", 23, ""), ("k", 24, "1 of 24 runs have no value")):
        keys = np.full(array.shape, "k", dtype=object)
        keys[0, 0, 0] = key
        design = evs.Design.of(array.assign_coords(run_key=(array.dims, keys)))
        assert (int(design.planned.sum()), design.note(streams=False)) == (planned, note)
    history = values().expand_dims(time=[0.0, 1.0])  # a dimension of the values is no axis of the runs
    design = evs.Design.of(history, planned=xr.DataArray(keys, dims=array.dims))
    assert (design.axes, design.ok.dims) == (("n",), array.dims)
