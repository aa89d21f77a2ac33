"""Space-time regression: its ansatz, and solutions that lie in it."""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.pde.methods.space_time_regression import SpaceTimeSolution, derive_strong_form, space_time_regression

moving = {
    1: pde.FormulaProblem(dimension=1, initial="sin(pi*x) + x*(1 - x)*exp(x)", source="cos(x + 3*t)",
     diffusion="1 + c*sin(3*x + 5*t)/2"),
    2: pde.FormulaProblem(dimension=2, initial="sin(pi*x)*y*(1 - y**2)", source="x*exp(-t*y)",
     diffusion="1 + c*sin(3*x - 2*y + 5*t)/2 + x*y*t"),
}  # fmt: skip


def random_fit(dimension, gamma=2.0):
    """A strong form, and an ansatz with random coefficients that solves nothing."""
    strong = derive_strong_form(moving[dimension], {"c": 0.8})
    features = pde.Dictionary("gtransnet", 5, gamma, N1=7).sample(3, dimension + 1)
    alpha = np.random.default_rng(11).standard_normal(5)
    return strong, SpaceTimeSolution(strong.problem, features, 0.7, alpha, 0.0, 1.0)


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
    strong = derive_strong_form(statement, {})
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
