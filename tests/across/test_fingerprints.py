"""A function has one fingerprint and one key, however a study names it and on every supported version of Python."""

import importlib
import warnings

import fingerprint_table as table
import pytest

import evogt_study as evs
from evogt_study.study.plan import plan_study

WAYS = {
    "file": lambda name, source: f"{name}.py:f",
    "module": lambda name, source: f"{name}:f",
    "object": lambda name, source: importlib.import_module(name).f,
    "notebook": lambda name, source: table.in_a_cell(source),
}
SEEDS = {"seed": [0, 1, 2]}


@pytest.fixture
def study_of(tmp_path, monkeypatch):
    """A study of a function, whose source is in a file of the present folder, named in one of `WAYS`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toy_helper.py").write_text(table.HELPER)

    def make(source, way):
        name = f"toy_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(source)
        return evs.Study(WAYS[way](name, source), axes=SEEDS, name="toy")

    return make


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted(table.FUNCTIONS.keys() - table.IN_FILES - {"keyword-only and positional-only"}))
def test_a_function_has_one_fingerprint_and_one_key(study_of, name, way):
    study, by_file = study_of(table.FUNCTIONS[name], way), study_of(table.FUNCTIONS[name], "file")
    assert study.spec.method.fingerprint[:16] == table.FINGERPRINTS[name]
    assert plan_study(study)[-1].keys.tolist() == plan_study(by_file)[-1].keys.tolist()


@pytest.mark.parametrize("way", ["file", "module", "object"])
@pytest.mark.parametrize("name", ["a helper file", "a closure", "a lambda", "a partial"])
def test_a_study_that_is_written_to_a_file_computes_nothing_again(study_of, tmp_path, name, way):
    study, path, done = study_of(table.FUNCTIONS[name], way), tmp_path / "toy.nc", []
    evs.run(study, output=path, workers=1)
    evs.run(evs.Study.from_file(study.to_file(tmp_path / "toy.toml")), output=path, workers=1, listener=done.append)
    assert max(event.done for event in done) == 0


@pytest.mark.parametrize("name", table.FUNCTIONS)
def test_file_object_and_cell_agree_on_this_python(tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toy_helper.py").write_text(table.HELPER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = table.fingerprints(table.FUNCTIONS[name], f"toy_{tmp_path.name}", tmp_path)
    assert {found["file"][:16], found["object"][:16]} == {table.FINGERPRINTS[name]}
    assert (found["notebook"] == found["file"]) is (name not in table.IN_FILES)
