"""Anything at all as a study file: it is read, or refused in one line; nothing is executed and nothing is written."""

import json
import os
import string
from datetime import date

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evogt_study.errors import StudyError
from evogt_study.study.plan import provisional_plans
from evogt_study.study.study import Study

pytestmark = pytest.mark.filterwarnings("ignore::evogt_study.errors.DoubtWarning")  # balls of all sizes

# Python's own warnings of a reader (an odd escape in a formula, say) count as failures too: warnings are errors here.
quick = settings(
    derandomize=True,
    deadline=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# --- TOML from Python values ------------------------------------------------------------------------------------------


def toml(value):
    """A value as TOML text, tables inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return value.isoformat() if isinstance(value, date) else repr(value)


def _quoted(text):
    """A basic string: JSON's escapes are TOML's, but for characters beyond the first plane and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def document(table):
    """A whole file: one line for each top-level key."""
    return "\n".join(f"{_quoted(key)} = {toml(value)}" for key, value in table.items()) + "\n"


# --- plausible and implausible studies --------------------------------------------------------------------------------

VALID = {
    "name": "tiny",
    "axes": {"seed": [0, 1], "epsilon": [1, 0.5]},
    "constants": {
        "dictionary": "transnet",
        "N": 3,
        "gamma": 4,
        "quadrature": {"rule": "composite_midpoint", "points": 8},
        "validation": 8,
        "final_time": 1,
        "dt": 0.25,
    },
    "problem": {"dimension": 1, "exact": "exp(-t)*sin(pi*x)", "diffusion": "1 + x/epsilon"},
    "when": [{"match": {"epsilon": 0.5}, "set": {"tau": 1e-6}}],
    "output": {"times": 3, "record": ["error_history"]},
}
WITH_PILOT = {
    **VALID,
    "constants": {name: value for name, value in VALID["constants"].items() if name != "gamma"},
    "pilot": {"parameter": "gamma", "seeds": {"start": 7, "count": 1}, "by": ["epsilon"], "candidates": [2, 4]},
}
TRAP = "trap.py:f"  # this file exists, and leaves a mark when it is executed
CODE = "__import__('pathlib').Path('sprung').touch()"

PARAMETERS = [*VALID["constants"], "seed", "N1", "hidden", "delta", "radius", "centre", "tau", "epsilon"]
SECTIONS = [*VALID, "pilot", "title", "source", "method"]
FURTHER_KEYS = [
    "start", "count", "rule", "points", "match", "set", "parameter", "seeds", "by", "record", "minimise",
    "candidates", "times", "grid", "dimension", "exact", "initial", "diffusion", "transnet", "candidate", "error",
    "run_status", "int", "str", "SeedRange", "a[b", "a.b", "ε",
]  # fmt: skip
KEYS = [*PARAMETERS, *SECTIONS, *FURTHER_KEYS, "a\nb", "", CODE]
PLAIN_WORDS = [
    "transnet", "gtransnet", "uniform_elm", "composite_midpoint", "gauss_legendre", "gamma", "epsilon", "seed",
    "error", "rank", "field", "error_history", "coefficients", "evolution", "oscillatory_1d", "implicit_midpoint",
    "../../etc", "😀", "sin(pi*x)", "sin(", "x.real", "1/x", "0", "exp(-t)*sin(pi*x/epsilon)", "tau*x",
]  # fmt: skip
WORDS = [*PLAIN_WORDS, "1 + t*x", "sqrt(x - 1)", "", "a\nb", "\0", "\x7f", TRAP, CODE]
# Sizes stay small, so that a study that happens to be valid costs nothing; test_study has the large ones.
NUMBERS = [-1, 0, 1, 2, 3, 4, 8, 0.0, -0.0, 0.1, 0.25, 0.3, 0.30000000000000004, 0.5, 1.0, 1.5, 4.0, 1e-12, 5e-324,
           1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 2**62, -(2**63), 10**400]  # fmt: skip

scalars = st.one_of(
    st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.booleans(), st.just(date(2020, 1, 1)), st.text(max_size=4)
)
names = st.one_of(st.sampled_from(KEYS), st.text(max_size=4))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)


def odd(strategy, one_in=30):
    """Values of `strategy`, and now and then anything at all."""
    return st.integers(1, one_in).flatmap(lambda turn: anything if turn == one_in else strategy)


POOL = {
    "dictionary": ["transnet", "gtransnet", "uniform_elm"],
    "seed": [0, 1, 2],
    "N": [1, 2, 3],
    "N1": [1, 4],
    "hidden": [[2], [2, 3]],
    "gamma": [2, 4.5, 4, [1, 2, 3], [1, 2, 3, 4]],
    "delta": [0.5, 1],
    "radius": [0.8, 1],
    "centre": [0.5, 0.25, [0.5], [0.5, 0.5]],
    "tau": [1e-12, 0.3, 0.30000000000000004, 1e-6],
    "quadrature": [4, 8, {"rule": "composite_midpoint", "points": 8}],
    "validation": [4, {"rule": "gauss_legendre", "points": 4}, {"rule": "composite_midpoint", "points": 8}],
    "final_time": [1, 0.5, 2],
    "dt": [0.25, 0.5, 0.3],
    "epsilon": [1, 0.5, 0.25, -1],
    "k": [1, 2],
}
OFTEN_LEFT_OUT = ("N1", "hidden", "delta", "radius", "centre", "tau", "epsilon", "k")
FORMULAS = [
    "sin(pi*x)",
    "exp(-t)*sin(k*pi*x)",
    "1 + x/epsilon",
    "x*(1 - x)*y",
    "1",
    "2 + t",
    "cos(x)",
    "N*x*(1 - x)/tau",
]
PILOT_CANDIDATES = [[2, 4], [4], {"transnet": [2], "gtransnet": [3, 4]}, {"transnet": [2]}, {"1.0": [2], "0.5": [3]}]

formulas = odd(st.sampled_from(FORMULAS))
problems = st.one_of(
    st.just({"dimension": 1, "exact": "exp(-t)*sin(pi*x)"}),
    st.just({"dimension": 1, "exact": "exp(-t)*sin(pi*x)", "diffusion": "1 + x/epsilon"}),
    st.fixed_dictionaries({"dimension": odd(st.integers(1, 3)), "exact": formulas}, optional={"diffusion": formulas}),
    st.fixed_dictionaries({"dimension": odd(st.integers(1, 3)), "initial": formulas}, optional={"source": formulas}),
    st.just("oscillatory_1d"),
    st.just({"dimension": 2, "initial": "sin(pi*x)*sin(k*pi*y)", "diffusion": "2 + t*x"}),
)
TIMES = [2, 3, 5, [0, 1], [0.5], [0, 0.3], [1, 0], [], [float("nan")], [0, float("inf")], [10**400]]
RECORD = ["error_history", "norm_history", "field", "coefficients"]
outputs = st.fixed_dictionaries(
    {"record": odd(st.lists(st.sampled_from(RECORD), max_size=2))},
    optional={"times": odd(st.sampled_from(TIMES)), "grid": odd(st.sampled_from([2, 5]))},
)


def some_of(name):
    return st.lists(odd(st.sampled_from(POOL[name])), min_size=1, max_size=3, unique_by=repr)


@st.composite
def rules(draw, axes):
    """A rule on some of the axes, by one of their values or by several."""
    match = {}
    for name in sorted(draw(st.sets(st.sampled_from(sorted(axes)), min_size=1, max_size=2))):
        values = axes[name] if isinstance(axes[name], list) and axes[name] else [0]
        match[name] = draw(odd(st.sampled_from(values) | st.lists(st.sampled_from(values), min_size=1, max_size=2)))
    given = {
        name: draw(odd(st.sampled_from(POOL[name])))
        for name in sorted(draw(st.sets(st.sampled_from(sorted(POOL)), min_size=1, max_size=2)))
    }
    return {"match": match, "set": given}


@st.composite
def plausible(draw):
    """A study put together from parts that are each mostly right."""
    problem = draw(problems)
    used = ["epsilon"] if problem == "oscillatory_1d" else [name for name in ("epsilon", "k") if name in str(problem)]
    kept = [name for name in POOL if name in used or name not in OFTEN_LEFT_OUT or draw(st.integers(1, 6)) == 1]
    on_axes = draw(st.sets(st.sampled_from(kept), max_size=3)) | {"seed"}
    axes = {name: draw(odd(some_of(name))) for name in sorted(on_axes)}
    constants = {name: draw(odd(st.sampled_from(POOL[name]))) for name in kept if name not in on_axes}
    table = {"name": "tiny", "axes": axes, "constants": constants, "problem": problem}
    if draw(st.booleans()):
        table["when"] = draw(st.lists(rules(axes), min_size=1, max_size=2))
    if draw(st.booleans()):
        table["output"] = draw(outputs)
    if draw(st.integers(1, 3)) == 1:
        chosen = draw(odd(st.sampled_from(["gamma", "tau"])))
        if isinstance(chosen, str):
            constants.pop(chosen, None)
        table["pilot"] = {
            "parameter": chosen,
            "seeds": draw(odd(st.sampled_from([[7], {"start": 7, "count": 2}, [0], []]))),
            "by": draw(odd(st.lists(st.sampled_from(sorted(axes)), max_size=2))),
            "candidates": draw(odd(st.sampled_from(PILOT_CANDIDATES))),
        }
    return table


def places(value, path=()):
    """Every place in a nested table, the whole of it first."""
    found = [path]
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        found += [place for key, entry in inner for place in places(entry, (*path, key))]
    return found


def replaced(value, path, new):
    """A copy with the entry at `path` replaced, or taken away where `new` is None."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if new is None and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def renamed(value, path, name):
    """A copy with the key at the end of `path` called `name`."""
    if len(path) > 1:
        return replaced(value, path[:1], renamed(value[path[0]], path[1:], name))
    return (
        {name if key == path[0] else key: entry for key, entry in value.items()} if isinstance(value, dict) else value
    )


@st.composite
def changed(draw):
    """A valid study with up to three entries replaced, removed, renamed or added."""
    table = draw(st.sampled_from([VALID, WITH_PILOT]))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(table)[1:] or [("name",)]))
        kind = draw(st.sampled_from(["replace", "remove", "rename", "add"]))
        if kind == "rename":
            table = renamed(table, path, draw(names))
        elif kind == "add" and len(path) > 1:
            inside = path[:-1]
            new = draw(anything)
            table = added(table, inside, draw(names), new)
        elif path[0] in table:
            table = replaced(table, path, draw(anything) if kind == "replace" else None)
    return table


def added(value, path, name, new):
    """A copy with an entry more in the table, or at the end of the list, at `path`."""
    if path:
        return replaced(value, path[:1], added(value[path[0]], path[1:], name, new))
    return {**value, name: new} if isinstance(value, dict) else [*value, new]


# --- mutations of the text --------------------------------------------------------------------------------------------

TEXT = """# a study
name = "tiny"
title = "A small study"

[problem]
dimension = 1
exact = "exp(-t)*sin(pi*x)"
diffusion = "1 + x/epsilon"

[axes]
seed = { start = 0, count = 2 }
epsilon = [1, 0.5]
dictionary = ["transnet", "gtransnet"]

[constants]
N = 3
N1 = 4
quadrature = { rule = "composite_midpoint", points = 8 }
validation = { rule = "composite_midpoint", points = 8 }
final_time = 1
dt = 0.25

[[when]]
match = { dictionary = "gtransnet", epsilon = [1, 0.5] }
set = { tau = 1e-6 }

[pilot]
parameter = "gamma"
seeds = { start = 7, count = 1 }
by = ["dictionary"]
candidates = { transnet = [2, 4], gtransnet = [3] }

[output]
times = 3
record = ["error_history"]
"""
CHARACTERS = st.sampled_from(string.ascii_letters + "0123456789" + "[]{}\"'=.,#_-+*/() \n\t\\\0\x7fé😀")


@st.composite
def mutated(draw):
    """TEXT with characters, tokens or lines taken away, doubled, swapped or replaced."""
    text = TEXT
    for _ in range(draw(st.integers(1, 4))):
        unit = draw(st.sampled_from(["character", "token", "line"]))
        parts = (
            list(text)
            if unit == "character"
            else text.split(" ")
            if unit == "token"
            else text.splitlines(keepends=True)
        )
        at = draw(st.integers(0, max(len(parts) - 1, 0)))
        other = draw(st.integers(0, max(len(parts) - 1, 0)))
        action = draw(st.sampled_from(["delete", "double", "swap", "insert", "copy", "cut"]))
        if not parts:
            break
        if action == "delete":
            del parts[at]
        elif action == "double":
            parts.insert(at, parts[at])
        elif action == "swap":
            parts[at], parts[other] = parts[other], parts[at]
        elif action == "insert":
            parts.insert(at, draw(CHARACTERS))
        elif action == "copy":
            parts[at] = parts[other]
        else:
            parts = parts[:at]
        text = (" " if unit == "token" else "").join(parts)
    return text


# --- what has to hold -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz")
    (path / "trap.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('sprung').touch()\ndef f(seed): return {}\n"
    )
    return path


def names_trap(table):
    """Whether the file is named on purpose, where a study may name code."""
    return isinstance(table, dict) and any(TRAP in str(table.get(key)) for key in ("method", "problem"))


def read(text, folder):
    """The study, or the message of its refusal."""
    try:
        return Study.from_text(text, str(folder / "s.toml"))
    except StudyError as error:
        return str(error)


def check(text, folder):
    """Read `text` as a study in `folder`: a usable Study, or a StudyError of one line; and nothing else happens."""
    before = sorted(os.listdir(folder))
    found = read(text, folder)
    assert sorted(os.listdir(folder)) == before
    if isinstance(found, str):
        assert len(found.splitlines()) == 1
        assert str(folder / "s.toml") in found
    else:  # every case has an identity
        assert sum(1 for _ in provisional_plans(found)[-1].cases()) == found.space.size


def test_the_studies_that_are_changed_are_valid(folder):
    for text in (TEXT, document(VALID), document(WITH_PILOT)):
        assert Study.from_text(text, str(folder / "s.toml")).space.size > 0


@pytest.fixture(autouse=True)
def elsewhere(folder, monkeypatch):
    """Whatever code might run relative to the present folder would leave its mark where `check` looks."""
    monkeypatch.chdir(folder)


@pytest.mark.long
@settings(quick, max_examples=400)
@given(plausible())
def test_studies_of_plausible_and_implausible_parts(folder, table):
    if not names_trap(table):
        check(document(table), folder)


@pytest.mark.long
@quick
@given(changed())
def test_valid_studies_with_entries_changed(folder, table):
    if isinstance(table, dict) and not names_trap(table):
        check(document(table), folder)


@quick
@given(mutated())
@example(TEXT.replace("\n", "\r\n"))
@example("\ufeff" + TEXT)
@example(TEXT.replace('"', "'"))
@example(TEXT.replace('"', '"""'))
@example(TEXT + TEXT)
@example("\n".join(reversed(TEXT.splitlines())))
def test_the_text_of_a_valid_study_with_mutations(folder, text):
    check(text, folder)


@quick
@given(st.text(max_size=60))
def test_any_text(folder, text):
    check(text, folder)


@settings(quick, max_examples=100)
@given(st.binary(max_size=40))
def test_any_bytes(folder, content):
    path = folder / "s.toml"
    path.write_bytes(content)
    try:
        with pytest.raises(StudyError) as caught:
            Study.from_file(path)
    finally:
        path.unlink()
    assert len(str(caught.value).splitlines()) == 1
