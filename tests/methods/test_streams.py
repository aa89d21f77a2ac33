"""Random streams: where seeds are common, where draws are new, and that draws depend on the case alone."""

import hashlib
import json
import random
from pathlib import Path

import common_streams
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.methods.current_run import hash_words, isolate_global_draws
from evogt_study.operations.verify import try_case
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

VALUES = st.one_of(
    st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.text()
)
CASES = st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1)
COMMON = st.one_of(st.sampled_from(["all", "none"]), st.sets(st.sampled_from("abcd"), min_size=1).map(tuple))


def own_part(values, common):
    """The values that decide the words, as text that tells kinds apart."""
    shared = {"all": values, "none": ()}.get(common, common)
    return json.dumps({name: repr(value) for name, value in sorted(values.items()) if name not in shared})


@given(CASES, CASES, COMMON)
def test_words_are_those_of_all_parameters_that_are_not_common(one, other, common):
    equal = own_part(one, common) == own_part(other, common)
    assert (hash_words(one, common) == hash_words(other, common)) is equal
    assert hash_words({**dict(reversed(one.items())), "seed": 3}, common) == hash_words(one, common)
    assert len(hash_words(one, common)) == (0 if own_part(one, common) == "{}" else 8)


def test_words_are_the_same_on_every_platform():
    # SHA-256 of {"kind":"\\u00e9","n":[1,2.0],"x":0.1}
    assert hash_words({"x": 0.1, "kind": "é", "n": (1, 2.0), "seed": 1}, "none")[:2] == [3866490942, 159866983]


def draw(a, b, seed, rng, c=0):
    return {"uniform": rng.random(), "seed_given": seed, "python": random.random(), "numpy": np.random.normal()}


def without_seed(a, b, rng):
    return rng.random()


def global_only(a, b, seed=0):
    if a == 2:
        raise ValueError("no number")
    if b == 2:
        np.random.seed(1)
        random.seed(1)
    return {"python": random.random(), "numpy": np.random.normal(size=3), "later": np.random.normal()}


AXES = {"a": [1, 2], "b": [1, 2, 3], "seed": [5, 0, 7]}


def record_of(study, numbers=None):
    """The records of cases in this process, in this order."""
    plan = plan_study(study)[-1]
    cases = [plan.case(number) for number in (range(plan.space.size) if numbers is None else numbers)]
    return compute_here(Batch.from_cases(plan.spec, cases))


def values_of(records, name):
    stacks = [each for each in records.stacks if each.name == name]
    return {row: value for each in stacks for row, value in zip(each.rows.tolist(), each.values.tolist(), strict=True)}


@settings(max_examples=25, deadline=None)
@given(st.one_of(st.sampled_from(["all", "none"]), st.lists(st.sampled_from("abc"), unique=True)))
def test_draws_are_equal_exactly_where_streams_are_common(common):
    study = evs.Study(draw, axes=AXES, common=common)
    cases = list(plan_study(study)[-1].cases(np.arange(18)))
    drawn = values_of(record_of(study), "uniform")
    shared = {"all": "abc", "none": ""}.get(common, common) if isinstance(common, str) else common
    for i, one in enumerate(cases):
        for j, other in enumerate(cases):
            same = all(one.values[name] == other.values[name] for name in ("a", "b", "seed") if name not in shared)
            assert (drawn[i] == drawn[j]) is same


def one(a, b, rng):
    return {"uniform": rng.random()}


def two(a, b, rng):
    return {"uniform": rng.random()}


@pytest.mark.parametrize(("common", "equal"), [("all", True), ("none", False), (["method"], True), (["a", "b"], False)])
def test_methods_of_an_axis_draw_the_same_only_where_streams_are_common(common, equal):
    study = evs.Study(axes={"method": {"one": one, "two": two}, "seed": [0, 1]}, constants={"a": 1, "b": 1},
                      common=common, name="both")  # fmt: skip
    drawn = list(values_of(record_of(study), "uniform").values())
    assert (drawn[:2] == drawn[2:]) is equal
    assert len(set(drawn)) == (2 if equal else 4)


def test_by_default_a_seed_is_the_stream_that_numpy_gives_it():
    drawn = values_of(record_of(evs.Study(draw, axes=AXES)), "uniform")
    assert [drawn[number] for number in range(3)] == [np.random.default_rng(seed).random() for seed in (5, 0, 7)]


def test_a_seed_of_62_bits_is_used_in_full():
    seeds = [2**61, 2**61 + 1, 2**61 + 2**32]
    drawn = values_of(record_of(evs.Study(without_seed, axes={"seed": seeds}, constants={"a": 1, "b": 1})), "value")
    assert list(drawn.values()) == [np.random.default_rng(seed).random() for seed in seeds]


def test_a_replay_draws_what_the_run_drew(client, own_study, tmp_path):
    source = "import random\nimport numpy as np\ndef method(a, rng):\n"
    source += "    return {'own': rng.random(), 'python': random.random(), 'numpy': np.random.normal(size=3)}\n"
    study = own_study(source, '[axes]\na = [1, 2]\nseed = [3, 4]\n[random]\ncommon = "none"\n')
    evs.run(study, client=client, output=tmp_path / "own.nc")
    assert try_case(tmp_path / "own.nc", {"a": "2", "seed": "3"}).equal


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 17), min_size=1, max_size=18))
def test_draws_without_a_seed_depend_on_the_case_alone(numbers):
    study = evs.Study(global_only, axes=AXES)
    every, some = record_of(study), record_of(study, numbers)
    for name in ("python", "numpy", "later"):
        whole, part = values_of(every, name), values_of(some, name)
        assert part == {row: whole[number] for row, number in enumerate(numbers) if number in whole}
    drawn = [value for row, value in values_of(every, "later").items() if row // 3 % 3 != 1]
    assert len(set(drawn)) == len(drawn)


def first_use(how):
    """Draw with what `how` does first in a run, or without anything before."""
    if how == "state":
        np.random.set_state(np.random.get_state())
    elif how == "seed":
        np.random.seed(5)
    elif how == "generator":
        return np.random.Generator(np.random.get_bit_generator()).random()
    elif how == "replaced":
        np.random.set_bit_generator(np.random.PCG64(3))
    return np.random.random()


# also after a run that draws nothing, or that leaves another generator behind
@pytest.mark.parametrize("before", ["nothing", "replaced", "plain"])
def test_numpy_is_seeded_from_the_run_key_when_a_run_first_uses_it(before):
    words = np.frombuffer(hashlib.sha256(b"key").digest(), dtype="<u4")
    expected = {"plain": np.random.RandomState(words).random(), "seed": np.random.RandomState(5).random()}
    expected["replaced"] = np.random.RandomState(np.random.PCG64(3)).random()
    for how in ("plain", "state", "seed", "generator", "replaced"):
        with isolate_global_draws() as seed_draws:
            seed_draws("other")
            if before != "nothing":
                first_use(before)
            seed_draws("key")
            assert first_use(how) == expected.get(how, expected["plain"])


def leave():
    with isolate_global_draws() as seed_draws:
        seed_draws("key")
        np.random.normal()
        raise SystemExit


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64])
def test_the_states_of_this_process_are_as_before(bits):
    before = np.random.mtrand.get_bit_generator()
    try:
        np.random.mtrand.set_bit_generator(bits(3))
        random.seed(3)
        np.random.normal()  # of which a second number is kept
        states = random.getstate(), np.random.get_state(legacy=False)
        expected = random.random(), np.random.normal(size=5).tolist()
        random.setstate(states[0])
        np.random.set_state(states[1])
        record_of(evs.Study(global_only, axes=AXES))
        with pytest.raises(SystemExit):
            leave()
        assert (random.random(), np.random.normal(size=5).tolist()) == expected
    finally:
        np.random.mtrand.set_bit_generator(before)


def test_a_function_needs_no_argument_for_the_seed_of_its_generator():
    study = evs.Study(without_seed, axes={"a": [1, 2], "seed": [4]}, constants={"b": 0})
    assert values_of(record_of(study), "value") == dict.fromkeys((0, 1), np.random.default_rng(4).random())
    study = evs.Study(without_seed, axes={"a": [1, 2]}, constants={"b": 0, "seed": 4})
    assert values_of(record_of(study), "value") == dict.fromkeys((0, 1), np.random.default_rng(4).random())


def test_a_value_of_the_study_is_given_instead_of_a_generator():
    def given_rng(a, rng=None):
        return {"kind": type(rng).__name__}

    assert values_of(record_of(evs.Study(given_rng, axes={"a": [1], "seed": [0]})), "kind") == {0: "Generator"}
    assert values_of(record_of(evs.Study(given_rng, axes={"a": [1]}, constants={"rng": 3})), "kind") == {0: "int"}


def test_the_result_states_where_seeds_are_common(tmp_path):
    for common, stated in (("all", "all"), ("none", "none"), (["b", "a"], ["a", "b"]), ([], "none")):
        study = evs.Study(draw, axes=AXES, common=common)
        data = evs.run(study, output=tmp_path / f"{stated}.nc")
        with evs.open(tmp_path / f"{stated}.nc") as file:
            assert (
                json.loads(data.seed.attrs["streams"]) == json.loads(file.seed.attrs["streams"]) == {"common": stated}
            )
    scalar = evs.run(evs.Study(without_seed, axes={"a": [1]}, constants={"b": 0, "seed": 4}))
    assert json.loads(scalar.seed.attrs["streams"]) == {"common": "all"}
    assert "streams" not in evs.run(evs.Study(global_only, axes={"a": [1], "b": [1], "seed": [1]})).seed.attrs


@pytest.mark.long
def test_the_figures_of_the_documentation(capsys):
    common_streams.main()
    page = (Path(__file__).parents[2] / "docs" / "random_numbers.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page


def keys(study):
    return plan_study(study)[-1].keys.tolist()


def test_the_key_of_a_function_with_a_generator_has_what_is_common():
    of = {str(common): keys(evs.Study(draw, axes=AXES, common=common)) for common in ("none", "all", ["a"], ["b", "a"])}
    assert len({key for each in of.values() for key in each}) == 4 * 18
    assert keys(evs.Study(draw, axes=AXES)) == of["all"]
    assert keys(evs.Study(draw, axes=AXES, common=["a", "b"])) == of["['b', 'a']"]
    assert keys(evs.Study(draw, axes=AXES, common=[])) == of["none"]
    methods = {"draws": draw, "does not": global_only}
    several = [evs.Study(axes={"method": methods, **AXES}, common=common, name="both") for common in ("all", "none")]
    one, other = (np.reshape(keys(study), (2, 18)) for study in several)
    assert not set(one[0]) & set(other[0])
    assert one[1].tolist() == other[1].tolist() == keys(evs.Study(global_only, axes=AXES))


def test_a_study_file_states_what_is_common(tmp_path):
    (tmp_path / "toy.py").write_text("def f(a, seed, rng):\n    return rng.random()\n")
    text = 'name = "toy"\nmethod = "toy.py:f"\n[axes]\na = [1, 2]\nseed = [0, 1]\n[random]\ncommon = {}\n'
    for common in ("none", ["a"]):
        (tmp_path / "toy.toml").write_text(text.format(json.dumps(common)))
        study = evs.Study(f"{tmp_path / 'toy.py'}:f", axes={"a": [1, 2], "seed": [0, 1]}, common=common)
        (tmp_path / "written.toml").unlink(missing_ok=True)
        written = study.to_file(tmp_path / "written.toml")
        known = [study, evs.Study.from_file(tmp_path / "toy.toml"), evs.Study.from_file(written)]
        assert [each.spec.common for each in known] == [known[0].spec.common] * 3
        assert keys(known[0]) == keys(known[1]) == keys(known[2])
        assert keys(study.replace(common=None)) == keys(study.replace(common="all")) != keys(study)
        assert keys(study.replace(common="none").replace(common=common)) == keys(study)


def test_problems_of_an_axis_draw_the_same_only_where_streams_are_common(tmp_path):
    (tmp_path / "solver.py").write_text("def solve(problem, validation, rng):\n    return {'r': rng.random()}\n")
    problem = '{ dimension = 1, exact = "exp(-t)*sin(%s*pi*x)", diffusion = "1" }'
    text = (
        f'name = "solved"\nmethod = "solver.py:solve"\n[axes]\nproblem = {{ a = {problem % 1}, b = {problem % 2} }}\n'
        "seed = [3, 4]\n[constants]\nvalidation = 8\nfinal_time = 1\n[random]\ncommon = {}\n"
    )
    for common, different in (("all", 2), ("none", 4), (["problem"], 2)):
        (tmp_path / "s.toml").write_text(text.replace("{}", json.dumps(common)))
        drawn = values_of(record_of(evs.Study.from_file(tmp_path / "s.toml")), "r")
        assert len(set(drawn.values())) == different
