"""Anything at all as a study file: it is read, or refused in one line; nothing is executed and nothing is written."""

import copy
import os
from datetime import date

import pytest
from helpers import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evogt_study.errors import StudyError
from evogt_study.study.model import write_toml
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

pytestmark = pytest.mark.filterwarnings("ignore::evogt_study.errors.AccuracyWarning")  # balls of all sizes

# --- studies with entries changed --------------------------------------------------------------------------------

VALID = {
    "name": "tiny",
    "axes": {"seed": [0, 1], "epsilon": [1, 0.5]},
    "constants": {
        "dictionary": "transnet", "N": 3, "gamma": 4, "quadrature": {"rule": "composite_midpoint", "points": 8},
        "validation": 8, "final_time": 1, "dt": 0.25,
    },
    "problem": {"dimension": 1, "exact": "exp(-t)*sin(pi*x)", "diffusion": "1 + x/epsilon"},
    "when": [{"match": {"epsilon": 0.5}, "set": {"tau": 1e-6}}],
    "output": {"times": 3, "record": ["error_history"]},
}  # fmt: skip
WITH_PILOT = {
    **VALID,
    "constants": {name: value for name, value in VALID["constants"].items() if name != "gamma"},
    "pilot": {"parameter": "gamma", "seeds": {"start": 7, "count": 1}, "by": ["epsilon"], "candidates": [2, 4]},
}
TRAP = "trap.py:f"  # this file exists, and leaves a mark when it is executed
CODE = "__import__('pathlib').Path('sprung').touch()"

KEYS = [
    *VALID["constants"], "seed", "N1", "hidden", "delta", "radius", "centre", "tau", "epsilon", *VALID, "pilot",
    "title", "source", "method", "start", "count", "rule", "points", "match", "set", "parameter", "seeds", "by",
    "record", "minimise", "candidates", "times", "grid", "dimension", "exact", "initial", "diffusion", "transnet",
    "candidate", "error", "run_status", "int", "str", "SeedRange", "a[b", "a.b", "ε", "a\nb", "", CODE,
]  # fmt: skip
STRINGS = [
    "transnet", "gtransnet", "uniform_elm", "composite_midpoint", "gauss_legendre", "gamma", "epsilon", "seed",
    "error", "rank", "field", "error_history", "coefficients", "evolution", "oscillatory_1d", "implicit_midpoint",
    "../../etc", "😀", "sin(pi*x)", "sin(", "x.real", "1/x", "0", "exp(-t)*sin(pi*x/epsilon)", "tau*x", "1 + t*x",
    "sqrt(x - 1)", "", "a\nb", "\0", "\x7f", TRAP, CODE,
]  # fmt: skip
# Sizes stay small, so that a study that happens to be valid costs nothing; test_study has the large ones.
NUMBERS = [-1, 0, 1, 2, 3, 4, 8, 0.0, -0.0, 0.1, 0.25, 0.3, 0.30000000000000004, 0.5, 1.0, 1.5, 4.0, 1e-12, 5e-324,
           1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 2**62, -(2**63), 10**400]  # fmt: skip

scalars = st.one_of(
    st.sampled_from(NUMBERS), st.sampled_from(STRINGS), st.booleans(), st.just(date(2020, 1, 1)), st.text(max_size=4)
)
names = st.one_of(st.sampled_from(KEYS), st.text(max_size=4))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)


def holders(value):
    """Every table and list that is not empty, the whole first."""
    if isinstance(value, dict | list) and value:
        yield value
        for entry in value.values() if isinstance(value, dict) else value:
            yield from holders(entry)


@st.composite
def changed(draw):
    """A valid study with up to three entries replaced, removed, renamed or added."""
    table = copy.deepcopy(draw(st.sampled_from([VALID, WITH_PILOT])))
    for _ in range(draw(st.integers(1, 3))):
        inside = draw(st.sampled_from(list(holders(table)) or [{"": 1}]))
        is_table = isinstance(inside, dict)
        key = draw(st.sampled_from(list(inside) if is_table else range(len(inside))))
        action = draw(st.sampled_from(["replace", "remove", "rename", "add"]))
        if action == "replace":
            inside[key] = draw(anything)
        elif is_table:
            new = draw(anything) if action == "add" else inside.pop(key)
            inside.update({} if action == "remove" else {draw(names): new})
        else:
            inside.insert(key, draw(anything)) if action == "add" else inside.pop(key)
    return table


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
    return any(TRAP in str(table.get(key)) for key in ("method", "problem"))


def check(text, folder):
    """Read `text` as a study in `folder`: a usable Study, or a StudyError of one line; and nothing else happens."""
    before, file, message = sorted(os.listdir(folder)), str(folder / "s.toml"), ""
    try:
        found = Study.from_text(text, file)
        assert sum(1 for _ in plan_study(found)[-1].cases()) == found.space.size  # every case has an identity
    except StudyError as error:
        message = str(error)
    assert sorted(os.listdir(folder)) == before
    assert not message or (len(message.splitlines()) == 1 and file in message)


@pytest.fixture(autouse=True)
def elsewhere(folder, monkeypatch):
    """Whatever code might run relative to the present folder would leave its mark where `check` looks."""
    monkeypatch.chdir(folder)


@settings(derandomize=True, deadline=None, max_examples=examples(200), suppress_health_check=list(HealthCheck))
@given(changed())
def test_valid_studies_with_entries_changed(folder, table):
    if not names_trap(table):
        check(write_toml(table), folder)
