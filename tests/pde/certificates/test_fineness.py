"""Problems with structure that grids or times do not see are found, and others are not."""

import numpy as np
import pytest
from manufactured import VALIDATION, Manufactured, energy_error

from evogt_study.pde.certificates.bound import bound_run, find_knots
from evogt_study.pde.certificates.certify import certify, solve_reference
from evogt_study.pde.certificates.functions import (
    SpectralSpace,
    TensorGrid,
    TimeRule,
    is_seen_in_space,
    is_seen_in_time,
)
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, compute_stage, solve_arrays
from evogt_study.pde.problems import FormulaProblem

BUBBLE = "4*x*y*(1 - x)*(1 - y)*exp(-t)"
PULSE = "sin(pi*x)*(1 + exp(-((t - 1/7)*2000)**2))"


def run_of(family, N, points, steps, final_time, dimension, **more):
    rule, grid = QuadratureRule("gauss_legendre", points), TimeGrid.from_step(final_time, final_time / steps, 2)
    return Discretisation(Dictionary(family, N=N, **more), 3, 1e-10, rule, VALIDATION[dimension], grid)


@pytest.mark.parametrize(
    ("exact", "points", "seen"),
    [
        (f"{BUBBLE}*(tanh(200*x - 200*y) + 1)", 48, False),
        ("sin(pi*x)*sin(pi*y)*exp(-10000*((x - 1/2)**2 + (y - 1/3)**2))", 48, False),
        (f"{BUBBLE}*(tanh(30*x - 30*y) + 1)", 48, False),
        (f"{BUBBLE}*(tanh(60*x - 60*y) + 1)", 112, False),  # whose bound would be 0.1 % too small
        (f"{BUBBLE}*(tanh(10*x - 10*y) + 1)", 48, True),
        ("exp(-2*pi**2*t)*sin(pi*x)*sin(pi*y)", 48, True),  # whose source is rounding at most
    ],
)
def test_structure_between_the_nodes(exact, points, seen):
    assert is_seen_in_space(FormulaProblem(dimension=2, exact=exact)(), TensorGrid(2, points), 0.1) is seen


@pytest.mark.parametrize(
    ("exact", "seen"),
    [
        (PULSE, False),
        ("sin(pi*x)*(1 + sin(400*pi*t))", False),
        ("sin(pi*x)*(1 + sin(20*t))", True),
        ("exp(-pi**2*t)*sin(pi*x)", True),
    ],
)
def test_structure_between_the_times(exact, seen):
    rule = TimeRule.between(np.linspace(0.0, 0.5, 11))
    problem = FormulaProblem(dimension=1, exact=exact)()
    assert is_seen_in_time(problem, TensorGrid(1, 32, 4), rule) is seen


@pytest.mark.parametrize(
    ("exact", "run"),
    [
        (f"{BUBBLE}*(tanh(200*x - 200*y) + 1)", run_of("legendre", 36, 12, 10, 0.01, 2)),
        (PULSE, run_of("transnet", 20, 60, 20, 0.5, 1, gamma=6.0)),
    ],
)
def test_nothing_bounds_what_is_not_seen(exact, run):
    dimension = 2 if "y" in exact else 1
    problem = FormulaProblem(dimension=dimension, exact=exact)()
    found = certify(solve_arrays(problem, run), ("error_bound",), compute_stage, "", None)
    assert found["error_bound"] == np.inf
    assert solve_reference(problem, run.grid.final_time, SpectralSpace(dimension, 16), 10).delta == np.inf


@pytest.mark.parametrize(
    ("stated", "run"),
    [
        (Manufactured(2, f"{BUBBLE}*(tanh(30*x - 30*y) + 1)", "1", 0.1), run_of("legendre", 36, 12, 10, 0.1, 2)),
        (Manufactured(1, "sin(pi*x)*(1 + sin(200*t))", "1", 1.0), run_of("legendre", 10, 60, 100, 1.0, 1)),
    ],
)
def test_a_finer_grid_and_finer_times_are_tried(stated, run):
    solution = solve_arrays(stated.problem, run)
    bound = bound_run(solution, find_knots(solution), compute_stage, "")[0].value
    assert energy_error(stated.problem, solution) <= bound < np.inf
