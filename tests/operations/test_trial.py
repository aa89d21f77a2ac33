"""One case computed again: equal bit for bit, or every difference named; and what a mistake in the question costs."""

import numpy as np
import pytest
from helpers import PARABOLA, PILOTED, rewritten

from evogt_study.errors import InputError, ResultError
from evogt_study.operations.verify import try_case
from evogt_study.publishing.contents import find_files_beside
from evogt_study.schema.variables import Status
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

OWN = """
    import numpy as np
    def method(family, epsilon, seed):
        if seed == 2 and family == "b":
            raise ValueError("no luck")
        error = float("nan") if seed == 3 else epsilon * (1 + seed)
        return {"error": error, "rank": 7, "word": family, "trace": ("n", 0.1 * np.arange(1 + seed))}
"""
REST = '[axes]\nfamily = ["a", "b"]\nepsilon = [0.2, 0.1]\nseed = { count = 4 }\n'


@pytest.fixture
def result(own_study, result_of, tmp_path):
    return result_of(own_study(OWN, REST), tmp_path / "own.nc")


def change_last_bit(data):
    data["trace"].values[0, 0, 2, 1] = np.nextafter(data["trace"].values[0, 0, 2, 1], 1)


def change_strings(data):
    data["word"].values[0, 0, 2] = "z"
    data["rank"].values[0, 0, 2] = np.nan


def change_status(data):
    data["run_status"].values[0, 0, 2] = Status.lost
    data["run_message"].values[0, 0, 2] = "the worker died"


def change_software(data):
    sets = data["run_software"].attrs["software_sets"]
    data["run_software"].attrs["software_sets"] = sets.replace(np.__version__, "1.0.0")


FIRST, LAST = "0.10000000000000002 in the file", "0.10000000000000001 now"
OTHER_SOFTWARE = f"the file has a run by other software: numpy 1.0.0, here {np.__version__}"
CHANGES = [
    (lambda data: None, True, ["equal bit for bit: error, rank, word, trace"]),
    (change_last_bit, False, [f"trace[1]: {FIRST}, {LAST}, relative difference 6.9e-17 (1 of 3 values differ)",
                              "equal bit for bit: error, rank, word"]),
    (change_strings, False, ["rank: nan in the file, 7 now", "word: 'z' in the file, 'a' now",
                             "equal bit for bit: error, trace"]),
    (change_status, False, ["in the file: lost, the worker died", "now: ok"]),
    (change_software, True, [OTHER_SOFTWARE, "equal bit for bit: error, rank, word, trace"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "equal", "lines"), CHANGES)
def test_a_run_is_compared_with_the_stored_run(result, change, equal, lines):
    made = try_case(rewritten(result, change), {"family": "a", "epsilon": "0.20", "seed": 2})
    assert made.equal == equal
    said = [line.strip() for line in made.describe()]
    assert said[0].startswith("family=a, epsilon=0.2, seed=2: ok in ")
    assert said[1:6] == [
        "with family = a, epsilon = 0.2, seed = 2", "error () float64: 0.6", "rank () int64: 7", "word () <U1: a",
        "trace (n: 3) float64: 0, 0.1, 0.2",
    ]  # fmt: skip
    assert said[6:] == lines


def test_runs_with_labels_of_their_own_are_equal_to_themselves(own_study, result_of, tmp_path):
    """A result has the labels of all runs."""
    method = """
        import xarray as xr
        def method(seed):
            return xr.Dataset({"y": ("name", [1.0 + seed, 2.0])}, {"name": ["a", "b", "c"][seed:seed + 2]})
    """
    path = result_of(own_study(method, "[axes]\nseed = [0, 1]\n"), tmp_path / "own.nc")
    assert all(try_case(path, {"seed": seed}).equal for seed in (0, 1))


def test_what_a_pilot_chose_is_read_and_its_runs_can_be_repeated(own_study, result_of, tmp_path):
    path = result_of(own_study(PARABOLA, PILOTED), tmp_path / "own.nc")

    def change(data):
        data["gamma"].values[0] = 6  # not what the pilot would choose: 1

    assert try_case(path, {"target": 2, "seed": 1}).case.values["gamma"] == 1
    assert try_case(path, {"target": 2, "seed": 101, "candidate": 2}, pilot=True).equal
    assert try_case(rewritten(path, change), {"target": 2, "seed": 1}).case.values["gamma"] == 6

    def impossible(data):
        data["gamma"].values[0] = 7

    with pytest.raises(ResultError, match=r"candidates \(1, 4, 6\), got 7"):
        try_case(rewritten(path, impossible), {"target": 2, "seed": 1})


def test_a_point_without_a_run(own_study, result_of, tmp_path):
    rest = PILOTED.replace("[1, 4, 6]", "{ 2 = [1, 4], 5 = [6] }")
    path = result_of(own_study(PARABOLA, rest), tmp_path / "own.nc")
    with pytest.raises(InputError, match="no run is planned at target=5, candidate=1, seed=100"):
        try_case(path, {"target": 5, "candidate": 1, "seed": 100}, pilot=True)


REFERENCED = """
name = "referenced"
axes = { seed = [0] }
[problem]
dimension = 1
initial = "sin(2*pi*x)"
source = "(4*pi**2/50 - 1)*exp(-t)*sin(2*pi*x)"
diffusion = "1/50"
[constants]
gamma = 4
reference = "exact.py:u"
dictionary = "gtransnet"
N = 20
N1 = 80
quadrature = 100
validation = 50
final_time = 0.1
dt = 0.01
"""
FUNCTION = "from numpy import exp, pi, sin\n\ndef u(nodes, t):\n    return %sexp(-t) * sin(2 * pi * nodes[:, 0])\n"


def test_a_function_as_reference_is_code_of_the_study(tmp_path, result_of):
    file, study, result = tmp_path / "exact.py", tmp_path / "study.toml", tmp_path / "r.nc"
    file.write_text(FUNCTION % "")
    study.write_text(REFERENCED)
    result_of(Study.from_file(study), result)
    made = try_case(result)
    assert made.equal
    assert "error" in made.stored.compared
    for before, factor in (("# a comment\n", ""), ("raise SystemExit\n", "2 * ")):
        file.write_text(before + FUNCTION % factor)
        with pytest.raises(ResultError, match=r"exact.py changed since .*r.nc was computed, so nothing was executed"):
            try_case(result)
    file.write_text(FUNCTION % "2 * ")
    assert plan_study(Study.from_file(study))[-1].keys[0].decode() != made.stored.key


DESIGNS = {
    "zip": '[[zip]]\nname = "level"\ngamma = [4, 5]\nreference = ["exact.py:u", "refined"]\n',
    "sample": '[[sample]]\nname = "level"\nrule = "random"\ncount = 1\nreference = { choice = ["exact.py:u"] }\n',
    "rows": '[[table]]\nname = "level"\nrows = [{ gamma = 4, reference = "exact.py:u" }]\n',
    "file": '[[table]]\nname = "level"\nfile = "levels.csv"\n',
}


@pytest.mark.parametrize("design", DESIGNS)
def test_a_reference_in_a_design_is_code_of_the_study(design, tmp_path, result_of):
    (tmp_path / "levels.csv").write_text("gamma,reference\n4,exact.py:u\n")
    (tmp_path / "exact.py").write_text(FUNCTION % "")
    alone, study, result = tmp_path / "alone.toml", tmp_path / "study.toml", tmp_path / "r.nc"
    alone.write_text(REFERENCED)
    gamma = "" if design == "sample" else "gamma = 4\n"
    study.write_text(REFERENCED.replace(gamma, "").replace('reference = "exact.py:u"\n', "") + DESIGNS[design])
    stated = Study.from_file(study)
    key = plan_study(stated)[-1].keys[0]
    assert key == plan_study(Study.from_file(alone))[-1].keys[0]
    result_of(stated, result)
    assert try_case(result, {"level": 0}).equal
    assert {"exact.py"} <= set(find_files_beside(result, stated)) <= {"exact.py", "levels.csv"}
    if design != "file":
        (tmp_path / "deeper").mkdir()
        moved = Study.from_file(stated.to_file(tmp_path / "deeper/study.toml"))
        assert [code.reference for code in moved.spec.codes] == ["../exact.py:u"]
        assert plan_study(moved)[-1].keys[0] == key
    (tmp_path / "exact.py").write_text(FUNCTION % "2 * ")
    with pytest.raises(ResultError, match=r"exact.py changed since .*r.nc was computed, so .*--code"):
        try_case(result, {"level": 0})
    assert plan_study(Study.from_file(study))[-1].keys[0] != key
