"""Study files with every term, domain, integrator and reference, and the mistakes in them."""

import numpy as np
import pytest
from helpers import computed, keys, section

import evogt_study as evs
from evogt_study import pde
from evogt_study.errors import StudyError
from evogt_study.pde.domains import Mesh
from evogt_study.schema.variables import Status
from evogt_study.study.study import Study

WAVE = {"dimension": 1, "exact": '"exp(-t)*sin(pi*x)"', "diffusion": '"1/10"'}
BUBBLE = '"exp(-t)*sin(pi*x)*sin(pi*y)"'
TRANSPORT = WAVE | {"advection": '["1 + x"]', "reaction": '"-x*u"'}
FRONT = WAVE | {"reaction": '"u*(1 - u)"'}
CHANNEL = {
    "dimension": 2, "domain": "{ lower = [1, 0], upper = [2, 0.5] }", "diffusion": '["1", "2"]',
    "exact": '"exp(-t)*sin(pi*(x-1))*cos(2*pi*y)"', "boundary": '{ y0 = { flux = "0" }, y1 = { flux = "0" } }',
}  # fmt: skip
ROLL = {
    "dimension": 1,
    "exact": '"exp(-t)*sin(2*pi*(x-t))+1/2"',
    "advection": '["1"]',
    "boundary": '{ x = "periodic" }',
}
TRIANGLES = '{ rule = "triangles", refinements = 2, degree = 8 }'
PLATE = {"dimension": 2, "exact": '"exp(-t)*x*y*(1-x-y)"', "domain": "{ polygon = [[0, 0], [1, 0], [0, 1]] }"}
DISK = {"dimension": 2, "exact": '"exp(-t)*(1-x**2-y**2)"', "domain": "{ disk = { centre = [0, 0], radius = 1 } }"}
ON_TRIANGLES = {"quadrature": TRIANGLES, "validation": TRIANGLES}
RUN = {
    "dictionary": '"transnet"',
    "N": 20,
    "gamma": 3,
    "quadrature": 40,
    "validation": 30,
    "final_time": 0.1,
    "dt": 0.025,
}


def toml(problem=WAVE, constants=None, output=None, method="evolution", axes=None):
    """A study of two seeds; None takes an entry away."""
    return (
        f'name = "tiny"\nmethod = "{method}"\n'
        + section("axes", {"seed": "[0, 1]", **(axes or {})})
        + section("constants", {**RUN, **(constants or {})})
        + section("problem", problem)
        + (section("output", output) if output else "")
    )


def errors(text):
    status, messages, found = computed(text)
    assert status.tolist() == [Status.ok] * len(status), messages
    return found["error"]


@pytest.mark.parametrize(
    ("problem", "constants", "bound"),
    [
        (TRANSPORT, {}, 1e-3),
        (FRONT, {}, 1e-3),
        (FRONT, {"time_integrator": '"imex_bdf_2"'}, 5e-3),
        (CHANNEL, {"quadrature": 20, "validation": 20}, 1e-1),
        (ROLL, {"gamma": 2, "quadrature": 80, "time_integrator": '"gauss_2"'}, 1e-2),
        (PLATE, ON_TRIANGLES, 1e-1),
        (DISK, ON_TRIANGLES, 1e-1),
        (WAVE, {"time_integrator": '"adaptive_radau"', "rtol": 1e-8, "atol": 1e-10}, 1e-3),
        (WAVE, {"time_integrator": '"trapezoidal"', "start": "{ implicit_euler_half_steps = 2 }"}, 5e-3),
    ],
    ids=lambda part: None if isinstance(part, (dict, float)) else part,
)
def test_a_study_states_it_and_its_runs_solve_it(problem, constants, bound):
    found = errors(toml(problem, constants))
    assert (found < bound).all()
    assert found[0] != found[1]


def test_every_integrator_runs_by_its_name_and_has_its_own_runs():
    names = ["implicit_midpoint", "trapezoidal", "implicit_euler", "gauss_2", "gauss_3", "radau_iia_2", "radau_iia_3",
             "sdirk_2", "imex_bdf_2", "adaptive_radau", "stabilized_semi_implicit"]  # fmt: skip
    quoted = ", ".join(f'"{name}"' for name in names)
    text = toml(
        axes={"time_integrator": f"[{quoted}]", "seed": "[0]"},
        constants={"rtol": 1e-6, "atol": 1e-8, "stabilization": 0},
    )
    assert len(set(keys(text))) == len(names)
    found = dict(zip(names, errors(text).tolist(), strict=True))
    fine = found["gauss_3"]
    assert all(found[name] == pytest.approx(fine, rel=0.05) for name in ("gauss_2", "radau_iia_2", "radau_iia_3"))
    assert found["implicit_euler"] > 10 * found["implicit_midpoint"] > 10 * fine
    assert found["implicit_euler"] == pytest.approx(found["stabilized_semi_implicit"], rel=1e-9)


def test_a_start_is_part_of_a_run_s_identity_and_may_be_an_axis():
    plain = keys(toml())
    started = keys(toml(constants={"start": "{ implicit_euler_half_steps = 4 }"}))
    assert set(plain).isdisjoint(started)
    two = toml(axes={"start": "[{ implicit_euler_half_steps = 2 }, { implicit_euler_half_steps = 4 }]"})
    assert set(started) < set(keys(two))
    assert len(set(errors(two).tolist())) == 4


def test_a_problem_of_today_has_the_keys_of_today():
    with_default = toml(WAVE | {"domain": "{ lower = [0], upper = [1] }"})
    assert set(keys(toml())).isdisjoint(keys(with_default))  # another statement, which is not known to be the same
    assert keys(toml(WAVE | {"boundary": "{}"})) == keys(toml())


@pytest.mark.parametrize(
    ("reference", "more", "share"),
    [("finite_elements", {"reference_points": 60}, 0.1), ("refined", {}, 0.3),
     ("finite_difference", {"reference_points": 400, "reference_dt": 0.0025}, None)],
)  # fmt: skip
def test_errors_without_an_exact_solution_are_those_with_it(reference, more, share):
    known = errors(toml(constants={"N": 6}))
    initial = {
        "dimension": 1,
        "initial": '"sin(pi*x)"',
        "source": '"(pi**2/10-1)*exp(-t)*sin(pi*x)"',
        "diffusion": '"1/10"',
    }
    status, messages, found = computed(toml(initial, {"N": 6, "reference": f'"{reference}"', **more}))
    assert status.tolist() == [Status.ok] * 2, messages
    assert found["error"] == pytest.approx(known, rel=0.05)
    if share is None:
        assert "reference_error" not in found
    else:
        assert (found["reference_share"] < share).all()
        assert found["reference_error"] == pytest.approx(found["reference_share"] * found["error"])
        assert reference == "refined" or found["reference_error"][0] == found["reference_error"][1]  # one for all seeds


def test_errors_are_measured_against_a_run_in_a_file(tmp_path):
    heat = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")()
    fine = {"seed": 5, "quadrature": 90, "validation": 30, "final_time": 0.1, "dt": 0.025 / 8, "times": 3}
    pde.solve(heat, pde.Dictionary("gtransnet", N=60, N1=120, gamma=5), **fine).to_netcdf(tmp_path / "fine.nc")
    text = toml(constants={"N": 6, "reference": '"fine.nc"'})
    study = Study.from_text(text, str(tmp_path / "tiny.toml"))
    ds = evs.run(study)
    assert ds.error.values == pytest.approx(errors(toml(constants={"N": 6})), rel=1e-3)
    assert set(ds.run_key.values).isdisjoint(keys(toml(constants={"N": 6})))
    mistakes = {
        "none.nc": (text.replace("fine.nc", "none.nc"), "`reference` must be a file of what `solve` returned"),
        "times": (text + section("output", {"times": "5", "record": '["error_history"]'}), "got none at t = 0.025"),
        "domain": (text + "domain = { lower = [0], upper = [2] }\n", "`reference` must be on the problem's domain"),
    }
    for wrong, message in mistakes.values():
        with pytest.raises(StudyError) as caught:
            Study.from_text(wrong.replace("sin(pi*x)", "sin(pi*x/2)") if "upper" in wrong else wrong, study.file)
        assert message in str(caught.value)


def test_other_norms_are_recorded_where_they_are_asked_for():
    names = ["error_h1", "error_max", "error_absolute", "error_max_over_time"]
    _, _, found = computed(toml(output={"record": f"{names}".replace("'", '"')}))
    assert set(names) <= set(found)
    one = pde.solve(
        pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")(),
        pde.Dictionary("transnet", N=20, gamma=3), 0,
        quadrature=40, validation=30, final_time=0.1, dt=0.025, norms=names, times=2,
    )  # fmt: skip
    for name in names:
        assert found[name][0] == pytest.approx(float(one[name]), rel=1e-9)
    assert not set(names) & set(computed(toml())[2])


def test_a_field_is_blank_off_its_domain():
    _, _, found = computed(toml(PLATE, ON_TRIANGLES, {"record": '["field"]', "grid": "9"}))
    field, exact = found["field"][0, -1], found["exact_field"][0, -1]
    x, y = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 9), indexing="ij")
    assert np.array_equal(np.isnan(field), x + y > 1 + 1e-6)
    assert np.nanmax(np.abs(field - exact)) < 1e-2


def test_a_mesh_is_found_beside_the_study_and_travels_with_it(tmp_path):
    meshio = pytest.importorskip("meshio")
    square = Mesh.of([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    points = np.column_stack([square.vertices, np.zeros(4)])
    meshio.write(tmp_path / "part.msh", meshio.Mesh(points, [("triangle", square.triangles)]), file_format="gmsh")
    problem = {"dimension": 2, "exact": '"exp(-t)*sin(pi*x)*sin(pi*y)"', "domain": '{ mesh = "part.msh" }'}
    study = Study.from_text(toml(problem, ON_TRIANGLES), str(tmp_path / "tiny.toml"))
    (tmp_path / "part.msh").unlink()
    assert study.spec.problem.domain == square
    assert (evs.run(study).error < 0.2).all()


# Baselines


def baseline(method, problem, constants):
    """A study of a method without features."""
    without = dict.fromkeys(("dictionary", "N", "gamma", "quadrature", "dt"))
    return toml(problem, without | constants, method=method, axes={"seed": None, "dt": "[0.025]"})


FEM = {"unknowns": 31}


@pytest.mark.parametrize(
    ("problem", "bound"),
    [
        (TRANSPORT, 2e-3),
        (FRONT, 2e-3),
        (ROLL, 2e-2),
        (WAVE | {"exact": '"exp(-t)*sin(pi*x)+x"', "lifting": '"x"'}, 2e-3),
        (CHANNEL, 5e-3),
        (
            WAVE
            | {"dimension": 2, "exact": '"exp(-t)*sin(pi*x)*sin(pi*y)"', "diffusion": '[["1", "x/2"], ["x/2", "1"]]'},
            5e-3,
        ),
    ],
    ids=["transport", "front", "periodic", "lifting", "channel", "tensor"],
)
def test_p1_fem_solves_everything_on_boxes(problem, bound):
    assert (errors(baseline("p1_fem", problem, FEM | {"validation": 20})) < bound).all()


PARABOLA = {"dimension": 1, "initial": '"x*(1-x)"'}
DIFFERENCES = {"points": 15}
REFUSED = {
    "p1_fem: disk": (
        baseline("p1_fem", DISK, FEM | {"validation": TRIANGLES}), "p1_fem must have a problem on a box"
    ),
    "finite_difference: advection": (
        baseline("finite_difference", WAVE | {"advection": '["1"]'}, DIFFERENCES),
        "finite differences must have a problem of scalar diffusion and source, got one with advection",
    ),
    "finite_difference: start": (
        baseline("finite_difference", WAVE, DIFFERENCES | {"start": "{ implicit_euler_half_steps = 2 }"}),
        "`start` must be left out for finite differences",
    ),
    "space_time_regression: reaction": (
        toml(FRONT, {"quadrature": None, "dt": None}, method="space_time_regression"), "got one with reaction"
    ),
    "tensor not symmetric": (
        toml(CHANNEL | {"diffusion": '[["1", "x"], ["y", "1"]]'}), "`diffusion` must be symmetric"
    ),
    "tensor not definite": (
        toml({"dimension": 2, "exact": BUBBLE, "diffusion": '[["1", "2"], ["2", "1"]]'}, {"validation": 9}),
        "`diffusion` must be positive definite on the assembly nodes, got a least eigenvalue of -1",
    ),
    "flux on a periodic face": (
        toml(ROLL | {"boundary": '{ x = "periodic", x1 = { flux = "1" } }'}), "a face of the periodic direction x"
    ),
    "crossing polygon": (
        toml(PLATE | {"domain": "{ polygon = [[0, 0], [1, 1], [1, 0], [0, 1]] }"}), "a line that does not cross itself"
    ),
    "potential and reaction": (
        toml(PARABOLA | {"potential": '"u**2"', "reaction": '"u"'}),
        "`reaction` must be left out beside `potential`",
    ),
    "rule of a box on a polygon": (toml(PLATE), '{ rule = "triangles", refinements = n, degree = m }'),
    "triangles on a box": (toml(CHANNEL, ON_TRIANGLES), "on a box"),
    "a start too long": (toml(constants={"start": "{ implicit_euler_half_steps = 40 }"}), "at most 8 half steps"),
    "no points": (toml(constants={"reference": '"finite_elements"'}), "`reference_points` must be given"),
    "no mesh": (toml(PLATE | {"domain": '{ mesh = "none.msh" }'}), "`domain.mesh` must be an existing file"),
    "seminorm without gradient": (
        toml(PARABOLA, {"reference": '"refined"'}, {"record": '["error_h1"]'}),
        "`record` must leave out error_h1",
    ),
    "norm without reference": (
        toml(PARABOLA, None, {"record": '["error_max"]'}),
        "`record` must leave out error_max for a problem without exact solution or reference",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_costs_one_line_and_exit_code_two(refused, name):
    refused(*REFUSED[name])


def test_a_divergent_reaction_is_a_run_that_diverged_with_its_last_change():
    blow_up = {"dimension": 1, "initial": '"50*x*(1-x)"', "reaction": '"u**3"'}
    status, messages, _ = computed(toml(blow_up))
    assert status.tolist() == [Status.diverged] * 2
    assert all("Newton's method did not converge" in message and "last change" in message for message in messages)


START = """
name = "start"
[problem]
dimension = 1
initial = "1"
[axes]
dt = [0.01, 0.005]
[constants]
seed = 0
dictionary = "legendre"
N = 60
quadrature = 180
validation = 50
final_time = 0.1
start = { implicit_euler_half_steps = 4 }
[output]
times = 2
record = ["field"]
grid = 21
"""


def test_initial_data_that_do_not_meet_the_boundary_values_are_damped():
    with pytest.warns(evs.errors.AccuracyWarning, match="`initial` at t = 0 should vanish on the boundary"):
        data = evs.run(evs.Study.from_text(START), workers=0).isel(time=-1)
    odd = np.pi * np.arange(1, 400, 2)
    known = (4 / odd * np.exp(-(odd**2) * 0.1)) @ np.sin(np.outer(odd, data.x.values))
    errors = np.abs(data.field.values - known).max(axis=-1)
    assert errors[0] < 0.01
    assert errors[1] < errors[0] / 3.5
