"""What the variables of a result say about themselves."""

from pathlib import Path

import pytest

from evogt_study.pde.methods.declarations import RECORDED, VARIABLES
from evogt_study.schema.variables import CONTENT, RUN_METADATA, Status

PAGE = (Path(__file__).parents[2] / "data" / "README.md").read_text()
MEASURED = [each.name for each in RECORDED]


@pytest.mark.parametrize("status", Status)
def test_the_page_states_the_flag_of_a_status(status):
    assert f"{status.value} ({status.name})" in PAGE


@pytest.mark.parametrize("name", [*MEASURED, *RUN_METADATA])
def test_attributes_that_a_reader_of_the_file_needs(name):
    attributes = {**VARIABLES, **RUN_METADATA}[name].attributes
    assert attributes["long_name"]
    assert attributes[CONTENT] in ("modelResult", "qualityInformation", "auxiliaryInformation")
    assert name not in MEASURED or attributes["units"]


@pytest.mark.parametrize("name", ["mode", "feature", "node"])
def test_an_index_says_where_it_starts(name):
    assert VARIABLES[name].comment.startswith("from 0")
