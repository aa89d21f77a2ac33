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
    assert design.axes == ("n",)
    (sample,) = design.samples
    assert (sample.dim, sample.parameters, sample.rule) == ("point", ("x", "y"), "unstated")
    stated = values()
    stated["point"] = (
        "point",
        range(3),
        {"design": json.dumps({"kind": "sample", "rule": "sobol", "parameters": {"x": {}}})},
    )
    assert evs.Design.of(stated).samples[0].rule == "sobol"
    assert evs.Design.of(stated).samples[0].parameters == ("x",)


@pytest.mark.parametrize(
    ("stated", "common"),
    [
        ("all", ("n", "point")),
        ("none", ()),
        (["n"], ("n",)),
        (["x", "y"], ("point",)),
        (["x"], ()),
        (None, ("n", "point")),
    ],
)
def test_streams_are_common_along_dimensions_all_of_whose_parameters_are(stated, common):
    design = evs.Design.of(values(stated))
    assert design.common == common
    assert bool(design.stream_assumptions) == (stated is None)


def test_common_may_be_given_instead():
    assert evs.Design.of(values("all"), common="none").common == ()
    assert evs.Design.of(values(), common=["n"]).common == ("n",)
    with pytest.raises(InputError, match="`common` must be all, none, or of n, point, got N"):
        evs.Design.of(values(), common="N")
    assert evs.Design.of(values(), common="none").is_fresh(["n", "point"])
    with pytest.raises(InputError, match="seeds are common along n only"):
        evs.Design.of(values(), common="n").is_fresh(["n", "point"])


def test_planned_runs_and_runs_with_a_value():
    array = values().astype(float)
    array[0, 0, 0] = np.nan
    assert "missing values count as failed runs" in evs.Design.of(array).note()
    keys = np.full(array.shape, "k", dtype=object)
    keys[0, 0, 0] = ""
    planned = evs.Design.of(array.assign_coords(run_key=(array.dims, keys)))
    assert int(planned.planned.sum()) == 23
    assert planned.note(streams=False) == ""
    keys[0, 0, 0] = "k"
    assert (
        evs.Design.of(array.assign_coords(run_key=(array.dims, keys))).note(streams=False)
        == "1 of 24 runs have no value"
    )
    with pytest.raises(InputError, match="`values` must be a DataArray, got a Dataset"):
        evs.Design.of(array.to_dataset())


def test_a_dimension_of_the_values_is_no_axis_of_the_runs():
    history = values().expand_dims(time=[0.0, 1.0])
    keys = xr.DataArray(np.full((2, 3, 4), "k", dtype=object), dims=("n", "point", "seed"))
    assert evs.Design.of(history, planned=keys).axes == ("n",)
    assert evs.Design.of(history, planned=keys).ok.dims == ("n", "point", "seed")
