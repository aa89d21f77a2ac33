"""Identities of cases: they never change, or every result on disk would be computed again under another name."""

from pathlib import Path

import pytest

from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.dictionaries.sine import Sine
from evogt_study.schema.values import content_hash
from evogt_study.study.plan import provisional_plans, study_plan
from evogt_study.study.study import Study

STUDIES = Path(__file__).parents[2] / "studies"

OWN = """
    def method(i, j=0.5, word="a", flag=False, several=(1, 2.5), never=None):
        return {"error": float(i)}
"""
AXES = """
    [axes]
    word = ["a", "%s é", "{}\\\\"]
    i = [0, -3, 7]
    j = [0.1, 1e-12, 2]
    several = [[1, [2, "x"]], [3.0]]
    [constants]
    flag = true
    [[when]]
    match = { word = "a", i = [0, 7] }
    set = { flag = false }
"""


def keys_of(plan):
    """The key of every point of the plan's axes, "" where no case is planned."""
    return [case.key if case else "" for case in map(plan.case, range(plan.space.size))]


def test_keys_of_a_function_of_ones_own_stay_as_they_were(own_study):
    plan = study_plan(own_study(OWN, AXES))
    keys = keys_of(plan)
    assert (len(keys), len(set(keys))) == (54, 54)
    pinned = ["37ddf325c24b1917fe85", "46cb71e82a3d2568b209", "1591b2badb5c9737db46", "190b4ba30e89e2f98808"]
    assert [keys[0], keys[11], keys[31], keys[53]] == pinned


# The keys that the first published results have: (number of points, hash of all keys), of the pilot and of the study.
SHIPPED = {
    "examples/first_study": [(60, "36a3ad2b79a8443510fd")],
    "examples/own_method": [(300, "5d23dd2da5a2d983d966")],
    "paper/allen_cahn_2d": [(15, "edec24c339392b966d03")],
    "paper/allen_cahn_reference": [(4, "4a0e9a82a6f0251cb0fc")],
    "paper/nonseparable_3d": [(30, "618415fd6aa4845e6252")],
    "paper/oscillatory_1d": [(780, "b59ea9b7b65f8a8f8c22"), (240, "bbf150d9c66f320af24b")],
    "paper/p1_fem_oscillatory": [(3, "953e6778cf5e5a4c95e8")],
    "paper/quadrature": [(100, "60b2321fd8137e7c9f9c")],
    "paper/space_time_evolution": [(9, "450e00925888e34995b2")],
    "paper/space_time_regression": [(9, "6681c7e85d1577bdf3f1")],
    "paper/target_1d": [(600, "8f25f7ebeb9b205fef2e"), (240, "528dacb866551c1288e8")],
    "paper/temporal_tolerance": [(2, "c07b0994674bccc55aa7")],
    "paper/threshold": [(80, "390e8273fe3a3f4ac8ac")],
}


@pytest.mark.parametrize("name", SHIPPED)
def test_keys_of_shipped_studies_stay_as_they_were(name):
    study = Study.from_file(STUDIES / f"{name}.toml")
    plans = provisional_plans(study)
    assert [(plan.space.size, content_hash(keys_of(plan))) for plan in plans] == SHIPPED[name]


MANY = """
name = "many"
[problem]
dimension = 1
initial = "x*(1 - x)*k"
potential = "u**4/4"
diffusion = "1/10 + epsilon"
[axes]
k = [1, 2.5]
tau = [1e-12, 0.5]
quadrature = [9, { rule = "composite_midpoint", points = 9 }]
validation = [5, 6]
assessment = [7, 8]
dictionary = ["transnet", "gtransnet", "sine"]
reference_dt = [0.125, 0.0625]
stabilization = [0, 1]
[constants]
epsilon = 0.1
seed = 3
N = 4
N1 = 5
gamma = [1, 2, 3, 4]
time_integrator = "stabilized_semi_implicit"
reference = "finite_difference"
reference_points = 7
dt = 0.125
final_time = 1
[[when]]
match = { dictionary = "gtransnet" }
set = { gamma = 2 }
[output]
times = 3
record = ["field", "coefficients"]
"""


def test_keys_of_many_parameters_made_together_are_those_made_one_by_one():
    plan = study_plan(Study.from_text(MANY))
    keys = plan.keys.astype(str).tolist()
    assert keys == keys_of(plan)
    assert content_hash(keys) == "3c963dfa293d30d137aa"


NUMBERS = """
name = "numbers"
[problem]
dimension = 1
initial = "x*(1 - x)"
diffusion = "1/10"
[constants]
quadrature = 9
validation = 9
dt = 0.125
final_time = 1
"""


class EvenSines(Sine):
    """Another package's family, which makes another number of what it is given."""

    def __post_init__(self):
        object.__setattr__(self, "N", 2 * (self.N // 2))


@pytest.mark.parametrize(
    ("axes", "different"),
    [
        ('dictionary = ["transnet", "gtransnet"]\nN = [3, 4]\nN1 = [5, 6]\ngamma = [1, 2.5]', 12),  # transnet has no N1
        ('dictionary = ["gtransnet"]\nN = [3, 4]\nN1 = [5, 6]\ngamma = [1, 2.5]\nradius = [0.8, 1]', 16),
        ('dictionary = ["gtransnet"]\nN = [3]\nN1 = [2]\ngamma = [1, [1, 2]]\nseed = [0, 1]', 4),  # a number, or two
        ('dictionary = ["gtransnet"]\nN = [3]\nN1 = [2]\ngamma = [1]\ndelta = [0.4, 0.5]\ncentre = [0.4, 0.5, 0.6]', 6),
        ('dictionary = ["transnet"]\nN = [3]\ngamma = [1]\ndelta = [0.4, 0.5]', 1),  # which it does not use
        (
            'dictionary = ["transnet"]\nN = [3]\ngamma = [1]\ncoefficient_reference = ["dop853"]\n'
            "coefficient_rtol = [1e-11, 1e-12]\ncoefficient_max_step = [0.5, 0.25]", 4,
        ),
        ('dictionary = ["gtransnet"]\nN = [3]\nN1 = [2]\ngamma = [1]\nradius = [2]\ncentre = [0.4, 0, -0.5]', 3),
        ('dictionary = ["gtransnet"]\nN = [3]\nhidden = [[2, 4], [2, 5], [6]]\ngamma = [1]', 3),
        ('dictionary = ["gtransnet"]\nN = [3]\nN1 = [2]\ngamma = [[1, 2], [3, 4.5]]\ncentre = [[0.4], [0.5]]', 4),
        (
            'dictionary = ["transnet"]\nN = [3]\ngamma = [1]\ntime_integrator = ["adaptive_radau"]\n'
            "rtol = [1e-5, 1e-6, 1e-7]\natol = [1e-8, 1e-9]", 6,
        ),
        ('dictionary = ["sine"]\nN = [3, 4, 5]\nseed = [0, 1]', 3),  # nothing random
        ('dictionary = ["even_sines"]\nN = [3, 4, 5]\nseed = [0, 1]', 2),
    ],
)  # fmt: skip
def test_keys_of_numbers_that_are_looked_at_are_those_made_one_by_one(axes, different, monkeypatch):
    monkeypatch.setattr(FAMILIES, "kinds", {**FAMILIES.kinds, "even_sines": EvenSines})
    seed = "" if "seed" in axes else "seed = 3"
    axes = f"[axes]\n{axes}\n[constants]\n{seed}"
    plan = study_plan(Study.from_text(NUMBERS.replace("[constants]", axes)))
    keys = plan.keys.astype(str).tolist()
    assert (keys, len(set(keys))) == (keys_of(plan), different)


# the formula shows the number as it is, so that it is to be seen whatever the family makes of it
def test_a_number_that_a_formula_uses_too_is_looked_at_case_by_case(monkeypatch):
    monkeypatch.setattr(FAMILIES, "kinds", {**FAMILIES.kinds, "even_sines": EvenSines})
    text = NUMBERS.replace("1/10", "1/N").replace(
        "[constants]", '[axes]\nN = [3, 4, 5]\n[constants]\nseed = 3\ndictionary = "even_sines"'
    )
    plan = study_plan(Study.from_text(text))
    assert plan.keys.astype(str).tolist() == keys_of(plan)
