"""Files beside a user function that it imports only when it is called."""

import importlib
import sys

import pytest

import evogt_study as evs
from evogt_study.operations.verify import verify

LATE = "def method(seed):\n    from {name} import scale\n    return {{'v': scale * (seed + 1)}}\n"


@pytest.fixture
def study_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def make(way, helper, name="late_helper"):
        sys.modules.pop(name, None)
        stem = f"late_{way}_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(helper)
        (tmp_path / f"{stem}.py").write_text(LATE.format(name=name))
        method = importlib.import_module(stem).method if way == "object" else f"{stem}.py:method"
        return evs.Study(method, axes={"seed": [0, 1]}, name="late")

    return make


@pytest.mark.parametrize("workers", [0, 1])
def test_a_helper_can_be_imported_while_a_run_computes(study_of, tmp_path, monkeypatch, workers):
    study = study_of("file", "scale = 3\n", name=f"late_{workers}")
    monkeypatch.undo()  # neither the present folder nor Python's path has the file
    data = evs.run(study, output=tmp_path / "late.nc", workers=workers)
    assert data.v.values.tolist() == [3, 6]
    assert verify(tmp_path / "late.nc", rerun=2, code=tmp_path).findings == ()


@pytest.mark.parametrize("way", ["file", "object"])
def test_the_code_of_such_a_helper_counts(study_of, way):
    texts = ("scale = 3\n", "scale = 3  # three\n", "scale = 4\n")
    prints = [study_of(way, text).spec.method.fingerprint for text in texts]
    assert prints[0] == prints[1] != prints[2]


def test_folders_may_have_helpers_of_the_same_name(tmp_path):
    for number in (1, 2):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "late_twin.py").write_text(f"scale = {number}\n")
        (tmp_path / f"{number}" / "own.py").write_text(LATE.format(name="late_twin"))
    methods = {f"m{number}": f"{tmp_path}/{number}/own.py:method" for number in (1, 2)}
    data = evs.run(evs.Study(axes={"method": methods, "seed": [0, 1, 2]}, name="twins"), workers=0)
    assert data.v.values.tolist() == [[1, 2, 3], [2, 4, 6]]
