"""Studies that are stated in Python: the same results as from a file, of functions from wherever they come."""

import linecache
import tomllib
import types

import numpy as np
import pytest
from click.testing import CliRunner

import evogt_study as evs
from evogt_study import pde
from evogt_study.cli.main import main
from evogt_study.errors import InPythonError, ResultError, StudyError
from evogt_study.operations.verify import try_case, verify

OFFSET = 10.0


def local(seed, scale=2.0):
    return {"v": scale * seed + OFFSET, "path": ("k", [seed, 1])}


class Model:
    def __init__(self, rate):
        self.rate = rate

    def run(self, seed):
        return self.rate * seed


def of_a_cell(source):
    """A function of a notebook's cell."""
    module = types.ModuleType("__main__")
    linecache.cache["<cell>"] = len(source), None, source.splitlines(keepends=True), "<cell>"
    exec(compile(source, "<cell>", "exec"), vars(module))
    return module.f


FUNCTIONS = {
    "a lambda": (lambda seed: seed + OFFSET, [10, 11, 12]),
    "a method of an object": (Model(5).run, [0, 5, 10]),
    "a function of a cell": (
        of_a_cell("A = 4\ndef g(x):\n    return A * x\ndef f(seed):\n    return g(seed)"), [0, 4, 8]
    ),
    "what is enclosed": ((lambda power: lambda seed: seed**power)(2), [0, 1, 4]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_from_anywhere(client, tmp_path, name):
    function, expected = FUNCTIONS[name]
    path = tmp_path / "r.nc"
    data = evs.run(evs.Study(function, axes={"seed": range(3)}, name="r"), client=client, output=path)
    assert data["v" if "v" in data else "value"].values.tolist() == expected
    found = verify(path, rerun=1)
    assert (found.findings, found.recomputed, found.well) == ((), (), False)
    shown = CliRunner().invoke(main, ["verify", str(path), "--rerun", "2"])
    assert (shown.exit_code, shown.output.splitlines()[-1]) == (1, f"{path}: well, but 0 of 2 runs were computed again")
    assert "was given in Python" in found.left_out
    assert "study.to_file" in found.left_out
    with pytest.raises(
        ResultError, match="was given in Python. .* Put the function into a file, then use study.to_file"
    ):
        verify(path, rerun=1, code=__file__)
    with pytest.raises(InPythonError, match="was given in Python. Its text is in the attribute study_code"):
        try_case(path, {"seed": 1})


def test_replace_names_only_what_changes():
    study = evs.Study(lambda a, b, c=3: a, axes={"a": [1, 2]}, constants={"b": 1.5}, name="r")
    assert study.axes == {"a": [1, 2]}
    assert study.replace(constants={"c": 4}).space.constants == {"b": 1.5, "c": 4}
    swapped = study.replace(axes={"b": np.array([1.0, 2.0])}, constants={"a": 5})
    assert (swapped.axes, swapped.space.constants) == ({"b": [1.0, 2.0]}, {"a": 5, "c": 3})
    assert len(study) == 2
    assert study.replace(name="other").name == "other"
    with pytest.raises(StudyError, match="`b` must be given"):
        study.replace(constants={"b": None})


def test_a_study_shows_itself():
    study = evs.Study(lambda rho, seed, beta=8 / 3: rho, axes={"rho": [20, 28], "seed": range(10)}, name="lorenz")
    assert repr(study) == "study lorenz: 20 cases = 2 rho x 10 seed\n  beta = 2.66667"


@pytest.mark.parametrize("text", ["\U0001f600", "a\x7fb\x00", 'C:\\"x"', "\u2028\x85\ufeff", "\ue000\n"])
def test_any_text_is_stated_as_it_is(text):
    word = text.replace("\0", "")  # of which a label has none
    study = evs.Study(lambda word: 1.0, axes={"word": [word]}, title=text)
    assert tomllib.loads(study.text)["title"] == study.model.title == text
    assert study.space.values(0)["word"] == word


def test_a_study_is_written_as_a_file(client, tmp_path, monkeypatch):
    (tmp_path / "models.py").write_text("def model(seed, rate=2.0):\n    return rate * seed\n")
    (tmp_path / "table.csv").write_text("1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import models

    study = evs.Study(models.model, axes={"seed": range(8)}, constants={"rate": 0.5}, depends=["table.csv"])
    (tmp_path / "studies").mkdir()
    path = study.to_file(tmp_path / "studies" / "model.toml")
    text = path.read_text()
    assert 'method = "../models.py:model"' in text
    assert 'depends = ["../table.csv"]' in text
    assert "seed = { start = 0, count = 8 }" in text
    again = evs.Study.from_file(path)
    one, other = (evs.run(each, client=client).value.values.tolist() for each in (study, again))
    assert one == other == [seed / 2 for seed in range(8)]
    assert study.to_file(path).read_text() == text  # the same study again
    with pytest.raises(StudyError, match="`path` must be a new file, got .*, which has other content"):
        study.replace(constants={"rate": 0.25}).to_file(path)
    with pytest.raises(StudyError, match="must be a function in a Python file, so that a study file can name it"):
        evs.Study(lambda seed: seed, axes={"seed": [1]}).to_file(tmp_path / "l.toml")
    assert sorted(each.name for each in tmp_path.glob("*.toml")) == []


@pytest.mark.parametrize(
    "stated",
    [
        {"advection": ["1"]},
        {"dimension": 2, "diffusion": [["1", "0.1"], ["0.1", "2"]], "advection": ["y", "-x"]},
        {"dimension": 2, "domain": {"lower": [0, 0], "upper": [1, 2]}},
        {"boundary": {"x0": {"flux": "1"}, "x1": {"transfer": "1", "outside": "2"}}},
        {"boundary": {"x": "periodic"}},
    ],
    ids=str,
)
def test_a_problem_of_lists_and_tables_is_itself_in_a_study_and_in_its_file(stated, tmp_path):
    problem = pde.FormulaProblem(**{"dimension": 1, "initial": "0", "source": "1", **stated})
    constants = {
        "dictionary": "transnet", "N": 10, "gamma": 3, "quadrature": 24, "validation": 16, "final_time": 0.1,
        "dt": 0.05,
    }  # fmt: skip
    study = evs.Study(problem=problem, axes={"seed": [0]}, constants=constants)
    assert study.spec.problem == problem
    assert evs.Study.from_file(study.to_file(tmp_path / "own.toml")).spec.problem == problem


def test_none_removes_a_whole_section():
    study = evs.Study(lambda a, b=1.0: a * b, axes={"a": [1, 2]}, constants={"b": 2.0}, name="tiny")
    assert study.space.constants["b"] == 2.0
    assert study.replace(constants=None).space.constants["b"] == 1.0
