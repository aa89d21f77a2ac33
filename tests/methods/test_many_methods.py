"""Several methods on several problems in one study: keys, parameters, the judgement of `u`, and mistakes."""

import functools
import textwrap

import numpy as np
import pytest
from helpers import read_study

import evogt_study as evs
from evogt_study import pde
from evogt_study.operations.verify import verify
from evogt_study.schema.variables import Status, to_status
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

SOLVERS = """
import numpy as np

def exactly(problem, validation, times, shift=0.0):
    return {"u": problem.exact(validation.nodes, times) + shift, "nodes": len(validation.weights)}

def at_the_end(problem, validation, final_time):
    return problem.exact(validation.nodes, np.array([final_time]))[0]

def badly(problem, validation):
    return {"u": np.zeros(3)}

def twice(problem, validation):
    return {"u": np.zeros(len(validation.weights)), "error": 1.0}

def numbers(seed):
    return 3.0
"""
CONSTANTS = """
[constants]
unknowns = 20
N = 12
N1 = 24
gamma = 3
dictionary = "gtransnet"
quadrature = 60
validation = 50
final_time = 0.1
dt = 0.05
"""
PROBLEMS = """
[axes.problem]
plain = { dimension = 1, exact = "exp(-t)*sin(k*pi*x)" }
square = { dimension = 2, exact = "exp(-t)*sin(pi*x)*sin(k*pi*y)" }
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "solvers.py").write_text(SOLVERS)

    def make(axes, rest=CONSTANTS, head=""):
        text = f'name = "many"\n{head}\n[axes]\n{textwrap.dedent(axes)}\n{rest}'
        (tmp_path / "many.toml").write_text(text)
        return evs.Study.from_file(tmp_path / "many.toml")

    return make


FOUR = """
method = { ours = "evolution", fem = "p1_fem", own = "solvers.py:exactly", last = "solvers.py:at_the_end" }
seed = [0, 1]
k = [1, 2]
"""


def test_each_case_is_one_of_a_study_of_its_own(study, tmp_path):
    plan = plan_study(study(FOUR + PROBLEMS))[-1]
    keys = plan.keys.reshape(plan.space.shape)
    assert plan.space.names == ("method", "seed", "k", "problem")
    assert [len(np.unique(keys[number])) for number in range(4)] == [8, 4, 4, 4]  # a seed is for ours alone
    alone = study(
        "seed = [0, 1]\nk = [1, 2]",
        CONSTANTS.replace("unknowns = 20\n", "") + '[problem]\ndimension = 1\nexact = "exp(-t)*sin(k*pi*x)"\n',
    )
    assert plan_study(alone)[-1].keys.tolist() == keys[0, :, :, 0].ravel().tolist()
    few = "[constants]\nunknowns = 20\nvalidation = 50\nfinal_time = 0.1\ndt = 0.05\n"
    plain = '[problem]\ndimension = 1\nexact = "exp(-t)*sin(k*pi*x)"\n'
    fem = study("k = [1, 2]", few + plain, 'method = "p1_fem"')
    assert plan_study(fem)[-1].keys.tolist() == keys[1, 0, :, 0].tolist()
    assert plan.trials(plan.order).tolist() == [16, 24]


def test_a_returned_solution_is_judged_by_the_rule_of_all(study, result_of, tmp_path):
    shifted = CONSTANTS.replace("unknowns", "shift = 0.01\nunknowns")
    path = result_of(study(FOUR + PROBLEMS, shifted), tmp_path / "many.nc")
    data = read_study(path)
    assert (to_status(data.run_status) == Status.ok).all()
    assert data.nodes.sel({"method": "own"}).sel(problem="square", k=1, seed=0) == 2500
    np.testing.assert_allclose(data.error.sel({"method": "last"}), 0.0, atol=1e-15)
    x, w = np.polynomial.legendre.leggauss(50)
    norm = np.exp(-0.1) * np.sqrt(np.sum(w / 2 * np.sin(np.pi * (x + 1) / 2) ** 2))
    np.testing.assert_allclose(data.error.sel({"method": "own"}).sel(problem="plain", k=1), 0.01 / norm, rtol=1e-12)
    assert (data.error.sel({"method": "fem"}).sel(k=1, problem="plain") > 1e-4).all()
    assert data.error.attrs["comment"].startswith("e_rel(T)")
    assert verify(path, rerun=3, code=tmp_path).findings == ()
    assert verify(path, rerun=3).findings == ()


def test_histories_and_values_of_a_returned_solution(study, result_of, tmp_path):
    output = CONSTANTS + '[output]\ntimes = 3\nrecord = ["error_history", "validation_values"]\n'
    stated = '[problem]\ndimension = 1\nexact = "exp(-t)*sin(pi*x)"\n'
    data = read_study(
        result_of(study("shift = [0.0, 0.1]", output.replace("unknowns = 20\nN = 12\nN1 = 24\ngamma = 3\n", "").replace(
            'dictionary = "gtransnet"\nquadrature = 60\n', "").replace("dt = 0.05\n", "") + stated,
            'method = "solvers.py:exactly"'), tmp_path / "own.nc")
    )  # fmt: skip
    assert data.time.values.tolist() == [0.0, 0.05, 0.1]
    assert (np.diff(data.error_history.sel(shift=0.1)) > 0).all()  # the solution decays, the shift does not
    assert data.validation_values.dims == ("shift", "node")


@pytest.mark.parametrize(("name", "message"), [("badly", "Return the values at the nodes, of shape (50,) or (2, 50)"),
                                            ("twice", "`error`, which the package computes from `u`")])  # fmt: skip
def test_what_is_no_solution_is_refused(study, name, message):
    few = '[constants]\nvalidation = 50\nfinal_time = 0.1\n[problem]\ndimension = 1\nexact = "exp(-t)*sin(pi*x)"\n'
    plan = plan_study(study("final_time = [0.1]", few.replace("final_time = 0.1\n", ""),
                            f'method = "solvers.py:{name}"'))[-1]  # fmt: skip
    records = compute_here(Batch.from_cases(plan.spec, list(plan.cases())))
    assert message in records.messages[0]


def _divide(n, seed, k=0):
    return k / n


class _Divider:
    def __init__(self, k):
        self.k = k

    def run(self, n, seed):
        return self.k / n

    __call__ = run


def _make_closure(k):
    return lambda n, seed: k / n


FUNCTIONS = {
    "closures": _make_closure,
    "partial functions": lambda k: functools.partial(_divide, k=k),
    "methods": lambda k: _Divider(k).run,
    "callable objects": _Divider,
}


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_with_one_name_are_different_methods(tmp_path, make):
    study = evs.Study(axes={"method": {"a": make(1), "b": make(2)}, "n": [1, 2], "seed": [0]}, name="ratios")
    changed = study.replace(axes={"n": [1, 2, 4]})
    evs.run(changed, output=tmp_path / "ratios.nc", workers=0)
    with evs.open(tmp_path / "ratios.nc") as found:
        np.testing.assert_array_equal(found["value"].squeeze(), [[1, 0.5, 0.25], [2, 1, 0.5]])
    assert verify(tmp_path / "ratios.nc").findings == ()
    swapped = evs.run(study.replace(axes={"method": {"a": make(2), "b": make(1)}}), workers=0)
    np.testing.assert_array_equal(swapped["value"].squeeze(), [[2, 1], [1, 0.5]])


def test_factories_with_one_name_are_different_problems():
    def make(k):
        return lambda: pde.FormulaProblem(dimension=1, exact=f"exp(-t)*sin({k}*pi*x)")()

    axes = {"problem": {"slow": make(1), "fast": make(3)}}
    constants = {"unknowns": 20, "validation": 50, "final_time": 0.1, "dt": 0.05}
    error = evs.run(evs.Study("p1_fem", axes=axes, constants=constants, name="sines"), workers=0)["error"]
    assert float(error.sel(problem="fast").max()) > 2 * float(error.sel(problem="slow").max())


def test_studies_in_python_take_functions_as_an_axis(client, tmp_path):
    def mean_value(problem, validation, final_time):
        return {"u": 0 * validation.nodes[:, 0]}

    made = evs.Study(
        axes={
            "method": {"zero": mean_value, "fem": "p1_fem"},
            "problem": {"one": pde.FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x)"), "two": "oscillatory_1d"},
        },
        constants={"unknowns": 20, "validation": 50, "final_time": 0.1, "dt": 0.05, "epsilon": 0.5},
        name="many",
    )  # fmt: skip
    data = evs.run(made, client=client, output=tmp_path / "many.nc")
    np.testing.assert_array_equal(data.error.sel({"method": "zero"}), 1.0)
    assert (data.error.sel({"method": "fem"}) < 1).all()
    assert "was given in Python" in verify(tmp_path / "many.nc", rerun=1).left_out
