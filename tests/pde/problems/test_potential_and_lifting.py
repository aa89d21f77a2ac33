"""Statements with a potential F(u) and with a lifting u_b: parsing, derivation of their data, and what is refused."""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.errors import ParameterError
from evogt_study.pde.problems.formula_problem import FormulaProblem

EPS = np.finfo(float).eps
BUBBLE = {1: "x*(1-x)", 2: "x*(1-x)*y*(1-y)", 3: "x*(1-x)*y*(1-y)*z*(1-z)"}
DOUBLE_WELL = "(u**2 - 1)**2/4"


def with_potential(potential, **more):
    return FormulaProblem(dimension=1, initial=BUBBLE[1], potential=potential, **more)


def samples(dimension, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.0, 1.0, (11, dimension)), rng.uniform(0.1, 1.0, 5)


@pytest.mark.parametrize(
    ("potential", "values", "value", "slope"),
    [
        (DOUBLE_WELL, {}, lambda u: (u**2 - 1) ** 2 / 4, lambda u: u**3 - u),
        ("c*u**2/2", {"c": 3.0}, lambda u: 1.5 * u**2, lambda u: 3.0 * u),
        ("1 - cos(k*u)", {"k": 2.0}, lambda u: 1 - np.cos(2 * u), lambda u: 2 * np.sin(2 * u)),
        ("u", {}, lambda u: u, np.ones_like),
        ("7", {}, lambda u: np.full_like(u, 7.0), np.zeros_like),
        ("0", {}, np.zeros_like, np.zeros_like),
        ("b", {"b": 2.5}, lambda u: np.full_like(u, 2.5), np.zeros_like),
        ("exp(-u**2) + log(2 + u**2)", {}, lambda u: np.exp(-(u**2)) + np.log(2 + u**2),
         lambda u: -2 * u * np.exp(-(u**2)) + 2 * u / (2 + u**2)),
    ],
)  # fmt: skip
def test_a_potential_and_its_slope_are_elementwise_functions(potential, values, value, slope):
    found = with_potential(potential)(**values).potential
    for u in (np.linspace(-1.7, 1.9, 13), np.linspace(-1.0, 1.0, 12).reshape(3, 4), np.array([0.3])):
        assert found.value(u).shape == found.slope(u).shape == u.shape
        assert found.value(u) == pytest.approx(value(u), abs=16 * EPS)
        assert found.slope(u) == pytest.approx(slope(u), abs=16 * EPS)


@pytest.mark.parametrize(
    ("potential", "values", "slope"),
    [
        (DOUBLE_WELL, {}, lambda u: u**3 - u),
        ("c*u**2/2 + u", {"c": 3.0}, lambda u: 3.0 * u + 1.0),
        ("1 - cos(u)", {}, np.sin),
        ("exp(-u)", {}, lambda u: -np.exp(-u)),
        ("b", {"b": 4.0}, np.zeros_like),
    ],
)
@pytest.mark.parametrize(
    ("dimension", "exact", "u"),
    [
        (1, "exp(-t)*sin(pi*x)", lambda x, t: np.exp(-t) * np.sin(np.pi * x[0])),
        (2, "cos(t)*sin(pi*x)*y*(1-y)", lambda x, t: np.cos(t) * np.sin(np.pi * x[0]) * x[1] * (1 - x[1])),
    ],
    ids=["1d", "2d"],
)
def test_the_slope_of_the_potential_at_the_exact_solution_joins_the_source(
    dimension, exact, u, potential, values, slope
):
    nodes, times = samples(dimension)
    flow = FormulaProblem(dimension=dimension, exact=exact, diffusion="1 + x/2", potential=potential)(**values)
    heat = FormulaProblem(dimension=dimension, exact=exact, diffusion="1 + x/2")()
    found = flow.source(nodes, times) - heat.source(nodes, times)
    wanted = slope(u(nodes.T[:, None, :], times[:, None]))
    scale = 1.0 + np.abs(heat.source(nodes, times)).max()
    assert found == pytest.approx(wanted * np.ones_like(found), abs=16 * EPS * scale)


def test_a_gradient_flow_is_refused_by_the_midpoint_rule_in_one_line():
    problem = with_potential(DOUBLE_WELL, final_time=0.1)()
    dictionary = pde.Dictionary("transnet", N=6, gamma=2)
    with pytest.raises(ParameterError) as caught:
        pde.solve(problem, dictionary, seed=0, quadrature=12, dt=0.05)
    assert str(caught.value) == (
        "`time_integrator` must be stabilized_semi_implicit or imex_bdf_2 for a problem with a potential, "
        "got 'implicit_midpoint'"
    )
    ds = pde.solve(
        problem, dictionary, seed=0, quadrature=12, dt=0.05, time_integrator="stabilized_semi_implicit",
        stabilization=2.0,
    )  # fmt: skip
    assert (np.diff(ds.free_energy_history.values) < 0.0).all()
    assert float(ds.energy_increment) == np.diff(ds.free_energy_history.values).max()
