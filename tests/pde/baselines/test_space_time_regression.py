"""Space-time regression: its residual against finite differences, its least-squares problem, and the paper's table."""

import csv
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.errors import FormulaError, ParameterError, ProblemError
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.validation import relative_errors
from evogt_study.pde.methods.space_time_regression import (
    SpaceTimeSolution,
    space_time_regression,
    strong_form,
)
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, solve_arrays

PUBLISHED = Path(__file__).parents[3] / "data" / "published" / "space_time_diagnostic.csv"
ROWS = list(csv.DictReader(PUBLISHED.read_text().splitlines()))
T = 0.25
VALIDATION = QuadratureRule("composite_midpoint", 1000)

heat_mode = pde.FormulaProblem(
    dimension=1, exact="exp(-(k*pi)**2/100*t)*sin(k*pi*x)", diffusion="1e-2", final_time=T, name="heat_mode"
)
moving = {
    1: pde.FormulaProblem(dimension=1, initial="sin(pi*x) + x*(1 - x)*exp(x)", source="cos(x + 3*t)",
     diffusion="1 + c*sin(3*x + 5*t)/2"),
    2: pde.FormulaProblem(dimension=2, initial="sin(pi*x)*y*(1 - y**2)", source="x*exp(-t*y)",
     diffusion="1 + c*sin(3*x - 2*y + 5*t)/2 + x*y*t"),
}  # fmt: skip


@lru_cache
def fitted(k):
    """The paper's three regressions of mode k."""
    strong = strong_form(heat_mode, {"k": k})
    return [space_time_regression(strong, paper_dictionary(), seed, T) for seed in range(3)]


@lru_cache
def regression_errors(k):
    rule, final = UnitCube(1).quadrature(VALIDATION), np.array([T])
    exact = heat_mode(k=k).exact(rule.nodes, final)
    return [relative_errors(fit.evaluate(rule.nodes, final), exact, rule.weights)[0] for fit in fitted(k)]


@lru_cache
def evolution_errors(k):
    assembly, grid = QuadratureRule("gauss_legendre", 320), TimeGrid.of(T, 0.0025, 2)
    runs = [Discretisation(paper_dictionary(), seed, 1e-12, assembly, VALIDATION, grid) for seed in range(3)]
    return [solve_arrays(heat_mode(k=k), run).errors[-1] for run in runs]


def paper_dictionary():
    return pde.Dictionary("gtransnet", 60, 8, N1=240)


def printed(value):
    return f"{float(value):.2e}"


METHODS = {"space_time_regression": regression_errors, "evolution": evolution_errors}
STATISTICS = {"mean": np.mean, "std": lambda values: np.std(values, ddof=1)}


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row.values()))
def test_published_errors(row):
    value = STATISTICS[row["statistic"]](METHODS[row["method"]](float(row["k"])))
    if (row["k"], row["method"], row["statistic"]) == ("8", "space_time_regression", "mean"):
        # a known misprint: the same standard deviation comes out, and the mean of 2.34, not of 2.34e-1
        assert printed(value / 10) == printed(row["value"])
    else:
        assert printed(value) == printed(row["value"])


@pytest.mark.long
@pytest.mark.parametrize("k", [8.0, 12.0, 16.0])
def test_the_condition_is_below_the_papers_bound(k):
    assert 1.0 < max(fit.condition for fit in fitted(k)) < 500.0


def random_fit(dimension, gamma=2.0):
    """A strong form, and an ansatz with random coefficients that solves nothing."""
    strong = strong_form(moving[dimension], {"c": 0.8})
    features = pde.Dictionary("gtransnet", 5, gamma, N1=7).sample(3, dimension + 1)
    alpha = np.random.default_rng(11).standard_normal(5)
    return strong, SpaceTimeSolution(strong.problem.domain, strong.problem.initial, features, 0.7, alpha, 0.0, 1.0)


@pytest.mark.parametrize("dimension", [1, 2])
def test_the_ansatz_has_the_initial_and_boundary_values(dimension):
    strong, fit = random_fit(dimension)
    inside = np.random.default_rng(5).uniform(size=(9, dimension))
    values = fit.evaluate(inside, np.array([0.0, 0.4]))
    assert values[0].tolist() == strong.problem.initial(inside).tolist()
    assert np.abs(values[1] - values[0]).max() > 1e-3
    edge = np.vstack([np.eye(dimension), 1 - np.eye(dimension)])
    assert np.abs(fit.evaluate(edge, np.array([0.4]))).max() < 1e-15


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_solution_in_the_ansatz_is_found(dimension):
    # u = u_0 + t D psi . (2, -1, 3) is written out as a formula, from which all the data are derived symbolically
    dictionary = pde.Dictionary("transnet", 3, 2.5)
    features = dictionary.sample(4, dimension + 1)
    arguments = [
        sum_of(row, inputs(dimension), shift)
        for row, shift in zip(features.affine.slopes.tolist(), features.affine.shifts.tolist(), strict=True)
    ]
    factor = "*".join(f"{x}*(1 - {x})" for x in "xy"[:dimension])
    psi = " + ".join(f"({c})*tanh({z})" for c, z in zip((2, -1, 3), arguments, strict=True))
    initial = "*".join(f"sin(pi*{x})" for x in "xy"[:dimension])
    statement = pde.FormulaProblem(
        dimension=dimension, exact=f"{initial} + t*{factor}*({psi})", diffusion="1 + t*x/2 + cos(x - t)/3"
    )
    strong = strong_form(statement, {})
    fit = space_time_regression(strong, dictionary, 4, 0.8, points=8, levels=7, ridge=0.0)
    assert fit.rho == 0.0
    assert fit.coefficients == pytest.approx([2, -1, 3], rel=1e-9)
    nodes, times = np.random.default_rng(5).uniform(size=(9, dimension)), np.array([0.0, 0.3, 0.8])
    assert fit.evaluate(nodes, times) == pytest.approx(strong.problem.exact(nodes, times), rel=1e-9)


def sum_of(slopes, variables, shift):
    return " + ".join([f"({a!r})*({z} - 1/2)" for a, z in zip(slopes, variables, strict=True)] + [f"({shift!r})"])


def inputs(dimension):
    """What a feature is a function of, with T = 0.8."""
    return [*"xy"[:dimension], "(t/0.8)"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"points": 0}, "points"), ({"points": 68.0}, "points"), ({"points": 100_000}, "points"),
        ({"levels": True}, "levels"), ({"ridge": -1e-10}, "ridge"), ({"ridge": np.nan}, "ridge"),
        ({"final_time": 0.0}, "final_time"),
    ],
)  # fmt: skip
def test_refused_numbers(settings, name):
    strong = strong_form(heat_mode, {"k": 1})
    with pytest.raises(ParameterError, match=f"`{name}` must be"):
        space_time_regression(strong, paper_dictionary(), 0, **{"final_time": T, **settings})


@pytest.mark.parametrize(
    ("formulas", "message"),
    [
        ({"diffusion": "1 - 5*t*x"}, "`diffusion` must be positive"),
        ({"diffusion": "1 + sqrt(abs(x - 1/2))"}, "the strong form must be finite"),
        ({"source": "1/(x - 1/2)"}, "the strong form must be finite"),
        ({"initial": "0", "diffusion": "1 + sqrt(abs(x - 1/2))"}, "the strong form must be finite"),
    ],
)
def test_refused_problems(formulas, message):
    strong = strong_form(pde.FormulaProblem(dimension=1, **{"initial": "sin(pi*x)", **formulas}), {})
    with pytest.raises(ProblemError, match=message):
        space_time_regression(strong, pde.Dictionary("transnet", 4, 3), 0, T, points=9)


@pytest.mark.parametrize("diffusion", ["1", "1 + exp(-t*x)"])
def test_an_initial_value_with_a_kink_has_no_strong_form(diffusion):
    statement = pde.FormulaProblem(dimension=1, initial="abs(sin(2*pi*x))", diffusion=diffusion)
    with pytest.raises(FormulaError, match="`initial` must have second derivatives"):
        strong_form(statement, {})
