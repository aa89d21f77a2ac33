"""The baselines as methods of a study: they run, give the numbers of their own functions, and know what they need."""

import os

import numpy as np
import pytest
from helpers import computed, keys, section

import evogt_study as evs
from evogt_study import pde
from evogt_study.pde.baselines.finite_difference import finite_differences
from evogt_study.pde.baselines.finite_elements import p1_fem
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.integrators import ImplicitMidpoint, StabilizedSemiImplicit
from evogt_study.pde.methods.declarations import VARIABLES
from evogt_study.pde.methods.space_time_regression import space_time_regression, strong_form
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.schema.variables import Status, status_codes
from evogt_study.study.plan import estimate_peak_memory, plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

# --- small studies ----------------------------------------------------------------------------------------------------

HEAT = {"dimension": "1", "exact": '"exp(-t)*sin(k*pi*x)"', "diffusion": '"1/10"'}
FLOW = {"dimension": "2", "initial": '"sin(pi*x)*sin(2*pi*y)/2"', "diffusion": '"1/50"', "potential": '"(u**2-1)**2/4"'}
STABILISED = {"time_integrator": '"stabilized_semi_implicit"', "stabilization": "2"}
AXES = {"k": "[1, 2]"}
P1 = {"unknowns": "9", "validation": "8", "final_time": "1", "dt": "0.25"}
FD = {"points": "9", "validation": "8", "final_time": "1", "dt": "0.25"}
ST = {
    "dictionary": '"transnet"', "seed": "3", "N": "6", "gamma": "2", "points": "9", "levels": "7",
    "validation": "8", "final_time": "1",
}  # fmt: skip
CONSTANTS = {"p1_fem": P1, "finite_difference": FD, "space_time_regression": ST}
METHODS = tuple(CONSTANTS)
RECORDED = '["error_history", "field"]'


def toml(method, constants=None, *, axes=AXES, problem=HEAT, output=None, extra="", name="tiny"):
    """A small study of a baseline; None takes an entry away."""
    return (
        f'name = "{name}"\nmethod = "{method}"\n'
        + section("axes", axes)
        + section("constants", {**CONSTANTS[method], **(constants or {})})
        + section("problem", problem)
        + (section("output", output) if output else "")
        + extra
    )


def relative(values, exact, weights):
    """The relative L2 error, from its definition."""
    return np.sqrt(np.sum(weights * (values - exact) ** 2, axis=-1) / np.sum(weights * exact**2, axis=-1))


# --- they run, on workers and into a file -----------------------------------------------------------------------------

SCALARS = {
    "p1_fem": {"error", "initial_error", "degrees_of_freedom"},
    "finite_difference": {"error", "initial_error", "degrees_of_freedom"},
    "space_time_regression": {"error", "initial_error", "scaled_condition"},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_study_of_a_baseline_becomes_a_labelled_file(client, tmp_path, method):
    text = toml(method, output={"times": "3", "record": RECORDED, "grid": "5"})
    (tmp_path / "tiny.toml").write_text(text)
    data = evs.run(Study.from_file(tmp_path / "tiny.toml"), client=client, output=tmp_path / "tiny.nc")
    assert sorted(os.listdir(tmp_path)) == ["tiny.nc", "tiny.toml"]
    assert (status_codes(data.run_status) == Status.ok).all()
    assert set(data.data_vars) >= SCALARS[method]
    for name in SCALARS[method]:
        assert data[name].dims == ("k",)
        assert data[name].notnull().all()
        assert data[name].attrs["long_name"] == VARIABLES[name].long_name
    assert data.error_history.dims == ("k", "time")
    assert data.field.dims == data.exact_field.dims == ("k", "time", "x")
    np.testing.assert_allclose(data.time, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(data.error_history.isel(time=-1), data.error)
    np.testing.assert_allclose(data.error_history.isel(time=0), data.initial_error, rtol=1e-12, atol=1e-15)
    exact = np.exp(-data.time) * np.sin(data.k * np.pi * data.x)
    np.testing.assert_allclose(data.exact_field, exact.transpose("k", "time", "x"), atol=1e-14)
    np.testing.assert_allclose(data.field.isel(x=[0, -1]), 0.0, atol=1e-14)


@pytest.mark.parametrize(("method", "name"), [*zip(METHODS, ("unknowns", "points", "points"), strict=True)])
def test_the_estimate_of_memory_grows_with_the_size(method, name):
    plans = [plan_study(Study.from_text(toml(method, {name: size})))[-1] for size in ("9", "90")]
    small, large = map(estimate_peak_memory, plans)
    assert 0.0 < 5.0 * small < large


# --- the numbers are those of the numerical function ------------------------------------------------------------------

LINE = UnitCube(1).quadrature(QuadratureRule("gauss_legendre", 8))
TIMES = np.array([0.0, 0.5, 1.0])


def heat(k):
    return pde.FormulaProblem(1, exact="exp(-t)*sin(k*pi*x)", diffusion="1/10")(k=k)


def heat_error(at_nodes, k, t):
    return relative(at_nodes, np.exp(-t) * np.sin(k * np.pi * LINE.nodes[:, 0]), LINE.weights)


@pytest.mark.parametrize("degree", [None, 4])
def test_p1_fem_gives_the_numbers_of_its_function(degree):
    output = {"times": "3", "record": '["error_history", "validation_values"]'}
    given = {} if degree is None else {"degree": str(degree)}
    status, _, found = computed(toml("p1_fem", given, output=output))
    assert status.tolist() == [Status.ok, Status.ok]
    for row, k in enumerate((1, 2)):
        at_nodes = p1_fem(heat(k), 9, TimeGrid.of(1.0, 0.25, 3), degree).evaluate(LINE.nodes)
        expected = [heat_error(values, k, t) for values, t in zip(at_nodes, TIMES, strict=True)]
        np.testing.assert_allclose(found["error_history"][row], expected, rtol=1e-13)
        np.testing.assert_allclose(found["error"][row], expected[-1], rtol=1e-13)
        np.testing.assert_allclose(found["initial_error"][row], expected[0], rtol=1e-13)
        np.testing.assert_allclose(found["validation_values"][row], at_nodes[-1], rtol=1e-13)
        np.testing.assert_allclose(found["weight"][row], LINE.weights)
        assert found["degrees_of_freedom"][row] == 9


@pytest.mark.parametrize("stabilization", [None, 0.0, 3.0])
def test_finite_differences_give_the_numbers_of_their_function(stabilization):
    integrator, given = ImplicitMidpoint(), {}
    if stabilization is not None:
        integrator = StabilizedSemiImplicit(stabilization)
        given = {"time_integrator": '"stabilized_semi_implicit"', "stabilization": str(stabilization)}
    _, _, found = computed(toml("finite_difference", given, output={"times": "3", "record": '["error_history"]'}))
    for row, k in enumerate((1, 2)):
        at_nodes = finite_differences(heat(k), 9, TimeGrid.of(1.0, 0.25, 3), integrator).evaluate(LINE.nodes)
        expected = [heat_error(values, k, t) for values, t in zip(at_nodes, TIMES, strict=True)]
        np.testing.assert_allclose(found["error_history"][row], expected, rtol=1e-13)
    assert found["degrees_of_freedom"].tolist() == [9, 9]
    assert "energy_increment" not in found


def test_finite_differences_of_a_gradient_flow_give_its_energies():
    output = {"times": "3", "record": '["free_energy_history", "validation_values"]'}
    text = toml("finite_difference", STABILISED, axes={"points": "[9]"}, problem=FLOW, output=output)
    status, _, found = computed(text.replace("points = 9\n", ""))
    assert status.tolist() == [Status.ok]
    problem = pde.FormulaProblem(
        2, initial="sin(pi*x)*sin(2*pi*y)/2", diffusion="1/50", potential="(u**2-1)**2/4"
    )()  # fmt: skip
    grid = TimeGrid.of(1.0, 0.25, 3)
    solution = finite_differences(problem, 9, grid, StabilizedSemiImplicit(2.0))
    energies = solution.energies
    assert len(energies) == 5
    np.testing.assert_allclose(found["free_energy_history"][0], energies[[0, 2, 4]], rtol=1e-13)
    np.testing.assert_allclose(found["energy_drop_percent"][0], 100 * (1 - energies[-1] / energies[0]), rtol=1e-10)
    np.testing.assert_allclose(found["energy_increment"][0], np.diff(energies).max(), rtol=1e-10)
    assert found["energy_increment"][0] < 0.0 < found["energy_drop_percent"][0]
    nodes = UnitCube(2).quadrature(QuadratureRule("gauss_legendre", 8)).nodes
    np.testing.assert_allclose(found["validation_values"][0], solution.evaluate(nodes)[-1], rtol=1e-13)
    assert "error" not in found  # nothing to measure against
    assert found["initial_error"][0] < 0.05


@pytest.mark.parametrize(
    ("given", "dictionary"),
    [
        ({}, Dictionary("transnet", 6, 2.0, centre=0.5)),
        (
            {"dictionary": '"gtransnet"', "N1": "8", "delta": "0.25", "radius": "0.9"},
            Dictionary("gtransnet", 6, 2.0, N1=8, delta=0.25, radius=0.9, centre=0.5),
        ),
    ],
)
@pytest.mark.parametrize("ridge", [None, 0.0, 1e-4])
def test_space_time_regression_gives_the_numbers_of_its_function(given, dictionary, ridge):
    more = {} if ridge is None else {"ridge": str(ridge)}
    output = {"times": "3", "record": '["error_history"]'}
    _, _, found = computed(toml("space_time_regression", {**given, **more}, output=output))
    statement = pde.FormulaProblem(1, exact="exp(-t)*sin(k*pi*x)", diffusion="1/10")
    for row, k in enumerate((1, 2)):
        strong, rho = strong_form(statement, {"k": k}), 1e-10 if ridge is None else ridge
        solution = space_time_regression(strong, dictionary, 3, 1.0, points=9, levels=7, ridge=rho)
        at_nodes = solution.evaluate(LINE.nodes, TIMES)
        expected = [heat_error(values, k, t) for values, t in zip(at_nodes, TIMES, strict=True)]
        np.testing.assert_allclose(found["error_history"][row][1:], expected[1:], rtol=1e-9)
        assert found["error_history"][row][0] < 1e-14  # the ansatz has the initial value exactly
        np.testing.assert_allclose(found["scaled_condition"][row], solution.condition, rtol=1e-9)


def test_a_factorys_problem_is_solved_as_the_same_formulas_are(tmp_path):
    (tmp_path / "own.py").write_text(
        "from evogt_study.pde import FormulaProblem\n"
        "def heat(k):\n"
        "    return FormulaProblem(1, exact='exp(-t)*sin(k*pi*x)', diffusion='1/10')(k=k)\n"
    )
    for method in ("p1_fem", "finite_difference"):
        text = toml(method, problem={}).replace("[problem]\n", "")
        text = text.replace("[axes]", 'problem = "own.py:heat"\n[axes]')
        plan = plan_study(Study.from_text(text, str(tmp_path / "tiny.toml")))[-1]
        records = compute_here(Batch.of(plan.spec, sorted(plan.cases(), key=lambda case: case.index)))
        errors = {stack.name: stack.values for stack in records.stacks}["error"]
        np.testing.assert_array_equal(errors, computed(toml(method))[2]["error"])


# --- what identifies a case -------------------------------------------------------------------------------------------

GTRANSNET = {"dictionary": '"gtransnet"', "N1": "8"}
SAME = {
    "stabilization of the midpoint rule": (
        toml("finite_difference"), toml("finite_difference", {"stabilization": "3"}),
    ),
    "the integrator by default": (
        toml("finite_difference"),
        toml("finite_difference", {"time_integrator": '"implicit_midpoint"'}),
    ),
    "N1 of transnet": (toml("space_time_regression"), toml("space_time_regression", {"N1": "99"})),
    "the defaults of the regression": (
        toml("space_time_regression", {"points": None, "levels": None}),
        toml("space_time_regression", {"points": "68", "levels": "69", "ridge": "1e-10", "centre": "0.5"}),
    ),
    "a rule by its points or as a table": (
        toml("p1_fem"),
        toml("p1_fem", {"validation": '{ rule = "gauss_legendre", points = 8 }'}),
    ),
    **{
        f"{what} of {method}": (toml(method, output=one), toml(method, output=other))
        for method in METHODS
        for what, one, other in (
            ("times where nothing is recorded", {"times": "3"}, None),
            ("the grid where there is no field", {"record": '["error_history"]', "grid": "9"},
             {"record": '["error_history"]'}),
            ("the order of what is recorded", {"record": '["error_history", "field"]'},
             {"record": '["field", "error_history", "field"]'}),
            ("times counted or listed", {"record": '["error_history"]', "times": "3"},
             {"record": '["error_history"]', "times": "[0, 0.5, 1]"}),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_same_computation_has_the_same_keys(name):
    first, second = SAME[name]
    assert keys(first) == keys(second)
    assert len(set(keys(first))) == 2


OTHER = {
    "p1_fem": {
        "unknowns": toml("p1_fem", {"unknowns": "8"}),
        "degree": toml("p1_fem", {"degree": "9"}),
    },
    "finite_difference": {
        "points": toml("finite_difference", {"points": "8"}),
        "integrator": toml("finite_difference", STABILISED),
        "stabilization": toml("finite_difference", {**STABILISED, "stabilization": "0"}),
    },
    "space_time_regression": {
        **{
            name: toml("space_time_regression", {name: value})
            for name, value in {
                "points": "8", "levels": "8", "ridge": "1e-9", "seed": "4", "N": "7", "gamma": "3",
                "centre": "0.45", "radius": "0.75", "dictionary": '"uniform_elm"',
            }.items()
        },
        "gtransnet": toml("space_time_regression", GTRANSNET),
        "N1": toml("space_time_regression", {**GTRANSNET, "N1": "9"}),
        "delta": toml("space_time_regression", {**GTRANSNET, "delta": "0.75"}),
    },
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_every_parameter_that_matters_changes_the_key(method):
    texts = {
        "base": toml(method),
        "validation": toml(method, {"validation": "9"}),
        "final_time": toml(method, {"final_time": "2"}),
        "solution": toml(method, problem={**HEAT, "exact": '"exp(-2*t)*sin(k*pi*x)"'}),
        "diffusion": toml(method, problem={**HEAT, "diffusion": '"1/20"'}),
        "record": toml(method, output={"record": '["error_history"]'}),
        "times": toml(method, output={"record": '["error_history"]', "times": "3"}),
        "field": toml(method, output={"record": '["field"]'}),
        "grid": toml(method, output={"record": '["field"]', "grid": "9"}),
        **({} if method == "space_time_regression" else {"dt": toml(method, {"dt": "0.5"})}),
        **OTHER[method],
    }
    owners = {}
    for name, text in texts.items():
        for key in keys(text):
            owners.setdefault(key, []).append(name)
    assert [names for names in owners.values() if len(names) > 1] == []


def test_methods_do_not_share_keys():
    assert len({key for method in METHODS for key in keys(toml(method))}) == 2 * len(METHODS)


# --- mistakes ---------------------------------------------------------------------------------------------------------

LIFTED = {"dimension": "1", "exact": '"exp(-t)*sin(k*pi*x) + x"', "lifting": '"x"'}
POTENTIAL = {"dimension": "1", "initial": '"sin(k*pi*x)"', "potential": '"(u**2-1)**2/4"'}
INITIAL = {"dimension": "1", "initial": '"sin(k*pi*x)"'}
BOX = {"dimension": "3", "exact": '"exp(-t)*sin(k*pi*x)*sin(pi*y)*sin(pi*z)"'}


def no(method, name):
    return toml(method, {name: None}), [f"`{name}` must be given", f"constants.{name}", "got no value"]


BAD = {
    # parameters
    "p1_fem: no validation": no("p1_fem", "validation"),
    "p1_fem: too many unknowns": (
        toml("p1_fem", {"unknowns": "1_000_000_000"}),
        ["`unknowns` must be so few", "got 1000000000", "constants.unknowns", "Use fewer unknowns"],
    ),
    "p1_fem: degree beyond what there is": (
        toml("p1_fem", {"degree": "128"}),
        ["`degree` must be an integer from 2", "to 127", "got 128", "constants.degree"],
    ),
    "p1_fem: a validation rule too large": (
        toml("p1_fem", {"validation": "4000"}, problem=BOX), ["`validation` must be", "constants.validation"],
    ),
    "finite_difference: too many points": (
        toml("finite_difference", {"points": "4_000_001"}),
        ["`points` must be such that the grid has", "at most 4,000,000 points", "'4000001^1'", "constants.points"],
    ),
    "space_time_regression: no seed": no("space_time_regression", "seed"),
    "space_time_regression: a centre without the direction of time": (
        toml("space_time_regression", {"centre": "[0.5]"}), ["`centre` must be", "got (0.5,)", "constants.centre"],
    ),
    "space_time_regression: gamma for other neurons": (
        toml("space_time_regression", {"gamma": "[1, 2]"}), ["`gamma` must be", "got '2 numbers'", "constants.gamma"],
    ),
    # problems
    "finite_difference: variable diffusion": (
        toml("finite_difference", problem={**HEAT, "diffusion": '"1 + x"'}),
        ["constant positive `diffusion`", "got values from 1.", "problem"],
    ),
    "finite_difference: a lifting": (
        toml("finite_difference", problem=LIFTED), ["zero boundary values", "got a problem with a lifting"],
    ),
    "space_time_regression: three dimensions": (
        toml("space_time_regression", problem=BOX), ["one or two dimensions", "got 3", "problem"],
    ),
    "space_time_regression: a problem beyond the file": (
        toml("space_time_regression", problem={}).replace("[problem]\n", "").replace(
            "[axes]", 'problem = "own.py:heat"\n[axes]'),
        ["space_time_regression must have a problem in formulas", "got own.py:heat"],
    ),
    **{
        f"space_time_regression: {extra}": (
            toml("space_time_regression", problem=problem),
            ["space_time_regression must have a linear problem", f"a {extra}"],
        )
        for extra, problem in (("lifting", LIFTED), ("potential", POTENTIAL))
    },
    "p1_fem: potential": (toml("p1_fem", problem=POTENTIAL), ["p1_fem must have a problem without `potential`"]),
    # outputs
    "space_time_regression: record validation values": (
        toml("space_time_regression", output={"record": '["validation_values"]'}),
        ["`record` must be made of error_history, field", "got 'validation_values'"],
    ),
    **{
        f"{method}: errors of nothing known": (
            toml(method, problem=INITIAL, output={"record": '["error_history"]'}),
            ["`exact` must be known", "error_history", "a problem without it"],
        )
        for method in METHODS
    },
    "no problem": (
        toml("p1_fem", problem={}).replace("[problem]\n", ""), ["`problem` must be given for the method p1_fem"],
    ),
}  # fmt: skip


OWN = "from evogt_study.pde import FormulaProblem\ndef heat(k):\n    return FormulaProblem(1, {})(k=k)\n"


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_costs_one_line_and_exit_code_two(tmp_path, refused, name):
    text, fragments = BAD[name]
    (tmp_path / "own.py").write_text(OWN.format("exact='exp(-t)*sin(k*pi*x)'"))
    refused(text, *fragments)


def test_a_factorys_potential_is_refused_by_p1_fem_when_read(tmp_path, refused):
    (tmp_path / "own.py").write_text(OWN.format("initial='sin(k*pi*x)', potential='u**2'"))
    text = toml("p1_fem", problem={}).replace("[problem]\n", "").replace("[axes]", 'problem = "own.py:heat"\n[axes]')
    refused(text, "p1_fem must have a problem without `potential`")
