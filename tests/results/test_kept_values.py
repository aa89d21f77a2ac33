"""Property tests: what a function returns is in the result, in memory and in the file, to the bit."""

import dataclasses
import itertools
from collections import namedtuple

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from helpers import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import evogt_study as evs
from evogt_study.methods.function import to_record
from evogt_study.results.finished import shard_folder
from evogt_study.results.index import write_shard
from evogt_study.schema.records import RunRecords, stack_records
from evogt_study.schema.variables import Status
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

SEEDS = 4
"""Runs of an example.  The last one is added to a result of the others."""
SOURCE, AXES = "def method(seed):\n    return {}\n", "[axes]\nseed = { count = %d }\n"
DTYPES = [
    *("float16", "float32", "float64", "bool", "str", "datetime64[ns]", "timedelta64[ns]"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
]
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)


def values_of(dtype, shape):
    """Arrays of a dtype, with every special value except the bits of a NaN."""
    if dtype == "str":
        return arrays.arrays(object, shape, elements=TEXT).map(lambda array: array.astype(str))
    if dtype[-4:] == "[ns]":
        return arrays.arrays(np.int64, shape).map(lambda array: array.view(dtype) if shape else array.astype(dtype))
    return arrays.arrays(dtype, shape)


PHASES = (Phase.generate,)
"""Examples are small: shrinking them would take minutes."""
LABELS = {
    "none": None,
    "strings": ["b", "a", "é"],
    "integers": np.array([7, -3, 2**40]),
    "short integers": np.array([3, 1, 2], np.uint8),
    "dates": np.array(["2020-01-01", "1999-12-31T23:59:59.000000001", "2030-05-05"], "M8[ns]"),
    "floats": [0.1, np.inf, -0.0],
}


def tree(variables, labels):
    return xr.DataTree.from_dict({"/": dataset(variables, labels), "/group": dataset(variables, None)})


def dataset(variables, labels):
    coords = {} if labels is None else {"k": labels}
    return xr.Dataset({name: (("k", "l")[: value.ndim], value) for name, value in variables.items()}, coords)


def frame(variables, labels):
    index = pd.Index(range(3) if labels is None else labels, name="k")
    return pd.DataFrame({name: value[:, 0] for name, value in variables.items()}, index)


CONTAINERS = {
    "mapping": lambda variables, labels: variables,
    "pairs": lambda variables, labels: {n: (("k", "l")[: v.ndim], v) for n, v in variables.items()},
    "nested": lambda variables, labels: {"inner": {"most": variables}},
    "dataclass": lambda variables, labels: dataclasses.make_dataclass("D", list(variables))(**variables),
    "named tuple": lambda variables, labels: namedtuple("T", list(variables))(**variables),
    "Dataset": dataset,
    "DataTree": tree,
    "DataFrame": frame,
    "Datasets in a mapping": lambda variables, labels: {"inner": dataset(variables, labels)},
}


@st.composite
def draw_examples(draw):
    """A container, labels, and for each run the arrays by name."""
    kind = st.tuples(st.sampled_from(DTYPES), st.sampled_from([0, 1, 2]))
    kinds = draw(st.dictionaries(st.sampled_from("abcd"), kind, min_size=1))
    shapes = {0: (), 1: (3,), 2: (3, 2)}
    container = draw(st.sampled_from(sorted(CONTAINERS)))
    if container == "DataFrame":
        kinds = {name: (dtype if dtype != "float16" else "float32", 2) for name, (dtype, _) in kinds.items()}
    runs = [{name: draw(values_of(dtype, shapes[ndim])) for name, (dtype, ndim) in kinds.items()} for _ in range(SEEDS)]
    return container, draw(st.sampled_from(sorted(LABELS))), runs


def of_runs(plan, objects, failed):
    """Records of runs, by their numbers, as a worker makes them."""
    cases = [plan.case(number) for number in objects]
    status = [Status.failed if number == failed else Status.ok for number in objects]
    made = [None if number == failed else to_record(each) for number, each in objects.items()]
    return RunRecords(
        keys=tuple(case.key for case in cases),
        status=np.array(status, np.int8),
        messages=tuple("no luck" * (each == Status.failed) for each in status),
        wall_seconds=np.ones(len(cases)),
        attempts=np.ones(len(cases), np.int32),
        software=("{}",) * len(cases),
        stacks=stack_records(made),
    )


def found_of(container, data, name):
    """The variable of a result that holds the array `name`."""
    prefix = {"nested": "inner_most_", "Datasets in a mapping": "inner_"}.get(container, "")
    return data[prefix + name]


def assert_kept(container, runs, data, failed, *, is_decoded):
    """Each run has the values that it returned, with their dtype if no run lacks them."""
    for name, number in itertools.product(runs[0], range(data.sizes["seed"])):
        found = found_of(container, data, name)
        wanted = runs[number][name]
        wanted = wanted[:, 0] if container == "DataFrame" else wanted
        values = found.isel(seed=number).values
        if number == failed:
            assert (values == "").all() if wanted.dtype.kind == "U" else np.all(pd.isnull(values))
            continue
        lossy = not is_decoded and failed is not None and wanted.dtype.kind in "iu" and wanted.dtype.itemsize == 8
        if lossy and wanted.size and np.abs(wanted.astype(float)).max() > 2**53:
            continue  # xarray alone reads integers of which one is missing as floats
        assert values.shape == wanted.shape
        if wanted.dtype.kind == "U":
            assert values.tolist() == wanted.tolist()
        elif wanted.dtype.kind in "iub":
            assert values.ravel().tolist() == wanted.ravel().tolist()
        else:
            np.testing.assert_array_equal(values, wanted)
        if is_decoded and wanted.dtype.kind != "U" and (failed is None or wanted.dtype.kind not in "iub"):
            assert values.dtype == wanted.dtype


def assert_labelled(container, data, labels):
    if container in ("Dataset", "DataTree", "DataFrame") and labels is not None and "k" in data.dims:
        assert data["k"].values.tolist() == np.asarray(labels).tolist()
        if np.asarray(labels).dtype.kind != "U":
            assert data["k"].dtype == np.asarray(labels).dtype


@pytest.mark.filterwarnings("ignore::evogt_study.errors.ReturnWarning")
@settings(
    derandomize=True, deadline=None, max_examples=examples(15), suppress_health_check=list(HealthCheck), phases=PHASES
)
@given(example=draw_examples(), failed=st.sampled_from([None, 1]), order=st.permutations(range(SEEDS - 1)))
def test_any_container_comes_back_equal(own_study, tmp_path_factory, example, failed, order):
    container, labels, runs = example
    folder, labels = tmp_path_factory.mktemp("kept"), LABELS[labels]
    objects = {number: CONTAINERS[container](run, labels) for number, run in enumerate(runs)}
    path, first = folder / "own.nc", own_study(SOURCE, AXES % (SEEDS - 1))
    for number in order:
        write_shard(shard_folder(path), of_runs(plan_study(first)[-1], {number: objects[number]}, failed))
    data = evs.run(first, output=path)
    assert_kept(container, runs, data, failed, is_decoded=True)
    assert_labelled(container, data, labels)
    with evs.open(path) as again:
        xr.testing.assert_identical(data, again.load())
        assert [data[name].dtype.kind for name in data.data_vars] == [again[name].dtype.kind for name in data.data_vars]
    for engine in ("netcdf4", "h5netcdf"):
        with xr.open_dataset(path, engine=engine) as read:
            assert_kept(container, runs, read, failed, is_decoded=False)
    more = own_study(SOURCE, AXES % SEEDS)
    write_shard(shard_folder(path), of_runs(plan_study(more)[-1], {SEEDS - 1: objects[SEEDS - 1]}, failed))
    data = evs.run(more, output=path)
    assert_kept(container, runs, data, failed, is_decoded=True)
    assert_labelled(container, data, labels)


RAGGED = {
    "float labels": ([0.5, 1.5, 2.5], ("seed", "k_index")),
    "integer labels": ([3, 1, 2], ("k",)),
    "strings": (["c", "a", "b"], ("k",)),
    "dates": (LABELS["dates"], ("k",)),
}


@pytest.mark.filterwarnings("ignore::evogt_study.errors.ReturnWarning")
@pytest.mark.parametrize("name", RAGGED)
@settings(
    derandomize=True, deadline=None, max_examples=examples(6), suppress_health_check=list(HealthCheck), phases=PHASES
)
@given(
    chosen=st.lists(st.sets(st.sampled_from(range(3)), min_size=1), min_size=SEEDS, max_size=SEEDS),
    dtype=st.sampled_from(["int8", "bool", "float32", "int64", "str", "datetime64[ns]"]),
    failed=st.sampled_from([None, 1]),
)
def test_runs_of_other_labels_keep_their_values_at_them(own_study, tmp_path_factory, name, chosen, dtype, failed):
    """Labels are aligned, or the coordinate has the values of each run; a second result has the same."""
    labels, dims = np.asarray(RAGGED[name][0]), RAGGED[name][1]
    path, study = tmp_path_factory.mktemp("ragged") / "own.nc", own_study(SOURCE, AXES % SEEDS)
    own = [labels[sorted(places)] for places in chosen]
    values = [(np.arange(len(each)) + 1).astype(dtype) for each in own]
    objects = {n: xr.Dataset({"v": ("k", values[n])}, {"k": own[n]}) for n in range(SEEDS)}
    write_shard(shard_folder(path), of_runs(plan_study(study)[-1], objects, failed))
    for data in (evs.run(study, output=path), evs.run(study.replace(name="b"), output=path.with_name("b.nc"))):
        for number in set(range(SEEDS)) - {failed}:
            run = data.isel(seed=number)
            if len({tuple(each) for n, each in enumerate(own) if n != failed}) == 1:
                run = run.sel(k=own[number])
            elif dims == ("k",):
                assert data["k"].dims == dims
                run = run.sel(k=own[number])
            else:
                assert data["k"].dims in (dims, ("k_index",))
                run = run.isel(k_index=slice(len(own[number])))
                assert run["k"].values.tolist() == own[number].tolist()
            assert run["v"].values.tolist() == values[number].tolist()
            cells = data["v"].isel(seed=number)
            missing = cells == "" if dtype == "str" else cells.isnull()
            assert int(missing.sum()) == cells.size - len(own[number])


# --- types of numbers that differ between runs ------------------------------------------------------------------------

# an attribute of a file is no boolean and no float16
NUMBERS = ["bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32))]
# common types: int32 of int16 and uint16, float32 of all three, but float64 of int32 and float32
TRIPLES = [["int8", "uint8", "float16"], ["int16", "uint16", "float32"]]
PLACES = {
    "variable": ("{'v': number}", lambda data: data.v),
    "array": ("{'v': ('k', np.full(1 + seed % 2, number))}", lambda data: data.v),
    "coordinate": ("xr.Dataset({'w': 1.0}, {'v': number})", lambda data: data.v),
    "attribute": ("xr.Dataset({'w': 1.0}, attrs={'v': number})", lambda data: data.v),
    "common attribute": ("xr.Dataset({'w': 1.0}, attrs={'v': types[seed].type(1)})", lambda data: data.attrs["v"]),
}


def ran(study, path, seeds):
    """The result after the runs of these seeds, which are in shards, are added to the file."""
    cases = [case for case in plan_study(study)[-1].cases() if case.values["seed"] in seeds]
    write_shard(shard_folder(path), compute_here(Batch.from_cases(study.spec, cases)))
    return evs.run(study, output=path)


@pytest.mark.parametrize("place", PLACES)
@settings(
    derandomize=True, deadline=None, max_examples=examples(5), phases=PHASES, suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_runs_that_are_added_give_the_type_of_a_fresh_result(own_study, tmp_path_factory, place, data):
    triple = data.draw(st.sampled_from(TRIPLES["attribute" in place :]))
    numbers = NUMBERS[2:] if "attribute" in place else NUMBERS
    types = [*triple, *data.draw(st.lists(st.sampled_from(numbers), max_size=1))]
    order = data.draw(st.permutations(range(len(types))))
    ends = data.draw(st.sets(st.integers(1, len(types) - 1), min_size=1))
    expression, chosen = PLACES[place]
    study = own_study(
        f"import numpy as np\nimport xarray as xr\ntypes = [np.dtype(each) for each in {types}]\n"
        f"def method(seed):\n    number = types[seed].type(seed % 3)\n    return {expression}\n", AXES % len(types)
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("types")
    start, path = 0, folder / "grown.nc"
    for end in [*sorted(ends), len(types)]:
        grown = ran(study.replace(axes={"seed": sorted(order[:end])}), path, set(order[start:end]))
        start = end
    fresh = ran(study, folder / "fresh.nc", set(order))
    with evs.open(folder / "grown.nc") as opened:
        for found, expected in zip(map(chosen, (grown, opened.load())), map(chosen, (fresh, fresh)), strict=True):
            assert np.asarray(found).dtype == np.asarray(expected).dtype
            np.testing.assert_array_equal(found, expected)
    if place == "variable":
        assert fresh.v.dtype == np.result_type(*types)
