"""Parts of a report page: formulas and problems as MathML, and the finding."""

import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from drawable import own, runs, small

import evogt_study as evs
from evogt_study.pde.problems.typeset import formula, problem_lines
from evogt_study.publishing.page import stated_problems
from evogt_study.publishing.report import comparison_of, finding
from evogt_study.results.netcdf import read_result

ROOT = Path(__file__).parents[2]


def read(text):
    """Letters and signs of a formula in their order, fractions as (above/below), powers as ^."""
    return _read(ElementTree.fromstring(f"<math>{text}</math>")).replace("\u2062", "")  # the invisible times


def _read(node):
    parts = [_read(each) for each in node]
    if node.tag == "mfrac":
        return f"({parts[0]}/{parts[1]})"
    return {"msup": "^", "msub": "_"}.get(node.tag, "").join(parts) + (node.text or "")


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "typeset"),
    [
        ("exp(-t)*sin(16*pi*x)", "(sin(16πx)/ⅇ^t)"),
        ("1e-3", "(1/1000)"),
        ("2e-20*x", "(x/50000000000000000000)"),
        ("x1*(a - (b - c))", "x_1(a-b+c)"),
        ("sin(x)**2 + sqrt(x)**3", "x^(3/2)+sin(x)^2"),
        ("abs(x)*tanh(epsilon)", "tanh(ε)|x|"),
    ],
)
def test_a_formula_is_typeset(text, typeset):
    assert read(formula(text)) == typeset


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "x.y", "<b>x</b>", "", "a\u202eb", "9**9**9"])
def test_what_is_no_formula_is_text(text):
    node = ElementTree.fromstring(formula(text))
    assert node.tag == "mtext"
    assert "\u202e" not in (node.text or "")


@pytest.mark.parametrize("path", sorted((ROOT / "studies").rglob("*.toml")), ids=lambda path: path.stem)
def test_problems_of_all_studies_are_typeset(path):
    text = path.read_text(encoding="utf-8")
    found = stated_problems(text)
    for stated in found:
        ElementTree.fromstring(f"<ul>{stated.items}</ul>")
        assert "<mtext" not in stated.items
    assert bool(found) == ("problem" in text)


def test_the_equation_has_the_terms_of_its_problem():
    study = """
    [problem]
    dimension = 2
    diffusion = [["1", "x"], ["x", "2"]]
    advection = ["1 - y", "x"]
    reaction = "-u"
    initial = "x"
    source = "t"
    domain = { lower = [0, 0], upper = [1, 0.5] }
    [problem.boundary]
    x = "periodic"
    y0 = { flux = "exp(-t)" }
    y1 = { transfer = "3/2", outside = "1" }
    """
    lines = problem_lines(tomllib.loads(study)["problem"])
    assert [(read(line.formula), line.words) for line in lines] == [
        ("u_t=div(A∇u)−b·∇u+g+f", "in Ω, for 0 < t ≤ T"),
        ("A=(1xx2)", ""),
        ("b=(1-y,x)", ""),
        ("g=-u", ""),
        ("f=t", ""),
        ("u(·,0)=x", ""),
        ("", "x: periodic"),
        ("n·(A∇u)=ⅇ^-t", "on the face y0"),
        ("n·(A∇u)=((3/2))(1−u)", "on the face y1"),
        ("u=0", "on the rest of the boundary, where there is one"),
        ("Ω=(0,1)×(0,(1/2))", ""),
    ]


def test_a_parameter_and_a_coefficient_have_different_letters():
    stated = {"dimension": 1, "exact": "exp(-t)*sin(pi*x)", "diffusion": "(1 + a*x)/10"}
    equation, coefficient = (line.formula for line in list(problem_lines(stated))[:2])
    assert "<mi>𝒶</mi>" in equation
    assert "<mi>a</mi>" not in equation
    assert ("<mi>𝒶</mi>" in coefficient, "<mi>a</mi>" in coefficient) == (True, True)


@pytest.mark.parametrize(
    "study", ["[", "problem = 3", "[problem]\ndimension = 1\nnothing = 1", "[axes]\nproblem = 'x'", "x = 1"]
)
def test_what_states_no_problem_has_none(study):
    assert stated_problems(study) == []


# --- the finding ------------------------------------------------------------------------------------------------------


def test_the_finding_is_the_conclusion_of_the_comparison():
    data = read_result(ROOT / "data" / "results" / "oscillatory_1d.nc")["main"].sel(epsilon=[0.05])
    found = evs.compare(data["error"].isel(epsilon=0), "dictionary", planned=data["run_key"].isel(epsilon=0))
    assert finding(comparison_of(data)).sentence == found["conclusion"].item()
    assert found["leader"].item() == "gtransnet"


def test_a_finding_over_setups_counts_them_and_says_what_is_open(tmp_path):
    source = """
import numpy as np

def method(seed, kind, N):
    rng = np.random.default_rng([seed, N, len(kind)])
    if kind == "other" and N == 20 and seed == 0:
        raise ValueError("no")
    return {"error": float(rng.lognormal()) * (0.01 if kind == "fine" and N == 10 else 1.0)}
"""
    axes = '[axes]\nkind = ["other", "fine"]\nN = [10, 20]\nseed = { start = 0, count = 12 }\n'
    found = finding(comparison_of(runs(own(tmp_path, axes, source))))
    assert found.sentence.startswith(
        "In 1 of 2 setups one kind has the lowest error of all significantly (fine in 1), at 95 % confidence in each "
    )
    first, second = found.setups
    assert first.startswith("At N = 10: fine has a lower error than other on 12 of 12 seeds (p < 0.001, sign test).")
    assert second.startswith("At N = 20: No significant difference in error. ")
    assert second.endswith("Failed runs, counted as losses: other 1 of 12.")


@pytest.mark.parametrize(("better", "leader"), [("", "tree"), ("higher", "net")])
def test_the_finding_follows_the_declared_direction_and_no_text_says_best_without(tmp_path, better, leader):
    source = """
import numpy as np

def method(seed, model):
    return {"accuracy": {"tree": 0.78, "net": 0.94}[model] + 0.02 * float(np.random.default_rng(seed).random())}
"""
    axes = '[axes]\nmodel = ["tree", "net"]\nseed = { start = 0, count = 12 }\n'
    axes += f'[output.better]\naccuracy = "{better}"\n' if better else ""
    data = runs(own(tmp_path, axes, source))
    found = finding(comparison_of(data)).sentence
    assert found.startswith(f"{leader} has a {better or 'lower'} accuracy than ")
    assert "best" not in found


def test_there_is_no_finding_without_enough_seeds():
    few = small().copy()
    few["error"].attrs = {}
    assert comparison_of(few) is None  # three seeds
