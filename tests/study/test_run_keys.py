"""The parts of a run key: what enters it and what does not, for every kind of method."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from evogt_study.errors import ParameterError
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study


def keys_of(plan):
    """The key of every point of the plan's axes, "" where no case is planned."""
    return [case.key if case else "" for case in map(plan.case, range(plan.space.size))]


NUMBERS = """
name = "numbers"
problem = { dimension = 1, initial = "x*(1 - x)", diffusion = "1/10" }
[constants]
quadrature = 9
validation = 9
dt = 0.125
final_time = 1
"""


ZIP = '[[zip]]\nname = "two"\na = [1, 2]\nc = [2.5, 2.5]'
FUNCTION = """
    def method(a, b=1, c=2.5, word="x", seed=0):
        return {"error": 0.0}
"""


def of_function(own_study, axes="", constants="", more="", function=FUNCTION):
    """The keys of a study of `FUNCTION`, by the values of a and seed."""
    text = f"{more}\n[axes]\n{axes or 'a = [1, 2]'}\nseed = [0, 1]\n[constants]\n{constants}\n"
    plan = plan_study(own_study(function, text))[-1]
    return {(case.values["a"], case.values["seed"]): case.key for case in plan.cases()}


def test_what_decides_no_number_enters_no_key(own_study):
    known = of_function(own_study)
    assert len(set(known.values())) == 4
    assert of_function(own_study, more='title = "Another title"\nsource = "another place"') == known
    assert of_function(own_study, axes="a = [2, 1]") == known
    assert of_function(own_study, axes="a = [2, 3, 1]").items() >= known.items()
    assert of_function(own_study, constants="b = { formula = '1' }") == known
    assert of_function(own_study, axes=" ", more=ZIP) == known


def test_a_value_that_is_the_default_enters_no_key_and_another_kind_of_it_does(own_study):
    known = of_function(own_study)
    assert of_function(own_study, constants='b = 1\nc = 2.5\nword = "x"') == known
    different = ["b = 1.0", "b = true", 'b = "1"', "b = [1]", "c = 2", 'word = ["x"]', "b = 2"]
    keys = [key for constant in different for key in of_function(own_study, constants=constant).values()]
    assert len({*known.values(), *keys}) == 4 * (1 + len(different))


def test_an_axis_that_holds_the_default_has_the_key_of_a_study_without_the_axis(own_study):
    plan = plan_study(own_study(FUNCTION, "[axes]\na = [1, 2]\nb = [3, 1]\nseed = [0, 1]\n"))[-1]
    keys = {(case.values["a"], case.values["seed"]): case.key for case in plan.cases() if case.values["b"] == 1}
    assert keys == of_function(own_study)
    assert plan.keys.astype(str).tolist() == keys_of(plan)


PDE = NUMBERS.replace("[constants]", '[axes]\ndictionary = ["gtransnet", "sine"]\nseed = [0, 1]\n[constants]') + (
    "N = 3\nN1 = 4\ngamma = 2\n"
)


def of_problem(constants="", more="", text=PDE):
    return keys_of(plan_study(Study.from_text(f"{text}{constants}\n{more}"))[-1])


TOLERANCES = PDE + 'coefficient_reference = "dop853"\n'


def test_tolerances_at_their_default_enter_no_key():
    known = of_problem(text=TOLERANCES)
    assert of_problem("coefficient_rtol = 1e-12\ncoefficient_atol = 1e-14", text=TOLERANCES) == known
    assert not set(of_problem("coefficient_rtol = 1e-11", text=TOLERANCES)) & set(known)


# a problem uses the seed, or a parameter of another dictionary: then so do runs of a dictionary that does not
def test_parameters_that_a_formula_uses_enter_every_key():
    text = PDE.replace('diffusion = "1/10"', 'diffusion = "1/10 + seed + gamma"')
    assert len(set(of_problem(text=text))) == 4
    assert not set(of_problem(text=text.replace("gamma = 2", "gamma = 3"))) & set(of_problem(text=text))


COLUMNS = {
    "N": [3, 4, 3], "N1": [2, 3, 2], "hidden": [[2, 2], [3], [4]], "gamma": [1, 2.5, 3], "quadrature": [9, 10, 11],
    "validation": [8, 9, 8], "assessment": [7, 8, 9], "tau": [1e-12, 1e-11, 0.5], "seed": [0, 1, 2], "k": [1, 2.5, 3],
    "dictionary": ["gtransnet", "sine", "transnet"], "dt": [0.125, 0.25, 0.5], "delta": [0.4, 0.5, 0.6],
    "time_integrator": ["implicit_midpoint", "adaptive_radau", "implicit_midpoint"],
}  # fmt: skip
RULES = {
    "": (),
    "[[when]]\nmatch = { N = 4 }\nset = { final_time = 2 }": ("N",),
    '[[exclude]]\nmatch = { quadrature = 9, dictionary = "sine" }': ("quadrature", "dictionary"),
}


@settings(derandomize=True, deadline=None, max_examples=40, phases=[Phase.generate])
@given(data=st.data())
def test_keys_of_any_design_made_together_are_those_made_one_by_one(data):
    names = data.draw(st.permutations([*COLUMNS]))
    names.remove(data.draw(st.sampled_from(["N1", "hidden"])))
    n_axes, n_zip = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([0, 2, 3, 4]))
    axes, zipped, constants = names[:n_axes], names[n_axes : n_axes + n_zip], names[n_axes + n_zip :]
    rule = data.draw(st.sampled_from([rule for rule, matched in RULES.items() if {*matched} <= {*axes}]))
    different = {name: list({repr(value): value for value in COLUMNS[name]}.values()) for name in axes}
    lines = ["[axes]", *(f"{name} = {values!r}" for name, values in different.items())]
    lines += ["[[zip]]", 'name = "point"', *(f"{name} = {COLUMNS[name]!r}" for name in zipped)] if zipped else []
    lines += [
        "[constants]",
        *(f"{name} = {COLUMNS[name][0]!r}" for name in constants),
        "final_time = 1\nrtol = 1e-5\natol = 1e-8",
        rule,
    ]
    problem = '[problem]\ndimension = 1\ninitial = "x*(1 - x)*k"\ndiffusion = "1/10"\n'
    plan = plan_study(Study.from_text("\n".join(['name = "any"', problem, *lines])))[-1]
    assert plan.keys.astype(str).tolist() == keys_of(plan)


def test_values_that_do_not_fit_together_are_found_at_every_setup(monkeypatch):
    monkeypatch.setattr("evogt_study.study.reading.MAX_CHECKED_CASES", 2)  # more are not checked when a study is read
    rows = [{"N": 3 + number, "N1": 2, "gamma": [1, 2]} for number in range(5)]
    rows[3]["gamma"] = [1, 2, 3]
    table = "\n".join(f"  {{ N = {each['N']}, N1 = {each['N1']}, gamma = {each['gamma']} }}," for each in rows)
    design = (
        f'[[table]]\nname = "case"\nrows = [\n{table}\n]\n[axes]\nseed = [0, 1]\n[constants]\ndictionary = "gtransnet"'
    )
    plan = plan_study(Study.from_text(NUMBERS.replace("[constants]", design)))[-1]
    with pytest.raises(
        ParameterError, match="`gamma` must be one number or 2, one per first-layer neuron, got '3 numbers'"
    ):
        plan.keys  # noqa: B018
