"""One case computed again: equal bit for bit, or every difference named; and what a mistake in the question costs."""

from pathlib import Path

import numpy as np
import pytest
from helpers import PARABOLA, PILOTED, rewritten

from evogt_study.errors import InputError, ResultError
from evogt_study.operations.compare import differences, software_changes
from evogt_study.operations.replay import replay
from evogt_study.publishing.contents import files_beside
from evogt_study.results.provenance import software_set
from evogt_study.schema.variables import Status
from evogt_study.study.case_space import read_point
from evogt_study.study.plan import study_plan
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

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


def test_each_case_of_the_papers_method_is_equal_bit_for_bit(small_study, result_of, tmp_path):
    study = Study.from_text(small_study)
    path = result_of(study, tmp_path / "small.nc")
    for dictionary, k, seed in [("transnet", 1, 0), ("gtransnet", 2, 2)]:
        made = replay(path, {"dictionary": dictionary, "k": k, "seed": seed})
        assert made.equal, made.describe()
        assert {"error", "rank", "coefficients", "field", "error_history"} <= set(made.compared)
        assert (made.software, made.raised, made.case.key) == ("", "", made.stored_key)


def test_an_equal_run(result):
    made = replay(result, read_point("seed=1,family=a,epsilon=0.20"))
    assert made.equal
    assert made.point == "family=a, epsilon=0.2, seed=1"
    assert made.describe() == ["  equal bit for bit: error, rank, word, trace"]  # trace is longer in other runs


def test_the_last_bit_of_one_value(result):
    def change(data):
        data["trace"].values[0, 0, 2, 1] = np.nextafter(data["trace"].values[0, 0, 2, 1], 1)

    made = replay(rewritten(result, change), {"family": "a", "epsilon": 0.2, "seed": 2})
    assert not made.equal
    assert made.describe() == [
        "  trace[1]: 0.10000000000000002 in the file, 0.10000000000000001 now, relative difference 6.9e-17 "
        "(1 of 3 values differ)",
        "  equal bit for bit: error, rank, word",
    ]


def test_words_and_missing_values_that_differ(result):
    def change(data):
        data["word"].values[0, 0, 1] = "z"
        data["rank"].values[0, 0, 1] = np.nan

    made = replay(rewritten(result, change), {"family": "a", "epsilon": 0.2, "seed": 1})
    assert [line.strip() for line in made.describe()[:2]] == [
        "rank: nan in the file, 7 now",
        "word: 'z' in the file, 'a' now",
    ]


def test_a_run_that_raises_tells_where(result):
    made = replay(result, {"family": "b", "epsilon": 0.1, "seed": 2})
    assert (made.equal, made.status, made.stored_status) == (False, Status.failed, Status.failed)
    assert 'method.py", line 5, in method' in made.raised
    assert made.raised.endswith("ValueError: no luck\n")
    assert made.describe() == ["  as in the file: failed, ValueError: no luck"]
    diverged = replay(result, {"family": "a", "epsilon": 0.1, "seed": 3})
    assert (diverged.equal, diverged.status) == (False, Status.diverged)


def test_a_file_whose_fate_is_another(result):
    def change(data):
        data["run_status"].values[0, 0, 0] = Status.lost
        data["run_message"].values[0, 0, 0] = "the worker died"

    made = replay(rewritten(result, change), {"family": "a", "epsilon": 0.2, "seed": 0})
    assert not made.equal
    assert made.describe() == ["  in the file: lost, the worker died", "  now: ok"]


def test_code_that_has_moved(result, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "method.py").rename(tmp_path / "elsewhere" / "method.py")
    at = {"family": "a", "epsilon": 0.2, "seed": 1}
    with pytest.raises(ResultError, match=r"method.py:method.* --code FILE.py"):
        replay(result, at)
    for code in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "method.py"):
        assert replay(result, at, code=code).equal


def test_other_software_is_said(result):
    def change(data):
        sets = data["run_software"].attrs["software_sets"]
        data["run_software"].attrs["software_sets"] = sets.replace(np.__version__, "1.0.0")

    made = replay(rewritten(result, change), {"family": "a", "epsilon": 0.2, "seed": 1})
    assert f"numpy 1.0.0, here {np.__version__}" in made.software
    assert made.equal
    assert made.describe()[0].startswith("  the file's run was made by other software: ")
    assert software_changes(software_set(), software_set()) == ""


def test_what_a_pilot_chose_is_read_and_its_runs_can_be_replayed(own_study, result_of, tmp_path):
    path = result_of(own_study(PARABOLA, PILOTED), tmp_path / "own.nc")

    def change(data):
        data["gamma"].values[0] = 6  # not what the pilot would choose: 1

    assert replay(path, {"target": 2, "seed": 1}).case.values["gamma"] == 1
    assert replay(path, {"target": 2, "seed": 101, "candidate": 2}, pilot=True).equal
    assert replay(rewritten(path, change), {"target": 2, "seed": 1}).case.values["gamma"] == 6

    def impossible(data):
        data["gamma"].values[0] = 7

    with pytest.raises(ResultError, match=r"candidates \(1, 4, 6\), got 7"):
        replay(rewritten(path, impossible), {"target": 2, "seed": 1})


def test_axes_of_one_value_may_be_left_out(own_study, result_of, tmp_path):
    path = result_of(
        own_study(OWN, REST.replace('["a", "b"]', '["a"]').replace("[0.2, 0.1]", "[0.2]")), tmp_path / "o.nc"
    )
    assert replay(path, {"seed": 1}).point == "family=a, epsilon=0.2, seed=1"


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("sed=1", r"must name axes of .*own.nc \(family, epsilon, seed\), got 'sed'; did you mean `seed`\?"),
        ("tau=1", r"must name axes .*, got 'tau'"),
        ("seed=1,seed=2", "must name each axis once, got seed twice"),
        ("1", "must read axis=value,axis=value, got '1'"),
        ("family=a,seed=1", r"got none for epsilon \(.*own.nc has 0.2, 0.1\)"),
        ("family=a,epsilon=0.2,seed=4", r"`seed` must be one of 0, 1, 2, 3 \(.*own.nc\), got '4'"),
        ("family=c,epsilon=0.2,seed=1", "`family` must be one of a, b"),
        ("family=a,epsilon=,seed=1", "`epsilon` must be one of 0.2, 0.1 .*, got ''"),
        ("family=a,epsilon=nan,seed=1", "`epsilon` must be one of 0.2, 0.1 .*, got 'nan'"),
    ],
)
def test_points_that_are_not_there(result, at, told):
    with pytest.raises(InputError, match=told):
        replay(result, read_point(at))


def test_values_with_commas_and_rules_are_found_by_their_labels(small_study, result_of, tmp_path):
    text = small_study.replace("k = [1, 2]", "k = [1]\nhidden = [[24], [24, 12]]\nquadrature = [40, 50]")
    text = text.replace("N1 = 24\n", "").replace("quadrature = 40\n", "").replace("3 }", "1 }")
    path = result_of(Study.from_text(text.replace('"transnet", ', "")), tmp_path / "small.nc")
    made = replay(path, read_point("hidden=24,12, quadrature=50"))
    assert made.equal
    assert made.case.values["hidden"] == (24, 12)
    assert "quadrature=gauss_legendre(50)" in made.point


def test_a_point_without_a_run(own_study, result_of, tmp_path):
    rest = PILOTED.replace("[1, 4, 6]", "{ 2 = [1, 4], 5 = [6] }")
    path = result_of(own_study(PARABOLA, rest), tmp_path / "own.nc")
    with pytest.raises(InputError, match="no run is planned at target=5, candidate=1, seed=100"):
        replay(path, {"target": 5, "candidate": 1, "seed": 100}, pilot=True)


def test_a_result_without_pilot_or_no_result(result, tmp_path):
    with pytest.raises(ResultError, match="leave out --pilot"):
        replay(result, {"seed": 1}, pilot=True)
    with pytest.raises(ResultError, match="gone.nc"):
        replay(tmp_path / "gone.nc", {})


def test_several_runs_are_compared_at_once(own_study):
    study = own_study(OWN, REST)
    plan = study_plan(study)
    cases = [case for case in plan.cases() if case.values["family"] == "a" and case.values["seed"] < 3]
    cases.sort(key=lambda case: (case.values["epsilon"], case.values["seed"]))
    records = compute_here(Batch.of(plan.spec, cases))
    same = [(row, row) for row in range(len(cases))]
    assert differences(records, records, same) == []
    (error, trace) = (each for each in differences(records, records, [(0, 0), (0, 1)]) if each.name != "word")
    assert (error.pairs, trace.pairs) == ((1,), (1,))
    assert Path(study.file).exists()


REFERENCED = """
name = "referenced"
[problem]
dimension = 1
initial = "sin(2*pi*x)"
source = "(4*pi**2/50 - 1)*exp(-t)*sin(2*pi*x)"
diffusion = "1/50"
[axes]
seed = [0]
[constants]
dictionary = "gtransnet"
N = 20
N1 = 80
gamma = 4
quadrature = 100
validation = 50
final_time = 0.1
dt = 0.01
reference = "exact.py:u"
"""
FUNCTION = "from numpy import exp, pi, sin\n\ndef u(nodes, t):\n    return %sexp(-t) * sin(2 * pi * nodes[:, 0])\n"


def test_a_function_as_reference_is_code_of_the_study(tmp_path, result_of):
    file, study, result = tmp_path / "exact.py", tmp_path / "study.toml", tmp_path / "r.nc"
    file.write_text(FUNCTION % "")
    study.write_text(REFERENCED)
    result_of(Study.from_file(study), result)
    made = replay(result)
    assert made.equal
    assert "error" in made.compared
    for before, factor in (("# a comment\n", ""), ("raise SystemExit\n", "2 * ")):
        file.write_text(before + FUNCTION % factor)
        with pytest.raises(ResultError, match=r"exact.py changed since .*r.nc was computed, so nothing was executed"):
            replay(result)
    file.write_text(FUNCTION % "2 * ")
    assert study_plan(Study.from_file(study)).keys[0].decode() != made.stored_key


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
    key = study_plan(stated).keys[0]
    assert key == study_plan(Study.from_file(alone)).keys[0]
    result_of(stated, result)
    assert replay(result, {"level": 0}).equal
    assert {"exact.py"} <= set(files_beside(result, stated)) <= {"exact.py", "levels.csv"}
    if design != "file":
        (tmp_path / "deeper").mkdir()
        moved = Study.from_file(stated.to_file(tmp_path / "deeper/study.toml"))
        assert [code.reference for code in moved.spec.codes] == ["../exact.py:u"]
        assert study_plan(moved).keys[0] == key
    (tmp_path / "exact.py").write_text(FUNCTION % "2 * ")
    with pytest.raises(ResultError, match=r"exact.py changed since .*r.nc was computed, so .*--code"):
        replay(result, {"level": 0})
    assert study_plan(Study.from_file(study)).keys[0] != key
