"""Formulas and problems of a report page as MathML."""

import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evogt_study.pde.problems.typeset import formula, problem_lines
from evogt_study.publishing.report import stated_problems

ROOT = Path(__file__).parents[3]


def read(text):
    """Letters and signs of a formula in their order, fractions as (above/below), powers as ^."""
    return _read(ElementTree.fromstring(f"<math>{text}</math>")).replace("\u2062", "")  # the invisible times


def _read(node):
    parts = [_read(each) for each in node]
    if node.tag == "mfrac":
        return f"({parts[0]}/{parts[1]})"
    return {"msup": "^", "msub": "_"}.get(node.tag, "").join(parts) + (node.text or "")


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
