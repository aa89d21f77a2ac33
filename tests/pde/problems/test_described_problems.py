"""The problem of a study on a page."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from evogt_study.publishing.report import find_problems

ROOT = Path(__file__).parents[3]
STUDY = """
[problem]
dimension = 2
diffusion = [["1", "x"], ["x", "2"]]
reaction = "-u"
initial = "<b>x</b>"
[problem.boundary]
y1 = { transfer = "3/2", outside = "1" }
"""


def lines(study):
    (found,) = find_problems(study).values()
    return [" = ".join(part.text for part in item) for item in ElementTree.fromstring(f"<ul>{found}</ul>")]


@pytest.mark.parametrize("path", sorted((ROOT / "studies").rglob("*.toml")), ids=lambda path: path.stem)
def test_problems_of_all_studies_are_described(path):
    text = path.read_text(encoding="utf-8")
    found = find_problems(text)
    for items in found.values():
        ElementTree.fromstring(f"<ul>{items}</ul>")
    assert bool(found) == ("problem" in text)


def test_the_description_has_the_entries_of_the_problem():
    assert lines(STUDY) == [
        "equation = u_t = div(A grad u) + g",
        "dimension = 2",
        "initial = <b>x</b>",
        "diffusion = [['1', 'x'], ['x', '2']]",
        "reaction = -u",
        "boundary.y1.transfer = 3/2",
        "boundary.y1.outside = 1",
    ]
    fields = "[problem]\ndimension = 1\n[problem.fields.u]\nflux = ['u*u_x']\ninitial = '0'"
    assert lines(fields)[:3] == ["equation = u_t = div F + g", "dimension = 1", "fields.u.flux = ['u*u_x']"]


@pytest.mark.parametrize(
    "study", ["[", "problem = 3", "[problem]\ndimension = 1\nnothing = 1", "[axes]\nproblem = 'x'", "x = 1"]
)
def test_what_states_no_problem_has_none(study):
    assert find_problems(study) == {}
