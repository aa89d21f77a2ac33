"""Shares of a variance over labels."""

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.errors import InputError


def labelled(values, *dims, **coords):
    return xr.DataArray(values, dims=dims, coords=coords, name="error")


def test_shares_of_a_variance_name_their_sources():
    rng = np.random.default_rng(1)
    logs = np.array([0.0, 4.0])[:, None, None] + np.array([0.0, 1.0, 2.0])[:, None] + 0.5 * rng.normal(size=(2, 3, 200))
    values = labelled(np.exp(logs), "dictionary", "epsilon", "seed", dictionary=["a", "b"], epsilon=[1.0, 2.0, 3.0])
    found = evs.shares_of_variance(values)
    assert found["source"].values.tolist() == ["dictionary", "epsilon", "seed"]
    assert float(found["share"].sum()) == pytest.approx(1.0)
    np.testing.assert_allclose(found["component"], [8.0 - 1.0 / 3.0, 1.0, 0.25], rtol=0.15)
    assert (found["share_ci"][:, 0] < found["share"]).all()
    assert (found["share"] < found["share_ci"][:, 1]).all()
    by_dictionary = evs.shares_of_variance(values, ["epsilon"])
    assert by_dictionary["share"].dims == ("dictionary", "source")
    values[0, 0, 3] = np.nan
    assert (int(evs.shares_of_variance(values)["n_ok"]), int(found["n_planned"])) == (199, 200)
    with pytest.raises(InputError, match="`error` must be positive to have logarithms, it is not"):
        evs.shares_of_variance(-values)
    assert float(evs.shares_of_variance(values - 3.0, logarithms=False)["share"].sum()) == pytest.approx(1.0)


@pytest.mark.filterwarnings("error")
def test_infinite_values_have_no_shares():
    values = xr.DataArray(np.random.default_rng(0).lognormal(size=(2, 200)), dims=("N", "seed"), name="error")
    values[0, :7] = np.inf
    assert np.isnan(evs.shares_of_variance(values)["share"]).all()
