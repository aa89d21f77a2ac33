"""One key for one run: made together or one by one, and of a study given in Python, as text or in a written file."""

from pathlib import Path

import pytest
from helpers import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.schema.values import dump_canonical, to_canonical, to_string
from evogt_study.study.plan import plan_study

STUDIES = Path(__file__).parents[2] / "studies"
LONG = ("large/", "board/", "examples/advection_layer", "paper/nonseparable_3d", "paper/target_1d")


def keys_of(study):
    """The keys of each phase, as its plan makes them together; "" for a point that is not planned."""
    return [plan.keys.astype(str).tolist() for plan in plan_study(study)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name.startswith(LONG) else ())
        for name in sorted(str(path.relative_to(STUDIES)) for path in STUDIES.rglob("*.toml"))
        if "sir" not in name  # its program is to be compiled first: tests/test_examples.py
    ],
)
def test_keys_of_a_plan_equal_the_keys_of_its_cases_bound_one_by_one(name):
    check_one_by_one(evs.Study.from_file(STUDIES / name))


def check_one_by_one(study):
    one_by_one = [
        [case.key if case else "" for case in map(plan.case, range(plan.space.size))] for plan in plan_study(study)
    ]
    assert keys_of(study) == one_by_one


SOURCE = "def f(a=0, b=0, c=0, d=0, seed=0):\n    return {'v': 1.0}\n"
RULE, EXCLUDED = {"match": {"a": 1}, "set": {"b": 5}}, {"match": {"c": 3, "a": 2}}
BOX = {"a": {"from": 0, "to": 1}, "b": {"choice": [3, 4]}}
# arguments of evs.Study, and the same as sections of a study file
STATED = {
    "axes and constants": (
        {"axes": {"a": [1, 2.5, -3], "b": ["x", "%s é"]}, "constants": {"c": [1, [2, "y"]], "d": True}},
        '[axes]\na = [1, 2.5, -3]\nb = ["x", "%s é"]\n[constants]\nc = [1, [2, "y"]]\nd = true\n',
    ),
    "consecutive seeds": ({"axes": {"seed": range(9)}}, "[axes]\nseed = { start = 0, count = 9 }\n"),
    "parameters that change together": (
        {"axes": {"seed": [0, 1]}, "designs": evs.zip_axes("level", a=[1, 2], b=[0.1, 0.2])},
        '[axes]\nseed = [0, 1]\n[[zip]]\nname = "level"\na = [1, 2]\nb = [0.1, 0.2]\n',
    ),
    "a sample": (
        {"designs": evs.sample("point", "sobol", 8, **BOX)},
        '[[sample]]\nname = "point"\nrule = "sobol"\ncount = 8\na = { from = 0, to = 1 }\nb = { choice = [3, 4] }\n',
    ),
    "a table": (
        {"designs": evs.table("case", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])},
        '[[table]]\nname = "case"\nrows = [{ a = 1, b = "x" }, { a = 2, b = "y" }]\n',
    ),
    "a rule and an exclusion": (
        {"axes": {"a": [1, 2], "c": [3, 4]}, "constants": {"b": 0}, "when": [RULE], "exclude": [EXCLUDED]},
        "[axes]\na = [1, 2]\nc = [3, 4]\n[constants]\nb = 0\n"
        "[[when]]\nmatch = { a = 1 }\nset = { b = 5 }\n[[exclude]]\nmatch = { c = 3, a = 2 }\n",
    ),
    "a pilot": (
        {"axes": {"a": [1, 2], "seed": [0, 1]}, "pilot": {
            "parameter": "b", "seeds": [7, 8], "by": ["a"], "candidates": [0.5, 1], "minimise": "v"
        }},
        '[axes]\na = [1, 2]\nseed = [0, 1]\n[pilot]\nparameter = "b"\nseeds = [7, 8]\nby = ["a"]\n'
        'candidates = [0.5, 1]\nminimise = "v"\n',
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("keys")
    (made / "toy.py").write_text(SOURCE)
    return made


def check_one_key(folder, arguments, text):
    """The keys are equal for arguments in Python, the text that states the same, and the file that Python writes."""
    (folder / "text.toml").write_text(f'name = "toy"\nmethod = "toy.py:f"\n{text}', encoding="utf-8")
    (folder / "written.toml").unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = evs.Study("toy.py:f", name="toy", **arguments)
        written = study.to_file(folder / "written.toml")
    keys = keys_of(study)
    assert keys_of(evs.Study.from_file(folder / "text.toml")) == keys
    assert keys_of(evs.Study.from_file(written)) == keys
    return keys


@pytest.mark.parametrize("name", STATED)
def test_python_text_and_a_written_file_give_one_key(folder, name):
    check_one_key(folder, *STATED[name])


TEXTS = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=6)


NAMES = st.sampled_from(["a", "b", "c", "d", "é"])
PLAIN = st.one_of(st.integers(-3, 3), st.floats(-2, 2), st.booleans(), TEXTS, st.lists(st.integers(0, 2), max_size=2))


@st.composite
def spaces(draw):
    """Source of a function, arguments of a study of it, and the values that its arguments have by default."""
    names = draw(st.lists(NAMES, unique=True, min_size=2))
    defaults = draw(st.dictionaries(st.sampled_from(names), PLAIN))
    # as labels tell them apart
    lists = st.lists(PLAIN, min_size=1, max_size=3, unique_by=lambda value: to_string(to_canonical(value)))
    axes = {name: draw(lists) for name in draw(st.lists(st.sampled_from(names), unique=True))}
    rest = [name for name in names if name not in axes]
    arguments = {"axes": {**axes, "seed": draw(st.lists(st.integers(0, 5), unique=True, min_size=1, max_size=4))}}
    if len(rest) > 2:
        values = draw(st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=3))
        arguments["designs"] = evs.zip_axes(
            "level", **{rest.pop(): [v[0] for v in values], rest.pop(): [v[1] for v in values]}
        )
    arguments["constants"] = {name: draw(PLAIN) for name in rest if name not in defaults or draw(st.booleans())}
    if axes and rest:
        where = draw(st.sampled_from(sorted(axes)))
        # one value, since a list in a rule's match is several
        match = {where: [draw(st.sampled_from(axes[where]))]}
        arguments["when"] = [{"match": match, "set": {rest[0]: draw(PLAIN)}}]
        if len(axes[where]) > 1 and draw(st.booleans()):
            arguments["exclude"] = [{"match": match}]
    stated = [f"{name}={defaults[name]!r}" if name in defaults else name for name in names]
    return f"def f(*, {', '.join(stated)}, seed=0):\n    return 0.0\n", arguments, defaults


@pytest.mark.filterwarnings("ignore:.*differ by less than:evogt_study.errors.AccuracyWarning")
@settings(max_examples=examples(150), deadline=None)
@given(spaces())
def test_keys_made_together_are_those_made_one_by_one_for_any_study_of_a_function(folder, space):
    source, arguments, defaults = space
    (folder / "any.py").write_text(source, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = evs.Study("any.py:f", **arguments)
    check_one_by_one(study)
    # different values have different keys, and equal ones equal keys
    plan = plan_study(study)[-1]
    cases = [case for case in map(plan.case, range(plan.space.size)) if case]
    texts = {dump_canonical(case.values) for case in cases}
    assert len({case.key for case in cases}) == len(texts)
    for name, value in defaults.items():
        if name not in study.space.names and name not in study.space.columns:
            assert keys_of(with_value(folder, arguments, name, value)) == keys_of(with_value(folder, arguments, name))


def with_value(folder, arguments, name, *value):
    """The study with this value of a constant, or without one."""
    constants = {key: each for key, each in arguments["constants"].items() if key != name}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return evs.Study("any.py:f", **{**arguments, "constants": constants | dict.fromkeys([name], *value)} if value
                         else {**arguments, "constants": constants})  # fmt: skip
