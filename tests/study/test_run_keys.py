"""The parts of a run key: what enters it and what does not, for every kind of method."""

import pytest

from evogt_study.study.plan import study_plan
from evogt_study.study.study import Study


def keys_of(plan):
    """The key of every point of the plan's axes, "" where no case is planned."""
    return [case.key if case else "" for case in map(plan.case, range(plan.space.size))]


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
    assert len(set(keys)) == len(keys) == 384


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
    ],
)  # fmt: skip
def test_keys_of_a_method_made_together_are_those_made_one_by_one(axes, different):
    seed = "" if "seed" in axes else "seed = 3"
    axes = f"[axes]\n{axes}\n[constants]\n{seed}"
    plan = study_plan(Study.from_text(NUMBERS.replace("[constants]", axes)))
    keys = plan.keys.astype(str).tolist()
    assert (keys, len(set(keys))) == (keys_of(plan), different)
