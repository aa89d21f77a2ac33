"""Every variable of the schema is on the page that explains them, by its equation, under the paper's label."""

import re
from pathlib import Path

import pytest

from evogt_study.pde.methods.variables import RECORDED, VARIABLES
from evogt_study.schema.variables import BOOKKEEPING, CONTENT, COORDINATES, Status

PAGE = (Path(__file__).parents[2] / "data" / "README.md").read_text()
SECTION = PAGE.split("## Variables")[1].split("\n## ")[0]
ROWS = {
    name: line
    for line in SECTION.splitlines()
    if line.startswith("| `")
    for name in re.findall(r"(?<!\$)`(\w+)`(?!\$)", line.split(" | ")[0])
}
MEASURED = [each.name for each in RECORDED]
LABEL = re.compile(r"(?:eq|tab|app|prop):\w+")


@pytest.mark.parametrize("name", [*VARIABLES, *BOOKKEEPING, *COORDINATES])
def test_every_variable_has_a_row(name):
    assert name in ROWS


@pytest.mark.parametrize("name", MEASURED)
def test_its_row_has_its_dimensions_and_an_equation_or_a_sentence(name):
    first, said, *_ = ROWS[name].strip("| ").split(" | ")
    assert re.findall(r"`(\w+)`", first) == [name, *VARIABLES[name].dims]
    assert len(said) > 10


@pytest.mark.parametrize("name", MEASURED)
def test_its_labels_are_those_of_the_file(name):
    for label in LABEL.findall(VARIABLES[name].comment):
        assert label in ROWS[name]


def test_there_is_no_row_of_something_else():
    assert set(ROWS) <= {*VARIABLES, *BOOKKEEPING, *COORDINATES}


@pytest.mark.parametrize("status", Status)
def test_every_status_is_told_with_its_flag(status):
    assert f"{status.name} {status.value}" in ROWS["run_status"]


@pytest.mark.parametrize("name", [*MEASURED, *BOOKKEEPING])
def test_attributes_that_a_reader_of_the_file_needs(name):
    attributes = {**VARIABLES, **BOOKKEEPING}[name].attributes
    assert attributes["long_name"]
    assert attributes[CONTENT] in ("modelResult", "qualityInformation", "auxiliaryInformation")
    assert name not in MEASURED or attributes["units"]


@pytest.mark.parametrize("name", ["mode", "feature", "node"])
def test_an_index_says_where_it_starts(name):
    assert VARIABLES[name].comment.startswith("from 0")
    assert name == "feature" or "from 0" in ROWS[name]


def test_unknowns_are_those_of_both_baselines():
    for said in (VARIABLES["degrees_of_freedom"].comment, ROWS["degrees_of_freedom"]):
        assert "p1_fem" in said
        assert "finite_difference" in said


def test_the_key_is_said_to_hash_what_is_recorded_too():
    assert "recorded output" in BOOKKEEPING["run_key"].long_name
    assert "recorded variables" in ROWS["run_key"]
