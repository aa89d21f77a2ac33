"""A method of one's own: what it may return, and that whatever it does wrong is one line in that run's record."""

import textwrap

import numpy as np
import pytest
import xarray as xr
from helpers import read_study, read_table

from evogt_study.errors import StudyError
from evogt_study.methods.function import to_record
from evogt_study.operations.verify import verify
from evogt_study.results.dataset import to_dataset
from evogt_study.results.netcdf import SCHEMA_VERSION, write_result
from evogt_study.results.table import RunTable
from evogt_study.schema.variables import LONGEST_NAME, RUN_METADATA, Status, to_status
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import MAX_MESSAGE_CHARACTERS, Batch, compute_here

TABLE = read_table(__file__)
AXES = "[axes]\nseed = [0, 1, 2]\n"
HEAD = "import numpy as np\nimport pandas as pd\nimport xarray as xr\n"
ATTRIBUTES = (
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates",
    "_nc3_strict", "_Encoding", "_IsNetcdf4", "_SuperblockVersion", "_Codecs", "_Format",
)  # fmt: skip
"""Attributes that NetCDF and HDF5 write themselves."""


@pytest.fixture
def batch_of(own_study):
    """Runs a function's cases in one batch; the function is given by its body, or whole."""

    def run(body, rest=AXES, arguments="seed"):
        source = body if "def method" in body else f"def method({arguments}):\n" + textwrap.indent(body, "    ")
        plan = plan_study(own_study(HEAD + source, rest))[-1]
        return compute_here(Batch.from_cases(plan.spec, sorted(plan.cases(), key=lambda case: case.index)))

    return run


def only(records):
    """The one stack of the records."""
    (stack,) = records.stacks
    return stack


def states(records):
    return [Status(int(status)).name for status in records.status]


# --- what may be returned ---------------------------------------------------------------------------------------------

LEFT_OUT = [
    *((name, "x") for name in ATTRIBUTES), ("b" * 300, 1), ("a", 10**30), ("a", "\ud800"), ("a", "x\0y"),
    ("a", [1, 2**64 - 1]), ("a", [2**60 + 1, 0.5]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), LEFT_OUT)
def test_attributes_that_a_file_cannot_hold_are_left_out(name, value):
    record = to_record({"v": xr.DataArray(1.0, attrs={name: value, "units": "m"})})
    assert record.variables["v"].attributes == {"units": "m"}
    assert record.left_out == (f"the attribute {name} of `v`",)


def test_runs_may_return_different_variables(batch_of):
    records = batch_of("return {'v': 1.0} if seed == 1 else {'w': 2.0}")
    assert {stack.name: stack.rows.tolist() for stack in records.stacks} == {"v": [1], "w": [0, 2]}


# --- what is refused --------------------------------------------------------------------------------------------------

UNWRITABLE = ("run_pilot", "string5", "string12", "_nc4_non_coord_v")
"""Names with which the file cannot be written, or is read back wrongly."""
NOTHING = ("None", "{}", "xr.Dataset()", "pd.DataFrame()", "{'a': {}}", "print")
RESERVED = (*RUN_METADATA, *UNWRITABLE)
REFUSED = {
    **TABLE["refused"],
    **{f"nothing, as {each}": (each, ["the function returned nothing to store"]) for each in NOTHING},
    **{f"a variable named {name}": (f"{{{name!r}: 1.0}}", [repr(name)]) for name in RESERVED},
    **{f"a dimension named {name}": (f"{{'v': ({name!r}, [1.0])}}", [repr(name)]) for name in UNWRITABLE},
    "a long name": (f"{{'v': ('k' * {LONGEST_NAME + 1}, [1.0])}}", ["kkk", f"at most {LONGEST_NAME} bytes"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_function_may_not_return(batch_of, name):
    """Refused in the run that does it, not when all runs are done and the file is to be written."""
    expression, fragments = REFUSED[name]
    records = batch_of(f"return {expression} if seed == 1 else {{'fine': 1.0}}")
    assert states(records) == ["ok", "failed", "ok"]
    assert records.messages[0] == records.messages[2] == ""
    assert len(records.messages[1].splitlines()) == 1
    for fragment in fragments:
        assert fragment in records.messages[1]
    assert only(records).rows.tolist() == [0, 2]


@pytest.mark.parametrize("name", [*UNWRITABLE, *RUN_METADATA, "k" * (LONGEST_NAME + 1), "ε" * (LONGEST_NAME // 2 + 1)])
@pytest.mark.parametrize("given", ["[axes]\n{name} = [1, 2]", "[axes]\nseed = [0]\n[constants]\n{name} = 1", AXES])
def test_parameters_that_a_file_cannot_hold_are_refused_before_anything_runs(own_study, name, given):
    with pytest.raises(StudyError, match=f"the argument `{name}` must have another name, because"):
        own_study(f"def method(seed=0, {name}=1):\n    return {{}}\n", given.format(name=f'"{name}"'))


@pytest.mark.parametrize("name", ["error", "study"])
def test_parameters_may_have_names_that_mean_something_in_other_methods(own_study, result_of, tmp_path, name):
    """Only the built-in methods give them a meaning; a run that returns one too is refused, as with any parameter."""
    source = f"def method(seed, {name}):\n    return {{'v': {name}}} if seed else {{'{name}': 1.0}}\n"
    path = result_of(own_study(source, f"[axes]\nseed = [0, 1]\n{name} = [3, 4]\n"), tmp_path / "own.nc")
    read = read_study(path)
    assert read["v"].dims == ("seed", name)
    assert read[name].values.tolist() == read["v"].sel(seed=1).values.tolist() == [3, 4]
    assert f"`{name}`, which is a parameter" in str(read.run_message.sel(seed=0)[0].item())


def test_a_scalar_coordinate_may_repeat_a_parameter(batch_of):
    records = batch_of("return xr.Dataset({'v': 1.0}, {'seed': seed if seed < 2 else 7})")
    assert states(records) == ["ok", "ok", "failed"]
    assert only(records).name == "v"
    assert "a coordinate named `seed`, which is a parameter" in records.messages[2]


def test_a_complex_value_is_two_variables(batch_of):
    found = {stack.name: stack for stack in batch_of("return {'v': ('k', [seed + 2j])}").stacks}
    assert set(found) == {"v_real", "v_imag"}
    assert np.asarray(found["v_real"].values).ravel().tolist() == [0, 1, 2]
    assert np.asarray(found["v_imag"].values).ravel().tolist() == [2, 2, 2]


def test_paths_are_relative_to_the_study_file(own_study, tmp_path):
    (tmp_path / "table.csv").write_text("7")
    source = "from __future__ import annotations\nfrom pathlib import Path\n"
    source += "def method(seed, table: Path):\n    return float(table.read_text())\n"
    plan = plan_study(own_study(source, AXES + "[constants]\ntable = 'table.csv'\n"))[-1]
    assert only(compute_here(Batch.from_cases(plan.spec, list(plan.cases())))).values.tolist() == [7, 7, 7]


def test_masked_floats_are_missing():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    record = to_record({"v": ("k", masked), "mean": masked[1:].mean(), "all": np.ma.array([1, 2])})
    np.testing.assert_array_equal(record.variables["v"].values, [1.0, np.nan])
    assert np.isnan(record.variables["mean"].values)
    assert record.variables["all"].values.tolist() == [1, 2]


# --- what happens in a run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["np.nan", "np.inf", "-np.inf", "np.float32('nan')", "('k', [0.5, np.nan])"])
def test_an_error_that_is_not_finite_is_a_diverged_run(batch_of, value):
    records = batch_of(f"return {{'error': {value} if seed == 1 else 0.5, 'v': np.nan}}", AXES)
    assert states(records)[1] == "diverged"
    assert records.messages[1] == "DivergedError: `error` is not finite"
    assert all(1 not in stack.rows for stack in records.stacks)


def test_a_user_may_declare_a_run_diverged(batch_of):
    records = batch_of("from evogt_study.errors import DivergedError\nraise DivergedError('norm is 1e30')")
    assert states(records) == ["diverged"] * 3
    assert records.messages[0] == "DivergedError: norm is 1e30"


@pytest.mark.parametrize("name", TABLE["raised"])
def test_an_exception_is_that_runs_data_and_the_others_go_on(batch_of, name):
    body, message = TABLE["raised"][name]
    records = batch_of("if seed == 1:\n" + textwrap.indent(body, "    ") + "\nreturn {'v': seed}")
    assert states(records) == ["ok", "failed", "ok"]
    assert records.messages[1].startswith(message)
    assert len(records.messages[1].splitlines()) == 1
    assert only(records).values.tolist() == [0, 2]
    assert records.attempts.tolist() == [1, 1, 1]


def test_an_interrupt_is_not_swallowed(batch_of):
    with pytest.raises(KeyboardInterrupt):
        batch_of("raise KeyboardInterrupt")


def test_a_long_message_is_cut(batch_of):
    records = batch_of("raise ValueError('x' * 10_000)")
    assert len(records.messages[0]) == MAX_MESSAGE_CHARACTERS
    assert "x...x" in records.messages[0]


def test_warnings_of_numpy_are_no_failures(batch_of):
    records = batch_of("return {'v': np.log(np.zeros(1))[0], 'w': np.ones(1)[0] / 0}")
    assert states(records) == ["ok"] * 3


# --- up to the file ---------------------------------------------------------------------------------------------------

KEPT = {
    **TABLE["kept"],
    "attributes of NetCDF and HDF5": f"{{'v': xr.DataArray(1.0, attrs=dict.fromkeys({ATTRIBUTES}, 'x'))}}",
    "the longest name": f"xr.Dataset({{'v': ('k' * {LONGEST_NAME}, [1.0])}}, {{'k' * {LONGEST_NAME}: [float(seed)]}})",
}


@pytest.mark.filterwarnings("default")  # what xarray has to say of odd attributes is no concern here
@pytest.mark.parametrize("name", KEPT)
def test_what_a_run_returned_can_be_written(own_study, tmp_path, name):
    """Whatever a run is `ok` with has to reach the file: hours of runs are lost where writing it raises."""
    study = own_study(f"{HEAD}def method(seed):\n    return {KEPT[name]}\n", AXES)
    plan = plan_study(study)[-1]
    table = RunTable(plan)
    table.add(compute_here(Batch.from_cases(plan.spec, list(plan.cases()))))
    data = to_dataset(table, study)
    ok = to_status(data.run_status) == Status.ok
    data.attrs = {"study": "", "id": "own", "result_schema": SCHEMA_VERSION}
    write_result(tmp_path / "own.nc", {"main": data})
    read = read_study(tmp_path / "own.nc")
    assert to_status(read.run_status).tolist() == data.run_status.values.tolist()
    if ok.any():
        np.testing.assert_array_equal(read["v"].values, data["v"].values)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_an_attribute_above_int64_is_exact_in_the_file(own_study, result_of, tmp_path, number):
    source = f"{HEAD}def method(seed):\n    return xr.Dataset({{'v': 1.0}}, attrs={{'n': {number}, 'l': [{number}]}})\n"
    read = read_study(result_of(own_study(source, AXES), tmp_path / "own.nc"))
    assert [int(read.attrs[name]) for name in ("n", "l")] == [number, number]


def test_a_variable_of_ones_own_is_not_said_to_be_the_packages(own_study, result_of, tmp_path):
    """`error` may be anything; what the function itself says of it is kept."""
    source = (
        "import xarray as xr\n"
        "def method(seed):\n"
        "    return {'error': 1.0, 'rank': xr.DataArray(2, attrs={'long_name': 'place in the league'})}\n"
    )
    path = result_of(own_study(source, AXES), tmp_path / "own.nc")
    read = read_study(path)
    assert read["error"].attrs["long_name"] == "error"
    assert "comment" not in read["error"].attrs
    assert read["rank"].attrs["long_name"] == "place in the league"
    assert verify(path, rerun=3, code=tmp_path).findings == ()
