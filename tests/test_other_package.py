"""Another package registers one of each by entry points, as the PDE wing does, and studies use them by name."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import evogt_study as evs
from evogt_study import pde
from evogt_study.errors import ParameterError, StudyError
from evogt_study.methods.protocol import PROBLEM_KINDS
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.domains import DOMAINS
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.publishing.report import find_problems
from evogt_study.schema.variables import to_status
from evogt_study.study.study import Study

FOLDER = Path(__file__).with_name("other_package")
HEAT = """
name = "heat"
[problem]
dimension = 1
exact = "exp(-t)*sin(pi*x)"
diffusion = "1/10"
{domain}
[axes]
{axis}
[constants]
dictionary = "{dictionary}"
N = 4
seed = 0
quadrature = 24
validation = 16
final_time = 0.1
dt = 0.025
{constants}
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The package on the path, and nothing of it loaded before or after."""
    monkeypatch.syspath_prepend(FOLDER)
    for registry in (FAMILIES, DOMAINS, INTEGRATORS, PROBLEM_KINDS):
        monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    yield
    sys.modules.pop("other_package", None)


def heat(axis="N = [2, 4]", dictionary="sine", domain="", constants=""):
    text = HEAT.format(axis=axis, dictionary=dictionary, domain=domain, constants=constants)
    head, _, constants = text.partition("[constants]")
    names = [line.partition(" =")[0] for line in axis.splitlines()]
    kept = [line for line in constants.splitlines() if line.partition(" =")[0] not in names]
    return Study.from_text("\n".join([head, "[constants]", *kept]))


def run(study):
    ds = evs.run(study)
    assert (to_status(ds.run_status) == 1).all(), ds.run_message.values
    return ds


def test_a_method_is_a_function():
    ds = run(Study.from_text('name = "s"\nmethod = "other_square"\n[axes]\nx = [1, 2, 3]\nseed = [0, 1]\n'))
    assert ds.square.values.tolist() == [[1, 2], [4, 5], [9, 10]]


def test_a_method_is_a_type_and_declares_its_variables():
    with pytest.warns(
        evs.errors.AccuracyWarning, match=r"root is above 1.5 \(in 1 of 2 runs, the largest 2\): x is large"
    ):
        ds = run(Study.from_text('name = "r"\nmethod = "other_root"\n[axes]\nx = [1.0, 4.0]\n'))
    assert ds.root.values.tolist() == [1.0, 2.0]
    assert (ds.root.attrs["label"], ds.root.attrs["headline"]) == (r"$\sqrt{x}$", 1)
    assert ds.evogt.plot("dependence").axes[0].get_ylabel() == r"$\sqrt{x}$"


def test_a_problem_kind_reads_problems_and_wraps_functions_that_solve_them(tmp_path):
    (tmp_path / "solver.py").write_text("def frequency(problem, mass):\n    return (problem.stiffness / mass) ** 0.5\n")
    head = 'name = "f"\nmethod = "solver.py:frequency"\n[axes]\nmass = [1, 4]\n'
    text = f'{head}[problem]\nkind = "spring"\nstiffness = 4.0\n'
    (tmp_path / "f.toml").write_text(text)
    assert run(Study.from_file(tmp_path / "f.toml")).frequency.values.tolist() == [2.0, 1.0]
    assert [str(each) for each in find_problems(text).values()] == ["<li>a spring of stiffness 4.0</li>"]
    with pytest.raises(StudyError, match=r"a spring must have a `stiffness`, got \['kind', 'mass'\] \(.*/f, problem\)"):
        Study.from_text(text.replace("stiffness", "mass"), str(tmp_path / "f"))
    with pytest.raises(StudyError, match=r"`kind` must be one of pde.*, got 'weight' \(.*, problem\.kind\)"):
        Study.from_text(text.replace('"spring"', '"weight"'), str(tmp_path / "f"))


def test_a_problem_is_given_as_an_object(tmp_path):
    from other_package import Spring

    (tmp_path / "solver.py").write_text("def frequency(problem, mass):\n    return (problem.stiffness / mass) ** 0.5\n")
    study = evs.Study(f"{tmp_path}/solver.py:frequency", problem=Spring(9.0), axes={"mass": [1]}, name="f")
    assert run(study).frequency.values.tolist() == [3.0]
    again = Study.from_file(study.to_file(tmp_path / "f.toml"))
    assert again.spec.problem == Spring(9.0)


def test_a_dictionary():
    waves, sines = (run(heat(dictionary=name)) for name in ("other_waves", "sine"))
    assert waves.error.values.tolist() == sines.error.values.tolist()
    assert "wavelength" not in sines.coords  # of a package that the study does not use
    assert (float(waves.wavelength), str(waves["shape"].values)) == (1.0, "flat")  # the defaults, as for a function


def condition(wavelength, shape="flat"):
    """A number on which the parameters of Waves have an effect, by the solver alone."""
    dictionary = pde.Dictionary("other_waves", 4, wavelength=wavelength, shape=shape)
    problem = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")()
    one = pde.solve(problem, dictionary, 0, quadrature=24, validation=16, final_time=0.1, dt=0.025)
    assert (float(one.wavelength), str(one["shape"].values)) == (wavelength, shape)
    return float(one.retained_condition)


@pytest.mark.parametrize(
    ("axis", "more", "wavelengths"),
    [
        ("seed = [0]", "wavelength = 0.5", [0.5]),
        ("seed = [0]", "", [1.0]),
        ("wavelength = [0.25, 1, 2.0]", "", [0.25, 1.0, 2.0]),
        ("wavelength = { from = 0.5, to = 1.5, count = 3 }", "", [0.5, 1.0, 1.5]),
        ('shape = ["flat", "steep"]', "wavelength = 2", [2.0, 2.0]),
        ("N = [4, 2]", 'wavelength = { formula = "2/N" }', [0.5, 1.0]),
        ("final_time = [0.1, 0.2]", "[[when]]\nmatch = { final_time = 0.1 }\nset = { wavelength = 2 }", [2.0, 1.0]),
        ("seed = [0]", "[[sample]]\nname = 'w'\nrule = 'halton'\ncount = 3\nwavelength = { from = 1, to = 2 }", None),
        ("seed = [0]", "[[zip]]\nname = 'w'\nwavelength = [0.5, 2]\nshape = ['flat', 'steep']", [0.5, 2.0]),
    ],
    ids=["constant", "default", "axis", "range", "literal", "formula", "when", "sample", "together"],
)
def test_a_dictionary_has_parameters_of_its_own(axis, more, wavelengths):
    ds = run(heat(axis, "other_waves", constants=more))
    size = ds.retained_condition.size
    given = np.broadcast_to(ds.wavelength.values, ds.retained_condition.squeeze().shape).ravel().tolist()
    if wavelengths is None:
        assert len(set(given)) == size
        assert all(1.0 <= each <= 2.0 for each in given)
    else:
        assert given == wavelengths
    shapes = np.broadcast_to(ds["shape"].values, ds.retained_condition.squeeze().shape).ravel().tolist()
    if not axis.startswith("N"):
        expected = [condition(*each) for each in zip(given, shapes, strict=True)]
        assert ds.retained_condition.values.ravel().tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("dictionary", "constants", "message"),
    [
        ("other_waves", 'wavelength = "1"', "`wavelength` must be a finite number, got '1' (study, constants."),
        ("other_waves", "wavelength = true", "`wavelength` must be a finite number, got True (study, constants."),
        ("other_waves", "shape = 1", "`shape` must be one of flat, steep, got 1 (study, constants.shape)"),
        ("other_ripples", "depth = 0", "`depth` must be an integer >= 1, got 0 (study, constants.depth)"),
        ("other_ripples", "", "`depth` must be given (study, constants.depth), got no value"),
        ("other_waves", "depth = 1", "unknown parameter `depth` (study, constants.depth). "),
        ("sine", "wavelength = 1.0", "unknown parameter `wavelength` (study, constants.wavelength). "),
    ],
)  # fmt: skip
def test_a_mistake_in_a_parameter_is_one_line(dictionary, constants, message):
    with pytest.raises(StudyError) as caught:
        heat(dictionary=dictionary, constants=constants)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_dictionaries_share_a_parameter_that_one_inherits():
    """Each has its own default, which is no constant of the study then."""
    ds = run(heat('dictionary = ["other_waves", "other_ripples", "sine"]\nseed = [0, 1]', constants="depth = 3"))
    assert "wavelength" not in ds.coords
    assert ds.depth.attrs == {"long_name": "depth of a ripple", "comment": "of the surface", "units": "m"}
    found = ds.retained_condition.isel(seed=0).values.tolist()
    assert found == pytest.approx([condition(1.0), condition(0.5), condition(1.0)], rel=1e-9)
    assert len(set(ds.run_key.values.ravel().tolist())) == 3  # nothing is drawn


def test_parameters_of_others_are_no_part_of_a_run():
    axis = 'dictionary = ["other_waves", "sine"]\n{}time_integrator = ["other_theta", "implicit_midpoint"]'
    text = axis.format("wavelength = [0.5, 2.0]\ntheta = [0.5, 1.0]\n")
    keys = run(heat(text)).run_key
    alone = run(heat(axis.format(""))).run_key
    plain = keys.sel(dictionary="sine", time_integrator="implicit_midpoint")
    assert set(plain.values.ravel()) == {alone.sel(dictionary="sine", time_integrator="implicit_midpoint").item()}
    assert len(set(keys.sel(dictionary="sine", time_integrator="other_theta").values.ravel())) == 2
    assert len(set(keys.sel(dictionary="other_waves", time_integrator="implicit_midpoint").values.ravel())) == 2
    assert len(set(keys.sel(dictionary="other_waves", time_integrator="other_theta").values.ravel())) == 4


@pytest.mark.parametrize("method", ["evolution", "finite_difference"])
def test_a_class_that_a_study_does_not_name_changes_no_key(method):
    """A parameter of the problem may have a name of its parameters."""
    text = HEAT.replace("exp(-t)*sin(pi*x)", "exp(-wavelength*t)*sin(k*pi*x)")
    text = text.format(axis="k = [1, 2]\nwavelength = [1, 2]", dictionary="sine", domain="", constants="points = 9")
    without = ("points",) if method == "evolution" else ("dictionary", "N", "seed", "quadrature")
    lines = [line for line in text.splitlines() if line.partition(" =")[0] not in without]
    text = "\n".join([f'method = "{method}"', *lines])
    before = run(Study.from_text(text)).run_key.values.ravel().tolist()
    heat(dictionary="other_waves", constants='time_integrator = "other_theta"')
    after = run(Study.from_text(text)).run_key.values.ravel().tolist()
    assert before == after
    assert len(set(after)) == 4


def test_declarations_that_contradict_each_other_are_refused_only_together():
    run(heat(dictionary="other_rivals", constants="wavelength = 3"))
    with pytest.raises(StudyError) as caught:
        heat('dictionary = ["other_waves", "other_rivals"]\nseed = [0]')
    assert str(caught.value) == (
        "`wavelength` must have one declaration, got a finite number in Waves and an integer in Rivals. Write "
        '`wavelength: ... = same_as(Waves, "wavelength")`, or rename one of them. (study)'
    )


def test_an_integrator_and_its_parameter(monkeypatch):
    ds = run(heat("theta = [0.5, 1.0]", constants='time_integrator = "other_theta"'))
    half, whole = ds.error.values
    assert ds.theta.attrs["long_name"] == "ϑ"
    assert half == pytest.approx(
        float(run(heat("N = [4]")).error[0]), rel=0.1
    )  # the midpoint rule is of the same order
    assert whole > 2 * half
    reference = 'time_integrator = "other_theta"\nreference = "finite_difference"\nreference_points = 15'
    with pytest.raises(StudyError, match=r"stabilized_semi_implicit for finite differences, got 'other_theta' \(study"):
        heat("theta = [0.5, 1.0]", constants=reference)
    refused = {
        "for a problem with a potential": {"potential": "u**2"},
        "an integrator for problems with a nonlinear reaction": {"reaction": "u**2"},
        "an integrator for problems with advection": {"advection": ["1"]},
    }
    options = {"quadrature": 24, "dt": 0.025, "final_time": 0.1, "time_integrator": "other_theta"}
    for message, term in refused.items():
        problem = pde.FormulaProblem(1, initial="x*(1-x)", **term)()
        with pytest.raises(ParameterError, match=f"`time_integrator` must be .*{message}, got 'other_theta'"):
            pde.solve(problem, pde.Dictionary("sine", 4), 0, **options)
    monkeypatch.setattr(INTEGRATORS["other_theta"], "GENERAL", True)  # it says that it knows all terms
    assert float(pde.solve(problem, pde.Dictionary("sine", 4), 0, **options).initial_error) < 0.1


def test_a_domain():
    named, plain = run(heat(domain='domain = { kind = "other_cube", dimension = 1 }')), run(heat())
    assert named.error.values.tolist() == plain.error.values.tolist()
    assert not set(named.run_key.values) & set(plain.run_key.values)


@pytest.mark.long
def test_a_command():
    def evogt(*arguments):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, "-m", "evogt_study", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout

    assert evogt("greet") == "hello from another package\n"
    listed = evogt("--help")
    assert "greet      Greet the user." in listed
    assert "reproduce" in listed


@pytest.mark.long
def test_a_package_that_cannot_be_imported_leaves_the_other_commands(tmp_path):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evogt_study.commands]\nbroken = no_such_module:command\n")
    command = [sys.executable, "-m", "evogt_study", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert """broken (cannot be imported: "No module named 'no_such_module'")""" in " ".join(done.stdout.split())
    assert "run        " in done.stdout
