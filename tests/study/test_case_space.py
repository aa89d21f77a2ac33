"""The space of cases and the plan: which values a case has, in which order cases are met, and what work they share."""

import itertools
from pathlib import Path

import pytest
from helpers import pde_study
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.schema.values import to_string
from evogt_study.schema.variables import CANDIDATE
from evogt_study.study.case_space import Axis, CaseSpace, ParameterTable, When, is_match
from evogt_study.study.plan import count_shared_work, estimate_peak_memory, order_longest_first, plan_phase, plan_study

PAPER = Path(__file__).parents[2] / "studies" / "paper"
quick = settings(derandomize=True, deadline=None, max_examples=150)


def rule(match, **given):
    return When({name: frozenset(map(to_string, values)) for name, values in match.items()}, given)


SPACE = CaseSpace(
    axes=(Axis("d", ("t", "g")), Axis("e", (0.2, 0.1, 0.05)), Axis("seed", (0, 1))),
    constants={"gamma": 4.0, "N": 3},
    rules=(rule({"d": ["g"]}, gamma=20.0), rule({"d": ["g"], "e": [0.05, 0.1]}, gamma=22.0, tau=0.5)),
)


def points(space):
    """Every point of the product of the axes, in C order."""
    return [
        dict(zip(space.names, values, strict=True)) for values in itertools.product(*(a.values for a in space.axes))
    ]


# --- the space --------------------------------------------------------------------------------------------------------


def test_constants_give_way_to_axes_rules_and_tables_in_this_order():
    space = CaseSpace(
        axes=(Axis("a", (1, 2)),),
        constants={"a": 0, "b": 0, "c": 0, "d": 0},
        rules=(rule({"a": [1, 2]}, b=1, c=1, d=1), rule({"a": [2]}, c=2, d=2)),
        chosen=(ParameterTable(("d", "e"), ("a",), {("1",): (31, 41), ("2",): (32, 42)}),),
    )
    assert space.values(0) == {"a": 1, "b": 1, "c": 1, "d": 31, "e": 41}
    assert space.values(1) == {"a": 2, "b": 1, "c": 2, "d": 32, "e": 42}


def test_cases_are_numbered_in_c_order():
    for index, point in enumerate(points(SPACE)):
        assert SPACE.values(index) == SPACE.resolve(point)
        assert {name: SPACE.values(index)[name] for name in SPACE.names} == point


@st.composite
def spaces(draw):
    """Small spaces with rules that overlap in any way."""
    names = "abcd"[: draw(st.integers(1, 4))]
    axes = tuple(Axis(name, tuple(range(draw(st.integers(1, 3))))) for name in names)
    matches = st.fixed_dictionaries(
        {}, optional={axis.name: st.frozensets(st.sampled_from(axis.values), min_size=1) for axis in axes}
    )
    rules = tuple(rule(match, **{f"p{i}": i}) for i, match in enumerate(draw(st.lists(matches, max_size=3))))
    return CaseSpace(axes, {"z": 0}, rules)


def combination(space, point):
    """Which of the rules hold at a point."""
    return tuple(is_match(rule.match, point) for rule in space.rules)


@quick
@given(spaces())
def test_representatives_meet_every_combination_of_rules(space):
    found = list(space.representatives())
    assert all(point in points(space) for point in found)
    assert {combination(space, p) for p in found} == {combination(space, p) for p in points(space)}


@quick
@given(spaces(), st.lists(st.sampled_from("abcdxyz"), unique=True, max_size=5))
def test_the_order_meets_each_case_once_and_keeps_equal_leading_values_together(space, leading):
    order = order_longest_first(space, leading)
    assert sorted(order.tolist()) == list(range(space.size))
    ordered = [name for name in leading if name in space.names]
    met = [space.values(int(index)) for index in order]
    for count in range(1, len(ordered) + 1):  # outermost first: each prefix changes as seldom as it can
        prefix = [tuple(values[name] for name in ordered[:count]) for values in met]
        assert len(list(itertools.groupby(prefix))) == len(set(prefix))


# --- the plan ---------------------------------------------------------------------------------------------------------

CONSTANTS = {
    "dictionary": '"transnet"', "seed": "0", "N": "4", "gamma": "4", "quadrature": "8", "validation": "8",
    "epsilon": "1", "final_time": "1", "dt": "0.25",
}  # fmt: skip


def tiny(extra="", without=(), **axes):
    return pde_study(axes, {name: value for name, value in CONSTANTS.items() if name not in without}, extra)


def piloted(by, candidates, **axes):
    """A small study with a pilot of three seeds for gamma."""
    pilot = f'[pilot]\nparameter = "gamma"\nseeds = [7, 8, 9]\nby = {by}\ncandidates = {candidates}\n'
    return tiny(pilot, without=("gamma",), **axes)


DICTIONARIES = '["transnet", "uniform_elm"]'


def test_a_pilot_has_the_cases_of_its_candidates_and_seeds():
    plan, _ = plan_study(
        piloted('["dictionary"]', "{ transnet = [2, 4, 6], uniform_elm = [3] }", dictionary=DICTIONARIES, seed="[0, 1]")
    )
    cases = list(plan.cases())
    assert plan.phase == "pilot"
    assert plan.space.size == 2 * 3 * 3
    assert plan.space.count == len(cases) == (3 + 1) * 3
    assert {(c.values["dictionary"], c.values["gamma"]) for c in cases} == {
        ("transnet", 2.0), ("transnet", 4.0), ("transnet", 6.0), ("uniform_elm", 3.0),
    }  # fmt: skip
    assert {case.values["seed"] for case in cases} == {7, 8, 9}
    assert all(CANDIDATE not in case.values for case in cases)


def test_the_provisional_choice_is_the_first_candidates():
    candidates = "{ transnet = [5, 6], uniform_elm = [3] }"
    study = piloted('["dictionary", "tau"]', candidates, dictionary=DICTIONARIES, tau="[0.1, 0.2]", seed="[0, 1]")
    (choice,) = plan_study(study)[-1].space.chosen
    first = {"transnet": (5.0,), "uniform_elm": (3.0,)}
    assert choice.table == {(name, tau): first[name] for name in first for tau in ("0.1", "0.2")}
    assert (choice.names, choice.over) == (("gamma",), study.pilot.by)
    assert {case.values["gamma"] for case in plan_phase(study, study.phases[-1], [choice]).cases()} == {5.0, 3.0}


# --- shared work ------------------------------------------------------------------------------------------------------


def distinct(plan, **options):
    """Distinct computations by stage, and the cases they were counted over."""
    work = count_shared_work(plan, **options)
    (cases,) = {entry.cases for entry in work}
    return {entry.stage: entry.distinct for entry in work}, cases


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({"tau": "[0.1, 0.2]"}, {"trial functions": 2, "retained space": 4, "Galerkin system": 4, "trajectory": 4}),
        ({"dt": "[0.25, 0.5]"}, {"trial functions": 2, "retained space": 2, "Galerkin system": 2, "trajectory": 4}),
        ({"epsilon": "[1, 2]"}, {"trial functions": 2, "retained space": 2, "Galerkin system": 4, "trajectory": 4}),
        ({"quadrature": "[8, 9]"}, {"trial functions": 4, "validation features": 2, "trajectory": 4}),
        ({"validation": "[8, 9]"}, {"trial functions": 2, "validation features": 4, "trajectory": 2}),
        ({"N": "[3, 4]"}, {"trial functions": 4, "validation features": 4, "trajectory": 4}),
        ({"gamma": "[3, 4]"}, {"trial functions": 4, "validation features": 4, "trajectory": 4}),
        ({"N1": "[3, 4]"}, {"trial functions": 2, "validation features": 2, "trajectory": 2}),  # not of transnet
    ],
)
def test_what_each_stage_depends_on(axes, expected):
    found, cases = distinct(plan_study(tiny(seed="[0, 1]", **axes))[-1])
    assert cases == 4
    assert {stage: found[stage] for stage in expected} == expected


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes",
    [
        {"validation": '[8, { rule = "composite_midpoint", points = 5000 }]'},
        {"dictionary": '["transnet", "gtransnet"]', "N1": "[5, 500]"},
        {"N": "[4, 400]", "quadrature": "[8, 80]", "validation": "[8, 800]"},
    ],
)
def test_peak_memory_is_that_of_the_largest_case(axes):
    plan = plan_study(tiny(seed="[0, 1]", **axes))[-1]
    assert estimate_peak_memory(plan) == max(plan.method.bind(case.values).memory for case in plan.cases())
