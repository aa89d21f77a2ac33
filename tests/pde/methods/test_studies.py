"""Studies of each method of the wing give the numbers of its functions; their keys, and runs that blow up.

Mistakes in such studies are in `tests/study/refusals.toml`.
"""

from collections import Counter

import numpy as np
import pytest
from helpers import computed, keys, study_text

import evogt_study as evs
from evogt_study import pde
from evogt_study.errors import StudyError
from evogt_study.pde.baselines.finite_difference import solve_differences
from evogt_study.pde.baselines.finite_elements import p1_fem
from evogt_study.pde.domains import Mesh, UnitCube
from evogt_study.pde.galerkin.validation import CoefficientReference
from evogt_study.pde.integrators import INTEGRATORS, ImplicitMidpoint, StabilizedSemiImplicit
from evogt_study.pde.methods.declarations import VARIABLES
from evogt_study.pde.methods.space_time_regression import derive_strong_form, space_time_regression
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.schema.variables import Status
from evogt_study.study.plan import estimate_peak_memory, plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import BoundedStageCache

HEAT = {"dimension": 1, "exact": "exp(-t)*sin(k*pi*x)", "diffusion": "1/10"}
FEATURES = {"dictionary": "transnet", "N": 10, "gamma": 3.0}
RUN = {"quadrature": 24, "validation": 16, "final_time": 1.0, "dt": 0.125}
METHODS = {
    "evolution": {**FEATURES, **RUN, "seed": 0},
    "p1_fem": {"unknowns": 9, "validation": 8, "final_time": 1.0, "dt": 0.25},
    "finite_difference": {"points": 9, "validation": 8, "final_time": 1.0, "dt": 0.25},
    "space_time_regression": {
        "dictionary": "transnet", "seed": 3, "N": 6, "gamma": 2.0, "points": 9, "levels": 7, "validation": 8,
        "final_time": 1.0,
    },
}  # fmt: skip
"""Constants of a small study of each method."""
STABILISED = {"time_integrator": "stabilized_semi_implicit", "stabilization": 2.0}
DIFFERENCES = {"reference": "finite_difference", "reference_points": 31}
EIGEN, DOP853 = {"coefficient_reference": "eigendecomposition"}, {"coefficient_reference": "dop853"}
LOOSE = {"coefficient_rtol": 1e-3, "coefficient_atol": 1e-3, "coefficient_max_step": 0.5}


def text(method="evolution", constants=(), *, problem=HEAT, axes=None, output=None, extra=""):
    """A small study of a method with other constants."""
    given = METHODS[method] | dict(constants)
    return study_text(problem, given, axes or {"k": [1, 2]}, output, method, extra)


# --- numbers ----------------------------------------------------------------------------------------------------------

WAVE = {"dimension": 1, "exact": "exp(-t)*sin(pi*x)", "diffusion": "1/10"}
INITIAL = {"dimension": 1, "initial": "sin(pi*x)", "diffusion": "1/10"}
FLOW = {"dimension": 1, "initial": "sin(2*pi*x)/2", "diffusion": "1/50", "potential": "(u**2-1)**2/4"}
LIFTED = {"dimension": 1, "exact": "exp(-t)*sin(pi*x) + x*cos(t)", "diffusion": "1/10", "lifting": "x*cos(t)"}
FRONT = WAVE | {"reaction": "u*(1 - u)"}
TRANSPORT = WAVE | {"advection": ["1 + x"], "reaction": "-x*u"}
ROLL = {"dimension": 1, "exact": "exp(-t)*sin(2*pi*(x-t))+1/2", "advection": ["1"], "boundary": {"x": "periodic"}}
CHANNEL = {
    "dimension": 2, "domain": {"lower": [1, 0], "upper": [2, 0.5]}, "diffusion": ["1", "2"],
    "exact": "exp(-t)*sin(pi*(x-1))*cos(2*pi*y)", "boundary": {"y0": {"flux": "0"}, "y1": {"flux": "0"}},
}  # fmt: skip
PLATE = {"dimension": 2, "exact": "exp(-t)*x*y*(1-x-y)", "domain": {"polygon": [[0, 0], [1, 0], [0, 1]]}}
DISK = {"dimension": 2, "exact": "exp(-t)*(1-x**2-y**2)", "domain": {"disk": {"centre": [0, 0], "radius": 1}}}
TRIANGLES = {"rule": "triangles", "refinements": 2, "degree": 8}
ON_TRIANGLES = {"quadrature": TRIANGLES, "validation": TRIANGLES}
NORMS = ["error_h1", "error_max", "error_absolute", "error_max_over_time"]
# problem, options, variables that are recorded, largest error
CASES = {
    "the midpoint rule": (WAVE, {}, ["error_history", "energy_history", "norm_history", "singular_values"], 2e-3),
    "other norms": (WAVE, {}, NORMS, 2e-3),
    "the stabilised step": (WAVE, STABILISED, ["error_history"], 0.3),
    "the Euler step": (WAVE, STABILISED | {"stabilization": 0.0}, ["error_history"], 0.1),
    "adaptive steps": (WAVE, {"time_integrator": "adaptive_radau", "rtol": 1e-8, "atol": 1e-10}, [], 1e-3),
    "a start": (WAVE, {"time_integrator": "trapezoidal", "start": {"implicit_euler_half_steps": 2}}, [], 5e-3),
    "a gradient flow": (FLOW, STABILISED | DIFFERENCES | {"reference_dt": 0.0625}, ["free_energy_history"], 5e-3),
    "elements as a reference": (INITIAL, {"reference": "finite_elements", "reference_points": 60}, [], 2e-3),
    "a refined reference": (INITIAL, {"reference": "refined"}, [], 2e-3),
    "another grid": (WAVE, {"assessment": 30}, [], 2e-3),
    "eigendecomposition": (INITIAL, EIGEN, ["reference_coefficients"], None),
    "dop853": (INITIAL, DOP853, ["reference_coefficients"], None),
    "loose dop853": (INITIAL, DOP853 | LOOSE, ["reference_coefficients"], None),
    "a lifting": (LIFTED, {}, ["error_history", "field"], 2e-3),
    "advection": (TRANSPORT, {}, ["field"], 5e-3),
    "a reaction": (FRONT, {"time_integrator": "imex_bdf_2"}, [], 0.02),
    "a periodic direction": (ROLL, {"quadrature": 80, "time_integrator": "gauss_2"}, ["error_history"], 0.01),
    "a channel": (CHANNEL, {}, ["error_history"], 0.1),
    "a polygon": (PLATE, ON_TRIANGLES, ["field"], 0.1),
    "a disk": (DISK, ON_TRIANGLES, ["field"], 0.01),
}  # fmt: skip


def solve(problem, options, seed, **more):
    """The run of a study by the function, whose integrators and references are objects if they have tolerances."""
    given = dict(options)
    tolerances = {name.removeprefix("coefficient_"): given.pop(name) for name in LOOSE if name in given}
    if tolerances:
        given["coefficient_reference"] = CoefficientReference(given["coefficient_reference"], **tolerances)
    if "rtol" in given:
        kind = INTEGRATORS[given["time_integrator"]]
        given["time_integrator"] = kind(rtol=given.pop("rtol"), atol=given.pop("atol"))
    features = pde.Dictionary(FEATURES["dictionary"], FEATURES["N"], FEATURES["gamma"])
    return pde.solve(pde.FormulaProblem(**problem)(), features, seed, certificates=False, **given, **more)


@pytest.mark.parametrize("name", CASES)
def test_a_study_gives_the_numbers_of_solve(name):
    problem, options, record, bound = CASES[name]
    options = RUN | options
    output = {"times": 3, "record": record, "grid": 5}
    status, messages, found = computed(study_text(problem, FEATURES | options, {"seed": [0, 1]}, output))
    assert status.tolist() == [Status.ok] * 2, messages
    for seed in (0, 1):
        norms = [each for each in record if each in NORMS]
        one = solve(problem, options, seed, norms=norms, times=3, field=5 if "field" in record else None)
        scalars = {each for each, data in one.data_vars.items() if not data.dims and not each.endswith("_seconds")}
        assert found.keys() >= scalars | set(record)
        for variable in scalars | set(record):
            values = one[variable].values
            same = found[variable][seed][tuple(slice(0, n) for n in values.shape)]  # of the largest rank
            np.testing.assert_allclose(same, values, rtol=1e-12, atol=1e-14, err_msg=variable)
    if bound is not None:
        assert (found["error"] < bound).all()
        assert found["error"][0] != found["error"][1]


LINE = UnitCube(1).quadrature(QuadratureRule("gauss_legendre", 8))
TIMES = np.array([0.0, 0.5, 1.0])
GRID = TimeGrid.from_step(1.0, 0.25, 3)
WIDE = {"dictionary": "gtransnet", "N1": 8, "delta": 0.25, "radius": 0.9}
STATEMENT = pde.FormulaProblem(**HEAT)


def regression(dictionary, ridge=1e-10):
    def solution(k):
        return space_time_regression(
            derive_strong_form(STATEMENT, {"k": k}), dictionary, 3, 1.0, points=9, levels=7, ridge=ridge
        )

    return lambda k: solution(k).evaluate(LINE.nodes, TIMES)


def differences(integrator):
    return lambda k: solve_differences(STATEMENT(k=k), 9, GRID, integrator).evaluate(LINE.nodes)


PLAIN = pde.Dictionary("transnet", 6, 2.0, centre=0.5)
BASELINES = {
    "elements": ("p1_fem", {}, lambda k: p1_fem(STATEMENT(k=k), 9, GRID, None).evaluate(LINE.nodes)),
    "a degree": ("p1_fem", {"degree": 4}, lambda k: p1_fem(STATEMENT(k=k), 9, GRID, 4).evaluate(LINE.nodes)),
    "differences": ("finite_difference", {}, differences(ImplicitMidpoint())),
    "Euler": ("finite_difference", STABILISED | {"stabilization": 0.0}, differences(StabilizedSemiImplicit(0.0))),
    "stabilised": ("finite_difference", STABILISED, differences(StabilizedSemiImplicit(2.0))),
    "regression": ("space_time_regression", {}, regression(PLAIN)),
    "without a ridge": ("space_time_regression", {"ridge": 0.0}, regression(PLAIN, 0.0)),
    "layers": (
        "space_time_regression", WIDE | {"ridge": 1e-4},
        regression(pde.Dictionary("gtransnet", 6, 2.0, N1=8, delta=0.25, radius=0.9, centre=0.5), 1e-4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_gives_the_numbers_of_its_function(name):
    method, given, function = BASELINES[name]
    fitted = method == "space_time_regression"
    record = ["error_history"] if fitted else ["error_history", "validation_values"]
    found, close = computed(text(method, given, output={"times": 3, "record": record}))[2], {"atol": 1e-14}
    close["rtol"] = 1e-9 if fitted else 1e-13
    for row, k in enumerate((1, 2)):
        values = function(k)
        exact = np.exp(-TIMES)[:, None] * np.sin(k * np.pi * LINE.nodes[:, 0])
        errors = np.sqrt((values - exact) ** 2 @ LINE.weights / (exact**2 @ LINE.weights))
        np.testing.assert_allclose(found["error_history"][row], errors, **close)
        np.testing.assert_allclose([found["initial_error"][row], found["error"][row]], errors[[0, -1]], **close)
        if not fitted:
            np.testing.assert_allclose(found["validation_values"][row], values[-1], **close)
            assert found["degrees_of_freedom"][row] == 9


@pytest.mark.parametrize("method", [method for method in METHODS if method != "evolution"])
def test_a_study_of_a_baseline_becomes_a_labelled_file(tmp_path, method):
    study = Study.from_text(text(method, output={"times": 3, "record": ["error_history", "field"], "grid": 5}))
    data = evs.run(study, workers=0, output=tmp_path / "tiny.nc")
    assert (data.run_status == "ok").all()
    for name in ("error", "initial_error", "scaled_condition" if "regression" in method else "degrees_of_freedom"):
        assert (data[name].dims, data[name].attrs["long_name"]) == (("k",), VARIABLES[name].long_name)
    assert data.field.dims == data.exact_field.dims == ("k", "time", "x")
    np.testing.assert_allclose(data.time, TIMES)
    exact = np.exp(-data.time) * np.sin(data.k * np.pi * data.x)
    np.testing.assert_allclose(data.exact_field, exact.transpose("k", "time", "x"), atol=1e-14)
    np.testing.assert_allclose(data.field.isel(x=[0, -1]), 0.0, atol=1e-14)


def test_finite_differences_of_a_gradient_flow_give_its_energies():
    flow = {"dimension": 2, "initial": "sin(pi*x)*sin(2*pi*y)/2", "diffusion": "1/50", "potential": "(u**2-1)**2/4"}
    given, output = STABILISED | {"points": None}, {"times": 3, "record": ["free_energy_history"]}
    found = computed(text("finite_difference", given, problem=flow, axes={"points": [9]}, output=output))[2]
    energies = solve_differences(pde.FormulaProblem(**flow)(), 9, GRID, StabilizedSemiImplicit(2.0)).energies
    np.testing.assert_allclose(found["free_energy_history"][0], energies[[0, 2, 4]], rtol=1e-13)
    np.testing.assert_allclose(found["energy_drop_percent"][0], 100 * (1 - energies[-1] / energies[0]), rtol=1e-10)
    np.testing.assert_allclose(found["energy_increment"][0], np.diff(energies).max(), rtol=1e-10)
    assert "error" not in found  # no exact solution


TENSOR = {"dimension": 2, "exact": "exp(-t)*sin(pi*x)*sin(pi*y)", "diffusion": [["1", "x/2"], ["x/2", "1"]]}
OPEN = {
    "advection": (TRANSPORT, 2e-3), "a reaction": (FRONT, 2e-3), "a periodic direction": (ROLL, 2e-2),
    "a lifting": (LIFTED, 2e-3), "a channel": (CHANNEL, 5e-3), "a tensor": (TENSOR, 5e-3),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_p1_fem_solves_all_terms_on_boxes(name):
    problem, bound = OPEN[name]
    given = {"unknowns": 31, "validation": 20, "final_time": 0.1, "dt": None}
    assert (computed(text("p1_fem", given, problem=problem, axes={"dt": [0.025]}))[2]["error"] < bound).all()


@pytest.mark.parametrize(("method", "size"), [("p1_fem", "unknowns"), *((name, "points") for name in [*METHODS][2:])])
def test_the_estimate_of_memory_grows_with_the_size(method, size):
    small, large = (estimate_peak_memory(plan_study(Study.from_text(text(method, {size: n})))[-1]) for n in (9, 90))
    assert 0.0 < 5.0 * small < large


def test_the_reference_has_its_own_step_unless_one_is_given():
    own, given, fine = (
        computed(text(constants=DIFFERENCES | {"reference_dt": dt}, problem=INITIAL, axes={"tau": [1e-12]}))[2]["error"]
        for dt in (None, 0.125, 2.0**-10)
    )
    np.testing.assert_allclose(own, fine, rtol=1e-3)
    assert np.abs(own / given - 1.0).min() > 1e-2


def test_a_rule_can_give_a_reference_to_the_cases_that_have_no_exact_solution():
    """Each case with a reference has an error."""
    rule = '[[when]]\nmatch = { k = 1 }\nset = { reference = "finite_difference", reference_points = 31 }\n'
    status, _, found = computed(text(problem=HEAT | {"exact": None, "initial": "sin(k*pi*x)"}, extra=rule))
    assert (status.tolist(), len(found["error"])) == ([Status.ok, Status.ok], 1)


def test_errors_are_measured_against_a_run_in_a_file(tmp_path):
    options = RUN | {"dt": RUN["dt"] / 64, "quadrature": 90}
    features = pde.Dictionary("gtransnet", N=60, N1=120, gamma=5)
    pde.solve(pde.FormulaProblem(**WAVE)(), features, 5, times=3, **options).to_netcdf(tmp_path / "fine.nc")
    given = FEATURES | RUN | {"N": 6}
    known = study_text(WAVE, given, {"seed": [0, 1]})
    stated, path = study_text(WAVE, given | {"reference": "fine.nc"}, {"seed": [0, 1]}), str(tmp_path / "tiny.toml")
    data = evs.run(Study.from_text(stated, path), workers=0)
    assert data.error.values == pytest.approx(computed(known)[2]["error"], rel=1e-3)
    assert set(data.run_key.values).isdisjoint(keys(known))
    elsewhere = WAVE | {"exact": "exp(-t)*sin(pi*x/2)", "domain": {"lower": [0], "upper": [2]}}
    mistakes = {
        "`reference` must be the file of a Dataset that `solve` returned": (WAVE, {"reference": "none.nc"}, None),
        "got none at t = 0.25": (WAVE, {}, {"times": 9, "record": ["error_history"]}),
        "`reference` must be on the problem's domain": (elsewhere, {}, None),
    }
    for message, (problem, more, output) in mistakes.items():
        with pytest.raises(StudyError, match=message):
            Study.from_text(study_text(problem, given | {"reference": "fine.nc"} | more, {"seed": [0]}, output), path)


def test_a_field_is_blank_off_its_domain():
    output = {"record": ["field"], "grid": 9}
    found = computed(study_text(PLATE, FEATURES | RUN | ON_TRIANGLES, {"seed": [0]}, output))[2]["field"][0, -1]
    x, y = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 9), indexing="ij")
    assert np.array_equal(np.isnan(found), x + y > 1 + 1e-6)


def test_a_mesh_is_found_beside_the_study_and_travels_with_it(tmp_path):
    meshio = pytest.importorskip("meshio")
    square = Mesh.from_triangles([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    points = np.column_stack([square.vertices, np.zeros(4)])
    meshio.write(tmp_path / "part.msh", meshio.Mesh(points, [("triangle", square.triangles)]), file_format="gmsh")
    problem = {"dimension": 2, "exact": "exp(-t)*sin(pi*x)*sin(pi*y)", "domain": {"mesh": "part.msh"}}
    stated = study_text(problem, FEATURES | RUN | ON_TRIANGLES, {"seed": [0, 1]})
    study = Study.from_text(stated, str(tmp_path / "tiny.toml"))
    (tmp_path / "part.msh").unlink()
    assert study.spec.problem.domain == square
    assert (evs.run(study, workers=0).run_status == "ok").all()


# --- keys -------------------------------------------------------------------------------------------------------------

# method, and the constants and output of two studies
SAME = {
    "stabilization of the midpoint rule": ("evolution", {}, {"stabilization": 3}),
    "the exact solution as reference": ("evolution", {}, {"reference": "exact"}),
    "options of a reference that no run uses": ("evolution", {}, {"reference_points": 31, "reference_dt": 0.3}),
    "tolerances of a reference that no run uses": ("evolution", {}, LOOSE),
    "default tolerances": ("evolution", DOP853, DOP853 | {"coefficient_rtol": 1e-12, "coefficient_atol": 1e-14}),
    "an assessment rule by its points": (
        "evolution", {"assessment": 30}, {"assessment": {"rule": "gauss_legendre", "points": 30}},
    ),
    "stabilization of finite differences by the midpoint rule": ("finite_difference", {}, {"stabilization": 3}),
    "the integrator by default": ("finite_difference", {}, {"time_integrator": "implicit_midpoint"}),
    "N1 of transnet": ("space_time_regression", {}, {"N1": 99}),
    "the defaults of the regression": (
        "space_time_regression", {"points": None, "levels": None},
        {"points": 68, "levels": 69, "ridge": 1e-10, "centre": 0.5},
    ),
    "a rule by its points": ("p1_fem", {}, {"validation": {"rule": "gauss_legendre", "points": 8}}),
}  # fmt: skip
HISTORY = {"record": ["error_history"]}
SAME_OUTPUT = {
    "times without a history": ({"times": 3}, None),
    "a grid without a field": (HISTORY | {"grid": 9}, HISTORY),
    "the order": ({"record": ["error_history", "field"]}, {"record": ["field", "error_history", "field"]}),
    "times counted or listed": (HISTORY | {"times": 3}, HISTORY | {"times": [0, 0.5, 1]}),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_computation_has_the_same_keys(name):
    method, *given = SAME[name]
    first, second = (keys(text(method, each)) for each in given)
    assert first == second
    assert len(set(first)) == 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SAME_OUTPUT)
def test_outputs_that_are_equal_have_the_same_keys(method, name):
    first, second = (keys(text(method, output=each)) for each in SAME_OUTPUT[name])
    assert first == second


def test_options_as_constants_or_by_a_rule_have_the_same_keys():
    entries = 'time_integrator = "stabilized_semi_implicit", stabilization = 2.0, reference = "finite_difference"'
    rule = f"[[when]]\nmatch = {{ k = [1, 2] }}\nset = {{ {entries}, reference_points = 31 }}\n"
    assert keys(text(constants=STABILISED | DIFFERENCES)) == keys(text(extra=rule))


NOTHING_KNOWN = HEAT | {"exact": None, "initial": "sin(k*pi*x)"}
SQUARE = HEAT | {"potential": "u**2"}
# arguments of `text` beside the method
OTHER = {
    "evolution": [
        {"constants": constants}
        for constants in (
            STABILISED, STABILISED | {"stabilization": 0}, DIFFERENCES, DIFFERENCES | {"reference_points": 32},
            DIFFERENCES | {"reference_dt": 0.0625}, {"reference": "refined"},
            {"reference": "refined", "reference_dt": 0.125}, {"assessment": 30},
            {"assessment": {"rule": "composite_midpoint", "points": 30}}, DOP853, DOP853 | {"coefficient_rtol": 1e-11},
            DOP853 | {"coefficient_atol": 1e-11}, DOP853 | {"coefficient_max_step": 0.1}, {"seed": 1}, {"tau": 1e-6},
            {"start": {"implicit_euler_half_steps": 2}}, {"start": {"implicit_euler_half_steps": 4}},
            {"time_integrator": "adaptive_radau", "rtol": 1e-6, "atol": 1e-8},
            *({"time_integrator": name} for name in ("trapezoidal", "implicit_euler", "gauss_2", "gauss_3", "sdirk_2")),
            *({"time_integrator": name} for name in ("radau_iia_2", "radau_iia_3", "imex_bdf_2")),
        )
    ] + [
        {"constants": EIGEN, "problem": NOTHING_KNOWN}, {"problem": HEAT | {"lifting": "0"}},
        {"constants": EIGEN, "problem": NOTHING_KNOWN, "output": {"record": ["reference_coefficients"]}},
        {"constants": STABILISED, "problem": SQUARE},
        {"constants": STABILISED, "problem": SQUARE, "output": {"record": ["free_energy_history"]}},
        {"problem": HEAT | {"domain": {"lower": [0], "upper": [1]}}},  # another statement
    ],
    "p1_fem": [{"constants": each} for each in ({"unknowns": 8}, {"degree": 9})],
    "finite_difference": [
        {"constants": each} for each in ({"points": 8}, STABILISED, STABILISED | {"stabilization": 0})
    ],
    "space_time_regression": [
        {"constants": each}
        for each in (
            {"points": 8}, {"levels": 8}, {"ridge": 1e-9}, {"seed": 4}, {"N": 7}, {"gamma": 3}, {"centre": 0.45},
            {"radius": 0.75}, {"dictionary": "uniform_elm"}, WIDE, WIDE | {"N1": 9}, WIDE | {"delta": 0.75},
        )
    ],
}  # fmt: skip
COMMON = [
    {}, {"constants": {"validation": 9}}, {"constants": {"final_time": 2.0}},
    {"problem": HEAT | {"exact": "exp(-2*t)*sin(k*pi*x)"}}, {"problem": HEAT | {"diffusion": "1/20"}},
    {"output": HISTORY}, {"output": HISTORY | {"times": 3}}, {"output": {"record": ["field"]}},
    {"output": {"record": ["field"], "grid": 9}},
]  # fmt: skip


def test_every_parameter_that_matters_changes_the_key():
    studies = [(method, each) for method in METHODS for each in COMMON + OTHER[method]]
    studies += [(method, {"constants": {"dt": 0.5}}) for method in METHODS if "dt" in METHODS[method]]
    owners = {}
    for method, given in studies:
        for key in keys(text(method, **given)):
            owners.setdefault(key, []).append((method, given))
    assert [each for each in owners.values() if len(each) > 1] == []
    assert len(owners) == 2 * len(studies)
    assert keys(text(problem=HEAT | {"boundary": {}})) == keys(text())


FOLLOWING = {
    "diffusion": [text(problem=HEAT | {"diffusion": f"1/{n}"}) for n in (10, 20, 40)],
    "reference_points": [text(constants=DIFFERENCES | {"reference_points": n}) for n in (31, 63)],
    "reference_dt": [text(constants=DIFFERENCES | {"reference_dt": dt}) for dt in (0.125, 0.0625)],
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_studies_that_follow_each_other_do_not_mix_their_stages(name):
    """Studies that differ in one entry, one after the other on one worker, in both orders."""
    orders = []
    for order in (FOLLOWING[name], FOLLOWING[name][::-1]):
        stages = BoundedStageCache()
        orders.append([computed(each, stages)[2]["error"].tolist() for each in order])
    assert orders[0] == orders[1][::-1]
    assert len({tuple(errors) for errors in orders[0]}) == len(FOLLOWING[name])


def test_each_planned_stage_of_the_options_is_computed_once():
    """A plan counts the work that runs share, also of references and assessments."""
    calls, given = [], STABILISED | DIFFERENCES | DOP853 | {"assessment": 30}

    class Recorded(BoundedStageCache):
        def begin_batch(self):
            calls.append(Counter(each.stage for each in self._computed))
            super().begin_batch()

    axes = {"k": [1, 2], "tau": [1e-12, 1e-6], "reference_dt": [0.125, 0.0625]}
    study, planned = text(constants=given, axes=axes), {}
    computed(study, Recorded())
    plan = plan_study(Study.from_text(study))[-1]
    for case in plan.cases():
        for stage, key in plan.method.bind(case.values).stages.items():
            planned.setdefault(stage, set()).add(key)
    assert {stage: calls[0][stage] for stage in planned} == {stage: len(keys) for stage, keys in planned.items()}
    assert {"assessment", "coefficient reference"} < planned.keys()


# --- runs that blow up ------------------------------------------------------------------------------------------------

GROWING = {"dimension": 1, "initial": "height*sin(pi*x)", "potential": "-u**4"}
NOT_FINITE = "the coefficients are not finite at all saved times"
# problem, heights that are good and bad, constants, output, start of the message
DIVERGING = {
    "a potential": (
        GROWING, [0.1, 10.0], STABILISED | {"final_time": 4.0}, {"record": ["free_energy_history", "coefficients"]},
        NOT_FINITE,
    ),
    "with a reference": (GROWING, [0.1, 10.0], STABILISED | DIFFERENCES | {"final_time": 4.0}, None, NOT_FINITE),
    "a reaction": (
        {"dimension": 1, "initial": "height*x*(1-x)", "reaction": "u**3"}, [0.1, 50.0], {}, None,
        "Newton's method did not converge at t = ",
    ),
    "a norm that overflows": (
        {"dimension": 1, "initial": "sin(pi*x)", "source": "exp(height*t)*sin(pi*x)"}, [1.0, 1000.0], {},
        {"record": ["norm_history"]}, NOT_FINITE,
    ),
    "a source that is not finite": (
        {"dimension": 1, "initial": "sin(pi*x)", "source": "sqrt(t+height)"}, [1.0, -1.0], {}, None,
        NOT_FINITE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIVERGING)
def test_a_run_that_blows_up_is_diverged_and_the_others_go_on(name):
    problem, heights, constants, output, message = DIVERGING[name]
    study = Study.from_text(text(constants=constants, problem=problem, axes={"height": heights}, output=output))
    data = evs.run(study, workers=0)
    assert data.run_status.values.tolist() == ["ok", "diverged"]
    assert str(data.run_message.values[1]).startswith(f"DivergedError: {message}")
    assert np.isfinite(data["rank"].values[0])


def test_a_gradient_flow_that_starts_without_energy_has_no_percentage():
    problem = {"dimension": 1, "initial": "0*x", "source": "sin(pi*x)", "potential": "u**2"}
    status, _, found = computed(text(constants=STABILISED, problem=problem, axes={"tau": [1e-12]}))
    assert status.tolist() == [Status.ok]
    assert "energy_drop_percent" not in found
    assert np.isfinite(found["energy_increment"]).all()
