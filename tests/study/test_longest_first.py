"""Long runs are submitted before short ones, what shares its stages stays together, and no number depends on it."""

import itertools

import pytest
from helpers import pde_study

import evogt_study as evs
from evogt_study.study.plan import plan_study
from evogt_study.workers import dask_executor as flow_module
from evogt_study.workers.batch import Batch

CONSTANTS = {
    "dictionary": '"transnet"', "seed": "0", "N": "6", "N1": "8", "gamma": "3", "quadrature": "12", "validation": "12",
    "epsilon": "2", "final_time": "1", "dt": "0.125", "tau": "1e-12",
}  # fmt: skip


def study_of(extra="", name="long", **axes):
    return pde_study(axes, CONSTANTS, extra, name)


def met(study, *names):
    """Values of these parameters in the order in which the study's cases are computed."""
    return [tuple(case.values[name] for name in names) for case in plan_study(study)[-1].cases()]


MANY_N = str(list(range(10, 201, 10)))


@pytest.mark.filterwarnings("ignore::evogt_study.errors.AccuracyWarning")  # few points, so that it takes no time
def test_costly_runs_are_submitted_first(client, monkeypatch):
    submitted, whole = [], Batch.from_cases

    def recorded(spec, cases, **options):
        submitted.append([case.values["N"] for case in cases])
        return whole(spec, cases, **options)

    monkeypatch.setattr(flow_module.Batch, "from_cases", staticmethod(recorded))
    data = evs.run(study_of(N=MANY_N), client=client)
    assert list(itertools.chain(*submitted)) == list(range(200, 0, -10))
    assert data.N.values.tolist() == list(range(10, 201, 10))  # in the result as they were given


COSTLY = "[[when]]\nmatch = { epsilon = 3, seed = [1, 2] }\nset = { quadrature = 400 }\n"
ORDERS = {  # axes, rules, and the values in the order in which nested loops meet them
    "large runs first, and what shares its early stages together": (
        {"epsilon": "[2, 3, 4]", "seed": "[5, 1]", "N": "[10, 200, 50]"}, "",
        {"N": (200, 50, 10), "seed": (5, 1), "epsilon": (2, 3, 4)},
    ),
    "costs that follow the seed through a rule": (
        {"epsilon": "[2, 3]", "seed": "[0, 1, 2]"}, COSTLY, {"seed": (1, 2, 0), "epsilon": (2, 3)},
    ),
    "seeds in turn, if runs take about the same time": (
        {"gamma": "[4, 3]", "seed": "[3, 1, 2]", "epsilon": "[2, 3]", "N": "[10, 12]"}, "",
        {"seed": (3, 1, 2), "N": (12, 10), "gamma": (4, 3), "epsilon": (2, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_cases(name):
    axes, rules, order = ORDERS[name]
    assert met(study_of(rules, **axes), *order) == [*itertools.product(*order.values())]


def test_nothing_is_known_of_a_function_of_ones_own(own_study):
    study = own_study("def method(N, seed):\n    return {'error': 1.0}", "[axes]\nN = [1, 1000]\nseed = [0, 1]")
    assert plan_study(study)[-1].work is None
    assert met(study, "N", "seed") == [(1, 0), (1000, 0), (1, 1), (1000, 1)]  # the cells of a seed, as they stand
