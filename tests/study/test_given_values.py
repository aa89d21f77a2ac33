"""Values of parameters: received to the bit and with their type, stored as coordinates, or refused by name."""

import datetime
import doctest
import math
import tomllib
import zoneinfo
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import examples
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import evogt_study as evs
from evogt_study.errors import AccuracyWarning, StudyError
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

FIRST, LAST = datetime.datetime(1678, 1, 1), datetime.datetime(2261, 12, 31)
UTC = datetime.UTC
ZONES = [None, UTC, datetime.timezone(datetime.timedelta(hours=5, minutes=30)), zoneinfo.ZoneInfo("Europe/Berlin")]
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
NUMPY = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.str_,
]  # fmt: skip


def describe(x):
    """The type of a value, and all of its bits."""
    name = f"{type(x).__module__}.{type(x).__qualname__}"
    if isinstance(x, np.ndarray):
        return f"{name}{x.dtype}{x.shape}{[describe(entry) for entry in x.ravel()]}"
    if isinstance(x, (list, tuple)):
        return f"{name}{[describe(entry) for entry in x]}"
    if isinstance(x, dict):
        return f"{name}{[(describe(key), describe(entry)) for key, entry in x.items()]}"
    if isinstance(x, (float, np.floating)):
        if isinstance(x, (np.longdouble, np.clongdouble)):  # with bytes that mean nothing
            return f"{name}{x!r}"
        return f"{name}{np.asarray(x).tobytes().hex()}"
    if isinstance(x, pd.DatetimeIndex):
        return f"{name}{x.dtype}{x.freq}{x.name}{[repr(entry) for entry in x]}"
    return f"{name}{x!r}{getattr(x, 'fold', '')}{getattr(x, 'unit', '')}"


def received(seed, x):
    return {"what": describe(x)}


def is_quiet(nan):
    return bytes(np.float64(nan))[:7] == bytes(np.float64("nan"))[:7]


FLOATS = st.floats().filter(lambda x: x == x or is_quiet(x))
DATES = st.one_of(
    st.datetimes(FIRST, LAST, timezones=st.sampled_from(ZONES)).filter(lambda x: "zone" not in repr(x) or x.fold == 0),
    st.dates(FIRST.date(), LAST.date()),
    st.timedeltas(datetime.timedelta(-100_000), datetime.timedelta(100_000)),
    # less than 292 years, which nanoseconds of 64 bits hold
    st.builds(np.datetime64, st.integers(-(2**28), 2**28), st.sampled_from(["s", "ms", "us", "ns", "25s"])),
    st.builds(np.timedelta64, st.integers(-(2**21), 2**21), st.sampled_from(["s", "ms", "us", "ns", "h"])),
    st.builds(
        lambda n, unit: pd.Timestamp(np.datetime64(n, unit)), st.integers(0, 2**31), st.sampled_from(["s", "ns"])
    ),
    st.builds(lambda n, zone: pd.Timestamp(n, tz=zone), st.integers(0, 2**60), st.sampled_from(ZONES[1:])),
    st.builds(lambda n: pd.Timedelta(n, "us"), st.integers(-(2**31), 2**31)),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    FLOATS,
    TEXT,
    DATES,
    st.sampled_from(NUMPY[:-1]).flatmap(lambda kind: npst.from_dtype(np.dtype(kind), allow_nan=False)),
    TEXT.map(np.str_),
)
ARRAYS = npst.arrays(
    st.one_of(
        st.sampled_from(NUMPY[:-1]),
        npst.datetime64_dtypes(max_period="D", min_period="ns", endianness="="),
        st.just("<U3"),
    ),
    npst.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4),
    elements={"allow_nan": False, "alphabet": "abc\u00e9"},
)
SEQUENCES = st.one_of(
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([1, 2, -3])),
    st.builds(
        lambda periods, freq, zone, name: pd.date_range("2020", periods=periods, freq=freq, tz=zone, name=name),
        st.integers(0, 4), st.sampled_from(["D", "h", "MS"]), st.sampled_from([None, "Europe/Berlin"]),
        st.sampled_from([None, "day"]),
    ),
    st.lists(SCALARS, max_size=4).map(lambda entries: np.array([*entries, None], object)[:-1]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS | ARRAYS | SEQUENCES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(TEXT | st.just("python") | st.integers(0, 9), inner, max_size=4),
    ),
    max_leaves=8,
)


OBJECTS = st.one_of(
    st.binary(max_size=4), st.complex_numbers(), st.frozensets(st.integers(0, 9), max_size=1), st.fractions(),
    st.floats().map(np.longdouble), st.sampled_from([len, math.sin, int]),
)  # fmt: skip
"""Objects that only a name can stand for."""


@st.composite
def values_of_an_axis(draw):
    """Values of any kinds with different coordinates, which are strings."""
    found = {"some text": "some text"}
    for value in draw(st.lists(VALUES, min_size=12, max_size=24)):
        if value is None or not pd.api.types.is_scalar(value) or pd.notna(value):  # no axis has nan or NaT
            found.setdefault(evs.Study(describe, axes={"x": ["some text", value]}).axes["x"][1], value)
    return list(found.values())


@settings(
    derandomize=True,
    deadline=None,
    max_examples=examples(15),
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    x=values_of_an_axis(),
    objects=st.dictionaries(TEXT.filter(len), VALUES | OBJECTS, min_size=2, max_size=3),
    constants=st.lists(VALUES, min_size=4, max_size=4),
    defaults=st.lists(VALUES, min_size=4, max_size=4),
)
@pytest.mark.filterwarnings("ignore:.*has no literal form:evogt_study.errors.CodeWarning")
@pytest.mark.filterwarnings("ignore:.*differ by less than:evogt_study.errors.AccuracyWarning")
def test_values_of_an_axis_objects_constants_and_defaults_arrive_on_a_worker(client, x, objects, constants, defaults):
    d0, d1, d2, d3 = defaults
    assume(not any(isinstance(value, dict) and "formula" in value for value in constants))

    def function(x, thing, c0, c1, c2, c3, d0=d0, d1=d1, d2=d2, d3=d3):
        parts = {"axis": x, "object": thing, "constants": [c0, c1, c2, c3], "defaults": [d0, d1, d2, d3]}
        return {f"what_{name}": describe(part) for name, part in parts.items()}

    given_constants = {f"c{number}": value for number, value in enumerate(constants)}
    data = evs.run(evs.Study(function, axes={"x": x, "thing": objects}, constants=given_constants), client=client)
    assert set(data.run_message.values.ravel()) == {""}
    assert data.thing.values.tolist() == list(objects)
    for i, value in enumerate(x):
        for j, thing in enumerate(objects.values()):
            parts = {"axis": value, "object": thing, "constants": constants, "defaults": defaults}
            assert {name: data[f"what_{name}"].values[i, j] for name in parts} == {
                name: describe(part) for name, part in parts.items()
            }


D, S = np.datetime64, np.timedelta64
COORDINATES = {
    "integers": ([3, np.int8(1), -2], np.array([3, 1, -2])),
    "unsigned": ([2**64 - 1, 3], np.array([2**64 - 1, 3], np.uint64)),
    "floats": ([0.1 + 0.2, np.float32(0.1)], np.array([0.30000000000000004, 0.10000000149011612])),
    "integers and floats": ([1, 2.5], np.array([1.0, 2.5])),
    "infinity": ([1.0, np.inf], np.array([1.0, np.inf])),
    "booleans": ([True, np.False_], np.array([True, False])),
    "strings": (["a", np.str_("b")], np.array(["a", "b"], object)),
    "dates": (
        [datetime.date(2020, 1, 1), datetime.datetime(2021, 1, 1, 2, tzinfo=ZONES[3]), D("2022"), pd.Timestamp("2023")],
        np.array(["2020-01-01", "2021-01-01T01", "2022-01-01", "2023-01-01"], "M8[ns]"),
    ),
    "dates of pandas": (pd.date_range("2020", periods=2), np.array(["2020-01-01", "2020-01-02"], "M8[ns]")),
    "durations": ([datetime.timedelta(1), S(1, "h")], np.array([86_400, 3_600], "m8[s]").astype("m8[ns]")),
    "None": ([None, "a"], np.array(["None", "a"], object)),
    "booleans and numbers": ([True, 2], np.array(["true", "2"], object)),
    "numbers and strings": ([1, 0.5, "a"], np.array(["1", "0.5", "a"], object)),
    "lists": ([[240, 120], (1, [2.0, 3])], np.array(["240,120", "1,[2,3]"], object)),
    "rows of an array": (np.eye(2), np.array(["1,0", "0,1"], object)),
}


@pytest.mark.parametrize("kind", COORDINATES)
def test_coordinates(client, kind):
    values, expected = COORDINATES[kind]
    data = evs.run(evs.Study(received, axes={"x": values, "seed": [0]}), client=client)
    assert data.x.dtype == expected.dtype
    assert data.x.values.tolist() == expected.tolist()
    assert ("units" in data.x.attrs) == (expected.dtype.kind in "biuf")
    assert data.what.values.ravel().tolist() == [describe(value) for value in values]


def test_values_that_differ_by_rounding_give_a_warning():
    with pytest.warns(AccuracyWarning, match=r"`x` has two values .* 0.3 and 0.30000000000000004 \(study f, axes.x\)"):
        evs.Study(lambda x: x, axes={"x": [0.1 + 0.2, 1.0, 0.3]}, name="f")


def key_of(value):
    return plan_study(evs.Study(received, axes={"seed": [0]}, constants={"x": value}))[-1].keys[0]


def test_keys_distinguish_kinds_and_values():
    values = [
        1, 1.0, True, "1", [1], (1,), np.array([1]), {"a": 1}, {"1": 1}, {1: 1}, None, "None", 0.0, -0.0, 0.3,
        0.1 + 0.2, np.inf, np.nan, "nan", datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1),
        "2020-01-01", D("2020-01-01"), datetime.timedelta(1), S(1, "D"), np.float32(0.3), [], (), {}, [[]], ["1"],
        "[1]", {"a": 1, "b": 2},
        {"b": 2, "a": 1},
    ]  # fmt: skip
    assert len({key_of(value) for value in values}) == len(values)


@pytest.mark.parametrize(("one", "other"), [(1, np.int64(1)), (2**63, np.uint64(2**63)), (0.3, np.float64(0.3))])
def test_numbers_of_64_bits_have_one_key_in_python_and_numpy(one, other):
    assert key_of(one) == key_of(other)


def test_seeds_may_have_64_bits():
    big = 2**64 - 2
    for seeds in ([big, big + 1], {"start": big, "count": 2}, np.array([big, big + 1], np.uint64)):
        assert evs.Study(lambda seed: 1.0, axes={"seed": seeds}).axes == {"seed": [big, big + 1]}
    with pytest.raises(StudyError, match="an integer of at most 64 bits, got 18446744073709551616"):
        evs.Study(lambda seed: 1.0, axes={"seed": {"start": big, "count": 3}})


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def function(tmp_path):
    source = "def f(seed, x=0):\n    return {'type': type(x).__name__, 'repr': repr(x)}\n"
    (tmp_path / "f.py").write_text(source)
    return f"{tmp_path / 'f.py'}:f"


def without_none(value):
    if isinstance(value, (list, tuple, np.ndarray)):
        return all(map(without_none, np.ravel(value) if isinstance(value, np.ndarray) else value))
    return all(map(without_none, [*value, *value.values()])) if isinstance(value, dict) else value is not None


@settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES.filter(without_none))
def test_a_file_has_the_keys_of_the_study_that_wrote_it(function, tmp_path, value):
    assume(not (isinstance(value, dict) and "formula" in value))
    study = evs.Study(function, axes={"seed": np.arange(8)}, constants={"x": value})
    path = tmp_path / "s.toml"
    path.unlink(missing_ok=True)
    again = evs.Study.from_file(study.to_file(path))
    assert plan_study(again)[-1].keys.tolist() == plan_study(study)[-1].keys.tolist()
    assert again.space.constants["x"] == study.space.constants["x"] or value != value


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (None, r"a study file cannot hold None \(constants.x\)"),
        ([1, {"a": None}], r"cannot hold None \(constants.x\[1\].a\)"),
        ({"svm": object}, r"cannot hold the object 'svm' \(axes.x.svm\)"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_by_name(function, tmp_path, x, message):
    given_x = {"axes": {"seed": [0], "x": x}} if isinstance(x, dict) else {"axes": {"seed": [0]}, "constants": {"x": x}}
    study = evs.Study(function, **given_x)
    with pytest.raises(StudyError, match=message):
        study.to_file(tmp_path / "s.toml")
    assert not (tmp_path / "s.toml").exists()


DATES_OF_TOML = {
    "2020-01-02": "date datetime.date(2020, 1, 2)",
    "2020-01-02T03:04:05.678": "datetime datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)",
    "2020-01-02T03:04:05Z": "datetime datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)",
}


@pytest.mark.parametrize("text", DATES_OF_TOML)
def test_dates_of_a_study_file(function, tmp_path, text):
    (tmp_path / "s.toml").write_text(f'name = "s"\nmethod = "{function}"\n[axes]\nseed = [0]\nx = [{text}]\n')
    study = evs.Study.from_file(tmp_path / "s.toml")
    assert study.axes["x"] == [D(text.removesuffix("Z"), "ns")]
    plan = plan_study(study)[-1]
    records = compute_here(Batch.from_cases(plan.spec, [plan.case(0)]))
    assert " ".join(str(stack.values[0]) for stack in records.stacks) == DATES_OF_TOML[text]
    written = study.replace(title="again").text
    assert tomllib.loads(written)["axes"] == tomllib.loads((tmp_path / "s.toml").read_text())["axes"]


# --- objects under names ----------------------------------------------------------------------------------------------


class Model:
    def __init__(self, rate):
        self.rate, self.seen = rate, []


def fitted(seed, model):
    model.seen.append(seed)
    return {"rate": model.rate, "seen": len(model.seen)}


def test_objects_under_names(client, tmp_path):
    path = tmp_path / "r.nc"
    models = {"slow": Model(0.1), "fast": Model(10.0)}
    study = evs.Study(fitted, axes={"model": models, "seed": [0, 1]})
    data = evs.run(study, client=client, output=path)
    assert data.model.values.tolist() == ["slow", "fast"]
    assert data.rate.values.tolist() == [[0.1, 0.1], [10.0, 10.0]]
    assert (data.seen == 1).all()  # each run receives a copy
    more = study.replace(axes={"seed": [0, 1, 2]})
    assert plan_study(more)[-1].keys.reshape(2, 3)[:, :2].ravel().tolist() == plan_study(study)[-1].keys.tolist()
    assert evs.run(more, client=client).rate.values.tolist() == [[0.1] * 3, [10.0] * 3]
    with evs.open(path) as opened:
        assert opened.model.values.tolist() == ["slow", "fast"]


def test_the_key_of_an_object_is_what_it_is_made_of():
    def key(model):
        return plan_study(evs.Study(fitted, axes={"model": model, "seed": [0]}))[-1].keys[0]

    assert key({"a": Model(1)}) == key({"b": Model(1)})
    assert key({"a": Model(1)}) != key({"a": Model(2)})


def test_rules_match_an_object_by_its_name():
    rule = {"match": {"model": "fast"}, "set": {"depth": 9}}
    models = {"slow": Model(0.1), "fast": Model(10.0)}
    study = evs.Study(lambda model, depth: 1.0, axes={"model": models}, constants={"depth": 1}, when=[rule])
    assert [study.space.values(index)["depth"] for index in range(2)] == [1, 9]


def test_an_object_that_cannot_be_pickled_is_refused_by_name():
    with pytest.raises(StudyError, match="`model = open` must be an object that can be sent to workers"):
        evs.Study(fitted, axes={"model": {"open": (entry for entry in "ab")}, "seed": [0]})


# --- names of parameters ----------------------------------------------------------------------------------------------


def named(method, problem, status=1, message=2, pilot=3, bound=4, software=5, attempts=6, candidate=7):
    return {"v": f"{method} {problem} {status}"}


@pytest.mark.parametrize(
    "axes",
    [
        {"method": ["bfgs", "newton"], "problem": [1, 2]},
        {"method": ["bfgs", "newton"], "problem": ["one", "two"]},
        {"method": {"bfgs": "bfgs", "newton": "newton"}, "problem": {"one": [1, 2], "two": np.ones(2)}},
        {"method": {"bfgs": "bfgs"}, "problem": {"one": "one", "two": "two"}},
        {"method": ["bfgs"], "problem": {"describe": describe, "received": received}},
        {"problem": ["one"], "method": ["bfgs"], "status": [5], "pilot": [1, 2], "bound": ["b"], "candidate": [8]},
    ],
)
def test_method_and_problem_are_names_of_parameters(client, axes):
    data = evs.run(evs.Study(named, axes=axes), client=client)
    assert all(data[name].values.tolist() == list(values) for name, values in axes.items())
    assert str(data.v.values.ravel()[0]).startswith("bfgs ")


def test_the_examples_of_the_documentation():
    page = Path(__file__).parents[2] / "docs" / "values.md"
    assert doctest.testfile(str(page), module_relative=False) == (0, 14)
