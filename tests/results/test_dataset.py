"""What a result says that its variables and coordinates are: of a function of one's own no more than it says itself."""

import numpy as np
import pytest
import xarray as xr
from helpers import read_study, rewritten

import evogt_study as evs
from evogt_study import pde
from evogt_study.operations.verify import verify
from evogt_study.pde.methods.declarations import VARIABLES
from evogt_study.results.netcdf import find_invalid_metadata
from evogt_study.study.study import Study

OWN = """
    import xarray as xr
    def method(level, seed):
        kinds = xr.DataArray(["a", "b"], dims="kind", coords={"kind": ["u", "v"]})
        return {"error": 0.5, "word": "fine", "words": kinds, "path": ("time", [1.0, 2.0, 3.0])}
"""
AXES = "[axes]\nlevel = [1, 2]\nseed = [0]"


@pytest.fixture
def own_result(own_study, result_of, tmp_path):
    return result_of(own_study(OWN, AXES), tmp_path / "own.nc")


def test_words_of_ones_own_have_no_units_and_numbers_have(own_result):
    data = read_study(own_result)
    assert data["error"].attrs["units"] == data["path"].attrs["units"] == "1"
    for name in ("word", "words", "kind"):
        assert "units" not in data[name].attrs
        assert data[name].attrs["long_name"] == name
    assert verify(own_result).well


def test_a_dimension_of_ones_own_is_an_index_whatever_its_name(own_result):
    time = read_study(own_result)["time"]
    assert time.values.tolist() == [0, 1, 2]
    assert time.attrs == {"long_name": "index of time"}


def test_a_result_taken_up_again_has_the_words_of_now(small_study, result_of, tmp_path):
    path = result_of(Study.from_text(small_study), tmp_path / "small.nc")

    def older(data):
        data["norm_history"].attrs["comment"] = data["x"].attrs["long_name"] = "as it was said before"

    rewritten(path, older)
    assert not verify(path).well
    data = evs.run(Study.from_text(small_study), output=path)
    assert data["norm_history"].attrs == VARIABLES["norm_history"].attributes
    assert data["x"].attrs["long_name"] == "coordinate x"
    assert verify(path).well


LIFTED = """name = "lifted"
[problem]
dimension = 1
exact = "exp(-t)*sin(pi*x) + x"
diffusion = "1 + x/2"
lifting = "x"
[axes]
seed = [0]
[constants]
dictionary = "transnet"
N = 24
gamma = 2
quadrature = 60
validation = 60
final_time = 0.1
dt = 0.01
[output]
record = ["norm_history", "energy_history", "coefficients"]
"""


def test_with_a_lifting_what_is_said_of_norm_and_energy_is_what_they_are(result_of, tmp_path):
    """||alpha||_2 and alpha^T K alpha are the norm and the energy of the retained part alone."""
    data = read_study(result_of(Study.from_text(LIFTED), tmp_path / "lifted.nc")).isel(seed=0)
    exact = np.sqrt(0.5 + 2.0 / np.pi + 1.0 / 3.0)  # of sin(pi x) + x, in L2(0, 1)
    assert data["norm_history"].values[0] == pytest.approx(exact, rel=1e-4)
    assert np.linalg.norm(data["coefficients"].values[0]) != pytest.approx(exact, rel=0.1)
    for name, of_the_retained_part in (("norm_history", "||alpha(t)||_2"), ("energy_history", "alpha^T K(t) alpha")):
        said = data[name].attrs
        assert f"without a lifting {of_the_retained_part}" in said["comment"]
        assert "alpha" not in said["long_name"]


@pytest.mark.parametrize(
    ("dimension", "method", "radius"), [(1, "evolution", 0.8), (3, "evolution", 0.9), (2, "space_time_regression", 0.9)]
)
def test_the_default_radius_is_a_coordinate(dimension, method, radius):
    exact = "exp(-t)*" + "*".join(f"sin(pi*{name})" for name in "xyz"[:dimension])
    text = LIFTED.replace("dimension = 1", f"dimension = {dimension}").replace("exp(-t)*sin(pi*x) + x", exact)
    text = text.replace('lifting = "x"\n', "").split("[output]")[0]
    if method != "evolution":
        text = f'method = "{method}"\n' + text.replace("dt = 0.01\n", "").replace("quadrature = 60\n", "")
    study = Study.from_text(text)
    assert study.space.constants["radius"] == radius
    given = Study.from_text(text.replace("gamma = 2", f"gamma = 2\nradius = {radius}"))
    assert _identity(study) == _identity(given)
    assert _identity(study) != _identity(Study.from_text(text.replace("gamma = 2", "gamma = 2\nradius = 1.5")))


def _identity(study):
    return study.method.bind(study.space.values(0)).key


def test_a_run_and_a_study_say_the_same_of_their_parameters(small_study, result_of, tmp_path):
    study = Study.from_text(small_study)
    data = read_study(result_of(study, tmp_path / "small.nc"))
    one = pde.solve(
        study.spec.problem(k=1), pde.Dictionary("gtransnet", N=12, N1=24, gamma=2), 0,
        quadrature=40, validation=60, dt=0.01, final_time=0.1,
    )  # fmt: skip
    lacking = {"hidden", "feature"}  # of a study that gives N1 and records no singular values
    assert "k" in one.coords
    assert "radius" in data.coords
    for name in set(one.coords) - lacking:
        assert one[name].attrs == data[name].attrs, name
    assert xr.testing.assert_identical(one["radius"].variable, data["radius"].variable) is None


def test_a_label_that_is_not_finite_is_damage():
    data = evs.run(evs.Study(lambda a: a, axes={"a": [0.5, 1.0]}))
    assert list(find_invalid_metadata(data)) == []
    assert list(find_invalid_metadata(data.assign_coords(a=[0.5, np.nan]))) == ["`a` must have finite values, got nan"]
