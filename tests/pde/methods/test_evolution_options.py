"""What `evolution` can be asked for besides: stabilisation, references, assessment, liftings and potentials."""

import numpy as np
import pytest
from helpers import cases, computed, keys, section

import evogt_study as evs
from evogt_study import pde
from evogt_study.errors import StudyError
from evogt_study.pde.baselines import finite_difference
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.galerkin.validation import CoefficientReference
from evogt_study.pde.integrators import StabilizedSemiImplicit
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve_arrays
from evogt_study.schema.variables import Status, status_codes
from evogt_study.study.plan import count_shared_work, plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here
from evogt_study.workers.stage_cache import BoundedStageCache

HEAT = {"dimension": "1", "exact": '"exp(-t)*sin(pi*x)"', "diffusion": '"1/10"'}
INITIAL = {"dimension": "1", "initial": '"sin(pi*x)"', "diffusion": '"1/10"'}
FLOW = {"dimension": "1", "initial": '"sin(2*pi*x)/2"', "diffusion": '"1/50"', "potential": '"(u**2-1)**2/4"'}
LIFTED = {"dimension": "1", "exact": '"exp(-t)*sin(pi*x) + x*cos(t)"', "diffusion": '"1/10"', "lifting": '"x*cos(t)"'}
CONSTANTS = {
    "dictionary": '"transnet"', "N": "10", "gamma": "3", "quadrature": "24", "validation": "16", "final_time": "1",
    "dt": "0.125",
}  # fmt: skip
STABILISED = {"time_integrator": '"stabilized_semi_implicit"', "stabilization": "2"}
DIFFERENCES = {"reference": '"finite_difference"', "reference_points": "31"}
EIGEN, DOP853 = {"coefficient_reference": '"eigendecomposition"'}, {"coefficient_reference": '"dop853"'}


def toml(constants=None, *, axes=None, problem=HEAT, output=None, extra=""):
    """A small study of two seeds; None takes an entry away."""
    return (
        'name = "tiny"\n'
        + section("axes", {"seed": "[0, 1]", **(axes or {})})
        + section("constants", {**CONSTANTS, **(constants or {})})
        + section("problem", problem)
        + (section("output", output) if output else "")
        + extra
    )


def discretised(seed, **changed):
    """The run that `toml()` means, as the method itself takes it."""
    rules = {
        name: QuadratureRule("gauss_legendre", points) for name, points in (("quadrature", 24), ("validation", 16))
    }
    settings = {"tau": 1e-12, "grid": TimeGrid.of(1.0, 0.125, 3), **rules, **changed}
    return Discretisation(Dictionary("transnet", 10, 3.0), seed, **settings)


# --- the numbers are those of the method ------------------------------------------------------------------------------

EULER = StabilizedSemiImplicit(2.0)
HISTORIES = {"times": "3", "record": '["error_history", "energy_history", "norm_history", "coefficients"]'}


def check_equal(found, row, solution, histories=("error_history", "coefficients")):
    positions = solution.discretisation.grid.saved_positions
    expected = {
        "error_history": solution.errors[positions],
        "coefficients": solution.trajectory.coefficients[positions],
    }
    for name in histories:
        values = np.asarray(expected[name])
        np.testing.assert_allclose(found[name][row][..., : values.shape[-1]], values, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(found["initial_error"][row], solution.errors[0], rtol=1e-12)


@pytest.mark.parametrize("stabilization", [0.0, 2.0])
def test_the_stabilised_step(stabilization):
    given = {**STABILISED, "stabilization": str(stabilization)}
    status, _, found = computed(toml(given, output=HISTORIES))
    assert status.tolist() == [Status.ok, Status.ok]
    problem = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")()
    integrator = StabilizedSemiImplicit(stabilization)
    for seed in (0, 1):
        solution = solve_arrays(problem, discretised(seed, integrator=integrator))
        check_equal(found, seed, solution)
        np.testing.assert_allclose(found["error"][seed], solution.errors[-1], rtol=1e-12)
    midpoint = computed(toml())[2]["error"]
    assert np.all(found["error"] > 5.0 * midpoint)  # it is of first order, the midpoint rule of second


def test_a_gradient_flow_with_a_reference():
    output = {"times": "3", "record": '["error_history", "free_energy_history", "coefficients"]'}
    text = toml({**STABILISED, **DIFFERENCES, "reference_dt": "0.0625"}, problem=FLOW, output=output)
    status, _, found = computed(text)
    assert status.tolist() == [Status.ok, Status.ok]
    problem = pde.FormulaProblem(1, initial="sin(2*pi*x)/2", diffusion="1/50", potential="(u**2-1)**2/4")()
    for seed in (0, 1):
        run = discretised(seed, integrator=EULER)
        reference = finite_difference.make_difference_reference(problem, 31, run.grid.refined(0.0625), EULER)
        solution = solve_arrays(problem, run, reference=reference)
        check_equal(found, seed, solution)
        energies = solution.trajectory.energies
        np.testing.assert_allclose(found["free_energy_history"][seed], energies[[0, 4, 8]], rtol=1e-12)
        np.testing.assert_allclose(found["energy_increment"][seed], np.diff(energies).max(), rtol=1e-9)
        np.testing.assert_allclose(
            found["energy_drop_percent"][seed], 100.0 * (1.0 - energies[-1] / energies[0]), rtol=1e-9
        )
        assert found["energy_increment"][seed] < 0.0
        assert found["initial_error"][seed] < found["error"][seed] < 0.2


def test_the_reference_has_its_own_step_unless_one_is_given():
    errors = {
        dt: computed(toml({**DIFFERENCES, "reference_dt": dt}, problem=INITIAL))[2]["error"]
        for dt in (None, "0.125", "0.0009765625")
    }
    np.testing.assert_allclose(errors[None], errors["0.0009765625"], rtol=1e-3)
    assert np.abs(errors[None] / errors["0.125"] - 1.0).min() > 1e-2


@pytest.mark.parametrize("seed", [0, 1])
def test_the_assessment_on_another_grid(seed):
    _, _, found = computed(toml({"assessment": "30"}))
    problem = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")()
    solution = solve_arrays(problem, discretised(seed, assessment=QuadratureRule("gauss_legendre", 30)))
    for name, value in (("mass", solution.cross_grid.mass), ("stiffness", solution.cross_grid.stiffness)):
        np.testing.assert_allclose(found[f"{name}_defect_cross_grid"][seed], value, rtol=1e-6)
    assert "mass_defect_cross_grid" not in computed(toml())[2]
    np.testing.assert_array_equal(found["error"], computed(toml())[2]["error"])  # it looks, and changes nothing


@pytest.mark.parametrize("name", ["eigendecomposition", "dop853"])
def test_the_reference_of_the_coefficients(name):
    given = {"coefficient_reference": f'"{name}"'}
    _, _, found = computed(
        toml(given, problem=INITIAL, output={"record": '["reference_coefficients", "coefficients"]'})
    )
    problem = pde.FormulaProblem(1, initial="sin(pi*x)", diffusion="1/10")()
    for seed in (0, 1):
        solution = solve_arrays(problem, discretised(seed, coefficient_reference=CoefficientReference(name)))
        state = solution.reference_state
        np.testing.assert_allclose(found["reference_coefficients"][seed][: len(state)], state, rtol=1e-9, atol=1e-12)
        final = found["coefficients"][seed][-1][: len(state)]
        defined = np.linalg.norm(final - state) / np.linalg.norm(state)
        np.testing.assert_allclose(found["coefficient_error"][seed], defined, rtol=1e-6)
    assert np.all(found["coefficient_error"] < 0.01)


def test_the_singular_values_are_those_that_the_rank_counts():
    """All N of them, in nonincreasing order; the rank is the number above sqrt(tau) sigma_1."""
    given = {"N": None, "quadrature": "40", "tau": "1e-6"}
    for count in (6, 10):
        _, _, found = computed(toml(given | {"N": str(count)}, output={"record": '["singular_values"]'}))
        for values, rank in zip(found["singular_values"], found["rank"], strict=True):
            assert len(values) == count
            assert np.all(np.diff(values) <= 0.0)
            assert rank == np.count_nonzero(values > 1e-3 * values[0])
    solution = solve_arrays(pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")(), discretised(1))
    same = computed(toml(output={"record": '["singular_values"]'}))[2]["singular_values"][1]
    np.testing.assert_allclose(same, solution.svd.singular_values, rtol=1e-9, atol=1e-14)


def test_the_tolerances_reach_the_adaptive_solver():
    output = {"record": '["reference_coefficients"]'}
    tight, loose, stepped = (
        np.asarray(computed(toml({**DOP853, **given}, problem=INITIAL, output=output))[2]["reference_coefficients"])
        for given in (
            {},
            {"coefficient_rtol": "1e-3", "coefficient_atol": "1e-3"},
            {"coefficient_rtol": "1e-3", "coefficient_atol": "1e-3", "coefficient_max_step": "1e-2"},
        )
    )
    assert 1e-10 < np.nanmax(np.abs(loose - tight)) < 0.1
    assert np.nanmax(np.abs(stepped - tight)) < np.nanmax(np.abs(loose - tight))


def test_boundary_values_by_a_lifting():
    """Dirichlet values x cos(t): the error is the one of a problem that is solved well, boundary included."""
    output = {"times": "3", "record": '["error_history", "field"]', "grid": "5"}
    status, _, found = computed(toml({"N": "20"}, problem=LIFTED, output=output))
    assert status.tolist() == [Status.ok, Status.ok]
    assert np.all(found["error"] < 2e-3)
    np.testing.assert_allclose(found["field"][:, :, 0], 0.0, atol=1e-14)
    np.testing.assert_allclose(found["field"][:, :, -1], np.tile(np.cos([0.0, 0.5, 1.0]), (2, 1)), atol=1e-12)
    np.testing.assert_allclose(found["field"], found["exact_field"], atol=5e-3)
    problem = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x) + x*cos(t)", diffusion="1/10", lifting="x*cos(t)")()
    same = discretised(1)
    solution = solve_arrays(problem, Discretisation(Dictionary("transnet", 20, 3.0), *[
        getattr(same, name) for name in ("seed", "tau", "quadrature", "validation", "grid")
    ]))  # fmt: skip
    np.testing.assert_allclose(found["error_history"][1], solution.errors, rtol=1e-10)


# --- what identifies a case -------------------------------------------------------------------------------------------

SAME = {
    "stabilization of the midpoint rule": (toml(), toml({"stabilization": "3"})),
    "the exact solution as reference": (toml(), toml({"reference": '"exact"'})),
    "points and step of a reference that is not asked for": (
        toml(),
        toml({"reference_points": "31", "reference_dt": "0.3"}),
    ),
    "tolerances of a reference that is not asked for": (
        toml(),
        toml({"coefficient_rtol": "1e-3", "coefficient_atol": "1e-3", "coefficient_max_step": "1"}),
    ),
    "default tolerances, given or not": (
        toml(DOP853),
        toml({**DOP853, "coefficient_rtol": "1e-12", "coefficient_atol": "1e-14"}),
    ),
    "an assessment rule by its points or as a table": (
        toml({"assessment": "30"}),
        toml({"assessment": '{ rule = "gauss_legendre", points = 30 }'}),
    ),
    "options as constants or by a rule": (
        toml({**STABILISED, **DIFFERENCES}),
        toml(extra='[[when]]\nmatch = { seed = [0, 1] }\nset = { time_integrator = "stabilized_semi_implicit", '
             'stabilization = 2, reference = "finite_difference", reference_points = 31 }\n'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_same_computation_has_the_same_keys(name):
    first, second = SAME[name]
    assert keys(first) == keys(second)
    assert len(set(keys(first))) == 2


OTHER = {
    "the integrator": toml({**STABILISED, "stabilization": "0"}),
    "stabilization": toml(STABILISED),
    "reference": toml(DIFFERENCES),
    "reference points": toml({**DIFFERENCES, "reference_points": "32"}),
    "reference step": toml({**DIFFERENCES, "reference_dt": "0.0625"}),
    "refined": toml({"reference": '"refined"'}),
    "refined with the step of the run": toml({"reference": '"refined"', "reference_dt": "0.125"}),
    "assessment": toml({"assessment": "30"}),
    "assessment rule": toml({"assessment": '{ rule = "composite_midpoint", points = 30 }'}),
    "eigendecomposition": toml(EIGEN, problem=INITIAL),
    "dop853": toml(DOP853),
    "rtol": toml({**DOP853, "coefficient_rtol": "1e-11"}),
    "atol": toml({**DOP853, "coefficient_atol": "1e-11"}),
    "largest step": toml({**DOP853, "coefficient_max_step": "0.1"}),
    "potential": toml(STABILISED, problem={**HEAT, "potential": '"u**2"'}),
    "lifting": toml(problem={**HEAT, "lifting": '"0"'}),
    "free energies": toml(STABILISED, problem={**HEAT, "potential": '"u**2"'},
                          output={"record": '["free_energy_history"]'}),
    "reference coefficients": toml(EIGEN, problem=INITIAL, output={"record": '["reference_coefficients"]'}),
}  # fmt: skip


def test_every_option_that_matters_changes_the_key():
    owners = {}
    for name, text in {"base": toml(), **OTHER}.items():
        for key in keys(text):
            owners.setdefault(key, []).append(name)
    assert [names for names in owners.values() if len(names) > 1] == []
    assert len(owners) == 2 * (1 + len(OTHER))


def test_a_parameter_of_some_cases_only_leaves_the_others_as_they_are():
    text = toml(
        {"time_integrator": None, "stabilization": None},
        axes={"time_integrator": '["implicit_midpoint", "stabilized_semi_implicit"]', "stabilization": "[1, 2]"},
    )
    found = {}
    for case in cases(text):
        found.setdefault(case.values["time_integrator"], set()).add(case.key)
    assert {name: len(own) for name, own in found.items()} == {"implicit_midpoint": 2, "stabilized_semi_implicit": 4}
    assert found["implicit_midpoint"] == set(keys(toml()))


# --- stages that are shared -------------------------------------------------------------------------------------------


def test_the_plan_counts_what_the_options_share():
    given = {**STABILISED, **DIFFERENCES, "assessment": "30", **DOP853}
    text = toml(given, axes={"stabilization": "[1, 2]", "tau": "[1e-12, 1e-6]"}, problem=FLOW)
    text = text.replace("stabilization = 2\n", "")
    work = {each.stage: each.distinct for each in count_shared_work(plan_study(Study.from_text(text))[-1])}
    assert work["trial functions"] == work["weighted SVD"] == 2  # seeds
    assert work["assessed basis"] == work["assessment"] == work["coefficient reference"] == 4  # seeds and thresholds
    assert work["trajectory"] == 8


def test_a_worker_keeps_its_stages_from_batch_to_batch(monkeypatch):
    """A reference is solved once for all the batches, and the numbers do not depend on what is kept."""
    calls = []
    real = finite_difference.finite_differences

    def counted(problem, points, grid, integrator):
        calls.append(points)
        return real(problem, points, grid, integrator)

    monkeypatch.setattr(finite_difference, "finite_differences", counted)
    given = {**STABILISED, **DIFFERENCES, "reference_dt": "0.125"}
    text = toml(given, axes={"seed": "[0, 1, 2, 3]"}, problem=FLOW)
    spec = plan_study(Study.from_text(text))[-1].spec
    stages = BoundedStageCache()
    alone = [compute_here(Batch.of(spec, [case]), stages) for case in cases(text)]
    assert calls == [31]
    assert not stages.calls  # counts belong to one batch
    other = toml(
        {**STABILISED, **DIFFERENCES, "reference_dt": "0.125", "reference_points": "63"},
        axes={"seed": "[0]"},
        problem=FLOW,
    )
    compute_here(Batch.of(plan_study(Study.from_text(other))[-1].spec, cases(other)), stages)
    assert calls == [31, 63]  # another reference is not taken for the first
    compute_here(Batch.of(spec, cases(text)), stages)
    assert calls == [31, 63]
    together = {stack.name: stack.values for stack in compute_here(Batch.of(spec, cases(text))).stacks}
    assert calls == [31, 63, 31]
    for row, records in enumerate(alone):
        for stack in records.stacks:
            np.testing.assert_array_equal(stack.values[0], together[stack.name][row])


def test_studies_that_follow_each_other_do_not_mix_their_stages():
    """Problems that differ in a formula alone, one after the other on the same worker and in the other order."""
    texts = [
        toml(
            problem={**HEAT, "diffusion": f'"1/{number}"'}, axes={"seed": "[0]"}, output={"record": '["coefficients"]'}
        )
        for number in (10, 20, 40)
    ]
    orders = texts, texts[::-1]
    caches = BoundedStageCache(), BoundedStageCache()
    forwards, backwards = (
        [computed(text, stages)[2] for text in order] for order, stages in zip(orders, caches, strict=True)
    )
    backwards = backwards[::-1]
    assert len({float(found["error"][0]) for found in forwards}) == 3
    for one, other in zip(forwards, backwards, strict=True):
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name])


# --- runs that blow up ------------------------------------------------------------------------------------------------

GROWING = {"dimension": "1", "initial": '"height*sin(pi*x)"', "potential": '"-u**4"'}


@pytest.mark.parametrize("given", [{}, DIFFERENCES], ids=["alone", "with a reference"])
def test_a_run_that_blows_up_is_diverged_and_the_others_go_on(client, given):
    output = {"record": '["free_energy_history", "field", "coefficients"]', "grid": "5"}
    text = toml(
        {**STABILISED, **given, "final_time": "4"}, axes={"height": "[0.1, 10]"}, problem=GROWING, output=output
    )
    data = evs.run(Study.from_text(text), client=client)
    assert status_codes(data.run_status.sel(height=0.1)).tolist() == [Status.ok] * 2
    assert status_codes(data.run_status.sel(height=10)).tolist() == [Status.diverged] * 2
    expected = "DivergedError: `error` is" if given else "DivergedError: `"
    for message in data.run_message.sel(height=10).values.tolist():
        assert message.startswith(expected)
    assert data.energy_drop_percent.notnull().sel(height=0.1).all()
    assert data.energy_drop_percent.isnull().sel(height=10).all()
    assert data.field.isnull().sel(height=10).all()


# --- mistakes ---------------------------------------------------------------------------------------------------------

BOX = {"dimension": "3", "exact": '"exp(-t)*sin(pi*x)*sin(pi*y)*sin(pi*z)"'}
BAD = {
    "a potential by the midpoint rule": (
        toml(problem=FLOW),
        ["`time_integrator` must be stabilized_semi_implicit or imex_bdf_2 for a problem with a potential",
         "got 'implicit_midpoint'", "constants.time_integrator"],
    ),
    "reference exact without exact": (
        toml({"reference": '"exact"'}, problem=INITIAL),
        ["`exact` must be known where `reference` asks for it", "got a problem without it", "problem"],
    ),
    "a reference without points": (
        toml({"reference": '"finite_difference"'}),
        ["`reference_points` must be given", "constants.reference_points", "got no value"],
    ),
    "a reference step that does not divide": (
        toml({**DIFFERENCES, "reference_dt": "0.3"}),
        ["`reference_dt` must be a step that meets final_time = 1", "got 0.3", "constants.reference_dt", "Use e.g."],
    ),
    "a reference step that misses a saved time": (
        toml({**DIFFERENCES, "reference_dt": "0.5"}, output={"times": "5", "record": '["error_history"]'}),
        ["`reference_dt` must be a step that meets", "all saved times", "got 0.5", "constants.reference_dt"],
    ),
    "differences of variable diffusion": (
        toml(DIFFERENCES, problem={**HEAT, "diffusion": '"1 + x"'}),
        ["constant positive `diffusion`", "got values from 1.", "problem"],
    ),
    "differences of a lifting": (toml(DIFFERENCES, problem=LIFTED), ["zero boundary values", "with a lifting"]),
    "errors of nothing known": (
        toml(problem=INITIAL, output={"record": '["error_history"]'}),
        ["`record` must leave out error_history", "without exact solution or reference", "output.record"],
    ),
    "rtol 0": (
        toml({**DOP853, "coefficient_rtol": "0"}),
        ["`coefficient_rtol` must be in [2.3e-14, 1)", "got 0", "constants.coefficient_rtol"],
    ),
    "assessment too large": (
        toml({"assessment": "2000", "quadrature": "6", "validation": "6"}, problem=BOX),
        ["`assessment` must be so few", "2000^3", "constants.assessment"],
    ),
    "a potential of space": (
        toml(STABILISED, problem={**FLOW, "potential": '"x*u"'}),
        ["`potential` must be a formula in u and parameters", "got x", "problem"],
    ),
    "u for something else": (
        toml(STABILISED, problem={**FLOW, "initial": '"u*sin(pi*x)"'}), ["`initial` must be free of u, the solution"],
    ),
    "a lifting that is not the solution's trace": (
        toml(problem={**HEAT, "lifting": '"x"'}),
        ["`exact` must equal `lifting` on the boundary", "got a difference of 1", "problem"],
    ),
    "a solution without its lifting": (
        toml(problem={**LIFTED, "lifting": None}),
        ["`exact` must vanish on the boundary", "got a value of 1", "; `lifting` states"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_costs_one_line_and_exit_code_two(refused, name):
    text, fragments = BAD[name]
    refused(text, *fragments)


def test_a_rule_can_give_a_reference_to_the_cases_that_have_no_exact_solution():
    """Errors are recorded where there is something to measure them against, for each case by itself."""
    rule = '[[when]]\nmatch = { seed = 1 }\nset = { reference = "finite_difference", reference_points = 31 }\n'
    status, _, found = computed(toml(problem=INITIAL, extra=rule))
    assert status.tolist() == [Status.ok, Status.ok]
    assert len(found["error"]) == 1


# --- parameters that only some values of an axis need ------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "missing"),
    [
        ({"time_integrator": '["implicit_midpoint", "stabilized_semi_implicit"]'}, "stabilization"),
        ({"reference": '["exact", "finite_difference"]'}, "reference_points"),
        ({"dictionary": '["transnet", "gtransnet"]'}, "N1"),
    ],
)
def test_what_one_value_of_an_axis_needs_has_to_be_given(axes, missing):
    without = dict.fromkeys(axes)
    with pytest.raises(StudyError, match=rf"`{missing}` must be given .*, got no value for .*{next(iter(axes))} = "):
        Study.from_text(toml(without, axes=axes))


def test_a_reference_that_a_rule_asks_for_is_checked_where_it_holds():
    rule = '[[when]]\nmatch = { tau = 1e-6 }\nset = { reference = "exact" }\n'
    with pytest.raises(StudyError, match="`exact` must be known where `reference` asks for it"):
        Study.from_text(toml(axes={"tau": "[1e-12, 1e-6]"}, problem=INITIAL, extra=rule))


def test_numbers_that_are_not_finite_are_never_ok(client):
    """Where no error can be measured too: the norm overflows here."""
    problem = {"dimension": "1", "initial": '"sin(pi*x)"', "source": '"exp(1000*t)*sin(pi*x)"'}
    data = evs.run(Study.from_text(toml(problem=problem, output={"record": '["norm_history"]'})), client=client)
    assert (status_codes(data.run_status) == Status.diverged).all()
    assert "`norm_history` is" in str(data.run_message.values[0])
    nowhere = problem | {"source": '"sqrt(t-1)"'}
    data = evs.run(Study.from_text(toml(problem=nowhere)), client=client)
    assert set(data.run_message.values.ravel()) == {"DivergedError: the solution is not finite at the final time"}


def test_a_gradient_flow_that_starts_without_energy_has_no_percentage(client):
    problem = {"dimension": "1", "initial": '"0*x"', "source": '"sin(pi*x)"', "potential": '"u**2"'}
    data = evs.run(Study.from_text(toml(STABILISED, problem=problem)), client=client)
    assert (status_codes(data.run_status) == Status.ok).all()
    assert "energy_drop_percent" not in data
    assert np.isfinite(data.energy_increment).all()
