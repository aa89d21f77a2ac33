"""Another package registers one of each by entry points, as the PDE wing does, and studies use them by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import evogt_study as evs
from evogt_study import pde
from evogt_study.errors import StudyError
from evogt_study.methods.problem_kind import PROBLEM_KINDS
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.domains import DOMAINS
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.methods import parameters
from evogt_study.publishing.page import stated_problems
from evogt_study.schema.variables import status_codes
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
    parameters._load_installed.cache_clear()
    yield
    sys.modules.pop("other_package", None)
    parameters._load_installed.cache_clear()


def heat(axis="N = [2, 4]", dictionary="sine", domain="", constants=""):
    text = HEAT.format(axis=axis, dictionary=dictionary, domain=domain, constants=constants)
    return Study.from_text(text.replace("N = 4\n", "") if axis.startswith("N =") else text)


def run(study):
    ds = evs.run(study)
    assert (status_codes(ds.run_status) == 1).all(), ds.run_message.values
    return ds


def test_a_method_is_a_function():
    ds = run(Study.from_text('name = "s"\nmethod = "other_square"\n[axes]\nx = [1, 2, 3]\nseed = [0, 1]\n'))
    assert ds.square.values.tolist() == [[1, 2], [4, 5], [9, 10]]


def test_a_method_is_a_type_and_declares_its_variables():
    with pytest.warns(
        evs.errors.DoubtWarning, match=r"root is above 1.5 \(in 1 of 2 runs, the largest 2\): x is large"
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
    assert [str(each.items) for each in stated_problems(text)] == ["<li>a spring of stiffness 4.0</li>"]
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
    assert pde.Dictionary("other_waves", 4, wavelength=0.5).content()["wavelength"] == 0.5


@pytest.mark.xfail(strict=True, raises=StudyError, reason="a dictionary's own parameter is a parameter of its studies")
def test_a_dictionary_has_a_parameter_of_its_own():
    run(heat(dictionary="other_waves", constants="wavelength = 0.5"))


def test_an_integrator_and_its_parameter():
    ds = run(heat("theta = [0.5, 1.0]", constants='time_integrator = "other_theta"'))
    half, whole = ds.error.values
    assert half == pytest.approx(
        float(run(heat("N = [4]")).error[0]), rel=0.1
    )  # the midpoint rule is of the same order
    assert whole > 2 * half


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
