"""A deposit is a valid bag and crate; it is checked on another machine; what is wrong is refused."""

import json
import re
import shutil
import textwrap
from importlib.resources import files
from pathlib import Path

import netCDF4
import pytest
import yaml

from evogt_study.errors import InputError
from evogt_study.publishing.publish import publish, verify_deposit
from evogt_study.study.study import Study

PUBLICATION = """
[publication]
creators = [
  { name = "Doe, Jane", orcid = "0000-0002-1825-0097", affiliation = "University of Examples" },
  { name = "The Examples Group", email = "group@example.org" },
  { name = "Plato,", affiliation = "The Academy" },
]
license = "CC-BY-4.0"
institution = "University of Examples"
publisher = "An archive"
references = "Doe, On examples, 2026"
doi = "10.5281/zenodo.1234567"
"""
METHOD = """
    from pathlib import Path
    from inner.scale import factor
    Path(__file__).with_name("imported").touch()
    def method(level, seed):
        table = Path(__file__).with_name("table.csv").read_text()
        return {"error": factor * float(table) * level + seed}
"""
AXES = 'title = "Levels: %s | \\"quoted\\" 😀 <b>\\u001b"\ndepends = ["table.csv"]\n'
AXES += "[axes]\nlevel = [1, 2]\nseed = { count = 3 }\n"
PAPER = Path(__file__).parents[2] / "data/results/p1_fem_target.nc"
CONTEXT = "https://w3id.org/ro/crate/1.2/context"


def study_in(folder, publication=PUBLICATION, name="own"):
    """A study with Python of its own, what that imports, and a table."""
    (folder / "inner").mkdir(parents=True, exist_ok=True)
    (folder / "inner/scale.py").write_text("factor = 0.5\n")
    (folder / "table.csv").write_text("3\n")
    (folder / "method.py").write_text(textwrap.dedent(METHOD))
    text = f'name = "{name}"\nmethod = "method.py:method"\n{AXES}{publication}'
    (folder / f"{name}.toml").write_text(text)
    return Study.from_file(folder / f"{name}.toml")


@pytest.fixture(scope="module")
def made(tmp_path_factory, result_of):
    """A deposit of two results: of a function with files beside it, and of the paper's method by another text."""
    folder = tmp_path_factory.mktemp("made")
    own = result_of(study_in(folder / "work"), folder / "own results.nc")
    (folder / "work/imported").unlink()
    publish([own, PAPER], folder / "deposit")
    assert not (folder / "work/imported").exists()  # nothing of a study is imported
    (folder / "work").rename(folder / "moved")  # as it is on another machine
    return folder


@pytest.fixture
def copy(made, tmp_path):
    shutil.copytree(made / "deposit", tmp_path / "copy")
    return tmp_path / "copy"


def outcomes(folder, **options):
    return list(verify_deposit(folder, **options))


# --- what it is -------------------------------------------------------------------------------------------------------


def test_the_deposit_has_the_files_of_its_studies_and_little_more(made):
    payload = made / "deposit/data"
    names = {path.relative_to(payload).as_posix() for path in payload.rglob("*") if path.is_file()}
    own = {"inner/scale.py", "method.py", "own.toml", "table.csv"}
    assert names == {
        "CITATION.cff", "README.md", "ro-crate-metadata.json",
        "results/own results.nc", "reports/own results.html", "environments/own results.txt",
        *(f"studies/own results/{name}" for name in own),
        "results/p1_fem_target.nc", "reports/p1_fem_target.html", "environments/p1_fem_target.txt",
        "studies/p1_fem_target/p1_fem_target.toml",
    }  # fmt: skip
    described = ("results", "studies", "reports")
    every = [path.relative_to(made / "deposit") for path in (made / "deposit").rglob("*") if path.is_file()]
    added = [path for path in every if path.parent == Path() or path.parts[1] not in described]
    assert sum((made / "deposit" / path).stat().st_size for path in added) < 25_000
    assert all(path.stat().st_size < 100_000 for path in (payload / "reports").iterdir())


@pytest.mark.slow
def test_a_deposit_that_is_made_twice_has_the_same_bytes(made):
    (made / "moved").rename(made / "work")
    publish([made / "own results.nc", PAPER], made / "again")
    (made / "work").rename(made / "moved")
    for path in (made / "deposit").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (made / "again" / path.relative_to(made / "deposit")).read_bytes(), path


@pytest.mark.filterwarnings("ignore:'count' is passed as positional argument:DeprecationWarning")  # bagit's, since 3.13
def test_the_bag_is_valid(made):
    bagit = pytest.importorskip("bagit", reason="bagit is not installed (extra test)")
    bag = bagit.Bag(str(made / "deposit"))
    assert bag.validate()
    assert bag.info["External-Identifier"] == "10.5281/zenodo.1234567"


def test_the_citation_is_yaml_with_the_same_texts(made):
    cited = yaml.safe_load((made / "deposit/data/CITATION.cff").read_text())
    assert cited["title"] == 'Levels: %s | "quoted" 😀 <b>\x1b and 1 more'
    texts = [(made / "deposit" / name).read_text() for name in ("bag-info.txt", "data/README.md")]
    assert all("\\x1b" in text and "\x1b" not in text for text in texts)
    assert "<b>" not in texts[1]
    assert cited["authors"][0] == {
        "family-names": "Doe", "given-names": "Jane", "orcid": "https://orcid.org/0000-0002-1825-0097",
        "affiliation": "University of Examples",
    }  # fmt: skip
    assert cited["license"] == "CC-BY-4.0"


def test_the_environment_has_the_versions_of_the_result(made):
    lines = (made / "deposit/data/environments/p1_fem_target.txt").read_text().splitlines()
    with netCDF4.Dataset(made / "deposit/data/results/p1_fem_target.nc") as file:
        recorded = json.loads(file.versions)
    assert {f"{name.lower()}=={recorded[name]}" for name in ("numpy", "scipy", "netCDF4", "evogt-study")} <= set(lines)
    assert f"# Python: {recorded['python']}" in lines
    assert any(line.startswith("pydantic-core==") for line in lines)  # what they depend on


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the validator's, of another library
def test_the_crate_is_valid(made, tmp_path):
    """Without a network: the validator reads the vocabulary from its cache, where this puts it.

    The cache holds the context of RO-Crate 1.3, which adds terms to RO-Crate 1.2.
    """
    services = pytest.importorskip("rocrate_validator.services", reason="roc-validator is not installed (extra test)")
    from requests import Request
    from requests_cache import CachedRequest, CachedResponse, CachedSession

    request = CachedRequest.from_request(Request("GET", CONTEXT).prepare())
    words = (files("rocrate") / "data/ro-crate.jsonld").read_bytes()
    with CachedSession(str(tmp_path / "http"), backend="sqlite") as session:
        kind = {"Content-Type": "application/ld+json"}
        response = CachedResponse(status_code=200, url=CONTEXT, request=request, content=words, headers=kind)
        session.cache.save_response(response)
    found = services.validate(
        services.ValidationSettings(
            rocrate_uri=str(made / "deposit/data"), profile_identifier="ro-crate-1.2", offline=True,
            cache_path=tmp_path / "http",
        )
    )  # fmt: skip
    assert [f"{issue.check.identifier}: {issue.message}" for issue in found.get_issues()] == []
    graph = json.loads((made / "deposit/data/ro-crate-metadata.json").read_text())["@graph"]
    people = [each["name"] for each in graph if each["@type"] in ("Person", "Organization")]
    assert {"Jane Doe", "The Examples Group", "An archive"} <= set(people)


# --- checked elsewhere ------------------------------------------------------------------------------------------------


def test_a_reader_checks_it_and_computes_a_sample_again(copy, evogt, monkeypatch):
    monkeypatch.chdir(copy / "data")
    code, out, err = evogt("verify", "..", "--rerun", "2")
    assert err == ""
    assert (code, out.count("equal bit for bit") + out.count("with other software"), out.count("all well")) == (0, 4, 3)
    assert [line for line in out.splitlines() if "executes" in line] == [
        f"  executes: {copy}/data/studies/own results/{name}" for name in ("inner/scale.py", "method.py", "table.csv")
    ]
    assert (copy / "data/studies/own results/imported").exists()


def test_results_of_the_listed_commands_lie_outside_of_the_bag(copy):
    results = re.findall(r"-o '(.+)'", (copy / "data/README.md").read_text())
    assert results
    assert not any((copy / "data" / each).resolve().is_relative_to(copy.resolve()) for each in results)


def test_without_a_sample_nothing_is_run(copy):
    assert all(made.well for made in outcomes(copy))
    assert not (copy / "data/studies/own results/imported").exists()


def damaged(path):
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda data: damaged(data / "results/own results.nc"),
            "own results.nc differs from its SHA-256 checksum in manifest-sha256",
        ),
        (lambda data: damaged(data / "studies/own results/method.py"), "method.py differs"),
        (lambda data: (data / "README.md").unlink(), "lists 'data/README.md', which does not exist"),
        (lambda data: (data / "more.py").touch(), "data/more.py is in no manifest"),
        (lambda data: damaged(data.parent / "manifest-sha256.txt"), "which does not exist"),
        (
            lambda data: (data.parent / "bag-info.txt").write_text("other"),
            "bag-info.txt differs from its SHA-256 checksum in tagmani",
        ),
    ],
)
def test_a_changed_file_is_named_and_nothing_is_run(copy, change, expected):
    change(copy / "data")
    (found,) = outcomes(copy)
    assert not found.well
    assert expected in " ".join(found.findings)
    assert not (copy / "data/studies/own results/imported").exists()


def test_a_manifest_leads_to_no_other_place(copy):
    (copy.parent / "secret").write_text("")
    with (copy / "manifest-sha256.txt").open("a") as file:
        file.write(f"{'0' * 64}  data/../../secret\n")
    assert any("'data/../../secret', which does not exist" in line for line in outcomes(copy)[0].findings)


# --- refused, and nothing left ----------------------------------------------------------------------------------------


def refused(evogt, tmp_path, *results, expected, code=2):
    before = sorted(tmp_path.iterdir())
    found, out, err = evogt("publish", *results, "-o", tmp_path / "new/deposit")
    assert (found, out, len(err.splitlines())) == (code, "", 1), err
    assert expected in err
    assert sorted(tmp_path.iterdir()) == before


def test_without_the_extra_one_line_names_it(evogt, tmp_path, monkeypatch):
    monkeypatch.setattr("evogt_study.publishing.publish.find_spec", lambda name: None)
    message = "`evogt publish` needs bagit, rocrate, yaml: pip install 'evogt-study[publish]'"
    refused(evogt, tmp_path, PAPER, expected=message)


def test_results_that_cannot_be_published_are_refused(evogt, result_of, tmp_path):
    own = result_of(study_in(tmp_path / "work"), tmp_path / "own.nc")
    silent = result_of(study_in(tmp_path / "silent", "", "silent"), tmp_path / "silent.nc")
    other = result_of(study_in(tmp_path / "other", PUBLICATION.replace("BY-4", "BY-3"), "other"), tmp_path / "other.nc")
    refused(
        evogt,
        tmp_path,
        silent,
        expected="`[publication]` must name creators and a license to publish results, got none",
    )
    refused(evogt, tmp_path, own, other, expected="must be the same in all results of a deposit, got another in")
    refused(evogt, tmp_path, own, own, expected="must be files with different names, got two files named 'own'")
    refused(evogt, tmp_path, tmp_path / "none.nc", expected="none.nc")
    (tmp_path / "work/method.py").write_text("def method(level, seed):\n    return {'error': 1.0}\n")
    refused(evogt, tmp_path, own, expected="work/method.py changed, ")
    (tmp_path / "work/method.py").unlink()
    refused(evogt, tmp_path, own, expected="Publish it from the folder of `evogt run`")
    (tmp_path / "deposit").mkdir()
    with pytest.raises(InputError, match=r"must be a new folder, got .*, which exists"):
        publish([silent], tmp_path / "deposit")
    other.write_bytes(other.read_bytes()[:10_000])
    refused(evogt, tmp_path, other, expected="a result to publish must have no errors")


def test_a_file_outside_of_the_studys_folder_is_refused(evogt, result_of, tmp_path):
    study = study_in(tmp_path / "work")
    (tmp_path / "table.csv").write_text("3\n")
    text = study.text.replace('depends = ["table.csv"]', 'depends = ["../table.csv"]')
    own = result_of(Study.from_text(text, str(tmp_path / "work/own.toml")), tmp_path / "own.nc")
    refused(evogt, tmp_path, own, expected="must be in its folder to be published. Move it")
