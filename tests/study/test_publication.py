"""Who made a study's results is in the study, in the attributes of its result, and in no key of a run."""

import netCDF4
import pytest

import evogt_study as evs
from evogt_study.study.model import check_license, check_orcid
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

PUBLICATION = """
[publication]
creators = [{ name = "Doe, Jane", orcid = "0000-0002-1825-0097" }, { name = "A Group", email = "group@example.org" }]
license = "CC-BY-4.0"
institution = "University of Examples"
"""


def test_it_is_in_the_attributes_and_not_in_the_keys(small_study, result_of, tmp_path):
    study = Study.from_text(small_study + PUBLICATION)
    assert plan_study(study)[-1].keys.tolist() == plan_study(Study.from_text(small_study))[-1].keys.tolist()
    with netCDF4.Dataset(result_of(study, tmp_path / "small.nc")) as file:
        assert file.creator_name == "Doe, Jane; A Group"
        assert file.creator_email == "; group@example.org"
        assert file.creator_url == "https://orcid.org/0000-0002-1825-0097; "
        assert (file.license, file.institution) == ("CC-BY-4.0", "University of Examples")
        assert "publisher_name" not in file.ncattrs()
    assert evs.verify(tmp_path / "small.nc").findings == ()


def test_it_is_given_in_python_too(tmp_path):
    made = {"creators": [{"name": "Doe, Jane"}], "license": "https://example.org/terms"}
    constants = {"unknowns": 7, "validation": 20, "final_time": 0.1, "dt": 0.05}
    axes = {"epsilon": [0.1, 0.2]}
    study = evs.Study("p1_fem", problem="oscillatory_1d", axes=axes, constants=constants, publication=made)
    assert study.model.publication.creators[0].name == "Doe, Jane"
    assert Study.from_file(study.to_file(tmp_path / "study.toml")).model.publication == study.model.publication


@pytest.mark.parametrize("orcid", ["0000-0002-1825-0097", "0000-0001-5109-3700", "0000-0002-1694-233X"])
def test_identifiers_of_people(orcid):
    """Those that orcid.org itself gives as examples."""
    assert check_orcid(orcid) == orcid
    with pytest.raises(ValueError, match="an ORCID iD such as"):
        check_orcid(orcid[:-1] + "5")


@pytest.mark.parametrize("text", ["CC-BY-4.0", "cc-by-4.0", "LicenseRef-ours", "https://example.org/license"])
def test_identifiers_of_licences(text):
    assert check_license(text) == text.replace("cc-by", "CC-BY")
