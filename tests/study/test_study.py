"""The loader: what a study file may say, what identifies its cases, and the one line for every mistake in it."""

import inspect
import itertools
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from evogt_study.errors import StudyError
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.problems import BUILT_IN
from evogt_study.schema.values import canonical
from evogt_study.study.designs import SECTIONS, Design
from evogt_study.study.model import read_toml, write_toml
from evogt_study.study.plan import provisional_plans, study_plan
from evogt_study.study.study import Study

STUDIES = Path(__file__).parents[2] / "studies"

# --- writing study files ----------------------------------------------------------------------------------------------

AXES = {"seed": "[0, 1]"}
CONSTANTS = {
    "dictionary": '"transnet"',
    "N": "4",
    "gamma": "4",
    "quadrature": "8",
    "validation": "8",
    "final_time": "1",
    "dt": "0.25",
}
PROBLEM = {"dimension": "1", "exact": '"exp(-t)*sin(pi*x)"'}
PILOT = {"parameter": '"gamma"', "seeds": "[7, 8]", "by": "[]", "candidates": "[2, 4]"}


def toml(top=None, *, axes=None, constants=None, problem=PROBLEM, pilot=None, output=None, extra=""):
    """A small valid study with entries added or changed; None takes one away.  Values are TOML text."""
    sections = {
        "axes": {**AXES, **(axes or {})},
        "constants": {**CONSTANTS, **(constants or {})},
        "problem": problem,
        "pilot": pilot,
        "output": output,
    }
    lines = _entries({"name": '"tiny"', **(top or {})})
    for name, entries in sections.items():
        if entries is not None:
            lines += [f"[{name}]", *_entries(entries)]
    return "\n".join([*lines, extra, ""])


def _entries(entries):
    return [f"{key} = {value}" for key, value in entries.items() if value is not None]


def when(match, given):
    return f"[[when]]\nmatch = {match}\nset = {given}\n"


def with_pilot(**changed):
    return toml(constants={"gamma": None}, pilot={**PILOT, **changed})


def own_method(source_axes="", **constants):
    """A study of the function `f` in own.py."""
    given = "\n".join(f"{name} = {value}" for name, value in constants.items())
    return f'name = "own"\nmethod = "own.py:f"\n[axes]\nseed = [0, 1]\n{source_axes}\n[constants]\n{given}\n'


@pytest.fixture
def load(tmp_path):
    """Writes a study file, and Python files beside it, and reads it."""

    def read(text, **files):
        for name, source in files.items():
            (tmp_path / f"{name}.py").write_text(source)
        path = tmp_path / "tiny.toml"
        path.write_text(text)
        return Study.from_file(path)

    return read


@pytest.fixture
def refusal(load, tmp_path):
    """Reads a study that must be refused; the message, checked to be one line that names the file."""

    def read(text, **files):
        before = sorted([*os.listdir(tmp_path), "tiny.toml", *(f"{name}.py" for name in files)])
        with pytest.raises(StudyError) as caught:
            load(text, **files)
        message = str(caught.value)
        assert len(message.splitlines()) == 1, message
        assert len(message) < 1000
        assert str(tmp_path / "tiny.toml") in message
        assert sorted(name for name in os.listdir(tmp_path) if name != "__pycache__") == sorted(set(before))
        return message.replace(str(tmp_path / "tiny.toml"), "tiny.toml")

    return read


def cases(study):
    return list(study_plan(study).cases())


def keys(study):
    """Case keys in the order of the axes."""
    return [case.key for case in sorted(cases(study), key=lambda case: case.index)]


# --- studies that are read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(STUDIES.rglob("*.toml")), ids=lambda path: path.stem)
def test_every_study_of_the_repository_is_the_same_in_toml_in_python_and_in_a_written_file(path, tmp_path, monkeypatch):
    study = Study.from_file(path)
    assert (study.name, study.file, study.space.size > 0) == (path.stem, str(path), True)
    # the content of files that tables name comes after it
    assert study.text.split("\n# what the files of [[table]] held")[0] == path.read_text()
    assert read_toml(write_toml(study.model.given), "text") == study.model
    monkeypatch.chdir(path.parent)
    given = study.model.given
    designs = [Design(section, each) for section in SECTIONS for each in given.pop(section, [])]
    given.pop("table_files", None)
    in_python = Study(**given, designs=designs, common=given.pop("random", {}).get("common"))
    written = Study.from_file(in_python.to_file(tmp_path / path.name))
    for other in (in_python, written):
        assert other.axes == study.axes
        assert [plan.keys.tolist() for plan in provisional_plans(other)] == [
            plan.keys.tolist() for plan in provisional_plans(study)
        ]


DESIGN_HEAD = """
name = "oscillatory_1d"                        # also the result's file name; [a-z0-9_]+
title = "One-dimensional oscillatory-coefficient benchmark"
source = "Ju & Zhao, Table main1d"             # optional, copied to the result
method = "evolution"                           # evolution | p1_fem | space_time_regression | ...
problem = "oscillatory_1d"                     # a built-in, "file.py:factory", or a [problem] table (below)

[axes]                                         # the product of all of these is run; dimensions keep this order
dictionary = ["transnet", "gtransnet"]
epsilon = [0.2, 0.1, 0.05]
seed = { start = 0, count = 20 }               # or a list

[constants]
N = 60                # output features
N1 = 240              # first hidden width (gtransnet); more layers: hidden = [240, 120]
delta = 0.5
radius = 0.8
tau = 1e-12
quadrature = 320      # Gauss-Legendre points per direction, assembly
validation = { rule = "composite_midpoint", points = 4096 }   # or "gauss_legendre"; points per direction
final_time = 0.25
dt = 0.0025
"""
DESIGN_RULES = """
[[when]]                                       # parameters that follow the axes; later rules win
match = { dictionary = "transnet" }
set = { gamma = 10 }
[[when]]
match = { dictionary = "gtransnet" }
set = { gamma = 20 }
[[when]]
match = { dictionary = "gtransnet", epsilon = 0.05 }
set = { gamma = 22 }
"""
DESIGN_PILOT = """
[pilot]                                        # optional: choose a parameter on seeds the study never uses
parameter = "gamma"
seeds = { start = 100, count = 5 }
minimise = "error"                             # mean over the pilot seeds; ties go to the smaller candidate
by = ["dictionary", "epsilon"]
candidates = { transnet = [4, 6, 8], gtransnet = [18, 20, 22] }   # a list, or a table keyed by the first of `by`
"""
DESIGN_OUTPUT = """
[output]
times = 26                                     # saved times, evenly spaced incl. 0 and T
record = ["error_history", "energy_history"]   # also: coefficients, field
"""


def test_the_example_of_the_design_with_its_rules(load):
    study = load(DESIGN_HEAD + DESIGN_RULES + DESIGN_OUTPUT)
    assert study.name == "oscillatory_1d"
    assert study.title == "One-dimensional oscillatory-coefficient benchmark"
    assert study.model.source == "Ju & Zhao, Table main1d"
    assert study.pilot is None
    assert study.space.names == ("dictionary", "epsilon", "seed")
    assert study.space.shape == (2, 3, 20)
    gammas = {
        (case.values["dictionary"], case.values["epsilon"], case.values["gamma"]) for case in study_plan(study).cases()
    }
    assert gammas == {
        *(("transnet", epsilon, 10.0) for epsilon in (0.2, 0.1, 0.05)),
        *(("gtransnet", epsilon, 20.0) for epsilon in (0.2, 0.1)),
        ("gtransnet", 0.05, 22.0),
    }


def test_the_example_of_the_design_with_its_pilot(load):
    study = load(DESIGN_HEAD + DESIGN_PILOT + DESIGN_OUTPUT)
    assert study.pilot.parameters == ("gamma",)
    assert study.pilot.minimise == "error"
    assert study.pilot.by == ("dictionary", "epsilon")
    assert study.pilot.candidates == {"transnet": ((4.0,), (6.0,), (8.0,)), "gtransnet": ((18.0,), (20.0,), (22.0,))}
    pilot = list(provisional_plans(study)[0].cases())
    assert len(pilot) == 2 * 3 * 3 * 5
    assert {case.values["seed"] for case in pilot} == set(range(100, 105))


def test_the_example_of_the_design_cannot_have_both(refusal):
    message = refusal(DESIGN_HEAD + DESIGN_RULES + DESIGN_PILOT + DESIGN_OUTPUT)
    assert message.startswith("`gamma` must be left to the pilot, got a value of its own (tiny.toml, ")


def test_seeds_as_a_range_and_as_a_list_are_the_same(load):
    as_list = load(toml(axes={"seed": "[3, 4, 5]"}))
    as_range = load(toml(axes={"seed": "{ start = 3, count = 3 }"}))
    assert as_range.space.axis("seed").values == (3, 4, 5) == as_list.space.axis("seed").values
    assert keys(as_range) == keys(as_list)


def test_a_range_starts_at_zero_unless_told(load):
    assert load(toml(axes={"seed": "{ count = 2 }"})).space.axis("seed").values == (0, 1)


def test_later_rules_win(load):
    text = toml(
        axes={"epsilon": "[0.2, 0.1, 0.05]"},
        problem={**PROBLEM, "diffusion": '"1 + epsilon"'},
        extra=when("{ epsilon = [0.1, 0.05] }", "{ gamma = 5, tau = 1e-6 }")
        + when("{ epsilon = 0.05 }", "{ gamma = 7 }"),
    )
    found = {(c.values["epsilon"], c.values["gamma"], c.values["tau"]) for c in cases(load(text))}
    assert found == {(0.2, 4.0, 1e-12), (0.1, 5.0, 1e-6), (0.05, 7.0, 1e-6)}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("hidden", "[[240], [240, 120]]", ((240,), (240, 120))),
        ("quadrature", "[8, 9]", (QuadratureRule("gauss_legendre", 8), QuadratureRule("gauss_legendre", 9))),
        (
            "validation",
            '[8, { rule = "composite_midpoint", points = 8 }]',
            (QuadratureRule("gauss_legendre", 8), QuadratureRule("composite_midpoint", 8)),
        ),
        ("gamma", "[4, [1, 2, 3, 4]]", (4.0, (1.0, 2.0, 3.0, 4.0))),
        ("centre", "[0.5, [0.25]]", (0.5, (0.25,))),
        ("tau", "[1e-12, 0.1]", (1e-12, 0.1)),
        ("dt", "[0.25, 0.5]", (0.25, 0.5)),
        ("delta", "[1, 0.5]", (1.0, 0.5)),
        ("dictionary", '["transnet", "uniform_elm"]', ("transnet", "uniform_elm")),
    ],
)
def test_axes_of_every_kind(load, name, values, expected):
    dictionary = {"dictionary": None if name == "dictionary" else '"gtransnet"' if name == "hidden" else '"transnet"'}
    study = load(toml(axes={name: values}, constants={**dictionary, name: None}))
    assert study.space.axis(name).values == expected
    assert [study.space.values(index)[name] for index in range(study.space.size)] == [*expected, *expected]


def test_a_pilot_with_one_list_of_candidates(load):
    study = load(with_pilot())
    assert study.pilot.candidates == {None: ((2.0,), (4.0,))}
    assert study.pilot.space.size == 2 * 2
    assert [case.values["gamma"] for case in provisional_plans(study)[-1].cases()] == [2.0, 2.0]


def test_a_pilot_whose_candidates_are_keyed_by_numbers(load):
    text = toml(
        axes={"tau": "[1e-12, 0.5]"},
        constants={"gamma": None},
        pilot={**PILOT, "by": '["tau"]', "candidates": '{ "1e-12" = [2, 4], "0.5" = [3] }'},
    )
    study = load(text)
    assert study.pilot.candidates == {"1e-12": ((2.0,), (4.0,)), "0.5": ((3.0,),)}
    assert provisional_plans(study)[0].count == (2 + 1) * 2


def test_a_pilot_whose_candidates_are_keyed_by_truth_values(load):
    """Truth values are written as in the rest of the file: true, not True."""
    text = (
        own_method("on = [true, false]")
        + "[pilot]\n"
        + "\n".join(['parameter = "a"', "seeds = [5]", 'by = ["on"]', "candidates = { true = [1, 2], false = [3] }"])
    )
    study = load(text, own="def f(seed, on, a): return {'error': 1.0}")
    assert study.pilot.candidates == {"true": ((1,), (2,)), "false": ((3,),)}


def test_the_pilot_may_choose_a_parameter_that_has_a_default(load):
    study = load(toml(pilot={**PILOT, "parameter": '"tau"', "candidates": "[1e-12, 1e-6]"}))
    assert {case.values["tau"] for case in provisional_plans(study)[0].cases()} == {1e-12, 1e-6}


def test_a_stated_problem_with_parameters_on_axes_and_as_constants(load):
    problem = {"dimension": "1", "exact": '"exp(-nu*t)*sin(k*pi*x)"', "diffusion": '"1 + x/epsilon"'}
    study = load(toml(axes={"epsilon": "[1, 0.5]"}, constants={"nu": "0.5", "k": "2"}, problem=problem))
    assert study.space.axis("epsilon").values == (1.0, 0.5)
    assert study.space.constants["k"] == 2.0


@pytest.mark.parametrize(
    "problem",
    [
        {"dimension": "1", "initial": '"sin(pi*x)"'},
        {"dimension": "1", "initial": '"sin(pi*x)"', "source": '"t*x"', "diffusion": '"2"'},
        {"dimension": "2", "exact": '"sin(pi*x)*sin(pi*y)"'},
        {"dimension": "3", "exact": '"sin(pi*x)*sin(pi*y)*sin(pi*z)*exp(-t)"', "diffusion": '"1 + t*x*y*z"'},
    ],
)
def test_stated_problems_of_every_form(load, problem):
    assert study_plan(load(toml(problem=problem))).count == 2


OWN = "def f(seed, width, depth=2, name='x', scale=None):\n    return {'error': float(seed)}\n"


def test_a_method_of_ones_own(load):
    study = load(own_method("width = [1, 2]", depth="3"), own=OWN)
    assert study.space.names == ("seed", "width")
    assert cases(study)[0].values == {
        "seed": 0, "width": 1, "depth": 3, "name": "x", "scale": canonical(None)
    }  # fmt: skip


FACTORY = """
from evogt_study.pde import FormulaProblem

def heat(k, nu=0.5):
    return FormulaProblem(1, exact="exp(-t)*sin(a*pi*x)", diffusion="b")(a=k, b=nu)

waves = FormulaProblem(1, exact="exp(-t)*sin(m*pi*x)")
"""


def test_a_problem_from_a_factory_and_from_a_statement_in_a_python_file(load):
    made = load(toml({"problem": '"own.py:heat"'}, axes={"k": "[1, 2]"}, problem=None), own=FACTORY)
    assert made.space.constants["nu"] == 0.5
    stated = load(toml({"problem": '"own.py:waves"'}, axes={"m": "[1, 2]"}, problem=None), own=FACTORY)
    assert stated.space.names == ("seed", "m")


def test_python_files_are_found_from_the_study_files_folder(tmp_path, monkeypatch):
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    (folder.parent / "own.py").write_text("def f(seed): return {'error': 0.0}")
    (folder / "s.toml").write_text('name = "s"\nmethod = "../own.py:f"\n[axes]\nseed = [0]\n')
    monkeypatch.chdir(tmp_path)
    assert Study.from_file("deep/folder/s.toml").space.size == 1


def test_comments_layout_and_line_ends_are_free(load):
    text = toml(extra=when("{ seed = 0 }", "{ gamma = 3 }"))
    loose = "# a comment\r\n" + text.replace("\n", "   # why\r\n") + "# the end"
    assert keys(load(loose)) == keys(load(text))


def test_a_study_from_text_has_no_need_of_a_file():
    assert Study.from_text(toml()).file == "study"


def test_where_a_parameter_is_written(load):
    study = load(
        toml(
            axes={"epsilon": "[1, 2]"},
            constants={"gamma": None},
            problem={**PROBLEM, "diffusion": '"epsilon"'},
            pilot=PILOT,
            extra=when("{ epsilon = 1 }", "{ tau = 0.1 }"),
        )
    )
    first, second = study.space.values(0), study.space.values(1)
    places = {name: study.where(name, first).rpartition(", ")[2] for name in ("epsilon", "N", "tau", "gamma", "times")}
    assert places == {
        "epsilon": "axes.epsilon",
        "N": "constants.N",
        "tau": "when.tau",
        "gamma": "pilot.gamma",
        "times": "output.times",
    }
    assert study.where("tau", second).endswith("constants.tau")  # where the rule does not hold


# --- what identifies a case -------------------------------------------------------------------------------------------

DEEP = {"dictionary": '"gtransnet"', "N1": "6"}

SAME = {
    "N1 or hidden": (toml(constants=DEEP), toml(constants={"dictionary": '"gtransnet"', "hidden": "[6]"})),
    "a default left out or given": (
        toml(),
        toml(constants={"tau": "1e-12", "centre": "0.5", "radius": "0.8", "time_integrator": '"implicit_midpoint"'}),
    ),
    "delta, by default or given": (toml(constants=DEEP), toml(constants={**DEEP, "delta": "0.5"})),
    "the method's name left out": (toml(), toml({"method": '"evolution"'})),
    "N1 of a one-layer dictionary": (toml(), toml(constants={"N1": "99"})),
    "hidden and delta of a one-layer dictionary": (toml(), toml(constants={"hidden": "[9, 9]", "delta": "0.25"})),
    "whole numbers as floats": (toml(), toml(constants={"gamma": "4.0", "final_time": "1.0"})),
    "a rule by its points or as a table": (
        toml(),
        toml(constants={"quadrature": '{ rule = "gauss_legendre", points = 8 }'}),
    ),
    "a formula's constants": (
        toml(problem={**PROBLEM, "diffusion": '"1"'}),
        toml(),
    ),
    "a built-in problem or the same formulas": (
        toml({"problem": '"oscillatory_1d"'}, constants={"epsilon": "0.5"}, problem=None),
        toml(
            constants={"epsilon": "0.5"},
            problem={
                "dimension": "1",
                "exact": json.dumps(BUILT_IN["oscillatory_1d"].exact),
                "diffusion": json.dumps(BUILT_IN["oscillatory_1d"].diffusion),
            },
        ),
    ),
    "a constant or a rule": (
        toml(),
        toml(constants={"gamma": None}, extra=when("{ seed = [0, 1] }", "{ gamma = 4 }")),
    ),
    "title, source and name": (toml(), toml({"name": '"other"', "title": '"t"', "source": '"s"'})),
    "times where nothing is recorded at them": (toml(), toml(output={"times": "3"})),
    "the grid where no field is recorded": (toml(), toml(output={"grid": "9"})),
    "the order of what is recorded": (
        toml(output={"record": '["error_history", "norm_history"]'}),
        toml(output={"record": '["norm_history", "error_history", "norm_history"]'}),
    ),
    "times counted or listed": (
        toml(output={"times": "3", "record": '["error_history"]'}),
        toml(output={"times": "[0, 0.5, 1]", "record": '["error_history"]'}),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_computation_has_the_same_keys(load, name):
    first, second = SAME[name]
    assert keys(load(first)) == keys(load(second))


def test_the_order_of_the_axes_does_not_matter(load):
    axes = {"seed": "[0, 1]", "tau": "[0.1, 0.2]", "N": "[3, 4]"}
    found = []
    for order in itertools.permutations(axes):
        lines = "\n".join(f"{name} = {axes[name]}" for name in order)
        study = load(toml(constants={"N": None}).replace("seed = [0, 1]", lines))
        assert study.space.names == order
        found.append({(c.values["seed"], c.values["tau"], c.values["N"]): c.key for c in cases(study)})
    assert all(other == found[0] for other in found)
    assert len(set(found[0].values())) == 8


def test_a_constant_or_an_axis_is_the_same(load):
    constant = load(toml(constants={"tau": "0.25"}))
    axis = load(toml(axes={"tau": "[0.125, 0.25]"}))
    of_axis = [case.key for case in sorted(cases(axis), key=lambda c: c.index) if case.values["tau"] == 0.25]
    assert keys(constant) == of_axis


def test_the_pilots_choice_or_a_constant_is_the_same(load):
    study = load(with_pilot())
    chosen = [case.key for case in provisional_plans(study)[-1].cases()]
    assert chosen == keys(load(toml(constants={"gamma": "2"})))


def test_pilot_runs_are_the_runs_of_a_study_with_those_seeds(load):
    piloted = {case.key for case in provisional_plans(load(with_pilot()))[0].cases()}
    assert piloted == set(keys(load(toml(axes={"seed": "[7, 8]", "gamma": "[2, 4]"}, constants={"gamma": None}))))


OTHER = {
    "dictionary": toml(constants={"dictionary": '"uniform_elm"'}),
    "seed": toml(axes={"seed": "[2, 3]"}),
    "N": toml(constants={"N": "5"}),
    "gamma": toml(constants={"gamma": "5"}),
    "gamma of each neuron": toml(constants={"gamma": "[4, 4, 4, 4.5]"}),
    "radius": toml(constants={"radius": "0.9"}),
    "centre": toml(constants={"centre": "0.25"}),
    "tau": toml(constants={"tau": "1e-11"}),
    "assembly points": toml(constants={"quadrature": "9"}),
    "assembly rule": toml(constants={"quadrature": '{ rule = "composite_midpoint", points = 8 }'}),
    "validation points": toml(constants={"validation": "9"}),
    "validation rule": toml(constants={"validation": '{ rule = "composite_midpoint", points = 8 }'}),
    "dt": toml(constants={"dt": "0.125"}),
    "final_time": toml(constants={"final_time": "2"}),
    "solution": toml(problem={**PROBLEM, "exact": '"exp(-2*t)*sin(pi*x)"'}),
    "diffusion": toml(problem={**PROBLEM, "diffusion": '"2"'}),
    "initial instead of exact": toml(problem={"dimension": "1", "initial": '"sin(pi*x)"'}),
    "a parameter of the problem": toml(constants={"k": "1"}, problem={**PROBLEM, "diffusion": '"k"'}),
    "another value of it": toml(constants={"k": "2"}, problem={**PROBLEM, "diffusion": '"k"'}),
    "gtransnet": toml(constants=DEEP),
    "N1": toml(constants={**DEEP, "N1": "7"}),
    "delta": toml(constants={**DEEP, "delta": "0.75"}),
    "hidden": toml(constants={"dictionary": '"gtransnet"', "hidden": "[6, 6]"}),
    "record": toml(output={"record": '["error_history"]'}),
    "more recorded": toml(output={"record": '["error_history", "norm_history"]'}),
    "times": toml(output={"record": '["error_history"]', "times": "3"}),
    "field": toml(output={"record": '["field"]'}),
    "grid": toml(output={"record": '["field"]', "grid": "9"}),
}


def test_every_parameter_that_matters_changes_the_key():
    found = {name: keys(Study.from_text(text))[0] for name, text in {"base": toml(), **OTHER}.items()}
    owners = {}
    for name, key in found.items():
        owners.setdefault(key, []).append(name)
    assert [names for names in owners.values() if len(names) > 1] == []


def test_first_widths_are_no_part_of_a_one_layer_case_beside_gtransnet(load):
    """Along an axis of N1, the transnet cases are all one computation; the gtransnet ones are not."""
    text = toml(
        axes={"dictionary": '["transnet", "gtransnet"]', "N1": "[5, 6]", "seed": "[0]"}, constants={"dictionary": None}
    )
    found = {}
    for case in cases(load(text)):
        found.setdefault(case.values["dictionary"], set()).add(case.key)
    assert {name: len(own) for name, own in found.items()} == {"transnet": 1, "gtransnet": 2}


def own_keys(load, source, text=None):
    return keys(load(text or own_method("width = [1, 2]"), own=source))


def test_comments_and_layout_of_a_users_file_do_not_matter(load):
    commented = "# a comment\n\n" + OWN.replace(" return", "\n    # why\n    return").replace(
        "seed, width", "seed,  width"
    )
    assert commented != OWN
    assert own_keys(load, commented) == own_keys(load, OWN)


def test_code_of_a_users_file_matters(load):
    base = own_keys(load, OWN)
    assert not set(base) & set(own_keys(load, OWN.replace("float(seed)", "float(seed) + 1")))
    assert own_keys(load, OWN + "\nhelper = 3\n") == base  # which nothing uses


def test_the_name_of_a_users_function_matters_and_the_place_of_its_file_does_not(load, tmp_path):
    twice = OWN + OWN.replace("def f(", "def g(")
    first, second = own_keys(load, twice), own_keys(load, twice, own_method("width = [1, 2]").replace(":f", ":g"))
    assert not set(first) & set(second)
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "other.py").write_text(twice)
    moved = own_method("width = [1, 2]").replace("own.py", "moved/other.py")
    assert keys(load(moved)) == first


def test_values_of_a_users_parameters_are_told_apart_by_kind(load):
    """1, 1.0 and true are different arguments for a Python function."""
    found = [
        own_keys(load, OWN, own_method("width = [5]", depth=value)) for value in ("1", "1.0", "true", '"1"', "[1]")
    ]
    assert len({key for own in found for key in own}) == 5 * 2


# --- studies that are refused -----------------------------------------------------------------------------------------

KNOWN_PROBLEM = {**PROBLEM, "diffusion": '"epsilon"'}

BAD = {
    # the file
    "no TOML": ("a = [", ["must be TOML"]),
    "a web page": ("<html>\n<body>\n", ["must be TOML", "line 1"]),
    "a key twice": (toml(extra="[axes]\n"), ["must be TOML"]),
    "an unclosed string": (toml().replace('"tiny"', '"tiny'), ["must be TOML"]),
    "nothing": ("", ["`name` must be given"]),
    "arrays nested without end": ("a = " + "[" * 100_000, ["must be TOML"]),
    "tables nested without end": ("a = " + "{a = " * 100_000, ["must be TOML"]),
    # unknown keys
    "unknown section": (toml(extra="[pilto]\n"), ["unknown key `pilto`", "did you mean `pilot`?"]),
    "unknown top key": (toml({"titel": '"x"'}), ["unknown key `titel`", "did you mean `title`?"]),
    "unknown top key, nothing near": (toml({"qqq": "1"}), ["unknown key `qqq`", "known are name, title, source"]),
    "unknown key of the problem": (
        toml(problem={**PROBLEM, "diffusoin": '"1"'}),
        ["unknown key `diffusoin`", "problem", "did you mean `diffusion`?"],
    ),
    "unknown key of the output": (toml(output={"time": "3"}), ["unknown key `output.time`", "did you mean `times`?"]),
    "unknown key of the pilot": (
        with_pilot(minimize='"error"'),
        ["unknown key `pilot.minimize`", "did you mean `minimise`?"],
    ),
    "unknown key of a rule": (
        toml(extra="[[when]]\nmatch = { seed = 0 }\nest = { tau = 0.5 }\n"),
        ["unknown key `when.0.est`", "did you mean `set`?"],
    ),
    "unknown key of the pilot's seeds": (
        with_pilot(seeds="{ start = 7, cuont = 2 }"),
        ["unknown key `pilot.seeds.cuont`", "did you mean `count`?"],
    ),
    "a key named as a type": (toml({"int": "1"}), ["unknown key `int`"]),
    "a key with a bracket": (toml({'"a[b"': "1"}), ["unknown key `a[b`"]),
    "a key of two lines": (toml({'"a\\nb"': "1"}), ["unknown key `a"]),
    # unknown parameters
    "unknown constant": (
        toml(constants={"gama": "1"}),
        ["unknown parameter `gama`", "constants.gama", "did you mean `gamma`?"],
    ),
    "unknown axis": (toml(axes={"taau": "[0.5]"}), ["unknown parameter `taau`", "axes.taau", "did you mean `tau`?"]),
    "unknown parameter in a rule": (
        toml(extra=when("{ seed = 0 }", "{ gamm = 1 }")),
        ["unknown parameter `gamm`", "when[0].set.gamm", "did you mean `gamma`?"],
    ),
    "unknown parameter, nothing near": (
        toml(constants={"qqq": "1"}),
        ["unknown parameter `qqq`", "known are dictionary,"],
    ),
    "a parameter in place of the one that the formulas use": (
        toml(axes={"a": "[1, 2]"}, problem={**PROBLEM, "diffusion": '"b"'}),
        ["unknown parameter `a`", "neither the method nor a problem uses it, and `b` must be given a value"],
    ),
    "parameter of another problem": (toml(constants={"epsilon": "1"}), ["unknown parameter `epsilon`"]),
    "a parameter of two lines": (toml(constants={'"a\\nb"': "1"}), ["unknown parameter `a"]),
    # missing parameters
    **{
        f"no {name}": (toml(constants={name: None}), [f"`{name}` must be given", f"constants.{name}", "got no value"])
        for name in CONSTANTS
    },
    "no seed": (
        toml(constants={"N": None}).replace("seed = [0, 1]", "N = [3, 4]"),
        ["`seed` must be given", "got no value", "N = 3"],
    ),
    "no N1 for gtransnet": (
        toml(axes={"dictionary": '["transnet", "gtransnet"]'}, constants={"dictionary": None}),
        ["`N1` must be given", "got no value", "dictionary = gtransnet", "[constants]"],
    ),
    "gamma for one dictionary only": (
        toml(
            axes={"dictionary": '["transnet", "uniform_elm"]'},
            constants={"dictionary": None, "gamma": None},
            extra=when('{ dictionary = "transnet" }', "{ gamma = 3 }"),
        ),
        ["`gamma` must be given", "dictionary = uniform_elm"],
    ),
    "no parameter of the problem": (toml(problem=KNOWN_PROBLEM), ["`epsilon` must be given", "got no value"]),
    "the solution as a parameter": (
        toml(problem={**PROBLEM, "diffusion": '"1 + u**2"'}),
        ["`diffusion` must be free of u, the solution, got '1 + u**2'", "F(u)"],
    ),
    "a source that lacks an interface": (
        toml(problem={**PROBLEM, "diffusion": '"1 + abs(x - 0.3)/(x - 0.3)/2"'}),
        ["the flux `diffusion` * grad(`exact`) must be without jumps, got a relative defect of 0.33", "tiny.toml"],
    ),
    "no problem": (toml(problem=None), ["`problem` must be given", "oscillatory_1d"]),
    "no name": (toml({"name": None}), ["`name` must be given"]),
    "no axes": ('name = "a"\n', ["`axes` must be given"]),
    "no pilot seeds": (with_pilot(seeds=None), ["`pilot.seeds` must be given"]),
    "no candidates": (with_pilot(candidates=None), ["`pilot.candidates` must be given"]),
    "no argument of one's own method": (own_method("width = []"), ["`width`", "got []"]),
    # tau outside (0, 1), wherever it is written
    **{
        f"tau {value} as a constant": (
            toml(constants={"tau": value}),
            ["`tau` must be in (0, 1)", f"got {got}", "constants.tau", "use e.g. 1e-12"],
        )
        for value, got in [
            ("2.0", "2.0"),
            ("0", "0"),
            ("1", "1"),
            ("-1e-12", "-1e-12"),
            ("nan", "nan"),
            ("inf", "inf"),
            ("-inf", "-inf"),
            ("-0.0", "-0.0"),
            ('"x"', "'x'"),
            ("true", "True"),
            ("[0.5]", "[0.5]"),
        ]
    },
    "tau on an axis": (
        toml(axes={"tau": "[0.5, 2.0]"}),
        ["`tau` must be in (0, 1)", "got 2.0", "axes.tau[1]", "1e-12"],
    ),
    "tau in a rule": (
        toml(extra=when("{ seed = 0 }", "{ tau = 3 }")),
        ["`tau` must be in (0, 1)", "got 3", "when[0].set.tau", "1e-12"],
    ),
    "tau among candidates": (
        toml(pilot={**PILOT, "parameter": '"tau"', "candidates": "[0.5, 1.5]"}),
        ["`tau` must be in (0, 1)", "got 1.5", "pilot.candidates[1]", "1e-12"],
    ),
    "tau among candidates of one dictionary": (
        toml(
            axes={"dictionary": '["transnet"]'},
            constants={"dictionary": None},
            pilot={**PILOT, "parameter": '"tau"', "by": '["dictionary"]', "candidates": "{ transnet = [nan] }"},
        ),
        ["`tau` must be in (0, 1)", "got nan", "pilot.candidates.transnet[0]"],
    ),
    # numbers that are not finite
    "gamma inf": (toml(constants={"gamma": "inf"}), ["`gamma` must be", "got inf", "constants.gamma"]),
    "gamma beyond floats": (toml(constants={"gamma": "1e999"}), ["`gamma` must be", "got inf"]),
    "radius nan": (toml(constants={"radius": "nan"}), ["`radius` must be a positive number", "got nan"]),
    "epsilon nan": (
        toml(axes={"epsilon": "[1, nan]"}, problem=KNOWN_PROBLEM),
        ["`epsilon` must be a finite number", "got nan", "axes.epsilon[1]"],
    ),
    "an integer beyond floats": (toml(constants={"gamma": "1" + "0" * 400}), ["`gamma` must be", "got 1000"]),
    "an integer of ten thousand digits": (
        toml(constants={"gamma": "0x" + "f" * 10_000}),
        ["`gamma` must be", "constants.gamma"],
    ),
    "a name of ten thousand digits": (toml({"name": "0x" + "f" * 10_000}), ["`name` must be"]),
    "times nan": (toml(output={"times": "[0, nan]", "record": '["error_history"]'}), ["times", "nan"]),
    "times inf": (toml(output={"times": "[0, inf]", "record": '["error_history"]'}), ["times", "inf"]),
    "times beyond floats": (toml(output={"times": f"[0, 1{'0' * 400}]", "record": '["error_history"]'}), ["times"]),
    # steps and saved times
    "dt that does not divide": (
        toml(constants={"dt": "0.3"}),
        ["`dt` must be a step that divides final_time = 1", "got 0.3", "constants.dt", "use e.g."],
    ),
    "dt on an axis": (toml(axes={"dt": "[0.25, 0.3]"}, constants={"dt": None}), ["`dt` must be", "got 0.3", "axes.dt"]),
    "dt in a rule": (toml(extra=when("{ seed = 1 }", "{ dt = 0.3 }")), ["`dt` must be", "got 0.3", "when.dt"]),
    "dt beyond the final time": (toml(constants={"dt": "3"}), ["`dt` must be in (0, final_time = 1]", "got 3.0"]),
    "dt zero": (toml(constants={"dt": "0"}), ["`dt` must be a positive number", "got 0"]),
    "dt of no size": (toml(constants={"dt": "1e-300"}), ["`dt` must be", "constants.dt"]),
    "dt least": (toml(constants={"dt": "5e-324"}), ["`dt` must be", "constants.dt"]),
    "times off the steps": (
        toml(output={"times": "[0, 0.3]", "record": '["error_history"]'}),
        ["`times` must be whole numbers of steps dt = 0.25", "got 0.3", "output.times"],
    ),
    "times beyond the end": (
        toml(output={"times": "[0, 1.25]", "record": '["error_history"]'}),
        ["`times` must be whole numbers of steps", "got 1.25"],
    ),
    "times before the start": (
        toml(output={"times": "[-0.25]", "record": '["error_history"]'}),
        ["`times` must", "got -0.25"],
    ),
    "times backwards": (
        toml(output={"times": "[1, 0]", "record": '["error_history"]'}),
        ["`times` must be increasing"],
    ),
    "times twice": (toml(output={"times": "[0, 0, 1]", "record": '["error_history"]'}), ["`times` must be increasing"]),
    "times none": (toml(output={"times": "[]", "record": '["error_history"]'}), ["times", "got []"]),
    "a number of times that does not divide": (
        toml(output={"times": "4", "record": '["error_history"]'}),
        ["`times` must be a count n >= 2 for which n - 1 divides the 4 steps", "got 4", "e.g. 3"],
    ),
    "one time": (toml(output={"times": "1"}), ["`output.times` must be", "got 1"]),
    "times a word": (toml(output={"times": '"all"'}), ["`output.times` must be", "got 'all'"]),
    "times a truth value": (toml(output={"times": "true"}), ["`output.times` must be", "got True"]),
    # the pilot
    "seeds of pilot and study overlap": (
        with_pilot(seeds="[1, 9]"),
        ["`seeds` of the pilot must be different", "got 1 in both", "pilot.seeds"],
    ),
    "seed ranges overlap": (with_pilot(seeds="{ start = 1, count = 3 }"), ["`seeds` of the pilot", "got 1 in both"]),
    "a pilot seed twice": (with_pilot(seeds="[7, 7]"), ["different values", "got 7 twice", "pilot.seeds"]),
    "no seed in the pilot": (with_pilot(seeds="[]"), ["`seeds` of the pilot", "got none", "pilot.seeds"]),
    "a pilot seed below zero": (with_pilot(seeds="[-5]"), ["pilot.seeds", "greater than or equal to 0", "got -5"]),
    "a pilot seed as a word": (with_pilot(seeds='["a"]'), ["pilot.seeds", "integer", "got 'a'"]),
    "pilot without seeds in the study": (
        toml(axes={"N": "[3, 4]"}, constants={"N": None, "gamma": None, "seed": "0"}, pilot=PILOT).replace(
            "seed = [0, 1]\n", ""
        ),
        ["a pilot must have a study with a `seed` axis", "got N"],
    ),
    "minimise unknown": (
        with_pilot(minimise='"eror"'),
        ["`minimise` must be one of error,", "got 'eror'", "pilot.minimise"],
    ),
    "minimise a history": (
        toml(
            constants={"gamma": None},
            pilot={**PILOT, "minimise": '"error_history"'},
            output={"record": '["error_history"]'},
        ),
        ["`minimise` must be one of error,", "got 'error_history'", "pilot.minimise"],
    ),
    "minimise the error without a solution": (
        toml(constants={"gamma": None}, pilot=PILOT, problem={"dimension": "1", "initial": '"sin(pi*x)"'}),
        ["`minimise` must be one of initial_error", "got 'error'"],
    ),
    "by no axis": (with_pilot(by='["epsilon"]'), ["`by` must name different axes", "epsilon", "pilot.by"]),
    "by the seed": (with_pilot(by='["seed"]'), ["`by` must name different axes other than seed", "pilot.by"]),
    "by an axis twice": (
        toml(axes={"tau": "[0.5]"}, constants={"gamma": None}, pilot={**PILOT, "by": '["tau", "tau"]'}),
        ["`by` must name different axes", "pilot.by"],
    ),
    "by a word": (with_pilot(by='"tau"'), ["`pilot.by` must be a list", "got 'tau'"]),
    "no list of candidates for a dictionary": (
        toml(
            axes={"dictionary": '["transnet", "uniform_elm"]'},
            constants={"dictionary": None, "gamma": None},
            pilot={**PILOT, "by": '["dictionary"]', "candidates": "{ transnet = [1] }"},
        ),
        [
            "`candidates` must have a list for each dictionary (transnet, uniform_elm)",
            "got transnet",
            "pilot.candidates",
        ],
    ),
    "candidates of a dictionary of two lines": (
        toml(
            axes={"dictionary": '["transnet"]'},
            constants={"dictionary": None, "gamma": None},
            pilot={**PILOT, "by": '["dictionary"]', "candidates": '{ "a\\nb" = [1] }'},
        ),
        ["`candidates` must have a list for each dictionary"],
    ),
    "a table of candidates for nothing": (
        with_pilot(candidates="{ transnet = [1] }"),
        ["`candidates` must be a list where `by` is empty"],
    ),
    "candidates a number": (with_pilot(candidates="3"), ["`pilot.candidates` must be a list", "got 3"]),
    "no candidate": (with_pilot(candidates="[]"), ["`candidates`", "got []", "pilot.candidates"]),
    "a candidate twice": (with_pilot(candidates="[4, 4.0]"), ["different values", "got 4.0 twice", "pilot.candidates"]),
    "a parameter to choose twice": (with_pilot(parameter='["gamma", "gamma"]'), ["`parameter` must name different"]),
    "no parameter to choose": (with_pilot(parameter="[]"), ["`parameter` must name different", "pilot.parameter"]),
    "candidates of one parameter for two": (
        with_pilot(parameter='["gamma", "tau"]'),
        ["`candidates` must be lists of 2 values, for gamma, tau", "pilot.candidates"],
    ),
    "a candidate of two parameters twice": (
        with_pilot(parameter='["gamma", "tau"]', candidates="[[4, 0.5], [4.0, 0.5]]"),
        ["`candidates` must be different", "pilot.candidates"],
    ),
    "a candidate of two parameters that is none": (
        with_pilot(parameter='["gamma", "tau"]', candidates="[[4, 0.5], [4, 1.5]]"),
        ["`tau` must be in (0, 1)", "pilot.candidates.tau[1]"],
    ),
    "candidates that are words": (with_pilot(parameter='"dictionary"', candidates='["transnet"]'), ["pilot"]),
    "the pilot's parameter as a constant": (toml(pilot=PILOT), ["`gamma` must be left to the pilot", "constants"]),
    "the pilot's parameter as an axis": (
        toml(axes={"gamma": "[1, 2]"}, constants={"gamma": None}, pilot=PILOT),
        ["`gamma` must be left to the pilot", "axes"],
    ),
    "the pilot's parameter by a rule": (
        toml(constants={"gamma": None}, pilot=PILOT, extra=when("{ seed = 0 }", "{ gamma = 3 }")),
        ["`gamma` must be left to the pilot", "when"],
    ),
    "a rule on a seed beside a pilot": (
        toml(constants={**DEEP, "gamma": None}, pilot=PILOT, extra=when("{ seed = 1 }", "{ hidden = [2] }")),
        ["`hidden` must be left out where `N1` is given"],
    ),
    "pilot of an unknown parameter": (
        with_pilot(parameter='"gama"'),
        ["unknown parameter `gama`", "did you mean `gamma`?"],
    ),
    "too many pilot cases": (
        with_pilot(seeds="{ start = 7, count = 4000 }", candidates=str(list(range(1, 2601)))),
        ["a pilot must have at most 10,000,000 cases", "got 10,400,000"],
    ),
    # axes
    "an axis value twice": (
        toml(axes={"seed": "[0, 0]"}),
        ["`seed` must have different values", "got 0 twice", "axes.seed"],
    ),
    "a float twice": (
        toml(axes={"tau": "[0.3, 0.30]"}),
        ["`tau` must have different values", "got 0.3 twice", "axes.tau"],
    ),
    "whole and not whole": (
        toml(axes={"gamma": "[4, 4.0]"}, constants={"gamma": None}),
        ["`gamma` must have different values", "got 4.0 twice"],
    ),
    "a rule twice": (
        toml(axes={"quadrature": '[8, { rule = "gauss_legendre", points = 8 }]'}, constants={"quadrature": None}),
        ["`quadrature` must have different values", "got gauss_legendre(8) twice"],
    ),
    "axis and constant": (toml(axes={"N": "[4, 5]"}), ["`N` must be an axis or a constant, got both", "constants.N"]),
    "an empty axis": (toml(axes={"tau": "[]"}), ["`tau` must be a list of values", "got []", "axes.tau"]),
    "an axis of one number": (
        toml(axes={"tau": "0.5"}),
        ["`tau` must be a list of values", "got 0.5", "one value belongs in [constants]"],
    ),
    "an axis that is a word": (toml(axes={"tau": '"0.5"'}), ["`tau` must be a list of values", "got '0.5'"]),
    "axes that are no table": ('axes = 3\nname = "a"\n', ["`axes` must be", "got 3"]),
    "no axis at all": (toml().replace("seed = [0, 1]\n", ""), ["`axes` must", "got {}"]),
    "a range of none": (
        toml(axes={"seed": "{ start = 0, count = 0 }"}),
        ["axes.seed", "count = integer >= 1", "got {'start': 0, 'count': 0}"],
    ),
    "a range with a stop": (toml(axes={"seed": "{ start = 0, stop = 3 }"}), ["axes.seed", "count", "'stop': 3"]),
    "a range below zero": (
        toml(axes={"seed": "{ start = -1, count = 3 }"}),
        ["axes.seed", "start = integer >= 0", "'start': -1"],
    ),
    "a range beyond integers": (toml(axes={"seed": f"{{ start = {2**64}, count = 1 }}"}), ["axes.seed", str(2**64)]),
    "too many seeds": (toml(axes={"seed": "{ count = 10000001 }"}), ["axes.seed", "at most 10,000,000", "10000001"]),
    "too many cases": (
        toml(axes={"seed": "{ count = 4000 }", "N": "{ start = 1, count = 4000 }"}, constants={"N": None}),
        ["at most 10,000,000 cases", "got 16,000,000", "axes"],
    ),
    "a seed below zero": (toml(axes={"seed": "[0, -1]"}), ["`seed` must be an integer >= 0", "got -1", "axes.seed[1]"]),
    "a seed that is no integer": (
        toml(axes={"seed": "[0.5]"}),
        ["`seed` must be an integer >= 0", "got 0.5", "axes.seed[0]"],
    ),
    "more axes than arrays can have": (
        toml(
            axes={f"a{i}": "[1]" for i in range(70)},
            problem={**PROBLEM, "diffusion": '"1 + ' + "*".join(f"a{i}" for i in range(70)) + '"'},
        ),
        ["axes"],
    ),
    # rules
    "rule on an unknown axis": (
        toml(extra=when("{ epsilon = 1 }", "{ tau = 0.5 }")),
        ["`match` must name axes (seed)", "got 'epsilon'", "when[0].match.epsilon"],
    ),
    "rule on a constant": (
        toml(extra=when("{ N = 4 }", "{ tau = 0.5 }")),
        ["`match` must name axes (seed)", "got 'N'"],
    ),
    "rule that matches nothing": (
        toml(extra=when("{}", "{ tau = 0.5 }")),
        ["`when.0.match` must be a table with at least 1 entry, got {}"],
    ),
    "a study without axes": (toml(axes={"seed": None}), ["`axes` must be a table with at least 1 entry, got {}"]),
    "a constant list beside a rule": (
        toml(axes={"N": "[4, 5]"}, constants={"N": None, "gamma": "[1, 2]"}, extra=when("{ N = 5 }", "{ gamma = 2 }")),
        ["constants.gamma"],
    ),
    "a list of a rule beside a constant": (
        toml(axes={"N": "[4, 5]"}, constants={"N": None}, extra=when("{ N = 5 }", "{ gamma = [1, 2, 3] }")),
        ["when.gamma"],
    ),
    "a seed beyond the bound": (
        toml(axes={"seed": f"[0, {2**64}]"}),
        ["`seed` must be an integer >= 0 and below 2^64, got 18446744073709551616"],
    ),
    "a seed beyond all bounds": (
        toml(axes={"seed": "[0, 99999999999999999999]"}),
        ["`seed` must be an integer >= 0 and below 2^64, got 99999999999999999999"],
    ),
    "points beyond all bounds": (
        toml(constants={"quadrature": "9223372036854775806"}),
        ["at most 100,000, got 9223372036854775806"],
    ),
    "rule without a case": (
        toml(extra=when("{ seed = 9 }", "{ tau = 0.5 }")),
        ["the rule matches no case", "seed has no value 9", "when[0].match.seed"],
    ),
    "rule with a value too many": (
        toml(extra=when("{ seed = [0, 9] }", "{ tau = 0.5 }")),
        ["the rule matches no case", "seed has no value 9"],
    ),
    "second rule without a case": (
        toml(extra=when("{ seed = 1 }", "{ tau = 0.5 }") + when("{ seed = 2 }", "{ tau = 0.5 }")),
        ["the rule matches no case", "when[1].match.seed"],
    ),
    "rule that sets an axis": (
        toml(extra=when("{ seed = 0 }", "{ seed = 1 }")),
        ["`seed` must not be set by a rule", "when[0].set.seed"],
    ),
    "rule for nothing": (toml(extra=when("{}", "{ tau = 0.5 }")), ["`when.0.match` must", "got {}"]),
    "rule for none": (toml(extra=when("{ seed = [] }", "{ tau = 0.5 }")), ["seed", "got []", "when[0].match.seed"]),
    "rule that sets nothing": (toml(extra=when("{ seed = 0 }", "{}")), ["`when.0.set` must", "got {}"]),
    "rule that is one table": (
        toml(extra="[when]\nmatch = { seed = 0 }\nset = { tau = 0.5 }\n"),
        ["`when` must be a list"],
    ),
    "rule that matches a value of another kind": (
        toml(extra=when('{ seed = "0" }', "{ tau = 0.5 }")),
        ["`seed` must be an integer >= 0", "got '0'"],
    ),
    # values of the wrong kind
    "N as a float": (toml(constants={"N": "60.0"}), ["`N` must be an integer >= 1", "got 60.0", "constants.N"]),
    "N as a truth value": (toml(constants={"N": "true"}), ["`N` must be an integer >= 1", "got True"]),
    "N as a date": (
        toml(constants={"N": "2020-01-01"}),
        ["`N` must be an integer >= 1", "got datetime.date(2020, 1, 1)"],
    ),
    "N as a table": (
        toml(constants={"N": "{ start = 1, count = 2 }"}),
        ["`N` must be an integer >= 1", "got {'start': 1"],
    ),
    "N as a table without end": (
        toml(constants={"N" + ".a" * 99: "1", "N": None}),
        ["`N` must be an integer >= 1", "constants.N"],
    ),
    "a title without end": (toml({"title" + ".a" * 3000: "1"}), ["must be TOML", "a key has more than 100 parts"]),
    "gamma nested": (toml(constants={"gamma": "[" * 300 + "]" * 300}), ["`gamma` must be", "constants.gamma"]),
    "N zero": (toml(constants={"N": "0"}), ["`N` must be an integer >= 1", "got 0"]),
    "an unknown dictionary": (
        toml(constants={"dictionary": '"transet"'}),
        ["`dictionary` must be one of gaussian_rf, gtransnet", "got 'transet'"],
    ),
    "an unknown rule": (
        toml(constants={"quadrature": '{ rule = "simpson", points = 3 }'}),
        ["`quadrature` must be", "simpson"],
    ),
    "a rule without points": (
        toml(constants={"validation": '{ rule = "gauss_legendre" }'}),
        ["`validation` must be", "points = n"],
    ),
    "no points": (toml(constants={"quadrature": "0"}), ["`quadrature` must be", "got 0"]),
    "more Gauss-Legendre points than can be had": (
        toml(constants={"quadrature": "3000"}),
        ["`quadrature` must be", "2048", "got 3000", "constants.quadrature"],
    ),
    "more nodes than memory holds": (
        toml(
            constants={"quadrature": '{ rule = "composite_midpoint", points = 1000 }'},
            problem={"dimension": "3", "exact": '"sin(pi*x)*sin(pi*y)*sin(pi*z)"'},
        ),
        ["quadrature", "10,000,000 nodes"],
    ),
    "more nodes to validate on than memory holds": (
        toml(
            constants={"validation": '{ rule = "composite_midpoint", points = 1000 }'},
            problem={"dimension": "3", "exact": '"sin(pi*x)*sin(pi*y)*sin(pi*z)"'},
        ),
        ["validation", "10,000,000 nodes"],
    ),
    "hidden as a number": (
        toml(constants={**DEEP, "N1": None, "hidden": "6"}),
        ["`hidden` must be a list of integers >= 1", "got 6"],
    ),
    "hidden of none": (
        toml(constants={**DEEP, "N1": None, "hidden": "[]"}),
        ["`hidden` must be a list of integers >= 1", "got []"],
    ),
    "N1 and hidden": (
        toml(constants={**DEEP, "hidden": "[6]"}),
        ["`hidden` must be left out where `N1` is given", "give one of the two"],
    ),
    "too few gammas": (toml(constants={"gamma": "[1, 2, 3]"}), ["`gamma` must be one number or 4", "constants.gamma"]),
    "too many centres": (
        toml(constants={"centre": "[0.5, 0.5]"}),
        ["`centre` must be one number or 1", "constants.centre"],
    ),
    "delta above one": (toml(constants={"delta": "1.5"}), ["`delta` must be in (0, 1]", "got 1.5"]),
    "an unknown integrator": (
        toml(constants={"time_integrator": '"euler"'}),
        ["`time_integrator` must be one of adaptive_radau, ", "got 'euler'"],
    ),
    "a parameter that a formula cannot use": (
        toml(problem={**PROBLEM, "diffusion": '"1 + dictionary"'}),
        ["`dictionary` must be a number where a formula uses it", "got 'transnet'"],
    ),
    # names
    **{
        f"name {name!r}": (toml({"name": json.dumps(name)}), ["`name` must", f"got {name!r}"])
        for name in ("", "A", "a b", "../a", "a.b", "a-b", "ä", "abc\n", "a/b")
    },
    "a long name": (toml({"name": f'"{"a" * 101}"'}), ["`name` must be at most 100 characters long, got 'aaa"]),
    "a name that is a number": (toml({"name": "3"}), ["`name` must be a string", "got 3"]),
    "a name of the result file": (
        toml(constants={"error": "1"}, problem={**PROBLEM, "diffusion": '"error"'}),
        ["`error` must have another name", "constants.error"],
    ),
    "a name of the result file on an axis": (
        toml(axes={"time": "[1, 2]"}, problem={**PROBLEM, "diffusion": '"time"'}),
        ["`time` must have another name", "axes.time"],
    ),
    # the method and the problem
    "an unknown method": (toml({"method": '"evoltion"'}), ["`method` must be one of evolution", "got 'evoltion'"]),
    "an unknown problem": (
        toml({"problem": '"oscilatory_1d"'}, problem=None),
        ["`problem` must be one of oscillatory_1d", "got 'oscilatory_1d'"],
    ),
    "a problem that is a number": (toml({"problem": "3"}, problem=None), ["`problem` must be", "got 3"]),
    "five dimensions": (toml(problem={**PROBLEM, "dimension": "5"}), ["problem.dimension", "1, 2 or 3", "got 5"]),
    "a dimension in words": (
        toml(problem={**PROBLEM, "dimension": '"1"'}),
        ["problem.dimension", "1, 2 or 3", "got '1'"],
    ),
    "a dimension that is a truth value": (
        toml(problem={**PROBLEM, "dimension": "true"}),
        ["problem.dimension", "1, 2 or 3", "got True"],
    ),
    "a dimension that is a float": (
        toml(problem={**PROBLEM, "dimension": "1.0"}),
        ["problem.dimension", "1, 2 or 3", "got 1.0"],
    ),
    "no dimension": (toml(problem={"exact": '"sin(pi*x)"'}), ["`dimension` must be given (tiny.toml, problem)"]),
    "no such record": (toml(output={"record": '["eror"]'}), ["output.record", "error_history, ", "got 'eror'"]),
    "a record that is a word": (
        toml(output={"record": '"error_history"'}),
        ["`output.record` must be a list", "got 'error_history'"],
    ),
    "a grid of one point": (toml(output={"grid": "1"}), ["`output.grid` must be", "2", "got 1"]),
    "error_history without a solution": (
        toml(problem={"dimension": "1", "initial": '"sin(pi*x)"'}, output={"record": '["error_history"]'}),
        ["error_history", "without exact solution", "output.record"],
    ),
    "exact and initial": (
        toml(problem={**PROBLEM, "initial": '"sin(pi*x)"'}),
        ["`exact` and `initial`", "got both", "problem"],
    ),
    "exact and source": (toml(problem={**PROBLEM, "source": '"1"'}), ["`source` must be left out", "problem"]),
    "neither exact nor initial": (toml(problem={"dimension": "1"}), ["`exact` and `initial`", "got neither"]),
    "exact not zero on the boundary": (
        toml(problem={**PROBLEM, "exact": '"1 + x"'}),
        ["`exact` must vanish on the boundary", "got a value of 2"],
    ),
    "initial not zero on the boundary": (
        toml(problem={"dimension": "1", "initial": '"cos(x)"'}),
        ["`initial` must vanish on the boundary"],
    ),
    "exact zero on the boundary for one epsilon only": (
        toml(axes={"epsilon": "[1, 0.4]"}, problem={**PROBLEM, "exact": '"sin(pi*x/epsilon)"'}),
        ["`exact` must vanish on the boundary", "epsilon = 0.4"],
    ),
    "diffusion not positive": (
        toml(problem={**PROBLEM, "diffusion": '"x - 0.5"'}),
        ["`diffusion` must be positive", "got a minimum of -0.4"],
    ),
    "diffusion zero": (
        toml(problem={**PROBLEM, "diffusion": '"0"'}),
        ["`diffusion` must be positive", "got a minimum of 0"],
    ),
    "diffusion negative late": (
        toml(problem={**PROBLEM, "diffusion": '"1 - 1.5*t"'}),
        ["`diffusion` must be positive"],
    ),
    "diffusion negative for one epsilon": (
        toml(axes={"epsilon": "[1, -1]"}, problem=KNOWN_PROBLEM),
        ["`diffusion` must be positive", "got a minimum of -1"],
    ),
    "diffusion not positive for one seed": (
        toml(problem={**PROBLEM, "diffusion": '"1 - seed"'}),
        ["`diffusion` must be positive", "got a minimum of 0"],
    ),
    "diffusion not a number": (
        toml(problem={**PROBLEM, "diffusion": '"log(x - 2)"'}),
        ["`diffusion` must be positive"],
    ),
    "initial in time": (
        toml(problem={"dimension": "1", "initial": '"sin(pi*x)*exp(-t)"'}),
        ["`initial` must not depend on t"],
    ),
    "y in one dimension": (
        toml(problem={**PROBLEM, "exact": '"sin(pi*x)*y"'}),
        ["`exact` must use the coordinates x", "got y"],
    ),
    "a kink": (toml(problem={**PROBLEM, "exact": '"abs(x - 0.5) - 0.5"'}), ["smooth and real"]),
    **{
        f"formula {formula[:50]!r}": (
            toml(problem={**PROBLEM, "exact": json.dumps(formula)}),
            ["`exact` must", "problem"],
        )
        for formula in [
            "",
            "   ",
            "sin(pi*x",
            "__import__('os').system('true')",
            "x.real",
            "x[0]",
            "lambda: x",
            "x if t else 0",
            "x == 1",
            "(x := 1)",
            "'x'",
            "f'{x}'",
            "[x]",
            "x, t",
            "{x}",
            "x @ t",
            "x // 2",
            "x % 2",
            "~x",
            "not x",
            "x and t",
            "1j*x",
            "1_000*x",
            "0x10*x",
            "1e400*x",
            "x**1000",
            "x**64**64",
            "1/0",
            "sqrt(-1)*x",
            "log(0)",
            "sine(x)",
            "sin()",
            "sin(x, x)",
            "sin(x=1)",
            "sin(*x)",
            "sin",
            "x; t",
            "x\nt",
            "x # comment\n+",
            "_x",
            "ε*x",
            "True",
            "None",
            "...",
            "yield x",
            "await x",
            "import os",
            "x" + "+x" * 2500,
            "-" * 3000 + "x",
            "(" * 1500 + "x" + ")" * 1500,
            "x\0",
        ]
    },
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(refusal, name):
    text, fragments = BAD[name]
    message = refusal(text, own=OWN)
    for fragment in fragments:
        assert fragment in message, message


@pytest.mark.parametrize("name", ["run_status", "error", "run_pilot", "string5", "k" * 241])
def test_a_default_of_a_problems_factory_is_refused_under_a_name_of_the_result_file(refusal, name):
    """It becomes a constant of the study, which the file holds too."""
    own = FACTORY.replace("nu=0.5", f"nu=0.5, {name}=1")
    message = refusal(toml({"problem": '"own.py:heat"'}, axes={"k": "[1, 2]"}, problem=None), own=own)
    assert f"the parameter `{name}` must have another name" in message
    assert f"constants.{name}" in message


def test_every_name_of_the_result_file_is_refused_as_a_parameter(refusal):
    for name in ("run_status", "run_seconds", "run_key", "mode", "rank", "field"):
        problem = {**PROBLEM, "diffusion": f'"1 + {name}"'}
        assert f"`{name}` must have another name" in refusal(toml(constants={name: "1"}, problem=problem))


def advice(message):
    return float(re.search(r"use e\.g\. ([\d.e+-]+)", message).group(1))


@pytest.mark.parametrize(
    ("final_time", "dt"), [("1", "0.4"), ("1", "0.3"), ("0.7", "0.3"), ("0.25", "0.0033"), ("2", "1.3")]
)
def test_the_time_step_that_the_message_advises_is_one_that_fits(load, refusal, final_time, dt):
    message = refusal(toml(constants={"final_time": final_time, "dt": dt}))
    assert load(toml(constants={"final_time": final_time, "dt": repr(advice(message))})).space.size == 2


@pytest.mark.parametrize("times", ["4", "100", "6"])
def test_the_number_of_times_that_the_message_advises_is_one_that_fits(load, refusal, times):
    output = {"record": '["error_history"]'}
    message = refusal(toml(output={**output, "times": times}))
    advised = re.search(r"; e\.g\. (\d+)", message).group(1)
    assert load(toml(output={**output, "times": advised})).space.size == 2


def test_rules_of_several_values_of_a_parameter_that_can_itself_be_a_list(load):
    """gamma may be a list, one for each neuron; [4, 6] of an axis [4, 6, 8] still means two of its values."""
    axes = {"gamma": "[4, 6, 8]"}
    study = load(toml(axes=axes, constants={"gamma": None}, extra=when("{ gamma = [4, 6] }", "{ tau = 0.5 }")))
    assert {(c.values["gamma"], c.values["tau"]) for c in cases(study)} == {(4.0, 0.5), (6.0, 0.5), (8.0, 1e-12)}


def test_rules_of_several_values_of_a_users_parameter(load):
    study = load(own_method("width = [1, 2, 3]") + when("{ width = [1, 2] }", "{ depth = 9 }"), own=OWN)
    assert {(c.values["width"], c.values["depth"]) for c in cases(study)} == {(1, 9), (2, 9), (3, 2)}


def test_rules_of_one_list_and_of_several_lists(load):
    axes, constants = {"hidden": "[[2], [2, 3], [4]]"}, {"dictionary": '"gtransnet"'}
    for match, expected in [("[2, 3]", {(2, 3)}), ("[[2], [4]]", {(2,), (4,)})]:
        study = load(toml(axes=axes, constants=constants, extra=when(f"{{ hidden = {match} }}", "{ tau = 0.5 }")))
        assert {c.values["hidden"] for c in cases(study) if c.values["tau"] == 0.5} == expected


def test_a_rule_tells_truth_values_from_numbers(refusal):
    message = refusal(own_method("width = [true, false]") + when("{ width = 1 }", "{ depth = 9 }"), own=OWN)
    assert "the rule matches no case" in message


def test_a_rule_applies_to_the_value_it_names_and_not_to_one_that_compares_equal(load):
    study = load(own_method("width = [1, true]") + when("{ width = true }", "{ depth = 9 }"), own=OWN)
    assert [(c.values["width"], c.values["depth"]) for c in cases(study) if c.values["seed"] == 0] == [
        (1, 2),
        (True, 9),
    ]


# --- files of the user's own that cannot be used ----------------------------------------------------------------------

OWN_PROBLEM = toml({"problem": '"own.py:f"'}, problem=None)
A_PROBLEM = """
import numpy as np
from evogt_study.pde import Problem
from evogt_study.pde.galerkin.problem import Separable
"""

BAD_METHODS = {
    "does not parse": ("def f(seed) return 1", ["own.py", "SyntaxError"]),
    "null byte": ("def f(seed): return {}\0", ["own.py", "SyntaxError"]),
    "raises": ("raise ValueError('no luck')", ["own.py", "ValueError: no luck"]),
    "raises in two lines": ("raise ValueError('no\\nluck')", ["own.py", "ValueError: no"]),
    "imports what is not there": ("import no_such_module_at_all", ["own.py", "no_such_module_at_all"]),
    "exits": ("import sys\nsys.exit(3)", ["own.py", "SystemExit"]),
    "has no such function": ("g = 1", ["own.py", "`f`"]),
    "raises a KeyError": ("{}['gone']", ["own.py cannot be imported: KeyError: 'gone'"]),
    "hides its names": ("def __getattr__(name): raise ZeroDivisionError(name)", ["own.py"]),
    "is no function": ("f = 3", ["`", "must be a function", "int"]),
    "any number of arguments": ("def f(*seeds): return {}", ["named arguments only", "*seeds"]),
    "any named arguments": ("def f(**values): return {}", ["named arguments only", "**values"]),
    "arguments by place": ("def f(seed, /): return {}", ["named arguments only", "seed"]),
    "a builtin class without a signature": ("f = dict", ["own.py:f"]),
    "a signature that is none": ("def f(seed): return {}\nf.__signature__ = 3", ["own.py:f"]),
    "a default named as the file's own": (
        "def f(seed, run_status=1): return {}",
        ["`run_status` must have another name"],
    ),
}


@pytest.mark.parametrize("name", BAD_METHODS)
def test_a_users_method_that_cannot_be_used(refusal, name):
    source, fragments = BAD_METHODS[name]
    message = refusal(own_method(), own=source)
    for fragment in fragments:
        assert fragment in message, message


BAD_FACTORIES = {
    "returns nothing": ("def f(): pass", ["must return a Problem", "NoneType"]),
    "raises": ("def f(): raise KeyError('no\\nluck')", ["KeyError", "own.py"]),
    "exits": ("import sys\ndef f(): sys.exit(3)", ["SystemExit"]),
    "is a bad statement": (
        "from evogt_study.pde import FormulaProblem\nf = FormulaProblem(1, exact='sin(pi*x')",
        ["own.py", "FormulaError"],
    ),
    "makes a bad statement": (
        "from evogt_study.pde import FormulaProblem\ndef f(): return FormulaProblem(7, exact='x')()",
        ["dimension", "7"],
    ),
    "returns arrays of the wrong shape": (
        A_PROBLEM + "def f(): return Problem(1, Separable(lambda nodes: np.ones(3)), lambda nodes: 0.0*nodes[:, 0])",
        ["own.py"],
    ),
    "raises where it is looked at": (
        A_PROBLEM + "def f(): return Problem(1, Separable(lambda nodes: np.ones((1, len(nodes)))), lambda nodes: 1/0)",
        ["own.py", "ZeroDivisionError"],
    ),
    "has boundary values without lifting": (
        A_PROBLEM + "def f(): return Problem(1, Separable(lambda nodes: np.ones((1, len(nodes)))), lambda x: x[:, 0])",
        ["`initial` must vanish on the boundary, got a value of 1 there", "tiny.toml"],
    ),
    "does not start where its solution does": (
        A_PROBLEM
        + "def bump(nodes): return nodes[:, 0]*(1 - nodes[:, 0])\n"
        + "def f(): return Problem(1, Separable(lambda nodes: np.ones((1, len(nodes)))), lambda x: 2*bump(x), "
        + "exact=Separable(lambda nodes: bump(nodes)[None]))",
        ["`exact` at t = 0 must equal `initial`, got a difference of 0.24", "tiny.toml"],
    ),
    "returns a dimension that is none": (
        A_PROBLEM
        + "def f(): return Problem('1', Separable(lambda nodes: np.ones((1, len(nodes)))), lambda nodes: nodes)",
        ["own.py"],
    ),
}


@pytest.mark.parametrize("name", BAD_FACTORIES)
def test_a_users_problem_that_cannot_be_used(refusal, name):
    source, fragments = BAD_FACTORIES[name]
    message = refusal(OWN_PROBLEM, own=source)
    for fragment in fragments:
        assert fragment in message, message


@pytest.mark.parametrize(
    "default", ["np.zeros(3)", "np.array(3.7)", "[[[]]]", "nested", "object", "lambda: 0", "{}", "1j"]
)
def test_a_default_may_be_anything_at_all(load, default):
    """A default that no study file could hold is the function's own business."""
    source = f"import numpy as np\nnested = []\nnested.append(nested)\ndef f(seed, extra={default}): return {{}}"
    assert load(own_method(), own=source).space.size == 2


@pytest.mark.parametrize("key", ["method", "problem"])
@pytest.mark.parametrize("name", ["pipe", "zero"])
def test_a_reference_to_what_never_ends_is_not_read(refusal, tmp_path, key, name):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    message = refusal(toml({key: f'"{name}.py:f"'}, problem=None), own=OWN)
    assert f"`{name}.py:f` must name a readable Python file, got" in message


@pytest.mark.parametrize(
    "reference", ["gone.py:f", "own.txt:f", "own.py:", ":f", ":", "own.py:f.g", "own.py:1f", "folder.py:f", "own:f",
                  "\\u0000.py:f", "own.py:f\\u0000", "a\\nb.py:f", "loop.py:f", "x" * 5000 + ".py:f"],
)  # fmt: skip
@pytest.mark.parametrize("key", ["method", "problem"])
def test_a_reference_to_a_file_that_cannot_be_read(refusal, tmp_path, key, reference):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    text = toml({key: f'"{reference}"'}, problem=None)
    assert "must" in refusal(text, own=OWN)


def test_ones_own_method_takes_neither_problem_nor_output(refusal):
    assert "`problem` must be left out" in refusal(toml({"method": '"own.py:f"'}), own=OWN)
    assert "`output` must be left out" in refusal(own_method("width = [1]") + "[output]\ntimes = 3\n", own=OWN)


def test_an_argument_without_default_has_to_be_given(refusal):
    message = refusal(own_method(), own=OWN)
    assert "`width` must be given" in message
    assert "got no value" in message


def test_nothing_is_imported_that_is_not_named(load, tmp_path):
    """The file may lie there; only `method` and `problem` can name it."""
    trap = "import pathlib\npathlib.Path(__file__).with_suffix('.sprung').touch()\ndef f(seed): return {}\n"
    load(toml({"title": '"own.py:f"', "source": '"own.py:f"'}), own=trap)
    with pytest.raises(StudyError):
        load(toml(constants={"dictionary": '"own.py:f"'}), own=trap)
    assert not (tmp_path / "own.sprung").exists()
    load(own_method(), own=trap)
    assert (tmp_path / "own.sprung").exists()  # so the trap works


# --- files that cannot be read ----------------------------------------------------------------------------------------


def unreadable(path):
    with pytest.raises(StudyError) as caught:
        Study.from_file(path)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    message = unreadable(tmp_path / "gone.toml")
    assert message == f"cannot read the study file {tmp_path / 'gone.toml'}: No such file or directory"


def test_a_folder_in_place_of_a_file(tmp_path):
    assert unreadable(tmp_path) == f"cannot read the study file {tmp_path}: it is a folder, a pipe or a device"


def test_a_path_through_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert "Not a directory" in unreadable(tmp_path / "file" / "s.toml")


@pytest.mark.parametrize(
    "content", [b"\x89HDF\r\n\x1a\n\xff\xfe", b'name = "\xe4"', bytes(range(256)), b"\xff\xfen\0a\0"]
)
def test_a_binary_file(tmp_path, content):
    (tmp_path / "s.toml").write_bytes(content)
    assert str(tmp_path / "s.toml") in unreadable(tmp_path / "s.toml")


def test_a_byte_order_mark_is_no_part_of_a_file(own_study, tmp_path):
    """Editors of some systems write one."""
    study = own_study("def method(seed):\n    return {}\n", "[axes]\nseed = [0]\n")
    for name in ("own.toml", "method.py"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (tmp_path / name).read_bytes())
    marked = Study.from_file(tmp_path / "own.toml")
    assert (marked.text, study_plan(marked).keys.tolist()) == (study.text, study_plan(study).keys.tolist())
    assert marked.method.parameters.keys() == {"seed"}


def test_a_name_that_is_not_utf_8(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.toml")
    path.write_text(toml())
    assert unreadable(path).endswith("/\\udcff.toml': its name must be UTF-8; rename it")


@pytest.mark.parametrize("path", ["a\0b.toml", "x" * 5000, ""])
def test_a_path_that_cannot_be_one(path):
    assert "cannot read the study file" in unreadable(path)


# --- files that would occupy the machine ------------------------------------------------------------------------------

# Each is loaded in a process of its own with 6 seconds of processor time and 3 GiB of memory.  The longest, of many
# rules, took 1.6 to 2.4 s by itself on the slowest machine so far, and more than 3 s beside other tests.  A study or a
# StudyError is right; anything else, or being stopped, is not.
SECONDS, GIBIBYTES = 6, 3

HEAVY = {
    "many assembly points": toml(constants={"quadrature": "20000"}),
    "most assembly points": toml(constants={"quadrature": "100000"}),
    "many nodes in space": toml(
        constants={"quadrature": '{ rule = "composite_midpoint", points = 100000 }'},
        problem={"dimension": "3", "exact": '"sin(pi*x)*sin(pi*y)*sin(pi*z)"'},
    ),
    "many steps": toml(constants={"dt": "1e-10"}),
    "many steps of a changing diffusion": toml(constants={"dt": "1e-7"}, problem={**PROBLEM, "diffusion": '"1 + t"'}),
    "many saved times": toml(constants={"dt": "1e-9"}, output={"times": "999999999", "record": '["error_history"]'}),
    "powers of powers": toml(problem={**PROBLEM, "exact": '"9**(9**(9*x/x))*x"'}),
    "powers by logarithms": toml(problem={**PROBLEM, "exact": '"exp(1e30*log(3)*x/x)*x"'}),
    "terms of a power": toml(problem={**PROBLEM, "exact": '"x*(1-x)*exp(1e11*log(x+t))"'}),
    "many rules": toml(
        axes={"seed": "{ count = 1200 }", "N": "{ start = 1, count = 1200 }"},
        constants={"N": None},
        extra=when(f"{{ seed = {list(range(1199))}, N = {list(range(1, 1200))} }}", "{ tau = 0.5 }"),
    ),
}


def load_within_limits():
    """Run in another process: load the studies that come on standard input, each in a fork with limits."""
    outcomes = {}
    for name, text in json.load(sys.stdin).items():
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            try:
                Study.from_text(text, "s.toml")
                outcome = "study"
            except BaseException as error:  # noqa: BLE001  # whatever it is, the test is told
                outcome = type(error).__name__
            os.write(writer, outcome.encode())
            os._exit(0)
        os.close(writer)
        outcomes[name] = os.read(reader, 1000).decode() or "stopped by the limits"
        os.close(reader)
        os.waitpid(child, 0)
    json.dump(outcomes, sys.stdout)


@pytest.fixture(scope="module")
def outcomes():
    source = "\n".join(
        [
            "import json, os, resource, sys",
            "from evogt_study.study.study import Study",
            f"SECONDS, GIBIBYTES = {SECONDS}, {GIBIBYTES}",
            inspect.getsource(load_within_limits),
            "load_within_limits()",
        ]
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each thread's buffers count against the memory
    done = subprocess.run(
        [sys.executable, "-c", source],
        input=json.dumps(HEAVY),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("name", HEAVY)
def test_a_study_that_would_occupy_the_machine_is_read_or_refused_at_once(outcomes, name):
    assert outcomes[name] in ("study", "StudyError")
