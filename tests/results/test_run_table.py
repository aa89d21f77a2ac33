"""The table of runs: whatever the order in which records come, it holds the same; and what is missing stays missing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evogt_study.results.dataset import to_dataset, to_records
from evogt_study.results.table import NOT_OK, RunTable
from evogt_study.schema.records import COORDINATE, VARIABLE, RunRecords, Stack
from evogt_study.schema.variables import Status
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

# --- records by hand --------------------------------------------------------------------------------------------------


@pytest.fixture
def plan(own_study):
    """Six cases, numbered as their seeds."""
    return plan_study(own_study("def method(seed):\n    return {}\n", "[axes]\nseed = { count = 6 }\n"))[-1]


def records(plan, runs, coordinates=()):
    """Records of cases {number: variables, or a Status}; a variable is a scalar or (dims, list)."""
    keys = [plan.case(number).key for number in runs]
    status = [Status.ok if isinstance(given, dict) else given for given in runs.values()]
    count = len(keys)
    return RunRecords(
        keys=tuple(keys),
        status=np.array(status, dtype=np.int8),
        messages=tuple("" if state == Status.ok else f"{state.name}!" for state in status),
        wall_seconds=np.array([1.0 + number for number in runs]),
        attempts=np.ones(count, dtype=np.int32),
        software=('{"v": 1}',) * count,
        stacks=tuple(
            Stack(name, *datum(value), {"of": f"case {number}"}, COORDINATE if name in coordinates else VARIABLE)
            for row, (number, given) in enumerate(runs.items())
            if isinstance(given, dict)
            for name, value in given.items()
            for datum in [lambda value, row=row: stack_of(value, row)]
        ),
    )


def stack_of(value, row):
    dims, values = value if isinstance(value, tuple) else ((), value)
    return tuple(dims), np.array([row]), np.asarray(values)[None]


def filled(plan, *batches, coordinates=()):
    table = RunTable(plan)
    for runs in batches:
        table.add(records(plan, runs, coordinates))
    return table


def column(table, name):
    """The values of the one variable of that name."""
    return table.columns[name].load().values


def state(table):
    """All that a table holds, in a form that compares equal if NaN is NaN and kinds are the same."""
    columns = {
        name: (found.role, found.dtype.str, [each.tolist() for each in found.load()], found.attributes, found.first)
        for name, found in table.columns.items()
    }  # fmt: skip
    rows = (table.status, table.messages, table.wall_seconds, table.attempts, table.software, table.keys)
    return repr((sorted(columns.items()), [values.tolist() for values in rows]))


# --- any order --------------------------------------------------------------------------------------------------------

VARIANTS = {
    "floats": [{0: {"v": 0.5}, 1: {"v": 1.5}}, {2: {"v": 2.5}}, {3: Status.failed, 4: {"v": 4.5}, 5: Status.diverged}],
    "integers": [{0: {"v": 0}}, {1: {"v": 1}, 2: Status.failed}, {3: {"v": 3}, 5: {"v": 5}}],
    "truth values": [{0: {"v": True}}, {1: {"v": False}, 2: Status.failed}, {3: {"v": True}}],
    "words": [{0: {"v": "a"}}, {1: {"v": "longer"}, 2: Status.failed}, {3: {"v": ""}}],
    "integers and floats": [{0: {"v": 1}}, {1: {"v": 0.5}}, {2: Status.failed}],
    "truth values and integers": [{0: {"v": True}}, {1: {"v": 7}}, {2: Status.failed}],
    "small and large integers": [{0: {"v": np.int32(1)}}, {1: {"v": np.int64(2**40)}}, {2: Status.failed}],
    "signed and unsigned integers": [{0: {"v": np.uint8(200)}}, {1: {"v": np.int8(-3)}}, {2: Status.failed}],
    "single and double precision": [{0: {"v": np.float32(0.5)}}, {1: {"v": 0.1}}, {2: Status.failed}],
    "arrays": [{0: {"v": (("k",), [0.0, 1.0])}}, {1: {"v": (("k",), [2.0, 3.0])}}],
    "ragged floats": [{0: {"v": (("k",), [1.0])}}, {1: {"v": (("k",), [1.0, 2.0, 3.0])}}, {2: {"v": (("k",), [])}}],
    "ragged integers": [{0: {"v": (("k",), [1, 2, 3])}}, {1: {"v": (("k",), [4, 5])}}, {2: {"v": (("k",), [6])}}],
    "ragged numbers": [{0: {"v": (("k",), [1, 2, 3])}}, {1: {"v": (("k",), [4])}}, {2: {"v": (("k",), [0.5])}}],
    "ragged truth values": [{0: {"v": (("k",), [True, False])}}, {1: {"v": (("k",), [False])}}],
    "ragged words": [{0: {"v": (("k",), ["a"])}}, {1: {"v": (("k",), ["b", "ccc"])}}],
    "ragged in two directions": [
        {0: {"v": (("k", "l"), [[1.0, 2.0, 3.0]])}},
        {1: {"v": (("k", "l"), [[1.0], [2.0]])}},
        {2: {"v": (("k", "l"), [[9.0, 8.0], [7.0, 6.0]])}},
    ],
    "a variable of some": [{0: {"v": 1.0}}, {1: {"w": 2.0}}, {2: {"v": 3.0, "w": 4.0}}],
    "attributes of the lowest case": [{4: {"v": 1.0}}, {1: {"v": 2.0}}, {3: {"v": 3.0}}],
    "attributes of the lowest case of a batch": [{4: {"v": 1.0}, 2: {"v": 2.0}}, {3: {"v": 3.0}, 1: {"v": 4.0}}],
}


@pytest.mark.parametrize("coordinates", [(), ("v",)], ids=["variables", "coordinates"])
@pytest.mark.parametrize("name", VARIANTS)
def test_records_fill_the_table_in_any_order_with_the_same_result(plan, name, coordinates):
    batches = VARIANTS[name]
    found = {state(filled(plan, *order, coordinates=coordinates)) for order in itertools.permutations(batches)}
    assert len(found) == 1, "\n".join(found)


# --- which records count ----------------------------------------------------------------------------------------------


def test_a_record_that_is_not_wanted_leaves_its_attempts(plan):
    table = RunTable(plan)
    for _ in range(2):  # as in a result and in a shard that a killed command has left beside it
        table.add(records(plan, {0: Status.failed, 1: {"v": 1.0}}), [Status.ok])
    assert table.status.tolist()[:2] == [Status.not_run, Status.ok]
    assert table.attempts.tolist()[:2] == [1, 1]
    assert table.messages[0] == ""
    again = table.check(records(plan, {0: {"v": 5.0}, 2: {"v": 5.0}}))
    assert again.attempts.tolist() == [2, 1]
    for _ in range(2):
        table.add(again)
    assert table.attempts.tolist()[:3] == [2, 1, 1]
    assert column(table, "v")[0] == 5.0


RUNS = st.dictionaries(st.integers(0, 5), st.sampled_from([{"v": 1.0}, *list(Status)[2:]]), min_size=1)


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(RUNS, max_size=5), kept=st.sets(st.sampled_from(list(Status)[2:])))
def test_of_all_records_one_that_is_ok_counts_then_the_first_that_is_wanted(plan, batches, kept):
    table = RunTable(plan)
    wanted = {Status.ok, *kept}
    for runs in batches:
        table.add(records(plan, runs), tuple(wanted), NOT_OK, np.add)
    for number in range(6):
        fates = [Status.ok if isinstance(runs[number], dict) else runs[number] for runs in batches if number in runs]
        taken = [fate for fate in sorted(fates, key=lambda fate: fate != Status.ok) if fate in wanted]
        assert table.status[number] == (taken[0] if taken else Status.not_run)
        assert table.attempts[number] == (fates.index(Status.ok) + 1 if Status.ok in fates else len(fates))
        assert table.messages[number] == (f"{taken[0].name}!" if taken and taken[0] != Status.ok else "")


def test_runs_of_different_software_keep_their_own(own_study, plan):
    table = RunTable(plan)
    for number, versions in ((4, '{"v": 2}'), (1, '{"v": 1}'), (2, '{"v": 2}')):
        table.add(replace(records(plan, {number: {"v": 1.0}}), software=(versions,)))
    data = to_dataset(table, own_study("def method(seed):\n    return {}\n", "[axes]\nseed = { count = 6 }\n"))
    assert data.run_software.attrs["software_sets"] == '[{"v": 1}, {"v": 2}]'
    assert data.run_software.values.tolist() == [-1, 0, 1, -1, 1, -1]


def test_cases_with_equal_keys_are_filled_by_one_record():
    """Along N1, the runs of a one-layer dictionary are one computation."""
    text = """
        name = "same"
        problem = "oscillatory_1d"
        axes = { dictionary = ["transnet", "gtransnet"], N1 = [5, 6, 7], seed = [0] }
        constants = { N = 4, gamma = 3, epsilon = 1, quadrature = 8, validation = 8, final_time = 1, dt = 0.5 }
    """
    plan = plan_study(Study.from_text(text))[-1]
    table = RunTable(plan)
    assert plan.space.count == 6
    assert len(table.missing()) == 4
    cases = {case.key: case for case in plan.cases()}
    table.add(compute_here(Batch.from_cases(plan.spec, list(cases.values()))))
    assert (table.status == Status.ok).all()
    error = column(table, "error")
    assert error[0] == error[1] == error[2]
    assert len(set(error[3:].tolist())) == 3


# --- runs that disagree -----------------------------------------------------------------------------------------------


REFUSED = {
    "dimensions": ({"v": 3.0}, {"v": (("k",), [1.0])}, "is a variable of numbers over (k), but a variable of numbers"),
    "an array of nothing": ({"v": 3.0}, {"v": (("k",), np.array([]))}, "over (k), but"),
    "a string": ({"v": 1.0}, {"v": ""}, "a variable of strings over (), but a variable of numbers over ()"),
    "a date": ({"v": 1.0}, {"v": np.datetime64("2020-01-01", "ns")}, "a variable of dates over ()"),
    "a dimension": ({"v": (("k",), [1.0])}, {"k": 2.0}, "a variable of numbers over () in this run, but a dimension"),
    "a variable": ({"k": 2.0}, {"v": (("k",), [1.0])}, "is a dimension in this run, but a variable of numbers over ()"),
    "an axis": ({"v": 1.0}, {"w": (("seed",), [1.0])}, "the run returned `seed`, which is a dimension of the study"),
    "large integers": ({"v": 2**53 + 1}, {"v": 0.5}, "integers above 2^53 in some runs and other numbers"),
    "large integers last": ({"v": 0.5}, {"v": 2**53 + 1}, "integers above 2^53 in some runs and other numbers"),
}  # fmt: skip


@pytest.mark.parametrize("together", [False, True], ids=["in turn", "in one batch"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_run_of_another_shape_than_the_first_fails_and_has_no_values(plan, name, together):
    first, other, message = REFUSED[name]
    runs = {3: {**first, "error": 0.5}, 4: {**other, "error": 0.25, "n": 3, "s": "x"}}
    table = filled(plan, *([runs] if together else [{number: run} for number, run in runs.items()]))
    assert table.status.tolist() == [0, 0, 0, Status.ok, Status.failed, 0]
    assert table.messages[4].startswith("RunError: ")
    assert message in table.messages[4]
    np.testing.assert_array_equal(column(table, "error")[3:5], [0.5, np.nan])
    assert not {"n", "s"} & set(table.columns)


# --- from function to file: nothing that is missing looks like a value ------------------------------------------------


def test_a_failed_run_that_is_several_cases_has_been_tried_once(small_study):
    """A result repeats it for each of them; taking the result up again must not count them as tries."""
    text = small_study.replace("N1 = 24\n", "").replace("k = [1, 2]", "k = [1]\nN1 = [24, 30]").replace("3 }", "1 }")
    study = Study.from_text(text)
    plan = plan_study(study)[-1]
    table = RunTable(plan)
    table.add(records(plan, {0: Status.failed}))
    assert table.attempts.tolist() == [1, 1, 0, 0]  # transnet has no N1
    again = RunTable(plan)
    again.add(to_records(to_dataset(table, study)))
    assert again.attempts.tolist() == [1, 1, 0, 0]
