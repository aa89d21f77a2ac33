"""Fluxes and sources as Python functions."""

import numpy as np
import pytest

import evogt_study as evs
from evogt_study import pde

FILE = """
import numpy as np
from evogt_study import pde

def value(s, nodes, t, nu):
    (u, u_x), (v, v_x) = s
    return np.array([[u * (1 - v), nu * (1 + u**2) * u_x + v_x / 20], [-u * v_x, v_x / 10]])

def slope(s, nodes, t, nu):
    (u, u_x), (v, v_x) = s
    zero = 0 * u
    return np.array([
        [[[1 - v, zero], [-u, zero]], [[2 * nu * u * u_x, nu * (1 + u**2)], [zero, zero + 1 / 20]]],
        [[[-v_x, zero], [zero, -u]], [[zero, zero], [zero, zero + 1 / 10]]],
    ])

fields = {
    "u": pde.Field(initial="1 + x + sin(pi*x)", lifting="1 + x*cos(t)", source="x"),
    "v": pde.Field(initial="sin(2*pi*x)"),
}
problem = pde.FormulaProblem(dimension=1, fields=fields, terms=pde.FieldTerms(value, slope))
"""
FORMULAS = """
[problem.fields.u]
flux = ["nu*(1 + u**2)*u_x + v_x/20"]
reaction = "u*(1 - v)"
source = "x"
initial = "1 + x + sin(pi*x)"
lifting = "1 + x*cos(t)"
[problem.fields.v]
flux = ["v_x/10"]
reaction = "-u*v_x"
initial = "sin(2*pi*x)"
"""
REST = """
[axes]
seed = [0]
nu = [0.1, 0.2]
[constants]
dictionary = "legendre"
N = 12
quadrature = 30
validation = 30
dt = 0.01
final_time = 0.1
time_integrator = "radau_iia_2"
[output]
times = 2
record = ["field"]
"""


def computed(folder, file):
    (folder / "own.py").write_text(file)
    (folder / "own.toml").write_text('name = "own"\nproblem = "own.py:problem"\n' + REST)
    study = evs.Study.from_file(folder / "own.toml")
    return study, evs.run(study, output=folder / "own.nc", workers=0)


def test_functions_give_what_their_formulas_give(tmp_path):
    _, data = computed(tmp_path, FILE)
    text = 'name = "formulas"\n[problem]\ndimension = 1\n' + FORMULAS + REST
    known = evs.run(evs.Study.from_text(text), workers=0)
    for name in ("u", "v"):
        np.testing.assert_allclose(data[name].values, known[name].values, rtol=1e-11, atol=1e-12)
    assert (data.run_status == "ok").all()
    with evs.open(tmp_path / "own.nc") as stored:  # without the file
        np.testing.assert_array_equal(stored.u.values, data.u.values)
    (tmp_path / "other").mkdir()
    _, other = computed(
        tmp_path / "other", FILE.replace("return np.array([[u * (1 - v)", "return np.array([[u - u * v")
    )
    assert set(other.run_key.values.ravel()).isdisjoint(data.run_key.values.ravel())


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("[[2 * nu", "[[3 * nu", r"must be the derivative of `value`, got a difference at \[0, 1, 0, 0\]"),
        ("zero = 0 * u\n", "zero, u, u_x, v, v_x = 0, 1, 1, 1, 1\n", "`slope` of FieldTerms must return an array"),
        ("def slope(s, nodes, t, nu)", "def slope(s, nodes, t)", "`slope` must have the arguments of `value`"),
        ('"v": pde.Field(', '"v": pde.Field(("v_x",), ', "must have no `flux` and `reaction` beside `terms`"),
    ],
)
def test_mistakes_in_functions_are_named(tmp_path, wrong, right, message):
    with pytest.raises(evs.errors.EvogtError, match=message):
        computed(tmp_path, FILE.replace(wrong, right))


def test_a_study_in_python_needs_the_file():
    fields, terms = {"u": pde.Field(initial="0")}, pde.FieldTerms(lambda s, nodes, t: s, lambda s, nodes, t: s)
    problem = pde.FormulaProblem(dimension=1, fields=fields, terms=terms)
    with pytest.raises(evs.errors.InputError, match="needs a Python file"):
        evs.Study(problem=problem, axes={"seed": [0]}, name="own")
