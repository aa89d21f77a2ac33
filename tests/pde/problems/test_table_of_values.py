"""A diffusion from a table of values in a file."""

import numpy as np
import pytest

import evogt_study as evs

STUDY = """
name = "table"
[problem]
dimension = {}
initial = "{}"
lifting = "{}"
diffusion = "{}"
domain = {{ lower = {}, upper = {} }}
[axes]
seed = [0]
[constants]
dictionary = "legendre"
N = 20
quadrature = 40
validation = 40
dt = 0.01
final_time = 0.1
[output]
times = 2
record = ["field"]
grid = 9
"""
CASES = {
    1: ("sin(pi*x) + 1 + x", "1 + x", "1 + x/2", "[-1]", "[1]"),
    2: ("sin(pi*x)*sin(pi*y) + x*cos(y)", "x*cos(y)*exp(-t)", "2 + x*y/3", "[0, -1]", "[1, 1]"),
}
"""Tables of functions that are linear in each direction are exact."""


def write_table(path, dimension, function, points=(3, 4)):
    axes = [np.linspace(-1.0, 1.0, n) for n in points[:dimension]]
    places = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    rows = np.random.default_rng(0).permutation([[*place, function(*place)] for place in places])
    header = ",".join([*"xyz"[:dimension], "value"])
    np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.17g")


@pytest.mark.parametrize("dimension", CASES)
def test_a_table_gives_what_its_formula_gives(tmp_path, dimension):
    initial, lifting, diffusion, lower, upper = CASES[dimension]
    write_table(tmp_path / "field.csv", dimension, lambda x, y=0.0: 1 + x / 2 if dimension == 1 else 2 + x * y / 3)
    texts = [STUDY.format(dimension, initial, lifting, each, lower, upper) for each in (diffusion, "field.csv")]
    path = tmp_path / "table.nc"
    (tmp_path / "table.toml").write_text(texts[1])
    study = evs.Study.from_file(tmp_path / "table.toml")
    known, data = evs.run(evs.Study.from_text(texts[0]), workers=0), evs.run(study, output=path, workers=0)
    np.testing.assert_allclose(data.field.values, known.field.values, rtol=1e-11, atol=1e-12)
    again = evs.Study.from_file(study.to_file(tmp_path / "written.toml"))
    assert evs.run(again, workers=0).run_key.values == data.run_key.values
    write_table(tmp_path / "field.csv", dimension, lambda *x: 1.0 + 0.1 * x[0])  # other content has another key
    assert evs.run(evs.Study.from_file(tmp_path / "table.toml"), workers=0).run_key.values != data.run_key.values
    with evs.open(path) as stored:
        np.testing.assert_array_equal(stored.field.values, data.field.values)


@pytest.mark.parametrize(("method", "more"), [("space_time_regression", ""), ("discrete_time_rfm", "dt = 0.05, ")])
def test_methods_that_differentiate_the_diffusion_refuse_a_table(tmp_path, method, more):
    write_table(tmp_path / "field.csv", 1, lambda x: 1.0 + x)
    text = f"""
name = "table"
method = "{method}"
problem = {{ dimension = 1, initial = "sin(pi*x)", diffusion = "field.csv" }}
axes = {{ seed = [0] }}
constants = {{ dictionary = "transnet", N = 8, gamma = 2, points = 9, {more}validation = 8, final_time = 0.1 }}
"""
    (tmp_path / "table.toml").write_text(text)
    with pytest.raises(evs.errors.StudyError, match="`diffusion` must be a formula"):
        evs.Study.from_file(tmp_path / "table.toml")
