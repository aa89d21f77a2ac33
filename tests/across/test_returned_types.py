"""Each type that a function may return goes through record, shard, table and file and comes back as it was."""

import shutil

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.results.finished import shard_folder
from evogt_study.results.index import write_shard
from evogt_study.schema.variables import Status
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

HEAD = """
import datetime
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

DAY = np.datetime64("2020-01-01")
@dataclass
class Point:
    v: float
    w: int
"""
SEEDS = "[axes]\nseed = [0, 1, 2]\n"
S, K, NAN = ("seed",), ("seed", "k"), np.nan
PAIRS = [[0, 1], [1, 1], [2, 1]]
DAYS = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[ns]")

# what a run returns; then of each name its dimensions, type and values in the result
KINDS = {
    "a float": ("{'v': seed / 2}", {"v": (S, "float64", [0, 0.5, 1])}),
    "a number alone": ("seed", {"value": (S, "int64", [0, 1, 2])}),
    "a boolean": ("{'v': seed > 1}", {"v": (S, "bool", [False, False, True])}),
    "a string": ("{'v': 'aé'[:seed]}", {"v": (S, "string", ["", "a", "aé"])}),
    "dates and durations": (
        "{'d': datetime.date(2020, 1, 1 + seed), 'v': DAY + np.timedelta64(seed, 'D'), 'w': np.timedelta64(seed, 'D')}",
        {"d": (S, "datetime64", DAYS), "v": (S, "datetime64", DAYS), "w": (S, "timedelta64", DAYS - DAYS[0])},
    ),
    "arrays of the widest numbers, and booleans": (
        "{name: ('k', np.array([seed, 1], name)) for name in ('float64', 'int64', 'bool')}",
        {name: (K, name, np.array(PAIRS, name)) for name in ("float64", "int64", "bool")},
    ),
    "arrays of other numbers": (
        "{name: ('k', np.array([seed, 1], name)) for name in ('float32', 'int32', 'int8', 'uint8', 'uint64')}",
        {name: (K, name, PAIRS) for name in ("float32", "int32", "int8", "uint8", "uint64")},
    ),
    "integers above 2^53": ("{'v': 2**60 + seed}", {"v": (S, "int64", [2**60, 2**60 + 1, 2**60 + 2])}),
    "a list": ("{'v': [seed, 1.5]}", {"v": (("seed", "v_0"), "float64", [[0, 1.5], [1, 1.5], [2, 1.5]])}),
    "strings": ("{'v': ('k', ['a', 'bc'])}", {"v": (K, "string", [["a", "bc"]] * 3)}),
    "mappings in a mapping": ("{'a': {'b': {'c': seed}}}", {"a_b_c": (S, "int64", [0, 1, 2])}),
    "a dataclass": ("Point(seed / 2, seed)", {"v": (S, "float64", [0, 0.5, 1]), "w": (S, "int64", [0, 1, 2])}),
    "a named tuple": (
        "namedtuple('T', 'v w')(seed, 1.0)", {"v": (S, "int64", [0, 1, 2]), "w": (S, "float64", [1] * 3)}
    ),
    "None in a mapping": ("{'v': None if seed == 1 else 2.0}", {"v": (S, "float64", [2, NAN, 2])}),
    "two types of number": ("{'v': seed if seed else 0.5}", {"v": (S, "float64", [0.5, 1, 2])}),
    "a DataArray": (
        "xr.DataArray([seed, 2.0], {'k': ['a', 'b']}, 'k', name='v')",
        {"v": (K, "float64", [[0, 2], [1, 2], [2, 2]]), "k": (("k",), "string", ["a", "b"])},
    ),
    "a Dataset with scalar coordinates": (
        "xr.Dataset({'v': seed}, {'site': 'north', 'height': 2.0 + seed})",
        {"v": (S, "int64", [0, 1, 2]), "site": ((), "string", "north"), "height": (S, "float64", [2, 3, 4])},
    ),
    "coordinates that are dates": (
        "xr.Dataset({'v': ('k', [seed, 1])}, {'k': pd.date_range('2020-01-01', periods=2)})",
        {"v": (K, "int64", PAIRS), "k": (("k",), "datetime64", DAYS[:2])},
    ),
    "a DataTree": (
        "xr.DataTree.from_dict({'/': xr.Dataset({'v': seed}), '/a': xr.Dataset({'w': 2.0 * seed})})",
        {"v": (S, "int64", [0, 1, 2]), "a_w": (S, "float64", [0, 2, 4])},
    ),
    "a Series": (
        "pd.Series([seed, 2.0], pd.Index([5, 7], name='k'), name='v')",
        {"v": (K, "float64", [[0, 2], [1, 2], [2, 2]]), "k": (("k",), "int64", [5, 7])},
    ),
    "a DataFrame": (
        "pd.DataFrame({'v': [seed, 1], 'w': ['a', 'b']}, pd.Index([5, 7], name='k'))",
        {"v": (K, "int64", PAIRS), "w": (K, "string", [["a", "b"]] * 3)},
    ),
    "OptimizeResult": (
        "__import__('scipy.optimize').optimize.minimize(lambda x: (x[0] - seed) ** 2, [float(seed)])",
        {"x": (("seed", "x_0"), "float64", [[0], [1], [2]]), "success": (S, "bool", [True] * 3)},
    ),
    "the result of solve_ivp": (
        "__import__('scipy.integrate').integrate.solve_ivp(lambda t, y: 0 * y, [0, 1], [seed], t_eval=[0.0, 1.0])",
        {"t": (("seed", "t_0"), "float64", [[0, 1]] * 3), "status": (S, "int64", [0, 0, 0])},
    ),
    "the result of a test": (
        "__import__('scipy.stats').stats.ttest_ind([0.0, 1.0], [0.0, 1.0])", {"pvalue": (S, "float64", [1, 1, 1])},
    ),
    "arrays of different lengths": (
        "{'v': ('k', [1.0] * (seed + 1))}", {"v": (K, "float64", [[1, NAN, NAN], [1, 1, NAN], [1, 1, 1]])}
    ),
    "a coordinate of different lengths": (
        "xr.Dataset({'v': ('k', np.ones(seed + 1))}, {'t': ('k', np.arange(seed + 1.0))})",
        {"t": (K, "float64", [[0, NAN, NAN], [0, 1, NAN], [0, 1, 2]])},
    ),
    "times of different lengths": (
        "xr.Dataset({'v': ('t', np.ones(seed + 1))}, {'t': np.arange(seed + 1.0)})",
        {"t": (("seed", "t_index"), "float64", [[0, NAN, NAN], [0, 1, NAN], [0, 1, 2]])},
    ),
    "labels that differ": (
        "xr.Dataset({'v': ('k', [1.0, 2.0])}, {'k': ['a', 'b'] if seed else ['b', 'c']})",
        {"v": (K, "float64", [[NAN, 1, 2], [1, 2, NAN], [1, 2, NAN]]), "k": (("k",), "string", ["a", "b", "c"])},
    ),
    "an attribute that differs": (
        "xr.Dataset({'v': seed}, attrs={'model': 'abc'[seed]})", {"model": (S, "string", ["a", "b", "c"])}
    ),
}  # fmt: skip
REFUSED = {
    "another unit": (
        "xr.DataArray(seed, attrs={'units': 'g' if seed else 'kg'}, name='v')",
        ["ok", "failed", "failed"], "`v` has units 'g', but 'kg' in other runs",
    ),
    "another shape": ("{'v': ('k' if seed != 1 else 'j', [1.0])}", ["ok", "failed", "ok"], "over (j)"),
    "a string beside a number": ("{'v': 'a' if seed == 1 else 1.0}", ["ok", "failed", "ok"], "a variable of strings"),
    "nothing": ("{'v': 1.0} if seed != 1 else {}", ["ok", "failed", "ok"], "the function returned nothing to store"),
}  # fmt: skip


@pytest.fixture
def journey(own_study, tmp_path):
    """Returns what `evs.run` gives of runs that were in shards, and `evs.open` after they were in two files in turn."""

    def travel(expression):
        study, other = own_study(f"{HEAD}def method(seed):\n    return {expression}\n", SEEDS), tmp_path / "other.nc"
        records = compute_here(Batch.from_cases(study.spec, list(plan_study(study)[-1].cases())))
        write_shard(shard_folder(tmp_path / "own.nc"), records)
        events = []
        first = evs.run(study, output=tmp_path / "own.nc", listener=events.append)
        if (records.status == Status.ok).all():
            evs.run(study.replace(name="other"), output=other, listener=events.append)  # takes them out of that file
        else:  # which are not taken from elsewhere
            shutil.copy(tmp_path / "own.nc", other)
        assert max(event.done for event in events) == 0
        with evs.open(other) as data:
            return first, data.load()

    return travel


def kind(values):
    """The type by its name; of strings and dates, whatever their width and unit."""
    if values.dtype.kind in "OUST":
        return "string" if all(isinstance(each, str) for each in values.flat) else "object"
    return values.dtype.name.partition("[")[0]


@pytest.mark.filterwarnings("ignore::evogt_study.errors.ReturnWarning")
@pytest.mark.parametrize("name", KINDS)
def test_a_type_comes_back_as_it_was_returned(journey, name):
    expression, expected = KINDS[name]
    for data in journey(expression):
        for variable, (dims, dtype, values) in expected.items():
            found = data[variable]
            assert (variable, found.dims, kind(found.values)) == (variable, dims, dtype)
            np.testing.assert_array_equal(found.values, values)


ATTRIBUTES = {"variable": lambda data: data.v, "coordinate": lambda data: data.k, "Dataset": lambda data: data}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_come_back(journey, name):
    attributes = {"units": "m", "long_name": "größe", "count": 3, "scale": 0.1}
    made = f"{{'v': ('k', [seed, 2.0], {attributes})}}, {{'k': ('k', [0.5, 1.5], {attributes})}}, {attributes}"
    for data in journey(f"xr.Dataset({made})"):
        found = ATTRIBUTES[name](data).attrs
        assert {key: found[key] for key in attributes} == attributes


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_that_does_not_fit_the_other_runs_fails(journey, name):
    expression, statuses, message = REFUSED[name]
    for data in journey(expression):
        assert data.run_status.values.tolist() == statuses
        assert message in str(data.run_message.values[1])


def test_a_result_is_the_same_from_run_and_open(own_study, tmp_path):
    study = own_study("def method(seed):\n    return {'v': seed, 'w': 'a'}\n", SEEDS)
    first = evs.run(study, output=tmp_path / "own.nc", workers=1)
    with evs.open(tmp_path / "own.nc") as data:
        xr.testing.assert_identical(first, data.load())
    assert list(first.data_vars)[:2] == ["v", "w"]
